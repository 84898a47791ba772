//! The memtable, as upper floors use it: point entries in the tree, range tombstones beside it.
//!
//! It does not decide when it is full, what is visible, or in which order operations are numbered.

use crate::{
    arena::ArenaPool, cursor::MemtableCursor, range_tombstones::RangeTombstones, tree::MemtableTree,
};
use siltdb_base::{
    id::SequenceNumber,
    key::{Entry, EntryKind},
    tombstone::Fragments,
};
use std::sync::Arc;

/// Entries in memory, in the order of [`siltdb_base::key`]; nothing leaves before all do.
///
/// # Thread safety
/// Any thread may insert, read and walk at the same time. Reads wait for no lock except that of
/// the range tombstones, if there are any. An insert that has returned is seen by every read that
/// begins afterwards; the entries of a batch appear one by one.
///
/// # Example
/// ```
/// use siltdb_base::{budget::Budget, cursor::EntryCursor, id::SequenceNumber, key::{Entry,
/// EntryKind}}; use siltdb_memtable::{arena::{ArenaOptions, ArenaPool}, memtable::Memtable};
/// use std::sync::Arc;
///
/// let pool = ArenaPool::new(Arc::new(Budget::new(1 << 20)), ArenaOptions::default());
/// let memtable = Memtable::new(&pool);
/// let entry =
///     Entry { key: b"k", sequence: SequenceNumber(1), kind: EntryKind::Put, value: b"v" };
/// memtable.insert(entry);
/// assert_eq!(memtable.get(b"k", SequenceNumber::MAX), Some(entry));
/// assert_eq!(memtable.get(b"k", SequenceNumber::ZERO), None);
/// let mut cursor = memtable.cursor();
/// cursor.seek_to_first()?;
/// assert_eq!(cursor.entry(), Some(entry));
/// # Ok::<(), siltdb_base::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Memtable {
    tree: Arc<MemtableTree>,
    tombstones: RangeTombstones,
}

impl Memtable {
    /// An empty memtable, which takes no arena memory before its first entry.
    #[must_use]
    pub fn new(arenas: &Arc<ArenaPool>) -> Arc<Self> {
        Arc::new(Self {
            tree: Arc::new(MemtableTree::new(arenas)),
            tombstones: RangeTombstones::new(arenas.budget(), arenas.options().part),
        })
    }

    /// Copies `entry` into the memtable. (key, sequence) must not be in it yet; a
    /// [`EntryKind::RangeDelete`] goes to the tombstones.
    ///
    /// # Panics
    /// If key or value exceed [`siltdb_base::limits`].
    #[inline]
    pub fn insert(&self, entry: Entry<'_>) {
        if entry.kind == EntryKind::RangeDelete {
            self.insert_tombstone(&entry);
        } else {
            self.tree.insert(&entry);
        }
    }

    /// As [`Self::insert`] for each of `entries`, which may be in any order, but faster.
    ///
    /// # Panics
    /// If a key or value exceeds [`siltdb_base::limits`].
    pub fn insert_batch(&self, entries: &[Entry<'_>]) {
        let is_tombstone = |entry: &Entry<'_>| entry.kind == EntryKind::RangeDelete;
        for run in entries.chunk_by(|a, b| is_tombstone(a) == is_tombstone(b)) {
            if run.iter().any(is_tombstone) {
                run.iter().for_each(|entry| self.insert_tombstone(entry));
            } else {
                self.tree.insert_batch(run);
            }
        }
    }

    #[cold]
    fn insert_tombstone(&self, entry: &Entry<'_>) {
        self.tree.lanes().enter().count(entry.sequence, 0);
        self.tombstones.insert(entry);
    }

    /// The newest entry of `key` with a sequence number up to `visible`, whatever its kind. Range
    /// tombstones are not looked at: see [`Self::covering`].
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8], visible: SequenceNumber) -> Option<Entry<'_>> {
        self.tree.get(key, visible).map(|found| found.entry())
    }

    /// The range tombstones as fragments; each is in them once its insert has returned.
    ///
    /// Cost: one reference count if none was added since the last call, else cutting all anew: for
    /// a memtable that is complete.
    #[must_use]
    pub fn tombstones(&self) -> Arc<Fragments> {
        self.tombstones.fragments()
    }

    /// The range tombstones as a few lists of fragments that overlap each other; each is in one of
    /// them once its insert has returned.
    ///
    /// Cost: a load if there are none; else far less than [`Self::tombstones`] where deleting and
    /// asking take turns.
    #[must_use]
    pub fn tombstone_lists(&self) -> Vec<Arc<Fragments>> {
        self.tombstones.lists()
    }

    /// The newest range tombstone over `key` with a sequence number up to `visible`.
    ///
    /// Cost: a load if there are no range tombstones; otherwise far less than [`Self::tombstones`]
    /// where deleting and reading take turns.
    #[inline]
    #[must_use]
    pub fn covering(&self, key: &[u8], visible: SequenceNumber) -> Option<SequenceNumber> {
        self.tombstones.covering(key, visible)
    }

    /// A cursor over the point entries that stands nowhere and keeps the entries alive.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(&self.tree))
    }

    /// Bytes of memory held, the unused rest of the newest chunk included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tree.held() + self.tombstones.bytes()
    }

    /// Bytes that its contents take: those held without what is still free in the newest chunk.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.tree.used() + self.tombstones.bytes()
    }

    /// Point entries inserted. Inserts that run beside this may be counted or not.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.tree.lanes().entries()
    }

    /// Range tombstones inserted.
    #[must_use]
    pub fn range_tombstones(&self) -> u64 {
        self.tombstones.count()
    }

    /// Whether nothing was inserted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries() == 0 && self.range_tombstones() == 0
    }

    /// The smallest and the largest sequence number inserted, range tombstones included.
    #[must_use]
    pub fn sequence_range(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        self.tree.lanes().sequence_range()
    }
}

#[cfg(test)]
mod tests;
