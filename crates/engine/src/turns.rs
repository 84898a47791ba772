//! Turns: transactions that conflicted often run one after the other.
//!
//! If a transaction with the turn conflicts too, the turn becomes urgent: transactions that begin
//! later wait until it is given back. Callers decide how many conflicts are enough.

use crate::random::Random;
use siltdb_base::sync::lock;
use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The one turn of a database, and the randomness of pauses.
#[derive(Debug)]
pub struct Turns {
    is_taken: Mutex<bool>,
    /// A hint, and so relaxed: a missed change delays the turn and breaks nothing.
    is_urgent: AtomicBool,
    given_back: Condvar,
    random: Mutex<Random>,
}

/// The turn. Dropping it gives it back.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
}

impl Turns {
    /// The turn of a database whose random numbers follow from `seed`.
    #[must_use]
    pub fn new(seed: Option<u64>) -> Self {
        let random = Mutex::new(Random::new(seed));
        let (is_taken, is_urgent) = (Mutex::new(false), AtomicBool::new(false));
        Self { is_taken, is_urgent, given_back: Condvar::new(), random }
    }

    /// Takes the turn; `None` after `timeout`. The timeout keeps an update within an update from
    /// waiting for itself, and one that waits for another thread, too.
    #[must_use]
    pub fn take(&self, timeout: Duration) -> Option<Turn<'_>> {
        let is_taken = lock(&self.is_taken);
        let waited = self.given_back.wait_timeout_while(is_taken, timeout, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if *is_taken {
            return None;
        }
        *is_taken = true;
        Some(Turn { turns: self })
    }

    /// Waits while the turn is urgent, at most for `timeout`. Cost: one load if it is not urgent.
    #[inline]
    pub fn make_way(&self, timeout: Duration) {
        if self.is_urgent.load(Ordering::Relaxed) {
            let is_taken = lock(&self.is_taken);
            drop(self.given_back.wait_timeout_while(is_taken, timeout, |is_taken| {
                *is_taken && self.is_urgent.load(Ordering::Relaxed)
            }));
        }
    }

    /// A random duration below `most`.
    #[must_use]
    pub fn pause(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1);
        Duration::from_nanos(lock(&self.random).next_u64() % most)
    }
}

impl Turn<'_> {
    /// Makes transactions that begin later wait until the turn is given back.
    pub fn make_urgent(&self) {
        self.turns.is_urgent.store(true, Ordering::Relaxed);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut is_taken = lock(&self.turns.is_taken);
        self.turns.is_urgent.store(false, Ordering::Relaxed);
        *is_taken = false;
        self.turns.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests;
