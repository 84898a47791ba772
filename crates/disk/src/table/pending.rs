//! Blocks that wait for the dictionary of their table to be trained from them.
//!
//! It writes nothing.

use crate::table::format::block_stats::BlockStats;
use crate::zstd::{Dictionary, train};
use siltdb_base::{id::SequenceNumber, limits::BLOCK_BYTES, slice::Slice};

/// Bytes of samples for each byte of the dictionary, about: more would improve it hardly.
const SAMPLES_PER_BYTE: usize = 100;

/// Longest block that is a sample, in bytes; a longer one is a single long value.
pub(in crate::table) const SAMPLE_BYTES_MAX: usize = 2 * *BLOCK_BYTES.end();

/// Bytes of memory that training takes beside the samples, about: what the trainer counts.
const TRAINER_BYTES: usize = 10 << 20;

/// A block that is not written yet.
pub(in crate::table) struct PendingBlock {
    raw_bytes: usize,
    pub first_key: Slice,
    pub last: (Slice, SequenceNumber),
    pub stats: BlockStats,
}

/// The first blocks of a table.
pub(in crate::table) struct PendingBlocks {
    dictionary_bytes: usize,
    /// Their raw bytes, one block after the other.
    raw: Vec<u8>,
    blocks: Vec<PendingBlock>,
}

impl PendingBlocks {
    /// None, for a dictionary of at most `dictionary_bytes`.
    pub(in crate::table) fn new(dictionary_bytes: usize) -> Self {
        Self { dictionary_bytes, raw: Vec::new(), blocks: Vec::new() }
    }

    /// Adds the next block of `raw` bytes: its first key, its last entry and its stats.
    pub(in crate::table) fn add(
        &mut self,
        raw: &[u8],
        first_key: &[u8],
        last: (&[u8], SequenceNumber),
        stats: &BlockStats,
    ) {
        self.raw.extend_from_slice(raw);
        self.blocks.push(PendingBlock {
            raw_bytes: raw.len(),
            first_key: Slice::copy_from(first_key),
            last: (Slice::copy_from(last.0), last.1),
            stats: *stats,
        });
    }

    /// Whether they are enough for the dictionary.
    pub(in crate::table) fn is_enough(&self) -> bool {
        self.raw.len() >= SAMPLES_PER_BYTE * self.dictionary_bytes
    }

    pub(in crate::table) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes of memory that they take, about, and that training is going to take.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        self.raw.capacity() + self.blocks.capacity() * size_of::<PendingBlock>() + TRAINER_BYTES
    }

    /// A dictionary for them, if one can be made.
    pub(in crate::table) fn train(&self) -> Option<Vec<u8>> {
        let lengths: Vec<usize> = self.blocks.iter().map(|block| block.raw_bytes).collect();
        let dictionary = train(&self.raw, &lengths, self.dictionary_bytes)?;
        // What cannot be read is not written.
        Dictionary::read(&dictionary).ok().map(|_| dictionary)
    }

    /// The blocks and their raw bytes, in order.
    pub(in crate::table) fn iter(&self) -> impl Iterator<Item = (&PendingBlock, &[u8])> {
        let mut rest = &self.raw[..];
        self.blocks.iter().map(move |block| {
            let (raw, after) = rest.split_at(block.raw_bytes);
            rest = after;
            (block, raw)
        })
    }
}
