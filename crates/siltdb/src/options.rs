//! How a database is opened and how a family is kept.
//!
//! Builders only: ranges are checked when they are used.

use siltdb_base::{clock::Clock, fs::Fs};
use siltdb_engine::options::{Access, EngineOptions};
use siltdb_tree::options::TreeOptions;
use std::{sync::Arc, time::Duration};

pub use siltdb_base::fs::{LogIo, ReadIo};
pub use siltdb_disk::{log::recover::RecoveryMode, options::Compression};
pub use siltdb_engine::options::{Create, Durability};
pub use siltdb_tree::merge_operator::MergeOperator;

/// How to open a database.
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
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) engine: EngineOptions,
}

impl Options {
    /// The defaults: created if missing, `Buffered`, 512 MiB of memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the database may or must be created. Default: [`Create::IfMissing`].
    #[must_use]
    pub fn create(mut self, create: Create) -> Self {
        self.engine.create = create;
        self
    }

    /// The durability of commits that do not choose their own. Default: [`Durability::Buffered`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.engine.durability = durability;
        self
    }

    /// Memory for memtables, the block cache, and the indexes and filters of open tables together,
    /// in bytes; at least twice [`Options::memtable_bytes`]. Default: 512 MiB.
    ///
    /// Four memtables, which there may be where writers are faster than flushes, are set aside, but
    /// at most three quarters: a budget of less than 5⅓ memtables may be exceeded. The rest is the
    /// cache's, less what indexes and filters take, some 3 % of data with values of 100 bytes; but
    /// a quarter of it stays the cache's, so that very much data exceeds the budget, too.
    /// [`Stats`](crate::Stats) tells what each holds.
    #[must_use]
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.engine.memory_budget = bytes;
        self
    }

    /// Memory for the block cache, in bytes, at most [`Options::memory_budget`]; 0 keeps no blocks.
    /// Indexes and filters are then not taken from it. Default: what memtables leave of the budget,
    /// four of them, at least a quarter, less indexes and filters.
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

    /// Size at which the memtables of all families are frozen and written out, in bytes; at least
    /// 4 KiB, at most 8 GiB. Larger ones mean fewer flushes, more memory and a longer recovery.
    /// Default: 32 MiB.
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

    /// Keeps flushed parts of the log, for [`Db::subscribe`](crate::Db::subscribe) to begin at,
    /// also after a reopen: the newest log files that take so many bytes together. Looked at by
    /// every flush. Default: 0, a log file is used again once it is flushed.
    ///
    /// Each file holds what fills about [`Options::memtable_bytes`]. One that alone takes more
    /// bytes than this is not kept.
    #[must_use]
    pub fn retain_log_bytes(mut self, bytes: u64) -> Self {
        self.engine.retain_log_bytes = bytes;
        self
    }

    /// Keeps flushed parts of the log for so long as well, whatever they take. Looked at by every
    /// flush; a reopen starts the time anew. Default: not at all.
    #[must_use]
    pub fn retain_log_for(mut self, time: Duration) -> Self {
        self.engine.retain_log_for = time;
        self
    }

    /// How many bytes of flushed log a [`Subscription`](crate::Subscription) that does not keep up
    /// may hold back, beyond those that are retained anyway. At the next flush above it the
    /// subscription loses its place, and its next call fails. Default: 1 GiB.
    #[must_use]
    pub fn feed_bytes_max(mut self, bytes: u64) -> Self {
        self.engine.feed_bytes_max = bytes;
        self
    }

    /// How the data blocks of tables are read. Default: [`ReadIo::Read`].
    ///
    /// [`ReadIo::Map`] gains most with [`Compression::None`], where more is read than the cache
    /// holds and the system still has it in memory. A value that [`get`](crate::Read::get) returned
    /// keeps its table file mapped for as long as it is held, and the file's space on disk taken
    /// after a compaction removed it: copy what is held for long.
    #[must_use]
    pub fn read_io(mut self, io: ReadIo) -> Self {
        self.engine.read_io = io;
        self
    }

    /// Threads that compact; three more keep the log, sync it and flush. Default: one for each
    /// core, at most 4.
    ///
    /// 0: no background threads at all; whoever must wait runs a job instead, and what was
    /// committed without asking for a sync is synced by a later commit that asks for one, by a job,
    /// and by closing.
    #[must_use]
    pub fn workers(mut self, threads: usize) -> Self {
        self.engine.workers = threads;
        self
    }

    /// What to do about damage in the log below its synced position. Default:
    /// [`RecoveryMode::Strict`], which refuses to open.
    #[must_use]
    pub fn recovery(mut self, mode: RecoveryMode) -> Self {
        self.engine.recovery = mode;
        self
    }

    /// The options that the default family is created with, when the database is.
    ///
    /// They are stored: a default family that exists keeps its own, whatever is given here. Only a
    /// merge operator that it lacks is given to it, durably; another one than its own is an error
    /// of [`Options::open`].
    #[must_use]
    pub fn default_family(mut self, options: FamilyOptions) -> Self {
        self.engine.tree = options.tree;
        self
    }

    /// A merge operator that families of the database may name; one for each name, at every open.
    /// It does not give an operator to a family that has none.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.engine.merge_operators.push(operator);
        self
    }

    /// Opens for reading alone: nothing in the directory is written or created, so that it may lie
    /// on a read-only medium, on a full disk, or belong to another user. Default: false.
    ///
    /// Any number of processes may read so at a time, and none may write meanwhile. Writing fails
    /// with [`ReadOnly`](crate::ErrorKind::ReadOnly). What a process left in the log is replayed
    /// into memory, again at each opening, and may exceed [`Options::memory_budget`] by as much.
    /// Families whose merge operator is not given can be read, but for keys with operands.
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
    /// for another process to close the database before they fail with
    /// [`Locked`](crate::ErrorKind::Locked). They try every 20 ms. Default: not at all.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.engine.lock_wait = wait;
        self
    }

    /// How long a write waits while a transaction has locked what it writes, before it fails with
    /// [`Busy`](crate::ErrorKind::Busy). Zero does not wait. Transactions have a
    /// [`lock_timeout`](crate::TransactionOptions::lock_timeout) of their own. Default: 1 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.engine.lock_timeout = timeout;
        self
    }

    /// The file system, for tests and simulators; see [`testing`](crate::testing). Default: the
    /// operating system's.
    #[must_use]
    pub fn fs(mut self, fs: Arc<dyn Fs>) -> Self {
        self.engine.fs = fs;
        self
    }

    /// The clock, for tests and simulators; see [`testing`](crate::testing). Default: the
    /// machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.engine.clock = clock;
        self
    }

    /// The seed of everything random in the engine, for simulators. Default: from the system.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.engine.seed = Some(seed);
        self
    }
}

/// How a family is kept. It is stored; [`Family::set_options`](crate::Family::set_options) changes
/// it while the family is in use.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{Compression, FamilyOptions};
///
/// let options = FamilyOptions::new().compression(Compression::None).block_bytes(16 << 10);
/// let images = db.create_family("images", options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FamilyOptions {
    pub(crate) tree: TreeOptions,
}

impl FamilyOptions {
    /// The defaults: 4 KiB blocks, LZ4, 10 filter bits a key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How blocks are compressed. A block that does not shrink by an eighth is kept as it is; so is
    /// a value above 32 MiB, which is written from where it lies.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.tree.table.compression = compression;
        self
    }

    /// Size of a block before compression, in bytes: 1 KiB to 1 MiB. Default: 4 KiB.
    #[must_use]
    pub fn block_bytes(mut self, bytes: usize) -> Self {
        self.tree.table.block_bytes = bytes;
        self
    }

    /// Bits of the Bloom filter for each key, at most 32; 0 for none. Default: 10, about 1 % false
    /// positives.
    #[must_use]
    pub fn filter_bits_per_key(mut self, bits: u32) -> Self {
        self.tree.table.filter_bits_per_key = bits;
        self
    }

    /// Size of a table at which the next is begun, in bytes: 1 KiB to 4 GiB. Smaller ones mean
    /// finer compactions and more files. Half of the files that the process may have open
    /// (`ulimit -n`) are tables at most; those beyond are opened again when they are read. Default:
    /// 32 MiB.
    #[must_use]
    pub fn table_bytes(mut self, bytes: u64) -> Self {
        self.tree.table_bytes_target = bytes;
        self
    }

    /// Size of a level that needs none between itself and level 0, in bytes, at least 1 KiB: about
    /// what level 0 brings down at once. Default: 256 MiB.
    #[must_use]
    pub fn base_level_bytes(mut self, bytes: u64) -> Self {
        self.tree.base_level_bytes = bytes;
        self
    }

    /// How many times larger a level is than the one above it: 2 to 100. Smaller ratios mean more
    /// levels, less rewriting of each, and slower reads. Default: 10.
    #[must_use]
    pub fn level_size_ratio(mut self, ratio: u32) -> Self {
        self.tree.level_size_ratio = ratio;
        self
    }

    /// Flushes that level 0 gathers before it is compacted: 1 to 1000. Default: 8.
    ///
    /// Writers that are ahead of compactions are slowed down at more than three times as many runs,
    /// 12 at least, and stop at five times as many, 20 at least. The memtables that are in memory
    /// then may still follow.
    #[must_use]
    pub fn level0_runs(mut self, runs: u32) -> Self {
        self.tree.level0_runs_trigger = runs;
        self
    }

    /// The operator that [`WriteBatch::merge`](crate::WriteBatch::merge) applies. Only its name is
    /// stored: give it again at each open, with [`Options::merge_operator`].
    ///
    /// Without one, merging is refused. A family can be given one later, and never another: see
    /// [`Family::set_options`](crate::Family::set_options), and for the default family
    /// [`Options::default_family`]. [`merge`](crate::merge) makes operators from functions.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{FamilyOptions, MergeOperator, Options, Read, Result};
    /// use std::sync::Arc;
    ///
    /// /// Adds numbers of eight bytes.
    /// #[derive(Debug)]
    /// struct Sum;
    ///
    /// fn number(bytes: &[u8]) -> u64 {
    ///     bytes.try_into().map_or(0, u64::from_le_bytes)
    /// }
    ///
    /// impl MergeOperator for Sum {
    ///     fn name(&self) -> &str {
    ///         "sum"
    ///     }
    ///
    ///     fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
    ///         let sum = operands.iter().map(|operand| number(operand));
    ///         Ok(sum.fold(base.map_or(0, number), u64::wrapping_add).to_le_bytes().to_vec())
    ///     }
    /// }
    ///
    /// let db = Options::new().merge_operator(Arc::new(Sum)).open(dir.path())?;
    /// let options = FamilyOptions::new().merge_operator(Arc::new(Sum));
    /// let visits = db.family_or_create("visits", options)?;
    /// for count in [3_u64, 4] {
    ///     visits.merge(b"page", &count.to_le_bytes())?;
    /// }
    /// assert_eq!(visits.get(b"page")?.as_deref(), Some(&7_u64.to_le_bytes()[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.tree.merge_operator = Some(operator);
        self
    }
}
