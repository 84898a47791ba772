//! Neighbours of keys, cursors within bounds, and keys without values, against a sorted map.

use crate::draw::Draw;
use siltdb::{
    Compression, Cursor, Db, FamilyOptions, MergeOperator, Options, Read, ReadOptions, Slice,
    testing::MemFs,
};
use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

impl Draw {
    fn short_key(&mut self) -> Vec<u8> {
        match self.below(40) {
            0 => Vec::new(),
            1 => vec![0xff; 3],
            _ => format!("key:{:03}", self.below(300)).into_bytes(),
        }
    }
}

fn small(fs: &MemFs) -> Options {
    let family = FamilyOptions::new().compression(Compression::None).block_bytes(1 << 10);
    Options::new()
        .fs(Arc::new(fs.clone()))
        .workers(0)
        .memtable_bytes(64 << 10)
        .memory_budget(8 << 20)
        .default_family(family)
}

/// A database with keys in memory, in level 0 and below, some of them deleted, and its expected
/// contents.
fn filled(draw: &mut Draw) -> siltdb::Result<(Db, Map)> {
    let db = small(&MemFs::new()).open("db")?;
    let mut map = Map::new();
    for part in 0..3 {
        for _ in 0..150 {
            let key = draw.short_key();
            if draw.below(4) == 0 {
                db.delete(&key)?;
                map.remove(&key);
            } else {
                let long = draw.below(8) == 0;
                let value = vec![part; if long { 2500 } else { 10 }];
                db.put(&key, &value)?;
                map.insert(key, value);
            }
        }
        match part {
            0 => db.compact()?,
            1 => db.flush()?,
            _ => {}
        }
    }
    Ok((db, map))
}

fn owned(pair: Option<(Slice, Slice)>) -> Option<(Vec<u8>, Vec<u8>)> {
    pair.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

fn of(pair: Option<(&Vec<u8>, &Vec<u8>)>) -> Option<(Vec<u8>, Vec<u8>)> {
    pair.map(|(key, value)| (key.clone(), value.clone()))
}

#[test]
fn the_neighbours_of_a_key_are_those_of_a_sorted_map() {
    for seed in 0..8 {
        let mut draw = Draw::new(seed);
        let (db, map) = filled(&mut draw).unwrap();
        for _ in 0..300 {
            let key = draw.short_key();
            let before = |end| of(map.range::<Vec<u8>, _>((Bound::Unbounded, end)).next_back());
            let after = |start| of(map.range::<Vec<u8>, _>((start, Bound::Unbounded)).next());
            assert_eq!(owned(db.get_lt(&key).unwrap()), before(Bound::Excluded(&key)));
            assert_eq!(owned(db.get_le(&key).unwrap()), before(Bound::Included(&key)));
            assert_eq!(owned(db.get_gt(&key).unwrap()), after(Bound::Excluded(&key)));
            assert_eq!(owned(db.get_ge(&key).unwrap()), after(Bound::Included(&key)));
        }
        assert_eq!(owned(db.first().unwrap()), of(map.first_key_value()));
        assert_eq!(owned(db.last().unwrap()), of(map.last_key_value()));
        assert!(!db.is_empty().unwrap());
    }
}

fn bound(draw: &mut Draw) -> Bound<Vec<u8>> {
    let key = draw.short_key();
    match draw.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// The entries of a map within a range, which may be reversed.
fn within(map: &Map, range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Vec<(Vec<u8>, Vec<u8>)> {
    use std::ops::RangeBounds;
    let pairs = map.iter().filter(|(key, _)| range.contains(*key));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn entry(cursor: &Cursor) -> Option<(Vec<u8>, Vec<u8>)> {
    let entry = cursor.entry().map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert_eq!(cursor.key().zip(cursor.value()), cursor.entry());
    entry
}

#[test]
fn a_cursor_stays_within_its_bounds_and_shows_values_only_if_they_are_wanted() {
    for seed in 0..20 {
        let mut draw = Draw::new(seed);
        let (db, map) = filled(&mut draw).unwrap();
        let range = (bound(&mut draw), bound(&mut draw));
        let keys_only = draw.below(2) == 0;
        let options = ReadOptions::new().range(&range).keys_only(keys_only);
        let mut pairs = within(&map, &range);
        if keys_only {
            pairs.iter_mut().for_each(|(_, value)| value.clear());
        }
        let mut cursor = db.cursor_with(&options).unwrap();
        assert_eq!(entry(&cursor), None);
        let mut at: Option<usize> = None;
        for _ in 0..200 {
            let key = draw.short_key();
            match draw.below(6) {
                0 => {
                    cursor.seek(&key).unwrap();
                    at = Some(pairs.partition_point(|pair| pair.0 < key));
                }
                1 => {
                    cursor.seek_for_prev(&key).unwrap();
                    at = pairs.partition_point(|pair| pair.0 <= key).checked_sub(1);
                }
                2 => {
                    cursor.next().unwrap();
                    at = at.map(|at| at + 1);
                }
                3 => {
                    cursor.prev().unwrap();
                    at = at.and_then(|at| at.checked_sub(1));
                }
                4 => {
                    let mut shown = Vec::new();
                    let limit = draw.below(30);
                    let count = cursor.walk(limit, |key, value| {
                        shown.push((key.to_vec(), value.to_vec()));
                        ControlFlow::Continue(())
                    });
                    let rest = at.map_or(&[][..], |at| &pairs[at..]);
                    let expected = &rest[..rest.len().min(limit as usize)];
                    assert_eq!((count.unwrap(), &shown[..]), (expected.len() as u64, expected));
                    at = at.map(|at| at + expected.len());
                }
                _ => {
                    cursor.seek_to_last().unwrap();
                    at = pairs.len().checked_sub(1);
                }
            }
            at = at.filter(|at| *at < pairs.len());
            assert_eq!(entry(&cursor), at.map(|at| pairs[at].clone()), "{range:?}");
        }
        assert_eq!(db.count(&range).unwrap(), pairs.len() as u64);
    }
}

#[test]
fn keys_alone_are_those_of_a_full_walk_from_both_ends() {
    for seed in 0..8 {
        let mut draw = Draw::new(seed);
        let (db, map) = filled(&mut draw).unwrap();
        let mut expected: std::collections::VecDeque<_> = map.keys().cloned().collect();
        let mut iter = db.iter().unwrap();
        // First some entries with their values, from both ends; then the keys of the rest.
        for _ in 0..draw.below(5) {
            assert_eq!(iter.next().unwrap().unwrap().0, expected.pop_front().unwrap()[..]);
            assert_eq!(iter.next_back().unwrap().unwrap().0, expected.pop_back().unwrap()[..]);
        }
        let mut keys = iter.keys();
        while let Some(key) = if draw.below(2) == 0 { keys.next() } else { keys.next_back() } {
            let key = key.unwrap();
            let is_first = expected.front().is_some_and(|first| key == first[..]);
            let found = if is_first { expected.pop_front() } else { expected.pop_back() };
            assert_eq!(found.as_deref(), Some(&key[..]));
        }
        assert!(expected.is_empty());
        assert!(keys.next().is_none() && keys.next_back().is_none());
    }
}

#[test]
fn a_walk_over_keys_reads_no_large_values() {
    let fs = MemFs::new();
    let db = small(&fs).cache_bytes(0).open("db").unwrap();
    for number in 0..200 {
        db.put(format!("photo:{number:04}"), vec![number as u8; 20_000]).unwrap();
    }
    db.compact().unwrap();
    let reads = |walk: &dyn Fn() -> usize| {
        let before = fs.calls();
        assert_eq!(walk(), 200);
        fs.calls() - before
    };
    // Opens the tables, so that later counts have reads only.
    reads(&|| db.iter().unwrap().count());
    let full = reads(&|| db.iter().unwrap().count());
    let keys = reads(&|| db.iter().unwrap().keys().count());
    let counted = reads(&|| db.count(..).unwrap() as usize);
    // A long walk reads several values at a time.
    assert!(full > 10 && keys == 0 && counted == 0, "{full}, {keys}, {counted} calls");
}

/// Joins operands, and counts its calls.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl MergeOperator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> siltdb::Result<Vec<u8>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(operands.concat())
    }
}

#[test]
fn a_walk_over_keys_merges_no_operands() {
    let operator = Arc::new(Counting::default());
    let family = FamilyOptions::new().merge_operator(operator.clone());
    let db = small(&MemFs::new()).default_family(family).open("db").unwrap();
    for number in 0..100 {
        db.default_family().merge(format!("{number:03}"), "operand").unwrap();
    }
    let forward = db.iter().unwrap().keys().count();
    let backward = db.iter().unwrap().keys().rev().count();
    assert_eq!((forward, backward, operator.0.load(Ordering::Relaxed)), (100, 100, 0));
    assert_eq!(db.iter().unwrap().count(), 100);
    assert_eq!(operator.0.load(Ordering::Relaxed), 100);
}

#[test]
fn a_buffer_gets_the_value_of_one_key_after_another() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put("long", vec![1; 10_000]).unwrap();
    db.put("short", "abc").unwrap();
    db.put("empty", "").unwrap();
    let mut buffer = b"before".to_vec();
    assert!(db.get_into("long", &mut buffer).unwrap() && buffer == vec![1; 10_000]);
    let capacity = buffer.capacity();
    assert!(db.get_into("short", &mut buffer).unwrap() && buffer == b"abc");
    assert!(db.get_into("empty", &mut buffer).unwrap() && buffer.is_empty());
    db.get_into("short", &mut buffer).unwrap();
    assert!(!db.get_into("gone", &mut buffer).unwrap() && buffer.is_empty());
    assert_eq!(buffer.capacity(), capacity);
}
