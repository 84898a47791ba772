//! Lines and records of bounded length from an input of any length.
//!
//! It does not interpret what it reads.

use std::io::{self, BufRead, BufReader, Read};

/// Longest record that is read, in bytes: what a missing line end or quote can cost in memory.
pub const RECORD_BYTES_MAX: u64 = 256 << 20;

/// What programs of one vendor put before UTF-8 text; it is no part of the text.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Bytes read from the input at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads lines, counting them.
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

    /// The number of the line last read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next line into `line`, without its end; false at the end of the input.
    ///
    /// # Errors
    /// Those of the input, and `InvalidData` for a line that is too long.
    pub fn read(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        let more = read_line(&mut self.input, self.record_bytes_max, line)?;
        self.line += u64::from(more);
        Ok(more)
    }
}

/// Reads a line of at most `line_bytes_max` bytes from `input` over the contents of `line`, without
/// its end; false at the end of the input.
///
/// # Errors
/// Those of the input, and `InvalidData` for a line that is too long.
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

/// The first bytes of `input`, at most `bytes_max`, and an input that begins with them again.
///
/// # Errors
/// Those of the input.
pub fn peek(mut input: Box<dyn Read>, bytes_max: u64) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut first = Vec::new();
    input.by_ref().take(bytes_max).read_to_end(&mut first)?;
    let whole = io::Cursor::new(first.clone()).chain(input);
    Ok((first, Box::new(whole)))
}

/// `input` without the byte order mark that it may begin with.
///
/// # Errors
/// Those of the input.
pub fn without_mark(mut input: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut first = Vec::new();
    input.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut first)?;
    if first == BYTE_ORDER_MARK {
        return Ok(input);
    }
    Ok(Box::new(io::Cursor::new(first).chain(input)))
}

/// An error that names the bound of a record.
pub fn too_long(record_bytes_max: u64) -> io::Error {
    let message = format!("a record is longer than {record_bytes_max} bytes");
    io::Error::new(io::ErrorKind::InvalidData, message)
}
