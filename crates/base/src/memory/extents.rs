//! Which units of some chunks are free: hands out extents of neighbouring units, takes them back,
//! and joins what is free side by side.
//!
//! It knows numbers only; what a unit is, and where it lies, is its user's business.
//!
//! Gaps are kept in bins by length, eight for each power of two; a bit for each bin says whether it
//! holds any, so that a fitting one is found without a search (*two-level segregated fit*; Masmano,
//! Ripoll, Crespo, Real: TLSF: a New Dynamic Memory Allocator for Real-Time Systems, 2004). The
//! first and the last unit of a gap know its length, so that its neighbours find it when they come
//! back.
//!
//! # Invariants
//! 1. Each unit belongs to one extent that is out, or to one gap; none of them crosses the border
//!    of a chunk, and no two gaps touch.
//! 2. The tag of the first unit of each holds its length, that of the last unit of a gap too.
//! 3. A gap is in the bin of its length once, at the index that the tag of its first unit has; the
//!    bit of a bin says whether there is a gap in it.

/// Bins for each power of two, and lengths that have a bin of their own.
const STEPS: u32 = 8;
const STEPS_LOG2: u32 = STEPS.ilog2();

/// What is known of a unit at the border of an extent or a gap.
#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    length: u32,
    is_free: bool,
    /// Where a gap is in its bin.
    index: u32,
}

/// The units of some chunks of one size, and which of them are free.
#[derive(Debug)]
pub struct Extents {
    chunk_units: u32,
    tags: Vec<Tag>,
    /// The first units of the gaps of each length.
    bins: Vec<Vec<u32>>,
    filled: u128,
}

/// The bin of gaps of this length.
fn bin_of(length: u32) -> u32 {
    if length < STEPS {
        return length;
    }
    let power = length.ilog2();
    let step = (length >> (power - STEPS_LOG2)) % STEPS;
    (power - STEPS_LOG2 + 1) * STEPS + step
}

/// The first bin whose gaps all have this length at least.
fn fitting_bin(length: u32) -> u32 {
    let power = length.max(STEPS).ilog2();
    // Lengths that begin a bin are multiples of this.
    let step = 1 << (power - STEPS_LOG2);
    bin_of(length.next_multiple_of(step))
}

impl Extents {
    /// No chunk yet; one has `chunk_units`.
    ///
    /// # Panics
    /// If that is 0 or more than 65,536.
    #[must_use]
    pub fn new(chunk_units: u32) -> Self {
        assert!((1..=1 << 16).contains(&chunk_units), "{chunk_units} units of a chunk");
        let bins = vec![Vec::new(); bin_of(chunk_units) as usize + 1];
        Self { chunk_units, tags: Vec::new(), bins, filled: 0 }
    }

    /// Adds a chunk; its units follow those before it.
    ///
    /// # Panics
    /// If the number of units would exceed 32 bits.
    pub fn grow(&mut self) {
        let first = u32::try_from(self.tags.len()).ok();
        let end = first.and_then(|first| first.checked_add(self.chunk_units));
        let (Some(first), Some(end)) = (first, end) else { panic!("too many chunks") };
        self.tags.resize(end as usize, Tag::default());
        self.put_gap(first, self.chunk_units);
    }

    /// The first of `length` units that were free, if there is a gap to take them from.
    ///
    /// Looks only into bins all of whose gaps fit: unless `length` begins a bin, a gap that is less
    /// than an eighth longer may be passed over.
    pub fn take(&mut self, length: u32) -> Option<u32> {
        let from = fitting_bin(length);
        let fitting = self.filled.checked_shr(from)?;
        if length == 0 || fitting == 0 {
            return None;
        }
        let bin = from + fitting.trailing_zeros();
        let first = *self.bins[bin as usize].last().expect("by (3) the bin is not empty");
        let whole = self.tags[first as usize].length;
        self.remove_gap(first);
        self.tags[first as usize] = Tag { length, ..Tag::default() };
        if whole > length {
            self.put_gap(first + length, whole - length);
        }
        Some(first)
    }

    /// Takes back the extent that begins with the unit `first`.
    ///
    /// # Panics
    /// If no extent that is out does.
    pub fn give(&mut self, first: u32) {
        let Tag { length, is_free, .. } = self.tags[first as usize];
        assert!(length > 0 && !is_free, "unit {first} begins no extent that is out");
        self.tags[first as usize] = Tag::default();
        let (mut start, mut end) = (first, first + length);
        if !end.is_multiple_of(self.chunk_units) && self.tags[end as usize].is_free {
            let after = self.tags[end as usize].length;
            self.remove_gap(end);
            end += after;
        }
        if !start.is_multiple_of(self.chunk_units) && self.tags[start as usize - 1].is_free {
            start -= self.tags[start as usize - 1].length;
            self.remove_gap(start);
        }
        self.put_gap(start, end - start);
    }

    fn put_gap(&mut self, first: u32, length: u32) {
        let bin = bin_of(length);
        let gaps = &mut self.bins[bin as usize];
        let tag = Tag { length, is_free: true, index: gaps.len() as u32 };
        gaps.push(first);
        self.filled |= 1 << bin;
        self.tags[(first + length - 1) as usize] = tag;
        self.tags[first as usize] = tag;
    }

    fn remove_gap(&mut self, first: u32) {
        let Tag { length, index, .. } = self.tags[first as usize];
        let bin = bin_of(length);
        let gaps = &mut self.bins[bin as usize];
        gaps.swap_remove(index as usize);
        if let Some(&moved) = gaps.get(index as usize) {
            self.tags[moved as usize].index = index;
        } else if gaps.is_empty() {
            self.filled &= !(1 << bin);
        }
        self.tags[(first + length - 1) as usize] = Tag::default();
        self.tags[first as usize] = Tag::default();
    }
}

#[cfg(test)]
mod tests;
