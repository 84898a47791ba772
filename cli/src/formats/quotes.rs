//! Whether an input in csv or tsv ends inside quotes, which is how a truncated file looks.
//!
//! It follows quotes only; the `csv` crate, which takes such an end as it comes, reads the fields.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// Passes an input on and follows its quotes.
pub struct QuoteReader<R> {
    input: R,
    delimiter: u8,
    place: Place,
    bytes_read: u64,
    unclosed: Unclosed,
}

/// Tells whether the input has ended inside quotes.
#[derive(Clone, Default)]
pub struct Unclosed(Rc<Cell<bool>>);

impl Unclosed {
    /// True once the input has ended inside quotes.
    pub fn get(&self) -> bool {
        self.0.get()
    }
}

/// Where the next byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the start of a field.
    Start,
    /// In a field, outside quotes.
    Bare,
    /// Inside quotes.
    Quoted,
    /// After a quote inside quotes: their end, or the first half of a doubled quote.
    QuoteInQuotes,
}

impl<R: Read> QuoteReader<R> {
    /// Follows the quotes of `input`, whose fields stand between `delimiter`.
    pub fn new(input: R, delimiter: u8) -> Self {
        let unclosed = Unclosed::default();
        Self { input, delimiter, place: Place::Start, bytes_read: 0, unclosed }
    }

    /// What tells whether the input has ended inside quotes.
    pub fn unclosed(&self) -> Unclosed {
        self.unclosed.clone()
    }

    fn follow(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (Place::Start, b'"') => Place::Quoted,
            (Place::Quoted, b'"') => Place::QuoteInQuotes,
            (Place::QuoteInQuotes, b'"') | (Place::Quoted, _) => Place::Quoted,
            (_, b'\n' | b'\r') => Place::Start,
            (_, byte) if byte == self.delimiter => Place::Start,
            _ => Place::Bare,
        };
    }
}

impl<R: Read> Read for QuoteReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.unclosed.0.set(self.place == Place::Quoted);
        }
        for (index, byte) in buffer[..count].iter().enumerate() {
            // A byte order mark stands before the first field, not in it.
            let offset = self.bytes_read + index as u64;
            if offset < 3 && *byte == b"\xef\xbb\xbf"[offset as usize] {
                continue;
            }
            self.follow(*byte);
        }
        self.bytes_read += count as u64;
        Ok(count)
    }
}
