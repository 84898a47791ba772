//! SiltDB, through its public API.

use crate::engine::{
    Arm, Batch, Body, Class, Codec, Concurrency, Config, Direction, Durability, Engine, Facts,
    Failure, FailureKind, Isolation, Result, Session, TableKind, Transaction, Values, Write,
};
use siltdb::{
    Compression, Cursor, Db, ErrorKind, Family, FamilyOptions, LockMode, Options, Read, ReadIo,
    TransactionOptions, UpdateOptions, WriteBatch,
};
use std::{
    ops::{Bound, ControlFlow},
    path::Path,
    time::Instant,
};

/// The engine may hold this many memtables at once, besides its cache.
const MEMTABLES: u64 = 4;

/// Room in the budget for what lies outside of the cache, as at the others: indexes, filters, and
/// buffers of jobs; and a part of the cache for gaps between its blocks.
const OUTSIDE_BYTES: u64 = 256 << 20;
const GAPS_SHARE: u64 = 4;

/// A write buffer is divided into this many memtables, as by the engine's defaults: while one is
/// filled, the other is flushed.
const MEMTABLES_OF_BUFFER: u64 = 2;

/// The shortest value that the variant with separation separates, in bytes: what the values of its
/// rows reach, and short ones do not.
const SEPARATED_FROM: u64 = 1 << 10;

/// An open database and its families.
#[derive(Debug)]
pub struct Siltdb {
    db: Db,
    families: Vec<Family>,
    concurrency: Concurrency,
}

/// A thread's access to a [`Siltdb`].
#[derive(Debug)]
pub struct SiltdbSession<'a> {
    engine: &'a Siltdb,
    family: &'a Family,
    /// The cursor of seeks and scans; it sees the state at its creation.
    cursor: Option<Cursor>,
    batch: WriteBatch,
    /// Transactions that are held open.
    held: Vec<siltdb::Transaction>,
}

/// An attempt of a transaction.
#[derive(Debug)]
pub struct SiltdbTransaction<'a> {
    transaction: &'a siltdb::Transaction,
    concurrency: Concurrency,
}

/// Mapped tables are not compressed.
fn codec(config: &Config) -> Codec {
    match config.table {
        TableKind::Block | TableKind::Btree => config.codec,
        TableKind::Mapped | TableKind::MappedBtree => Codec::None,
    }
}

fn read_io(config: &Config) -> ReadIo {
    match config.table {
        TableKind::Block | TableKind::Btree => ReadIo::Read,
        TableKind::Mapped | TableKind::MappedBtree => ReadIo::Map,
    }
}

fn family_options(config: &Config) -> FamilyOptions {
    let compression = match codec(config) {
        Codec::None => Compression::None,
        Codec::Lz4 => Compression::Lz4,
    };
    let kind = match config.table {
        TableKind::Block | TableKind::Mapped => siltdb::TableKind::Block,
        TableKind::Btree | TableKind::MappedBtree => siltdb::TableKind::BTree,
    };
    let mut options = FamilyOptions::new().compression(compression).table_kind(kind);
    if config.arm == Arm::Equal {
        options = options.filter_bits_per_key(config.bloom_bits_per_key);
    }
    if config.values == Values::Separated {
        options = options.value_threshold(SEPARATED_FROM);
    }
    match config.level0_runs {
        Some(runs) => options.level0_runs(runs),
        None => options,
    }
}

fn options(config: &Config) -> Options {
    let durability = match config.durability {
        Durability::Buffered => siltdb::Durability::Buffered,
        Durability::Synced => siltdb::Durability::Synced,
    };
    let options = Options::new()
        .durability(durability)
        .read_io(read_io(config))
        .default_family(family_options(config));
    match config.arm {
        Arm::Defaults => options,
        Arm::Equal => {
            let memtable_bytes = config.write_buffer_bytes / MEMTABLES_OF_BUFFER;
            let cache = config.cache_bytes + config.cache_bytes / GAPS_SHARE;
            let memory = memtable_bytes * MEMTABLES + cache + OUTSIDE_BYTES;
            let options = options.memtable_bytes(memtable_bytes as usize);
            match config.memory_bytes {
                Some(bytes) => options.memory_budget(bytes as usize),
                None => {
                    options.memory_budget(memory as usize).cache_bytes(config.cache_bytes as usize)
                }
            }
        }
    }
}

/// Family 0 is the default one.
fn family_name(index: u32) -> String {
    format!("family-{index}")
}

impl Engine for Siltdb {
    type Session<'a> = SiltdbSession<'a>;

    const ID: &'static str = "siltdb";

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => {
                (Class::Process, "commits are in the page cache on return, by a shared mapping")
            }
            Durability::Synced => {
                (Class::Power, "fdatasync before return, shared by waiting commits")
            }
        };
        let (knobs, codec, read_io) = (config.knobs(), codec(config), read_io(config));
        let knobs = format!("{knobs}, the memtable in {MEMTABLES_OF_BUFFER} halves");
        let values = match config.values {
            Values::Inline => String::new(),
            Values::Separated => format!(", values from {SEPARATED_FROM} bytes on separated"),
        };
        let options = format!("{knobs}, {codec:?}, read_io {read_io:?}{values}; {why}");
        Facts { version: env!("CARGO_PKG_VERSION").to_owned(), class, options }
    }

    fn isolation(config: &Config, asked: Isolation) -> &'static str {
        match (config.concurrency, asked) {
            (Concurrency::Locks, _) => "serializable: what is read is locked",
            (Concurrency::Optimistic, Isolation::Snapshot) => "snapshot",
            (Concurrency::Optimistic, Isolation::Serializable) => "serializable",
        }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        let db = options(config).open(dir.join("data"))?;
        let mut families = vec![db.default_family()];
        for index in 1..config.families {
            let name = family_name(index);
            let family = match db.family(&name) {
                Ok(family) => family,
                Err(_) => db.create_family(&name, family_options(config))?,
            };
            families.push(family);
        }
        Ok(Self { db, families, concurrency: config.concurrency })
    }

    fn session(&self) -> Result<SiltdbSession<'_>> {
        let family = &self.families[0];
        let (batch, held) = (WriteBatch::new(), Vec::new());
        Ok(SiltdbSession { engine: self, family, cursor: None, batch, held })
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    /// Writes out the memtables first, as the other adapters do; the engine's own `settle` only
    /// waits.
    fn settle(&self) -> Result<Instant> {
        self.db.flush()?;
        self.db.settle()?;
        Ok(Instant::now())
    }

    fn compact(&mut self) -> Result<()> {
        Ok(self.db.compact()?)
    }

    fn close(self) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// The level of the engine.
fn level(asked: Isolation) -> siltdb::Isolation {
    match asked {
        Isolation::Snapshot => siltdb::Isolation::Snapshot,
        Isolation::Serializable => siltdb::Isolation::Serializable,
    }
}

/// A conflict, a deadlock or a lock timeout ends the attempt, not the row.
fn failure(error: siltdb::Error) -> Failure {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::Busy => Failure::conflict(error.to_string()),
        _ => Failure::from(error),
    }
}

impl Transaction for SiltdbTransaction<'_> {
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        match self.concurrency {
            Concurrency::Optimistic => Ok(self.transaction.read(key, seen)?.is_some()),
            Concurrency::Locks => {
                let found = self.transaction.get_for_update(key).map_err(failure)?;
                Ok(found.map(|value| seen(&value)).is_some())
            }
        }
    }

    fn scan(&mut self, from: &[u8], to: &[u8], mut seen: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        if self.concurrency == Concurrency::Locks {
            self.transaction.lock_range(from..to, LockMode::Exclusive).map_err(failure)?;
        }
        let mut count = 0;
        for entry in self.transaction.range(from..to)? {
            let (key, value) = entry?;
            seen(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.transaction.put(key, value)?)
    }
}

impl SiltdbSession<'_> {
    /// Runs `body` by `update`, which retries after conflicts.
    fn update<B: Body>(&self, isolation: Isolation, body: &mut B) -> Result<()> {
        let options = UpdateOptions::new().isolation(level(isolation));
        let mut stopped = None;
        let updated = self.engine.db.update_with(&options, |transaction| {
            let concurrency = Concurrency::Optimistic;
            let done = body.attempt(&mut SiltdbTransaction { transaction, concurrency });
            done.map_err(|failure| {
                stopped = Some(failure);
                siltdb::Error::invalid("the body of the transaction failed")
            })
        });
        stopped.map_or_else(|| Ok(updated?), Err)
    }

    /// Runs `body` with locks on everything that it reads, until one attempt commits. Reads at
    /// ReadCommitted see the newest values, which the locks keep, so the result is serializable.
    fn lock<B: Body>(&self, body: &mut B) -> Result<()> {
        let options = TransactionOptions::new().isolation(siltdb::Isolation::ReadCommitted);
        loop {
            let transaction = &self.engine.db.begin_with(&options);
            let concurrency = Concurrency::Locks;
            let done = body.attempt(&mut SiltdbTransaction { transaction, concurrency });
            let done = done.and_then(|()| transaction.commit().map(drop).map_err(failure));
            match done {
                Err(Failure { kind: FailureKind::Conflict, .. }) => {}
                ended => return ended,
            }
        }
    }

    fn cursor(&mut self) -> Result<&mut Cursor> {
        match &mut self.cursor {
            Some(cursor) => Ok(cursor),
            none => Ok(none.insert(self.family.cursor()?)),
        }
    }
}

impl Session for SiltdbSession<'_> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.family.put(key, value)?)
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.family.delete(key)?)
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        self.batch.clear();
        batch.for_each(|write| match write {
            Write::Put { key, value } => Ok(self.batch.put(self.family, key, value)?),
            Write::Delete { key } => Ok(self.batch.delete(self.family, key)?),
        })?;
        Ok(self.engine.db.write(&self.batch)?)
    }

    #[inline]
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.family.read(key, seen)?.is_some())
    }

    #[inline]
    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let cursor = self.cursor()?;
        cursor.seek(key)?;
        let entry = cursor.entry();
        if let Some((key, value)) = entry {
            seen(key, value);
        }
        Ok(entry.is_some())
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let cursor = self.cursor()?;
        match (from, direction) {
            (None, Direction::Forward) => cursor.seek_to_first()?,
            (None, Direction::Reverse) => cursor.seek_to_last()?,
            (Some(key), Direction::Forward) => cursor.seek(key)?,
            (Some(key), Direction::Reverse) => cursor.seek_for_prev(key)?,
        }
        let seen = |key: &[u8], value: &[u8]| {
            seen(key, value);
            ControlFlow::Continue(())
        };
        Ok(match direction {
            Direction::Forward => cursor.walk(limit, seen)?,
            Direction::Reverse => cursor.walk_back(limit, seen)?,
        })
    }

    fn iterate(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let entries = self.family.range((from, Bound::<&[u8]>::Unbounded))?;
        let mut count = 0;
        for entry in entries.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let (key, value) = entry?;
            seen(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.family.delete_range(from..to)?)
    }

    fn ingest(&mut self, batch: &mut Batch) -> Result<()> {
        let mut ingestion = self.family.ingest()?;
        batch.for_each(|write| match write {
            Write::Put { key, value } => Ok(ingestion.put(key, value)?),
            Write::Delete { key } => Ok(ingestion.delete(key)?),
        })?;
        Ok(ingestion.finish().map(drop)?)
    }

    fn transact<B: Body>(&mut self, level: Isolation, body: &mut B) -> Result<()> {
        match self.engine.concurrency {
            Concurrency::Optimistic => self.update(level, body),
            Concurrency::Locks => self.lock(body),
        }
    }

    fn hold(&mut self, count: u32, isolation: Isolation, key: &[u8]) -> Result<()> {
        for _ in 0..count {
            let transaction = self.engine.db.begin(level(isolation));
            transaction.read(key, |_| ())?;
            self.held.push(transaction);
        }
        Ok(())
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let family = self.engine.families.get(index as usize);
        self.family = family.ok_or_else(|| Failure::error("a family that was not opened"))?;
        self.cursor = None;
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.cursor = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
