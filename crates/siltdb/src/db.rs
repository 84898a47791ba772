//! The database: opening it, its families, writing, and looking after it.

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
    check::{CheckProgress, CheckReport},
    checkpoint::Checkpoint,
    engine::Engine,
    options::{EngineOptions, Lifetime},
    stats::Stats,
};
use std::{fmt, path::Path};

/// An open database. Cheap to clone; may be used from any thread.
///
/// Reading and writing it directly uses the family `default`.
///
/// It is closed when the last clone is dropped and nothing holds it open any more: every
/// [`Family`], [`Snapshot`] and clone does, and until then the directory stays locked. Dropping
/// waits as [`Db::close`] does, which also tells of errors, where dropping can only log them.
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
        f.debug_tuple("Db").field(&self.engine().dir).finish()
    }
}

impl Db {
    /// Opens the database in the directory `path` with the default options; creates it if there is
    /// none.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    fn open_with(path: &Path, options: Options) -> Result<Self> {
        Self::of_engine(Engine::open(path, options.engine)?)
    }

    /// The database that `engine` has open.
    pub(crate) fn of_engine(engine: Engine) -> Result<Self> {
        let (family, open_id) = (engine.catalog.families.named(DEFAULT_FAMILY)?, engine.open_id);
        let place = ReadPlace { engine, open_id, family, sequence: None };
        Ok(Self { default: Family { place } })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.default.place.engine
    }

    /// Changes how much memory the block cache may take, in bytes, until the database is closed; 0
    /// keeps no blocks. Blocks beyond that are dropped before it returns.
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
    /// `InvalidArgument`, if that is more than [`Options::memory_budget`].
    pub fn set_cache_bytes(&self, bytes: usize) -> Result<()> {
        let budget = self.engine().options.memory_budget;
        if bytes > budget {
            return Err(Error::invalid("cache_bytes is more than memory_budget")
                .with_mismatch(format_args!("<= {budget}"), bytes));
        }
        self.engine().memory.cache.set_capacity(bytes);
        Ok(())
    }

    /// Begins a transaction; see [`Isolation`] for what the levels promise.
    ///
    /// Costs a lock and, from [`Isolation::RepeatableRead`] on, the registration of a snapshot.
    #[must_use]
    pub fn begin(&self, isolation: Isolation) -> Transaction {
        self.begin_with(&TransactionOptions::new().isolation(isolation))
    }

    /// Begins a transaction with options of its own.
    #[must_use]
    pub fn begin_with(&self, options: &TransactionOptions) -> Transaction {
        Transaction::begin(&self.default, *options)
    }

    /// Returns once everything up to `sequence`, of a [`CommitInfo`](crate::CommitInfo) or a
    /// snapshot, is durable.
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
    /// `InvalidArgument`, if nothing has this number yet; as [`Db::sync_wal`].
    pub fn wait_durable(&self, sequence: u64) -> Result<()> {
        let published = self.engine().published().0;
        if sequence > published {
            return Err(Error::invalid("no commit has this sequence number yet")
                .with_mismatch(format_args!("at most {published}"), sequence));
        }
        self.sync_wal()
    }

    /// The family `default`, which every database has.
    #[must_use]
    pub fn default_family(&self) -> Family {
        self.default.clone()
    }

    /// The family called `name`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn family(&self, name: &str) -> Result<Family> {
        let family = self.engine().catalog.families.named(name)?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// The family with this number, as [`Family::id`] and [`Operation`](crate::Operation) name it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn family_by_id(&self, id: FamilyId) -> Result<Family> {
        let family = self.engine().family_by_id(id)?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// Creates a family. It is durable on return. A name has 1 to 255 bytes and no control
    /// characters; there are at most 65,536 families.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument`, for a bad name, bad options or too many families; as
    /// [`Family::put`].
    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let family = self.engine().create_family(name, options.tree)?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// A family that a batch can create together with data: see
    /// [`WriteBatch::create_family`](crate::WriteBatch::create_family). Until that batch is written
    /// the family has no name that others could find or be in the way of, and reading or writing it
    /// by itself fails with `NotFound`.
    ///
    /// Costs a little memory and writes nothing: a family that is never created goes with its last
    /// handle. Names and limits are those of [`Db::create_family`]; whether the name is free is
    /// asked when the batch is written.
    ///
    /// # Errors
    /// `InvalidArgument`, for a bad name or bad options; `ReadOnly`, `Poisoned`, `Closed`.
    pub fn prepare_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let family = self.engine().prepare_family(name, options.tree)?;
        Ok(Family { place: ReadPlace { family, ..self.default.place.clone() } })
    }

    /// The family called `name`, which is created if there is none; `options` count only then.
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
    /// As [`Db::create_family`], but for `AlreadyExists`.
    pub fn family_or_create(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let is = |error: &Error, kind: ErrorKind| error.kind() == kind;
        match self.family(name) {
            Err(error) if is(&error, ErrorKind::NotFound) => {}
            found => return found,
        }
        match self.create_family(name, options) {
            // Another thread was faster.
            Err(error) if is(&error, ErrorKind::AlreadyExists) => self.family(name),
            created => created,
        }
    }

    /// Drops a family and all it holds. It is durable on return. Its handles fail with `NotFound`
    /// from then on; open iterators, and snapshots of it taken with [`Snapshot::family`], finish on
    /// what they have. The files go when the last of all these is gone.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument`, for the default family; as [`Family::put`].
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.engine().drop_family(name)
    }

    /// Renames a family. It is durable on return; handles stay valid.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists`; `InvalidArgument`, for a bad name or the default family.
    pub fn rename_family(&self, name: &str, to: &str) -> Result<()> {
        self.engine().rename_family(name, to)
    }

    /// The names of all families, sorted.
    #[must_use]
    pub fn families(&self) -> Vec<String> {
        self.engine().family_names()
    }

    /// This moment, to be read later.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.default.place, self.engine().snapshot())
    }

    /// Makes every commit that was acknowledged so far survive a power loss, `Volatile` ones
    /// excepted: these need [`Db::flush`].
    ///
    /// # Errors
    /// `Poisoned`, if the sync fails or anything failed before.
    pub fn sync_wal(&self) -> Result<()> {
        self.engine().sync_wal()
    }

    /// Writes everything in memory to tables; returns when they are durable.
    ///
    /// This is not a sync, as `flush` is elsewhere: what was committed survives a power loss after
    /// [`Db::sync_wal`] as well, for far less. A flush frees memory and log, and makes `Volatile`
    /// commits durable.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Closed`; the system's.
    pub fn flush(&self) -> Result<()> {
        self.engine().flush()
    }

    /// Makes a second database of what this one holds, in the directory `dir`, which must not exist
    /// or be empty. It has every commit that was acknowledged before the call; readers and writers
    /// go on meanwhile, and neither database sees what is written to the other later. On return it
    /// is durable.
    ///
    /// Cost: a hard link for each table file, or a copy of it where the file system cannot link, as
    /// to another disk; a copy of the part of the log that is not flushed; a few syncs. A linked
    /// file takes space once, as long as either database needs it, and its damage is that of both:
    /// a checkpoint on the same disk is no backup.
    ///
    /// While it is made, it is called `DIR.partial`; a killed checkpoint leaves that name behind,
    /// and the next checkpoint in `dir` replaces it.
    ///
    /// # Errors
    /// `AlreadyExists`, if something is there; `Locked`, while another checkpoint is made there;
    /// `NoSpace`, `ReadOnly`, `Poisoned`, `Closed`; the system's. This database is as before, and
    /// `dir` does not exist, unless the last step alone failed, the sync of its name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let (path, copy) = (dir.path().join("data"), dir.path().join("copy"));
    /// use siltdb::{Db, Read};
    ///
    /// let db = Db::open(path)?;
    /// db.put(b"key", b"before")?;
    /// db.checkpoint(&copy)?;
    /// db.put(b"key", b"after")?;
    /// assert_eq!(Db::open(&copy)?.get(b"key")?.as_deref(), Some(&b"before"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Checkpoint> {
        self.engine().checkpoint(dir.as_ref())
    }

    /// Compacts every family; see [`Family::compact`].
    ///
    /// # Errors
    /// As [`Family::compact`].
    pub fn compact(&self) -> Result<()> {
        self.engine().compact_all()
    }

    /// Returns once nothing is left to flush or compact for the shape that the data has now. What
    /// is in memory and not full stays there; under steady writing it may take for ever.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Closed`; the system's.
    pub fn settle(&self) -> Result<()> {
        self.engine().settle()
    }

    /// Why background work fails, if it does: a flush, or the compaction of a family. It is tried
    /// again until it succeeds, and logged when it fails first; writers are told once they have to
    /// wait for it.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        self.engine().background_error()
    }

    /// How it was opened, merge operators included: opening it again so gives the same.
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
        // Of a temporary one: another that is opened so is not to remove itself.
        let lifetime = Lifetime::Lasting;
        Options { engine: EngineOptions { lifetime, ..self.engine().options.clone() } }
    }

    /// What the database holds and does, counted now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// Reads and verifies every table that this database refers to: every block, order, filters
    /// and counts, and that they fit together. `on_progress` is called between blocks. The manifest
    /// and the log were verified when the database was opened; [`check`] does so again.
    ///
    /// # Errors
    /// None at present. Damage, and what cannot be read, is in the report.
    pub fn check(&self, on_progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport> {
        self.engine().check(on_progress)
    }

    /// Runs one background job, if one is due, on this thread; for databases opened with
    /// [`Options::workers`]`(0)`. Says whether there was one.
    ///
    /// # Errors
    /// What the job failed with.
    pub fn run_job(&self) -> Result<bool> {
        self.engine().run_job()
    }

    /// Closes the database for all clones: waits for running commits and jobs, syncs the log, ends
    /// the threads and releases the lock. What is in memory is flushed first, if some of it was
    /// written `Volatile`, or if it is more than a MiB, so that the next opening has little to
    /// replay. Whatever still holds the database gets `Closed` when it reads or writes; iterators
    /// and values that it has go on, but an iterator that comes to a file that somebody else has
    /// removed meanwhile gets `Closed`.
    ///
    /// Closing another clone returns when the first has been closed, with the same result.
    ///
    /// # Errors
    /// What syncing the log fails with, or the first failure of the database's life; what keeps
    /// `Volatile` commits from being flushed.
    pub fn close(self) -> Result<()> {
        self.engine().close()
    }
}

impl Options {
    /// Opens the database in the directory `path`.
    ///
    /// Reads the manifest and the log; what the log holds is back in memory on return.
    ///
    /// # Errors
    /// `Locked`, if anybody has it open; `NotFound` or `AlreadyExists`, as
    /// [`Options::create`] says; `Corruption`, with file and offset; `Unsupported`, if a newer
    /// version wrote it; `InvalidArgument`, if an option is out of its range, if a family's merge
    /// operator is not given, if the default family has another, if the path is a file, or if the
    /// directory holds other files and no database; `ReadOnly`, if it may not be written; the
    /// system's.
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
        siltdb_engine::check::check_closed(path.as_ref(), self.engine, on_progress)
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

/// Checks a database that nobody has open, without changing it: what [`Db::check`] looks at, and
/// the log.
///
/// It need not be fit to open. A damaged log ends the look at the log, and the tables are verified
/// all the same; without `CURRENT` and the manifest, which name everything else, nothing else can
/// be. [`CheckReport::not_verified`] says what was left out.
///
/// # Errors
/// `NotFound`, `Locked`; the system's. Damage is in the report.
pub fn check(
    path: impl AsRef<Path>,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    Options::new().check(path, on_progress)
}
