//! A node of the index of a B+tree table: of each child its keys, bounds and place, searched by key
//! heads where the node lies.
//!
//! It does not read children. A node is never compressed, so that it can be searched in a mapping.
//!
//! The lowest nodes, of level 0, lead to data blocks, those of a higher level to nodes of the level
//! below. All numbers are le:
//!
//! ```text
//! | count u32 | level u32 | prefix length u32 | first block u64 | begin u64 | prefix |
//! | head u64, ... | row, ... | keys |
//!
//! row of a block: | end of its first key u32 | end of its last key u32 | end of its data u64 |
//!                 | sequence of the last entry u64 | sequence max u64 |
//!                 | expiry min + 1 u64 (0: none) | entries u64 | contents u8 | joins u8 |
//! row of a node:  | the same of all blocks beneath | frame offset u64 | frame length u32 |
//!                 | first block behind it u64 |
//! ```
//!
//! `prefix` is what all last keys share, and a head the first 8 bytes of a last key behind it. The
//! ends of keys count from the beginning of `keys`, where first and last key of each child follow
//! each other, or stand once if they are the same. `begin` is where the data of the first child
//! begins; a child begins where the one before ends. Bits of `joins`: 1, the child begins with the
//! key that the one before ends with; 2, the next one does so; 4, its first key is its last.
//!
//! # Invariants
//! [`NodeView::check`] checks them for a node alone, and [`NodeView::check_child`] against its
//! parent. Every access afterwards is within bounds. If the bytes change later, an access panics.
//! 1. There is at least one child. The ends of keys, data and blocks ascend.
//! 2. Of each child, first key <= last key. Of neighbours, last key <= first key, and the places
//!    (last key, sequence of the last entry) ascend. The bits of `joins` say where keys are equal.
//! 3. All last keys begin with the prefix, and the heads are theirs.
//! 4. A parent says of a child what the child says of its children together.

use crate::block::shared_prefix_bytes;
use crate::table::format::block_info::{BlockInfo, Blocks};
use crate::table::format::block_stats::Contents;
use siltdb_base::{
    cursor::Direction,
    error::{Error, Result},
    id::SequenceNumber,
    key::{self, SortKey, head},
    limits::{KEY_BYTES_MAX, NODE_LEVELS_MAX},
    seeded_fault,
};
use std::ops::Range;

pub(super) const HEADER_BYTES: usize = 28;
pub(super) const HEAD_BYTES: usize = size_of::<u64>();
/// Bytes of a row of a node of level 0, and what a higher one has in front.
pub(super) const BLOCK_ROW_BYTES: usize = 50;
/// Bytes of a row of a higher node.
pub(super) const NODE_ROW_BYTES: usize = BLOCK_ROW_BYTES + 20;

/// The child begins with the key that the one before ends with.
pub(super) const CONTINUES: u8 = 1;
/// The next child begins with the key that this one ends with.
pub(super) const CONTINUED: u8 = 2;
/// First and last key are the same, and stand once.
pub(super) const ONE_KEY: u8 = 4;

/// A node where it lies.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    heads: &'a [[u8; HEAD_BYTES]],
    prefix: &'a [u8],
    rows: &'a [u8],
    keys: &'a [u8],
    level: u32,
    first_block: u64,
    begin: u64,
}

impl<'a> NodeView<'a> {
    /// The node that `raw` holds, of which only the sizes of its parts are checked.
    ///
    /// # Errors
    /// Corruption, if its parts do not fit.
    #[inline]
    pub fn at(raw: &'a [u8]) -> Result<Self> {
        let Some((header, rest)) = raw.split_first_chunk::<HEADER_BYTES>() else {
            return Err(bad_header());
        };
        let (count, level, prefix_bytes) =
            (u32_at(header, 0), u32_at(header, 4), u32_at(header, 8));
        // At most 2^32 times the bytes of a row: no overflow.
        let [heads, rows] =
            [HEAD_BYTES, row_bytes(level)].map(|bytes| u64::from(count) * bytes as u64);
        let is_whole = u64::from(prefix_bytes) + heads + rows <= rest.len() as u64;
        if count == 0 || level >= NODE_LEVELS_MAX || !is_whole {
            return Err(bad_header());
        }
        let (prefix, rest) = rest.split_at(prefix_bytes as usize);
        let (heads, rest) = rest.split_at(heads as usize);
        let (rows, keys) = rest.split_at(rows as usize);
        let (first_block, begin) = (u64_at(header, 12), u64_at(header, 20));
        Ok(Self { heads: heads.as_chunks().0, prefix, rows, keys, level, first_block, begin })
    }

    /// The number of its children.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    /// 0 for a node whose children are blocks.
    #[inline]
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }

    /// The first block beneath, by its number in the table.
    #[inline]
    #[must_use]
    pub fn first_block(&self) -> u64 {
        self.first_block
    }

    /// The first block behind those beneath.
    #[must_use]
    pub fn end_block(&self) -> u64 {
        self.end_block_of(self.count() - 1)
    }

    /// What is known of all blocks beneath the child at `index` together; of the block itself, if
    /// this is a node of level 0.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn info(&self, index: usize) -> BlockInfo<'a> {
        let row = self.row(index);
        let offset = self.begin_of(index);
        BlockInfo {
            first_key: self.first_key(index),
            last_key: self.last_key(index),
            last_sequence: SequenceNumber(u64_at(row, 16)),
            sequence_max: SequenceNumber(u64_at(row, 24)),
            expiry_min_ms: u64_at(row, 32).checked_sub(1),
            contents: Contents::from_bits(row[48]).unwrap_or_default(),
            entries: u64_at(row, 40),
            offset,
            bytes: u64_at(row, 8) - offset,
        }
    }

    /// What is known of all blocks beneath.
    #[must_use]
    pub fn beneath(&self) -> BlockInfo<'a> {
        let mut all = self.info(0);
        for info in (1..self.count()).map(|index| self.info(index)) {
            (all.last_key, all.last_sequence) = (info.last_key, info.last_sequence);
            all.sequence_max = all.sequence_max.max(info.sequence_max);
            all.expiry_min_ms = match (all.expiry_min_ms, info.expiry_min_ms) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            all.contents.add(info.contents);
            all.entries = all.entries.saturating_add(info.entries);
            all.bytes += info.bytes;
        }
        all
    }

    /// Where the frame of the child node at `index` lies in the table.
    ///
    /// # Panics
    /// If there is none, or this is a node of level 0.
    #[inline]
    #[must_use]
    pub fn child_place(&self, index: usize) -> Range<u64> {
        let row = self.row(index);
        let offset = u64_at(row, 50);
        offset..offset + u64::from(u32_at(row, 58))
    }

    /// Whether the child at `index` begins with the key that the one before it ends with.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn continues(&self, index: usize) -> bool {
        self.joins(index) & CONTINUES != 0
    }

    /// Whether the child that follows the one at `index` begins with the key that this one ends
    /// with.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn is_continued(&self, index: usize) -> bool {
        self.joins(index) & CONTINUED != 0
    }

    /// Whether the child holds only `Put`, and of each of its keys the table has one entry.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn is_plain(&self, index: usize) -> bool {
        let row = self.row(index);
        row[48] == Contents::PLAIN.bits() && row[49] & (CONTINUES | CONTINUED) == 0
    }

    /// The plain blocks that follow the one at `index` along `direction` in this node, at most
    /// `limit` of them.
    #[must_use]
    pub fn plain_beside(&self, index: usize, direction: Direction, limit: usize) -> Blocks {
        let mut beside = Blocks { last: index, entries: 0, sequence_max: SequenceNumber(0) };
        for _ in 0..limit {
            let next = match direction {
                Direction::Forward => Some(beside.last + 1).filter(|&next| next < self.count()),
                Direction::Backward => beside.last.checked_sub(1),
            };
            let Some(next) = next.filter(|&next| self.is_plain(next)) else { break };
            let info = self.info(next);
            beside.last = next;
            beside.entries += info.entries as usize;
            beside.sequence_max = beside.sequence_max.max(info.sequence_max);
        }
        beside
    }

    /// The first child whose last entry is at or after (`key`, `sequence`); the count, if there is
    /// none.
    #[inline]
    #[must_use]
    pub fn lower_bound(&self, key: &[u8], sequence: SequenceNumber) -> usize {
        let Some(suffix) = key.strip_prefix(self.prefix) else {
            return if key < self.prefix { 0 } else { self.count() };
        };
        let sought = head(suffix);
        let is_lower = |head| u64::from_le_bytes(head) < sought;
        let is_before = |index| self.end_of(index) < SortKey::new(key, sequence);
        key::lower_bound(self.heads, sought.to_le_bytes(), is_lower, is_before)
    }

    /// Its last entry.
    #[inline]
    fn end_of(&self, index: usize) -> SortKey<'_> {
        SortKey::new(self.last_key(index), SequenceNumber(u64_at(self.row(index), 16)))
    }

    /// The child that the block of this number is, or lies beneath; the count, if it lies behind
    /// all.
    #[must_use]
    pub fn position_of(&self, block: u64) -> usize {
        if self.level == 0 {
            let position = block.saturating_sub(self.first_block);
            return usize::try_from(position).map_or(self.count(), |at| at.min(self.count()));
        }
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            if self.end_block_of(middle) <= block { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Checks (1) to (3).
    ///
    /// # Errors
    /// Corruption, if they do not hold.
    pub fn check(&self) -> Result<()> {
        let bad = |message: &'static str| Err(Error::corruption(message));
        let (mut key_end, mut before) = (0, None);
        let mut place = None;
        for index in 0..self.count() {
            let row = self.row(index);
            let (first_end, last_end) = (u32_at(row, 0) as usize, u32_at(row, 4) as usize);
            let is_within = key_end <= first_end && first_end <= last_end;
            let longest = (first_end.wrapping_sub(key_end)).max(last_end.wrapping_sub(first_end));
            let is_within = is_within && (row[49] & ONE_KEY == 0 || first_end == last_end);
            if !is_within || last_end > self.keys.len() || longest > KEY_BYTES_MAX {
                return bad("bad keys of a node");
            }
            let (begin, first_block) = (self.begin_of(index), self.first_block_of(index));
            let (last, newest) = (u64_at(row, 16), u64_at(row, 24));
            let is_sound = u64_at(row, 8) > begin
                && self.end_block_of(index) > first_block
                && last <= newest
                && newest <= SequenceNumber::MAX.0
                && u64_at(row, 40) > 0
                && row[49] & !(CONTINUES | CONTINUED | ONE_KEY) == 0;
            if !is_sound {
                return bad("bad child in a node");
            }
            Contents::from_bits(row[48])?;
            self.check_order(index, before)?;
            let last_key = self.last_key(index);
            let suffix = last_key.strip_prefix(self.prefix);
            if suffix.is_none_or(|suffix| self.heads[index] != head(suffix).to_le_bytes()) {
                return bad("the heads of a node are not those of its keys");
            }
            if self.level > 0 {
                let child = self.child_frame(index).ok_or_else(outside)?;
                if place.is_some_and(|end| end != child.start) {
                    return bad("the children of a node do not touch");
                }
                place = Some(child.end);
            }
            (key_end, before) = (last_end, Some(SortKey::new(last_key, SequenceNumber(last))));
        }
        if key_end != self.keys.len() { bad("bytes after the keys of a node") } else { Ok(()) }
    }

    /// Checks a node that is to lead to blocks.
    ///
    /// # Errors
    /// Those of [`NodeView::check`]; corruption, if it leads to nodes.
    pub fn check_lowest(&self) -> Result<()> {
        match self.level {
            0 => self.check(),
            _ => Err(Error::corruption("a node of another level")),
        }
    }

    /// Checks (2) for the child at `index`, after one that ends at `before`.
    fn check_order(&self, index: usize, before: Option<SortKey<'_>>) -> Result<()> {
        let (first, end) = (self.first_key(index), self.end_of(index));
        let last = end.key;
        let mut ordered = first <= last && (first == last) == (self.joins(index) & ONE_KEY != 0);
        if let Some(before) = before {
            let apart = before.key.cmp(first);
            ordered &= apart.is_lt() || apart.is_eq() && before < end;
            ordered &= self.continues(index) == apart.is_eq();
            ordered &= self.is_continued(index - 1) == apart.is_eq();
        }
        if ordered { Ok(()) } else { Err(Error::corruption("a node out of order")) }
    }

    /// Checks (4) for `child`, which was read where the child at `index` lies, and checked.
    ///
    /// # Errors
    /// Corruption, if it is another one.
    pub fn check_child(&self, index: usize, child: &NodeView<'_>) -> Result<()> {
        // The suite must notice an engine that takes any sound node for the one it looked for.
        if seeded_fault!("node_accepted_at_a_wrong_place") {
            return Ok(());
        }
        let agrees = child.level + 1 == self.level
            && child.first_block == self.first_block_of(index)
            && child.end_block() == self.end_block_of(index)
            && child.beneath() == self.info(index)
            && child.continues(0) == self.continues(index)
            && child.is_continued(child.count() - 1) == self.is_continued(index);
        if agrees { Ok(()) } else { Err(Error::corruption("a node is not what its parent says")) }
    }

    fn child_frame(&self, index: usize) -> Option<Range<u64>> {
        let row = self.row(index);
        let start = u64_at(row, 50);
        Some(start..start.checked_add(u32_at(row, 58).into())?)
    }

    #[inline]
    fn joins(&self, index: usize) -> u8 {
        self.row(index)[49]
    }

    #[inline]
    fn row(&self, index: usize) -> &'a [u8] {
        let bytes = row_bytes(self.level);
        &self.rows[index * bytes..(index + 1) * bytes]
    }

    #[inline]
    fn begin_of(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.begin, |before| u64_at(self.row(before), 8))
    }

    /// The first block beneath the child at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn first_block_of(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.first_block, |before| self.end_block_of(before))
    }

    #[inline]
    fn end_block_of(&self, index: usize) -> u64 {
        match self.level {
            0 => self.first_block.saturating_add(index as u64 + 1),
            _ => u64_at(self.row(index), 62),
        }
    }

    #[inline]
    fn first_key(&self, index: usize) -> &'a [u8] {
        let start = index.checked_sub(1).map_or(0, |before| u32_at(self.row(before), 4));
        &self.keys[start as usize..u32_at(self.row(index), 0) as usize]
    }

    #[inline]
    fn last_key(&self, index: usize) -> &'a [u8] {
        let row = self.row(index);
        if row[49] & ONE_KEY != 0 {
            return self.first_key(index);
        }
        &self.keys[u32_at(row, 0) as usize..u32_at(row, 4) as usize]
    }
}

/// Puts together one node after the other.
#[derive(Debug, Default)]
pub(super) struct NodeBuilder {
    rows: Vec<u8>,
    keys: Vec<u8>,
    count: usize,
    level: u32,
    first_block: u64,
    begin: u64,
}

impl NodeBuilder {
    /// A builder of the nodes of a level.
    pub fn new(level: u32) -> Self {
        Self { level, ..Self::default() }
    }

    /// The children of the open node.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the open node, but for its prefix.
    pub fn raw_bytes(&self) -> usize {
        HEADER_BYTES + self.count * HEAD_BYTES + self.rows.len() + self.keys.len()
    }

    /// Says that the next child begins with the key that the last one ends with.
    pub fn continue_last(&mut self) {
        let at = self.rows.len() - row_bytes(self.level) + 49;
        self.rows[at] |= CONTINUED;
    }

    /// Adds a child behind those before it: `info` on its blocks, the first of which has the number
    /// `first_block`, and the bits of `joins` that tell of the child before.
    pub fn add(&mut self, info: &BlockInfo<'_>, first_block: u64, joins: u8) {
        if self.count == 0 {
            (self.first_block, self.begin) = (first_block, info.offset);
        }
        let one_key = info.first_key == info.last_key;
        self.keys.extend_from_slice(info.first_key);
        let first_end = self.keys.len() as u32;
        if !one_key {
            self.keys.extend_from_slice(info.last_key);
        }
        let rows = &mut self.rows;
        rows.extend_from_slice(&first_end.to_le_bytes());
        rows.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
        let expiry = info.expiry_min_ms.map_or(0, |expiry| expiry.saturating_add(1));
        let end = info.offset + info.bytes;
        let numbers = [end, info.last_sequence.0, info.sequence_max.0, expiry, info.entries];
        numbers.iter().for_each(|number| rows.extend_from_slice(&number.to_le_bytes()));
        rows.push(info.contents.bits());
        rows.push(joins | if one_key { ONE_KEY } else { 0 });
        self.count += 1;
    }

    /// Says of the child node that was added last where its frame lies, and which block comes
    /// behind those beneath it.
    pub fn place_last(&mut self, frame: &Range<u64>, end_block: u64) {
        self.rows.extend_from_slice(&frame.start.to_le_bytes());
        self.rows.extend_from_slice(&((frame.end - frame.start) as u32).to_le_bytes());
        self.rows.extend_from_slice(&end_block.to_le_bytes());
    }

    /// The raw bytes of the open node; the next one is empty.
    ///
    /// # Panics
    /// If it has no child.
    pub fn finish(&mut self) -> Vec<u8> {
        let bytes = row_bytes(self.level);
        let mut start = 0;
        let mut last_keys = Vec::with_capacity(self.count);
        for row in self.rows.chunks_exact(bytes) {
            let (first_end, end) = (u32_at(row, 0) as usize, u32_at(row, 4) as usize);
            let from = if row[49] & ONE_KEY != 0 { start } else { first_end };
            last_keys.push(&self.keys[from..end]);
            start = end;
        }
        let last = last_keys.last().expect("a node has a child");
        let prefix_bytes = shared_prefix_bytes(last_keys[0], last);
        let mut raw = Vec::with_capacity(self.raw_bytes() + prefix_bytes);
        for number in [self.count as u32, self.level, prefix_bytes as u32] {
            raw.extend_from_slice(&number.to_le_bytes());
        }
        raw.extend_from_slice(&self.first_block.to_le_bytes());
        raw.extend_from_slice(&self.begin.to_le_bytes());
        raw.extend_from_slice(&last[..prefix_bytes]);
        let heads = last_keys.iter().map(|key| head(&key[prefix_bytes..]));
        heads.for_each(|head| raw.extend_from_slice(&head.to_le_bytes()));
        raw.extend_from_slice(&self.rows);
        raw.extend_from_slice(&self.keys);
        self.rows.clear();
        self.keys.clear();
        self.count = 0;
        raw
    }
}

#[cold]
fn bad_header() -> Error {
    Error::corruption("bad header of a node")
}

#[cold]
fn outside() -> Error {
    Error::corruption("a node does not lie within its table")
}

#[inline]
fn row_bytes(level: u32) -> usize {
    if level == 0 { BLOCK_ROW_BYTES } else { NODE_ROW_BYTES }
}

#[inline]
fn u64_at(row: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*row[at..].first_chunk().expect("within a row"))
}

#[inline]
fn u32_at(row: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*row[at..].first_chunk().expect("within a row"))
}

#[cfg(test)]
mod tests;
