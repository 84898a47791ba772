//! What a follower shows of an ingest while it is made, and after a crash in it.

use super::*;
use siltdb_base::{cancel::CancelToken, fs::mem::MemFs};
use siltdb_disk::log::recover::RecoveryMode;
use siltdb_engine::{
    database::writable::Writable,
    engine::Engine,
    fixture::{
        DIR, contents, crash_states, create_family, files, flush, held_up, is_manifest, killed,
        not_stuck, open, options, put, put_range, snapshot, stop_call, sync_wal, tree_options,
        try_ingest,
    },
    jobs::request::{CompactControl, compact_range},
    options::Access,
};
use siltdb_tree::read::visible::bounds::Bounds;
use std::path::PathBuf;

fn follow(fs: &MemFs) -> Arc<DatabaseFollower> {
    Arc::new(DatabaseFollower::open(Path::new(DIR), options(fs)).unwrap())
}

#[test]
fn a_follower_shows_no_later_commit_before_an_ingest_is_in_the_manifest() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"a", b"old");
    let before = contents(&engine, "default", None);
    let follower = follow(&fs);
    // Not even written.
    let stopped = stop_call(&fs, |call| call.kind.is_mutating() && is_manifest(call.path));
    let ingesting = engine.clone();
    let done = held_up(move || try_ingest(&ingesting, "k", 0..10).unwrap());
    stopped.wait();
    // It fills its record, and waits for the ingest.
    let writer = engine.clone();
    let written = held_up(move || put(&writer, "default", b"z", b"later"));
    follower.catch_up().unwrap();
    assert_eq!(contents(&follower.state(), "default", None), before);
    stopped.go_on();
    not_stuck(move || (done.recv().unwrap(), written.recv().unwrap()));
    follower.catch_up().unwrap();
    let all = contents(&engine, "default", None);
    assert_eq!(all.len(), 12);
    assert_eq!(contents(&follower.state(), "default", None), all);
}

#[test]
fn after_a_crash_in_an_ingest_a_follower_shows_what_a_reader_shows() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "k", 0..40, b"flushed");
    flush(&engine).unwrap();
    put_range(&engine, "k", 20..60, b"memory");
    sync_wal(&engine).unwrap();
    let before = contents(&engine, "default", None);
    let states = crash_states(&fs, || {
        try_ingest(&engine, "k", 10..1200).unwrap();
    });
    let (mut whole, mut absent) = (0, 0);
    for (number, state) in states.iter().enumerate() {
        let read_only = EngineOptions { access: Access::ReadOnly, ..options(state) };
        let shown = contents(&Engine::open(Path::new(DIR), read_only).unwrap(), "default", None);
        let followed = contents(&follow(state).state(), "default", None);
        assert!(followed == shown, "state {number}");
        match shown == before {
            true => absent += 1,
            false => whole += 1,
        }
    }
    assert!(whole > 2 && absent > 20, "{whole} whole, {absent} absent");
}

/// The compaction has given the entries other numbers, and the log is cut before those of the
/// ingest.
#[test]
fn a_follower_shows_an_ingest_that_was_rewritten_without_its_place_in_the_log() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create_family(&engine, "other", tree_options()).unwrap();
    put(&engine, "other", b"logged", b"");
    // Because of it, the compaction keeps the numbers.
    let snapshot = snapshot(&engine);
    try_ingest(&engine, "m", 0..3).unwrap();
    try_ingest(&engine, "m", 1..4).unwrap();
    let family = engine.database().catalog.families.named("default").unwrap();
    let (token, mut on_progress) = (CancelToken::new(), |_| {});
    let mut control = CompactControl::new(&token, &mut on_progress);
    let compact = |database: Writable<'_>| {
        compact_range(&database.job_rooms(), &family, &Bounds::default(), &mut control)
    };
    engine.at_work(compact).unwrap();
    drop(snapshot);
    let fs = killed(&fs);
    let place = |path: &PathBuf| {
        let bytes = fs.read_all(path).unwrap();
        bytes.windows(6).position(|bytes| bytes == b"logged")
    };
    let logs = files(&fs, ".log");
    let (path, at) = logs.iter().find_map(|path| Some((path, place(path)?))).unwrap();
    fs.bytes_flip(path, at as u64, 1).unwrap();
    let recovery = RecoveryMode::PointInTime;
    drop(Engine::open(Path::new(DIR), EngineOptions { recovery, ..options(&fs) }).unwrap());
    assert_eq!(contents(&follow(&fs).state(), "default", None).len(), 4);
}
