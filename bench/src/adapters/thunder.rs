//! ThunderDB 0.4: a B+tree that lies in memory as a whole, written to one file.
//!
//! Every commit is synced; only its log offers less, and commits do not use that. A commit that
//! overwrites or deletes rewrites the whole file. There is a single writer, behind a lock here,
//! because a write borrows the database exclusively. It cannot scan backwards.

use crate::engine::{
    Arm, Batch, Class, Config, Direction, Engine, Facts, Failure, Result, Session, Write,
};
use std::{
    ops::Bound,
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard},
    time::Instant,
};
use thunderdb::{Database, DatabaseOptions};

/// An open database.
pub struct Thunder(RwLock<Database>);

/// A thread's access to a [`Thunder`].
pub struct ThunderSession<'a>(&'a Thunder);

/// Its authors call values of this size large.
const LARGE_BYTES: u64 = 10_000;

impl Thunder {
    fn look(&self) -> RwLockReadGuard<'_, Database> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Thunder {
    type Session<'a> = ThunderSession<'a>;

    const ID: &'static str = "thunder";
    const COMPACTS: bool = false;

    fn facts(config: &Config) -> Facts {
        let knobs = match config.arm {
            Arm::Defaults => "its own defaults",
            Arm::Equal => "large-value options from 10,000 bytes on, else its own",
        };
        let options = format!(
            "{knobs}; no compression; all data in memory; each commit is synced, also where none \
             is asked for"
        );
        Facts { version: "0.4.0".to_owned(), class: Class::Power, options }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        config.must_be_plain()?;
        let large = config.bytes_max / config.entries_max.max(1) >= LARGE_BYTES;
        let options = match config.arm {
            Arm::Equal if large => DatabaseOptions::large_value_optimized(),
            Arm::Equal | Arm::Defaults => DatabaseOptions::default(),
        };
        let db = Database::open_with_options(dir.join("data.thunder"), options)?;
        Ok(Self(RwLock::new(db)))
    }

    fn session(&self) -> Result<ThunderSession<'_>> {
        Ok(ThunderSession(self))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// ThunderDB has no background work.
    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    /// ThunderDB cannot compact.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Session for ThunderSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut db = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = db.write_tx();
        transaction.put(key, value);
        Ok(transaction.commit()?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let mut db = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = db.write_tx();
        transaction.delete(key);
        Ok(transaction.commit()?)
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let mut db = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = db.write_tx();
        batch.for_each(|write| {
            match write {
                Write::Put { key, value } => transaction.put(key, value),
                Write::Delete { key } => transaction.delete(key),
            }
            Ok(())
        })?;
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let db = self.0.look();
        let view = db.read_tx();
        let found = view.get_ref(key);
        if let Some(value) = found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        Ok(self.scan(Some(key), 1, Direction::Forward, once(seen))? == 1)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        if direction == Direction::Reverse {
            return Err(Failure::unsupported("no walking backwards"));
        }
        let db = self.0.look();
        let view = db.read_tx();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut count = 0;
        let mut show = |(key, value): (&[u8], &[u8])| {
            seen(key, value);
            count += 1;
        };
        match from {
            None => view.iter().take(limit).for_each(&mut show),
            Some(key) => {
                let range = (Bound::Included(key), Bound::Unbounded);
                view.range(range).take(limit).for_each(&mut show);
            }
        }
        Ok(count)
    }
}

/// Turns a function that may be called once into one that is called at most once.
fn once(seen: impl FnOnce(&[u8], &[u8])) -> impl FnMut(&[u8], &[u8]) {
    let mut seen = Some(seen);
    move |key, value| {
        if let Some(seen) = seen.take() {
            seen(key, value);
        }
    }
}
