//! Locks on keys and ranges, and how writers keep to them.
//!
//! A locked key keeps the value that the locker can read until the lock is released, whatever the
//! others do:
//!
//! 1. The locker puts its lock into the table.
//! 2. Under the lock under which sequence numbers are handed out it sets the flag of the family,
//!    and takes the last number that was.
//! 3. It waits until everything up to that number is published. Then it reads.
//! 4. A writer looks at the flag once it has its own number. If the flag is set, it looks into the
//!    table. If another owner holds a lock on what it writes, its place becomes void.
//! 5. That writer waits until it holds the locks itself, and commits again.
//!
//! A writer whose number comes after (2) sees the flag and the lock. Any other is published before
//! the locker reads, by (3). A writer never waits for a lock with a place in hand, so (3) ends.

use crate::{
    catalog::family::FamilyData,
    database::Database,
    lock_table::{LockMode, LockOwner, LockRequest, LockTable, LockTarget},
};
use siltdb_base::{
    error::{ErrorKind, Result},
    id::FamilyId,
    key::EntryKind,
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

/// The locks of one transaction or one write; dropping it releases them.
#[derive(Debug)]
pub struct LockHolder {
    table: Arc<LockTable>,
    owner: LockOwner,
    bytes: AtomicUsize,
}

impl LockHolder {
    /// Holds nothing.
    #[must_use]
    pub fn new(database: &Database) -> Self {
        let table = Arc::clone(&database.locks);
        Self { owner: table.new_owner(), table, bytes: AtomicUsize::new(0) }
    }

    /// Its number in messages.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.owner.0
    }

    /// Roughly the memory that its locks take, in bytes.
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
        database: &Database,
        requests: Vec<LockRequest>,
        timeout: Duration,
    ) -> Result<()> {
        let of = |request: &LockRequest| size_of::<LockRequest>() + bytes_of(&request.target);
        let bytes = requests.iter().map(of).sum();
        self.table.acquire(self.owner, requests, (timeout, &*database.options.clock))?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        self.release();
    }
}

fn bytes_of(target: &LockTarget) -> usize {
    let bytes = |key: &Option<Slice>| key.as_ref().map_or(0, |key| key.len());
    match target {
        LockTarget::Key(key) => 2 * key.len(),
        LockTarget::Range(bounds) => bytes(&bounds.lower) + bytes(&bounds.upper),
    }
}

/// Locks `target` of `family` for `holder`. On return no other commit that touches it is under way,
/// and none begins before the release.
///
/// # Errors
/// `Busy`, after `timeout` or if it would close a cycle of transactions that wait for each other;
/// `NotFound`, if the family was dropped; `Poisoned`.
pub fn acquire(
    database: &Database,
    holder: &LockHolder,
    family: &FamilyData,
    (target, mode): (LockTarget, LockMode),
    timeout: Duration,
) -> Result<()> {
    let flag = Arc::clone(&family.lock_flag);
    holder.acquire(database, vec![LockRequest { flag, target, mode }], timeout)?;
    if cfg!(seeded_fault = "lock_flag_not_ordered") {
        family.lock_flag.set();
        return Ok(());
    }
    let sequencer = lock(&database.log.sequencer);
    family.lock_flag.set();
    let (last, _) = sequencer.last();
    drop(sequencer);
    database.log.publisher.wait(last);
    database.health.check_log()
}

/// As what a writer asks for the locks of others.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// Its own locks, if it has any.
    pub holder: Option<&'a LockHolder>,
    /// How long it waits for those of others.
    pub timeout: Duration,
}

impl Writer<'_> {
    /// A writer without locks.
    #[must_use]
    pub fn plain(database: &Database) -> Self {
        Self { holder: None, timeout: database.options.lock_timeout }
    }

    fn owner(&self) -> Option<LockOwner> {
        self.holder.map(|holder| holder.owner)
    }

    /// Calls `commit` with the owner whose locks it may pass. If it fails with `Busy`, waits for
    /// the locks that `writes` need, and calls it again.
    ///
    /// # Errors
    /// `Busy`, if the locks cannot be had in time; what `commit` fails with.
    #[inline]
    pub(crate) fn commit<T>(
        &self,
        database: &Database,
        commit: impl Fn(Option<LockOwner>) -> Result<T>,
        writes: impl FnOnce() -> Vec<LockRequest>,
    ) -> Result<T> {
        match commit(self.owner()) {
            Err(error) if error.kind() == ErrorKind::Busy => {
                let new;
                let holder = match self.holder {
                    Some(holder) => holder,
                    None => {
                        new = LockHolder::new(database);
                        &new
                    }
                };
                holder.acquire(database, writes(), self.timeout)?;
                commit(Some(holder.owner))
            }
            result => result,
        }
    }
}

/// Passes if `owner` may write `operation`. To be called with a place in the order.
///
/// # Errors
/// `Busy`.
#[inline]
pub(crate) fn admit_one(
    database: &Database,
    owner: Option<LockOwner>,
    family: &FamilyData,
    operation: &BatchOperation<'_>,
) -> Result<()> {
    if !family.lock_flag.is_set() {
        return Ok(());
    }
    database.locks.check(owner, std::iter::once(write_of(family, operation)))
}

/// Passes if `owner` may write the operations of `batch`, which are of `families`. To be called
/// with a place in the order.
///
/// # Errors
/// `Busy`.
#[inline]
pub(crate) fn admit_batch(
    database: &Database,
    owner: Option<LockOwner>,
    batch: &BatchBytes,
    families: &[(FamilyId, Arc<FamilyData>)],
) -> Result<()> {
    if !families.iter().any(|(_, family)| family.lock_flag.is_set()) {
        return Ok(());
    }
    let is_flagged = |write: &LockRequest| write.flag.is_set();
    database.locks.check(owner, writes_of(batch, families).filter(is_flagged))
}

/// What `batch` writes.
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

/// What `operation` writes to `family`.
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
