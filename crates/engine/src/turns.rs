//! Turns: what conflicted often at its commits runs again, one after the other.
//!
//! One that loses with the turn, too, makes it urgent: then those that begin wait until it is given
//! back. It decides who goes, not what conflicted often enough.

use crate::random::Random;
use siltdb_base::sync::lock;
use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// One turn for a whole database, and the randomness of pauses.
#[derive(Debug)]
pub struct Turns {
    is_taken: Mutex<bool>,
    /// Only a hint, and so relaxed: what is missed delays the turn, and breaks nothing.
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
    /// Of a database whose random numbers follow from `seed`.
    #[must_use]
    pub fn new(seed: Option<u64>) -> Self {
        let random = Mutex::new(Random::new(seed));
        let (is_taken, is_urgent) = (Mutex::new(false), AtomicBool::new(false));
        Self { is_taken, is_urgent, given_back: Condvar::new(), random }
    }

    /// Takes the turn; `None` after `timeout`. The bound keeps an update within an update, or one
    /// that waits for another thread, from waiting for itself.
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

    /// Waits while the turn is urgent, at most for `timeout`. Costs one load if it is not.
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
    /// Lets those that begin from now on wait until the turn is given back.
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
