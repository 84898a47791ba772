//! Opening: from the files in the directory to a database that holds everything promised.
//!
//! Recovery removes nothing before its replacement is durable, so it may be killed at any point and
//! started again.
//!
//! 1. The directory is checked and locked. Without `CURRENT` there is no database. A new one is
//!    created, if the options allow it and no files of other programs lie there.
//! 2. The manifest's edits are applied through the function that applies new ones.
//! 3. The log is replayed into memtables, which are frozen generations again. Prepared transactions
//!    without a decision take their locks again.
//! 4. An opening for writing goes on only if all named files are there. Durable records that a cut
//!    takes are kept in the directory `lost`.
//! 5. What was replayed is synced. A cut is recorded, as are families that commits have created and
//!    dropped. So the next recovery shows the same state as this one.
//! 6. A database without an identity gets one. A default family without a merge operator gets the
//!    one given at open.
//! 7. A new cold directory is named by the manifest, and gets its id.
//! 8. Files without references are removed. Tables that neither manifest nor log knows go to
//!    `lost`.

use crate::{
    blobs::Blobs,
    catalog::Catalog,
    catalog::family::DEFAULT_FAMILY,
    catalog::family_map::Families,
    catalog::id_allocator::IdAllocator,
    catalog::log_state::LogState,
    catalog::manifest::{Manifest, ManifestEnd, read_current, read_manifest},
    database::{Database, Parts, job_rooms::Waiting},
    families::family_options::other_key_order,
    install::{self, manifest_replay::ManifestReplay, target::Target},
    kit::random::Random,
    log::Log,
    log::pins::Pins,
    log::publish::Publisher,
    log::sequencer::Sequencer,
    log::wal::{LogStart, Wal},
    memory::Memory,
    open::blob_loss::BlobLoss,
    open::cold::{
        BothLocks, ColdContents, ColdLocking, ColdOwnership, ColdState, FoundCold, adopt_cold,
        find_cold, sync_removals,
    },
    open::directory::{LockFile, check_contents, lock_directory, open_directory, remove_lone_lock},
    open::identity::{give_identity, new_identity},
    open::inventory::FileInventory,
    open::keep::keep_cut,
    open::lost_edits::check_log_begin,
    open::orphans::remove_orphans,
    open::replay::{Replay, Replayed},
    open::retained::{note_segments, retention},
    open::rewrite::write_again,
    options::{Access, Create, EngineOptions},
    transactions::prepared,
};
use siltdb_base::{
    clock::{Clock, ForwardClock, StoredTime},
    error::{Error, Result},
    fs::{FileKind, FileLock, Fs, LockKind},
    id::FileNumber,
    limits::FILES_BETWEEN_EDITS_MAX,
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    edit::Change,
    file_name::FileName,
    log::{
        read::Record,
        record::LogPosition,
        recover::{CutKind, Recovered, RecoveryOptions, SegmentFile, recover_whole},
        segment::{SEGMENT_HEADER_BYTES, segments_end},
    },
};
use siltdb_tree::{
    files::open_files::OpenFiles,
    merge_operator::{AbsentOperator, not_given},
    options::BYTEWISE,
};
use std::{cmp::Ordering, collections::BTreeMap, ops::Range, path::Path, sync::Arc};

/// The length of a segment, as a multiple of the memtables written under it. The rest is room for
/// record headers.
const SEGMENT_SLACK: u64 = 2;

/// Opens the database in `dir`.
///
/// # Errors
/// `Locked`, `NotFound`, `AlreadyExists`, `Corruption`, `Unsupported`, `InvalidArgument`; the
/// system's.
pub fn open(
    dir: &Path,
    options: EngineOptions,
    waiting: Waiting,
) -> Result<(Database, Box<dyn FileLock>)> {
    options.check()?;
    if options.access == Access::ReadOnly {
        return inspect(dir, options, waiting);
    }
    let (directory, found) = open_directory(dir, &options)?;
    let directory_lock = lock_directory(&*directory, &options, LockKind::Exclusive)?;
    match open_locked(dir, &directory, options, waiting) {
        Ok((database, cold)) => Ok((database, BothLocks::join(directory_lock, cold))),
        Err(error) => {
            if found.lock_file == LockFile::Missing {
                remove_lone_lock(&*directory);
            }
            Err(error)
        }
    }
}

/// Opens the database in `directory`, which is locked. Also returns the lock of its cold directory.
fn open_locked(
    dir: &Path,
    directory: &Arc<dyn Fs>,
    options: EngineOptions,
    waiting: Waiting,
) -> Result<(Database, Option<Box<dyn FileLock>>)> {
    // Another process may have created a database between the check and the lock.
    check_contents(&**directory, &options)?;
    let mut database = load(dir, Arc::clone(directory), options, waiting)?;
    check_options(&database.database.catalog)?;
    check_key_order(&database.database.catalog, &database.database.options)?;
    database.found.check_named(&database.database.catalog)?;
    database.keep_cut()?;
    if let Some(cold) = &database.cold {
        sync_removals(&**directory, &*cold.found.directory)?;
    }
    make_durable(&database)?;
    give_identity(&database.database.installer())?;
    let given = database.database.options.tree.merge_operator.as_ref();
    install::adopt_operator(&database.database.installer(), given)?;
    if let Some(cold) = &database.cold {
        adopt_cold(&database.database.installer(), &database.database.options, &cold.found)?;
    }
    remove_orphans(&mut database.database, &database.found)?;
    Ok((database.database, database.cold.map(|cold| cold.lock)))
}

/// Loads the database in `dir` for reading; it must exist. No byte is written and no file created.
/// A family whose merge operator is not given can be read, except for merged keys.
///
/// # Errors
/// As [`open`].
pub fn inspect(
    dir: &Path,
    options: EngineOptions,
    waiting: Waiting,
) -> Result<(Database, Box<dyn FileLock>)> {
    let options = EngineOptions { create: Create::Never, access: Access::ReadOnly, ..options };
    let (directory, _) = open_directory(dir, &options)?;
    let directory_lock = lock_directory(&*directory, &options, LockKind::Shared)?;
    let LoadedDatabase { database, cold, .. } = load(dir, directory, options, waiting)?;
    check_key_order(&database.catalog, &database.options)?;
    Ok((database, BothLocks::join(directory_lock, cold.map(|cold| cold.lock))))
}

/// Checks that the default family has the key order given at open, if one is given.
///
/// # Errors
/// `InvalidArgument`, with both names.
pub fn check_key_order(catalog: &Catalog, options: &EngineOptions) -> Result<()> {
    let Some(given) = &options.tree.key_order else { return Ok(()) };
    // A new database gets the order with its default family.
    let Ok(family) = catalog.families.named(DEFAULT_FAMILY) else { return Ok(()) };
    let stored = family.tree.options();
    match stored.key_order.as_deref().unwrap_or(BYTEWISE) {
        now if *now == **given => Ok(()),
        now => Err(other_key_order(now, given)),
    }
}

/// Checks that all merge operators and compaction filters that the families name are given, and
/// that this build can write the tables of all families.
fn check_options(catalog: &Catalog) -> Result<()> {
    let mut known = None;
    for family in catalog.families.load().iter() {
        let options = family.options();
        // Branches have the options of their source.
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &options)) {
            continue;
        }
        let given = |name| catalog.operators.iter().any(|given| given.name() == name);
        let named = options.merge_operator.as_ref().map(|operator| operator.name());
        if let Some(name) = named.filter(|name| !given(*name)) {
            return Err(not_given(name));
        }
        catalog.filters.learn(options.compaction_filter.as_ref())?;
        options.check_writable().map_err(|error| {
            let message = format!("{} for the family {:?}", error.message(), family.name());
            let hint = error.hint().unwrap_or_default().to_owned();
            Error::new(error.kind(), message).with_hint(hint)
        })?;
        known = Some(options);
    }
    Ok(())
}

/// A database that was read, and what must still be made durable.
struct LoadedDatabase {
    database: Database,
    /// The files that were found.
    found: FileInventory,
    recovered: Recovered,
    /// Parts of blob files that may not be durable.
    unsynced_blobs: BTreeMap<FileNumber, Range<u64>>,
    /// The end of the manifest; `None` without a manifest.
    manifest_end: Option<ManifestEnd>,
    /// The cold directory, if there is one.
    cold: Option<OpenCold>,
    is_new: bool,
}

impl LoadedDatabase {
    /// Keeps the durable records that the cut of the log takes, and says so.
    fn keep_cut(&mut self) -> Result<()> {
        let Some(cut) = &self.recovered.cut else { return Ok(()) };
        let directory = &**self.database.catalog.files.directory();
        self.database.kept = keep_cut(directory, &self.found.logs, cut)?;
        Ok(())
    }
}

/// A cold directory that is locked.
struct OpenCold {
    found: FoundCold,
    lock: Box<dyn FileLock>,
    /// The numbers of its table files, named by the manifest or not.
    tables: Vec<FileNumber>,
}

impl OpenCold {
    /// Finds and locks the cold directory of the database in `dir`, and attaches it to `files`,
    /// unless it is new.
    fn find(
        dir: &Path,
        options: &EngineOptions,
        files: &OpenFiles,
        families: &Families,
        log: &LogState,
    ) -> Result<Option<Self>> {
        let contents = ColdContents::of(&families.load());
        let Some(mut found) =
            find_cold(dir, options, log.cold.as_ref(), contents, ColdLocking::Locks)?
        else {
            return Ok(None);
        };
        let shared = found.lock.take();
        let is_only_read =
            options.access == Access::ReadOnly || found.ownership == ColdOwnership::Foreign;
        let lock = match (is_only_read, shared) {
            (true, Some(shared)) => shared,
            (_, shared) => {
                drop(shared);
                lock_directory(&*found.directory, options, LockKind::Exclusive)?
            }
        };
        let mut tables = Vec::new();
        if found.state == ColdState::Known {
            tables = found.store().list()?;
            files.attach_cold(found.store());
        }
        Ok(Some(Self { found, lock, tables }))
    }
}

/// Reads the database in `dir`. A substitute stands for each merge operator that is not given,
/// because the family that needs it may have been dropped later.
fn load(
    dir: &Path,
    directory: Arc<dyn Fs>,
    mut options: EngineOptions,
    waiting: Waiting,
) -> Result<LoadedDatabase> {
    let mut random = Random::new(options.seed);
    let memory = Memory::new(&options);
    let files = OpenFiles::new(Arc::clone(&directory), options.read_io, memory.cache.clone());
    let families = Families::default();
    let operators = options.operators();
    let target = Target {
        families: &families,
        files: &files,
        operators: &operators,
        absent: |name| Some(Arc::new(AbsentOperator::new(name))),
    };
    let current = read_current(&*directory)?;
    let mut known = LogState::default();
    let replay = |number| replay_manifest(&*directory, number, target, &mut known);
    let manifest_end = current.map(replay).transpose()?;
    let cold = OpenCold::find(dir, &options, &files, &families, &known)?;
    let found = find_files(&*directory, cold.as_ref(), &mut known.next_file)?;
    let cold_directory = cold.as_ref().map(|cold| &*cold.found.directory);
    found.check_unnamed(&files, cold_directory, &known)?;
    let (next_family, said) = (known.next_family, known.families);
    let bytes = options.generation_bytes();
    let mut replay = Replay::new(target, &memory.arenas, next_family, said, bytes)
        .with_prepared(known.prepared.clone())
        .with_threads(replay_threads(&options));
    let blobs = Arc::new(Blobs::open(Arc::clone(&directory), &known.blob_files)?);
    let mut loss = BlobLoss::new(&blobs, known.synced.position);
    let logs = &found.logs;
    let recovered = recover_log(&*directory, logs, &known, &options, &mut replay, &mut loss)?;
    let unsynced_blobs = loss.unsynced(recovered.synced);
    blobs.note_segments(recovered.highest_segment);
    let Replayed { frozen, last, records, owed, next_family, prepared, time: noted } =
        replay.finish(&recovered, &found.logs);
    let time = Arc::new(forward_clock(&options, known.time.later(noted)));
    options.clock = Arc::clone(&time) as Arc<dyn Clock>;
    let next_file = known.next_file;
    let (last, start) = (last.max(known.last_sequence), log_start(&recovered, &found));
    let wal = new_wal(&directory, &options, &start, random.next_u64());
    note_segments(&wal, &*directory, &options, &found.logs, &recovered, last)?;
    let mut manifest = Manifest::new(directory, current, manifest_end.clone(), known);
    manifest.owe(owed, Vec::new());
    let ids = IdAllocator::new(next_file, next_family, random);
    let now_ns = options.clock.monotonic_ns();
    let last = match options.access {
        Access::ReadWrite => last,
        // An opening that writes gives the log the place of an ingest that it lacks.
        Access::ReadOnly => last.max(families.load().sequence_max()),
    };
    let log = Log::new(wal, Sequencer::new(last, start.end), Publisher::new(last), now_ns);
    let database = Database::new(Parts {
        dir: dir.to_owned(),
        memory,
        log: log.with_replayed(records, frozen.into()),
        catalog: Catalog::new(families, files, operators, options.filters()?, ids, manifest),
        blobs,
        options,
        time,
        waiting,
    });
    prepared::restore(&database, prepared);
    let is_new = current.is_none();
    let loaded =
        LoadedDatabase { database, found, recovered, manifest_end, cold, is_new, unsynced_blobs };
    Ok(loaded)
}

/// At most how many threads insert what is replayed beside the one that reads the log. A database
/// with a seed does all in one order.
fn replay_threads(options: &EngineOptions) -> usize {
    if options.seed.is_some() { 0 } else { options.workers }
}

/// The clock of expiry, which goes on from the time that manifest and log have.
fn forward_clock(options: &EngineOptions, stored: StoredTime) -> ForwardClock {
    let stored = match seeded_fault!("undo_time") {
        true => StoredTime::default(),
        false => stored,
    };
    ForwardClock::new(options.clock.clone(), stored)
}

/// The log that continues at `start`.
fn new_wal(directory: &Arc<dyn Fs>, options: &EngineOptions, start: &LogStart, seed: u64) -> Wal {
    let usual = options.generation_bytes() as u64 * SEGMENT_SLACK + SEGMENT_HEADER_BYTES as u64;
    let (usual, random) = (usual.next_multiple_of(8), Random::new(Some(seed)));
    Wal::new(Arc::clone(directory), options.log_io, usual, start, random)
        .with_pins(Pins::new(retention(options)))
}

/// Notes all edits of the manifest `number` in `replay`. Returns as [`read_manifest`].
fn replay_manifest(
    directory: &dyn Fs,
    number: FileNumber,
    target: Target<'_>,
    known: &mut LogState,
) -> Result<ManifestEnd> {
    let mut replay = ManifestReplay::new(target);
    let tail = read_manifest(directory, number, &mut |edit| {
        known.note(&edit);
        replay.note(edit)
    })?;
    replay.finish()?;
    Ok(tail)
}

/// Finds the files, and has `next_file` pass over their numbers, whether the manifest names them or
/// not. A file with a number that no process can have reached is a stray one. It must not use up
/// the numbers below its own.
///
/// An entry with the name of a file that is not a file is left alone, and so is its number.
fn find_files(
    directory: &dyn Fs,
    cold: Option<&OpenCold>,
    next_file: &mut FileNumber,
) -> Result<FileInventory> {
    let mut found = FileInventory::default();
    let end = next_file.0.saturating_add(FILES_BETWEEN_EDITS_MAX);
    let mut above = |number: FileNumber| {
        if number.0 < end {
            *next_file = (*next_file).max(FileNumber(number.0 + 1));
        }
    };
    for entry in directory.list(Path::new(""))? {
        let name = FileName::parse(&entry.name);
        let is_file = entry.kind == FileKind::File;
        if !matches!(name, None | Some(FileName::Lost)) && !is_file {
            let path = directory.full_path(Path::new(&entry.name));
            log::warn!("{} is not a file and is left alone", path.display());
        }
        match name {
            Some(FileName::Segment(slot)) if is_file => found.logs.push(slot),
            Some(FileName::Segment(slot)) => found.taken.push(slot),
            Some(FileName::Table(number)) if is_file => {
                found.tables.push(number);
                above(number);
            }
            Some(FileName::Blob(number)) if is_file => {
                found.blobs.push(number);
                above(number);
            }
            Some(
                FileName::Table(number)
                | FileName::Manifest(number)
                | FileName::Blob(number)
                | FileName::Temporary(number),
            ) => above(number),
            Some(FileName::Current | FileName::Lock | FileName::Lost) | None => {}
        }
    }
    if let Some(cold) = cold {
        found.cold = cold.tables.clone();
        found.cold_ownership = Some(cold.found.ownership);
    }
    found.own_cold().iter().for_each(|number| above(*number));
    found.logs.sort_unstable();
    Ok(found)
}

fn recover_log(
    directory: &dyn Fs,
    slots: &[u64],
    known: &LogState,
    options: &EngineOptions,
    replay: &mut Replay<'_>,
    loss: &mut BlobLoss<'_>,
) -> Result<Recovered> {
    let open = |&slot: &u64| {
        let name = FileName::Segment(slot).to_path();
        Ok(SegmentFile { path: directory.full_path(&name), file: directory.open(&name)? })
    };
    let files = slots.iter().map(open).collect::<Result<Vec<_>>>()?;
    let options = RecoveryOptions {
        first: known.first,
        mode: options.recovery,
        synced: known.synced.position,
        synced_file: (known.synced.slot > 0)
            .then(|| directory.full_path(&FileName::Segment(known.synced.slot).to_path())),
        synced_file_bytes: known.synced.file_bytes,
        known_cuts: known.cuts.clone(),
    };
    let find_loss = &mut |record: &Record<'_>| loss.of(record);
    let recovered =
        recover_whole(&files, &options, find_loss, &mut |record| replay.record(&record))?;
    if let Some(begin) = recovered.segments.first() {
        check_log_begin(&begin.header, &files[begin.file_index].path, known)?;
    }
    Ok(recovered)
}

/// Where the log continues.
fn log_start(recovered: &Recovered, found: &FileInventory) -> LogStart {
    // Nothing was replayed: the next segment has no predecessor, and all log files are retired.
    let end = if recovered.segments.is_empty() { LogPosition::ZERO } else { recovered.end };
    let slots = [&found.logs[..], &found.taken[..]].concat();
    LogStart { highest_segment: recovered.highest_segment, slots, end }
}

/// Makes durable what this recovery shows, so that the next one shows the same.
fn make_durable(loaded: &LoadedDatabase) -> Result<()> {
    let LoadedDatabase { database, found, recovered, manifest_end, is_new, .. } = loaded;
    let blobs = loaded.unsynced_blobs.iter();
    let directory = &**database.catalog.files.directory();
    if *is_new {
        let id = database.catalog.ids.family()?;
        let mut options = Vec::new();
        database.options.tree.check()?;
        database.options.tree.check_writable()?;
        database.options.tree.encode(&mut options);
        let name = DEFAULT_FAMILY.to_owned();
        let creation = Change::CreateFamily { id, name, options };
        return install::install(
            &database.installer(),
            vec![creation, new_identity(&database.catalog)],
            None,
        );
    }
    if let Some(cut) = recovered.cut.as_ref().filter(|cut| cut.kind == CutKind::Damage) {
        let (kept, files) = (database.kept.log_files, cut.files.len());
        assert!(kept == files as u64, "a cut at {} takes from {files} files: {kept} kept", cut.at);
    }
    let manifest = lock(&database.catalog.manifest_io).number();
    let mut parts: Vec<_> =
        blobs.map(|(file, part)| (FileName::Blob(*file), part.clone())).collect();
    if let (Some(number), Some(end)) = (manifest, manifest_end) {
        parts.push((FileName::Manifest(number), end.unsynced.clone()));
    }
    for segment in &recovered.segments {
        let id = segment.header.id;
        let start = match id.cmp(&recovered.synced.segment) {
            Ordering::Less => segment.end,
            Ordering::Equal => recovered.synced.offset,
            Ordering::Greater => 0,
        };
        parts.push((FileName::Segment(found.logs[segment.file_index]), start..segment.end));
    }
    parts.retain(|(_, part)| !part.is_empty());
    // The names of a manifest were made durable before its second edit. Those of log files were
    // made durable before a sync reached into them.
    let is_named = parts.is_empty() && manifest_end.as_ref().is_some_and(|end| end.edits > 1);
    let written = parts.into_iter().map(|(name, part)| write_again(directory, name, part));
    let written: Vec<_> = written.collect::<Result<_>>()?;
    written.into_iter().flatten().try_for_each(|file| file.sync())?;
    if !is_named {
        directory.sync_dir(Path::new(""))?;
    }
    let next = segments_end(recovered.highest_segment);
    // Only now is the log of the owed changes durable.
    let owes = !lock(&database.catalog.manifest_io).owed.changes.is_empty();
    match &recovered.cut {
        None if owes => install::install(&database.installer(), Vec::new(), None),
        None => Ok(()),
        Some(_) if recovered.segments.is_empty() => {
            install::install(&database.installer(), vec![Change::LogStart { segment: next }], None)
        }
        Some(cut) => {
            let what = match cut.kind {
                CutKind::LostTail => "never synced",
                CutKind::Damage => "copied to the directory `lost`",
            };
            log::warn!("the log was cut at {}: {} bytes were {what}", cut.at, cut.bytes);
            let cut = Change::LogCut { position: cut.at, next, bytes: cut.bytes };
            install::install(&database.installer(), vec![cut], None)
        }
    }
}

#[cfg(test)]
mod tests;
