//! Space of blob files: which of them nothing refers to, and whose values are moved.
//!
//! A value leaves its file only with the tables that point to it: a flush or compaction that drops
//! its key or its version. What is left of a file that is mostly garbage is moved by rewriting the
//! tables that refer to it, one at a time. The file goes when nothing refers to it any more.

use crate::{
    blobs::{BlobSet, blob_file::BlobFile},
    catalog::{
        branches::FamilyRole,
        family::{FamilyData, FamilyMap},
    },
    database::Database,
    install::install_with,
};
use siltdb_base::{
    error::Result,
    id::{FileNumber, SegmentId},
    sync::lock,
};
use siltdb_disk::{blob::BLOB_FILE_HEADER_BYTES, edit::Change};
use siltdb_tree::planning::plan::Plan;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

/// Blob files count as small below this part of the smallest size at which any family begins the
/// next one. By the size of one family alone, the full files of another would be small, and the
/// files that their values move to as well: moves would never end.
const SMALL_PART: u64 = 8;

/// So many small blob files are left alone. Each opening that separates a value begins a file, so
/// that there would be one for each.
const SMALL_FILES_MAX: usize = 8;

/// What the tables refer to in each blob file, in bytes. A table that several families share counts
/// once.
#[must_use]
pub fn referenced_bytes(families: &FamilyMap) -> BTreeMap<FileNumber, u64> {
    let (mut bytes, mut seen) = (BTreeMap::new(), HashSet::new());
    for family in families.iter() {
        let view = family.tree.view();
        for (_, table) in view.version.tables() {
            if !table.meta().blobs.is_empty() && seen.insert(table.id()) {
                for reference in table.meta().blobs.files() {
                    *bytes.entry(reference.file).or_insert(0) += reference.bytes;
                }
            }
        }
    }
    bytes
}

/// Removes the blob files that nothing refers to. Returns whether there were any.
///
/// # Errors
/// Those of installing the edit; the files stay.
pub fn remove_unreferenced(database: &Database) -> Result<bool> {
    let kept = database.log.wal.pins().segment_after(SegmentId(0));
    let kept = kept.map(|found| found.segment.slot.id);
    let set = database.blobs.set();
    let candidates: Vec<_> = set.iter().filter(|file| is_settled(file, kept)).collect();
    if candidates.is_empty() {
        return Ok(false);
    }
    // No edit changes the references from here on.
    let manifest = lock(&database.catalog.manifest_io);
    if database.blobs.is_moving() {
        return Ok(false);
    }
    let referenced = referenced_bytes(&database.catalog.families.load());
    let is_gone = |file: &BlobFile| match referenced.get(&file.number()) {
        None => true,
        Some(bytes) => {
            cfg!(seeded_fault = "blob_collected_under_a_snapshot")
                && garbage_percent(file, *bytes) > 0
                && database.snapshots.count() > 0
        }
    };
    let gone: Vec<FileNumber> =
        candidates.iter().filter(|file| is_gone(file)).map(|file| file.number()).collect();
    if gone.is_empty() {
        return Ok(false);
    }
    let changes = gone.iter().map(|file| Change::BlobFileRemoved { file: *file }).collect();
    install_with(database, manifest, (changes, None), &[])?;
    gone.iter().for_each(|file| database.blobs.forget(*file));
    drop(set);
    database.blobs.purge();
    Ok(true)
}

/// Whether no value gets a place in the file any more, and no record of the log segments from
/// `first` on refers to it.
fn is_settled(file: &BlobFile, first: Option<SegmentId>) -> bool {
    file.is_sealed() && !file.is_written() && first.is_none_or(|first| file.last_segment() < first)
}

/// The part of a file that is garbage, in percent.
fn garbage_percent(file: &BlobFile, referenced_bytes: u64) -> u64 {
    let bytes = file.bytes().saturating_sub(BLOB_FILE_HEADER_BYTES).max(1);
    bytes.saturating_sub(referenced_bytes) * 100 / bytes
}

/// The files whose values a family moves: those that are garbage for the part at which it does, and
/// small ones if they are many.
fn moved_files(
    set: &BlobSet,
    referenced: &BTreeMap<FileNumber, u64>,
    first: Option<SegmentId>,
    (file_bytes, percent): (u64, u32),
) -> BTreeSet<FileNumber> {
    let settled = set.iter().filter(|file| is_settled(file, first));
    let settled: Vec<_> =
        settled.filter_map(|file| Some((file, *referenced.get(&file.number())?))).collect();
    let is_small = |file: &BlobFile| file.bytes() < file_bytes / SMALL_PART;
    let small = settled.iter().filter(|(file, _)| is_small(file)).count();
    let is_moved = |(file, bytes): &&(&Arc<BlobFile>, u64)| {
        garbage_percent(file, *bytes) >= u64::from(percent)
            || small > SMALL_FILES_MAX && is_small(file)
    };
    settled.iter().filter(is_moved).map(|(file, _)| file.number()).collect()
}

/// The rewrite of one table that moves values, noted as running. `None` if none is due.
///
/// Cost: a look at each table; no IO.
#[must_use]
pub fn begin_moving(database: &Database) -> Option<(Arc<FamilyData>, Plan)> {
    let set = database.blobs.set();
    if set.is_empty() {
        return None;
    }
    // What is in memory may refer to values that the tables do not.
    let unflushed = {
        let sequencer = lock(&database.log.sequencer);
        let frozen = lock(&database.log.frozen);
        let frozen = frozen.front().and_then(|frozen| frozen.segments.first());
        frozen.map(|segment| segment.id).or_else(|| sequencer.active_segment())
    };
    let families = database.catalog.families.load();
    let referenced = referenced_bytes(&families);
    let smallest = families.iter().map(|family| family.tree.options().blob_file_bytes).min()?;
    families.iter().filter(|family| family.role != FamilyRole::Base).find_map(|family| {
        let limits = (smallest, family.tree.options().blob_garbage_percent_trigger);
        let files = moved_files(&set, &referenced, unflushed, limits);
        if files.is_empty() || limits.1 > 100 {
            return None;
        }
        let plan = family.tree.begin_moving(&Arc::new(files))?;
        Some((Arc::clone(family), plan))
    })
}
