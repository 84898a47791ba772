//! The health of a database: writable, read-only, closed or poisoned.
//!
//! It keeps the first failure and returns copies of it. Callers decide what is fatal.

use crate::options::Access;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    sync::lock,
};
use std::sync::{
    Mutex,
    atomic::{AtomicU8, Ordering},
};

const FINE: u8 = 0;
const CLOSED: u8 = 1 << 0;
const POISONED: u8 = 1 << 1;
const READ_ONLY: u8 = 1 << 2;

/// The state of a database. Its bits are never cleared.
///
/// # Invariants
/// 1. The bits of `state` are only set, and once `POISONED` is, `cause` holds an error.
/// 2. A commit that is published after a failed one observes the failure: `poison` stores the state
///    before the failed commit is published, and publishing is in order.
#[derive(Debug, Default)]
pub struct Health {
    state: AtomicU8,
    cause: Mutex<Option<Error>>,
}

impl Health {
    /// The health of a database that was opened with `access`.
    #[must_use]
    pub fn new(access: Access) -> Self {
        let state = match access {
            Access::ReadWrite => FINE,
            Access::ReadOnly => READ_ONLY,
        };
        Self { state: AtomicU8::new(state), cause: Mutex::default() }
    }

    /// Succeeds while the database may be written.
    ///
    /// # Errors
    /// `Poisoned` with the first failure as its cause; `Closed`; `ReadOnly`.
    #[inline]
    pub fn check(&self) -> Result<()> {
        // Acquire pairs with the release in `raise`, so that the cause is there.
        if self.state.load(Ordering::Acquire) == FINE { Ok(()) } else { Err(self.refusal()) }
    }

    /// Succeeds unless the log is poisoned: a write that began before a close may finish.
    ///
    /// # Errors
    /// `Poisoned` with the first failure as its cause.
    #[inline]
    pub fn check_log(&self) -> Result<()> {
        // Acquire: as in `check`.
        if self.state.load(Ordering::Acquire) & POISONED == 0 {
            return Ok(());
        }
        Err(self.refusal())
    }

    /// Succeeds until the database is closed: a poisoned one can still be read.
    ///
    /// # Errors
    /// `Closed`.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        // Relaxed: no other data depends on it.
        if self.state.load(Ordering::Relaxed) & CLOSED == 0 { Ok(()) } else { Err(closed()) }
    }

    /// The error of a call on a database that does not accept it.
    #[cold]
    #[must_use]
    pub fn refusal(&self) -> Error {
        match &*lock(&self.cause) {
            Some(cause) => cause.duplicate(),
            // Relaxed: as in `check_open`.
            None if self.state.load(Ordering::Relaxed) == READ_ONLY => read_only(),
            None => closed(),
        }
    }

    /// Poisons the database: every later write fails with `cause` until a reopen. The first cause
    /// stays. Returns the error for the caller to return.
    #[cold]
    pub fn poison(&self, cause: Error) -> Error {
        let error = match cause.kind() {
            ErrorKind::Poisoned => cause,
            _ => Error::new(ErrorKind::Poisoned, "a write failed, so all later writes fail")
                .with_hint("reads still work; reopen the database to recover")
                .with_source(cause),
        };
        lock(&self.cause).get_or_insert(error);
        self.raise(POISONED);
        self.refusal()
    }

    /// Refuses every later read with `Closed`, and every later write too, unless a failure is
    /// known.
    pub fn close(&self) {
        self.raise(CLOSED);
    }

    /// The first failure, if there was one. A close is not a failure.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        lock(&self.cause).as_ref().map(Error::duplicate)
    }

    fn raise(&self, state: u8) {
        // Release pairs with the acquire in `check`.
        self.state.fetch_or(state, Ordering::Release);
    }
}

#[cold]
fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the database was opened for reading")
        .with_hint("open it for writing")
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database is closed")
}
