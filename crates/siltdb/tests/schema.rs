//! Batches that create and drop families together with data.

use siltdb::{
    Db, Durability, ErrorKind, FamilyOptions, MergeOperator, Options, Read, WriteBatch,
    WriteOptions,
};
use siltdb_base::fs::mem::{Crash, MemFs};
use std::sync::Arc;

fn options(fs: &MemFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).workers(0)
}

fn open(fs: &MemFs) -> Db {
    options(fs).open("db").unwrap()
}

fn prepare(db: &Db, name: &str) -> siltdb::Family {
    db.prepare_family(name, FamilyOptions::new()).unwrap()
}

/// A volatile commit leaves nothing in the log, but the log decides about families.
#[test]
fn changes_of_families_are_synced_whatever_is_asked_for() {
    for durability in [Durability::Volatile, Durability::Buffered, Durability::Synced] {
        let fs = MemFs::new();
        let db = open(&fs);
        let table = prepare(&db, "t1");
        let mut batch = WriteBatch::new();
        batch.put(&table, "key", "value").unwrap();
        batch.create_family(&table).unwrap();
        db.write_with(&batch, &WriteOptions::new().durability(durability)).unwrap();
        assert_eq!(table.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        let lost = open(&fs.crash_clone(Crash::PowerLoss { seed: 1 }));
        assert_eq!(lost.families(), ["default", "t1"], "{durability:?}");
        assert!(lost.family("t1").unwrap().contains("key").unwrap(), "{durability:?}");
    }
}

#[test]
fn a_batch_swaps_a_family_for_another_of_its_name() {
    let fs = MemFs::new();
    let db = open(&fs);
    let old = db.create_family("t1", FamilyOptions::new()).unwrap();
    old.put("key", "old").unwrap();
    let before = db.snapshot().family(&old).unwrap();
    let new = prepare(&db, "t1");
    let mut batch = WriteBatch::new();
    batch.create_family(&new).unwrap();
    batch.drop_family(&old).unwrap();
    batch.put(&new, "key", "new").unwrap();
    assert!(!batch.is_empty() && batch.len() == 1);
    db.write(&batch).unwrap();
    assert_eq!(db.family("t1").unwrap().id(), new.id());
    assert_eq!(new.get("key").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(old.get("key").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(old.put("key", "late").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(before.get("key").unwrap().as_deref(), Some(&b"old"[..]));
    // The batch can be written only once.
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::AlreadyExists);
    batch.clear();
    assert!(batch.is_empty());
    db.write(&batch).unwrap();
}

#[test]
fn what_does_not_fit_is_refused_when_it_is_added() {
    let (fs, other) = (MemFs::new(), MemFs::new());
    let (db, other) = (open(&fs), open(&other));
    let table = prepare(&db, "t1");
    let mut batch = WriteBatch::new();
    let kind = |result: siltdb::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(batch.create_family(&db.default_family())), ErrorKind::AlreadyExists);
    assert_eq!(kind(batch.drop_family(&db.default_family())), ErrorKind::InvalidArgument);
    assert_eq!(kind(batch.drop_family(&table)), ErrorKind::NotFound);
    assert!(batch.is_empty());
    batch.create_family(&table).unwrap();
    assert_eq!(kind(batch.create_family(&table)), ErrorKind::AlreadyExists);
    assert_eq!(kind(batch.create_family(&prepare(&db, "t1"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(batch.create_family(&prepare(&other, "t2"))), ErrorKind::InvalidArgument);
    assert_eq!(kind(other.write(&batch)), ErrorKind::InvalidArgument);
    db.write(&batch).unwrap();
    let mut batch = WriteBatch::new();
    batch.drop_family(&table).unwrap();
    assert_eq!(kind(batch.drop_family(&table)), ErrorKind::NotFound);
    assert_eq!(
        kind(db.prepare_family("", FamilyOptions::new()).map(drop)),
        ErrorKind::InvalidArgument
    );
}

/// Adds numbers.
#[derive(Debug)]
struct Sum;

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> siltdb::Result<Vec<u8>> {
        let sum = operands.iter().chain(&base).flat_map(|number| number.iter()).sum::<u8>();
        Ok(vec![sum])
    }
}

#[test]
fn the_operator_of_a_family_is_named_by_the_commit_that_creates_it() {
    let fs = MemFs::new();
    let db = options(&fs).merge_operator(Arc::new(Sum)).open("db").unwrap();
    let sums = db.prepare_family("sums", FamilyOptions::new().merge_operator(Arc::new(Sum)));
    let sums = sums.unwrap();
    let mut batch = WriteBatch::new();
    batch.create_family(&sums).unwrap();
    batch.merge(&sums, "key", [1]).unwrap();
    db.write(&batch).unwrap();
    sums.merge("key", [2]).unwrap();
    let killed = fs.crash_clone(Crash::Kill);
    assert_eq!(options(&killed).open("db").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let db = options(&killed).merge_operator(Arc::new(Sum)).open("db").unwrap();
    let found = db.family("sums").unwrap().get("key").unwrap();
    assert_eq!(found.as_deref(), Some(&[3][..]));
}

#[test]
fn a_database_that_is_read_only_shows_what_commits_have_created_and_changes_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    let table = prepare(&db, "t1");
    let mut batch = WriteBatch::new();
    batch.create_family(&table).unwrap();
    db.write(&batch).unwrap();
    let read_only = options(&fs.crash_clone(Crash::Kill)).read_only(true).open("db").unwrap();
    assert_eq!(read_only.families(), ["default", "t1"]);
    let refused = read_only.prepare_family("t2", FamilyOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

/// Threads write while tables come and go: no call hangs, and each commit is whole.
#[test]
fn writers_go_on_while_families_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memtable_bytes(64 << 10).open(dir.path()).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u8)
            .map(|writer| {
                let db = &db;
                scope.spawn(move || {
                    for number in 0..4000_u32 {
                        db.put([&[writer][..], &number.to_be_bytes()].concat(), [7; 100]).unwrap();
                    }
                })
            })
            .collect();
        for changer in 0..2 {
            let db = &db;
            scope.spawn(move || {
                let mut old: Option<siltdb::Family> = None;
                for version in 0..10_u8 {
                    let name = format!("t{changer}");
                    let table = prepare(db, &name);
                    let mut batch = WriteBatch::new();
                    batch.create_family(&table).unwrap();
                    batch.put(&table, "key", [version]).unwrap();
                    batch.put(&db.default_family(), &name, [version]).unwrap();
                    if let Some(old) = old.replace(table) {
                        batch.drop_family(&old).unwrap();
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    db.close().unwrap();
    let db = Db::open(dir.path()).unwrap();
    assert_eq!(db.families(), ["default", "t0", "t1"]);
    assert_eq!(db.default_family().count(..).unwrap(), 8002);
    for name in ["t0", "t1"] {
        assert_eq!(db.family(name).unwrap().get("key").unwrap().as_deref(), Some(&[9][..]));
    }
}
