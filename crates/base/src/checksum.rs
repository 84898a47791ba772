//! The two specified functions whose results lie on disk: CRC-32C for damage, XXH3 for filters.
//!
//! Neither protects against somebody who wants a collision.

/// CRC-32C (Castagnoli) of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// XXH3, 64 bits, seed 0.
#[inline]
#[must_use]
pub fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
