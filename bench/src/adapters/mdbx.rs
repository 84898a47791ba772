//! libmdbx through signet-libmdbx: LMDB's successor, a memory-mapped copy-on-write B+tree with a
//! single writer. Its named databases are families.
//!
//! With `SafeNoSync` a commit writes its pages into the page cache and survives the process. A
//! power loss takes the database back to its last sync. With `Durable` each commit is synced. Reads
//! use a read transaction, renewed after writes. There is no compaction in place.

use crate::engine::{
    Arm, Batch, Class, Config, Direction, Durability, Engine, Facts, Failure, Result, Session,
    Write,
};
use signet_libmdbx::{
    Cursor, Database, DatabaseFlags, Environment, Geometry, Mode, Ro, SyncMode, WriteFlags,
    tx::aliases::{RoTxUnsync, RwTxUnsync},
};
use std::{borrow::Cow, path::Path, time::Instant};

/// The file may grow to this many times the requested bytes: copies, free pages, the tree itself.
const FILE_FACTOR: u64 = 4;
const FILE_BYTES_MIN: u64 = 1 << 30;

/// A borrowed entry.
type Entry<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// An open environment and its databases.
pub struct Mdbx {
    env: Environment,
    databases: Vec<Database>,
}

/// A thread's access to an [`Mdbx`].
pub struct MdbxSession<'a> {
    engine: &'a Mdbx,
    /// The database in use.
    db: Database,
    /// The read transaction of the reads so far.
    view: Option<RoTxUnsync>,
}

impl Mdbx {
    fn commit(&self, change: impl FnOnce(&RwTxUnsync) -> Result<()>) -> Result<()> {
        let transaction = self.env.begin_rw_unsync()?;
        change(&transaction)?;
        Ok(transaction.commit()?)
    }
}

impl Engine for Mdbx {
    type Session<'a> = MdbxSession<'a>;

    const ID: &'static str = "mdbx";
    const COMPACTS: bool = false;

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => (
                Class::Process,
                "SafeNoSync: pages are in the page cache; a power loss takes what was not synced",
            ),
            Durability::Synced => (Class::Power, "Durable: each commit is synced"),
        };
        let knobs = match config.arm {
            Arm::Defaults => "its own defaults".to_owned(),
            Arm::Equal => format!("synced every {} MiB", config.write_buffer_bytes >> 20),
        };
        let options = format!("{knobs}, no compression, the page cache is its cache; {why}");
        Facts { version: "0.13.7 (signet-libmdbx 0.8.3)".to_owned(), class, options }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        config.must_have_no_levels()?;
        let sync_mode = match config.durability {
            Durability::Buffered => SyncMode::SafeNoSync,
            Durability::Synced => SyncMode::Durable,
        };
        let bytes_max = usize::try_from(config.bytes_max * FILE_FACTOR + FILE_BYTES_MIN)?;
        let mut builder = Environment::builder();
        builder.set_geometry(Geometry { size: Some(0..bytes_max), ..Geometry::default() });
        builder.set_flags(Mode::ReadWrite { sync_mode }.into());
        if config.families > 1 {
            builder.set_max_dbs(config.families as usize);
        }
        if config.arm == Arm::Equal {
            builder.set_sync_bytes(usize::try_from(config.write_buffer_bytes)?);
        }
        let env = builder.open(dir)?;
        let transaction = env.begin_rw_unsync()?;
        let mut databases = Vec::new();
        for index in 0..config.families {
            // The unnamed database holds the names of the others; without others it holds the data.
            let name = (config.families > 1).then(|| format!("family-{index}"));
            databases.push(transaction.create_db(name.as_deref(), DatabaseFlags::empty())?);
        }
        transaction.commit()?;
        Ok(Self { env, databases })
    }

    fn session(&self) -> Result<MdbxSession<'_>> {
        Ok(MdbxSession { engine: self, db: self.databases[0], view: None })
    }

    fn flush(&self) -> Result<()> {
        self.env.sync(true)?;
        Ok(())
    }

    /// libmdbx has no background work.
    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    /// libmdbx cannot compact in place.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

impl MdbxSession<'_> {
    /// The read transaction. A thread has one transaction at a time, so a write ends it.
    fn view(&mut self) -> Result<(Database, &RoTxUnsync)> {
        match &mut self.view {
            Some(view) => Ok((self.db, view)),
            none => Ok((self.db, none.insert(self.engine.env.begin_ro_unsync()?))),
        }
    }

    fn cursor(&mut self) -> Result<Cursor<'_, Ro>> {
        let (db, view) = self.view()?;
        Ok(view.cursor(db)?)
    }

    fn commit(&mut self, change: impl FnOnce(&RwTxUnsync) -> Result<()>) -> Result<()> {
        self.view = None;
        self.engine.commit(change)
    }
}

/// The last entry at or before a key.
fn last_at<'a>(cursor: &mut Cursor<'a, Ro>, key: &[u8]) -> Result<Option<Entry<'a>>> {
    let next: Option<Entry<'a>> = cursor.set_range(key)?;
    match next {
        Some(entry) if *entry.0 == *key => Ok(Some(entry)),
        Some(_) => Ok(cursor.prev()?),
        None => Ok(cursor.last()?),
    }
}

impl Session for MdbxSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let db = self.db;
        self.commit(|transaction| Ok(transaction.put(db, key, value, WriteFlags::UPSERT)?))
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let db = self.db;
        self.commit(|transaction| Ok(transaction.del(db, key, None).map(drop)?))
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let db = self.db;
        self.commit(|transaction| {
            batch.for_each(|write| match write {
                Write::Put { key, value } => {
                    Ok(transaction.put(db, key, value, WriteFlags::UPSERT)?)
                }
                Write::Delete { key } => Ok(transaction.del(db, key, None).map(drop)?),
            })
        })
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let (db, view) = self.view()?;
        let found: Option<Cow<'_, [u8]>> = view.get(db.dbi(), key)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let found: Option<Entry<'_>> = self.cursor()?.set_range(key)?;
        if let Some((key, value)) = &found {
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
        let mut cursor = self.cursor()?;
        let mut entry: Option<Entry<'_>> = match (direction, from) {
            _ if limit == 0 => None,
            (Direction::Forward, None) => cursor.first()?,
            (Direction::Forward, Some(from)) => cursor.set_range(from)?,
            (Direction::Reverse, None) => cursor.last()?,
            (Direction::Reverse, Some(from)) => last_at(&mut cursor, from)?,
        };
        let mut count = 0;
        while let Some((key, value)) = entry {
            seen(&key, &value);
            count += 1;
            entry = match direction {
                _ if count == limit => None,
                Direction::Forward => cursor.next()?,
                Direction::Reverse => cursor.prev()?,
            };
        }
        Ok(count)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let db = self.db;
        self.commit(|transaction| {
            let mut cursor = transaction.cursor(db)?;
            let mut entry: Option<Entry<'_>> = cursor.set_range(from)?;
            while entry.is_some_and(|(key, _)| *key < *to) {
                cursor.del()?;
                // The cursor now stands at the entry after the deleted one.
                entry = cursor.get_current()?;
            }
            Ok(())
        })
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let db = self.engine.databases.get(index as usize);
        self.db = *db.ok_or_else(|| Failure::error("a database that was not opened"))?;
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.view = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
