//! Ingests over crashes and failures at each call, beside writers, and over a damaged log.

use super::*;
use crate::{
    engine::Engine,
    fixture::{
        DIR, Pairs, compact_all, contents, create_family, fault, files, flush, get, held_up,
        killed, not_stuck, on_segments, open, options, picture, put, put_range, settle, snapshot,
        stop_call, stop_edit, sync_wal, tree_options, try_ingest, try_put,
    },
    jobs::request::{CompactControl, compact_range},
    options::{Access, Durability, EngineOptions},
};
use siltdb_base::{
    cancel::CancelToken,
    fs::mem::{CallKind, Crash, FaultError, MemFs},
    sync::lock as locked,
};
use siltdb_disk::{file_name::FileName, log::recover::RecoveryMode};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
};

fn ingest_range(engine: &Engine, prefix: &str, numbers: std::ops::Range<u32>) -> Ingested {
    try_ingest(engine, prefix, numbers).unwrap()
}

/// The tables that the manifest names, and those in the directory.
fn tables(engine: &Engine, fs: &MemFs) -> (BTreeSet<String>, BTreeSet<String>) {
    let families = engine.database().catalog.families.load();
    let mut named = BTreeSet::new();
    for family in families.iter() {
        for (_, table) in family.version().references() {
            named.insert(FileName::Table(table.file).to_string());
        }
    }
    let name = |path: std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    (named, files(fs, ".table").into_iter().map(name).collect())
}

/// Half of the keys are in the memtable, and so are others.
fn before_ingest(fs: &MemFs) -> (Engine, Pairs) {
    let engine = open(fs);
    put_range(&engine, "k", 0..40, b"flushed");
    flush(&engine).unwrap();
    put_range(&engine, "k", 20..60, b"memory");
    put_range(&engine, "other", 0..5, b"memory");
    let pairs = contents(&engine, "default", None);
    (engine, pairs)
}

#[test]
fn an_ingest_is_whole_or_absent_after_a_crash_at_each_call() {
    let fs = MemFs::new();
    let (engine, before) = before_ingest(&fs);
    sync_wal(&engine).unwrap();
    let states = Arc::new(Mutex::new(Vec::new()));
    let (all, source) = (Arc::clone(&states), fs.clone());
    fs.on_call(Some(Arc::new(move |call| {
        let seed = call.number;
        for crash in [Crash::Kill, Crash::PowerLoss { seed }, Crash::PowerLoss { seed: !seed }] {
            locked(&all).push((call.kind, crash, source.crash_clone(crash)));
        }
    })));
    // Several tables, over keys in memory, in tables and new ones.
    let ingested = ingest_range(&engine, "k", 10..1200);
    assert!(ingested.tables > 1);
    fs.on_call(None);
    let after = contents(&engine, "default", None);
    assert_ne!(before, after);
    let states = std::mem::take(&mut *locked(&states));
    let (mut whole, mut absent) = (0, 0);
    for (kind, crash, state) in states {
        // To be read only, it is as it will be to be written.
        let read_only = EngineOptions { access: Access::ReadOnly, ..options(&state) };
        let reader = Engine::open(Path::new(DIR), read_only).unwrap();
        let shown = contents(&reader, "default", None);
        drop(reader);
        let again = open(&state);
        let found = contents(&again, "default", None);
        match (found == before, found == after) {
            (true, _) => absent += 1,
            (_, true) => whole += 1,
            _ => panic!("in part after {crash:?} before {kind:?}"),
        }
        assert!(shown == found, "only read after {crash:?} before {kind:?}");
        let (named, there) = tables(&again, &state);
        assert_eq!(named, there, "after {crash:?} before {kind:?}");
        // What comes later is newer than it.
        put(&again, "default", b"k00011", b"later");
        assert_eq!(get(&again, "default", b"k00011").unwrap(), b"later");
    }
    assert!(whole > 2 && absent > 20, "{whole} whole, {absent} absent");
    let cut = open(&fs.crash_clone(Crash::PowerLoss { seed: 7 }));
    assert!(contents(&cut, "default", None) == after, "durable on return");
}

#[test]
fn an_ingest_that_fails_at_any_call_changes_nothing() {
    let mut failed = 0;
    for error in [FaultError::NoSpace, FaultError::Io] {
        for nth in 1.. {
            let fs = MemFs::new();
            let (engine, before) = before_ingest(&fs);
            fs.set_fault(fault(None, nth, error));
            let result = try_ingest(&engine, "k", 10..200);
            let is_met = fs.faults() > 0;
            fs.set_fault(None);
            match result {
                Ok(_) if !is_met => break,
                Ok(_) => continue,
                Err(_) => failed += 1,
            }
            if engine.database().health.check_log().is_ok() {
                assert!(contents(&engine, "default", None) == before, "call {nth} of {error:?}");
                not_stuck({
                    let engine = engine.clone();
                    move || put(&engine, "default", b"later", b"value")
                });
                settle(&engine).unwrap();
                let (named, there) = tables(&engine, &fs);
                assert!(there.is_superset(&named));
                ingest_range(&engine, "k", 10..200);
            }
            let state = killed(&fs);
            let again = open(&state);
            let (named, there) = tables(&again, &state);
            assert_eq!(named, there, "call {nth} of {error:?}");
        }
    }
    assert!(failed > 20, "{failed}");
}

/// The ingest has looked at the memtables, and waits for a log file. Meanwhile a key of it is
/// written.
#[test]
fn a_write_before_the_place_of_an_ingest_is_older_than_it() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"other", b"value");
    let stopped = stop_call(&fs, on_segments(CallKind::OpenLog));
    let ingesting = engine.clone();
    let done = held_up(move || ingest_range(&ingesting, "k", 0..10));
    stopped.wait();
    put(&engine, "default", b"k00005", b"memory");
    put(&engine, "default", b"z", b"memory");
    let before = snapshot(&engine);
    stopped.go_on();
    let ingested = not_stuck(move || done.recv().unwrap());
    assert!(ingested.sequence > before.sequence().0);
    assert_eq!(get(&engine, "default", b"k00005").unwrap(), b"table");
    let then = contents(&engine, "default", Some(before.sequence()));
    assert_eq!(then.len(), 3);
    assert_eq!(then[0], (b"k00005".to_vec(), b"memory".to_vec()));
    let again = open(&killed(&fs));
    assert_eq!(get(&again, "default", b"k00005").unwrap(), b"table");
}

#[test]
fn commits_behind_an_ingest_wait_for_it_and_readers_do_not() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"a", b"old");
    let stopped = stop_edit(&fs);
    let ingesting = engine.clone();
    let done = held_up(move || ingest_range(&ingesting, "k", 0..10));
    stopped.wait();
    assert_eq!(get(&engine, "default", b"k00001"), None);
    let writer = engine.clone();
    let written = held_up(move || put(&writer, "default", b"k00001", b"later"));
    assert_eq!(get(&engine, "default", b"a").unwrap(), b"old");
    stopped.go_on();
    not_stuck(move || (done.recv().unwrap(), written.recv().unwrap()));
    assert_eq!(get(&engine, "default", b"k00001").unwrap(), b"later");
    assert_eq!(get(&engine, "default", b"k00002").unwrap(), b"table");
}

#[test]
fn an_ingest_survives_moves_compactions_and_replays_of_the_manifest() {
    let fs = MemFs::new();
    let engine = open(&fs);
    for round in 0..6 {
        put_range(&engine, "k", 0..30, b"memory");
        ingest_range(&engine, "k", 10 * round..10 * round + 40);
        let again = open(&killed(&fs));
        assert_eq!(picture(&again), picture(&engine));
        assert_eq!(contents(&again, "default", None), contents(&engine, "default", None));
        if round % 2 == 1 {
            let pairs = contents(&engine, "default", None);
            settle(&engine).unwrap();
            assert_eq!(contents(&engine, "default", None), pairs);
        }
    }
    let pairs = contents(&engine, "default", None);
    compact_all(&engine).unwrap();
    assert_eq!(contents(&engine, "default", None), pairs);
    let family = engine.database().catalog.families.named("default").unwrap();
    let view = family.tree.view();
    assert!(view.version.references().all(|(_, table)| table.global_sequence.is_none()));
}

/// Level 0 has tables of mixed ages if entries before and behind an ingest are replayed into one
/// memtable.
#[test]
fn entries_around_an_ingest_in_level_0_are_flushed_apart_after_a_crash() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"a", b"1");
    put(&engine, "default", b"z", b"1");
    flush(&engine).unwrap();
    // Around the ingest, and of none of its keys.
    put(&engine, "default", b"b", b"1");
    put(&engine, "default", b"y", b"1");
    ingest_range(&engine, "k", 0..3);
    put(&engine, "default", b"c", b"1");
    put(&engine, "default", b"x", b"1");
    let pairs = contents(&engine, "default", None);
    assert_eq!(pairs.len(), 9);
    let fs = killed(&fs);
    let again = open(&fs);
    flush(&again).unwrap();
    assert_eq!(contents(&again, "default", None), pairs);
    compact_all(&again).unwrap();
    assert_eq!(contents(&again, "default", None), pairs);
}

/// What a kill leaves if the log is damaged where it has the key `logged`, and so lacks what
/// follows.
fn with_log_cut(fs: &MemFs) -> MemFs {
    let fs = killed(fs);
    let mut cuts = 0;
    for path in files(&fs, ".log") {
        let bytes = fs.read_all(&path).unwrap();
        if let Some(at) = bytes.windows(6).position(|bytes| bytes == b"logged") {
            fs.bytes_flip(&path, at as u64, 1).unwrap();
            cuts += 1;
        }
    }
    assert_eq!(cuts, 1);
    fs
}

/// A log that is cut before the place of an ingest: later commits are newer than it all the same.
#[test]
fn a_log_cut_before_an_ingest_gives_its_number_to_no_other() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"logged", b"");
    let ingested = ingest_range(&engine, "m", 0..3);
    let fs = with_log_cut(&fs);
    let recovery = RecoveryMode::PointInTime;
    let again = Engine::open(Path::new(DIR), EngineOptions { recovery, ..options(&fs) }).unwrap();
    assert_eq!(get(&again, "default", b"logged"), None);
    assert_eq!(get(&again, "default", b"m00001").unwrap(), b"table");
    assert!(again.database().log.publisher.published().0 >= ingested.sequence);
    try_put(&again, "default", b"m00001", b"later", Durability::Synced).unwrap();
    let last = open(&fs.crash_clone(Crash::PowerLoss { seed: 1 }));
    assert_eq!(get(&last, "default", b"m00001").unwrap(), b"later");
    assert_eq!(get(&last, "default", b"m00002").unwrap(), b"table");
}

/// The numbers of a compaction's output count as well: no reference gives them.
#[test]
fn an_ingest_that_was_rewritten_is_there_without_its_place_in_the_log() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create_family(&engine, "other", tree_options()).unwrap();
    put(&engine, "other", b"logged", b"");
    // Because of it, the compaction keeps the numbers.
    let snapshot = snapshot(&engine);
    ingest_range(&engine, "m", 0..3);
    let ingested = ingest_range(&engine, "m", 1..4);
    let family = engine.database().catalog.families.named("default").unwrap();
    let (token, mut on_progress) = (CancelToken::new(), |_| {});
    let mut control = CompactControl::new(&token, &mut on_progress);
    let compact = |database: Writable<'_>| {
        compact_range(&database.job_rooms(), &family, &Bounds::default(), &mut control)
    };
    engine.at_work(compact).unwrap();
    let view = family.tree.view();
    assert!(view.version.references().all(|(_, table)| table.global_sequence.is_none()));
    assert_eq!(engine.database().stats().flushes, 0, "the log still has what other families wrote");
    drop(snapshot);
    let fs = with_log_cut(&fs);
    let recovery = RecoveryMode::PointInTime;
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let options = EngineOptions { recovery, access, ..options(&fs) };
        let again = Engine::open(Path::new(DIR), options).unwrap();
        assert_eq!(again.database().log.publisher.published().0, ingested.sequence, "{access:?}");
        assert_eq!(contents(&again, "default", None).len(), 4, "{access:?}");
        assert_eq!(contents(&again, "other", None).len(), 0, "{access:?}");
    }
}
