//! LMDB through heed: a memory-mapped copy-on-write B+tree with a single writer. Its named
//! databases are families.
//!
//! With `NO_SYNC` a commit writes its pages into the page cache and survives the process. After a
//! power loss the file may be damaged, not only old. Without `NO_SYNC` each commit is synced. Reads
//! use a read transaction, renewed after writes. There is no compaction in place.
#![allow(unsafe_code)]

use crate::engine::{
    Batch, Body, Class, Config, Direction, Durability, Engine, Facts, Failure, Isolation, Result,
    Session, Transaction, Write,
};
use heed::{Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls, types::Bytes};
use std::{ops::Bound, path::Path, time::Instant};

/// The map may grow to this many times the requested bytes: copies, free pages, the tree itself.
const MAP_FACTOR: u64 = 4;
const MAP_MIN: u64 = 1 << 30;
const PAGE_BYTES: u64 = 4096;

type Database = heed::Database<Bytes, Bytes>;

/// An open environment and its databases.
pub struct Lmdb {
    env: Env<WithoutTls>,
    databases: Vec<Database>,
}

/// A thread's access to an [`Lmdb`].
pub struct LmdbSession<'a> {
    engine: &'a Lmdb,
    /// The database in use.
    db: &'a Database,
    /// The read transaction of the reads so far.
    view: Option<RoTxn<'a, WithoutTls>>,
}

/// A transaction; LMDB runs one at a time.
pub struct LmdbTransaction<'a, 'e> {
    db: &'a Database,
    transaction: &'a mut RwTxn<'e>,
}

impl Transaction for LmdbTransaction<'_, '_> {
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.db.get(self.transaction, key)?;
        if let Some(value) = found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], mut seen: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut count = 0;
        for entry in self.db.range(self.transaction, &range)? {
            let (key, value) = entry?;
            seen(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(self.transaction, key, value)?)
    }
}

impl Lmdb {
    fn commit(&self, change: impl FnOnce(&mut RwTxn<'_>) -> Result<()>) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        change(&mut transaction)?;
        Ok(transaction.commit()?)
    }
}

impl Engine for Lmdb {
    type Session<'a> = LmdbSession<'a>;

    const ID: &'static str = "lmdb";
    const COMPACTS: bool = false;

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => (Class::Process, "NO_SYNC: pages are in the page cache"),
            Durability::Synced => (Class::Power, "each commit is synced"),
        };
        let options = format!("no compression, the page cache is its cache; {why}");
        Facts { version: "0.9.70 (heed 0.22.1)".to_owned(), class, options }
    }

    fn isolation(_: &Config, _: Isolation) -> &'static str {
        "serializable: one writer"
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        config.must_have_no_levels()?;
        let map = (config.bytes_max * MAP_FACTOR + MAP_MIN).next_multiple_of(PAGE_BYTES);
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map as usize);
        if config.families > 1 {
            options.max_dbs(config.families);
        }
        if config.durability == Durability::Buffered {
            // SAFETY: NO_SYNC gives up integrity after a power loss, as the class of the row says.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the directory belongs to this job alone, so no other process maps or changes the
        // file.
        let env = unsafe { options.open(dir) }?;
        let mut transaction = env.write_txn()?;
        let mut databases = Vec::new();
        for index in 0..config.families {
            // The unnamed database holds the names of the others; without others it holds the data.
            let name = (config.families > 1).then(|| format!("family-{index}"));
            databases.push(env.create_database(&mut transaction, name.as_deref())?);
        }
        transaction.commit()?;
        Ok(Self { env, databases })
    }

    fn session(&self) -> Result<LmdbSession<'_>> {
        Ok(LmdbSession { engine: self, db: &self.databases[0], view: None })
    }

    fn flush(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    /// LMDB has no background work.
    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    /// LMDB cannot compact in place.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

impl LmdbSession<'_> {
    fn view(&mut self) -> Result<(&Database, &RoTxn<'_, WithoutTls>)> {
        match &mut self.view {
            Some(view) => Ok((self.db, view)),
            none => Ok((self.db, none.insert(self.engine.env.read_txn()?))),
        }
    }
}

impl Session for LmdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.commit(|transaction| Ok(self.db.put(transaction, key, value)?))
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.engine.commit(|transaction| {
            self.db.delete(transaction, key)?;
            Ok(())
        })
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let db = self.db;
        self.engine.commit(|transaction| {
            batch.for_each(|write| match write {
                Write::Put { key, value } => Ok(db.put(transaction, key, value)?),
                Write::Delete { key } => Ok(db.delete(transaction, key).map(drop)?),
            })
        })
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let (db, view) = self.view()?;
        let found = db.get(view, key)?;
        if let Some(value) = found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let (db, view) = self.view()?;
        let found = db.get_greater_than_or_equal_to(view, key)?;
        if let Some((key, value)) = found {
            seen(key, value);
        }
        Ok(found.is_some())
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let (db, view) = self.view()?;
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let mut count = 0;
        let mut show = |entry: heed::Result<(&[u8], &[u8])>| -> Result<()> {
            let (key, value) = entry?;
            seen(key, value);
            count += 1;
            Ok(())
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match direction {
            Direction::Forward => {
                let range = (from, Bound::Unbounded);
                db.range(view, &range)?.take(limit).try_for_each(&mut show)?;
            }
            Direction::Reverse => {
                let range = (Bound::Unbounded, from);
                db.rev_range(view, &range)?.take(limit).try_for_each(&mut show)?;
            }
        }
        Ok(count)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.engine.commit(|transaction| {
            let range = (Bound::Included(from), Bound::Excluded(to));
            self.db.delete_range(transaction, &range)?;
            Ok(())
        })
    }

    fn transact<B: Body>(&mut self, _: Isolation, body: &mut B) -> Result<()> {
        let db = self.db;
        self.engine.commit(|transaction| body.attempt(&mut LmdbTransaction { db, transaction }))
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let db = self.engine.databases.get(index as usize);
        self.db = db.ok_or_else(|| Failure::error("a database that was not opened"))?;
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.view = None;
        Ok(())
    }
}
