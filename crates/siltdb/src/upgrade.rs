//! The format version of a database, and its upgrade to that of this build.

use siltdb_base::{error::Result, fs::os::OsFs};
use std::path::Path;

pub use siltdb_services::upgrade::DatabaseFormat;

/// Upgrades the database in the directory `path` to the newest format version of this build, and
/// returns its format.
///
/// A database keeps the version of its creation until it is upgraded. One of the newest version is
/// not changed. There is one version so far, so every database that this build opens has it.
///
/// # Errors
/// `NotFound`; `Locked`, if it is open; `Unsupported`, for a version or feature that this build
/// does not know; `Corruption`, with file and offset; `Io`.
pub fn upgrade(path: impl AsRef<Path>) -> Result<DatabaseFormat> {
    siltdb_services::upgrade::upgrade(&OsFs, path.as_ref())
}
