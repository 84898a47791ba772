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
