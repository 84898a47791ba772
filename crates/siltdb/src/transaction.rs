//! Transactions: atomic reads and writes over any number of families, isolated by an [`Isolation`]
//! level.
//!
//! A transaction is optimistic. It takes locks only on request (`locks`), and its commit checks for
//! conflicts. [`Shared::commit`] states what each level requires; the engine checks it
//! (`siltdb_engine::transactions::conditional_commit`).
//!
//! The writes are the bytes of a batch. The first read of one also inserts them into memtables of
//! the transaction, which its readers merge over the committed data. So its own range deletions,
//! merges and expiry follow the rules of all others.

use crate::{
    batch::{BatchMark, WriteBatch},
    family::Family,
    isolation::{Isolation, TransactionOptions},
    key_range::KeyRange,
    read::Read,
    source::{Pinned, ReadSource},
    write_options::WriteOptions,
};
use siltdb_base::{
    budget::{Charge, Part},
    error::{Error, ErrorKind, Result},
    key::EntryKind,
    memory::allocator::give_back_freed,
    seeded_fault,
    slice::Pinnable,
    sync::lock,
};
use siltdb_disk::batch::BatchOperation;
use siltdb_engine::{
    engine::Engine,
    families::family_commit::commit_with_families,
    kit::turns::Lines,
    read::begin_snapshot,
    snapshots::{LiveSnapshot, read_point::FirstExpiry},
    transactions::{
        conditional_commit::{Conditions, Writes, commit_if},
        footprint::Footprint,
        own_writes::IndexedWrites,
    },
    write::locks::{LockHolder, Writer},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

mod families;
mod locks;
pub(crate) mod prepare;
mod savepoints;
mod sight;
pub(crate) mod snapshot_reads;
mod write_kinds;

/// The charge of a transaction changes by multiples of this, in bytes.
const CHARGE_STEP_BYTES: usize = 64 << 10;

/// Each time a transaction has grown by this part of the budget, freed memory goes back to the
/// system: the allocator may keep as much as it takes.
const GIVE_BACK_PART: usize = 16;

/// The result of a commit.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// The commit's place in the order of writes. [`Snapshot::sequence`](crate::Snapshot::sequence)
    /// of every later snapshot is at least this. For a transaction without writes, the state that
    /// it read.
    pub sequence: u64,
}

/// A group of reads and writes that commits atomically.
///
/// Its methods that read and write keys use the family `default`; [`Transaction::family`] gives
/// handles for the others. All handles belong to one transaction, which any thread may use. It ends
/// with [`commit`](Self::commit), [`prepare`](Self::prepare) or [`rollback`](Self::rollback).
/// Dropping the last handle rolls it back. Until it ends, the versions that it may read are kept on
/// disk and in memory.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{ErrorKind, Isolation, Read};
///
/// db.put("apples", "3")?;
/// let transaction = db.begin(Isolation::Serializable);
/// let apples = transaction.get("apples")?;
/// transaction.put("pears", apples.unwrap())?;
/// // Another is faster.
/// db.put("apples", "4")?;
/// let error = transaction.commit().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// assert!(!db.contains("pears")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Transaction {
    pub(crate) place: Family,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    options: TransactionOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// What it had written when a commit or a lock of it failed with `Conflict`.
    conflict: Option<Lines>,
    /// The state that all reads see, from [`Isolation::RepeatableRead`] on.
    snapshot: Option<LiveSnapshot>,
    writes: WriteBatch,
    /// The part of the writes that is indexed for reads.
    indexed: IndexedWrites,
    /// Shared with the cursors of the transaction.
    reads: Arc<Mutex<Footprint>>,
    /// When the first expires of what they read.
    first_expiry: Arc<FirstExpiry>,
    savepoints: Vec<Savepoint>,
    /// The locks; `None` before the first request.
    locks: Option<Arc<LockHolder>>,
    /// For writes and reads, once they take more than a little.
    charge: Option<Charge>,
}

/// What [`Transaction::abandon`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// A transaction that conflicted with another: it may succeed if it runs again.
    Conflicted,
    /// A transaction that met no conflict.
    Unharmed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Active,
    Committed,
    Prepared,
    RolledBack,
}

/// A named mark in the writes.
#[derive(Debug)]
struct Savepoint {
    name: String,
    mark: BatchMark,
}

/// The lines of the keys that `writes` change; all, if there are ranges among them.
#[cold]
fn written_lines(writes: &WriteBatch) -> Lines {
    let keys: Result<Vec<_>> = writes
        .bytes
        .operations()
        .map(|operation| match operation? {
            BatchOperation { kind: EntryKind::RangeDelete, .. } => {
                Err(Error::invalid("a range has many keys"))
            }
            BatchOperation { family, key, .. } => Ok((family, key)),
        })
        .take(Lines::KEYS_MAX + 1)
        .collect();
    keys.map_or(Lines::ALL, Lines::of)
}

impl State {
    fn new(engine: &Engine, isolation: Isolation) -> Self {
        Self {
            phase: Phase::Active,
            conflict: None,
            snapshot: isolation
                .has_snapshot()
                .then(|| begin_snapshot(&engine.database().read_rooms())),
            writes: WriteBatch::new(),
            indexed: IndexedWrites::default(),
            reads: Arc::default(),
            first_expiry: Arc::default(),
            savepoints: Vec::new(),
            locks: None,
            charge: None,
        }
    }

    fn check_active(&self) -> Result<()> {
        let message = match self.phase {
            Phase::Active => return Ok(()),
            Phase::Committed => "the transaction was committed",
            Phase::Prepared => "the transaction was prepared, and is decided by its id",
            Phase::RolledBack => "the transaction was rolled back",
        };
        Err(Error::invalid(message).with_hint("`reset` makes it a new one"))
    }

    fn end(&mut self, phase: Phase) {
        self.phase = phase;
        self.snapshot = None;
        self.writes.clear();
        self.indexed.clear();
        self.reads = Arc::default();
        self.first_expiry = Arc::default();
        self.savepoints.clear();
        self.charge = None;
        self.release_locks();
    }

    /// Releases the locks, also while another thread of the transaction waits for one.
    fn release_locks(&mut self) {
        if let Some(locks) = self.locks.take() {
            locks.release();
        }
    }

    /// Remembers that `result` is a conflict, and returns it.
    ///
    /// # Seeded faults
    /// `conflict_not_remembered`: an update ends with the error that its closure made of it.
    fn note_conflict<T>(&mut self, result: Result<T>) -> Result<T> {
        let is_conflict = |error: &Error| error.kind() == ErrorKind::Conflict;
        let is_remembered = !seeded_fault!("conflict_not_remembered");
        if is_remembered && result.as_ref().is_err_and(is_conflict) {
            self.conflict.get_or_insert_with(|| written_lines(&self.writes));
        }
        result
    }

    /// Charges `bytes` of memory to the budget, in steps; what is indexed is charged by itself.
    fn charge(&mut self, bytes: usize, engine: &Engine) {
        let charged = bytes / CHARGE_STEP_BYTES * CHARGE_STEP_BYTES;
        let before = self.charge.as_ref().map_or(0, Charge::bytes);
        if charged == before {
            return;
        }
        let memory = &engine.database().memory;
        let new = || Charge::new(&memory.budget, Part::Transactions, 0);
        self.charge.get_or_insert_with(new).resize(charged);
        // The cache gives way.
        memory.cache.fit();
        let step = (memory.budget.limit() / GIVE_BACK_PART).max(CHARGE_STEP_BYTES);
        let is_given_back = !seeded_fault!("freed_memory_kept_by_transactions");
        if charged / step > before / step && is_given_back {
            give_back_freed();
        }
    }

    /// The memory without the index of the writes, which is charged by itself, in bytes.
    fn memory_bytes(&self) -> usize {
        let locks = self.locks.as_ref().map_or(0, |locks| locks.memory_bytes());
        self.writes.bytes() + lock(&self.reads).memory_bytes() + locks
    }
}

impl Shared {
    /// Locks the state; an error if the transaction has ended.
    fn active(&self) -> Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        state.check_active()?;
        Ok(state)
    }

    fn check_memory(&self, state: &mut State) -> Result<()> {
        let bytes_max = self.options.memory_bytes_max(self.engine.database().options.memory_budget);
        let unindexed = state.memory_bytes();
        // Each write counts with what its index takes, so that a later read stays within the bound.
        let bytes = unindexed.saturating_add(IndexedWrites::bytes_max(&state.writes.bytes));
        if bytes <= bytes_max {
            state.charge(unindexed, &self.engine);
            return Ok(());
        }
        Err(Error::invalid("the transaction takes more memory than it may")
            .with_mismatch(format_args!("at most {bytes_max} bytes"), bytes)
            .with_hint("commit in smaller steps, or give more `memory_bytes`"))
    }

    fn commit(&self) -> Result<CommitInfo> {
        let mut state = self.active()?;
        let durability =
            self.options.durability.unwrap_or(self.engine.database().options.durability);
        let committed = self.validated(&state, |conditions| {
            let WriteBatch { bytes, changes, .. } = &state.writes;
            match changes.is_empty() {
                true => commit_if(self.engine.writable()?, bytes, durability, conditions),
                false => self
                    .engine
                    .at_work(|database| commit_with_families(database, bytes, changes, conditions)),
            }
        });
        // After an error nothing was written, and the reads may be outdated.
        let phase = if committed.is_ok() { Phase::Committed } else { Phase::RolledBack };
        let committed = state.note_conflict(committed);
        state.end(phase);
        Ok(CommitInfo { sequence: committed?.0 })
    }

    /// Calls `run` with what its level demands of a commit.
    fn validated<T>(
        &self,
        state: &State,
        run: impl FnOnce(&Conditions<'_>) -> Result<T>,
    ) -> Result<T> {
        let isolation = self.options.isolation;
        let snapshot = state.snapshot.as_ref().map(LiveSnapshot::sequence);
        let reads = lock(&state.reads);
        run(&Conditions {
            snapshot,
            first_expiry: Some(&state.first_expiry),
            reads: match isolation {
                Isolation::RepeatableRead | Isolation::Serializable => Some(&*reads),
                _ => None,
            },
            writes: match isolation {
                Isolation::Snapshot => Writes::Checked,
                _ => Writes::Unchecked,
            },
            writer: Writer { holder: state.locks.as_deref(), timeout: self.options.lock_timeout },
        })
    }
}

impl Transaction {
    pub(crate) fn begin(place: &Family, options: TransactionOptions) -> Self {
        let engine = place.place.engine.clone();
        let state = Mutex::new(State::new(&engine, options.isolation));
        Self { place: place.clone(), shared: Arc::new(Shared { engine, options, state }) }
    }

    /// Returns a handle on the same transaction for the keys of `family`.
    ///
    /// # Errors
    /// `InvalidArgument`, if the family is of another open database.
    pub fn family(&self, family: &Family) -> Result<Self> {
        if family.place.open_id != self.place.place.open_id {
            let message = "the family is of another open database than the transaction";
            return Err(Error::invalid(message));
        }
        Ok(Self { place: family.clone(), shared: Arc::clone(&self.shared) })
    }

    /// Returns the isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.shared.options.isolation
    }

    /// Returns whether the transaction has neither committed, been prepared nor rolled back.
    #[must_use]
    pub fn is_active(&self) -> bool {
        lock(&self.shared.state).phase == Phase::Active
    }

    /// Returns the number of operations written so far. A range deletion is one or two.
    #[must_use]
    pub fn written(&self) -> usize {
        lock(&self.shared.state).writes.len()
    }

    fn write(&self, add: impl FnOnce(&mut WriteBatch, &Family) -> Result<()>) -> Result<()> {
        let mut state = self.shared.active()?;
        if !state.writes.creates(self.place.id()) {
            self.place.place.check_writable()?;
        }
        let mark = state.writes.mark();
        add(&mut state.writes, &self.place)?;
        let checked = self.shared.check_memory(&mut state);
        if checked.is_err() {
            state.writes.truncate(mark);
        }
        checked
    }

    /// Sets the value of a key. The transaction reads it at once, others after the commit.
    ///
    /// # Errors
    /// As [`Family::put`]; `InvalidArgument`, if the transaction has ended or exceeds its memory.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|writes, family| writes.put(family, key, value))
    }

    /// Sets the value of a key with the expiry of `options`, of which the durability does not
    /// count: the commit has its own.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.write(|writes, family| writes.put_with(family, key, value, options))
    }

    /// Sets the value of a key with this expiry, in ms since 1970, or without one.
    pub(crate) fn put_at(&self, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> Result<()> {
        self.write(|writes, family| writes.put_at(family, key, value, expiry_ms))
    }

    /// Sets the value of a key without an expiry, also in a family with a TTL.
    pub(crate) fn put_lasting(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|writes, family| writes.put_lasting(family, key, value))
    }

    /// Sets the value of a key, which expires after `time`; see [`Family::put_for`].
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        self.write(|writes, family| writes.put_for(family, key, value, time))
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(|writes, family| writes.delete(family, key))
    }

    /// Deletes every key of a range. The cost does not depend on their number.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.write(|writes, family| writes.delete_range(family, range))
    }

    /// Deletes every key that begins with `prefix`; see [`Transaction::delete_range`].
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.write(|writes, family| writes.delete_prefix(family, prefix))
    }

    /// Writes a merge operand for a key; see [`Family::merge`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; `InvalidArgument`, if the family has no merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.write(|writes, family| {
            family.place.family.check_operator()?;
            writes.merge(family, key, operand)
        })
    }

    /// Commits all writes atomically. The transaction has ended on return, also after an error.
    ///
    /// Costs as a batch of the same writes. If others have committed since it began, each key that
    /// the level checks costs a search in memory. Each range costs a walk over its new entries.
    /// Durable on return by the transaction's options.
    ///
    /// # Errors
    /// `Conflict`, if another commit changed first what the level checks, if a value of that has
    /// expired, or in a deadlock; `Busy`, if another transaction holds a lock on a written key for
    /// longer than `lock_timeout`. As [`Db::write`](crate::Db::write); `InvalidArgument`, if the
    /// transaction has ended.
    pub fn commit(&self) -> Result<CommitInfo> {
        self.shared.commit()
    }

    /// Ends the transaction and discards its writes.
    ///
    /// # Errors
    /// `InvalidArgument`, if the transaction has ended.
    pub fn rollback(&self) -> Result<()> {
        self.shared.active()?.end(Phase::RolledBack);
        Ok(())
    }

    /// Rolls back, unless the transaction has ended: a clone must not go on writing.
    pub(crate) fn abandon(&self) -> Abandoned {
        let mut state = lock(&self.shared.state);
        if state.phase == Phase::Active {
            state.end(Phase::RolledBack);
        }
        match state.conflict {
            Some(_) => Abandoned::Conflicted,
            None => Abandoned::Unharmed,
        }
    }

    /// The lines of the keys that it had written when it conflicted; all, if it did not.
    pub(crate) fn conflict_lines(&self) -> Lines {
        lock(&self.shared.state).conflict.unwrap_or(Lines::ALL)
    }

    /// Begins a new transaction with the same options on this handle. The previous one is rolled
    /// back, unless it was committed or prepared.
    pub fn reset(&self) {
        let mut state = lock(&self.shared.state);
        state.release_locks();
        *state = State::new(&self.shared.engine, self.shared.options.isolation);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.shared.state);
        self.place
            .place
            .describe(f, "Transaction")
            .field("isolation", &self.shared.options.isolation)
            .field("phase", &state.phase)
            .field("operations", &state.writes.len())
            .finish()
    }
}

impl ReadSource for Transaction {
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        self.sight()?.look(key, look)
    }

    fn pin(&self) -> Result<Pinned> {
        self.sight()?.pin()
    }
}

impl Read for Transaction {}
