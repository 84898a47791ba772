//! A file or stdin as an input whose progress can be seen, and which Ctrl-C can end.
//!
//! It does not interpret what it reads, but for the compression of a gzip file.

use crate::failure::{Failure, Result};
use crate::formats::input::peek;
use crate::interrupt;
use flate2::read::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

/// How a gzip file begins: its magic number and its only method. No text begins so.
const GZIP_START: [u8; 3] = [0x1f, 0x8b, 8];

/// Bytes of a compressed input read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// How often a reader that waits for input looks for Ctrl-C.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

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
            let name = "stdin".to_owned();
            let input: Box<dyn Read> = if interrupt::is_watched() {
                let stdin = io::stdin().as_fd().try_clone_to_owned();
                let stdin = stdin.map_err(|error| Failure::file("open", &name, error))?;
                Box::new(PolledReader { file: stdin.into() })
            } else {
                Box::new(io::stdin())
            };
            return Ok(Self { name, bytes_total: None, input: counted(input), bytes_read });
        }
        let name = path.display().to_string();
        let fail = |error| Failure::file("open", name.clone(), error);
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        let bytes_total = metadata.is_file().then_some(metadata.len());
        let input: Box<dyn Read> =
            if metadata.is_file() { Box::new(file) } else { Box::new(PolledReader { file }) };
        Ok(Self { name, bytes_total, input: counted(input), bytes_read })
    }

    /// The same input, uncompressed if it begins as a gzip file does.
    ///
    /// # Errors
    /// [`Failure::File`] if it cannot be read.
    pub fn uncompressed(mut self) -> Result<Self> {
        let peeked = peek(self.input, GZIP_START.len() as u64);
        let (start, input) = peeked.map_err(|error| Failure::file("read", &self.name, error))?;
        self.input = input;
        if start == GZIP_START {
            let compressed = BufReader::with_capacity(BUFFER_BYTES, self.input);
            self.input = Box::new(MultiGzDecoder::new(compressed));
        }
        Ok(self)
    }
}

/// Reads what may come late, or never: Ctrl-C ends the wait.
struct PolledReader {
    file: File,
}

impl Read for PolledReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if interrupt::check().is_err() {
                return Err(io::Error::other("interrupted"));
            }
            let mut waits = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut waits, Some(&POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.file.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
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
