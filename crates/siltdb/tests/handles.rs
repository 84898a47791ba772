//! Handles whose database or family is gone, and handles of another database.

use siltdb::{
    Cursor, Db, Durability, Error, ErrorKind, Family, FamilyOptions, Isolation, Iter, Options,
    Read, Slice, Snapshot, SubscribeOptions, WriteBatch, WriteOptions, backup::Backups,
};
use siltdb_base::{clock::ManualClock, fs::mem::MemFs};
use std::{sync::Arc, time::Duration};

fn options(fs: &MemFs) -> Options {
    Options::new().workers(0).fs(Arc::new(fs.clone())).seed(1)
}

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn handles_may_be_sent_and_shared() {
    fn check<T: Send + Sync + 'static>() {}
    fn check_send<T: Send + 'static>() {}
    check::<Db>();
    check::<Family>();
    check::<Snapshot>();
    check::<WriteBatch>();
    check::<Options>();
    check::<Slice>();
    check::<Error>();
    check_send::<Iter>();
    check_send::<Cursor>();
}

#[test]
fn nothing_of_one_database_is_taken_by_another() {
    let (one, other) = (MemFs::new(), MemFs::new());
    let (one, other) = (options(&one).open("db").unwrap(), options(&other).open("db").unwrap());
    let mut batch = WriteBatch::new();
    batch.put(&one.default_family(), "key", "value").unwrap();
    assert_eq!(kind(other.write(&batch)), Some(ErrorKind::InvalidArgument));
    let foreign = batch.put(&other.default_family(), "key", "value");
    assert_eq!(kind(foreign), Some(ErrorKind::InvalidArgument));
    assert_eq!(batch.len(), 1);
    one.write(&batch).unwrap();
    assert!(one.contains("key").unwrap() && !other.contains("key").unwrap());
    // An empty batch belongs to no database.
    batch.clear();
    other.write(&batch).unwrap();
    batch.delete(&other.default_family(), "key").unwrap();
    other.write(&batch).unwrap();
    let snapshot = one.snapshot();
    let foreign = snapshot.family(&other.default_family());
    assert_eq!(kind(foreign), Some(ErrorKind::InvalidArgument));
}

#[test]
fn a_batch_does_not_outlive_the_opening_it_was_made_for() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), "key", "value").unwrap();
    db.close().unwrap();
    let again = options(&fs).open("db").unwrap();
    assert_eq!(kind(again.write(&batch)), Some(ErrorKind::InvalidArgument));
}

#[test]
fn a_closed_database_is_neither_read_nor_written() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    db.put("key", "value").unwrap();
    let (clone, family, snapshot) = (db.clone(), db.default_family(), db.snapshot());
    let mut begun = db.iter().unwrap();
    let mut cursor = db.cursor().unwrap();
    db.close().unwrap();
    let closed = Some(ErrorKind::Closed);
    assert_eq!(kind(clone.get("key")), closed);
    assert_eq!(kind(clone.get_many(&["key"])), closed);
    assert_eq!(kind(family.iter()), closed);
    assert_eq!(kind(family.cursor()), closed);
    assert_eq!(kind(snapshot.get("key")), closed);
    assert_eq!(kind(family.put("key", "other")), closed);
    assert_eq!(kind(clone.flush()), closed);
    // An empty synced batch is refused, too.
    let synced = WriteOptions::new().durability(Durability::Synced);
    assert_eq!(kind(clone.write_with(&WriteBatch::new(), &synced)), closed);
    assert_eq!(kind(family.delete_range("b".."a")), closed);
    // Iterators that were created before continue.
    assert_eq!(begun.next().unwrap().unwrap().0.as_bytes(), b"key");
    cursor.seek_to_first().unwrap();
    assert_eq!(cursor.entry().unwrap(), (&b"key"[..], &b"value"[..]));
}

#[test]
fn an_iterator_that_misses_a_file_after_the_close_is_told_of_the_close() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    // More than a compaction would leave unchanged.
    for number in 0..6 {
        db.put(format!("key-{number}"), vec![b'v'; 100]).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let db = options(&fs).open("db").unwrap();
    let begun = db.iter().unwrap();
    db.close().unwrap();
    let other = options(&fs).open("db").unwrap();
    other.compact().unwrap();
    other.close().unwrap();
    let results: Vec<_> = begun.collect();
    assert!(results.iter().all(|result| match result {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::Closed,
    }));
    assert!(results.iter().any(Result::is_err), "the files are still there");
}

#[test]
fn a_dropped_family_is_not_found_but_by_snapshots_and_iterators_of_it() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    users.put("alice", "1").unwrap();
    let snapshot = db.snapshot().family(&users).unwrap();
    let begun = users.iter().unwrap();
    db.drop_family("users").unwrap();
    let not_found = Some(ErrorKind::NotFound);
    assert_eq!(kind(users.get("alice")), not_found);
    assert_eq!(kind(users.iter()), not_found);
    assert_eq!(kind(users.put("alice", "2")), not_found);
    assert_eq!(kind(users.delete_range("b".."a")), not_found);
    assert!(snapshot.contains("alice").unwrap());
    assert_eq!(begun.count(), 1);
}

#[test]
fn a_family_is_created_once_by_whoever_comes_first() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let db = &db;
            scope.spawn(move || {
                let users = db.family_or_create("users", FamilyOptions::new()).unwrap();
                users.put([number], "1").unwrap();
            });
        }
    });
    let users = db.family_or_create("users", FamilyOptions::new()).unwrap();
    assert_eq!(users.iter().unwrap().count(), 4);
    let bad = db.family_or_create("", FamilyOptions::new());
    assert_eq!(kind(bad), Some(ErrorKind::InvalidArgument));
}

#[test]
fn what_is_printed_of_a_handle_is_short_and_tells_no_key() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    db.put("secret", "value").unwrap();
    db.flush().unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    users.put("secret", "value").unwrap();
    let (transaction, feed) =
        (db.begin(Isolation::Serializable), db.subscribe(&SubscribeOptions::default()).unwrap());
    transaction.put("secret", "value").unwrap();
    let branch = db.create_branch("dev").unwrap();
    let typed = db.default_family().typed::<Vec<u8>, String>().unwrap();
    assert_eq!(format!("{users:?}"), r#"Family { family: "users", database: "db" }"#);
    for printed in [
        format!("{db:?}"),
        format!("{users:?}"),
        format!("{typed:?}"),
        format!("{:?}", db.snapshot()),
        format!("{transaction:?}"),
        format!("{:?}", transaction.snapshot_reads()),
        format!("{branch:?}"),
        format!("{:?}", users.ingest().unwrap()),
        format!("{feed:?}"),
    ] {
        assert!(printed.contains("\"db\"") && printed.len() < 180, "{printed}");
        assert!(!printed.contains("secret") && !printed.contains("ReadPlace"), "{printed}");
    }
    let mut batch = WriteBatch::new();
    batch.put(&users, "secret", "value").unwrap();
    let bucket = users.bucket(["a", "b"]).unwrap();
    for printed in [
        format!("{batch:?}"),
        format!("{bucket:?}"),
        format!("{:?}", db.iter().unwrap()),
        format!("{:?}", Backups::new("backups")),
    ] {
        assert!(!printed.contains("secret") && printed.len() < 120, "{printed}");
    }
    // Options are told by their names, without the code that serves them.
    let printed = format!("{:?}", options(&fs));
    assert!(printed.contains("workers: 0") && !printed.contains("MemFs"), "{printed}");
}

#[test]
fn an_iterator_passes_over_what_has_expired_since_it_was_made() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = options(&fs).clock(clock.clone()).open("db").unwrap();
    db.put("a", "1").unwrap();
    db.default_family().put_for("b", "2", Duration::from_secs(1)).unwrap();
    db.put("c", "3").unwrap();
    let key = |pair: Option<Result<(Slice, Slice), Error>>| pair.map(|pair| pair.unwrap().0);
    for flushes in [false, true] {
        if flushes {
            clock.advance(Duration::from_secs(2));
            db.default_family().put_for("b", "2", Duration::from_secs(1)).unwrap();
            db.flush().unwrap();
        }
        let (mut forward, mut backward) = (db.iter().unwrap(), db.iter().unwrap());
        let mut cursor = db.cursor().unwrap();
        cursor.seek("b").unwrap();
        assert_eq!(cursor.key(), Some(&b"b"[..]));
        assert_eq!(key(forward.next()).as_deref(), Some(&b"a"[..]));
        assert_eq!(key(backward.next_back()).as_deref(), Some(&b"c"[..]));
        clock.advance(Duration::from_secs(1));
        assert_eq!(key(forward.next()).as_deref(), Some(&b"c"[..]));
        assert_eq!(key(backward.next_back()).as_deref(), Some(&b"a"[..]));
        cursor.seek("b").unwrap();
        assert_eq!(cursor.key(), Some(&b"c"[..]));
    }
}
