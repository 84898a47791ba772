//! Blocks that wait for the dictionary of their table to be trained from them.
//!
//! It writes nothing.

use crate::table::format::block_stats::BlockStats;
use crate::{
    options::DICTIONARY_BYTES,
    zstd::{Dictionary, train},
};
use siltdb_base::{
    id::SequenceNumber, key::SortKey, limits::BLOCK_BYTES, memory::large_vec::LargeVec,
    slice::Slice,
};

/// Bytes of samples for each byte of the dictionary, about: more would improve it hardly.
const SAMPLES_PER_BYTE: usize = 100;

/// Samples take one part in this many of the memory budget, at most: several tables may be written
/// at a time.
const SAMPLES_SHARE: usize = 64;

/// Bytes of samples for each byte of the dictionary, at least: from fewer, the dictionary would be
/// a copy of them, and smaller tables would not pay for it.
const SAMPLES_PER_BYTE_MIN: usize = 10;

/// Longest block that is a sample, in bytes; a longer one is a single long value.
pub(in crate::table) const SAMPLE_BYTES_MAX: usize = 2 * *BLOCK_BYTES.end();

/// Longest block, in bytes, that the memory for the samples has room for beside them: it grows for
/// a longer one.
const USUAL_BLOCK_BYTES_MAX: usize = 64 << 10;

/// A block that is not written yet.
pub(in crate::table) struct PendingBlock {
    raw_bytes: usize,
    pub first_key: Slice,
    pub last_key: Slice,
    pub last_sequence: SequenceNumber,
    pub stats: BlockStats,
}

/// The first blocks of a table.
pub(in crate::table) struct PendingBlocks {
    dictionary_bytes: usize,
    /// Bytes of samples that are enough.
    samples_bytes: usize,
    /// Their raw bytes, one block after the other. They go back to the system at once.
    raw: LargeVec<u8>,
    blocks: Vec<PendingBlock>,
    /// Bytes of their keys.
    key_bytes: usize,
}

impl PendingBlocks {
    /// None, for a dictionary of at most `dictionary_bytes`.
    pub(in crate::table) fn new(dictionary_bytes: usize) -> Self {
        let samples_bytes = SAMPLES_PER_BYTE * dictionary_bytes;
        Self {
            dictionary_bytes,
            samples_bytes,
            raw: LargeVec::default(),
            blocks: Vec::new(),
            key_bytes: 0,
        }
    }

    /// Bounds the samples, and the dictionary, by a memory budget of `limit` bytes.
    pub(in crate::table) fn bound(&mut self, limit: usize) {
        let least = SAMPLES_PER_BYTE * *DICTIONARY_BYTES.start() as usize;
        let most = (limit / SAMPLES_SHARE).max(least);
        self.samples_bytes = self.samples_bytes.min(most);
        let dictionary_bytes = self.samples_bytes / SAMPLES_PER_BYTE_MIN;
        self.dictionary_bytes = self.dictionary_bytes.min(dictionary_bytes);
    }

    /// Adds the next block of `raw` bytes: its first key, its last entry and its stats.
    pub(in crate::table) fn add(
        &mut self,
        raw: &[u8],
        first_key: &[u8],
        last: SortKey<'_>,
        stats: &BlockStats,
    ) {
        if self.raw.is_empty() {
            // Untouched memory is not taken from the system, so there is room for all at once.
            self.raw = LargeVec::with_capacity(self.samples_bytes + USUAL_BLOCK_BYTES_MAX);
        }
        let follows =
            self.blocks.last().is_none_or(|before| before.last_key.as_bytes() <= first_key);
        assert!(follows, "a block that waits begins in front of the one before it");
        self.raw.extend_from_slice(raw);
        self.key_bytes += first_key.len() + last.key.len();
        self.blocks.push(PendingBlock {
            raw_bytes: raw.len(),
            first_key: Slice::copy_from(first_key),
            last_key: Slice::copy_from(last.key),
            last_sequence: last.sequence,
            stats: *stats,
        });
    }

    /// Whether they are enough for the dictionary.
    pub(in crate::table) fn is_enough(&self) -> bool {
        self.raw.len() >= self.samples_bytes
    }

    pub(in crate::table) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes of memory that they take, about.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        self.raw.memory_bytes()
            + self.key_bytes
            + self.blocks.capacity() * size_of::<PendingBlock>()
    }

    /// A dictionary for them, if one can be made. Calls `before` before training takes memory.
    pub(in crate::table) fn train(&self, before: impl FnOnce()) -> Option<Vec<u8>> {
        let lengths: Vec<usize> = self.blocks.iter().map(|block| block.raw_bytes).collect();
        let dictionary = train(&self.raw, &lengths, self.dictionary_bytes, before)?;
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
