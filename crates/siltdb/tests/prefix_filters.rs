//! Filters with prefixes: the same answers under every extractor, and tables that are not read.

use crate::draw::Draw;
use siltdb::{
    Db, FamilyOptions, KeyOrder, MergeOperator, Options, PrefixExtractor, Read, ReadOptions,
    Snapshot, TableKind, TypedFamily, merge,
    testing::{Crash, MemFs},
};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

impl Draw {
    /// Keys of users with items, keys that are shorter than any prefix, and the last of all keys.
    fn user_key(&mut self) -> Vec<u8> {
        match self.below(30) {
            0 => Vec::new(),
            1 => vec![0xff; self.below(5) as usize],
            2 => format!("u{}", self.below(10)).into_bytes(),
            _ => format!("u{:02}/{}/item", self.below(60), self.below(20)).into_bytes(),
        }
    }

    fn prefix(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => Vec::new(),
            1 => vec![0xff; 2],
            2 => b"u".to_vec(),
            3 => format!("u{}", self.below(10)).into_bytes(),
            4 => format!("u{:02}/{}/", self.below(60), self.below(20)).into_bytes(),
            _ => format!("u{:02}/", self.below(80)).into_bytes(),
        }
    }
}

fn choices() -> Vec<(Option<PrefixExtractor>, bool)> {
    let extractors = [
        None,
        Some(PrefixExtractor::Fixed(3)),
        Some(PrefixExtractor::Fixed(4)),
        Some(PrefixExtractor::Separator { separator: b'/', count: 1 }),
        Some(PrefixExtractor::Separator { separator: b'/', count: 2 }),
        Some(PrefixExtractor::Separator { separator: 0xff, count: 2 }),
    ];
    extractors.into_iter().flat_map(|extractor| [(extractor, true), (extractor, false)]).collect()
}

fn family((extractor, whole): (Option<PrefixExtractor>, bool)) -> FamilyOptions {
    FamilyOptions::new()
        .prefix_extractor(extractor)
        .whole_key_filter(whole)
        .block_bytes(1 << 10)
        .table_bytes(2 << 10)
        .base_level_bytes(8 << 10)
        .level0_runs(3)
}

fn options(fs: &MemFs, choice: (Option<PrefixExtractor>, bool)) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .workers(0)
        .seed(1)
        .memtable_bytes(8 << 10)
        .memory_budget(4 << 20)
        .default_family(family(choice))
}

fn collect(
    pairs: impl Iterator<Item = siltdb::Result<(siltdb::Slice, siltdb::Slice)>>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn check(read: &impl Read, map: &Map, draw: &mut Draw) {
    let prefix = draw.prefix();
    let expected: Vec<_> = map
        .range(prefix.clone()..)
        .take_while(|(key, _)| key.starts_with(&prefix))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(collect(read.prefix(&prefix).unwrap()), expected, "prefix {prefix:?}");
    let mut reversed = collect(read.prefix(&prefix).unwrap().rev());
    reversed.reverse();
    assert_eq!(reversed, expected, "prefix {prefix:?}, backward");

    let (lower, upper) = (draw.user_key(), draw.user_key());
    let expected: Vec<_> = match lower <= upper {
        true => {
            map.range(lower.clone()..upper.clone()).map(|(k, v)| (k.clone(), v.clone())).collect()
        }
        false => Vec::new(),
    };
    assert_eq!(collect(read.range(&lower[..]..&upper[..]).unwrap()), expected);

    let key = draw.user_key();
    assert_eq!(read.get(&key).unwrap().as_deref(), map.get(&key).map(|value| &value[..]));
    // A cursor within a prefix, from a seek on and back.
    let mut cursor = read.cursor_with(&ReadOptions::new().prefix(&prefix)).unwrap();
    cursor.seek(&key).unwrap();
    let start = key.clone().max(prefix.clone());
    let next = map.range(start..).next().filter(|(found, _)| found.starts_with(&prefix));
    assert_eq!(cursor.key(), next.map(|(found, _)| &found[..]), "{prefix:?} from {key:?}");
    if let Some((found, _)) = next {
        cursor.prev().unwrap();
        let before = map.range(..found.clone()).next_back();
        let before = before.filter(|(before, _)| before.starts_with(&prefix));
        assert_eq!(cursor.key(), before.map(|(before, _)| &before[..]));
    }
    // Backward from a key, and over the start of the prefix to its end.
    cursor.seek_for_prev(&key).unwrap();
    let within: Vec<_> = map.keys().filter(|found| found.starts_with(&prefix)).collect();
    let found = within.iter().rfind(|found| ***found <= key);
    assert_eq!(cursor.key(), found.map(|found| &found[..]), "{prefix:?} back from {key:?}");
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.key(), within.last().map(|last| &last[..]), "the last of {prefix:?}");
}

fn append() -> Arc<dyn MergeOperator> {
    merge::full("append", |_: &[u8], base: Option<&[u8]>, operands: &[&[u8]]| {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    })
}

/// What was there at a moment: a snapshot, and clones of then and of the snapshot.
struct Past {
    snapshot: Snapshot,
    map: Map,
    clones: Vec<siltdb::Family>,
}

impl Past {
    fn new(db: &Db, map: &Map) -> Self {
        let clone = db.clone_family(&db.default_family(), "then").unwrap();
        Self { snapshot: db.snapshot(), map: map.clone(), clones: vec![clone] }
    }

    /// Its tables hold newer entries as well, which the clone does not show.
    fn clone_snapshot(&mut self, db: &Db) {
        let clone = db.clone_family_at(&self.snapshot, &db.default_family(), "snapshot");
        self.clones.push(clone.unwrap());
    }

    fn check(&self, draw: &mut Draw) {
        check(&self.snapshot, &self.map, draw);
        self.clones.iter().for_each(|clone| check(clone, &self.map, draw));
    }
}

/// Writes and deletes at random, under options that change now and then.
#[test]
fn every_extractor_gives_the_answers_of_a_map_while_the_option_changes() {
    let (mut skips, choices) = (0, choices());
    for (seed, first) in choices.iter().enumerate() {
        let mut draw = Draw::new(seed as u64);
        let with_operator = family(*first).merge_operator(append());
        let db = options(&MemFs::new(), *first).default_family(with_operator).open("db").unwrap();
        let (mut map, mut past) = (Map::new(), None::<Past>);
        for step in 0..3000_u64 {
            let key = draw.user_key();
            match draw.below(20) {
                0 => {
                    let end = draw.user_key();
                    if key < end {
                        db.delete_range(&key[..]..&end[..]).unwrap();
                        map.retain(|found, _| *found < key || *found >= end);
                    }
                }
                1..4 => {
                    db.delete(&key).unwrap();
                    map.remove(&key);
                }
                4..7 => {
                    db.default_family().merge(&key, b"+1").unwrap();
                    map.entry(key).or_default().extend_from_slice(b"+1");
                }
                _ => {
                    let value = format!("{step:040}").into_bytes();
                    db.put(&key, &value).unwrap();
                    map.insert(key, value);
                }
            }
            if step.is_multiple_of(500) {
                let choice = choices[draw.below(choices.len() as u64) as usize];
                let kind = if draw.below(2) == 0 { TableKind::Block } else { TableKind::BTree };
                let threshold = [0, 0, 32][draw.below(3) as usize];
                let options = family(choice).table_kind(kind).value_threshold(threshold);
                db.default_family().set_options(&options).unwrap();
            }
            if step == 1500 {
                past = Some(Past::new(&db, &map));
            }
            if step == 2000 {
                past.as_mut().unwrap().clone_snapshot(&db);
            }
            if step.is_multiple_of(7) {
                check(&db, &map, &mut draw);
            }
            if let Some(past) = &past
                && step.is_multiple_of(31)
            {
                past.check(&mut draw);
            }
        }
        db.compact().unwrap();
        past.as_ref().unwrap().clones.iter().for_each(|clone| clone.compact().unwrap());
        for _ in 0..200 {
            check(&db, &map, &mut draw);
            past.as_ref().unwrap().check(&mut draw);
        }
        assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
        let stats = db.stats();
        assert!(stats.prefix_filter_checks >= stats.prefix_filter_skips);
        skips += stats.prefix_filter_skips;
    }
    assert!(skips > 1000, "{skips} tables skipped");
}

/// Twenty runs in level 0, each with its own users.
fn runs(choice: (Option<PrefixExtractor>, bool)) -> (MemFs, Db) {
    let fs = MemFs::new();
    let family = family(choice).level0_runs(1000).table_bytes(1 << 20);
    let db = options(&fs, choice).memory_budget(8 << 20).default_family(family).open("db").unwrap();
    for run in 0..20 {
        // The first and the last key of each run are about the same.
        for user in [0, 100 + run, 999] {
            for item in 0..10 {
                db.put(format!("user:{user:03}/{item}"), "value").unwrap();
            }
        }
        db.flush().unwrap();
    }
    (fs, db)
}

#[test]
fn a_walk_over_a_prefix_opens_only_the_tables_that_have_it() {
    let extractor = Some(PrefixExtractor::Separator { separator: b'/', count: 1 });
    for whole in [true, false] {
        let (_fs, db) = runs((extractor, whole));
        assert_eq!(db.prefix("user:107/").unwrap().count(), 10);
        let stats = db.stats();
        assert_eq!(stats.prefix_filter_checks, 20);
        assert!(stats.prefix_filter_skips >= 18, "{} tables skipped", stats.prefix_filter_skips);
        // The tables that were skipped are not open, and count no index.
        let index_bytes = stats.index_bytes;
        assert_eq!(db.prefix("user:").unwrap().count(), 220);
        assert!(db.stats().index_bytes > index_bytes, "{index_bytes} bytes");
        // More than a prefix: no filter is asked.
        assert_eq!(db.stats().prefix_filter_checks, 20);
        assert_eq!(db.count("user:107/3".."user:107/5").unwrap(), 2);
        assert_eq!(db.stats().prefix_filter_checks, 40);
        assert_eq!(db.count("user:107/3".."user:108/5").unwrap(), 12);
        assert_eq!(db.stats().prefix_filter_checks, 40);
    }
    let (_fs, db) = runs((None, true));
    assert_eq!(db.prefix("user:107/").unwrap().count(), 10);
    assert_eq!(db.stats().prefix_filter_checks, 0);
}

#[test]
fn a_range_deletion_in_a_table_that_is_skipped_still_hides_keys() {
    let extractor = Some(PrefixExtractor::Fixed(4));
    let fs = MemFs::new();
    let options = options(&fs, (extractor, false))
        .default_family(family((extractor, false)).level0_runs(100));
    let db = options.clone().open("db").unwrap();
    db.put("aaaa1", "old").unwrap();
    db.put("aaaa2", "old").unwrap();
    db.flush().unwrap();
    // This table has the range deletion, and no key of the prefix.
    db.delete_range("aaaa".."aaaa2").unwrap();
    db.put("zzzz1", "other").unwrap();
    db.flush().unwrap();
    let check = |db: &Db| {
        assert_eq!(collect(db.prefix("aaaa").unwrap()), [(b"aaaa2".to_vec(), b"old".to_vec())]);
        assert_eq!(db.get("aaaa1").unwrap(), None);
        assert!(db.stats().prefix_filter_skips > 0);
    };
    check(&db);
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 3 }] {
        check(&options.clone().fs(Arc::new(fs.crash_clone(crash))).open("db").unwrap());
    }
}

#[test]
fn a_lookup_without_whole_keys_asks_for_the_prefix() {
    let extractor = Some(PrefixExtractor::Separator { separator: b'/', count: 1 });
    let (fs, db) = runs((extractor, false));
    // All filters are in memory, and no table is open.
    assert_eq!(db.prefix("user:500/").unwrap().count(), 0);
    let before = fs.calls();
    for user in 300..400 {
        assert_eq!(db.get(format!("user:{user}/5")).unwrap(), None);
    }
    // One in a hundred of 2000 answers may be a false positive, which opens a table.
    let calls = fs.calls() - before;
    assert!(calls < 300, "{calls} calls");
    for run in 0..20 {
        assert!(db.get(format!("user:{}/5", 100 + run)).unwrap().is_some());
        assert!(db.get(format!("user:{}/x", 100 + run)).unwrap().is_none());
    }
}

/// Tables of other extractors come into a family by an ingest, and stay after a change of options.
#[test]
fn a_table_is_asked_by_its_own_extractor_and_one_without_is_not_skipped() {
    let slash = PrefixExtractor::Separator { separator: b'/', count: 1 };
    let by = |extractor| family((extractor, false)).level0_runs(100);
    for of_file in [None, Some(PrefixExtractor::Fixed(6)), Some(slash)] {
        for of_family in [None, Some(PrefixExtractor::Fixed(2)), Some(slash)] {
            for kind in [TableKind::Block, TableKind::BTree] {
                let fs = MemFs::new();
                let options = options(&fs, (of_family, false)).default_family(by(of_family));
                let db = options.clone().open("db").unwrap();
                db.put("u10/own", "own").unwrap();
                db.flush().unwrap();
                let of_table = by(of_file).table_kind(kind);
                let mut file = options.table_file("given", &of_table).unwrap();
                for user in [11, 13, 15] {
                    file.put(format!("u{user}/given"), "given").unwrap();
                }
                file.finish().unwrap();
                db.ingest(&[(db.default_family(), "given")]).unwrap();
                let count = |prefix: &str| db.prefix(prefix).unwrap().count();
                let case = format!("{of_file:?} in {of_family:?}, {kind:?}");
                assert_eq!(
                    [10, 11, 12, 13].map(|n| count(&format!("u{n}/"))),
                    [1, 1, 0, 1],
                    "{case}"
                );
                assert_eq!([count("u1"), count("u13/gi"), count("u13/x")], [4, 1, 0], "{case}");
                assert_eq!(db.get("u15/given").unwrap().as_deref(), Some(&b"given"[..]), "{case}");
                assert_eq!(db.get("u12/given").unwrap(), None, "{case}");
                // The table is skipped for an absent prefix only if it has such prefixes.
                let before = db.stats().prefix_filter_skips;
                assert_eq!(db.prefix("u14/").unwrap().rev().count(), 0);
                // The table of the family begins and ends at u10: its range says enough.
                let of_given = u64::from(of_file == Some(slash));
                assert_eq!(db.stats().prefix_filter_skips - before, of_given, "{case}");
                // Written anew, everything is by the extractor of the family.
                db.compact().unwrap();
                assert_eq!(
                    [10, 11, 12, 13].map(|n| count(&format!("u{n}/"))),
                    [1, 1, 0, 1],
                    "{case}"
                );
            }
        }
    }
}

/// Keys are taken as they are encoded, so an extractor that fits no order loses no key in any.
#[test]
fn key_orders_give_the_same_answers_with_every_extractor() {
    type Key = (String, u8, Reverse<String>);
    let extractors = [
        None,
        Some(PrefixExtractor::Fixed(1)),
        Some(PrefixExtractor::Fixed(4)),
        Some(PrefixExtractor::Separator { separator: 0, count: 1 }),
        Some(PrefixExtractor::Separator { separator: b'/', count: 1 }),
        Some(PrefixExtractor::Separator { separator: !b'/', count: 1 }),
        Some(PrefixExtractor::Separator { separator: 0xff, count: 2 }),
    ];
    let mut skips = 0;
    for extractor in extractors {
        for whole in [true, false] {
            let choice = (extractor, whole);
            let fs = MemFs::new();
            let typed = |order: KeyOrder| family(choice).key_order(order).level0_runs(100);
            let db = options(&fs, choice).open("db").unwrap();
            let tuples = db.create_family("tuples", typed(KeyOrder::of::<Key>())).unwrap();
            let tuples: TypedFamily<Key, u64> = tuples.typed().unwrap();
            let numbers = db.create_family("numbers", typed(KeyOrder::of::<Reverse<i64>>()));
            let numbers: TypedFamily<Reverse<i64>, u64> = numbers.unwrap().typed().unwrap();
            let mut draw = Draw::new(9);
            let (mut of_tuples, mut of_numbers) = (BTreeMap::new(), BTreeMap::new());
            for step in 0..600_u64 {
                let first = ["", "a/", "a/\0", "b", "b/x", "\u{7f}"][draw.below(6) as usize];
                let key = (first.to_owned(), draw.below(3) as u8, Reverse(format!("{step}/")));
                tuples.put(&key, &step).unwrap();
                of_tuples.insert(key, step);
                let key = Reverse(draw.below(2000) as i64 * 1_000_003 - 1_000_000_000);
                numbers.put(&key, &step).unwrap();
                of_numbers.insert(key, step);
                if step % 60 == 59 {
                    db.flush().unwrap();
                }
            }
            for first in ["", "a/", "a/\0", "b", "b/x", "c", "a"] {
                let expected: Vec<_> =
                    of_tuples.iter().filter(|(key, _)| key.0 == first).map(|(_, v)| *v).collect();
                let values = |pairs: siltdb::TypedIter<Key, u64>| -> Vec<u64> {
                    pairs.map(|pair| pair.unwrap().1).collect()
                };
                assert_eq!(values(tuples.prefix(&(first.to_owned(),)).unwrap()), expected);
                let second: Vec<_> = of_tuples
                    .iter()
                    .filter(|(key, _)| key.0 == first && key.1 == 1)
                    .map(|(_, v)| *v)
                    .collect();
                assert_eq!(values(tuples.prefix(&(first.to_owned(), 1)).unwrap()), second);
            }
            for _ in 0..200 {
                let [a, b] = [(); 2].map(|()| draw.below(2000) as i64 * 1_000_003 - 1_000_000_000);
                let range = Reverse(a.max(b))..Reverse(a.min(b));
                let found: Vec<_> =
                    numbers.range(range.clone()).unwrap().map(|pair| pair.unwrap()).collect();
                let expected: Vec<_> = of_numbers.range(range).map(|(k, v)| (*k, *v)).collect();
                assert_eq!(found, expected, "{extractor:?}");
            }
            skips += db.stats().prefix_filter_skips;
        }
    }
    assert!(skips > 100, "{skips} tables skipped");
}
