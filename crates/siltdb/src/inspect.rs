//! Reports of the files of a database, for tools and for the search for a fault.
//!
//! They open, lock and change nothing. They also work on a running database; files that are being
//! written or removed are reported as found. The fields may change with any version.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let db = siltdb::Db::open(dir.path())?;
//! use siltdb::inspect::{self, Detail};
//!
//! db.put(b"key", b"value")?;
//! let mut puts = 0;
//! inspect::wal(dir.path(), Detail::Operations, &mut |line| {
//!     puts += usize::from(line.field("key") == Some(r#""key""#));
//!     Ok(())
//! })?;
//! assert_eq!(puts, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use siltdb_base::{error::Result, fs::os::OsFs};
use siltdb_engine::open::foreign::check_not_foreign;
use siltdb_services::inspect::{
    blob::inspect_blob, manifest::inspect_manifest, table::inspect_table, wal::inspect_wal,
};
use std::path::Path;

pub use siltdb_services::inspect::line::{Detail, Field, Line, quoted};

/// Refuses a file or directory that is a database of another engine. A path with anything else, or
/// with nothing, is not refused.
///
/// # Errors
/// `Unsupported`, with the name of the engine; `Io`.
pub fn refuse_foreign(path: impl AsRef<Path>) -> Result<()> {
    check_not_foreign(&OsFs, path.as_ref())
}

/// Reports the log of the database in the directory `path`, or the one log file `path`. The report
/// has the segments in order, their records and operations, and where and why each segment stops.
///
/// A segment that stops early is not an error. Reads every record, in pieces of 1 MiB.
///
/// # Errors
/// `NotFound`; `Unsupported` and `Corruption`, with file and offset; `Io`. An error of `on_line`
/// ends the report and is returned.
pub fn wal(
    path: impl AsRef<Path>,
    detail: Detail,
    on_line: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    inspect_wal(&OsFs, path.as_ref(), detail, on_line)
}

/// Reports the manifest in force of the database in the directory `path`, or the one manifest file
/// `path`: its edits, change by change.
///
/// # Errors
/// As [`wal`].
pub fn manifest(
    path: impl AsRef<Path>,
    detail: Detail,
    on_line: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    inspect_manifest(&OsFs, path.as_ref(), detail, on_line)
}

/// Reports every table in the table file `path`: its table meta, its blocks and its entries.
///
/// With [`Detail::Operations`], every block is read and verified.
///
/// # Errors
/// As [`wal`]. The report still has what can be read before and behind the damage.
pub fn table(
    path: impl AsRef<Path>,
    detail: Detail,
    on_line: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    inspect_table(&OsFs, path.as_ref(), detail, on_line)
}

/// Reports the records of the blob file `path`, and what lies between them.
///
/// With [`Detail::Operations`], the stored bytes of every record are read and verified.
///
/// # Errors
/// As [`wal`]. Damage to stored bytes is returned after the report of all records.
pub fn blob(
    path: impl AsRef<Path>,
    detail: Detail,
    on_line: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    inspect_blob(&OsFs, path.as_ref(), detail, on_line)
}

#[cfg(test)]
mod tests;
