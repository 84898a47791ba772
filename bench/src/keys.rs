//! The bytes of the key of an id, and the position of that key among the others.
//!
//! [`KeyStyle::Sparse`]: the order of keys is the order of ids. A key of eight bytes is the first
//! part alone, one of sixteen has no zeros. Tails do not compress.
//!
//! `| id * 2^20 + splitmix64(id) mod 2^20, u64 be | zeros | splitmix64(id ^ 0x5157), u64 be |`
//!
//! The other styles are those of published benchmarks: numbers in digits, with leading zeros.

use serde::{Deserialize, Serialize};

/// The shortest key, in bytes.
pub const KEY_BYTES_MIN: u32 = 8;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: u32 = 1024;

/// The contribution of a key that is too short to a sum, which no key of the benchmark has.
const MALFORMED: u64 = 0x6b65_7973_2061_6c6c;

const TAIL_SALT: u64 = 0x5157;
const GAP_BITS: u32 = 20;

/// The only hash of the benchmark (Steele, Lea, Flood 2014).
#[must_use]
pub const fn splitmix64(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The inverse of [`splitmix64`].
#[must_use]
pub const fn unsplitmix64(output: u64) -> u64 {
    let z = output ^ (output >> 31) ^ (output >> 62);
    let z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
    let z = z ^ (z >> 27) ^ (z >> 54);
    let z = z.wrapping_mul(0x96de_1b17_3f11_9089);
    let z = z ^ (z >> 30) ^ (z >> 60);
    z.wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// The mapping of an id to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyStyle {
    /// Numbers far apart, and a tail that does not compress.
    #[default]
    Sparse,
    /// The id in decimal digits.
    Counter,
    /// The id with its bytes in reverse order, in hexadecimal digits, so that ascending ids give
    /// scattered keys.
    ReversedCounter,
}

impl KeyStyle {
    /// Whether keys can have this length: eight bytes if they are sparse, or 16 to
    /// [`KEY_BYTES_MAX`].
    #[must_use]
    pub fn fits(self, bytes: u32) -> bool {
        (bytes == KEY_BYTES_MIN && self == Self::Sparse)
            || (2 * KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes)
    }

    /// The rank of an id: of two ids, the one with the lower rank has the lower key.
    #[inline]
    #[must_use]
    pub fn rank(self, id: u32) -> u32 {
        match self {
            Self::Sparse | Self::Counter => id,
            Self::ReversedCounter => id.swap_bytes(),
        }
    }

    /// The id of a sparse key; 0 for bytes that are too short to be one.
    #[inline]
    #[must_use]
    pub fn id_of_sparse(key: &[u8]) -> u32 {
        key.first_chunk::<8>().map_or(0, |first| (u64::from_be_bytes(*first) >> GAP_BITS) as u32)
    }

    #[inline]
    fn write(self, key: &mut [u8], id: u32) {
        match self {
            Self::Sparse => write_sparse(key, id),
            Self::Counter => write_digits::<10>(key, id),
            Self::ReversedCounter => write_digits::<16>(key, id.swap_bytes()),
        }
    }
}

/// Makes keys of one style and length in one buffer.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    style: KeyStyle,
    bytes: Vec<u8>,
    missing: Vec<u8>,
}

impl KeyMaker {
    /// # Panics
    /// If keys cannot have this length.
    #[must_use]
    pub fn new(style: KeyStyle, key_bytes: u32) -> Self {
        assert!(style.fits(key_bytes), "keys of this length are refused with the suite");
        let length = key_bytes as usize;
        Self { style, bytes: vec![0; length], missing: vec![0; length + 1] }
    }

    /// The style of its keys.
    #[must_use]
    pub fn style(&self) -> KeyStyle {
        self.style
    }

    /// The key of an id.
    #[inline]
    pub fn key(&mut self, id: u32) -> &[u8] {
        self.style.write(&mut self.bytes, id);
        &self.bytes
    }

    /// A key that no id has, between that of `id` and the next.
    #[inline]
    pub fn missing(&mut self, id: u32) -> &[u8] {
        let length = self.bytes.len();
        self.style.write(&mut self.missing[..length], id);
        &self.missing
    }
}

/// The contribution of a key to a sum: its last eight bytes, which differ between ids.
#[inline]
#[must_use]
pub fn fold(key: &[u8]) -> u64 {
    key.last_chunk::<8>().map_or(MALFORMED, |last| u64::from_le_bytes(*last))
}

/// Writes digits at the end, with zeros before them.
fn write_digits<const BASE: u32>(key: &mut [u8], mut number: u32) {
    for digit in key.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number % BASE) as usize];
        number /= BASE;
    }
}

#[inline]
fn write_sparse(key: &mut [u8], id: u32) {
    let id = u64::from(id);
    let gap = splitmix64(id) & ((1 << GAP_BITS) - 1);
    key[..8].copy_from_slice(&((id << GAP_BITS) + gap).to_be_bytes());
    let length = key.len();
    if length > 8 {
        key[length - 8..].copy_from_slice(&splitmix64(id ^ TAIL_SALT).to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
