//! A missing log is noticed, and what that costs in syncs.

use crate::{
    engine::Engine,
    fixture::{DIR, contents, files, killed, open, options, put, try_put},
    options::{Durability, EngineOptions},
};
use siltdb_base::{
    error::ErrorKind,
    fs::{
        Fs,
        mem::{CallKind, MemFs},
    },
};
use siltdb_disk::log::recover::RecoveryMode;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

fn number_key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put_synced(engine: &Engine, number: u32) {
    try_put(engine, "default", &number_key(number), &[7; 100], Durability::Synced).unwrap();
}

/// The files of a process that was killed after 300 synced commits.
fn after_300() -> MemFs {
    let fs = MemFs::new();
    let engine = open(&fs);
    (0..300).for_each(|number| put_synced(&engine, number));
    killed(&fs)
}

/// Checks that an opening of what `damage` leaves fails, naming a log file.
fn is_missed(damage: impl Fn(&MemFs, &Path)) {
    let whole = after_300();
    let logs = files(&whole, ".log");
    let path = logs.last().unwrap();
    damage(&whole, path);
    let error = Engine::open(Path::new(DIR), options(&whole)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.file().is_some_and(|file| file.ends_with(".log")), "{error}");
    let lenient = EngineOptions { recovery: RecoveryMode::PointInTime, ..options(&whole) };
    let engine = Engine::open(Path::new(DIR), lenient).unwrap();
    assert!(contents(&engine, "default", None).len() < 300);
    engine.close().unwrap();
    // A damage that was accepted once is none any more.
    open(&whole).close().unwrap();
}

#[test]
fn a_synced_log_file_that_is_missing_is_missed() {
    is_missed(|fs, path| fs.remove(path).unwrap());
    is_missed(|fs, _| files(fs, ".log").iter().for_each(|path| fs.remove(path).unwrap()));
}

#[test]
fn a_synced_log_file_that_was_emptied_or_cut_is_missed() {
    is_missed(|fs, path| fs.truncate(path, 0).unwrap());
    is_missed(|fs, path| fs.truncate(path, 100).unwrap());
}

#[test]
fn the_error_names_the_file_that_is_missing() {
    let fs = after_300();
    let path = files(&fs, ".log").pop().unwrap();
    fs.remove(&path).unwrap();
    let error = Engine::open(Path::new(DIR), options(&fs)).unwrap_err();
    assert_eq!(error.file(), path.to_str());
}

#[test]
fn a_log_of_which_nothing_was_synced_may_be_gone() {
    let fs = MemFs::new();
    let engine = open(&fs);
    try_put(&engine, "default", b"k", b"v", Durability::Buffered).unwrap();
    let fs = killed(&fs);
    files(&fs, ".log").iter().for_each(|path| fs.remove(path).unwrap());
    assert!(contents(&open(&fs), "default", None).is_empty());
}

/// Syncs of files and directories from now on.
fn counted(fs: &MemFs) -> Arc<AtomicUsize> {
    let syncs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&syncs);
    fs.on_call(Some(Arc::new(move |call| {
        if matches!(call.kind, CallKind::Sync | CallKind::SyncDir) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    })));
    syncs
}

#[test]
fn opening_putting_and_closing_takes_few_syncs() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_synced(&engine, 0);
    engine.close().unwrap();
    for number in 1..=20 {
        let syncs = counted(&fs);
        let engine = open(&fs);
        assert_eq!(syncs.load(Ordering::Relaxed), 0, "what was closed is durable");
        put_synced(&engine, number);
        engine.close().unwrap();
        let syncs = syncs.load(Ordering::Relaxed);
        assert!((1..=4).contains(&syncs), "{syncs} syncs at opening {number}");
    }
    // For commits that wait for no sync, the close makes the one edit.
    for number in 21..=30 {
        let syncs = counted(&fs);
        let engine = open(&fs);
        put(&engine, "default", &number_key(number), b"value");
        engine.close().unwrap();
        let syncs = syncs.load(Ordering::Relaxed);
        assert!((1..=3).contains(&syncs), "{syncs} syncs at opening {number}");
    }
    // A reader makes no sync.
    let syncs = counted(&fs);
    let engine = open(&fs);
    assert_eq!(contents(&engine, "default", None).len(), 31);
    engine.close().unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 0);
}

#[test]
fn each_segment_is_noted_once() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_synced(&engine, 0);
    let syncs = counted(&fs);
    (1..50).for_each(|number| put_synced(&engine, number));
    assert_eq!(syncs.load(Ordering::Relaxed), 49, "one sync a commit");
}

#[test]
fn the_manifest_stays_short_over_many_openings() {
    let fs = MemFs::new();
    let mut longest = 0;
    for number in 0..500 {
        let engine = open(&fs);
        put(&engine, "default", &number_key(number), b"value");
        engine.close().unwrap();
        let manifests = files(&fs, ".manifest");
        assert_eq!(manifests.len(), 1);
        longest = longest.max(fs.read_all(&manifests[0]).unwrap().len());
    }
    // The manifest is also appended to; otherwise each opening would write a snapshot.
    assert!((16 << 10..36 << 10).contains(&longest), "{longest} bytes");
}
