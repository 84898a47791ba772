//! The map of Rust's standard library behind a lock: the cost of ordered data without files.
//!
//! A commit is acknowledged in the memory of the process. Closing writes the map into a file, and
//! opening reads it, so that a row finds its seeded data. A killed process leaves nothing.

use crate::engine::{
    Batch, Class, Config, Direction, Durability, Engine, Facts, Failure, Result, Session, Write,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufWriter, ErrorKind, IntoInnerError, Write as _},
    ops::Bound,
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Instant,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// An open map.
#[derive(Debug)]
pub struct Btreemap {
    map: RwLock<Map>,
    path: PathBuf,
}

/// A thread's access to a [`Btreemap`].
#[derive(Debug)]
pub struct BtreemapSession<'a> {
    engine: &'a Btreemap,
}

impl Btreemap {
    fn map(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn map_mut(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a map into a file: for each entry, in order,
/// `| key length u32 le | key | value length u32 le | value |`.
fn save(map: &Map, path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for bytes in map.iter().flat_map(|(key, value)| [key, value]) {
        file.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
        file.write_all(bytes)?;
    }
    Ok(file.into_inner().map_err(IntoInnerError::into_error)?.sync_data()?)
}

/// Reads the file that [`save`] wrote; an empty map, if there is none.
fn load(path: &Path) -> Result<Map> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Map::new()),
        bytes => bytes?,
    };
    let mut rest = &bytes[..];
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push((piece(&mut rest)?, piece(&mut rest)?));
    }
    Ok(entries.into_iter().collect())
}

/// Takes a length, u32 le, and that many bytes.
fn piece(rest: &mut &[u8]) -> Result<Vec<u8>> {
    let parts = rest
        .split_first_chunk()
        .and_then(|(length, after)| after.split_at_checked(u32::from_le_bytes(*length) as usize));
    let (piece, after) = parts.ok_or_else(|| Failure::error("the file of the map is cut off"))?;
    *rest = after;
    Ok(piece.to_vec())
}

impl Engine for Btreemap {
    type Session<'a> = BtreemapSession<'a>;

    const ID: &'static str = "btreemap";
    const COMPACTS: bool = false;

    fn facts(_: &Config) -> Facts {
        let options = "a BTreeMap in memory behind a lock; written to a file when it is closed";
        Facts { version: "std".to_owned(), class: Class::Memory, options: options.to_owned() }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        config.must_be_plain()?;
        if config.durability == Durability::Synced {
            return Err(Failure::unsupported("no synced commits"));
        }
        let path = dir.join("map");
        Ok(Self { map: RwLock::new(load(&path)?), path })
    }

    fn session(&self) -> Result<BtreemapSession<'_>> {
        Ok(BtreemapSession { engine: self })
    }

    fn flush(&self) -> Result<()> {
        save(&self.map(), &self.path)
    }

    /// The map has no background work.
    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    /// A map has nothing to compact.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

impl Session for BtreemapSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.map_mut().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.engine.map_mut().remove(key);
        Ok(())
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let mut map = self.engine.map_mut();
        batch.for_each(|write| {
            match write {
                Write::Put { key, value } => map.insert(key.to_vec(), value.to_vec()),
                Write::Delete { key } => map.remove(key),
            };
            Ok(())
        })
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let map = self.engine.map();
        let found = map.get(key);
        if let Some(value) = found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let map = self.engine.map();
        let found = map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).next();
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
        let map = self.engine.map();
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut count = 0;
        let show = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            seen(key, value);
            count += 1;
        };
        match direction {
            Direction::Forward => {
                map.range::<[u8], _>((from, Bound::Unbounded)).take(limit).for_each(show);
            }
            Direction::Reverse => {
                map.range::<[u8], _>((Bound::Unbounded, from)).rev().take(limit).for_each(show);
            }
        }
        Ok(count)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut map = self.engine.map_mut();
        let range = (Bound::Included(from), Bound::Excluded(to));
        let keys: Vec<_> = map.range::<[u8], _>(range).map(|(key, _)| key.clone()).collect();
        for key in keys {
            map.remove(&key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
