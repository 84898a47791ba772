//! The contents of a copy of a database: the state that its manifest begins with, and the files
//! that this state needs. The contents pin these files.
//!
//! It copies nothing. A copy of everything can take the log along; a copy without the log needs a
//! flush first.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber, SegmentId, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    backup_list::{blob_files, references},
    edit::{Change, Edit, synced::SyncedLog, tier::Tier},
    log::{record::LogPosition, segment::segments_end},
};
use siltdb_engine::{
    blobs::{BlobSet, blob_file::BlobFile},
    catalog::{
        Catalog,
        family::{DEFAULT_FAMILY, DEFAULT_FAMILY_ID, FamilyData},
        manifest::Manifest,
    },
    copies::branch::chosen_heads,
    database::installer::Installer,
    database::job_rooms::JobRooms,
    install::snapshot,
    jobs::flush::flush_all,
    log::pins::{Pin, SegmentSlot},
};
use siltdb_tree::{
    files::{open_files::OpenFiles, version::Version},
    rewrite::job::JobOutput,
};
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
    /// It holds every commit up to this sequence number, and none after it.
    pub last: SequenceNumber,
    /// The log that goes with it; `None` if everything is in tables.
    pub log: Option<LogContents>,
    /// The blob files; among them those that tables or log refer to.
    pub blobs: Arc<BlobSet>,
    /// Whether values may still be written to them.
    pub growth: BlobGrowth,
    /// Tables that were written for the copy alone.
    pub added: Option<AddedTables>,
    /// Keep the tables.
    _versions: Vec<Arc<Version>>,
}

/// Whether another process may still write to the blob files of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobGrowth {
    /// No value gets a place in them any more.
    Ended,
    /// The newest may get values, and commits that are under way may write to the others. What the
    /// copy refers to is whole.
    Possible,
}

/// Tables that were written for a copy alone: the database does not have them. They belong to it
/// for as long as this lives.
#[derive(Debug)]
pub struct AddedTables {
    /// Their files.
    pub files: Arc<OpenFiles>,
    /// The changes that add them, oldest first, and what keeps them.
    pub outputs: Vec<JobOutput>,
}

impl AddedTables {
    /// The changes that add them, oldest first.
    fn changes(&self) -> impl Iterator<Item = Change> {
        self.outputs.iter().flat_map(|output| output.changes.iter().cloned())
    }

    /// Whether the file is one of theirs.
    #[must_use]
    pub fn has(&self, number: FileNumber) -> bool {
        self.files.is_in_use(number)
    }
}

impl CopyContents {
    /// The files that a table of the contents lies in: those that were added, or `database`.
    #[must_use]
    pub fn files_of<'a>(&'a self, number: FileNumber, database: &'a OpenFiles) -> &'a OpenFiles {
        let added = self.added.as_ref().filter(|added| added.has(number));
        added.map_or(database, |added| &added.files)
    }

    /// What the copy takes of a blob file of the contents, in bytes.
    ///
    /// # Errors
    /// Corruption, if it is missing, or `Busy`, if another process may have removed it; the
    /// system's.
    pub fn blob_bytes(&self, file: &BlobFile) -> Result<u64> {
        file.written_bytes().map_err(|error| match (error.kind(), self.growth) {
            (ErrorKind::Corruption, BlobGrowth::Possible) => {
                Error::new(ErrorKind::Busy, "a blob file is missing").with_source(error)
            }
            _ => error,
        })
    }
}

/// A state of the database that a copy without a log begins with.
#[derive(Debug)]
pub struct CopyState {
    /// The edit that leads to it from nothing.
    pub edit: Edit,
    /// The number of the manifest that begins with it.
    pub manifest: FileNumber,
    /// Its last commit.
    pub last: SequenceNumber,
    /// No segment of the log that a table may name is a later one.
    pub log_end: SegmentId,
    /// Whether its blob files are whole.
    pub growth: BlobGrowth,
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
pub fn with_log(installer: &Installer<'_>) -> Result<CopyContents> {
    // Between the place of an ingest in the order and its edit, the log would have the place, and
    // the manifest not the tables.
    let _changing = lock(&installer.catalog.changing_io);
    let manifest = lock(&installer.catalog.manifest_io);
    installer.health.check_log()?;
    let sequencer = lock(&installer.log.sequencer);
    let (last, end) = sequencer.last();
    let mut segments: Vec<SegmentSlot> =
        lock(&installer.log.frozen).iter().flat_map(|frozen| frozen.segments.clone()).collect();
    segments
        .extend(sequencer.active().map(|active| SegmentSlot { id: active.id, slot: active.slot }));
    // A generation may be installed and not yet retired.
    segments.retain(|segment| segment.id >= manifest.state.first);
    let is_sorted = segments.is_sorted_by(|a, b| a.id < b.id);
    assert!(is_sorted, "a copy takes segments out of order: {segments:?}");
    let pin = segments.first().map(|first| installer.log.wal.pin(first.id));
    drop(sequencer);
    let number = installer.catalog.ids.file();
    let mut state = snapshot(installer.catalog, &manifest, number);
    let slot = segments.iter().find(|segment| segment.id == end.segment);
    state.changes.extend(counters(installer));
    let slot = slot.map_or(0, |segment| segment.slot);
    // The copies of the files are as long as the log.
    state.changes.push(Change::LogSynced(SyncedLog { position: end, slot, file_bytes: 0 }));
    let versions = versions(installer.catalog);
    bring_together(&mut state);
    let log = Some(LogContents { segments, end, _pin: pin });
    let blobs = installer.blobs.set();
    // What is shared with the copy must not grow.
    installer.blobs.seal_current();
    Ok(CopyContents {
        state,
        manifest: number,
        last,
        log,
        blobs,
        growth: BlobGrowth::Ended,
        added: None,
        _versions: versions,
    })
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
pub fn flushed(rooms: &JobRooms<'_>, choice: Option<CopyChoice<'_>>) -> Result<CopyContents> {
    // Of a commit that changes families and writes to them, all or nothing is in the tables. No
    // prepared transaction is decided meanwhile.
    let _changing = lock(&rooms.catalog.changing_io);
    let chosen = choice.map(|choice| chosen(rooms.catalog, choice)).transpose()?;
    let manifest = flush_for_copy(rooms)?;
    let number = rooms.catalog.ids.file();
    let state = CopyState {
        edit: snapshot(rooms.catalog, &manifest, number),
        manifest: number,
        last: manifest.state.last_sequence,
        log_end: rooms.log.wal.highest_segment(),
        growth: BlobGrowth::Ended,
    };
    Ok(without_log(&rooms.installer(), state, chosen.as_ref(), None))
}

/// The contents of a copy without a log, which holds `state`, or of it the chosen families, and the
/// tables that were added for it. To be called under the lock of what changes the state.
#[must_use]
pub fn without_log(
    installer: &Installer<'_>,
    state: CopyState,
    chosen: Option<&ChosenFamilies>,
    added: Option<AddedTables>,
) -> CopyContents {
    let CopyState { edit: mut state, manifest, last, log_end, growth } = state;
    state.changes.extend(added.iter().flat_map(AddedTables::changes));
    state.changes.retain(|change| is_kept(change, chosen));
    if let Some(chosen) = chosen {
        state.changes.iter_mut().for_each(|change| give_id(change, chosen));
    }
    // The log of the copy begins behind every segment that its tables may name.
    state.changes.push(Change::LogStart { segment: segments_end(log_end) });
    state.changes.extend(counters(installer));
    let versions = match seeded_fault!("table_removed_under_a_backup") {
        true => Vec::new(),
        false => versions(installer.catalog),
    };
    bring_together(&mut state);
    leave_unreferenced_blobs(&mut state);
    assert_families(&state);
    let blobs = installer.blobs.set();
    installer.blobs.seal_current();
    CopyContents { state, manifest, last, log: None, blobs, growth, added, _versions: versions }
}

/// Flushes, so that the tables and the manifest alone hold every commit and every prepared
/// transaction up to one sequence number. To be called under `changing_io`.
///
/// The edit of a flush leaves out a transaction that was decided meanwhile, because the log has the
/// decision. A copy without the log would lose it.
fn flush_for_copy<'a>(rooms: &JobRooms<'a>) -> Result<MutexGuard<'a, Manifest>> {
    if !seeded_fault!("backup_without_a_flush") {
        flush_all(rooms)?;
    }
    let manifest = lock(&rooms.catalog.manifest_io);
    rooms.health.check_log()?;
    let last = manifest.state.last_sequence;
    let is_flushed = rooms.prepared.flush_view(last).last_decision <= last;
    assert!(
        is_flushed || seeded_fault!("backup_without_a_flush"),
        "a decision was made during the flush of a copy"
    );
    Ok(manifest)
}

/// Checks that there are the families of `choice`.
///
/// # Errors
/// `NotFound`, if there is no such branch, or no such family there.
pub fn check_choice(catalog: &Catalog, choice: CopyChoice<'_>) -> Result<()> {
    chosen(catalog, choice).map(drop)
}

/// The ids of chosen families, and those that they have in the copy.
pub type ChosenFamilies = BTreeMap<FamilyId, FamilyId>;

/// The families of `choice`.
///
/// # Errors
/// As [`check_choice`].
pub fn chosen(catalog: &Catalog, choice: CopyChoice<'_>) -> Result<ChosenFamilies> {
    let heads = chosen_heads(catalog, choice.branch, choice.families)?;
    // The default family of a branch has an id of its own, and in each database the first one.
    let id_there = |family: &FamilyData| match &*family.name() == DEFAULT_FAMILY {
        true => DEFAULT_FAMILY_ID,
        false => family.id,
    };
    Ok(heads.iter().map(|family| (family.id, id_there(family))).collect())
}

/// Gives a change of a chosen family the id that this has in the copy.
fn give_id(change: &mut Change, chosen: &ChosenFamilies) {
    if let Change::CreateFamily { id, .. } | Change::AddTable { family: id, .. } = change {
        *id = chosen.get(id).copied().unwrap_or(*id);
    }
}

/// Whether a change holds for a copy of these families that has no log.
fn is_kept(change: &Change, chosen: Option<&ChosenFamilies>) -> bool {
    let is_chosen = |family: &FamilyId| chosen.is_none_or(|chosen| chosen.contains_key(family));
    let has_default =
        chosen.is_none_or(|chosen| chosen.values().any(|&there| there == DEFAULT_FAMILY_ID));
    match change {
        Change::LogStart { .. }
        | Change::LogCut { .. }
        | Change::LogSynced(_)
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
fn counters(installer: &Installer<'_>) -> [Change; 2] {
    [
        Change::NextFamily(installer.catalog.ids.next_family()),
        Change::LatestTime(installer.time.stored()),
    ]
}

fn versions(catalog: &Catalog) -> Vec<Arc<Version>> {
    let families = catalog.families.load();
    families.iter().map(|family| family.version()).collect()
}

/// All files of a copy lie in its one directory. The families keep their options, so that a cold
/// directory that it is given later gets their tables.
fn bring_together(state: &mut Edit) {
    state.changes.retain(|change| !matches!(change, Change::ColdDirectory(_)));
    for change in &mut state.changes {
        if let Change::AddTable { table, .. } = change {
            Arc::make_mut(table).tier = Tier::Hot;
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
    let kept: BTreeSet<FileNumber> = blob_files(state).map(|(file, _)| file).collect();
    assert_eq!(kept, referenced, "a copy lacks a blob file that its tables refer to");
}

/// Each table belongs to a family of the copy.
fn assert_families(state: &Edit) {
    let created: BTreeSet<FamilyId> = (state.changes.iter())
        .filter_map(|change| match change {
            Change::CreateFamily { id, .. } => Some(*id),
            _ => None,
        })
        .collect();
    for change in &state.changes {
        if let Change::AddTable { family, .. } = change {
            assert!(created.contains(family), "a copy has a table of {family}, but not the family");
        }
    }
    assert!(created.contains(&DEFAULT_FAMILY_ID), "a copy lacks the default family");
}
