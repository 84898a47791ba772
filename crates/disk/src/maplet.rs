//! A maplet: leads from the hash of a key to where in its table the key lies, for one cache miss.
//!
//! It knows hashes and places only. It is made in memory, for tables that are read a lot; no file
//! holds one, and a table answers the same without it.
//!
//! A key of hash `h` belongs to a line of 16 entries. An entry has a *tag*, some bits of the hash,
//! and the place of a key: its block, and its number within the block. The entries of a line fill
//! it from a position that the hash chooses, round and round, so that an empty entry ends a search.
//! What finds its line full is left out. So a maplet never says that a key is in the table: the
//! caller looks at the place. It says that a key is not there only if every block was added and the
//! search ended at an empty entry.
//!
//! Source: the word and the idea of a filter that has values: Conway, Farach-Colton, Johnson:
//! SplinterDB and Maplets (2023). The lines are a plain hash table with buckets.
//!
//! # Thread safety
//! Any thread may search. One at a time adds; a thread that finds another adding does not add.
//!
//! # Invariants
//! 1. An entry, once filled, stays as it is.
//! 2. An entry is put into the first empty place from its position on, under the lock. So a key of
//!    an added block, or one that follows it in its line, is missing only if its line is full.
//! 3. `to_add` is lowered (Release) after the entries of a block are in. So a reader that sees
//!    (Acquire) that none is left sees all entries.

use siltdb_base::{
    hint::{CACHE_LINE_BYTES, prefetch},
    invariant,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};
use std::{fmt, sync::TryLockError};

const LINE_ENTRIES: usize = CACHE_LINE_BYTES / size_of::<u32>();

/// Keys to a line, on average. Then one line in 20 has its last entry taken, and six keys in a
/// thousand find no room.
const LINE_KEYS: u64 = 10;

/// A tag is not shorter: one in 256 other entries would be taken for the key.
const TAG_BITS_MIN: u32 = 8;

/// Blocks whose bits share a word.
const BLOCKS_PER_WORD: usize = 64;

/// Where in its table a key lies: at the newest of its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    /// The index of the block in the table.
    pub block: usize,
    /// The entry of the block.
    pub entry: usize,
}

/// The measures of a maplet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapletShape {
    blocks: usize,
    lines: usize,
    /// Low bits of a place that number the entry within its block.
    entry_bits: u32,
    /// Low bits of an entry that hold the place plus one: an empty one is 0.
    place_bits: u32,
}

impl MapletShape {
    /// The shape for a table of `blocks` with `entries` together, and at most `block_entries_max`
    /// in each. `None`, if a tag would be too short.
    #[must_use]
    pub fn new(blocks: usize, entries: u64, block_entries_max: u32) -> Option<Self> {
        let entry_bits = u32::BITS - block_entries_max.saturating_sub(1).leading_zeros();
        let places = (blocks as u64).checked_shl(entry_bits)?;
        let place_bits = u64::BITS - places.leading_zeros();
        if blocks == 0 || place_bits + TAG_BITS_MIN > u32::BITS {
            return None;
        }
        let lines = usize::try_from(entries.div_ceil(LINE_KEYS)).ok()?.max(1);
        // The lines are chosen by 32 bits of the hash.
        (lines < u32::MAX as usize).then_some(Self { blocks, lines, entry_bits, place_bits })
    }

    /// Bytes of memory that a maplet takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lines * size_of::<Line>() + self.blocks.div_ceil(BLOCKS_PER_WORD) * size_of::<u64>()
    }
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU32; LINE_ENTRIES]);

/// See the file header.
pub struct Maplet {
    lines: Box<[Line]>,
    shape: MapletShape,
    /// Blocks that were not added yet.
    to_add: AtomicUsize,
    /// Which blocks were.
    added: Box<[AtomicU64]>,
    /// What is to be put in for the block that is being added.
    staged: Mutex<Vec<(u64, u32)>>,
}

impl Maplet {
    /// A maplet without entries.
    #[must_use]
    pub fn new(shape: MapletShape) -> Self {
        let words = shape.blocks.div_ceil(BLOCKS_PER_WORD);
        Self {
            lines: (0..shape.lines).map(|_| Line::default()).collect(),
            shape,
            to_add: AtomicUsize::new(shape.blocks),
            added: (0..words).map(|_| AtomicU64::new(0)).collect(),
            staged: Mutex::new(Vec::new()),
        }
    }

    /// Whether every block was added.
    #[inline]
    #[must_use]
    pub fn knows_all(&self) -> bool {
        // Acquire: by (3), before any entry is looked at.
        self.to_add.load(Ordering::Acquire) == 0
    }

    /// The places where a key of this hash may lie.
    #[inline]
    #[must_use]
    pub fn search(&self, hash: u64) -> MapletSearch<'_> {
        MapletSearch {
            line: &self.lines[self.line_of(hash)].0,
            shape: self.shape,
            knows_all: self.knows_all(),
            tag: self.tag_of(hash),
            position: position_of(hash),
            left: LINE_ENTRIES,
        }
    }

    /// Prefetches the memory that [`Maplet::search`] looks at.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.lines[self.line_of(hash)]);
    }

    /// Whether the block at `index` was added.
    ///
    /// # Panics
    /// If there is no such block.
    #[inline]
    #[must_use]
    pub fn has_block(&self, index: usize) -> bool {
        // Relaxed: a thread that finds a block to add looks again under the lock.
        let word = self.added[index / BLOCKS_PER_WORD].load(Ordering::Relaxed);
        word & 1 << (index % BLOCKS_PER_WORD) != 0
    }

    /// Adds the block at `index`. `places` yields the hash of each key whose newest version lies in
    /// the block, and the number of its entry. Does nothing if the block was added, or another
    /// thread is adding one.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn add_block<I: Iterator<Item = (u64, usize)>>(
        &self,
        index: usize,
        places: impl FnOnce() -> I,
    ) {
        let mut staged = match self.staged.try_lock() {
            Ok(staged) => staged,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if self.has_block(index) {
            return;
        }
        staged.clear();
        for (hash, entry) in places() {
            // Asked for first: the lines of a block's keys lie anywhere.
            self.prefetch(hash);
            // Both fit, by the shape.
            let place = ((index as u32) << self.shape.entry_bits) + entry as u32;
            invariant!(
                entry >> self.shape.entry_bits == 0 && (place + 1) >> self.shape.place_bits == 0,
                "no room in a maplet for entry {entry} of block {index}"
            );
            staged.push((hash, self.tag_of(hash) << self.shape.place_bits | (place + 1)));
        }
        for &(hash, entry) in &*staged {
            self.put_in(hash, entry);
        }
        // Relaxed: as in `has_block`.
        self.added[index / BLOCKS_PER_WORD]
            .fetch_or(1 << (index % BLOCKS_PER_WORD), Ordering::Relaxed);
        // Release: by (3).
        let left = self.to_add.fetch_sub(1, Ordering::Release);
        assert!(left > 0, "a maplet got more blocks than its table has");
    }

    /// Puts an entry into its line. The caller holds the lock.
    fn put_in(&self, hash: u64, entry: u32) {
        let line = &self.lines[self.line_of(hash)].0;
        let first = position_of(hash);
        let mut places = (0..LINE_ENTRIES).map(|step| &line[(first + step) % LINE_ENTRIES]);
        // Relaxed, here and in `MapletSearch`: what is found is only a place to look at; and that
        // nothing is found counts only by (3).
        if let Some(empty) = places.find(|place| place.load(Ordering::Relaxed) == 0) {
            empty.store(entry, Ordering::Relaxed);
        }
    }

    /// In bounds: the lower half of the hash is below 2^32.
    #[inline]
    fn line_of(&self, hash: u64) -> usize {
        ((u64::from(hash as u32) * self.lines.len() as u64) >> 32) as usize
    }

    #[inline]
    fn tag_of(&self, hash: u64) -> u32 {
        (hash >> 32) as u32 >> self.shape.place_bits
    }
}

impl fmt::Debug for Maplet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maplet").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// Where the search for a key begins in its line: by the lowest of the upper 32 bits of its hash.
/// The tag is the highest of them.
#[inline]
fn position_of(hash: u64) -> usize {
    (hash >> 32) as usize % LINE_ENTRIES
}

/// The places where a key may lie, one after the other.
#[derive(Debug)]
pub struct MapletSearch<'m> {
    line: &'m [AtomicU32; LINE_ENTRIES],
    shape: MapletShape,
    knows_all: bool,
    tag: u32,
    position: usize,
    /// Entries of the line that were not looked at.
    left: usize,
}

impl MapletSearch<'_> {
    /// Whether a key that lay at none of the places shown so far, up to the last, is not in the
    /// table.
    #[inline]
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.knows_all && self.left > 0
    }
}

impl Iterator for MapletSearch<'_> {
    type Item = EntryPlace;

    #[inline]
    fn next(&mut self) -> Option<EntryPlace> {
        let MapletShape { entry_bits, place_bits, .. } = self.shape;
        while self.left > 0 {
            let entry = self.line[self.position % LINE_ENTRIES].load(Ordering::Relaxed);
            if entry == 0 {
                return None;
            }
            self.position += 1;
            self.left -= 1;
            if entry >> place_bits == self.tag {
                let place = (entry & ((1 << place_bits) - 1)) - 1;
                let (block, entry) = (place >> entry_bits, place & ((1 << entry_bits) - 1));
                return Some(EntryPlace { block: block as usize, entry: entry as usize });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
