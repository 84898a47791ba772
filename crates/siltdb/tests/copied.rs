//! Copies of the directory of a database, by `cp -r` and by `cp -al`, that are used: the original
//! is as it was, and so is the copy while the original is used.
//!
//! # Seeded fault
//! `linked_files_written`: files that both have by hard links are written to.

#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use siltdb::{
    Create, Db, Durability, FamilyOptions, Options, Read, WriteOptions,
    testing::{Call, Crash, Fs, MemFs},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

const DB: &str = "db";
const COPY: &str = "copy";

/// Small, so that little data makes several log files, tables and blob files.
fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .workers(0)
        .seed(fs.calls())
        .memtable_bytes(32 << 10)
        .memory_budget(8 << 20)
        .default_family(FamilyOptions::new().value_threshold(256))
}

fn open(fs: &MemFs, dir: &str) -> Db {
    options(fs).create(Create::Never).open(dir).unwrap()
}

fn fill(db: &Db, round: u32) {
    for number in 0..200_u32 {
        let bytes = if number % 3 == 0 { 300 } else { 100 };
        db.put(number.to_be_bytes(), format!("{round:bytes$}").as_bytes()).unwrap();
    }
}

/// A killed database with tables, blob files, and a log of which a part is not synced.
fn filled() -> (MemFs, BTreeMap<Vec<u8>, Vec<u8>>) {
    let fs = MemFs::new();
    let db = options(&fs).open(DB).unwrap();
    for round in 0..3 {
        fill(&db, round);
        db.flush().unwrap();
    }
    fill(&db, 3);
    let synced = WriteOptions::new().durability(Durability::Synced);
    db.put_with("synced", "value", &synced).unwrap();
    db.put("not synced", "value").unwrap();
    (fs.crash_clone(Crash::Kill), contents(&db))
}

fn contents(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs = db.iter().unwrap().map(Result::unwrap);
    pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// The files of a directory; the lock apart, which is no part of the database.
fn files(fs: &MemFs, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let names = fs.list(Path::new(dir)).unwrap().into_iter().map(|entry| entry.name);
    let paths = names.filter(|name| name != "LOCK").map(|name| Path::new(dir).join(name));
    paths.map(|path| (path.clone(), fs.read_all(&path).unwrap())).collect()
}

/// Copies a directory as `cp -al` does.
fn link(fs: &MemFs, from: &str, to: &str) {
    fs.create_dir_all(Path::new(to)).unwrap();
    for entry in fs.list(Path::new(from)).unwrap() {
        let path = |dir: &str| Path::new(dir).join(&entry.name);
        fs.hard_link(&path(from), &path(to)).unwrap();
    }
    fs.sync_dir(Path::new(to)).unwrap();
    fs.sync_dir(Path::new("")).unwrap();
}

/// What is done with a copy, by name.
fn uses() -> Vec<(&'static str, fn(&MemFs, &str))> {
    vec![
        ("put and flush", |fs, dir| {
            let db = open(fs, dir);
            db.put("new", "value").unwrap();
            db.flush().unwrap();
            db.close().unwrap();
        }),
        ("put and be killed", |fs, dir| {
            let db = open(fs, dir);
            db.put("new", "value").unwrap();
            std::mem::forget(db);
        }),
        ("overwrite and compact", |fs, dir| {
            let db = open(fs, dir);
            for round in 10..20 {
                fill(&db, round);
            }
            db.compact().unwrap();
            db.settle().unwrap();
        }),
        ("make families and reopen", |fs, dir| {
            for round in 0..3 {
                let db = open(fs, dir);
                db.create_family(&format!("family {round}"), FamilyOptions::new()).unwrap();
                db.close().unwrap();
            }
        }),
        ("destroy", |fs, dir| options(fs).destroy(dir).unwrap()),
    ]
}

#[test]
fn a_copy_by_hard_links_that_is_used_leaves_the_original_as_it_was() {
    for (used, other) in [(COPY, DB), (DB, COPY)] {
        for (what, work) in uses() {
            let (fs, expected) = filled();
            link(&fs, DB, COPY);
            let before = files(&fs, other);
            work(&fs, used);
            assert!(files(&fs, other) == before, "{what} in {used}");
            let fs = fs.crash_clone(Crash::Kill);
            assert!(options(&fs).check(other, &mut |_| {}).unwrap().is_clean(), "{what}");
            assert!(contents(&open(&fs, other)) == expected, "{what} in {used}");
        }
    }
}

#[test]
fn both_directories_of_a_copy_by_hard_links_can_be_open_at_once() {
    let (fs, mut expected) = filled();
    link(&fs, DB, COPY);
    let (db, copy) = (open(&fs, DB), open(&fs, COPY));
    for round in 20..24 {
        fill(&db, round);
        fill(&copy, 2 * round);
    }
    db.compact().unwrap();
    copy.compact().unwrap();
    fill(&db, 90);
    fill(&copy, 91);
    for (db, round) in [(&db, "90"), (&copy, "91")] {
        for (key, value) in &mut expected {
            if key.len() == 4 {
                *value = format!("{round:>width$}", width = value.len()).into_bytes();
            }
        }
        assert!(contents(db) == expected, "{round}");
    }
}

#[test]
fn a_crash_while_a_copy_by_hard_links_is_opened_costs_neither_anything() {
    let (fs, expected) = filled();
    link(&fs, DB, COPY);
    let (states, disk) = (Arc::new(Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |call: Call<'_>| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            seen.lock().unwrap().push((crash, disk.crash_clone(crash)));
        }
    })));
    let copy = open(&fs, COPY);
    fs.on_call(None);
    drop(copy);
    let states = std::mem::take(&mut *states.lock().unwrap());
    assert!(states.len() > 10, "{}", states.len());
    for (crash, state) in states {
        for dir in [DB, COPY] {
            let db = open(&state, dir);
            let found = contents(&db);
            match crash {
                Crash::Kill => assert!(found == expected, "{dir}"),
                _ => assert!(found.contains_key(&b"synced"[..]), "{dir}"),
            }
        }
    }
}
