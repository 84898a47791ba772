//! A lock waits for commits that already hold a place.

use super::*;
use crate::{
    catalog::family::DEFAULT_FAMILY,
    engine::Engine,
    fixture::{DIR, get, killed, not_stuck, open, options, put, try_put},
    log::sequencer::Counts,
    options::{Durability, EngineOptions},
    write::commit::commit_parts_if,
};
use siltdb_base::fs::mem::MemFs;
use siltdb_disk::log::record::RecordKind;
use std::{path::Path, sync::mpsc, thread, time::Duration};

const LONG: Duration = Duration::from_secs(60);

fn key(key: &[u8]) -> LockTarget {
    LockTarget::Key(Slice::copy_from(key))
}

/// A commit that has its place, has checked the flag, and is then delayed.
#[test]
fn a_lock_is_not_there_before_the_commits_that_did_not_see_it_are_published() {
    not_stuck(|| {
        let engine = open(&MemFs::new());
        let family = engine.database().catalog.families.named(DEFAULT_FAMILY).unwrap();
        let database = engine.database();
        let (has_looked, looked) = mpsc::channel();
        let (go_on, wait) = mpsc::channel();
        let (locked, is_locked) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let counts = Counts { all: 1, range_deletes: 0 };
                let admit = |_: &_| {
                    assert!(!family.lock_flag.is_set());
                    has_looked.send(()).unwrap();
                    wait.recv().unwrap();
                    Ok(())
                };
                commit_parts_if(database, RecordKind::Skip, &[], counts, admit, |_| ()).unwrap();
            });
            looked.recv().unwrap();
            let engine = &engine;
            scope.spawn(move || {
                let (holder, family) = (
                    LockHolder::new(&engine.database().locks),
                    engine.database().catalog.families.named("default").unwrap(),
                );
                acquire(
                    engine.writable().unwrap(),
                    &holder,
                    &family,
                    key(b"k"),
                    LockMode::Exclusive,
                    LONG,
                )
                .unwrap();
                locked.send(()).unwrap();
            });
            let early = is_locked.recv_timeout(Duration::from_millis(50));
            go_on.send(()).unwrap();
            early.expect_err("the lock did not wait for the commit");
            is_locked.recv().unwrap();
        });
    });
}

#[test]
fn a_family_is_flagged_while_it_has_locks_and_a_refused_commit_is_not_in_the_log() {
    let fs = MemFs::new();
    let options = EngineOptions { lock_timeout: Duration::ZERO, ..options(&fs) };
    let engine = Engine::open(Path::new(DIR), options).unwrap();
    let family = engine.database().catalog.families.named(DEFAULT_FAMILY).unwrap();
    put(&engine, DEFAULT_FAMILY, b"k", b"before");
    let (a, b) =
        (LockHolder::new(&engine.database().locks), LockHolder::new(&engine.database().locks));
    acquire(engine.writable().unwrap(), &a, &family, key(b"k"), LockMode::Exclusive, LONG).unwrap();
    acquire(engine.writable().unwrap(), &b, &family, key(b"l"), LockMode::Exclusive, LONG).unwrap();
    a.release();
    assert!(family.lock_flag.is_set(), "one lock of two was released");
    put(&engine, DEFAULT_FAMILY, b"k", b"after");
    let refused = try_put(&engine, DEFAULT_FAMILY, b"l", b"refused", Durability::Synced);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    put(&engine, DEFAULT_FAMILY, b"m", b"behind");
    let found = open(&killed(&fs));
    assert_eq!(get(&found, DEFAULT_FAMILY, b"k").unwrap(), b"after");
    assert_eq!(get(&found, DEFAULT_FAMILY, b"l"), None);
    assert_eq!(get(&found, DEFAULT_FAMILY, b"m").unwrap(), b"behind");
    drop(b);
    assert!(!family.lock_flag.is_set());
    put(&engine, DEFAULT_FAMILY, b"l", b"free");
}
