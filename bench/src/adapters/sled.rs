//! sled 0.34: a log-structured B-link tree in the high-throughput mode that its author advises. Its
//! trees are families.
//!
//! Commits go to a buffer in the process, which a thread flushes twice a second. `flush` waits for
//! `sync_file_range` on Linux, which flushes neither the disk's cache nor the file's length. So
//! acknowledged data survives the process, not a power loss.

use crate::engine::{
    Arm, Batch, Body, Class, Config, Direction, Durability, Engine, Facts, Failure, FailureKind,
    Isolation, Result, Session, Transaction, Write,
};
use sled::{
    Db, IVec, Mode, Tree,
    transaction::{
        ConflictableTransactionError, TransactionError, TransactionalTree,
        UnabortableTransactionError,
    },
};
use std::{
    cell::RefCell,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Limit of the wait for a lock that should be free.
const LOCK_TIME_MAX: Duration = Duration::from_secs(5);
/// sled's message about a lock that is held.
const LOCKED: &str = "could not acquire lock";

/// An open database and its trees.
#[derive(Debug)]
pub struct Sled {
    db: Db,
    trees: Vec<Tree>,
    durability: Durability,
}

/// A thread's access to a [`Sled`].
#[derive(Debug)]
pub struct SledSession<'a> {
    engine: &'a Sled,
    tree: &'a Tree,
}

/// An attempt of a transaction.
pub struct SledTransaction<'a>(&'a TransactionalTree);

fn failure(error: UnabortableTransactionError) -> Failure {
    match error {
        UnabortableTransactionError::Conflict => Failure::conflict(error.to_string()),
        UnabortableTransactionError::Storage(error) => Failure::from(error),
    }
}

impl Transaction for SledTransaction<'_> {
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.0.get(key).map_err(failure)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn scan(&mut self, _: &[u8], _: &[u8], _: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        Err(Failure::unsupported("its transactions read no ranges"))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key, value).map(drop).map_err(failure)
    }
}

/// A thread of sled may hold the lock slightly longer than the closed database.
fn open_when_free(options: &sled::Config) -> Result<Db> {
    let start = Instant::now();
    loop {
        match options.open() {
            Err(sled::Error::Io(error))
                if start.elapsed() < LOCK_TIME_MAX && error.to_string().contains(LOCKED) =>
            {
                thread::sleep(Duration::from_millis(2));
            }
            opened => return Ok(opened?),
        }
    }
}

impl Sled {
    fn committed(&self) -> Result<()> {
        match self.durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.flush(),
        }
    }
}

impl Engine for Sled {
    type Session<'a> = SledSession<'a>;

    const ID: &'static str = "sled";
    const COMPACTS: bool = false;

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => (Class::Memory, "flushed every 500 ms by a thread"),
            Durability::Synced => (Class::Process, "flush after each commit, by sync_file_range"),
        };
        let knobs = match config.arm {
            Arm::Defaults => "its own defaults".to_owned(),
            Arm::Equal => {
                format!("high throughput mode, cache {} MiB", config.cache_bytes >> 20)
            }
        };
        let options = format!("{knobs}, no compression; {why}");
        Facts { version: "0.34.7".to_owned(), class, options }
    }

    fn isolation(_: &Config, _: Isolation) -> &'static str {
        "serializable: one at a time"
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        config.must_have_no_levels()?;
        let mut options = sled::Config::default().path(dir.join("data"));
        if config.arm == Arm::Equal {
            options = options.cache_capacity(config.cache_bytes).mode(Mode::HighThroughput);
        }
        let db = open_when_free(&options)?;
        let mut trees = vec![Tree::clone(&db)];
        for index in 1..config.families {
            trees.push(db.open_tree(format!("family-{index}"))?);
        }
        Ok(Self { db, trees, durability: config.durability })
    }

    fn session(&self) -> Result<SledSession<'_>> {
        Ok(SledSession { engine: self, tree: &self.trees[0] })
    }

    fn flush(&self) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }

    /// sled does its work during the calls; only the buffer is left.
    fn settle(&self) -> Result<Instant> {
        self.flush()?;
        Ok(Instant::now())
    }

    /// sled cannot compact.
    fn compact(&mut self) -> Result<()> {
        self.flush()
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

impl Session for SledSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.tree.insert(key, value)?;
        self.engine.committed()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.tree.remove(key)?;
        self.engine.committed()
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let mut writes = sled::Batch::default();
        batch.for_each(|write| {
            match write {
                Write::Put { key, value } => writes.insert(key, value),
                Write::Delete { key } => writes.remove(key),
            }
            Ok(())
        })?;
        self.tree.apply_batch(writes)?;
        self.engine.committed()
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.tree.get(key)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let Some(entry) = self.tree.range(key..).next() else { return Ok(false) };
        let (key, value) = entry?;
        seen(&key, &value);
        Ok(true)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut count = 0;
        let mut show = |entry: sled::Result<(IVec, IVec)>| -> Result<()> {
            let (key, value) = entry?;
            seen(&key, &value);
            count += 1;
            Ok(())
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match (from, direction) {
            (None, Direction::Forward) => self.tree.iter().take(limit).try_for_each(&mut show)?,
            (None, Direction::Reverse) => {
                self.tree.iter().rev().take(limit).try_for_each(&mut show)?;
            }
            (Some(key), Direction::Forward) => {
                self.tree.range(key..).take(limit).try_for_each(&mut show)?;
            }
            (Some(key), Direction::Reverse) => {
                self.tree.range(..=key).rev().take(limit).try_for_each(&mut show)?;
            }
        }
        Ok(count)
    }

    fn transact<B: Body>(&mut self, _: Isolation, body: &mut B) -> Result<()> {
        let body = RefCell::new(body);
        let done = self.tree.transaction(|tree| {
            body.borrow_mut().attempt(&mut SledTransaction(tree)).map_err(|failure| match failure {
                Failure { kind: FailureKind::Conflict, .. } => {
                    ConflictableTransactionError::Conflict
                }
                failure => ConflictableTransactionError::Abort(failure),
            })
        });
        done.map_err(|error| match error {
            TransactionError::Abort(failure) => failure,
            TransactionError::Storage(error) => Failure::from(error),
        })?;
        self.engine.committed()
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let tree = self.engine.trees.get(index as usize);
        self.tree = tree.ok_or_else(|| Failure::error("a tree that was not opened"))?;
        Ok(())
    }
}
