//! An open database whose environment changes: the working directory, links, names, forks. Its
//! files are changed only in the directory that it locked, and only by the process that opened it.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use siltdb::testing::run_in_fork;
use siltdb::{Db, Durability, ErrorKind, Options, Read, Result, WriteOptions};
use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use tempfile::tempdir;

const COMMITS: u32 = 300;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Writes synced commits over several flushes.
fn fill(db: &Db, numbers: std::ops::Range<u32>, value: &str) -> Result<()> {
    for number in numbers {
        db.put_with(key(number), value, &WriteOptions::new().durability(Durability::Synced))?;
        if number % 100 == 50 {
            db.flush()?;
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<Db> {
    Options::new().memtable_bytes(64 << 10).workers(1).open(path)
}

/// The contents of a database, which must open and verify.
fn contents(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = open(path).unwrap();
    let report = db.check(&mut |_| ()).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let pairs = db.prefix(b"").unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    pairs.collect()
}

fn expected(numbers: std::ops::Range<u32>, value: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    numbers.map(|number| (key(number).to_vec(), value.as_bytes().to_vec())).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A closed database that must stay unchanged.
fn bystander(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = open(path).unwrap();
    fill(&db, 0..100, "bystander").unwrap();
    db.close().unwrap();
    expected(0..100, "bystander")
}

/// Only this test changes the working directory; all others use absolute paths.
#[test]
fn a_changed_working_directory_changes_nothing() {
    let dir = tempdir().unwrap();
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let untouched = bystander(&other.join("db"));
    env::set_current_dir(dir.path()).unwrap();
    let db = open(Path::new("db")).unwrap();
    fill(&db, 0..100, "mine").unwrap();
    env::set_current_dir(&other).unwrap();
    fill(&db, 100..COMMITS, "mine").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    env::set_current_dir("/").unwrap();
    assert_eq!(contents(&dir.path().join("db")), expected(0..COMMITS, "mine"));
    assert_eq!(contents(&other.join("db")), untouched);
}

#[test]
fn a_switched_link_leads_no_open_database_astray() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let untouched = bystander(&path("two"));
    fs::create_dir(path("one")).unwrap();
    symlink("one", path("current")).unwrap();
    let db = open(&path("current")).unwrap();
    fill(&db, 0..100, "mine").unwrap();
    fs::remove_file(path("current")).unwrap();
    symlink("two", path("current")).unwrap();
    fill(&db, 100..COMMITS, "mine").unwrap();
    db.compact().unwrap();
    // The other directory is not locked.
    assert_eq!(contents(&path("current")), untouched);
    fill(&db, COMMITS..COMMITS + 1, "mine").unwrap();
    db.close().unwrap();
    assert_eq!(contents(&path("one")), expected(0..COMMITS + 1, "mine"));
    assert_eq!(contents(&path("two")), untouched);
}

#[test]
fn a_database_that_takes_the_name_is_left_alone() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = open(&path("db")).unwrap();
    fill(&db, 0..100, "mine").unwrap();
    fs::rename(path("db"), path("old")).unwrap();
    let untouched = bystander(&path("db"));
    fill(&db, 100..COMMITS, "mine").unwrap();
    db.compact().unwrap();
    let before = names(&path("db"));
    assert_eq!(open(&path("old")).unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    assert_eq!(names(&path("db")), before);
    assert_eq!(contents(&path("db")), untouched);
    assert_eq!(contents(&path("old")), expected(0..COMMITS, "mine"));
}

#[test]
fn a_removed_lock_file_lets_no_second_writer_in() {
    let dir = tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    fs::remove_file(dir.path().join("LOCK")).unwrap();
    assert_eq!(open(dir.path()).unwrap_err().kind(), ErrorKind::Locked);
    // Another process is locked out as well.
    let code = run_in_fork(|| {
        u8::from(open(dir.path()).is_err_and(|error| error.kind() == ErrorKind::Locked))
    });
    assert_eq!(code, Some(1));
    fill(&db, 0..10, "mine").unwrap();
    db.close().unwrap();
    assert_eq!(contents(dir.path()), expected(0..10, "mine"));
}

#[test]
fn a_locked_database_names_its_holder() {
    let dir = tempdir().unwrap();
    let _db = open(dir.path()).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(error.hint().unwrap().contains("this process"), "{error}");
    let output = run_again("child_that_finds_it_locked", dir.path());
    let holder = format!("process {} (", std::process::id());
    assert!(output.contains(&holder), "{output}");
}

/// Runs one test of this program in a process of its own and returns what it printed.
fn run_again(test: &str, path: &Path) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env("SILT_TEST_PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs only as a child of another test.
#[test]
fn child_that_finds_it_locked() {
    let Some(path) = env::var_os("SILT_TEST_PATH").map(PathBuf::from) else { return };
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    println!("{error}");
}

/// The calls forbidden to a forked child, by name.
fn forbidden(db: &Db) -> Vec<(&'static str, Result<()>)> {
    let mut batch = siltdb::WriteBatch::new();
    batch.put(&db.default_family(), b"c", b"child").unwrap();
    vec![
        ("put", db.put(b"c", b"child")),
        (
            "put, synced",
            db.put_with(b"c", b"child", &WriteOptions::new().durability(Durability::Synced)),
        ),
        ("delete", db.delete(b"c")),
        ("write", db.write(&batch)),
        ("flush", db.flush()),
        ("compact", db.compact()),
        ("compact a family", db.default_family().compact()),
        ("run_job", db.run_job().map(drop)),
        ("rename_family", db.rename_family("other", "another")),
        ("sync_wal", db.sync_wal()),
        ("create_family", db.create_family("child", siltdb::FamilyOptions::new()).map(drop)),
        ("drop_family", db.drop_family("other")),
        ("settle", db.settle()),
        ("close", db.clone().close()),
    ]
}

#[test]
fn a_forked_child_cannot_write_to_its_parents_database() {
    for workers in [0, 1] {
        let dir = tempdir().unwrap();
        let options = || Options::new().memtable_bytes(64 << 10).workers(workers);
        let db = options().open(dir.path()).unwrap();
        db.create_family("other", siltdb::FamilyOptions::new()).unwrap();
        fill(&db, 0..100, "parent").unwrap();
        let before = names(dir.path());
        let code = run_in_fork(|| {
            let refused = |result: &Result<()>| {
                result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Forked)
            };
            let results = forbidden(&db);
            let wrong = results.iter().position(|(_, result)| !refused(result));
            // Dropping handles only closes descriptors.
            drop(db.clone());
            wrong.map_or(0, |index| index as u8 + 1)
        });
        assert_eq!(code, Some(0), "the number of the call that was not refused");
        // A child that drops the last handle keeps the parent's lock, too.
        let mut last = Some(db);
        let code = run_in_fork(|| {
            drop(last.take());
            0
        });
        assert_eq!(code, Some(0));
        let db = last.take().unwrap();
        assert_eq!(names(dir.path()), before);
        assert_eq!(open(dir.path()).unwrap_err().kind(), ErrorKind::Locked);
        fill(&db, 100..COMMITS, "parent").unwrap();
        db.close().unwrap();
        assert_eq!(contents(dir.path()), expected(0..COMMITS, "parent"));
    }
}

/// A fork copies only the calling thread, so locks of other threads stay locked.
#[test]
fn a_child_forked_while_others_write_is_refused_and_does_not_wait_for_them() {
    let dir = tempdir().unwrap();
    let db = Options::new().memtable_bytes(64 << 10).workers(2).open(dir.path()).unwrap();
    db.create_family("other", siltdb::FamilyOptions::new()).unwrap();
    let ended = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writers: [_; 2] = [0_u32, 1].map(|writer| {
            let (db, ended) = (db.clone(), &ended);
            scope.spawn(move || {
                let mut number = 0;
                // Relaxed: the threads are joined before the comparison.
                while !ended.load(Ordering::Relaxed) {
                    db.put(key(2 * number + writer), [7; 100]).unwrap();
                    number += 1;
                }
                number
            })
        });
        let compacting = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                db.compact().unwrap();
            }
        });
        let codes: Vec<_> = (0..20)
            .map(|_| {
                thread::sleep(Duration::from_millis(5));
                run_in_fork(|| {
                    let refused = |result: &Result<()>| {
                        result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Forked)
                    };
                    let wrong = forbidden(&db).iter().position(|(_, result)| !refused(result));
                    wrong.map_or(0, |index| index as u8 + 1)
                })
            })
            .collect();
        ended.store(true, Ordering::Relaxed);
        compacting.join().unwrap();
        assert!(codes.iter().all(|code| *code == Some(0)), "not refused, or waiting: {codes:?}");
        writers.map(|writer| writer.join().unwrap())
    });
    assert!(written.iter().all(|number| *number > 100), "{written:?}");
    db.close().unwrap();
    let found = contents(dir.path());
    assert_eq!(found.len() as u32, written.iter().sum::<u32>());
    assert!(found.iter().all(|(_, value)| value == &[7; 100]));
}

/// A child reads the parent's state at the fork, whatever the parent does later.
#[test]
fn a_forked_child_reads_and_its_end_takes_nothing_from_the_parent() {
    let dir = tempdir().unwrap();
    let db = Options::new().memtable_bytes(64 << 10).workers(0).open(dir.path()).unwrap();
    fill(&db, 0..120, "parent").unwrap();
    let (snapshot, cursor) = (db.snapshot(), db.prefix(b"").unwrap());
    fill(&db, 100..120, "later").unwrap();
    let mut held = Some((snapshot, cursor));
    let code = run_in_fork(|| {
        let Some((snapshot, cursor)) = held.take() else { return 1 };
        let is_old = |found: Option<&[u8]>| found == Some(&b"parent"[..]);
        if !is_old(snapshot.get(key(110)).ok().flatten().as_deref()) {
            return 2;
        }
        if db.get(key(110)).ok().flatten().as_deref() != Some(&b"later"[..]) {
            return 3;
        }
        if cursor.filter(|entry| entry.as_ref().is_ok_and(|(_, value)| is_old(Some(value)))).count()
            != 120
        {
            return 4;
        }
        drop(snapshot);
        0
    });
    assert_eq!(code, Some(0));
    // The child's drop affects only its own copies.
    let (snapshot, cursor) = held.take().unwrap();
    db.compact().unwrap();
    assert_eq!(snapshot.get(key(110)).unwrap().as_deref(), Some(&b"parent"[..]));
    assert_eq!(cursor.count(), 120);
    drop(snapshot);
    db.close().unwrap();
    assert_eq!(contents(dir.path()).len(), 120);
}

#[test]
fn a_forked_child_opens_another_database_of_its_own() {
    let dir = tempdir().unwrap();
    let db = open(&dir.path().join("parent")).unwrap();
    fill(&db, 0..100, "parent").unwrap();
    let child = dir.path().join("child");
    let code = run_in_fork(|| {
        let Ok(mine) = Options::new().workers(1).open(&child) else { return 1 };
        if fill(&mine, 0..100, "child").is_err() || mine.close().is_err() {
            return 2;
        }
        0
    });
    assert_eq!(code, Some(0));
    db.close().unwrap();
    assert_eq!(contents(&child), expected(0..100, "child"));
    assert_eq!(contents(&dir.path().join("parent")), expected(0..100, "parent"));
}
