//! Copies of the directory of a database, by `cp -r` and by `cp -al`, that are used: the original
//! is as it was, and so is the copy while the original is used.
//!
//! # Seeded faults
//! `linked_files_written`: files that both have by hard links are written to.
//! `cold_copy_is_owner`: a copy takes the cold directory of its original for its own.

use siltdb::{
    ColdAdoption, Create, Db, Durability, ErrorKind, FamilyOptions, Options, Read, WriteOptions,
    testing::{Call, Crash, Fs, MemFs},
};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
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

/// Something that is done with the copy in a directory.
type Use = fn(&MemFs, &str);

/// What is done with a copy, by name.
fn uses() -> Vec<(&'static str, Use)> {
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

const COLD: &str = "cold";

/// A closed database with hot tables, and a frozen family.
fn tiered() -> (MemFs, BTreeMap<Vec<u8>, Vec<u8>>) {
    let fs = MemFs::new();
    let db = options(&fs).cold_directory("../cold").open(DB).unwrap();
    fill(&db, 1);
    db.default_family().freeze().unwrap();
    db.compact().unwrap();
    db.settle().unwrap();
    assert!(db.stats().cold_tables > 0);
    let hot = db.create_family("hot", FamilyOptions::new()).unwrap();
    hot.put("key", "value").unwrap();
    let expected = contents(&db);
    db.close().unwrap();
    (fs, expected)
}

/// Copies a directory as `cp -r` does.
fn copy(fs: &MemFs, from: &str, to: &str) {
    fs.create_dir_all(Path::new(to)).unwrap();
    for (path, bytes) in files(fs, from) {
        fs.write_all(&Path::new(to).join(path.file_name().unwrap()), &bytes).unwrap();
    }
    fs.sync_dir(Path::new("")).unwrap();
}

fn adopt(fs: &MemFs, dir: &str, adoption: ColdAdoption) -> siltdb::Result<siltdb::AdoptionReport> {
    options(fs).adopt(dir, adoption, &mut |_| ControlFlow::Continue(()))
}

fn refused(fs: &MemFs, dir: &str) {
    let error = options(fs).create(Create::Never).open(dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{dir}: {error}");
    assert!(error.message().contains("this is a copy"), "{dir}: {error}");
}

/// Checks that a database is whole and opens for writing.
fn whole(fs: &MemFs, dir: &str, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let report = options(fs).check(dir, &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{dir}: {report:?}");
    let db = open(fs, dir);
    assert!(contents(&db) == *expected, "{dir}");
    db.close().unwrap();
}

/// By each kind of copy.
fn copies() -> [fn(&MemFs, &str, &str); 2] {
    [copy, link]
}

#[test]
fn a_copy_that_shares_a_cold_directory_is_read_and_not_written_to() {
    for make in copies() {
        let (fs, expected) = tiered();
        make(&fs, DB, COPY);
        let before = (files(&fs, DB), files(&fs, COLD));
        refused(&fs, COPY);
        let reader = options(&fs).read_only(true).open(COPY).unwrap();
        assert!(contents(&reader) == expected);
        reader.close().unwrap();
        assert_eq!(options(&fs).outside(COPY).unwrap(), None);
        assert_eq!(options(&fs).outside(DB).unwrap().as_deref(), Some(Path::new("db/../cold")));
        options(&fs).destroy(COPY).unwrap();
        assert!((files(&fs, DB), files(&fs, COLD)) == before);
        whole(&fs, DB, &expected);
        options(&fs).destroy(DB).unwrap();
        assert_eq!(fs.metadata(Path::new(COLD)).unwrap(), None);
    }
}

#[test]
fn an_adopted_copy_is_used_in_every_way_and_its_original_stays_whole() {
    for make in copies() {
        let mut uses = uses();
        uses.push(("thaw", |fs, dir| open(fs, dir).default_family().thaw().unwrap()));
        uses.push(("freeze elsewhere", |fs, dir| {
            let db = options(fs).cold_directory("../cold of copy").open(dir).unwrap();
            db.default_family().freeze().unwrap();
            assert!(db.stats().cold_tables > 0);
        }));
        for (what, work) in uses {
            let (fs, expected) = tiered();
            make(&fs, DB, COPY);
            let cold = files(&fs, COLD);
            assert!(adopt(&fs, COPY, ColdAdoption::Copies).unwrap().tables > 0, "{what}");
            whole(&fs, COPY, &expected);
            let error = open(&fs, COPY).default_family().freeze().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}");
            work(&fs, COPY);
            assert!(files(&fs, COLD) == cold, "{what}");
            whole(&fs, DB, &expected);
            // Once more changes nothing.
            assert_eq!(adopt(&fs, DB, ColdAdoption::Copies).unwrap().tables, 0, "{what}");
            whole(&fs, DB, &expected);
        }
    }
}

#[test]
fn a_database_that_takes_over_shuts_the_other_one_out_until_that_is_adopted() {
    for make in copies() {
        let (fs, expected) = tiered();
        make(&fs, DB, COPY);
        adopt(&fs, COPY, ColdAdoption::TakesOver).unwrap();
        whole(&fs, COPY, &expected);
        refused(&fs, DB);
        assert!(adopt(&fs, DB, ColdAdoption::Copies).unwrap().tables > 0);
        open(&fs, DB).default_family().thaw().unwrap();
        options(&fs).destroy(DB).unwrap();
        whole(&fs, COPY, &expected);
    }
}

#[test]
fn a_database_that_was_moved_on_its_file_system_opens() {
    let (fs, expected) = tiered();
    fs.move_directory(Path::new(DB), Path::new("moved")).unwrap();
    whole(&fs, "moved", &expected);
    open(&fs, "moved").default_family().thaw().unwrap();
    whole(&fs, "moved", &expected);
}

#[test]
fn a_crash_in_an_adoption_costs_neither_database_anything() {
    for adoption in [ColdAdoption::Copies, ColdAdoption::TakesOver] {
        let (fs, expected) = tiered();
        copy(&fs, DB, COPY);
        fs.sync_dir(Path::new(COPY)).unwrap();
        let fs = fs.crash_clone(Crash::Kill);
        let (states, disk) = (Arc::new(Mutex::new(Vec::new())), fs.clone());
        let seen = Arc::clone(&states);
        fs.on_call(Some(Arc::new(move |call: Call<'_>| {
            for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
                seen.lock().unwrap().push(disk.crash_clone(crash));
            }
        })));
        adopt(&fs, COPY, adoption).unwrap();
        fs.on_call(None);
        let states = std::mem::take(&mut *states.lock().unwrap());
        assert!(states.len() > 10, "{}", states.len());
        for state in states {
            adopt(&state, COPY, adoption).unwrap();
            whole(&state, COPY, &expected);
            if adoption == ColdAdoption::TakesOver {
                adopt(&state, DB, ColdAdoption::Copies).unwrap();
            }
            whole(&state, DB, &expected);
        }
    }
}
