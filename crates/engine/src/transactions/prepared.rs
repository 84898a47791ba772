//! Two-phase commit: transactions that are prepared durably and decided later, also after a reopen.
//!
//! Coordinators and the reasons of a decision are outside this module.
//!
//! To prepare a transaction:
//!
//! 1. Its id is kept, so that no other takes it meanwhile.
//! 2. What it writes is locked exclusively, and what it read, where its level depends on that, is
//!    locked shared. Once commits under way are published, nothing locked changes any more.
//! 3. What it depends on is validated as for a commit. By (2) the answer stays true.
//! 4. A Prepare record, which holds all of it, is written and synced. Its locks pass from the
//!    transaction to the record.
//!
//! A decision is a Decide record. That of a commit holds the operations once more, which take their
//! sequence numbers, and their place in memtables, from this record. So recovery, the change feed
//! and a salvage need no other record for it. Long values are separated here, not by the prepare: a
//! rollback leaves no garbage, and what the manifest carries over a flush needs no blob file.
//!
//! A flush retires log segments. Its edit also adds each undecided transaction whose Prepare record
//! it retires to the manifest, and removes those that were decided since. Each such decision is
//! durable before: with the tables, or by a sync of the log.
//!
//! # Seeded fault
//! `prepared_lost_at_rotation`: the edit of a flush leaves undecided transactions out.

use crate::{
    catalog::Catalog,
    catalog::family::FamilyData,
    database::Database,
    database::installer::Installer,
    database::writable::Writable,
    lock_state::{
        lock_table::{LockMode, LockRequest, LockTarget},
        prepared_set::PreparedSet,
        prepared_set::{FlushView, Undecided},
    },
    log::sequencer::{Counts, Reservation},
    options::Durability,
    transactions::{conditional_commit::Conditions, footprint::Footprint},
    write::{
        commit::{BatchFamilies, check_families, commit_parts_if, insert_batch, settle},
        locks::{LockHolder, acquire_all, request_bytes, writes_of},
        log_sync::sync_wal,
        separation::{separate_batch, stored_batch},
    },
};
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    seeded_fault,
    slice::Slice,
    sync::lock,
};
use siltdb_disk::{
    batch::{BatchBytes, BatchOperation},
    edit::Change,
    log::record::RecordKind,
    prepared::{Decision, HeldKeys, HeldLock, HeldMode, PreparedBatch, encode_decision},
};
use siltdb_tree::read::visible::bounds::Bounds;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Prepares `batch`, which may be empty, as the transaction `id`. On return it is durable, and
/// nothing that it depends on changes before its decision.
///
/// # Errors
/// `InvalidArgument` and `AlreadyExists`, as [`PreparedSet::reserve`], or if the batch merges in a
/// family without an operator: nothing was done. `Busy`, if a lock cannot be had in time;
/// `Conflict`; otherwise as [`commit`](crate::write::commit::commit). After `Poisoned` a reopen
/// tells whether it is prepared.
///
/// [`PreparedSet::reserve`]: crate::lock_state::prepared_set::PreparedSet::reserve
pub fn prepare(
    writable: Writable<'_>,
    id: &[u8],
    batch: &BatchBytes,
    conditions: &Conditions<'_>,
) -> Result<Undecided> {
    let database = writable.database();
    database.health.check()?;
    let (families, _) = check_families(&database.catalog, batch, &[])?;
    let new;
    let holder = match conditions.writer.holder {
        Some(holder) => holder,
        None => {
            new = LockHolder::new(&database.locks);
            &new
        }
    };
    let reads = conditions.reads.map(Footprint::lock_requests).unwrap_or_default();
    let held = database.locks.held(holder.owner());
    let transaction = PreparedBatch {
        id: id.to_vec(),
        since_ms: database.options.clock.wall_ms(),
        locks: held.iter().chain(&reads).map(stored).collect(),
        batch: batch.clone(),
    };
    let locks = writes_of(batch, &families).chain(reads).collect();
    prepare_locked(database, holder, transaction, locks, conditions.writer.timeout, || {
        conditions.check_published(&database.log, &database.options, batch, &families).map(drop)
    })
}

/// Prepares a transaction that was prepared in another database, with the locks that it had there.
///
/// # Errors
/// As [`prepare`], but for `Conflict`: it depends on nothing here.
pub fn prepare_again(writable: Writable<'_>, transaction: &PreparedBatch) -> Result<()> {
    let database = writable.database();
    database.health.check()?;
    check_families(&database.catalog, &transaction.batch, &[])?;
    let (holder, locks) =
        (LockHolder::new(&database.locks), locks_of(&database.catalog, transaction));
    let transaction = transaction.clone();
    let (timeout, validate) = (Duration::ZERO, || Ok(()));
    prepare_locked(database, &holder, transaction, locks, timeout, validate).map(drop)
}

/// Prepares a transaction once `holder` has `locks` and `validate` passes.
fn prepare_locked(
    database: &Database,
    holder: &LockHolder,
    transaction: PreparedBatch,
    locks: Vec<LockRequest>,
    timeout: Duration,
    validate: impl FnOnce() -> Result<()>,
) -> Result<Undecided> {
    let mut payload = Vec::new();
    transaction.encode(&mut payload);
    let bytes = memory_bytes(&payload, &locks);
    database.prepared.reserve(&transaction.id, bytes, &database.memory.budget)?;
    let transaction = Arc::new(transaction);
    let prepared = acquire_all(Writable::inside(database), holder, locks, timeout)
        .and_then(|()| validate())
        .and_then(|()| write_prepare(database, holder, &transaction, &payload));
    if prepared.is_err() {
        database.prepared.cancel(&transaction.id);
    }
    prepared
}

/// Roughly what a transaction takes in memory: itself, as long as its encoding, and its locks.
fn memory_bytes(payload: &[u8], locks: &[LockRequest]) -> usize {
    payload.len() + locks.iter().map(request_bytes).sum::<usize>()
}

fn write_prepare(
    database: &Database,
    holder: &LockHolder,
    transaction: &Arc<PreparedBatch>,
    payload: &[u8],
) -> Result<Undecided> {
    let owner = database.locks.new_owner();
    let undecided = |number| {
        let transaction = Arc::clone(transaction);
        Undecided { number, transaction, owner }
    };
    let mut number = SequenceNumber::ZERO;
    let counts = Counts { all: 1, range_deletes: 0 };
    let parts = &[payload][..];
    let kind = RecordKind::Prepare;
    let insert = |reservation: &Reservation| {
        number = reservation.first;
        database.locks.hand_over(holder.owner(), owner, &transaction.id);
        database.prepared.add(undecided(number));
    };
    let committed = commit_parts_if(database, kind, parts, counts, |_| Ok(()), insert)?;
    settle(database, committed.end, Durability::Synced)?;
    Ok(undecided(number))
}

/// Decides the transaction `id`; with a `number`, only if this is its number. Returns the last
/// sequence number that the decision takes.
///
/// Operations of families that were dropped since are left out.
///
/// # Errors
/// `NotFound`, if no such transaction waits for its decision; `Busy`, if another thread decides it;
/// `InvalidArgument`, for a `Volatile` decision; otherwise as
/// [`commit`](crate::write::commit::commit): it waits for its decision as before. After `Poisoned`
/// a reopen tells what became of it.
pub fn decide(
    writable: Writable<'_>,
    id: &[u8],
    number: Option<SequenceNumber>,
    decision: Decision,
    durability: Durability,
) -> Result<SequenceNumber> {
    let database = writable.database();
    database.health.check()?;
    if durability == Durability::Volatile {
        return Err(Error::invalid("a decision about a prepared transaction cannot be Volatile")
            .with_hint("the decision stands in the log alone"));
    }
    let undecided = database.prepared.begin_decision(id, number)?;
    let decided = write_decision(database, &undecided, decision, durability);
    if decided.is_err() {
        database.prepared.keep(id);
    }
    decided
}

fn write_decision(
    database: &Database,
    undecided: &Undecided,
    decision: Decision,
    durability: Durability,
) -> Result<SequenceNumber> {
    let Undecided { number, transaction, owner } = undecided;
    // No family is dropped meanwhile.
    let changing = lock(&database.catalog.changing_io);
    let batch = match decision {
        Decision::Commit => without_dropped(&database.catalog, &transaction.batch)?,
        Decision::RollBack => BatchBytes::new(),
    };
    let (families, counts) = check_families(&database.catalog, &batch, &[])?;
    let separated = separate_batch(database, &batch, &families)?;
    let (batch, separated) = stored_batch(&batch, separated.as_ref());
    let mut head = Vec::new();
    encode_decision(*number, decision, &transaction.id, &mut head);
    // The decision takes a sequence number, too.
    let counts = Counts { all: counts.all + 1, ..counts };
    let parts = &[&head[..], batch.as_bytes()][..];
    let kind = RecordKind::Decide;
    // Its locks keep all others away, so that it is always admitted.
    let committed = commit_parts_if(
        database,
        kind,
        parts,
        counts,
        |_| Ok(()),
        |reservation| {
            separated.note(reservation.at().segment);
            insert_batch(&database.memory, batch, reservation, reservation.first.next(), &families);
            database.prepared.decided(&transaction.id, reservation.first);
        },
    )?;
    drop(changing);
    // Only now: a writer that waited validates against what is published.
    database.locks.release(*owner);
    settle(database, committed.end, durability)?;
    Ok(committed.last)
}

/// The operations whose families exist.
fn without_dropped(catalog: &Catalog, batch: &BatchBytes) -> Result<BatchBytes> {
    let families = catalog.families.load();
    let mut left = BatchBytes::with_capacity(batch.as_bytes().len());
    for operation in batch.operations() {
        let operation = operation?;
        if families.contains(operation.family) {
            left.push(&operation)?;
        }
    }
    Ok(left)
}

/// Changes of prepared transactions for the edit of a flush that retires the log up to `last`,
/// which is published.
///
/// # Errors
/// `Poisoned`, if a sync fails.
pub fn carry_forward(
    installer: &Installer<'_>,
    prepared: &PreparedSet,
    last: SequenceNumber,
) -> Result<Vec<Change>> {
    let (said, last): (Vec<SequenceNumber>, _) = {
        let manifest = lock(&installer.catalog.manifest_io);
        // A replayed generation without records ends before what earlier flushes have retired.
        let last = last.max(manifest.state.last_sequence);
        (manifest.state.prepared.keys().copied().collect(), last)
    };
    let published = installer.log.publisher.published();
    assert!(last <= published, "the log would be retired up to {last}, beyond {published}");
    let FlushView { undecided, last_decision } = prepared.flush_view(last);
    let mut changes = Vec::new();
    for Undecided { number, transaction, .. } in &undecided {
        if !said.contains(number) && !seeded_fault!("prepared_lost_at_rotation") {
            let transaction = Arc::clone(transaction);
            changes.push(Change::Prepared { number: *number, transaction });
        }
    }
    let is_undecided = |number: &SequenceNumber| undecided.iter().any(|one| one.number == *number);
    let decided = said.iter().filter(|number| !is_undecided(number));
    changes.extend(decided.map(|number| Change::PreparedDecided { number: *number }));
    let is_lost = |one: &&Undecided| !said.contains(&one.number) && !carries(&changes, one.number);
    let lost = undecided.iter().find(is_lost).map(|one| one.number);
    assert!(lost.is_none(), "the log would go up to {last}, and the manifest lacks {lost:?}");
    // If a power loss took a later decision, its transaction would be undecided again. The edit
    // leaves it out, so the decision must be durable first.
    if last_decision > last {
        sync_wal(installer)?;
    }
    Ok(changes)
}

/// Whether `changes` add the transaction `wanted` to the manifest.
fn carries(changes: &[Change], wanted: SequenceNumber) -> bool {
    let is_it =
        |change: &Change| matches!(change, Change::Prepared { number, .. } if *number == wanted);
    changes.iter().any(is_it)
}

/// Adds the undecided transactions that an opening has found, and takes their locks again. To be
/// called before the first write.
pub fn restore(database: &Database, found: BTreeMap<SequenceNumber, Arc<PreparedBatch>>) {
    for (number, transaction) in found {
        let (owner, locks) =
            (database.locks.new_owner(), locks_of(&database.catalog, &transaction));
        database.locks.restore(owner, &transaction.id, &locks);
        let mut payload = Vec::new();
        transaction.encode(&mut payload);
        let bytes = memory_bytes(&payload, &locks);
        let undecided = Undecided { number, transaction, owner };
        database.prepared.restore(undecided, bytes, &database.memory.budget);
    }
}

/// The locks of a transaction, in families that exist.
fn locks_of(catalog: &Catalog, transaction: &PreparedBatch) -> Vec<LockRequest> {
    let map = catalog.families.load();
    let mut families = BatchFamilies::new();
    for BatchOperation { family: id, .. } in transaction.batch.operations().filter_map(Result::ok) {
        if families.iter().all(|(known, _)| *known != id) {
            families.extend(map.get(id).map(|family| (id, Arc::clone(family))));
        }
    }
    let held = transaction.locks.iter();
    let held = held.filter_map(|held| Some(request(map.get(held.family)?, held)));
    writes_of(&transaction.batch, &families).chain(held).collect()
}

fn request(family: &FamilyData, held: &HeldLock) -> LockRequest {
    let target = match &held.keys {
        HeldKeys::Key(key) => LockTarget::Key(Slice::copy_from(key)),
        HeldKeys::Range(first, end) => LockTarget::Range(Bounds {
            lower: Some(Slice::copy_from(first)),
            upper: end.as_ref().map(|end| Slice::copy_from(end)),
        }),
    };
    let mode = match held.mode {
        HeldMode::Shared => LockMode::Shared,
        HeldMode::Exclusive => LockMode::Exclusive,
    };
    LockRequest { flag: Arc::clone(&family.lock_flag), target, mode }
}

fn stored(request: &LockRequest) -> HeldLock {
    let keys = match &request.target {
        LockTarget::Key(key) => HeldKeys::Key(key.to_vec()),
        LockTarget::Range(Bounds { lower, upper }) => {
            let first = lower.as_ref().map(|key| key.to_vec()).unwrap_or_default();
            HeldKeys::Range(first, upper.as_ref().map(|key| key.to_vec()))
        }
    };
    let mode = match request.mode {
        LockMode::Shared => HeldMode::Shared,
        LockMode::Exclusive => HeldMode::Exclusive,
    };
    HeldLock { family: request.flag.family(), keys, mode }
}

#[cfg(test)]
mod tests;
