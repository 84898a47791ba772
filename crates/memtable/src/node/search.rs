//! Finding a place in one node: the prefix first, then the heads, then whole keys where heads
//! agree.
//!
//! It changes nothing. All reads are atomic, as [`super`] says, and what comes out amid a change is
//! thrown away by the caller.

use super::layout::{FANOUT, INLINE_BYTES, INLINE_WORDS, NodeKeys, NodeShape};
use crate::entry::Probe;
use siltdb_base::{key::head, sync::atomic::Ordering as Order};
use std::{cmp::Ordering, hint::select_unpredictable};

/// Where to stand if the node has exactly the entry that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// Before it: the entry is the answer.
    Before,
    /// After it: the entry is the lower bound of the child to its right.
    After,
}

/// The 8 bytes of `key` from `offset` on as a number that orders as they do, zero-filled.
#[inline]
pub fn head_at(key: &[u8], offset: usize) -> u64 {
    let rest = key.get(offset..).unwrap_or(&[]);
    if let Some(chunk) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*chunk);
    }
    match key.last_chunk::<8>() {
        // The end of the key holds the bytes wanted, and others before them that are shifted out.
        Some(chunk) if !rest.is_empty() => u64::from_be_bytes(*chunk) << (64 - 8 * rest.len()),
        _ => head(rest),
    }
}

/// How many bytes the two share from the beginning.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The bits of an inline word that belong to the prefix.
#[inline]
fn word_mask(prefix_bytes: usize, index: usize) -> u64 {
    match prefix_bytes.saturating_sub(index * 8) {
        0 => 0,
        1..8 => u64::MAX << (64 - 8 * (prefix_bytes - index * 8)),
        _ => u64::MAX,
    }
}

/// The first bytes of `key`, as far as they belong to the prefix and to [`INLINE_BYTES`].
pub fn inline_words(key: &[u8], prefix_bytes: usize) -> [u64; INLINE_WORDS] {
    std::array::from_fn(|index| head_at(key, index * 8) & word_mask(prefix_bytes, index))
}

impl NodeKeys {
    /// Whether `key` begins with the prefix of the node.
    #[inline]
    pub fn has_prefix(&self, shape: NodeShape, key: &[u8]) -> bool {
        self.compare_prefix(shape, key) == Ordering::Equal
    }

    /// Where keys that begin with the node's prefix stand, seen from `key`.
    #[inline]
    fn compare_prefix(&self, shape: NodeShape, key: &[u8]) -> Ordering {
        if shape.prefix_bytes == 0 {
            return Ordering::Equal;
        }
        for (index, word) in self.inline.iter().enumerate() {
            if shape.prefix_bytes <= index * 8 {
                break;
            }
            let wanted = head_at(key, index * 8) & word_mask(shape.prefix_bytes, index);
            match word.load(Order::Relaxed).cmp(&wanted) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        if shape.prefix_bytes > INLINE_BYTES {
            return self.compare_long_prefix(shape, key);
        }
        // Zero-filled words agree; a key that ends within the prefix comes before it.
        if key.len() < shape.prefix_bytes { Ordering::Greater } else { Ordering::Equal }
    }

    #[inline(never)]
    fn compare_long_prefix(&self, shape: NodeShape, key: &[u8]) -> Ordering {
        let Some(first) = self.entry(0) else { return Ordering::Equal };
        // Amid a change the first key may be shorter than the prefix.
        let stored = first.key();
        let stored = &stored[..shape.prefix_bytes.min(stored.len())];
        stored.cmp(&key[..shape.prefix_bytes.min(key.len())])
    }

    #[inline]
    fn head(&self, index: usize) -> u64 {
        // Relaxed: the version word orders heads. The mask is the identity by (3) and saves a
        // check.
        self.heads[index & (FANOUT - 1)].load(Order::Relaxed)
    }

    /// How many of the first `count` heads are below `head`; without branches that could be guessed
    /// wrong.
    #[inline]
    fn heads_below(&self, count: usize, head: u64) -> usize {
        let (mut base, mut left) = (0, count);
        while left > 1 {
            let half = left / 2;
            base = select_unpredictable(self.head(base + half - 1) < head, base + half, base);
            left -= half;
        }
        base + usize::from(left == 1 && self.head(base) < head)
    }

    /// How many entries come before `probe`. None only amid a change.
    #[inline]
    pub fn position(&self, shape: NodeShape, probe: Probe<'_>, ties: Ties) -> Option<usize> {
        match self.compare_prefix(shape, probe.key) {
            Ordering::Less => return Some(shape.count),
            Ordering::Greater => return Some(0),
            Ordering::Equal => {}
        }
        let head = head_at(probe.key, shape.prefix_bytes);
        let start = if shape.count > 0 && self.head(shape.count - 1) < head {
            shape.count
        } else {
            self.heads_below(shape.count, head)
        };
        if start == shape.count || self.head(start) != head {
            return Some(start);
        }
        self.position_among_equals(shape, start, probe, ties)
    }

    /// As [`Self::position`], knowing that the first entry with the same head is at `start`.
    #[inline]
    fn position_among_equals(
        &self,
        shape: NodeShape,
        start: usize,
        probe: Probe<'_>,
        ties: Ties,
    ) -> Option<usize> {
        let goes_before = |index| {
            Some(match self.entry(index)?.compare(probe) {
                Ordering::Less => true,
                Ordering::Equal => ties == Ties::After,
                Ordering::Greater => false,
            })
        };
        // A new version of a key that has many comes before them all. One entry is compared first,
        // because each costs a miss of the processor's caches.
        if !goes_before(start)? {
            return Some(start);
        }
        let head = self.head(start);
        let mut end = start + 1;
        if end < shape.count && self.head(end) == head {
            end = match head.checked_add(1) {
                Some(above) => self.heads_below(shape.count, above),
                None => shape.count,
            };
        }
        let mut start = start + 1;
        while start < end {
            let middle = start + (end - start) / 2;
            if goes_before(middle)? {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        Some(start)
    }
}
