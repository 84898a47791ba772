//! Signals: wake threads that wait for work or for room.
//!
//! A signal is a counter under a mutex, so that a wake-up between a check and the wait is never
//! lost.

use siltdb_base::sync::lock;
use std::{
    sync::{Arc, Condvar, Mutex, Weak},
    time::Duration,
};

/// A count of events that can be waited on.
#[derive(Debug, Default)]
pub struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    events: u64,
    /// Another signal that counts each event as well.
    other: Weak<Signal>,
}

impl Signal {
    /// The number of events so far. To be read before the check that precedes the wait.
    #[must_use]
    pub fn seen(&self) -> u64 {
        lock(&self.state).events
    }

    /// Counts an event and wakes all waiting threads.
    pub fn raise(&self) {
        let other = {
            let mut state = lock(&self.state);
            state.events += 1;
            state.other.upgrade()
        };
        self.changed.notify_all();
        if let Some(other) = other {
            other.raise();
        }
    }

    /// Raises `other` at each later event as well, until `other` is dropped.
    pub fn forward_to(&self, other: &Arc<Self>) {
        lock(&self.state).other = Arc::downgrade(other);
    }

    /// Waits for an event after `seen`, at most for `timeout`.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        let state = lock(&self.state);
        drop(self.changed.wait_timeout_while(state, timeout, |state| state.events == seen));
    }
}

#[cfg(test)]
mod tests;
