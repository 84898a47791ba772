//! Prepared transactions: durable, and decided later, also after a reopen.
//!
//! How they are kept is the engine's business (`siltdb_engine::transactions::prepared`).

use super::{CommitInfo, Phase, Transaction};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, SequenceNumber},
};
use siltdb_disk::prepared::{Decision, PreparedBatch};
use siltdb_engine::{
    engine::Engine,
    lock_state::prepared_set::Undecided,
    options::Durability,
    transactions::prepared::{decide, prepare},
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A transaction that is prepared and waits for its decision.
///
/// It is a handle: dropping it decides nothing. [`Db::prepared`](crate::Db::prepared) gives it
/// again, also after a reopen. It keeps the database open.
#[derive(Clone)]
pub struct PreparedTransaction {
    engine: Engine,
    number: SequenceNumber,
    transaction: Arc<PreparedBatch>,
}

impl fmt::Debug for PreparedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedTransaction")
            .field("id", &format_args!("\"{}\"", self.id().escape_ascii()))
            .field("families", &self.families())
            .field("operations", &self.operations())
            .field("bytes", &self.bytes())
            .field("since", &self.since())
            .finish()
    }
}

impl PreparedTransaction {
    pub(crate) fn new(engine: &Engine, undecided: Undecided) -> Self {
        let Undecided { number, transaction, .. } = undecided;
        Self { engine: engine.clone(), number, transaction }
    }

    /// The id that [`Transaction::prepare`] was given.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.transaction.id
    }

    /// The families that it writes to, in the order in which it first does; of those that were
    /// dropped since, its commit leaves the operations out.
    #[must_use]
    pub fn families(&self) -> Vec<FamilyId> {
        let mut families = Vec::new();
        for operation in self.transaction.batch.operations().filter_map(Result::ok) {
            if !families.contains(&operation.family) {
                families.push(operation.family);
            }
        }
        families
    }

    /// How many operations its commit applies, a range deletion being one or two.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.transaction.batch.count() as usize
    }

    /// What they take in the log, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.transaction.batch.as_bytes().len()
    }

    /// When it was prepared, by the wall clock.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        let since = Duration::from_millis(self.transaction.since_ms);
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }

    /// Makes what it wrote part of the order of the database, durably; as
    /// [`Db::commit_prepared`](crate::Db::commit_prepared).
    ///
    /// # Errors
    /// As [`Db::commit_prepared`](crate::Db::commit_prepared); `NotFound` too if another
    /// transaction was prepared with its id since.
    pub fn commit(&self) -> Result<CommitInfo> {
        commit_prepared(&self.engine, self.id(), Some(self.number), Durability::Synced)
    }

    /// Ends it, durably; nothing of it is written.
    ///
    /// # Errors
    /// As [`PreparedTransaction::commit`].
    pub fn rollback(&self) -> Result<()> {
        let (number, decision) = (Some(self.number), Decision::RollBack);
        decide(self.engine.writable()?, self.id(), number, decision, Durability::Synced).map(drop)
    }
}

/// Commits the prepared transaction with `id`, and with `number`, if one is given.
pub(crate) fn commit_prepared(
    engine: &Engine,
    id: &[u8],
    number: Option<SequenceNumber>,
    durability: Durability,
) -> Result<CommitInfo> {
    let last = decide(engine.writable()?, id, number, Decision::Commit, durability)?;
    Ok(CommitInfo { sequence: last.0 })
}

impl Transaction {
    /// Prepares it under an id, so that two databases or more can commit together: first each is
    /// prepared, then each is told the decision. On return it is on stable storage. It waits for
    /// its decision, also after a crash: [`Db::commit_prepared`](crate::Db::commit_prepared) or
    /// [`Db::rollback_prepared`](crate::Db::rollback_prepared). docs/two-phase-commit.md has an
    /// example with two databases.
    ///
    /// It is validated as for a [`commit`](Self::commit), also if it wrote nothing. A commit after
    /// that never conflicts. Until the decision these are locked: what it wrote, what it has
    /// locked, and what it read at [`RepeatableRead`](crate::Isolation::RepeatableRead) and
    /// [`Serializable`](crate::Isolation::Serializable). Writers of these keys wait, and fail with
    /// `Busy`, as at [`lock_key`](Self::lock_key); readers see what was there before. A family that
    /// it writes to can be dropped; what it wrote there goes with the family.
    ///
    /// An id has 1 to 255 bytes and is free again after the decision. At most 1024 transactions
    /// wait for their decision, which take at most 256 MiB together.
    ///
    /// Costs a lock for each key, as many bytes in the log as a commit, and a sync. Its commit
    /// writes them again, so that the log need not keep the first copy.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Isolation, Read};
    ///
    /// let transaction = db.begin(Isolation::Serializable);
    /// transaction.put("k", "v")?;
    /// transaction.prepare("transfer 1")?;
    /// assert!(!db.contains("k")?);
    /// // Perhaps in another process, after a crash:
    /// assert_eq!(db.prepared()[0].id(), b"transfer 1");
    /// db.commit_prepared("transfer 1")?;
    /// assert!(db.contains("k")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists`, if a transaction waits for its decision under this id; `InvalidArgument`,
    /// for a bad id, if too much waits, if it creates or drops families, or if it has ended: the
    /// transaction goes on. After others
    /// it is rolled back: `Conflict`, as [`commit`](Self::commit); `Busy`, if another holds a lock
    /// on what it would lock, after its `lock_timeout`; otherwise as
    /// [`Db::write`](crate::Db::write).
    pub fn prepare(&self, id: impl AsRef<[u8]>) -> Result<PreparedTransaction> {
        let (shared, id) = (&self.shared, id.as_ref());
        let mut state = shared.active()?;
        state.writes.check_operations_alone()?;
        let prepared = shared.validated(&state, |conditions| {
            prepare(shared.engine.writable()?, id, &state.writes.bytes, conditions)
        });
        let prepared = state.note_conflict(prepared);
        match prepared.as_ref().map_err(Error::kind) {
            Err(ErrorKind::InvalidArgument | ErrorKind::AlreadyExists) => {}
            Err(_) => state.end(Phase::RolledBack),
            Ok(_) => state.end(Phase::Prepared),
        }
        Ok(PreparedTransaction::new(&shared.engine, prepared?))
    }
}
