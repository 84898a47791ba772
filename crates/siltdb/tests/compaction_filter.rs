//! Compaction filters: what they drop and change, and what no filter may touch.

use siltdb::{
    CompactionFilter, Db, ErrorKind, FamilyOptions, FilterDecision, FilteredEntry, Isolation,
    MergeOperator, Options, Read, RetentionFloor, Snapshot, WriteBatch, merge,
    salvage::salvage,
    testing::{Crash, ManualClock, MemFs},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What a filter was asked: key, value and level.
type Seen = (Vec<u8>, Vec<u8>, usize);

/// Goes by the first word: drops `drop`, makes `up` of `change`, and panics at `panic`.
#[derive(Debug, Default)]
struct ByValue {
    seen: Mutex<Vec<Seen>>,
}

impl CompactionFilter for ByValue {
    fn name(&self) -> &str {
        "by value"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        let seen = (entry.key.to_vec(), entry.value.to_vec(), entry.level);
        self.seen.lock().unwrap().push(seen);
        match entry.value.split(|byte| *byte == b' ').next().unwrap() {
            b"drop" => FilterDecision::Drop,
            b"change" => FilterDecision::Change(b"up".to_vec()),
            b"panic" => panic!("as the test wants"),
            _ => FilterDecision::Keep,
        }
    }
}

struct Bench {
    fs: MemFs,
    db: Db,
    filter: Arc<ByValue>,
}

fn options(fs: &MemFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).workers(0).seed(1)
}

fn bench() -> Bench {
    let (fs, filter) = (MemFs::new(), Arc::new(ByValue::default()));
    let family = FamilyOptions::new().compaction_filter(filter.clone());
    let db = options(&fs).default_family(family).open("db").unwrap();
    Bench { fs, db, filter }
}

fn text(value: Option<siltdb::Slice>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn get(read: &impl Read, key: &str) -> Option<String> {
    text(read.get(key).unwrap())
}

#[test]
fn compactions_drop_and_change_values_and_flushes_do_not() {
    let Bench { db, filter, .. } = bench();
    for (key, value) in [("a", "drop"), ("b", "change"), ("c", "keep"), ("d", "panic")] {
        db.put(key, value).unwrap();
    }
    db.default_family().put_for("e", "drop", Duration::from_secs(1000)).unwrap();
    db.default_family().put_for("f", "change", Duration::from_secs(1000)).unwrap();
    db.flush().unwrap();
    assert!(filter.seen.lock().unwrap().is_empty());
    assert_eq!(get(&db, "a").as_deref(), Some("drop"));
    db.compact().unwrap();
    let found: Vec<_> = "abcdef".chars().map(|key| get(&db, &key.to_string())).collect();
    let value = |value: &str| Some(value.to_owned());
    let expected = [None, value("up"), value("keep"), value("panic"), None, value("up")];
    assert_eq!(found, expected);
    let stats = db.stats();
    let filtered = (stats.filter_drops, stats.filter_changes, stats.filter_failures);
    assert_eq!((filtered, stats.table_entries), ((2, 2, 1), 4));
    // Everything is shown again by each compaction that is asked for.
    db.compact().unwrap();
    assert_eq!(db.stats().filter_failures, 2);
    assert!(filter.seen.lock().unwrap().iter().all(|(.., level)| *level == 6));
}

#[test]
fn what_a_snapshot_sees_is_not_filtered_until_it_ends() {
    let Bench { db, .. } = bench();
    db.put("a", "drop").unwrap();
    db.put("b", "change").unwrap();
    let snapshot = db.snapshot();
    db.put("c", "drop").unwrap();
    db.compact().unwrap();
    for read in 0..2 {
        assert_eq!(get(&snapshot, "a").as_deref(), Some("drop"), "read {read}");
        assert_eq!(get(&snapshot, "b").as_deref(), Some("change"));
        assert_eq!(snapshot.count(..).unwrap(), 2);
        assert_eq!((get(&db, "a").as_deref(), get(&db, "c")), (Some("drop"), None));
        db.compact().unwrap();
    }
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b").as_deref()), (None, Some("up")));
}

#[test]
fn an_unfinished_transaction_reads_what_it_read() {
    let Bench { db, .. } = bench();
    db.put("a", "drop").unwrap();
    let transaction = db.begin(Isolation::Snapshot);
    assert_eq!(get(&transaction, "a").as_deref(), Some("drop"));
    db.compact().unwrap();
    assert_eq!(get(&transaction, "a").as_deref(), Some("drop"));
    // A filter is no write: it is no conflict either.
    transaction.put("b", "keep").unwrap();
    transaction.commit().unwrap();
    db.compact().unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b").as_deref()), (None, Some("keep")));
}

#[test]
fn older_versions_do_not_come_back_and_deletions_stay_while_they_hide() {
    let Bench { db, .. } = bench();
    // The old version lies at the bottom, where a compaction of the first level does not reach.
    db.put("a", "old").unwrap();
    db.put("z", "old").unwrap();
    db.compact().unwrap();
    for _ in 0..2 {
        db.put("a", "drop").unwrap();
        db.flush().unwrap();
        let snapshot = db.snapshot();
        db.put("a", "drop").unwrap();
        db.compact().unwrap();
        // The newest was dropped above a version that the snapshot sees.
        assert_eq!(get(&db, "a"), None);
        assert_eq!(get(&snapshot, "a").as_deref(), Some("drop"));
        drop(snapshot);
        db.compact().unwrap();
        assert_eq!((get(&db, "a"), get(&db, "z").as_deref()), (None, Some("old")));
    }
    assert_eq!(db.stats().table_entries, 1);
}

#[test]
fn history_and_its_floor_are_not_filtered() {
    let Bench { db, .. } = bench();
    db.put("a", "drop").unwrap();
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    let before = db.stats().sequence;
    db.put("b", "drop").unwrap();
    db.compact().unwrap();
    assert_eq!((get(&db, "a").as_deref(), get(&db, "b").as_deref()), (Some("drop"), Some("drop")));
    let past = db.snapshot_at(before).unwrap();
    assert_eq!((get(&past, "a").as_deref(), get(&past, "b")), (Some("drop"), None));
    drop(past);
    db.set_retention_floor(RetentionFloor::None).unwrap();
    db.compact().unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b")), (None, None));
}

#[test]
fn branches_and_clones_keep_what_they_had() {
    let Bench { db, .. } = bench();
    let family = db.default_family();
    db.put("a", "drop").unwrap();
    let clone = db.clone_family(&family, "copy").unwrap();
    db.create_branch("try").unwrap();
    family.compact().unwrap();
    assert_eq!(get(&db, "a"), None);
    assert_eq!(get(&clone, "a").as_deref(), Some("drop"));
    let branch = db.branch("try").unwrap().family("default").unwrap();
    assert_eq!(get(&branch, "a").as_deref(), Some("drop"));
    // They have the filter as well, for compactions of their own.
    clone.compact().unwrap();
    assert_eq!(get(&clone, "a"), None);
    assert_eq!(get(&branch, "a").as_deref(), Some("drop"));
}

fn append() -> Arc<dyn MergeOperator> {
    merge::full("append", |_: &[u8], base: Option<&[u8]>, operands: &[&[u8]]| {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    })
}

#[test]
fn operands_and_deletions_are_not_shown() {
    let (fs, filter) = (MemFs::new(), Arc::new(ByValue::default()));
    let family = FamilyOptions::new().compaction_filter(filter.clone()).merge_operator(append());
    let db = options(&fs).default_family(family).open("db").unwrap();
    let family = db.default_family();
    let snapshot = {
        db.put("a", "dr").unwrap();
        db.snapshot()
    };
    family.merge("a", "op").unwrap();
    family.merge("m", "drop").unwrap();
    db.put("x", "drop").unwrap();
    db.delete("x").unwrap();
    db.compact().unwrap();
    // The flush has folded the operand that has no base, so that it is a value.
    assert_eq!(*filter.seen.lock().unwrap(), [(b"m".to_vec(), b"drop".to_vec(), 6)]);
    assert_eq!((get(&db, "a").as_deref(), get(&db, "m")), (Some("drop"), None));
    drop(snapshot);
    // Now the other is folded, and then shown as the value that it became.
    db.compact().unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("drop"));
    db.compact().unwrap();
    assert_eq!((get(&db, "a"), get(&db, "x")), (None, None));
}

#[test]
fn a_drop_is_no_change_that_a_feed_tells() {
    let Bench { db, .. } = bench();
    db.put("a", "drop").unwrap();
    let before = db.stats().sequence;
    db.compact().unwrap();
    assert_eq!(get(&db, "a"), None);
    assert_eq!(db.stats().sequence, before);
}

#[test]
fn a_database_without_its_filter_opens_for_reading_alone() {
    let Bench { fs, db, filter } = bench();
    db.put("a", "drop").unwrap();
    db.put("b", "keep").unwrap();
    db.flush().unwrap();
    assert_eq!(db.default_family().options().compaction_filter_name(), Some("by value"));
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 4 }] {
        let copy = fs.crash_clone(crash);
        let error = options(&copy).open("db").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("compaction filter \"by value\""), "{error}");
        let read = options(&copy).read_only(true).open("db").unwrap();
        assert_eq!(get(&read, "a").as_deref(), Some("drop"));
        drop(read);
        let with_it = options(&copy).compaction_filter(filter.clone()).open("db").unwrap();
        with_it.compact().unwrap();
        assert_eq!((get(&with_it, "a"), get(&with_it, "b").as_deref()), (None, Some("keep")));
        // A family may do without from now on, and so may the next opening.
        let family = with_it.default_family();
        family.set_options(&family.options().without_compaction_filter()).unwrap();
        with_it.put("a", "drop").unwrap();
        with_it.compact().unwrap();
        assert_eq!(get(&with_it, "a").as_deref(), Some("drop"));
        with_it.close().unwrap();
        options(&copy).open("db").unwrap();
    }
}

#[test]
fn a_filter_that_the_opening_did_not_register_is_refused_where_it_is_named() {
    let Bench { fs, db, filter } = bench();
    db.close().unwrap();
    let db = options(&fs).compaction_filter(filter.clone()).open("db").unwrap();
    // The name as it is stored, without code, and with it.
    let named = db.default_family().options();
    let given = FamilyOptions::new().compaction_filter(filter.clone());
    let fs = MemFs::new();
    let other = options(&fs).open("db").unwrap();
    for (wanted, hint) in [(&named, "with this filter"), (&given, "Options::compaction_filter")] {
        for error in [
            other.create_family("f", wanted.clone()).err(),
            other.family_or_create("f", wanted.clone()).err(),
            other.prepare_family("f", wanted.clone()).err(),
            other.default_family().set_options(wanted).err(),
        ] {
            let error = error.expect("the next opening would fail");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains("\"by value\""), "{error}");
            assert!(error.hint().unwrap().contains(hint), "{error}");
        }
    }
    // So the next opening, too, needs no filter.
    drop(other);
    let other = options(&fs.crash_clone(Crash::Kill)).open("db").unwrap();
    assert_eq!(other.families().len(), 1);
    drop(other);
    // Both are taken where the opening has registered one of this name.
    let other = options(&MemFs::new()).compaction_filter(filter).open("db").unwrap();
    let family = other.create_family("f", given).unwrap();
    other.create_family("g", named).unwrap();
    family.put("a", "drop").unwrap();
    family.compact().unwrap();
    assert_eq!(get(&family, "a"), None);
}

#[test]
fn a_salvage_needs_no_filter_and_keeps_its_name() {
    let Bench { fs, db, filter } = bench();
    db.put("a", "drop").unwrap();
    db.close().unwrap();
    salvage("db", "saved", options(&fs), &mut |_| ()).unwrap();
    assert_eq!(options(&fs).open("saved").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let saved = options(&fs).compaction_filter(filter).open("saved").unwrap();
    assert_eq!(get(&saved, "a").as_deref(), Some("drop"));
    saved.compact().unwrap();
    assert_eq!(get(&saved, "a"), None);
}

/// Holds up compactions at their first decision.
#[derive(Debug, Default)]
struct Slow {
    began: AtomicBool,
    may_end: AtomicBool,
}

impl CompactionFilter for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn decide(&self, _: &FilteredEntry<'_>) -> FilterDecision {
        self.began.store(true, Ordering::SeqCst);
        while !self.may_end.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        FilterDecision::Drop
    }
}

/// A database of which a compaction is held up in the filter.
struct Held {
    db: Db,
    filter: Arc<Slow>,
}

impl Held {
    /// Puts `a` and flushes it.
    fn new() -> Self {
        let filter = Arc::new(Slow::default());
        let family = FamilyOptions::new().compaction_filter(filter.clone());
        let family = family.merge_operator(append());
        let db = options(&MemFs::new()).default_family(family).open("db").unwrap();
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        Self { db, filter }
    }

    /// Calls `meanwhile` while a compaction waits in the filter; returns after the compaction.
    fn during<T>(&self, meanwhile: impl FnOnce(&Db) -> T) -> T {
        std::thread::scope(|scope| {
            let compaction = scope.spawn(|| self.db.default_family().compact().unwrap());
            while !self.filter.began.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let done = meanwhile(&self.db);
            self.filter.may_end.store(true, Ordering::SeqCst);
            compaction.join().unwrap();
            done
        })
    }
}

/// The compaction began before the snapshot and knows nothing of it.
#[test]
fn a_snapshot_taken_while_a_filter_runs_sees_what_was_there() {
    let held = Held::new();
    let (snapshot, again) = held.during(|db| {
        let snapshot = db.snapshot();
        let mut batch = WriteBatch::new();
        batch.put(&db.default_family(), "b", "2").unwrap();
        db.write(&batch).unwrap();
        (snapshot, db.snapshot())
    });
    let db = &held.db;
    assert_eq!(get(db, "a"), None);
    assert_eq!((get(&snapshot, "a").as_deref(), get(&snapshot, "b")), (Some("1"), None));
    assert_eq!((get(&again, "a").as_deref(), get(&again, "b").as_deref()), (Some("1"), Some("2")));
    assert_eq!(snapshot.count(..).unwrap(), 1);
    // A snapshot at the same number that is taken now shares the view.
    assert_eq!(get(&db.snapshot(), "a").as_deref(), Some("1"));
    drop((snapshot, again));
    assert_eq!(get(&db.snapshot(), "a"), None);
}

/// Readers of the present remember folds and empty ranges that are wrong for the snapshot.
#[test]
fn a_snapshot_taken_while_a_filter_runs_outlives_the_filter_of_its_family() {
    let held = Held::new();
    let snapshot = held.during(|db| {
        db.default_family().merge("a", "+").unwrap();
        db.snapshot()
    });
    let db = &held.db;
    let family = db.default_family();
    family.set_options(&family.options().without_compaction_filter()).unwrap();
    for _ in 0..3 {
        for _ in 0..4 {
            assert_eq!(
                (get(db, "a").as_deref(), get(&snapshot, "a").as_deref()),
                (Some("+"), Some("1+"))
            );
            assert_eq!(snapshot.range("a".."b").unwrap().count(), 1);
            assert_eq!(snapshot.range("b"..).unwrap().count(), 0);
        }
        db.flush().unwrap();
        db.compact().unwrap();
    }
    drop(snapshot);
    assert_eq!(get(db, "a").as_deref(), Some("+"));
}

/// What the compaction has dropped is below the floor when it wants to be installed.
#[test]
fn a_retention_floor_set_while_a_filter_runs_keeps_what_was_there() {
    let held = Held::new();
    let floor = held.during(|db| {
        db.set_retention_floor(RetentionFloor::Now).unwrap();
        db.stats().sequence
    });
    let db = &held.db;
    assert_eq!(get(db, "a").as_deref(), Some("1"));
    assert_eq!(get(&db.snapshot_at(floor).unwrap(), "a").as_deref(), Some("1"));
    db.compact().unwrap();
    assert_eq!(get(&db.snapshot_at(floor).unwrap(), "a").as_deref(), Some("1"));
    assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
    db.set_retention_floor(RetentionFloor::None).unwrap();
    db.compact().unwrap();
    assert_eq!(get(db, "a"), None);
}

/// Transactions that begin before, during and after a compaction each read one state.
#[test]
fn a_transaction_begun_while_a_filter_runs_reads_one_state_and_commits() {
    let held = Held::new();
    held.during(|db| {
        let transaction = db.begin(Isolation::Serializable);
        assert_eq!(get(&transaction, "a").as_deref(), Some("1"));
        held.filter.may_end.store(true, Ordering::SeqCst);
        while db.stats().filter_drops == 0 || get(db, "a").is_some() {
            std::thread::yield_now();
        }
        assert_eq!(get(&transaction, "a").as_deref(), Some("1"));
        transaction.put("b", "2").unwrap();
        transaction.commit().unwrap();
    });
    assert_eq!((get(&held.db, "a"), get(&held.db, "b").as_deref()), (None, Some("2")));
}

#[test]
fn a_prepared_transaction_is_filtered_only_after_its_commit() {
    let Bench { fs, db, filter } = bench();
    db.put("a", "drop").unwrap();
    db.put("b", "keep").unwrap();
    let transaction = db.begin(Isolation::Serializable);
    assert_eq!(get(&transaction, "a").as_deref(), Some("drop"));
    transaction.put("b", "drop").unwrap();
    transaction.put("c", "change").unwrap();
    transaction.prepare("t").unwrap();
    db.compact().unwrap();
    let shown =
        |key: &str| filter.seen.lock().unwrap().iter().any(|(seen, ..)| seen == key.as_bytes());
    assert!(!shown("c"));
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 8 }] {
        let copy = fs.crash_clone(crash);
        let open = || options(&copy).compaction_filter(filter.clone()).open("db").unwrap();
        let db = open();
        db.compact().unwrap();
        assert_eq!(
            (get(&db, "a"), get(&db, "b").as_deref(), get(&db, "c")),
            (None, Some("keep"), None)
        );
        db.commit_prepared("t").unwrap();
        assert_eq!(
            (get(&db, "b").as_deref(), get(&db, "c").as_deref()),
            (Some("drop"), Some("change"))
        );
        db.compact().unwrap();
        assert_eq!((get(&db, "b"), get(&db, "c").as_deref()), (None, Some("up")));
        db.close().unwrap();
        let db = open();
        assert_eq!(
            (get(&db, "a"), get(&db, "b"), get(&db, "c").as_deref()),
            (None, None, Some("up"))
        );
    }
    assert!(shown("c"));
}

#[test]
fn an_expiry_stays_and_expired_values_are_not_shown() {
    let (clock, filter) =
        (Arc::new(ManualClock::at(Duration::from_millis(1_000_000))), Arc::new(ByValue::default()));
    let family = FamilyOptions::new()
        .compaction_filter(filter.clone())
        .ttl(Duration::from_secs(100))
        .value_threshold(32);
    let separated = "keep ".repeat(20);
    let options = options(&MemFs::new()).clock(clock.clone()).default_family(family);
    let db = options.open("db").unwrap();
    for (key, value) in [("a", "drop"), ("b", "change"), ("c", "keep"), ("d", &separated)] {
        db.put(key, value).unwrap();
    }
    db.default_family().put_for("e", "drop", Duration::from_secs(1)).unwrap();
    db.default_family().put_for("f", "change", Duration::from_secs(1)).unwrap();
    clock.advance(Duration::from_secs(2));
    db.compact().unwrap();
    let seen = std::mem::take(&mut *filter.seen.lock().unwrap());
    let keys: Vec<_> = seen.iter().map(|(key, ..)| &key[..]).collect();
    assert_eq!(keys, [b"a", b"b", b"c", b"d"]);
    let found = || ["a", "b", "c", "d", "e", "f"].map(|key| get(&db, key).is_some());
    assert_eq!(found(), [false, true, true, true, false, false]);
    assert_eq!(get(&db, "b").as_deref(), Some("up"));
    clock.advance(Duration::from_secs(99));
    assert_eq!(found(), [false; 6]);
    db.compact().unwrap();
    assert!(filter.seen.lock().unwrap().is_empty());
    assert_eq!(db.stats().table_entries, 0);
}

/// Drops by the key alone.
#[derive(Debug, Default)]
struct ByKey {
    shown: Mutex<Vec<usize>>,
}

impl CompactionFilter for ByKey {
    fn name(&self) -> &str {
        "by key"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        self.shown.lock().unwrap().push(entry.value.len());
        match entry.key.starts_with(b"x") {
            true => FilterDecision::Drop,
            false => FilterDecision::Keep,
        }
    }

    fn needs_values(&self) -> bool {
        false
    }
}

#[test]
fn separated_values_are_shown_whole_and_their_space_comes_back() {
    let (fs, filter) = (MemFs::new(), Arc::new(ByValue::default()));
    let family = FamilyOptions::new()
        .compaction_filter(filter.clone())
        .value_threshold(32)
        .blob_file_bytes(4 << 10)
        .blob_garbage_percent(10);
    let db = options(&fs).default_family(family).open("db").unwrap();
    let large = |word: &str| format!("{word} ").repeat(100);
    let [drop_it, change, keep] = ["drop", "change", "keep"].map(large);
    for number in 0..100 {
        let value = [&drop_it, &change, &keep][number % 3];
        db.put(format!("{number:02}"), value).unwrap();
    }
    let snapshot = db.snapshot();
    db.compact().unwrap();
    assert!(filter.seen.lock().unwrap().is_empty());
    let of = |read: &dyn Fn(&str) -> Option<String>| -> Vec<Option<String>> {
        ["00", "01", "02"].map(read).into()
    };
    let before = [&drop_it, &change, &keep].map(|value| Some(value.clone()));
    assert_eq!(of(&|key| get(&snapshot, key)), before);
    drop(snapshot);
    db.compact().unwrap();
    let seen = std::mem::take(&mut *filter.seen.lock().unwrap());
    assert_eq!(seen.len(), 100);
    assert!(seen.iter().all(|(_, value, _)| {
        [&drop_it, &change, &keep].iter().any(|whole| whole.as_bytes() == value)
    }));
    let after = [None, Some("up".to_owned()), Some(keep.clone())];
    assert_eq!(of(&|key| get(&db, key)), after);
    assert_eq!(db.stats().filter_failures, 0);
    assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 5 }] {
        let copy = options(&fs.crash_clone(crash)).compaction_filter(filter.clone());
        let db = copy.open("db").unwrap();
        assert_eq!(of(&|key| get(&db, key)), after);
        assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
    }
}

#[test]
fn a_filter_that_needs_no_values_drops_separated_ones_unread() {
    let filter = Arc::new(ByKey::default());
    let family = FamilyOptions::new().compaction_filter(filter.clone()).value_threshold(32);
    let long = "long ".repeat(20);
    let db = options(&MemFs::new()).default_family(family).open("db").unwrap();
    for (key, value) in [("a", "short"), ("b", &long), ("x1", "-"), ("x2", &long)] {
        db.put(key, value).unwrap();
    }
    db.compact().unwrap();
    assert_eq!(*filter.shown.lock().unwrap(), [0; 4]);
    let found: Vec<_> = ["a", "b", "x1", "x2"].map(|key| get(&db, key)).into();
    assert_eq!(found, [Some("short".to_owned()), Some(long.clone()), None, None]);
}

/// A compaction that began before a merge of branches does not tear it.
#[test]
fn a_merge_of_branches_reads_one_state_while_a_filter_runs() {
    let held = Held::new();
    let branch = held.db.create_branch("try").unwrap();
    let of_branch = branch.family("default").unwrap();
    of_branch.put("b", "2").unwrap();
    held.during(|db| {
        let report = db.merge_branch("try").unwrap();
        assert_eq!((report.conflicts, report.is_applied), (0, true));
        let snapshot: Snapshot = db.snapshot();
        assert_eq!(
            (get(&snapshot, "a").as_deref(), get(&snapshot, "b").as_deref()),
            (Some("1"), Some("2"))
        );
    });
    // The merge has not brought back what the filter drops.
    assert_eq!((get(&held.db, "a"), get(&held.db, "b").as_deref()), (None, Some("2")));
    assert_eq!(get(&of_branch, "a").as_deref(), Some("1"));
}
