//! A checkpoint is whole or absent, holds what was acknowledged before it was made, and is
//! independent of the database afterwards.

use super::*;
use siltdb_base::{
    error::ErrorKind,
    fs::mem::{CallKind, Crash, FaultError, MemFs},
};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::{
    catalog::family::FamilyChanges,
    engine::Engine,
    fixture::{
        DIR, FaultyCall, Pairs, commit_with_families, compact_all, contents, create_family,
        drop_family, fail_each_call, fault, files, flush, get, held_up, killed, not_stuck, open,
        options, picture, prepare_family, put, put_range, stop_call, stop_edit, tree_options,
        try_ingest, try_put,
    },
    options::Durability,
    transactions::conditional_commit::Conditions,
};
use std::{ops::ControlFlow, path::PathBuf, sync::Arc, thread};

const COPY: &str = "copies/first";

/// A database with tables, several families, frozen generations and a log that is not flushed.
fn filled(fs: &MemFs) -> Engine {
    let engine = open(fs);
    create_family(&engine, "other", tree_options()).unwrap();
    for value in 1..5 {
        put_range(&engine, "a", 0..200, &[value; 50]);
        put(&engine, "other", b"key", &[value]);
        flush(&engine).unwrap();
    }
    create_family(&engine, "empty", tree_options()).unwrap();
    // Two generations and a half.
    put_range(&engine, "b", 0..1200, &[7; 100]);
    put(&engine, "other", b"key", b"unflushed");
    engine
}

/// The contents of each family.
fn all(engine: &Engine) -> Vec<(String, Pairs)> {
    let of = |name: String| (name.clone(), contents(engine, &name, None));
    engine.database().catalog.families.names().into_iter().map(of).collect()
}

fn make(engine: &Engine, dir: &Path) -> Result<Checkpoint> {
    let mut go_on = |_| ControlFlow::Continue(());
    let request = CheckpointRequest::default();
    engine.at_work(|database| checkpoint(database, dir, &request, &mut go_on))
}

fn open_copy(fs: &MemFs) -> Engine {
    Engine::open(Path::new(COPY), options(fs)).unwrap()
}

fn is_there(fs: &MemFs) -> bool {
    fs.metadata(Path::new(COPY)).unwrap().is_some()
}

#[test]
fn a_checkpoint_holds_what_was_there_and_goes_its_own_way() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let expected = all(&engine);
    let made = make(&engine, Path::new(COPY)).unwrap();
    assert!(made.linked_files > 0 && made.copied_files > 1, "{made:?}");
    assert_eq!(made.sequence, engine.database().stats().sequence);
    // Neither sees changes of the other.
    put_range(&engine, "b", 0..1200, b"later");
    compact_all(&engine).unwrap();
    let copy = open_copy(&fs);
    assert!(all(&copy) == expected);
    let (ours, theirs) = (all(&engine), {
        put_range(&copy, "b", 0..600, b"other");
        drop_family(&copy, "other").unwrap();
        compact_all(&copy).unwrap();
        all(&copy)
    });
    assert!(all(&engine) == ours);
    copy.close().unwrap();
    engine.close().unwrap();
    assert!(all(&open(&fs)) == ours);
    assert!(all(&open_copy(&fs)) == theirs);
}

#[test]
fn a_checkpoint_is_durable_once_it_is_made() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let expected = all(&engine);
    make(&engine, Path::new(COPY)).unwrap();
    for seed in 0..10 {
        let lost = fs.crash_clone(Crash::PowerLoss { seed });
        assert!(all(&open_copy(&lost)) == expected, "seed {seed}");
        // Making it has synced the log.
        assert!(all(&open(&lost)) == expected, "seed {seed}");
    }
}

#[test]
fn a_checkpoint_of_a_closed_and_of_an_empty_database_opens() {
    let fs = MemFs::new();
    let engine = open(&fs);
    make(&engine, Path::new("empty")).unwrap();
    let empty = Engine::open(Path::new("empty"), options(&fs)).unwrap();
    assert!(contents(&empty, "default", None).is_empty());
    put_range(&engine, "a", 0..100, b"value");
    engine.close().unwrap();
    // Its log remains to be replayed.
    let engine = open(&fs);
    make(&engine, Path::new(COPY)).unwrap();
    assert!(all(&open_copy(&fs)) == all(&engine));
}

#[test]
fn commits_that_are_in_no_log_are_in_the_checkpoint() {
    let fs = MemFs::new();
    let engine = open(&fs);
    try_put(&engine, "default", b"volatile", b"1", Durability::Volatile).unwrap();
    make(&engine, Path::new(COPY)).unwrap();
    assert_eq!(contents(&open_copy(&fs), "default", None).len(), 1);
}

#[test]
fn where_nothing_can_be_linked_tables_are_copied() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let expected = all(&engine);
    fs.set_fault(fault(Some(CallKind::Link), 1, FaultError::Io));
    let made = make(&engine, Path::new(COPY)).unwrap();
    assert_eq!(fs.faults(), 1);
    assert!(made.linked_files > 0);
    assert!(all(&open_copy(&killed(&fs))) == expected);
}

/// While the log is copied, its generations are flushed and its files would be recycled.
#[test]
fn the_log_of_a_checkpoint_is_not_written_over_while_it_is_copied() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let expected = all(&engine);
    let log_copied = stop_call(&fs, |call| {
        call.kind == CallKind::Create && call.path.extension().is_some_and(|name| name == "log")
    });
    let copies = engine.clone();
    let copying = thread::spawn(move || make(&copies, Path::new(COPY)));
    log_copied.wait();
    for value in 1..9 {
        put_range(&engine, "c", 0..1200, &[value; 100]);
        flush(&engine).unwrap();
    }
    log_copied.go_on();
    copying.join().unwrap().unwrap();
    assert!(all(&open_copy(&fs)) == expected);
    // The files that it kept are recycled afterwards.
    put_range(&engine, "c", 0..1200, &[9; 100]);
    flush(&engine).unwrap();
    let logs = files(&fs, ".log").len();
    assert!(logs <= 4, "{logs} log files stay");
}

#[test]
fn what_is_in_the_way_is_refused_and_stays() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    fs.create_dir_all(Path::new(COPY)).unwrap();
    let file = Path::new(COPY).join("notes");
    fs.write_all(&file, b"mine").unwrap();
    let kind = |dir: &Path| make(&engine, dir).unwrap_err().kind();
    assert_eq!(kind(Path::new(COPY)), ErrorKind::AlreadyExists);
    assert_eq!(kind(&file), ErrorKind::AlreadyExists);
    assert_eq!(kind(Path::new(DIR)), ErrorKind::AlreadyExists);
    assert_eq!(kind(Path::new("/")), ErrorKind::AlreadyExists);
    assert_eq!(fs.read_all(&file).unwrap(), b"mine");
    // It is not taken for the rest of a killed checkpoint, either.
    fs.create_dir_all(Path::new("new.partial")).unwrap();
    fs.write_all(Path::new("new.partial/notes"), b"mine").unwrap();
    assert_eq!(kind(Path::new("new")), ErrorKind::AlreadyExists);
    assert_eq!(fs.read_all(Path::new("new.partial/notes")).unwrap(), b"mine");
    // An empty directory is accepted.
    fs.create_dir_all(Path::new("room")).unwrap();
    make(&engine, Path::new("room")).unwrap();
}

/// Power fails, or the process is killed, before each call; then each call fails.
#[test]
fn a_checkpoint_is_whole_or_not_there() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let expected = all(&engine);
    let (states, disk) = (Arc::new(std::sync::Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |call| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            lock(&seen).push(disk.crash_clone(crash));
        }
    })));
    make(&engine, Path::new(COPY)).unwrap();
    fs.on_call(None);
    let states = std::mem::take(&mut *lock(&states));
    assert!(states.len() > 30, "{}", states.len());
    let mut whole = 0;
    for state in &states {
        if is_there(state) {
            assert!(all(&open_copy(state)) == expected);
            whole += 1;
        }
        let engine = open(state);
        // The next one replaces the remaining files.
        if !is_there(state) {
            make(&engine, Path::new(COPY)).unwrap();
            assert!(all(&open_copy(state)) == all(&engine));
        }
    }
    assert!(whole > 0 && whole < states.len() / 2, "{whole} of {}", states.len());
}

#[test]
fn a_checkpoint_that_fails_leaves_the_database_as_it_was() {
    let ready = MemFs::new();
    drop(filled(&ready));
    let before = |engine: &Engine| (all(engine), picture(engine));
    fail_each_call(
        &ready,
        20,
        before,
        |engine| make(engine, Path::new(COPY)),
        |call| {
            let FaultyCall { fs, engine, before, is_err, nth } = call;
            assert!((all(&engine), picture(&engine)) == before, "call {nth}");
            // Only the sync of the new name comes after it.
            let is_named = fs.metadata(Path::new(COPY)).unwrap().is_some();
            assert!(is_named || is_err, "call {nth}");
            assert!(!is_named || all(&open_copy(&fs)) == all(&engine), "call {nth}");
        },
    );
}

#[test]
fn a_checkpoint_waits_for_an_ingest_that_has_its_place() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"a", b"old");
    let stopped = stop_edit(&fs);
    let ingesting = engine.clone();
    let done = held_up(move || try_ingest(&ingesting, "k", 0..10).unwrap());
    stopped.wait();
    let copying = engine.clone();
    let copied = held_up(move || make(&copying, Path::new(COPY)).unwrap());
    stopped.go_on();
    let (ingested, copied) = not_stuck(move || (done.recv().unwrap(), copied.recv().unwrap()));
    assert!(copied.sequence >= ingested.sequence);
    assert_eq!(contents(&open_copy(&fs), "default", None), contents(&engine, "default", None));
}

/// A family and its row in the default family are created and dropped together.
#[test]
fn a_checkpoint_has_a_family_and_its_row_or_neither() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let default = engine.database().catalog.families.named("default").unwrap().id;
    for number in 0..4_u8 {
        let (mut batch, mut changes) = (BatchBytes::new(), FamilyChanges::default());
        if number > 0 {
            changes.dropped.push(engine.database().catalog.families.named("row").unwrap().id);
            batch.delete(default, b"row").unwrap();
        }
        if number < 3 {
            let family = prepare_family(&engine, "row", tree_options()).unwrap();
            batch.put(default, b"row", &[number]).unwrap();
            batch.put(family.id, b"key", &[number]).unwrap();
            changes.created.push(family);
        }
        commit_with_families(
            &engine,
            &batch,
            &changes,
            &Conditions::none(&engine.database().options),
        )
        .unwrap();
        let dir = PathBuf::from(format!("copy{number}"));
        make(&engine, &dir).unwrap();
        let copy = Engine::open(&dir, options(&fs)).unwrap();
        let expected = (number < 3).then(|| vec![number]);
        assert_eq!(get(&copy, "default", b"row"), expected);
        match expected {
            None => assert_eq!(copy.database().catalog.families.names(), ["default"]),
            Some(value) => assert_eq!(get(&copy, "row", b"key"), Some(value)),
        }
    }
}
