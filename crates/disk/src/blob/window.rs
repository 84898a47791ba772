//! A window on a blob file: values that a walk meets in the order of the file are read in larger
//! pieces, in either direction.
//!
//! A piece is a guess. What it holds beyond the value that was asked for may be anything, as bytes
//! that a commit writes just now. Each value is verified when it is asked for, and read again alone
//! if the piece has it wrong.
//!
//! # Seeded fault
//! `blob_piece_unverified`: a value is taken from a piece as it is there.

use crate::blob::{check_length, checksum_at, decompressed, read_value};
use siltdb_base::{
    budget::{Budget, Charge, Part},
    checksum::crc32c_append,
    codec::resize,
    error::Result,
    fs::File,
    id::{BlobUid, FileNumber},
    key::BlobPointer,
    seeded_fault,
    slice::Slice,
};
use std::{ops::Range, sync::Arc};

/// Values that follow each other before a piece is read for more than one.
const IN_ORDER_MIN: u32 = 2;

/// The first piece, in bytes.
const PIECE_BYTES_MIN: u64 = 16 << 10;

/// The largest piece, in bytes.
const PIECE_BYTES_MAX: u64 = 256 << 10;

/// The first piece holds at least so many values as long as the one that it is read for. Longer
/// values are read one by one.
const VALUES_MIN: u64 = 4;

/// Bytes between two values that a walk passes over without a jump.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// The blob file that a walk reads, as far as the window needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct WindowFile<'f> {
    /// The file, open for reading.
    pub file: &'f dyn File,
    /// Its number.
    pub number: FileNumber,
    /// The uid in its header.
    pub uid: BlobUid,
    /// About where it ends.
    pub end: u64,
}

/// A piece of a blob file, and which values a walk has met.
#[derive(Debug)]
pub struct BlobWindow {
    budget: Arc<Budget>,
    /// The file of the value that was read last.
    number: FileNumber,
    /// Where that lies in its file.
    last: Range<u64>,
    /// How often a value followed the one before, in a row.
    in_order: u32,
    piece: Vec<u8>,
    /// Where the piece begins in its file.
    start: u64,
    /// Bytes to read at the next miss.
    next_bytes: u64,
    charge: Option<Charge>,
}

impl BlobWindow {
    /// Nothing is read. Pieces will be charged to [`Part::Cursors`] of `budget`.
    #[must_use]
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            number: FileNumber(0),
            last: 0..0,
            in_order: 0,
            piece: Vec::new(),
            start: 0,
            next_bytes: PIECE_BYTES_MIN,
            charge: None,
        }
    }

    /// Reads the value that `pointer` leads to, from the piece if it has it.
    ///
    /// # Errors
    /// As [`read_value`]; bytes beyond the value do not matter.
    pub fn read(&mut self, file: &WindowFile<'_>, pointer: &BlobPointer) -> Result<Slice> {
        check_length(pointer)?;
        let bytes = u64::from(pointer.stored_bytes);
        let own = pointer.offset..pointer.offset.saturating_add(bytes);
        if self.number != file.number {
            (self.number, self.last, self.in_order) = (file.number, 0..0, 0);
            self.piece.clear();
        }
        let before = std::mem::replace(&mut self.last, own.clone());
        let is_ahead = own.start >= before.end && own.start - before.end <= GAP_BYTES_MAX;
        let is_behind = own.end <= before.start && before.start - own.end <= GAP_BYTES_MAX;
        self.in_order = if is_ahead || is_behind { self.in_order.saturating_add(1) } else { 0 };
        if self.in_order < IN_ORDER_MIN {
            self.next_bytes = PIECE_BYTES_MIN.max(bytes.saturating_mul(VALUES_MIN));
        }
        let has_piece = self.holds(&own) || self.read_piece(file, &own, is_behind);
        if !has_piece {
            return read_value(file.file, file.uid, pointer);
        }
        let place = (own.start - self.start) as usize;
        let stored = &self.piece[place..place + pointer.stored_bytes as usize];
        let found = crc32c_append(checksum_at(file.uid, pointer.offset), stored);
        if found != pointer.checksum && !seeded_fault!("blob_piece_unverified") {
            // It may have been written after the piece was read.
            self.piece.clear();
            return read_value(file.file, file.uid, pointer);
        }
        Ok(decompressed(pointer, stored)?.unwrap_or_else(|| Slice::copy_from(stored)))
    }

    fn holds(&self, own: &Range<u64>) -> bool {
        own.start >= self.start && own.end <= self.start + self.piece.len() as u64
    }

    /// Reads a piece that holds `own`, if the walk is worth one. Whether it does hold it then.
    fn read_piece(&mut self, file: &WindowFile<'_>, own: &Range<u64>, is_behind: bool) -> bool {
        let bytes = own.end - own.start;
        let is_short = bytes.saturating_mul(VALUES_MIN) <= PIECE_BYTES_MAX;
        let others =
            self.budget.used(Part::Cursors) - self.charge.as_ref().map_or(0, Charge::bytes);
        let has_room = others <= self.budget.readahead_max();
        if self.in_order < IN_ORDER_MIN || !is_short || !has_room {
            return false;
        }
        let wanted = self.next_bytes.max(bytes);
        let piece = match is_behind {
            true => own.end.saturating_sub(wanted)..own.end,
            false => own.start..file.end.min(own.start.saturating_add(wanted)),
        };
        if piece.end - piece.start < bytes {
            return false;
        }
        let length = (piece.end - piece.start) as usize;
        let read = resize(&mut self.piece, length)
            .and_then(|()| file.file.read_exact_at(&mut self.piece, piece.start));
        if read.is_err() {
            // The file may end before. The value alone is read next, and says what is wrong.
            self.piece.clear();
            self.next_bytes = (length / 2) as u64;
            return false;
        }
        self.start = piece.start;
        self.next_bytes = (self.next_bytes * 2).min(PIECE_BYTES_MAX);
        match &mut self.charge {
            Some(charge) => charge.resize(self.piece.capacity()),
            None => {
                let bytes = self.piece.capacity();
                self.charge = Some(Charge::new(&self.budget, Part::Cursors, bytes));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
