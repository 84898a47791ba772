//! Locks on keys and ranges, and how writers respect them.
//!
//! A locked key keeps the value that its locker can read until the lock is released:
//!
//! 1. The locker puts its lock into the table.
//! 2. Under the lock that orders sequence numbers, it sets the flag of the family and reads how
//!    many places were given out.
//! 3. It waits until all of these are published. Then it reads.
//! 4. A writer checks the flag once it has its own number. If the flag is set, it checks the table.
//!    If another owner holds a lock on a key that it writes, its place becomes void.
//! 5. That writer waits until it holds the locks itself, and commits again.
//!
//! A writer with a number after (2) sees the flag and the lock. An earlier one is published before
//! the locker reads, by (3). No writer waits for a lock while it holds a place, so (3) ends.

use crate::{
    catalog::family::FamilyData,
    database::writable::Writable,
    health::Health,
    lock_state::lock_table::{LockFlag, LockMode, LockOwner, LockRequest, LockTable, LockTarget},
    log::Log,
    options::EngineOptions,
};
use siltdb_base::{
    error::{ErrorKind, Result},
    id::FamilyId,
    key::EntryKind,
    seeded_fault,
    slice::Slice,
    sync::lock,
};
use siltdb_disk::batch::{BatchBytes, BatchOperation};
use siltdb_tree::read::visible::bounds::Bounds;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The locks of one transaction or one write. Dropping it releases them.
#[derive(Debug)]
pub struct LockHolder {
    table: Arc<LockTable>,
    owner: LockOwner,
    bytes: AtomicUsize,
}

impl LockHolder {
    /// A holder without locks.
    #[must_use]
    pub fn new(locks: &Arc<LockTable>) -> Self {
        let table = Arc::clone(locks);
        Self { owner: table.new_owner(), table, bytes: AtomicUsize::new(0) }
    }

    /// The owner's number, as messages show it.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.owner.0
    }

    /// The owner of its locks in the table.
    pub(crate) fn owner(&self) -> LockOwner {
        self.owner
    }

    /// The approximate memory of its locks, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Releases all locks.
    pub fn release(&self) {
        self.table.release(self.owner);
    }

    fn acquire(
        &self,
        options: &EngineOptions,
        requests: Vec<LockRequest>,
        timeout: Duration,
    ) -> Result<()> {
        let bytes = self.table.acquire(self.owner, requests, timeout, &*options.clock)?;
        // Relaxed: an approximate size, which carries no data with it.
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        self.release();
    }
}

/// Roughly the memory that a lock takes, in bytes.
#[must_use]
pub fn request_bytes(request: &LockRequest) -> usize {
    size_of::<LockRequest>() + bytes_of(&request.target)
}

fn bytes_of(target: &LockTarget) -> usize {
    let bytes = |key: &Option<Slice>| key.as_ref().map_or(0, |key| key.len());
    match target {
        LockTarget::Key(key) => 2 * key.len(),
        LockTarget::Range(bounds) => bytes(&bounds.lower) + bytes(&bounds.upper),
    }
}

/// Locks `target` of `family` for `holder`. On return no commit of another owner to the target is
/// running, and none can happen before the release.
///
/// # Errors
/// `Busy` after `timeout`; `Conflict`, if the wait would close a cycle of transactions; `NotFound`,
/// if the family was dropped; `Poisoned`.
pub fn acquire(
    writable: Writable<'_>,
    holder: &LockHolder,
    family: &FamilyData,
    target: LockTarget,
    mode: LockMode,
    timeout: Duration,
) -> Result<()> {
    let database = writable.database();
    let flag = Arc::clone(&family.lock_flag);
    holder.acquire(&database.options, vec![LockRequest { flag, target, mode }], timeout)?;
    if seeded_fault!("lock_flag_not_ordered") {
        family.lock_flag.set();
        return Ok(());
    }
    set_flags(&database.log, &database.health, [&family.lock_flag])
}

/// Locks all of `requests` for `holder`, or none; otherwise as [`acquire`].
///
/// # Errors
/// As [`acquire`].
pub fn acquire_all(
    writable: Writable<'_>,
    holder: &LockHolder,
    requests: Vec<LockRequest>,
    timeout: Duration,
) -> Result<()> {
    let database = writable.database();
    let mut flags: Vec<_> = requests.iter().map(|request| Arc::clone(&request.flag)).collect();
    flags.sort_unstable_by_key(|flag| flag.family());
    flags.dedup_by_key(|flag| flag.family());
    holder.acquire(&database.options, requests, timeout)?;
    set_flags(&database.log, &database.health, &flags)
}

/// Sets the flags for writers with later sequence numbers, and waits until the earlier ones are
/// published.
fn set_flags<'a>(
    log: &Log,
    health: &Health,
    flags: impl IntoIterator<Item = &'a Arc<LockFlag>>,
) -> Result<()> {
    let sequencer = lock(&log.sequencer);
    flags.into_iter().for_each(|flag| flag.set());
    let drawn = sequencer.tickets_drawn();
    drop(sequencer);
    log.publisher.wait_before(drawn);
    health.check_log()
}

/// The locks of a writer, and its patience with those of others.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The writer's own locks, if it has any.
    pub holder: Option<&'a LockHolder>,
    /// How long it waits for locks of others.
    pub timeout: Duration,
}

impl Writer<'_> {
    /// A writer without locks.
    #[must_use]
    pub fn plain(options: &EngineOptions) -> Self {
        Self { holder: None, timeout: options.lock_timeout }
    }

    fn owner(&self) -> Option<LockOwner> {
        self.holder.map(|holder| holder.owner)
    }

    /// Calls `commit` with the owner whose locks do not block it. If that fails with `Busy`, waits
    /// for the locks that `writes` need, and calls it again.
    ///
    /// # Errors
    /// `Busy`, if the locks are not granted in time; `Conflict`, if the wait would close a cycle;
    /// the errors of `commit`.
    #[inline]
    pub(crate) fn commit<T>(
        &self,
        locks: &Arc<LockTable>,
        options: &EngineOptions,
        commit: impl Fn(Option<LockOwner>) -> Result<T>,
        writes: impl FnOnce() -> Vec<LockRequest>,
    ) -> Result<T> {
        let (mut owner, mut writes) = (self.owner(), Some(writes));
        let mut own = None;
        // A loop, because two calls of `commit` are not inlined.
        loop {
            let error = match commit(owner) {
                Err(error) if error.kind() == ErrorKind::Busy => error,
                result => return result,
            };
            let Some(writes) = writes.take() else { return Err(error) };
            let holder = match self.holder {
                Some(holder) => holder,
                None => own.insert(LockHolder::new(locks)),
            };
            holder.acquire(options, writes(), self.timeout)?;
            owner = Some(holder.owner);
        }
    }
}

/// Checks that `owner` may write `operation`. To be called with a reservation.
///
/// # Errors
/// `Busy`, with the first conflicting lock.
#[inline]
pub(crate) fn admit_one(
    locks: &Arc<LockTable>,
    owner: Option<LockOwner>,
    family: &FamilyData,
    operation: &BatchOperation<'_>,
) -> Result<()> {
    if !family.lock_flag.is_set() {
        return Ok(());
    }
    locks.check(owner, std::iter::once(write_of(family, operation)))
}

/// Checks that `owner` may write the operations of `batch`, which are of `families`. To be called
/// with a reservation.
///
/// # Errors
/// `Busy`, with the first conflicting lock.
#[inline]
pub(crate) fn admit_batch(
    locks: &Arc<LockTable>,
    owner: Option<LockOwner>,
    batch: &BatchBytes,
    families: &[(FamilyId, Arc<FamilyData>)],
) -> Result<()> {
    if !families.iter().any(|(_, family)| family.lock_flag.is_set()) {
        return Ok(());
    }
    let is_flagged = |write: &LockRequest| write.flag.is_set();
    locks.check(owner, writes_of(batch, families).filter(is_flagged))
}

/// Checks that `owner` may write the keys of each range, which is of the family beside it. To be
/// called with a reservation.
///
/// # Errors
/// `Busy`, with the first conflicting lock.
pub(crate) fn admit_ranges<'r>(
    locks: &Arc<LockTable>,
    owner: Option<LockOwner>,
    ranges: impl Iterator<Item = (&'r FamilyData, Bounds)>,
) -> Result<()> {
    let flagged = ranges.filter(|(family, _)| family.lock_flag.is_set());
    let writes = flagged.map(|(family, bounds)| LockRequest {
        flag: Arc::clone(&family.lock_flag),
        target: LockTarget::Range(bounds),
        mode: LockMode::Exclusive,
    });
    locks.check(owner, writes)
}

/// The lock requests for the keys and ranges that `batch` writes.
pub(crate) fn writes_of(
    batch: &BatchBytes,
    families: &[(FamilyId, Arc<FamilyData>)],
) -> impl Iterator<Item = LockRequest> {
    batch.operations().filter_map(|operation| {
        let operation = operation.ok()?;
        let (_, family) = families.iter().find(|(id, _)| *id == operation.family)?;
        Some(write_of(family, &operation))
    })
}

/// The lock request for what `operation` writes to `family`.
#[cold]
pub(crate) fn write_of(family: &FamilyData, operation: &BatchOperation<'_>) -> LockRequest {
    let key = Slice::copy_from(operation.key);
    let target = match operation.kind {
        EntryKind::RangeDelete => {
            let upper = Some(Slice::copy_from(operation.payload));
            LockTarget::Range(Bounds { lower: Some(key), upper })
        }
        _ => LockTarget::Key(key),
    };
    LockRequest { flag: Arc::clone(&family.lock_flag), target, mode: LockMode::Exclusive }
}

#[cfg(test)]
mod tests;
