//! Space of blob files: which of them nothing refers to, and whose values are moved.
//!
//! A value leaves its file only with the tables that point to it: a flush or compaction that drops
//! its key or its version. What is left of a file that is mostly garbage is moved by rewriting the
//! tables that refer to it, one at a time. The file goes when nothing refers to it any more.
//!
//! While there are no writes, less garbage suffices, and the file that values are appended to is
//! sealed for it: else its garbage would stay as long as no more is written.

use crate::{
    background::Background,
    background::JobOf,
    blobs::{BlobSet, Blobs, blob_file::BlobFile},
    catalog::{
        Catalog,
        branches::FamilyRole,
        family::FamilyData,
        family_map::{Families, FamilyMap},
        lazy_family::LazyFamily,
    },
    database::installer::Installer,
    database::job_rooms::JobRooms,
    install::install_with,
    log::Log,
};
use siltdb_base::{
    error::Result,
    id::{FileNumber, SegmentId},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    blob::BLOB_FILE_HEADER_BYTES,
    edit::{Change, tier::Tier},
};
use siltdb_tree::{
    options::TreeOptions, planning::pick_leveled::WriteLoad, planning::plan::Plan,
    strategy::CompactionStrategy,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Blob files count as small below this part of the smallest size at which any family begins the
/// next one. By the size of one family alone, the full files of another would be small, and the
/// files that their values move to as well: moves would never end.
const SMALL_PART: u64 = 8;

/// So many small blob files are left alone. Each opening that separates a value begins a file, so
/// that there would be one for each.
const SMALL_FILES_MAX: usize = 8;

/// While there are no writes, values are moved if this part of all blob files is garbage, in
/// percent, and only from files that are. A byte that is freed then costs at most nine that are
/// written. With as much garbage in tables, files take less than 1.3 times what is alive.
const RESTING_PERCENT: u32 = 10;

/// From this part on a full compaction seals the file in use, in percent.
const COMPACTED_PERCENT: u64 = 1;

/// Removes the blob files that nothing refers to. Returns whether there were any.
///
/// # Errors
/// Those of installing the edit; the files stay.
pub fn remove_unreferenced(rooms: &JobRooms<'_>) -> Result<bool> {
    let kept = rooms.log.wal.pins().segment_after(SegmentId(0));
    let kept = kept.map(|found| found.segment.slot.id);
    let set = rooms.blobs.set();
    let candidates: Vec<_> = set.iter().filter(|file| is_settled(file, kept)).collect();
    if candidates.is_empty() {
        return Ok(false);
    }
    // No edit changes the references from here on.
    let manifest = lock(&rooms.catalog.manifest_io);
    if rooms.blobs.is_moving() {
        return Ok(false);
    }
    let referenced = rooms.catalog.families.usage().blob_bytes();
    // Another worker may have removed a candidate while this one waited for the manifest.
    let named = &manifest.state.blob_files;
    let is_gone = |file: &BlobFile| match referenced.get(&file.number()) {
        None => named.contains_key(&file.number()),
        Some(bytes) => {
            seeded_fault!("blob_collected_under_a_snapshot")
                && garbage_percent(file, *bytes) > 0
                && rooms.snapshots.count() > 0
        }
    };
    let gone: Vec<FileNumber> =
        candidates.iter().filter(|file| is_gone(file)).map(|file| file.number()).collect();
    if gone.is_empty() {
        return Ok(false);
    }
    // Looked up in the tables themselves: a wrong count would lose values.
    let in_tables = rooms.catalog.families.load().blob_bytes();
    let needed = gone.iter().find(|file| in_tables.contains_key(file));
    assert!(needed.is_none(), "a blob file would be removed that tables refer to: {needed:?}");
    let changes = gone.iter().map(|file| Change::BlobFileRemoved { file: *file }).collect();
    install_with(&rooms.installer(), manifest, changes, None, &[])?;
    gone.iter().for_each(|file| rooms.blobs.forget(*file));
    drop(set);
    rooms.blobs.purge();
    Ok(true)
}

/// Whether no value gets a place in the file any more, and no record of the log segments from
/// `first` on refers to it.
fn is_settled(file: &BlobFile, first: Option<SegmentId>) -> bool {
    file.is_sealed() && is_before(file, first)
}

/// Whether no record of the log segments from `first` on refers to the file yet.
fn is_before(file: &BlobFile, first: Option<SegmentId>) -> bool {
    !file.is_written() && first.is_none_or(|first| file.last_segment() < first)
}

/// The part of a file that is garbage, in percent.
fn garbage_percent(file: &BlobFile, referenced_bytes: u64) -> u64 {
    let bytes = value_bytes(file).max(1);
    bytes.saturating_sub(referenced_bytes) * 100 / bytes
}

/// What the places in a file take that were given, in bytes.
fn value_bytes(file: &BlobFile) -> u64 {
    file.bytes().saturating_sub(BLOB_FILE_HEADER_BYTES)
}

/// The blob files, and what is known of them at one moment.
struct Known {
    set: Arc<BlobSet>,
    referenced: BTreeMap<FileNumber, u64>,
    /// The first log segment of what is in memory, which may refer to values that tables do not.
    unflushed: Option<SegmentId>,
}

impl Known {
    /// Cost: a look at each blob file; no IO.
    fn new(blobs: &Blobs, log: &Log, families: &Families) -> Self {
        let set = blobs.set();
        let unflushed = {
            let sequencer = lock(&log.sequencer);
            let frozen = lock(&log.frozen);
            let frozen = frozen.front().and_then(|frozen| frozen.segments.first());
            frozen.map(|segment| segment.id).or_else(|| sequencer.active_segment())
        };
        // After the segment was looked at: what was flushed meanwhile is among the references.
        Self { set, referenced: families.usage().blob_bytes(), unflushed }
    }

    fn unreferenced_bytes(&self, file: &BlobFile) -> u64 {
        let referenced = self.referenced.get(&file.number()).copied().unwrap_or(0);
        value_bytes(file).saturating_sub(referenced)
    }

    /// Whether what nothing refers to in those of the files that `counts` names is much of all.
    fn is_much(&self, counts: impl Fn(&BlobFile) -> bool, families: &Families) -> bool {
        let all: u64 = self.set.iter().map(|file| value_bytes(file)).sum();
        let counted = self.set.iter().filter(|file| counts(file));
        let bytes: u64 = counted.map(|file| self.unreferenced_bytes(file)).sum();
        bytes.saturating_mul(100) >= all.saturating_mul(RESTING_PERCENT.into())
            && families.is_worth_syncs(bytes)
    }

    /// The most that any family leaves in a file, in percent, while writers are as `load` says.
    fn percent_max(&self, load: WriteLoad, families: &Families) -> u32 {
        let counts = |file: &BlobFile| !file.is_missing() && is_before(file, self.unflushed);
        let is_resting = load == WriteLoad::Idle && self.is_much(counts, families);
        if is_resting { RESTING_PERCENT } else { u32::MAX }
    }

    /// Seals the file in use if its garbage, in bytes and in percent, `is_due`. Returns whether it
    /// did. A value that gets a place in it meanwhile is one that is alive.
    fn seal(&self, blobs: &Blobs, is_due: impl Fn(u64, u64) -> bool) -> bool {
        let is_open = |file: &&Arc<BlobFile>| !file.is_sealed() && is_before(file, self.unflushed);
        let Some(file) = self.set.iter().find(is_open) else { return false };
        let bytes = self.unreferenced_bytes(file);
        let is_sealed = is_due(bytes, bytes * 100 / value_bytes(file).max(1))
            && !seeded_fault!("open_blob_file_never_sealed");
        if is_sealed {
            blobs.seal(file);
        }
        is_sealed
    }
}

/// The part of a file from which on a family moves its values, in percent. A table of a FIFO family
/// is not written again for less than its options say, and one above 100 is never.
fn percent(options: &TreeOptions, percent_max: u32) -> u32 {
    let own = options.blob_garbage_percent_trigger;
    let is_fifo = matches!(options.compaction, CompactionStrategy::Fifo { .. });
    if is_fifo || own > 100 { own } else { own.min(percent_max) }
}

/// Whether what is in memory should be flushed while there are no writes, because it alone may
/// refer to much of the blob files. Until then nothing tells which of these values are garbage.
///
/// Cost: a look at each blob file, and if much may be garbage, at each family; no IO.
#[must_use]
pub fn is_worth_flush(installer: &Installer<'_>) -> bool {
    if !installer.blobs.is_used() {
        return false;
    }
    let families = &installer.catalog.families;
    let known = Known::new(installer.blobs, installer.log, families);
    known.is_much(|file| !is_before(file, known.unflushed), families)
}

/// Seals the blob file in use if it is garbage for a part at which a family moves values, while
/// writers are as `load` says. Returns whether it did.
pub fn seal_wasteful(installer: &Installer<'_>, load: WriteLoad) -> bool {
    let families = &installer.catalog.families;
    let known = Known::new(installer.blobs, installer.log, families);
    let most = known.percent_max(load, families);
    let lowest = || {
        let families = families.load();
        let percents = families.iter().map(|family| percent(&family.options(), most));
        percents.min().unwrap_or(u32::MAX)
    };
    known.seal(installer.blobs, |bytes, part| {
        part > 0 && families.is_worth_syncs(bytes) && part >= u64::from(lowest())
    })
}

/// Seals the blob file in use after a full compaction, if there is garbage in it.
pub fn seal_compacted(installer: &Installer<'_>) {
    if installer.blobs.is_used() {
        let known = Known::new(installer.blobs, installer.log, &installer.catalog.families);
        known.seal(installer.blobs, |_, part| part >= COMPACTED_PERCENT);
    }
}

impl Known {
    /// Whether any family may have values to move.
    fn has_movable(&self) -> bool {
        let referenced = |file: &BlobFile| self.referenced.get(&file.number()).copied();
        let mut garbage =
            self.set.iter().filter_map(|file| Some(garbage_percent(file, referenced(file)?)));
        self.set.iter().count() > SMALL_FILES_MAX || garbage.any(|percent| percent > 0)
    }
}

/// The files whose values a family moves: those that are garbage for the part at which it does, and
/// small ones if they are many.
fn moved_files(known: &Known, file_bytes: u64, percent: u32) -> BTreeSet<FileNumber> {
    // The values of a missing file cannot be moved.
    let settled = known.set.iter();
    let settled = settled.filter(|file| is_settled(file, known.unflushed) && !file.is_missing());
    let settled: Vec<_> =
        settled.filter_map(|file| Some((file, *known.referenced.get(&file.number())?))).collect();
    let is_small = |file: &BlobFile| file.bytes() < file_bytes / SMALL_PART;
    let small = settled.iter().filter(|(file, _)| is_small(file)).count();
    let is_moved = |(file, bytes): &&(&Arc<BlobFile>, u64)| {
        garbage_percent(file, *bytes) >= u64::from(percent)
            || small > SMALL_FILES_MAX && is_small(file)
    };
    settled.iter().filter(is_moved).map(|(file, _)| file.number()).collect()
}

/// The rewrite of one table of a frozen family that brings its separated values in, so that they
/// become cold with it; noted as running. `None` if there is none, or no cold tier.
fn begin_bringing_in(
    catalog: &Catalog,
    background: &Background,
    set: &BlobSet,
    families: &FamilyMap,
) -> Option<(Arc<FamilyData>, Plan)> {
    if catalog.files.store(Tier::Cold).is_none() || seeded_fault!("frozen_values_stay_hot") {
        return None;
    }
    let readable = set.iter().filter(|file| !file.is_missing());
    let files: Arc<BTreeSet<FileNumber>> = Arc::new(readable.map(|file| file.number()).collect());
    families.iter().find_map(|family| {
        let is_frozen = family.options().is_frozen();
        // After damage it is not tried again until a request of the family succeeds.
        let has_failed = || lock(&background.jobs).failures.contains_key(&JobOf::Family(family.id));
        if !is_frozen || family.role == FamilyRole::Base || has_failed() {
            return None;
        }
        begin_moving_of(family, &files)
    })
}

/// The rewrite of one table that moves values, noted as running. `None` if none is due while
/// writers are as `load` says.
///
/// Cost: a look at each blob file. If there is garbage, also at each family, and if values move, at
/// each table with separated values. No IO.
#[must_use]
pub fn begin_moving(installer: &Installer<'_>, load: WriteLoad) -> Option<(Arc<FamilyData>, Plan)> {
    if installer.blobs.set().is_empty() {
        return None;
    }
    let families = installer.catalog.families.load();
    if let Some(found) = begin_bringing_in(
        installer.catalog,
        installer.background,
        &installer.blobs.set(),
        &families,
    ) {
        return Some(found);
    }
    let known = Known::new(installer.blobs, installer.log, &installer.catalog.families);
    if !known.has_movable() {
        return None;
    }
    let most = known.percent_max(load, &installer.catalog.families);
    let smallest = families.iter().map(|family| family.options().blob_file_bytes).min()?;
    // Most families have the same options.
    let mut moved: BTreeMap<u32, Arc<BTreeSet<FileNumber>>> = BTreeMap::new();
    families.iter().filter(|family| family.role != FamilyRole::Base).find_map(|family| {
        let percent = percent(&family.options(), most);
        let files = moved
            .entry(percent)
            .or_insert_with(|| Arc::new(moved_files(&known, smallest, percent)));
        if files.is_empty() || percent > 100 {
            return None;
        }
        begin_moving_of(family, files)
    })
}

/// The rewrite of one table of a family that moves values of these blob files, noted as running. A
/// family without separated values is not made for it.
fn begin_moving_of(
    family: &LazyFamily,
    files: &Arc<BTreeSet<FileNumber>>,
) -> Option<(Arc<FamilyData>, Plan)> {
    if family.version().totals().with_blobs == 0 {
        return None;
    }
    let plan = family.get().tree.begin_moving(files)?;
    Some((Arc::clone(family.get()), plan))
}

#[cfg(test)]
mod tests;
