//! Range tombstones: deletions of all keys in `[start, end)` older than a sequence number.
//!
//! It knows neither where they are stored nor which snapshot looks; it answers "what covers this
//! key". Overlapping tombstones are cut at each other's borders into disjoint *fragments*, so that
//! a lookup is one binary search.

use crate::{id::SequenceNumber, slice::Slice};

/// Deletes every entry of a key in `[start, end)` that is older than `sequence`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangeTombstone {
    /// First key deleted.
    pub start: Slice,
    /// First key after it that is not deleted.
    pub end: Slice,
    /// The place of the deletion in the order of the database.
    pub sequence: SequenceNumber,
}

/// A stretch of keys that is covered by the same tombstones from end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// First key covered.
    pub start: Slice,
    /// First key not covered any more.
    pub end: Slice,
    /// The tombstones' sequence numbers, newest first, without repetition; never empty.
    pub sequences: Vec<SequenceNumber>,
}

impl Fragment {
    /// The newest tombstone of the fragment that a reader at `visible` sees.
    #[must_use]
    pub fn newest_visible(&self, visible: SequenceNumber) -> Option<SequenceNumber> {
        let index = self.sequences.partition_point(|&sequence| sequence > visible);
        self.sequences.get(index).copied()
    }
}

/// Disjoint fragments in key order; immutable.
///
/// # Invariants
/// 1. Each fragment has `start < end`.
/// 2. A fragment ends at or before the start of the next.
/// 3. The sequence numbers of a fragment descend, and there is at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    fragments: Vec<Fragment>,
}

impl Fragments {
    /// Cuts `tombstones`, in any order, into fragments. Empty ranges vanish.
    ///
    /// Cost: O(n log n) plus the number of (fragment, tombstone) pairs.
    #[must_use]
    pub fn new(tombstones: &[RangeTombstone]) -> Self {
        let mut by_start: Vec<&RangeTombstone> =
            tombstones.iter().filter(|tombstone| tombstone.start < tombstone.end).collect();
        by_start.sort();
        let mut borders: Vec<&Slice> =
            by_start.iter().flat_map(|tombstone| [&tombstone.start, &tombstone.end]).collect();
        borders.sort();
        borders.dedup();
        let mut fragments = Vec::with_capacity(borders.len().saturating_sub(1));
        let mut open: Vec<&RangeTombstone> = Vec::new();
        let mut waiting = by_start.into_iter().peekable();
        for border in borders.windows(2) {
            let (start, end) = (border[0], border[1]);
            open.retain(|tombstone| tombstone.end > *start);
            while let Some(tombstone) = waiting.next_if(|next| next.start == *start) {
                open.push(tombstone);
            }
            if open.is_empty() {
                continue;
            }
            let mut sequences: Vec<_> = open.iter().map(|tombstone| tombstone.sequence).collect();
            sequences.sort_unstable_by(|a, b| b.cmp(a));
            sequences.dedup();
            fragments.push(Fragment { start: start.clone(), end: end.clone(), sequences });
        }
        Self { fragments }
    }

    /// The fragments that `fragments` are already; `None` if the invariants do not hold.
    ///
    /// Cost: O(n) in fragments and sequence numbers; allocates nothing.
    #[must_use]
    pub fn from_ordered(fragments: Vec<Fragment>) -> Option<Self> {
        let are_apart = fragments.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let are_sound = fragments.iter().all(|fragment| {
            fragment.start < fragment.end
                && !fragment.sequences.is_empty()
                && fragment.sequences.is_sorted_by(|newer, older| newer > older)
        });
        (are_apart && are_sound).then_some(Self { fragments })
    }

    /// Whether there is no tombstone.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Tombstones, one for each fragment and sequence number.
    #[must_use]
    pub fn count(&self) -> usize {
        self.fragments.iter().map(|fragment| fragment.sequences.len()).sum()
    }

    /// The fragments in key order.
    #[must_use]
    pub fn as_slice(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The fragment that holds `key`, if any.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<&Fragment> {
        let index = self.index_ending_after(key);
        self.fragments.get(index).filter(|fragment| fragment.start.as_bytes() <= key)
    }

    /// The newest tombstone over `key` that a reader at `visible` sees.
    #[inline]
    #[must_use]
    pub fn covering(&self, key: &[u8], visible: SequenceNumber) -> Option<SequenceNumber> {
        if self.fragments.is_empty() {
            return None;
        }
        self.find(key)?.newest_visible(visible)
    }

    /// The index of the first fragment that ends after `key`: the one that holds it or the next.
    #[must_use]
    pub fn index_ending_after(&self, key: &[u8]) -> usize {
        self.fragments.partition_point(|fragment| fragment.end.as_bytes() <= key)
    }

    /// The tombstones again, one per (fragment, sequence number), in key order, newest first.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(|fragment| {
            fragment.sequences.iter().map(|&sequence| RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                sequence,
            })
        })
    }
}

#[cfg(test)]
mod tests;
