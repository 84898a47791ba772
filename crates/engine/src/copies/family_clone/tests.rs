//! A clone is whole or not there, sees what its source held, and keeps the files that it needs.

use super::*;
use crate::{
    engine::Engine,
    fixture::{
        FaultyCall, Pairs, clone_family, compact, compact_all, contents, create_family,
        drop_family, fail_each_call, filled, flush, killed, open, options, picture, put, put_range,
        snapshot, try_put,
    },
    options::Durability,
};
use siltdb_base::{
    fs::mem::{Crash, MemFs},
    limits::FAMILY_NAME_BYTES_MAX,
};

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
