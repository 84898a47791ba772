//! Lines and records of bounded length from an input of any length.
//!
//! It does not interpret what it reads.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

/// Longest record that is read, in bytes: what a missing line end or quote can cost in memory.
pub const RECORD_BYTES_MAX: u64 = 256 << 20;

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

/// Fails once one record has taken more than a bound; [`RecordStart`] begins a new one.
pub struct BoundedReader {
    input: Box<dyn Read>,
    record_bytes_max: u64,
    record_bytes: RecordStart,
}

/// Tells a [`BoundedReader`] where records begin.
#[derive(Clone, Default)]
pub struct RecordStart(Rc<Cell<u64>>);

impl RecordStart {
    /// A new record begins.
    pub fn mark(&self) {
        self.0.set(0);
    }
}

impl BoundedReader {
    /// Reads `input` in records of about `record_bytes_max` bytes at most: what its reader buffers
    /// ahead counts for the record before.
    pub fn new(input: Box<dyn Read>, record_bytes_max: u64) -> Self {
        Self { input, record_bytes_max, record_bytes: RecordStart::default() }
    }

    /// What tells this reader where records begin.
    pub fn record_start(&self) -> RecordStart {
        self.record_bytes.clone()
    }
}

impl Read for BoundedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let total = self.record_bytes.0.get() + count as u64;
        self.record_bytes.0.set(total);
        if total > self.record_bytes_max + buffer.len() as u64 {
            return Err(too_long(self.record_bytes_max));
        }
        Ok(count)
    }
}

fn too_long(record_bytes_max: u64) -> io::Error {
    let message = format!("a record is longer than {record_bytes_max} bytes");
    io::Error::new(io::ErrorKind::InvalidData, message)
}
