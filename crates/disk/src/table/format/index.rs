//! The index of a table: of each data block its keys, bounds and place, searched by key heads.
//!
//! It does not read blocks.
//!
//! On disk it is cut into frames of about 16 KiB, each readable alone:
//!
//! ```text
//! | block, ... |
//!
//! block: | shared varint | rest of the first key: length varint, bytes |
//!        | shared varint | rest of the last key: length varint, bytes |
//!        | frame length varint | entries varint | sequence max varint |
//!        | sequence max - sequence of the last entry varint | contents u8 |
//!        | expiry min + 1 varint (0: none) |
//! ```
//!
//! `shared` counts the bytes at the front that a key has in common with the one written before it.
//! Before the first of the frame that is the empty key. Data frames touch, so their lengths give
//! their offsets.
//!
//! # Invariants
//! Checked when an index is read:
//! 1. Of each block, first key <= last key. Of neighbours, last key <= first key, and the places
//!    (last key, sequence of the last entry) ascend.
//! 2. The ends of keys and frames ascend, and those of keys lie within `keys`.

use crate::table::format::block_info::{BlockInfo, Blocks};
use crate::table::format::block_stats::{BlockStats, Contents};
use crate::table::format::node::NodeView;
use crate::{block::shared_prefix_bytes, compress::Codec};
use siltdb_base::{
    codec::{ByteReader, put_bytes, put_varint},
    cursor::Direction,
    error::{Error, Result},
    id::SequenceNumber,
    key::{self, SortKey, head},
    limits::{INDEX_FRAME_BYTES, KEY_BYTES_MAX},
    memory::large_vec::LargeVec,
};
use std::ops::Range;

/// Gathers the blocks of a table and encodes their index.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    full: Vec<Vec<u8>>,
    open: Vec<u8>,
    last_key: Vec<u8>,
    blocks: u64,
}

impl IndexBuilder {
    /// Adds the block after those before it.
    pub fn add(
        &mut self,
        first_key: &[u8],
        last: SortKey<'_>,
        stats: &BlockStats,
        frame_bytes: u64,
    ) {
        if self.open.len() >= INDEX_FRAME_BYTES {
            self.full.push(std::mem::take(&mut self.open));
            self.last_key.clear();
        }
        let SortKey { key: last_key, sequence: last_sequence } = last;
        let out = &mut self.open;
        let shared = shared_prefix_bytes(&self.last_key, first_key);
        put_varint(out, shared as u64);
        put_bytes(out, &first_key[shared..]);
        let shared = shared_prefix_bytes(first_key, last_key);
        put_varint(out, shared as u64);
        put_bytes(out, &last_key[shared..]);
        put_varint(out, frame_bytes);
        put_varint(out, stats.entries);
        put_varint(out, stats.sequence_max.0);
        put_varint(out, stats.sequence_max.0 - last_sequence.0);
        out.push(stats.contents.bits());
        put_varint(out, stats.expiry_min_ms.map_or(0, |expiry| expiry.saturating_add(1)));
        self.last_key.clear();
        self.last_key.extend_from_slice(last_key);
        self.blocks += 1;
    }

    /// The blocks that were added so far.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of the index so far, before compression.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.open.len()
    }

    /// The raw frames.
    #[must_use]
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.open.is_empty() {
            self.full.push(self.open);
        }
        self.full
    }
}

/// The index in memory.
#[derive(Debug, Default)]
pub struct Index {
    /// Heads of the last keys after the prefix that all last keys share.
    heads: LargeVec<u64>,
    prefix_bytes: usize,
    /// First and last key of each block, one after the other, behind `keys_begin` bytes of another.
    keys: LargeVec<u8>,
    keys_begin: usize,
    /// Where the first block begins.
    begin: u64,
    blocks: LargeVec<BlockRow>,
    /// Whether a block that is not in memory begins with the key that the last one ends with.
    is_continued: bool,
}

/// A block. It begins where the one before ends.
#[derive(Clone, Copy, Debug)]
struct BlockRow {
    /// Where its first and its last key end.
    key_ends: [u64; 2],
    /// Where its frame ends.
    end: u64,
    last_sequence: SequenceNumber,
    sequence_max: SequenceNumber,
    /// Expiry plus one, 0 for none.
    expiry: u64,
    entries: u32,
    contents: Contents,
    /// Whether it begins with the key that the one before ends with.
    continues: bool,
}

impl Index {
    /// An index with room for `blocks` blocks, so that it does not grow.
    #[must_use]
    pub fn with_capacity(blocks: usize) -> Self {
        Self { blocks: LargeVec::with_capacity(blocks), ..Self::default() }
    }

    /// Forgets all blocks; those that are read next begin at `offset` of the table.
    pub fn begin_at(&mut self, offset: u64) {
        self.begin_behind(offset, b"");
    }

    /// The same, within a frame: `key` is written before the first of them.
    pub fn begin_behind(&mut self, offset: u64, key: &[u8]) {
        self.keys.clear();
        self.keys.extend_from_slice(key);
        self.keys_begin = key.len();
        self.blocks.clear();
        self.begin = offset;
        self.is_continued = false;
    }

    /// Reads one more frame of the index of a table whose data frames take `data_bytes`.
    ///
    /// A block beyond these is refused before the next is read. No key is longer than its block. So
    /// the keys in memory are at any time bounded by the data: twice the longest raw form of its
    /// blocks, and two keys.
    ///
    /// # Errors
    /// Corruption, if the invariants do not hold or the blocks take more than `data_bytes`.
    pub fn read_frame(&mut self, raw: &[u8], data_bytes: u64) -> Result<()> {
        let mut reader = ByteReader::new(raw);
        // The key written before lies here: from `before` to the end of `keys`.
        let mut before = self.keys.len();
        while !reader.is_empty() {
            before = self.read_block(&mut reader, before, data_bytes)?;
        }
        Ok(())
    }

    /// Reads the next block of a frame, as [`Index::read_frame`] does, after a key that lies from
    /// `before` to the end of `keys`; returns where its last key lies.
    ///
    /// # Errors
    /// As [`Index::read_frame`].
    #[inline]
    pub fn read_block(
        &mut self,
        reader: &mut ByteReader<'_>,
        before: usize,
        data_bytes: u64,
    ) -> Result<usize> {
        let first = self.read_key(reader, before)?;
        let last = self.read_key(reader, first)?;
        let frame_bytes = reader.varint()?;
        // The same for each codec that compresses.
        let raw_bytes_max = Codec::Lz4.raw_bytes_max(frame_bytes);
        if (last - first).max(self.keys.len() - last) as u64 > raw_bytes_max {
            return Err(Error::corruption("keys longer than their block"));
        }
        let entries = reader.varint_u32()?;
        let sequence_max = reader.varint()?;
        let last_sequence = sequence_max.checked_sub(reader.varint()?);
        let contents = Contents::from_bits(reader.u8()?)?;
        let expiry = reader.varint()?;
        let Some(last_sequence) = last_sequence
            .filter(|_| entries > 0 && frame_bytes > 0 && sequence_max <= SequenceNumber::MAX.0)
        else {
            return Err(Error::corruption("bad block in an index"));
        };
        let end = self.data_bytes().checked_add(frame_bytes);
        let Some(end) = end.filter(|&end| end <= data_bytes) else {
            return Err(Error::corruption("an index goes beyond the data of its table"));
        };
        self.blocks.push(BlockRow {
            key_ends: [last as u64, self.keys.len() as u64],
            end,
            last_sequence: SequenceNumber(last_sequence),
            sequence_max: SequenceNumber(sequence_max),
            expiry,
            entries,
            contents,
            continues: false,
        });
        self.check_order(self.blocks.len() - 1)?;
        Ok(last)
    }

    /// The same for a node of level 0 of a B+tree table, which was checked.
    ///
    /// # Errors
    /// Corruption, if its blocks take more than `data_bytes`, or have more entries than a block can
    /// have.
    pub fn read_node(&mut self, node: &NodeView<'_>, data_bytes: u64) -> Result<()> {
        for info in (0..node.count()).map(|at| node.info(at)) {
            let first = self.keys.len() + info.first_key.len();
            self.keys.extend_from_slice(info.first_key);
            self.keys.extend_from_slice(info.last_key);
            let end = info.offset + info.bytes;
            let entries = u32::try_from(info.entries).ok();
            let Some(entries) = entries.filter(|_| end <= data_bytes && info.bytes > 0) else {
                return Err(Error::corruption("bad block in an index"));
            };
            if info.offset != self.data_bytes() {
                return Err(Error::corruption("the nodes of a table do not touch"));
            }
            self.blocks.push(BlockRow {
                key_ends: [first as u64, self.keys.len() as u64],
                end,
                last_sequence: info.last_sequence,
                sequence_max: info.sequence_max,
                expiry: info.expiry_min_ms.map_or(0, |expiry| expiry.saturating_add(1)),
                entries,
                contents: info.contents,
                continues: false,
            });
            self.check_order(self.blocks.len() - 1)?;
        }
        Ok(())
    }

    /// Appends a key to `keys` that shares bytes with the one that lies from `before` on; returns
    /// where it begins.
    fn read_key(&mut self, reader: &mut ByteReader<'_>, before: usize) -> Result<usize> {
        let start = self.keys.len();
        let shared = reader.varint()?;
        let rest = reader.bytes()?;
        let shared = usize::try_from(shared).unwrap_or(usize::MAX);
        if shared > start - before || shared + rest.len() > KEY_BYTES_MAX {
            return Err(Error::corruption("bad key in an index"));
        }
        self.keys.extend_from_within(before..before + shared);
        self.keys.extend_from_slice(rest);
        Ok(start)
    }

    /// Checks (1) for the block that was added last, and notes whether it continues a key.
    fn check_order(&mut self, index: usize) -> Result<()> {
        let before = index.checked_sub(1).map(|before| self.end_of(before));
        self.blocks[index].continues = self.check_follows(before, index)?;
        Ok(())
    }

    /// Checks (1) for a block after one that ends at `before`; returns whether it continues a key.
    fn check_follows(&self, before: Option<SortKey<'_>>, index: usize) -> Result<bool> {
        let (first, end) = (self.first_key(index), self.end_of(index));
        let mut ordered = first <= end.key;
        let mut continues = false;
        if let Some(before) = before {
            let apart = before.key.cmp(first);
            continues = apart.is_eq();
            // Where the one before ends below this one's beginning, it ends below its end.
            ordered &= apart.is_lt() || continues && before < end;
        }
        if ordered { Ok(continues) } else { Err(Error::corruption("index out of order")) }
    }

    /// Takes it that the first block comes after one that ends at `before`.
    ///
    /// # Errors
    /// Corruption, if (1) does not hold then.
    ///
    /// # Panics
    /// If there is no block.
    pub fn come_after(&mut self, before: SortKey<'_>) -> Result<()> {
        self.blocks[0].continues = self.check_follows(Some(before), 0)?;
        Ok(())
    }

    /// Takes it that a block comes after the last that begins with its last key.
    pub fn go_on_with_last_key(&mut self) {
        self.is_continued = true;
    }

    /// Makes the index searchable, after its last frame was read.
    pub fn finish(&mut self) {
        let Some(last) = self.count().checked_sub(1) else { return };
        self.prefix_bytes = shared_prefix_bytes(self.last_key(0), self.last_key(last));
        let head_of = |index| head(&self.last_key(index)[self.prefix_bytes..]);
        self.heads = (0..=last).map(head_of).collect();
        self.keys.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }

    /// The number of data blocks.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Length of all data frames, in bytes.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.blocks.last().map_or(self.begin, |last| last.end)
    }

    /// Entries of all blocks.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.entries)).sum()
    }

    /// Entries of the block that has most.
    #[must_use]
    pub fn entries_max(&self) -> u32 {
        self.blocks.iter().map(|block| block.entries).max().unwrap_or(0)
    }

    /// Whether the block at `index` begins with the key that the one before ends with.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn continues(&self, index: usize) -> bool {
        self.blocks[index].continues
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.heads.memory_bytes() + self.keys.memory_bytes() + self.blocks.memory_bytes()
    }

    /// What is known of the block at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn info(&self, index: usize) -> BlockInfo<'_> {
        let block = &self.blocks[index];
        let offset = self.before(index).map_or(self.begin, |before| before.end);
        BlockInfo {
            first_key: self.first_key(index),
            last_key: self.last_key(index),
            last_sequence: block.last_sequence,
            sequence_max: block.sequence_max,
            expiry_min_ms: block.expiry.checked_sub(1),
            contents: block.contents,
            entries: u64::from(block.entries),
            offset,
            bytes: block.end - offset,
        }
    }

    /// Whether the block holds only `Put`, and of each of its keys the table has one entry.
    #[inline]
    #[must_use]
    pub fn is_plain(&self, index: usize) -> bool {
        let block = &self.blocks[index];
        block.contents == Contents::PLAIN
            && !block.continues
            && !self.blocks.get(index + 1).map_or(self.is_continued, |next| next.continues)
    }

    /// The plain blocks that follow the one at `index` along `direction`, at most `limit` of them.
    #[inline]
    #[must_use]
    pub fn plain_beside(&self, index: usize, direction: Direction, limit: usize) -> Blocks {
        let mut beside = Blocks { last: index, entries: 0, sequence_max: SequenceNumber(0) };
        for _ in 0..limit {
            let next = match direction {
                Direction::Forward => Some(beside.last + 1).filter(|&next| next < self.count()),
                Direction::Backward => beside.last.checked_sub(1),
            };
            let Some(next) = next.filter(|&next| self.is_plain(next)) else { break };
            beside.last = next;
            let block = &self.blocks[next];
            beside.entries += block.entries as usize;
            beside.sequence_max = beside.sequence_max.max(block.sequence_max);
        }
        beside
    }

    /// The block that holds the first entry at or after (`key`, `sequence`), if there is such an
    /// entry.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8], sequence: SequenceNumber) -> Option<usize> {
        let index = self.lower_bound(key, sequence);
        (index < self.count()).then_some(index)
    }

    /// The first block whose last entry is at or after (`key`, `sequence`).
    #[inline]
    fn lower_bound(&self, key: &[u8], sequence: SequenceNumber) -> usize {
        if self.count() == 0 {
            return 0;
        }
        let prefix = &self.last_key(0)[..self.prefix_bytes];
        let Some(suffix) = key.strip_prefix(prefix) else {
            return if key < prefix { 0 } else { self.count() };
        };
        let sought = head(suffix);
        let is_before = |index| self.end_of(index) < SortKey::new(key, sequence);
        key::lower_bound(&self.heads, sought, |head| head < sought, is_before)
    }

    /// The first block of all, if it is one of `blocks` or the one after them, whose last entry is
    /// at or after (`key`, `sequence`). It needs no [`Index::finish`].
    #[inline]
    #[must_use]
    pub fn lower_bound_within(
        &self,
        blocks: Range<usize>,
        key: &[u8],
        sequence: SequenceNumber,
    ) -> usize {
        key::lower_bound_within(blocks, |index| self.end_of(index) < SortKey::new(key, sequence))
    }

    /// Its last entry.
    #[inline]
    fn end_of(&self, index: usize) -> SortKey<'_> {
        SortKey::new(self.last_key(index), self.blocks[index].last_sequence)
    }

    #[inline]
    fn first_key(&self, index: usize) -> &[u8] {
        let start =
            self.before(index).map_or(self.keys_begin, |before| before.key_ends[1] as usize);
        &self.keys[start..self.blocks[index].key_ends[0] as usize]
    }

    #[inline]
    fn last_key(&self, index: usize) -> &[u8] {
        let [start, end] = self.blocks[index].key_ends;
        &self.keys[start as usize..end as usize]
    }

    #[inline]
    fn before(&self, index: usize) -> Option<&BlockRow> {
        self.blocks[..index].last()
    }
}

#[cfg(test)]
mod tests;
