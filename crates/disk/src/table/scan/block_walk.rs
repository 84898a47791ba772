//! Goes through the blocks of a table in order, with one frame of its index, or one of the lowest
//! nodes of its tree, in memory at a time.
//!
//! It reads no blocks. It is for jobs that read a table once: what the walk has passed is let go
//! again.

use crate::frame::FrameKind;
use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::format::node::NodeView;
use crate::table::scan::table_scan::TableScan;
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    key::SortKey,
};
use std::sync::Arc;

/// A position among the blocks of a table; it can be behind the last.
///
/// Going on costs a read for each frame of the index, of about 16 KiB; going back before the frame
/// at hand begins anew. After an error it is behind the last block.
#[derive(Debug)]
pub struct BlockWalk {
    table: Arc<TableScan>,
    /// The frame of the index at hand; without blocks: behind the last.
    part: Index,
    /// Where it stands in `part`.
    at: usize,
    /// Blocks of the frames before it.
    blocks_before: usize,
    /// Entries of them.
    entries_before: u64,
    /// The next frame, and where it lies.
    next_frame: usize,
    next_frame_offset: u64,
    /// The last key of the frames before, and the sequence number it ends with, if there is one.
    last_key_before: Vec<u8>,
    last_sequence_before: Option<SequenceNumber>,
}

impl TableScan {
    /// A walk over the blocks, at the first one.
    ///
    /// # Errors
    /// Corruption, if the index is damaged; what reading fails with.
    pub fn blocks(self: &Arc<Self>) -> Result<BlockWalk> {
        let mut blocks = BlockWalk {
            table: Arc::clone(self),
            part: Index::default(),
            at: 0,
            blocks_before: 0,
            entries_before: 0,
            next_frame: 0,
            next_frame_offset: 0,
            last_key_before: Vec::new(),
            last_sequence_before: None,
        };
        blocks.rewind()?;
        Ok(blocks)
    }
}

impl BlockWalk {
    /// The table that is walked.
    #[must_use]
    pub fn table(&self) -> &Arc<TableScan> {
        &self.table
    }

    /// What the index knows of the block; `None` behind the last.
    #[inline]
    #[must_use]
    pub fn block(&self) -> Option<BlockInfo<'_>> {
        (self.at < self.part.count()).then(|| self.part.info(self.at))
    }

    /// The number of the block, from 0; behind the last, that of all.
    #[inline]
    #[must_use]
    pub fn number(&self) -> usize {
        self.blocks_before + self.at
    }

    /// Whether the block begins with the key that the one before ends with.
    #[must_use]
    pub fn continues(&self) -> bool {
        self.at < self.part.count() && self.part.continues(self.at)
    }

    /// Whether the block holds only `Put`, and of each of its keys the table has one entry. Not
    /// known of the last of a frame, which may be plain and is not called so.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let is_seen = self.at + 1 < self.part.count() || self.is_last_frame();
        is_seen && self.at < self.part.count() && self.part.is_plain(self.at)
    }

    fn is_last_frame(&self) -> bool {
        self.next_frame == self.table.properties.lowest_index_bytes().len()
    }

    /// Goes to the next block.
    ///
    /// # Errors
    /// Corruption, if the index is damaged or not what properties and summary say; what reading
    /// fails with.
    pub fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at < self.part.count() { Ok(()) } else { self.read_on() }
    }

    /// Goes to the first block whose last entry is at or after (`key`, `sequence`).
    ///
    /// # Errors
    /// The errors of [`BlockWalk::advance`].
    pub fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        // Versions of a key can end one frame and begin the next.
        let is_behind = self.last_sequence_before.is_some_and(|last| {
            SortKey::new(&self.last_key_before, last) >= SortKey::new(key, sequence)
        });
        if is_behind || self.block().is_none() {
            self.rewind()?;
        }
        loop {
            let count = self.part.count();
            self.at = self.part.lower_bound_within(0..count, key, sequence);
            if self.at < count || count == 0 {
                return Ok(());
            }
            self.read_on()?;
        }
    }

    /// Goes to the block of this number, or behind the last.
    ///
    /// # Errors
    /// The errors of [`BlockWalk::advance`].
    pub fn go_to(&mut self, number: usize) -> Result<()> {
        if number < self.blocks_before || self.block().is_none() {
            self.rewind()?;
        }
        while self.part.count() > 0 && number >= self.blocks_before + self.part.count() {
            self.read_on()?;
        }
        self.at = (number - self.blocks_before).min(self.part.count());
        Ok(())
    }

    fn rewind(&mut self) -> Result<()> {
        self.part.begin_at(0);
        (self.blocks_before, self.entries_before) = (0, 0);
        self.next_frame = 0;
        self.next_frame_offset = self.table.properties.index_offset();
        self.last_sequence_before = None;
        self.read_on()
    }

    /// Goes to the first block of the next frame that has any.
    fn read_on(&mut self) -> Result<()> {
        let read = self.try_read_on();
        if read.is_err() {
            self.part.begin_at(0);
            self.at = 0;
        }
        read
    }

    fn try_read_on(&mut self) -> Result<()> {
        loop {
            let (count, offset) = (self.part.count(), self.part.data_bytes());
            self.blocks_before += count;
            self.entries_before += self.part.entries();
            self.at = 0;
            if let Some(last) = count.checked_sub(1) {
                let info = self.part.info(last);
                self.last_key_before.clear();
                self.last_key_before.extend_from_slice(info.last_key);
                self.last_sequence_before = Some(info.last_sequence);
            }
            self.part.begin_at(offset);
            let properties = &self.table.properties;
            let Some(&bytes) = properties.lowest_index_bytes().get(self.next_frame) else {
                return self.check_end(offset);
            };
            let (part, data_bytes) = (&mut self.part, properties.data_bytes);
            let before =
                (self.last_sequence_before).map(|last| SortKey::new(&self.last_key_before, last));
            let kind = properties.index_frame_kind();
            let read = |raw: &[u8]| {
                match kind {
                    FrameKind::Node => {
                        let node = NodeView::at(raw)?;
                        node.check_lowest()?;
                        part.read_node(&node, data_bytes)?;
                    }
                    _ => part.read_frame(raw, data_bytes)?,
                }
                match before {
                    Some(before) if part.count() > 0 => part.come_after(before),
                    _ => Ok(()),
                }
            };
            self.table.source.read_frame(kind, self.next_frame_offset, bytes, read)?;
            self.next_frame += 1;
            self.next_frame_offset += bytes;
            if self.part.count() > 0 {
                return Ok(());
            }
        }
    }

    /// Compares the counts of blocks and entries, and the end of the blocks, `data_end`, with the
    /// properties.
    fn check_end(&self, data_end: u64) -> Result<()> {
        let properties = &self.table.properties;
        let agrees = self.blocks_before as u64 == properties.data_frames
            && data_end == properties.data_bytes
            && self.entries_before == properties.meta.entries;
        if agrees {
            return Ok(());
        }
        let error = Error::corruption("the parts of a table contradict each other");
        Err(self.table.source.locate(error, properties.index_offset()))
    }
}
