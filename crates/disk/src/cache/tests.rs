//! Slots, the hand, and the budget under concurrent readers.

use super::{cached::HELD_OVERHEAD_BYTES, *};
use bytes::Bytes;
use siltdb_base::memory::region::Margins;

fn cache(capacity: usize) -> (Arc<Budget>, Arc<Cache>) {
    let budget = Arc::new(Budget::new(1 << 30));
    (Arc::clone(&budget), Cache::new(budget, capacity, TableMemory::Beside))
}

impl Cacheable for u64 {
    const FRONT_BYTES: usize = size_of::<Self>();

    fn front(&self) -> *const u8 {
        std::ptr::from_ref(self).cast()
    }

    fn layout(&self) -> u64 {
        *self
    }
}

fn held(value: u64) -> Arc<Cached<u64>> {
    Arc::new(Cached::new(value, 1000 - size_of::<Cached<u64>>() - HELD_OVERHEAD_BYTES))
}

#[test]
fn a_value_is_found_until_its_table_is_dropped() {
    let (budget, cache) = cache(10_000);
    let slots = Slots::new(&cache, 3);
    assert!(slots.with(1, (), |value, ()| *value).is_err());
    slots.insert(1, &held(7));
    assert_eq!(slots.with(1, (), |value, ()| *value).ok(), Some(7));
    assert_eq!(slots.get(1).map(|held| **held), Some(7));
    assert_eq!(slots.get(0).map(|held| **held), None);
    assert_eq!(budget.used(Part::Blocks), 1000);
    for index in [1, 2, 3] {
        slots.prefetch(index, 100);
    }
    let pinned = slots.get(1).unwrap();
    drop(slots);
    assert_eq!(budget.used(Part::Blocks), 0);
    assert_eq!(**pinned, 7);
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.insertions, stats.bytes), (3, 2, 1, 0));
}

#[test]
fn slots_are_used_once_a_value_was_looked_for() {
    let (_, cache) = cache(10_000);
    let [slots, others] = [(); 2].map(|()| Slots::new(&cache, 2));
    slots.insert_spare(0, &held(7));
    assert!(!slots.are_used(), "put there by a job");
    assert!(slots.get(0).is_some());
    assert!(slots.are_used() && !others.are_used());
    // Looked for in vain, whether it is let in or not.
    assert_eq!(others.admit(1), CacheFill::Keep);
    assert!(others.are_used());
    let (_, none) = self::cache(0);
    let slots = Slots::<u64>::new(&none, 2);
    assert!(!slots.are_used());
    assert_eq!(slots.admit(1), CacheFill::Pass);
    assert!(slots.are_used());
}

#[test]
fn use_is_forgotten_when_the_hand_has_passed() {
    let (_, cache) = cache(2_000);
    let slots = Slots::new(&cache, 2);
    assert_eq!(slots.admit(1), CacheFill::Keep);
    slots.insert(1, &held(7));
    assert!(slots.get(1).is_some() && slots.are_used());
    cache.set_capacity(0);
    assert!(slots.get(1).is_none());
    assert!(!slots.are_used());
}

#[test]
fn a_cache_may_have_any_capacity() {
    for capacity in [0, 1, usize::MAX - 1, usize::MAX] {
        let (_, cache) = cache(capacity);
        let slots = Slots::new(&cache, 1);
        slots.insert(0, &held(1));
        assert_eq!(slots.with(0, (), |value, ()| *value).is_ok(), capacity > 1000, "{capacity}");
    }
}

#[test]
fn the_first_value_in_a_slot_stays() {
    let (budget, cache) = cache(10_000);
    let slots = Slots::new(&cache, 1);
    slots.insert(0, &held(1));
    slots.insert(0, &held(2));
    assert_eq!(slots.with(0, (), |value, ()| *value).ok(), Some(1));
    assert_eq!(budget.used(Part::Blocks), 1000);
}

#[test]
fn what_is_offered_twice_enters_spare_room_only() {
    let (_, cache) = cache(2_500);
    let slots = Slots::new(&cache, 70);
    slots.insert(0, &held(0));
    assert!(!slots.offer(65), "no miss was noted before");
    assert!(slots.offer(65) && !slots.offer(3), "it came by once");
    slots.insert_spare(65, &held(1));
    assert_eq!(slots.get(65).map(|held| **held), Some(1));
    // There is no room for a third.
    assert!(slots.offer(3));
    slots.insert_spare(3, &held(2));
    assert!(slots.get(3).is_none() && slots.get(0).is_some());
    assert_eq!(cache.stats().evictions, 0);
}

#[test]
fn a_full_cache_admits_what_is_asked_for_again_before_the_hand_comes_by() {
    let (_, cache) = cache(10_000);
    let slots = Slots::new(&cache, 130);
    for index in 0..10 {
        assert_eq!(slots.admit(index), CacheFill::Keep, "there is room");
        slots.insert(index, &held(index as u64));
    }
    for index in [0, 63, 64, 129] {
        assert_eq!(slots.admit(index), CacheFill::Pass);
        assert_eq!(slots.admit(index), CacheFill::Keep);
    }
    // The hand goes on from where it evicted last, and takes in all words in the end.
    for index in (20..130).chain(20..130) {
        slots.insert(index, &held(0));
    }
    for index in [0, 63, 64, 129] {
        assert_eq!(slots.admit(index), CacheFill::Pass, "{index}");
    }
    // What may hold nothing admits nothing, however often it is asked for.
    cache.set_capacity(0);
    for _ in 0..3 {
        assert_eq!(slots.admit(5), CacheFill::Pass);
    }
}

#[test]
fn the_hand_spares_values_that_were_used() {
    let (_, cache) = cache(10_000);
    let (left, right) = (Slots::new(&cache, 100), Slots::new(&cache, 70));
    for index in 0..5 {
        left.insert(index * 20, &held(1));
        right.insert(index * 15, &held(2));
    }
    assert!(left.get(20).is_some() && right.get(60).is_some());
    // Eight more: the eight that were not used go.
    for index in 0..8 {
        right.insert(index + 1, &held(3));
        // Fresh ones are used at once, so that the hand prefers the old.
        assert!(right.get(index + 1).is_some());
    }
    assert!(left.get(20).is_some() && right.get(60).is_some());
    let left_kept = (0..100).filter(|&index| left.get(index).is_some()).count();
    assert_eq!(left_kept, 1);
    assert_eq!(cache.stats().evictions, 8);
    assert_eq!(cache.stats().bytes, 10_000);
}

#[test]
fn what_is_larger_than_the_cache_is_not_kept() {
    let (budget, cache) = cache(999);
    let slots = Slots::new(&cache, 1);
    slots.insert(0, &held(1));
    assert!(slots.get(0).is_none());
    assert_eq!(budget.used(Part::Blocks), 0);
    cache.set_capacity(1000);
    slots.insert(0, &held(1));
    assert!(slots.get(0).is_some());
    cache.set_capacity(0);
    assert!(slots.get(0).is_none());
    assert_eq!(budget.used(Part::Blocks), 0);
}

#[test]
fn tables_that_come_and_go_leave_the_hand_in_place() {
    let (budget, cache) = cache(5_000);
    let mut tables: Vec<Slots<u64>> = Vec::new();
    let mut state = 1_u64;
    for round in 0..5_000_usize {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pick = (state >> 33) as usize;
        match pick % 7 {
            0 => tables.push(Slots::new(&cache, 1 + pick % 130)),
            1 if tables.len() > 3 => drop(tables.remove(pick / 7 % tables.len())),
            _ => {
                let Some(count) = tables.len().checked_sub(1) else { continue };
                let slots = &tables[pick / 7 % (count + 1)];
                let index = pick / 50 % slots.count();
                slots.insert(index, &held(round as u64));
                // The insertion makes room, whatever was marked.
                assert!(slots.get(index).is_some());
            }
        }
        assert!(budget.used(Part::Blocks) <= 5_000);
    }
    assert!(cache.stats().evictions > 1000);
    drop(tables);
    assert_eq!(budget.used(Part::Blocks), 0);
}

#[test]
fn the_cache_stays_within_its_capacity_under_concurrent_readers() {
    let (budget, cache) = cache(20_000);
    let tables: Vec<Slots<u64>> = (0..3).map(|_| Slots::new(&cache, 100)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (tables, budget) = (&tables, &budget);
            scope.spawn(move || {
                let mut state = thread + 1;
                for _ in 0..20_000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (table, index) = ((state >> 33) % 3, (state >> 40) % 100);
                    let slots = &tables[table as usize];
                    let expected = table * 1000 + index;
                    match slots.with(index as usize, (), |value, ()| *value) {
                        Ok(found) => assert_eq!(found, expected),
                        Err(_) => slots.insert(index as usize, &held(expected)),
                    }
                    assert!(budget.used(Part::Blocks) <= 20_000);
                }
            });
        }
    });
    let stats = cache.stats();
    assert!(stats.hits > 0 && stats.evictions > 0);
    assert_eq!(stats.hits + stats.misses, 80_000);
    // Every value that is in a slot can be evicted: none has lost its bit.
    cache.set_capacity(0);
    assert_eq!((cache.stats().bytes, budget.used(Part::Blocks)), (0, 0));
    drop(tables);
    assert_eq!(budget.used(Part::Blocks), 0);
}

#[test]
fn dropped_slots_let_go_of_what_they_held() {
    let (budget, cache) = cache(1 << 20);
    let slots: Slots<u64> = Slots::new(&cache, 200);
    let all: Vec<_> = (0..200).step_by(3).map(|index| (index, held(index as u64))).collect();
    for (index, held) in &all {
        slots.insert(*index, held);
        assert_eq!(Arc::strong_count(held), 2);
    }
    drop(slots);
    assert!(all.iter().all(|(_, held)| Arc::strong_count(held) == 1));
    assert_eq!((budget.used(Part::Blocks), cache.stats().bytes), (0, 0));
}

#[test]
fn a_part_is_asked_for_by_where_the_value_lies() {
    let (_, cache) = cache(10_000);
    let slots = Slots::new(&cache, 2);
    for index in [1, 2] {
        slots.prefetch_part(index, |front, _| panic!("there is no value at {front:?}"));
    }
    let value = held(7);
    slots.insert(1, &value);
    let mut asked = None;
    slots.prefetch_part(1, |front, layout| asked = Some((front, layout)));
    assert_eq!(asked, Some((std::ptr::from_ref(&**value).cast(), 7)));
}

#[test]
fn slots_tell_when_half_of_them_are_full() {
    let (_, cache) = cache(10_000);
    let slots = Slots::new(&cache, 5);
    for index in 0..3 {
        assert!(!slots.are_half_full(), "{index}");
        slots.insert(index, &held(1));
        slots.insert(index, &held(2));
    }
    assert!(slots.are_half_full());
    cache.set_capacity(2_999);
    assert!(!slots.are_half_full());
}

#[test]
fn what_leads_to_values_takes_an_eighth_at_most_and_displaces_none() {
    for tables in [TableMemory::Beside, TableMemory::Within] {
        let budget = Arc::new(Budget::new(1 << 30));
        let cache = Cache::new(Arc::clone(&budget), 10_000, tables);
        let slots = Slots::new(&cache, 10);
        assert!(!cache.reserve_guide(1_251));
        assert!(cache.reserve_guide(1_000) && !cache.reserve_guide(251));
        assert_eq!((budget.used(Part::Tables), budget.used(Part::Blocks)), (1_000, 0));
        for index in 0..10 {
            slots.insert(index, &held(1));
        }
        let is_within = tables == TableMemory::Within;
        assert_eq!(cache.stats().evictions, u64::from(is_within));
        assert_eq!(cache.reserve_guide(1), !is_within);
        cache.release_guide(if is_within { 1_000 } else { 1_001 });
        assert_eq!(budget.used(Part::Tables), 0);
    }
}

#[test]
fn tables_within_the_capacity_leave_the_less_for_values() {
    let budget = Arc::new(Budget::new(1 << 30));
    let cache = Cache::new(Arc::clone(&budget), 5_000, TableMemory::Within);
    let slots = Slots::new(&cache, 10);
    budget.charge(Part::Tables, 1_000);
    for index in 0..5 {
        slots.insert(index, &held(1));
    }
    assert_eq!((cache.stats().bytes, cache.stats().capacity), (4_000, 4_000));
    budget.charge(Part::Tables, 2_000);
    cache.fit();
    assert_eq!((cache.stats().bytes, cache.stats().capacity), (2_000, 2_000));
    // A quarter is left to them at least.
    budget.charge(Part::Tables, 9_000);
    cache.fit();
    assert_eq!((cache.stats().bytes, cache.stats().capacity), (1_000, 1_250));
    slots.insert(6, &held(1));
    assert!(slots.get(6).is_some());
    assert_eq!(cache.stats().bytes, 1_000);
    budget.release(Part::Tables, 12_000);
    slots.insert(7, &held(1));
    assert_eq!((cache.stats().bytes, cache.stats().capacity), (2_000, 5_000));
}

#[test]
fn what_others_of_the_budget_take_values_leave() {
    let budget = Arc::new(Budget::new(20_000).reserving(10_000));
    let cache = Cache::new(Arc::clone(&budget), 10_000, TableMemory::Within);
    let slots = Slots::new(&cache, 20);
    let fill = || {
        for index in 0..20 {
            slots.insert(index, &held(1));
        }
        cache.fit();
        cache.stats().bytes
    };
    assert_eq!(fill(), 8_000, "a ninth is for gaps");
    // What is reserved for memtables is theirs, used or not.
    budget.charge(Part::Memtables, 10_000);
    assert_eq!(fill(), 8_000);
    budget.charge(Part::IdleMemtables, 2_000);
    assert_eq!(fill(), 7_000);
    for part in [Part::Transactions, Part::Cursors, Part::Jobs, Part::Feeds] {
        budget.charge(part, 3_000);
        assert_eq!(fill(), 4_000, "{part:?}");
        budget.release(part, 3_000);
    }
    budget.charge(Part::Jobs, 1 << 20);
    assert_eq!(fill(), 0, "less than a value is left: a sixteenth");
}

#[test]
fn what_readers_hold_outside_of_the_cache_values_leave() {
    const MARGINS: Margins = Margins { front: 0, back: 0 };
    let budget = Arc::new(Budget::new(20_000));
    let cache = Cache::new(Arc::clone(&budget), 20_000, TableMemory::Within);
    let slots: Slots<Lying> = Slots::new(&cache, 20);
    let capacity = cache.stats().capacity;
    let pinned = cache.region().copy_beside(&[0; 9_000], MARGINS).freeze();
    assert_eq!(cache.pinned_bytes(), 9_000);
    assert_eq!(cache.stats().capacity, capacity - 8_000);
    for index in 0..20 {
        let bytes = cache.region().copy_beside(&[1; 1_000], MARGINS).freeze();
        slots.insert(index, &Arc::new(Cached::new(Lying(bytes), 1_000)));
    }
    let bytes = cache.stats().bytes;
    assert!(bytes > 5_000 && bytes <= capacity - 7_000, "{bytes} of {capacity}");
    drop(pinned);
    assert_eq!((cache.stats().capacity, budget.total()), (capacity, cache.stats().bytes));
}

/// A value that lies in the region of the cache.
struct Lying(Bytes);

impl Cacheable for Lying {
    const FRONT_BYTES: usize = 8;

    fn front(&self) -> *const u8 {
        self.0.as_ptr()
    }

    fn layout(&self) -> u64 {
        0
    }
}

#[test]
fn the_region_gives_memory_back_when_others_take_it() {
    const VALUE: usize = 200 << 10;
    const MARGINS: Margins = Margins { front: 0, back: 0 };
    let budget = Arc::new(Budget::new(64 << 20));
    let cache = Cache::new(Arc::clone(&budget), 64 << 20, TableMemory::Within);
    let slots: Slots<Lying> = Slots::new(&cache, 400);
    let fill = || {
        for index in 0..400 {
            let bytes = cache.region().copy(&[1; VALUE], MARGINS).freeze();
            slots.insert(index, &Arc::new(Cached::new(Lying(bytes), VALUE)));
        }
    };
    fill();
    let memory = || budget.used(Part::BlockMemory);
    let before = memory();
    assert!(before > 48 << 20 && budget.total() <= 64 << 20, "{before} bytes");
    let kept = slots.get(399).or_else(|| slots.get(3));
    budget.charge(Part::Transactions, 40 << 20);
    cache.fit();
    // A chunk whose value is held stays.
    assert!(memory() <= 28 << 20, "{} bytes", memory());
    assert!(cache.stats().bytes > 8 << 20, "the rest stays of use");
    drop(kept);
    fill();
    assert!(budget.total() <= 64 << 20, "{} bytes", budget.total());
    budget.release(Part::Transactions, 40 << 20);
    fill();
    assert!(memory() > 48 << 20, "it grows again: {} bytes", memory());
}
