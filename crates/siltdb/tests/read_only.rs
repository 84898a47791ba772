//! Opening for reading only: it shows the data, refuses writes, and changes no file.

use siltdb::{
    Create, Db, ErrorKind, FamilyOptions, MergeOperator, Options, Read, Result, WriteBatch,
    testing::{CallKind, Crash, MemFs},
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::tempdir;

#[derive(Debug)]
struct Last;

impl MergeOperator for Last {
    fn name(&self) -> &str {
        "last"
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok(operands.last().expect("there are operands").to_vec())
    }
}

fn on(fs: &MemFs) -> Options {
    Options::new().workers(0).fs(Arc::new(fs.clone()))
}

const DIR: &str = "db";

/// A database with tables, and a log that a killed process left.
fn killed() -> MemFs {
    let fs = MemFs::new();
    let db = on(&fs).merge_operator(Arc::new(Last)).open(DIR).unwrap();
    let options = FamilyOptions::new().merge_operator(Arc::new(Last));
    let merged = db.create_family("merged", options).unwrap();
    for round in 0..3_u32 {
        for number in 0..100_u32 {
            db.put(number.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        merged.put(b"plain", b"value").unwrap();
        merged.merge(b"operand", b"1").unwrap();
        if round < 2 {
            db.flush().unwrap();
        }
    }
    fs.crash_clone(Crash::Kill)
}

fn verify(db: &Db) {
    let values: Vec<_> = db.prefix(b"").unwrap().map(|entry| entry.unwrap().1.to_vec()).collect();
    assert_eq!(values, vec![2_u32.to_be_bytes().to_vec(); 100]);
}

#[test]
fn reading_makes_no_call_that_changes_anything() {
    let fs = killed();
    let changes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&changes);
    fs.on_call(Some(Arc::new(move |call| {
        // A shared lock creates no file, although the observer counts the call.
        if call.kind != CallKind::Lock {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    })));
    fs.set_space_limit(Some(0));
    for _ in 0..3 {
        let db = on(&fs).read_only(true).open(DIR).unwrap();
        verify(&db);
        assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
        assert_eq!(db.settle().unwrap_err().kind(), ErrorKind::ReadOnly);
        db.close().unwrap();
    }
    assert_eq!(changes.load(Ordering::Relaxed), 0);
    // A writer makes such calls, which proves that they are counted.
    fs.set_space_limit(None);
    on(&fs).merge_operator(Arc::new(Last)).open(DIR).unwrap().close().unwrap();
    assert!(changes.load(Ordering::Relaxed) > 0);
}

#[test]
fn all_that_writes_is_refused() {
    let db = on(&killed()).read_only(true).open(DIR).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), b"k", b"v").unwrap();
    let results = [
        db.put(b"k", b"v"),
        db.delete(b"k"),
        db.write(&batch),
        db.flush(),
        db.compact(),
        db.create_family("new", FamilyOptions::new()).map(drop),
        db.drop_family("merged"),
        db.rename_family("merged", "other"),
    ];
    for (index, result) in results.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnly, "call {index}");
    }
    verify(&db);
}

#[test]
fn a_family_without_its_operator_can_be_read_but_for_operands() {
    let fs = killed();
    let db = on(&fs).read_only(true).open(DIR).unwrap();
    let merged = db.family("merged").unwrap();
    assert_eq!(merged.get(b"plain").unwrap().as_deref(), Some(&b"value"[..]));
    let error = merged.get(b"operand").unwrap_err();
    assert!(error.to_string().contains("\"last\""), "{error}");
    drop((merged, db));
    let options = on(&fs).read_only(true).merge_operator(Arc::new(Last));
    let merged = options.open(DIR).unwrap().family("merged").unwrap();
    assert_eq!(merged.get(b"operand").unwrap().as_deref(), Some(&b"1"[..]));
}

fn open(path: &Path, read_only: bool) -> Result<Db> {
    Options::new().create(Create::Never).read_only(read_only).open(path)
}

#[test]
fn readers_share_a_database_and_exclude_a_writer() {
    let dir = tempdir().unwrap();
    Db::open(dir.path()).unwrap().put(b"k", b"v").unwrap();
    // A medium without the lock file.
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    let locked = |read_only| open(dir.path(), read_only).unwrap_err().kind() == ErrorKind::Locked;
    let (first, second) = (open(dir.path(), true).unwrap(), open(dir.path(), true).unwrap());
    assert!(!dir.path().join("LOCK").exists());
    assert!(locked(false));
    drop(first);
    assert!(locked(false), "the second one reads still");
    assert_eq!(second.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    drop(second);
    let writer = open(dir.path(), false).unwrap();
    assert!(locked(true) && locked(false));
    drop(writer);
    assert!(open(dir.path(), true).is_ok());
}

#[test]
fn a_missing_database_is_not_created_for_reading() {
    let dir = tempdir().unwrap();
    for path in [dir.path().join("none"), dir.path().to_owned()] {
        for create in [Create::IfMissing, Create::Never, Create::New] {
            let error = Options::new().create(create).read_only(true).open(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{create:?}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_opener_waits_for_the_lock_as_long_as_it_was_told() {
    let dir = tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let begun = Instant::now();
    let error = Options::new().lock_wait(Duration::from_millis(100)).open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(begun.elapsed() >= Duration::from_millis(100));
    let path = dir.path().to_owned();
    let waiting =
        thread::spawn(move || Options::new().lock_wait(Duration::from_secs(60)).open(path));
    thread::sleep(Duration::from_millis(50));
    db.close().unwrap();
    waiting.join().unwrap().unwrap();
}
