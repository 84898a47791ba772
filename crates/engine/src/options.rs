//! What the caller decides when opening a database; it contains the options of the floors below.
//!
//! Nothing here is on disk: families carry their own persistent options.

use siltdb_base::{
    clock::{Clock, SystemClock},
    error::{Error, Result},
    fs::{Fs, LogIo, ReadIo, os::OsFs},
};
use siltdb_disk::{cache::TableMemory, log::recover::RecoveryMode};
use siltdb_tree::{merge_operator::MergeOperator, options::TreeOptions};
use std::{sync::Arc, time::Duration};

/// When a commit counts as done (DESIGN D5).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// In memory; it is on disk after the next flush, or once the database was closed. Not part of
    /// the log: a crash loses it, alone or with others, and the order of what survives is not
    /// promised.
    Volatile,
    /// Reached the operating system: survives a killed process, not a power loss.
    #[default]
    Buffered,
    /// As `Buffered`, and synced by a worker: survives a power loss once it was acknowledged more
    /// than this duration plus two syncs ago: one that was under way, and the one it waited for.
    ///
    /// Less than a millisecond counts as one, and more than a second as one: the log is synced once
    /// a second anyway. Without workers, later commits that ask for a sync, jobs and closing sync
    /// what is due, and nobody else does.
    Interval(Duration),
    /// Survives a power loss on return.
    Synced,
}

/// What to do when the database does not exist, or does.
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

/// What a database is opened for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing; no other process, nor this one again, may have it open.
    #[default]
    ReadWrite,
    /// Reading alone: no byte of the directory is written and no file created. Others may read it
    /// too, but none may write.
    ReadOnly,
}

/// How long a database lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// It stays when it is closed.
    #[default]
    Lasting,
    /// It is removed when it is closed.
    Temporary,
}

/// How long a write or a transaction waits for a lock, unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Everything that is decided when a database is opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Whether to create it.
    pub create: Create,
    /// What it is opened for.
    pub access: Access,
    /// How long it lasts.
    pub lifetime: Lifetime,
    /// How long to wait for another opener to close it.
    pub lock_wait: Duration,
    /// How long a write waits for the locks of transactions.
    pub lock_timeout: Duration,
    /// The durability of commits that do not say otherwise.
    pub durability: Durability,
    /// Memory for memtables, cache and open tables together, in bytes.
    pub memory_budget: usize,
    /// Memory for the block cache within the budget, in bytes, open tables aside; `None`: what
    /// memtables leave of the budget, at least a quarter, for both.
    pub cache_bytes: Option<usize>,
    /// Size at which the memtables of a generation are frozen together, in bytes.
    pub memtable_bytes: usize,
    /// How the log is written.
    pub log_io: LogIo,
    /// Retired segments of the log are kept up to this many bytes, for feeds.
    pub retain_log_bytes: u64,
    /// And those that were retired less than this long ago.
    pub retain_log_for: Duration,
    /// A feed that keeps more of the log than this, in bytes, ends.
    pub feed_bytes_max: u64,
    /// How the data blocks of tables are read.
    pub read_io: ReadIo,
    /// Threads for compaction; 0: no threads at all, and whoever must wait runs a job instead.
    pub workers: usize,
    /// What to do about damage in the log below the last synced position.
    pub recovery: RecoveryMode,
    /// The options that the default family is created with. Of those of a family that exists, only
    /// a merge operator that it lacks is changed by them.
    pub tree: TreeOptions,
    /// Merge operators that stored families may name, besides that of `tree`.
    pub merge_operators: Vec<Arc<dyn MergeOperator>>,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Seed of the random names of tables; `None` takes one from the system.
    pub seed: Option<u64>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            create: Create::default(),
            access: Access::default(),
            lifetime: Lifetime::default(),
            lock_wait: Duration::ZERO,
            lock_timeout: LOCK_TIMEOUT,
            durability: Durability::default(),
            memory_budget: 512 << 20,
            cache_bytes: None,
            memtable_bytes: 32 << 20,
            log_io: LogIo::default(),
            retain_log_bytes: 0,
            retain_log_for: Duration::ZERO,
            feed_bytes_max: 1 << 30,
            read_io: ReadIo::default(),
            workers: std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(4),
            recovery: RecoveryMode::default(),
            tree: TreeOptions::default(),
            merge_operators: Vec::new(),
            fs: Arc::new(OsFs),
            clock: Arc::new(SystemClock::default()),
            seed: None,
        }
    }
}

/// Smallest memtable, in bytes; the simulator uses it to see many flushes.
pub const MEMTABLE_BYTES_MIN: usize = 4 << 10;

/// Largest memtable, in bytes: a segment that is twice as long has offsets that can be stored.
pub const MEMTABLE_BYTES_MAX: u64 = 8 << 30;

/// Frozen generations that may wait for their flush before writes stop.
pub const FROZEN_MAX: usize = 3;

impl EngineOptions {
    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option.
    pub fn check(&self) -> Result<()> {
        if self.memtable_bytes < MEMTABLE_BYTES_MIN {
            return Err(Error::invalid("memtable_bytes is too small")
                .with_mismatch(format!(">= {MEMTABLE_BYTES_MIN}"), self.memtable_bytes));
        }
        if self.memtable_bytes as u64 > MEMTABLE_BYTES_MAX {
            return Err(Error::invalid("memtable_bytes is too large")
                .with_mismatch(format!("<= {MEMTABLE_BYTES_MAX}"), self.memtable_bytes));
        }
        let memtables = self.memtable_bytes.saturating_mul(2);
        if self.memory_budget < memtables {
            return Err(Error::invalid("memory_budget is less than two memtables")
                .with_mismatch(format!(">= {memtables}"), self.memory_budget));
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

    /// Every merge operator given.
    #[must_use]
    pub fn operators(&self) -> Vec<Arc<dyn MergeOperator>> {
        self.merge_operators.iter().chain(&self.tree.merge_operator).cloned().collect()
    }

    /// Memory for the block cache: what was asked for, or the budget less the memtables, at least a
    /// quarter of it.
    #[must_use]
    pub fn cache_bytes_max(&self) -> usize {
        let left = || {
            let memtables = self.memtable_bytes.saturating_mul(FROZEN_MAX + 1);
            self.memory_budget.saturating_sub(memtables).max(self.memory_budget / 4)
        };
        self.cache_bytes.unwrap_or_else(left)
    }

    /// Who asks for a cache of a certain size gets it; otherwise indexes and filters are taken from
    /// it.
    #[must_use]
    pub fn table_memory(&self) -> TableMemory {
        match self.cache_bytes {
            Some(_) => TableMemory::Beside,
            None => TableMemory::Within,
        }
    }
}

#[cfg(test)]
mod tests;
