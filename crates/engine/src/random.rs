//! Random numbers that are unlikely to repeat: SplitMix64 (Steele, Lea, Flood 2014).
//!
//! They are used for names, not for secrets.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

/// A sequence of 64-bit numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of `seed`; with `None`, of a seed from the operating system.
    #[must_use]
    pub fn new(seed: Option<u64>) -> Self {
        // The standard library keys its hash maps from the system's entropy. The hash of nothing is
        // a number drawn from it.
        Self { state: seed.unwrap_or_else(|| RandomState::new().build_hasher().finish()) }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests;
