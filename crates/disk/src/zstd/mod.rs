//! Zstandard (RFC 8878): whole frames are decoded by `ruzstd`, which is Rust, and made, behind the
//! cargo feature `zstd`, by libzstd, which is C.
//!
//! It does not stream. A frame has to state its length, and is decoded to memory of that length.
//! Checksums are those of the frames of the table around it.

mod decoder;
#[cfg(not(feature = "zstd"))]
mod absent_encoder;
#[cfg(feature = "zstd")]
mod encoder;

#[cfg(not(feature = "zstd"))]
pub use absent_encoder::{AbsentEncoder as Encoder, train};
pub use decoder::{Dictionary, decode};
#[cfg(feature = "zstd")]
pub use encoder::{Encoder, train};

#[cfg(test)]
mod tests;
