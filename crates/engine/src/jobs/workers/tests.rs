//! A panic in a worker poisons the database, and no caller waits for ever (law H7).

use super::*;
use crate::{
    database::job_rooms::Waiting,
    engine::Engine,
    fixture::{
        DIR, compact_all, contents, flush, get, killed, not_stuck, open, options, put_range,
        settle, sync_wal, tree_options, try_put, until,
    },
    open::recovery,
    options::{Durability, EngineOptions, MEMTABLE_BYTES_MIN},
};
use siltdb_base::{
    clock::SystemClock,
    fs::mem::{CallKind, MemFs},
};
use std::{path::Path, sync::atomic::AtomicU64, thread, time::Instant};

/// The log is synced in each turn.
const SYNCED_SOON: Durability = Durability::Interval(Duration::ZERO);

fn open_with_workers(fs: &MemFs) -> Engine {
    let options = EngineOptions { workers: 2, memtable_bytes: MEMTABLE_BYTES_MIN, ..options(fs) };
    Engine::open(Path::new(DIR), options).unwrap()
}

/// Makes threads whose names begin with `worker` panic before calls of `kind`, and counts the
/// panics.
fn panic_in(fs: &MemFs, worker: &'static str, kind: CallKind) -> Arc<AtomicU64> {
    let panics = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&panics);
    fs.on_call(Some(Arc::new(move |call| {
        let is_worker = thread::current().name().is_some_and(|name| name.starts_with(worker));
        if call.kind == kind && is_worker {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("a panic on purpose");
        }
    })));
    panics
}

#[test]
fn a_panic_in_any_worker_poisons_the_database_and_close_returns() {
    let panics_at = [
        ("silt-flush", CallKind::Create),
        ("silt-flush", CallKind::Sync),
        ("silt-compact", CallKind::Create),
        ("silt-compact", CallKind::SyncDir),
        ("silt-sync", CallKind::Sync),
        ("silt-log", CallKind::OpenLog),
    ];
    for (worker, kind) in panics_at {
        let fs = MemFs::new();
        let engine = open_with_workers(&fs);
        let panics = panic_in(&fs, worker, kind);
        let acknowledged = {
            let engine = engine.clone();
            not_stuck(move || write_until_poisoned(&engine))
        };
        assert!(panics.load(Ordering::Relaxed) > 0);
        assert!(acknowledged > 0);
        let last = key(acknowledged - 1);
        assert_eq!(get(&engine, "default", last.as_bytes()), Some(vec![7; 100]), "reads go on");
        for work in [flush, settle, compact_all, sync_wal] {
            let engine = engine.clone();
            let error = not_stuck(move || work(&engine)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Poisoned, "{worker}");
        }
        let closed = not_stuck(move || engine.close());
        assert_eq!(closed.unwrap_err().kind(), ErrorKind::Poisoned, "{worker}");
        fs.on_call(None);
        // The record of the failed write may be in the log already.
        let found = contents(&open(&killed(&fs)), "default", None).len();
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{worker}");
    }
}

/// Keys in no order, so that tables overlap and must be merged.
fn key(number: usize) -> String {
    format!("{:06}", number * 7919 % 1_000_000)
}

/// Puts until one fails, and keeps every worker busy. Returns the number of acknowledged puts.
fn write_until_poisoned(engine: &Engine) -> usize {
    for number in 0.. {
        let key = key(number);
        let pair = (key.as_bytes(), &[7; 100][..]);
        if let Err(error) = try_put(engine, "default", pair.0, pair.1, SYNCED_SOON) {
            assert_eq!(error.kind(), ErrorKind::Poisoned);
            return number;
        }
    }
    unreachable!("writes were accepted for ever")
}

/// The interval counts from one sync to the next: a check that comes too early does not delay the
/// sync by half an interval.
#[test]
fn commits_are_synced_when_their_interval_is_over() {
    const INTERVAL: Duration = Duration::from_millis(200);
    let fs = MemFs::new();
    let clock = Arc::new(SystemClock::default());
    let options = EngineOptions { workers: 1, clock, ..options(&fs) };
    let engine = Engine::open(Path::new(DIR), options).unwrap();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&starts);
    fs.on_call(Some(Arc::new(move |call| {
        if call.kind == CallKind::Sync && thread::current().name() == Some("silt-sync") {
            lock(&noted).push(Instant::now());
            thread::sleep(INTERVAL / 2 - Duration::from_millis(5));
        }
    })));
    let gaps = || -> Vec<Duration> {
        lock(&starts).windows(2).map(|pair| pair[1].duration_since(pair[0])).collect()
    };
    until(|| {
        try_put(&engine, "default", b"key", b"value", Durability::Interval(INTERVAL)).unwrap();
        thread::sleep(Duration::from_millis(1));
        gaps().len() == 5
    });
    // The shortest interval: on a busy machine others may be longer.
    assert!(gaps().into_iter().min().unwrap() < INTERVAL * 5 / 4, "{:?}", gaps());
}

/// The number of threads that are there after an opening, and what ends them.
fn threads_after(open: impl FnOnce(&Database)) -> (usize, Arc<Database>, Workers) {
    let fs = MemFs::new();
    let options = EngineOptions { workers: 2, ..options(&fs) };
    let opened = recovery::open(Path::new(DIR), options, Waiting::ForWorkers);
    let database = Arc::new(opened.unwrap().0);
    let workers = Workers::start(&database).unwrap();
    open(&database);
    let count = lock(&workers.threads).len();
    (count, database, workers)
}

#[test]
fn an_opening_starts_one_thread_and_the_others_when_there_is_need_or_time() {
    // Those of the log, of syncs, of flushes, and two for compactions.
    let all = 5;
    // On a busy machine the time may be over before the first look.
    let is_one = (0..50).any(|_| {
        let (count, database, workers) = threads_after(|_| {});
        until(|| lock(&workers.threads).len() == all);
        workers.end(&database);
        assert!(lock(&workers.threads).is_empty());
        count == 1
    });
    assert!(is_one, "an opening starts threads that nothing needs yet");
    let raises: [fn(&Database); 3] = [
        |database| database.background.work.raise(),
        |database| database.log.work.raise(),
        |database| database.log.sync_work.raise(),
    ];
    for raise in raises {
        let is_prompt = (0..50).any(|_| {
            let start = Instant::now();
            let (_, database, workers) = threads_after(raise);
            until(|| lock(&workers.threads).len() == all);
            let time = start.elapsed();
            workers.end(&database);
            time < super::OPENING_PEACE / 2
        });
        assert!(is_prompt, "a thread that is needed waits for the end of the peace");
    }
}

#[test]
fn a_close_while_threads_are_being_started_leaves_none() {
    for pause_us in 0..300 {
        let (_, database, workers) = threads_after(|database| database.background.work.raise());
        thread::sleep(Duration::from_micros(pause_us));
        workers.end(&database);
        assert!(lock(&workers.threads).is_empty());
        // None of them holds it.
        assert_eq!(Arc::strong_count(&database), 1);
    }
}

/// Compaction threads look for work when a flush ends, which is when users call settle.
#[test]
fn settling_leaves_nothing_to_do_whoever_looked_first() {
    let fs = MemFs::new();
    let engine = open_with_workers(&fs);
    for round in 0..500 {
        for table in 0..4 {
            put_range(&engine, "a", 0..4, format!("{round} {table}").as_bytes());
            flush(&engine).unwrap();
        }
        settle(&engine).unwrap();
        let view = engine.database().catalog.families.named("default").unwrap().tree.view();
        let runs = view.version.levels()[0].runs();
        assert!(runs < tree_options().level0_runs_trigger as usize, "{runs}, round {round}");
    }
}

#[test]
fn what_was_left_to_compact_is_left_alone_for_a_while_and_then_compacted() {
    let fs = MemFs::new();
    let engine = open(&fs);
    for value in 1..7 {
        put_range(&engine, "a", 0..300, &[value]);
        flush(&engine).unwrap();
    }
    engine.close().unwrap();
    let start = Instant::now();
    let engine = open_with_workers(&fs);
    until(|| engine.database().stats().compactions > 0);
    assert!(start.elapsed() >= super::OPENING_PEACE);
    engine.close().unwrap();
}

#[test]
fn what_was_flushed_is_freed_by_a_worker_and_without_workers_at_once() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let bytes = |engine: &Engine| engine.database().stats().memtable_bytes;
    put_range(&engine, "a", 0..300, &[7]);
    assert!(bytes(&engine) > 0);
    flush(&engine).unwrap();
    assert_eq!(bytes(&engine), 0);
    engine.close().unwrap();
    let engine = open_with_workers(&fs);
    for _ in 0..100 {
        put_range(&engine, "a", 0..300, &[7]);
        flush(&engine).unwrap();
        until(|| bytes(&engine) == 0);
    }
    engine.close().unwrap();
}

#[test]
fn a_close_leaves_nothing_to_be_freed() {
    let fs = MemFs::new();
    for _ in 0..200 {
        let engine = open_with_workers(&fs);
        put_range(&engine, "a", 0..300, &[7]);
        flush(&engine).unwrap();
        engine.close().unwrap();
        assert_eq!(engine.database().stats().memtable_bytes, 0);
    }
}
