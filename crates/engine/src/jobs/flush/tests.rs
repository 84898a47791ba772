//! Generations that are flushed side by side are installed in order, or not at all.

use super::*;
use crate::{
    database::{Database, writable::Writable},
    fixture::{DIR, contents, fault, killed, open, options, until},
    open::recovery,
    options::Durability,
    write::commit::{Payload, commit},
};
use siltdb_base::{
    error::ErrorKind,
    fs::{
        FileLock, Fs,
        mem::{CallKind, FaultError, MemFs},
    },
    key::EntryKind,
};
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// A database with so many frozen generations, each with its own version of a key.
fn with_frozen(fs: &MemFs, count: usize, waiting: Waiting) -> (Database, Box<dyn FileLock>) {
    let (database, held) = recovery::open(Path::new(DIR), options(fs), waiting).unwrap();
    for number in 0..count {
        put(&database, number);
        let frozen = lock(&database.log.sequencer).freeze().unwrap();
        database.installer().freeze(frozen);
    }
    (database, held)
}

fn put(database: &Database, number: usize) {
    let family = database.catalog.families.named("default").unwrap();
    let own = format!("own-{number}");
    for key in [&b"same"[..], own.as_bytes()] {
        let value = number.to_string();
        let put = Payload::one(&family, EntryKind::Put, key, value.as_bytes());
        commit(Writable::inside(database), &put, Durability::Buffered).unwrap();
    }
}

/// What a database with so many generations holds.
fn expected(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own =
        |number: usize| (format!("own-{number}").into_bytes(), number.to_string().into_bytes());
    let same = (b"same".to_vec(), (count - 1).to_string().into_bytes());
    (0..count).map(own).chain([same]).collect()
}

fn left(database: &Database) -> usize {
    lock(&database.log.frozen).len()
}

fn tables(database: &Database) -> usize {
    let family = database.catalog.families.named("default").unwrap();
    family.tree.view().version.tables().count()
}

#[test]
fn a_generation_is_not_installed_before_an_older_one_and_not_after_its_failure() {
    for fails in [false, true] {
        let fs = MemFs::new();
        let (database, held) = with_frozen(&fs, 2, Waiting::ForWorkers);
        let is_released = Arc::new(AtomicBool::new(false));
        let (released, disk) = (Arc::clone(&is_released), fs.clone());
        fs.on_call(Some(Arc::new(move |call| {
            let is_first = thread::current().name() == Some("first");
            if is_first && call.kind == CallKind::Create {
                until(|| released.load(Ordering::Acquire));
                if fails {
                    // This very call.
                    disk.set_fault(fault(Some(CallKind::Create), 1, FaultError::NoSpace));
                }
            }
        })));
        let flushing = || lock(&database.background.jobs).flushing.len();
        let progress = Arc::clone(&lock(&database.log.frozen)[1].progress);
        thread::scope(|scope| {
            let flush = || flush_next(&database.job_rooms());
            let first = thread::Builder::new().name("first".to_owned());
            let first = first.spawn_scoped(scope, flush).unwrap();
            until(|| flushing() == 1);
            let second = scope.spawn(flush);
            // It has written its table, and waits.
            until(|| flushing() == 2 && progress.rest_of(1000) == 0);
            thread::sleep(Duration::from_millis(20));
            assert_eq!((left(&database), tables(&database)), (2, 0), "it is not its turn");
            is_released.store(true, Ordering::Release);
            match first.join().unwrap() {
                Ok(true) if !fails => {}
                Err(error) if fails => assert_eq!(error.kind(), ErrorKind::NoSpace),
                other => panic!("{other:?}"),
            }
            assert!(second.join().unwrap().unwrap());
        });
        fs.on_call(None);
        if fails {
            assert_eq!((left(&database), tables(&database)), (2, 0), "none is installed");
            assert_eq!(progress.rest_of(1000), 1000);
            let failures = || lock(&database.background.jobs).failures.len();
            assert_eq!(failures(), 1, "the failure of the older one stays noted");
            let files = fs.list(Path::new(DIR)).unwrap();
            let is_table = |name: &Path| name.extension().is_some_and(|end| end == "table");
            assert!(!files.iter().any(|file| is_table(Path::new(&file.name))), "{files:?}");
            while flush_next(&database.job_rooms()).unwrap() {}
            assert_eq!(failures(), 0);
        }
        assert_eq!((left(&database), tables(&database)), (0, 2));
        assert_eq!(flushing(), 0);
        drop((database, held));
        assert_eq!(contents(&open(&killed(&fs)), "default", None), expected(2));
    }
}
