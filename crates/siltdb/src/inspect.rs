//! Shows what the files of a database say, for tools and for people who look for a fault.
//!
//! Nothing is opened, locked, changed or mended. A running database may be inspected as well; what
//! is being written or removed at that moment is reported as it is met. The fields may change from
//! version to version.
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
use siltdb_engine::inspect::{manifest::inspect_manifest, table::inspect_table, wal::inspect_wal};
use std::path::Path;

pub use siltdb_engine::inspect::line::{Detail, Field, Line, quoted};

/// Reports the log of the database in the directory `path`, or the one log file `path`: segments in
/// order, their records and operations, and where each segment stops and why.
///
/// A segment that stops is not an error. Reads every record, in pieces of 1 MiB.
///
/// # Errors
/// `NotFound`; `Unsupported` and `Corruption`, with file and offset; the system's; what `on_line`
/// fails with, which ends the report.
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

/// Reports every table in the table file `path`: its summary, its blocks and its entries.
///
/// With [`Detail::Operations`], every block is read and verified.
///
/// # Errors
/// As [`wal`]. What lies before and behind the damage is reported as far as it can be told.
pub fn table(
    path: impl AsRef<Path>,
    detail: Detail,
    on_line: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    inspect_table(&OsFs, path.as_ref(), detail, on_line)
}

#[cfg(test)]
mod tests;
