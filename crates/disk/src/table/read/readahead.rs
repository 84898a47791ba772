//! Reads frames one after the other in larger pieces, for walks over a whole table, in either
//! direction.
//!
//! It does not cache. A walk that jumps reads single frames.

use crate::table::format::block_info::BlockInfo;
use crate::table::read::source::{TableSource, check_block, with_scratch};
use crate::{
    block::Block,
    compress::Codec,
    frame::{CHECKSUM_BYTES, Frame, FrameKind, FramePlace},
};
use bytes::Bytes;
use siltdb_base::{
    budget::{Budget, Charge, Part},
    error::Result,
    memory::region::Buffer,
    seeded_fault,
};
use std::{mem, ops::Range, sync::Arc};

/// The first piece that holds more than one frame, in bytes.
const WINDOW_BYTES_MIN: u64 = 16 << 10;

/// The largest piece, in bytes, for a walk over one table alone.
pub(in crate::table) const WINDOW_BYTES: u64 = 256 << 10;

/// The same for one of many: a merge has a window on each of its inputs.
pub(in crate::table) const WINDOW_BYTES_OF_MANY: u64 = 64 << 10;

/// What a cursor over a table takes beside its block and what it has read ahead, about.
const CURSOR_BYTES: usize = 2 << 10;

/// Bytes of anything behind a piece, so that the block of its last frame can stay where it is, too.
const BEHIND_BYTES: usize = Block::BYTES_BEHIND.saturating_sub(CHECKSUM_BYTES);

/// Bytes of a table that were read ahead.
#[derive(Debug)]
pub(in crate::table) struct Readahead {
    window_max: u64,
    /// A piece of the table and [`BEHIND_BYTES`], shared with blocks that lie in it; or nothing.
    bytes: Bytes,
    /// Where they begin in the table.
    start: u64,
    /// What to read at the next miss, if it continues the walk.
    window: u64,
    /// The block asked for last.
    last: Option<usize>,
    /// For the bytes; none for those of jobs, which charge them by themselves.
    charge: Option<Charge>,
}

impl Readahead {
    /// Nothing is read; pieces will have at most `window_max` bytes, or one frame.
    pub(in crate::table) fn new(window_max: u64) -> Self {
        Self { window_max, bytes: Bytes::new(), start: 0, window: 0, last: None, charge: None }
    }

    /// Charges what was read ahead, and a block of `block_bytes` decoded from it, to
    /// [`Part::Cursors`] of `budget`. While cursors take more than their share, it reads smaller
    /// pieces.
    pub(in crate::table) fn charge_to(&mut self, budget: &Arc<Budget>, block_bytes: usize) {
        if seeded_fault!("pins_not_charged") {
            return;
        }
        let bytes = self.bytes.len() + block_bytes + CURSOR_BYTES;
        match &mut self.charge {
            Some(charge) if charge.bytes() == bytes => {}
            Some(charge) => charge.resize(bytes),
            None => self.charge = Some(Charge::new(budget, Part::Cursors, bytes)),
        }
        if budget.used(Part::Cursors) > budget.readahead_max() {
            self.window = 0;
        }
    }

    /// The frame of the data block at `index` of the table at `source`, whose data frames take
    /// `data_bytes`. `info` is what its index knows of the block.
    ///
    /// # Errors
    /// What reading that frame fails with; frames ahead of it do not matter.
    pub(in crate::table) fn frame(
        &mut self,
        source: &TableSource,
        data_bytes: u64,
        index: usize,
        info: &BlockInfo<'_>,
    ) -> Result<&[u8]> {
        let place = self.fetch(source, data_bytes, index, info)?;
        Ok(&self.bytes[place])
    }

    /// The data block of the same frame, verified. It lies where it was read, unless it is
    /// compressed. It then keeps the whole piece in memory, so the caller should soon drop it.
    ///
    /// # Errors
    /// Corruption, if anything is wrong with it; as [`Readahead::frame`].
    pub(in crate::table) fn block(
        &mut self,
        source: &TableSource,
        data_bytes: u64,
        index: usize,
        info: &BlockInfo<'_>,
    ) -> Result<Block> {
        let own = self.fetch(source, data_bytes, index, info)?;
        let place = FramePlace { table: source.uid, offset: info.offset };
        Frame::open(&self.bytes[own.clone()], FrameKind::Data, place)
            .and_then(|frame| match frame.codec {
                Codec::Raw => {
                    let Range { start, end } = frame.payload_place(own.end);
                    let raw = self.bytes.slice(start..end + Block::BYTES_BEHIND);
                    Block::map(raw, Buffer::copy_on_heap)
                }
                codec => {
                    let dictionary = source.dictionary_for(Some(codec))?;
                    with_scratch(|scratch| {
                        Block::parse(frame.decode(dictionary.as_deref(), &mut scratch.raw)?)
                    })
                }
            })
            .and_then(|block| check_block(&block, info).map(|()| block))
            .map_err(|error| source.locate(error, info.offset))
    }

    /// Has the frame in `bytes`, and says where it lies there.
    fn fetch(
        &mut self,
        source: &TableSource,
        data_bytes: u64,
        index: usize,
        info: &BlockInfo<'_>,
    ) -> Result<Range<usize>> {
        let own = info.offset..info.offset + info.bytes;
        let piece_bytes = self.bytes.len().saturating_sub(BEHIND_BYTES);
        if own.start < self.start || own.end > self.start + piece_bytes as u64 {
            let piece = self.piece(&own, data_bytes, index);
            let mut read = self.read(source, piece.clone());
            if read.is_err() && piece != own {
                read = self.read(source, own.clone());
            }
            read?;
        }
        self.last = Some(index);
        let start = (own.start - self.start) as usize;
        Ok(start..start + info.bytes as usize)
    }

    /// What to read for the frame at `own`: if the walk goes on, also what lies ahead of it.
    fn piece(&mut self, own: &Range<u64>, data_bytes: u64, index: usize) -> Range<u64> {
        let goes_on = self.last.and_then(|last| last.checked_add(1)) == Some(index);
        let goes_back = self.last.is_some() && self.last == index.checked_add(1);
        self.window = match goes_on || goes_back {
            true => (self.window * 2).clamp(WINDOW_BYTES_MIN, self.window_max),
            false => 0,
        };
        let piece = if goes_back {
            own.start.min(own.end.saturating_sub(self.window))..own.end
        } else {
            own.start..own.end.max(data_bytes.min(own.start + self.window))
        };
        let has_own = piece.start <= own.start && own.end <= piece.end;
        assert!(has_own, "{piece:?} is read for the frame at {own:?}");
        piece
    }

    fn read(&mut self, source: &TableSource, piece: Range<u64>) -> Result<()> {
        self.start = piece.start;
        // The memory of the last piece, unless a block still lies there.
        let mut bytes = mem::take(&mut self.bytes).try_into_mut().unwrap_or_default();
        let piece_bytes = source.memory_bytes(&piece)?;
        bytes.resize(piece_bytes + BEHIND_BYTES, 0);
        source.read_into(piece.start, &mut bytes[..piece_bytes])?;
        self.bytes = bytes.freeze();
        Ok(())
    }
}
