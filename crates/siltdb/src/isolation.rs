//! Isolation levels, and the options of one transaction.

use siltdb_engine::options::{Durability, LOCK_TIMEOUT};
use std::time::Duration;

/// Default bound of the memory of a transaction: its writes and its footprint, in bytes. With a
/// small memory budget it is a quarter of that, but no less than the second number.
const MEMORY_BYTES: usize = 128 << 20;
const MEMORY_BYTES_MIN: usize = 8 << 20;

/// How far a transaction is isolated from others, weakest level first.
///
/// Each level forbids what the one before it forbids, with two exceptions. Snapshot permits write
/// skew on keys, which RepeatableRead forbids. Serializable permits two blind writes of one key,
/// which only Snapshot refuses.
///
/// At every level a transaction is atomic, sees its own writes, and never sees uncommitted writes
/// of others. The page docs/isolation.md has the table of anomalies, with the test for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// The same as [`Isolation::ReadCommitted`], which is stronger than the standard requires: no
    /// read sees uncommitted data.
    ReadUncommitted,
    /// Each read sees the newest commit. A commit checks nothing and never conflicts. If two
    /// transactions read a value and write it back, one update may be lost.
    ReadCommitted,
    /// All reads see the state at the start of the transaction, and its time, so that nothing
    /// expires. A transaction that writes commits only if no key that it read has changed or
    /// expired since. So no update is lost. New keys in a range that it read do not conflict
    /// (*phantoms*).
    RepeatableRead,
    /// All reads see the state at the start of the transaction. Of two transactions that write the
    /// same key, or a range with it, the first to commit wins, blind writes included. Two that each
    /// read what the other writes may both commit (*write skew*).
    Snapshot,
    /// Transactions are equivalent to some serial order. Those that write are ordered by their
    /// commits, those that only read by their start.
    ///
    /// A transaction that writes commits only if no key and no range that it read has changed since
    /// its start, and no value in them has expired. A transaction that only reads always commits.
    /// Two that write a key without reading it both commit, in the order of their commits.
    #[default]
    Serializable,
}

impl Isolation {
    /// Every level, from the weakest on.
    pub const ALL: &'static [Self] = &[
        Self::ReadUncommitted,
        Self::ReadCommitted,
        Self::RepeatableRead,
        Self::Snapshot,
        Self::Serializable,
    ];

    /// Returns the name of the level, as the tool `silt` accepts it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "read-uncommitted",
            Self::ReadCommitted => "read-committed",
            Self::RepeatableRead => "repeatable-read",
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
        }
    }

    /// Returns whether all reads of a transaction see one state.
    pub(crate) fn has_snapshot(self) -> bool {
        self >= Self::RepeatableRead
    }
}

impl std::str::FromStr for Isolation {
    type Err = siltdb_base::error::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let is_named = |level: &&Self| level.as_str() == name;
        Self::ALL.iter().find(is_named).copied().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|level| level.as_str()).collect();
            siltdb_base::error::Error::invalid("no isolation level has this name")
                .with_mismatch(names.join(", "), name)
        })
    }
}

/// Options of one transaction.
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    pub(crate) isolation: Isolation,
    pub(crate) durability: Option<Durability>,
    memory_bytes: Option<usize>,
    pub(crate) lock_timeout: Duration,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TransactionOptions {
    /// A serializable transaction with the durability of the database.
    #[must_use]
    pub fn new() -> Self {
        let (isolation, memory_bytes) = (Isolation::default(), None);
        Self { isolation, durability: None, memory_bytes, lock_timeout: LOCK_TIMEOUT }
    }

    /// The isolation level. Default: [`Isolation::Serializable`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// The durability of the commit. Default: that of the database's options.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Bound of the memory of the writes and of the record of reads, in bytes. A write counts
    /// twice and some more: a transaction that reads also indexes what it wrote. Beyond the
    /// bound, reads and writes fail with `InvalidArgument`. What is used is charged to the memory
    /// budget, so that a large transaction takes from the block cache. Default: 128 MiB, but at
    /// most half of [`Options::memory_budget`](crate::Options::memory_budget), and at least 8 MiB.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// The bound of the memory in a database with this memory budget, in bytes.
    pub(crate) fn memory_bytes_max(&self, budget: usize) -> usize {
        let default = || MEMORY_BYTES.min((budget / 2).max(MEMORY_BYTES_MIN));
        self.memory_bytes.unwrap_or_else(default)
    }

    /// How long the transaction waits for a lock of another transaction before it fails with
    /// `Busy`. The same bound holds for its commit, which waits for locks on what it writes. Zero
    /// does not wait. Default: 1 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }
}
