//! What an engine must offer to be measured: the traits that adapters implement.
//!
//! Loops over them are monomorphised; nothing on the clock goes through a table of functions.
//! Does not know rows or passes.

use crate::{keys::KeyMaker, values::ValueMaker};
use serde::{Deserialize, Serialize};
use std::{fmt, path::Path, time::Instant};

/// What a call of an engine, or of anything that drives one, returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a row has no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The engine, or what stands around it, returned an error.
    Error,
    /// The engine does not have what the row needs.
    Unsupported,
    /// The engine returned something else than was written.
    Verification,
    /// All together took longer than a row may: said by who runs the worker.
    Capped,
}

/// A failure and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What happened, for people.
    pub message: String,
}

impl Failure {
    /// An error that is told.
    pub fn error(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Error, message: message.into() }
    }

    /// The engine does not have `what`.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Unsupported, message: what.into() }
    }

    /// `what` was cut off.
    pub fn capped(what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Capped, message: what.into() }
    }

    /// Something else came back than was written.
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
        };
        write!(f, "{kind}: {}", self.message)
    }
}

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Not at all.
    None,
    /// By LZ4, where the engine has it.
    #[default]
    Lz4,
}

/// When a commit is acknowledged.
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

/// What an acknowledged commit survives: established for each engine, not assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Nothing: it is acknowledged in the memory of the process.
    Memory,
    /// A killed process.
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

/// Which options are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// The same for all engines, where they have them.
    #[default]
    Equal,
    /// Each engine's own defaults, but for durability and compression.
    Defaults,
}

/// How tables are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// As the engine usually does.
    #[default]
    Block,
    /// As B+trees.
    Btree,
    /// Not compressed, and read where the system maps them.
    Mapped,
}

/// How a database is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Size of a memtable, in bytes, or of those that an engine divides it into.
    pub write_buffer_bytes: u64,
    /// Size of the block cache, in bytes.
    pub cache_bytes: u64,
    /// Bits of the filter for each key.
    pub bloom_bits_per_key: u32,
    /// How blocks are compressed.
    pub codec: Codec,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// Which options are set.
    pub arm: Arm,
    /// How tables are kept.
    pub table: TableKind,
    /// How many families, at least one.
    pub families: u32,
    /// Runs that level 0 gathers before it is compacted, if not the engine's own number.
    pub level0_runs: Option<u32>,
    /// How many entries the database will hold at most.
    pub entries_max: u64,
    /// What keys and values of that many take up, for engines that must be told.
    pub bytes_max: u64,
    /// Opening is measured, alone or as a part of the run: engines that can spare writes at the
    /// cost of later openings must not.
    pub is_opened_often: bool,
}

impl Config {
    /// What an engine is told that takes all three: for its [`Facts`].
    #[must_use]
    pub fn knobs(&self) -> String {
        match self.arm {
            Arm::Defaults => "its own defaults".to_owned(),
            Arm::Equal => format!(
                "memtable {} MiB, cache {} MiB, filter {} bits a key",
                self.write_buffer_bytes >> 20,
                self.cache_bytes >> 20,
                self.bloom_bits_per_key
            ),
        }
    }

    /// For engines that have one family in this benchmark, one kind of table, and no level 0.
    ///
    /// # Errors
    /// `Unsupported`, if the configuration asks for more.
    pub fn must_be_plain(&self) -> Result<()> {
        if self.families > 1 {
            return Err(Failure::unsupported("one family in this benchmark"));
        }
        self.must_have_no_levels()
    }

    /// For engines that have one kind of table and no level 0.
    ///
    /// # Errors
    /// `Unsupported`, if the configuration asks for more.
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
            bloom_bits_per_key: 10,
            codec: Codec::Lz4,
            durability: Durability::Buffered,
            arm: Arm::Equal,
            table: TableKind::Block,
            families: 1,
            level0_runs: None,
            entries_max: 1 << 20,
            bytes_max: 1 << 30,
            is_opened_often: false,
        }
    }
}

/// What an engine says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its version.
    pub version: String,
    /// What an acknowledged commit survives with the durability asked for.
    pub class: Class,
    /// The options that were set, in words, and how the class is known.
    pub options: String,
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Upwards.
    Forward,
    /// Downwards; it begins at the last key at or before the one named.
    Reverse,
}

/// An engine with one database open.
pub trait Engine: Sized + Sync + 'static {
    /// What a thread uses.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Its name in suites and reports.
    const ID: &'static str;

    /// Whether there is something to compact: an engine that changes in place has nothing.
    const COMPACTS: bool = true;

    /// What it is with such a configuration, without opening anything.
    fn facts(config: &Config) -> Facts;

    /// Opens the database in a directory that exists; creates it if there is none.
    ///
    /// # Errors
    /// `Unsupported`, if the configuration asks for what it does not have; its own.
    fn open(dir: &Path, config: &Config) -> Result<Self>;

    /// What one thread works with.
    ///
    /// # Errors
    /// Its own.
    fn session(&self) -> Result<Self::Session<'_>>;

    /// Writes out what is in memory.
    ///
    /// # Errors
    /// Its own.
    fn flush(&self) -> Result<()>;

    /// Writes out what is in memory, if the engine can be told to, and returns once background work
    /// is done, as far as it can say; returns since when that is so. Looking for longer whether it
    /// stays quiet is not what the engine needs.
    ///
    /// # Errors
    /// Its own.
    fn settle(&self) -> Result<Instant>;

    /// Brings the data into the shape that is best for reading.
    ///
    /// # Errors
    /// Its own.
    fn compact(&mut self) -> Result<()>;

    /// Closes the database.
    ///
    /// # Errors
    /// Its own.
    fn close(self) -> Result<()>;
}

/// One thread's access to a database.
pub trait Session {
    /// Sets a value; a commit of its own.
    ///
    /// # Errors
    /// The engine's.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes a key; a commit of its own.
    ///
    /// # Errors
    /// The engine's.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Commits a batch atomically.
    ///
    /// # Errors
    /// The engine's.
    fn write(&mut self, batch: &mut Batch) -> Result<()>;

    /// Shows the value of a key, if there is one.
    ///
    /// # Errors
    /// The engine's.
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool>;

    /// Shows the first entry at or after a key, if there is one.
    ///
    /// # Errors
    /// The engine's.
    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool>;

    /// Shows up to `limit` entries from a key, included, or from the end; returns how many.
    ///
    /// # Errors
    /// The engine's.
    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64>;

    /// Shows up to `limit` entries from a key, included, by the iterator that programs use first;
    /// returns how many. An engine that has one way to walk need not define it.
    ///
    /// # Errors
    /// The engine's.
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
    /// The engine's; `Unsupported` unless it has such an operation.
    fn delete_range(&mut self, _from: &[u8], _to: &[u8]) -> Result<()> {
        Err(Failure::unsupported("no range delete"))
    }

    /// From now on the session uses this family.
    ///
    /// # Errors
    /// The engine's; `Unsupported` beyond the first unless it has families.
    fn select_family(&mut self, index: u32) -> Result<()> {
        if index == 0 { Ok(()) } else { Err(Failure::unsupported("no families")) }
    }

    /// A session that pinned a view for reading takes a new one, which holds all that this session
    /// has written and all that others had committed.
    ///
    /// # Errors
    /// The engine's.
    fn refresh(&mut self) -> Result<()> {
        Ok(())
    }
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Sets a value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

/// What to write: id and version; version 0 deletes.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Whose value.
    pub id: u32,
    /// Which value.
    pub version: u32,
}

/// Operations to be committed as one. Keys and values are made when they are asked for, so that an
/// engine copies them once, into its own batch.
#[derive(Clone, Debug)]
pub struct Batch {
    keys: KeyMaker,
    values: ValueMaker,
    pending: Vec<Pending>,
}

impl Batch {
    /// An empty batch of such keys and values.
    #[must_use]
    pub fn new(keys: KeyMaker, values: ValueMaker) -> Self {
        Self { keys, values, pending: Vec::new() }
    }

    /// Adds an operation.
    #[inline]
    pub fn push(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    /// How many operations it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.pending.clear();
    }

    /// Shows each operation in turn.
    ///
    /// # Errors
    /// The first that `seen` returns.
    #[inline]
    pub fn for_each(&mut self, mut seen: impl FnMut(Write<'_>) -> Result<()>) -> Result<()> {
        for pending in &self.pending {
            let key = self.keys.key(pending.id);
            match pending.version {
                0 => seen(Write::Delete { key })?,
                version => {
                    seen(Write::Put { key, value: self.values.value(pending.id, version) })?;
                }
            }
        }
        Ok(())
    }
}
