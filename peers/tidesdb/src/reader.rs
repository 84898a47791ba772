//! A transaction to read in, with the iterator that was made in it. Does not write.

use std::{thread, time::Duration};
use tidesdb::{ColumnFamily, Iterator, Result, TidesDB, Transaction};

/// How often a call is made again before its contention counts as an error: some seconds.
const TRIES_MAX: u32 = 100_000;
/// How long to wait in between.
const PAUSE: Duration = Duration::from_micros(50);

/// Makes a call again as long as something else holds what it needs: `Locked` says that nothing
/// was done, and its documentation asks to try again and never to take it for an error.
///
/// # Errors
/// All others, and `Locked` once it lasts.
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

/// What one thread reads with.
///
/// # Invariants
/// 1. `transaction` comes from a box, and is freed nowhere but in `drop`.
/// 2. `cursor` borrows from it, and is dropped before.
pub struct Reader<'a> {
    cursor: Option<Iterator<'a>>,
    transaction: *mut Transaction<'a>,
}

impl<'a> Reader<'a> {
    /// Reads see the newest that is committed when they are made.
    ///
    /// # Errors
    /// The engine's.
    pub fn new(db: &'a TidesDB) -> Result<Self> {
        let transaction = Box::into_raw(Box::new(db.begin_transaction()?));
        Ok(Self { cursor: None, transaction })
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn get(&self, family: &ColumnFamily<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.transaction();
        match retried(|| transaction.get_notrack(family, key)) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An iterator that sees what was there when it was made.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn cursor(&mut self, family: &ColumnFamily<'_>) -> Result<&mut Iterator<'a>> {
        let transaction = self.transaction();
        match &mut self.cursor {
            Some(cursor) => Ok(cursor),
            none => Ok(none.insert(retried(|| transaction.new_iterator(family))?)),
        }
    }

    /// The next iterator is a new one.
    pub fn forget_cursor(&mut self) {
        self.cursor = None;
    }

    fn transaction(&self) -> &'a Transaction<'a> {
        // SAFETY: it lives by (1) as long as this reader, and by (2) what borrows from it ends
        // before; nothing that is handed out of this module borrows from it.
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
