//! Files are removed when no version refers to them, and not before (laws C6 and F7); jobs yield.

use super::*;
use crate::{
    database::Database,
    database::job_rooms::Waiting,
    database::writable::Writable,
    engine::Engine,
    fixture::{
        DIR, branches, clone_family, compact, compact_all, contents, create_family, drop_family,
        fault, files, flush, get, held_up, killed, leave_manifest_unfinished, not_stuck, open,
        options, pairs, put, put_range, run_job, settle, snapshot, stop_call, tree_options,
        try_put, until,
    },
    jobs::request::cancel_compactions,
    jobs::{
        flush::{flush_all, flush_next},
        log_keeper::keep_log,
        next::run_one,
    },
    kit::random::Random,
    log::sequencer::IDLE_NS,
    open::recovery,
    options::FROZEN_MAX,
    options::{Durability, EngineOptions},
    read::{PinnedReader, ReadRange},
    write::commit::{Payload, commit},
};
use siltdb_base::{
    clock::ManualClock,
    fs::FileLock,
    fs::mem::{Call, CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
    key::EntryKind,
};
use siltdb_tree::{files::open_files::OpenReference, options::TreeOptions};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// A database with several tables that overlap.
fn with_tables(fs: &MemFs) -> Engine {
    let engine = open(fs);
    for value in 1..4 {
        put_range(&engine, "a", 0..100, &[value; 50]);
        flush(&engine).unwrap();
    }
    engine
}

/// The table files that the newest versions refer to.
fn used(engine: &Engine) -> BTreeSet<PathBuf> {
    let mut used = BTreeSet::new();
    for name in engine.database().catalog.families.names() {
        let family = engine.database().catalog.families.named(&name).unwrap();
        let view = family.tree.view();
        let path = |number| family.tree.files().path(number);
        used.extend(view.version.tables().map(|(_, table)| path(table.id().file)));
    }
    used
}

fn tables(fs: &MemFs) -> BTreeSet<PathBuf> {
    files(fs, ".table").into_iter().collect()
}

#[test]
fn files_that_an_iterator_reads_stay_until_it_is_gone() {
    let fs = MemFs::new();
    let engine = with_tables(&fs);
    let old = tables(&fs);
    let expected = contents(&engine, "default", None);
    let family = engine.database().catalog.families.named("default").unwrap();
    // Only the cursor keeps them.
    let mut cursor = PinnedReader::new(&engine.database().read_rooms(), &family, None)
        .unwrap()
        .cursor(ReadRange::default())
        .unwrap();
    cursor.seek_to_first().unwrap();
    put_range(&engine, "a", 0..100, b"newer");
    compact_all(&engine).unwrap();
    assert!(tables(&fs).is_superset(&old), "a reader holds them");
    assert!(used(&engine).is_disjoint(&old));
    assert_eq!(pairs(cursor), expected);
    assert!(!run_job(&engine).unwrap());
    assert_eq!(tables(&fs), used(&engine), "the reader is gone");
}

#[test]
fn files_of_a_dropped_family_go_with_its_last_reader() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create_family(&engine, "short", tree_options()).unwrap();
    crate::fixture::put(&engine, "short", b"key", b"value");
    flush(&engine).unwrap();
    let family = engine.database().catalog.families.named("short").unwrap();
    let reader = PinnedReader::new(&engine.database().read_rooms(), &family, None).unwrap();
    drop_family(&engine, "short").unwrap();
    assert!(!run_job(&engine).unwrap());
    assert_eq!(reader.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(tables(&fs).len(), 1);
    drop((family, reader));
    assert!(!run_job(&engine).unwrap());
    assert_eq!(tables(&fs).len(), 0);
}

#[test]
fn a_family_that_is_damaged_keeps_no_other_from_being_compacted() {
    let fs = MemFs::new();
    // Without a cache, which would keep the blocks that were written.
    let uncached = EngineOptions { cache_bytes: Some(0), ..options(&fs) };
    let engine = Engine::open(Path::new(DIR), uncached).unwrap();
    for family in ["a", "z"] {
        create_family(&engine, family, tree_options()).unwrap();
        // The same keys again and again, so that they must be merged.
        for value in 0..5 {
            put(&engine, family, b"key", &[value]);
            flush(&engine).unwrap();
        }
        if family == "a" {
            for table in files(&fs, ".table") {
                fs.bytes_flip(&table, 10, 1).unwrap();
            }
        }
    }
    let runs = |family: &str| {
        let family = engine.database().catalog.families.named(family).unwrap();
        family.tree.view().version.levels()[0].tables().len()
    };
    assert!(engine.database().background_error().is_none());
    assert!(run_job(&engine).unwrap());
    assert_eq!((runs("a"), runs("z")), (5, 0));
    // Where nothing else is to be done.
    assert_eq!(run_job(&engine).unwrap_err().kind(), ErrorKind::Corruption);
    // Also after other jobs have succeeded.
    put(&engine, "z", b"key", b"value");
    flush(&engine).unwrap();
    assert_eq!(engine.database().background_error().unwrap().kind(), ErrorKind::Corruption);
    drop_family(&engine, "a").unwrap();
    assert!(engine.database().background_error().is_none());
    // All remaining work of the other one succeeds.
    settle(&engine).unwrap();
    assert!(!run_job(&engine).unwrap());
}

#[test]
fn a_file_that_could_not_be_removed_is_removed_later() {
    let fs = MemFs::new();
    let engine = with_tables(&fs);
    let (kind, span, error) = (Some(CallKind::Remove), FaultSpan::FromThenOn, FaultError::Io);
    fs.set_fault(Some(Fault { kind, nth: 1, span, error }));
    compact_all(&engine).unwrap();
    fs.set_fault(None);
    assert!(fs.faults() > 0);
    assert!(tables(&fs).len() > used(&engine).len());
    assert!(!run_job(&engine).unwrap());
    assert_eq!(tables(&fs), used(&engine));
}

/// The job has read the live snapshots, and writes files with newer numbers.
#[test]
fn compacting_forgets_what_a_job_that_ran_already_keeps() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..600, b"old");
    let snapshot = snapshot(&engine);
    for value in 1..5 {
        put_range(&engine, "a", 0..300, &[value]);
        flush(&engine).unwrap();
    }
    let is_table = |call: &Call<'_>| call.path.extension().is_some_and(|name| name == "table");
    let stopped = stop_call(&fs, move |call| call.kind == CallKind::Sync && is_table(call));
    let job = std::thread::spawn({
        let engine = engine.clone();
        move || run_job(&engine)
    });
    stopped.wait();
    drop(snapshot);
    let compacting = held_up({
        let engine = engine.clone();
        move || compact_all(&engine)
    });
    stopped.go_on();
    assert!(job.join().unwrap().unwrap());
    compacting.recv().unwrap().unwrap();
    assert_eq!(engine.database().stats().table_entries, 600);
}

/// A manual compaction would merge the output again, together with newer tables.
#[test]
fn compacting_gives_up_a_job_that_it_outdoes() {
    let fs = MemFs::new();
    let engine = open(&fs);
    for value in 1..6 {
        put_range(&engine, "a", 0..300, &[value]);
        flush(&engine).unwrap();
    }
    put_range(&engine, "a", 0..300, b"newest");
    let is_table = |call: &Call<'_>| call.path.extension().is_some_and(|name| name == "table");
    let stopped = stop_call(&fs, move |call| call.kind == CallKind::Create && is_table(call));
    let job = std::thread::spawn({
        let engine = engine.clone();
        move || run_job(&engine)
    });
    stopped.wait();
    let family = engine.database().catalog.families.named("default").unwrap();
    let compacting = held_up({
        let engine = engine.clone();
        move || compact_all(&engine)
    });
    // The flush that comes first has been done.
    until(|| family.tree.view().version.levels()[0].tables().len() == 6);
    stopped.go_on();
    assert!(job.join().unwrap().unwrap());
    compacting.recv().unwrap().unwrap();
    assert_eq!(
        (engine.database().stats().compactions, engine.database().stats().table_entries),
        (1, 300)
    );
    assert_eq!(engine.database().background_error().map(|error| error.kind()), None);
    assert_eq!(tables(&fs), used(&engine));
    assert_eq!(get(&engine, "default", b"a00299").as_deref(), Some(&b"newest"[..]));
    put_range(&engine, "a", 0..10, b"later");
    flush(&engine).unwrap();
    assert!(!run_job(&engine).unwrap(), "one table in level 0 that replaces little is not due");
}

/// Runs of level 0 over the same keys that make many tables, some of them deleted.
fn with_wide_runs(fs: &MemFs) -> Engine {
    let engine = open(fs);
    let mut random = Random::new(Some(7));
    for run in 0..5 {
        for number in (run..400).step_by(1 + run as usize % 2) {
            // It does not compress.
            let value: Vec<u8> = (0..8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
            put(&engine, "default", format!("a{number:05}").as_bytes(), &value);
        }
        for number in (run * 7..400).step_by(5) {
            let key = format!("a{number:05}").into_bytes();
            let family = engine.database().catalog.families.named("default").unwrap();
            let deletion = Payload::one(&family, EntryKind::Delete, &key, b"");
            commit(engine.writable().unwrap(), &deletion, Durability::Buffered).unwrap();
        }
        flush(&engine).unwrap();
    }
    engine
}

/// References that show a part of their table.
fn narrow(engine: &Engine) -> usize {
    let family = engine.database().catalog.families.named("default").unwrap();
    let view = family.tree.view();
    view.version.tables().filter(|(_, table)| table.reference().key_slice.is_some()).count()
}

#[test]
fn a_merge_that_fails_or_is_killed_keeps_the_steps_before() {
    let (mut kept, mut failures) = (0, 0);
    for nth in 1.. {
        let fs = MemFs::new();
        let engine = with_wide_runs(&fs);
        let expected = contents(&engine, "default", None);
        let before = engine.database().stats().table_bytes[0];
        let (kind, span) = (Some(CallKind::Create), FaultSpan::FromThenOn);
        fs.set_fault(Some(Fault { kind, nth, span, error: FaultError::NoSpace }));
        let result = run_job(&engine);
        fs.set_fault(None);
        assert_eq!(contents(&engine, "default", None), expected, "create {nth}");
        if result.is_ok() {
            break;
        }
        failures += 1;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(tables(&fs), used(&engine), "create {nth}");
        let steps = engine.database().stats().compaction_steps;
        assert_eq!(narrow(&engine) > 0, steps > 0, "create {nth}");
        assert_eq!(engine.database().stats().table_bytes[0] < before, steps > 0);
        kept += steps;
        for crash in [Crash::Kill, Crash::PowerLoss { seed: nth }] {
            let reopened = open(&fs.crash_clone(crash));
            assert_eq!(contents(&reopened, "default", None), expected, "create {nth}, {crash:?}");
            assert_eq!(narrow(&reopened), narrow(&engine));
            assert_eq!(
                reopened.database().stats().table_bytes,
                engine.database().stats().table_bytes
            );
            settle(&reopened).unwrap();
            assert_eq!(contents(&reopened, "default", None), expected);
            assert_eq!(narrow(&reopened), 0);
        }
        compact_all(&engine).unwrap();
        assert_eq!(contents(&engine, "default", None), expected);
        assert_eq!((narrow(&engine), tables(&fs)), (0, used(&engine)));
    }
    assert!(failures > 4 && kept > 10, "{failures} failures kept {kept} steps");
}

#[test]
fn what_steps_leave_of_a_table_hides_its_newer_entries_as_before() {
    let fs = MemFs::new();
    let engine = with_wide_runs(&fs);
    let put_each_tenth = |value: &[u8]| {
        for number in (0..400).step_by(10) {
            put(&engine, "default", format!("a{number:05}").as_bytes(), value);
        }
    };
    put_each_tenth(b"before");
    let expected = contents(&engine, "default", None);
    let moment = snapshot(&engine);
    put_each_tenth(b"after");
    flush(&engine).unwrap();
    let default = engine.database().catalog.families.named("default").unwrap();
    let clone = clone_family(&engine, &default, "clone", Some(&moment)).unwrap();
    let hides = |(_, table): &(usize, &Arc<OpenReference>)| {
        let reference = table.reference();
        reference.visible_to.is_some_and(|moment| moment < reference.meta.sequence_max)
    };
    assert_eq!(clone.tree.view().version.tables().filter(hides).count(), 1);
    compact(&engine, &clone).unwrap();
    assert!(engine.database().stats().compaction_steps > 4);
    assert_eq!(contents(&engine, "clone", None), expected);
    assert!(contents(&engine, "default", None) != expected);
}

#[test]
fn a_merge_that_is_cancelled_keeps_its_steps() {
    let fs = MemFs::new();
    let engine = with_wide_runs(&fs);
    let expected = contents(&engine, "default", None);
    let creations = AtomicUsize::new(0);
    let is_table = |call: &Call<'_>| call.path.extension().is_some_and(|name| name == "table");
    let stopped = stop_call(&fs, move |call| {
        call.kind == CallKind::Create
            && is_table(call)
            && creations.fetch_add(1, Ordering::Relaxed) == 5
    });
    let job = thread::spawn({
        let engine = engine.clone();
        move || run_job(&engine)
    });
    stopped.wait();
    let installer = engine.clone();
    let cancelled = held_up(move || cancel_compactions(&installer.writable().unwrap().installer()));
    stopped.go_on();
    assert!(job.join().unwrap().unwrap());
    cancelled.recv().unwrap().unwrap();
    let stats = engine.database().stats();
    assert!(stats.compaction_steps > 2 && stats.compactions == 0);
    assert!(narrow(&engine) > 2);
    assert_eq!(
        (contents(&engine, "default", None), tables(&fs)),
        (expected.clone(), used(&engine))
    );
    settle(&engine).unwrap();
    assert_eq!((contents(&engine, "default", None), narrow(&engine)), (expected, 0));
}

#[test]
fn compacting_again_writes_nothing_new_until_something_can_go() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..300, b"value");
    flush(&engine).unwrap();
    let flushed = tables(&fs);
    compact_all(&engine).unwrap();
    assert_eq!(tables(&fs), flushed);
    let snapshot = snapshot(&engine);
    put_range(&engine, "a", 0..10, b"newer");
    compact_all(&engine).unwrap();
    let merged = tables(&fs);
    assert!(merged.is_disjoint(&flushed));
    assert_eq!(engine.database().stats().table_entries, 310);
    drop(snapshot);
    compact_all(&engine).unwrap();
    assert!(tables(&fs).is_disjoint(&merged));
    assert_eq!(engine.database().stats().table_entries, 300);
}

/// A database whose next edit begins a manifest, and a job that is due in it.
fn before_a_job(job: Job) -> (MemFs, Engine) {
    let fs = MemFs::new();
    let engine = with_tables(&fs);
    put_range(&engine, "a", 0..100, b"newer");
    if job == Job::Merge {
        flush(&engine).unwrap();
    }
    engine.close().unwrap();
    leave_manifest_unfinished(&fs);
    let engine = open(&fs);
    (fs, engine)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Flush,
    Merge,
}

fn run(engine: &Engine) -> ErrorKind {
    run_job(engine).unwrap_err().kind()
}

/// Each attempt would leave its tables behind: a full disk would become fuller.
#[test]
fn the_new_files_of_a_job_whose_edit_failed_are_removed() {
    for job in [Job::Flush, Job::Merge] {
        let (fs, engine) = before_a_job(job);
        let before = tables(&fs);
        fs.set_fault(fault(Some(CallKind::OpenLog), 1, FaultError::NoSpace));
        assert_eq!(run(&engine), ErrorKind::NoSpace);
        assert_eq!(tables(&fs), before, "{job:?}");
        assert!(run_job(&engine).unwrap());
        assert_eq!(tables(&fs), used(&engine), "{job:?}");
        assert_ne!(tables(&fs), before, "{job:?}");
    }
}

/// Until the next open it is unknown whether the edit counts. If it does, it refers to the tables.
#[test]
fn the_new_files_of_a_job_whose_edit_may_be_durable_stay() {
    for job in [Job::Flush, Job::Merge] {
        let (fs, engine) = before_a_job(job);
        // The name of the table, those of manifest and CURRENT, and the renaming of CURRENT.
        fs.set_fault(fault(Some(CallKind::SyncDir), 3, FaultError::Io));
        assert_eq!(run(&engine), ErrorKind::Poisoned);
        let reopened = open(&killed(&fs));
        assert!(!used(&reopened).is_subset(&used(&engine)), "{job:?}: the edit is durable");
        assert_eq!(get(&reopened, "default", b"a00000").as_deref(), Some(&b"newer"[..]));
        assert!(tables(&fs).is_superset(&used(&engine)), "{job:?}: or it is not");
    }
}

/// Selects the sync of the directory by which a job makes the names of its new files durable.
fn on_new_names(call: &Call<'_>) -> bool {
    call.kind == CallKind::SyncDir
}

#[test]
fn closing_waits_for_jobs_that_callers_do_themselves() {
    for job in [Job::Flush, Job::Merge] {
        let (fs, engine) = before_a_job(job);
        let expected = contents(&engine, "default", None);
        let stopped = stop_call(&fs, on_new_names);
        let works = engine.clone();
        let worker = thread::spawn(move || run_job(&works));
        stopped.wait();
        let closes = engine.clone();
        let closed = held_up(move || closes.close());
        let again = Engine::open(Path::new(DIR), options(&fs));
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked);
        stopped.go_on();
        // It may end or be cut short, but not touch anything once the database is closed.
        let _ = worker.join().unwrap();
        closed.recv().unwrap().unwrap();
        let left = tables(&fs);
        let reopened = open(&fs);
        assert_eq!(contents(&reopened, "default", None), expected, "{job:?}");
        assert!(used(&reopened).is_subset(&left), "{job:?}");
        assert_eq!(run_job(&engine).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(flush(&engine).unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn a_second_close_returns_when_the_first_does() {
    let (fs, engine) = before_a_job(Job::Flush);
    let stopped = stop_call(&fs, on_new_names);
    let works = engine.clone();
    let worker = thread::spawn(move || run_job(&works));
    stopped.wait();
    let close = || {
        let engine = engine.clone();
        held_up(move || engine.close())
    };
    let closed = [close(), close()];
    stopped.go_on();
    closed.iter().for_each(|closed| closed.recv().unwrap().unwrap());
    let _ = worker.join().unwrap();
    assert!(Engine::open(Path::new(DIR), options(&fs)).is_ok());
}

#[test]
fn a_job_on_tables_of_a_dropped_family_ends_well_and_leaves_nothing_of_them() {
    for job in [Job::Flush, Job::Merge] {
        let (fs, engine) = before_a_job(job);
        let expected = contents(&engine, "default", None);
        create_family(&engine, "short", tree_options()).unwrap();
        put(&engine, "short", b"key", b"value");
        if job == Job::Merge {
            flush(&engine).unwrap();
            put(&engine, "short", b"key", b"newer");
            flush(&engine).unwrap();
        }
        let stopped = stop_call(&fs, on_new_names);
        let works = engine.clone();
        let worker = thread::spawn(move || match job {
            Job::Flush => flush(&works),
            Job::Merge => {
                compact(&works, &works.database().catalog.families.named("short").unwrap())
            }
        });
        stopped.wait();
        drop_family(&engine, "short").unwrap();
        stopped.go_on();
        match (job, worker.join().unwrap()) {
            (Job::Flush, result) => result.unwrap(),
            (Job::Merge, result) => assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound),
        }
        while run_job(&engine).unwrap() {}
        assert_eq!(tables(&fs), used(&engine), "{job:?}");
        drop(engine);
        assert_eq!(contents(&open(&fs), "default", None), expected, "{job:?}");
    }
}

#[test]
fn a_dropped_family_is_not_there_to_be_compacted() {
    let engine = with_tables(&MemFs::new());
    let family = create_family(&engine, "short", tree_options()).unwrap();
    put(&engine, "short", b"key", b"value");
    flush(&engine).unwrap();
    drop_family(&engine, "short").unwrap();
    assert_eq!(compact(&engine, &family).unwrap_err().kind(), ErrorKind::NotFound);
    compact_all(&engine).unwrap();
}

#[test]
fn a_panic_in_a_job_of_a_caller_poisons_the_database_and_holds_nobody_up() {
    for job in [Job::Flush, Job::Merge] {
        let (fs, engine) = before_a_job(job);
        let stopped = stop_call(&fs, on_new_names);
        let works = engine.clone();
        let worker = thread::spawn(move || run_job(&works));
        stopped.wait();
        stopped.panic();
        assert!(worker.join().is_err());
        let (flushes, settles, closes) = (engine.clone(), engine.clone(), engine.clone());
        let kind = |result: Result<()>| result.unwrap_err().kind();
        assert_eq!(kind(not_stuck(move || flush(&flushes))), ErrorKind::Poisoned, "{job:?}");
        assert_eq!(kind(not_stuck(move || settle(&settles))), ErrorKind::Poisoned, "{job:?}");
        assert_eq!(kind(not_stuck(move || closes.close())), ErrorKind::Poisoned, "{job:?}");
    }
}

#[test]
fn a_log_that_has_no_room_for_the_mark_of_a_close_is_closed_all_the_same() {
    let mut unmarked = 0;
    // Records that end shortly before the window that is prepared at first, and behind it.
    for bytes in (0..40).map(|step| (256 << 10) - 240 + 8 * step) {
        let fs = MemFs::new();
        let options = EngineOptions { memtable_bytes: 1 << 20, ..options(&fs) };
        let engine = Engine::open(Path::new(DIR), options).unwrap();
        let value = vec![7; bytes];
        put(&engine, "default", b"key", &value);
        fs.set_fault(fault(Some(CallKind::Prepare), 1, FaultError::NoSpace));
        match engine.close() {
            // The mark was what there was no room for.
            Ok(()) => unmarked += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{bytes}"),
        }
        assert_eq!(get(&open(&fs), "default", b"key"), Some(value), "{bytes}");
    }
    assert!(unmarked > 0);
}

#[test]
fn a_closed_database_keeps_no_more_of_the_log_than_what_is_not_flushed() {
    let log_bytes = |fs: &MemFs| -> Vec<usize> {
        files(fs, ".log").iter().map(|path| fs.read_all(path).unwrap().len()).collect()
    };
    let fs = MemFs::new();
    let engine = open(&fs);
    for round in 0..5 {
        put_range(&engine, "a", 0..1_000, &[round; 100]);
    }
    flush(&engine).unwrap();
    put(&engine, "default", b"last", &[7; 1_000]);
    assert!(log_bytes(&fs).len() > 1, "files wait to be used again");
    engine.close().unwrap();
    let [left] = log_bytes(&fs)[..] else { panic!("{:?}", files(&fs, ".log")) };
    assert!((1_000..100_000).contains(&left), "{left}");
    for _ in 0..3 {
        let engine = open(&fs);
        assert_eq!(get(&engine, "default", b"last"), Some(vec![7; 1_000]));
        assert_eq!(get(&engine, "default", b"a00999"), Some(vec![4; 100]));
        put(&engine, "default", b"last", &[7; 1_000]);
        engine.close().unwrap();
        assert!(log_bytes(&fs).iter().sum::<usize>() <= 4 * left, "{:?}", log_bytes(&fs));
    }
}

#[test]
fn the_next_segment_is_made_ready_when_an_eighth_of_the_generation_is_left() {
    let fs = MemFs::new();
    let waiting = Waiting::RunJob(run_one);
    let (database, _lock) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    let put = Payload::one(&family, EntryKind::Put, b"key", &[7; 100]);
    let late = database.options.memtable_bytes as u64 / 8 * 7;
    for segments in [1, 2] {
        loop {
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
            keep_log(&database.log, &database.backpressure).unwrap();
            if lock(&database.log.sequencer).active_bytes() >= late {
                break;
            }
            assert_eq!(files(&fs, ".log").len(), segments, "it is not needed yet");
        }
        assert_eq!(files(&fs, ".log").len(), segments + 1);
        while lock(&database.log.sequencer).active_bytes() >= late {
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
        }
    }
}

#[test]
fn what_writers_leave_to_compactions_follows_from_what_is_in_memory() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000_000)));
    let options = EngineOptions { clock: clock.clone(), ..options(&fs) };
    let waiting = Waiting::RunJob(run_one);
    let (database, _lock) = recovery::open(Path::new(DIR), options, waiting).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    let put = Payload::one(&family, EntryKind::Put, b"key", &[7; 100]);
    let fill = |bytes: u64| {
        while lock(&database.log.sequencer).active_bytes() < bytes {
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
        }
    };
    let freeze = || {
        let frozen = lock(&database.log.sequencer).freeze().unwrap();
        database.installer().freeze(frozen);
    };
    let now = || writers(&database.job_rooms(), &[]);
    let memtable = database.options.memtable_bytes as u64;
    assert_eq!(now(), WriteLoad::Idle);
    fill(memtable / 2 - 1_000);
    assert_eq!(now(), WriteLoad::Light);
    freeze();
    assert_eq!(now(), WriteLoad::Light, "it is not flushed yet, so writers are not idle");
    fill(2_000);
    assert_eq!(now(), WriteLoad::Heavy, "half a memtable in two");
    assert_eq!(writers(&database.job_rooms(), &[JobOf::Memory]), WriteLoad::Light);
    fill(memtable - 1_000);
    assert_eq!(now(), WriteLoad::Throttled);
    freeze();
    while flush_next(&database.job_rooms()).unwrap() {}
    assert_eq!(now(), WriteLoad::Idle);
    // Unflushed data becomes due by time alone.
    fill(memtable / 2);
    for expected in [WriteLoad::Heavy, WriteLoad::Idle] {
        assert_eq!(now(), expected);
        clock.advance(Duration::from_nanos(IDLE_NS));
    }
}

#[test]
fn a_small_database_is_tidied_up_when_its_writers_rest() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..100, &[1; 50]);
    compact_all(&engine).unwrap();
    put_range(&engine, "a", 0..15, &[2; 50]);
    flush(&engine).unwrap();
    put_range(&engine, "b", 0..1, b"still writing");
    assert!(!run_job(&engine).unwrap());
    assert_eq!(engine.database().stats().table_entries, 115);
    flush(&engine).unwrap();
    assert!(run_job(&engine).unwrap());
    assert_eq!(engine.database().stats().table_entries, 101);
}

#[test]
fn jobs_give_way_less_the_more_debt_there_is() {
    let fs = MemFs::new();
    // There are no workers, so nothing is flushed.
    let (database, _lock) =
        recovery::open(Path::new(DIR), options(&fs), Waiting::ForWorkers).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    let value = [7; 10_000];
    let mut kept = Vec::new();
    while database.backpressure.unwritten_share(&database.log) < 0.9 {
        let put = Payload::one(&family, EntryKind::Put, b"key", &value);
        commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
        let share =
            with_context(&database.job_rooms(), |context| Ok(context.processor_share.get()));
        kept.push(share.unwrap());
    }
    assert!(kept.is_sorted(), "{kept:?}");
    assert_eq!((kept[1], kept[kept.len() - 1]), (0.25, 1.0));
}

/// A settled database of `count` families besides the default one, each with a table.
fn with_families(fs: &MemFs, count: usize) -> Engine {
    // So large that a small table is not worth its syncs.
    let tree = TreeOptions { base_level_bytes: 1 << 20, ..tree_options() };
    let options = EngineOptions { tree: tree.clone(), ..options(fs) };
    let engine = Engine::open(Path::new(DIR), options).unwrap();
    for number in 0..count {
        let name = format!("f{number}");
        create_family(&engine, &name, tree.clone()).unwrap();
        put(&engine, &name, b"key", b"value");
    }
    put(&engine, "default", b"key", b"value");
    settle(&engine).unwrap();
    flush(&engine).unwrap();
    settle(&engine).unwrap();
    engine
}

#[test]
fn a_flush_and_a_look_for_compactions_take_only_the_families_that_changed() {
    let fs = MemFs::new();
    drop(with_families(&fs, 30));
    let (database, _lock) =
        recovery::open(Path::new(DIR), options(&fs), Waiting::RunJob(run_one)).unwrap();
    let due = || lock(&database.background.jobs).due.look(WriteLoad::Idle).families;
    assert!(due().is_empty(), "no shape calls for a compaction: {:?}", due());
    note_all_due(
        &database.background,
        &database.options,
        &database.catalog.families.load(),
        Duration::ZERO,
    );
    assert_eq!(due().len(), 31);
    assert!(!compact_next(&database.job_rooms()).unwrap());
    assert!(due().is_empty(), "nothing is due: {:?}", due());
    let family = database.catalog.families.named("f7").unwrap();
    let operation = Payload::one(&family, EntryKind::Put, b"key", b"new");
    commit(Writable::inside(&database), &operation, Durability::Buffered).unwrap();
    let generation = family.tree.view().memory.oldest().unwrap();
    assert_eq!(database.catalog.families.holders().of(generation), [family.id]);
    flush_all(&database.job_rooms()).unwrap();
    assert_eq!(due(), [family.id]);
    assert!(database.catalog.families.holders().of(generation).is_empty());
    assert!(family.tree.view().memory.tables().is_empty());
    assert!(!compact_next(&database.job_rooms()).unwrap());
    assert!(due().is_empty(), "{:?}", due());
}

/// Opens the database, in which no family is made then.
fn opened(fs: &MemFs) -> (Database, Box<dyn FileLock>) {
    let (database, lock) =
        recovery::open(Path::new(DIR), options(fs), Waiting::RunJob(run_one)).unwrap();
    assert_eq!(database.catalog.families.load().made().count(), 0);
    (database, lock)
}

#[test]
fn families_that_are_not_used_and_share_tables_are_looked_at_as_one() {
    let fs = MemFs::new();
    let engine = with_families(&fs, 0);
    for number in 0..20 {
        branches::create(&engine, &format!("b{number}")).unwrap();
    }
    drop(engine);
    let (database, _lock) = opened(&fs);
    let due = || lock(&database.background.jobs).due.look(WriteLoad::Idle).families.len();
    note_all(&database);
    assert_eq!(due(), 21, "all but the bases");
    assert!(!compact_next(&database.job_rooms()).unwrap());
    assert_eq!((due(), database.catalog.families.load().made().count()), (0, 1));
}

fn note_all(database: &Database) {
    let families = database.catalog.families.load();
    note_all_due(&database.background, &database.options, &families, Duration::ZERO);
}

#[test]
fn what_is_due_in_tables_that_families_share_is_done_in_each_of_them() {
    let fs = MemFs::new();
    let engine = with_families(&fs, 0);
    for _ in 0..20 {
        put(&engine, "default", b"key", b"value");
        flush(&engine).unwrap();
    }
    for number in 0..3 {
        branches::create(&engine, &format!("b{number}")).unwrap();
    }
    drop(engine);
    let (database, _lock) = opened(&fs);
    let runs = || -> Vec<usize> {
        let families = database.catalog.families.load();
        let compacted = families.iter().filter(|family| family.role != FamilyRole::Base);
        compacted.map(|family| family.version().levels()[0].runs()).collect()
    };
    assert!(runs().len() == 4 && runs().iter().all(|&runs| runs >= 20), "{:?}", runs());
    // One that is busy does not keep the others from what is due.
    let families = database.catalog.families.load();
    let head = families.iter().find(|family| family.role == FamilyRole::Head).unwrap();
    let paused = head.get().tree.cancel_redundant().unwrap();
    while compact_next(&database.job_rooms()).unwrap() {}
    let before = runs();
    let (default, heads) = (before[0], &before[1..]);
    assert!(
        default < 20 && heads[0] >= 20 && heads[1..].iter().all(|&runs| runs < 20),
        "{before:?}"
    );
    drop(paused);
    while compact_next(&database.job_rooms()).unwrap() {}
    assert!(runs().iter().all(|&runs| runs < 20), "{:?}", runs());
}

#[test]
fn an_opening_has_families_looked_at_whose_tables_call_for_a_compaction() {
    let fs = MemFs::new();
    let engine = with_families(&fs, 3);
    for _ in 0..20 {
        put(&engine, "f1", b"key", b"value");
        flush(&engine).unwrap();
    }
    drop(engine);
    let waiting = Waiting::RunJob(run_one);
    let (database, _lock) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
    let family = database.catalog.families.named("f1").unwrap();
    let due = lock(&database.background.jobs).due.look(WriteLoad::Idle).families;
    assert_eq!(due, [family.id]);
    assert!(compact_next(&database.job_rooms()).unwrap());
}

#[test]
fn what_time_makes_due_is_looked_for_in_all_families_now_and_then() {
    let fs = MemFs::new();
    drop(with_families(&fs, 3));
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000_000)));
    let options = EngineOptions { clock: clock.clone(), ..options(&fs) };
    let waiting = Waiting::RunJob(run_one);
    let (database, _lock) = recovery::open(Path::new(DIR), options, waiting).unwrap();
    assert!(!compact_next(&database.job_rooms()).unwrap());
    let all_due_ns = lock(&database.background.jobs).all_due_ns;
    clock.advance(DUE_INTERVAL);
    assert!(!compact_next(&database.job_rooms()).unwrap());
    assert!(lock(&database.background.jobs).all_due_ns > all_due_ns);
}

#[test]
fn flushes_that_fail_leave_few_generations_and_refuse_writers_in_the_end() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"before", b"value");
    flush(&engine).unwrap();
    let no_tables = Fault {
        kind: Some(CallKind::Create),
        nth: 1,
        span: FaultSpan::FromThenOn,
        error: FaultError::NoSpace,
    };
    fs.set_fault(Some(no_tables));
    let mut acknowledged = 0_u32;
    for number in 0..200_u32 {
        put(&engine, "default", &number.to_be_bytes(), &[7; 100]);
        acknowledged += 1;
        assert_eq!(flush(&engine).unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(engine.database().background_error().unwrap().kind(), ErrorKind::NoSpace);
    }
    let generations = || engine.database().stats().frozen_generations as usize;
    assert_eq!(generations(), 1, "each call tries the one that failed");
    assert!(files(&fs, ".log").len() <= 3, "{:?}", files(&fs, ".log"));
    // A writer continues until memory is full, and gets the error then.
    let refused = loop {
        let key = acknowledged.to_be_bytes();
        let put = try_put(&engine, "default", &key, &[7; 1000], Durability::Buffered);
        match put {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 10_000, "no put is refused");
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    // The first, a small one, takes less memory than another.
    assert!(generations() <= FROZEN_MAX + 1, "{} generations", generations());
    fs.set_fault(None);
    flush(&engine).unwrap();
    assert_eq!(generations(), 0);
    assert!(engine.database().background_error().is_none());
    assert_eq!(contents(&engine, "default", None).len() as u32, acknowledged + 1);
}
