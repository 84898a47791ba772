//! Options of a database. Those of a family lie in parts of their own.
//!
//! These are builders only: the calls that use them check the ranges.

mod family;
mod filters;
mod levels;
mod file_mode;

pub use family::FamilyOptions;

use siltdb_base::{clock::Clock, fs::Fs};
use siltdb_engine::options::{Access, EngineOptions};
use std::{path::PathBuf, sync::Arc, time::Duration};

pub use siltdb_base::fs::{LogIo, ReadIo};
pub use siltdb_disk::{
    filter_keys::PrefixExtractor,
    log::recover::RecoveryMode,
    options::{Compression, TableKind},
};
pub use siltdb_engine::options::{Create, Durability};
pub use siltdb_tree::compaction_filter::{CompactionFilter, FilterDecision, FilteredEntry};
pub use siltdb_tree::{merge_operator::MergeOperator, strategy::CompactionStrategy};

/// Options for opening a database.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use siltdb::{Durability, Options};
///
/// let db = Options::new()
///     .memory_budget(256 << 20)
///     .durability(Durability::Synced)
///     .open(dir.path().join("data"))?;
/// db.put(b"key", b"value")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Options {
    pub(crate) engine: EngineOptions,
}

impl Options {
    /// The defaults: create if missing, `Buffered`, 512 MiB of memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the opening may or must create the database. Default: [`Create::IfMissing`].
    #[must_use]
    pub fn create(mut self, create: Create) -> Self {
        self.engine.create = create;
        self
    }

    /// Durability of commits that do not choose their own. Default: [`Durability::Buffered`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.engine.durability = durability;
        self
    }

    /// Memory of the database, in bytes: memtables, block cache, indexes and filters of open
    /// tables, buffers of jobs and iterators, and transactions. At least twice
    /// [`Options::memtable_bytes`]. Default: 512 MiB, but at most a quarter of what the control
    /// group of the process may use (cgroup version 1 or 2), and at least 8 MiB.
    ///
    /// The budget reserves four memtables, since writers may be ahead of flushes, but at most three
    /// quarters of itself. The cache has the rest, and gives way when another part grows. Indexes
    /// and filters take about 3 % of data with values of 100 bytes. Tables beyond half of the
    /// cache's share are read without being held open, which is slower.
    ///
    /// The resident memory of the process stays within 1.1 × the budget beside the program. The
    /// page docs/memory.md has each part, and what may exceed the budget: what callers hold.
    /// [`Stats::memory`](crate::Stats::memory) reports the parts.
    #[must_use]
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.engine.memory_budget = bytes;
        self
    }

    /// Memory of the block cache, in bytes, at most [`Options::memory_budget`]; 0 caches no blocks.
    /// Indexes and filters then have what the budget leaves beside it; with too small a budget, the
    /// cache gets less. Default: the budget less four memtables, at least a quarter of it, less
    /// indexes and filters.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::Options;
    ///
    /// let options = Options::new().memory_budget(320 << 20).cache_bytes(64 << 20);
    /// let db = options.open(dir.path().join("data"))?;
    /// assert_eq!(db.stats().cache_bytes_max, 64 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.engine.cache_bytes = Some(bytes);
        self
    }

    /// Size at which the memtables of all families are frozen and flushed, in bytes, from 4 KiB to
    /// 8 GiB, and at most 3/16 of [`Options::memory_budget`]; more counts as so much. Larger ones
    /// mean fewer flushes, more memory and a longer recovery. Default: 32 MiB.
    #[must_use]
    pub fn memtable_bytes(mut self, bytes: usize) -> Self {
        self.engine.memtable_bytes = bytes;
        self
    }

    /// How the log is written. Default: [`LogIo::Auto`].
    #[must_use]
    pub fn log_io(mut self, io: LogIo) -> Self {
        self.engine.log_io = io;
        self
    }

    /// Bytes of flushed log files to keep, newest first, so that
    /// [`Db::subscribe`](crate::Db::subscribe) can start there, also after a reopen. Every flush
    /// applies the bound. Default: 0, a log file is reused once it is flushed.
    ///
    /// A file has about [`Options::memtable_bytes`] of data. A file larger than this bound is not
    /// kept. The option is not stored: an opening for writing without it removes the kept files.
    #[must_use]
    pub fn retain_log_bytes(mut self, bytes: u64) -> Self {
        self.engine.retain_log_bytes = bytes;
        self
    }

    /// Time for which flushed log files are kept in addition, whatever their size. Every flush
    /// applies it; a reopen restarts the time. As [`Options::retain_log_bytes`], it is not stored.
    /// Default: none.
    #[must_use]
    pub fn retain_log_for(mut self, time: Duration) -> Self {
        self.engine.retain_log_for = time;
        self
    }

    /// Bytes of flushed log that a slow [`Subscription`](crate::Subscription) may keep, beyond the
    /// log that is retained anyway. If a flush finds more, the subscription ends and its next call
    /// fails. Default: 1 GiB.
    #[must_use]
    pub fn feed_bytes_max(mut self, bytes: u64) -> Self {
        self.engine.feed_bytes_max = bytes;
        self
    }

    /// How the data blocks of tables are read. Default: [`ReadIo::Read`].
    ///
    /// [`ReadIo::Map`] gains most with [`Compression::None`], if the data exceeds the cache but
    /// fits into the memory of the system. A value returned by [`get`](crate::Read::get) keeps its
    /// table file mapped. It also keeps the file's disk space after a compaction removed the file,
    /// so copy values that are held for long.
    #[must_use]
    pub fn read_io(mut self, io: ReadIo) -> Self {
        self.engine.read_io = io;
        self
    }

    /// Threads for compaction; two more maintain the log and sync it, and one to three flush: one
    /// for two that compact. Default: one for each core.
    ///
    /// 0 means no background threads: a call that would have to wait runs a job instead. Commits
    /// without a sync are then synced by a later commit with one, by a job, and by closing.
    #[must_use]
    pub fn workers(mut self, threads: usize) -> Self {
        self.engine.workers = threads;
        self
    }

    /// Scrubs the database in the background, as [`Db::scrub`](crate::Db::scrub) does: the first
    /// time from the opening on, then each time this long after the last one began, or when that
    /// ends. Needs [`Options::workers`]. Damage is logged, and [`Db::last_scrub`] and
    /// [`Db::background_error`] return it. Default: zero, no scrub.
    ///
    /// [`Db::last_scrub`]: crate::Db::last_scrub
    /// [`Db::background_error`]: crate::Db::background_error
    #[must_use]
    pub fn scrub_interval(mut self, interval: Duration) -> Self {
        self.engine.scrub_interval = interval;
        self
    }

    /// The rate of scrubs in the background, in bytes a second, at least 1 KiB. Default: 8 MiB.
    #[must_use]
    pub fn scrub_bytes_per_second(mut self, bytes: u64) -> Self {
        self.engine.scrub_bytes_per_second = bytes;
        self
    }

    /// The directory of the cold tier, on a larger or cheaper disk, for the tables of frozen
    /// families and of [`FamilyOptions::cold_from_level`]. A relative path starts at the directory
    /// of the database. Default: the one that the database was opened with before, or none.
    ///
    /// The path is stored, so that later openings need no option. A new cold directory is empty or
    /// does not exist. One that was moved is named again; its file `COLD` says whose it is. Readers
    /// and writers open it, and a writer locks it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{Db, Options, Read};
    ///
    /// let db = Options::new().cold_directory("../cold").open(dir.path().join("data"))?;
    /// db.put("key", "value")?;
    /// db.default_family().freeze()?;
    /// assert_eq!(db.stats().cold_tables, 1);
    /// db.close()?;
    /// let db = Db::open(dir.path().join("data"))?;
    /// assert_eq!(db.get("key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cold_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.engine.cold_directory = Some(path.into());
        self
    }

    /// The rate at which tables move between the tiers in the background, in bytes a second, at
    /// least 1 KiB. Default: 32 MiB.
    #[must_use]
    pub fn tier_rate(mut self, bytes: u64) -> Self {
        self.engine.tier_rate = bytes;
        self
    }

    /// The rate at which flushes and compactions write together, in bytes a second, at least 1 MiB;
    /// 0 for no limit. Default: 0.
    ///
    /// Compactions wait for it. Flushes count, but never wait, so that writers do not wait for
    /// them. While writers are delayed because compactions lag behind, the limit is lifted: a rate
    /// below what the writers need makes compactions come in bursts, and nothing else.
    #[must_use]
    pub fn background_rate(mut self, bytes: u64) -> Self {
        self.engine.background_rate = bytes;
        self
    }

    /// Reaction to damage in the log below its synced position. Default: [`RecoveryMode::Strict`],
    /// which refuses to open.
    ///
    /// With [`RecoveryMode::PointInTime`], an opening for writing cuts the log before the damage.
    /// It first copies the log files from there on to the directory `lost`, and
    /// [`Db::kept_files`](crate::Db::kept_files) says how much that is. With
    /// [`Options::read_only`] it shows what precedes the damage, and changes nothing.
    #[must_use]
    pub fn recovery(mut self, mode: RecoveryMode) -> Self {
        self.engine.recovery = mode;
        self
    }

    /// Options for the creation of the default family together with the database.
    ///
    /// They are stored. A default family that exists keeps its own options. If it has no merge
    /// operator, it gets the one given here, durably. Another operator than its own is an error of
    /// [`Options::open`].
    #[must_use]
    pub fn default_family(mut self, options: FamilyOptions) -> Self {
        self.engine.tree = options.tree;
        self
    }

    /// Registers a merge operator that families of the database may name. Every opening registers
    /// one for each name. It does not give an operator to a family without one.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.engine.merge_operators.push(operator);
        self
    }

    /// Registers a compaction filter that families of the database may name. Every opening for
    /// writing registers one for each name. It gives no filter to a family without one.
    #[must_use]
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Self {
        self.engine.compaction_filters.push(filter);
        self
    }

    /// Opens for reading only. Nothing in the directory is written or created, so it may be on a
    /// read-only medium, on a full disk, or belong to another user. Default: false.
    ///
    /// Any number of processes may read at a time, and none may write meanwhile. Writes fail with
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly). Each opening replays the log into memory, which
    /// may exceed [`Options::memory_budget`] by the size of the log. Families whose merge operator
    /// is not given can be read, except keys with operands.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("data");
    /// use siltdb::{Db, ErrorKind, Options, Read};
    ///
    /// Db::open(&path)?.put(b"k", b"v")?;
    /// let db = Options::new().read_only(true).open(&path)?;
    /// assert_eq!(db.get(b"k")?.as_deref(), Some(&b"v"[..]));
    /// assert_eq!(db.put(b"k", b"w").unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.engine.access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        self
    }

    /// How long [`Options::open`], [`Options::check`] and [`salvage`](crate::salvage::salvage) wait
    /// for another process to close the database. Then they fail with
    /// [`Locked`](crate::ErrorKind::Locked). They retry every 20 ms. Default: no wait.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.engine.lock_wait = wait;
        self
    }

    /// How long a write waits for a transaction's lock on what it writes. Then it fails with
    /// [`Busy`](crate::ErrorKind::Busy). Zero does not wait. Transactions have their own
    /// [`lock_timeout`](crate::TransactionOptions::lock_timeout). Default: 1 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.engine.lock_timeout = timeout;
        self
    }

    /// The file system, for tests and simulators; see [`testing`](crate::testing). Default: that of
    /// the operating system.
    #[must_use]
    pub fn fs(mut self, fs: Arc<dyn Fs>) -> Self {
        self.engine.fs = fs;
        self
    }

    /// The clock, for tests and simulators; see [`testing`](crate::testing). Default: that of the
    /// machine.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.engine.clock = clock;
        self
    }

    /// The seed of all random choices of the engine, for simulators. Each opening needs another
    /// one: random numbers tell new records of the log from those that a power failure has left in
    /// a file. Default: drawn from the system.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.engine.seed = Some(seed);
        self
    }
}
