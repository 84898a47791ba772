//! Keeps decoded blocks in memory within a byte budget: slot arrays owned by tables, and one clock
//! hand over all of them.
//!
//! It does not read, decode or know what it keeps: the owner of a slot array does.
//!
//! A cached value is found by its index in the array of its table, so that a hit is one load, not a
//! search through a table of all blocks. Eviction is the clock algorithm: a hand passes over the
//! slots of all arrays in turn, takes away the mark of a value that was used since it last passed,
//! and evicts a value without one; in one eviction it takes away a bounded number of marks and then
//! evicts what comes, so that nobody waits long for it. A value that somebody holds lives on after
//! its eviction until it is let go; it is then no longer counted here.
//!
//! # Thread safety
//! Everything may be called from any thread. A hit takes no lock and writes to no shared memory,
//! except to set the mark of a value that has none and to count itself in a counter of its thread's
//! stripe. The hand is behind a mutex, which is never held during IO.
//!
//! # Invariants
//! 1. The bytes of a value are in `Cache::used` from before it enters its slot until after it left.
//! 2. `Cache::used` never exceeds the capacity, unless the capacity was lowered and the hand has
//!    not found enough to evict since.
//! 3. A value enters a slot only if the slot is empty, and whoever takes it out releases its bytes.
//! 4. If a slot holds a value and its insertion has returned, its bit in `occupied` is set: a bit
//!    is cleared before the slot is emptied, and set after it was filled.

use arc_swap::ArcSwapOption;
use siltdb_base::{
    budget::{Budget, Part},
    hint::prefetch_bytes,
    memory::region::Region,
    sync::lock,
};
use std::{
    fmt,
    mem::ManuallyDrop,
    ops::Deref,
    ptr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// Whether what is read shall stay in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFill {
    /// It stays, and others make room for it.
    Keep,
    /// It does not: for compaction and full scans, which must not displace what is in use.
    Pass,
}

/// Which room a value may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// That of others: they are evicted for it.
    Made,
    /// Only what is free.
    Spare,
}

/// Slots that share one stripe of the occupied bits.
const SLOTS_PER_WORD: usize = 64;

/// Counters that threads spread their hits over.
const HIT_STRIPES: usize = 16;

/// Times the hand goes round before it gives up: once to take the marks away, once to evict, and
/// once for the arrays it began in the middle of.
const ROUNDS_MAX: usize = 3;

/// Marks that the hand takes away in one eviction before it evicts marked values too.
const PATIENCE: usize = 4096;

/// What a cached value costs beyond its own bytes: reference counts and the allocator's header.
const HELD_OVERHEAD_BYTES: usize = 48;

/// The region has one part in so many more than the capacity.
const REGION_SLACK: usize = 8;

/// What can be kept in a cache.
pub trait Resident: Send + Sync + 'static {
    /// Bytes at its front that a reader looks at first.
    const FRONT_BYTES: usize;

    /// Where it begins in memory.
    fn front(&self) -> *const u8;
}

/// A value in the cache, or one that was or could have been.
#[derive(Debug)]
pub struct Held<T> {
    referenced: AtomicBool,
    bytes: usize,
    value: T,
}

impl<T> Held<T> {
    /// A value that takes `bytes` of memory beside its own size.
    #[must_use]
    pub fn new(value: T, bytes: usize) -> Self {
        let bytes = bytes + size_of::<Self>() + HELD_OVERHEAD_BYTES;
        Self { referenced: AtomicBool::new(false), bytes, value }
    }

    fn mark(&self) {
        // Relaxed: the mark is a hint to the hand. Looking first keeps the line shared among
        // readers.
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

/// What a cache did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Values found in their slot.
    pub hits: u64,
    /// Values not found.
    pub misses: u64,
    /// Values that entered.
    pub insertions: u64,
    /// Values that the hand took out.
    pub evictions: u64,
    /// Bytes in the cache now.
    pub bytes: usize,
    /// The bytes it may hold.
    pub capacity: usize,
}

/// The byte budget of the cached values of all tables, and the hand that enforces it.
pub struct Cache {
    budget: Arc<Budget>,
    region: Arc<Region>,
    capacity: AtomicUsize,
    used: AtomicUsize,
    hand: Mutex<Hand>,
    next_array: AtomicU64,
    hits: [Stripe; HIT_STRIPES],
    misses: AtomicU64,
    insertions: AtomicU64,
    evictions: AtomicU64,
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// Where the clock stands.
#[derive(Default)]
struct Hand {
    arrays: Vec<(u64, Arc<dyn Sweep>)>,
    array: usize,
    slot: usize,
}

/// A slot array as the hand sees it.
trait Sweep: Send + Sync {
    /// Passes over the slots from `from` on until `wanted` bytes are free or the array ends, and
    /// spares at most `patience` marked values.
    fn sweep(&self, from: usize, wanted: usize, patience: &mut usize) -> Swept;
}

/// What one pass of the hand did.
struct Swept {
    freed: usize,
    evicted: u64,
    /// The slot to go on at; `None` at the end of the array.
    next: Option<usize>,
}

impl Cache {
    /// An empty cache that may hold `capacity_bytes`, counted as [`Part::Blocks`] of `budget`.
    #[must_use]
    pub fn new(budget: Arc<Budget>, capacity_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            budget,
            region: Region::new(capacity_bytes.saturating_add(capacity_bytes / REGION_SLACK)),
            capacity: AtomicUsize::new(capacity_bytes),
            used: AtomicUsize::new(0),
            hand: Mutex::default(),
            next_array: AtomicU64::new(0),
            hits: Default::default(),
            misses: AtomicU64::new(0),
            insertions: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        })
    }

    /// The account that the cache and its tables charge.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Where values that may enter shall lie. It has the size that the capacity was at first, and a
    /// little more, for the gaps between values of different sizes.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Changes the bytes it may hold, and evicts what is too much.
    pub fn set_capacity(&self, bytes: usize) {
        // Relaxed: `reserve` and `evict` look again.
        self.capacity.store(bytes, Ordering::Relaxed);
        let used = self.used.load(Ordering::Relaxed);
        if used > bytes {
            self.evict(used - bytes);
        }
    }

    /// What it did so far. Exact once all readers have finished.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        // Relaxed, here and at every counter: they carry no other data with them.
        CacheStats {
            hits: self.hits.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum(),
            misses: self.misses.load(Ordering::Relaxed),
            insertions: self.insertions.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            bytes: self.used.load(Ordering::Relaxed),
            capacity: self.capacity.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn count_hit(&self) {
        static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % HIT_STRIPES;
        }
        STRIPE.with(|&stripe| self.hits[stripe].0.fetch_add(1, Ordering::Relaxed));
    }

    /// Takes `bytes` of the capacity; `false` if there is no such room to be had.
    fn reserve(&self, bytes: usize, room: Room) -> bool {
        loop {
            let capacity = self.capacity.load(Ordering::Relaxed);
            let used = self.used.load(Ordering::Relaxed);
            let wanted = used.saturating_add(bytes);
            if bytes > capacity {
                return false;
            }
            if wanted > capacity {
                if room == Room::Spare || self.evict(wanted - capacity) == 0 {
                    return false;
                }
                continue;
            }
            // Relaxed: a count of bytes; the values themselves are published by their slots.
            let swapped =
                self.used.compare_exchange_weak(used, wanted, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                self.budget.charge(Part::Blocks, bytes);
                return true;
            }
        }
    }

    fn release(&self, bytes: usize) {
        self.budget.release(Part::Blocks, bytes);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Moves the hand until `wanted` bytes are free, or all slots were passed often enough.
    fn evict(&self, wanted: usize) -> usize {
        let mut hand = lock(&self.hand);
        let mut freed = 0;
        let mut ends = 0;
        let mut patience = PATIENCE;
        while freed < wanted && ends <= ROUNDS_MAX * hand.arrays.len() {
            let Some((_, array)) = hand.arrays.get(hand.array) else { break };
            let swept = array.sweep(hand.slot, wanted - freed, &mut patience);
            freed += swept.freed;
            self.evictions.fetch_add(swept.evicted, Ordering::Relaxed);
            if swept.freed > 0 {
                self.release(swept.freed);
            }
            match swept.next {
                Some(slot) => hand.slot = slot,
                None => {
                    ends += 1;
                    hand.slot = 0;
                    hand.array = (hand.array + 1) % hand.arrays.len();
                }
            }
        }
        freed
    }

    fn register(&self, array: Arc<dyn Sweep>) -> u64 {
        let id = self.next_array.fetch_add(1, Ordering::Relaxed);
        lock(&self.hand).arrays.push((id, array));
        id
    }

    fn unregister(&self, id: u64) {
        let mut hand = lock(&self.hand);
        let Some(index) = hand.arrays.iter().position(|(other, _)| *other == id) else { return };
        hand.arrays.remove(index);
        if index < hand.array {
            hand.array -= 1;
        } else if index == hand.array {
            hand.slot = 0;
        }
        if hand.array == hand.arrays.len() {
            hand.array = 0;
        }
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The slots of one table; dropping them frees what they hold.
pub struct Slots<T: Resident> {
    cache: Arc<Cache>,
    id: u64,
    array: Arc<Array<T>>,
}

struct Array<T> {
    /// Nothing is done to drop one: an `ArcSwap` looks at what all threads read even if it is
    /// empty, which for all slots of a table takes longer than to read it. Who drops the array
    /// empties them.
    slots: Box<[ManuallyDrop<ArcSwapOption<Held<T>>>]>,
    hints: Box<[Hint]>,
    occupied: Box<[AtomicU64]>,
    /// Which slots were offered a value.
    offered: Box<[AtomicU64]>,
}

/// Where in memory what a slot has, or had last, lies: addresses, 0 at first.
///
/// Only to ask for that memory, all at once: a slot leads to its value in two steps, each of which
/// may miss the processor's caches.
#[derive(Debug, Default)]
struct Hint {
    held: AtomicUsize,
    front: AtomicUsize,
}

impl Hint {
    // Relaxed, both: what lies there is not looked at.
    fn set<T: Resident>(&self, held: &Arc<Held<T>>) {
        self.held.store(Arc::as_ptr(held).addr(), Ordering::Relaxed);
        self.front.store(held.front().addr(), Ordering::Relaxed);
    }

    #[inline]
    fn prefetch<T: Resident>(&self, front_bytes: usize) {
        let front = self.front.load(Ordering::Relaxed);
        if front != 0 {
            let held = self.held.load(Ordering::Relaxed);
            prefetch_bytes(ptr::without_provenance(held), size_of::<Held<T>>());
            prefetch_bytes(ptr::without_provenance(front), front_bytes);
        }
    }
}

impl<T: Resident> Slots<T> {
    /// `count` empty slots.
    #[must_use]
    pub fn new(cache: &Arc<Cache>, count: usize) -> Self {
        let bits = || (0..count.div_ceil(SLOTS_PER_WORD)).map(|_| AtomicU64::new(0)).collect();
        let array = Arc::new(Array {
            slots: (0..count).map(|_| ManuallyDrop::new(ArcSwapOption::empty())).collect(),
            hints: (0..count).map(|_| Hint::default()).collect(),
            occupied: bits(),
            offered: bits(),
        });
        let sweep = Arc::clone(&array) as Arc<dyn Sweep>;
        Self { cache: Arc::clone(cache), id: cache.register(sweep), array }
    }

    /// Bytes of memory that `count` empty slots take.
    #[must_use]
    pub fn bytes(count: usize) -> usize {
        count * (size_of::<usize>() + size_of::<Hint>())
            + 2 * count.div_ceil(SLOTS_PER_WORD) * size_of::<u64>()
    }

    /// Calls `look` with the value in slot `index`, without taking hold of it; gives `look` back if
    /// there is none.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn with<R, F: FnOnce(&T) -> R>(&self, index: usize, look: F) -> Result<R, F> {
        self.prefetch(index, T::FRONT_BYTES);
        let guard = self.array.slots[index].load();
        match &*guard {
            Some(held) => {
                held.mark();
                self.cache.count_hit();
                Ok(look(held))
            }
            None => {
                self.cache.misses.fetch_add(1, Ordering::Relaxed);
                Err(look)
            }
        }
    }

    /// Asks for the first `bytes` bytes of the value in slot `index`, if there is such a slot and
    /// it has one.
    #[inline]
    pub fn prefetch(&self, index: usize, bytes: usize) {
        if let Some(hint) = self.array.hints.get(index) {
            hint.prefetch::<T>(bytes);
        }
    }

    /// Takes hold of the value in slot `index`, if there is one. One who passes leaves no mark.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn get(&self, index: usize, fill: CacheFill) -> Option<Arc<Held<T>>> {
        self.prefetch(index, T::FRONT_BYTES);
        match self.array.slots[index].load_full() {
            Some(held) => {
                match fill {
                    CacheFill::Keep => held.mark(),
                    CacheFill::Pass => {}
                }
                self.cache.count_hit();
                Some(held)
            }
            None => {
                self.cache.misses.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Puts `held` into slot `index`, if it is empty and there is room to be had.
    ///
    /// Of two threads that insert at the same time one wins; both can use what they hold.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn insert(&self, index: usize, held: &Arc<Held<T>>) {
        self.insert_into(Room::Made, index, held);
    }

    /// What long walks do instead: puts `held` into slot `index` if it was offered before and the
    /// cache has room to spare. What is walked over once does not pay for memory to stay in, and
    /// displaces nobody.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn offer(&self, index: usize, held: &Arc<Held<T>>) {
        if self.is_offered(index) {
            self.insert_into(Room::Spare, index, held);
        } else {
            // Relaxed: a hint.
            self.array.offered[index / SLOTS_PER_WORD]
                .fetch_or(1 << (index % SLOTS_PER_WORD), Ordering::Relaxed);
        }
    }

    /// Whether a value was offered for slot `index` before: the next one may stay.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn is_offered(&self, index: usize) -> bool {
        // Relaxed: a hint.
        let offered = self.array.offered[index / SLOTS_PER_WORD].load(Ordering::Relaxed);
        offered & 1 << (index % SLOTS_PER_WORD) != 0
    }

    fn insert_into(&self, room: Room, index: usize, held: &Arc<Held<T>>) {
        let slot = &self.array.slots[index];
        if slot.load().is_some() || !self.cache.reserve(held.bytes, room) {
            return;
        }
        // By (1) the bytes were counted first; by (3) only an empty slot is filled.
        let nothing: Option<Arc<Held<T>>> = None;
        let before = slot.compare_and_swap(&nothing, Some(Arc::clone(held)));
        if before.is_some() {
            self.cache.release(held.bytes);
            return;
        }
        self.array.hints[index].set(held);
        self.cache.insertions.fetch_add(1, Ordering::Relaxed);
        // By (4): after the slot was filled. Release pairs with the hand's Acquire, so that a hand
        // that sees the bit sees the value.
        let bit = 1 << (index % SLOTS_PER_WORD);
        self.array.occupied[index / SLOTS_PER_WORD].fetch_or(bit, Ordering::Release);
    }
}

impl<T: Resident> Drop for Slots<T> {
    fn drop(&mut self) {
        self.cache.unregister(self.id);
        // Nobody inserts (that takes `&self`), and the hand does not come here any more: by (4) the
        // bits tell which slots hold a value.
        let freed = self.array.empty();
        if freed > 0 {
            self.cache.release(freed);
        }
    }
}

impl<T: Resident> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.array.slots.len();
        f.debug_struct("Slots").field("count", &count).finish_non_exhaustive()
    }
}

impl<T> Array<T> {
    /// Takes out all values; returns the bytes freed.
    fn empty(&self) -> usize {
        let mut freed = 0;
        for (word, occupied) in self.occupied.iter().enumerate() {
            // Acquire pairs with the Release of an insertion.
            let mut bits = occupied.swap(0, Ordering::Acquire);
            while bits != 0 {
                let index = word * SLOTS_PER_WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                freed += self.slots[index].swap(None).map_or(0, |held| held.bytes);
            }
        }
        freed
    }

    /// Takes the mark of a value away, or the value; returns the bytes freed.
    fn pass(&self, index: usize, patience: &mut usize) -> usize {
        match &*self.slots[index].load() {
            None => return 0,
            // Relaxed: a use that the hand misses costs a read later.
            Some(held) if *patience > 0 && held.referenced.swap(false, Ordering::Relaxed) => {
                *patience -= 1;
                return 0;
            }
            Some(_) => {}
        }
        // By (4): before the slot is emptied.
        let bit = 1 << (index % SLOTS_PER_WORD);
        self.occupied[index / SLOTS_PER_WORD].fetch_and(!bit, Ordering::Relaxed);
        self.slots[index].swap(None).map_or(0, |held| held.bytes)
    }
}

impl<T: Send + Sync> Sweep for Array<T> {
    fn sweep(&self, from: usize, wanted: usize, patience: &mut usize) -> Swept {
        let mut swept = Swept { freed: 0, evicted: 0, next: None };
        let first_word = from / SLOTS_PER_WORD;
        let mut mask = u64::MAX << (from % SLOTS_PER_WORD);
        for (word, occupied) in self.occupied.iter().enumerate().skip(first_word) {
            // Acquire pairs with the Release of an insertion.
            let mut bits = occupied.load(Ordering::Acquire) & mask;
            mask = u64::MAX;
            while bits != 0 {
                let index = word * SLOTS_PER_WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let freed = self.pass(index, patience);
                swept.freed += freed;
                swept.evicted += u64::from(freed > 0);
                if swept.freed >= wanted {
                    swept.next = Some(index + 1).filter(|&next| next < self.slots.len());
                    return swept;
                }
            }
        }
        swept
    }
}

#[cfg(test)]
mod tests;
