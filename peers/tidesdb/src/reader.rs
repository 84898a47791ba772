//! A read transaction with its iterator. It does not write.

use std::{thread, time::Duration};
use tidesdb::{ColumnFamily, Iterator, Result, TidesDB, Transaction};

/// Retries of a call before its contention counts as an error: some seconds.
const TRIES_MAX: u32 = 100_000;
/// The pause between two retries.
const PAUSE: Duration = Duration::from_micros(50);

/// Retries a call while another holds a lock: `Locked` says that nothing was done, and the
/// documentation asks to retry and not to treat it as an error.
///
/// # Errors
/// All other errors, and `Locked` at the end of the retries.
#[inline]
pub fn retried<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..TRIES_MAX {
        match call() {
            Err(error) if error.is_locked() => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
    call()
}

/// A read transaction of one thread, with its iterator.
///
/// # Invariants
/// 1. `transaction` comes from a box, and is freed nowhere but in `drop`.
/// 2. `cursor` borrows from it, and is dropped before.
pub struct Reader<'a> {
    cursor: Option<Iterator<'a>>,
    transaction: *mut Transaction<'a>,
}

impl<'a> Reader<'a> {
    /// A transaction whose reads see the newest committed state.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn new(db: &'a TidesDB) -> Result<Self> {
        let transaction = Box::into_raw(Box::new(db.begin_transaction()?));
        Ok(Self { cursor: None, transaction })
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// Errors of the engine.
    #[inline]
    pub fn get(&self, family: &ColumnFamily<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.transaction();
        match retried(|| transaction.get_notrack(family, key)) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An iterator that sees the state at its creation.
    ///
    /// # Errors
    /// Errors of the engine.
    #[inline]
    pub fn cursor(&mut self, family: &ColumnFamily<'_>) -> Result<&mut Iterator<'a>> {
        let transaction = self.transaction();
        match &mut self.cursor {
            Some(cursor) => Ok(cursor),
            none => Ok(none.insert(retried(|| transaction.new_iterator(family))?)),
        }
    }

    /// Makes the next iterator a new one.
    pub fn forget_cursor(&mut self) {
        self.cursor = None;
    }

    fn transaction(&self) -> &'a Transaction<'a> {
        // SAFETY: by (1) it lives as long as this reader. By (2) borrows from it end before, and no
        // borrow of it leaves this module.
        unsafe { &*self.transaction }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.cursor = None;
        // SAFETY: by (1) it comes from a box and is freed once; by (2) nothing borrows from it.
        drop(unsafe { Box::from_raw(self.transaction) });
    }
}
