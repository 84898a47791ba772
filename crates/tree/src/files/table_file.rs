//! An open table file, and what it means that one is missing.
//!
//! It neither opens nor removes files, and knows no table.

use bytes::Bytes;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::File,
    seeded_fault,
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// Which process removes the table files of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remover {
    /// This one, and only files that are not in use: a missing file is damage.
    Ours,
    /// A writer in another process: a missing file may be one that the writer needs no more.
    Writer,
}

/// What it means that a table file of a database is missing.
#[derive(Debug)]
pub struct MissingFile {
    remover: Remover,
    is_closed: AtomicBool,
}

impl MissingFile {
    /// Of an open database, whose files `remover` removes.
    #[must_use]
    pub fn new(remover: Remover) -> Self {
        Self { remover, is_closed: AtomicBool::new(false) }
    }

    /// Whether another process may remove files that are in use.
    #[must_use]
    pub fn is_removed_by_writer(&self) -> bool {
        self.remover == Remover::Writer
    }

    /// From now on a missing file is no damage, because others may remove files.
    pub fn close(&self) {
        // Release pairs with the acquire in `explain`, so that a reader that misses a file removed
        // after this knows why.
        self.is_closed.store(true, Ordering::Release);
    }

    /// What it means that a table file cannot be opened.
    #[must_use]
    pub fn explain(&self, error: Error, path: &Path) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        if self.remover == Remover::Writer && !seeded_fault!("vanished_file_is_damage") {
            let message = "the writer has removed a table of this state";
            return Error::new(ErrorKind::Busy, message)
                .with_file(path)
                .with_hint("catch up, and read the new state");
        }
        if self.is_closed.load(Ordering::Acquire) {
            let message = "the database was closed, and a table of it removed since";
            return Error::new(ErrorKind::Closed, message).with_file(path);
        }
        Error::corruption("a table that the manifest names is missing").with_file(path)
    }
}

/// An open table file. What is read of it may have to be opened again, and may be gone then.
#[derive(Debug)]
pub struct TableFile {
    file: Arc<dyn File>,
    path: PathBuf,
    missing: Arc<MissingFile>,
    /// The whole file, once a table in it was mapped.
    mapping: OnceLock<Bytes>,
}

impl TableFile {
    /// The table file `file` at `path`.
    #[must_use]
    pub fn new(file: Arc<dyn File>, path: PathBuf, missing: Arc<MissingFile>) -> Self {
        Self { file, path, missing, mapping: OnceLock::new() }
    }

    fn mapping(&self) -> Result<&Bytes> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping);
        }
        let mapped = self.file.map(0, self.file.len());
        let mapping = mapped.map_err(|error| self.missing.explain(error, &self.path))?;
        Ok(self.mapping.get_or_init(|| mapping))
    }
}

impl File for TableFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| self.missing.explain(error, &self.path))
    }

    fn map(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        let mapping = self.mapping()?;
        let ends_early = || {
            let error = Error::corruption("file ends early").with_file(&self.path);
            error.with_offset(offset).with_mismatch(bytes, mapping.len())
        };
        let end = offset.checked_add(bytes).filter(|&end| end <= mapping.len() as u64);
        let end = end.ok_or_else(ends_early)?;
        Ok(mapping.slice(offset as usize..end as usize))
    }
}

#[cfg(test)]
mod tests;
