//! Numbers that tests draw.

/// Draws numbers; the seed is printed, so that a failure can be replayed.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}
