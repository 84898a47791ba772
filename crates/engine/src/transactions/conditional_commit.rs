//! Optimistic commits: a batch is committed only if nothing that it depends on has changed.
//!
//! The module knows what must not have changed, not which transaction asks.
//! 1. Look for changes since the snapshot in all memtables, outside any lock. Most conflicts are
//!    found here, at no cost to other commits.
//! 2. Reserve a place in the order, as every commit does.
//! 3. Wait until the earlier commits are published, and look for changes among those that came
//!    between 1 and 2. No commit can come between any more.
//! 4. If something changed, void the reservation: nothing of the commit is in the log or visible.
//!
//! A drop of a family that is no commit has no place in the order (`family_commit::begin_drop`). It
//! is looked for at each commit, before and after step 2.
//!
//! Later commits wait for step 3. It reads memory, and a table only if one was flushed since the
//! snapshot.

use crate::{
    catalog::Catalog,
    database::Database,
    database::writable::Writable,
    lock_state::lock_table::LockRequest,
    log::Log,
    log::sequencer::Reservation,
    options::Durability,
    options::EngineOptions,
    snapshots::read_point::FirstExpiry,
    transactions::footprint::{Footprint, check_key, check_range},
    write::{
        commit::{
            BatchFamilies, Committed, check_families, commit_nothing, commit_parts_if,
            insert_batch, kind_of, settle,
        },
        locks::{Writer, admit_batch, writes_of},
        separation::{separate_batch, stored_batch},
    },
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    key::EntryKind,
    seeded_fault,
    slice::Slice,
};
use siltdb_disk::batch::{BatchBytes, BatchOperation};
use siltdb_tree::read::{changed::Since, visible::bounds::Bounds};

/// The conditions of a commit: what must not have changed since its snapshot.
#[derive(Debug)]
pub struct Conditions<'a> {
    /// The live snapshot since which changes count. `None`: nothing is checked.
    pub snapshot: Option<SequenceNumber>,
    /// When the first of the values expires that the transaction read and that must be there at
    /// its commit; `None`: none need be.
    pub first_expiry: Option<&'a FirstExpiry>,
    /// The keys and ranges that the transaction read.
    pub reads: Option<&'a Footprint>,
    /// Whether the keys that the batch writes are checked as well.
    pub writes: Writes,
    /// The owner's locks, and how long the commit waits for locks of others.
    pub writer: Writer<'a>,
}

/// Whether a commit conflicts with other commits to the keys that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It does not: another commit may have written them.
    Unchecked,
    /// It does: the first commit wins.
    Checked,
}

impl Conditions<'_> {
    /// No conditions, and no locks.
    #[must_use]
    pub fn none(options: &EngineOptions) -> Self {
        let writer = Writer::plain(options);
        Self { snapshot: None, first_expiry: None, reads: None, writes: Writes::Unchecked, writer }
    }

    /// The locks on all that a commit of `batch` checks. While they are held, no other commit makes
    /// it conflict: what was read is locked against writers, what is written against all.
    ///
    /// # Errors
    /// `NotFound`, if a family was dropped; `Corruption`.
    pub fn locks(&self, catalog: &Catalog, batch: &BatchBytes) -> Result<Vec<LockRequest>> {
        let mut requests = self.reads.map(Footprint::lock_requests).unwrap_or_default();
        if self.writes == Writes::Checked {
            let (families, _) = check_families(catalog, batch, &[])?;
            requests.extend(writes_of(batch, &families));
        }
        Ok(requests)
    }

    fn check(&self, batch: &BatchBytes, families: &BatchFamilies, since: Since) -> Result<()> {
        if let Some(reads) = self.reads {
            reads.check(since)?;
        }
        if self.writes == Writes::Checked && !seeded_fault!("writes_not_validated") {
            check_writes(batch, families, since)?;
        }
        Ok(())
    }

    fn check_expiry(&self, options: &EngineOptions) -> Result<()> {
        match self.first_expiry {
            // A seeded fault: a commit may rely on what has expired.
            Some(first_expiry) if !seeded_fault!("expiry_not_validated") => {
                check_alive(options, first_expiry)
            }
            _ => Ok(()),
        }
    }

    /// Checks everything in memory. Returns the sequence number up to which commits were published
    /// before the check.
    pub(crate) fn check_published(
        &self,
        log: &Log,
        options: &EngineOptions,
        batch: &BatchBytes,
        families: &BatchFamilies,
    ) -> Result<SequenceNumber> {
        self.check_expiry(options)?;
        let published = log.publisher.published();
        if let Some(at) = self.snapshot {
            assert!(at <= published, "a commit would be checked from {at} on, beyond {published}");
        }
        // The drop of a family alone takes no number.
        self.reads.map_or(Ok(()), Footprint::check_families)?;
        if let Some(snapshot) = self.snapshot
            && published > snapshot
        {
            // Entries in memory beyond the published number will be published before this commit,
            // too.
            let since = Since { snapshot, after: snapshot, upto: SequenceNumber::MAX };
            self.check(batch, families, since)?;
        }
        Ok(published)
    }

    /// Waits until everything before `reservation` is published, and checks what is newer than
    /// `published`.
    pub(crate) fn check_between(
        &self,
        database: &Database,
        batch: &BatchBytes,
        families: &BatchFamilies,
        published: SequenceNumber,
        reservation: &Reservation,
    ) -> Result<()> {
        self.check_expiry(&database.options)?;
        // A drop without a number either sees this commit's place and waits for it, or is seen.
        if !seeded_fault!("drop_without_a_number_passes") {
            self.reads.map_or(Ok(()), Footprint::check_families)?;
        }
        let before = reservation.before();
        let Some(snapshot) = self.snapshot.filter(|_| before > published) else {
            return Ok(());
        };
        if seeded_fault!("validate_only_before_reservation") {
            return Ok(());
        }
        database.log.publisher.wait_before(reservation.ticket);
        database.health.check_log()?;
        let since = Since { snapshot, after: published, upto: before };
        self.check(batch, families, since)
    }
}

/// Checks that nothing has expired of what `first_expiry` has noted.
///
/// # Errors
/// `Conflict`.
pub fn check_alive(options: &EngineOptions, first_expiry: &FirstExpiry) -> Result<()> {
    match first_expiry.at_ms() {
        Some(expiry_ms) if expiry_ms <= options.clock.wall_ms() => Err(expired()),
        _ => Ok(()),
    }
}

#[cold]
fn expired() -> Error {
    Error::new(ErrorKind::Conflict, "a value that the transaction read has expired")
        .with_hint("run the transaction again")
}

fn check_writes(batch: &BatchBytes, families: &BatchFamilies, since: Since) -> Result<()> {
    let views: Vec<_> = families.iter().map(|(_, family)| family.tree.view()).collect();
    for operation in batch.operations() {
        let BatchOperation { family, kind, key, payload } = operation?;
        let index = families.iter().position(|(id, _)| *id == family);
        let index = index.expect("the families of a batch were collected before");
        let (family, view) = (&families[index].1, &views[index]);
        if kind != EntryKind::RangeDelete {
            check_key(view, family, key, since)?;
            continue;
        }
        if seeded_fault!("deleted_ranges_not_validated") {
            continue;
        }
        let bound = |key| Some(Slice::copy_from(key));
        let bounds = Bounds { lower: bound(key), upper: bound(payload) };
        check_range(view, family, &bounds, since)?;
    }
    Ok(())
}

/// Commits `batch` if nothing that `conditions` name has changed.
///
/// Returns the sequence number of its last operation. An empty batch is not checked: it returns the
/// snapshot, or without one the newest published number.
///
/// # Errors
/// `Conflict` if something changed; otherwise as [`commit`](crate::write::commit::commit). Except
/// for `Poisoned`, nothing of the batch was written.
pub fn commit_if(
    writable: Writable<'_>,
    batch: &BatchBytes,
    durability: Durability,
    conditions: &Conditions<'_>,
) -> Result<SequenceNumber> {
    let database = writable.database();
    if batch.is_empty() {
        let published = database.log.publisher.published();
        commit_nothing(database, durability)?;
        return Ok(conditions.snapshot.unwrap_or(published));
    }
    let (families, counts) = check_families(&database.catalog, batch, &[])?;
    let separated = separate_batch(database, batch, &families)?;
    let (batch, separated) = stored_batch(batch, separated.as_ref());
    let (kind, parts) = (kind_of(durability), &[batch.as_bytes()][..]);
    let commit = |owner| {
        let published =
            conditions.check_published(&database.log, &database.options, batch, &families)?;
        let admit = |reservation: &Reservation| {
            admit_batch(&database.locks, owner, batch, &families)?;
            conditions.check_between(database, batch, &families, published, reservation)
        };
        commit_parts_if(database, kind, parts, counts, admit, |reservation| {
            separated.note(reservation.at().segment);
            insert_batch(&database.memory, batch, reservation, reservation.first, &families);
        })
    };
    let writes = || writes_of(batch, &families).collect();
    let Committed { end, last } =
        conditions.writer.commit(&database.locks, &database.options, commit, writes)?;
    settle(database, end, durability)?;
    Ok(last)
}
