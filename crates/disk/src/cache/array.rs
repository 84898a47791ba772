//! The slots of one table in memory: what each holds, and what the hand does to them.
//!
//! It counts no bytes of the cache: the caller that fills or empties a slot does. The invariants
//! are those of the cache.

use super::cached::{Cacheable, Cached, Sweep, Swept};
use arc_swap::ArcSwapOption;
use siltdb_base::{hint::prefetch_bytes, memory::large_vec::LargeVec};
use std::{
    mem::ManuallyDrop,
    ops::Range,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// Slots whose bits share a word.
pub(super) const SLOTS_PER_WORD: usize = 64;

/// A place for a value, and beside it where in memory the value lies that it has, or had last:
/// addresses, 0 at first.
///
/// The addresses serve only to prefetch all that memory at once. A slot leads to its value in two
/// steps, and each may miss the processor's caches.
#[repr(align(32))]
struct Slot<T> {
    place: Place<T>,
    held: AtomicUsize,
    front: AtomicUsize,
    layout: AtomicU64,
}

/// A place for a value. Its drop is skipped. An `ArcSwap` looks at memory shared by all threads
/// even when it is empty. For all slots of a table that takes longer than reading them. The drop of
/// the array empties the slots that hold a value.
type Place<T> = ManuallyDrop<ArcSwapOption<Cached<T>>>;

fn empty_place<T>() -> Place<T> {
    ManuallyDrop::new(ArcSwapOption::empty())
}

/// The places of an array.
enum Places<T> {
    /// With the addresses of the values.
    Hinted(LargeVec<Slot<T>>),
    /// Without them, in a quarter of the memory.
    Bare(LargeVec<Place<T>>),
}

impl<T> Places<T> {
    fn count(&self) -> usize {
        match self {
            Self::Hinted(slots) => slots.len(),
            Self::Bare(places) => places.len(),
        }
    }

    #[inline]
    fn at(&self, index: usize) -> &ArcSwapOption<Cached<T>> {
        match self {
            Self::Hinted(slots) => &slots[index].place,
            Self::Bare(places) => &places[index],
        }
    }
}

impl<T: Cacheable> Slot<T> {
    fn empty() -> Self {
        Self {
            place: empty_place(),
            held: AtomicUsize::new(0),
            front: AtomicUsize::new(0),
            layout: AtomicU64::new(0),
        }
    }

    /// Prefetches the value. `ask` prefetches a part of it, given its front and its
    /// [`Cacheable::layout`].
    #[inline]
    fn prefetch(&self, ask: impl FnOnce(*const u8, u64)) {
        // Relaxed, here and in `note`: what lies there is not looked at.
        let front = self.front.load(Ordering::Relaxed);
        if front != 0 {
            let held = self.held.load(Ordering::Relaxed);
            prefetch_bytes(ptr::without_provenance(held), size_of::<Cached<T>>());
            ask(ptr::without_provenance(front), self.layout.load(Ordering::Relaxed));
        }
    }

    fn note(&self, held: &Arc<Cached<T>>) {
        self.held.store(Arc::as_ptr(held).addr(), Ordering::Relaxed);
        self.layout.store(held.layout(), Ordering::Relaxed);
        self.front.store(held.front().addr(), Ordering::Relaxed);
    }
}

/// The slots of a table.
pub(super) struct Array<T> {
    places: Places<T>,
    occupied: Box<[AtomicU64]>,
    /// Which slots were offered a value, or asked for one in vain, since the hand last passed.
    offered: Box<[AtomicU64]>,
    is_missed: AtomicBool,
    filled: Filled,
}

/// How many slots hold a value; on a cache line of its own, since hits read those beside it.
#[repr(align(128))]
struct Filled(AtomicUsize);

impl<T: Cacheable> Array<T> {
    pub(super) fn new(count: usize) -> Self {
        let slots = (0..count).map(|_| Slot::empty()).collect();
        Self::of(Places::Hinted(slots), count)
    }

    /// As [`Array::new`], of slots that do not tell where their value lies.
    pub(super) fn bare(count: usize) -> Self {
        let places = (0..count).map(|_| empty_place()).collect();
        Self::of(Places::Bare(places), count)
    }

    fn of(places: Places<T>, count: usize) -> Self {
        let bits = || (0..count.div_ceil(SLOTS_PER_WORD)).map(|_| AtomicU64::new(0)).collect();
        Self {
            places,
            occupied: bits(),
            offered: bits(),
            is_missed: AtomicBool::new(false),
            filled: Filled(AtomicUsize::new(0)),
        }
    }

    /// Bytes of memory that `count` empty slots take.
    pub(super) fn bytes(count: usize) -> usize {
        count * size_of::<Slot<T>>() + Self::bits_bytes(count)
    }

    /// The same for [`Array::bare`].
    pub(super) fn bare_bytes(count: usize) -> usize {
        count * size_of::<Place<T>>() + Self::bits_bytes(count)
    }

    fn bits_bytes(count: usize) -> usize {
        2 * count.div_ceil(SLOTS_PER_WORD) * size_of::<u64>()
    }

    /// The number of its slots.
    pub(super) fn count(&self) -> usize {
        self.places.count()
    }

    /// The value in a slot, if it has one.
    #[inline]
    pub(super) fn value(&self, index: usize) -> &ArcSwapOption<Cached<T>> {
        self.places.at(index)
    }

    /// Prefetches the value in a slot, if there is such a slot, it has one, and it tells where that
    /// lies. `ask` prefetches a part of it, given its front and its [`Cacheable::layout`].
    #[inline]
    pub(super) fn prefetch(&self, index: usize, ask: impl FnOnce(*const u8, u64)) {
        if let Places::Hinted(slots) = &self.places
            && let Some(slot) = slots.get(index)
        {
            slot.prefetch(ask);
        }
    }

    #[inline]
    pub(super) fn is_half_full(&self) -> bool {
        // Relaxed: a hint.
        2 * self.filled.0.load(Ordering::Relaxed) >= self.count()
    }

    pub(super) fn is_offered(&self, index: usize) -> bool {
        // Relaxed, here and in `note_offer`: a hint.
        let offered = self.offered[index / SLOTS_PER_WORD].load(Ordering::Relaxed);
        offered & bit_of(index) != 0
    }

    /// Whether a value was looked for in vain since the hand last passed.
    pub(super) fn is_missed(&self) -> bool {
        self.is_missed.load(Ordering::Relaxed)
    }

    pub(super) fn note_miss(&self) {
        // Relaxed: a hint. Looking first keeps the line shared among readers.
        if !self.is_missed() {
            self.is_missed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a value has the mark of one that was found.
    ///
    /// Cost: a look at each value up to the first that has it.
    pub(super) fn has_marked(&self) -> bool {
        (0..self.count()).any(|index| {
            // Relaxed: a hint.
            let value = self.value(index).load();
            value.as_ref().is_some_and(|held| held.referenced.load(Ordering::Relaxed))
        })
    }

    pub(super) fn note_offer(&self, index: usize) {
        self.offered[index / SLOTS_PER_WORD].fetch_or(bit_of(index), Ordering::Relaxed);
    }

    /// Puts a value into a slot, if it is empty.
    pub(super) fn fill(&self, index: usize, held: &Arc<Cached<T>>) -> bool {
        // By (3) only an empty slot is filled.
        let nothing: Option<Arc<Cached<T>>> = None;
        if self.value(index).compare_and_swap(&nothing, Some(Arc::clone(held))).is_some() {
            return false;
        }
        if let Places::Hinted(slots) = &self.places {
            slots[index].note(held);
        }
        // Relaxed: a hint; but before the bit is set, so that the hand takes no value off that was
        // not counted.
        self.filled.0.fetch_add(1, Ordering::Relaxed);
        // By (4): after the slot was filled. Release pairs with the hand's Acquire, so that a hand
        // that sees the bit sees the value.
        self.occupied[index / SLOTS_PER_WORD].fetch_or(bit_of(index), Ordering::Release);
        true
    }
}

impl<T: Cacheable> Array<T> {
    /// Takes out all values; returns the bytes freed.
    pub(super) fn empty(&self) -> usize {
        let mut freed = 0;
        for (word, occupied) in self.occupied.iter().enumerate() {
            // Acquire pairs with the Release of an insertion.
            let mut bits = occupied.swap(0, Ordering::Acquire);
            while bits != 0 {
                let index = word * SLOTS_PER_WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                freed += self.take(index);
            }
        }
        freed
    }

    /// The hand has passed all slots of a word.
    fn forget_offers(&self, word: usize) {
        // Relaxed: a hint, as in `note_offer`.
        if let Some(offered) = self.offered.get(word) {
            offered.store(0, Ordering::Relaxed);
        }
    }

    /// Takes the mark of a value away, or the value; returns the bytes freed.
    fn pass(&self, index: usize, patience: &mut usize) -> usize {
        match &*self.value(index).load() {
            None => return 0,
            // Relaxed: a use that the hand misses costs a read later.
            Some(held) if *patience > 0 && held.referenced.swap(false, Ordering::Relaxed) => {
                *patience -= 1;
                return 0;
            }
            Some(_) => {}
        }
        self.evict(index)
    }

    /// Takes the value out of a slot that holds one; returns the bytes freed.
    fn evict(&self, index: usize) -> usize {
        // By (4): before the slot is emptied.
        self.occupied[index / SLOTS_PER_WORD].fetch_and(!bit_of(index), Ordering::Relaxed);
        self.take(index)
    }

    /// Empties a slot; returns the bytes freed.
    fn take(&self, index: usize) -> usize {
        let Some(held) = self.value(index).swap(None) else { return 0 };
        self.filled.0.fetch_sub(1, Ordering::Relaxed);
        held.bytes()
    }
}

impl<T: Cacheable> Sweep for Array<T> {
    fn count(&self) -> usize {
        self.count()
    }

    fn sweep(&self, slots: Range<usize>, wanted: usize, patience: &mut usize) -> Swept {
        let mut swept = Swept { freed: 0, evicted: 0, next: None };
        let word = slots.start / SLOTS_PER_WORD;
        assert!(slots.end <= (word + 1) * SLOTS_PER_WORD, "{slots:?} lie in several words");
        // Acquire pairs with the Release of an insertion.
        let occupied = self.occupied.get(word).map_or(0, |bits| bits.load(Ordering::Acquire));
        let mut bits = occupied & (u64::MAX << (slots.start % SLOTS_PER_WORD));
        while bits != 0 {
            let index = word * SLOTS_PER_WORD + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let freed = self.pass(index, patience);
            swept.freed += freed;
            swept.evicted += u64::from(freed > 0);
            if swept.freed >= wanted && bits != 0 {
                swept.next = Some(index + 1);
                return swept;
            }
        }
        self.forget_offers(word);
        if slots.end == self.count() {
            // Relaxed: a hint.
            self.is_missed.store(false, Ordering::Relaxed);
        }
        swept
    }

    fn sweep_out(&self, places: &[Range<usize>]) -> Swept {
        let mut swept = Swept { freed: 0, evicted: 0, next: None };
        for (word, occupied) in self.occupied.iter().enumerate() {
            // Acquire pairs with the Release of an insertion.
            let mut bits = occupied.load(Ordering::Acquire);
            while bits != 0 {
                let index = word * SLOTS_PER_WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let front = self.value(index).load().as_ref().map(|held| held.front().addr());
                if front.is_some_and(|front| places.iter().any(|place| place.contains(&front))) {
                    let freed = self.evict(index);
                    swept.freed += freed;
                    swept.evicted += u64::from(freed > 0);
                }
            }
        }
        swept
    }
}

/// The bit of a slot in its word.
#[inline]
fn bit_of(index: usize) -> u64 {
    1 << (index % SLOTS_PER_WORD)
}
