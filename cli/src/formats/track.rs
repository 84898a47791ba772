//! Where the records of a csv or tsv input begin, and whether it ends inside quotes.
//!
//! The `csv` crate, which reads the fields, does not say either: its line numbers lag behind blank
//! lines and `\r\n`, and a truncated quoted field counts as a field. This module finds no fields.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// Passes an input on and follows its records.
pub struct TrackingReader<R> {
    input: R,
    delimiter: u8,
    place: Place,
    bytes_read: u64,
    line: u64,
    after_return: bool,
    track: Track,
}

/// What a [`TrackingReader`] has found.
#[derive(Clone, Default)]
pub struct Track(Rc<Found>);

#[derive(Default)]
struct Found {
    /// The lines on which the records begin that were passed on and not yet asked for.
    record_lines: RefCell<VecDeque<u64>>,
    ends_inside_quotes: Cell<bool>,
}

impl Track {
    /// The line on which the next record begins, each asked for once; none if there is no more.
    pub fn next_record_line(&self) -> Option<u64> {
        self.0.record_lines.borrow_mut().pop_front()
    }

    /// True once the input has ended inside quotes.
    pub fn ends_inside_quotes(&self) -> bool {
        self.0.ends_inside_quotes.get()
    }
}

/// Where the next byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before a record; line ends here are blank lines.
    RecordStart,
    /// At the start of a field.
    FieldStart,
    /// In a field, outside quotes.
    Bare,
    /// Inside quotes.
    Quoted,
    /// After a quote inside quotes: their end, or the first half of a doubled quote.
    QuoteInQuotes,
}

impl<R: Read> TrackingReader<R> {
    /// Follows the records of `input`, whose fields stand between `delimiter`.
    pub fn new(input: R, delimiter: u8) -> Self {
        Self {
            input,
            delimiter,
            place: Place::RecordStart,
            bytes_read: 0,
            line: 1,
            after_return: false,
            track: Track::default(),
        }
    }

    /// What it finds.
    pub fn track(&self) -> Track {
        self.track.clone()
    }

    fn follow(&mut self, byte: u8, record_lines: &mut VecDeque<u64>) {
        let is_line_end = matches!(byte, b'\n' | b'\r');
        if self.place == Place::RecordStart && !is_line_end {
            record_lines.push_back(self.line);
            self.place = Place::FieldStart;
        }
        self.place = match (self.place, byte) {
            (Place::FieldStart, b'"') => Place::Quoted,
            (Place::Quoted, b'"') => Place::QuoteInQuotes,
            (Place::QuoteInQuotes, b'"') | (Place::Quoted, _) => Place::Quoted,
            _ if is_line_end => Place::RecordStart,
            (_, byte) if byte == self.delimiter => Place::FieldStart,
            _ => Place::Bare,
        };
        // `\r\n` is one line end.
        if byte == b'\r' || (byte == b'\n' && !self.after_return) {
            self.line += 1;
        }
        self.after_return = byte == b'\r';
    }
}

impl<R: Read> Read for TrackingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let track = self.track.clone();
        if count == 0 && !buffer.is_empty() {
            track.0.ends_inside_quotes.set(self.place == Place::Quoted);
        }
        let mut record_lines = track.0.record_lines.borrow_mut();
        for (index, byte) in buffer[..count].iter().enumerate() {
            // A byte order mark stands before the first field, not in it.
            let offset = self.bytes_read + index as u64;
            if offset < 3 && *byte == b"\xef\xbb\xbf"[offset as usize] {
                continue;
            }
            self.follow(*byte, &mut record_lines);
        }
        self.bytes_read += count as u64;
        Ok(count)
    }
}
