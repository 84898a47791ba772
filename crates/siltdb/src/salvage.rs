//! Salvage: writing what verifies of a damaged database into a new one.

use crate::options::Options;
use siltdb_base::error::Result;
use std::path::Path;

pub use siltdb_engine::reports::lost::{Lost, LostPart};
pub use siltdb_services::salvage::report::{
    ManifestState, SalvageProgress, SalvageReport, SalvagedFamily,
};

/// Writes what verifies of the damaged database in `old` into a new one in `new`, and reports what
/// may be lost. `old` must not be open, and is never written to.
///
/// It reads every block of every table and every record of the log, also behind damage. For each
/// key the new database has what a reader of the old one would see, as far as it can be read. If
/// the newest entry of a key is lost, an older value may appear, also that of a deleted key. The
/// report names the ranges of such keys. Expired values are kept, and readers of the new database
/// compare their expiry. Merge operands stay operands, unless [`Options::merge_operator`] provides
/// the operator of their family.
///
/// A missing `CURRENT` loses nothing. Without a readable manifest, each table tells its family, the
/// tables that it replaced, and the log segments that were needed. The report then has
/// [`ManifestState::Lost`], because retired files cannot always be told from live ones. Deleted
/// keys, older values, dropped families and folded merge operands may reappear. A retired deletion
/// may hide a later value.
///
/// `options` are those of the new database. Its families keep their old options, as far as these
/// are known. [`Options::lock_wait`] and [`Options::cold_directory`] apply to the old database; the
/// new one has no cold directory. On `Ok` the new database is
/// durable and closed.
///
/// Memory: a block and an index for each sorted run, and about 64 MiB of the log, in addition to
/// that of `options`. Disk: the new database, and a second copy of the log.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (old, new) = (dir.path().join("old"), dir.path().join("new"));
/// use siltdb::{Db, Options, Read, salvage::salvage};
///
/// let db = Db::open(&old)?;
/// db.put(b"key", b"value")?;
/// db.close()?;
/// std::fs::remove_file(old.join("CURRENT"))?;
/// assert!(Db::open(&old).is_err());
/// let report = salvage(&old, &new, Options::new(), &mut |_| {})?;
/// assert!(report.is_complete() && report.entries == 1);
/// assert_eq!(Db::open(&new)?.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound`, if `old` has no files of a database; `Locked`, if it is open; `AlreadyExists` or
/// `InvalidArgument`, if `new` is not free or lies in `old`. An error of writing the new database.
/// Then there is no `new`. A process that is killed leaves `new.partial`, which the next salvage to
/// `new` replaces.
pub fn salvage(
    old: impl AsRef<Path>,
    new: impl AsRef<Path>,
    options: Options,
    on_progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    siltdb_services::salvage::salvage(old.as_ref(), new.as_ref(), options.engine, on_progress)
}

/// Reads the damaged database in `old` as [`salvage`] does, and reports what that would save and
/// lose. It writes nothing. The report is that of a salvage with the same `options`.
///
/// Memory: in addition to that of [`salvage`], the operations in the log.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let old = dir.path().join("old");
/// use siltdb::{Db, Options, salvage::dry_run};
///
/// let db = Db::open(&old)?;
/// db.put(b"key", b"value")?;
/// db.close()?;
/// let report = dry_run(&old, Options::new(), &mut |_| {})?;
/// assert!(report.is_complete() && report.entries == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound`, if `old` has no files of a database; `Locked`, if it is open.
pub fn dry_run(
    old: impl AsRef<Path>,
    options: Options,
    on_progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    siltdb_services::salvage::dry_run(old.as_ref(), options.engine, on_progress)
}
