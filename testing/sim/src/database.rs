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
use siltdb::{Db, Family};
use siltdb_base::{clock::ManualClock, fs::mem::MemFs};
use std::{collections::BTreeMap, sync::Arc};

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

    /// Flushes and compactions that have finished since it was opened.
    #[must_use]
    pub fn jobs_done(&self) -> JobsDone {
        let stats = self.db.stats();
        JobsDone { flushes: stats.flushes, compactions: stats.compactions }
    }
}
