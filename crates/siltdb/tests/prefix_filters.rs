//! Filters with prefixes: the same answers under every extractor, and tables that are not read.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use siltdb::{
    Db, FamilyOptions, Options, PrefixExtractor, Read, ReadOptions,
    testing::{Crash, MemFs},
};
use std::{collections::BTreeMap, sync::Arc};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Draws numbers; the seed is printed, so that a failure can be replayed.
struct Draw(u64);

impl Draw {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }

    /// Keys of users with items, keys that are shorter than any prefix, and the last of all keys.
    fn key(&mut self) -> Vec<u8> {
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

    let (lower, upper) = (draw.key(), draw.key());
    let expected: Vec<_> = match lower <= upper {
        true => {
            map.range(lower.clone()..upper.clone()).map(|(k, v)| (k.clone(), v.clone())).collect()
        }
        false => Vec::new(),
    };
    assert_eq!(collect(read.range(&lower[..]..&upper[..]).unwrap()), expected);

    let key = draw.key();
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
}

/// Writes and deletes at random, under options that change now and then.
#[test]
fn every_extractor_gives_the_answers_of_a_map_while_the_option_changes() {
    let (mut skips, choices) = (0, choices());
    for (seed, first) in choices.iter().enumerate() {
        let mut draw = Draw::new(seed as u64);
        let db = options(&MemFs::new(), *first).open("db").unwrap();
        let (mut map, mut past) = (Map::new(), None);
        for step in 0..3000_u64 {
            let key = draw.key();
            match draw.below(20) {
                0 => {
                    let end = draw.key();
                    if key < end {
                        db.delete_range(&key[..]..&end[..]).unwrap();
                        map.retain(|found, _| *found < key || *found >= end);
                    }
                }
                1..4 => {
                    db.delete(&key).unwrap();
                    map.remove(&key);
                }
                _ => {
                    let value = format!("{step:020}").into_bytes();
                    db.put(&key, &value).unwrap();
                    map.insert(key, value);
                }
            }
            if step.is_multiple_of(500) {
                let choice = choices[draw.below(choices.len() as u64) as usize];
                db.default_family().set_options(&family(choice)).unwrap();
            }
            if step == 1500 {
                past = Some((db.snapshot(), map.clone()));
            }
            if step.is_multiple_of(7) {
                check(&db, &map, &mut draw);
            }
            if let Some((snapshot, map)) = &past
                && step.is_multiple_of(31)
            {
                check(snapshot, map, &mut draw);
            }
        }
        db.compact().unwrap();
        for _ in 0..200 {
            check(&db, &map, &mut draw);
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
