//! Removes the files that an opening has found and that nothing refers to.
//!
//! What neither the manifest nor the log knows may be a part of the database that a lost edit
//! named. It is kept.

use crate::{
    catalog::Catalog,
    database::Database,
    log::Log,
    log::pins::SegmentSlot,
    open::{
        directory::own_file,
        inventory::FileInventory,
        keep::{is_beyond, move_cold_table, move_file},
    },
};
use siltdb_base::{error::Result, fs::Fs, id::FileNumber, sync::lock};
use siltdb_disk::{edit::tier::Tier, file_name::FileName};
use std::path::Path;

/// Removes files without references: those of unfinished jobs and creations, and retired ones.
/// Tables that neither manifest nor log knows are kept in the directory `lost`.
///
/// # Errors
/// The system's.
pub fn remove_orphans(database: &mut Database, found: &FileInventory) -> Result<()> {
    let (manifest, blob_files) = {
        let manifest = lock(&database.catalog.manifest_io);
        (manifest.number(), manifest.state.blob_files.clone())
    };
    assert!(manifest.is_some(), "an opening would remove every manifest");
    let live: Vec<SegmentSlot> = {
        let frozen = lock(&database.log.frozen);
        frozen.iter().flat_map(|frozen| frozen.segments.clone()).collect()
    };
    let unknown = unknown_tables(&database.catalog, &database.log, found);
    let files = &database.catalog.files;
    let is_named = |tier, number| files.is_in_use(number) && files.tier_of(number) == tier;
    let directory = &**files.directory();
    for entry in directory.list(Path::new(""))? {
        let Some(name) = own_file(&entry) else { continue };
        let is_orphan = match name {
            FileName::Table(number) => !is_named(Tier::Hot, number),
            FileName::Manifest(number) => Some(number) != manifest,
            FileName::Segment(slot) => {
                let is_retained = || database.log.wal.pins().has_slot(slot);
                !live.iter().any(|segment| segment.slot == slot) && !is_retained()
            }
            FileName::Temporary(_) => true,
            FileName::Blob(number) => !blob_files.contains_key(&number),
            FileName::Current | FileName::Lock | FileName::Lost => false,
        };
        let is_kept = match name {
            FileName::Table(number) => unknown.hot.contains(&number),
            // A table that is kept may point to it.
            FileName::Blob(_) => !unknown.is_empty(),
            _ => false,
        };
        match (is_orphan, is_kept) {
            (false, _) => {}
            (true, true) => move_file(directory, name)?,
            (true, false) => directory.remove(Path::new(&entry.name))?,
        }
    }
    if let Some(cold) = files.store(Tier::Cold) {
        let is_orphan = |number: &FileNumber| !is_named(Tier::Cold, *number);
        for number in cold.list()?.into_iter().filter(is_orphan) {
            match unknown.cold.contains(&number) {
                true => move_cold_table(directory, &cold, number)?,
                false => cold.delete(number)?,
            }
        }
    }
    database.kept.tables += (unknown.hot.len() + unknown.cold.len()) as u64;
    Ok(())
}

/// Tables that are not named and that neither manifest nor log knows.
struct UnknownTables {
    hot: Vec<FileNumber>,
    cold: Vec<FileNumber>,
}

impl UnknownTables {
    fn is_empty(&self) -> bool {
        self.hot.is_empty() && self.cold.is_empty()
    }
}

fn unknown_tables(catalog: &Catalog, log: &Log, found: &FileInventory) -> UnknownTables {
    let last = catalog.families.load().sequence_max();
    let last = last.max(log.publisher.published());
    let files = &catalog.files;
    let among = |fs: &dyn Fs, tables: &[FileNumber]| -> Vec<FileNumber> {
        let unnamed = tables.iter().copied().filter(|table| !files.is_in_use(*table));
        unnamed.filter(|table| is_beyond(fs, *table, last)).collect()
    };
    let cold = files.store(Tier::Cold);
    UnknownTables {
        hot: among(&**files.directory(), &found.tables),
        cold: cold.map(|cold| among(cold.directory(), found.own_cold())).unwrap_or_default(),
    }
}
