//! Exports and imports beside writers with threads, flushes and compactions.

use super::world::{DIR, FILE, clock, contents, key, small};
use siltdb::{
    Db, Durability, ErrorKind, Options, Read, WriteBatch, WriteOptions,
    archive::{Archive, ArchiveOptions, ImportOptions},
    testing::{Fs, MemFs},
};
use std::{
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

fn open(fs: &MemFs, dir: &str) -> Db {
    let options = Options::new().fs(Arc::new(fs.clone())).workers(2).seed(fs.calls());
    let options = options.memtable_bytes(64 << 10).memory_budget(16 << 20).clock(clock());
    options.default_family(small()).durability(Durability::Buffered).open(dir).unwrap()
}

/// Each commit writes one number to all keys of two families. An archive has the same number
/// everywhere.
#[test]
fn an_export_sees_whole_commits_alone() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    let other = db.create_family("other", small()).unwrap();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let write = |number: u64| {
        let mut batch = WriteBatch::new();
        for index in 0..100 {
            for family in [&db.default_family(), &other] {
                batch.put(family, key(index), number.to_le_bytes()).unwrap();
            }
        }
        db.write_with(&batch, &WriteOptions::new()).unwrap();
    };
    write(0);
    let is_over = AtomicBool::new(false);
    let mut numbers = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                write(number);
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for index in 0..12 {
            let path = format!("archives/{index}.siltar");
            // A snapshot that is older than the export by many commits.
            let snapshot = db.snapshot();
            let expected = snapshot.get(key(0)).unwrap().unwrap();
            let before = numbers.len();
            while before == numbers.len() && db.get(key(0)).unwrap().unwrap() == expected {
                thread::yield_now();
            }
            let options = match index % 2 {
                0 => ArchiveOptions::new(),
                _ => ArchiveOptions::new().snapshot(&snapshot),
            };
            let go_on = &mut |_| ControlFlow::Continue(());
            db.archive_with(&path, &options, go_on).unwrap();
            let opening = Options::new().fs(Arc::new(fs.clone()));
            let archive = Archive::open_with(&path, &opening).unwrap();
            let mut found: Vec<Vec<u8>> = Vec::new();
            for name in ["default", "other"] {
                let pairs = archive.family(name).unwrap().iter().unwrap();
                found.extend(pairs.map(|pair| pair.unwrap().1.to_vec()));
            }
            assert_eq!(found.len(), 200);
            assert!(found.iter().all(|value| *value == found[0]), "half of a commit");
            assert!(index % 2 == 0 || found[0] == *expected, "not what the snapshot sees");
            numbers.push(u64::from_le_bytes(found[0][..].try_into().unwrap()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(numbers.is_sorted() && numbers[0] < numbers[11], "{numbers:?}");
}

#[test]
fn imports_beside_writers_of_other_families_and_of_the_default_one() {
    let fs = MemFs::new();
    let source = open(&fs, "source");
    for number in 0..2000 {
        source.put(key(number), b"imported").unwrap();
    }
    source.create_family("users", small()).unwrap().put("ada", "1815").unwrap();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    source.archive(FILE).unwrap();
    let expected = contents(&source);
    for round in 0..8 {
        let dir = format!("db {round}");
        let db = open(&fs, &dir);
        let mine = db.create_family("mine", small()).unwrap();
        let is_over = AtomicBool::new(false);
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    mine.put(key(written), written.to_le_bytes()).unwrap();
                    // Deletions in the default family leave it empty only if a flush drops them.
                    if round % 2 == 1 {
                        db.delete(key(written % 50)).unwrap();
                    }
                    written += 1;
                }
                written
            });
            let import = ImportOptions::new().family("users", "users").family("default", "main");
            let go_on = &mut |_| ControlFlow::Continue(());
            db.import_archive_with(FILE, &import, go_on).unwrap();
            let filled = db.import_archive_with(
                FILE,
                &ImportOptions::new().family("default", "default"),
                go_on,
            );
            match filled {
                Ok(_) => assert!(db.count(..).unwrap() >= 1950, "round {round}"),
                // A deletion came between the flush and the edit.
                Err(error) => {
                    assert_eq!((error.kind(), round % 2), (ErrorKind::AlreadyExists, 1), "{error}");
                    assert!(db.is_empty().unwrap());
                }
            }
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        db.compact().unwrap();
        let found = contents(&db);
        assert_eq!(found["main"], expected["default"]);
        assert_eq!(found["users"], expected["users"]);
        assert_eq!(found["mine"].len() as u64, written);
        if round % 2 == 0 {
            assert_eq!(found["default"], expected["default"]);
        }
    }
}

#[test]
fn a_close_cancels_an_export() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    for number in 0..2000 {
        db.put(key(number), b"value").unwrap();
    }
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let mut closing = None;
    let made = db.archive_with(FILE, &ArchiveOptions::new(), &mut |_| {
        if closing.is_none() {
            let other = db.clone();
            closing = Some(thread::spawn(move || other.close()));
            while db.put("key", "value").is_ok() {
                thread::yield_now();
            }
        }
        ControlFlow::Continue(())
    });
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Closed);
    closing.unwrap().join().unwrap().unwrap();
    assert!(fs.list(Path::new(DIR)).unwrap().is_empty());
}
