//! Zstandard (RFC 8878): whole frames are decoded by `ruzstd`, which is Rust, and made, behind the
//! cargo feature `zstd`, by libzstd, which is C.
//!
//! It does not stream. A frame has to state its length, and is decoded to memory of that length.
//! Checksums are those of the frames of the table around it.

mod decoder;
#[cfg(not(feature = "zstd"))]
mod absent_encoder;
#[cfg(feature = "zstd")]
mod sizes;
#[cfg(feature = "zstd")]
mod encoder;
#[cfg(feature = "zstd")]
mod trainer;

#[cfg(not(feature = "zstd"))]
pub use absent_encoder::{AbsentEncoder as Encoder, train};
pub use decoder::{Dictionary, decode};
#[cfg(feature = "zstd")]
pub use encoder::Encoder;
#[cfg(feature = "zstd")]
pub use trainer::train;

/// Bytes of memory that training takes beside the samples, about: 1.3 MiB of counters for what the
/// samples share, and the encoders that try the dictionaries.
pub const TRAINER_BYTES: usize = 6 << 20;

#[cfg(test)]
mod tests;
