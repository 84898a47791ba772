//! The format *json*: an array of objects, or a sequence of objects, over any number of lines.
//!
//! The value is the text of the object without white space between its tokens. The reader holds one
//! object in memory, never the array.

use super::input::too_long;
use super::jsonl;
use super::key::KeyRule;
use super::object::Object;
use super::record::{BadRecord, ReadError, Record, Written};
use super::wrapper;
use std::io::{self, BufRead, BufReader, Read, Write};

#[cfg(test)]
mod tests;

/// Size of a read of the input, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads the format *json*.
pub struct Reader {
    input: BufReader<Box<dyn Read>>,
    rule: KeyRule,
    record_bytes_max: u64,
    place: Place,
    /// Position of the next byte.
    next: Position,
    /// Position of the first byte of the last value.
    start: Position,
    /// Values read so far.
    values: u64,
}

/// A line and a byte in it, both from 1.
#[derive(Clone, Copy, Debug)]
struct Position {
    line: u64,
    column: u64,
}

impl Position {
    fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                *self = Self { line: self.line + 1, column: 1 };
            } else {
                self.column += 1;
            }
        }
    }
}

/// What the grammar permits next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// An array or a first value.
    Start,
    /// A value or the end of the array.
    ArrayStart,
    /// A comma or the end of the array.
    AfterElement,
    /// A value or the end of the input.
    Sequence,
    /// The end of the input.
    ArrayEnd,
}

impl Reader {
    /// Reads objects with keys by `rule`. Since a line may hold several records, the line number in
    /// a key is the number of the record.
    pub fn new(input: Box<dyn Read>, rule: KeyRule, record_bytes_max: u64) -> Self {
        Self {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            rule,
            record_bytes_max,
            place: Place::Start,
            next: Position { line: 1, column: 1 },
            start: Position { line: 1, column: 1 },
            values: 0,
        }
    }

    /// Returns the line on which the last record begins, from 1.
    pub fn line(&self) -> u64 {
        self.start.line
    }

    /// Reads the next record into `record`; false at the end of the input.
    ///
    /// # Errors
    /// [`ReadError::Bad`] for a value that is no object or has no key; [`ReadError::Broken`] where
    /// the grammar requires a value, a comma or the end.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        if !self.find_value()? {
            return Ok(false);
        }
        self.start = self.next;
        self.read_value(&mut record.value)?;
        self.values += 1;
        self.place =
            if self.place == Place::Sequence { Place::Sequence } else { Place::AfterElement };
        let Position { line, column } = self.start;
        let bad = |offset: usize, reason: String| {
            let mut position = self.start;
            position.pass(&record.value[..offset.min(record.value.len())]);
            BadRecord { line: position.line, column: position.column, reason }
        };
        if record.value.first() != Some(&b'{') {
            return Err(bad(0, "expected a JSON object".to_owned()).into());
        }
        let text = std::str::from_utf8(&record.value)
            .map_err(|error| bad(error.valid_up_to(), "not valid UTF-8".to_owned()))?;
        let object =
            Object::parse(text).map_err(|error| bad(error.column as usize - 1, error.reason))?;
        if let Some(unwrapped) = wrapper::unwrapped(&object, &self.rule) {
            *record = unwrapped;
            return Ok(true);
        }
        record.key.clear();
        object.push_key(&self.rule, self.values, &mut record.key).map_err(|reason| BadRecord {
            line,
            column,
            reason,
        })?;
        squeeze(&mut record.value);
        Ok(true)
    }

    /// Moves to the first byte of the next value; false if there is none.
    fn find_value(&mut self) -> Result<bool, ReadError> {
        loop {
            let Some(byte) = self.peek()? else {
                return match self.place {
                    Place::Start | Place::Sequence | Place::ArrayEnd => Ok(false),
                    Place::ArrayStart | Place::AfterElement => {
                        Err(self.broken("the input ends inside the array"))
                    }
                };
            };
            match (self.place, byte) {
                (_, b' ' | b'\t' | b'\n' | b'\r') => self.skip(byte),
                (Place::Start, b'[') => {
                    self.skip(byte);
                    self.place = Place::ArrayStart;
                }
                (Place::Start, _) => self.place = Place::Sequence,
                (Place::ArrayStart | Place::AfterElement, b']') => {
                    self.skip(byte);
                    self.place = Place::ArrayEnd;
                }
                (Place::AfterElement, b',') => {
                    self.skip(byte);
                    return self.find_element();
                }
                (Place::AfterElement, _) => return Err(self.broken("expected `,` or `]`")),
                (Place::ArrayEnd, _) => return Err(self.broken("text after the array")),
                (Place::ArrayStart, b',') | (Place::Sequence, b',' | b']' | b'}') => {
                    return Err(self.broken("expected a JSON object"));
                }
                (Place::ArrayStart | Place::Sequence, _) => return Ok(true),
            }
        }
    }

    /// Moves to the value that must follow a comma.
    fn find_element(&mut self) -> Result<bool, ReadError> {
        loop {
            match self.peek()? {
                Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) => self.skip(byte),
                None => return Err(self.broken("the input ends inside the array")),
                Some(b',' | b']' | b'}') => return Err(self.broken("expected a JSON object")),
                Some(_) => return Ok(true),
            }
        }
    }

    /// Reads a value of any kind into `value`, to its last byte.
    fn read_value(&mut self, value: &mut Vec<u8>) -> Result<(), ReadError> {
        value.clear();
        let mut scan = Scan::default();
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                if scan.is_scalar() {
                    return Ok(());
                }
                return Err(self.broken("the input ends inside a value"));
            }
            let (used, ended) = scan.take(buffer);
            value.extend_from_slice(&buffer[..used]);
            self.next.pass(&buffer[..used]);
            self.input.consume(used);
            if ended {
                return Ok(());
            }
            if value.len() as u64 > self.record_bytes_max {
                return Err(too_long(self.record_bytes_max).into());
            }
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn skip(&mut self, byte: u8) {
        self.next.pass(&[byte]);
        self.input.consume(1);
    }

    fn broken(&self, reason: &str) -> ReadError {
        let Position { line, column } = self.next;
        ReadError::Broken(BadRecord { line, column, reason: reason.to_owned() })
    }
}

/// Finds the end of a value whose bytes arrive in pieces.
#[derive(Default)]
struct Scan {
    has_begun: bool,
    depth: u64,
    in_string: bool,
    after_backslash: bool,
}

impl Scan {
    /// Returns whether the value is a number or a word, which has no closing character.
    fn is_scalar(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_string
    }

    /// Returns how many bytes of `buffer` belong to the value, and whether it ends there.
    fn take(&mut self, buffer: &[u8]) -> (usize, bool) {
        for (index, byte) in buffer.iter().enumerate() {
            if self.in_string {
                self.in_string = self.after_backslash || *byte != b'"';
                self.after_backslash = !self.after_backslash && *byte == b'\\';
                if !self.in_string && self.depth == 0 {
                    return (index + 1, true);
                }
                continue;
            }
            let ends_scalar = matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
            if self.is_scalar() && ends_scalar {
                return (index, true);
            }
            self.has_begun = true;
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return (index + 1, true);
                    }
                }
                _ => {}
            }
        }
        (buffer.len(), false)
    }
}

/// Writes one record, as [`jsonl::write`] does, with no white space in it that a reader removes.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut dyn Write, rule: &KeyRule, record: Written<'_>) -> io::Result<()> {
    let mut squeezed = record.value.to_vec();
    squeeze(&mut squeezed);
    match squeezed == record.value {
        true => jsonl::write(out, rule, record),
        false => wrapper::write(out, record),
    }
}

/// Removes the white space between the tokens of `json`.
fn squeeze(json: &mut Vec<u8>) {
    let (mut in_string, mut after_backslash) = (false, false);
    json.retain(|byte| {
        if in_string {
            in_string = after_backslash || *byte != b'"';
            after_backslash = !after_backslash && *byte == b'\\';
            return true;
        }
        in_string = *byte == b'"';
        !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
    });
}
