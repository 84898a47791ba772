//! How much lies in the directory `lost`: what openings took out of a database and did not remove.
//!
//! It keeps nothing itself.

use siltdb_base::{
    error::Result,
    fs::{Fs, Metadata},
};
use siltdb_disk::file_name::FileName;

/// What an opening has kept in the directory `lost`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptFiles {
    /// Files of the log, from the first damage on.
    pub log_files: u64,
    /// Records in them that were cut off, as far as they can be told.
    pub log_records: u64,
    /// The size of these records, in bytes.
    pub log_bytes: u64,
    /// Tables that neither the manifest nor the log knows.
    pub tables: u64,
}

impl KeptFiles {
    /// Whether nothing was kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The files in the directory `lost`, as a check counts them.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostFiles {
    /// The number of files.
    pub files: u64,
    /// Their size, in bytes.
    pub bytes: u64,
}

impl LostFiles {
    /// Those of the database in `directory`.
    ///
    /// # Errors
    /// The system's.
    pub fn of(directory: &dyn Fs) -> Result<Self> {
        let mut found = Self::default();
        let lost = FileName::Lost.to_path();
        if directory.metadata(&lost)? != Some(Metadata::Directory) {
            return Ok(found);
        }
        for (name, length) in directory.list_lengths(&lost)? {
            if FileName::parse(&name).is_some() {
                found.files += 1;
                found.bytes += length;
            }
        }
        Ok(found)
    }
}
