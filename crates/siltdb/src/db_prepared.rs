//! Prepared transactions of a database: which there are, and deciding them.

use crate::{
    db::Db,
    transaction::CommitInfo,
    transaction::prepare::{PreparedTransaction, commit_prepared},
    write_options::WriteOptions,
};
use siltdb_base::error::Result;
use siltdb_disk::prepared::Decision;
use siltdb_engine::{options::Durability, transactions::prepared::decide};

impl Db {
    /// The transactions that were prepared and wait for their decision, by id. After a reopen they
    /// are there again, with their locks; a database that is opened to be read lists them too.
    ///
    /// Costs a lock, and allocates as many handles; reads no disk.
    #[must_use]
    pub fn prepared(&self) -> Vec<PreparedTransaction> {
        let undecided = self.engine().database().prepared.undecided().into_iter();
        undecided.map(|undecided| PreparedTransaction::new(self.engine(), undecided)).collect()
    }

    /// Commits the prepared transaction `id`. Its operations take their place in the order of the
    /// database now: readers and subscriptions see them from here on. On return that is on stable
    /// storage.
    ///
    /// # Errors
    /// `NotFound`, if no transaction waits for its decision under this id: it was decided, or never
    /// prepared. `Busy`, if another thread decides it. Otherwise as [`Db::write`], and it waits as
    /// before; after `Poisoned` a reopen tells whether it was decided.
    pub fn commit_prepared(&self, id: impl AsRef<[u8]>) -> Result<CommitInfo> {
        self.commit_prepared_with(id, &WriteOptions::new())
    }

    /// As [`Db::commit_prepared`], with a durability of its own. A power loss may take a decision
    /// that is not synced; the transaction is undecided again then, and not lost.
    ///
    /// # Errors
    /// As [`Db::commit_prepared`]; `InvalidArgument`, for `Volatile`.
    pub fn commit_prepared_with(
        &self,
        id: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<CommitInfo> {
        let durability = options.durability.unwrap_or(Durability::Synced);
        commit_prepared(self.engine(), id.as_ref(), None, durability)
    }

    /// Rolls the prepared transaction `id` back: nothing of it is written, and its locks are
    /// released. On return that is on stable storage.
    ///
    /// # Errors
    /// As [`Db::commit_prepared`].
    pub fn rollback_prepared(&self, id: impl AsRef<[u8]>) -> Result<()> {
        self.rollback_prepared_with(id, &WriteOptions::new())
    }

    /// As [`Db::rollback_prepared`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::commit_prepared_with`].
    pub fn rollback_prepared_with(
        &self,
        id: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let durability = options.durability.unwrap_or(Durability::Synced);
        decide(self.engine().writable()?, id.as_ref(), None, Decision::RollBack, durability)
            .map(drop)
    }
}
