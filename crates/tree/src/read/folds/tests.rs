//! What is found was kept for that key, and the budget holds.

use super::*;
use siltdb_base::budget::Budget;
use siltdb_disk::cache::{Cacheable, Cached, Slots, TableMemory};

fn folds(limit: usize) -> (Arc<Budget>, Folds) {
    let budget = Arc::new(Budget::new(limit));
    let cache = Cache::new(Arc::clone(&budget), limit, TableMemory::Within);
    (budget, Folds::new(cache))
}

fn found(folds: &Folds, key: &[u8]) -> Option<(u64, Vec<u8>)> {
    folds.find(key).map(|fold| (fold.sequence.0, fold.value.to_vec()))
}

#[test]
fn newer_fold_of_a_key_replaces_the_older_one_and_not_the_other_way_round() {
    let (_, folds) = folds(1 << 20);
    assert_eq!(found(&folds, b"a"), None);
    folds.keep(b"a", SequenceNumber(5), b"five", FoldTimes::default());
    folds.keep(b"a", SequenceNumber(3), b"three", FoldTimes::default());
    assert_eq!(found(&folds, b"a"), Some((5, b"five".to_vec())));
    folds.keep(b"a", SequenceNumber(8), b"eight", FoldTimes::default());
    assert_eq!(found(&folds, b"a"), Some((8, b"eight".to_vec())));
}

#[test]
fn keys_of_one_slot_displace_each_other_and_are_not_confused() {
    let (budget, folds) = folds(1 << 20);
    let keys = || (0..4 * SLOTS as u32).map(u32::to_be_bytes);
    for (sequence, key) in (1..).zip(keys()) {
        folds.keep(&key, SequenceNumber(sequence), &key, FoldTimes::default());
    }
    let mut kept = 0;
    for (sequence, key) in (1..).zip(keys()) {
        if let Some(fold) = found(&folds, &key) {
            assert_eq!(fold, (sequence, key.to_vec()));
            kept += 1;
        }
    }
    assert!(kept > SLOTS / 2 && kept <= SLOTS, "{kept}");
    assert_eq!(budget.used(Part::Folds), kept * (8 + size_of::<Fold>()));
    folds.clear();
    assert_eq!(budget.used(Part::Folds), 0);
}

#[test]
fn folds_stay_within_their_part_of_the_budget() {
    const LIMIT: usize = 1 << 20;
    let (budget, folds) = folds(LIMIT);
    let most = LIMIT / BUDGET_PART - 1 - size_of::<Fold>();
    folds.keep(b"k", SequenceNumber(1), &vec![1; most + 1], FoldTimes::default());
    assert_eq!(found(&folds, b"k"), None);
    folds.keep(b"k", SequenceNumber(1), &vec![1; most], FoldTimes::default());
    assert_eq!(budget.used(Part::Folds), LIMIT / BUDGET_PART);
    folds.keep(b"l", SequenceNumber(2), b"small", FoldTimes::default());
    assert_eq!((found(&folds, b"k"), found(&folds, b"l")), (None, Some((2, b"small".to_vec()))));
    for number in 0..10_000_u32 {
        folds.keep(&number.to_be_bytes(), SequenceNumber(3), &[7; 1000], FoldTimes::default());
        assert!(budget.used(Part::Folds) <= LIMIT / BUDGET_PART);
    }
}

#[derive(Debug)]
struct Nothing;

impl Cacheable for Nothing {
    const FRONT_BYTES: usize = 0;

    fn front(&self) -> *const u8 {
        std::ptr::from_ref(self).cast()
    }

    fn layout(&self) -> u64 {
        0
    }
}

#[test]
fn blocks_leave_the_cache_for_folds() {
    const LIMIT: usize = 1 << 20;
    let (budget, folds) = folds(LIMIT);
    let slots = Slots::new(&folds.cache, 100);
    for index in 0..100 {
        slots.insert(index, &Arc::new(Cached::new(Nothing, 12_000)));
    }
    let blocks = budget.used(Part::Blocks);
    assert!(blocks > LIMIT / 9 * 8 - 12_100 && blocks <= LIMIT, "full, but for gaps");
    folds.keep(b"k", SequenceNumber(1), &[1; 20_000], FoldTimes::default());
    let left = budget.used(Part::Blocks);
    assert!(left < blocks && left + budget.used(Part::Folds) <= LIMIT, "{left} of {blocks}");
}
