//! From an id to the bytes of its key; the order of keys is the order of ids.
//!
//! `| id * 2^20 + splitmix64(id) mod 2^20, u64 be | zeros | splitmix64(id ^ 0x5157), u64 be |`
//!
//! Eight bytes are the first part alone, sixteen have no zeros. So keys are sparse, their tails do
//! not compress, and a number says where a key stands.

/// The shortest key, in bytes.
pub const KEY_BYTES_MIN: u32 = 8;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: u32 = 1024;

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

/// Whether keys can have this length: eight bytes, or 16 to [`KEY_BYTES_MAX`].
#[must_use]
pub fn is_key_length(bytes: u32) -> bool {
    bytes == KEY_BYTES_MIN || (2 * KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes)
}

/// Makes keys of one length in one place.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    bytes: Vec<u8>,
    missing: Vec<u8>,
}

impl KeyMaker {
    /// # Panics
    /// If keys cannot have this length.
    #[must_use]
    pub fn new(key_bytes: u32) -> Self {
        assert!(is_key_length(key_bytes), "keys of this length are refused with the suite");
        let length = key_bytes as usize;
        Self { bytes: vec![0; length], missing: vec![0; length + 1] }
    }

    /// The key of an id.
    #[inline]
    pub fn key(&mut self, id: u32) -> &[u8] {
        write(&mut self.bytes, id);
        &self.bytes
    }

    /// A key that no id has, between that of `id` and the next.
    #[inline]
    pub fn missing(&mut self, id: u32) -> &[u8] {
        let length = self.bytes.len();
        write(&mut self.missing[..length], id);
        &self.missing
    }
}

#[inline]
fn write(key: &mut [u8], id: u32) {
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
