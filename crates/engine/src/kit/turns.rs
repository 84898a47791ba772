//! Turns: transactions that conflicted often run one after the other, in the order in which they
//! asked.
//!
//! If a transaction with the turn conflicts too, the turn becomes urgent: transactions that begin
//! later wait until it is given back. Callers decide how many conflicts are enough.

use crate::kit::random::Random;
use siltdb_base::sync::lock;
use std::{
    collections::VecDeque,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The one turn of a database, and the randomness of pauses.
#[derive(Debug)]
pub struct Turns {
    queue: Mutex<Queue>,
    /// A hint, and so relaxed: a missed change delays the turn and breaks nothing.
    is_urgent: AtomicBool,
    given_back: Condvar,
    random: Mutex<Random>,
}

/// Who has the turn and who waits for it.
#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    /// The numbers of those that wait, first come, first served.
    waiting: VecDeque<u64>,
    /// The number of the next one that asks.
    next: u64,
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
        let (queue, is_urgent) = (Mutex::default(), AtomicBool::new(false));
        Self { queue, is_urgent, given_back: Condvar::new(), random }
    }

    /// Takes the turn; `None` after `timeout`. The timeout keeps an update within an update from
    /// waiting for itself, and one that waits for another thread, too.
    #[must_use]
    pub fn take(&self, timeout: Duration) -> Option<Turn<'_>> {
        let mut queue = lock(&self.queue);
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(number);
        let waited = self.given_back.wait_timeout_while(queue, timeout, |queue| {
            queue.is_taken || queue.waiting.front() != Some(&number)
        });
        let (mut queue, ended) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.waiting.retain(|waiting| *waiting != number);
        if ended.timed_out() {
            // It may have been the first, while the turn was given back.
            self.given_back.notify_all();
            return None;
        }
        queue.is_taken = true;
        Some(Turn { turns: self })
    }

    /// Waits while the turn is urgent, at most for `timeout`. Cost: one load if it is not urgent.
    #[inline]
    pub fn make_way(&self, timeout: Duration) {
        if self.is_urgent.load(Ordering::Relaxed) {
            let queue = lock(&self.queue);
            drop(self.given_back.wait_timeout_while(queue, timeout, |queue| {
                queue.is_taken && self.is_urgent.load(Ordering::Relaxed)
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
        let mut queue = lock(&self.turns.queue);
        self.turns.is_urgent.store(false, Ordering::Relaxed);
        queue.is_taken = false;
        self.turns.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests;
