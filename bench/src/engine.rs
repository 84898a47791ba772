//! The traits that an adapter implements so that its engine can be measured.
//!
//! Loops over them are monomorphised, so that timed code has no dynamic dispatch. This file knows
//! no rows and no passes.

mod batch;

pub use batch::{Batch, Pending, Write};

use serde::{Deserialize, Serialize};
use std::{fmt, path::Path, time::Instant};

/// The result of a call of an engine or of a worker.
pub type Result<T> = std::result::Result<T, Failure>;

/// The reason why a row has no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The engine or its environment returned an error.
    Error,
    /// The engine lacks a feature that the row needs.
    Unsupported,
    /// The engine returned other data than was written.
    Verification,
    /// The work exceeded the time limit of a row; reported by the process that runs the worker.
    Capped,
    /// Another transaction committed first; the attempt is repeated.
    Conflict,
}

/// A failure and its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The message.
    pub message: String,
}

impl Failure {
    /// An error with a message.
    pub fn error(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Error, message: message.into() }
    }

    /// The engine does not have `what`.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Unsupported, message: what.into() }
    }

    /// A failure because another transaction committed first; `what` is the message.
    pub fn conflict(what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Conflict, message: what.into() }
    }

    /// A failure because `what` was cut off.
    pub fn capped(what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Capped, message: what.into() }
    }

    /// A failure because other data was returned than was written.
    pub fn verification(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Verification, message: message.into() }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::error(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FailureKind::Error => "error",
            FailureKind::Unsupported => "unsupported",
            FailureKind::Verification => "verification",
            FailureKind::Capped => "capped",
            FailureKind::Conflict => "conflict",
        };
        write!(f, "{kind}: {}", self.message)
    }
}

/// The compression of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// No compression.
    None,
    /// LZ4, if the engine has it.
    #[default]
    Lz4,
}

/// The moment at which a commit is acknowledged.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Without waiting for a sync.
    #[default]
    Buffered,
    /// After a sync.
    Synced,
}

/// The events that an acknowledged commit survives. It is established for each engine, not assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// None: the commit is acknowledged in the memory of the process.
    Memory,
    /// A kill of the process.
    Process,
    /// A power loss.
    Power,
}

impl Class {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Power => "power",
        }
    }
}

/// The set of options that engines get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// The same for all engines that have them.
    #[default]
    Equal,
    /// Each engine's own defaults, except durability and compression.
    Defaults,
}

/// The form of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// The engine's usual form.
    #[default]
    Block,
    /// B+trees.
    Btree,
    /// Uncompressed, and read through a mapping.
    Mapped,
    /// B+trees, uncompressed, and read through a mapping.
    #[serde(rename = "btree-mapped")]
    MappedBtree,
}

/// The isolation level that a row asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// All reads see one moment; of two transactions that write a key, the first to commit wins.
    Snapshot,
    /// As if transactions ran one after the other.
    #[default]
    Serializable,
}

/// How transactions avoid lost updates, at an engine that offers both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Concurrency {
    /// A commit fails if another one came first.
    #[default]
    Optimistic,
    /// A transaction locks the keys and ranges that it reads, until it ends.
    Locks,
}

/// Where long values lie, at an engine that offers both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// In the tables.
    #[default]
    Inline,
    /// In files of their own.
    Separated,
}

/// The configuration of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Size of a memtable in bytes, or of all memtables together if an engine divides it.
    pub write_buffer_bytes: u64,
    /// Size of the block cache, in bytes.
    pub cache_bytes: u64,
    /// Memory of the whole engine, in bytes, if it is bounded; the cache is then a part of it.
    pub memory_bytes: Option<u64>,
    /// Bits of the filter for each key.
    pub bloom_bits_per_key: u32,
    /// The compression of blocks.
    pub codec: Codec,
    /// The moment at which a commit is acknowledged.
    pub durability: Durability,
    /// The set of options.
    pub arm: Arm,
    /// The form of tables.
    pub table: TableKind,
    /// How transactions avoid lost updates.
    pub concurrency: Concurrency,
    /// Where long values lie.
    pub values: Values,
    /// Number of families, at least one.
    pub families: u32,
    /// Number of runs in level 0 that starts a compaction; `None` for the engine's own.
    pub level0_runs: Option<u32>,
    /// Upper bound of the number of entries.
    pub entries_max: u64,
    /// Bytes of that many keys and values, for engines that need a bound.
    pub bytes_max: u64,
    /// Whether opening is measured, alone or as a part of the run. Engines that can save writes at
    /// the cost of later openings must not do so then.
    pub is_opened_often: bool,
}

impl Config {
    /// The options of an engine that takes all three, for its [`Facts`].
    #[must_use]
    pub fn knobs(&self) -> String {
        match self.arm {
            Arm::Defaults => "its own defaults".to_owned(),
            Arm::Equal => {
                let of = if self.memory_bytes.is_some() { "memory" } else { "cache" };
                let mib = self.memory_bytes.unwrap_or(self.cache_bytes) >> 20;
                let (memtable, bits) = (self.write_buffer_bytes >> 20, self.bloom_bits_per_key);
                format!("memtable {memtable} MiB, {of} {mib} MiB, filter {bits} bits a key")
            }
        }
    }

    /// Checks that one family, the usual tables and no level 0 are enough; for engines without
    /// more.
    ///
    /// # Errors
    /// `Unsupported`, if the configuration needs more.
    pub fn must_be_plain(&self) -> Result<()> {
        if self.families > 1 {
            return Err(Failure::unsupported("one family in this benchmark"));
        }
        self.must_have_no_levels()
    }

    /// Checks that the usual tables and no level 0 are enough; for engines without more.
    ///
    /// # Errors
    /// `Unsupported`, if the configuration needs more.
    pub fn must_have_no_levels(&self) -> Result<()> {
        if self.table == TableKind::Btree {
            return Err(Failure::unsupported("one kind of table"));
        }
        match self.level0_runs {
            Some(_) => Err(Failure::unsupported("no level 0")),
            None => Ok(()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            write_buffer_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            memory_bytes: None,
            bloom_bits_per_key: 10,
            codec: Codec::Lz4,
            durability: Durability::Buffered,
            arm: Arm::Equal,
            table: TableKind::Block,
            concurrency: Concurrency::Optimistic,
            values: Values::Inline,
            families: 1,
            level0_runs: None,
            entries_max: 1 << 20,
            bytes_max: 1 << 30,
            is_opened_often: false,
        }
    }
}

/// The facts that an adapter states about its engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its version.
    pub version: String,
    /// The class that it claims for acknowledged commits with the requested durability.
    pub class: Class,
    /// The options that were set, in words, and the source of the claimed class.
    pub options: String,
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Upwards.
    Forward,
    /// Downwards, beginning at the last key at or before the given one.
    Reverse,
}

/// An engine with one database open.
pub trait Engine: Sized + Sync + 'static {
    /// A thread's access to the database.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Its name in suites and reports.
    const ID: &'static str;

    /// Whether the engine compacts; an engine that updates in place does not.
    const COMPACTS: bool = true;

    /// The facts about the engine with a configuration; opens nothing.
    fn facts(config: &Config) -> Facts;

    /// The isolation level of its transactions when a row asks for `asked`, in words. It is at
    /// least that level for the operations of the rows that the engine runs.
    fn isolation(_config: &Config, _asked: Isolation) -> &'static str {
        "none"
    }

    /// Opens the database in an existing directory; creates it if there is none.
    ///
    /// # Errors
    /// `Unsupported`, if it lacks what the configuration needs; errors of the engine.
    fn open(dir: &Path, config: &Config) -> Result<Self>;

    /// A session for one thread.
    ///
    /// # Errors
    /// Errors of the engine.
    fn session(&self) -> Result<Self::Session<'_>>;

    /// Writes out the memtables.
    ///
    /// # Errors
    /// Errors of the engine.
    fn flush(&self) -> Result<()>;

    /// Writes out the memtables, if the engine offers that. Returns once background work is done,
    /// as far as the engine can tell, and gives the time from which that holds. Time spent on
    /// checking that it stays quiet does not count.
    ///
    /// # Errors
    /// Errors of the engine.
    fn settle(&self) -> Result<Instant>;

    /// Compacts the data into the form that is best for reading.
    ///
    /// # Errors
    /// Errors of the engine.
    fn compact(&mut self) -> Result<()>;

    /// Closes the database.
    ///
    /// # Errors
    /// Errors of the engine.
    fn close(self) -> Result<()>;
}

/// The message of an engine that cannot keep transactions open beside others.
const ONE_WRITER: &str = "an open transaction that may write excludes all other writers";

/// One attempt of a transaction. A call that finds a conflict fails with `Conflict`, and the body
/// returns that failure.
pub trait Transaction {
    /// Shows the value of a key that the transaction is going to write, if there is one.
    ///
    /// # Errors
    /// `Conflict`; errors of the engine.
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool>;

    /// Shows the entries of `[from, to)`; returns how many.
    ///
    /// # Errors
    /// `Conflict`; `Unsupported`; errors of the engine.
    fn scan(&mut self, from: &[u8], to: &[u8], seen: impl FnMut(&[u8], &[u8])) -> Result<u64>;

    /// Sets a value when the transaction commits.
    ///
    /// # Errors
    /// `Conflict`; errors of the engine.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// The operations of a transaction before its commit.
pub trait Body {
    /// Runs the operations once. After a conflict they run again, in another transaction.
    ///
    /// # Errors
    /// Errors of the transaction; its own, after which there is no other attempt.
    fn attempt<T: Transaction>(&mut self, transaction: &mut T) -> Result<()>;
}

/// One thread's access to a database.
pub trait Session {
    /// Sets a value, as a commit of its own.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes a key, as a commit of its own.
    ///
    /// # Errors
    /// Errors of the engine.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Commits a batch atomically.
    ///
    /// # Errors
    /// Errors of the engine.
    fn write(&mut self, batch: &mut Batch) -> Result<()>;

    /// Passes the value of a key to `seen`, if there is one; returns whether there is.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool>;

    /// Passes the first entry at or after a key to `seen`, if there is one.
    ///
    /// # Errors
    /// Errors of the engine.
    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool>;

    /// Passes up to `limit` entries from a key on, inclusive, or from the end; returns their
    /// number.
    ///
    /// # Errors
    /// Errors of the engine.
    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64>;

    /// As `scan`, but by the iterator that programs would use first. An engine with one kind of
    /// iterator need not define it.
    ///
    /// # Errors
    /// Errors of the engine.
    fn iterate(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        self.scan(from, limit, Direction::Forward, seen)
    }

    /// Deletes the keys in `[from, to)` in one commit.
    ///
    /// # Errors
    /// Errors of the engine; `Unsupported` unless it has such an operation.
    fn delete_range(&mut self, _from: &[u8], _to: &[u8]) -> Result<()> {
        Err(Failure::unsupported("no range delete"))
    }

    /// Loads a batch of puts, whose keys ascend, past the log.
    ///
    /// # Errors
    /// Errors of the engine; `Unsupported` unless it has such an operation.
    fn ingest(&mut self, _batch: &mut Batch) -> Result<()> {
        Err(Failure::unsupported("no bulk loading is driven here"))
    }

    /// Runs `body` in transactions until one commits, with the retries that the engine advises.
    ///
    /// # Errors
    /// Errors of `body`, except a conflict; `Unsupported`; errors of the engine.
    fn transact<B: Body>(&mut self, _level: Isolation, _body: &mut B) -> Result<()> {
        Err(Failure::unsupported("its transactions are not driven here"))
    }

    /// Begins `count` transactions, reads a key in each, and keeps them open until the session
    /// ends.
    ///
    /// # Errors
    /// `Unsupported`; errors of the engine.
    fn hold(&mut self, _count: u32, _level: Isolation, _key: &[u8]) -> Result<()> {
        Err(Failure::unsupported(ONE_WRITER))
    }

    /// Makes the session use this family.
    ///
    /// # Errors
    /// Errors of the engine; `Unsupported` beyond the first unless it has families.
    fn select_family(&mut self, index: u32) -> Result<()> {
        if index == 0 { Ok(()) } else { Err(Failure::unsupported("no families")) }
    }

    /// Renews a read transaction, so that it shows all writes of this session and all commits of
    /// the others so far.
    ///
    /// # Errors
    /// Errors of the engine.
    fn refresh(&mut self) -> Result<()> {
        Ok(())
    }
}
