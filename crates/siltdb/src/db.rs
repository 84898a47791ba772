//! The database handle: opening, families, maintenance and closing.

use crate::{
    family::Family,
    isolation::{Isolation, TransactionOptions},
    options::{FamilyOptions, Options},
    read::Read,
    snapshot::Snapshot,
    source::{Pinned, ReadPlace, ReadSource},
    transaction::Transaction,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FamilyId,
    slice::Pinnable,
};
use siltdb_engine::{
    catalog::family::DEFAULT_FAMILY,
    copies::family_clone::clone_family,
    database::job_rooms::JobRooms,
    engine::Engine,
    families::family_commit,
    install,
    jobs::{flush::flush_all, next::run_one, request::settle},
    options::{EngineOptions, Lifetime},
    read::begin_snapshot,
    reports::check_report::{CheckProgress, CheckReport},
    snapshots::LiveSnapshot,
    stats::Stats,
    write::log_sync::sync_wal,
};
use siltdb_services::{
    compression_stats::{CompressionStats, compression_stats},
    scrub::start_scrubs,
};
use std::{fmt, path::Path};

/// An open database. Cloning is cheap, and any thread may use it.
///
/// Its methods that read and write keys use the family `default`.
///
/// Every [`Family`], [`Snapshot`] and clone keeps the database open and its directory locked. The
/// database closes when the last of them is dropped. That drop blocks as [`Db::close`] does, but
/// can only log an error that `close` would return.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// use siltdb::{Db, Read};
///
/// let db = Db::open(&path)?;
/// db.put(b"k", b"v")?;
/// assert!(db.contains(b"k")?);
/// db.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) default: Family,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Db").field(&self.engine().database().dir).finish()
    }
}

impl Db {
    /// Opens the database in the directory `path` with the default options, and creates it if it is
    /// missing.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    fn open_with(path: &Path, options: Options) -> Result<Self> {
        let engine = Engine::open(path, options.engine)?;
        start_scrubs(&engine)?;
        Self::of_engine(engine)
    }

    /// The database that `engine` has open.
    pub(crate) fn of_engine(engine: Engine) -> Result<Self> {
        let (family, open_id) =
            (engine.database().catalog.families.named(DEFAULT_FAMILY)?, engine.database().open_id);
        let place = ReadPlace { engine, open_id, family, point: None };
        Ok(Self { default: Family { place } })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.default.place.engine
    }

    /// Sets the memory of the block cache, in bytes, until the database is closed; 0 caches no
    /// blocks. A smaller cache drops the blocks in excess before the call returns.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// db.set_cache_bytes(8 << 20)?;
    /// assert_eq!(db.stats().cache_bytes_max, 8 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if `bytes` exceeds [`Options::memory_budget`].
    pub fn set_cache_bytes(&self, bytes: usize) -> Result<()> {
        let budget = self.engine().database().options.memory_budget;
        if bytes > budget {
            return Err(Error::invalid("cache_bytes is more than memory_budget")
                .with_mismatch(format_args!("<= {budget}"), bytes));
        }
        self.engine().database().memory.cache.set_capacity(bytes);
        Ok(())
    }

    /// Begins a transaction at a level of [`Isolation`].
    ///
    /// Takes one lock and, from [`Isolation::RepeatableRead`] on, registers a snapshot.
    #[must_use]
    pub fn begin(&self, isolation: Isolation) -> Transaction {
        self.begin_with(&TransactionOptions::new().isolation(isolation))
    }

    /// Begins a transaction with `options`.
    #[must_use]
    pub fn begin_with(&self, options: &TransactionOptions) -> Transaction {
        Transaction::begin(&self.default, *options)
    }

    /// Blocks until everything up to `sequence` is durable. The number is that of a
    /// [`CommitInfo`](crate::CommitInfo) or of a snapshot.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Isolation;
    ///
    /// let transaction = db.begin(Isolation::Serializable);
    /// transaction.put("k", "v")?;
    /// let commit = transaction.commit()?;
    /// // What follows may still be undone by a power cut.
    /// db.wait_durable(commit.sequence)?;
    /// // Now it may not.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if no operation has this number yet; as [`Db::sync_wal`].
    pub fn wait_durable(&self, sequence: u64) -> Result<()> {
        let published = self.engine().database().log.publisher.published().0;
        if sequence > published {
            return Err(Error::invalid("no commit has this sequence number yet")
                .with_mismatch(format_args!("at most {published}"), sequence));
        }
        self.sync_wal()
    }

    /// Returns the family `default`, which every database has.
    #[must_use]
    pub fn default_family(&self) -> Family {
        self.default.clone()
    }

    /// Returns the family called `name`.
    ///
    /// # Errors
    /// `NotFound`, if no family has this name.
    pub fn family(&self, name: &str) -> Result<Family> {
        let family = self.engine().database().catalog.families.named(name)?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// Returns the family with this id, which [`Family::id`] and [`Operation`](crate::Operation)
    /// give.
    ///
    /// # Errors
    /// `NotFound`, if no family has this id.
    pub fn family_by_id(&self, id: FamilyId) -> Result<Family> {
        let family = self.engine().database().catalog.families.of_id(id)?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// Creates a family, durably on return. A name has 1 to 255 bytes and no control characters. A
    /// database has at most 65,536 families.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument`, for a bad name, bad options or too many families; as
    /// [`Family::put`].
    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let family = self.engine().at_work(|database| {
            install::create_family(&database.installer(), name, options.tree)
        })?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// Prepares a family that a batch creates together with data; see
    /// [`WriteBatch::create_family`](crate::WriteBatch::create_family). Until that batch is
    /// written, no lookup finds the family and its name stays free. Reading or writing it by itself
    /// fails with `NotFound`.
    ///
    /// Takes a little memory and writes nothing. A family that is never created is freed with its
    /// last handle. Names and limits are those of [`Db::create_family`]. The write of the batch
    /// checks whether the name is free.
    ///
    /// # Errors
    /// `InvalidArgument`, for a bad name or bad options; `ReadOnly`, `Poisoned`, `Closed`.
    pub fn prepare_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let family = self.engine().at_work(|database| {
            family_commit::prepare_family(&database.database().catalog, name, options.tree)
        })?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// Returns the family called `name`, and creates it with `options` if it is missing. A family
    /// that exists keeps its own options.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{Db, FamilyOptions};
    /// # let path = dir.path().join("data");
    /// for _ in 0..2 {
    ///     let db = Db::open(&path)?;
    ///     let users = db.family_or_create("users", FamilyOptions::new())?;
    ///     users.put(b"alice", b"1")?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_family`], except `AlreadyExists`; `InvalidArgument`, if the family has
    /// another [key order](FamilyOptions::key_order) than `options`.
    pub fn family_or_create(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let is = |error: &Error, kind: ErrorKind| error.kind() == kind;
        let order = options.tree.key_order.clone();
        match self.family(name) {
            Err(error) if is(&error, ErrorKind::NotFound) => {}
            found => return found?.with_order(order.as_deref()),
        }
        match self.create_family(name, options) {
            // Another thread created the family first.
            Err(error) if is(&error, ErrorKind::AlreadyExists) => {
                self.family(name)?.with_order(order.as_deref())
            }
            created => created,
        }
    }

    /// Creates the family `name` with what `source` holds now and with its options. From then on
    /// neither sees what is written to the other. It is durable on return, and a family as any
    /// other: it can be written, dropped, renamed and cloned, and outlives its source.
    ///
    /// Cost: a flush if `source` has something in memory, then one edit of the manifest with a
    /// reference to each table of `source`. No entry is copied: both families share the files until
    /// a compaction replaces them in one. A file takes space as long as one family needs it.
    ///
    /// What is committed during the call may be missing in the clone; each commit is there as a
    /// whole or not at all. A clone is no commit: [`Db::subscribe`] does not tell of it. A snapshot
    /// that is older than the clone sees it as it saw the source.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    ///
    /// db.put(b"key", b"before")?;
    /// let copy = db.clone_family(&db.default_family(), "copy")?;
    /// db.put(b"key", b"after")?;
    /// copy.put(b"other", b"of the copy")?;
    /// assert_eq!(copy.get(b"key")?.as_deref(), Some(&b"before"[..]));
    /// assert!(!db.contains(b"other")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists`; `NotFound`, if `source` was dropped; `InvalidArgument`, for a bad name, too
    /// many families, or a family of another open database; as [`Db::flush`] and
    /// [`Db::create_family`]. There is no family `name` then.
    pub fn clone_family(&self, source: &Family, name: &str) -> Result<Family> {
        self.clone_at(source, name, None)
    }

    /// As [`Db::clone_family`], with what `source` held at the moment of `snapshot`. A family that
    /// was created after that gives an empty clone, and a clone gives what its source held.
    ///
    /// A table that also has newer entries is shared as well. Readers of the clone pass over these
    /// until a compaction of the clone leaves them out.
    ///
    /// # Errors
    /// As [`Db::clone_family`].
    pub fn clone_family_at(
        &self,
        snapshot: &Snapshot,
        source: &Family,
        name: &str,
    ) -> Result<Family> {
        // It refuses a family of another database.
        self.clone_at(source, name, Some(&snapshot.family(source)?))
    }

    fn clone_at(&self, source: &Family, name: &str, at: Option<&Snapshot>) -> Result<Family> {
        let place = &self.default.place;
        if source.place.open_id != place.open_id {
            return Err(Error::invalid("the family is of another open database"));
        }
        let at = at.map(Snapshot::live);
        let family =
            self.at_work_with(at, |rooms, at| clone_family(rooms, &source.place.family, name, at))?;
        Ok(Family { place: ReadPlace { family, ..place.clone() } })
    }

    /// Runs `work`, which changes files, with the snapshot `at`, or with one of now.
    pub(crate) fn at_work_with<T>(
        &self,
        at: Option<&LiveSnapshot>,
        work: impl FnOnce(&JobRooms<'_>, &LiveSnapshot) -> Result<T>,
    ) -> Result<T> {
        self.engine().at_work(|database| match at {
            Some(at) => work(&database.job_rooms(), at),
            None => work(&database.job_rooms(), &begin_snapshot(&database.database().read_rooms())),
        })
    }

    /// Drops a family and all its data, durably on return. Calls on its handles fail with
    /// `NotFound` from then on. Open iterators, and snapshots taken with [`Snapshot::family`], can
    /// still read what they hold. The files are removed when the last of all these is dropped, and
    /// the last family that shares them.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument`, for the default family; as [`Family::put`].
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.engine().at_work(|database| family_commit::drop_family(&database.installer(), name))
    }

    /// Renames a family, durably on return. Its handles stay valid.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists`; `InvalidArgument`, for a bad name or the default family; as
    /// [`Family::put`].
    pub fn rename_family(&self, name: &str, to: &str) -> Result<()> {
        self.engine().at_work(|database| install::rename_family(&database.installer(), name, to))
    }

    /// Returns the names of all families, sorted.
    #[must_use]
    pub fn families(&self) -> Vec<String> {
        self.engine().database().catalog.families.names()
    }

    /// Takes a snapshot of all families: the state after the last published commit.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.default.place, begin_snapshot(&self.engine().database().read_rooms()))
    }

    /// Syncs the log, so that every acknowledged commit survives a power loss. `Volatile` commits
    /// are not in the log; [`Db::flush`] makes these durable.
    ///
    /// # Errors
    /// `Poisoned`, if the sync fails, or if an earlier write or sync of the log failed.
    pub fn sync_wal(&self) -> Result<()> {
        sync_wal(&self.engine().writable()?.installer())
    }

    /// Writes all memtables to tables, and returns when these are durable.
    ///
    /// A flush is not needed for durability: [`Db::sync_wal`] makes commits survive a power loss at
    /// far less cost. It frees memory and log, and makes `Volatile` commits durable.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Closed`, `Io`.
    pub fn flush(&self) -> Result<()> {
        self.engine().at_work(|database| flush_all(&database.job_rooms()))
    }

    /// Blocks until no flush, compaction or move to another tier is due or running. A memtable that
    /// is not full stays in memory. During a pause ([`Db::pause_background`]) no compaction and no
    /// move is due. Under steady writing this may block without end.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Closed`, `Io`.
    pub fn settle(&self) -> Result<()> {
        self.engine().at_work(|database| settle(&database.job_rooms()))
    }

    /// Returns the error of background work that currently fails: a flush, the compaction of a
    /// family, or a move to another tier, such as to a full cold disk. Failed work is retried until
    /// it succeeds. The first failure is logged. A write gets the error once it has to wait for
    /// that work.
    ///
    /// If nothing fails, returns the damage of a table that could not be moved, or that the last
    /// [`Db::scrub`] with damage found, until a scrub of everything finds none.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        self.engine().database().background_error()
    }

    /// Returns the options that the database was opened with, merge operators included. They open
    /// it again in the same way.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::Options;
    ///
    /// let db = Options::new().memtable_bytes(1 << 20).open(dir.path())?;
    /// assert_eq!(db.options().get("memtable_bytes")?, "1048576");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn options(&self) -> Options {
        // Another database opened with the options of a temporary one must not remove itself.
        let lifetime = Lifetime::Lasting;
        Options { engine: EngineOptions { lifetime, ..self.engine().database().options.clone() } }
    }

    /// Returns counts and sizes of the database, computed by this call.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine().database().stats()
    }

    /// Returns how much the tables of all families hold, by codec. Unlike [`Db::stats`] this reads
    /// disk: the properties of each table.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// db.put(b"key", vec![7; 1000])?;
    /// db.flush()?;
    /// let stats = db.compression_stats();
    /// assert_eq!((stats[0].codec, stats[0].tables, stats[0].raw_bytes), ("lz4", 1, 1003));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compression_stats(&self) -> Vec<CompressionStats> {
        let families = self.engine().database().catalog.families.load();
        compression_stats(families.iter().map(|family| family.version()))
    }

    /// Reads and verifies every table of this database: blocks, order, filters and counts, and that
    /// they agree. The check calls `on_progress` between blocks. Opening the database has verified
    /// the manifest and the log; [`check`] verifies them again.
    ///
    /// # Errors
    /// None at present. The report has the damage, and what could not be read.
    pub fn check(&self, on_progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport> {
        siltdb_services::check::check(self.engine().database(), on_progress)
    }

    /// Runs one background job on this thread if one is due, and returns whether it did. For
    /// databases opened with [`Options::workers`]`(0)`.
    ///
    /// # Errors
    /// The error of the job.
    pub fn run_job(&self) -> Result<bool> {
        self.engine().at_work(|database| run_one(&database.job_rooms()))
    }

    /// Closes the database for all clones: waits for running commits and jobs, syncs the log, ends
    /// the threads and releases the lock. It first flushes the memtables if they hold `Volatile`
    /// writes or more than 1 MiB, so that the next opening has little to replay.
    ///
    /// Reads and writes through remaining handles fail with `Closed`. Existing iterators and values
    /// stay usable. An iterator that reaches a file which was removed meanwhile fails with
    /// `Closed`.
    ///
    /// Closing another clone blocks until the first close is complete, and returns its result.
    ///
    /// # Errors
    /// The error of the final sync, or the first failure since the opening; the error that keeps
    /// `Volatile` commits from being flushed.
    pub fn close(self) -> Result<()> {
        self.engine().close()
    }
}

impl Options {
    /// Opens the database in the directory `path`.
    ///
    /// Reads the manifest and replays the log into memory.
    ///
    /// # Errors
    /// - `Locked`, if the database is open, in this process or another.
    /// - `NotFound` or `AlreadyExists`, by [`Options::create`].
    /// - `Corruption`, with file and offset.
    /// - `Unsupported`, if a newer version wrote it.
    /// - `InvalidArgument`, if an option is out of range or the path is a file. Also if the
    ///   directory holds other files and no database.
    /// - `InvalidArgument`, if the merge operator of a family is not given, or the default family
    ///   has another one.
    /// - `ReadOnly`, if the directory cannot be written; `Io`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(path.as_ref(), self)
    }

    /// Checks a database as [`check`] does, with its file system, its memory and its
    /// [`lock_wait`](Self::lock_wait).
    ///
    /// # Errors
    /// As [`check`].
    pub fn check(
        self,
        path: impl AsRef<Path>,
        on_progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        siltdb_services::check::check_closed(path.as_ref(), self.engine, on_progress)
    }
}

impl ReadSource for Db {
    #[inline]
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        self.default.place.look(key, look)
    }

    fn pin(&self) -> Result<Pinned> {
        self.default.place.pin()
    }
}

impl Read for Db {}

/// Checks a database that is not open, without changing it: its tables as [`Db::check`] does, its
/// manifest and its log.
///
/// The database need not be fit to open. Damage in the log ends the check of the log; the tables
/// are verified all the same. Without `CURRENT` and the manifest, which name all other files, no
/// more can be verified. [`CheckReport::not_verified`] names what was left out.
///
/// # Errors
/// `NotFound`, `Locked`, `Io`. The report has the damage.
pub fn check(
    path: impl AsRef<Path>,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    Options::new().check(path, on_progress)
}
