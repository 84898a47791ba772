//! The format of a database, and the way to that of this build.

use siltdb_base::{error::Result, fs::os::OsFs};
use std::path::Path;

pub use siltdb_engine::upgrade::DatabaseFormat;

/// Brings the database in the directory `path` to the newest format version that this build knows,
/// and says which format it has then.
///
/// A database keeps the version that it was created with until then. One that has the newest is not
/// changed. There is one version so far, so every database that this build opens is of it.
///
/// # Errors
/// `NotFound`; `Locked`, if it is open; `Unsupported`, for a version or feature that this build
/// does not know; `Corruption`, with file and offset; the system's.
pub fn upgrade(path: impl AsRef<Path>) -> Result<DatabaseFormat> {
    siltdb_engine::upgrade::upgrade(&OsFs, path.as_ref())
}
