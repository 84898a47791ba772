//! What can be chosen about the bytes on disk.
//!
//! Options say how new bytes are written; what is on disk describes itself and is read whatever the
//! options are.

use crate::filter_keys::{FilterKeys, PrefixExtractor};
use siltdb_base::{
    error::{Error, Result},
    limits::BLOCK_BYTES,
};

/// How blocks are compressed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4, where it saves at least an eighth.
    #[default]
    Lz4,
}

impl Compression {
    /// The number that stands for it on disk.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
        }
    }

    /// What a number on disk stands for; `None` if this build does not know it.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::None, Self::Lz4].into_iter().find(|compression| compression.to_byte() == byte)
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
        self.prefix_extractor.map_or(Ok(()), |extractor| extractor.check())
    }
}

#[cfg(test)]
mod tests;
