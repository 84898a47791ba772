//! A set of ranges of keys: those that touch are one.

use siltdb_base::slice::Slice;
use siltdb_tree::read::visible::bounds::Bounds;
use std::{collections::BTreeMap, ops::Bound};

/// Keys from one bound to the other, as ordered maps take them.
pub type Span<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The ranges, by their first keys. A range without a lower bound begins with the empty key.
///
/// # Invariants
/// 1. No range is empty.
/// 2. Each range ends before the next one begins: at least one key lies between them.
#[derive(Clone, Debug, Default)]
pub struct RangeSet {
    /// The end of each range; `None` is no bound.
    ends: BTreeMap<Slice, Option<Slice>>,
    bytes: usize,
}

impl RangeSet {
    /// Adds the keys within `bounds`.
    ///
    /// Cost: a search, and one step for each range that becomes a part of the new one.
    pub fn insert(&mut self, bounds: &Bounds) {
        let mut first = bounds.lower.clone().unwrap_or_default();
        let mut end = bounds.upper.clone();
        if end.as_ref().is_some_and(|end| first >= *end) {
            return;
        }
        // The ranges that begin at or before the end, from the last one, until one ends before.
        loop {
            let begins_before = match &end {
                Some(end) => {
                    self.ends.range::<[u8], _>((Bound::Unbounded, Bound::Included(&**end)))
                }
                None => self.ends.range::<[u8], _>(..),
            };
            let Some((start, old_end)) = begins_before.into_iter().next_back() else { break };
            if old_end.as_ref().is_some_and(|old_end| *old_end < first) {
                break;
            }
            let start = start.clone();
            let old_end = self.ends.remove(&start).unwrap_or_default();
            self.bytes -= range_bytes(&start, old_end.as_ref());
            first = first.min(start);
            end = match (end, old_end) {
                (Some(end), Some(old_end)) => Some(end.max(old_end)),
                _ => None,
            };
        }
        self.bytes += range_bytes(&first, end.as_ref());
        self.ends.insert(first, end);
    }

    /// Whether a key within `span` lies in a range. The span holds a key.
    ///
    /// Cost: one search.
    #[must_use]
    pub fn overlaps(&self, span: Span<'_>) -> bool {
        let (lower, upper) = span;
        // Of the ranges that begin before the end of the span, the last one ends last.
        let mut begin_before = self.ends.range::<[u8], _>((Bound::Unbounded, upper));
        let Some((_, end)) = begin_before.next_back() else { return false };
        match (end, lower) {
            (None, _) | (_, Bound::Unbounded) => true,
            (Some(end), Bound::Included(lower) | Bound::Excluded(lower)) => lower < &**end,
        }
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Bounds> {
        self.ends.iter().map(|(first, end)| {
            let lower = (!first.is_empty()).then(|| first.clone());
            Bounds { lower, upper: end.clone() }
        })
    }

    /// Whether there is no range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The approximate memory of the ranges, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

fn range_bytes(first: &Slice, end: Option<&Slice>) -> usize {
    size_of::<(Slice, Option<Slice>)>() + first.len() + end.map_or(0, |end| end.len())
}

#[cfg(all(test, not(loom)))]
mod tests;
