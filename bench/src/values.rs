//! From an id and a version to the bytes of a value, which say what they are and compress as asked.
//!
//! `| splitmix64(id ^ version << 40), u64 le | from a pool | its bitwise inverse, u64 le |`
//!
//! Cheap on the clock: one copy and two stores. Does not know who holds which version.

use crate::keys::splitmix64;

/// The shortest value, in bytes.
pub const VALUE_BYTES_MIN: u32 = 16;
/// The longest value, in bytes: less than the pool.
pub const VALUE_BYTES_MAX: u32 = POOL_BYTES as u32 - 1;

const POOL_BYTES: usize = 1 << 20;
/// In each stretch of the pool the same share is a repeated byte.
const STRETCH_BYTES: usize = 64;

/// What is added for a key that was not found, so that a miss is seen in the sum, too.
pub const ABSENT: u64 = 0x9e37_79b9_7f4a_7c15;
/// What is added for a value too short to say what it is.
const MALFORMED: u64 = 0x5bf0_3635;

/// Makes values of one length and compressibility in one place.
#[derive(Clone, Debug)]
pub struct ValueMaker {
    pool: std::sync::Arc<[u8]>,
    bytes: Vec<u8>,
}

impl ValueMaker {
    /// Values of `value_bytes` of which `compressible_percent` compress away.
    ///
    /// # Panics
    /// If values cannot have this length.
    #[must_use]
    pub fn new(value_bytes: u32, compressible_percent: u32) -> Self {
        assert!(
            (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value_bytes),
            "values of this length are refused with the suite"
        );
        Self { pool: pool(compressible_percent), bytes: vec![0; value_bytes as usize] }
    }

    /// The value of an id in a version.
    #[inline]
    pub fn value(&mut self, id: u32, version: u32) -> &[u8] {
        let length = self.bytes.len();
        let mix = (u64::from(id) * 31).wrapping_add(u64::from(version));
        // As a share of the choices: a remainder would cost more than the copy.
        let choices = (POOL_BYTES - length) as u64;
        let offset = (((splitmix64(mix) >> 32) * choices) >> 32) as usize;
        self.bytes.copy_from_slice(&self.pool[offset..offset + length]);
        let mark = mark(id, version);
        self.bytes[..8].copy_from_slice(&mark.to_le_bytes());
        self.bytes[length - 8..].copy_from_slice(&(!mark).to_le_bytes());
        &self.bytes
    }
}

#[inline]
fn mark(id: u32, version: u32) -> u64 {
    splitmix64(u64::from(id) ^ (u64::from(version) << 40))
}

/// What a value read contributes to a sum: its first and its last eight bytes.
#[inline]
#[must_use]
pub fn fold(value: &[u8]) -> u64 {
    let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) else {
        return MALFORMED;
    };
    u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(1)
}

/// What the value of an id in a version must contribute.
#[must_use]
pub fn fold_of(id: u32, version: u32) -> u64 {
    let mark = mark(id, version);
    mark ^ (!mark).rotate_left(1)
}

/// Pseudo-random bytes of which a share in each stretch is one repeated byte.
fn pool(compressible_percent: u32) -> std::sync::Arc<[u8]> {
    let mut pool = Vec::with_capacity(POOL_BYTES);
    for word in 0..POOL_BYTES as u64 / 8 {
        pool.extend(splitmix64(word ^ (u64::from(compressible_percent) << 32)).to_le_bytes());
    }
    let repeated = STRETCH_BYTES * compressible_percent.min(100) as usize / 100;
    for stretch in pool.chunks_mut(STRETCH_BYTES) {
        let byte = stretch[0];
        stretch[..repeated].fill(byte);
    }
    pool.into()
}

#[cfg(test)]
mod tests;
