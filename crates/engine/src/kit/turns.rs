//! Turns: transactions that conflicted over the same keys run one after the other, in the order in
//! which they asked, and wait *before* they read again.
//!
//! A key belongs to one of 64 *lines*. A turn takes the lines of some keys at once, so turns never
//! wait for each other in a circle. Turns without a common line run beside each other.
//!
//! If a transaction with the turn conflicts too, the turn becomes urgent: transactions that begin
//! later wait until it is given back. Callers decide how many conflicts are enough.

use crate::kit::random::Random;
use siltdb_base::{id::FamilyId, key::LookupKey, seeded_fault, sync::lock};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A set of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines(u64);

impl Lines {
    /// All lines: a turn that has them runs beside no other.
    pub const ALL: Self = Self(u64::MAX);
    /// A transaction of more keys takes all lines: it would take most of them anyway.
    pub const KEYS_MAX: usize = 8;
    const NONE: Self = Self(0);

    /// The lines of these keys; all, if there are many keys or none.
    pub fn of<'a>(keys: impl IntoIterator<Item = (FamilyId, &'a [u8])>) -> Self {
        let (mut lines, mut count) = (Self::NONE, 0);
        for (family, key) in keys {
            let hash = LookupKey::new(key).hash().rotate_left(family.0);
            lines = lines.with(Self(1 << (hash % u64::from(u64::BITS))));
            count += 1;
            if count > Self::KEYS_MAX {
                return Self::ALL;
            }
        }
        if lines == Self::NONE { Self::ALL } else { lines }
    }

    /// Whether all of `other` are among them.
    #[must_use]
    pub fn include(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The turns of a database, and the randomness of pauses.
#[derive(Debug)]
pub struct Turns {
    queue: Mutex<Queue>,
    /// A hint, and so relaxed: a missed change delays the turn and breaks nothing.
    is_urgent: AtomicBool,
    /// A turn was given back that may have been urgent.
    calm: Condvar,
    random: Mutex<Random>,
}

/// Which lines are taken and who waits for them.
///
/// # Invariants
/// 1. No two turns have a common line, and `taken` has those of all turns.
/// 2. A request waits only while it meets a turn, or an earlier request that waits. So requests for
///    a line are granted in the order in which they came.
/// 3. A request that is granted is no longer among those that wait, and its thread is woken.
#[derive(Debug)]
struct Queue {
    taken: Lines,
    /// First come, first served.
    waiting: VecDeque<WaitingTurn>,
}

#[derive(Debug)]
struct WaitingTurn {
    lines: Lines,
    /// Wakes its thread, and tells it apart from others.
    granted: Arc<Condvar>,
}

impl Queue {
    fn is_free(&self, lines: Lines) -> bool {
        let meets = |waiting: &WaitingTurn| waiting.lines.meet(lines);
        !self.taken.meet(lines) && !self.waiting.iter().any(meets)
    }

    fn has(&self, granted: &Arc<Condvar>) -> bool {
        self.waiting.iter().any(|waiting| Arc::ptr_eq(&waiting.granted, granted))
    }

    /// Grants what is free, by (2), and wakes only the threads of that.
    ///
    /// # Seeded faults
    /// `turn_passes_the_queue`: a request does not wait for earlier ones.
    fn grant(&mut self) {
        let mut blocked = self.taken;
        let taken = &mut self.taken;
        self.waiting.retain(|waiting| {
            let is_granted = !blocked.meet(waiting.lines);
            if is_granted {
                *taken = taken.with(waiting.lines);
                waiting.granted.notify_one();
            }
            if is_granted || !seeded_fault!("turn_passes_the_queue") {
                blocked = blocked.with(waiting.lines);
            }
            !is_granted
        });
    }
}

/// A turn. Dropping it gives it back.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    lines: Lines,
}

impl Turns {
    /// The turns of a database whose random numbers follow from `seed`.
    #[must_use]
    pub fn new(seed: Option<u64>) -> Self {
        let random = Mutex::new(Random::new(seed));
        let queue = Mutex::new(Queue { taken: Lines::NONE, waiting: VecDeque::new() });
        Self { queue, is_urgent: AtomicBool::new(false), calm: Condvar::new(), random }
    }

    /// Takes a turn of `lines`; `None` after `timeout`. The timeout keeps an update within an
    /// update from waiting for itself, and one that waits for another thread, too.
    #[must_use]
    pub fn take(&self, lines: Lines, timeout: Duration) -> Option<Turn<'_>> {
        let turn = || Some(Turn { turns: self, lines });
        let mut queue = lock(&self.queue);
        if queue.is_free(lines) {
            queue.taken = queue.taken.with(lines);
            return turn();
        }
        let granted = Arc::new(Condvar::new());
        queue.waiting.push_back(WaitingTurn { lines, granted: Arc::clone(&granted) });
        let waited = granted.wait_timeout_while(queue, timeout, |queue| queue.has(&granted));
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !queue.has(&granted) {
            return turn();
        }
        queue.waiting.retain(|waiting| !Arc::ptr_eq(&waiting.granted, &granted));
        // Later requests may have waited for this one alone.
        queue.grant();
        None
    }

    /// Waits while a turn is urgent, at most for `timeout`. Cost: one load if none is.
    #[inline]
    pub fn make_way(&self, timeout: Duration) {
        if self.is_urgent.load(Ordering::Relaxed) {
            let queue = lock(&self.queue);
            drop(self.calm.wait_timeout_while(queue, timeout, |queue| {
                queue.taken != Lines::NONE && self.is_urgent.load(Ordering::Relaxed)
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
    /// The lines of this turn.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.lines
    }

    /// Makes transactions that begin later wait until the turn, which has all lines, is given back.
    pub fn make_urgent(&self) {
        assert!(self.lines == Lines::ALL, "an urgent turn beside others");
        self.turns.is_urgent.store(true, Ordering::Relaxed);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.turns.queue);
        queue.taken = Lines(queue.taken.0 & !self.lines.0);
        queue.grant();
        // Only one that was alone could be urgent.
        if self.lines == Lines::ALL && self.turns.is_urgent.swap(false, Ordering::Relaxed) {
            self.turns.calm.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
