//! A database under simulation, with handles on its families.
//!
//! It opens; it judges nothing.

use crate::{
    expected::Names,
    model::{DEFAULT, FamilyIndex},
    settings::{DIRECTORY, Settings},
    violation::{Checked, Violation, must},
    watch::JobsDone,
};
use siltdb::{Db, Family, WriteBatch};
use siltdb_base::{clock::ManualClock, fs::mem::MemFs};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// An open database.
#[derive(Debug)]
pub struct Database {
    /// Its files.
    pub fs: MemFs,
    /// Itself.
    pub db: Db,
    /// Its families.
    pub families: BTreeMap<FamilyIndex, Family>,
    /// Their names.
    pub names: Names,
}

impl Database {
    /// Opens it, or creates it.
    ///
    /// # Errors
    /// Those of the engine; nothing is judged.
    pub fn open(
        settings: &Settings,
        fs: &MemFs,
        clock: &Arc<ManualClock>,
        seed: u64,
    ) -> siltdb::Result<Db> {
        settings.options(fs, clock, seed).open(DIRECTORY)
    }

    /// Finds the families, whose names must be one of `possible`.
    ///
    /// # Errors
    /// If they are not.
    pub fn new(fs: MemFs, db: Db, possible: &[Names]) -> Checked<Self> {
        let found = db.families();
        let Some(names) = possible.iter().find(|names| names.keys().eq(found.iter())) else {
            let expected: Vec<Vec<_>> =
                possible.iter().map(|names| names.keys().collect()).collect();
            let message = format!("families {found:?}, expected one of {expected:?}");
            return Err(Violation::new(message));
        };
        let mut families = BTreeMap::new();
        for (name, index) in names {
            families.insert(*index, must(db.family(name), "opening a family")?);
        }
        let names = names.clone();
        Ok(Self { fs, db, families, names })
    }

    /// The names of a new database.
    #[must_use]
    pub fn first_names() -> Names {
        Names::from([("default".to_owned(), DEFAULT)])
    }

    /// Has it read the clock, so that its time is known when that is set back: a reader does so
    /// only at what expires.
    pub fn read_clock(&self) {
        let mut unwritten = WriteBatch::new();
        // It fits, and is let go.
        let _ = unwritten.put_for(&self.db.default_family(), b"", b"", Duration::ZERO);
    }

    /// Whether the block cache keeps to what it may hold (law B1).
    ///
    /// # Errors
    /// If not.
    pub fn check_cache(&self) -> Checked<()> {
        let stats = self.db.stats();
        let (bytes, bytes_max) = (stats.cache_bytes, stats.cache_bytes_max);
        if bytes <= bytes_max {
            return Ok(());
        }
        Err(Violation::new(format!("the cache holds {bytes} bytes, more than {bytes_max}")))
    }

    /// Flushes and compactions that have finished since it was opened.
    #[must_use]
    pub fn jobs_done(&self) -> JobsDone {
        let stats = self.db.stats();
        JobsDone {
            flushes: stats.flushes,
            compactions: stats.compactions,
            dropped_tables: stats.dropped_tables,
            space_compactions: stats.space_compactions,
        }
    }
}
