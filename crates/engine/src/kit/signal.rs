//! Signals: wake threads that wait for work or for room.
//!
//! A signal is a counter under a mutex, so that a wake-up between a check and the wait is never
//! lost.

use siltdb_base::sync::lock;
use std::{
    sync::{Condvar, Mutex},
    time::Duration,
};

/// A count of events that can be waited on.
#[derive(Debug, Default)]
pub struct Signal {
    events: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    /// The number of events so far. To be read before the check that precedes the wait.
    #[must_use]
    pub fn seen(&self) -> u64 {
        *lock(&self.events)
    }

    /// Counts an event and wakes all waiting threads.
    pub fn raise(&self) {
        *lock(&self.events) += 1;
        self.changed.notify_all();
    }

    /// Waits for an event after `seen`, at most for `timeout`.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        let events = lock(&self.events);
        drop(self.changed.wait_timeout_while(events, timeout, |events| *events == seen));
    }
}

#[cfg(test)]
mod tests;
