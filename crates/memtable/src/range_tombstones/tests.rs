//! Cutting is lazy and complete.

use super::*;
use siltdb_base::key::EntryKind;

fn insert(tombstones: &RangeTombstones, start: &[u8], sequence: u64, end: &[u8]) {
    let sequence = SequenceNumber(sequence);
    tombstones.insert(&Entry { key: start, sequence, kind: EntryKind::RangeDelete, value: end });
}

#[test]
fn fragments_are_cut_once_per_change() {
    let tombstones = RangeTombstones::new(&Arc::new(Budget::new(0)), Part::Memtables);
    assert!(tombstones.fragments().is_empty() && tombstones.lists().is_empty());
    insert(&tombstones, b"a", 1, b"c");
    let first = tombstones.fragments();
    assert!(Arc::ptr_eq(&first, &tombstones.fragments()));
    insert(&tombstones, b"b", 2, b"d");
    let second = tombstones.fragments();
    assert_eq!((first.as_slice().len(), second.as_slice().len()), (1, 3));
}

#[test]
fn lookups_do_not_cut_for_each_tombstone() {
    let tombstones = RangeTombstones::new(&Arc::new(Budget::new(0)), Part::Memtables);
    let mut cut = Vec::new();
    for sequence in 1..=if cfg!(miri) { 100 } else { 1_000 } {
        insert(&tombstones, b"a", sequence, b"b");
        let newest = tombstones.covering(b"a", SequenceNumber::MAX);
        assert_eq!(newest, Some(SequenceNumber(sequence)));
        cut.push(tombstones.state.read().unwrap().uncut().is_empty());
    }
    let cuts = cut.iter().filter(|is_cut| **is_cut).count();
    assert!(cuts < 60, "cut {cuts} times");
}

/// Each overlaps all others.
fn nest(tombstones: &RangeTombstones, number: u64, count: u64) {
    let (start, end) = (number.to_be_bytes(), (2 * count - number).to_be_bytes());
    insert(tombstones, &start, number + 1, &end);
}

#[test]
fn deleting_and_iterating_in_turn_cuts_each_tombstone_a_few_times() {
    let count = if cfg!(miri) { 60 } else { 5_000 };
    let tombstones = RangeTombstones::new(&Arc::new(Budget::new(0)), Part::Memtables);
    let mut cut = 0;
    let mut seen: Vec<Arc<Fragments>> = Vec::new();
    for number in 0..count {
        nest(&tombstones, number, count);
        let lists = tombstones.lists();
        assert!(lists.len() <= 6, "{} lists", lists.len());
        let is_new = |list: &&Arc<Fragments>| !seen.iter().any(|old| Arc::ptr_eq(old, list));
        cut += lists.iter().filter(is_new).map(|list| list.as_slice().len() as u64).sum::<u64>();
        seen = lists;
        let middle = count.to_be_bytes();
        let newest = seen.iter().filter_map(|list| list.covering(&middle, SequenceNumber::MAX));
        assert_eq!(newest.max(), Some(SequenceNumber(number + 1)));
    }
    assert!(cut < 2 * 50 * count, "{cut} fragments for {count} tombstones");
}

#[test]
fn nested_tombstones_are_charged_and_bounded() {
    let count = if cfg!(miri) { 60 } else { 5_000 };
    let budget = Arc::new(Budget::new(0));
    let tombstones = RangeTombstones::new(&budget, Part::Memtables);
    (0..count).for_each(|number| nest(&tombstones, number, count));
    let held = tombstones.lists();
    let used = budget.used(Part::Memtables);
    let cut: usize = held.iter().map(|list| list.memory_bytes()).sum();
    assert_eq!(used, tombstones.bytes() + cut);
    assert!(cut > 72 * count as usize && used < 600 * count as usize, "{used} bytes");
    drop(tombstones);
    assert_eq!(budget.total(), cut, "what an iterator holds stays charged");
    drop(held);
    assert_eq!(budget.total(), 0);
}
