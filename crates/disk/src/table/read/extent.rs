//! About how much of a table lies in a range of keys, as its index tells.
//!
//! It reads no blocks.

use crate::table::read::reader::Table;
use siltdb_base::id::SequenceNumber;

/// About how much lies in a range of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Entries in the range.
    pub entries: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

impl Table {
    /// About how much lies from `start` on, before `end`. Of a block that reaches beyond the range
    /// a half counts.
    #[must_use]
    pub fn extent(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Extent {
        let index = &self.contents.index;
        let first = start.map_or(Some(0), |start| index.find(start, SequenceNumber::MAX));
        let first = first.unwrap_or(self.block_count());
        let mut extent = Extent::default();
        for number in first..self.block_count() {
            let info = self.block_info(number);
            if end.is_some_and(|end| info.first_key >= end) {
                break;
            }
            let reaches_beyond = start.is_some_and(|start| info.first_key < start)
                || end.is_some_and(|end| info.last_key >= end);
            let parts = if reaches_beyond { 2 } else { 1 };
            extent.entries += info.entries.div_ceil(parts);
            extent.bytes += info.bytes.div_ceil(parts);
        }
        extent
    }
}
