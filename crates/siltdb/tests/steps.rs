//! What is done between two steps of a merge: copies, clones, branches, followers, snapshots,
//! flushes and ingests see all of the database, and the merge goes on. What a merge leaves that
//! ends between two steps: tables that are seen in part.

use siltdb::{
    CompactionStrategy, Db, ErrorKind, FamilyOptions, Options, Read, ScrubOptions, TableKind,
    backup::Backups,
    salvage::salvage,
    testing::{CallKind, Crash, Fault, FaultError, FaultSpan, Fs, ManualClock, MemFs},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const DIR: &str = "db";

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn small() -> FamilyOptions {
    let sizes = FamilyOptions::new().block_bytes(1 << 10).table_bytes(4 << 10);
    sizes.base_level_bytes(16 << 10).level0_runs(4)
}

fn on(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .workers(0)
        .memtable_bytes(64 << 10)
        .memory_budget(16 << 20)
        .default_family(small())
}

fn contents(read: &impl Read) -> Map {
    let pairs = read.prefix(b"").unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    pairs.collect()
}

/// Five runs over the same keys, with deletions of single keys and of ranges.
fn fill(db: &Db) -> Map {
    let mut map = Map::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for run in 0..5_u64 {
        for number in 0..400_u64 {
            let key = format!("key{number:04}").into_bytes();
            if (number + run) % 9 == 0 {
                db.delete(&key).unwrap();
                map.remove(&key);
                continue;
            }
            // It does not compress.
            let mut value = Vec::new();
            for _ in 0..7 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                value.extend_from_slice(&state.to_le_bytes());
            }
            db.put(&key, &value).unwrap();
            map.insert(key, value);
        }
        let range = format!("key{:04}", run * 60).into_bytes()
            ..format!("key{:04}", run * 60 + 40).into_bytes();
        db.delete_range(range.clone()).unwrap();
        map.retain(|key, _| !range.contains(key));
        db.flush().unwrap();
    }
    map
}

/// Calls `work` while a merge of all tables is about to create its table number `nth`.
fn between_steps(fs: &MemFs, db: &Db, nth: usize, work: impl FnOnce()) {
    let ((reached, reaches), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let (gate, created) = (Mutex::new(Some((reached, goes_on))), AtomicUsize::new(0));
    fs.on_call(Some(Arc::new(move |call| {
        let is_table = call.path.extension().is_some_and(|name| name == "table");
        if call.kind == CallKind::Create
            && is_table
            && created.fetch_add(1, Ordering::Relaxed) == nth
            && let Some((reached, goes_on)) = gate.lock().unwrap().take()
        {
            reached.send(()).unwrap();
            let _ = goes_on.recv();
        }
    })));
    let merges = db.clone();
    let merge = thread::spawn(move || merges.settle());
    reaches.recv_timeout(Duration::from_secs(60)).expect("a merge makes so many tables");
    assert!(db.stats().compaction_steps > 0, "no step was installed before table {nth}");
    work();
    drop(go_on);
    merge.join().unwrap().unwrap();
    fs.on_call(None);
}

#[test]
fn copies_between_steps_have_everything() {
    for nth in [3, 6] {
        let fs = MemFs::new();
        let db = on(&fs).open(DIR).unwrap();
        let (expected, mut numbers) = (fill(&db), Vec::new());
        between_steps(&fs, &db, nth, || {
            assert_eq!(contents(&db), expected);
            db.checkpoint(Path::new("checkpoint")).unwrap();
            numbers.push(db.backup("backups").unwrap().number);
            let follower = on(&fs).open_follower(DIR).unwrap();
            assert_eq!(contents(&follower.db()), expected);
            follower.checkpoint("followed").unwrap();
            assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
        });
        assert_eq!(contents(&db), expected);
        for copy in ["checkpoint", "followed"] {
            let copy = on(&fs).open(copy).unwrap();
            assert_eq!(contents(&copy), expected, "{nth}");
            copy.settle().unwrap();
            copy.compact().unwrap();
            assert_eq!(contents(&copy), expected);
            assert!(copy.check(&mut |_| ()).unwrap().errors.is_empty());
        }
        // What is left of the inputs is in no later copy.
        numbers.push(db.backup("backups").unwrap().number);
        let backups = Backups::with_options("backups", on(&fs));
        for number in numbers {
            let dir = format!("restored{number}");
            backups.restore(Some(number), &dir).unwrap();
            assert_eq!(contents(&on(&fs).open(&dir).unwrap()), expected);
        }
    }
}

#[test]
fn clones_branches_and_snapshots_between_steps_keep_what_they_saw() {
    for nth in [3, 6] {
        let fs = MemFs::new();
        let db = on(&fs).open(DIR).unwrap();
        let expected = fill(&db);
        let (mut snapshot, mut later) = (None, expected.clone());
        between_steps(&fs, &db, nth, || {
            let taken = db.snapshot();
            db.clone_family(&db.default_family(), "clone").unwrap();
            let branch = db.create_branch("branch").unwrap();
            branch.family("default").unwrap().put("key0001", "of the branch").unwrap();
            db.put("key0002", "later").unwrap();
            later.insert(b"key0002".to_vec(), b"later".to_vec());
            db.flush().unwrap();
            db.clone_family_at(&taken, &db.default_family(), "at").unwrap();
            snapshot = Some(taken);
        });
        let (snapshot, clone) = (snapshot.unwrap(), db.family("clone").unwrap());
        let branch = db.branch("branch").unwrap().family("default").unwrap();
        let mut of_branch = expected.clone();
        of_branch.insert(b"key0001".to_vec(), b"of the branch".to_vec());
        for _ in 0..2 {
            assert_eq!(contents(&db), later);
            assert_eq!(contents(&snapshot), expected);
            assert_eq!(contents(&clone), expected);
            assert_eq!(contents(&db.family("at").unwrap()), expected);
            assert_eq!(contents(&branch), of_branch);
            db.compact().unwrap();
        }
        let report = db.merge_branch("branch").unwrap();
        assert_eq!((report.written, report.conflicts), (1, 0));
        later.insert(b"key0001".to_vec(), b"of the branch".to_vec());
        assert_eq!(contents(&db), later);
    }
}

#[test]
fn flushes_and_ingests_between_steps_lie_above_the_merge() {
    for (nth, crash) in [(3, Crash::Kill), (6, Crash::PowerLoss { seed: 5 })] {
        let fs = MemFs::new();
        let db = on(&fs).open(DIR).unwrap();
        let mut expected = fill(&db);
        let mut crashed = None;
        between_steps(&fs, &db, nth, || {
            for number in (0..400).step_by(3) {
                let (key, value) = (format!("key{number:04}").into_bytes(), b"flushed".to_vec());
                db.put(&key, &value).unwrap();
                expected.insert(key, value);
            }
            let range = b"key0200".to_vec()..b"key0210".to_vec();
            db.delete_range(range.clone()).unwrap();
            expected.retain(|key, _| !range.contains(key));
            db.flush().unwrap();
            let ingested: Vec<_> = (0..400)
                .step_by(7)
                .map(|number| (format!("key{number:04}").into_bytes(), b"ingested".to_vec()))
                .collect();
            db.default_family().ingest_sorted(ingested.clone()).unwrap();
            expected.extend(ingested);
            assert_eq!(contents(&db), expected);
            crashed = Some(fs.crash_clone(crash));
        });
        assert_eq!(contents(&db), expected);
        db.compact().unwrap();
        assert_eq!(contents(&db), expected);
        let reopened = on(&crashed.unwrap()).open(DIR).unwrap();
        assert_eq!(contents(&reopened), expected);
        reopened.compact().unwrap();
        assert_eq!(contents(&reopened), expected);
    }
}

/// Every kind of family that is merged below level 0.
fn kinds() -> [(&'static str, FamilyOptions); 5] {
    let tiered = CompactionStrategy::tiered();
    // Entries without their values make fewer tables.
    let separated = small().table_bytes(1 << 10);
    let separated = separated.value_threshold(40).blob_file_bytes(64 << 10);
    [
        ("leveled", small()),
        ("tiered", small().compaction(tiered)),
        ("B+tree", small().table_kind(TableKind::BTree)),
        ("separated", separated),
        ("with a TTL", small().ttl(Duration::from_secs(600))),
    ]
}

/// A database whose first merge failed at its table number `nth`, with steps installed.
struct Stopped {
    fs: MemFs,
    clock: Arc<ManualClock>,
    family: FamilyOptions,
    db: Db,
    expected: Map,
    what: String,
}

impl Stopped {
    fn new(what: &str, family: FamilyOptions, nth: u64) -> Self {
        let fs = MemFs::new();
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_000)));
        let options = on(&fs).clock(clock.clone()).default_family(family.clone());
        let db = options.open(DIR).unwrap();
        let expected = fill(&db);
        let span = FaultSpan::FromThenOn;
        let (kind, error) = (Some(CallKind::Create), FaultError::NoSpace);
        fs.set_fault(Some(Fault { kind, nth, span, error }));
        let error = db.settle().err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::NoSpace), "{what}, create {nth}");
        fs.set_fault(None);
        let steps = db.stats().compaction_steps;
        assert!(steps > 0 && db.stats().compactions == 0, "{what}: {steps} steps");
        Self { fs, clock, family, db, expected, what: format!("{what}, create {nth}") }
    }

    fn options(&self, fs: &MemFs) -> Options {
        on(fs).clock(self.clock.clone()).default_family(self.family.clone())
    }

    fn check(&self) {
        compare(&self.db, &self.expected, &self.what);
        let report = self.db.check(&mut |_| ()).unwrap();
        assert!(report.is_clean(), "{}: {report:?}", self.what);
        let report = self.db.scrub(&ScrubOptions::new(), &mut |_| ()).unwrap();
        assert!(report.is_clean(), "{}: {report:?}", self.what);
    }
}

/// In every way of reading.
fn compare(read: &impl Read, expected: &Map, what: &str) {
    assert_eq!(contents(read), *expected, "{what}");
    let mut cursor = read.cursor().unwrap();
    cursor.seek_to_last().unwrap();
    for (key, value) in expected.iter().rev() {
        let entry = cursor.entry().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(entry, Some((key.clone(), value.clone())), "{what}, backwards");
        cursor.prev().unwrap();
    }
    assert!(cursor.entry().is_none(), "{what}");
    let keys: Vec<_> = (0..410).map(|number| format!("key{number:04}").into_bytes()).collect();
    let many = read.get_many(&keys).unwrap();
    for (key, found) in keys.iter().zip(many) {
        let wanted = expected.get(key).map(Vec::as_slice);
        assert_eq!(found.as_deref(), wanted, "{what}: {key:?}");
        assert_eq!(read.get(key).unwrap().as_deref(), wanted, "{what}: {key:?}");
        let next = expected.range(key.clone()..).next().map(|(key, _)| key.clone());
        let found = read.get_ge(key).unwrap().map(|(key, _)| key.to_vec());
        assert_eq!(found, next, "{what}: at {key:?}");
        let before = expected.range(..key.clone()).next_back().map(|(key, _)| key.clone());
        let found = read.get_lt(key).unwrap().map(|(key, _)| key.to_vec());
        assert_eq!(found, before, "{what}: before {key:?}");
    }
    for (start, end) in [(0, 90), (37, 38), (90, 333), (333, 400)] {
        let range = format!("key{start:04}").into_bytes()..format!("key{end:04}").into_bytes();
        let wanted = expected.range(range.clone()).count() as u64;
        assert_eq!(read.count(range).unwrap(), wanted, "{what}: {start} to {end}");
    }
}

#[test]
fn a_merge_that_ends_between_steps_leaves_all_to_readers_and_to_the_next_merge() {
    for (what, family) in kinds() {
        for nth in [3, 6] {
            let mut stopped = Stopped::new(what, family.clone(), nth);
            stopped.check();
            let snapshot = stopped.db.snapshot();
            for crash in [Crash::Kill, Crash::PowerLoss { seed: nth }] {
                let fs = stopped.fs.crash_clone(crash);
                let read_only = stopped.options(&fs).read_only(true).open(DIR).unwrap();
                compare(&read_only, &stopped.expected, &stopped.what);
                drop(read_only);
                let db = stopped.options(&fs).open(DIR).unwrap();
                compare(&db, &stopped.expected, &stopped.what);
                db.settle().unwrap();
                compare(&db, &stopped.expected, &stopped.what);
            }
            // Range tombstones over tables that are seen in part, and over the ends of their parts.
            let before = stopped.expected.clone();
            for start in [20, 150, 290] {
                let end = start + 60;
                let range =
                    format!("key{start:04}").into_bytes()..format!("key{end:04}").into_bytes();
                stopped.db.delete_range(range.clone()).unwrap();
                stopped.expected.retain(|key, _| !range.contains(key));
            }
            stopped.db.flush().unwrap();
            stopped.check();
            stopped.db.settle().unwrap();
            stopped.check();
            compare(&snapshot, &before, &stopped.what);
            drop(snapshot);
            stopped.db.compact().unwrap();
            stopped.check();
            let (stats, entries) = (stopped.db.stats(), stopped.expected.len() as u64);
            assert_eq!(stats.table_entries, entries, "{}: what is left is whole", stopped.what);
        }
    }
}

#[test]
fn tables_that_are_seen_in_part_are_salvaged_with_and_without_a_manifest() {
    for (what, family) in kinds() {
        for nth in [3, 6] {
            let stopped = Stopped::new(what, family.clone(), nth);
            let fs = stopped.fs.crash_clone(Crash::Kill);
            let options = || stopped.options(&fs);
            salvage(DIR, "saved", options(), &mut |_| ()).unwrap();
            compare(&options().open("saved").unwrap(), &stopped.expected, &stopped.what);
            for entry in fs.list(Path::new(DIR)).unwrap() {
                if entry.name.ends_with(".manifest") {
                    fs.remove(&Path::new(DIR).join(entry.name)).unwrap();
                }
            }
            salvage(DIR, "found", options(), &mut |_| ()).unwrap();
            // A deleted key may reappear without a manifest, but no key has an older value.
            let mut found = contents(&options().open("found").unwrap());
            let deleted = found.len() - stopped.expected.len();
            found.retain(|key, _| stopped.expected.contains_key(key));
            assert!(found == stopped.expected && deleted < 5, "{}: {deleted}", stopped.what);
        }
    }
}

#[test]
fn what_tables_hide_of_their_values_goes_when_they_do() {
    for (what, family) in kinds() {
        let mut stopped = Stopped::new(what, family, 6);
        // Values that expire, or are deleted, and nothing of the tables that were seen in part is
        // left.
        stopped.clock.advance(Duration::from_secs(601));
        if what != "with a TTL" {
            stopped.db.delete_range(b"key".to_vec()..b"kez".to_vec()).unwrap();
        }
        stopped.expected.clear();
        stopped.check();
        stopped.db.flush().unwrap();
        stopped.db.settle().unwrap();
        stopped.check();
        stopped.db.compact().unwrap();
        stopped.db.settle().unwrap();
        let stats = stopped.db.stats();
        let left = (stats.tables.iter().sum::<u64>(), stats.blob_garbage_bytes);
        assert_eq!(left, (0, 0), "{}", stopped.what);
    }
}

#[test]
fn inputs_of_a_large_merge_go_as_it_goes_on() {
    let fs = MemFs::new();
    let family =
        FamilyOptions::new().table_bytes(32 << 10).base_level_bytes(512 << 10).level0_runs(8);
    // Smaller memtables share files, which go as a whole.
    let options = on(&fs).memtable_bytes(4 << 20).memory_budget(64 << 20);
    let db = options.default_family(family).open(DIR).unwrap();
    let mut state = 7_u64;
    for run in 0..8 {
        for number in 0..6_000_u64 {
            let mut value = Vec::new();
            while value.len() < 200 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
                value.extend_from_slice(&(state >> 24).to_le_bytes()[..5]);
            }
            db.put((number * 8 + run).to_be_bytes(), value).unwrap();
        }
        db.flush().unwrap();
    }
    let stats = db.stats();
    let inputs: u64 = stats.table_bytes.iter().sum();
    assert_eq!((stats.table_bytes[0], stats.compactions), (inputs, 0));
    // Logs and manifest, which stay as they are but for a few edits.
    let others = fs.space_used() - inputs;
    let most = Arc::new(AtomicU64::new(0));
    let (seen, observed) = (Arc::clone(&most), fs.clone());
    fs.on_call(Some(Arc::new(move |_| {
        seen.fetch_max(observed.space_used() - others, Ordering::Relaxed);
    })));
    db.settle().unwrap();
    fs.on_call(None);
    let percent = most.load(Ordering::Relaxed) * 100 / inputs;
    println!("{inputs} bytes of inputs, at most {percent} % at once");
    assert!(db.stats().table_bytes[0] == 0 && db.stats().compaction_steps > 16);
    assert!((100..120).contains(&percent), "{percent} %");
}
