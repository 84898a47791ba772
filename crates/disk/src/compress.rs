//! Turns raw bytes into a shorter payload and back.
//!
//! It does not store which codec was used or how long the raw bytes were: the frame does.

use crate::options::Compression;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use siltdb_base::{
    codec::resize,
    error::{Error, ErrorKind, Result},
};

/// How a payload encodes its raw bytes. The numbers lie on disk.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// The payload is the raw bytes.
    Raw = 0,
    /// The payload is one LZ4 block without a length of its own.
    Lz4 = 1,
}

/// Longest input given to LZ4, in bytes. LZ4 takes as much memory again, because its output has to
/// be in memory as a whole. A longer value is written from where it lies.
pub const LZ4_RAW_BYTES_MAX: usize = 32 << 20;

/// Most raw bytes that one payload byte of LZ4 can stand for.
const LZ4_RATIO_MAX: u64 = 255;

/// Raw bytes beyond the ratio that a short LZ4 payload can hold.
const LZ4_SLACK_BYTES: u64 = 64;

impl Codec {
    /// The codec with this number.
    ///
    /// # Errors
    /// `Unsupported`, if this build knows none: a newer version may.
    pub fn from_u8(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Self::Raw),
            1 => Ok(Self::Lz4),
            _ => Err(Error::new(ErrorKind::Unsupported, format!("unknown codec {number}"))),
        }
    }

    /// Most raw bytes that `payload_bytes` can decode to.
    #[must_use]
    pub fn raw_bytes_max(self, payload_bytes: u64) -> u64 {
        match self {
            Self::Raw => payload_bytes,
            Self::Lz4 => {
                let most = payload_bytes.saturating_mul(LZ4_RATIO_MAX);
                most.saturating_add(LZ4_SLACK_BYTES).min(LZ4_RAW_BYTES_MAX as u64)
            }
        }
    }

    /// Decodes `payload` over the contents of `out`.
    ///
    /// Allocates `raw_bytes`, and only if `payload` can hold so much.
    ///
    /// # Errors
    /// Corruption, if the payload is damaged or does not decode to exactly `raw_bytes`; `Io`, if
    /// there is no memory for them.
    pub fn decode(self, payload: &[u8], raw_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        if raw_bytes as u64 > self.raw_bytes_max(payload.len() as u64) {
            return Err(bad_length(raw_bytes, payload.len()));
        }
        match self {
            Self::Raw => {
                if raw_bytes != payload.len() {
                    return Err(bad_length(raw_bytes, payload.len()));
                }
                resize(out, raw_bytes)?;
                out.copy_from_slice(payload);
            }
            Self::Lz4 => {
                resize(out, raw_bytes)?;
                let decoded = decompress_into(payload, out)
                    .map_err(|error| Error::corruption("bad lz4 payload").with_source(error))?;
                if decoded != raw_bytes {
                    return Err(bad_length(raw_bytes, decoded));
                }
            }
        }
        Ok(())
    }
}

#[cold]
fn bad_length(raw_bytes: usize, found: usize) -> Error {
    Error::corruption("payload and raw length disagree").with_mismatch(raw_bytes, found)
}

/// Compresses one payload after the other, keeping its working memory.
pub struct Compressor {
    compression: Compression,
    table: Option<CompressTable>,
    output: Vec<u8>,
}

impl Compressor {
    /// A compressor that does what `compression` says.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        let table = match compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressTable::small()),
        };
        Self { compression, table, output: Vec::new() }
    }

    /// What it was made for.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The payload for `raw` and how it is encoded: compressed where that saves an eighth.
    pub fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        let Some(table) = &mut self.table else { return (Codec::Raw, raw) };
        if raw.len() > LZ4_RAW_BYTES_MAX {
            return (Codec::Raw, raw);
        }
        let most = get_maximum_output_size(raw.len());
        if self.output.len() < most {
            self.output.resize(most, 0);
        }
        // An input of 64 KiB replaces the small working memory by a large one. Go back to the small
        // one, which is faster to clear, when the inputs are short again.
        if raw.len() < usize::from(u16::MAX) && matches!(table, CompressTable::Large(_)) {
            *table = CompressTable::small();
        }
        match compress_into_with_table(raw, &mut self.output, table) {
            Ok(length) if length <= raw.len() - raw.len() / 8 => {
                (Codec::Lz4, &self.output[..length])
            }
            // Too long, or (which the output size rules out) not enough room: the raw bytes do.
            Ok(_) | Err(_) => (Codec::Raw, raw),
        }
    }
}

#[cfg(test)]
mod tests;
