//! Bulk loading: sorted streams and table files against a map, beside transactions, and refused.

use siltdb::{
    CheckpointOptions, Db, Durability, ErrorKind, Event, Family, FamilyOptions, Isolation, Options,
    Read, Snapshot, SubscribeOptions, TableFileWriter, WriteOptions,
    backup::Backups,
    testing::{Crash, Fs, MemFs},
};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Little memory and small tables, so that a few hundred entries reach every level.
fn options(fs: &MemFs) -> Options {
    let small = FamilyOptions::new().table_bytes(2 << 10).base_level_bytes(8 << 10).level0_runs(2);
    Options::new()
        .fs(Arc::new(fs.clone()))
        .workers(0)
        .memtable_bytes(16 << 10)
        .memory_budget(4 << 20)
        .lock_timeout(Duration::from_millis(20))
        .default_family(small.block_bytes(1 << 10))
        .seed(1)
}

fn open(fs: &MemFs) -> Db {
    options(fs).open("db").unwrap()
}

fn contents(from: &impl Read) -> Map {
    let entries = from.iter().unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    entries.collect()
}

/// All ways to read agree with `map`.
fn compare(from: &impl Read, map: &Map, seed: u64) {
    assert!(contents(from) == *map, "seed {seed}: forward");
    let backward = from.iter().unwrap().rev().map(|entry| entry.unwrap().0.to_vec());
    assert!(backward.eq(map.keys().rev().cloned()), "seed {seed}: backward");
    for number in 0..KEYS {
        let found = from.get(key(number)).unwrap();
        assert_eq!(found.as_deref(), map.get(&key(number)).map(Vec::as_slice), "seed {seed}");
    }
}

/// A table file of these entries; `None` deletes.
fn table_file(fs: &MemFs, path: &str, entries: &[(Vec<u8>, Option<Vec<u8>>)]) {
    let mut table = options(fs).table_file(path, &FamilyOptions::new().block_bytes(1024)).unwrap();
    for (key, value) in entries {
        match value {
            Some(value) => table.put(key, value).unwrap(),
            None => table.delete(key).unwrap(),
        }
    }
    assert_eq!(table.finish().unwrap().entries, entries.len() as u64);
}

fn table_files(fs: &MemFs) -> usize {
    let entries = fs.list(Path::new("db")).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".table")).count()
}

const KEYS: u64 = 300;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

/// A database, the map that it must equal, and snapshots with theirs.
struct Pair {
    fs: MemFs,
    db: Db,
    map: Map,
    held: Vec<(Snapshot, Map)>,
    values: u64,
}

impl Pair {
    fn value(&mut self) -> Vec<u8> {
        self.values += 1;
        format!("value {} {}", self.values, "x".repeat((self.values % 90) as usize)).into_bytes()
    }

    fn write(&mut self, draw: &mut Draw) {
        for _ in 0..1 + draw.below(40) {
            let key = key(draw.below(KEYS));
            if draw.below(4) == 0 {
                self.db.delete(&key).unwrap();
                self.map.remove(&key);
            } else {
                let value = self.value();
                self.db.put(&key, &value).unwrap();
                self.map.insert(key, value);
            }
        }
    }

    fn delete_range(&mut self, draw: &mut Draw) {
        let start = draw.below(KEYS);
        let (start, end) = (key(start), key(start + 1 + draw.below(40)));
        self.db.delete_range(&start[..]..&end[..]).unwrap();
        self.map.retain(|key, _| *key < start || *key >= end);
    }

    fn ingest(&mut self, draw: &mut Draw) {
        let (mut number, step) = (draw.below(KEYS), 1 + draw.below(9));
        let count = 1 + draw.below(60);
        let mut entries = Vec::new();
        for _ in 0..count {
            let value = (draw.below(6) > 0).then(|| self.value());
            entries.push((key(number), value));
            number += 1 + draw.below(step);
        }
        let ingested = if draw.below(2) == 0 {
            let mut stream = self.db.default_family().ingest().unwrap();
            for (key, value) in &entries {
                match value {
                    Some(value) => stream.put(key, value).unwrap(),
                    None => stream.delete(key).unwrap(),
                }
            }
            stream.finish().unwrap()
        } else {
            table_file(&self.fs, "outside.table", &entries);
            let file = [(self.db.default_family(), "outside.table")];
            let ingested = self.db.ingest(&file).unwrap();
            self.fs.remove(Path::new("outside.table")).unwrap();
            ingested
        };
        assert_eq!(ingested.entries, count);
        assert_eq!(ingested.sequence, self.db.snapshot().sequence());
        for (key, value) in entries {
            match value {
                Some(value) => drop(self.map.insert(key, value)),
                None => drop(self.map.remove(&key)),
            }
        }
    }

    fn step(&mut self, draw: &mut Draw) {
        match draw.below(20) {
            0..6 => self.write(draw),
            6 => self.delete_range(draw),
            7..12 => self.ingest(draw),
            12 => self.db.flush().unwrap(),
            13 => drop(self.db.run_job().unwrap()),
            14 => self.db.settle().unwrap(),
            15 => self.db.compact().unwrap(),
            16 if self.held.len() < 3 => self.held.push((self.db.snapshot(), self.map.clone())),
            17 => drop(self.held.pop()),
            18 => {
                self.held.clear();
                // Without a close: what was buffered is there after a kill.
                self.fs = self.fs.crash_clone(Crash::Kill);
                self.db = open(&self.fs);
            }
            _ => {}
        }
    }
}

#[test]
fn ingests_among_writes_are_as_one_map_now_at_snapshots_and_after_kills() {
    let seeds = std::env::var("BULK_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in seeds.map_or(0..40, |seed: u64| seed..seed + 1) {
        println!("BULK_SEED={seed}");
        let fs = MemFs::new();
        let db = open(&fs);
        let mut pair = Pair { fs, db, map: Map::new(), held: Vec::new(), values: 0 };
        let mut draw = Draw(seed);
        for _ in 0..80 {
            pair.step(&mut draw);
            if draw.below(3) == 0 {
                compare(&pair.db, &pair.map, seed);
                for (snapshot, map) in &pair.held {
                    compare(snapshot, map, seed);
                }
            }
        }
        compare(&pair.db, &pair.map, seed);
        assert!(pair.db.check(&mut |_| ()).unwrap().errors.is_empty(), "seed {seed}");
        pair.held.clear();
        pair.db.compact().unwrap();
        compare(&pair.db, &pair.map, seed);
        drop(pair.db);
        compare(&open(&pair.fs), &pair.map, seed);
    }
}

#[test]
fn an_ingest_is_newer_than_the_memtable_and_older_than_what_follows() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put("a", "memory").unwrap();
    db.put("b", "memory").unwrap();
    let before = db.snapshot();
    let ingested = db.default_family().ingest_sorted([("a", "table"), ("c", "table")]).unwrap();
    assert_eq!((ingested.entries, ingested.tables), (2, 1));
    db.put("c", "later").unwrap();
    let get = |from: &dyn Fn(&str) -> Option<String>| ["a", "b", "c"].map(from);
    let text = |found: Option<siltdb::Slice>| {
        found.map(|value| String::from_utf8(value.to_vec()).unwrap())
    };
    let some = |text: &str| Some(text.to_owned());
    let now = [some("table"), some("memory"), some("later")];
    assert_eq!(get(&|key| text(db.get(key).unwrap())), now);
    assert_eq!(get(&|key| text(before.get(key).unwrap())), [some("memory"), some("memory"), None]);
    // The log alone, replayed into one memtable, over the table.
    let again = open(&fs.crash_clone(Crash::Kill));
    assert_eq!(get(&|key| text(again.get(key).unwrap())), now);
    again.flush().unwrap();
    again.compact().unwrap();
    assert_eq!(get(&|key| text(again.get(key).unwrap())), now);
}

#[test]
fn sorted_data_goes_to_the_lowest_level_and_is_not_rewritten() {
    let fs = MemFs::new();
    let db = open(&fs);
    let entries = (0..2000_u64).map(|number| (key(number), [b'v'; 50]));
    let ingested = db.default_family().ingest_sorted(entries).unwrap();
    assert!(ingested.tables > 10, "{ingested:?}");
    db.settle().unwrap();
    let stats = db.stats();
    assert_eq!(stats.flushes, 0);
    assert_eq!(stats.compactions, 0);
    assert_eq!(table_files(&fs) as u64, ingested.tables);
    assert_eq!(db.count(..).unwrap(), 2000);
}

#[test]
fn keys_out_of_order_are_refused_by_name_and_the_stream_goes_on() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut stream = db.default_family().ingest().unwrap();
    stream.put("m", "1").unwrap();
    for (key, message) in [("m", "key is there twice"), ("a", "keys are not sorted")] {
        let error = stream.put(key, "2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains(message) && text.contains(&format!("{key:?}")), "{text}");
        assert!(text.contains("\"m\""), "{text}");
    }
    let long = stream.put(vec![b'z'; siltdb::KEY_BYTES_MAX + 1], "").unwrap_err();
    assert_eq!(long.kind(), ErrorKind::InvalidArgument);
    stream.put("n", "3").unwrap();
    assert_eq!(stream.entries(), 2);
    stream.finish().unwrap();
    let expected = [(b"m".to_vec(), b"1".to_vec()), (b"n".to_vec(), b"3".to_vec())];
    assert_eq!(contents(&db), expected.into());
    let error = db.default_family().ingest_sorted([("y", ""), ("x", "")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.get("y").unwrap(), None);
}

#[test]
fn a_stream_that_is_dropped_leaves_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut stream = db.default_family().ingest().unwrap();
    for number in 0..500 {
        stream.put(key(number), [b'v'; 50]).unwrap();
    }
    assert!(table_files(&fs) > 1);
    drop(stream);
    assert_eq!(table_files(&fs), 0);
    assert!(contents(&db).is_empty());
    let empty = db.default_family().ingest().unwrap().finish().unwrap();
    assert_eq!((empty.entries, empty.tables), (0, 0));
    // A close keeps a stream from writing, and from removing: also the table that waits to be
    // verified.
    let mut stream = db.default_family().ingest().unwrap();
    for number in 0..500 {
        stream.put(key(number), [b'v'; 50]).unwrap();
    }
    let written = table_files(&fs);
    assert!(written > 1);
    db.clone().close().unwrap();
    assert_eq!(stream.put("z", "2").unwrap_err().kind(), ErrorKind::Closed);
    drop((stream, db));
    assert_eq!(table_files(&fs), written);
    let db = open(&fs);
    assert_eq!(table_files(&fs), 0, "the opening removes what an ingest left");
    assert!(contents(&db).is_empty());
}

#[test]
fn files_go_into_several_families_together() {
    let fs = MemFs::new();
    let db = open(&fs);
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let put = |key: &str| (key.as_bytes().to_vec(), Some(b"new".to_vec()));
    users.put("b", "old").unwrap();
    table_file(&fs, "1.table", &[put("a"), put("b")]);
    table_file(&fs, "2.table", &[put("c"), (b"d".to_vec(), None)]);
    table_file(&fs, "3.table", &[put("a")]);
    users.put("d", "old").unwrap();
    let files = [(users.clone(), "2.table"), (users.clone(), "1.table")];
    let files: Vec<(Family, &str)> =
        files.into_iter().chain([(db.default_family(), "3.table")]).collect();
    let before = db.snapshot();
    let ingested = db.ingest(&files).unwrap();
    assert_eq!((ingested.entries, ingested.tables), (5, 3));
    assert_eq!(db.snapshot().sequence(), ingested.sequence);
    let new = |keys: &[&str]| -> Map {
        keys.iter().map(|key| (key.as_bytes().to_vec(), b"new".to_vec())).collect()
    };
    let after = open(&fs.crash_clone(Crash::PowerLoss { seed: 3 }));
    for db in [&db, &after] {
        assert_eq!(contents(&db.family("users").unwrap()), new(&["a", "b", "c"]));
        assert_eq!(contents(db), new(&["a"]));
    }
    assert_eq!(contents(&before.family(&users).unwrap()).len(), 2);
    assert!(contents(&before).is_empty());
    // The files stay, and can be ingested again.
    db.ingest(&files).unwrap();
    assert_eq!(contents(&users), new(&["a", "b", "c"]));
}

#[test]
fn files_of_several_families_are_there_together_or_not_after_a_crash_at_each_call() {
    let fs = MemFs::new();
    let db = open(&fs);
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    // In memory, below the keys of both files.
    let synced = WriteOptions::new().durability(Durability::Synced);
    db.put_with(key(5), "old", &synced).unwrap();
    users.put_with(key(5), "old", &synced).unwrap();
    let new = |numbers: std::ops::Range<u64>| -> Vec<_> {
        numbers.map(|number| (key(number), Some(b"new".to_vec()))).collect()
    };
    table_file(&fs, "1.table", &new(0..40));
    table_file(&fs, "2.table", &new(3..60));
    let both = |db: &Db| [contents(db), contents(&db.family("users").unwrap())];
    let before = both(&db);
    let states = Arc::new(Mutex::new(Vec::new()));
    let (all, source) = (Arc::clone(&states), fs.clone());
    fs.on_call(Some(Arc::new(move |call| {
        let seed = call.number;
        for crash in [Crash::Kill, Crash::PowerLoss { seed }] {
            all.lock().unwrap().push((seed, source.crash_clone(crash)));
        }
    })));
    db.ingest(&[(db.default_family(), "1.table"), (users, "2.table")]).unwrap();
    fs.on_call(None);
    let after = both(&db);
    assert_eq!(after.each_ref().map(BTreeMap::len), [40, 57]);
    let states = std::mem::take(&mut *states.lock().unwrap());
    let (mut whole, mut absent) = (0, 0);
    for (number, state) in states {
        let again = open(&state);
        match both(&again) {
            found if found == before => absent += 1,
            found if found == after => whole += 1,
            found => panic!("in part after a crash before call {number}: {found:?}"),
        }
        assert!(again.check(&mut |_| ()).unwrap().is_clean());
    }
    assert!(whole > 2 && absent > 20, "{whole} whole, {absent} absent");
}

/// Each refusal leaves the database as it was, without a new file.
#[test]
fn bad_files_are_refused_by_name_and_change_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.default_family();
    db.put("old", "1").unwrap();
    db.flush().unwrap();
    let put = |number: u64| (key(number), Some(vec![b'v'; 100]));
    let some: Vec<_> = (0..100).map(put).collect();
    table_file(&fs, "good.table", &some);
    table_file(&fs, "overlapping.table", &[put(99), put(200)]);
    let good = fs.read_all(Path::new("good.table")).unwrap();
    fs.write_all(Path::new("short.table"), &good[..good.len() - 1]).unwrap();
    fs.write_all(Path::new("long.table"), &[&good[..], b"x"].concat()).unwrap();
    fs.write_all(Path::new("empty.table"), b"").unwrap();
    fs.write_all(Path::new("text.table"), &b"a,b\n1,2\n".repeat(100)).unwrap();
    let own = fs.list(Path::new("db")).unwrap();
    let own = own.iter().find(|entry| entry.name.ends_with(".table")).unwrap();
    let own = format!("db/{}", own.name);
    let refused = |paths: &[&str], kind: ErrorKind, part: &str| {
        let (tables, sequence) = (table_files(&fs), db.snapshot().sequence());
        let files: Vec<_> = paths.iter().map(|path| (family.clone(), path)).collect();
        let error = db.ingest(&files).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{paths:?}: {text}");
        let named = paths.last().unwrap();
        assert!(text.contains(part) && text.contains(named), "{paths:?}: {text}");
        assert_eq!(table_files(&fs), tables, "{paths:?} left a file");
        assert_eq!(db.snapshot().sequence(), sequence, "{paths:?} took a place");
        assert_eq!(contents(&db).len(), 1, "{paths:?}");
    };
    refused(&["good.table", "missing.table"], ErrorKind::NotFound, "open");
    for bad in ["short.table", "long.table", "empty.table", "text.table"] {
        refused(&["good.table", bad], ErrorKind::Corruption, "");
    }
    refused(&[&own], ErrorKind::InvalidArgument, "not written to be ingested");
    refused(&["overlapping.table", "good.table"], ErrorKind::InvalidArgument, "overlap");
    refused(&["good.table", "good.table"], ErrorKind::InvalidArgument, "overlap");
    // Each byte counts, wherever it lies.
    let mut flipped = 0;
    for at in (0..good.len()).step_by(23).chain([good.len() - 1]) {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs.write_all(Path::new("damaged.table"), &bytes).unwrap();
        let files = [(family.clone(), "damaged.table")];
        let error = db.ingest(&files).unwrap_err();
        let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
        assert!(kinds.contains(&error.kind()), "byte {at}: {error}");
        assert!(error.to_string().contains("damaged.table"), "byte {at}: {error}");
        assert_eq!(contents(&db).len(), 1);
        flipped += 1;
    }
    assert!(flipped > 20);
    assert_eq!(table_files(&fs), 1);
    let dropped = db.create_family("dropped", FamilyOptions::new()).unwrap();
    db.drop_family("dropped").unwrap();
    let error = db.ingest(&[(dropped, "good.table")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let other = Options::new().fs(Arc::new(MemFs::new())).workers(0).open("other").unwrap();
    let error = db.ingest(&[(other.default_family(), "good.table")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    db.ingest(&[(family, "good.table")]).unwrap();
    assert_eq!(contents(&db).len(), 101);
    drop(db);
    let read_only = options(&fs).read_only(true).open("db").unwrap();
    let files = [(read_only.default_family(), "good.table")];
    assert_eq!(read_only.ingest(&files).unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_table_file_is_complete_or_gone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.table");
    let mut table = TableFileWriter::create(&path, &FamilyOptions::new()).unwrap();
    let error = TableFileWriter::create(&path, &FamilyOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    table.put("b", "1").unwrap();
    assert_eq!(table.put("a", "2").unwrap_err().kind(), ErrorKind::InvalidArgument);
    table.delete("c").unwrap();
    let made = table.finish().unwrap();
    assert_eq!((made.entries, &made.first_key[..], &made.last_key[..]), (2, &b"b"[..], &b"c"[..]));
    assert_eq!(made.bytes, path.metadata().unwrap().len());
    let other = dir.path().join("b.table");
    let mut table = TableFileWriter::create(&other, &FamilyOptions::new()).unwrap();
    table.put("b", "1").unwrap();
    drop(table);
    let empty = TableFileWriter::create(&other, &FamilyOptions::new()).unwrap();
    assert_eq!(empty.finish().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(!other.exists());
    let bad = FamilyOptions::new().block_bytes(1);
    let error = TableFileWriter::create(&other, &bad).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_transaction_conflicts_with_an_ingest_of_what_it_read() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.default_family();
    db.put("b", "1").unwrap();
    let reads_range = db.begin(Isolation::Serializable);
    assert_eq!(reads_range.range("a".."c").unwrap().count(), 1);
    reads_range.put("z", "1").unwrap();
    let reads_key = db.begin(Isolation::Serializable);
    assert!(reads_key.get("bb").unwrap().is_none());
    reads_key.put("y", "1").unwrap();
    let writes_key = db.begin(Isolation::Snapshot);
    writes_key.put("bb", "1").unwrap();
    let elsewhere = db.begin(Isolation::Serializable);
    assert_eq!(elsewhere.range("d".."e").unwrap().count(), 0);
    elsewhere.put("x", "1").unwrap();
    family.ingest_sorted([("bb", "ingested")]).unwrap();
    for transaction in [reads_range, reads_key, writes_key] {
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
    elsewhere.commit().unwrap();
    // A locked key is not ingested.
    let locking = db.begin(Isolation::Snapshot);
    locking.get_for_update("bb").unwrap();
    let tables = table_files(&fs);
    let error = family.ingest_sorted([("ba", "2"), ("bc", "2")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(table_files(&fs), tables);
    assert_eq!(db.get("ba").unwrap(), None);
    locking.rollback().unwrap();
    family.ingest_sorted([("ba", "2"), ("bc", "2")]).unwrap();
}

#[test]
fn a_reader_that_skips_deleted_keys_sees_what_is_ingested_among_them() {
    let fs = MemFs::new();
    let db = open(&fs);
    for number in 0..KEYS {
        db.put(key(number), "").unwrap();
    }
    for number in 1..KEYS - 1 {
        db.delete(key(number)).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(db.iter().unwrap().count(), 2);
        assert_eq!(db.iter().unwrap().rev().count(), 2);
    }
    let before = db.snapshot();
    db.default_family().ingest_sorted([(key(100), "in"), (key(200), "in")]).unwrap();
    assert_eq!(before.iter().unwrap().count(), 2);
    assert_eq!(db.iter().unwrap().count(), 4);
    assert_eq!(db.iter().unwrap().rev().count(), 4);
}

#[test]
fn a_feed_names_the_number_of_an_ingest_as_not_in_the_log() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    db.put("a", "1").unwrap();
    let ingested = db.default_family().ingest_sorted([("b", "2"), ("c", "2")]).unwrap();
    db.put("d", "3").unwrap();
    let mut seen = Vec::new();
    while let Some(event) = feed.try_next().unwrap() {
        seen.push(match event {
            Event::Unlogged(range) => (*range.start(), *range.end(), false),
            Event::Commit(commit) => (commit.first, commit.last, true),
            _ => unreachable!("no other event"),
        });
    }
    let number = ingested.sequence;
    let expected =
        [(number - 1, number - 1, true), (number, number, false), (number + 1, number + 1, true)];
    assert_eq!(seen, expected);
}

/// Writers in the same keys all the time: the ingest takes their locks and ends.
#[test]
fn an_ingest_among_writers_of_its_keys_is_seen_whole() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memtable_bytes(64 << 10).workers(1).open(dir.path()).unwrap();
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers: Vec<_> = (0..2_u64)
        .map(|writer| {
            let (db, is_over) = (db.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut written = 0_u64;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    db.put(key(2 * (written % KEYS) + writer), b"written").unwrap();
                    written += 1;
                }
                written
            })
        })
        .collect();
    for round in 0..30_u64 {
        let snapshot_before = db.snapshot();
        let value = format!("ingested {round}");
        let entries = (0..2 * KEYS).map(|number| (key(number), &value));
        let ingested = db.default_family().ingest_sorted(entries).unwrap();
        let is_new = |found: &[u8]| found == value.as_bytes();
        let after = db.snapshot();
        assert!(after.sequence() >= ingested.sequence);
        // Of each key the snapshot has the ingested value, or one that was written later.
        for entry in after.iter().unwrap() {
            let (_, found) = entry.unwrap();
            assert!(is_new(&found) || &found[..] == b"written", "round {round}");
        }
        assert_eq!(after.count(..).unwrap(), 2 * KEYS);
        assert!(snapshot_before.iter().unwrap().all(|entry| !is_new(&entry.unwrap().1)));
    }
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    for writer in writers {
        assert!(writer.join().unwrap() > 0);
    }
    assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
}

#[test]
fn an_ingest_keeps_off_the_keys_of_a_prepared_transaction() {
    let fs = MemFs::new();
    let db = open(&fs);
    let transaction = db.begin(Isolation::Serializable);
    transaction.put("kb", "prepared").unwrap();
    transaction.prepare("t").unwrap();
    let refused = |db: &Db, fs: &MemFs| {
        let tables = table_files(fs);
        let error = db.default_family().ingest_sorted([("ka", "1"), ("kc", "1")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        let text = error.to_string();
        assert!(text.contains("prepared transaction \"t\""), "{text}");
        assert_eq!(table_files(fs), tables);
        assert_eq!(db.get("ka").unwrap(), None);
    };
    refused(&db, &fs);
    db.default_family().ingest_sorted([("a", "1"), ("b", "1")]).unwrap();
    let fs = fs.crash_clone(Crash::PowerLoss { seed: 5 });
    let db = open(&fs);
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.prepared().len(), 1);
    refused(&db, &fs);
    db.commit_prepared("t").unwrap();
    assert_eq!(db.get("kb").unwrap().as_deref(), Some(&b"prepared"[..]));
    db.default_family().ingest_sorted([("ka", "2"), ("kb", "2")]).unwrap();
    // A decision behind an ingest, of keys beside it.
    let transaction = db.begin(Isolation::Serializable);
    transaction.put("m", "prepared").unwrap();
    transaction.prepare("u").unwrap();
    db.default_family().ingest_sorted([("la", "2"), ("lz", "2")]).unwrap();
    db.commit_prepared("u").unwrap();
    let expected: Map = [
        ("a", "1"),
        ("b", "1"),
        ("ka", "2"),
        ("kb", "2"),
        ("la", "2"),
        ("lz", "2"),
        ("m", "prepared"),
    ]
    .into_iter()
    .map(|(key, value)| (key.into(), value.into()))
    .collect();
    assert_eq!(contents(&db), expected);
    assert_eq!(contents(&open(&fs.crash_clone(Crash::PowerLoss { seed: 6 }))), expected);
}

/// Entries of a key before, in and behind an ingest, and keys of the ingest alone.
fn around_an_ingest(db: &Db) -> [Snapshot; 2] {
    for number in 0..100 {
        db.put(key(number), "before").unwrap();
    }
    let before = db.snapshot();
    let entries = (50..150).map(|number| (key(number), "ingested"));
    db.default_family().ingest_sorted(entries).unwrap();
    let after = db.snapshot();
    for number in 90..110 {
        db.put(key(number), "later").unwrap();
    }
    [before, after]
}

#[test]
fn a_clone_has_an_ingest_if_its_moment_has() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.default_family();
    let [before, after] = around_an_ingest(&db);
    let [seen_before, seen_after] = [contents(&before), contents(&after)];
    assert_eq!((seen_before.len(), seen_after.len()), (100, 150));
    db.clone_family_at(&before, &family, "before").unwrap();
    db.clone_family_at(&after, &family, "after").unwrap();
    let now = db.clone_family(&family, "now").unwrap();
    drop((before, after));
    let mut expected: BTreeMap<&str, Map> = [
        ("before", seen_before),
        ("after", seen_after),
        ("now", contents(&db)),
        ("default", contents(&db)),
    ]
    .into();
    // What is ingested into one of them is not seen by the others.
    for (family, value) in [(&now, "clone"), (&family, "source")] {
        let entries = (20..130).step_by(10).map(|number| (key(number), value));
        family.ingest_sorted(entries).unwrap();
        let map = expected.get_mut(&*family.name()).unwrap();
        map.extend((20..130).step_by(10).map(|number| (key(number), value.into())));
    }
    let compare_all = |db: &Db, seed: u64| {
        for (name, map) in &expected {
            compare(&db.family(name).unwrap(), map, seed);
        }
    };
    compare_all(&db, 0);
    let killed = open(&fs.crash_clone(Crash::Kill));
    compare_all(&killed, 1);
    db.settle().unwrap();
    compare_all(&db, 2);
    db.compact().unwrap();
    compare_all(&db, 3);
    assert!(db.check(&mut |_| ()).unwrap().is_clean());
}

#[test]
fn copies_and_followers_have_an_ingest_and_what_came_around_it() {
    let fs = MemFs::new();
    let db = open(&fs);
    let follower = options(&fs).open_follower("db").unwrap();
    drop(around_an_ingest(&db));
    let (expected, sequence) = (contents(&db), db.snapshot().sequence());
    db.backup("backups").unwrap();
    let backups = Backups::with_options("backups", options(&fs));
    backups.restore(None, "restored").unwrap();
    db.checkpoint("checkpoint").unwrap();
    let chosen = CheckpointOptions::new().families(["default"]);
    db.checkpoint_with("chosen", &chosen, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(follower.catch_up().unwrap(), sequence);
    assert_eq!(contents(&follower.db()), expected);
    for dir in ["restored", "checkpoint", "chosen"] {
        let copy = options(&fs).open(dir).unwrap();
        assert_eq!(copy.snapshot().sequence(), sequence, "{dir}");
        compare(&copy, &expected, 0);
        // It goes on behind the ingest.
        copy.put(key(60), "newest").unwrap();
        let again = copy.default_family().ingest_sorted([(key(61), "newest")]).unwrap();
        assert!(again.sequence > sequence + 1, "{dir}");
        let mut expected = expected.clone();
        expected.extend([60, 61].map(|number| (key(number), b"newest".to_vec())));
        compare(&copy, &expected, 1);
        copy.compact().unwrap();
        compare(&copy, &expected, 2);
        assert!(copy.check(&mut |_| ()).unwrap().is_clean(), "{dir}");
    }
}

#[test]
fn an_ingest_goes_on_while_the_background_is_paused_or_cancelled() {
    let fs = MemFs::new();
    let db = options(&fs).workers(2).open("db").unwrap();
    let pause = db.pause_background().unwrap();
    for round in 0..20_u64 {
        // So that a flush comes before each ingest, and level 0 grows.
        db.put(key(50), "memory").unwrap();
        let mut stream = db.default_family().ingest().unwrap();
        stream.put(key(0), round.to_string()).unwrap();
        db.cancel_compactions().unwrap();
        stream.put(key(100), round.to_string()).unwrap();
        stream.finish().unwrap();
    }
    assert_eq!(db.get(key(100)).unwrap().as_deref(), Some(&b"19"[..]));
    drop(pause);
    db.settle().unwrap();
    assert_eq!(contents(&db).len(), 3);
}
