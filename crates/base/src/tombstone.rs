//! Range tombstones: deletions of all keys in `[start, end)` older than a sequence number.
//!
//! It knows neither where they are stored nor which snapshot looks; it answers "what covers this
//! key". Overlapping tombstones are cut at each other's borders into disjoint *fragments*, so that
//! a lookup is one binary search.
//!
//! However they overlap, `n` tombstones take O(n log n) memory. A fragment may have `n` sequence
//! numbers, so it does not list them. They stand in a segment tree over the fragments: each
//! tombstone at the O(log n) nodes that together are its range. Those over a fragment are found on
//! the way from its leaf to the root.

use crate::{
    budget::{Budget, Charge, Part},
    id::SequenceNumber,
    slice::Slice,
};
use std::{cmp::Reverse, ops::Range, sync::Arc};

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
}

/// Disjoint fragments in key order; immutable.
///
/// # Invariants
/// 1. Each fragment has `start < end`, and a tombstone over it.
/// 2. A fragment ends at or before the start of the next.
#[derive(Debug, Default)]
pub struct Fragments {
    fragments: Vec<Fragment>,
    covers: Covers,
    /// The memory that the tombstones take, where the budget counts it.
    charge: Option<Charge>,
}

impl Fragments {
    /// Cuts `tombstones`, in any order, into fragments. Empty ranges vanish.
    ///
    /// Cost: O(n log n), in time and memory.
    #[must_use]
    pub fn new(tombstones: &[RangeTombstone]) -> Self {
        let mut newest_first: Vec<&RangeTombstone> =
            tombstones.iter().filter(|tombstone| tombstone.start < tombstone.end).collect();
        newest_first.sort_by_key(|tombstone| Reverse(tombstone.sequence));
        let mut borders: Vec<&Slice> =
            newest_first.iter().flat_map(|tombstone| [&tombstone.start, &tombstone.end]).collect();
        borders.sort();
        borders.dedup();
        let place = |border: &Slice| borders.partition_point(|other| *other < border);
        let ranges: Vec<Range<usize>> = newest_first
            .iter()
            .map(|tombstone| place(&tombstone.start)..place(&tombstone.end))
            .collect();
        // How many tombstones begin at each border, and end there.
        let mut changes = vec![(0_usize, 0_usize); borders.len()];
        for range in &ranges {
            changes[range.start].0 += 1;
            changes[range.end].1 += 1;
        }
        let mut fragments = Vec::with_capacity(borders.len().saturating_sub(1));
        // The number of fragments before each border.
        let mut before = Vec::with_capacity(borders.len());
        let mut open = 0;
        for (index, (begins, ends)) in changes.into_iter().enumerate() {
            before.push(fragments.len());
            open = open + begins - ends;
            if open > 0 {
                let (start, end) = (borders[index].clone(), borders[index + 1].clone());
                fragments.push(Fragment { start, end });
            }
        }
        let covered = newest_first
            .iter()
            .zip(&ranges)
            .map(|(tombstone, range)| (before[range.start]..before[range.end], tombstone.sequence));
        let covers = Covers::new(fragments.len(), covered);
        Self { fragments, covers, charge: None }
    }

    /// The same, and their memory is charged to a part of `budget` while they live.
    #[must_use]
    pub fn charged(mut self, budget: &Arc<Budget>, part: Part) -> Self {
        self.charge = Some(Charge::new(budget, part, self.memory_bytes()));
        self
    }

    /// Bytes of memory that they take, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let keys = self.fragments.iter().map(|fragment| fragment.start.len() + fragment.end.len());
        keys.sum::<usize>() + size_of_val(&self.fragments[..]) + self.covers.memory_bytes()
    }

    /// Makes the list of the fragments given, each with its sequence numbers, newest first. `None`
    /// if the invariants do not hold, or a sequence number comes out of order or twice.
    ///
    /// Cost: O(n) in fragments and sequence numbers, in time and memory.
    #[must_use]
    pub fn from_ordered(ordered: Vec<(Fragment, Vec<SequenceNumber>)>) -> Option<Self> {
        let are_apart = ordered.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start);
        let are_sound = ordered.iter().all(|(fragment, sequences)| {
            fragment.start < fragment.end
                && !sequences.is_empty()
                && sequences.is_sorted_by(|newer, older| newer > older)
        });
        if !are_apart || !are_sound {
            return None;
        }
        let covers = Covers::of_places(ordered.iter().map(|(_, sequences)| &sequences[..]));
        let fragments = ordered.into_iter().map(|(fragment, _)| fragment).collect();
        Some(Self { fragments, covers, charge: None })
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
        let count = |index| match self.covers.only_list(index) {
            Some(list) => list.chunk_by(|newer, older| newer == older).count(),
            None => self.sequences(index).len(),
        };
        (0..self.fragments.len()).map(count).sum()
    }

    /// The fragments in key order.
    #[must_use]
    pub fn as_slice(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The index of the fragment that holds `key`, if any does.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let index = self.index_ending_after(key);
        let fragment = self.fragments.get(index)?;
        (fragment.start.as_bytes() <= key).then_some(index)
    }

    /// The newest tombstone of the fragment at `index` that a reader at `visible` sees.
    #[must_use]
    pub fn newest_visible(&self, index: usize, visible: SequenceNumber) -> Option<SequenceNumber> {
        self.covers.newest(index, visible)
    }

    /// The sequence numbers of the fragment at `index`, newest first, without repetition; never
    /// empty.
    #[must_use]
    pub fn sequences(&self, index: usize) -> Vec<SequenceNumber> {
        self.covers.all(index)
    }

    /// The newest tombstone over `key` that a reader at `visible` sees.
    #[inline]
    #[must_use]
    pub fn covering(&self, key: &[u8], visible: SequenceNumber) -> Option<SequenceNumber> {
        if self.fragments.is_empty() {
            return None;
        }
        self.newest_visible(self.find(key)?, visible)
    }

    /// The index of the first fragment that ends after `key`: the one that holds it or the next.
    #[must_use]
    pub fn index_ending_after(&self, key: &[u8]) -> usize {
        self.fragments.partition_point(|fragment| fragment.end.as_bytes() <= key)
    }

    /// The tombstones again, one per (fragment, sequence number), in key order, newest first.
    ///
    /// There may be as many as the square of those they were cut from.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().enumerate().flat_map(|(index, fragment)| {
            self.sequences(index).into_iter().map(|sequence| RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                sequence,
            })
        })
    }
}

impl PartialEq for Fragments {
    fn eq(&self, other: &Self) -> bool {
        self.fragments == other.fragments
            && (0..self.fragments.len())
                .all(|index| self.sequences(index) == other.sequences(index))
    }
}

/// Sequence numbers over ranges of `leaves` places: a segment tree.
///
/// # Invariants
/// 1. Node 1 is the root. The children of node `i` are `2 i` and `2 i + 1`, and place `i` is node
///    `leaves + i`.
/// 2. The list of node `i` is `sequences[starts[i]..starts[i + 1]]`, newest first.
#[derive(Debug, Default)]
struct Covers {
    leaves: usize,
    starts: Vec<usize>,
    sequences: Vec<SequenceNumber>,
}

impl Covers {
    /// Builds the tree over `leaves` places; the ranges come with the newest first.
    fn new(
        leaves: usize,
        newest_first: impl Iterator<Item = (Range<usize>, SequenceNumber)> + Clone,
    ) -> Self {
        let mut starts = vec![0; 2 * leaves + 1];
        for (range, _) in newest_first.clone() {
            nodes(leaves, range, |node| starts[node + 1] += 1);
        }
        for node in 1..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut sequences = vec![SequenceNumber::ZERO; starts[2 * leaves]];
        let mut ends = starts.clone();
        for (range, sequence) in newest_first {
            nodes(leaves, range, |node| {
                sequences[ends[node]] = sequence;
                ends[node] += 1;
            });
        }
        Self { leaves, starts, sequences }
    }

    /// Each place has a list of its own, newest first.
    fn of_places<'a>(lists: impl ExactSizeIterator<Item = &'a [SequenceNumber]>) -> Self {
        let leaves = lists.len();
        let mut starts = vec![0; leaves + 1];
        let mut sequences = Vec::new();
        for list in lists {
            sequences.extend_from_slice(list);
            starts.push(sequences.len());
        }
        Self { leaves, starts, sequences }
    }

    fn list(&self, node: usize) -> &[SequenceNumber] {
        &self.sequences[self.starts[node]..self.starts[node + 1]]
    }

    /// The list of a place, if none but places have lists: so it is in what a table holds.
    #[inline]
    fn only_list(&self, place: usize) -> Option<&[SequenceNumber]> {
        (self.starts[self.leaves] == 0).then(|| self.list(self.leaves + place))
    }

    /// The lists that hold for a place.
    #[inline]
    fn lists(&self, place: usize) -> impl Iterator<Item = &[SequenceNumber]> {
        let leaf = self.leaves + place;
        let path = std::iter::successors(Some(leaf), |&node| (node > 1).then_some(node / 2));
        path.map(|node| self.list(node))
    }

    fn newest(&self, place: usize, visible: SequenceNumber) -> Option<SequenceNumber> {
        let newest = |list: &[SequenceNumber]| {
            list.get(list.partition_point(|&sequence| sequence > visible)).copied()
        };
        match self.only_list(place) {
            Some(list) => newest(list),
            None => self.lists(place).filter_map(newest).max(),
        }
    }

    fn all(&self, place: usize) -> Vec<SequenceNumber> {
        let mut all: Vec<_> = self.lists(place).flatten().copied().collect();
        all.sort_unstable_by_key(|&sequence| Reverse(sequence));
        all.dedup();
        all
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.sequences[..])
    }
}

/// Calls `each` with the nodes whose places together are `range`.
fn nodes(leaves: usize, range: Range<usize>, mut each: impl FnMut(usize)) {
    let (mut start, mut end) = (leaves + range.start, leaves + range.end);
    while start < end {
        if start % 2 == 1 {
            each(start);
            start += 1;
        }
        if end % 2 == 1 {
            end -= 1;
            each(end);
        }
        (start, end) = (start / 2, end / 2);
    }
}

#[cfg(test)]
mod tests;
