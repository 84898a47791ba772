//! The format that a database was created with, and the way to that of this build.
//!
//! There is one version so far: any other is refused, and this one has nowhere to go.

use crate::catalog::manifest::{LogState, read_current, read_manifest};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LockKind},
};
use siltdb_disk::{edit::FORMAT_VERSION, file_name::FileName};
use std::path::Path;

/// What a reader must know to read a database.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseFormat {
    /// The version of its files, fixed when it was created.
    pub version: u32,
    /// The features it uses, one bit each.
    pub features: u64,
}

/// Brings the database in `dir` to the newest format version that this build knows, and says which
/// format it has then. One that has it is not changed.
///
/// # Errors
/// `NotFound`; `Locked`, if it is open; `Unsupported`, for a version or feature that this build
/// does not know; `Corruption`; the system's.
pub fn upgrade(fs: &dyn Fs, dir: &Path) -> Result<DatabaseFormat> {
    let directory = fs.open_dir(dir)?;
    let _lock = directory.lock(&FileName::Lock.to_path(), LockKind::Shared)?;
    let Some(number) = read_current(&*directory)? else {
        return Err(Error::new(ErrorKind::NotFound, "no database: there is no CURRENT")
            .with_file(&directory.full_path(&FileName::Current.to_path())));
    };
    let mut state = LogState::default();
    // It refuses every other version.
    read_manifest(&*directory, number, &mut |edit| {
        state.note(&edit);
        Ok(())
    })?;
    Ok(DatabaseFormat { version: FORMAT_VERSION, features: state.features })
}

#[cfg(test)]
mod tests;
