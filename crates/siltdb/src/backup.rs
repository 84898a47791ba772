//! Backups: numbered copies of a database in a directory of their own, and databases made of them.
//!
//! [`Db::backup`] adds a backup while the database is in use; [`Backups`] lists, restores, verifies
//! and prunes them without it. Backups share the files of tables that they have in common, so that
//! a backup copies only what is new since the one before. docs/backup.md says what a crash at each
//! step leaves.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = |name: &str| dir.path().join(name);
//! use siltdb::{Db, Read, backup::Backups};
//!
//! let db = Db::open(path("data"))?;
//! db.put("key", "before")?;
//! let first = db.backup(path("backups"))?;
//! db.put("key", "after")?;
//! db.backup(path("backups"))?;
//!
//! let backups = Backups::new(path("backups"));
//! assert_eq!(backups.list()?.backups.len(), 2);
//! backups.restore(Some(first.number), path("restored"))?;
//! assert_eq!(Db::open(path("restored"))?.get("key")?.as_deref(), Some(&b"before"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{db::Db, follower::Follower, options::Options};
use siltdb_base::error::Result;
use siltdb_engine::kit::copying::CopyProgress;
use siltdb_services::backup::{
    create::{BackupRequest, create_backup},
    directory::list_backups,
    past::Adoption,
    prune::prune_backups,
    restore::{RestoreRequest, restore},
    verify::verify_backups,
};
use std::{
    fmt,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

pub use siltdb_services::backup::{
    create::Backup,
    directory::{BackupInfo, BackupListing},
    prune::PruneReport,
    restore::RestoreReport,
    verify::VerifyReport,
};

/// How files are copied: for a backup, a restore, and a move between tiers.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    pub(crate) rate: Option<u64>,
    pub(crate) adoption: Adoption,
}

impl CopyOptions {
    /// As fast as possible.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes copied a second, at most; from 1 on. A piece of 4 KiB to 128 KiB is copied at a time.
    /// Default: no limit.
    #[must_use]
    pub fn rate(mut self, bytes: u64) -> Self {
        self.rate = Some(bytes);
        self
    }

    fn request(&self) -> BackupRequest {
        let (rate, adoption) = (self.rate, self.adoption);
        BackupRequest { rate, adoption, ..BackupRequest::default() }
    }

    /// Whether a backup goes on in a directory whose newest backup is not known to be a past of the
    /// database: an earlier version made it, or the database was restored from an earlier one.
    /// Backups that name another database are refused all the same. Copies of another kind pass
    /// over it. Default: false.
    #[must_use]
    pub fn adopt(mut self, adopts: bool) -> Self {
        self.adoption = if adopts { Adoption::Adopts } else { Adoption::Refuses };
        self
    }
}

impl Db {
    /// Adds a backup of what the database holds to the directory `dir`, which is made if it does
    /// not exist. It has every commit that was acknowledged before the call, of all families, and
    /// the options of the families. Readers and writers go on meanwhile; changes of families and
    /// decisions about prepared transactions wait for the flush. On return the backup is durable.
    ///
    /// One directory takes the backups of one database, each a past of the next one. A copy of the
    /// database that went on separately is refused, and so is one that was restored from an earlier
    /// backup, unless [`CopyOptions::adopt`] says otherwise. What is not in it: the log, so that a
    /// feed of a restored database begins there; and options of an opening.
    ///
    /// Cost: a flush of what is in memory; a read, a write and a read for each table file that the
    /// directory does not have; a few syncs. Files are kept until they are copied, so that a slow
    /// backup of a busy database takes space. A backup makes no links: damage to the database never
    /// reaches it.
    ///
    /// A backup that fails or is killed leaves the earlier ones as they were, and the files that
    /// are whole for the next one. [`Db::close`] cancels a running backup.
    ///
    /// # Errors
    /// `InvalidArgument`, if `dir` belongs to a database, is a file, holds other files and no
    /// backup, or backups that are not known to be a past of this database; `Locked`, while another
    /// process makes or reads backups there; `Corruption`, if a table of the database is damaged;
    /// `NoSpace`, `ReadOnly`, `Poisoned`, `Closed`; the system's. No backup is added then, unless
    /// the last step alone failed, the sync of its name.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(dir, &CopyOptions::new(), &mut |_| ControlFlow::Continue(()))
    }

    /// Adds a backup as [`Db::backup`] does, at a limited rate, and tells of its progress.
    /// `on_progress` is called after each file, and while a file is copied; by `Break` it cancels
    /// the backup.
    ///
    /// # Errors
    /// As [`Db::backup`]; `InvalidArgument`, for a rate of 0; `Cancelled`.
    pub fn backup_with(
        &self,
        dir: impl AsRef<Path>,
        options: &CopyOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<Backup> {
        let (dir, request) = (dir.as_ref(), options.request());
        self.engine().at_work(|database| create_backup(database, dir, request, on_progress))
    }
}

impl Follower {
    /// Catches up, and adds a backup of that state to the directory `dir`, as [`Db::backup`] does.
    /// It has every logged commit that has returned before the call, and what is in memory only is
    /// written to tables in the backup: the database is not flushed, locked or written to. So a
    /// database can be backed up beside a writer in another process, and one that may only be read.
    ///
    /// Cost: as [`Db::backup`], but for the flush; and the unflushed part in memory a second time.
    /// Files with separated values are read each time, because the writer may still write to them.
    ///
    /// # Errors
    /// As [`Db::backup`] and [`Follower::catch_up`]; `Busy`, if the writer removes files faster
    /// than they are copied, 8 times in a row.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(dir, &CopyOptions::new(), &mut |_| ControlFlow::Continue(()))
    }

    /// Adds a backup as [`Follower::backup`] does, at a limited rate, and tells of its progress.
    /// `on_progress` cancels by `Break`.
    ///
    /// # Errors
    /// As [`Follower::backup`]; `InvalidArgument`, for a rate of 0; `Cancelled`.
    pub fn backup_with(
        &self,
        dir: impl AsRef<Path>,
        options: &CopyOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<Backup> {
        self.follower.backup(dir.as_ref(), options.request(), on_progress)
    }
}

/// The backups in a directory. Each call opens the directory, locks it, and releases it again.
#[derive(Clone)]
pub struct Backups {
    dir: PathBuf,
    options: Options,
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backups").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Backups {
    /// The backups in the directory `dir`, which is not looked at yet.
    #[must_use]
    pub fn new(dir: impl AsRef<Path>) -> Self {
        Self::with_options(dir, Options::new())
    }

    /// The same. Of the options the file system, the clock and [`Options::lock_wait`] count.
    #[must_use]
    pub fn with_options(dir: impl AsRef<Path>, options: Options) -> Self {
        Self { dir: dir.as_ref().to_owned(), options }
    }

    /// Which backups there are, by their lists alone. It takes no lock, so it works while backups
    /// are made or pruned, in this process or another.
    ///
    /// # Errors
    /// `NotFound`, if there is no backup, or the only one was never finished; `InvalidArgument`, if
    /// the directory is that of a database, or a file; the system's. A damaged list is among
    /// [`BackupListing::errors`].
    pub fn list(&self) -> Result<BackupListing> {
        list_backups(&self.dir, &self.options.engine)
    }

    /// Makes a database of the backup with this number, or of the newest, in the directory
    /// `target`, which must not exist or be empty. On return it is durable, and closed.
    ///
    /// Each file is compared with the length and checksum of the backup. While the database is
    /// made, it is called `TARGET.partial`: what is called `target` is whole. Nothing is written to
    /// the backups.
    ///
    /// # Errors
    /// `NotFound`, if there is no such backup; `AlreadyExists`, if something is at `target`;
    /// `InvalidArgument`, if `target` lies in a database; `Corruption`, if a file of the backup is
    /// missing or damaged; `NoSpace`; `Locked`, while a backup is made or pruned; as
    /// [`Backups::list`]. No database is made then, unless the
    /// last step alone failed, the sync of its name.
    pub fn restore(&self, number: Option<u64>, target: impl AsRef<Path>) -> Result<RestoreReport> {
        let options = CopyOptions::new();
        self.restore_with(number, target, &options, &mut |_| ControlFlow::Continue(()))
    }

    /// As [`Backups::restore`], at a limited rate, with progress. `on_progress` cancels by `Break`.
    ///
    /// # Errors
    /// As [`Backups::restore`]; `InvalidArgument`, for a rate of 0; `Cancelled`.
    pub fn restore_with(
        &self,
        number: Option<u64>,
        target: impl AsRef<Path>,
        options: &CopyOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<RestoreReport> {
        let request = RestoreRequest { number, target: target.as_ref(), rate: options.rate };
        restore(&self.dir, request, &self.options.engine, on_progress)
    }

    /// Reads the backup with this number, or all of them, and verifies lengths, checksums and each
    /// block of each table. A file that backups share is read once. `on_progress` cancels by
    /// `Break`.
    ///
    /// # Errors
    /// `NotFound`, if there is no such backup; `Locked`, while a backup is made or pruned; as
    /// [`Backups::list`]; `Cancelled`. Damage is in the report.
    pub fn verify(
        &self,
        number: Option<u64>,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<VerifyReport> {
        verify_backups(&self.dir, number, &self.options.engine, on_progress)
    }

    /// Removes all but the newest `keep` backups, and the files that no backup needs any more.
    ///
    /// # Errors
    /// `InvalidArgument`, if `keep` is 0; `Corruption`, if the list of a backup that stays cannot
    /// be read, with nothing removed; `Locked`, while another process or thread uses the backups;
    /// as [`Backups::list`].
    pub fn prune(&self, keep: u64) -> Result<PruneReport> {
        prune_backups(&self.dir, keep, &self.options.engine)
    }
}
