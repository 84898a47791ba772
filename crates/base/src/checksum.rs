//! The two specified functions whose results lie on disk: CRC-32C for damage, XXH3 for filters.
//!
//! Neither protects against an attacker that constructs a collision.

use crate::{error::Error, hint::crc32c_remainder};
use crc_fast::{CrcAlgorithm, Digest};

/// Up to this length one instruction after the other is faster than folding, in bytes.
const SHORT_BYTES_MAX: usize = 256;

/// CRC-32C (Castagnoli) of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of some bytes followed by `bytes`, where `previous` is the CRC-32C of the former.
///
/// The CRC-32C of nothing is 0, so a checksum over parts starts with `previous` 0.
#[inline]
#[must_use]
pub fn crc32c_append(previous: u32, bytes: &[u8]) -> u32 {
    if bytes.len() <= SHORT_BYTES_MAX
        && let Some(remainder) = crc32c_remainder(!previous, bytes)
    {
        return !remainder;
    }
    crc32c_append_long(previous, bytes)
}

fn crc32c_append_long(previous: u32, bytes: &[u8]) -> u32 {
    let state = u64::from(!previous);
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
    digest.update(bytes);
    digest.finalize() as u32
}

/// The error of bytes whose CRC-32C is not the one that is stored. `message` names the bytes.
#[cold]
#[must_use]
pub fn bad_checksum(message: &'static str, expected: u32, found: u32) -> Error {
    Error::corruption(message)
        .with_mismatch(format_args!("{expected:08x}"), format_args!("{found:08x}"))
}

/// XXH3, 64 bits, seed 0.
#[inline]
#[must_use]
pub fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests;
