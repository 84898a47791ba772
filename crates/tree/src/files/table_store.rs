//! A directory of whole table files: what a tier is made of.
//!
//! It offers what a bucket of an object store could: a file is put whole, read in ranges, listed
//! and deleted. It renames, links and appends to nothing, and knows no table.
//!
//! # Seeded fault
//! `cold_copy_not_synced`: a file that was put may not be durable.

use siltdb_base::{
    error::{Error, Result},
    fs::{File, FileKind, Fs, WriteFile},
    id::FileNumber,
    seeded_fault,
};
use siltdb_disk::file_name::FileName;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A directory of whole table files.
#[derive(Clone, Debug)]
pub struct TableStore {
    directory: Arc<dyn Fs>,
    keeping: Keeping,
}

/// Whether files of a store are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// They are.
    #[default]
    Deletes,
    /// They belong to another database, and stay.
    KeepsAll,
}

impl TableStore {
    /// The table files in `directory`.
    #[must_use]
    pub fn new(directory: Arc<dyn Fs>) -> Self {
        Self { directory, keeping: Keeping::default() }
    }

    /// The same files, which are only read: none is made, and deletions do nothing.
    #[must_use]
    pub fn keeping_all(self) -> Self {
        Self { keeping: Keeping::KeepsAll, ..self }
    }

    /// Whether its files are removed.
    #[must_use]
    pub fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &dyn Fs {
        &*self.directory
    }

    /// The path of a file, for messages.
    #[must_use]
    pub fn path(&self, number: FileNumber) -> PathBuf {
        self.directory.full_path(&FileName::Table(number).to_path())
    }

    /// Makes a file of what `write` appends. File and name are durable on return.
    ///
    /// # Errors
    /// `AlreadyExists`; what `write` fails with; `NoSpace` and the system's. No file is left,
    /// unless it cannot be removed: then it is an orphan.
    pub fn put(
        &self,
        number: FileNumber,
        write: &mut dyn FnMut(&mut dyn WriteFile) -> Result<()>,
    ) -> Result<()> {
        if self.keeping == Keeping::KeepsAll {
            return Err(Error::invalid("the cold directory belongs to another database"));
        }
        let mut file = self.directory.create(&FileName::Table(number).to_path())?;
        let is_synced = !seeded_fault!("cold_copy_not_synced");
        let written = write(&mut *file);
        let written = written.and_then(|()| if is_synced { file.sync() } else { file.flush() });
        drop(file);
        let written = written.and_then(|()| match is_synced {
            true => self.directory.sync_dir(Path::new("")),
            false => Ok(()),
        });
        written.inspect_err(|_| {
            // The error is dropped: what cannot be removed now is an orphan.
            let _ = self.delete(number);
        })
    }

    /// Opens a file, to read ranges of it.
    ///
    /// # Errors
    /// `NotFound` and the system's.
    pub fn open(&self, number: FileNumber) -> Result<Arc<dyn File>> {
        self.directory.open(&FileName::Table(number).to_path())
    }

    /// The numbers of the files that are there.
    ///
    /// # Errors
    /// The system's.
    pub fn list(&self) -> Result<Vec<FileNumber>> {
        let mut numbers = Vec::new();
        for entry in self.directory.list(Path::new(""))? {
            let is_file = entry.kind == FileKind::File;
            if let (true, Some(FileName::Table(number))) = (is_file, FileName::parse(&entry.name)) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    /// Removes a file, unless all are kept.
    ///
    /// # Errors
    /// `NotFound` and the system's.
    pub fn delete(&self, number: FileNumber) -> Result<()> {
        match self.keeping {
            Keeping::Deletes => self.directory.remove(&FileName::Table(number).to_path()),
            Keeping::KeepsAll => Ok(()),
        }
    }
}

/// The error for a table of a tier that is not open.
#[cold]
pub(crate) fn not_open() -> Error {
    Error::corruption("a table lies in the cold directory, and the manifest names none")
}

#[cfg(test)]
mod tests;
