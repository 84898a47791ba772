//! A way out of damage: what verifies of a database, written into a new one.

use crate::options::Options;
use siltdb_base::error::Result;
use std::path::Path;

pub use siltdb_engine::{
    lost::Lost,
    salvage::report::{ManifestState, SalvageProgress, SalvageReport, SalvagedFamily},
};

/// Writes what verifies of the database in `old` into a new one in `new`, and says what may be
/// lost. It is for databases that are damaged; `old` is read and never written to, and must not be
/// open.
///
/// Every block of every table and every record of the log is read, also behind damage. Of each key
/// the new database holds what a reader of the old one would see, as far as that can be read: where
/// the newest entry of a key is lost, an older value may appear, or a deleted one; such keys are
/// among those that the report names. Expired values are kept for the readers of the new one to
/// judge. Operands of merges are kept as operands, unless [`Options::merge_operator`] gives the
/// operator of their family.
///
/// A missing `CURRENT` loses nothing. Without a manifest that can be read, tables say of which
/// family they are, which tables they replaced and which log segments were needed, and the report
/// says [`ManifestState::Lost`]: not all that was retired can be told from what counts. So deleted
/// keys, older values, dropped families and merge operands that were folded already may be among
/// what is saved, and a deletion that was retired may hide a later value.
///
/// `options` are those of the new database; its families have the options of the old ones as far as
/// they are known. [`Options::lock_wait`] holds for the old one. When this returns `Ok` the new
/// database is durable and closed.
///
/// Memory: a block and an index for each sorted run, and some 64 MiB of the log, besides what
/// `options` say. Disk: the new database, and the log once more.
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
/// `NotFound`, if `old` holds nothing of a database; `Locked`, if it is open; `AlreadyExists` or
/// `InvalidArgument`, if `new` is not free for a new database or lies in `old`; what writing the
/// new one fails with, which is of no use then.
pub fn salvage(
    old: impl AsRef<Path>,
    new: impl AsRef<Path>,
    options: Options,
    on_progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    siltdb_engine::salvage::salvage(old.as_ref(), new.as_ref(), options.engine, on_progress)
}
