//! Two-phase commit: what a prepared transaction promises until its decision, and after it.

use siltdb::{
    Action, CheckProgress, Db, Durability, Error, ErrorKind, Event, FamilyOptions, Isolation,
    LockMode, Options, Read, Result, SubscribeOptions, Transaction, TransactionOptions, WriteBatch,
    WriteOptions, salvage,
};
use siltdb_base::{
    clock::ManualClock,
    fs::mem::{Crash, MemFs},
};
use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, UNIX_EPOCH},
};

const NOW_MS: u64 = 1_700_000_000_000;

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at(Duration::from_millis(NOW_MS))))
        .workers(0)
        .seed(7)
        .memtable_bytes(16 << 10)
        .memory_budget(4 << 20)
        .lock_timeout(Duration::ZERO)
}

fn open(fs: &MemFs) -> Db {
    options(fs).open("db").unwrap()
}

/// The database as the next process finds it after a crash.
fn crashed(fs: &MemFs, crash: Crash) -> (MemFs, Db) {
    let fs = fs.crash_clone(crash);
    let db = open(&fs);
    (fs, db)
}

fn power_loss(seed: u64) -> Crash {
    Crash::PowerLoss { seed }
}

fn begin(db: &Db, isolation: Isolation) -> Transaction {
    let options = TransactionOptions::new().isolation(isolation);
    db.begin_with(&options.lock_timeout(Duration::ZERO))
}

/// Prepares a transaction that puts a key.
fn prepare(db: &Db, id: &str, key: &str) {
    let transaction = begin(db, Isolation::Serializable);
    transaction.put(key, id).unwrap();
    transaction.prepare(id).unwrap();
}

fn ids(db: &Db) -> Vec<String> {
    let id = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    db.prepared().iter().map(|prepared| id(prepared.id())).collect()
}

fn value(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.as_ref().map_err(Error::kind).unwrap_err()
}

/// Writes so much that generations are frozen.
fn fill(db: &Db, prefix: &str) {
    for number in 0..300 {
        db.put(format!("{prefix}{number:04}"), [b'v'; 100]).unwrap();
    }
}

#[test]
fn a_prepared_transaction_survives_crashes_and_is_seen_from_its_commit_on() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put("old", "1").unwrap();
    let transaction = db.begin(Isolation::Serializable);
    transaction.put("new", "2").unwrap();
    transaction.delete("old").unwrap();
    let prepared = transaction.prepare("t").unwrap();
    assert_eq!((prepared.id(), prepared.operations()), (&b"t"[..], 2));
    assert_eq!(prepared.since(), UNIX_EPOCH + Duration::from_millis(NOW_MS));
    // Twice, so that what a reopen makes of it is reopened, too.
    let (fs, db) = crashed(&fs, power_loss(1));
    assert_eq!(ids(&db), ["t"]);
    let (fs, db) = crashed(&fs, power_loss(2));
    assert_eq!(ids(&db), ["t"]);
    assert_eq!((value(&db, "old"), value(&db, "new")), (Some("1".to_owned()), None));
    // Its id, its families, its size and its time.
    assert_eq!(format!("{:?}", db.prepared()[0]), format!("{prepared:?}"));
    let before = db.snapshot().sequence();
    let commit = db.commit_prepared("t").unwrap();
    assert!(commit.sequence > before);
    assert_eq!(db.snapshot().sequence(), commit.sequence);
    assert_eq!((value(&db, "old"), value(&db, "new")), (None, Some("2".to_owned())));
    for seed in 3..6 {
        let (_, db) = crashed(&fs, power_loss(seed));
        assert_eq!((ids(&db), value(&db, "new")), (vec![], Some("2".to_owned())));
        assert_eq!(value(&db, "old"), None);
        assert_eq!(kind(db.commit_prepared("t")), ErrorKind::NotFound);
    }
}

#[test]
fn a_rollback_is_durable_and_leaves_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    prepare(&db, "t", "k");
    db.rollback_prepared("t").unwrap();
    db.put("k", "free again").unwrap();
    db.sync_wal().unwrap();
    let (_, db) = crashed(&fs, power_loss(1));
    assert_eq!((ids(&db), value(&db, "k")), (vec![], Some("free again".to_owned())));
}

#[test]
fn flushes_and_rotations_carry_undecided_transactions_forward() {
    let fs = MemFs::new();
    let db = open(&fs);
    prepare(&db, "flushed", "a");
    db.flush().unwrap();
    prepare(&db, "in the log", "b");
    fill(&db, "x");
    prepare(&db, "late", "c");
    let expected = ["flushed", "in the log", "late"];
    assert_eq!(ids(&db), expected);
    let (fs, db) = crashed(&fs, power_loss(1));
    assert_eq!(ids(&db), expected);
    fill(&db, "y");
    db.flush().unwrap();
    db.settle().unwrap();
    let (fs, db) = crashed(&fs, power_loss(2));
    assert_eq!(ids(&db), expected);
    db.commit_prepared("flushed").unwrap();
    db.rollback_prepared("in the log").unwrap();
    let (fs, db) = crashed(&fs, power_loss(3));
    assert_eq!(ids(&db), ["late"]);
    // What the manifest says of the others goes with the next flush, and they do not come back.
    db.flush().unwrap();
    let (fs, db) = crashed(&fs, power_loss(4));
    assert_eq!(ids(&db), ["late"]);
    db.close().unwrap();
    let db = open(&fs);
    db.commit_prepared("late").unwrap();
    db.flush().unwrap();
    let (_, db) = crashed(&fs, power_loss(5));
    assert_eq!(ids(&db), Vec::<String>::new());
    let values = ["a", "b", "c"].map(|key| value(&db, key));
    assert_eq!(values, [Some("flushed".to_owned()), None, Some("late".to_owned())]);
}

/// A log of which a power loss took all records is a generation that ends at no number.
#[test]
fn the_flush_of_a_log_without_records_keeps_undecided_transactions() {
    for seed in 0..20 {
        let fs = MemFs::new();
        let db = open(&fs);
        prepare(&db, "flushed", "a");
        db.flush().unwrap();
        db.put("k", "v").unwrap();
        let (fs, db) = crashed(&fs, power_loss(seed));
        assert_eq!(ids(&db), ["flushed"], "seed {seed}");
        db.flush().unwrap();
        db.settle().unwrap();
        let (_, db) = crashed(&fs, Crash::Kill);
        assert_eq!(ids(&db), ["flushed"], "seed {seed}, after a flush");
    }
}

#[test]
fn a_decision_that_power_takes_leaves_the_transaction_undecided() {
    let (mut undecided, mut decided) = (0, 0);
    for seed in 0..40 {
        let fs = MemFs::new();
        let db = open(&fs);
        prepare(&db, "t", "k");
        fill(&db, "x");
        let buffered = WriteOptions::new().durability(Durability::Buffered);
        let commits = seed % 2 == 0;
        match commits {
            true => drop(db.commit_prepared_with("t", &buffered).unwrap()),
            false => db.rollback_prepared_with("t", &buffered).unwrap(),
        }
        if seed % 4 > 1 {
            // The generation with the Prepare record, and not the one with the decision.
            assert!(db.run_job().unwrap());
        }
        let (fs, db) = crashed(&fs, power_loss(seed));
        match ids(&db).len() {
            0 => {
                assert_eq!(value(&db, "k").is_some(), commits, "seed {seed}");
                decided += 1;
            }
            _ => {
                assert_eq!(value(&db, "k"), None, "seed {seed}");
                assert_eq!(kind(db.put("k", "other")), ErrorKind::Busy, "seed {seed}");
                db.commit_prepared("t").unwrap();
                let (_, db) = crashed(&fs, power_loss(seed));
                assert_eq!(value(&db, "k"), Some("t".to_owned()), "seed {seed}");
                undecided += 1;
            }
        }
    }
    assert!(undecided > 0 && decided > 0, "{undecided} undecided, {decided} decided");
    let db = open(&MemFs::new());
    prepare(&db, "t", "k");
    let volatile = WriteOptions::new().durability(Durability::Volatile);
    assert_eq!(kind(db.commit_prepared_with("t", &volatile)), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.rollback_prepared_with("t", &volatile)), ErrorKind::InvalidArgument);
    assert_eq!(ids(&db), ["t"]);
}

#[test]
fn bad_ids_are_refused_by_name_and_the_transaction_goes_on() {
    let db = open(&MemFs::new());
    prepare(&db, "taken", "k");
    let transaction = begin(&db, Isolation::Serializable);
    transaction.put("other", "1").unwrap();
    let error = transaction.prepare("taken").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("\"taken\""), "{error}");
    for id in [&b""[..], &[0; 256]] {
        assert_eq!(kind(transaction.prepare(id)), ErrorKind::InvalidArgument);
    }
    assert!(transaction.is_active());
    transaction.prepare([0xff; 255]).unwrap();
    // It has ended now.
    let hints = [
        kind(transaction.put("x", "")),
        kind(transaction.commit()),
        kind(transaction.rollback()),
        kind(transaction.prepare("again")),
        kind(transaction.get("x")),
    ];
    assert_eq!(hints, [ErrorKind::InvalidArgument; 5]);
    let error = transaction.commit().unwrap_err().to_string();
    assert!(error.contains("was prepared"), "{error}");
    transaction.reset();
    transaction.put("x", "of a new one").unwrap();
    transaction.commit().unwrap();
    for unknown in ["never", "", "taken\0"] {
        let error = db.commit_prepared(unknown).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!(kind(db.rollback_prepared(unknown)), ErrorKind::NotFound);
    }
    db.commit_prepared("taken").unwrap();
    assert_eq!(kind(db.commit_prepared("taken")), ErrorKind::NotFound);
    assert_eq!(kind(db.rollback_prepared("taken")), ErrorKind::NotFound);
    // An id that was decided is free again.
    prepare(&db, "taken", "k");
    db.rollback_prepared("taken").unwrap();
}

#[test]
fn a_handle_decides_its_own_transaction_and_no_later_one_of_the_same_id() {
    let db = open(&MemFs::new());
    prepare(&db, "t", "first");
    let first = db.prepared().remove(0);
    first.rollback().unwrap();
    prepare(&db, "t", "second");
    assert_eq!(kind(first.commit()), ErrorKind::NotFound);
    assert_eq!(kind(first.rollback()), ErrorKind::NotFound);
    assert_eq!(ids(&db), ["t"]);
    let second = db.prepared().remove(0);
    let commit = second.commit().unwrap();
    assert_eq!(commit.sequence, db.snapshot().sequence());
    assert_eq!((value(&db, "first"), value(&db, "second")), (None, Some("t".to_owned())));
    assert!(format!("{second:?}").contains("id: \"t\""), "{second:?}");
}

#[test]
fn a_conflict_is_found_at_prepare_and_keeps_no_id() {
    let db = open(&MemFs::new());
    for isolation in [Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable] {
        let transaction = begin(&db, isolation);
        transaction.get("k").unwrap();
        transaction.put("k", "mine").unwrap();
        db.put("k", "theirs").unwrap();
        assert_eq!(kind(transaction.prepare("t")), ErrorKind::Conflict, "{isolation:?}");
        assert!(!transaction.is_active());
        db.put("k", "not locked").unwrap();
        assert!(ids(&db).is_empty());
    }
    // A transaction without writes depends on what it read, too.
    let reader = begin(&db, Isolation::Serializable);
    reader.get("k").unwrap();
    db.put("k", "later").unwrap();
    assert_eq!(kind(reader.prepare("t")), ErrorKind::Conflict);
    let committed = begin(&db, Isolation::ReadCommitted);
    committed.get("k").unwrap();
    committed.put("k", "last").unwrap();
    db.put("k", "between").unwrap();
    committed.prepare("t").unwrap();
    db.commit_prepared("t").unwrap();
    assert_eq!(value(&db, "k"), Some("last".to_owned()));
}

/// What others may not write while `t` is prepared, and what they may.
fn assert_locked(db: &Db, locked: &[&str], free: &[&str]) {
    for key in locked {
        assert_eq!(kind(db.put(key, "other")), ErrorKind::Busy, "{key}");
        assert_eq!(kind(db.delete(key)), ErrorKind::Busy, "{key}");
        let end = [key, "\0"].concat();
        assert_eq!(kind(db.delete_range(*key..&*end)), ErrorKind::Busy, "{key}");
        let mut batch = WriteBatch::new();
        batch.put(&db.default_family(), "elsewhere", "").unwrap();
        batch.put(&db.default_family(), key, "").unwrap();
        assert_eq!(kind(db.write(&batch)), ErrorKind::Busy, "{key}");
        assert_eq!(value(db, "elsewhere"), None);
        let transaction = begin(db, Isolation::ReadCommitted);
        transaction.put(key, "other").unwrap();
        assert_eq!(kind(transaction.commit()), ErrorKind::Busy, "{key}");
        let transaction = begin(db, Isolation::ReadCommitted);
        transaction.put(key, "other").unwrap();
        assert_eq!(kind(transaction.prepare("other")), ErrorKind::Busy, "{key}");
    }
    for key in free {
        db.put(key, "free").unwrap();
        db.delete(key).unwrap();
    }
}

#[test]
fn what_it_wrote_is_locked_until_the_decision_also_after_a_reopen() {
    let fs = MemFs::new();
    let db = open(&fs);
    let transaction = begin(&db, Isolation::ReadCommitted);
    transaction.get("read only").unwrap();
    transaction.put("key", "1").unwrap();
    transaction.delete_range("m".."p").unwrap();
    transaction.prepare("t").unwrap();
    let locked = ["key", "m", "n", "o"];
    let free = ["kex", "key\0", "l", "p", "read only"];
    assert_locked(&db, &locked, &free);
    let (fs, db) = crashed(&fs, power_loss(1));
    assert_locked(&db, &locked, &free);
    db.flush().unwrap();
    let (_, db) = crashed(&fs, power_loss(2));
    assert_locked(&db, &locked, &free);
    db.commit_prepared("t").unwrap();
    assert_locked(&db, &[], &[&locked[..], &free[..]].concat());
}

#[test]
fn a_writer_that_waits_in_vain_is_told_the_id_and_stats_count_it() {
    let fs = MemFs::new();
    let db = open(&fs);
    prepare(&db, "transfer:7", "key");
    let check = |db: &Db| {
        let error = db.put("key", "value").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        let text = error.to_string();
        assert!(text.contains("locked by the prepared transaction \"transfer:7\""), "{text}");
        let stats = db.stats();
        assert_eq!(stats.prepared_transactions, 1);
        assert!(stats.prepared_bytes > 10);
    };
    check(&db);
    let (_, db) = crashed(&fs, power_loss(1));
    check(&db);
    db.rollback_prepared("transfer:7").unwrap();
    let stats = db.stats();
    assert_eq!((stats.prepared_transactions, stats.prepared_bytes), (0, 0));
    // Another holder of the same key has no id.
    let transaction = begin(&db, Isolation::Snapshot);
    transaction.get_for_update("key").unwrap();
    let text = db.put("key", "value").unwrap_err().to_string();
    assert!(text.contains("locked by transaction ") && !text.contains("transfer"), "{text}");
}

#[test]
fn what_it_read_is_locked_as_far_as_its_level_depends_on_it() {
    for (isolation, locked, free) in [
        (Isolation::ReadCommitted, &[][..], &["r1", "r2", "r3", "s"][..]),
        (Isolation::RepeatableRead, &["r1", "r2"], &["r3", "s"]),
        (Isolation::Snapshot, &[], &["r1", "r2", "r3", "s"]),
        (Isolation::Serializable, &["r1", "r2", "r3"], &["s"]),
    ] {
        let fs = MemFs::new();
        let db = open(&fs);
        db.put("r1", "1").unwrap();
        db.put("r2", "2").unwrap();
        let transaction = begin(&db, isolation);
        assert_eq!(transaction.prefix("r").unwrap().count(), 2);
        transaction.put("written", "").unwrap();
        transaction.prepare("t").unwrap();
        assert_locked(&db, locked, free);
        // Others may read, and lock for reading, what it read.
        let reader = begin(&db, Isolation::Serializable);
        reader.lock_key("r1", LockMode::Shared).unwrap();
        assert_eq!(kind(reader.lock_key("written", LockMode::Shared)), ErrorKind::Busy);
        drop(reader);
        let (_, db) = crashed(&fs, power_loss(1));
        assert_locked(&db, locked, free);
        db.rollback_prepared("t").unwrap();
        assert_locked(&db, &[], locked);
    }
}

#[test]
fn locks_that_it_asked_for_stay_until_the_decision() {
    let fs = MemFs::new();
    let db = open(&fs);
    let transaction = begin(&db, Isolation::ReadCommitted);
    transaction.get_for_update("account").unwrap();
    transaction.lock_range("b".."c", LockMode::Shared).unwrap();
    transaction.prepare("t").unwrap();
    let reader = begin(&db, Isolation::ReadCommitted);
    reader.lock_key("b1", LockMode::Shared).unwrap();
    drop((transaction, reader));
    assert_locked(&db, &["account", "b", "bz"], &["c"]);
    let (_, db) = crashed(&fs, Crash::Kill);
    assert_locked(&db, &["account", "b", "bz"], &["c"]);
    let reader = begin(&db, Isolation::ReadCommitted);
    reader.lock_key("b1", LockMode::Shared).unwrap();
    assert_eq!(kind(reader.lock_key("account", LockMode::Shared)), ErrorKind::Busy);
    drop(reader);
    db.commit_prepared("t").unwrap();
    assert_locked(&db, &[], &["account", "b"]);
}

#[test]
fn a_writer_waits_for_the_decision_and_then_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().lock_timeout(Duration::from_secs(20)).open(dir.path()).unwrap();
    prepare(&db, "t", "k");
    let (began, is_begun) = mpsc::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let long = TransactionOptions::new().isolation(Isolation::Snapshot);
            let transaction = db.begin_with(&long.lock_timeout(Duration::from_secs(20)));
            transaction.put("k", "late").unwrap();
            began.send(()).unwrap();
            transaction.commit()
        });
        is_begun.recv().unwrap();
        thread::sleep(Duration::from_millis(20));
        assert!(!writer.is_finished(), "it waits");
        db.commit_prepared("t").unwrap();
        // The first to commit wins: the prepared one was.
        assert_eq!(kind(writer.join().unwrap()), ErrorKind::Conflict);
    });
    assert_eq!(value(&db, "k"), Some("t".to_owned()));
}

#[test]
fn of_two_threads_that_decide_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    for round in 0..50 {
        prepare(&db, "t", "k");
        let decided = thread::scope(|scope| {
            let commit = scope.spawn(|| db.commit_prepared("t").map(drop));
            let rollback = scope.spawn(|| db.rollback_prepared("t"));
            [commit.join().unwrap(), rollback.join().unwrap()]
        });
        assert_eq!(decided.iter().filter(|one| one.is_ok()).count(), 1, "{decided:?}");
        let refusals = decided.iter().filter_map(|one| one.as_ref().err()).map(Error::kind);
        let is_named = |kind| matches!(kind, ErrorKind::Busy | ErrorKind::NotFound);
        assert!(refusals.clone().all(is_named), "{decided:?}");
        assert_eq!(value(&db, "k").is_some(), decided[0].is_ok(), "round {round}");
        db.delete("k").unwrap();
    }
}

#[test]
fn a_batch_over_families_is_committed_as_a_whole_and_dropped_families_are_left_out() {
    let fs = MemFs::new();
    let db = open(&fs);
    let kept = db.create_family("kept", FamilyOptions::new()).unwrap();
    let gone = db.create_family("gone", FamilyOptions::new()).unwrap();
    let transaction = begin(&db, Isolation::Snapshot);
    transaction.put("k", "default").unwrap();
    transaction.family(&kept).unwrap().put("k", "kept").unwrap();
    transaction.family(&gone).unwrap().put("k", "gone").unwrap();
    let late = Duration::from_secs(3600);
    transaction.put_for("for an hour", "soon over", late).unwrap();
    transaction.prepare("t").unwrap();
    assert_eq!(db.prepared()[0].families().len(), 3);
    db.drop_family("gone").unwrap();
    let again = db.create_family("gone", FamilyOptions::new()).unwrap();
    let (fs, db) = crashed(&fs, power_loss(1));
    assert_eq!(ids(&db), ["t"]);
    db.flush().unwrap();
    let commit = db.commit_prepared("t").unwrap();
    assert_eq!(db.snapshot().sequence(), commit.sequence);
    let look = |db: &Db| {
        let of = |name: &str| db.family(name).unwrap().get("k").unwrap().map(|v| v.to_vec());
        (of("default"), of("kept"), of("gone"), value(db, "for an hour"))
    };
    let (default, kept) = (Some(b"default".to_vec()), Some(b"kept".to_vec()));
    let expected = (default, kept, None, Some("soon over".to_owned()));
    assert_eq!(look(&db), expected);
    let (_, db) = crashed(&fs, power_loss(2));
    assert_eq!(look(&db), expected);
    drop(again);
}

/// A clone has nothing of what is prepared in its source, also if it takes the name of its source.
#[test]
fn a_decision_reaches_no_clone_of_its_family() {
    let fs = MemFs::new();
    let db = open(&fs);
    let source = db.create_family("f", FamilyOptions::new()).unwrap();
    source.put("k", "before").unwrap();
    let transaction = begin(&db, Isolation::Serializable);
    transaction.family(&source).unwrap().put("k", "prepared").unwrap();
    transaction.put("other", "prepared").unwrap();
    transaction.prepare("t").unwrap();
    db.clone_family(&source, "kept").unwrap();
    db.clone_family(&source, "copy").unwrap();
    db.drop_family("f").unwrap();
    db.rename_family("copy", "f").unwrap();
    let (fs, db) = crashed(&fs, power_loss(1));
    assert_eq!(ids(&db), ["t"]);
    db.family("f").unwrap().put("k", "not locked").unwrap();
    assert_eq!(kind(db.put("other", "locked")), ErrorKind::Busy);
    db.commit_prepared("t").unwrap();
    let (_, crashed) = crashed(&fs, power_loss(2));
    for db in [db, crashed] {
        let of = |name: &str| db.family(name).unwrap().get("k").unwrap().unwrap();
        assert_eq!((&of("f")[..], &of("kept")[..]), (&b"not locked"[..], &b"before"[..]));
        assert_eq!(value(&db, "other"), Some("prepared".to_owned()));
    }
}

#[test]
fn a_feed_shows_it_once_at_its_decision() {
    let fs = MemFs::new();
    let db = options(&fs).retain_log_bytes(1 << 20).open("db").unwrap();
    db.put("a", "1").unwrap();
    prepare(&db, "t", "t");
    prepare(&db, "undone", "u");
    db.put("b", "2").unwrap();
    db.flush().unwrap();
    db.rollback_prepared("undone").unwrap();
    let commit = db.commit_prepared("t").unwrap();
    db.put("c", "3").unwrap();
    let told = |db: &Db| {
        let mut feed = db.subscribe(&SubscribeOptions::new().from_oldest()).unwrap();
        let mut told = Vec::new();
        while let Some(event) = feed.try_next().unwrap() {
            let Event::Commit(event) = event else { panic!("unlogged: {event:?}") };
            for change in event.changes() {
                let Action::Put(value) = change.operation.action else { panic!("{change:?}") };
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                told.push((change.sequence, text(change.operation.key), text(value)));
            }
        }
        told
    };
    let before = told(&db);
    let keys: Vec<_> = before.iter().map(|(_, key, _)| key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "t", "c"]);
    assert_eq!(before[2], (commit.sequence, "t".to_owned(), "t".to_owned()));
    assert!(before.is_sorted_by_key(|(sequence, ..)| *sequence));
    let fs = fs.crash_clone(Crash::Kill);
    let db = options(&fs).retain_log_bytes(1 << 20).open("db").unwrap();
    assert_eq!(told(&db), before);
}

#[test]
fn readers_checkpoints_checks_and_salvages_have_it() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.create_family("f", FamilyOptions::new()).unwrap();
    let transaction = begin(&db, Isolation::Serializable);
    transaction.get("read").unwrap();
    transaction.family(&family).unwrap().put("k", "v").unwrap();
    transaction.prepare("flushed").unwrap();
    db.flush().unwrap();
    prepare(&db, "logged", "k");
    db.checkpoint("copy").unwrap();
    let copy = options(&fs).open("copy").unwrap();
    assert_eq!(ids(&copy), ["flushed", "logged"]);
    copy.commit_prepared("flushed").unwrap();
    assert_eq!(copy.family("f").unwrap().get("k").unwrap().unwrap(), b"v");
    // The database that it is a copy of decides for itself.
    assert_eq!(ids(&db), ["flushed", "logged"]);
    db.close().unwrap();
    let mut on_progress = |_: CheckProgress| ();
    let report = options(&fs).check("db", &mut on_progress).unwrap();
    assert!(report.is_clean());
    assert_eq!(report.prepared, 2);
    let reader = options(&fs).read_only(true).open("db").unwrap();
    assert_eq!(ids(&reader), ["flushed", "logged"]);
    assert_eq!(kind(reader.commit_prepared("logged")), ErrorKind::ReadOnly);
    assert_eq!(kind(reader.rollback_prepared("logged")), ErrorKind::ReadOnly);
    assert_eq!(ids(&reader), ["flushed", "logged"]);
    let other = begin(&reader, Isolation::Snapshot);
    assert_eq!(kind(other.prepare("other")), ErrorKind::ReadOnly);
    reader.close().unwrap();
    let report = salvage::salvage("db", "saved", options(&fs), &mut |_| ()).unwrap();
    assert!(report.is_complete(), "{:?}", report.lost);
    assert_eq!(report.prepared, 2);
    let saved = options(&fs).open("saved").unwrap();
    assert_eq!(ids(&saved), ["flushed", "logged"]);
    assert_locked(&saved, &["k", "read"], &["l"]);
    saved.commit_prepared("logged").unwrap();
    saved.commit_prepared("flushed").unwrap();
    assert_eq!(saved.family("f").unwrap().get("k").unwrap().unwrap(), b"v");
    assert_eq!(value(&saved, "k"), Some("logged".to_owned()));
}

#[test]
fn a_closed_database_takes_no_decision() {
    let fs = MemFs::new();
    let db = open(&fs);
    prepare(&db, "t", "k");
    let handle = db.prepared().remove(0);
    let other = db.clone();
    db.close().unwrap();
    assert_eq!(kind(handle.commit()), ErrorKind::Closed);
    assert_eq!(kind(other.rollback_prepared("t")), ErrorKind::Closed);
    drop((handle, other));
    assert_eq!(ids(&open(&fs)), ["t"]);
}
