//! redb 4: a copy-on-write B-tree with a single writer. Its tables are families.
//!
//! `Durability::Immediate` syncs each commit; with `None` commits stay in the process until the
//! next synced commit. Reads use a read transaction, as in its guide, renewed after writes.

use crate::engine::{
    Arm, Batch, Body, Class, Config, Direction, Durability, Engine, Facts, Failure, Isolation,
    Result, Session, Transaction, Write,
};
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table,
    TableDefinition, WriteTransaction,
};
use std::{ops::Bound, path::Path, time::Instant};

type Key = &'static [u8];

/// An open database and the names of its tables.
pub struct Redb {
    db: Database,
    tables: Vec<String>,
    durability: redb::Durability,
}

/// A thread's access to a [`Redb`].
pub struct RedbSession<'a> {
    engine: &'a Redb,
    /// The table in use.
    table: &'a str,
    /// The read transaction of the reads so far.
    reading: Option<ReadTransaction>,
    /// The table in that transaction.
    view: Option<ReadOnlyTable<Key, Key>>,
}

/// A transaction; redb runs one at a time.
pub struct RedbTransaction<'a, 't>(&'a mut Table<'t, Key, Key>);

impl Transaction for RedbTransaction<'_, '_> {
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.0.get(key)?;
        if let Some(value) = &found {
            seen(value.value());
        }
        Ok(found.is_some())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], mut seen: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut count = 0;
        for entry in self.0.range::<&[u8]>(from..to)? {
            let (key, value) = entry?;
            seen(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key, value)?;
        Ok(())
    }
}

fn table(name: &str) -> TableDefinition<'_, Key, Key> {
    TableDefinition::new(name)
}

impl Redb {
    fn commit(
        &self,
        durability: redb::Durability,
        change: impl FnOnce(&WriteTransaction) -> Result<()>,
    ) -> Result<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(durability)?;
        change(&transaction)?;
        transaction.commit()?;
        Ok(())
    }
}

impl Engine for Redb {
    type Session<'a> = RedbSession<'a>;

    const ID: &'static str = "redb";

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => {
                (Class::Memory, "Durability::None: in the process until a sync")
            }
            Durability::Synced => (Class::Power, "Durability::Immediate: a sync for each commit"),
        };
        let knobs = match config.arm {
            Arm::Defaults => "its own defaults".to_owned(),
            // redb has one cache for reads and for unwritten data.
            Arm::Equal => {
                format!("cache {} MiB", (config.cache_bytes + config.write_buffer_bytes) >> 20)
            }
        };
        let options = format!("{knobs}, no compression; {why}");
        Facts { version: "4.5.0".to_owned(), class, options }
    }

    fn isolation(_: &Config, _: Isolation) -> &'static str {
        "serializable: one writer"
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        config.must_have_no_levels()?;
        let mut builder = Database::builder();
        if config.arm == Arm::Equal {
            // redb has one cache for reads and for unwritten data.
            builder.set_cache_size((config.cache_bytes + config.write_buffer_bytes) as usize);
        }
        let durability = match config.durability {
            Durability::Buffered => redb::Durability::None,
            Durability::Synced => redb::Durability::Immediate,
        };
        let tables = (0..config.families).map(|index| format!("data-{index}")).collect();
        let engine = Self { db: builder.create(dir.join("data.redb"))?, tables, durability };
        engine.commit(redb::Durability::Immediate, |transaction| {
            for name in &engine.tables {
                transaction.open_table(table(name))?;
            }
            Ok(())
        })?;
        Ok(engine)
    }

    fn session(&self) -> Result<RedbSession<'_>> {
        let table = &self.tables[0];
        Ok(RedbSession { engine: self, table, reading: None, view: None })
    }

    fn flush(&self) -> Result<()> {
        self.commit(redb::Durability::Immediate, |_| Ok(()))
    }

    /// redb has no background work; settling writes and syncs the commits that are only in memory.
    fn settle(&self) -> Result<Instant> {
        self.flush()?;
        Ok(Instant::now())
    }

    fn compact(&mut self) -> Result<()> {
        while self.db.compact()? {}
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

impl RedbSession<'_> {
    fn view(&mut self) -> Result<&ReadOnlyTable<Key, Key>> {
        if self.view.is_none() {
            let reading = match &mut self.reading {
                Some(reading) => reading,
                none => none.insert(self.engine.db.begin_read()?),
            };
            self.view = Some(reading.open_table(table(self.table))?);
        }
        self.view.as_ref().ok_or_else(|| Failure::error("no view"))
    }

    fn commit(&self, change: impl FnOnce(&mut Table<'_, Key, Key>) -> Result<()>) -> Result<()> {
        let engine = self.engine;
        engine.commit(engine.durability, |transaction| {
            change(&mut transaction.open_table(table(self.table))?)
        })
    }
}

impl Session for RedbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit(|table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.commit(|table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        self.commit(|table| {
            batch.for_each(|write| {
                match write {
                    Write::Put { key, value } => drop(table.insert(key, value)?),
                    Write::Delete { key } => drop(table.remove(key)?),
                }
                Ok(())
            })
        })
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.view()?.get(key)?;
        if let Some(value) = &found {
            seen(value.value());
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let Some(entry) = self.view()?.range::<&[u8]>(key..)?.next() else { return Ok(false) };
        let (key, value) = entry?;
        seen(key.value(), value.value());
        Ok(true)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let range = match direction {
            Direction::Forward => (from, Bound::Unbounded),
            Direction::Reverse => (Bound::Unbounded, from),
        };
        let mut range = self.view()?.range::<&[u8]>(range)?;
        let mut count = 0;
        while count < limit {
            let entry = match direction {
                Direction::Forward => range.next(),
                Direction::Reverse => range.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry?;
            seen(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }

    fn transact<B: Body>(&mut self, _: Isolation, body: &mut B) -> Result<()> {
        self.commit(|table| body.attempt(&mut RedbTransaction(table)))
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let table = self.engine.tables.get(index as usize);
        self.table = table.ok_or_else(|| Failure::error("a table that was not opened"))?;
        self.view = None;
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        (self.reading, self.view) = (None, None);
        Ok(())
    }
}
