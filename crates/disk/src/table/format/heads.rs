//! Ordered key heads, searched through a table of where those with the same upper bits begin.
//!
//! It knows numbers only: what they are the heads of is their user's business.
//!
//! A binary search over the blocks of a table takes a dozen steps that depend on each other. Here
//! the upper bits of the difference to the first head lead to the few heads that share them. These
//! are one or two, if the keys are spread evenly. The rest is a binary search, so that crowded
//! heads cost no more than without the table. It has between one and two entries for each head.
//!
//! Source: the idea of an interpolation table as in Kipf et al.: RadixSpline (2020), without the
//! spline.

use std::ops::Range;

/// Heads in ascending order; several may be equal.
#[derive(Debug, Default)]
pub struct Heads {
    heads: Vec<u64>,
    /// Of each group, where its first head would be; and how many heads there are in all.
    starts: Vec<u32>,
    /// Bits of the difference to the first head that say nothing of the group.
    shift: u32,
}

impl Heads {
    /// Makes heads searchable that are in ascending order.
    ///
    /// # Panics
    /// If there are 2^32 or more.
    #[must_use]
    pub fn new(heads: Vec<u64>) -> Self {
        let (Some(first), Some(last)) = (heads.first(), heads.last()) else {
            return Self::default();
        };
        debug_assert!(heads.is_sorted());
        let count = u32::try_from(heads.len()).expect("a table has less than 2^32 blocks");
        let span_bits = u64::BITS - (last - first).leading_zeros();
        let shift = span_bits.saturating_sub(u64::from(count).next_power_of_two().ilog2());
        let groups = ((last - first) >> shift) + 1;
        let mut starts = Vec::with_capacity(groups as usize + 1);
        for (index, head) in (0..).zip(&heads) {
            let group = (head - first) >> shift;
            // Also of the empty groups before it.
            starts.resize(starts.len().max(group as usize + 1), index);
        }
        starts.push(count);
        Self { heads, starts, shift }
    }

    /// Those equal to `sought`; an empty range at the first that is greater, if there are none.
    #[inline]
    #[must_use]
    pub fn equal(&self, sought: u64) -> Range<usize> {
        let count = self.heads.len();
        let Some(first) = self.heads.first() else { return 0..0 };
        let Some(distance) = sought.checked_sub(*first) else { return 0..0 };
        let group = usize::try_from(distance >> self.shift).unwrap_or(usize::MAX);
        let Some([start, end]) = group.checked_add(2).and_then(|end| self.starts.get(group..end))
        else {
            return count..count;
        };
        // What is equal is in one group, and those of other groups are smaller or greater.
        let group = &self.heads[*start as usize..*end as usize];
        let before = group.partition_point(|&head| head < sought);
        let same = group[before..].partition_point(|&head| head == sought);
        let begin = *start as usize + before;
        begin..begin + same
    }

    /// Bytes of memory they take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.heads[..]) + size_of_val(&self.starts[..])
    }
}

#[cfg(test)]
mod tests;
