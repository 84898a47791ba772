//! Ingests: tables that no memtable was flushed to become part of families, in one edit.
//!
//! It writes no entry. All entries of an ingest have one sequence number, its *global sequence*,
//! which the references to its tables give them.
//!
//! 1. The tables are written, read back and synced, before they have a place in the order.
//! 2. Memtables with older entries of their keys are flushed, because readers look at memtables
//!    first.
//! 3. The ingest gets a place in the order: a record without operations, the first of a generation.
//!    So each memtable is older or newer as a whole.
//! 4. Once all earlier commits are published, each table gets a level: the lowest one in and above
//!    which no older entry of its keys lies. In level 0 sequence numbers of tables must not mix. A
//!    recovery replays several generations into one memtable, so level 0 is for families without
//!    older memtables.
//! 5. If 4 finds older entries in memory that came after 2, the place becomes void, and the ingest
//!    begins again with a flush. The third time, or if keys are locked, it locks its families
//!    first, so that no writer comes between.
//! 6. Separated values are synced, and the log before the record is, so that the manifest is never
//!    ahead of earlier commits. Observers of the families learn of the ingest. One edit installs
//!    all tables.
//! 7. The record is filled, and the place is published. A follower that reads the record, or a
//!    later one, finds the edit in the manifest. Then the record is synced.
//!
//! After a crash before the edit is durable, the tables are orphans, which the opening removes.
//! After a later one, the log may lack the record: an opening takes every number that a table has
//! for published. Later commits wait from 3 to 7. `changing_io` is held meanwhile: a commit with
//! changes of families would wait for its publication while it holds `manifest_io`, and a
//! checkpoint would see the place without the tables.
//!
//! # Seeded fault
//! `ingest_older_than_the_memtable`: 2 and 5 are left out.

use crate::{
    background::Background,
    background::parallel_job::ParallelJob,
    catalog::family::FamilyData,
    database::Database,
    database::installer::Installer,
    database::job_rooms::JobRooms,
    database::writable::Writable,
    jobs::{
        context::{install_output, purge, with_context},
        flush::flush_all,
        shared::{begin_shared, end_shared, withdraw},
    },
    lock_state::lock_table::LockTable,
    lock_state::lock_table::{LockMode, LockOwner, LockTarget, shown},
    log::Log,
    log::sequencer::Reservation,
    memory::Memory,
    write::{
        commit::{Committed, commit_ingest, commit_skip},
        locks::{LockHolder, acquire, admit_ranges},
        log_sync::sync_unnoted,
        separation::{Separated, separate_into},
    },
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    key::EntryKind,
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    batch::BatchOperation,
    edit::{Change, TableReference},
    table_meta::KeySpan,
};
use siltdb_tree::{
    memory::Generation,
    planning::plan::Placed,
    read::visible::bounds::Bounds,
    rewrite::{
        ingest::{IngestWriter, copy_external},
        job::{JobOutput, NewTables},
    },
};
use std::{path::PathBuf, sync::Arc};

/// The result of an ingest.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingested {
    /// The sequence number of all its entries. A snapshot at or above it sees them, an older one
    /// does not. Without entries, the newest published number.
    pub sequence: u64,
    /// The number of entries, deletions included.
    pub entries: u64,
    /// The number of tables.
    pub tables: u64,
    /// The size of the tables, in bytes.
    pub bytes: u64,
}

/// The tables of an ingest for one family, complete and synced.
struct Part {
    family: Arc<FamilyData>,
    output: JobOutput,
}

impl Part {
    fn tables(&self) -> impl Iterator<Item = &TableReference> {
        self.output.changes.iter().filter_map(|change| match change {
            Change::AddTable { table, .. } => Some(&**table),
            _ => None,
        })
    }
}

/// A stream of sorted entries into one family.
///
/// A table is verified and synced by an idle thread while the next one is written; by the caller
/// where no thread was idle.
#[derive(Debug)]
pub struct IngestStream {
    writer: IngestWriter,
    /// The long values, until the tables that point to them are part of the family.
    separated: Separated,
    /// The table before the one being written.
    verifying: Option<Arc<ParallelJob>>,
}

impl IngestStream {
    /// The number of entries added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.writer.entries()
    }

    /// Leaves the files to the next opening: this process may write no more.
    pub fn abandon(self) {
        self.writer.abandon();
        // Dropping it would remove its file. In a forked child, waiting for it might never end.
        self.verifying.into_iter().for_each(std::mem::forget);
    }
}

/// A stream into `family`.
#[must_use]
pub fn begin(log: &Log, family: &FamilyData) -> IngestStream {
    // A salvage without the manifest, which has the global sequence, goes by this number.
    let provisional = log.publisher.published().max(SequenceNumber(1));
    let writer = IngestWriter::new(family.id, family.tree.options(), provisional);
    IngestStream { writer, separated: Separated::default(), verifying: None }
}

/// Adds an entry to `stream`. A long value is separated.
///
/// # Errors
/// `InvalidArgument`, if the key does not follow the one before, or key or value are too long: the
/// stream is as it was. `NoSpace`, the system's: the stream is worthless.
pub fn add(
    memory: &Memory,
    rooms: &JobRooms<'_>,
    stream: &mut IngestStream,
    kind: EntryKind,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    if stream.writer.is_turn_due() {
        turn(rooms, stream)?;
    }
    let (family, options) = stream.writer.family();
    let operation = BatchOperation { kind, family, key, payload: value };
    match separate_into(memory, &rooms.installer(), options, &operation, &mut stream.separated)? {
        None => stream.writer.add(kind, key, value),
        Some(payload) => stream.writer.add(EntryKind::BlobPointer, key, &payload),
    }
}

#[cold]
fn turn(rooms: &JobRooms<'_>, stream: &mut IngestStream) -> Result<()> {
    collect(rooms, stream)?;
    let written = with_context(rooms, |context| stream.writer.turn(context))?;
    stream.verifying = written.map(|table| begin_shared(rooms.background, table));
    Ok(())
}

/// Waits until the table before the one being written is verified and durable.
fn collect(rooms: &JobRooms<'_>, stream: &mut IngestStream) -> Result<()> {
    let Some(shared) = stream.verifying.take() else { return Ok(()) };
    let verified = with_context(rooms, |context| end_shared(rooms.background, &shared, context))?;
    verified.into_iter().for_each(|tables| stream.writer.add_verified(tables));
    Ok(())
}

/// Removes what `stream` has written. If the database is closed, the next opening does.
pub fn cancel(installer: &Installer<'_>, stream: IngestStream) {
    let mut stream = Some(stream);
    // Refused once the database is closing.
    let _ = installer.at_work(|| {
        stream.take().into_iter().for_each(|stream| remove(installer.background, stream));
        Ok(())
    });
    stream.into_iter().for_each(IngestStream::abandon);
}

fn remove(background: &Background, mut stream: IngestStream) {
    if let Some(shared) = stream.verifying.take() {
        // Its tables are dropped, and with them their files.
        let _ = withdraw(background, &shared);
    }
}

/// Ingests what was added to `stream` for `family`. Durable on return.
///
/// # Errors
/// `Busy`, if a transaction holds a lock on keys of the family for too long; `NotFound`, if the
/// family was dropped; `NoSpace`, `Poisoned`, `Closed`; the system's. Nothing is ingested then,
/// except that after `Poisoned` a reopen may find all of it.
pub fn finish(
    writable: Writable<'_>,
    family: &Arc<FamilyData>,
    mut stream: IngestStream,
) -> Result<Ingested> {
    let database = writable.database();
    collect(&database.job_rooms(), &mut stream)?;
    let output = with_context(&database.job_rooms(), |context| stream.writer.finish(context))?;
    let ingested = ingest(database, vec![Part { family: Arc::clone(family), output }]);
    // Only now: no blob file without references was collected meanwhile.
    drop(stream.separated);
    ingested
}

/// Ingests table files that were written outside of any database, each into the family beside it.
/// The files stay as they are. Durable on return.
///
/// # Errors
/// `NotFound`, if a file is missing; `InvalidArgument`, if it was not written to be ingested, its
/// keys have another order than the family, or two files of a family overlap; `Unsupported`, for a
/// later version; `Corruption`, naming file and offset; otherwise as [`finish`].
pub fn ingest_files(
    writable: Writable<'_>,
    files: &[(Arc<FamilyData>, PathBuf)],
) -> Result<Ingested> {
    let database = writable.database();
    let mut families: Vec<&Arc<FamilyData>> = files.iter().map(|(family, _)| family).collect();
    families.sort_by_key(|family| family.id);
    families.dedup_by_key(|family| family.id);
    let parts = families.into_iter().map(|family| {
        family.check()?;
        let of_family = files.iter().filter(|(other, _)| other.id == family.id);
        let paths: Vec<&PathBuf> = of_family.map(|(_, path)| path).collect();
        let output = copy_files(&database.job_rooms(), family, &paths)?;
        Ok(Part { family: Arc::clone(family), output })
    });
    let mut copied = Vec::new();
    for part in parts {
        match part {
            Ok(part) => copied.push(part),
            Err(error) => {
                give_up(&database.installer(), copied);
                return Err(error);
            }
        }
    }
    ingest(database, copied)
}

fn copy_files(rooms: &JobRooms<'_>, family: &FamilyData, paths: &[&PathBuf]) -> Result<JobOutput> {
    let options = family.tree.options();
    with_context(rooms, |context| {
        let mut tables = NewTables::default();
        for path in paths {
            let file = rooms.options.fs.open(path)?;
            copy_external(family.id, &options, &file, path, &mut tables, context)?;
        }
        check_disjoint(tables.tables().iter().map(|table| &table.reference), paths)?;
        tables.sync()?;
        tables.finish([], context)
    })
}

/// Refuses tables that overlap each other. They are those of `paths`, in this order.
fn check_disjoint<'t>(
    tables: impl Iterator<Item = &'t TableReference>,
    paths: &[&PathBuf],
) -> Result<()> {
    let mut tables: Vec<_> = tables.map(|table| &table.meta.range).zip(paths).collect();
    tables.sort_by(|(a, _), (b, _)| a.first.cmp(&b.first));
    let overlap = tables.windows(2).find(|pair| pair[0].0.overlaps(pair[1].0));
    let Some([(_, first), (range, second)]) = overlap else { return Ok(()) };
    Err(Error::invalid("two tables of an ingest overlap").with_file(second).with_mismatch(
        format_args!("keys after those of {}", first.display()),
        shown(&range.first),
    ))
}

fn ingest(database: &Database, mut parts: Vec<Part>) -> Result<Ingested> {
    parts.retain(|part| !part.output.changes.is_empty());
    let tables = || parts.iter().flat_map(Part::tables);
    let mut ingested = Ingested {
        sequence: database.log.publisher.published().0,
        entries: tables().map(|table| table.meta.entries).sum(),
        tables: tables().count() as u64,
        bytes: tables().map(|table| table.length).sum(),
    };
    if parts.is_empty() {
        return Ok(ingested);
    }
    let committed = match commit(database, &parts) {
        Ok(committed) => committed,
        Err(error) => {
            // If it is unknown whether the edit is durable, the next opening knows.
            if database.health.check_log().is_ok() {
                give_up(&database.installer(), parts);
            }
            return Err(error);
        }
    };
    database.background.work.raise();
    // So that no later commit gets its number after a power loss. The tables are durable.
    sync_unnoted(&database.installer(), committed.end)?;
    ingested.sequence = committed.last.0;
    Ok(ingested)
}

/// Removes the tables of an ingest that failed.
fn give_up(installer: &Installer<'_>, parts: Vec<Part>) {
    for part in &parts {
        installer.catalog.files.forget(part.tables().map(|table| table.file));
    }
    // Until then they count as in use.
    drop(parts);
    purge(installer);
}

fn commit(database: &Database, parts: &[Part]) -> Result<Committed> {
    if needs_flush(parts, Generation(u64::MAX))? {
        flush_all(&database.job_rooms())?;
    }
    // Mostly nothing was written meanwhile. Where it was, a flush is enough for level 0.
    for _ in 0..2 {
        match commit_for(database, parts, None) {
            Err(error) if error.kind() == ErrorKind::Busy => {}
            result => return result,
        }
        if admit(&database.locks, parts, None).is_err() {
            break;
        }
        flush_all(&database.job_rooms())?;
    }
    let holder = LockHolder::new(&database.locks);
    for Part { family, .. } in parts {
        let whole = LockTarget::Range(Bounds::default());
        let timeout = database.options.lock_timeout;
        acquire(Writable::inside(database), &holder, family, whole, LockMode::Exclusive, timeout)?;
    }
    flush_all(&database.job_rooms())?;
    commit_for(database, parts, Some(holder.owner()))
}

/// Whether memtables before `generation` have entries of keys of the tables.
fn needs_flush(parts: &[Part], generation: Generation) -> Result<bool> {
    if seeded_fault!("ingest_older_than_the_memtable") {
        return Ok(false);
    }
    for part in parts {
        let view = part.family.tree.view();
        for table in part.tables() {
            if view.memory.reach_into(&table.meta.range, generation)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Commits an ingest whose `owner` may write to locked keys of its own.
fn commit_for(database: &Database, parts: &[Part], owner: Option<LockOwner>) -> Result<Committed> {
    let _changing = lock(&database.catalog.changing_io);
    let mut places = Places { parts, placed: Vec::new() };
    commit_ingest(
        database,
        |reservation| {
            parts.iter().try_for_each(|part| part.family.check())?;
            admit(&database.locks, parts, owner)?;
            database.log.publisher.wait_before(reservation.ticket);
            database.health.check_log()?;
            places.place(reservation.generation())
        },
        |levels, reservation| install(&database.installer(), parts, &levels, reservation),
    )
}

/// Checks that no other owner than `owner` has locked keys of the tables.
fn admit(locks: &Arc<LockTable>, parts: &[Part], owner: Option<LockOwner>) -> Result<()> {
    let ranges = parts
        .iter()
        .flat_map(|part| part.tables().map(|table| (&*part.family, bounds_of(&table.meta.range))));
    admit_ranges(locks, owner, ranges)
}

/// All keys of `range`, and perhaps one more.
fn bounds_of(range: &KeySpan) -> Bounds {
    Bounds { lower: Some(range.first.clone()), upper: Some(range.end_key()) }
}

/// The places of the tables of an ingest, which no compaction takes until this is dropped.
struct Places<'p> {
    parts: &'p [Part],
    /// With the index of the part.
    placed: Vec<(usize, Placed)>,
}

impl Places<'_> {
    /// Gives each table a level, in the order of parts and tables. `generation` is that of the
    /// ingest.
    fn place(&mut self, generation: Generation) -> Result<Vec<u8>> {
        let busy = || Error::new(ErrorKind::Busy, "memtables have older entries than an ingest");
        if needs_flush(self.parts, generation)? {
            return Err(busy());
        }
        for (index, part) in self.parts.iter().enumerate() {
            let view = part.family.tree.view();
            let is_older = |generation_of: Generation| generation_of < generation;
            let mut memory = view.memory.tables().iter();
            let has_older =
                memory.any(|table| is_older(table.generation) && !table.memtable.is_empty());
            for table in part.tables() {
                let placed = part.family.tree.place(&table.meta.range);
                self.placed.push((index, placed));
                let may_mix = seeded_fault!("ingest_older_than_the_memtable");
                if placed.level == 0 && has_older && !may_mix {
                    return Err(busy());
                }
            }
        }
        // A level's number is below `LEVELS`.
        Ok(self.placed.iter().map(|(_, placed)| placed.level as u8).collect())
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        for (index, placed) in self.placed.drain(..) {
            self.parts[index].family.tree.release(placed);
        }
    }
}

fn install(
    installer: &Installer<'_>,
    parts: &[Part],
    levels: &[u8],
    reservation: &Reservation,
) -> Result<()> {
    let sequence = reservation.first;
    let (placed, tables) = (levels.len(), parts.iter().flat_map(Part::tables).count());
    assert!(placed == tables, "an ingest would install {placed} of {tables} tables");
    let rotation = reservation.rotation.as_ref().expect("an ingest begins a segment");
    sync_unnoted(installer, rotation.header.previous)?;
    parts.iter().for_each(|part| part.family.tree.hook_of_ingests().run_ingest(sequence));
    let tables = parts.iter().flat_map(|part| part.tables().map(|table| (part.family.id, table)));
    let changes = tables.zip(levels).map(|((family, table), &level)| {
        let table = TableReference { global_sequence: Some(sequence), ..table.clone() };
        Change::AddTable { family, level, table: Arc::new(table) }
    });
    install_output(installer, changes.collect(), None)
}

/// Takes the sequence numbers up to those in tables, where the log lacks the place of an ingest. To
/// be called before the first commit.
///
/// # Errors
/// As [`commit`](crate::write::commit::commit).
pub fn pass_ingested(writable: Writable<'_>) -> Result<()> {
    let database = writable.database();
    let newest = database.catalog.families.load().sequence_max();
    loop {
        let missing = newest.0.saturating_sub(database.log.publisher.published().0);
        if missing == 0 {
            return Ok(());
        }
        commit_skip(writable, u32::try_from(missing).unwrap_or(u32::MAX))?;
    }
}

#[cfg(test)]
mod tests;
