//! Sequences of indexes: the order in which the keys of a thread are visited.
//!
//! Everything is drawn before the clock starts. This file does not know the operations on the keys.

use crate::keys::splitmix64;
use serde::{Deserialize, Serialize};

/// An order of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Ascending.
    Sequential,
    /// Descending.
    Reverse,
    /// A shuffle that visits each key once before any twice.
    #[default]
    Random,
    /// Drawn independently, with repetitions.
    Uniform,
    /// YCSB's: few keys, scattered over the range, get most of the visits.
    Zipfian,
    /// The same without scattering: the first keys get most of the visits.
    ZipfianFirst,
    /// Ascending, like keys that begin with the time.
    Timestamp,
}

/// The skew of YCSB.
const THETA: f64 = 0.99;

/// Draws `count` indexes below `size` in an order; `seed` selects the sequence.
#[must_use]
pub fn draw(order: Order, size: u32, count: u64, seed: u64) -> Vec<u32> {
    if size == 0 {
        return Vec::new();
    }
    let wide = u64::from(size);
    match order {
        Order::Sequential | Order::Timestamp => (0..count).map(|i| (i % wide) as u32).collect(),
        Order::Reverse => (0..count).map(|i| (wide - 1 - i % wide) as u32).collect(),
        Order::Random => (0..count)
            .map(|i| Shuffle::new(size, seed.wrapping_add(i / wide)).at((i % wide) as u32))
            .collect(),
        Order::Uniform => {
            (0..count).map(|i| (splitmix64(splitmix64(seed) ^ i) % wide) as u32).collect()
        }
        Order::Zipfian => {
            let zipf = Zipf::new(size);
            let scrambled = |i| (splitmix64(u64::from(zipf.rank(uniform(seed, i)))) % wide) as u32;
            (0..count).map(scrambled).collect()
        }
        Order::ZipfianFirst => {
            let zipf = Zipf::new(size);
            (0..count).map(|i| zipf.rank(uniform(seed, i))).collect()
        }
    }
}

/// Number `i` of a stream in [0, 1).
#[must_use]
pub fn uniform(seed: u64, i: u64) -> f64 {
    (splitmix64(splitmix64(seed) ^ i) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A bijection of [0, size): four Feistel rounds over the next even number of bits. A result
/// outside walks its cycle until it is inside.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    size: u32,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    /// A shuffle of `size` numbers.
    #[must_use]
    pub fn new(size: u32, seed: u64) -> Self {
        let bits = (u32::BITS - size.saturating_sub(1).leading_zeros()).max(2);
        Self { size, half_bits: bits.div_ceil(2), seed }
    }

    /// The image of a number.
    #[must_use]
    pub fn at(&self, index: u32) -> u32 {
        let mut number = u64::from(index);
        loop {
            number = self.rounds(number);
            if number < u64::from(self.size) {
                return number as u32;
            }
        }
    }

    fn rounds(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..4_u64 {
            let mixed = splitmix64(right ^ (round << 40) ^ self.seed.rotate_left(17)) & mask;
            (left, right) = (right, left ^ mixed);
        }
        (left << self.half_bits) | right
    }
}

/// YCSB's generator of ranks (Gray et al. 1994), theta 0.99; rank 0 is drawn most.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    size: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Draws ranks below `size`. Making it costs a pass over all of them.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let zeta = |n: u32| (1..=n).map(|i| f64::from(i).powf(-THETA)).sum::<f64>();
        let (whole, two) = (zeta(size), zeta(size.min(2)));
        let eta = (1.0 - (2.0 / f64::from(size)).powf(1.0 - THETA)) / (1.0 - two / whole);
        Self { size: f64::from(size), zeta: whole, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// The rank that belongs to a number in [0, 1).
    #[must_use]
    pub fn rank(&self, u: f64) -> u32 {
        let uz = u * self.zeta;
        if uz < 1.0 || self.size < 2.0 {
            return 0;
        }
        if uz < 1.0 + 0.5_f64.powf(THETA) || self.size < 3.0 {
            return 1;
        }
        let rank = self.size * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        rank.min(self.size - 1.0) as u32
    }
}

#[cfg(test)]
mod tests;
