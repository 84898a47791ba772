//! Which units of some chunks are free: hands out extents of neighbouring units, takes them back,
//! and joins what is free side by side.
//!
//! It knows numbers only. Its user knows what a unit is, and where it lies.
//!
//! Gaps are kept in bins by length, eight for each power of two. A bit for each bin says whether it
//! holds any, so that a fitting one is found without a search. This is *two-level segregated fit*
//! (Masmano, Ripoll, Crespo, Real: TLSF: a New Dynamic Memory Allocator for Real-Time Systems,
//! 2004). The first and the last unit of a gap lead to it, so that its neighbours find it when they
//! come back. What is out leaves no trace here: memory that is full costs nothing, however small
//! its units.
//!
//! A chunk can be closed: nothing is taken from it any more. Once all that was out came back, it is
//! vacant, and the next chunk that is added takes its place.
//!
//! # Invariants
//! 1. Each unit of an open chunk belongs to one extent that is out, or to one gap. None of them
//!    crosses the border of a chunk, and no two gaps touch. A closed chunk has no gaps. This holds
//!    as long as what comes back was out.
//! 2. The first and the last unit of each gap have its tag, and no other unit has one.
//! 3. A gap is in the bin of its length once, at the index that its tag has. The bit of a bin says
//!    whether there is a gap in it.
//! 4. Each chunk counts its units that are out.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// Bins for each power of two, and lengths that have a bin of their own.
const STEPS: u32 = 8;
const STEPS_LOG2: u32 = STEPS.ilog2();

/// What is known of the units at the borders of a gap.
#[derive(Clone, Copy, Debug)]
struct Tag {
    length: u32,
    /// Where the gap is in its bin.
    index: u32,
}

/// Hashes the number of a unit without a secret, because no caller can choose numbers to collide.
#[derive(Default)]
struct UnitHasher(u64);

impl Hasher for UnitHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, unit: u32) {
        // Fibonacci hashing: the upper half is mixed best, and a map looks at the lower bits first.
        self.0 = (self.0 ^ u64::from(unit)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The units of some chunks of one size, and which of them are free.
#[derive(Debug)]
pub struct Extents {
    chunk_units: u32,
    /// Units of all chunks.
    units: u32,
    tags: HashMap<u32, Tag, BuildHasherDefault<UnitHasher>>,
    /// The first units of the gaps of each length.
    bins: Vec<Vec<u32>>,
    filled: u128,
    chunks: Vec<ChunkUnits>,
}

/// What is known of a chunk.
#[derive(Clone, Copy, Debug)]
struct ChunkUnits {
    /// Units that are out (4).
    out: u32,
    state: ChunkState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Open,
    Closed,
    /// Closed, and all units came back.
    Vacant,
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
        let (tags, chunks) = (HashMap::default(), Vec::new());
        Self { chunk_units, units: 0, tags, bins, filled: 0, chunks }
    }

    /// Adds a chunk, and returns its index: that of a vacant one, or else the next.
    ///
    /// # Panics
    /// If the number of units would exceed 32 bits.
    pub fn grow(&mut self) -> usize {
        let added = ChunkUnits { out: 0, state: ChunkState::Open };
        let vacant = self.chunks.iter().position(|chunk| chunk.state == ChunkState::Vacant);
        let index = vacant.unwrap_or(self.chunks.len());
        match self.chunks.get_mut(index) {
            Some(chunk) => *chunk = added,
            None => {
                self.units = self.units.checked_add(self.chunk_units).expect("too many chunks");
                self.chunks.push(added);
            }
        }
        // By the last line there are less than 2^32 units.
        self.put_gap(index as u32 * self.chunk_units, self.chunk_units);
        index
    }

    /// Closes the open chunk that has the fewest units out, and returns its index and how many
    /// these are. With none it is vacant at once.
    ///
    /// Cost: a look at each gap.
    pub fn close_one(&mut self) -> Option<(usize, u32)> {
        let open = self.chunks.iter().enumerate().filter(|(_, it)| it.state == ChunkState::Open);
        let (index, _) = open.min_by_key(|(_, chunk)| chunk.out)?;
        let units = index as u32 * self.chunk_units..(index as u32 + 1) * self.chunk_units;
        let gaps: Vec<u32> =
            self.bins.iter().flatten().copied().filter(|first| units.contains(first)).collect();
        for first in gaps {
            self.remove_gap(first);
        }
        let chunk = &mut self.chunks[index];
        chunk.state = if chunk.out == 0 { ChunkState::Vacant } else { ChunkState::Closed };
        Some((index, chunk.out))
    }

    /// The first of `length` units that were free, if there is a gap to take them from.
    ///
    /// Looks only into bins whose gaps all fit. Unless `length` begins a bin, a gap that is less
    /// than an eighth longer may be passed over.
    pub fn take(&mut self, length: u32) -> Option<u32> {
        let from = fitting_bin(length);
        let fitting = self.filled.checked_shr(from)?;
        if length == 0 || fitting == 0 {
            return None;
        }
        let bin = from + fitting.trailing_zeros();
        let first = *self.bins[bin as usize].last().expect("by (3) the bin is not empty");
        let whole = self.remove_gap(first);
        if whole > length {
            self.put_gap(first + length, whole - length);
        }
        self.chunks[(first / self.chunk_units) as usize].out += length;
        Some(first)
    }

    /// Takes back the extent of `length` units that begins with the unit `first`. It must be out:
    /// that is not checked but where a gap begins or ends with the same unit. Returns the index of
    /// its chunk, if that is vacant now.
    ///
    /// # Panics
    /// If there is no such extent, as far as that is checked.
    pub fn give(&mut self, first: u32, length: u32) -> Option<usize> {
        let (mut start, mut end) = (first, first + length);
        let is_within = length > 0 && end <= self.units;
        let is_free = [first, end - 1].iter().any(|unit| self.tags.contains_key(unit));
        assert!(is_within && !is_free, "unit {first} begins no extent that is out");
        let index = (first / self.chunk_units) as usize;
        let chunk = &mut self.chunks[index];
        chunk.out = chunk.out.checked_sub(length).expect("by (4) its units are counted");
        if chunk.state != ChunkState::Open {
            let is_vacant = chunk.out == 0;
            chunk.state = if is_vacant { ChunkState::Vacant } else { ChunkState::Closed };
            return is_vacant.then_some(index);
        }
        if !end.is_multiple_of(self.chunk_units) && self.tags.contains_key(&end) {
            end += self.remove_gap(end);
        }
        if !start.is_multiple_of(self.chunk_units)
            && let Some(before) = self.tags.get(&(start - 1))
        {
            start -= before.length;
            self.remove_gap(start);
        }
        self.put_gap(start, end - start);
        None
    }

    fn put_gap(&mut self, first: u32, length: u32) {
        let bin = bin_of(length);
        let gaps = &mut self.bins[bin as usize];
        let tag = Tag { length, index: gaps.len() as u32 };
        gaps.push(first);
        self.filled |= 1 << bin;
        self.tags.insert(first, tag);
        self.tags.insert(first + length - 1, tag);
    }

    /// Removes the gap that begins with the unit `first`, and returns its length.
    fn remove_gap(&mut self, first: u32) -> u32 {
        let Tag { length, index } = self.tags.remove(&first).expect("by (2) it has a tag");
        self.tags.remove(&(first + length - 1));
        let bin = bin_of(length);
        let gaps = &mut self.bins[bin as usize];
        gaps.swap_remove(index as usize);
        if let Some(&moved) = gaps.get(index as usize) {
            let length = self.tags[&moved].length;
            for border in [moved, moved + length - 1] {
                self.tags.insert(border, Tag { length, index });
            }
        } else if gaps.is_empty() {
            self.filled &= !(1 << bin);
        }
        length
    }
}

#[cfg(test)]
mod tests;
