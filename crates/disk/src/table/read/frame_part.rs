//! Some blocks of an index that stays in the file, decoded: a group of a frame that the cache has,
//! or a whole frame that it has not.
//!
//! It reads no blocks.

use crate::cache::Cached;
use crate::table::format::index::Index;
use crate::table::read::frame_index::FrameIndex;
use crate::table::read::loaded_frame::{GROUP_BLOCKS, LoadedFrame};
use crate::table::read::reader::{BlockSite, Table};
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
};
use std::{cell::Cell, ops::Range, sync::Arc};

/// Memory of a part that a thread keeps between lookups, in bytes: that of a frame of short keys.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Some blocks of such an index.
#[derive(Debug, Default)]
pub(in crate::table) struct FramePart {
    /// The frame that they belong to.
    at: Option<usize>,
    /// That frame, if it came from the cache or went there.
    loaded: Option<Arc<Cached<LoadedFrame>>>,
    /// The groups of it that are decoded.
    groups: Range<usize>,
    blocks: Index,
}

/// Lends a part to a lookup.
pub(in crate::table) fn with_part<R>(work: impl FnOnce(&mut FramePart) -> R) -> R {
    thread_local! {
        static PART: Cell<FramePart> = Cell::default();
    }
    let mut part = PART.take();
    let result = work(&mut part);
    if part.memory_bytes() <= KEPT_BYTES_MAX {
        // It belongs to a table that may be closed.
        part.leave();
        PART.set(part);
    }
    result
}

impl FramePart {
    /// Bytes of memory that it takes, but for what is in the cache.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes()
    }

    /// Forgets its blocks; their memory stays.
    pub fn leave(&mut self) {
        (self.at, self.loaded, self.groups) = (None, None, 0..0);
    }

    /// The number of the block that holds the first entry at or after (`key`, `sequence`), if there
    /// is one. It is one of these blocks then.
    ///
    /// # Errors
    /// Corruption, if the frame is damaged; what reading it fails with.
    pub fn find(
        &mut self,
        table: &Table,
        index: &FrameIndex,
        key: &[u8],
        sequence: SequenceNumber,
    ) -> Result<Option<usize>> {
        let at = index.reaching(key, sequence);
        if at == index.frames().len() {
            return Ok(None);
        }
        self.go_to(table, index, at, |frame| {
            let group = frame.reaching(key, sequence);
            group..group + 1
        })?;
        // The last of these blocks is at or after the place: by (2) of the index a frame ends as it
        // did when its last key was noted.
        let position = self.blocks.lower_bound_within(0..self.blocks.count(), key, sequence);
        Ok(Some(self.first(index) + position))
    }

    /// Goes to the block of this number: it is one of these blocks then.
    ///
    /// # Errors
    /// As [`FramePart::find`].
    pub fn go_to_block(&mut self, table: &Table, index: &FrameIndex, number: usize) -> Result<()> {
        let behind = index.frames().partition_point(|frame| frame.first_block <= number);
        let at = behind.checked_sub(1).ok_or_else(fewer_blocks)?;
        if self.held(index, number).is_none() {
            let group = (number - index.frames()[at].first_block) / GROUP_BLOCKS;
            self.go_to(table, index, at, |_| group..group + 1)?;
        }
        Ok(())
    }

    /// All blocks of the frame `at`.
    ///
    /// # Errors
    /// As [`FramePart::find`].
    pub fn whole(&mut self, table: &Table, index: &FrameIndex, at: usize) -> Result<&Index> {
        self.go_to(table, index, at, |frame| 0..frame.group_count())?;
        Ok(&self.blocks)
    }

    /// These blocks, and the position of the one of this number, if it is one of them.
    #[inline]
    pub fn held(&self, index: &FrameIndex, number: usize) -> Option<(&Index, usize)> {
        self.at?;
        let position = number.checked_sub(self.first(index))?;
        (position < self.blocks.count()).then_some((&self.blocks, position))
    }

    /// The block of this number, which is one of these, if it may go to the cache.
    #[inline]
    pub fn site(&self, index: &FrameIndex, number: usize) -> Option<BlockSite<'_>> {
        let (blocks, position) = self.held(index, number)?;
        let frame = self.loaded.as_deref()?;
        let slot = number - index.frames()[self.at?].first_block;
        Some(BlockSite { slots: &frame.blocks, slot, number, info: blocks.info(position) })
    }

    /// The number of the first of these blocks.
    #[inline]
    fn first(&self, index: &FrameIndex) -> usize {
        let frame = self.at.map_or(0, |at| index.frames()[at].first_block);
        frame + self.groups.start * GROUP_BLOCKS
    }

    /// Goes to the frame `at`, and decodes those `groups` of it at least.
    fn go_to(
        &mut self,
        table: &Table,
        index: &FrameIndex,
        at: usize,
        groups: impl FnOnce(&LoadedFrame) -> Range<usize>,
    ) -> Result<()> {
        if self.at != Some(at) {
            self.leave();
            self.loaded = index.cached(at);
            if self.loaded.is_none() {
                self.loaded = index.load(&table.source, &table.cache, at, &mut self.blocks)?;
                let count = self.blocks.count().div_ceil(GROUP_BLOCKS);
                (self.at, self.groups) = (Some(at), 0..count);
                return Ok(());
            }
        }
        let Some(frame) = &self.loaded else { return Ok(()) };
        let groups = groups(frame);
        if self.at == Some(at) && self.groups.start <= groups.start && groups.end <= self.groups.end
        {
            return Ok(());
        }
        self.at = None;
        if groups.end > frame.group_count() {
            return Err(fewer_blocks());
        }
        frame.read(groups.clone(), index.around(at), &mut self.blocks)?;
        (self.at, self.groups) = (Some(at), groups);
        Ok(())
    }
}

/// The error for a block that an index no longer leads to.
#[cold]
pub(in crate::table) fn fewer_blocks() -> Error {
    Error::corruption("an index has fewer blocks than before")
}
