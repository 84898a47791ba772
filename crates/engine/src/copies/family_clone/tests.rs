//! A clone is whole or not there, sees what its source held, and keeps the files that it needs.

use super::*;
use crate::{
    engine::Engine,
    fixture::{
        FaultyCall, Pairs, assert_sound, clone_family, commit_payload, compact, compact_all,
        contents, create_family, drop_family, fail_each_call, files, filled, flush, killed, open,
        options, picture, put, put_range, settle, snapshot, sync_wal, try_put,
    },
    options::Durability,
    write::commit::Payload,
};
use siltdb_base::{
    fs::mem::{Crash, MemFs},
    key::EntryKind,
    limits::FAMILY_NAME_BYTES_MAX,
};
use std::sync::Mutex;

fn named(engine: &Engine, name: &str) -> Arc<FamilyData> {
    engine.database().catalog.families.named(name).unwrap()
}

fn clone(engine: &Engine, source: &str, name: &str) -> Result<Arc<FamilyData>> {
    clone_family(engine, &named(engine, source), name, None)
}

/// What each family holds.
fn all(engine: &Engine) -> Vec<(String, Pairs)> {
    let of = |name: String| (name.clone(), contents(engine, &name, None));
    engine.database().catalog.families.names().into_iter().map(of).collect()
}

#[test]
fn a_clone_holds_what_its_source_held_and_goes_its_own_way() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let before = contents(&engine, "default", None);
    clone(&engine, "default", "copy").unwrap();
    assert!(contents(&engine, "copy", None) == before);
    // Nothing of the source is newer, so that the clone sees its tables whole, at no cost.
    let [source, copy] = ["default", "copy"].map(|name| named(&engine, name).tree.view());
    assert!(source.version.references().eq(copy.version.references()));
    put_range(&engine, "a", 0..50, b"later");
    put(&engine, "copy", b"own", b"1");
    compact_all(&engine).unwrap();
    let mut own = before.clone();
    own.push((b"own".to_vec(), b"1".to_vec()));
    assert!(contents(&engine, "copy", None) == own);
    assert!(contents(&engine, "default", None) != before);
    let expected = all(&engine);
    assert!(all(&open(&killed(&fs))) == expected);
    engine.close().unwrap();
    assert!(all(&open(&fs)) == expected);
}

#[test]
fn nothing_is_flushed_for_a_source_that_has_nothing_in_memory() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    flush(&engine).unwrap();
    put(&engine, "other", b"key", b"in memory");
    let flushes = engine.database().stats().flushes;
    clone(&engine, "default", "copy").unwrap();
    assert_eq!(engine.database().stats().flushes, flushes);
    // Nor for what was written after the moment.
    let moment = snapshot(&engine);
    put(&engine, "default", b"later", b"");
    clone_family(&engine, &named(&engine, "default"), "at", Some(&moment)).unwrap();
    assert_eq!(engine.database().stats().flushes, flushes);
    assert!(contents(&engine, "at", None) == contents(&engine, "copy", None));
    clone(&engine, "other", "second").unwrap();
    assert_eq!(engine.database().stats().flushes, flushes + 1);
    assert!(contents(&engine, "second", None) == contents(&engine, "other", None));
}

/// The tables of the source have entries of before and after the moment.
#[test]
fn a_clone_at_a_snapshot_sees_what_the_snapshot_sees() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..300, &[1; 50]);
    let moment = snapshot(&engine);
    let expected = contents(&engine, "default", None);
    put_range(&engine, "a", 100..400, &[2; 50]);
    flush(&engine).unwrap();
    let source = named(&engine, "default");
    clone_family(&engine, &source, "copy", Some(&moment)).unwrap();
    drop(moment);
    let references = picture(&engine);
    assert!(contents(&engine, "copy", None) == expected);
    compact(&engine, &source).unwrap();
    assert!(contents(&engine, "copy", None) == expected);
    compact(&engine, &named(&engine, "copy")).unwrap();
    assert!(contents(&engine, "copy", None) == expected);
    assert_ne!(picture(&engine), references);
    assert!(contents(&open(&killed(&fs)), "copy", None) == expected);
}

#[test]
fn a_volatile_commit_is_in_the_clone_whatever_crashes() {
    let fs = MemFs::new();
    let engine = open(&fs);
    try_put(&engine, "default", b"volatile", b"1", Durability::Volatile).unwrap();
    clone(&engine, "default", "copy").unwrap();
    for seed in 0..4 {
        let lost = open(&fs.crash_clone(Crash::PowerLoss { seed }));
        assert_eq!(contents(&lost, "copy", None), contents(&engine, "default", None));
    }
}

/// The power is lost, or the process killed, before each call.
#[test]
fn a_clone_is_whole_or_not_there() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    sync_wal(&engine).unwrap();
    let expected = contents(&engine, "default", None);
    let (states, disk) = (Arc::new(Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |call| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            lock(&seen).push(disk.crash_clone(crash));
        }
    })));
    clone(&engine, "default", "copy").unwrap();
    fs.on_call(None);
    let mut states = std::mem::take(&mut *lock(&states));
    let inside = states.len();
    assert!(inside > 10, "{inside}");
    // And after it has returned.
    states.extend((0..5).map(|seed| fs.crash_clone(Crash::PowerLoss { seed })));
    let mut whole = 0;
    for (number, state) in states.iter().enumerate() {
        let engine = open(state);
        let is_there = engine.database().catalog.families.named("copy").is_ok();
        assert!(is_there || number < inside, "a clone that was made is lost");
        assert!(contents(&engine, "default", None) == expected, "state {number}");
        if is_there {
            whole += 1;
            assert!(contents(&engine, "copy", None) == expected, "state {number}");
            drop_family(&engine, "copy").unwrap();
        }
        // The name is free again, and no file is left over.
        clone(&engine, "default", "copy").unwrap();
        assert!(contents(&engine, "copy", None) == expected, "state {number}");
        assert_sound(&engine);
    }
    assert!(whole > 5 && whole < states.len(), "{whole} of {}", states.len());
}

#[test]
fn a_clone_that_fails_leaves_no_family_and_no_file() {
    let ready = MemFs::new();
    drop(filled(&ready));
    fail_each_call(
        &ready,
        5,
        all,
        |engine| clone(engine, "default", "copy"),
        |call| {
            let FaultyCall { fs, engine, before, is_err, nth } = call;
            assert!(!is_err || all(&engine) == before, "call {nth}");
            let is_poisoned = engine.database().health.failure().is_some();
            assert!(is_poisoned || clone(&engine, "default", "again").is_ok(), "call {nth}");
            drop(engine);
            let engine = open(&fs);
            assert!(engine.database().catalog.families.names().len() <= 5, "call {nth}");
            assert!(contents(&engine, "default", None) == before[0].1, "call {nth}");
        },
    );
}

#[test]
fn the_space_of_shared_tables_comes_back_with_the_last_family() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..300, &[1; 50]);
    compact_all(&engine).unwrap();
    let (expected, shared) = (contents(&engine, "default", None), files(&fs, ".table"));
    assert!(!shared.is_empty());
    clone(&engine, "default", "first").unwrap();
    clone(&engine, "first", "second").unwrap();
    let default = named(&engine, "default");
    let payload = Payload::one(&default, EntryKind::RangeDelete, b"a", b"b");
    commit_payload(&engine, &payload).unwrap();
    compact_all(&engine).unwrap();
    settle(&engine).unwrap();
    assert!(contents(&engine, "default", None).is_empty());
    assert!(default.tree.view().version.is_empty(), "the clones alone need the files");
    for name in ["first", "second"] {
        for again in [killed(&fs), fs.crash_clone(Crash::PowerLoss { seed: 1 })] {
            assert!(contents(&open(&again), name, None) == expected, "{name}");
        }
        drop_family(&engine, name).unwrap();
        // The purge comes with the next job.
        put(&engine, "default", name.as_bytes(), b"");
        flush(&engine).unwrap();
    }
    let left = files(&fs, ".table");
    assert!(shared.iter().all(|file| !left.contains(file)), "{shared:?} and {left:?}");
    drop(engine);
    let engine = open(&fs);
    assert_eq!(files(&fs, ".table"), left, "an orphan");
    assert_sound(&engine);
}

#[test]
fn what_cannot_be_cloned_is_refused_by_name() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let flushes = engine.database().stats().flushes;
    let kind = |source: &FamilyData, name: &str| {
        clone_family(&engine, source, name, None).unwrap_err().kind()
    };
    let default = named(&engine, "default");
    assert_eq!(kind(&default, "default"), ErrorKind::AlreadyExists);
    assert_eq!(kind(&default, "other"), ErrorKind::AlreadyExists);
    assert_eq!(kind(&default, ""), ErrorKind::InvalidArgument);
    let long = "n".repeat(FAMILY_NAME_BYTES_MAX + 1);
    assert_eq!(kind(&default, &long), ErrorKind::InvalidArgument);
    let other = named(&engine, "other");
    drop_family(&engine, "other").unwrap();
    assert_eq!(kind(&other, "copy"), ErrorKind::NotFound);
    assert_eq!(
        engine.database().stats().flushes,
        flushes,
        "a clone that cannot be was flushed for"
    );
    assert_eq!(engine.database().catalog.families.names(), ["default"]);
    clone_family(&engine, &default, &long[1..], None).unwrap();
    engine.close().unwrap();
    assert_eq!(kind(&default, "copy"), ErrorKind::Closed);
}

#[test]
fn a_manifest_that_is_begun_anew_has_the_clones() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..300, &[1; 50]);
    let moment = snapshot(&engine);
    put_range(&engine, "a", 0..300, &[2; 50]);
    let default = named(&engine, "default");
    clone_family(&engine, &default, "copy", Some(&moment)).unwrap();
    let expected = (picture(&engine), all(&engine));
    engine.close().unwrap();
    // The next edit begins a manifest with a snapshot of all there was.
    crate::fixture::leave_manifest_unfinished(&fs);
    let engine = open(&fs);
    flush(&engine).unwrap();
    create_family(&engine, "another", options(&fs).tree).unwrap();
    drop_family(&engine, "another").unwrap();
    let again = open(&killed(&fs));
    assert_eq!((picture(&again), all(&again)), expected);
}
