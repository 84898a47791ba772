//! RocksDB with transactions: optimistic ones that are validated at the commit, and pessimistic
//! ones that lock.
//!
//! A transaction reads keys by `get_for_update`, so that another write of them is a conflict. At
//! the level Serializable it reads the newest values; at the level Snapshot it sets a snapshot at
//! its begin. RocksDB does not validate ranges, so rows that read ranges at Serializable are
//! unsupported. After a conflict, a deadlock or a lock timeout the next attempt begins at once.
//!
//! The C API can neither flush nor compact a `TransactionDB`. Settling only waits until no work
//! runs in the background, and leaves the memtables in memory.

use crate::{
    adapter::{Rocksdb, cache_bytes, database_options},
    walk,
};
use rocksdb::{
    Cache, DBAccess, DBPinnableSlice, DBRawIteratorWithThreadMode, Error, ErrorKind, MultiThreaded,
    OptimisticTransactionDB, OptimisticTransactionOptions, Options, ReadOptions, TransactionDB,
    TransactionDBOptions, TransactionOptions, WaitForCompactOptions, WriteBatchWithTransaction,
    WriteOptions, properties,
};
use siltdb_bench::{
    engine::{
        Batch, Body, Config, Direction, Durability, Engine, Facts, Failure, FailureKind, Isolation,
        Result, Session, TableKind, Transaction, Write,
    },
    measure::wait_until_quiet,
};
use std::{path::Path, time::Instant};

type Writes = WriteBatchWithTransaction<true>;
type Cursor<'a, D> = DBRawIteratorWithThreadMode<'a, D>;
/// The result of a call of RocksDB.
type Native<T> = std::result::Result<T, Error>;
/// RocksDB with locks; only this form of it offers properties.
pub type Pessimistic = TransactionDB<MultiThreaded>;

/// A kind of database with transactions.
pub trait Kind: DBAccess + Sized + Sync + 'static {
    /// The name of the engine.
    const ID: &'static str;
    /// The first words of its options.
    const ABOUT: &'static str;
    /// Whether it compacts on request.
    const COMPACTS: bool;

    /// Opens a database.
    fn open(options: &Options, path: &Path) -> Native<Self>;
    /// Begins a transaction, on a snapshot of this moment if that is asked for.
    fn begin(&self, writing: &WriteOptions, level: Isolation) -> rocksdb::Transaction<'_, Self>;
    /// Sets a value.
    fn put(&self, key: &[u8], value: &[u8], writing: &WriteOptions) -> Native<()>;
    /// Deletes a key.
    fn delete(&self, key: &[u8], writing: &WriteOptions) -> Native<()>;
    /// Commits a batch.
    fn write(&self, writes: Writes, writing: &WriteOptions) -> Native<()>;
    /// The value of a key.
    fn get(&self, key: &[u8], reading: &ReadOptions) -> Native<Option<DBPinnableSlice<'_>>>;
    /// A cursor over the current contents.
    fn cursor(&self) -> Cursor<'_, Self>;
    /// Waits for background work.
    fn settle(&self) -> Result<Instant>;
    /// Compacts everything, if it does that on request.
    fn compact(&self);
}

impl Kind for OptimisticTransactionDB {
    const ID: &'static str = "rocksdb-optimistic";
    const ABOUT: &'static str = "OptimisticTransactionDB";
    const COMPACTS: bool = true;

    fn open(options: &Options, path: &Path) -> Native<Self> {
        Self::open(options, path)
    }

    fn begin(&self, writing: &WriteOptions, level: Isolation) -> rocksdb::Transaction<'_, Self> {
        let mut options = OptimisticTransactionOptions::default();
        options.set_snapshot(level == Isolation::Snapshot);
        self.transaction_opt(writing, &options)
    }

    fn put(&self, key: &[u8], value: &[u8], writing: &WriteOptions) -> Native<()> {
        self.put_opt(key, value, writing)
    }

    fn delete(&self, key: &[u8], writing: &WriteOptions) -> Native<()> {
        self.delete_opt(key, writing)
    }

    fn write(&self, writes: Writes, writing: &WriteOptions) -> Native<()> {
        self.write_opt(writes, writing)
    }

    fn get(&self, key: &[u8], reading: &ReadOptions) -> Native<Option<DBPinnableSlice<'_>>> {
        self.get_pinned_opt(key, reading)
    }

    fn cursor(&self) -> Cursor<'_, Self> {
        self.raw_iterator()
    }

    fn settle(&self) -> Result<Instant> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.wait_for_compact(&options)?;
        let since = Instant::now();
        check_sound(self.property_int_value(properties::BACKGROUND_ERRORS)?)?;
        Ok(since)
    }

    fn compact(&self) {
        self.compact_range(None::<&[u8]>, None::<&[u8]>);
    }
}

impl Kind for Pessimistic {
    const ID: &'static str = "rocksdb-pessimistic";
    const ABOUT: &'static str = "TransactionDB, deadlocks detected, neither flushed nor compacted \
                                 on request";
    const COMPACTS: bool = false;

    fn open(options: &Options, path: &Path) -> Native<Self> {
        Self::open(options, &TransactionDBOptions::default(), path)
    }

    fn begin(&self, writing: &WriteOptions, level: Isolation) -> rocksdb::Transaction<'_, Self> {
        let mut options = TransactionOptions::default();
        options.set_snapshot(level == Isolation::Snapshot);
        options.set_deadlock_detect(true);
        self.transaction_opt(writing, &options)
    }

    fn put(&self, key: &[u8], value: &[u8], writing: &WriteOptions) -> Native<()> {
        self.put_opt(key, value, writing)
    }

    fn delete(&self, key: &[u8], writing: &WriteOptions) -> Native<()> {
        self.delete_opt(key, writing)
    }

    fn write(&self, writes: Writes, writing: &WriteOptions) -> Native<()> {
        self.write_opt(writes, writing)
    }

    fn get(&self, key: &[u8], reading: &ReadOptions) -> Native<Option<DBPinnableSlice<'_>>> {
        self.get_pinned_opt(key, reading)
    }

    fn cursor(&self) -> Cursor<'_, Self> {
        self.raw_iterator()
    }

    fn settle(&self) -> Result<Instant> {
        let work = [
            properties::MEM_TABLE_FLUSH_PENDING,
            properties::NUM_RUNNING_FLUSHES,
            properties::COMPACTION_PENDING,
            properties::NUM_RUNNING_COMPACTIONS,
        ];
        check_sound(self.property_int_value(properties::BACKGROUND_ERRORS)?)?;
        wait_until_quiet(|| {
            for name in work {
                if self.property_int_value(name)?.is_some_and(|count| count > 0) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn compact(&self) {}
}

/// Fails if background work failed, which no other call reports.
fn check_sound(errors: Option<u64>) -> Result<()> {
    match errors {
        None | Some(0) => Ok(()),
        Some(count) => Err(Failure::error(format!("background work failed. errors={count}"))),
    }
}

/// An open database.
pub struct Transactional<D> {
    db: D,
    durability: Durability,
}

/// A thread's access to a [`Transactional`].
pub struct TransactionalSession<'a, D: Kind> {
    db: &'a D,
    reading: ReadOptions,
    writing: WriteOptions,
    /// The cursor of seeks and scans; it sees the state at its creation.
    cursor: Option<Cursor<'a, D>>,
    /// Transactions that are held open.
    held: Vec<rocksdb::Transaction<'a, D>>,
}

/// An attempt of a transaction.
pub struct Attempt<'t, 'd, D> {
    transaction: &'t rocksdb::Transaction<'d, D>,
    level: Isolation,
}

fn failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain | ErrorKind::Aborted => {
            Failure::conflict(error.to_string())
        }
        _ => Failure::from(error),
    }
}

impl<D: Kind> Transaction for Attempt<'_, '_, D> {
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.transaction.get_pinned_for_update(key, true).map_err(failure)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], mut seen: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        if self.level == Isolation::Serializable {
            return Err(Failure::unsupported("ranges that were read are not validated"));
        }
        let mut reading = ReadOptions::default();
        reading.set_iterate_upper_bound(to);
        let snapshot = self.transaction.snapshot();
        let mut cursor = snapshot.raw_iterator_opt(reading);
        let mut count = 0;
        cursor.seek(from);
        while let Some((key, value)) = cursor.item() {
            seen(key, value);
            count += 1;
            cursor.next();
        }
        // An iterator ends at an error as it does at the end.
        cursor.status().map_err(failure)?;
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transaction.put(key, value).map_err(failure)
    }
}

impl<D: Kind> Engine for Transactional<D> {
    type Session<'a> = TransactionalSession<'a, D>;

    const ID: &'static str = D::ID;
    const COMPACTS: bool = D::COMPACTS;

    fn facts(config: &Config) -> Facts {
        let plain = Rocksdb::facts(config);
        Facts { options: format!("{}; {}", D::ABOUT, plain.options), ..plain }
    }

    fn isolation(_: &Config, asked: Isolation) -> &'static str {
        match asked {
            Isolation::Snapshot => "snapshot",
            Isolation::Serializable => "serializable, for keys",
        }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        if config.families > 1 {
            return Err(Failure::unsupported("one family in this benchmark"));
        }
        if config.table == TableKind::Btree {
            return Err(Failure::unsupported("no B+tree tables"));
        }
        let cache = Cache::new_lru_cache(cache_bytes(config));
        let options = database_options(config, &cache);
        let db = D::open(&options, &dir.join("data"))?;
        Ok(Self { db, durability: config.durability })
    }

    fn session(&self) -> Result<TransactionalSession<'_, D>> {
        let mut writing = WriteOptions::default();
        writing.set_sync(self.durability == Durability::Synced);
        let (reading, held) = (ReadOptions::default(), Vec::new());
        Ok(TransactionalSession { db: &self.db, reading, writing, cursor: None, held })
    }

    /// Flushes if the kind of database can.
    fn flush(&self) -> Result<()> {
        self.settle().map(drop)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.settle()
    }

    fn compact(&mut self) -> Result<()> {
        self.db.compact();
        self.settle().map(drop)
    }

    /// Each commit has reached the file of the log.
    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl<'a, D: Kind> TransactionalSession<'a, D> {
    fn cursor(&mut self) -> &mut Cursor<'a, D> {
        let db = self.db;
        self.cursor.get_or_insert_with(|| db.cursor())
    }
}

impl<D: Kind> Session for TransactionalSession<'_, D> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value, &self.writing)?)
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key, &self.writing)?)
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let mut writes = Writes::default();
        batch.for_each(|write| {
            match write {
                Write::Put { key, value } => writes.put(key, value),
                Write::Delete { key } => writes.delete(key),
            }
            Ok(())
        })?;
        Ok(self.db.write(writes, &self.writing)?)
    }

    #[inline]
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.db.get(key, &self.reading)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        walk::seek(self.cursor(), key, seen)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        walk::scan(self.cursor(), (from, direction), limit, seen)
    }

    fn transact<B: Body>(&mut self, level: Isolation, body: &mut B) -> Result<()> {
        loop {
            let transaction = self.db.begin(&self.writing, level);
            let done = body.attempt(&mut Attempt { transaction: &transaction, level });
            match done.and_then(|()| transaction.commit().map_err(failure)) {
                Err(Failure { kind: FailureKind::Conflict, .. }) => {}
                ended => return ended,
            }
        }
    }

    /// Each sets a snapshot at any level, so that it pins old versions as in other engines.
    fn hold(&mut self, count: u32, _: Isolation, key: &[u8]) -> Result<()> {
        let db = self.db;
        for _ in 0..count {
            let transaction = db.begin(&self.writing, Isolation::Snapshot);
            transaction.get_pinned(key)?;
            self.held.push(transaction);
        }
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.cursor = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
