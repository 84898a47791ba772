//! Copies of whole files: in pieces, with a checksum, at a limited rate, and with progress.
//!
//! It syncs nothing and names no file; what is copied is for callers.

use crate::health::Health;
use siltdb_base::{
    checksum::crc32c_append,
    clock::Clock,
    error::{Error, ErrorKind, Result},
    fs::{File, WriteFile},
    id::FileNumber,
    rate::Pace,
};
use siltdb_tree::files::open_files::OpenFiles;
use std::{fmt, ops::ControlFlow, sync::Arc, time::Duration};

/// Bytes copied at a time, at most.
const PIECE_BYTES_MAX: u64 = 128 << 10;

/// Bytes copied at a time under a limited rate, at least.
const PIECE_BYTES_MIN: u64 = 4 << 10;

/// Pieces in a second under a limited rate.
const PIECES_PER_SECOND: u64 = 16;

/// Longest sleep under a limited rate: so soon a cancellation is noticed.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// How far a copy has come.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes of files that the target has.
    pub bytes_done: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}

/// The call that is told of progress, and may cancel the copy by `Break`.
pub type OnProgress<'a> = &'a mut dyn FnMut(CopyProgress) -> ControlFlow<()>;

/// Runs `copy`, which a close of the database cancels: a close waits for the calls that copy.
///
/// # Errors
/// Those of `copy`; `Closed` instead of `Cancelled`, if the database is being closed.
pub fn until_closed<T>(
    health: &Health,
    on_progress: OnProgress<'_>,
    copy: impl FnOnce(OnProgress<'_>) -> Result<T>,
) -> Result<T> {
    let mut watched = |progress| match health.check_open() {
        Ok(()) => on_progress(progress),
        Err(_) => ControlFlow::Break(()),
    };
    copy(&mut watched).map_err(|error| match error.kind() {
        ErrorKind::Cancelled => health.check_open().err().unwrap_or(error),
        _ => error,
    })
}

/// A copy of several files under one rate.
pub struct FileCopy<'a> {
    clock: &'a dyn Clock,
    /// Bytes a second.
    rate: Option<u64>,
    pace: Pace,
    progress: CopyProgress,
    on_progress: OnProgress<'a>,
}

impl fmt::Debug for FileCopy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCopy").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl<'a> FileCopy<'a> {
    /// A copy at `rate` bytes a second at most, by `clock`.
    ///
    /// # Errors
    /// `InvalidArgument`, if the rate is 0.
    pub fn new(
        clock: &'a dyn Clock,
        rate: Option<u64>,
        on_progress: OnProgress<'a>,
    ) -> Result<Self> {
        if rate == Some(0) {
            return Err(Error::invalid("a rate of 0 bytes a second copies nothing"));
        }
        Ok(Self {
            clock,
            rate,
            pace: Pace::default(),
            progress: CopyProgress::default(),
            on_progress,
        })
    }

    /// Says how many bytes all files have.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn begin(&mut self, bytes_total: u64) -> Result<()> {
        self.progress.bytes_total = bytes_total;
        self.tell()
    }

    /// Counts a file of `bytes` that the target has without a copy.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn pass(&mut self, bytes: u64) -> Result<()> {
        let CopyProgress { bytes_done, bytes_total } = self.progress;
        // A file that turns out to be damaged is read, and then copied.
        self.progress.bytes_done = (bytes_done + bytes).min(bytes_total);
        self.tell()
    }

    /// Counts `bytes` that the caller has read or written, and waits as long as the rate demands.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn count(&mut self, bytes: u64) -> Result<()> {
        self.pass(bytes)?;
        self.pace(bytes)
    }

    /// Says that there is nothing left to do.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn end(&mut self) -> Result<()> {
        self.pass(self.progress.bytes_total)
    }

    /// Appends all of `source` to `target`, and returns the CRC-32C of what was read.
    ///
    /// # Errors
    /// `Cancelled`; what reading and writing fail with.
    pub fn copy(&mut self, source: &dyn File, target: &mut dyn WriteFile) -> Result<u32> {
        self.walk(source, &mut |bytes| target.append(bytes))
    }

    /// Reads all of `source`, and returns its CRC-32C.
    ///
    /// # Errors
    /// `Cancelled`; what reading fails with.
    pub fn checksum(&mut self, source: &dyn File) -> Result<u32> {
        self.walk(source, &mut |_| Ok(()))
    }

    fn walk(
        &mut self,
        source: &dyn File,
        on_piece: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<u32> {
        let piece = self.rate.map_or(PIECE_BYTES_MAX, |rate| {
            (rate / PIECES_PER_SECOND).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
        });
        let mut buffer = vec![0; piece.min(source.len()) as usize];
        let (mut offset, mut checksum) = (0, 0);
        while offset < source.len() {
            let length = piece.min(source.len() - offset);
            let bytes = &mut buffer[..length as usize];
            source.read_exact_at(bytes, offset)?;
            checksum = crc32c_append(checksum, bytes);
            on_piece(bytes)?;
            offset += length;
            self.count(length)?;
        }
        Ok(checksum)
    }

    fn tell(&mut self) -> Result<()> {
        match (self.on_progress)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                Err(Error::new(ErrorKind::Cancelled, "the copy was cancelled"))
            }
        }
    }

    /// Sleeps for the time that a piece takes at the rate. Time that passed without copying counts
    /// for nothing, so that no burst follows it.
    fn pace(&mut self, piece_bytes: u64) -> Result<()> {
        let Some(rate) = self.rate else { return Ok(()) };
        self.pace.count(piece_bytes, rate, self.clock.monotonic_ns());
        while let Some(rest) = self.pace.rest(self.clock.monotonic_ns()) {
            self.clock.sleep(rest.min(PAUSE_MAX));
            self.tell()?;
        }
        Ok(())
    }
}

/// A part of a file, as a file.
#[derive(Debug)]
pub struct FilePart {
    file: Arc<dyn File>,
    offset: u64,
    bytes: u64,
}

impl FilePart {
    /// The `bytes` bytes of `file` from `offset` on.
    #[must_use]
    pub fn new(file: Arc<dyn File>, offset: u64, bytes: u64) -> Self {
        Self { file, offset, bytes }
    }
}

impl File for FilePart {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, self.offset.saturating_add(offset))
    }
}

/// The length of a table file that is in use and must be there, in bytes.
///
/// # Errors
/// `Corruption`, if it is missing; the system's.
pub fn file_bytes(files: &OpenFiles, number: FileNumber) -> Result<u64> {
    files.open_file(number).map(|file| file.len())
}

#[cfg(test)]
mod tests;
