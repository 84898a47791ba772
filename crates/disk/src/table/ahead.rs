//! Reads frames one after the other in larger pieces, for those who walk a whole table.
//!
//! It neither verifies nor caches. A walk that jumps reads single frames.

use super::reader::Table;
use siltdb_base::error::Result;

/// The first piece that holds more than one frame, and the largest, in bytes.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=256 << 10;

/// Bytes of a table that were read ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    bytes: Vec<u8>,
    /// Where they begin in the table.
    start: u64,
    /// What to read at the next miss, if it continues the walk.
    window: u64,
    /// The block that would continue the walk.
    next: usize,
}

impl Ahead {
    /// The frame of the data block at `index`.
    ///
    /// # Errors
    /// What reading that frame fails with; frames behind it do not matter.
    pub(super) fn frame(&mut self, table: &Table, index: usize) -> Result<&[u8]> {
        let info = table.block_info(index);
        let end = info.offset + info.bytes;
        if info.offset < self.start || end > self.start + self.bytes.len() as u64 {
            self.window = match index == self.next && index > 0 {
                true => (self.window * 2).clamp(*WINDOW_BYTES.start(), *WINDOW_BYTES.end()),
                false => 0,
            };
            let data_bytes = table.contents.index.data_bytes();
            let wanted = self.window.min(data_bytes - info.offset).max(info.bytes);
            self.start = info.offset;
            let mut read = table.source.read(info.offset, wanted, &mut self.bytes);
            if read.is_err() && wanted > info.bytes {
                read = table.source.read(info.offset, info.bytes, &mut self.bytes);
            }
            if read.is_err() {
                self.bytes.clear();
            }
            read?;
        }
        self.next = index + 1;
        let start = (info.offset - self.start) as usize;
        Ok(&self.bytes[start..start + info.bytes as usize])
    }
}
