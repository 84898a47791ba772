//! The contents of a copy of a database: the state that its manifest begins with, and the files
//! that this state needs. The contents pin these files.
//!
//! It copies nothing. A copy of everything can take the log along; a copy without the log needs a
//! flush first.

use crate::{
    blobs::BlobSet,
    branch::chosen_heads,
    catalog::{
        family::{DEFAULT_FAMILY, DEFAULT_FAMILY_ID, FamilyData},
        manifest::Manifest,
    },
    database::Database,
    install::snapshot,
    jobs::flush::flush_all,
    log::pins::{Pin, SegmentSlot},
};
use siltdb_base::{
    error::Result,
    id::{FamilyId, FileNumber, SequenceNumber},
    sync::lock,
};
use siltdb_disk::{
    backup_list::references,
    edit::{Change, Edit, tier::Tier},
    log::{record::LogPosition, segment::segments_end},
};
use siltdb_tree::files::version::Version;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard},
};

/// The contents of a copy. It pins their files.
#[derive(Debug)]
pub struct CopyContents {
    /// The edit with which its manifest begins.
    pub state: Edit,
    /// The number of that manifest.
    pub manifest: FileNumber,
    /// The files of its tables.
    pub tables: BTreeSet<FileNumber>,
    /// It holds every commit up to this sequence number, and none after it.
    pub last: SequenceNumber,
    /// The log that goes with it; `None` if everything is in tables.
    pub log: Option<LogContents>,
    /// The blob files; among them those that tables or log refer to.
    pub blobs: Arc<BlobSet>,
    /// Keep the tables.
    _versions: Vec<Arc<Version>>,
}

/// The families that a copy without a log holds: of a branch, all or those with these names.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyChoice<'a> {
    /// The name of the branch; `None`: the database itself.
    pub branch: Option<&'a str>,
    /// The names; `None`: all.
    pub families: Option<&'a [String]>,
}

/// The part of the log that a copy needs.
#[derive(Debug)]
pub struct LogContents {
    /// The files, in the order of their segments.
    pub segments: Vec<SegmentSlot>,
    /// Where the last of them ends.
    pub end: LogPosition,
    /// Keeps the segments.
    _pin: Option<Pin>,
}

/// Notes what a copy of all holds now: the tables, and the log behind them. That log is not synced
/// yet, nor is all of it published.
///
/// # Errors
/// `Poisoned`.
pub fn with_log(database: &Database) -> Result<CopyContents> {
    // Between the place of an ingest in the order and its edit, the log would have the place, and
    // the manifest not the tables.
    let _changing = lock(&database.catalog.changing_io);
    let manifest = lock(&database.catalog.manifest_io);
    database.health.check_log()?;
    let sequencer = lock(&database.log.sequencer);
    let (last, end) = sequencer.last();
    let mut segments: Vec<SegmentSlot> =
        lock(&database.log.frozen).iter().flat_map(|frozen| frozen.segments.clone()).collect();
    segments
        .extend(sequencer.active().map(|active| SegmentSlot { id: active.id, slot: active.slot }));
    // A generation may be installed and not yet retired.
    segments.retain(|segment| segment.id >= manifest.state.first);
    let pin = segments.first().map(|first| database.log.wal.pin(first.id));
    drop(sequencer);
    let number = database.catalog.ids.file();
    let mut state = snapshot(database, &manifest, number);
    let slot = segments.iter().find(|segment| segment.id == end.segment);
    state.changes.extend(counters(database));
    let slot = slot.map_or(0, |segment| segment.slot);
    state.changes.push(Change::LogSynced { position: end, slot });
    let versions = versions(database);
    bring_together(&mut state);
    let log = Some(LogContents { segments, end, _pin: pin });
    let tables = tables(&state);
    let blobs = database.blobs.set();
    // What is shared with the copy must not grow.
    database.blobs.seal_current();
    Ok(CopyContents { state, manifest: number, tables, last, log, blobs, _versions: versions })
}

/// Flushes, and notes what a copy without a log holds: the tables of all families, with the
/// branches; or those of the chosen ones, as families of the copy itself. A default family that is
/// not among them is there and empty.
///
/// Writers go on meanwhile; changes of families and decisions about prepared transactions wait for
/// the flush.
///
/// # Errors
/// As [`check_choice`]; what the flush fails with.
pub fn flushed(database: &Database, choice: Option<CopyChoice<'_>>) -> Result<CopyContents> {
    // Of a commit that changes families and writes to them, all or nothing is in the tables. No
    // prepared transaction is decided meanwhile.
    let _changing = lock(&database.catalog.changing_io);
    let chosen = choice.map(|choice| chosen(database, choice)).transpose()?;
    let manifest = flush_for_copy(database)?;
    let number = database.catalog.ids.file();
    let mut state = snapshot(database, &manifest, number);
    let last = manifest.state.last_sequence;
    state.changes.retain(|change| is_kept(change, chosen.as_ref()));
    if let Some(chosen) = &chosen {
        state.changes.iter_mut().for_each(|change| give_id(change, chosen));
    }
    // The log of the copy begins behind every segment that its tables may name.
    let segment = segments_end(database.log.wal.highest_segment());
    state.changes.push(Change::LogStart { segment });
    state.changes.extend(counters(database));
    let versions = match cfg!(seeded_fault = "table_removed_under_a_backup") {
        true => Vec::new(),
        false => versions(database),
    };
    bring_together(&mut state);
    leave_unreferenced_blobs(&mut state);
    let (tables, blobs, log) = (tables(&state), database.blobs.set(), None);
    database.blobs.seal_current();
    Ok(CopyContents { state, manifest: number, tables, last, log, blobs, _versions: versions })
}

/// Flushes, so that the tables and the manifest alone hold every commit and every prepared
/// transaction up to one sequence number. To be called under `changing_io`.
///
/// The edit of a flush leaves out a transaction that was decided meanwhile, because the log has the
/// decision. A copy without the log would lose it.
fn flush_for_copy(database: &Database) -> Result<MutexGuard<'_, Manifest>> {
    if !cfg!(seeded_fault = "backup_without_a_flush") {
        flush_all(database)?;
    }
    let manifest = lock(&database.catalog.manifest_io);
    database.health.check_log()?;
    let last = manifest.state.last_sequence;
    let is_flushed = database.prepared.flush_view(last).last_decision <= last;
    assert!(
        is_flushed || cfg!(seeded_fault = "backup_without_a_flush"),
        "a decision was made during the flush of a copy"
    );
    Ok(manifest)
}

/// Checks that there are the families of `choice`.
///
/// # Errors
/// `NotFound`, if there is no such branch, or no such family there.
pub fn check_choice(database: &Database, choice: CopyChoice<'_>) -> Result<()> {
    chosen(database, choice).map(drop)
}

/// The ids of chosen families, and those that they have in the copy.
type Chosen = BTreeMap<FamilyId, FamilyId>;

fn chosen(database: &Database, choice: CopyChoice<'_>) -> Result<Chosen> {
    let heads = chosen_heads(database, choice.branch, choice.families)?;
    // The default family of a branch has an id of its own, and in each database the first one.
    let id_there = |family: &FamilyData| match &*family.name() == DEFAULT_FAMILY {
        true => DEFAULT_FAMILY_ID,
        false => family.id,
    };
    Ok(heads.iter().map(|family| (family.id, id_there(family))).collect())
}

/// Gives a change of a chosen family the id that this has in the copy.
fn give_id(change: &mut Change, chosen: &Chosen) {
    if let Change::CreateFamily { id, .. } | Change::AddTable { family: id, .. } = change {
        *id = chosen.get(id).copied().unwrap_or(*id);
    }
}

/// Whether a change holds for a copy of these families that has no log.
fn is_kept(change: &Change, chosen: Option<&Chosen>) -> bool {
    let is_chosen = |family: &FamilyId| chosen.is_none_or(|chosen| chosen.contains_key(family));
    let has_default =
        chosen.is_none_or(|chosen| chosen.values().any(|&there| there == DEFAULT_FAMILY_ID));
    match change {
        Change::LogStart { .. }
        | Change::LogCut { .. }
        | Change::LogSynced { .. }
        | Change::FamiliesLogged { .. } => false,
        // By its id, because families of branches have that name, too.
        Change::CreateFamily { id, .. } => {
            is_chosen(id) || *id == DEFAULT_FAMILY_ID && !has_default
        }
        // A chosen family is one of the copy itself.
        Change::Branch(_) => chosen.is_none(),
        Change::AddTable { family, .. } => is_chosen(family),
        _ => true,
    }
}

/// What a snapshot of the manifest does not say, as each edit does.
fn counters(database: &Database) -> [Change; 2] {
    [
        Change::NextFamily(database.catalog.ids.next_family()),
        Change::LatestTime(database.time.stored()),
    ]
}

fn versions(database: &Database) -> Vec<Arc<Version>> {
    let families = database.catalog.families.load();
    families.iter().map(|family| Arc::clone(&family.tree.view().version)).collect()
}

/// All files of a copy lie in its one directory. The families keep their options, so that a cold
/// directory that it is given later gets their tables.
fn bring_together(state: &mut Edit) {
    state.changes.retain(|change| !matches!(change, Change::ColdDirectory(_)));
    for change in &mut state.changes {
        if let Change::AddTable { table, .. } = change {
            table.tier = Tier::Hot;
        }
    }
}

/// Leaves out the blob files that no table of the copy refers to.
fn leave_unreferenced_blobs(state: &mut Edit) {
    let references = references(state).flat_map(|table| table.meta.blobs.files());
    let referenced: BTreeSet<FileNumber> = references.map(|reference| reference.file).collect();
    state.changes.retain(|change| match change {
        Change::BlobFile { file, .. } => referenced.contains(file),
        _ => true,
    });
}

fn tables(state: &Edit) -> BTreeSet<FileNumber> {
    references(state).map(|table| table.file).collect()
}
