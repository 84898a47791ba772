//! What a move waits for, what it gives way to, and what becomes of a copy that is not needed.

use super::*;
use crate::{
    database::writable::Writable,
    engine::Engine,
    families::family_options::change_options,
    fixture::{
        DIR, compact_all, contents, fault, flush, held_up, open, options, put_range, run_job,
        settle, stop_call,
    },
    jobs::request::{CompactControl, compact_family},
    options::EngineOptions,
};
use siltdb_base::{
    cancel::CancelToken,
    fs::{
        Fs,
        mem::{Call, CallKind, FaultError, MemFs},
    },
};
use std::path::{Path, PathBuf};

fn tiered(fs: &MemFs, workers: usize) -> EngineOptions {
    let cold_directory = Some(PathBuf::from("../cold"));
    EngineOptions { cold_directory, workers, ..options(fs) }
}

/// One level of some tables.
fn filled(fs: &MemFs) -> Engine {
    let engine = Engine::open(Path::new(DIR), tiered(fs, 0)).unwrap();
    put_range(&engine, "a", 0..300, &[7; 50]);
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    engine
}

fn family(engine: &Engine) -> Arc<FamilyData> {
    engine.database().catalog.families.named("default").unwrap()
}

fn freeze_family(engine: &Engine, rate: Option<u64>, on_progress: OnProgress<'_>) -> Result<()> {
    engine.at_work(|database| freeze(&database.job_rooms(), &family(engine), rate, on_progress))
}

fn set_level(engine: &Engine, cold_from_level: u32) {
    let family = family(engine);
    let options = TreeOptions::clone(&family.tree.options());
    let options = TreeOptions { cold_from_level, ..options };
    engine.at_work(|database| change_options(&database.installer(), &family, options)).unwrap();
}

/// One table of some is damaged, and all are to move.
fn with_a_damaged_table(fs: &MemFs) -> Engine {
    let engine = filled(fs);
    let view = family(&engine).tree.view().version.clone();
    let (_, first) = view.tables().next().unwrap();
    fs.bytes_flip(&engine.database().catalog.files.path(first.id().file), 20, 1).unwrap();
    drop(view);
    set_level(&engine, 0);
    engine
}

fn cold_files(fs: &MemFs) -> usize {
    let entries = fs.list(Path::new("cold")).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".table")).count()
}

/// Selects the write of a copy to the cold directory.
fn on_copy(call: &Call<'_>) -> bool {
    call.kind == CallKind::Sync && call.path.to_string_lossy().contains("cold")
}

#[test]
fn a_table_that_is_compacted_while_it_is_copied_stays_replaced() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    set_level(&engine, 0);
    let before = contents(&engine, "default", None);
    let stopped = stop_call(&fs, on_copy);
    let mover = engine.clone();
    let moved = held_up(move || run_job(&mover));
    stopped.wait();
    // All tables are rewritten meanwhile.
    put_range(&engine, "a", 0..300, &[8; 50]);
    compact_all(&engine).unwrap();
    let now = contents(&engine, "default", None);
    stopped.go_on();
    assert!(moved.recv().unwrap().unwrap());
    assert_eq!(engine.database().stats().moved_tables, 0, "what was copied is not there any more");
    assert_eq!(cold_files(&fs), 0);
    assert!(contents(&engine, "default", None) == now && now != before);
    settle(&engine).unwrap();
    assert_eq!(engine.database().stats().hot_bytes, 0);
    assert!(contents(&engine, "default", None) == now);
}

#[test]
fn a_move_that_the_options_no_longer_want_is_given_up_at_the_end() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    set_level(&engine, 0);
    let stopped = stop_call(&fs, on_copy);
    let mover = engine.clone();
    let moved = held_up(move || run_job(&mover));
    stopped.wait();
    set_level(&engine, 7);
    stopped.go_on();
    assert!(moved.recv().unwrap().unwrap());
    assert_eq!((engine.database().stats().cold_tables, cold_files(&fs)), (0, 0));
}

#[test]
fn one_table_moves_at_a_time_and_a_freeze_waits_for_the_other_move() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    set_level(&engine, 0);
    let stopped = stop_call(&fs, on_copy);
    let mover = engine.clone();
    let moved = held_up(move || run_job(&mover));
    stopped.wait();
    assert!(!move_next(&engine.database().job_rooms()).unwrap(), "another thread moves one");
    let freezer = engine.clone();
    let frozen = held_up(move || {
        let mut go_on = |_| ControlFlow::Continue(());
        freeze_family(&freezer, None, &mut go_on)
    });
    stopped.go_on();
    assert!(moved.recv().unwrap().unwrap());
    frozen.recv().unwrap().unwrap();
    assert_eq!(engine.database().stats().hot_bytes, 0);
}

#[test]
fn a_damaged_table_is_tried_once_and_holds_up_no_other() {
    let fs = MemFs::new();
    let engine = with_a_damaged_table(&fs);
    let error = settle(&engine).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    settle(&engine).unwrap();
    let stats = engine.database().stats();
    assert_eq!(stats.tables.iter().sum::<u64>() - stats.cold_tables, 1);
    assert_eq!(cold_files(&fs) as u64, stats.cold_tables);
    assert!(
        engine.database().background_error().is_some_and(|e| e.kind() == ErrorKind::Corruption)
    );
    // A request tries again.
    let refused = freeze_family(&engine, None, &mut |_| ControlFlow::Continue(()));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_freeze_does_not_wait_for_a_table_that_the_background_gives_up() {
    let fs = MemFs::new();
    let engine = with_a_damaged_table(&fs);
    let (mut calls, mut in_background) = (0, None);
    let frozen = freeze_family(&engine, None, &mut |_| {
        calls += 1;
        // The background comes first, after the freeze has begun.
        in_background.get_or_insert_with(|| settle(&engine).unwrap_err().kind());
        if calls < 50 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!(in_background, Some(ErrorKind::Corruption));
    assert_eq!(frozen.unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_close_ends_a_move_and_a_freeze() {
    let fs = MemFs::new();
    let mut options = tiered(&fs, 1);
    // A table takes seconds.
    options.tier_rate = crate::options::TIER_RATE_MIN;
    options.clock = Arc::new(siltdb_base::clock::SystemClock::default());
    let engine = Engine::open(Path::new(DIR), options).unwrap();
    put_range(&engine, "a", 0..2000, &[7; 100]);
    flush(&engine).unwrap();
    set_level(&engine, 0);
    crate::fixture::until(|| lock(&engine.database().background.jobs).is_moving);
    engine.close().unwrap();
    let engine = open(&fs);
    assert_eq!(engine.database().stats().cold_tables, 0);
    assert_eq!(cold_files(&fs), 0, "no orphan is left");
    let closer = engine.clone();
    let mut closing = None;
    let frozen = freeze_family(&engine, Some(1000), &mut |_| {
        closing.get_or_insert_with(|| {
            let closer = closer.clone();
            std::thread::spawn(move || closer.close())
        });
        crate::fixture::until(|| closer.database().health.check_open().is_err());
        ControlFlow::Continue(())
    });
    assert_eq!(frozen.unwrap_err().kind(), ErrorKind::Closed);
    closing.unwrap().join().unwrap().unwrap();
}

#[test]
fn a_manual_compaction_keeps_tables_from_moving_until_it_is_done() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    set_level(&engine, 0);
    put_range(&engine, "a", 0..300, &[9; 50]);
    flush(&engine).unwrap();
    let moved_meanwhile = std::cell::Cell::new(0);
    let (token, running) = (CancelToken::new(), engine.clone());
    let mut look = |_| {
        // Between two steps.
        moved_meanwhile.set(
            moved_meanwhile.get() + u64::from(move_next(&running.database().job_rooms()).unwrap()),
        );
    };
    let mut control = CompactControl::new(&token, &mut look);
    let compact = |database: Writable<'_>| {
        compact_family(&database.job_rooms(), &family(&engine), &mut control)
    };
    engine.at_work(compact).unwrap();
    assert_eq!(moved_meanwhile.get(), 0);
    assert_eq!(engine.database().stats().table_entries, 300);
    assert!(move_next(&engine.database().job_rooms()).unwrap());
}

#[test]
fn a_failing_manifest_leaves_the_table_where_it_is_and_no_copy() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    set_level(&engine, 0);
    let before = contents(&engine, "default", None);
    // The next fill is that of the edit.
    fs.set_fault(fault(Some(CallKind::Fill), 1, FaultError::Io));
    let error = settle(&engine).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    assert_eq!(engine.database().stats().cold_tables, 0);
    assert_eq!(cold_files(&fs), 1, "the edit may be durable, so the copy stays");
    assert!(contents(&engine, "default", None) == before);
    drop(engine);
    let engine = open(&fs);
    assert!(contents(&engine, "default", None) == before);
    assert_eq!(cold_files(&fs) as u64, engine.database().stats().cold_tables);
}
