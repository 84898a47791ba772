//! The memtable against a skip list as the model, and many threads at once.

use super::*;
use crate::arena::ArenaOptions;
use proptest::prelude::*;
use siltdb_base::{
    budget::{Budget, Part},
    cursor::EntryCursor,
    slice::Slice,
    tombstone::RangeTombstone,
};
use std::{
    cmp::Reverse,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

type Owned = (Vec<u8>, u64, Vec<u8>);
type Place = (Vec<u8>, Reverse<u64>);

/// The oracle: another concurrent ordered map; under Miri, which that map does not pass, a plain
/// one.
#[derive(Default)]
struct Model {
    #[cfg(not(miri))]
    map: crossbeam_skiplist::SkipMap<Place, Vec<u8>>,
    #[cfg(miri)]
    map: std::collections::BTreeMap<Place, Vec<u8>>,
}

#[cfg(not(miri))]
impl Model {
    fn insert(&mut self, place: Place, value: Vec<u8>) {
        self.map.insert(place, value);
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = Owned> + '_ {
        self.map.iter().map(from_skip_list)
    }

    fn at_or_after(&self, place: &Place) -> Option<Owned> {
        self.map.range(place..).next().map(from_skip_list)
    }

    fn before(&self, place: &Place) -> Option<Owned> {
        self.map.range(..place).next_back().map(from_skip_list)
    }
}

#[cfg(not(miri))]
fn from_skip_list(entry: crossbeam_skiplist::map::Entry<'_, Place, Vec<u8>>) -> Owned {
    let (key, Reverse(sequence)) = entry.key();
    (key.clone(), *sequence, entry.value().clone())
}

#[cfg(miri)]
impl Model {
    fn insert(&mut self, place: Place, value: Vec<u8>) {
        self.map.insert(place, value);
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = Owned> + '_ {
        self.map.iter().map(from_parts)
    }

    fn at_or_after(&self, place: &Place) -> Option<Owned> {
        self.map.range(place..).next().map(from_parts)
    }

    fn before(&self, place: &Place) -> Option<Owned> {
        self.map.range(..place).next_back().map(from_parts)
    }
}

#[cfg(miri)]
fn from_parts((place, value): (&Place, &Vec<u8>)) -> Owned {
    (place.0.clone(), place.1.0, value.clone())
}

fn pool() -> Arc<ArenaPool> {
    ArenaPool::new(Arc::new(Budget::new(1 << 30)), ArenaOptions::default())
}

fn put<'a>(key: &'a [u8], sequence: u64, value: &'a [u8]) -> Entry<'a> {
    Entry { key, sequence: SequenceNumber(sequence), kind: EntryKind::Put, value }
}

fn owned(entry: Entry<'_>) -> Owned {
    (entry.key.to_vec(), entry.sequence.0, entry.value.to_vec())
}

fn forward(memtable: &Arc<Memtable>) -> Vec<Owned> {
    let mut cursor = memtable.cursor();
    let mut all = Vec::new();
    cursor.seek_to_first().unwrap();
    while let Some(entry) = cursor.entry() {
        all.push(owned(entry));
        cursor.next().unwrap();
    }
    all
}

fn backward(memtable: &Arc<Memtable>) -> Vec<Owned> {
    let mut cursor = memtable.cursor();
    let mut all = Vec::new();
    cursor.seek_to_last().unwrap();
    while let Some(entry) = cursor.entry() {
        all.push(owned(entry));
        cursor.prev().unwrap();
    }
    all
}

/// Keys that provoke: empty, prefixes of each other, zero bytes, equal heads, long common prefixes.
fn tricky_key() -> impl Strategy<Value = Vec<u8>> {
    let few = proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255)], 0..12);
    let prefixed = (0..4_usize, proptest::collection::vec(0_u8..3, 0..4)).prop_map(|(n, tail)| {
        let mut key = b"tenant/0001/a prefix longer than what stands inline/".repeat(n / 3 + 1);
        key.truncate(key.len() - n);
        key.extend(tail);
        key
    });
    let numbered = (0_u32..3_000).prop_map(|number| format!("user:{number:07}").into_bytes());
    let random = proptest::collection::vec(any::<u8>(), 0..20);
    prop_oneof![few, prefixed, numbered, random]
}

fn operations() -> impl Strategy<Value = Vec<(Vec<u8>, u8)>> {
    let most = if cfg!(miri) { 40 } else { 1_200 };
    proptest::collection::vec((tricky_key(), 0_u8..12), 1..most)
}

/// Applies the operations singly or in batches of varying size, in the order given or sorted.
fn fill(operations: &[(Vec<u8>, u8)], memtable: &Memtable, model: &mut Model) {
    let values: Vec<Vec<u8>> =
        operations.iter().map(|(key, mode)| [&key[..], &[*mode]].concat()).collect();
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (index, (key, mode)) in operations.iter().enumerate() {
        let sequence = index as u64 + 1;
        model.insert((key.clone(), Reverse(sequence)), values[index].clone());
        entries.push(put(key, sequence, &values[index]));
        match *mode {
            0..6 => {}
            6..9 => memtable.insert(entries.pop().expect("just pushed")),
            9 => memtable.insert_batch(&std::mem::take(&mut entries)),
            _ => {
                let mut batch = std::mem::take(&mut entries);
                batch.sort_by(|a, b| a.key.cmp(b.key));
                memtable.insert_batch(&batch);
            }
        }
    }
    memtable.insert_batch(&entries);
}

fn check_seeks(memtable: &Arc<Memtable>, model: &Model, key: &[u8], sequence: u64) {
    let at = SequenceNumber(sequence);
    let target = (key.to_vec(), Reverse(sequence));
    let mut cursor = memtable.cursor();
    cursor.seek(key, at).unwrap();
    let lower = model.at_or_after(&target);
    assert_eq!(cursor.entry().map(owned), lower);
    let newest = lower.clone().filter(|found| found.0 == key);
    assert_eq!(memtable.get(key, at).map(owned), newest);
    cursor.prev().unwrap();
    let before = model.before(&target);
    if lower.is_some() {
        assert_eq!(cursor.entry().map(owned), before);
    }
    cursor.seek_before(key, at).unwrap();
    assert_eq!(cursor.entry().map(owned), before);
    cursor.next().unwrap();
    if before.is_some() {
        assert_eq!(cursor.entry().map(owned), lower);
    }
}

const PROBES: usize = if cfg!(miri) { 5 } else { 20 };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 96 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn a_memtable_is_a_sorted_map(
        operations in operations(),
        probes in proptest::collection::vec((tricky_key(), 0_u64..1_400), 0..PROBES),
    ) {
        let memtable = Memtable::new(&pool());
        let mut model = Model::default();
        fill(&operations, &memtable, &mut model);
        let expected: Vec<Owned> = model.iter().collect();
        prop_assert_eq!(&forward(&memtable), &expected);
        let mut back = backward(&memtable);
        back.reverse();
        prop_assert_eq!(&back, &expected);
        prop_assert_eq!(memtable.entries(), operations.len() as u64);
        let range = Some((SequenceNumber(1), SequenceNumber(operations.len() as u64)));
        prop_assert_eq!(memtable.sequence_range(), range);
        for (key, sequence) in &probes {
            check_seeks(&memtable, &model, key, *sequence);
        }
        for (index, (key, _)) in operations.iter().enumerate().step_by(7) {
            check_seeks(&memtable, &model, key, index as u64 + 1);
            check_seeks(&memtable, &model, key, index as u64);
            check_seeks(&memtable, &model, key, SequenceNumber::MAX.0);
        }
    }
}

#[test]
fn an_empty_memtable_has_nothing() {
    let memtable = Memtable::new(&pool());
    assert!(memtable.is_empty());
    assert_eq!(memtable.bytes(), 0);
    assert_eq!(memtable.sequence_range(), None);
    assert!(memtable.tombstones().is_empty());
    let mut cursor = memtable.cursor();
    for step in [
        MemtableCursor::seek_to_first,
        MemtableCursor::seek_to_last,
        MemtableCursor::next,
        MemtableCursor::prev,
    ] {
        step(&mut cursor).unwrap();
        assert_eq!(cursor.entry(), None);
        assert!(cursor.stretch().is_none());
    }
    memtable.insert_batch(&[]);
    assert!(memtable.is_empty());
}

#[test]
fn every_kind_comes_back_and_tombstones_stay_apart() {
    let memtable = Memtable::new(&pool());
    let kinds = [
        EntryKind::Put,
        EntryKind::PutExpiring,
        EntryKind::Delete,
        EntryKind::SingleDelete,
        EntryKind::RangeDelete,
        EntryKind::Merge,
        EntryKind::BlobPointer,
    ];
    let entries: Vec<Entry<'_>> = (1..)
        .zip(kinds)
        .map(|(sequence, kind)| Entry {
            key: b"a",
            sequence: SequenceNumber(sequence),
            kind,
            value: b"value",
        })
        .collect();
    memtable.insert_batch(&entries);
    for entry in &entries {
        if entry.kind != EntryKind::RangeDelete {
            assert_eq!(memtable.get(b"a", entry.sequence), Some(*entry));
        }
    }
    assert_eq!((memtable.entries(), memtable.range_tombstones()), (6, 1));
    assert_eq!(memtable.tombstones().covering(b"b", SequenceNumber::MAX), Some(SequenceNumber(5)));
    assert_eq!(memtable.covering(b"b", SequenceNumber::MAX), Some(SequenceNumber(5)));
    assert_eq!(memtable.covering(b"b", SequenceNumber(4)), None);
    assert_eq!(memtable.sequence_range(), Some((SequenceNumber(1), SequenceNumber(7))));
}

#[test]
fn memory_is_charged_and_given_back() {
    let budget = Arc::new(Budget::new(1 << 30));
    let pool = ArenaPool::new(Arc::clone(&budget), ArenaOptions::default());
    let memtable = Memtable::new(&pool);
    memtable.insert(put(b"key", 1, &[7; 20_000]));
    memtable.insert(Entry { kind: EntryKind::RangeDelete, ..put(b"a", 2, b"b") });
    assert_eq!(budget.used(Part::Memtables), memtable.bytes());
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    drop(memtable);
    assert_eq!(cursor.entry().map(|entry| entry.value.len()), Some(20_000));
    drop(cursor);
    assert_eq!(budget.used(Part::Memtables), 0);
}

#[test]
#[cfg_attr(miri, ignore = "long keys take long to interpret")]
fn the_longest_key_fits_and_a_longer_one_is_refused() {
    use siltdb_base::limits::KEY_BYTES_MAX;
    let memtable = Memtable::new(&pool());
    let long = vec![1; KEY_BYTES_MAX + 1];
    memtable.insert(put(&long[1..], 1, b""));
    memtable.insert(put(&long[2..], 2, b"v"));
    assert_eq!(memtable.get(&long[1..], SequenceNumber(1)), Some(put(&long[1..], 1, b"")));
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        memtable.insert(put(&long, 3, b""));
    }));
    assert!(refused.is_err());
    assert_eq!(forward(&memtable).len(), 2);
}

#[test]
fn a_hot_key_keeps_all_versions_in_order() {
    let memtable = Memtable::new(&pool());
    let count = if cfg!(miri) { 24 } else { 5_000 };
    for sequence in 1..=count {
        memtable.insert(put(b"hot key", sequence, b""));
        if sequence % 3 == 0 {
            memtable.insert(put(format!("cold {sequence}").as_bytes(), sequence, b""));
        }
    }
    for visible in 1..=count {
        let found = memtable.get(b"hot key", SequenceNumber(visible)).expect("it is there");
        assert_eq!(found.sequence.0, visible);
    }
    let all = forward(&memtable);
    assert_eq!(all.len() as u64, count + count / 3);
    assert!(
        all.windows(2)
            .all(|pair| (&pair[0].0, Reverse(pair[0].1)) < (&pair[1].0, Reverse(pair[1].1)))
    );
}

#[test]
fn ascending_and_descending_keys_keep_their_order() {
    let count = if cfg!(miri) { 40_u64 } else { 20_000 };
    let ascending = Memtable::new(&pool());
    let descending = Memtable::new(&pool());
    for number in 0..count {
        ascending.insert(put(format!("user:{number:08}").as_bytes(), number + 1, b""));
        let down = count - number - 1;
        descending.insert(put(format!("user:{down:08}").as_bytes(), number + 1, b""));
    }
    let keys = |memtable: &Arc<Memtable>| -> Vec<Vec<u8>> {
        forward(memtable).into_iter().map(|entry| entry.0).collect()
    };
    let expected: Vec<Vec<u8>> =
        (0..count).map(|number| format!("user:{number:08}").into_bytes()).collect();
    assert_eq!(keys(&ascending), expected);
    assert_eq!(keys(&descending), expected);
}

#[test]
fn a_span_describes_the_leaf_around_the_cursor() {
    let memtable = Memtable::new(&pool());
    for number in 0..40_u64 {
        memtable.insert(put(&[number as u8], number + 1, b""));
    }
    let mut cursor = memtable.cursor();
    cursor.seek(&[20], SequenceNumber::MAX).unwrap();
    let span = cursor.stretch().expect("the cursor stands on an entry");
    let (before, after) = (span.before as u8, span.after as u8);
    assert_eq!((span.first_key, span.last_key), (&[20 - before][..], &[20 + after][..]));
    for step in 1..=after {
        cursor.next().unwrap();
        assert_eq!(cursor.entry().expect("within the span").key, [20 + step]);
    }
}

#[test]
fn tombstones_read_in_turn_with_inserts_are_all_found() {
    let memtable = Memtable::new(&pool());
    let mut all = Vec::new();
    for sequence in 1..=if cfg!(miri) { 20 } else { 300_u64 } {
        let (start, end) = ([(sequence * 37 % 251) as u8], [(sequence * 91 % 256) as u8]);
        memtable.insert(Entry { kind: EntryKind::RangeDelete, ..put(&start, sequence, &end) });
        all.push(RangeTombstone {
            start: Slice::copy_from(&start),
            end: Slice::copy_from(&end),
            sequence: SequenceNumber(sequence),
        });
        let expected = Fragments::new(&all);
        for key in (0..=255_u8).step_by(if cfg!(miri) { 50 } else { 5 }) {
            for visible in [SequenceNumber(sequence / 2), SequenceNumber::MAX] {
                assert_eq!(memtable.covering(&[key], visible), expected.covering(&[key], visible));
            }
        }
        if sequence % 50 == 0 {
            assert_eq!(*memtable.tombstones(), expected);
        }
    }
}

/// Spreads numbers over keys, one to one, so that threads meet everywhere in the tree.
fn scattered(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn threads_insert_read_and_walk_at_the_same_time() {
    const WRITERS: u64 = 3;
    let per_writer = if cfg!(miri) { 16 } else { 30_000_u64 };
    let memtable = Memtable::new(&pool());
    let done: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let number = |writer: u64, step: u64| step * WRITERS + writer;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (memtable, done) = (&memtable, &done);
                scope.spawn(move || {
                    for step in 0..per_writer {
                        let key = scattered(number(writer, step));
                        let entry = put(&key, number(writer, step) + 1, &key);
                        if writer == 0 {
                            memtable.insert_batch(&[entry]);
                        } else {
                            memtable.insert(entry);
                        }
                        done[writer as usize].store(step + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            // Whatever was there before the cursor was positioned is seen, in order, once.
            while !stop.load(Ordering::Relaxed) {
                let before: Vec<u64> =
                    done.iter().map(|count| count.load(Ordering::Acquire)).collect();
                for all in [forward(&memtable), backward(&memtable).into_iter().rev().collect()] {
                    assert!(all.windows(2).all(|pair: &[Owned]| pair[0].0 < pair[1].0));
                    let old = all.iter().filter(|(_, sequence, _)| {
                        let number = sequence - 1;
                        number / WRITERS < before[(number % WRITERS) as usize]
                    });
                    assert_eq!(old.count() as u64, before.iter().sum::<u64>());
                }
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for writer in 0..WRITERS {
                    let count = done[writer as usize].load(Ordering::Acquire);
                    for step in [0, count / 2, count.saturating_sub(1)] {
                        let key = scattered(number(writer, step));
                        let found = memtable.get(&key, SequenceNumber::MAX);
                        assert!(count == 0 || found.is_some_and(|found| found.value == key));
                    }
                }
            }
        });
        for writer in writers {
            writer.join().expect("a writer does not panic");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let total = WRITERS * per_writer;
    let all = forward(&memtable);
    assert_eq!(all.len() as u64, total);
    assert_eq!(memtable.entries(), total);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(memtable.sequence_range(), Some((SequenceNumber(1), SequenceNumber(total))));
}

#[test]
fn threads_append_to_the_same_end() {
    let per_writer = if cfg!(miri) { 16 } else { 20_000_u64 };
    let memtable = Memtable::new(&pool());
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..per_writer {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let key = format!("log/{number:012}");
                    memtable.insert(put(key.as_bytes(), number, b""));
                    let found = memtable.get(key.as_bytes(), SequenceNumber(number));
                    assert_eq!(found.map(|found| found.sequence.0), Some(number));
                }
            });
        }
    });
    let sequences: Vec<u64> = forward(&memtable).into_iter().map(|entry| entry.1).collect();
    assert!(sequences.into_iter().eq(1..=3 * per_writer));
}

#[test]
fn each_entry_is_among_the_bytes_used() {
    let pool = ArenaPool::new(Arc::new(Budget::new(1 << 30)), ArenaOptions::default());
    let memtable = Memtable::new(&pool);
    let mut used = memtable.used_bytes();
    assert_eq!(used, 0);
    for number in 1..=if cfg!(miri) { 50_u64 } else { 5_000 } {
        let (key, value) = (number.to_be_bytes(), [7; 20]);
        let sequence = SequenceNumber(number);
        memtable.insert(Entry { key: &key, sequence, kind: EntryKind::Put, value: &value });
        let now = memtable.used_bytes();
        assert!(now >= used + key.len() + value.len(), "entry {number}: from {used} to {now}");
        assert!(now <= memtable.bytes());
        used = now;
    }
    let sequence = SequenceNumber(10_000);
    memtable.insert(Entry { key: b"a", sequence, kind: EntryKind::RangeDelete, value: b"b" });
    assert!(memtable.used_bytes() > used);
}
