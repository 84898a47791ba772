//! The calls that work on the files of the database: a close waits for them.
//!
//! The count knows nothing of their work. The threads of the database are not counted; they are
//! joined.
//!
//! # Thread safety
//! Any thread may begin, end or wait.
//!
//! # Invariants
//! 1. Once `end` has returned, no call is in flight, and none begins.

use siltdb_base::sync::lock;
use std::sync::{Condvar, Mutex};

/// A count of calls, and whether new ones may begin.
#[derive(Debug, Default)]
pub struct CallsInFlight {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    at_work: usize,
    is_ending: bool,
}

/// A call in flight, until this is dropped.
#[derive(Debug)]
pub struct CallInFlight<'a> {
    calls: &'a CallsInFlight,
}

impl CallsInFlight {
    /// Begins a call; `None` once `end` was called.
    #[must_use]
    pub fn begin(&self) -> Option<CallInFlight<'_>> {
        let mut state = lock(&self.state);
        if state.is_ending {
            return None;
        }
        state.at_work += 1;
        Some(CallInFlight { calls: self })
    }

    /// Refuses later calls, and waits for those in flight.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.is_ending = true;
        while state.at_work > 0 {
            state = self.ended.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.calls.state);
        state.at_work -= 1;
        // A notification is a system call, and nothing waits before `end`.
        if state.is_ending {
            self.calls.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
