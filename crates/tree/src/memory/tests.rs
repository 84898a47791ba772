//! The order of generations.

use super::*;
use siltdb_base::{
    budget::Budget,
    id::SequenceNumber,
    key::{Entry, EntryKind},
};
use siltdb_memtable::arena::{ArenaOptions, ArenaPool};

fn memory(generations: &[u64]) -> Memtables {
    let pool = ArenaPool::new(Arc::new(Budget::new(1 << 20)), ArenaOptions::default());
    generations.iter().fold(Memtables::default(), |memory, &generation| {
        memory.with(Generation(generation), Memtable::new(&pool))
    })
}

fn order(memory: &Memtables) -> Vec<u64> {
    memory.tables().iter().map(|table| table.generation.0).collect()
}

#[test]
fn memtables_lie_newest_first_however_they_come() {
    for generations in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [3, 1, 2]] {
        let memory = memory(&generations);
        assert_eq!(order(&memory), [3, 2, 1]);
        assert_eq!(memory.oldest(), Some(Generation(1)));
    }
}

#[test]
fn a_generation_is_found_or_is_not_there() {
    let memory = memory(&[5, 3]);
    let found = |generation| memory.find(Generation(generation)).is_some();
    assert_eq!([2, 3, 4, 5, 6].map(found), [false, true, false, true, false]);
    assert_eq!(order(&memory.without(Generation(5))), [3]);
    assert_eq!(order(&memory.without(Generation(4))), [5, 3]);
    assert_eq!(format!("{memory:?}"), "[Generation(5), Generation(3)]");
}

#[test]
#[should_panic(expected = "a second memtable")]
fn a_generation_has_one_memtable() {
    memory(&[5, 3, 5]);
}

#[test]
fn a_range_goes_from_the_first_key_to_the_last_and_an_empty_memtable_has_none() {
    let memory = memory(&[5, 3]);
    for (key, sequence) in [(&b"m"[..], 1), (b"c", 2), (b"x", 3)] {
        let sequence = SequenceNumber(sequence);
        let entry = Entry { key, sequence, kind: EntryKind::Put, value: b"" };
        memory.find(Generation(3)).unwrap().insert(entry);
    }
    assert_eq!(memory.ranges().unwrap(), [crate::fixture::range(b"c", b"x")]);
}

#[test]
fn older_memtables_reach_into_a_range_by_entries_and_range_tombstones_alone() {
    let memory = memory(&[5, 3]);
    let insert = |generation: u64, key: &[u8], kind: EntryKind, value: &[u8]| {
        let sequence = SequenceNumber(generation);
        let entry = Entry { key, sequence, kind, value };
        memory.find(Generation(generation)).unwrap().insert(entry);
    };
    insert(3, b"c", EntryKind::Put, b"");
    insert(3, b"m", EntryKind::Delete, b"");
    insert(3, b"p", EntryKind::RangeDelete, b"t");
    insert(5, b"x", EntryKind::Put, b"");
    let reach = |first: &str, last: &str, before: u64| {
        let range = crate::fixture::range(first.as_bytes(), last.as_bytes());
        memory.reach_into(&range, Generation(before)).unwrap()
    };
    for (first, last, reaches) in [
        ("a", "b", false),
        ("a", "c", true),
        ("c", "c", true),
        ("ca", "lz", false),
        ("d", "m", true),
        ("n", "oz", false),
        ("n", "p", true),
        ("q", "r", true),
        ("sz", "w", true),
        ("t", "w", false),
    ] {
        assert_eq!(reach(first, last, 6), reaches, "{first} to {last}");
        assert_eq!(reach(first, last, 5), reaches, "{first} to {last}");
        assert!(!reach(first, last, 3), "{first} to {last}");
    }
    assert!(reach("x", "y", 6) && !reach("x", "y", 5));
}
