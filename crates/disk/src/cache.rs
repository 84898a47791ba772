//! Keeps decoded blocks in memory within a byte budget: slot arrays owned by tables, and one clock
//! hand over all of them.
//!
//! It does not read, decode or know what it keeps: the owner of a slot array does.
//!
//! A cached value is found by its index in the array of its table. So a hit is one load, not a
//! search through a table of all blocks. Eviction is the clock algorithm: a hand passes over the
//! slots of all arrays in turn. It takes away the mark of a value that was used since it last
//! passed, and evicts a value without one. One eviction takes away a bounded number of marks and
//! then evicts what comes, so that no thread waits long for it. A value that a reader holds lives
//! on after its eviction until it is let go; it is then no longer counted here.
//!
//! # Thread safety
//! Everything may be called from any thread. A hit takes no lock. It writes to no shared memory,
//! except to set the mark of a value that has none and to count itself in its thread's stripe. The
//! hand is behind a mutex, which is held to take a piece of its way. The slots of the piece are
//! passed without it, so that several threads evict at once.
//!
//! # Seeded fault
//! `pins_not_charged`: what readers hold outside of the cache does not count.
//!
//! # Invariants
//! 1. The bytes of a value are in `Cache::used` from before it enters its slot until after it left.
//! 2. `Cache::used` never exceeds the capacity, unless the capacity became less and the hand has
//!    not found enough to evict since.
//! 3. A value enters a slot only if the slot is empty. The thread that takes it out releases its
//!    bytes.
//! 4. If a slot holds a value and its insertion has returned, its bit in `occupied` is set. A bit
//!    is cleared before the slot is emptied, and set after it was filled.

mod cached;
mod array;
mod hand;
mod room;

pub use cached::{Cacheable, Cached};

use array::Array;
use cached::Sweep;
use hand::Hand;
use siltdb_base::{
    budget::{Budget, Part},
    hint::prefetch_bytes,
    memory::region::Region,
    sync::lock,
};
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
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

/// Where the memory of the indexes and filters of open tables comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableMemory {
    /// Tables take their memory beside the capacity.
    Beside,
    /// From the capacity of the cache: it may hold the less, the more they take, but always a
    /// quarter.
    Within,
}

/// Which room a value may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// That of others: they are evicted for it.
    Made,
    /// Only what is free.
    Spare,
}

/// Counters that threads spread their hits over.
const HIT_STRIPES: usize = 16;

/// Most rounds of the hand in one eviction. One takes the marks away, one evicts, and one is for
/// the arrays it began in the middle of.
const ROUNDS_MAX: u64 = 3;

/// Marks that the hand takes away in one eviction before it evicts marked values too.
const PATIENCE: usize = 4096;

/// What leads to values takes at most one part in this many of the capacity.
const GUIDES_SHARE: usize = 8;

/// A cache is full if less than one part in this many of its capacity is free.
const SPARE_SHARE: usize = 64;

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
    /// What it may hold, and tables if they share it.
    capacity: AtomicUsize,
    tables: TableMemory,
    used: AtomicUsize,
    /// The bytes that what leads to values takes of those of tables.
    guides: AtomicUsize,
    hand: Mutex<Hand>,
    hits: [Stripe; HIT_STRIPES],
    misses: AtomicU64,
    insertions: AtomicU64,
    evictions: AtomicU64,
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

#[inline]
fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Cache {
    /// An empty cache that may hold `capacity_bytes`, counted as [`Part::Blocks`] of `budget`; or
    /// less what open tables take, if these are to be within.
    #[must_use]
    pub fn new(budget: Arc<Budget>, capacity_bytes: usize, tables: TableMemory) -> Arc<Self> {
        let region = Region::new(&budget, 0);
        let cache = Arc::new(Self {
            budget,
            region,
            capacity: AtomicUsize::new(capacity_bytes),
            tables,
            used: AtomicUsize::new(0),
            guides: AtomicUsize::new(0),
            hand: Mutex::default(),
            hits: Default::default(),
            misses: AtomicU64::new(0),
            insertions: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        });
        cache.fit();
        cache
    }

    /// The account that the cache and its tables charge.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Where values that may enter shall lie. It has the size of the capacity, and a little more,
    /// for the gaps between values of different sizes.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Changes the bytes it may hold, and evicts what is too much.
    pub fn set_capacity(&self, bytes: usize) {
        // Relaxed: `reserve` and `evict` look again.
        self.capacity.store(bytes, Ordering::Relaxed);
        self.fit();
    }

    /// What it did so far. Exact once all readers have finished.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        // Relaxed, here and at every counter: they carry no other data with them.
        let so_far = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            hits: self.hits(),
            misses: so_far(&self.misses),
            insertions: so_far(&self.insertions),
            evictions: so_far(&self.evictions),
            bytes: self.used.load(Ordering::Relaxed),
            capacity: self.capacity(),
        }
    }

    fn hits(&self) -> u64 {
        self.hits.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
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
            let limits = self.limits();
            if self.region.set_limit(limits.region) {
                self.shrink();
            }
            let capacity = limits.values;
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

    /// Whether `bytes` more could be had just now without evicting anything.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.capacity()
    }

    fn release(&self, bytes: usize) {
        self.budget.release(Part::Blocks, bytes);
        let used = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(used >= bytes, "{bytes} bytes leave a cache that has {used}");
    }

    /// Takes `bytes` of the memory of tables for something that leads to values. `false` if all of
    /// that would take too much, or if values would have to be evicted for it.
    #[must_use]
    pub fn reserve_guide(&self, bytes: usize) -> bool {
        // Relaxed, all: counts of bytes.
        let most = self.capacity.load(Ordering::Relaxed) / GUIDES_SHARE;
        let may_be = |guides: usize| guides.saturating_add(bytes) <= most;
        let has_room = match self.tables {
            TableMemory::Beside => true,
            TableMemory::Within => self.has_room(bytes),
        };
        // Looked at first: lookups in a full cache come by here, and should change nothing.
        if !has_room || !may_be(self.guides.load(Ordering::Relaxed)) {
            return false;
        }
        if !may_be(self.guides.fetch_add(bytes, Ordering::Relaxed)) {
            self.guides.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.budget.charge(Part::Tables, bytes);
        true
    }

    /// Gives back what [`Cache::reserve_guide`] took.
    pub fn release_guide(&self, bytes: usize) {
        let guides = self.guides.fetch_sub(bytes, Ordering::Relaxed);
        assert!(guides >= bytes, "{bytes} bytes leave what leads to values, which has {guides}");
        self.budget.release(Part::Tables, bytes);
    }

    /// Moves the hand until `wanted` bytes are free, or all slots were passed often enough.
    fn evict(&self, wanted: usize) -> usize {
        let (mut freed, mut patience) = (0, PATIENCE);
        let last_round = lock(&self.hand).round().saturating_add(ROUNDS_MAX);
        while freed < wanted {
            let Some(piece) = lock(&self.hand).advance(last_round) else { break };
            let swept = piece.array.sweep(piece.slots.clone(), wanted - freed, &mut patience);
            freed += swept.freed;
            self.evictions.fetch_add(swept.evicted, Ordering::Relaxed);
            if swept.freed > 0 {
                self.release(swept.freed);
            }
            if let Some(next) = swept.next {
                lock(&self.hand).leave(piece.from(next));
            }
        }
        freed
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The slots of one table; dropping them frees what they hold.
pub struct Slots<T: Cacheable> {
    cache: Arc<Cache>,
    array: Arc<Array<T>>,
}

impl<T: Cacheable> Slots<T> {
    /// `count` empty slots.
    #[must_use]
    pub fn new(cache: &Arc<Cache>, count: usize) -> Self {
        Self::of(cache, Array::new(count))
    }

    /// As [`Slots::new`], of slots that take a quarter of the memory, and whose values are not
    /// prefetched.
    #[must_use]
    pub fn bare(cache: &Arc<Cache>, count: usize) -> Self {
        Self::of(cache, Array::bare(count))
    }

    fn of(cache: &Arc<Cache>, array: Array<T>) -> Self {
        let array = Arc::new(array);
        let sweep = Arc::clone(&array) as Arc<dyn Sweep>;
        lock(&cache.hand).add(Arc::downgrade(&sweep));
        Self { cache: Arc::clone(cache), array }
    }

    /// The number of its slots.
    #[must_use]
    pub fn count(&self) -> usize {
        self.array.count()
    }

    /// Bytes of memory that `count` empty slots take.
    #[must_use]
    pub fn bytes(count: usize) -> usize {
        Array::<T>::bytes(count)
    }

    /// The same for [`Slots::bare`].
    #[must_use]
    pub fn bare_bytes(count: usize) -> usize {
        Array::<T>::bare_bytes(count)
    }

    /// Whether at least half of the slots hold a value.
    #[inline]
    #[must_use]
    pub fn are_half_full(&self) -> bool {
        self.array.is_half_full()
    }

    /// Calls `look` with the value in slot `index`, without counting a reference to it, and with
    /// `context`. On a miss it returns the context as the error, for the next attempt. The caller
    /// prefetches what `look` will look at.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn with<R, C>(
        &self,
        index: usize,
        context: C,
        look: impl FnOnce(&T, C) -> R,
    ) -> Result<R, C> {
        let guard = self.array.value(index).load();
        match &*guard {
            Some(held) => {
                held.mark();
                self.cache.count_hit();
                Ok(look(held, context))
            }
            None => {
                count(&self.cache.misses);
                Err(context)
            }
        }
    }

    /// Whether a value that was not found in slot `index` shall stay. A value that would displace
    /// others stays only if it was asked for, or offered, since the hand last passed the slot.
    /// Making room costs more than looking at it, and what is needed once is not needed again.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn admit(&self, index: usize) -> CacheFill {
        self.array.note_miss();
        let capacity = self.cache.capacity();
        let is_kept =
            || self.cache.has_room(capacity / SPARE_SHARE + 1) || self.array.is_offered(index);
        if capacity > 0 && is_kept() {
            return CacheFill::Keep;
        }
        self.array.note_offer(index);
        CacheFill::Pass
    }

    /// Whether a value was looked for, found or not, since the hand last passed. What a job put
    /// here unasked does not count before it is found.
    #[must_use]
    pub fn are_used(&self) -> bool {
        self.array.is_missed() || self.array.has_marked()
    }

    /// Prefetches the first `bytes` bytes of the value in slot `index`, if there is such a slot and
    /// it has one.
    #[inline]
    pub fn prefetch(&self, index: usize, bytes: usize) {
        self.prefetch_part(index, |front, _| prefetch_bytes(front, bytes));
    }

    /// Prefetches the value in slot `index`, if there is such a slot and it has one. `ask`
    /// prefetches a part of it, given its front and its [`Cacheable::layout`].
    #[inline]
    pub fn prefetch_part(&self, index: usize, ask: impl FnOnce(*const u8, u64)) {
        self.array.prefetch(index, ask);
    }

    /// Takes hold of the value in slot `index`, if there is one.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Arc<Cached<T>>> {
        self.prefetch(index, T::FRONT_BYTES);
        self.hold(index)
    }

    /// As [`Slots::get`], for callers that have prefetched what they will look at.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn hold(&self, index: usize) -> Option<Arc<Cached<T>>> {
        let held = self.array.value(index).load_full();
        match &held {
            Some(held) => {
                held.mark();
                self.cache.count_hit();
            }
            None => count(&self.cache.misses),
        }
        held
    }

    /// Puts `held` into slot `index`, if it is empty and there is room to be had.
    ///
    /// Of two threads that insert at the same time one wins; both can use what they hold.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn insert(&self, index: usize, held: &Arc<Cached<T>>) {
        self.insert_into(Room::Made, index, held);
    }

    /// Puts `held` into slot `index`, if it is empty and there is room to spare. It evicts nothing.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn insert_spare(&self, index: usize, held: &Arc<Cached<T>>) {
        self.insert_into(Room::Spare, index, held);
    }

    /// Says whether an earlier long walk came by slot `index`, too, so that the value may stay if
    /// there is room to spare. What is walked over once does not pay for memory to stay in.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn offer(&self, index: usize) -> bool {
        self.array.note_miss();
        let was_offered = self.array.is_offered(index);
        if !was_offered {
            self.array.note_offer(index);
        }
        was_offered
    }

    fn insert_into(&self, room: Room, index: usize, held: &Arc<Cached<T>>) {
        let is_empty = self.array.value(index).load().is_none();
        // By (1) the bytes are counted first.
        if !is_empty || !self.cache.reserve(held.bytes(), room) {
            return;
        }
        if self.array.fill(index, held) {
            count(&self.cache.insertions);
        } else {
            self.cache.release(held.bytes());
        }
    }
}

impl<T: Cacheable> Drop for Slots<T> {
    fn drop(&mut self) {
        // No thread inserts (that takes `&self`). If the hand is here, it and this thread each take
        // out other values. By (4) the bits tell which slots hold one.
        let freed = self.array.empty();
        if freed > 0 {
            self.cache.release(freed);
        }
    }
}

impl<T: Cacheable> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
