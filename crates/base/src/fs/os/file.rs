//! Files on disk: read at any offset, or appended to once.
//!
//! Interrupted and short calls are continued; no other error is retried.

use super::{descriptors::ReadableFile, platform::WRITEBACK_BYTES};
use crate::{
    error::{Error, ErrorKind, Result},
    fs::{File, WriteFile, map::MAPPINGS},
    hint::begin_writeback,
    limits::WRITE_BUFFER_BYTES,
};
use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use std::{
    fs,
    io::{self, Write},
    num::NonZeroU64,
    os::{fd::AsFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file open for reading.
#[derive(Debug)]
pub(super) struct OsFile {
    pub(super) file: Arc<ReadableFile>,
    pub(super) path: PathBuf,
}

impl File for OsFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let file = self.file.descriptor().map_err(|error| Error::io("open", &self.path, error))?;
        let mut read = 0;
        while read < buffer.len() {
            let at = offset.saturating_add(read as u64);
            let end = offset.saturating_add(buffer.len() as u64);
            // The system refuses ranges past this; for the caller they are past the end.
            let count =
                if end > i64::MAX as u64 { Ok(0) } else { file.read_at(&mut buffer[read..], at) };
            match count {
                Ok(0) => return Err(ends_early(&self.path, offset, buffer.len(), read)),
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &self.path, error).with_offset(at)),
            }
        }
        Ok(())
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        // An error says that the system does not read ahead; the read itself reports others.
        let (Ok(file), Some(bytes)) = (self.file.descriptor(), NonZeroU64::new(bytes)) else {
            return;
        };
        let _ = fadvise(&*file, offset, Some(bytes), Advice::WillNeed);
    }

    fn map(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        let file = self.file.descriptor().map_err(|error| Error::io("open", &self.path, error))?;
        MAPPINGS.map(&file, offset, bytes).map_err(|error| {
            let error = match error.kind() {
                io::ErrorKind::UnexpectedEof => Error::corruption("file ends early"),
                _ => Error::io("map", &self.path, error),
            };
            error.or_file(&self.path).with_offset(offset)
        })
    }
}

#[cold]
fn ends_early(path: &Path, offset: u64, wanted: usize, found: usize) -> Error {
    Error::corruption("file ends early")
        .with_file(path)
        .with_offset(offset)
        .with_mismatch(wanted, found)
}

/// A new file. It holds back up to [`WRITE_BUFFER_BYTES`]; longer appends go straight through.
#[derive(Debug)]
pub(super) struct OsWriteFile {
    file: fs::File,
    path: PathBuf,
    held: Vec<u8>,
    written: u64,
    /// Up to where the system was asked to begin writing to the disk. A sync that finds everything
    /// still to be written keeps a thread from its work for as long as that takes.
    begun: u64,
    failed: bool,
}

impl OsWriteFile {
    pub(super) fn new(file: fs::File, path: &Path) -> Self {
        Self { file, path: path.to_owned(), held: Vec::new(), written: 0, begun: 0, failed: false }
    }

    /// A file stays failed, because after a failure its contents are unknown.
    fn check(&self) -> Result<()> {
        if self.failed {
            let message = "an earlier write to this file failed";
            return Err(Error::new(ErrorKind::Poisoned, message).with_file(&self.path));
        }
        Ok(())
    }

    fn note_written(&mut self, bytes: usize) {
        self.written += bytes as u64;
        if self.written - self.begun >= WRITEBACK_BYTES {
            self.begin_writeback();
        }
    }

    fn begin_writeback(&mut self) {
        // A hint: what cannot begin now, the sync does.
        let _ = begin_writeback(self.file.as_fd(), self.begun..self.written);
        self.begun = self.written;
    }

    fn hand_over(&mut self) -> Result<()> {
        self.check()?;
        let result = self.file.write_all(&self.held);
        self.note("write", result)?;
        self.note_written(self.held.len());
        self.held.clear();
        Ok(())
    }

    fn note(&mut self, action: &'static str, result: io::Result<()>) -> Result<()> {
        result.map_err(|error| {
            self.failed = true;
            Error::io(action, &self.path, error).with_offset(self.written)
        })
    }
}

impl WriteFile for OsWriteFile {
    fn len(&self) -> u64 {
        self.written + self.held.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        if self.held.len() + bytes.len() > WRITE_BUFFER_BYTES {
            self.hand_over()?;
            if bytes.len() >= WRITE_BUFFER_BYTES {
                let result = self.file.write_all(bytes);
                self.note("write", result)?;
                self.note_written(bytes.len());
                return Ok(());
            }
        }
        // As much as it ever holds: growing step by step would touch new memory at each.
        self.held.reserve_exact(WRITE_BUFFER_BYTES - self.held.len());
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.hand_over()?;
        self.begin_writeback();
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.hand_over()?;
        // The length is part of it: fdatasync(2) leaves out only what reading does not need.
        let result = self.file.sync_data();
        self.note("sync", result)
    }
}

#[cfg(test)]
mod tests;
