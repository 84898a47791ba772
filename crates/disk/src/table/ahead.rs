//! Reads frames one after the other in larger pieces, for those who walk a whole table, in either
//! direction.
//!
//! It neither verifies nor caches. A walk that jumps reads single frames.

use super::{index::BlockInfo, source::Source};
use siltdb_base::error::Result;
use std::ops::Range;

/// The first piece that holds more than one frame, in bytes.
const WINDOW_BYTES_MIN: u64 = 16 << 10;

/// The largest piece, in bytes, for one who walks alone.
pub(super) const WINDOW_BYTES: u64 = 256 << 10;

/// The same for one of many: a merge has a window on each of its inputs.
pub(super) const WINDOW_BYTES_OF_MANY: u64 = 64 << 10;

/// Bytes of a table that were read ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    window_max: u64,
    bytes: Vec<u8>,
    /// Where they begin in the table.
    start: u64,
    /// What to read at the next miss, if it continues the walk.
    window: u64,
    /// The block asked for last.
    last: Option<usize>,
}

impl Ahead {
    /// Nothing is read; pieces will have at most `window_max` bytes, or one frame.
    pub(super) fn new(window_max: u64) -> Self {
        Self { window_max, bytes: Vec::new(), start: 0, window: 0, last: None }
    }

    /// The frame of the data block at `index` of the table at `source`, whose data frames take
    /// `data_bytes`; `info` is what its index knows of the block.
    ///
    /// # Errors
    /// What reading that frame fails with; frames ahead of it do not matter.
    pub(super) fn frame(
        &mut self,
        source: &Source,
        data_bytes: u64,
        index: usize,
        info: &BlockInfo<'_>,
    ) -> Result<&[u8]> {
        let own = info.offset..info.offset + info.bytes;
        if own.start < self.start || own.end > self.start + self.bytes.len() as u64 {
            let piece = self.piece(&own, data_bytes, index);
            let mut read = self.read(source, piece.clone());
            if read.is_err() && piece != own {
                read = self.read(source, own.clone());
            }
            read?;
        }
        self.last = Some(index);
        let start = (own.start - self.start) as usize;
        Ok(&self.bytes[start..start + info.bytes as usize])
    }

    /// What to read for the frame at `own`: if the walk goes on, also what lies ahead of it.
    fn piece(&mut self, own: &Range<u64>, data_bytes: u64, index: usize) -> Range<u64> {
        let goes_on = self.last.and_then(|last| last.checked_add(1)) == Some(index);
        let goes_back = self.last.is_some() && self.last == index.checked_add(1);
        self.window = match goes_on || goes_back {
            true => (self.window * 2).clamp(WINDOW_BYTES_MIN, self.window_max),
            false => 0,
        };
        if goes_back {
            own.start.min(own.end.saturating_sub(self.window))..own.end
        } else {
            own.start..own.end.max(data_bytes.min(own.start + self.window))
        }
    }

    fn read(&mut self, source: &Source, piece: Range<u64>) -> Result<()> {
        self.start = piece.start;
        let read = source.read(piece.start, piece.end - piece.start, &mut self.bytes);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }
}
