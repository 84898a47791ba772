//! The options of an opening. They contain the options of the floors below.
//!
//! They are not on disk: families carry their own persistent options.

use siltdb_base::{
    clock::{Clock, SystemClock},
    error::{Error, Result},
    fs::{Fs, LogIo, ReadIo, memory_limit::memory_limit_bytes, os::OsFs},
};
use siltdb_disk::{cache::TableMemory, log::recover::RecoveryMode};
use siltdb_tree::{
    compaction_filter::{CompactionFilter, CompactionFilters},
    merge_operator::MergeOperator,
    options::TreeOptions,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// What a commit waits for before it returns, and so what it survives.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// In memory; on disk after the next flush, or once the database was closed. The commit is not
    /// in the log. A crash loses it, alone or with others, and the order of the surviving ones is
    /// not promised.
    Volatile,
    /// In the operating system: survives a killed process, not a power failure.
    #[default]
    Buffered,
    /// As `Buffered`, and synced by a worker. It survives a power failure once its acknowledgement
    /// is older than this duration plus two syncs: one that was running, and the next.
    ///
    /// A value below one millisecond or above one second counts as that bound. The log is synced
    /// once a second in any case. Without workers, a due sync is done by later commits that ask for
    /// one, by jobs, and by closing.
    Interval(Duration),
    /// Survives a power failure on return.
    Synced,
}

/// What to do if the database exists, or does not.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// Open it, or create it.
    #[default]
    IfMissing,
    /// Open it; an error if it does not exist.
    Never,
    /// Create it; an error if it exists.
    New,
}

/// The access that an opening has.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing. No other process may have the database open, and this one only once.
    #[default]
    ReadWrite,
    /// Reading alone: no byte of the directory is written and no file created. Other openings may
    /// read it too, but none may write.
    ReadOnly,
}

/// Whether the database outlives its handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// It remains after the close.
    #[default]
    Lasting,
    /// The close removes it.
    Temporary,
}

/// The default time that a write or a transaction waits for a lock.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether these are permissions for files: readable and writable by the owner, executable by none.
#[must_use]
pub fn is_file_mode(mode: u32) -> bool {
    mode & !0o666 == 0 && mode & 0o600 == 0o600
}

/// What an opening for writing does about a cold directory whose owner is another directory: the
/// database is a copy, or was moved to another file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColdClaim {
    /// It refuses.
    #[default]
    Refuses,
    /// It becomes the owner.
    TakesOver,
    /// It reads the tables there, and leaves them to their owner.
    Leaves,
}

/// The options of an opening.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What to do if the database exists, or does not.
    pub create: Create,
    /// Whether to write or only to read.
    pub access: Access,
    /// Whether the database outlives its handles.
    pub lifetime: Lifetime,
    /// How long to wait for another opening to close.
    pub lock_wait: Duration,
    /// How long a write waits for the locks of transactions.
    pub lock_timeout: Duration,
    /// The durability of commits that do not name one.
    pub durability: Durability,
    /// Memory for memtables, cache and open tables together, in bytes.
    pub memory_budget: usize,
    /// Memory for the block cache within the budget, in bytes, without open tables. `None`: what
    /// memtables leave of the budget, at least a quarter of it, for both.
    pub cache_bytes: Option<usize>,
    /// Size at which the memtables of a generation are frozen together, in bytes; see
    /// [`EngineOptions::generation_bytes`].
    pub memtable_bytes: usize,
    /// How the log is written to its files.
    pub log_io: LogIo,
    /// Retired segments of the log are kept for feeds up to this size in total, in bytes.
    pub retain_log_bytes: u64,
    /// Segments retired less than this long ago are kept as well.
    pub retain_log_for: Duration,
    /// The largest part of the log that a feed may keep, in bytes. A feed that keeps more ends.
    pub feed_bytes_max: u64,
    /// How the data blocks of tables are read.
    pub read_io: ReadIo,
    /// The pause between the beginnings of two scrubs in the background; zero: none takes place.
    pub scrub_interval: Duration,
    /// The rate of scrubs in the background, in bytes a second.
    pub scrub_bytes_per_second: u64,
    /// The directory of the cold tier; a relative one starts at the directory of the database.
    /// `None`: that of the manifest, if there is one.
    pub cold_directory: Option<PathBuf>,
    /// What an opening for writing does about a cold directory of another database directory.
    pub cold_claim: ColdClaim,
    /// The rate at which tables move between the tiers in the background, in bytes a second.
    pub tier_rate: u64,
    /// The rate at which flushes and compactions write together, in bytes a second; 0: no limit.
    pub background_rate: u64,
    /// The number of compaction threads. 0: no threads at all; a caller that would have to wait
    /// runs a job itself.
    pub workers: usize,
    /// How to treat damage in the log before the last synced position.
    pub recovery: RecoveryMode,
    /// The options with which the default family is created. An existing one keeps its own, except
    /// that a missing merge operator is set.
    pub tree: TreeOptions,
    /// Merge operators that stored families may name, besides that of `tree`.
    pub merge_operators: Vec<Arc<dyn MergeOperator>>,
    /// Compaction filters that stored families may name, besides that of `tree`.
    pub compaction_filters: Vec<Arc<dyn CompactionFilter>>,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Seed of the random names of tables; `None` takes one from the system.
    pub seed: Option<u64>,
}

/// The default of [`EngineOptions::memory_budget`] where no smaller limit binds, in bytes.
const MEMORY_BUDGET: u64 = 512 << 20;

/// The smallest default budget, in bytes, however little the control group may use.
const MEMORY_BUDGET_MIN: u64 = 8 << 20;

/// The part of the limit of its control group that a database takes by default: the program and the
/// page cache need the rest.
const LIMIT_PART: u64 = 4;

/// The default budget in a control group with this limit, in bytes.
fn default_budget(limit_bytes: Option<u64>) -> usize {
    let part = limit_bytes.map_or(u64::MAX, |limit| limit / LIMIT_PART);
    part.clamp(MEMORY_BUDGET_MIN, MEMORY_BUDGET) as usize
}

impl Default for EngineOptions {
    fn default() -> Self {
        let memory_budget = default_budget(memory_limit_bytes());
        Self {
            create: Create::default(),
            access: Access::default(),
            lifetime: Lifetime::default(),
            lock_wait: Duration::ZERO,
            lock_timeout: LOCK_TIMEOUT,
            durability: Durability::default(),
            memory_budget,
            cache_bytes: None,
            memtable_bytes: (32 << 20).min(memory_budget / 2),
            log_io: LogIo::default(),
            retain_log_bytes: 0,
            retain_log_for: Duration::ZERO,
            feed_bytes_max: 1 << 30,
            read_io: ReadIo::default(),
            scrub_interval: Duration::ZERO,
            scrub_bytes_per_second: 8 << 20,
            cold_directory: None,
            cold_claim: ColdClaim::default(),
            tier_rate: 32 << 20,
            background_rate: 0,
            workers: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            recovery: RecoveryMode::default(),
            tree: TreeOptions::default(),
            merge_operators: Vec::new(),
            compaction_filters: Vec::new(),
            fs: Arc::new(OsFs),
            clock: Arc::new(SystemClock::default()),
            seed: None,
        }
    }
}

/// The smallest memtable, in bytes. The simulator uses it to see many flushes.
pub const MEMTABLE_BYTES_MIN: usize = 4 << 10;

/// The largest memtable, in bytes. The offsets of a segment of twice this length can still be
/// stored.
pub const MEMTABLE_BYTES_MAX: u64 = 8 << 30;

/// The lowest rate of a scrub, in bytes a second: a window of a table takes a few minutes.
pub const SCRUB_RATE_MIN: u64 = 1 << 10;

/// The lowest rate of moves between tiers, in bytes a second.
pub(crate) const TIER_RATE_MIN: u64 = 1 << 10;

/// The lowest rate of flushes and compactions, in bytes a second: less would be a block in more
/// than the second that a job waits for at most.
pub(crate) const BACKGROUND_RATE_MIN: u64 = 1 << 20;

/// The maximum number of frozen generations that wait for their flush before writes stop.
pub const FROZEN_MAX: usize = 3;

impl EngineOptions {
    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option.
    pub fn check(&self) -> Result<()> {
        check_file_mode(&*self.fs)?;
        if self.memtable_bytes < MEMTABLE_BYTES_MIN {
            return Err(Error::invalid("memtable_bytes is too small")
                .with_mismatch(format!(">= {MEMTABLE_BYTES_MIN}"), self.memtable_bytes));
        }
        if self.memtable_bytes as u64 > MEMTABLE_BYTES_MAX {
            return Err(Error::invalid("memtable_bytes is too large")
                .with_mismatch(format!("<= {MEMTABLE_BYTES_MAX}"), self.memtable_bytes));
        }
        let memtables = self.memtable_bytes.saturating_mul(2);
        // A default that follows from the control group makes memtables smaller, and no error.
        let is_chosen = self.memory_budget != default_budget(memory_limit_bytes());
        if is_chosen && self.memory_budget < memtables {
            return Err(Error::invalid("memory_budget is less than two memtables")
                .with_mismatch(format!(">= {memtables}"), self.memory_budget));
        }
        if self.scrub_bytes_per_second < SCRUB_RATE_MIN {
            return Err(Error::invalid("scrub_bytes_per_second is too small")
                .with_mismatch(format!(">= {SCRUB_RATE_MIN}"), self.scrub_bytes_per_second));
        }
        if self.tier_rate < TIER_RATE_MIN {
            return Err(Error::invalid("tier_rate is too small")
                .with_mismatch(format!(">= {TIER_RATE_MIN}"), self.tier_rate));
        }
        if self.background_rate > 0 && self.background_rate < BACKGROUND_RATE_MIN {
            return Err(Error::invalid("background_rate is too small")
                .with_mismatch(format!("0 or >= {BACKGROUND_RATE_MIN}"), self.background_rate));
        }
        if let Some(bytes) = self.cache_bytes.filter(|bytes| *bytes > self.memory_budget) {
            return Err(Error::invalid("cache_bytes is more than memory_budget")
                .with_mismatch(format!("<= {}", self.memory_budget), bytes));
        }
        Ok(())
    }

    /// Whether flushed parts of the log are kept.
    #[must_use]
    pub fn retains_log(&self) -> bool {
        self.retain_log_bytes > 0 || !self.retain_log_for.is_zero()
    }

    /// All merge operators given.
    #[must_use]
    pub fn operators(&self) -> Vec<Arc<dyn MergeOperator>> {
        self.merge_operators.iter().chain(&self.tree.merge_operator).cloned().collect()
    }

    /// All compaction filters given.
    ///
    /// # Errors
    /// `InvalidArgument`, if the options of the default family name one that was not given.
    pub fn filters(&self) -> Result<CompactionFilters> {
        let filters = CompactionFilters::new(self.compaction_filters.clone());
        filters.learn(self.tree.compaction_filter.as_ref())?;
        Ok(filters)
    }

    /// The size at which a generation is frozen, in bytes: `memtable_bytes`, but at most what
    /// leaves a quarter of the budget beside as many memtables as there can be.
    #[must_use]
    pub fn generation_bytes(&self) -> usize {
        let most = self.memory_budget / (4 * (FROZEN_MAX + 1)) * 3;
        self.memtable_bytes.min(most).max(MEMTABLE_BYTES_MIN)
    }

    /// The memory that memtables may have, in bytes. Others of the budget leave it to them.
    #[must_use]
    pub fn memtables_reserved(&self) -> usize {
        let memtables = self.generation_bytes().saturating_mul(FROZEN_MAX + 1);
        memtables.min(self.memory_budget.saturating_sub(self.cache_bytes_max()))
    }

    /// Memory for the block cache, in bytes: the given size, or the budget less the memtables, at
    /// least a quarter of it.
    #[must_use]
    pub fn cache_bytes_max(&self) -> usize {
        let left = || {
            let memtables = self.generation_bytes().saturating_mul(FROZEN_MAX + 1);
            self.memory_budget.saturating_sub(memtables).max(self.memory_budget / 4)
        };
        self.cache_bytes.unwrap_or_else(left)
    }

    /// A given cache size is for blocks alone; otherwise indexes and filters take part of it.
    #[must_use]
    pub fn table_memory(&self) -> TableMemory {
        match self.cache_bytes {
            Some(_) => TableMemory::Beside,
            None => TableMemory::Within,
        }
    }
}

/// Checks the permissions of the files that are created.
///
/// # Errors
/// `InvalidArgument`.
fn check_file_mode(fs: &dyn Fs) -> Result<()> {
    let mode = fs.file_mode();
    if is_file_mode(mode) {
        return Ok(());
    }
    Err(Error::invalid("bad permissions of files")
        .with_mismatch("0600 to 0666, without execution", format_args!("{mode:04o}")))
}

#[cfg(test)]
mod tests;
