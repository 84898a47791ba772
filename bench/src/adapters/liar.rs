//! A map in memory with one fault each, which the tests of the benchmark's checks use. In addition
//! all of them claim that commits survive the process.
//!
//! Its contents outlive `close` within the process, by directory.

use crate::engine::{
    Batch, Body, Class, Config, Direction, Engine, Facts, Failure, Isolation, Result, Session,
    Transaction, Write,
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Instant,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
/// Values before the last change of their key; none, if it was inserted.
type Before = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The faults; most occur once in `EVERY` calls.
pub mod lie {
    /// No fault.
    pub const HONEST: u8 = 0;
    /// Acknowledges puts that it drops.
    pub const DROPS_WRITES: u8 = 1;
    /// Keeps the old value at an overwrite.
    pub const STALE_VALUES: u8 = 2;
    /// Returns empty values.
    pub const EMPTY_VALUES: u8 = 3;
    /// Returns an error.
    pub const ERRORS: u8 = 4;
    /// Ends a scan one entry early.
    pub const TRUNCATES_SCANS: u8 = 5;
    /// Acknowledges deletes that it drops.
    pub const SWALLOWS_DELETES: u8 = 6;
    /// Seeks to the entry after the right one.
    pub const SEEKS_PAST: u8 = 7;
    /// Swaps two entries of a scan.
    pub const SWAPS_ENTRIES: u8 = 8;
    /// Returns values whose middle is wrong.
    pub const BENT_VALUES: u8 = 9;
    /// Finds keys that do not exist.
    pub const FINDS_MISSING: u8 = 10;
    /// Loses an entry when it is closed.
    pub const FORGETS_AT_CLOSE: u8 = 11;
    /// Returns the wrong key with the right value from scans and seeks.
    pub const WRONG_KEYS: u8 = 12;
    /// Hangs.
    pub const HANGS: u8 = 13;
    /// Crashes.
    pub const CRASHES: u8 = 14;
    /// Reads old values in a transaction, and commits it nevertheless.
    pub const LOSES_UPDATES: u8 = 15;
}

/// The fault occurs in one of this many calls.
const EVERY: u64 = 97;

/// All databases of the process.
static DATABASES: Mutex<BTreeMap<PathBuf, Arc<RwLock<Map>>>> = Mutex::new(BTreeMap::new());

/// A map with the fault `LIE`.
#[derive(Debug)]
pub struct Liar<const LIE: u8> {
    map: Arc<RwLock<Map>>,
    /// The values before the last change by a transaction. Each transaction holds this lock, so
    /// that they run one after the other.
    before: Mutex<Before>,
}

/// An attempt of a transaction.
#[derive(Debug)]
pub struct LiarTransaction<'a> {
    map: &'a RwLock<Map>,
    before: &'a Before,
    writes: Map,
    /// Whether it reads old values.
    is_late: bool,
}

impl Transaction for LiarTransaction<'_> {
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let late = self.before.get(key).filter(|_| self.is_late);
        let found = late.map_or_else(|| map.get(key), Option::as_ref);
        if let Some(value) = found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], mut seen: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        for (key, value) in map.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))) {
            let late = self.before.get(key).filter(|_| self.is_late);
            seen(key, late.and_then(Option::as_ref).unwrap_or(value));
            count += 1;
        }
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writes.insert(key.to_vec(), value.to_vec());
        Ok(())
    }
}

/// A thread's access to a [`Liar`].
#[derive(Debug)]
pub struct LiarSession<'a, const LIE: u8> {
    engine: &'a Liar<LIE>,
    /// Counted by thread, so that the faulty calls do not depend on how threads interleave.
    calls: Cell<u64>,
}

fn databases() -> MutexGuard<'static, BTreeMap<PathBuf, Arc<RwLock<Map>>>> {
    DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<const LIE: u8> Liar<LIE> {
    fn change(&self, change: impl FnOnce(&mut Map)) {
        change(&mut self.map.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn look<T>(&self, look: impl FnOnce(&Map) -> T) -> T {
        look(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<const LIE: u8> Engine for Liar<LIE> {
    type Session<'a> = LiarSession<'a, LIE>;

    const ID: &'static str = "liar";

    fn facts(_: &Config) -> Facts {
        let options = format!("a map in memory; lie {LIE}");
        Facts { version: "1".to_owned(), class: Class::Process, options }
    }

    fn isolation(_: &Config, _: Isolation) -> &'static str {
        "serializable, it says"
    }

    fn open(dir: &Path, _: &Config) -> Result<Self> {
        let map = Arc::clone(databases().entry(dir.to_owned()).or_default());
        Ok(Self { map, before: Mutex::default() })
    }

    fn session(&self) -> Result<LiarSession<'_, LIE>> {
        Ok(LiarSession { engine: self, calls: Cell::new(0) })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self) -> Result<()> {
        if LIE == lie::FORGETS_AT_CLOSE {
            self.change(|map| drop(map.pop_last()));
        }
        Ok(())
    }
}

impl<const LIE: u8> LiarSession<'_, LIE> {
    /// Whether the fault occurs in this call, if `lie` is this map's fault.
    fn lies(&self, lie: u8) -> bool {
        if LIE != lie {
            return false;
        }
        self.calls.set(self.calls.get() + 1);
        self.calls.get().is_multiple_of(EVERY)
    }
}

impl<const LIE: u8> Session for LiarSession<'_, LIE> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let engine = self.engine;
        if self.lies(lie::ERRORS) {
            return Err(Failure::error("the disk is on fire"));
        }
        if self.lies(lie::DROPS_WRITES) {
            return Ok(());
        }
        if self.lies(lie::HANGS) {
            std::thread::park();
        }
        if self.lies(lie::CRASHES) {
            std::process::abort();
        }
        let keeps = self.lies(lie::STALE_VALUES);
        engine.change(|map| {
            if !(keeps && map.contains_key(key)) {
                map.insert(key.to_vec(), value.to_vec());
            }
        });
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        if !self.lies(lie::SWALLOWS_DELETES) {
            self.engine.change(|map| drop(map.remove(key)));
        }
        Ok(())
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        batch.for_each(|write| match write {
            Write::Put { key, value } => self.put(key, value),
            Write::Delete { key } => self.delete(key),
        })
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let engine = self.engine;
        if self.lies(lie::ERRORS) {
            return Err(Failure::error("the disk is on fire"));
        }
        let found = engine.look(|map| map.get(key).cloned());
        let Some(mut value) = found else {
            return Ok(self.lies(lie::FINDS_MISSING));
        };
        if self.lies(lie::EMPTY_VALUES) {
            value.clear();
        }
        if self.lies(lie::BENT_VALUES) {
            let middle = value.len() / 2;
            value[middle] ^= 1;
        }
        seen(&value);
        Ok(true)
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let past = self.lies(lie::SEEKS_PAST);
        let wrong_key = self.lies(lie::WRONG_KEYS);
        self.engine.look(|map| {
            let mut entries = map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
            let first = entries.next();
            // Past the last entry there is none, and a seek that finds nothing is another fault.
            let entry = if past { entries.next().or(first) } else { first };
            if let Some((key, value)) = entry {
                seen(if wrong_key { &key[..8] } else { key }, value);
            }
            Ok(entry.is_some())
        })
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = self.engine.look(|map| {
            let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            match direction {
                Direction::Forward => {
                    let entries = map.range::<[u8], _>((from, Bound::Unbounded));
                    entries.take(limit).map(owned).collect()
                }
                Direction::Reverse => {
                    let entries = map.range::<[u8], _>((Bound::Unbounded, from));
                    entries.rev().take(limit).map(owned).collect()
                }
            }
        });
        match LIE {
            lie::TRUNCATES_SCANS => drop(entries.pop()),
            lie::SWAPS_ENTRIES if entries.len() > 1 => entries.swap(0, 1),
            lie::WRONG_KEYS => entries.iter_mut().for_each(|(key, _)| key.truncate(8)),
            _ => {}
        }
        entries.iter().for_each(|(key, value)| seen(key, value));
        Ok(entries.len() as u64)
    }

    fn transact<B: Body>(&mut self, _: Isolation, body: &mut B) -> Result<()> {
        let is_late = self.lies(lie::LOSES_UPDATES);
        let mut before = self.engine.before.lock().unwrap_or_else(PoisonError::into_inner);
        let map = &*self.engine.map;
        let mut transaction = LiarTransaction { map, before: &before, writes: Map::new(), is_late };
        body.attempt(&mut transaction)?;
        let writes = transaction.writes;
        self.engine.change(|map| {
            for (key, value) in writes {
                let old = map.insert(key.clone(), value);
                before.insert(key, old);
            }
        });
        Ok(())
    }

    /// A map has nothing to hold.
    fn hold(&mut self, _: u32, _: Isolation, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        if LIE != lie::SWALLOWS_DELETES {
            self.engine.change(|map| {
                map.retain(|key, _| !(from..to).contains(&key.as_slice()));
            });
        }
        Ok(())
    }
}
