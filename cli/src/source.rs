//! Input from a file or stdin, with progress, that Ctrl-C can interrupt.
//!
//! It refuses other compressions by name, as well as text in a file that is named as gzip, and
//! interprets nothing else.

use crate::failure::{Failure, Result};
use crate::formats::input::peek;
use crate::gunzip::Gunzip;
use crate::interrupt;
use crate::output::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use siltdb::inspect::refuse_foreign;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

/// Start of a gzip file: its magic number and its only method. No text begins with these bytes.
const GZIP_START: [u8; 3] = [0x1f, 0x8b, 8];

/// Starts of files in other compressions, with their names.
const OTHERS: [(&[u8], &str); 4] = [
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh91AY", "bzip2"),
    (b"PK\x03\x04", "zip, as the workbooks of spreadsheets are"),
];

/// Length of the longest of these starts.
const START_BYTES: u64 = 8;

/// Interval at which a read that waits for input checks for Ctrl-C.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// An opened input.
pub struct Source {
    /// Its name in messages.
    pub name: String,
    /// Its length in bytes; `None` if it is unknown.
    pub bytes_total: Option<u64>,
    /// Counter of the bytes that were read.
    pub bytes_read: BytesRead,
    /// The input itself.
    pub input: Box<dyn Read>,
}

/// Counts the bytes read from a [`Source`].
#[derive(Clone, Default)]
pub struct BytesRead(Rc<Cell<u64>>);

impl BytesRead {
    /// Returns the number of bytes read so far.
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

    /// Opens the file at `path`, which holds records or operations, as [`Source::open`] does.
    ///
    /// # Errors
    /// As [`check_records`] and [`Source::open`].
    pub fn open_records(path: &Path) -> Result<Self> {
        check_records(path)?;
        Self::open(path)
    }

    /// Returns the input at `path`, uncompressed if it begins like a gzip file. Warnings are in
    /// `style`.
    ///
    /// # Errors
    /// [`Failure::File`] if it cannot be read; [`Failure::Usage`] for another compression, and for
    /// a file that is named as gzip and is none, as an empty one.
    pub fn uncompressed(mut self, path: &Path, style: Style) -> Result<Self> {
        let peeked = peek(self.input, START_BYTES);
        let (start, input) = peeked.map_err(|error| read_failure(&self.name, error))?;
        self.input = input;
        if start.starts_with(&GZIP_START) {
            self.input = Box::new(Gunzip::new(self.input, style));
            return Ok(self);
        }
        if let Some((_, compression)) = OTHERS.iter().find(|(other, _)| start.starts_with(other)) {
            let name = &self.name;
            return Err(Failure::Usage(format!(
                "{name}: the input is compressed by {compression}; gzip is read, other inputs \
                 can be uncompressed into `silt import DB -`"
            )));
        }
        if is_gzip(path) {
            let name = &self.name;
            return Err(Failure::Usage(format!(
                "{name}: the input is not gzip, as the name of the file says; text is read after \
                 a change of the name, or by `silt import DB - --format FORMAT < FILE`"
            )));
        }
        Ok(self)
    }
}

/// Returns whether the file at `path` is named as gzip, in any case of letters.
pub fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// Checks that the file at `path` may hold records or operations.
///
/// # Errors
/// `Unsupported`, if it is a database of another engine.
pub fn check_records(path: &Path) -> Result<()> {
    if path == Path::new("-") { Ok(()) } else { Ok(refuse_foreign(path)?) }
}

/// The failure of reading the input `name`, or of the wait for it that Ctrl-C ended.
pub fn read_failure(name: &str, error: io::Error) -> Failure {
    match interrupt::check() {
        Ok(()) => Failure::file("read", name, error),
        Err(failure) => failure,
    }
}

/// Reads input that may come late or never; Ctrl-C ends the wait.
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
