//! The database: opening it, its families, writing, and looking after it.

use crate::{
    batch::{WriteBatch, other_database},
    family::Family,
    options::{FamilyOptions, Options},
    read::{Read, Source, sealed::Sealed},
    snapshot::Snapshot,
    write_options::WriteOptions,
};
use siltdb_base::error::{Error, ErrorKind, Result};
use siltdb_engine::{
    catalog::family::DEFAULT_FAMILY,
    check::{CheckProgress, CheckReport},
    checkpoint::Checkpoint,
    commit::Payload,
    engine::Engine,
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
    default: Family,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Db").field(&self.engine().dir()).finish()
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
        let engine = Engine::open(path, options.engine)?;
        let (family, instance) = (engine.family(DEFAULT_FAMILY)?, engine.instance());
        let source = Source { engine, instance, family, sequence: None };
        Ok(Self { default: Family { source } })
    }

    fn engine(&self) -> &Engine {
        &self.default.source.engine
    }

    /// Sets the value of a key of the default family; see [`Family::put`].
    ///
    /// # Errors
    /// As [`Family::put`].
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default.put(key, value)
    }

    /// Sets the value of a key of the default family with options of its own; see
    /// [`Family::put_with`].
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default.put_with(key, value, options)
    }

    /// Deletes a key of the default family, whether it exists or not.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete(key)
    }

    /// Applies a batch: all of it or nothing, also across a crash. Durable as the database was
    /// opened for. The batch can be used again.
    ///
    /// # Errors
    /// As [`Family::put`]; `InvalidArgument`, if it merges in a family without a merge operator, or
    /// names families of another open database: nothing of it was written then; after `Poisoned`
    /// too the batch is there as a whole or not at all.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::new())
    }

    /// Applies a batch with options of its own. An empty one that asks to be synced does what
    /// [`Db::sync_wal`] does.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if !batch.is_empty() && batch.instance != Some(self.default.source.instance) {
            return Err(other_database());
        }
        self.engine().commit(&Payload::batch(&batch.bytes), options.durability)
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
        let family = self.engine().family(name)?;
        Ok(Family { source: Source { family, ..self.default.source.clone() } })
    }

    /// Creates a family. It is durable on return. A name has 1 to 255 bytes and no control
    /// characters; there are at most 65,536 families.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument`, for a bad name, bad options or too many families; as
    /// [`Family::put`].
    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let family = self.engine().create_family(name, options.tree)?;
        Ok(Family { source: Source { family, ..self.default.source.clone() } })
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
        Snapshot::new(&self.default.source, self.engine().snapshot())
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
    /// `NoSpace`, `ReadOnly`, `Poisoned`, `Closed`; the system's. This database is as before.
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

impl Sealed for Db {}

impl Read for Db {
    fn source(&self) -> &Source {
        &self.default.source
    }
}

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
