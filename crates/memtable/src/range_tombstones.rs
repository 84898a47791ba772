//! The range tombstones of a memtable: appended by writers, cut into fragments when somebody looks.
//!
//! It does not know the point entries that they cover.
//!
//! # Thread safety
//! Any thread may add and look. Adding and cutting take a lock for writing; looking takes it for
//! reading, and nothing at all while there is no tombstone.
//!
//! # Invariants
//! 1. `fragments` is cut from the first `cut` tombstones of `all`.
//! 2. `count` is the length of `all` while nobody holds the lock for writing.

use siltdb_base::{
    budget::{Budget, Part},
    id::SequenceNumber,
    key::Entry,
    slice::Slice,
    tombstone::{Fragments, RangeTombstone},
};
use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Tombstones that a single lookup passes over one by one before it cuts anew; beyond these, one
/// for every [`UNCUT_PART`] that are cut, so that cutting costs a constant number of times.
const UNCUT_MIN: usize = 16;
const UNCUT_PART: usize = 8;

/// A list of range tombstones.
#[derive(Debug)]
pub struct RangeTombstones {
    count: AtomicU64,
    bytes: AtomicUsize,
    budget: Arc<Budget>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Vec<RangeTombstone>,
    fragments: Arc<Fragments>,
    cut: usize,
}

impl RangeTombstones {
    /// No tombstones; their memory will be charged to `budget`.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self {
            count: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            budget: Arc::clone(budget),
            state: RwLock::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        // Acquire pairs with the release in `insert`: who sees the count finds the tombstone.
        self.count.load(Ordering::Acquire)
    }

    /// Bytes of memory they take.
    pub fn bytes(&self) -> usize {
        // Relaxed: a counter that carries no data with it.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds a tombstone over `[entry.key, entry.value)`.
    pub fn insert(&self, entry: &Entry<'_>) {
        let tombstone = RangeTombstone {
            start: Slice::copy_from(entry.key),
            end: Slice::copy_from(entry.value),
            sequence: entry.sequence,
        };
        let bytes = size_of::<RangeTombstone>() + entry.key.len() + entry.value.len();
        self.budget.charge(Part::Memtables, bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.all.push(tombstone);
        // Release pairs with the acquire in `count`.
        self.count.fetch_add(1, Ordering::Release);
    }

    /// All of them as fragments; every tombstone whose insert has returned is among them.
    ///
    /// Cost: one reference count if nothing was added since the last call, else cutting all anew.
    pub fn fragments(&self) -> Arc<Fragments> {
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if state.cut == state.all.len() {
                return Arc::clone(&state.fragments);
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.recut();
        Arc::clone(&state.fragments)
    }

    /// The newest tombstone over `key` that a reader at `visible` sees.
    ///
    /// Cost: a load if there are none. Does not cut anew for each tombstone added, so that deleting
    /// and reading in turn does not cost the square of their number.
    pub fn covering(&self, key: &[u8], visible: SequenceNumber) -> Option<SequenceNumber> {
        if self.count() == 0 {
            return None;
        }
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if state.all.len() - state.cut <= UNCUT_MIN + state.cut / UNCUT_PART {
                return state.covering(key, visible);
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.recut();
        state.covering(key, visible)
    }
}

impl State {
    fn recut(&mut self) {
        if self.cut != self.all.len() {
            self.fragments = Arc::new(Fragments::new(&self.all));
            self.cut = self.all.len();
        }
    }

    fn covering(&self, key: &[u8], visible: SequenceNumber) -> Option<SequenceNumber> {
        let uncut = self.all[self.cut..].iter().filter(|tombstone| {
            tombstone.sequence <= visible && *tombstone.start <= *key && *key < *tombstone.end
        });
        let newest = uncut.map(|tombstone| tombstone.sequence).max();
        newest.max(self.fragments.covering(key, visible))
    }
}

impl Drop for RangeTombstones {
    fn drop(&mut self) {
        self.budget.release(Part::Memtables, self.bytes());
    }
}

#[cfg(test)]
mod tests;
