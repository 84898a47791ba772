//! Walks the point entries of a table that is read once.
//!
//! It reads past the cache and leaves nothing in it. Walks go forward; going back is there, and
//! costs a search.

use crate::block::{Block, Located};
use crate::table::read::cursor::set_suffix;
use crate::table::read::readahead::{Readahead, WINDOW_BYTES_OF_MANY};
use crate::table::scan::block_walk::BlockWalk;
use crate::table::scan::table_scan::TableScan;
use siltdb_base::{
    cursor::{EntryCursor, Stretch, StretchContent},
    error::Result,
    id::SequenceNumber,
    key::Entry,
};
use std::sync::Arc;

/// A position among the point entries of a table. Holds the table, one frame of its index, and one
/// block.
///
/// # Invariants
/// 1. `located` is an entry of `block`, at `entry_index`, and `key` its key.
/// 2. If there is a block, it is the one of number `block_number`, and `key` begins with its
///    prefix. If there is an entry, `blocks` stands at that block.
#[derive(Debug)]
pub struct ScanCursor {
    blocks: BlockWalk,
    block: Option<Block>,
    block_number: usize,
    entry_index: usize,
    located: Option<Located>,
    key: Vec<u8>,
    ahead: Readahead,
}

impl TableScan {
    /// A cursor that stands nowhere yet.
    ///
    /// # Errors
    /// Corruption, if the index is damaged; what reading fails with.
    pub fn cursor(self: &Arc<Self>) -> Result<ScanCursor> {
        Ok(ScanCursor {
            blocks: self.blocks()?,
            block: None,
            block_number: 0,
            entry_index: 0,
            located: None,
            key: Vec::new(),
            ahead: Readahead::new(WINDOW_BYTES_OF_MANY),
        })
    }
}

impl ScanCursor {
    /// Stands on the entry that `choose` picks in the block where the walk stands. It stands
    /// nowhere if the block has none there, or the walk is behind the last block.
    #[inline]
    fn enter(&mut self, choose: impl FnOnce(&Block) -> usize) -> Result<()> {
        self.located = None;
        if self.block.is_none() || self.block_number != self.blocks.number() {
            self.block = None;
            self.block = self.read_block()?;
            self.block_number = self.blocks.number();
            self.key.clear();
            self.key.extend_from_slice(self.block.as_ref().map_or(&[], Block::prefix));
        }
        if let Some(block) = &self.block {
            self.entry_index = choose(block);
            self.stand();
        }
        Ok(())
    }

    /// Stands on the entry at `entry_index`; nowhere, if the block has none there.
    #[inline]
    fn stand(&mut self) {
        let index = self.entry_index;
        self.located = None;
        let Some(block) = self.block.as_ref().filter(|block| index < block.count()) else { return };
        let located = block.locate(index);
        set_suffix(&mut self.key, block.prefix().len(), block.suffix_at(&located));
        self.located = Some(located);
    }

    /// Reads and verifies the block that the walk stands at, if there is one.
    fn read_block(&mut self) -> Result<Option<Block>> {
        let Some(info) = self.blocks.block() else { return Ok(None) };
        let TableScan { source, properties, .. } = &**self.blocks.table();
        self.ahead.block(source, properties.data_bytes, self.blocks.number(), &info).map(Some)
    }

    /// Goes to the last entry of the block before the one of this number.
    fn enter_before(&mut self, number: usize) -> Result<()> {
        self.located = None;
        let Some(before) = number.checked_sub(1) else { return Ok(()) };
        self.blocks.go_to(before)?;
        self.enter(|block| block.count() - 1)
    }
}

impl EntryCursor for ScanCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let (located, block) = (self.located.as_ref()?, self.block.as_ref()?);
        Some(Entry {
            key: &self.key,
            sequence: located.sequence,
            kind: located.kind,
            value: block.value_at(located),
        })
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.located = None;
        self.blocks.go_to(0)?;
        self.enter(|_| 0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.located = None;
        self.blocks.go_to(usize::MAX)?;
        self.enter_before(self.blocks.number())
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.located = None;
        self.blocks.seek(key, sequence)?;
        // The last entry of the block is at or after the key, so it is an entry of the block.
        self.enter(|block| block.lower_bound(key, sequence))
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.seek(key, sequence)?;
        match &self.located {
            Some(_) => self.prev(),
            None => self.seek_to_last(),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.located.is_none() {
            return Ok(());
        }
        self.entry_index += 1;
        self.stand();
        if self.located.is_some() {
            return Ok(());
        }
        self.blocks.advance()?;
        self.enter(|_| 0)
    }

    fn prev(&mut self) -> Result<()> {
        if self.located.is_none() {
            return Ok(());
        }
        match self.entry_index.checked_sub(1) {
            Some(before) => {
                self.entry_index = before;
                self.stand();
                Ok(())
            }
            None => self.enter_before(self.block_number),
        }
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        let (_, block) = (self.located.as_ref()?, self.block.as_ref()?);
        let info = self.blocks.block()?;
        Some(Stretch {
            first_key: info.first_key,
            last_key: info.last_key,
            before: self.entry_index,
            after: block.count() - 1 - self.entry_index,
            sequence_max: info.sequence_max,
            content: match self.blocks.is_plain() {
                true => StretchContent::Plain,
                false => StretchContent::Any,
            },
        })
    }
}
