//! Waking those who wait for work or for room.
//!
//! A counter under a mutex, so that a wake-up between looking and waiting is never lost.

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
    /// The number of events so far; look at it before looking for what to wait for.
    #[must_use]
    pub fn seen(&self) -> u64 {
        *lock(&self.events)
    }

    /// Something happened: wakes everybody.
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
