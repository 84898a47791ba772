//! Merging: callers see exactly what the family's operator returns.

use siltdb::{Create, Db, ErrorKind, FamilyOptions, MergeOperator, Options, Read, WriteBatch};
use siltdb_base::{
    error::{Error, Result},
    fs::mem::{Crash, MemFs},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

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

/// The options of a family with the operator `name`.
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

/// The files that the next process finds after a kill.
fn killed(fs: &MemFs) -> MemFs {
    fs.crash_clone(Crash::Kill)
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn an_operator_that_the_opening_did_not_register_is_refused_before_a_family_has_it() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let plain = db.create_family("plain", FamilyOptions::new()).unwrap();
    let given = || appending("append");
    let refused = [
        db.create_family("merged", given()).err(),
        db.family_or_create("merged", given()).err(),
        db.prepare_family("merged", given()).err(),
        plain.set_options(&given()).err(),
        db.default_family().set_options(&given()).err(),
    ];
    for error in refused {
        let error = error.expect("the next opening would fail");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("\"append\""), "{error}");
        assert!(error.hint().unwrap().contains("Options::merge_operator"), "{error}");
    }
    // So the next opening, too, needs no operator.
    drop((db, plain));
    let db = options(&killed(&fs)).open("db").unwrap();
    assert_eq!(db.families().len(), 2);
    // One that is registered under this name will do.
    let db = options(&fs).merge_operator(Arc::new(Append("append"))).open("db2").unwrap();
    db.create_family("merged", given()).unwrap().merge("k", "v").unwrap();
    assert_eq!(db.family("merged").unwrap().get("k").unwrap().unwrap(), b"v");
    drop(db);
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
    // Registering an operator with the database does not give it to a family.
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
    let db = options(&fs).merge_operator(Arc::new(Append("append"))).open("db").unwrap();
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

/// Appends like [`Append`], with a mark between operands.
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
    let db = options(&fs).merge_operator(Arc::new(Marked("?"))).open("db").unwrap();
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

/// Counters of the arguments of an operator.
#[derive(Debug, Default)]
struct Handed {
    calls: AtomicU64,
    operands: AtomicU64,
    bytes: AtomicU64,
}

impl Handed {
    fn note(&self, lists: &[&[u8]]) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.operands.fetch_add(lists.len() as u64, Ordering::Relaxed);
        let bytes: usize = lists.iter().map(|operand| operand.len()).sum();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns and resets calls, operands and bytes.
    fn take(&self) -> (u64, u64, u64) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        (take(&self.calls), take(&self.operands), take(&self.bytes))
    }
}

/// Appends; combines pairs.
#[derive(Debug)]
struct Pairs(Arc<Handed>);

impl MergeOperator for Pairs {
    fn name(&self) -> &str {
        "pairs"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        self.0.note(operands);
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.0.note(&[older, newer]);
        Some([older, newer].concat())
    }
}

/// Appends; combines lists.
#[derive(Debug)]
struct Lists(Arc<Handed>);

impl MergeOperator for Lists {
    fn name(&self) -> &str {
        "lists"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        self.0.note(operands);
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }

    fn partial_many(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.note(operands);
        Some(operands.concat())
    }
}

const MANY: u64 = 20_000;

/// A database with `MANY` operands of 4 bytes on "key", unflushed.
fn with_many(operator: Arc<dyn MergeOperator>) -> (Db, Vec<u8>) {
    let options = options(&MemFs::new());
    let db = options.default_family(FamilyOptions::new().merge_operator(operator));
    let db = db.open("db").expect("memory can be written");
    let mut value = Vec::new();
    for number in 0..MANY as u32 {
        merge_bytes(&db, number.to_be_bytes());
        value.extend(number.to_be_bytes());
    }
    (db, value)
}

fn merge_bytes(db: &Db, operand: impl AsRef<[u8]>) {
    db.default_family().merge("key", operand).expect("memory can be written");
}

fn is_value(found: Option<siltdb::Slice>, expected: &[u8]) -> bool {
    found.is_some_and(|found| *found == *expected)
}

#[test]
fn operands_that_a_reader_folded_are_not_folded_again_by_the_next() {
    let handed = Arc::new(Handed::default());
    let (db, mut value) = with_many(Arc::new(Lists(Arc::clone(&handed))));
    let before = db.snapshot();
    assert!(is_value(db.get("key").unwrap(), &value));
    assert_eq!(handed.take(), (1, MANY, 4 * MANY));
    for _ in 0..10 {
        assert!(is_value(db.get("key").unwrap(), &value));
        let mut cursor = db.cursor().unwrap();
        cursor.seek_to_first().unwrap();
        assert!(cursor.value() == Some(&value));
        cursor.seek_to_last().unwrap();
        assert!(cursor.value() == Some(&value));
    }
    assert_eq!(handed.take(), (0, 0, 0), "folded again");
    let folded = value.clone();
    for number in 1..=10 {
        merge(&db, "key", "more").unwrap();
        value.extend(b"more");
        assert!(is_value(db.get("key").unwrap(), &value));
        assert!(handed.take().1 <= number, "more than is new");
    }
    assert!(is_value(before.get("key").unwrap(), &folded));
    db.flush().unwrap();
    assert!(is_value(db.get("key").unwrap(), &value));
    assert!(is_value(before.get("key").unwrap(), &folded));
}

#[test]
fn deletion_hides_what_was_folded() {
    let (db, value) = with_many(Arc::new(Lists(Arc::default())));
    assert!(is_value(db.get("key").unwrap(), &value));
    let before = db.snapshot();
    db.default_family().delete_range("a".."z").unwrap();
    assert_eq!(db.get("key").unwrap(), None);
    merge(&db, "key", "new").unwrap();
    assert!(is_value(db.get("key").unwrap(), b"new"));
    db.delete("key").unwrap();
    assert_eq!(db.get("key").unwrap(), None);
    merge(&db, "key", "newer").unwrap();
    assert!(is_value(db.get("key").unwrap(), b"newer"));
    assert!(is_value(before.get("key").unwrap(), &value));
}

#[test]
fn flush_hands_each_of_many_operands_to_the_operator_a_few_times() {
    let handed = Arc::new(Handed::default());
    let operators: [(Arc<dyn MergeOperator>, u64); 2] = [
        (Arc::new(Lists(Arc::clone(&handed))), 1),
        // At most log2(MANY) levels of pairs.
        (Arc::new(Pairs(Arc::clone(&handed))), 15),
    ];
    for (operator, times) in operators {
        let (db, value) = with_many(operator);
        // An older operand in a table, so that the operands cannot be folded into a value.
        db.flush().unwrap();
        for operand in value.chunks(4) {
            merge_bytes(&db, operand);
        }
        handed.take();
        db.flush().unwrap();
        let (_, _, bytes) = handed.take();
        assert!(bytes > 0 && bytes <= times * 4 * MANY, "{bytes} bytes");
        assert!(is_value(db.get("key").unwrap(), &value.repeat(2)));
    }
}
