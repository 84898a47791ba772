//! The format version of a database, and its upgrade to the version of this build.
//!
//! There is one version so far. Any other is refused, so there is nothing to upgrade yet.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LockKind},
};
use siltdb_disk::{edit::FORMAT_VERSION, file_name::FileName};
use siltdb_engine::{
    catalog::log_state::LogState,
    catalog::manifest::{read_current, read_manifest},
    open::foreign::check_not_foreign,
};
use std::path::Path;

/// What a build must support to read a database.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseFormat {
    /// The format version, fixed when the database was created.
    pub version: u32,
    /// The features in use, one bit each.
    pub features: u64,
}

/// Upgrades the database in `dir` to the newest format version of this build. Returns the format
/// that it has then. A database of that version is not changed.
///
/// # Errors
/// `NotFound`; `Locked`, if the database is open; `Unsupported`, for a version or feature that this
/// build does not know; `Corruption`; the system's.
pub fn upgrade(fs: &dyn Fs, dir: &Path) -> Result<DatabaseFormat> {
    check_not_foreign(fs, dir)?;
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
