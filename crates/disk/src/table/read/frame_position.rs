//! Where a reader stands in an index that stays in the file: at one frame of it.
//!
//! It walks no entries: the cursor does.

use crate::table::format::index::Index;
use crate::table::read::frame_index::FrameIndex;
use crate::table::read::reader::Table;
use siltdb_base::{
    budget::{Charge, Part},
    error::{Error, Result},
    id::SequenceNumber,
};

/// A place in such an index: one frame of it, in memory.
#[derive(Debug, Default)]
pub(in crate::table) struct FramePosition {
    /// The frame at hand.
    at: Option<usize>,
    part: Index,
    charge: Option<Charge>,
}

impl FramePosition {
    /// The number of the block that holds the first entry at or after (`key`, `sequence`), if there
    /// is one. Its frame is at hand then.
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
        let Some(frame) = index.frames().get(at) else { return Ok(None) };
        self.go_to(table, index, at)?;
        // The last block of the frame is at or after the place: by (2) of the index it ends as it
        // did when its last key was noted.
        let number = self.part.lower_bound_within(0..self.part.count(), key, sequence);
        Ok(Some(frame.first_block + number))
    }

    /// The frame with the block of this number, and the position of the block there.
    ///
    /// # Errors
    /// As [`FramePosition::find`].
    pub fn with_block(
        &mut self,
        table: &Table,
        index: &FrameIndex,
        number: usize,
    ) -> Result<(&Index, usize)> {
        let behind = index.frames().partition_point(|frame| frame.first_block <= number);
        let Some(at) = behind.checked_sub(1) else {
            return Err(Error::corruption("an index has fewer blocks than before"));
        };
        self.go_to(table, index, at)?;
        Ok((&self.part, number - index.frames()[at].first_block))
    }

    /// The frame at hand, and the position there of the block of this number, if it is in it.
    #[inline]
    pub fn held(&self, index: &FrameIndex, number: usize) -> Option<(&Index, usize)> {
        let position = number.checked_sub(index.frames()[self.at?].first_block)?;
        (position < self.part.count()).then_some((&self.part, position))
    }

    /// The part of the index with the frame `at`.
    ///
    /// # Errors
    /// As [`FramePosition::find`].
    pub fn go_to(&mut self, table: &Table, index: &FrameIndex, at: usize) -> Result<&Index> {
        if self.at != Some(at) {
            if self.at.take().is_none() {
                self.part = Index::with_capacity(index.frames()[at].blocks);
            }
            index.read_part(&table.source, at, &mut self.part)?;
            self.at = Some(at);
            let bytes = size_of::<Self>() + self.part.memory_bytes();
            match &mut self.charge {
                Some(charge) => charge.resize(bytes),
                None => {
                    let budget = table.cache.budget();
                    self.charge = Some(Charge::new(budget, Part::Cursors, bytes));
                }
            }
        }
        Ok(&self.part)
    }
}
