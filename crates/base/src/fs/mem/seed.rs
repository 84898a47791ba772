//! A small seeded generator, so that a crash is the same each time it is asked for.
//!
//! It is splitmix64 (Steele, Lea, Flood 2014): good enough to choose, no good for secrets.

/// Draws numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Seed(u64);

impl Seed {
    /// A generator for the part `part` of what `seed` decides.
    pub(super) fn new(seed: u64, part: u64) -> Self {
        let mut first = Self(part);
        let mixed = first.next();
        Self(seed ^ mixed)
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// True `part` times out of `whole`.
    pub(super) fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }
}

/// How much of a begun write of `len` bytes a kill leaves: nothing, all, or a part.
pub(super) fn cut(number: u64, len: usize) -> usize {
    let mut seed = Seed::new(number, u64::MAX);
    match seed.below(4) {
        0 => 0,
        1 => len,
        _ => seed.below(len as u64 + 1) as usize,
    }
}
