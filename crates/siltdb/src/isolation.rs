//! How far transactions are kept apart, and what one transaction may decide for itself.

use siltdb_engine::options::{Durability, LOCK_TIMEOUT};
use std::time::Duration;

/// Bytes of writes and notes that a transaction may hold, unless told otherwise.
const MEMORY_BYTES: usize = 64 << 20;

/// How far a transaction is kept apart from others, from the weakest level on. Snapshot permits a
/// write skew on keys that RepeatableRead forbids, and is the only one to refuse blind writes;
/// otherwise each level forbids what the one before it forbids.
///
/// At every level a transaction happens as a whole or not at all, no other reads what it has not
/// committed, and it reads its own writes. docs/isolation.md has the table of anomalies, with the
/// test for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// The same as [`Isolation::ReadCommitted`], which is stronger than the name asks for: nothing
    /// uncommitted is ever read.
    ReadUncommitted,
    /// Each read sees the newest commit. Nothing is checked, so a commit never conflicts; two
    /// transactions that read a value and write it back may lose one of the updates.
    ReadCommitted,
    /// All reads see the moment at which the transaction began. A transaction that writes commits
    /// only if no key that it read has changed since, so no update is lost; keys that appear in a
    /// range it read may escape it (*phantoms*).
    RepeatableRead,
    /// All reads see the moment at which the transaction began. Of two that write the same key, or
    /// a range that holds it, the first to commit wins, blind writes included. Two that read what
    /// the other writes may both commit (*write skew*).
    Snapshot,
    /// As if transactions had run one after the other: those that write in the order in which they
    /// committed, those that only read when they began. A transaction that writes commits only if
    /// no key and no range that it read has changed since it began. One that only reads always
    /// commits. Two that write a key without having read it both commit, in this order.
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

    /// The name of the level, as the tool takes it.
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

    /// Whether all reads see one moment.
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

/// How one transaction differs from others.
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    pub(crate) isolation: Isolation,
    pub(crate) durability: Option<Durability>,
    pub(crate) memory_bytes: usize,
    pub(crate) lock_timeout: Duration,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TransactionOptions {
    /// A serializable transaction, as durable as the database was opened.
    #[must_use]
    pub fn new() -> Self {
        let (isolation, memory_bytes) = (Isolation::default(), MEMORY_BYTES);
        Self { isolation, durability: None, memory_bytes, lock_timeout: LOCK_TIMEOUT }
    }

    /// How far it is kept apart from others. Default: [`Isolation::Serializable`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// When its commit counts as done. Default: as the database was opened.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Most bytes that its writes and the notes of what it read may take. Beyond that, reads and
    /// writes fail with `InvalidArgument`. Default: 64 MiB.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// How long it waits for a lock that another transaction holds, and its commit for those on
    /// what it writes, before they fail with `Busy`. Zero does not wait. Default: 1 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }
}
