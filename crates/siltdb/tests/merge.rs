//! Merging: what the family's operator does and does not do is what callers see.

use siltdb::{Db, ErrorKind, FamilyOptions, MergeOperator, Options, Read, WriteBatch};
use siltdb_base::{
    error::{Error, Result},
    fs::mem::MemFs,
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
