//! What transactions ask of an engine: conditional commits, locks, and two-phase commit.

use super::Engine;
use crate::{
    catalog::family::{FamilyChanges, FamilyData},
    families::family_commit,
    lock_state::{
        lock_table::{LockMode, LockRequest, LockTarget},
        prepared_set::Undecided,
    },
    options::Durability,
    snapshots::LiveSnapshot,
    transactions::{
        conditional_commit::{self, Conditions},
        footprint,
        own_writes::IndexedWrites,
        prepared,
    },
    write::locks::{self, LockHolder},
};
use siltdb_base::{
    error::Result,
    id::{FamilyId, SequenceNumber},
};
use siltdb_disk::{
    batch::BatchBytes,
    prepared::{Decision, PreparedBatch},
};
use siltdb_tree::read::{changed::Since, visible::reader::OwnWrites};
use std::time::Duration;

impl Engine {
    /// Commits `batch` if nothing that `conditions` name has changed. Returns the sequence number
    /// of its last operation.
    ///
    /// # Errors
    /// As [`conditional_commit::commit_if`].
    pub fn commit_if(
        &self,
        batch: &BatchBytes,
        durability: Durability,
        conditions: &Conditions<'_>,
    ) -> Result<SequenceNumber> {
        conditional_commit::commit_if(self.writable()?, batch, durability, conditions)
    }

    /// Prepares `batch` as the transaction `id`.
    ///
    /// # Errors
    /// As [`prepared::prepare`].
    pub fn prepare(
        &self,
        id: &[u8],
        batch: &BatchBytes,
        conditions: &Conditions<'_>,
    ) -> Result<Undecided> {
        prepared::prepare(self.writable()?, id, batch, conditions)
    }

    /// Prepares a transaction that was prepared in another database.
    ///
    /// # Errors
    /// As [`prepared::prepare_again`].
    pub fn prepare_again(&self, transaction: &PreparedBatch) -> Result<()> {
        prepared::prepare_again(self.writable()?, transaction)
    }

    /// Decides a prepared transaction.
    ///
    /// # Errors
    /// As [`prepared::decide`].
    pub fn decide(
        &self,
        id: &[u8],
        number: Option<SequenceNumber>,
        decision: Decision,
        durability: Durability,
    ) -> Result<SequenceNumber> {
        prepared::decide(self.writable()?, id, number, decision, durability)
    }

    /// A holder without locks.
    #[must_use]
    pub fn lock_holder(&self) -> LockHolder {
        LockHolder::new(&self.database().locks)
    }

    /// Locks a key or range of `family` for `holder`.
    ///
    /// # Errors
    /// As [`locks::acquire`].
    pub fn lock(
        &self,
        holder: &LockHolder,
        family: &FamilyData,
        target: LockTarget,
        mode: LockMode,
        timeout: Duration,
    ) -> Result<()> {
        locks::acquire(self.writable()?, holder, family, target, mode, timeout)
    }

    /// Locks all of `requests` for `holder`, or none.
    ///
    /// # Errors
    /// As [`locks::acquire`].
    pub fn lock_all(
        &self,
        holder: &LockHolder,
        requests: Vec<LockRequest>,
        timeout: Duration,
    ) -> Result<()> {
        locks::acquire_all(self.writable()?.database(), holder, requests, timeout)
    }

    /// Checks that `key` was not changed after `snapshot`.
    ///
    /// # Errors
    /// `Conflict`; failures of reading a table.
    pub fn check_unchanged(
        &self,
        family: &FamilyData,
        key: &[u8],
        snapshot: &LiveSnapshot,
    ) -> Result<()> {
        let snapshot = snapshot.sequence();
        let since = Since { snapshot, after: snapshot, upto: SequenceNumber::MAX };
        footprint::check_key(&family.tree.view(), family, key, since)
    }

    /// The memtable of a family, with everything that `writes` has for it; `None` if that is
    /// nothing.
    ///
    /// # Errors
    /// As [`IndexedWrites::of`].
    pub fn own_writes(
        &self,
        indexed: &mut IndexedWrites,
        writes: &BatchBytes,
        family: FamilyId,
    ) -> Result<Option<OwnWrites>> {
        indexed.of(&self.database().memory, writes, family)
    }

    /// Commits `batch` and changes of families together. Durable on return.
    ///
    /// # Errors
    /// As [`family_commit::commit_with_families`].
    pub fn commit_with_families(
        &self,
        batch: &BatchBytes,
        changes: &FamilyChanges,
        conditions: &Conditions<'_>,
    ) -> Result<SequenceNumber> {
        let commit = family_commit::commit_with_families;
        self.at_work(|database| commit(database, batch, changes, conditions))
    }
}
