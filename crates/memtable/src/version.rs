//! The word that tells readers of a node whether it changed while they looked: a sequence lock.
//!
//! It does not know what it protects. A reader writes nothing; a writer excludes other writers.
//!
//! # Thread safety
//! What is read between [`NodeVersion::begin`] and [`NodeVersion::is_unchanged`] must be read
//! through atomics, because a writer may be changing it. Until the check has succeeded it may be a
//! mixture of states.
//!
//! # Invariants
//! 1. The lowest bit is set exactly while a writer holds the lock.
//! 2. Each change raises the rest by one, so an equal, unlocked word means an unchanged node.

use siltdb_base::sync::{
    atomic::{AtomicU64, Ordering, fence},
    spin_loop, thread,
};

const LOCKED: u64 = 1;
const CHANGE: u64 = 2;
/// Rounds of waiting before the processor is given to others: the holder may have none.
const SPINS_MAX: u32 = 64;

/// A lock for writers and a change counter for readers.
pub struct NodeVersion(AtomicU64);

/// What a version was when it was unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl NodeVersion {
    /// Unlocked and unchanged.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Waits until no writer is at work, and begins to read.
    #[inline]
    pub fn begin(&self) -> Stamp {
        // Acquire pairs with the release in `unlock`: what that writer wrote is seen.
        let word = self.0.load(Ordering::Acquire);
        if word & LOCKED == 0 { Stamp(word) } else { self.begin_slowly() }
    }

    #[cold]
    fn begin_slowly(&self) -> Stamp {
        let mut spins = 0;
        loop {
            // Acquire as in `begin`.
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return Stamp(word);
            }
            wait(&mut spins);
        }
    }

    /// Whether everything read since `stamp` is one state of the node.
    #[inline]
    pub fn is_unchanged(&self, stamp: Stamp) -> bool {
        // The fence pairs with the one in `try_lock`. If one of our reads saw a writer's store, the
        // load below sees that writer's lock bit, or what came after it.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == stamp.0
    }

    /// Takes the lock if nothing has changed since `stamp`.
    #[inline]
    #[must_use]
    pub fn try_lock(&self, stamp: Stamp) -> bool {
        // Acquire pairs with the release in `unlock`. A failure reads nothing further.
        let result = self.0.compare_exchange(
            stamp.0,
            stamp.0 | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // The fence pairs with the one in `is_unchanged`: our stores come after the lock bit.
        fence(Ordering::Release);
        result.is_ok()
    }

    /// Gives the lock back after a change; the stamp that readers will see.
    #[inline]
    pub fn unlock(&self, stamp: Stamp) -> Stamp {
        let next = Stamp(stamp.0 + CHANGE);
        // Release pairs with the acquire in `begin` and `try_lock`.
        self.0.store(next.0, Ordering::Release);
        next
    }

    /// Gives the lock back without having changed anything: readers go on undisturbed.
    #[inline]
    pub fn unlock_unchanged(&self, stamp: Stamp) {
        // Release as in `unlock`, though there is nothing to see.
        self.0.store(stamp.0, Ordering::Release);
    }
}

/// One round of waiting for another thread.
#[inline]
pub fn wait(spins: &mut u32) {
    if *spins < SPINS_MAX {
        *spins += 1;
        spin_loop();
    } else {
        thread::yield_now();
    }
}
