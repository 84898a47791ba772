//! Random numbers that are unlikely to repeat: SplitMix64 (Steele, Lea, Flood 2014).
//!
//! They are used for names, not for secrets.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    process,
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
        // The standard library keys the hash maps of a thread from the system's entropy. Forked
        // children have the keys of their parent, so each hashes the number of its process.
        let drawn = || {
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u32(process::id());
            hasher.finish()
        };
        Self { state: seed.unwrap_or_else(drawn) }
    }

    /// Another sequence for each `salt`.
    #[must_use]
    pub fn salted(self, salt: u64) -> Self {
        Self { state: self.state ^ Self::new(Some(salt)).next_u64() }
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
