//! About how much of a table lies in a range of keys, as its index tells.
//!
//! It reads no blocks.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::read::contents::TableIndex;
use crate::table::read::frame_part::FramePart;
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
    /// Corruption, if a node of a B+tree or a frame of an index is damaged that lies at an end of
    /// the range and is not in memory; what reading it fails with.
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
        let add_blocks = |index: &Index, first: usize, extent: &mut Extent| {
            for info in (first..index.count()).map(|number| index.info(number)) {
                match lies(&info) {
                    Lies::Before => {}
                    Lies::Within => extent.add(info.entries, info.bytes),
                    Lies::Across => extent.add_half(&info),
                    Lies::Behind => break,
                }
            }
        };
        match &self.contents.index {
            TableIndex::Whole(index) => {
                let first = start.map_or(Some(0), |start| index.find(start, SequenceNumber::MAX));
                add_blocks(index, first.unwrap_or(index.count()), &mut extent);
            }
            TableIndex::Frames(index) => {
                let mut part = FramePart::default();
                let first = start.map_or(0, |start| index.reaching(start, SequenceNumber::MAX));
                for (at, frame) in index.frames().iter().enumerate().skip(first) {
                    let begins_within = at > first || start.is_none();
                    let ends_within = end.is_none_or(|end| &frame.last_key[..] < end);
                    if begins_within && ends_within {
                        extent.add(frame.entries, index.data_bytes_of(at));
                        continue;
                    }
                    add_blocks(part.whole(self, index, at)?, 0, &mut extent);
                    if !ends_within {
                        break;
                    }
                }
            }
            TableIndex::Tree(tree) => {
                tree.visit(&self.source, &self.cache, &mut |info, level| match lies(info) {
                    Lies::Before | Lies::Behind => Visit::Past,
                    Lies::Across if level > 0 => Visit::Down,
                    Lies::Across => {
                        extent.add_half(info);
                        Visit::Past
                    }
                    Lies::Within => {
                        extent.add(info.entries, info.bytes);
                        Visit::Past
                    }
                })?;
            }
        }
        Ok(extent)
    }
}

impl Extent {
    fn add(&mut self, entries: u64, bytes: u64) {
        self.entries += entries;
        self.bytes += bytes;
    }

    fn add_half(&mut self, info: &BlockInfo<'_>) {
        self.add(info.entries.div_ceil(2), info.bytes.div_ceil(2));
    }
}
