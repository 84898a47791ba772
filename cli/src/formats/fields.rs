//! Records and their fields in a csv or tsv input, by the rules of RFC 4180.
//!
//! A quotation mark opens quotes only at the start of a field, and the closing one must end the
//! field. Elsewhere in an unquoted field it is text, and in a dialect without quotes it is text
//! everywhere. `\n`, `\r` and `\r\n` end a line, and blank lines are skipped. This module does not
//! interpret fields.

use super::dialect::Dialect;
use super::input::too_long;
use std::io::{self, BufRead, BufReader, Read};

#[cfg(test)]
mod tests;

/// Size of a read of the input, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// The fields of a record. Readers refill it to reuse its memory.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// For each field, the end of its bytes in `bytes`.
    ends: Vec<usize>,
    line: u64,
    /// Number of line ends inside quotes.
    line_ends: u64,
    fault: Option<Fault>,
}

/// The fault of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Index of the field.
    pub index: usize,
    /// The reason.
    pub reason: &'static str,
}

impl Fields {
    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of field `index`, without quotes.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// Returns the line on which the record begins, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the number of lines that the record takes: more than 1, if a field holds line ends.
    pub fn lines(&self) -> u64 {
        self.line_ends + 1
    }

    /// Returns the first fault of the record.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Returns the memory of the record, which includes some for each empty field.
    fn memory_bytes(&self) -> u64 {
        (self.bytes.len() + self.ends.len() * size_of::<usize>()) as u64
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.line_ends = 0;
        self.fault = None;
    }

    fn fail(&mut self, reason: &'static str) {
        self.fault.get_or_insert(Fault { index: self.ends.len(), reason });
    }
}

/// Reads records from an input of any length.
pub struct FieldReader {
    input: BufReader<Box<dyn Read>>,
    record_bytes_max: u64,
    splitter: Splitter,
}

impl FieldReader {
    /// Reads the records of `input` in `dialect`, each of at most `record_bytes_max` bytes.
    pub fn new(input: Box<dyn Read>, dialect: Dialect, record_bytes_max: u64) -> Self {
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Self { input, record_bytes_max, splitter: Splitter::new(dialect) }
    }

    /// Reads the next record into `record`; false at the end of the input. It reads a record with a
    /// fault to its end, so that the next one can be read.
    ///
    /// # Errors
    /// Errors of the input, and `InvalidData` for a record that is too long.
    pub fn read(&mut self, record: &mut Fields) -> io::Result<bool> {
        record.clear();
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(self.splitter.finish(record));
            }
            let (used, ended) = self.splitter.split(buffer, record);
            self.input.consume(used);
            if ended {
                return Ok(true);
            }
            if record.memory_bytes() > self.record_bytes_max {
                return Err(too_long(self.record_bytes_max));
            }
        }
    }
}

/// The state of the splitter before the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a record; line ends here are blank lines.
    RecordStart,
    /// At the start of a field.
    FieldStart,
    /// In a field, outside quotes.
    Bare,
    /// Inside quotes.
    Quoted,
    /// After a quotation mark inside quotes: their end, or the first half of a doubled one.
    QuoteInQuotes,
}

/// Splits the bytes of an input, which arrive in pieces, into records and fields.
#[derive(Debug)]
pub struct Splitter {
    delimiter: u8,
    quote: Option<u8>,
    place: Place,
    /// Line of the next byte, from 1.
    line: u64,
    after_return: bool,
}

impl Splitter {
    /// Splits fields by the rules of `dialect`.
    pub fn new(dialect: Dialect) -> Self {
        let Dialect { delimiter, quote } = dialect;
        let (delimiter, quote) = (delimiter.byte(), quote.byte());
        Self { delimiter, quote, place: Place::RecordStart, line: 1, after_return: false }
    }

    /// Appends the fields in `buffer` to `record`, up to the end of the record. Returns the number
    /// of bytes taken, and whether the record ended.
    pub fn split(&mut self, buffer: &[u8], record: &mut Fields) -> (usize, bool) {
        let mut index = 0;
        while let Some(&byte) = buffer.get(index) {
            match self.place {
                Place::Quoted => {
                    let rest = &buffer[index..];
                    let length = rest.iter().position(|byte| Some(*byte) == self.quote);
                    let text = &rest[..length.unwrap_or(rest.len())];
                    record.bytes.extend_from_slice(text);
                    let before = self.line;
                    text.iter().for_each(|byte| self.count_line(*byte));
                    record.line_ends += self.line - before;
                    index += text.len();
                    if length.is_some() {
                        self.place = Place::QuoteInQuotes;
                        self.after_return = false;
                        index += 1;
                    }
                }
                Place::Bare => {
                    let rest = &buffer[index..];
                    let ends = |byte: &u8| *byte == self.delimiter || is_line_end(*byte);
                    let length = rest.iter().position(ends).unwrap_or(rest.len());
                    record.bytes.extend_from_slice(&rest[..length]);
                    index += length;
                    let Some(&byte) = buffer.get(index) else { break };
                    index += 1;
                    if self.step(byte, record) {
                        return (index, true);
                    }
                }
                _ => {
                    index += 1;
                    if self.step(byte, record) {
                        return (index, true);
                    }
                }
            }
        }
        (index, false)
    }

    /// Ends the last record at the end of the input, and returns whether there was one.
    pub fn finish(&mut self, record: &mut Fields) -> bool {
        match self.place {
            Place::RecordStart => return false,
            Place::Quoted => record
                .fail("the input ends inside quotes; --quote none takes a quotation mark as text"),
            Place::FieldStart | Place::Bare | Place::QuoteInQuotes => {}
        }
        record.ends.push(record.bytes.len());
        self.place = Place::RecordStart;
        true
    }

    /// Processes one byte outside quotes; true if it ends the record.
    fn step(&mut self, byte: u8, record: &mut Fields) -> bool {
        let line = self.line;
        self.count_line(byte);
        if self.place == Place::RecordStart {
            if is_line_end(byte) {
                return false;
            }
            record.line = line;
            self.place = Place::FieldStart;
        }
        if is_line_end(byte) || byte == self.delimiter {
            record.ends.push(record.bytes.len());
            let ended = byte != self.delimiter;
            self.place = if ended { Place::RecordStart } else { Place::FieldStart };
            return ended;
        }
        self.place = match (self.place, byte) {
            (Place::FieldStart, byte) if Some(byte) == self.quote => Place::Quoted,
            (Place::QuoteInQuotes, byte) if Some(byte) == self.quote => {
                record.bytes.push(byte);
                Place::Quoted
            }
            (place, _) => {
                if place == Place::QuoteInQuotes {
                    record.fail("text after the closing quotation mark; one inside is doubled");
                }
                record.bytes.push(byte);
                Place::Bare
            }
        };
        false
    }

    /// Counts lines at `byte`; `\r\n` counts once.
    fn count_line(&mut self, byte: u8) {
        if byte == b'\r' || (byte == b'\n' && !self.after_return) {
            self.line += 1;
        }
        self.after_return = byte == b'\r';
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
