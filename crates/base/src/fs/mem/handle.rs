//! Open files, log files and locks of a memory file system.
//!
//! A handle keeps its file's bytes when the last name goes; it does not keep a crashed clone's.

use super::{
    call::CallKind,
    place::NodeId,
    shared::{Shared, Span},
};
use crate::{
    error::{Error, ErrorKind, Result},
    fs::{File, FileLock, LogFile, LogWay, WriteFile},
    limits::WRITE_BUFFER_BYTES,
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A reference to a file.
pub(super) struct Handle {
    shared: Arc<Shared>,
    node: NodeId,
    path: PathBuf,
}

impl Handle {
    /// For a node that `State::hold` was called on.
    pub(super) fn new(shared: &Arc<Shared>, node: NodeId, path: &Path) -> Self {
        Self { shared: Arc::clone(shared), node, path: path.to_owned() }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.path).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.state().let_go(self.node);
    }
}

/// A file open for reading.
#[derive(Debug)]
pub(super) struct MemFile {
    pub(super) handle: Handle,
    pub(super) len: u64,
}

impl File for MemFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let Handle { shared, node, path } = &self.handle;
        shared.enter(CallKind::Read, path, Span { offset, bytes: buffer.len() as u64 })?;
        let read = shared.state().file(*node).content.read(offset, buffer);
        if read < buffer.len() {
            return Err(Error::corruption("file ends early")
                .with_file(path)
                .with_offset(offset)
                .with_mismatch(buffer.len(), read));
        }
        Ok(())
    }
}

/// A new file. It holds bytes back as the one on disk does, so that a missing flush shows.
#[derive(Debug)]
pub(super) struct MemWriteFile {
    handle: Handle,
    held: Vec<u8>,
    written: u64,
    failed: bool,
}

impl MemWriteFile {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle, held: Vec::new(), written: 0, failed: false }
    }

    fn check(&self) -> Result<()> {
        if self.failed {
            let message = "an earlier write to this file failed";
            return Err(Error::new(ErrorKind::Poisoned, message).with_file(&self.handle.path));
        }
        Ok(())
    }

    fn hand_over(&mut self, bytes: Vec<u8>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let Handle { shared, node, path } = &self.handle;
        let count = bytes.len() as u64;
        let result = shared.write(CallKind::Write, path, *node, self.written, bytes);
        self.failed = result.is_err();
        self.written += count;
        result
    }
}

impl WriteFile for MemWriteFile {
    fn len(&self) -> u64 {
        self.written + self.held.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        if self.held.len() + bytes.len() > WRITE_BUFFER_BYTES {
            self.flush()?;
            if bytes.len() >= WRITE_BUFFER_BYTES {
                return self.hand_over(bytes.to_vec());
            }
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.check()?;
        let held = std::mem::take(&mut self.held);
        self.hand_over(held)
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let result = self.handle.shared.sync(&self.handle.path, self.handle.node, u64::MAX);
        self.failed = result.is_err();
        result
    }
}

/// A log file; each fill is a call, and so a crash point.
#[derive(Debug)]
pub(super) struct MemLogFile {
    pub(super) handle: Handle,
    pub(super) capacity: u64,
    pub(super) way: LogWay,
}

impl LogFile for MemLogFile {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn way(&self) -> LogWay {
        self.way
    }

    fn prepare(&self, end: u64) -> Result<()> {
        let Handle { shared, node, path } = &self.handle;
        let end = end.min(self.capacity);
        if shared.state().file(*node).content.len() >= end {
            return Ok(());
        }
        shared.call(CallKind::Prepare, path, |state| state.grow(*node, end))
    }

    fn prepared(&self) -> u64 {
        let Handle { shared, node, .. } = &self.handle;
        shared.state().file(*node).content.len()
    }

    fn release(&self, _start: u64) {}

    fn fill(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let Handle { shared, node, path } = &self.handle;
        let bytes = parts.concat();
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.capacity) {
            return Err(Error::invalid("fill exceeds the capacity of the log file")
                .with_file(path)
                .with_offset(offset));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        shared.write(CallKind::Fill, path, *node, offset, bytes)
    }

    fn sync(&self, end: u64) -> Result<()> {
        self.handle.shared.sync(&self.handle.path, self.handle.node, end)
    }

    fn shorten(&self, end: u64) -> Result<()> {
        let Handle { shared, node, path } = &self.handle;
        shared.call(CallKind::Shorten, path, |state| {
            state.shorten(*node, end);
            Ok(())
        })
    }
}

/// The lock of a directory and, if it has one, of its lock file.
#[derive(Debug)]
pub(super) struct MemLock {
    pub(super) shared: Arc<Shared>,
    pub(super) nodes: Vec<NodeId>,
    /// Keeps the lock file.
    pub(super) _file: Option<Handle>,
}

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        self.nodes.iter().for_each(|&node| state.locks.give_back(node));
    }
}
