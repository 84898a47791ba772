//! All random choices of the simulator: numbers derived from a seed.
//!
//! The generator is splitmix64 (Steele, Lea, Flood 2014). It is not fit for secrets.

use std::ops::RangeInclusive;

/// Draws numbers from a seed.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The numbers that `seed` yields for part number `part`.
    #[must_use]
    pub fn new(seed: u64, part: u64) -> Self {
        let mut first = Self(part);
        let mixed = first.next();
        let mut second = Self(seed ^ mixed);
        Self(second.next())
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends and never fails")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A position in something of length `len`; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in `range`, uniformly distributed.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True with probability `part`/`whole`.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// One of `choices`, which must not be empty.
    ///
    /// # Panics
    /// If there is no choice.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A separate generator, whose draws do not shift those of this one.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
