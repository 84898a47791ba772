//! Commits that happen only if nothing they depend on has changed (DESIGN D20).
//!
//! It knows what must not have changed, not why.
//!
//! 1. Look for changes since the snapshot among everything in memory, outside any lock. Most
//!    conflicts end here, at no cost to others.
//! 2. Reserve a place in the order, as every commit does.
//! 3. Wait until the commits before are published, and look for changes among those that came
//!    between 1 and 2: now nothing can come between any more.
//! 4. If something changed, the place becomes void: nothing of the commit is in the log or visible.
//!
//! The commits behind wait for 3. It reads memory, and a table only if one was flushed since the
//! snapshot.

use crate::{
    commit::{
        BatchFamilies, Committed, check_families, commit_nothing, commit_parts_if, insert_batch,
        kind_of, settle,
    },
    database::Database,
    footprint::{Footprint, check_key, check_range},
    locks::{Writer, admit_batch, writes_of},
    log::sequencer::Reservation,
    options::Durability,
};
use siltdb_base::{error::Result, id::SequenceNumber, key::EntryKind, slice::Slice};
use siltdb_disk::batch::{BatchBytes, BatchOperation};
use siltdb_tree::read::{changed::Since, visible::bounds::Bounds};

/// What must not have changed for a commit to happen.
#[derive(Debug)]
pub struct Conditions<'a> {
    /// Since when: a live snapshot. `None`: nothing is checked.
    pub snapshot: Option<SequenceNumber>,
    /// What was read.
    pub reads: Option<&'a Footprint>,
    /// Whether what the batch itself writes counts as well.
    pub writes: Writes,
    /// Its locks, and how long it waits for those of others.
    pub writer: Writer<'a>,
}

/// Whether a commit depends on the keys it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Another commit may have written them.
    Unchecked,
    /// The first commit wins.
    Checked,
}

impl Conditions<'_> {
    fn check(&self, batch: &BatchBytes, families: &BatchFamilies, since: Since) -> Result<()> {
        if let Some(reads) = self.reads {
            reads.check(since)?;
        }
        if self.writes == Writes::Checked && !cfg!(seeded_fault = "writes_not_validated") {
            check_writes(batch, families, since)?;
        }
        Ok(())
    }

    /// Checks everything that is in memory, and returns up to where it was published before.
    fn check_published(
        &self,
        database: &Database,
        batch: &BatchBytes,
        families: &BatchFamilies,
    ) -> Result<SequenceNumber> {
        let published = database.log.publisher.published();
        if let Some(snapshot) = self.snapshot
            && published > snapshot
        {
            // What is in memory beyond that will be published before us, too.
            let since = Since { snapshot, after: snapshot, upto: SequenceNumber::MAX };
            self.check(batch, families, since)?;
        }
        Ok(published)
    }

    /// Waits until everything `before` is published, and checks what is newer than `published`.
    fn check_between(
        &self,
        database: &Database,
        batch: &BatchBytes,
        families: &BatchFamilies,
        (published, before): (SequenceNumber, SequenceNumber),
    ) -> Result<()> {
        let Some(snapshot) = self.snapshot.filter(|_| before > published) else {
            return Ok(());
        };
        if cfg!(seeded_fault = "validate_only_before_reservation") {
            return Ok(());
        }
        database.log.publisher.wait(before);
        database.health.check_log()?;
        let since = Since { snapshot, after: published, upto: before };
        self.check(batch, families, since)
    }
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
        if cfg!(seeded_fault = "deleted_ranges_not_validated") {
            continue;
        }
        let bound = |key| Some(Slice::copy_from(key));
        let bounds = Bounds { lower: bound(key), upper: bound(payload) };
        check_range(view, family, &bounds, since)?;
    }
    Ok(())
}

/// Makes `batch` part of the order of the database if nothing that `conditions` name has changed.
/// Returns the sequence number of its last operation; for an empty batch, whose conditions do not
/// matter, the snapshot, or without one the newest number that readers see.
///
/// # Errors
/// `Conflict`; otherwise as [`commit`](crate::commit::commit). In all cases but `Poisoned` nothing
/// of the batch was written.
pub fn commit_if(
    database: &Database,
    batch: &BatchBytes,
    durability: Durability,
    conditions: &Conditions<'_>,
) -> Result<SequenceNumber> {
    if batch.is_empty() {
        let published = database.log.publisher.published();
        commit_nothing(database, durability)?;
        return Ok(conditions.snapshot.unwrap_or(published));
    }
    let (families, counts) = check_families(database, batch, &[])?;
    let record = (kind_of(durability), &[batch.as_bytes()][..]);
    let commit = |owner| {
        let published = conditions.check_published(database, batch, &families)?;
        let admit = |reservation: &Reservation| {
            admit_batch(database, owner, batch, &families)?;
            let before = SequenceNumber(reservation.first.0 - 1);
            conditions.check_between(database, batch, &families, (published, before))
        };
        commit_parts_if(database, record, counts, admit, |reservation| {
            insert_batch(database, batch, (reservation, reservation.first), &families);
        })
    };
    let writes = || writes_of(batch, &families).collect();
    let Committed { end, last } = conditions.writer.commit(database, commit, writes)?;
    settle(database, end, durability)?;
    Ok(last)
}
