//! SiltDB, through its public API.

use crate::engine::{
    Arm, Batch, Class, Codec, Config, Direction, Durability, Engine, Facts, Failure, Result,
    Session, TableKind, Write,
};
use siltdb::{Compression, Cursor, Db, Family, FamilyOptions, Options, Read, ReadIo, WriteBatch};
use std::{
    ops::{Bound, ControlFlow},
    path::Path,
    time::Instant,
};

/// The engine may hold this many memtables at once, besides its cache.
const MEMTABLES: u64 = 4;

/// A write buffer is divided into this many memtables, as by the engine's defaults: while one is
/// filled, the other is flushed.
const MEMTABLES_OF_BUFFER: u64 = 2;

/// An open database and its families.
#[derive(Debug)]
pub struct Siltdb {
    db: Db,
    families: Vec<Family>,
}

/// A thread's access to a [`Siltdb`].
#[derive(Debug)]
pub struct SiltdbSession<'a> {
    engine: &'a Siltdb,
    family: &'a Family,
    /// The cursor of seeks and scans; it sees the state at its creation.
    cursor: Option<Cursor>,
    batch: WriteBatch,
}

/// Mapped tables are not compressed.
fn codec(config: &Config) -> Codec {
    if config.table == TableKind::Mapped { Codec::None } else { config.codec }
}

fn read_io(config: &Config) -> ReadIo {
    if config.table == TableKind::Mapped { ReadIo::Map } else { ReadIo::Read }
}

fn family_options(config: &Config) -> FamilyOptions {
    let compression = match codec(config) {
        Codec::None => Compression::None,
        Codec::Lz4 => Compression::Lz4,
    };
    let mut options = FamilyOptions::new().compression(compression);
    if config.arm == Arm::Equal {
        options = options.filter_bits_per_key(config.bloom_bits_per_key);
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
            let memory = memtable_bytes * MEMTABLES + config.cache_bytes;
            options
                .memtable_bytes(memtable_bytes as usize)
                .memory_budget(memory as usize)
                .cache_bytes(config.cache_bytes as usize)
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
        let options = format!("{knobs}, {codec:?}, read_io {read_io:?}; {why}");
        Facts { version: env!("CARGO_PKG_VERSION").to_owned(), class, options }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        if config.table == TableKind::Btree {
            return Err(Failure::unsupported("no B+tree tables yet"));
        }
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
        Ok(Self { db, families })
    }

    fn session(&self) -> Result<SiltdbSession<'_>> {
        let family = &self.families[0];
        Ok(SiltdbSession { engine: self, family, cursor: None, batch: WriteBatch::new() })
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

impl SiltdbSession<'_> {
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
