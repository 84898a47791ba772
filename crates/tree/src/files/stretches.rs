//! How large the tables of the smallest stretch of neighbours are.
//!
//! It knows sizes alone, and joins nothing.

/// Neighbours in a stretch. It is the fewest that are joined.
pub const STRETCH: usize = 8;

/// Sizes at an end that a stretch across it may take.
const EDGE: usize = STRETCH - 1;

/// The smallest stretch of some tables, and what a stretch across their ends needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretches {
    /// The size of the largest table of the smallest stretch; `u64::MAX` if there is none.
    smallest: u64,
    /// The sizes at the begin and at the end, and how many there are. They are the same, if there
    /// are so few.
    first: [u64; EDGE],
    last: [u64; EDGE],
    count: usize,
}

impl Stretches {
    const NONE: Self = Self { smallest: u64::MAX, first: [0; EDGE], last: [0; EDGE], count: 0 };

    /// Those of tables with these sizes, in bytes.
    #[must_use]
    pub fn of_sizes(sizes: impl Iterator<Item = u64>) -> Self {
        let mut all = Self::NONE;
        for size in sizes {
            if all.count == EDGE {
                let largest = all.last.iter().fold(size, |largest, &other| largest.max(other));
                all.smallest = all.smallest.min(largest);
                all.last.copy_within(1.., 0);
                all.last[EDGE - 1] = size;
            } else {
                all.first[all.count] = size;
                all.last[all.count] = size;
                all.count += 1;
            }
        }
        all
    }

    /// Those of neighbouring parts.
    #[must_use]
    pub fn of_parts<'s>(parts: impl Iterator<Item = &'s Self>) -> Self {
        parts.fold(Self::NONE, |all, part| all.with(part))
    }

    fn with(self, next: &Self) -> Self {
        let before = self.last[..self.count].iter();
        let across = before.chain(&next.first[..next.count]).copied();
        let across = Self::of_sizes(across);
        let smallest = self.smallest.min(next.smallest).min(across.smallest);
        // A full edge hides what is before or after it.
        let first = if self.count == EDGE { self.first } else { across.first };
        let last = if next.count == EDGE { next.last } else { across.last };
        Self { smallest, first, last, count: across.count }
    }

    /// Whether there is a stretch of tables that are all smaller than this, in bytes.
    #[must_use]
    pub fn has_below(&self, bytes: u64) -> bool {
        self.smallest < bytes
    }
}

#[cfg(test)]
mod tests;
