//! A file or stdin as an input whose progress can be seen.
//!
//! It does not interpret what it reads.

use crate::failure::{Failure, Result};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// An opened input.
pub struct Source {
    /// Its name in messages.
    pub name: String,
    /// Its length in bytes, if it is known.
    pub bytes_total: Option<u64>,
    /// How many bytes have been read.
    pub bytes_read: BytesRead,
    /// The input itself.
    pub input: Box<dyn Read>,
}

/// Counts the bytes read from a [`Source`].
#[derive(Clone, Default)]
pub struct BytesRead(Rc<Cell<u64>>);

impl BytesRead {
    /// The bytes read so far.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

impl Source {
    /// Opens the file at `path`; `-` is stdin.
    ///
    /// # Errors
    /// [`Failure::File`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes_read = BytesRead::default();
        let counted = |input: Box<dyn Read>| {
            Box::new(CountingReader { input, bytes_read: bytes_read.clone() })
        };
        if path == Path::new("-") {
            let input = counted(Box::new(io::stdin()));
            return Ok(Self { name: "stdin".to_owned(), bytes_total: None, bytes_read, input });
        }
        let name = path.display().to_string();
        let fail = |error| Failure::file("open", name.clone(), error);
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        let bytes_total = metadata.is_file().then_some(metadata.len());
        let input = counted(Box::new(file));
        Ok(Self { name, bytes_total, bytes_read, input })
    }
}

struct CountingReader {
    input: Box<dyn Read>,
    bytes_read: BytesRead,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.bytes_read.0.set(self.bytes_read.get() + count as u64);
        Ok(count)
    }
}
