//! Turns raw bytes into a shorter payload and back.
//!
//! It does not store which codec was used or how long the raw bytes were: the frame does.

use crate::options::{Compression, ZSTD_LEVEL};
use crate::zstd::{self, Dictionary};
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
    /// The payload is one Zstandard frame that states its length and has no checksum.
    Zstd = 2,
    /// The payload is one Snappy block, which begins with its length.
    Snappy = 3,
}

/// All codecs.
const CODECS: [Codec; 4] = [Codec::Raw, Codec::Lz4, Codec::Zstd, Codec::Snappy];

/// Longest input that is compressed, in bytes. Compressing takes as much memory again, because the
/// output has to be in memory as a whole. A longer value is written from where it lies.
pub const COMPRESSED_RAW_BYTES_MAX: usize = 32 << 20;

/// Most raw bytes that one byte of a compressed payload stands for. LZ4 and Snappy reach no more;
/// of Zstandard, which does, no such payload is written. So a few bytes on disk never stand for
/// many in memory.
const RATIO_MAX: u64 = 255;

/// Raw bytes beyond the ratio that a short payload can hold.
const SLACK_BYTES: u64 = 64;

/// Working memory of the encoder of LZ4, in bytes: 4,096 numbers of 4 bytes, or for short inputs of
/// 2, and the first table is kept until the second is made.
const LZ4_TABLE_BYTES: usize = 32 << 10;

/// Working memory of the encoder of Snappy, in bytes: 16,384 numbers of 2 bytes, and as many on the
/// stack for short inputs.
const SNAPPY_TABLE_BYTES: usize = 36 << 10;

impl Codec {
    /// The codec with this number.
    ///
    /// # Errors
    /// `Unsupported`, if this build knows none: a newer version may.
    pub fn from_u8(number: u8) -> Result<Self> {
        CODECS
            .into_iter()
            .find(|&codec| codec as u8 == number)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("unknown codec {number}")))
    }

    /// Most raw bytes that `payload_bytes` can decode to.
    #[must_use]
    pub fn raw_bytes_max(self, payload_bytes: u64) -> u64 {
        if self == Self::Raw {
            return payload_bytes;
        }
        let most = payload_bytes.saturating_mul(RATIO_MAX);
        most.saturating_add(SLACK_BYTES).min(COMPRESSED_RAW_BYTES_MAX as u64)
    }

    /// Decodes `payload` over the contents of `out`. A payload of Zstandard may need the
    /// `dictionary` of its table.
    ///
    /// Allocates `raw_bytes`, and only if `payload` can hold so much.
    ///
    /// # Errors
    /// Corruption, if the payload is damaged or does not decode to exactly `raw_bytes`; `Io`, if
    /// there is no memory for them.
    pub fn decode(
        self,
        payload: &[u8],
        dictionary: Option<&Dictionary>,
        raw_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if raw_bytes as u64 > self.raw_bytes_max(payload.len() as u64) {
            return Err(bad_length(raw_bytes, payload.len()));
        }
        let decoded = match self {
            Self::Raw => {
                if raw_bytes != payload.len() {
                    return Err(bad_length(raw_bytes, payload.len()));
                }
                resize(out, raw_bytes)?;
                out.copy_from_slice(payload);
                raw_bytes
            }
            Self::Lz4 => {
                resize(out, raw_bytes)?;
                decompress_into(payload, out)
                    .map_err(|error| Error::corruption("bad lz4 payload").with_source(error))?
            }
            Self::Zstd => {
                resize(out, raw_bytes)?;
                zstd::decode(payload, dictionary, out)?;
                raw_bytes
            }
            Self::Snappy => {
                resize(out, raw_bytes)?;
                // Nothing is written beyond `out`: a longer length is refused first.
                snap::raw::Decoder::new()
                    .decompress(payload, out)
                    .map_err(|error| Error::corruption("bad snappy payload").with_source(error))?
            }
        };
        if decoded != raw_bytes {
            return Err(bad_length(raw_bytes, decoded));
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
    encoder: Encoder,
    output: Vec<u8>,
}

/// The encoder of a codec, and its working memory.
enum Encoder {
    None,
    Lz4(CompressTable),
    /// And that of LZ4, for what Zstandard would compress by more than [`RATIO_MAX`].
    Zstd(zstd::Encoder, CompressTable),
    Snappy(Box<snap::raw::Encoder>),
}

impl Compression {
    /// Bytes of memory that a new [`Compressor`] without a dictionary takes for an input of
    /// `raw_bytes`, at most: its encoder and the output.
    #[must_use]
    pub fn working_bytes(self, raw_bytes: usize) -> usize {
        if raw_bytes > COMPRESSED_RAW_BYTES_MAX {
            return 0;
        }
        match self {
            Self::None => 0,
            Self::Lz4 => LZ4_TABLE_BYTES + get_maximum_output_size(raw_bytes),
            Self::Snappy => SNAPPY_TABLE_BYTES + snap::raw::max_compress_len(raw_bytes),
            // What it compresses too well goes through LZ4, whose output may be the longer one.
            Self::Zstd(level) => {
                let lz4 = Self::Lz4.working_bytes(raw_bytes);
                zstd::Encoder::working_bytes(level, raw_bytes) + lz4
            }
        }
    }

    /// The same with the highest level up to its own with which an input of `raw_bytes` takes at
    /// most `bytes_max`, or the lowest level.
    #[must_use]
    pub fn within(self, raw_bytes: usize, bytes_max: usize) -> Self {
        let fits = |it: &Self| it.working_bytes(raw_bytes) <= bytes_max;
        let Self::Zstd(level) = self else { return self };
        if fits(&self) {
            return self;
        }
        let lowest = *ZSTD_LEVEL.start();
        // 0 is no level of its own.
        let mut lower = (lowest..level).rev().filter(|&level| level != 0).map(Self::Zstd);
        lower.find(fits).unwrap_or(Self::Zstd(lowest))
    }
}

impl Compressor {
    /// A compressor that does what `compression` says, without a dictionary.
    ///
    /// # Panics
    /// If this build cannot write it; see [`Compression::check_writable`].
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self::with_dictionary(compression, None)
    }

    /// The same, for Zstandard with the bytes of a dictionary.
    ///
    /// # Panics
    /// As [`Compressor::new`].
    #[must_use]
    pub fn with_dictionary(compression: Compression, dictionary: Option<&[u8]>) -> Self {
        let encoder = match compression {
            Compression::None => Encoder::None,
            Compression::Lz4 => Encoder::Lz4(CompressTable::small()),
            Compression::Snappy => Encoder::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Zstd(level) => {
                Encoder::Zstd(zstd::Encoder::new(level, dictionary), CompressTable::small())
            }
        };
        Self { encoder, output: Vec::new() }
    }

    /// Bytes of memory that the output and the encoder of Zstandard take now. The others are small.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let encoder = match &self.encoder {
            Encoder::Zstd(encoder, _) => encoder.memory_bytes(),
            Encoder::None | Encoder::Lz4(_) | Encoder::Snappy(_) => 0,
        };
        encoder + self.output.capacity()
    }

    /// The payload for `raw` and how it is encoded: compressed where that saves an eighth.
    pub fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        if raw.len() > COMPRESSED_RAW_BYTES_MAX {
            return (Codec::Raw, raw);
        }
        let output = &mut self.output;
        let (codec, length) = match &mut self.encoder {
            Encoder::None => return (Codec::Raw, raw),
            Encoder::Lz4(table) => (Codec::Lz4, lz4(table, raw, output)),
            Encoder::Zstd(encoder, table) => match encoder.encode(raw, output) {
                Some(length) if is_within_ratio(raw.len(), length) => (Codec::Zstd, Some(length)),
                _ => (Codec::Lz4, lz4(table, raw, output)),
            },
            Encoder::Snappy(encoder) => (Codec::Snappy, snappy(encoder, raw, output)),
        };
        match length {
            Some(length) if length <= raw.len() - raw.len() / 8 => (codec, &output[..length]),
            // Too long, or (which the output size rules out) not enough room: the raw bytes do.
            Some(_) | None => (Codec::Raw, raw),
        }
    }
}

fn is_within_ratio(raw_bytes: usize, payload_bytes: usize) -> bool {
    raw_bytes as u64 <= Codec::Zstd.raw_bytes_max(payload_bytes as u64)
}

fn lz4(table: &mut CompressTable, raw: &[u8], output: &mut Vec<u8>) -> Option<usize> {
    let most = get_maximum_output_size(raw.len());
    if output.len() < most {
        output.resize(most, 0);
    }
    // An input of 64 KiB replaces the small working memory by a large one. Go back to the small
    // one, which is faster to clear, when the inputs are short again.
    if raw.len() < usize::from(u16::MAX) && matches!(table, CompressTable::Large(_)) {
        *table = CompressTable::small();
    }
    compress_into_with_table(raw, output, table).ok()
}

fn snappy(encoder: &mut snap::raw::Encoder, raw: &[u8], output: &mut Vec<u8>) -> Option<usize> {
    let most = snap::raw::max_compress_len(raw.len());
    if output.len() < most {
        output.resize(most, 0);
    }
    encoder.compress(raw, output).ok()
}

#[cfg(test)]
mod tests;
