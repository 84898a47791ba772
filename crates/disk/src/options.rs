//! What can be chosen about the bytes on disk.
//!
//! Options say how new bytes are written; what is on disk describes itself and is read whatever the
//! options are.

use crate::filter_keys::{FilterKeys, PrefixExtractor};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    limits::BLOCK_BYTES,
};
use std::{fmt, ops::RangeInclusive};

/// How blocks are compressed. A block that does not shrink by an eighth is stored uncompressed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: the fastest to read.
    #[default]
    Lz4,
    /// Snappy: as LZ4, for a little more time.
    Snappy,
    /// Zstandard at a level, in [`ZSTD_LEVEL`]: the smallest. Every build reads it; writing it
    /// takes the cargo feature `zstd`, which compiles C.
    Zstd(i8),
}

/// Levels of Zstandard that are permitted. Higher ones are smaller and slower to write; all are
/// read at the same speed. 0 stands for the level that the library prefers.
pub const ZSTD_LEVEL: RangeInclusive<i8> = -7..=22;

/// Sizes of a dictionary that are permitted, in bytes, apart from 0 for none.
pub const DICTIONARY_BYTES: RangeInclusive<u32> = 1 << 10..=128 << 10;

impl Compression {
    /// Zstandard at the level that suits most data.
    pub const ZSTD: Self = Self::Zstd(3);

    /// The number and the level that stand for it on disk; a codec without levels has level 0.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 2] {
        match self {
            Self::None => [0, 0],
            Self::Lz4 => [1, 0],
            Self::Zstd(level) => [2, level.cast_unsigned()],
            Self::Snappy => [3, 0],
        }
    }

    /// What a number and a level on disk stand for.
    ///
    /// # Errors
    /// `Unsupported`, if this build does not know the number: a newer version may. Corruption, for
    /// a level out of range, or of a codec that has none.
    pub fn from_bytes([number, level]: [u8; 2]) -> Result<Self> {
        let found = match number {
            0 => Self::None,
            1 => Self::Lz4,
            2 => Self::Zstd(level.cast_signed()),
            3 => Self::Snappy,
            _ => {
                return Err(Error::new(ErrorKind::Unsupported, "unknown compression")
                    .with_mismatch("0..=3", number)
                    .with_hint("written by a later version"));
            }
        };
        if found.to_bytes() != [number, level] || found.check().is_err() {
            return Err(Error::corruption("wrong level of a compression")
                .with_mismatch(format_args!("{ZSTD_LEVEL:?} for zstd, else 0"), level));
        }
        Ok(found)
    }

    /// The name of its codec, without a level.
    #[must_use]
    pub fn codec_name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zstd(_) => "zstd",
        }
    }

    /// Checks that the level is in its range.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Zstd(level) if !ZSTD_LEVEL.contains(&level) => {
                Err(Error::invalid("zstd level out of range")
                    .with_mismatch(format_args!("{ZSTD_LEVEL:?}"), level))
            }
            _ => Ok(()),
        }
    }

    /// Checks that this build can write it. It reads all of them.
    ///
    /// # Errors
    /// `Unsupported`, naming the cargo feature that is missing.
    pub fn check_writable(self) -> Result<()> {
        match self {
            Self::Zstd(_) if !cfg!(feature = "zstd") => {
                Err(Error::new(ErrorKind::Unsupported, "this build cannot write zstd").with_hint(
                    "build siltdb with the cargo feature `zstd`, or choose lz4 or snappy; \
                     reading, also with `read_only`, works",
                ))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.codec_name())?;
        match self {
            Self::Zstd(level) => write!(f, ":{level}"),
            _ => Ok(()),
        }
    }
}

/// How a table leads from a key to a data block.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// By one list of the first and last keys of all blocks, which is in memory while the table is
    /// open.
    #[default]
    Block,
    /// By a B+tree of nodes, of which the root alone is in memory while the table is open.
    BTree,
}

impl TableKind {
    /// The number that stands for it on disk.
    #[must_use]
    pub fn to_number(self) -> u64 {
        match self {
            Self::Block => 1,
            Self::BTree => 2,
        }
    }

    /// What a number on disk stands for; `None` if this build does not know it.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        [Self::Block, Self::BTree].into_iter().find(|kind| kind.to_number() == number)
    }
}

/// Most filter bits per key; more would not lower the error rate any further.
pub const FILTER_BITS_PER_KEY_MAX: u32 = 32;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Bytes of a data block before compression, in [`BLOCK_BYTES`]. An entry that is larger has a
    /// block of its own.
    pub block_bytes: usize,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Bits of the Bloom filter per distinct key, at most [`FILTER_BITS_PER_KEY_MAX`]; 0: no
    /// filter. 10 bits let about 1 % of absent keys through.
    pub filter_bits_per_key: u32,
    /// Size of the dictionary that each table of [`Compression::Zstd`] is compressed with, in
    /// bytes, in [`DICTIONARY_BYTES`]; 0: none. Training takes a hundred times as much memory.
    pub dictionary_bytes: u32,
    /// Which prefixes of keys the filter holds.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// Whether the filter holds whole keys. Without an extractor it does in any case.
    pub whole_key_filter: bool,
    /// How the blocks are found.
    pub kind: TableKind,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            compression: Compression::default(),
            filter_bits_per_key: 10,
            dictionary_bytes: 0,
            prefix_extractor: None,
            whole_key_filter: true,
            kind: TableKind::default(),
        }
    }
}

impl TableOptions {
    /// What of its keys the filter of a table holds.
    #[must_use]
    pub fn filter_keys(&self) -> FilterKeys {
        match self.prefix_extractor {
            Some(extractor) if self.filter_bits_per_key > 0 => match self.whole_key_filter {
                true => FilterKeys::WholeAndPrefixes(extractor),
                false => FilterKeys::Prefixes(extractor),
            },
            _ => FilterKeys::Whole,
        }
    }

    /// Checks that every option is in its range.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option.
    pub fn check(&self) -> Result<()> {
        if !BLOCK_BYTES.contains(&self.block_bytes) {
            return Err(Error::invalid("block_bytes out of range").with_mismatch(
                format_args!("{}..={}", BLOCK_BYTES.start(), BLOCK_BYTES.end()),
                self.block_bytes,
            ));
        }
        if self.filter_bits_per_key > FILTER_BITS_PER_KEY_MAX {
            return Err(Error::invalid("filter_bits_per_key out of range").with_mismatch(
                format_args!("0..={FILTER_BITS_PER_KEY_MAX}"),
                self.filter_bits_per_key,
            ));
        }
        if self.dictionary_bytes != 0 && !DICTIONARY_BYTES.contains(&self.dictionary_bytes) {
            return Err(Error::invalid("dictionary_bytes out of range")
                .with_mismatch(format_args!("0, or {DICTIONARY_BYTES:?}"), self.dictionary_bytes));
        }
        self.prefix_extractor.map_or(Ok(()), |extractor| extractor.check())?;
        self.compression.check()
    }

    /// These options, or if this build cannot write their codec, with the default one. For copies
    /// whose codec is no promise.
    #[must_use]
    pub fn or_writable(self) -> Self {
        match self.compression.check_writable() {
            Ok(()) => self,
            Err(_) => Self { compression: Compression::default(), ..self },
        }
    }

    /// Bytes of the dictionary of a table that is written so; 0: it has none.
    #[must_use]
    pub fn used_dictionary_bytes(&self) -> usize {
        match self.compression {
            Compression::Zstd(_) => self.dictionary_bytes as usize,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
