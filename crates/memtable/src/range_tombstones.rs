//! The range tombstones of a memtable: appended by writers, cut into fragments by the next reader.
//!
//! It does not know the point entries that they cover.
//!
//! # Thread safety
//! Any thread may add and look. Adding and cutting take a lock for writing; looking takes it for
//! reading, and nothing at all while there is no tombstone.
//!
//! # Invariants
//! 1. `lists` are cut from the first tombstones of `all`, each from `count` of them, in order.
//! 2. Each list has more than [`LIST_PART`] times the tombstones of the next one. So there are few
//!    lists, and each tombstone is cut anew only a bounded number of times per list.
//! 3. `count` is the length of `all` while no thread holds the lock for writing.

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

/// Tombstones that a single lookup passes over one by one before it cuts them.
const UNCUT_MAX: usize = 16;

/// A list is joined with the one before it once it has this part of its tombstones.
const LIST_PART: usize = 8;

/// A list of range tombstones.
#[derive(Debug)]
pub struct RangeTombstones {
    count: AtomicU64,
    bytes: AtomicUsize,
    budget: Arc<Budget>,
    part: Part,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Vec<RangeTombstone>,
    lists: Vec<List>,
}

/// Some of the tombstones, cut.
#[derive(Debug)]
struct List {
    fragments: Arc<Fragments>,
    count: usize,
}

impl RangeTombstones {
    /// No tombstones; their memory will be charged to `part` of `budget`.
    pub fn new(budget: &Arc<Budget>, part: Part) -> Self {
        Self {
            count: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            budget: Arc::clone(budget),
            part,
            state: RwLock::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        // Acquire pairs with the release in `insert`: a reader that sees the count finds the
        // tombstone.
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
        self.budget.charge(self.part, bytes);
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
        if self.count() == 0 {
            return Arc::default();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match &state.lists[..] {
            [list] if list.count == state.all.len() => {}
            _ => state.cut_from(0, &self.budget, self.part),
        }
        Arc::clone(&state.lists[0].fragments)
    }

    /// All of them as a few lists; every tombstone whose insert has returned is in one of them.
    ///
    /// Cost: a load if there are none; a tombstone is cut O(log n) times on average, however often
    /// this is called.
    pub fn lists(&self) -> Vec<Arc<Fragments>> {
        if self.count() == 0 {
            return Vec::new();
        }
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if state.uncut().is_empty() {
                return state.fragments();
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.cut(&self.budget, self.part);
        state.fragments()
    }

    /// The newest tombstone over `key` that a reader at `visible` sees.
    ///
    /// Cost: a load if there are none. Does not cut for each tombstone added.
    pub fn covering(&self, key: &[u8], visible: SequenceNumber) -> Option<SequenceNumber> {
        if self.count() == 0 {
            return None;
        }
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if state.uncut().len() <= UNCUT_MAX {
                return state.covering(key, visible);
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.cut(&self.budget, self.part);
        state.covering(key, visible)
    }
}

impl State {
    /// The tombstones that are in no list yet.
    fn uncut(&self) -> &[RangeTombstone] {
        &self.all[self.lists.iter().map(|list| list.count).sum()..]
    }

    fn fragments(&self) -> Vec<Arc<Fragments>> {
        self.lists.iter().map(|list| Arc::clone(&list.fragments)).collect()
    }

    /// Cuts what is not cut yet, together with the lists before that are not much longer.
    fn cut(&mut self, budget: &Arc<Budget>, part: Part) {
        let mut count = self.uncut().len();
        if count == 0 {
            return;
        }
        let mut kept = self.lists.len();
        while let Some(last) = kept.checked_sub(1)
            && count * LIST_PART >= self.lists[last].count
        {
            count += self.lists[last].count;
            kept = last;
        }
        self.cut_from(kept, budget, part);
    }

    /// Keeps the first `kept` lists, and makes one of all other tombstones.
    fn cut_from(&mut self, kept: usize, budget: &Arc<Budget>, part: Part) {
        self.lists.truncate(kept);
        let tombstones = self.uncut();
        let fragments = Fragments::new(tombstones).charged(budget, part);
        let list = List { count: tombstones.len(), fragments: Arc::new(fragments) };
        self.lists.push(list);
    }

    fn covering(&self, key: &[u8], visible: SequenceNumber) -> Option<SequenceNumber> {
        let uncut = self.uncut().iter().filter(|tombstone| {
            tombstone.sequence <= visible && *tombstone.start <= *key && *key < *tombstone.end
        });
        let newest = uncut.map(|tombstone| tombstone.sequence).max();
        let cut = self.lists.iter().filter_map(|list| list.fragments.covering(key, visible)).max();
        newest.max(cut)
    }
}

impl Drop for RangeTombstones {
    fn drop(&mut self) {
        self.budget.release(self.part, self.bytes());
    }
}

#[cfg(test)]
mod tests;
