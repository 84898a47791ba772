//! Merging: what the family's operator does and does not do is what callers see.

use siltdb::{Create, Db, ErrorKind, FamilyOptions, MergeOperator, Options, Read, WriteBatch};
use siltdb_base::{
    error::{Error, Result},
    fs::mem::{Crash, MemFs},
};
use std::sync::Arc;

/// Appends operands to the value; fails for operands that begin with `!`.
#[derive(Debug)]
struct Append(&'static str);

impl MergeOperator for Append {
    fn name(&self) -> &str {
        self.0
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        if operands.iter().any(|operand| operand.starts_with(b"!")) {
            return Err(Error::invalid("bad operand"));
        }
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }

    fn partial(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// The options of a family with the operator of this name.
fn appending(name: &'static str) -> FamilyOptions {
    FamilyOptions::new().merge_operator(Arc::new(Append(name)))
}

fn options(fs: &MemFs) -> Options {
    Options::new().workers(0).fs(Arc::new(fs.clone())).seed(1)
}

fn merge(db: &Db, key: &str, operand: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.merge(&db.default_family(), key, operand)?;
    db.write(&batch)
}

/// What the next process sees after a kill.
fn killed(fs: &MemFs) -> MemFs {
    fs.crash_clone(Crash::Kill)
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_merge_without_an_operator_is_refused_and_leaves_no_trace() {
    let fs = MemFs::new();
    let db = options(&fs).default_family(appending("append")).open("db").unwrap();
    let plain = db.create_family("plain", FamilyOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(&db.default_family(), "key", "1").unwrap();
    batch.put(&plain, "key", "value").unwrap();
    db.write(&batch).unwrap();
    batch.merge(&plain, "key", "2").unwrap();
    assert_eq!(kind(db.write(&batch)), Some(ErrorKind::InvalidArgument));
    let again = options(&killed(&fs)).default_family(appending("append")).open("db").unwrap();
    for db in [db, again] {
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"1"[..]));
        let value = db.family("plain").unwrap().get("key").unwrap();
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_default_family_without_an_operator_gets_the_one_it_is_opened_with_for_good() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    db.put("key", "1").unwrap();
    assert_eq!(kind(merge(&db, "key", "2")), Some(ErrorKind::InvalidArgument));
    db.close().unwrap();
    // One that families may name is not theirs by that.
    let db = options(&fs).merge_operator(Arc::new(Append("append"))).open("db").unwrap();
    assert_eq!(kind(merge(&db, "key", "2")), Some(ErrorKind::InvalidArgument));
    db.close().unwrap();
    let db = options(&fs).default_family(appending("append")).open("db").unwrap();
    merge(&db, "key", "2").unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"12"[..]));
    let fs = fs.crash_clone(Crash::PowerLoss { seed: 1 });
    assert_eq!(kind(options(&fs).open("db")), Some(ErrorKind::InvalidArgument));
    let db = options(&fs).merge_operator(Arc::new(Append("append"))).open("db").unwrap();
    merge(&db, "key", "3").unwrap();
    db.flush().unwrap();
    assert!(db.get("key").unwrap().unwrap().ends_with(b"3"));
}

#[test]
fn a_default_family_keeps_its_operator() {
    let fs = MemFs::new();
    let db = options(&fs).default_family(appending("append")).open("db").unwrap();
    merge(&db, "key", "1").unwrap();
    db.close().unwrap();
    let other = options(&fs).default_family(appending("other"));
    assert_eq!(kind(other.clone().open("db")), Some(ErrorKind::InvalidArgument));
    let both = other.merge_operator(Arc::new(Append("append")));
    assert_eq!(kind(both.open("db")), Some(ErrorKind::InvalidArgument));
    let db = options(&fs).merge_operator(Arc::new(Append("append"))).open("db").unwrap();
    merge(&db, "key", "2").unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"12"[..]));
}

#[test]
fn an_operator_that_fails_for_a_key_ends_an_iterator_and_not_a_cursor() {
    let options = options(&MemFs::new()).default_family(appending("append"));
    let db = options.open("db").unwrap();
    for (key, operand) in [("a", "1"), ("b", "!"), ("c", "3")] {
        merge(&db, key, operand).unwrap();
    }
    for is_flushed in [false, true] {
        if is_flushed {
            db.compact().unwrap();
        }
        assert_eq!(db.get("b").unwrap_err().kind(), ErrorKind::InvalidArgument);
        let mut iter = db.iter().unwrap();
        assert!(iter.next().unwrap().is_ok_and(|(key, _)| &*key == b"a"));
        assert!(iter.next().unwrap().is_err());
        assert!(iter.next().is_none());
        let mut cursor = db.cursor().unwrap();
        cursor.seek("a").unwrap();
        assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(cursor.entry(), None);
        cursor.seek("b\0").unwrap();
        assert_eq!(cursor.entry(), Some((&b"c"[..], &b"3"[..])));
    }
}

#[test]
fn a_database_is_checked_without_its_operators() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().workers(0).default_family(appending("append"));
    let db = options().open(dir.path()).unwrap();
    merge(&db, "key", "a").unwrap();
    db.flush().unwrap();
    merge(&db, "key", "b").unwrap();
    db.close().unwrap();
    let report = siltdb::check(dir.path(), &mut |_| ()).unwrap();
    assert!(report.errors.is_empty() && report.tables == 1, "{report:?}");
    let without = Options::new().workers(0).create(Create::Never).open(dir.path());
    assert_eq!(kind(without), Some(ErrorKind::InvalidArgument));
    let db = options().open(dir.path()).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"ab"[..]));
}

#[test]
fn the_operator_of_a_dropped_family_need_not_be_given() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let counters = db.create_family("counters", appending("append")).unwrap();
    counters.merge("key", "1").unwrap();
    drop(counters);
    db.close().unwrap();
    assert_eq!(kind(options(&fs).open("db")), Some(ErrorKind::InvalidArgument));
    let db = options(&fs).merge_operator(Arc::new(Append("append"))).open("db").unwrap();
    assert_eq!(db.family("counters").unwrap().get("key").unwrap().as_deref(), Some(&b"1"[..]));
    db.drop_family("counters").unwrap();
    db.close().unwrap();
    options(&fs).open("db").unwrap();
}

/// Appends as [`Append`] does, with a mark of its own between.
#[derive(Debug)]
struct Marked(&'static str);

impl MergeOperator for Marked {
    fn name(&self) -> &str {
        "same"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok([base.unwrap_or_default(), self.0.as_bytes(), &operands.concat()].concat())
    }
}

#[test]
fn a_family_gets_the_operator_that_it_is_created_with_whatever_another_is_called() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    for mark in ["-", "+"] {
        let options = FamilyOptions::new().merge_operator(Arc::new(Marked(mark)));
        let family = db.create_family(mark, options).unwrap();
        family.merge("key", "1").unwrap();
        let expected = format!("{mark}1").into_bytes();
        assert_eq!(family.get("key").unwrap().as_deref(), Some(&expected[..]));
    }
}

/// Panics for operands that begin with `!`.
#[derive(Debug)]
struct Panics;

impl MergeOperator for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        assert!(operands.iter().all(|operand| !operand.starts_with(b"!")));
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        assert!(!older.starts_with(b"!") && !newer.starts_with(b"!"));
        Some([older, newer].concat())
    }
}

#[test]
fn an_operator_that_panics_fails_the_read_and_keeps_the_operands() {
    let fs = MemFs::new();
    let family = FamilyOptions::new().merge_operator(Arc::new(Panics));
    let db = options(&fs).default_family(family).open("db").unwrap();
    db.put("bad", "0").unwrap();
    for operand in ["1", "!", "2"] {
        merge(&db, "bad", operand).unwrap();
        merge(&db, "good", "3").unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    assert_eq!(kind(db.get("bad")), Some(ErrorKind::InvalidArgument));
    assert_eq!(db.get("good").unwrap().as_deref(), Some(&b"333"[..]));
    db.put("bad", "4").unwrap();
    db.close().unwrap();
}
