//! A file seen through a buffer that moves forward, so that small pieces cost large reads.
//!
//! It does not know records, and never holds more than a window or the piece asked for.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::File,
};
use std::{path::PathBuf, sync::Arc};

/// What is read at once, in bytes, as far as the file goes.
const WINDOW_BYTES: usize = 1 << 20;

/// A buffer over a file.
#[derive(Debug)]
pub(super) struct Window {
    file: Arc<dyn File>,
    path: PathBuf,
    /// Nothing from here on is read, in bytes.
    end: u64,
    /// Where `buffer` begins in the file.
    start: u64,
    buffer: Vec<u8>,
}

impl Window {
    pub(super) fn new(file: Arc<dyn File>, path: PathBuf) -> Self {
        Self { end: file.len(), file, path, start: 0, buffer: Vec::new() }
    }

    /// Reads nothing from `end` on.
    pub(super) fn end_at(&mut self, end: u64) {
        self.end = self.end.min(end);
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The bytes of the file from `offset`: at least `wanted`, and as many more as are at hand.
    ///
    /// `offset + wanted` must lie within the file and before the end that was set: this is what
    /// bounds the memory.
    #[inline]
    pub(super) fn view(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let held = self.start..self.start + self.buffer.len() as u64;
        if offset < held.start || offset + wanted as u64 > held.end {
            self.load(offset, wanted)?;
        }
        Ok(&self.buffer[(offset - self.start) as usize..])
    }

    #[cold]
    fn load(&mut self, offset: u64, wanted: usize) -> Result<()> {
        let left = self.end.checked_sub(offset).filter(|&left| left >= wanted as u64);
        let left = left.expect("callers ask for what lies within the file");
        let end = self.start + self.buffer.len() as u64;
        let kept = if (self.start..end).contains(&offset) {
            self.buffer.drain(..(offset - self.start) as usize);
            self.buffer.len()
        } else {
            self.buffer.clear();
            0
        };
        self.start = offset;
        // A longer record made the buffer longer; it need not stay so.
        if wanted <= WINDOW_BYTES {
            self.buffer.shrink_to(WINDOW_BYTES);
        }
        let length = (wanted.max(WINDOW_BYTES) as u64).min(left) as usize;
        self.buffer.try_reserve_exact(length - kept).map_err(|error| {
            Error::new(ErrorKind::Io, "no memory for a log record")
                .with_file(&self.path)
                .with_offset(offset)
                .with_source(error)
        })?;
        self.buffer.resize(length, 0);
        let read = self.file.read_exact_at(&mut self.buffer[kept..], offset + kept as u64);
        if read.is_err() {
            self.buffer.truncate(kept);
        }
        read.map_err(|error| error.or_file(&self.path).or_offset(offset + kept as u64))
    }
}
