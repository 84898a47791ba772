//! Locks of a transaction: pessimistic concurrency, where others wait instead of conflicting.

use super::{State, Transaction};
use crate::{family::Family, isolation::TransactionOptions, key_range::KeyRange};
use siltdb_base::{
    error::{Error, Result},
    slice::Slice,
    sync::lock,
};
use siltdb_engine::{
    lock_state::lock_table::{LockMode, LockRequest, LockTarget},
    read::ReadRange,
    snapshots::{LiveSnapshot, read_point::FirstExpiry},
    transactions::{
        conditional_commit::{Conditions, check_alive},
        footprint::check_unchanged,
    },
    write::locks::{LockHolder, acquire, request_bytes},
};
use std::sync::Arc;

/// The locks of an update take at most one part in this many of the memory of its transaction.
const LOCKS_OF_MEMORY: usize = 4;

impl Transaction {
    /// Locks a key exclusively and returns its newest value. No other transaction or write can
    /// change or lock the key until this transaction ends.
    ///
    /// From [`Isolation::RepeatableRead`](crate::Isolation::RepeatableRead) on, a key that changed
    /// after the start of the transaction can only be read in its old state. A write of it would
    /// conflict at the commit, so this call fails at once. The same holds for a value that has
    /// expired since. A lock does not hold the clock: the value may still expire before the commit.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Isolation;
    ///
    /// db.put("visits", "1")?;
    /// let transaction = db.begin(Isolation::ReadCommitted);
    /// let visits = transaction.get_for_update("visits")?.unwrap();
    /// assert_eq!(visits, b"1");
    /// // Others that write the key wait for this.
    /// transaction.put("visits", "2")?;
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::lock_key`]; `Conflict`, if the key changed after the state that the
    /// transaction reads; as [`Read::get`](crate::Read::get). After an error the lock may be held.
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        self.lock_key(key, LockMode::Exclusive)?;
        let mut state = self.shared.active()?;
        let family = &self.place.place.family;
        let snapshot = state.snapshot.as_ref().map(LiveSnapshot::sequence);
        let unchanged = snapshot.map_or(Ok(()), |at| check_unchanged(family, key, at));
        state.note_conflict(unchanged)?;
        drop(state);
        let (sight, first_expiry) = (self.sight()?, Arc::<FirstExpiry>::default());
        let validated = sight.first_expiry();
        let value = sight.noting(&first_expiry).look(key, |value| value.pin())?;
        if let Some(validated) = validated {
            validated.note(&first_expiry);
        }
        let alive = check_alive(&self.shared.engine.database().options, &first_expiry);
        lock(&self.shared.state).note_conflict(alive)?;
        Ok(value)
    }

    /// Locks a key, whether it exists or not, until the transaction ends. Writes of the key by
    /// other transactions and plain writes wait meanwhile. So do other locks of it, unless both are
    /// shared. Reads do not wait. A rollback to a savepoint keeps locks.
    ///
    /// If another transaction has locked the key, the call waits up to
    /// [`lock_timeout`](crate::TransactionOptions::lock_timeout), and for commits that are under
    /// way. Plain writes of the thread that holds the lock wait, too.
    ///
    /// # Errors
    /// `Busy` after the timeout; `Conflict` in a deadlock: the message names the transactions by
    /// [`lock_number`](Self::lock_number), and only a rollback resolves it. The transaction
    /// continues without the lock. As [`Transaction::put`].
    pub fn lock_key(&self, key: impl AsRef<[u8]>, mode: LockMode) -> Result<()> {
        self.lock(LockTarget::Key(Slice::copy_from(key.as_ref())), mode)
    }

    /// Locks every key of a range, present or absent, as [`Transaction::lock_key`]. An empty range
    /// locks nothing.
    ///
    /// Costs a test of each locked key in the range. While it is held, each lock and each write in
    /// the family also searches the locked ranges, which are ordered.
    ///
    /// # Errors
    /// As [`Transaction::lock_key`].
    pub fn lock_range(&self, range: impl KeyRange, mode: LockMode) -> Result<()> {
        let copy = |key: &[u8]| Slice::copy_from(key);
        let range = ReadRange { start: range.start().map(copy), end: range.end().map(copy) };
        let bounds = range.bounds();
        let lower = bounds.lower.as_deref().unwrap_or_default();
        if bounds.upper.as_deref().is_some_and(|upper| lower >= upper) {
            return Ok(());
        }
        self.lock(LockTarget::Range(bounds), mode)
    }

    /// Returns the number of this transaction in messages about locks; `None` before its first
    /// lock.
    #[must_use]
    pub fn lock_number(&self) -> Option<u64> {
        lock(&self.shared.state).locks.as_ref().map(|holder| holder.number())
    }

    /// Begins a transaction that owns the locks of `holder`.
    pub(crate) fn begin_holding(
        place: &Family,
        options: TransactionOptions,
        holder: Option<LockHolder>,
    ) -> Self {
        let transaction = Self::begin(place, options);
        if let Some(holder) = holder {
            lock(&transaction.shared.state).locks = Some(Arc::new(holder));
        }
        transaction
    }

    /// The locks on all that its commit depends on; `None` if it has ended, or if they would take
    /// much of the memory that it may take. While they are held, a transaction that reads and
    /// writes the same keys does not conflict.
    pub(crate) fn locks_of_commit(&self) -> Option<Vec<LockRequest>> {
        let state = self.shared.active().ok()?;
        let engine = &self.shared.engine;
        let locks = |conditions: &Conditions<'_>| {
            conditions.locks(&engine.database().catalog, &state.writes.bytes)
        };
        let requests = self.shared.validated(&state, locks).ok()?;
        let bytes: usize = requests.iter().map(request_bytes).sum();
        let bytes_max =
            self.shared.options.memory_bytes_max(engine.database().options.memory_budget);
        (bytes <= bytes_max / LOCKS_OF_MEMORY).then_some(requests)
    }

    fn lock(&self, target: LockTarget, mode: LockMode) -> Result<()> {
        let family = &self.place.place.family;
        let database = self.shared.engine.writable()?;
        database.check(family)?;
        let mut state = self.shared.active()?;
        let new = || Arc::new(LockHolder::new(&database.database().locks));
        let holder = Arc::clone(state.locks.get_or_insert_with(new));
        // The state is unlocked while the call waits, so that another thread can roll back.
        drop(state);
        let timeout = self.shared.options.lock_timeout;
        let locked = acquire(database, &holder, family, target, mode, timeout);
        let state: &mut State = &mut lock(&self.shared.state);
        state.note_conflict(locked)?;
        state.check_active()?;
        if !state.locks.as_ref().is_some_and(|locks| Arc::ptr_eq(locks, &holder)) {
            return Err(Error::invalid("the transaction was reset while it waited for a lock"));
        }
        self.shared.check_memory(state)
    }
}
