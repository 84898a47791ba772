//! Locks of a transaction: others wait, instead of one of them failing at its commit.

use super::{State, Transaction};
use crate::{key_range::KeyRange, read::Read};
use siltdb_base::{
    error::{Error, Result},
    slice::Slice,
    sync::lock,
};
use siltdb_engine::{
    lock_table::{LockMode, LockTarget},
    read::ReadRange,
};
use std::sync::Arc;

impl Transaction {
    /// The newest value of a key, which stays until this transaction ends: no other can write or
    /// lock the key before. It is an exclusive lock and a `get`.
    ///
    /// At the levels that read at one moment, a key that was changed after that moment can be read
    /// only as it was, so that a write of it would fail at the commit. So this fails at once.
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
    /// As [`Transaction::lock_key`]; `Conflict`, if the key was changed after the moment that the
    /// transaction reads; as [`Read::get`]. After an error the lock may be held.
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        self.lock_key(key, LockMode::Exclusive)?;
        let state = self.shared.active()?;
        if let Some(snapshot) = &state.snapshot {
            self.shared.engine.check_unchanged(&self.place.place.family, key, snapshot)?;
        }
        drop(state);
        self.get(key)
    }

    /// Locks a key, whether it exists or not, until the transaction ends. While it is locked, other
    /// transactions and plain writes that write it wait, and so do those that lock it, unless both
    /// locks are shared. Reads do not wait. Going back to a savepoint keeps locks.
    ///
    /// Waits while another transaction has the key locked: up to
    /// [`lock_timeout`](crate::TransactionOptions::lock_timeout), and for the commits under way.
    /// Plain writes wait too, also those of the thread that holds the lock.
    ///
    /// # Errors
    /// `Busy`, after the timeout, or if transactions would wait for each other for ever; the
    /// message names them by [`lock_number`](Self::lock_number). The transaction goes on without
    /// the lock. As [`Transaction::put`].
    pub fn lock_key(&self, key: impl AsRef<[u8]>, mode: LockMode) -> Result<()> {
        self.lock(LockTarget::Key(Slice::copy_from(key.as_ref())), mode)
    }

    /// As [`Transaction::lock_key`], for every key of a range, whether it exists or not. A range
    /// without keys locks nothing.
    ///
    /// Costs a look at each locked key of the range; each lock and each write in the family then
    /// looks at each locked range.
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

    /// The number by which messages about locks name it; `None` before it asks for a lock.
    #[must_use]
    pub fn lock_number(&self) -> Option<u64> {
        lock(&self.shared.state).locks.as_ref().map(|holder| holder.number())
    }

    fn lock(&self, target: LockTarget, mode: LockMode) -> Result<()> {
        let engine = &self.shared.engine;
        let family = &self.place.place.family;
        engine.check_writable(family)?;
        let mut state = self.shared.active()?;
        let new = || Arc::new(engine.lock_holder());
        let holder = Arc::clone(state.locks.get_or_insert_with(new));
        // Not while it waits: another thread may roll it back.
        drop(state);
        engine.lock(&holder, family, (target, mode), self.shared.options.lock_timeout)?;
        let state: &State = &*self.shared.active()?;
        if !state.locks.as_ref().is_some_and(|locks| Arc::ptr_eq(locks, &holder)) {
            return Err(Error::invalid("the transaction was reset while it waited for a lock"));
        }
        self.shared.check_memory(state)
    }
}
