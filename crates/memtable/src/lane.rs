//! What a thread touches on each insert besides the tree: its part of the arena, its counts, and
//! where it inserted last. Threads have lanes of their own, so that they do not wait for each
//! other.
//!
//! A lane belongs to no thread: a thread that finds its usual one taken takes another.
//!
//! # Thread safety
//! Lanes are locked by a flag for a few nanoseconds. They use `std`'s atomics also
//! under loom: nothing a model could reorder happens between two of its steps.
//!
//! # Invariants
//! 1. All fields but `finger` and `trust` are written only by the holder of `taken`.
//! 2. `[block, block + block_bytes)` belongs to the lane alone.

use crate::{
    arena::Arena,
    node::{Link, Node},
    version::wait,
};
use siltdb_base::id::SequenceNumber;
use std::{
    cell::Cell,
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// Lanes of one memtable; a memtable of a rarely used family should stay small.
const LANES: usize = 8;
/// Pieces larger than this part of a block are carved from the arena itself.
const BLOCK_PARTS: usize = 4;
/// Successful fingers in a row that are remembered.
const TRUST_MAX: u32 = 2;

/// All lanes of a tree.
pub struct Lanes([Lane; LANES]);

/// One lane: a cache line.
#[repr(align(64))]
pub struct Lane {
    taken: AtomicBool,
    trust: AtomicU32,
    block: AtomicPtr<u8>,
    block_bytes: AtomicUsize,
    entries: AtomicU64,
    sequence_min: AtomicU64,
    sequence_max: AtomicU64,
    finger: Link,
}

/// The right to allocate and count on a lane.
pub struct LaneGuard<'t>(&'t Lane);

/// Which lane the thread uses: threads are numbered as they come.
fn home() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    HOME.with(|home| {
        if home.get() == usize::MAX {
            home.set(THREADS.fetch_add(1, Ordering::Relaxed) % LANES);
        }
        home.get()
    })
}

impl Lanes {
    /// Lanes without a block and without counts.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| Lane {
            taken: AtomicBool::new(false),
            trust: AtomicU32::new(0),
            block: AtomicPtr::new(null_mut()),
            block_bytes: AtomicUsize::new(0),
            entries: AtomicU64::new(0),
            sequence_min: AtomicU64::new(u64::MAX),
            sequence_max: AtomicU64::new(0),
            finger: Link::empty(),
        }))
    }

    /// Takes the thread's usual lane, or another that is free.
    #[inline]
    pub fn enter(&self) -> LaneGuard<'_> {
        let home = home();
        let mut spins = 0;
        loop {
            for turn in 0..LANES {
                let lane = &self.0[(home + turn) % LANES];
                // Acquire pairs with the release in `drop`: the last holder's writes are seen.
                if !lane.taken.swap(true, Ordering::Acquire) {
                    return LaneGuard(lane);
                }
            }
            wait(&mut spins);
        }
    }

    /// Entries counted on all lanes.
    pub fn entries(&self) -> u64 {
        // Relaxed: a reader that must see a count has synchronised with its insert by other means.
        self.0.iter().map(|lane| lane.entries.load(Ordering::Relaxed)).sum()
    }

    /// Bytes that were taken from the arena and are still to be handed out.
    pub fn free_bytes(&self) -> usize {
        // Relaxed as in `entries`.
        self.0.iter().map(|lane| lane.block_bytes.load(Ordering::Relaxed)).sum()
    }

    /// The smallest and the largest sequence number counted.
    pub fn sequence_range(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        // Relaxed as in `entries`.
        let smallest = |lane: &Lane| lane.sequence_min.load(Ordering::Relaxed);
        let largest = |lane: &Lane| lane.sequence_max.load(Ordering::Relaxed);
        let min = self.0.iter().map(smallest).min()?;
        let max = self.0.iter().map(largest).max()?;
        (min <= max).then_some((SequenceNumber(min), SequenceNumber(max)))
    }
}

impl<'t> LaneGuard<'t> {
    /// A piece of `bytes`, aligned to 8, as [`Arena::carve`] gives it.
    #[inline]
    pub fn allocate(&self, arena: &Arena, bytes: usize) -> NonNull<u8> {
        let lane = self.0;
        // Relaxed, here and below: ordered by `taken`, see (1).
        let left = lane.block_bytes.load(Ordering::Relaxed);
        let padded = bytes.next_multiple_of(8);
        if padded <= left {
            let block = lane.block.load(Ordering::Relaxed);
            lane.block.store(block.wrapping_add(padded), Ordering::Relaxed);
            lane.block_bytes.store(left - padded, Ordering::Relaxed);
            return NonNull::new(block).expect("a block with bytes left is somewhere");
        }
        self.allocate_slowly(arena, padded)
    }

    #[cold]
    fn allocate_slowly(&self, arena: &Arena, bytes: usize) -> NonNull<u8> {
        let block_bytes = arena.block_bytes();
        if bytes > block_bytes / BLOCK_PARTS {
            return arena.carve(bytes, 8);
        }
        let block = arena.carve(block_bytes, 8);
        self.0.block.store(block.as_ptr().wrapping_add(bytes), Ordering::Relaxed);
        self.0.block_bytes.store(block_bytes - bytes, Ordering::Relaxed);
        block
    }

    /// Counts an entry, or for a tombstone that is no entry of the tree only its place.
    #[inline]
    pub fn count(&self, sequence: SequenceNumber, entries: u64) {
        let lane = self.0;
        lane.entries.store(lane.entries.load(Ordering::Relaxed) + entries, Ordering::Relaxed);
        if sequence.0 < lane.sequence_min.load(Ordering::Relaxed) {
            lane.sequence_min.store(sequence.0, Ordering::Relaxed);
        }
        if sequence.0 > lane.sequence_max.load(Ordering::Relaxed) {
            lane.sequence_max.store(sequence.0, Ordering::Relaxed);
        }
    }

    /// The lane itself.
    #[inline]
    pub fn lane(&self) -> &'t Lane {
        self.0
    }
}

impl Drop for LaneGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release pairs with the acquire in `enter`.
        self.0.taken.store(false, Ordering::Release);
    }
}

// The finger is a hint: threads that share a lane may overwrite each other's, which costs time
// only.
impl Lane {
    /// The leaf of the last insert, if following it has been worth its while.
    #[inline]
    pub fn finger(&self) -> Option<Node<'_>> {
        if self.trust.load(Ordering::Relaxed) == 0 { None } else { self.finger.load() }
    }

    /// The leaf of the last insert.
    #[inline]
    pub fn latest(&self) -> Option<Node<'_>> {
        self.finger.load()
    }

    /// Remembers the leaf of an insert.
    #[inline]
    pub fn remember(&self, leaf: Node<'_>) {
        let trust = self.trust.load(Ordering::Relaxed);
        if self.finger.load().is_some_and(|last| last == leaf) {
            if trust < TRUST_MAX {
                self.trust.store(trust + 1, Ordering::Relaxed);
            }
        } else {
            self.finger.store(leaf);
            if trust > 0 {
                self.trust.store(trust - 1, Ordering::Relaxed);
            }
        }
    }
}
