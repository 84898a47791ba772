//! Lines and records of bounded length, read from an input of any length.
//!
//! It does not interpret what it reads.

use std::io::{self, BufRead, BufReader, Read};

/// Longest record, in bytes. It bounds the memory that a missing line end or quote can take.
pub const RECORD_BYTES_MAX: u64 = 256 << 20;

/// The byte order mark that some programs write before UTF-8 text; it is not part of the text.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The reason to refuse UTF-16.
pub const UTF_16: &str =
    "the text is UTF-16; convert it to UTF-8, as `iconv -f UTF-16 -t UTF-8` does";

/// Size of a read of the input, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads and counts lines.
pub struct LineReader {
    input: BufReader<Box<dyn Read>>,
    record_bytes_max: u64,
    line: u64,
}

impl LineReader {
    /// Reads the lines of `input`, each of at most `record_bytes_max` bytes.
    pub fn new(input: Box<dyn Read>, record_bytes_max: u64) -> Self {
        Self { input: BufReader::with_capacity(BUFFER_BYTES, input), record_bytes_max, line: 0 }
    }

    /// Returns the number of the last line, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next line into `line`, without its end; false at the end of the input.
    ///
    /// # Errors
    /// Errors of the input, and `InvalidData` for a line that is too long.
    pub fn read(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        let more = read_line(&mut self.input, self.record_bytes_max, line)?;
        self.line += u64::from(more);
        Ok(more)
    }
}

/// Replaces `line` by the next line of `input`, of at most `line_bytes_max` bytes, without its end;
/// false at the end of the input.
///
/// # Errors
/// Errors of the input, and `InvalidData` for a line that is too long.
pub fn read_line(input: impl BufRead, line_bytes_max: u64, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let limit = line_bytes_max + 1;
    let count = input.take(limit).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 == limit {
        return Err(too_long(line_bytes_max));
    }
    Ok(count > 0)
}

/// Returns the first bytes of `input`, at most `bytes_max`, and an input that begins with them
/// again.
///
/// # Errors
/// Errors of the input.
pub fn peek(mut input: Box<dyn Read>, bytes_max: u64) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut first = Vec::new();
    input.by_ref().take(bytes_max).read_to_end(&mut first)?;
    let whole = io::Cursor::new(first.clone()).chain(input);
    Ok((first, Box::new(whole)))
}

/// Removes the byte order mark from the start of `input`, which is text.
///
/// # Errors
/// Errors of the input, and `InvalidData` if the mark is that of UTF-16.
pub fn without_mark(mut input: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut first = Vec::new();
    input.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut first)?;
    if first == BYTE_ORDER_MARK {
        return Ok(input);
    }
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, UTF_16));
    }
    Ok(Box::new(io::Cursor::new(first).chain(input)))
}

/// The error for a record above its bound.
pub fn too_long(record_bytes_max: u64) -> io::Error {
    let message = format!("a record is longer than {record_bytes_max} bytes");
    io::Error::new(io::ErrorKind::InvalidData, message)
}
