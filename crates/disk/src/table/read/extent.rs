//! About how much of a table lies in a range of keys, as its index tells.
//!
//! It reads no blocks.

use crate::table::format::block_info::BlockInfo;
use crate::table::read::contents::TableIndex;
use crate::table::read::reader::Table;
use crate::table::read::tree::Visit;
use siltdb_base::{error::Result, id::SequenceNumber};

/// About how much lies in a range of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Entries in the range.
    pub entries: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

/// How blocks that follow each other lie to a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lies {
    Before,
    Within,
    /// Beyond one of its ends, too.
    Across,
    Behind,
}

impl Table {
    /// About how much lies from `start` on, before `end`. Of a block that reaches beyond the range
    /// a half counts.
    ///
    /// # Errors
    /// Of a B+tree table: corruption, if a node at an end of the range is damaged; what reading it
    /// fails with.
    pub fn extent(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<Extent> {
        let lies = |info: &BlockInfo<'_>| {
            if start.is_some_and(|start| info.last_key < start) {
                Lies::Before
            } else if end.is_some_and(|end| info.first_key >= end) {
                Lies::Behind
            } else if start.is_some_and(|start| info.first_key < start)
                || end.is_some_and(|end| info.last_key >= end)
            {
                Lies::Across
            } else {
                Lies::Within
            }
        };
        let mut extent = Extent::default();
        let mut add = |info: &BlockInfo<'_>, parts: u64| {
            extent.entries += info.entries.div_ceil(parts);
            extent.bytes += info.bytes.div_ceil(parts);
        };
        match &self.contents.index {
            TableIndex::Whole(index) => {
                let first = start.map_or(Some(0), |start| index.find(start, SequenceNumber::MAX));
                for number in first.unwrap_or(index.count())..index.count() {
                    let info = index.info(number);
                    match lies(&info) {
                        Lies::Before => {}
                        Lies::Within => add(&info, 1),
                        Lies::Across => add(&info, 2),
                        Lies::Behind => break,
                    }
                }
            }
            TableIndex::Tree(tree) => {
                tree.visit(&self.source, &self.cache, &mut |info, level| match lies(info) {
                    Lies::Before | Lies::Behind => Visit::Past,
                    Lies::Across if level > 0 => Visit::Down,
                    lies => {
                        add(info, if lies == Lies::Within { 1 } else { 2 });
                        Visit::Past
                    }
                })?;
            }
        }
        Ok(extent)
    }
}
