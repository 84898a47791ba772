//! The write path: reserve a place, fill the log, insert into memtables, publish, and sync if asked
//! to.
//!
//! 1. Check that the families exist and the database may be written; wait for the back-pressure.
//! 2. Write long values to a blob file (`separation`); the commit goes on with pointers to them.
//! 3. Reserve sequence numbers and log space: one short lock.
//! 4. Fill the record, in parallel with other commits.
//! 5. Insert into the memtables, in parallel with other commits.
//! 6. Run the commit hook of each family: its observers learn of the entries before readers do.
//! 7. Publish in order. This returns once every earlier commit is published too.
//! 8. Wait for a sync, if the durability asks for one.
//!
//! A commit that fails at 4 leaves a hole in the log, and recovery would find nothing behind it. So
//! the commit poisons the log before it is published. Every later commit sees that and fails. One
//! that panics after 3 is not published, nor is any later one: it may be in memory in part.

use crate::{
    catalog::Catalog,
    catalog::family::FamilyData,
    database::Database,
    database::writable::Writable,
    log::sequencer::{
        CommitSize, Counts, GenerationLimits, GenerationPlace, NotReady, Reservation,
    },
    memory::Memory,
    options::Durability,
    write::{
        locks::{Writer, admit_batch, admit_one, write_of, writes_of},
        log_sync::{sync_to, sync_wal, sync_within},
        separation::{separate_batch, separate_one, stored_batch},
    },
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, SequenceNumber},
    key::{Entry, EntryKind},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    batch::{BatchBytes, BatchOperation, HEAD_BYTES_MAX, OperationHead},
    log::{
        fill::{fill_record, fill_segment_header},
        record::{LogPosition, RecordHeader, RecordKind, record_bytes},
    },
};
use std::{result, slice, sync::Arc};

/// The number of entries handed to a memtable at once.
const ENTRIES_AT_ONCE: usize = 512;

/// A commit from this size on may take memtables beyond what is reserved for them.
const LARGE_COMMIT_BYTES: usize = 1 << 20;

/// The operations of a commit.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// One operation, encoded while it is copied into the log.
    One(&'a Arc<FamilyData>, BatchOperation<'a>),
    /// The operations of a batch.
    Batch(&'a BatchBytes),
}

impl<'a> Payload<'a> {
    /// One operation on `family`.
    #[must_use]
    pub fn one(
        family: &'a Arc<FamilyData>,
        kind: EntryKind,
        key: &'a [u8],
        payload: &'a [u8],
    ) -> Self {
        Self::One(family, BatchOperation { kind, family: family.id, key, payload })
    }

    /// The operations of a batch.
    #[must_use]
    pub fn batch(batch: &'a BatchBytes) -> Self {
        Self::Batch(batch)
    }
}

/// Commits `payload`: it gets its place in the order, and is visible and as durable as `durability`
/// says on return.
///
/// # Errors
/// `InvalidArgument`, for keys and values out of their limits, and for a merge in a family without
/// an operator; `NotFound`, for a dropped family; `NoSpace`; `Closed`; the system's. After these
/// the payload has no place in the order, now or after a reopen.
///
/// `Poisoned`: the database failed meanwhile. The payload may be in log and memory already, so it
/// may be visible. A reopen may find it or not, but as a whole or not at all.
pub fn commit(writable: Writable<'_>, payload: &Payload<'_>, durability: Durability) -> Result<()> {
    let database = writable.database();
    let (family, operation) = match payload {
        Payload::One(family, operation) => (family, operation),
        Payload::Batch(batch) if batch.is_empty() => return commit_nothing(database, durability),
        Payload::Batch(batch) => return commit_batch(database, batch, durability),
    };
    family.check()?;
    if operation.kind == EntryKind::Merge {
        family.check_operator()?;
    }
    let separated = match operation.payload.len() as u64 >= family.tree.separated_from() {
        true => separate_one(&database.memory, &database.installer(), family, operation)?,
        false => None,
    };
    let mut stored = *operation;
    if let Some((pointer, _)) = &separated {
        (stored.kind, stored.payload) = (EntryKind::BlobPointer, pointer);
    }
    // One call for both, because two calls are not inlined.
    commit_stored(database, family, &stored, durability, |at| {
        if let Some((_, separated)) = &separated {
            separated.note(at.segment);
        }
    })
}

/// Commits one operation as the log stores it. `note` is told of the place of its record, before it
/// is published.
#[inline]
pub(crate) fn commit_stored(
    database: &Database,
    family: &FamilyData,
    operation: &BatchOperation<'_>,
    durability: Durability,
    note: impl Fn(LogPosition),
) -> Result<()> {
    let mut head = [0; HEAD_BYTES_MAX];
    let head_bytes = OperationHead {
        kind: operation.kind,
        family: operation.family,
        key_bytes: operation.key.len(),
        payload_bytes: operation.payload.len(),
    }
    .encode(&mut head)?;
    let parts: &[&[u8]] = &[&head[..head_bytes], operation.key, operation.payload];
    let range_deletes = u32::from(operation.kind == EntryKind::RangeDelete);
    let (counts, kind) = (Counts { all: 1, range_deletes }, kind_of(durability));
    let insert = |reservation: &Reservation| {
        note(reservation.at());
        let entry = operation.entry(reservation.first);
        family.tree.with_memtable(reservation.generation(), &database.memory.arenas, |memtable| {
            memtable.insert(entry);
        });
        if let Some(hook) = family.tree.commit_hook() {
            hook.run(slice::from_ref(&entry));
        }
    };
    let commit = |owner| {
        let admit = |_: &Reservation| admit_one(&database.locks, owner, family, operation);
        commit_parts_if(database, kind, parts, counts, admit, insert)
    };
    let writes = || vec![write_of(family, operation)];
    let Committed { end, .. } = Writer::plain(&database.options).commit(
        &database.locks,
        &database.options,
        commit,
        writes,
    )?;
    settle(database, end, durability)
}

/// The kind of record that a batch of this durability gets.
#[inline]
pub(crate) fn kind_of(durability: Durability) -> RecordKind {
    match durability {
        Durability::Volatile => RecordKind::Skip,
        _ => RecordKind::Batch,
    }
}

/// The commit of no operations: makes earlier commits as durable as `durability` says.
pub(crate) fn commit_nothing(database: &Database, durability: Durability) -> Result<()> {
    database.health.check()?;
    match durability {
        Durability::Volatile | Durability::Buffered => Ok(()),
        Durability::Interval(interval) => sync_within(&database.job_rooms(), interval),
        Durability::Synced => sync_wal(&database.installer()),
    }
}

fn commit_batch(database: &Database, batch: &BatchBytes, durability: Durability) -> Result<()> {
    let (families, counts) = check_families(&database.catalog, batch, &[])?;
    let separated = separate_batch(database, batch, &families)?;
    let (batch, separated) = stored_batch(batch, separated.as_ref());
    let (kind, parts) = (kind_of(durability), &[batch.as_bytes()][..]);
    let insert = |reservation: &Reservation| {
        separated.note(reservation.at().segment);
        insert_batch(&database.memory, batch, reservation, reservation.first, &families);
    };
    let commit = |owner| {
        let admit = |_: &Reservation| admit_batch(&database.locks, owner, batch, &families);
        commit_parts_if(database, kind, parts, counts, admit, insert)
    };
    let writes = || writes_of(batch, &families).collect();
    let Committed { end, .. } = Writer::plain(&database.options).commit(
        &database.locks,
        &database.options,
        commit,
        writes,
    )?;
    settle(database, end, durability)
}

/// The families of a batch, in the order in which they first occur; nearly always one.
pub(crate) type BatchFamilies = Vec<(FamilyId, Arc<FamilyData>)>;

/// Checks a batch. Returns its families, some of which may be among `created`, and the counts of
/// its operations.
pub(crate) fn check_families(
    catalog: &Catalog,
    batch: &BatchBytes,
    created: &[Arc<FamilyData>],
) -> Result<(BatchFamilies, Counts)> {
    let map = catalog.families.load();
    let mut families = BatchFamilies::new();
    let mut counts = Counts { all: batch.count(), range_deletes: 0 };
    let mut last = None;
    for operation in batch.operations() {
        let BatchOperation { family: id, kind, .. } = operation?;
        counts.range_deletes += u32::from(kind == EntryKind::RangeDelete);
        let is_merge = kind == EntryKind::Merge;
        if last == Some((id, is_merge)) {
            continue;
        }
        last = Some((id, is_merge));
        let index = match families.iter().position(|(known, _)| *known == id) {
            Some(index) => index,
            None => {
                let created = || created.iter().find(|family| family.id == id);
                let family = map.get(id).or_else(created).ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, "a family of the batch does not exist")
                        .with_mismatch("a family that was created and not dropped", id)
                        .with_hint("a batch belongs to the database whose families it names")
                })?;
                families.push((id, Arc::clone(family)));
                families.len() - 1
            }
        };
        if is_merge {
            families[index].1.check_operator()?;
        }
    }
    Ok((families, counts))
}

/// A published commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    /// The end of its record.
    pub(crate) end: LogPosition,
    /// The sequence number of its last operation.
    pub(crate) last: SequenceNumber,
}

/// Commits a record of these parts: fills it, has `insert` put its operations into memory, and
/// publishes it.
///
/// `admit` decides with the reservation whether the commit happens. Otherwise the place becomes
/// void, and the commit fails with the error of `admit`. Later commits wait until `admit` returns.
#[inline]
pub(crate) fn commit_parts_if(
    database: &Database,
    kind: RecordKind,
    parts: &[&[u8]],
    counts: Counts,
    admit: impl FnOnce(&Reservation) -> Result<()>,
    insert: impl FnOnce(&Reservation),
) -> Result<Committed> {
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let (parts, logged_bytes) = match kind {
        RecordKind::Skip => (&[][..], 0),
        _ => (parts, payload_bytes),
    };
    let size = CommitSize {
        record_bytes: record_bytes(kind, counts.all, logged_bytes),
        payload_bytes: payload_bytes as u64,
        counts,
        generation: GenerationPlace::Any,
    };
    if payload_bytes >= LARGE_COMMIT_BYTES {
        database.memory.make_room_for_memtables(payload_bytes);
    }
    database.backpressure.pay(size.memtable_bytes(), &database.log);
    let reservation = reserve(database, &size, || database.backpressure.generation_limits())?;
    let last = SequenceNumber(reservation.first.0 + u64::from(counts.all) - 1);
    let place = Place { database, ticket: reservation.ticket };
    let admitted = admit(&reservation);
    let kind = if admitted.is_ok() { kind } else { void(kind) };
    if let Err(error) = fill(&reservation, kind, counts.all, parts) {
        // This comes before publication, so that every later commit sees it.
        let error = database.health.poison(error);
        place.publish(last);
        return Err(error);
    }
    if admitted.is_ok() {
        insert(&reservation);
        if kind == RecordKind::Skip {
            database.log.note_unlogged(last);
        }
    }
    place.publish(last);
    admitted?;
    database.health.check_log()?;
    let at = reservation.at();
    Ok(Committed { end: LogPosition { offset: at.offset + size.record_bytes, ..at }, last })
}

/// Commits one sequence number without an operation, as the first of a generation. `install` puts
/// in force what has this number.
///
/// `admit` decides with the reservation whether that happens, and where. The record is filled after
/// `install`: a follower that reads it finds the edit of `install` in the manifest. Later commits
/// wait until then. If `admit` or `install` fails, nothing has the number.
pub(crate) fn commit_ingest<T>(
    database: &Database,
    admit: impl FnOnce(&Reservation) -> Result<T>,
    install: impl FnOnce(T, &Reservation) -> Result<()>,
) -> Result<Committed> {
    let (kind, count) = (RecordKind::Skip, 1);
    let size = CommitSize {
        record_bytes: record_bytes(kind, count, 0),
        payload_bytes: 0,
        counts: Counts { all: count, range_deletes: 0 },
        generation: GenerationPlace::First,
    };
    let reservation = reserve(database, &size, || database.backpressure.generation_limits())?;
    let place = Place { database, ticket: reservation.ticket };
    let installed = admit(&reservation).and_then(|admitted| install(admitted, &reservation));
    // As in `commit_parts_if`. A void place is filled, too.
    let filled = fill(&reservation, kind, count, &[]);
    let filled = filled.map_err(|error| database.health.poison(error));
    let (at, last) = (reservation.at(), reservation.first);
    place.publish(last);
    installed.and(filled)?;
    database.health.check_log()?;
    Ok(Committed { end: LogPosition { offset: at.offset + size.record_bytes, ..at }, last })
}

/// Commits `count` sequence numbers that no operation has.
///
/// # Errors
/// As [`commit`].
pub fn commit_skip(writable: Writable<'_>, count: u32) -> Result<()> {
    let database = writable.database();
    let counts = Counts { all: count, range_deletes: 0 };
    commit_parts_if(database, RecordKind::Skip, &[], counts, |_| Ok(()), |_| ()).map(|_| ())
}

/// Commits one sequence number that no operation has, with `payload` in its void record. It does
/// not wait for room, because it takes none: readers may call it.
pub(crate) fn commit_note(writable: Writable<'_>, payload: &[u8]) -> Result<()> {
    let database = writable.database();
    let (kind, count) = (RecordKind::Void, 1);
    let size = CommitSize {
        record_bytes: record_bytes(kind, count, payload.len()),
        payload_bytes: 0,
        counts: Counts { all: count, range_deletes: 0 },
        generation: GenerationPlace::Any,
    };
    let limits = || database.backpressure.generation_limits().without_wait();
    let reservation = reserve(database, &size, limits)?;
    let place = Place { database, ticket: reservation.ticket };
    let filled = fill(&reservation, kind, count, &[payload]);
    let filled = filled.map_err(|error| database.health.poison(error));
    place.publish(reservation.first);
    filled?;
    database.health.check_log()
}

/// The place of a commit that is at work. If it panics, the order of commits ends here: those
/// behind it fail with `Poisoned`, and do not wait for ever.
struct Place<'a> {
    database: &'a Database,
    ticket: u64,
}

impl Place<'_> {
    /// Publishes what the commit has done, up to its number `last`.
    // Out of line, a put would save registers for the cold path.
    #[inline(always)]
    fn publish(self, last: SequenceNumber) {
        self.database.log.publisher.complete(self.ticket, last);
        std::mem::forget(self);
    }
}

impl Drop for Place<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        if seeded_fault!("panicked_commit_keeps_its_place") {
            return;
        }
        let cause = Error::new(ErrorKind::Poisoned, "a commit panicked; this is a bug");
        // Before the ticket fails, so that who waits for it sees why.
        self.database.installer().fail(cause);
        self.database.log.publisher.fail(self.ticket);
    }
}

/// The kind of record that fills the place of a refused commit.
#[cold]
fn void(kind: RecordKind) -> RecordKind {
    match kind {
        RecordKind::Skip => RecordKind::Skip,
        _ => RecordKind::Void,
    }
}

/// Reserves a place within `limits`, doing first what is not ready.
#[inline]
fn reserve(
    database: &Database,
    size: &CommitSize,
    limits: impl Fn() -> GenerationLimits,
) -> Result<Reservation> {
    loop {
        match try_reserve(database, size, &limits()) {
            Ok(reservation) => return Ok(reservation),
            Err(not_ready) => make_ready(database, not_ready)?,
        }
    }
}

/// Reserves a place, or returns what must be done first.
fn try_reserve(
    database: &Database,
    size: &CommitSize,
    limits: &GenerationLimits,
) -> result::Result<Reservation, NotReady> {
    let mut sequencer = lock(&database.log.sequencer);
    database.health.check().map_err(NotReady::Failed)?;
    let mut reservation =
        sequencer.reserve(size, limits, &database.log.wal, &database.log.publisher)?;
    if let Some(rotation) = &mut reservation.rotation
        && let Some(frozen) = rotation.frozen.take()
    {
        // Under the lock, so that generations freeze in order.
        database.installer().freeze(frozen);
    }
    let grown_to = reservation.grown.then(|| sequencer.active_bytes());
    drop(sequencer);
    if reservation.low {
        database.log.work.raise();
    }
    if let Some(active_bytes) = grown_to {
        database.backpressure.update_at(active_bytes, &database.log);
    }
    Ok(reservation)
}

#[cold]
fn make_ready(database: &Database, not_ready: NotReady) -> Result<()> {
    match not_ready {
        NotReady::MakeReady(bytes) => {
            database.installer().at_work(|| database.log.wal.make_ready_now(bytes))
        }
        NotReady::Prepare(segment, end) => {
            database.installer().at_work(|| segment.file.prepare(end))?;
            lock(&database.log.sequencer).prepared(segment.id, end);
            Ok(())
        }
        NotReady::WaitForRoom => database.wait_for_room(),
        NotReady::WaitForTicket(ticket) => {
            database.log.publisher.wait_for_ticket(ticket);
            Ok(())
        }
        NotReady::Failed(error) => Err(error.or_file(&database.dir)),
    }
}

fn fill(reservation: &Reservation, kind: RecordKind, count: u32, parts: &[&[u8]]) -> Result<()> {
    let file = &*reservation.segment.file;
    if let Some(rotation) = &reservation.rotation {
        fill_segment_header(file, &rotation.header)?;
    }
    let header =
        RecordHeader { first_sequence: reservation.first, count, kind, synced: reservation.synced };
    fill_record(file, reservation.at(), &header, parts)
}

/// Inserts the operations of a batch into memtables. `first` is the sequence number of the first
/// one.
pub(crate) fn insert_batch(
    memory: &Memory,
    batch: &BatchBytes,
    reservation: &Reservation,
    first: SequenceNumber,
    families: &BatchFamilies,
) {
    let mut entries: Vec<Entry<'_>> =
        Vec::with_capacity(ENTRIES_AT_ONCE.min(batch.count() as usize));
    let Some(&(mut family, _)) = families.first() else { return };
    let mut sequence = first;
    let insert = |family: FamilyId, entries: &mut Vec<Entry<'_>>| {
        let found = families.iter().find(|(id, _)| *id == family);
        let (_, family) = found.expect("the families of a batch were collected before");
        family.tree.with_memtable(reservation.generation(), &memory.arenas, |memtable| {
            memtable.insert_batch(entries);
        });
        if let Some(hook) = family.tree.commit_hook() {
            hook.run(entries);
        }
        entries.clear();
    };
    for operation in batch.operations() {
        let operation = operation.expect("the operations of a batch were read before");
        if operation.family != family || entries.len() == ENTRIES_AT_ONCE {
            insert(family, &mut entries);
            family = operation.family;
        }
        entries.push(operation.entry(sequence));
        sequence = sequence.next();
    }
    insert(family, &mut entries);
    let end = first.0 + u64::from(batch.count());
    assert!(sequence.0 == end, "a batch took the numbers {first}..{sequence}, not up to {end}");
}

/// Makes the record that ends at `end` as durable as `durability` says.
// Out of line, a put would take 16 instructions more.
#[inline(always)]
pub(crate) fn settle(database: &Database, end: LogPosition, durability: Durability) -> Result<()> {
    match durability {
        Durability::Volatile | Durability::Buffered => Ok(()),
        Durability::Interval(interval) => sync_within(&database.job_rooms(), interval),
        Durability::Synced if seeded_fault!("acknowledge_before_sync") => Ok(()),
        Durability::Synced => sync_to(&database.installer(), end),
    }
}

#[cfg(test)]
mod tests;
