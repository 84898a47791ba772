//! The write path: a place, the log, the memtables, publication, and a sync if asked for (D4, D5).
//!
//! 1. Look whether the families exist and the database may be written; pay for the debt.
//! 2. Reserve sequence numbers and log space: one short lock.
//! 3. Fill the record, beside other commits.
//! 4. Insert into the memtables, beside other commits.
//! 5. Publish in order; return from here once every earlier commit is published too.
//! 6. Wait for a sync, if the durability asks for one.
//!
//! A commit that fails at 3 leaves a hole in the log, behind which nothing would be recovered. So
//! it poisons the log before it is published, and every commit behind it sees that and fails.

use crate::{
    database::Database,
    family::Family,
    options::Durability,
    tail::{Chore, Demand, Reservation},
};
use siltdb_base::{
    error::{Error, Result},
    id::{FamilyId, SequenceNumber},
    key::{Entry, EntryKind},
    sync::lock,
};
use siltdb_disk::{
    batch::{BatchBytes, HEAD_BYTES_MAX, Operation, OperationHead},
    log::{
        fill::{fill_record, fill_segment_header},
        record::{RecordHeader, RecordKind, record_bytes},
    },
};
use std::sync::Arc;

/// Operations handed to a memtable at once.
const ENTRIES_AT_ONCE: usize = 512;

/// What is committed.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// One operation, encoded on its way into the log.
    One(&'a Arc<Family>, Operation<'a>),
    /// Many operations.
    Batch(&'a BatchBytes),
}

impl<'a> Payload<'a> {
    /// One operation on `family`.
    #[must_use]
    pub fn one(family: &'a Arc<Family>, kind: EntryKind, key: &'a [u8], payload: &'a [u8]) -> Self {
        Self::One(family, Operation { kind, family: family.id, key, payload })
    }

    /// The operations of a batch.
    #[must_use]
    pub fn batch(batch: &'a BatchBytes) -> Self {
        Self::Batch(batch)
    }
}

/// Makes `payload` part of the order of the database.
///
/// # Errors
/// `InvalidArgument`, for keys and values out of their limits; `NotFound`, for a dropped family;
/// `NoSpace`; `Poisoned`; `Closed`. The payload is then not visible, except after a failed sync.
pub fn commit(database: &Database, payload: &Payload<'_>, durability: Durability) -> Result<()> {
    match payload {
        Payload::One(family, operation) => {
            family.check()?;
            let mut head = [0; HEAD_BYTES_MAX];
            let head_bytes = OperationHead {
                kind: operation.kind,
                family: operation.family,
                key_bytes: operation.key.len(),
                payload_bytes: operation.payload.len(),
            }
            .encode(&mut head)?;
            let parts: &[&[u8]] = &[&head[..head_bytes], operation.key, operation.payload];
            let insert = |reservation: &Reservation| {
                family.tree.with_memtable(reservation.generation, &database.arenas, |memtable| {
                    memtable.insert(operation.entry(reservation.first));
                });
            };
            commit_parts(database, parts, 1, durability, insert)
        }
        Payload::Batch(batch) if batch.is_empty() => Ok(()),
        Payload::Batch(batch) => {
            let families = check_families(database, batch)?;
            let parts: &[&[u8]] = &[batch.as_bytes()];
            let insert = |reservation: &Reservation| {
                insert_batch(database, batch, reservation, &families);
            };
            commit_parts(database, parts, batch.count(), durability, insert)
        }
    }
}

/// The families of a batch, in the order in which they first occur; nearly always one.
type BatchFamilies = Vec<(FamilyId, Arc<Family>)>;

fn check_families(database: &Database, batch: &BatchBytes) -> Result<BatchFamilies> {
    let map = database.families.load();
    let mut families = BatchFamilies::new();
    let mut last = None;
    for operation in batch.operations() {
        let id = operation?.family;
        if last == Some(id) || families.iter().any(|(known, _)| *known == id) {
            last = Some(id);
            continue;
        }
        let family = map.get(id).ok_or_else(|| {
            Error::new(siltdb_base::error::ErrorKind::NotFound, "a family of the batch was dropped")
                .with_hint("a batch belongs to the database whose families it names")
        })?;
        families.push((id, Arc::clone(family)));
        last = Some(id);
    }
    Ok(families)
}

fn commit_parts(
    database: &Database,
    parts: &[&[u8]],
    count: u32,
    durability: Durability,
    insert: impl FnOnce(&Reservation),
) -> Result<()> {
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let (kind, parts) = match durability {
        Durability::Volatile => (RecordKind::Skip, &[][..]),
        _ => (RecordKind::Batch, parts),
    };
    let logged_bytes = if kind == RecordKind::Skip { 0 } else { payload_bytes };
    let demand = Demand {
        record_bytes: record_bytes(logged_bytes),
        payload_bytes: payload_bytes as u64,
        count,
    };
    database.pay(demand.payload_bytes);
    let reservation = reserve(database, &demand)?;
    let filled = fill(&reservation, kind, count, parts);
    let filled = match filled {
        Ok(()) => {
            insert(&reservation);
            Ok(())
        }
        // Before publication, so that every commit behind this one sees it.
        Err(error) => Err(database.health.poison(error)),
    };
    database.publisher.complete(reservation.ticket, reservation.last);
    filled?;
    database.health.check_log()?;
    settle(database, &reservation, durability)
}

/// Gets a place, doing whatever chore is in the way.
fn reserve(database: &Database, demand: &Demand) -> Result<Reservation> {
    loop {
        let chore = {
            let mut tail = lock(&database.tail);
            database.health.check()?;
            let limits = database.tail_limits();
            match tail.reserve(demand, &limits, &database.wal, &database.publisher) {
                Ok(mut reservation) => {
                    // Under the lock, so that generations freeze in order.
                    let rotation = reservation.rotation.as_mut();
                    if let Some(frozen) = rotation.and_then(|rotation| rotation.frozen.take()) {
                        database.freeze(frozen);
                    }
                    drop(tail);
                    if reservation.low {
                        database.log_work.raise();
                    }
                    return Ok(reservation);
                }
                Err(chore) => chore,
            }
        };
        match chore {
            Chore::MakeReady(bytes) => database.wal.make_ready(bytes)?,
            Chore::Prepare(segment, end) => {
                segment.file.prepare(end)?;
                lock(&database.tail).prepared(segment.id, end);
            }
            Chore::WaitForRoom => database.wait_for_room()?,
            Chore::WaitForPublication(sequence) => database.publisher.wait(sequence),
            Chore::GiveUp => {
                return Err(Error::corruption("sequence numbers are used up")
                    .with_file(&database.dir)
                    .with_hint("a file of the database claims numbers that were never given"));
            }
        }
    }
}

fn fill(reservation: &Reservation, kind: RecordKind, count: u32, parts: &[&[u8]]) -> Result<()> {
    let file = &*reservation.segment.file;
    if let Some(rotation) = &reservation.rotation {
        fill_segment_header(file, &rotation.header)?;
    }
    let header =
        RecordHeader { first_sequence: reservation.first, count, kind, synced: reservation.synced };
    fill_record(file, reservation.at, &header, parts)
}

fn insert_batch(
    database: &Database,
    batch: &BatchBytes,
    reservation: &Reservation,
    families: &BatchFamilies,
) {
    let mut entries: Vec<Entry<'_>> =
        Vec::with_capacity(ENTRIES_AT_ONCE.min(batch.count() as usize));
    let mut family = families[0].0;
    let mut sequence = reservation.first;
    let insert = |family: FamilyId, entries: &mut Vec<Entry<'_>>| {
        let found = families.iter().find(|(id, _)| *id == family);
        let (_, family) = found.expect("the families of a batch were collected before");
        family.tree.with_memtable(reservation.generation, &database.arenas, |memtable| {
            memtable.insert_batch(entries);
        });
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
    debug_assert_eq!(SequenceNumber(sequence.0 - 1), reservation.last);
}

/// Waits for what the durability promises.
fn settle(database: &Database, reservation: &Reservation, durability: Durability) -> Result<()> {
    match durability {
        Durability::Volatile | Durability::Buffered => Ok(()),
        Durability::Interval(interval) => database.sync_within(interval),
        Durability::Synced if cfg!(seeded_fault = "acknowledge_before_sync") => Ok(()),
        Durability::Synced => {
            let synced = database.wal.sync_to(reservation.end, &database.health)?;
            lock(&database.tail).synced(synced);
            Ok(())
        }
    }
}
