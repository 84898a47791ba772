//! A frame of the index of a block table in the cache: its raw bytes, cut into groups of blocks,
//! and the slots of these blocks.
//!
//! It takes a third of the memory of the same blocks in an index that is searched at once. Groups
//! are searched by their last keys; then one of them is decoded.
//!
//! # Invariants
//! 1. A frame was verified and decoded as a whole before it was cut into groups: each group decodes
//!    to the blocks that it had then.
//! 2. All groups but the last have [`GROUP_BLOCKS`] blocks.

use crate::table::format::index::Index;
use crate::{
    block::Block,
    cache::{Cache, Cacheable, Slots},
};
use bytes::Bytes;
use siltdb_base::{
    codec::ByteReader,
    error::Result,
    hint::CACHE_LINE_BYTES,
    id::SequenceNumber,
    key::{self, SortKey},
    memory::region::{Margins, piece_bytes},
};
use std::{ops::Range, sync::Arc};

/// Blocks of a group. Decoding one costs as much as searching the groups of a frame for it.
pub(in crate::table) const GROUP_BLOCKS: usize = 16;

/// A frame of an index in memory.
#[derive(Debug)]
pub(in crate::table) struct LoadedFrame {
    raw: Bytes,
    groups: Box<[Group]>,
    /// The last keys of all groups, one after the other.
    keys: Box<[u8]>,
    /// Of the blocks that the frame leads to.
    pub blocks: Slots<Block>,
}

/// Some blocks of a frame.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Where they stand in the raw bytes.
    start: u32,
    /// Where the last key ends in the keys of all groups.
    key_end: u32,
    /// Where the first of them begins in the table.
    data_offset: u64,
    last_sequence: SequenceNumber,
    /// Whether it begins with the key that the group before ends with.
    continues: bool,
}

/// What stands around a frame in its index.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct Surroundings<'a> {
    /// The last entry before it.
    pub before: Option<SortKey<'a>>,
    /// Whether the next frame begins with its last key.
    pub is_continued: bool,
    /// Length of all data frames of the table.
    pub data_bytes: u64,
}

impl Cacheable for LoadedFrame {
    const FRONT_BYTES: usize = CACHE_LINE_BYTES;

    fn front(&self) -> *const u8 {
        self.raw.as_ptr()
    }

    fn layout(&self) -> u64 {
        0
    }
}

impl LoadedFrame {
    /// Reads the blocks of the frame `raw` into `part`, which is empty, and says where in `raw`
    /// their groups start.
    ///
    /// # Errors
    /// Corruption, as [`Index::read_block`].
    pub fn decode(raw: &[u8], part: &mut Index, data_bytes: u64) -> Result<Vec<u32>> {
        let (mut starts, mut before) = (Vec::new(), 0);
        let mut reader = ByteReader::new(raw);
        while !reader.is_empty() {
            if part.count().is_multiple_of(GROUP_BLOCKS) {
                starts.push((raw.len() - reader.rest().len()) as u32);
            }
            before = part.read_block(&mut reader, before, data_bytes)?;
        }
        Ok(starts)
    }

    /// A copy of the frame `raw`, which was decoded to `part`, with groups at these `starts`.
    pub fn new(raw: &[u8], starts: &[u32], part: &Index, cache: &Arc<Cache>) -> Self {
        let mut keys = Vec::new();
        let groups = starts.iter().enumerate().map(|(at, &start)| {
            let first = at * GROUP_BLOCKS;
            let last = part.info((first + GROUP_BLOCKS).min(part.count()) - 1);
            keys.extend_from_slice(last.last_key);
            Group {
                start,
                key_end: keys.len() as u32,
                data_offset: part.info(first).offset,
                last_sequence: last.last_sequence,
                continues: part.continues(first),
            }
        });
        let groups = groups.collect();
        let raw = cache.region().copy(raw, Margins { front: 0, back: 0 }).freeze();
        let blocks = Slots::bare(cache, part.count());
        Self { raw, groups, keys: keys.into(), blocks }
    }

    /// Bytes of memory that it takes beside itself and its cached blocks.
    pub fn memory_bytes(&self) -> usize {
        piece_bytes(self.raw.len())
            + size_of_val(&self.groups[..])
            + self.keys.len()
            + Slots::<Block>::bare_bytes(self.blocks.count())
    }

    /// The number of its groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The first group whose last entry is at or after (`key`, `sequence`); behind the last, the
    /// number of groups.
    pub fn reaching(&self, key: &[u8], sequence: SequenceNumber) -> usize {
        let is_before = |group| self.end_of(group) < SortKey::new(key, sequence);
        key::lower_bound_within(0..self.groups.len(), is_before)
    }

    /// The last entry of a group.
    fn end_of(&self, group: usize) -> SortKey<'_> {
        let start = self.groups[..group].last().map_or(0, |before| before.key_end);
        let Group { key_end, last_sequence, .. } = self.groups[group];
        SortKey::new(&self.keys[start as usize..key_end as usize], last_sequence)
    }

    /// Reads the blocks of some `groups`, which are there, over the contents of `part`.
    ///
    /// # Errors
    /// None, by (1); the bytes are decoded within bounds in any case.
    pub fn read(
        &self,
        groups: Range<usize>,
        around: Surroundings<'_>,
        part: &mut Index,
    ) -> Result<()> {
        let before = groups.start.checked_sub(1).map(|before| self.end_of(before));
        let Group { start, data_offset, .. } = self.groups[groups.start];
        let next = self.groups.get(groups.end);
        let end = next.map_or(self.raw.len(), |next| next.start as usize);
        part.begin_behind(data_offset, before.map_or(b"", |before| before.key));
        let mut reader = ByteReader::new(&self.raw[start as usize..end]);
        let mut key = 0;
        while !reader.is_empty() {
            key = part.read_block(&mut reader, key, around.data_bytes)?;
        }
        if let Some(before) = before.or(around.before) {
            part.come_after(before)?;
        }
        if next.map_or(around.is_continued, |next| next.continues) {
            part.go_on_with_last_key();
        }
        Ok(())
    }
}
