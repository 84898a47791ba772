//! The range tombstones of several sources as one reader sees them.
//!
//! It answers for one snapshot and remembers where it answered last, so that asking along a scan
//! does not search each time.

use siltdb_base::{
    id::SequenceNumber,
    tombstone::{Fragment, Fragments},
};
use std::sync::Arc;

/// The newest visible range tombstone over a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The tombstone's place in the order of the database.
    pub sequence: SequenceNumber,
    list: usize,
    fragment: usize,
}

#[derive(Debug)]
struct List {
    fragments: Arc<Fragments>,
    /// Newer tombstones are not seen.
    visible: SequenceNumber,
    /// The fragment that held the key asked for last, or the first after it.
    near: usize,
    /// The newest visible tombstone of that fragment.
    newest: Option<SequenceNumber>,
}

/// The range tombstones that a reader at one snapshot sees.
#[derive(Debug)]
pub struct Coverage {
    lists: Vec<List>,
}

impl Coverage {
    /// The tombstones of all `lists`, seen at `snapshot`.
    #[must_use]
    pub fn new(lists: Vec<Arc<Fragments>>, snapshot: SequenceNumber) -> Self {
        let mut coverage = Self { lists: Vec::new() };
        coverage.add(lists, snapshot);
        coverage
    }

    /// Adds the tombstones of `lists` up to `visible`.
    pub fn add(&mut self, lists: Vec<Arc<Fragments>>, visible: SequenceNumber) {
        let lists = lists.into_iter().filter(|fragments| !fragments.is_empty());
        self.lists.extend(lists.map(|fragments| {
            let newest = fragments.newest_visible(0, visible);
            List { fragments, visible, near: 0, newest }
        }));
    }

    /// Whether there is no tombstone at all.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The newest visible tombstone over `key`.
    ///
    /// Cost: per source with tombstones two comparisons along a scan, else a binary search.
    #[inline]
    pub fn find(&mut self, key: &[u8]) -> Option<Cover> {
        // Most readers have no range tombstone at all.
        if self.lists.is_empty() { None } else { self.search(key) }
    }

    fn search(&mut self, key: &[u8]) -> Option<Cover> {
        let mut newest: Option<Cover> = None;
        for (index, list) in self.lists.iter_mut().enumerate() {
            list.approach(key);
            let Some(fragment) = list.fragments.as_slice().get(list.near) else { continue };
            if fragment.start.as_bytes() > key {
                continue;
            }
            let Some(sequence) = list.newest else { continue };
            if newest.is_none_or(|cover| cover.sequence < sequence) {
                newest = Some(Cover { sequence, list: index, fragment: list.near });
            }
        }
        newest
    }

    /// Whether no visible tombstone touches the keys from `first` to `last`, both included.
    #[must_use]
    pub fn is_clear(&self, first: &[u8], last: &[u8]) -> bool {
        self.lists.iter().all(|list| {
            let fragments = list.fragments.as_slice();
            (list.fragments.index_ending_after(first)..fragments.len())
                .take_while(|&index| fragments[index].start.as_bytes() <= last)
                .all(|index| list.fragments.newest_visible(index, list.visible).is_none())
        })
    }

    /// The stretch of keys over which `cover` holds.
    #[must_use]
    pub fn fragment(&self, cover: Cover) -> &Fragment {
        &self.lists[cover.list].fragments.as_slice()[cover.fragment]
    }
}

impl List {
    /// Makes `near` the index of the first fragment that ends after `key`.
    #[inline]
    fn approach(&mut self, key: &[u8]) {
        let fragments = self.fragments.as_slice();
        let ends_after = |index: usize| {
            fragments.get(index).is_none_or(|fragment| fragment.end.as_bytes() > key)
        };
        let begins = self.near == 0 || !ends_after(self.near - 1);
        if !(begins && ends_after(self.near)) {
            self.near = self.fragments.index_ending_after(key);
            let is_there = self.near < fragments.len();
            self.newest =
                is_there.then(|| self.fragments.newest_visible(self.near, self.visible)).flatten();
        }
    }
}
