//! Where a reader stands in an index that stays in the file: at a part of it.
//!
//! It walks no entries: the cursor does.

use crate::table::format::index::Index;
use crate::table::read::frame_index::FrameIndex;
use crate::table::read::frame_part::FramePart;
use crate::table::read::reader::{BlockSite, Table};
use siltdb_base::{
    budget::{Charge, Part},
    error::Result,
    id::SequenceNumber,
};

/// A place in such an index: a part of it, in memory that is charged.
#[derive(Debug, Default)]
pub(in crate::table) struct FramePosition {
    part: FramePart,
    charge: Option<Charge>,
}

impl FramePosition {
    /// The number of the block that holds the first entry at or after (`key`, `sequence`), if there
    /// is one. It is at hand then.
    ///
    /// # Errors
    /// Corruption, if a frame is damaged; what reading it fails with.
    pub fn find(
        &mut self,
        table: &Table,
        index: &FrameIndex,
        key: &[u8],
        sequence: SequenceNumber,
    ) -> Result<Option<usize>> {
        let found = self.part.find(table, index, key, sequence);
        self.recharge(table);
        found
    }

    /// Goes to the block of this number: it is at hand then.
    ///
    /// # Errors
    /// As [`FramePosition::find`].
    pub fn go_to_block(&mut self, table: &Table, index: &FrameIndex, number: usize) -> Result<()> {
        if self.part.held(index, number).is_some() {
            return Ok(());
        }
        let gone = self.part.go_to_block(table, index, number);
        self.recharge(table);
        gone
    }

    /// The part at hand, and the position there of the block of this number, if it is in it.
    #[inline]
    pub fn held(&self, index: &FrameIndex, number: usize) -> Option<(&Index, usize)> {
        self.part.held(index, number)
    }

    /// The block of this number, which is at hand, if it may go to the cache.
    #[inline]
    pub fn site(&self, index: &FrameIndex, number: usize) -> Option<BlockSite<'_>> {
        self.part.site(index, number)
    }

    fn recharge(&mut self, table: &Table) {
        let bytes = size_of::<Self>() + self.part.memory_bytes();
        match &mut self.charge {
            Some(charge) if charge.bytes() == bytes => {}
            Some(charge) => charge.resize(bytes),
            None => {
                let budget = table.cache.budget();
                self.charge = Some(Charge::new(budget, Part::Cursors, bytes));
            }
        }
    }
}
