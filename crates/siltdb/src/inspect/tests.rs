//! Inspecting a whole database: while it is open, killed and closed.

use super::{Detail, Line, manifest, table, wal};
use crate::{Db, FamilyOptions, WriteBatch};
use siltdb_base::error::{ErrorKind, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

type Inspect<'a> = &'a dyn Fn(&mut dyn FnMut(Line) -> Result<()>) -> Result<()>;

fn lines(inspect: Inspect<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    inspect(&mut |line| {
        lines.push(line);
        Ok(())
    })
    .unwrap();
    lines
}

fn with<'a>(lines: &'a [Line], name: &str, value: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.field(name) == Some(value)).collect()
}

fn tables_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == "table")).collect()
}

#[test]
fn operations_are_in_the_log_until_a_flush_makes_them_entries_of_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&users, b"alice", b"1").unwrap();
    batch.delete(&users, b"bob").unwrap();
    batch.put(&db.default_family(), b"k", b"v").unwrap();
    db.write(&batch).unwrap();
    let log = || lines(&|on_line| wal(dir.path(), Detail::Operations, on_line));
    let seen = log();
    assert_eq!(with(&seen, "item", "operation").len(), 3, "{seen:#?}");
    assert_eq!(with(&seen, "key", r#""alice""#)[0].field("kind"), Some("put"));
    assert_eq!(with(&seen, "key", r#""k""#)[0].field("family"), Some("0"));

    db.flush().unwrap();
    let mut keys = Vec::new();
    for path in tables_in(dir.path()) {
        let seen = lines(&|on_line| table(&path, Detail::Operations, on_line));
        keys.extend(
            with(&seen, "item", "entry").iter().map(|line| line.field("key").unwrap().to_owned()),
        );
    }
    keys.sort();
    assert_eq!(keys[0], r#""alice""#);
    assert_eq!(keys.last().unwrap(), r#""k""#);

    let seen = lines(&|on_line| manifest(dir.path(), Detail::Operations, on_line));
    let created = with(&seen, "kind", "create-family");
    assert!(created.iter().any(|line| line.field("name") == Some(r#""users""#)), "{seen:#?}");
    let files = with(&seen, "kind", "add-table");
    assert_eq!(files.len(), 2, "one table for each family. {seen:#?}");
    let first_needed = log()[0].field("first_needed").unwrap().to_owned();
    let started = with(&seen, "kind", "log-start");
    assert_eq!(started.last().unwrap().field("segment"), Some(first_needed.as_str()));
}

#[test]
fn a_closed_log_says_so_and_a_killed_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put(b"k", b"v").unwrap();
    let killed = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
    }
    db.close().unwrap();
    let stops = |dir: &Path| {
        let seen = lines(&|on_line| wal(dir, Detail::Summary, on_line));
        with(&seen, "reason", "the end of the log").len()
    };
    assert_eq!((stops(killed.path()), stops(dir.path())), (0, 1));
}

#[test]
fn what_is_no_database_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let no_line = &mut |line: Line| panic!("{line}");
    let missing = dir.path().join("missing");
    for result in [
        wal(&missing, Detail::Summary, no_line),
        manifest(dir.path(), Detail::Summary, no_line),
        manifest(&missing, Detail::Summary, no_line),
        table(&missing, Detail::Summary, no_line),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
