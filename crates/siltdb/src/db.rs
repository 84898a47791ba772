//! The database: opening it, its families, writing, and looking after it.

use crate::{
    batch::{WriteBatch, WriteOptions},
    family::Family,
    options::{FamilyOptions, Options},
    read::{Read, Source},
    snapshot::Snapshot,
};
use siltdb_base::{error::Result, key::EntryKind};
use siltdb_engine::{
    check::{CheckProgress, CheckReport},
    commit::Payload,
    engine::Engine,
    family::DEFAULT_FAMILY,
    stats::Stats,
};
use std::path::Path;

/// An open database. Cheap to clone; may be used from any thread.
///
/// Reading and writing it directly uses the family `default`.
///
/// The last clone that is dropped closes the database; [`Db::close`] does so and tells of errors.
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
#[derive(Clone, Debug)]
pub struct Db {
    default: Family,
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
        let family = engine.family(DEFAULT_FAMILY)?;
        Ok(Self { default: Family { source: Source { engine, family, sequence: None } } })
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

    /// Sets the value of a key with options of its own.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let family = &self.default.source.family;
        let operation = Payload::one(family, EntryKind::Put, key.as_ref(), value.as_ref());
        self.engine().commit(&operation, options.durability)
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
    /// As [`Family::put`]; `InvalidArgument`, if it merges in a family without a merge operator:
    /// nothing of it was written then; after `Poisoned` too the batch is there as a whole or not at
    /// all.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::new())
    }

    /// Applies a batch with options of its own.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
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

    /// Creates a family. It is durable on return.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument`, for a bad name or bad options; as [`Family::put`].
    pub fn create_family(&self, name: &str, options: FamilyOptions) -> Result<Family> {
        let family = self.engine().create_family(name, options.tree)?;
        Ok(Family { source: Source { family, ..self.default.source.clone() } })
    }

    /// Drops a family and all it holds. It is durable on return; open iterators and snapshots
    /// finish on what they have, then the files go.
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
    /// excepted.
    ///
    /// # Errors
    /// `Poisoned`, if the sync fails; `Closed`.
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

    /// Compacts every family; see [`Family::compact`].
    ///
    /// # Errors
    /// As [`Family::compact`].
    pub fn compact(&self) -> Result<()> {
        self.engine().compact_all()
    }

    /// Returns once nothing is left to flush or compact for the shape that the data has now.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Closed`; the system's.
    pub fn settle(&self) -> Result<()> {
        self.engine().settle()
    }

    /// What the database holds and does, counted now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// Reads and verifies everything on disk that this database refers to: every block of every
    /// table, order, filters, counts, and the manifest. `on_progress` is called between blocks.
    ///
    /// # Errors
    /// The system's. Damage is not an error here: it is in the report.
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

    /// Closes the database: waits for running commits and jobs, syncs the log, ends the threads and
    /// releases the lock. Whatever still holds a clone gets `Closed` when it writes.
    ///
    /// # Errors
    /// What syncing the log fails with, or the first failure of the database's life.
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
    /// operator is not given, or the default family has another; the system's.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(path.as_ref(), self)
    }
}

impl Read for Db {
    fn source(&self) -> &Source {
        &self.default.source
    }
}

/// Checks a database that nobody has open, without changing it: what [`Db::check`] looks at, and
/// the log.
///
/// # Errors
/// `NotFound`, `Locked`; the system's. Damage is in the report.
pub fn check(
    path: impl AsRef<Path>,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    siltdb_engine::check::check_closed(path.as_ref(), on_progress)
}
