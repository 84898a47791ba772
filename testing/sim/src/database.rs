//! A database under simulation, with handles on its families.
//!
//! It opens the database and judges nothing.

use crate::{
    directory::LOST,
    expected::Names,
    guests::{GUESTS, is_guest},
    model::{DEFAULT, FamilyIndex},
    settings::{COLD, DIRECTORY, Layout, OUTSIDE, OUTSIDE_NAME, Settings},
    violation::{Checked, Violation, must},
    watch::JobsDone,
};
use siltdb::{Db, Family, WriteBatch};
use siltdb_base::{clock::ManualClock, fs::mem::MemFs};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A symbolic link to the directory.
const LINK: &str = "/current";

/// The target of link and working directory while the database is open.
const ELSEWHERE: &str = "/data";

/// What was touched outside of locked directories, besides table files that the engine was told to
/// write or to ingest, and the directory in a database that keeps what openings take out.
pub(crate) fn strays(fs: &MemFs) -> Vec<PathBuf> {
    // A file in a directory that is held goes by its name.
    let is_known = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        path.starts_with(OUTSIDE)
            || path.starts_with(LOST)
            || name.is_some_and(|name| name.starts_with(OUTSIDE_NAME))
    };
    fs.strays().into_iter().filter(|path| !is_known(path)).collect()
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    /// The file system of the database.
    pub fs: MemFs,
    /// The open database.
    pub db: Db,
    /// Handles on its families.
    pub families: BTreeMap<FamilyIndex, Family>,
    /// Their names.
    pub names: Names,
    /// Handles on the guests.
    pub guests: BTreeMap<FamilyIndex, Family>,
}

/// All families but the guests, by name. That of a branch has the branch's name before it: `b1/f2`.
///
/// # Errors
/// Errors of the engine.
pub fn families_by_name(db: &Db) -> siltdb::Result<BTreeMap<String, Family>> {
    let mut families = BTreeMap::new();
    for name in db.families().into_iter().filter(|name| !is_guest(name)) {
        families.insert(name.clone(), db.family(&name)?);
    }
    for info in db.branches() {
        let branch = db.branch(&info.name)?;
        for name in &info.families {
            families.insert(format!("{}/{name}", info.name), branch.family(name)?);
        }
    }
    Ok(families)
}

/// The guests that are there.
///
/// # Errors
/// Errors of the engine.
pub fn guests_of(db: &Db) -> siltdb::Result<BTreeMap<FamilyIndex, Family>> {
    let mut guests = BTreeMap::new();
    for (name, index) in GUESTS {
        if db.families().iter().any(|found| found == name) {
            guests.insert(index, db.family(name)?);
        }
    }
    Ok(guests)
}

/// All families, guests included, as [`families_by_name`].
///
/// # Errors
/// Errors of the engine.
pub fn all_by_name(db: &Db) -> siltdb::Result<BTreeMap<String, Family>> {
    let mut families = families_by_name(db)?;
    families.extend(guests_of(db)?.into_values().map(|guest| (guest.name(), guest)));
    Ok(families)
}

impl Database {
    /// Opens or creates the database by one of its names. Then changes the working directory and
    /// the link in these names, which the engine must not use again.
    ///
    /// # Errors
    /// Errors of the engine, not judged.
    pub fn open(
        settings: &Settings,
        fs: &MemFs,
        clock: &Arc<ManualClock>,
        seed: u64,
    ) -> siltdb::Result<Db> {
        let lead = |working: &str, link: &str| -> siltdb::Result<()> {
            fs.set_working_directory(Path::new(working))?;
            fs.symlink(Path::new(link), Path::new(LINK))
        };
        lead("/", DIRECTORY)?;
        let names = [DIRECTORY, DIRECTORY.trim_start_matches('/'), LINK];
        // A dangling link is no place for a new database.
        let count = if fs.read_all(&Path::new(DIRECTORY).join("CURRENT")).is_ok() { 3 } else { 2 };
        let mut options = settings.options(fs, clock, seed);
        if settings.layout == Layout::TwoTiers {
            options = options.cold_directory(COLD);
        }
        let db = options.open(names[(seed % count) as usize]);
        // A failed open may leave no directory.
        let _ = lead(ELSEWHERE, ELSEWHERE);
        db
    }

    /// Whether the engine touched files in locked directories only (law F12), besides table files
    /// that it was told to write or to ingest.
    ///
    /// # Errors
    /// If it touched files elsewhere.
    pub fn check_ground(&self) -> Checked<()> {
        match strays(&self.fs).first() {
            None => Ok(()),
            Some(path) => Err(Violation::new(format!("{path:?} lies elsewhere, and was touched"))),
        }
    }

    /// Finds the families. Their names must be one of `possible`.
    ///
    /// # Errors
    /// If their names are not one of `possible`.
    pub fn new(fs: MemFs, db: Db, possible: &[Names]) -> Checked<Self> {
        let mut handles = must(families_by_name(&db), "opening the families")?;
        let found: Vec<_> = handles.keys().cloned().collect();
        let Some(names) = possible.iter().find(|names| names.keys().eq(found.iter())) else {
            let expected: Vec<Vec<_>> =
                possible.iter().map(|names| names.keys().collect()).collect();
            let message = format!("families {found:?}, expected one of {expected:?}");
            return Err(Violation::new(message));
        };
        let mut families = BTreeMap::new();
        for (name, index) in names {
            families.extend(handles.remove(name).map(|family| (*index, family)));
        }
        let guests = must(guests_of(&db), "opening the guests")?;
        let names = names.clone();
        Ok(Self { fs, db, families, names, guests })
    }

    /// A family or a guest, if it is there.
    #[must_use]
    pub fn find(&self, index: FamilyIndex) -> Option<&Family> {
        self.families.get(&index).or_else(|| self.guests.get(&index))
    }

    /// A family or a guest.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn family(&self, index: FamilyIndex) -> &Family {
        self.find(index).expect("a step takes a family that is there")
    }

    /// The family names of a new database.
    #[must_use]
    pub fn first_names() -> Names {
        Names::from([("default".to_owned(), DEFAULT)])
    }

    /// Makes the database read the clock, so that its time is known when the clock is set back.
    /// Readers read the clock only at entries with an expiry.
    pub fn read_clock(&self) {
        let mut unwritten = WriteBatch::new();
        // The put fits into the batch, and the batch is dropped unwritten.
        let _ = unwritten.put_for(&self.db.default_family(), b"", b"", Duration::ZERO);
    }

    /// Whether the block cache stays within the memory budget (law B1). When other parts of the
    /// budget grow, it gives way at its next insertion or at the end of a job, so that it may hold
    /// more than its limit for a while.
    ///
    /// # Errors
    /// If not.
    pub fn check_cache(&self) -> Checked<()> {
        let stats = self.db.stats();
        let (bytes, bytes_max) =
            (stats.cache_bytes, stats.memory.budget.max(stats.cache_bytes_max));
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
            steps: stats.compaction_steps,
            dropped_tables: stats.dropped_tables,
            space_compactions: stats.space_compactions,
            filter_changes: stats.filter_changes,
            moved_tables: stats.moved_tables,
        }
    }
}
