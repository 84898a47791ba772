//! The waits of writers (law B8).

use super::*;
use crate::{
    backpressure::pacer::{Pressure, Price},
    database::{Database, job_rooms::Waiting, writable::Writable},
    engine::Engine,
    fixture::{DIR, fault, flush, not_stuck, options, put, run_job},
    jobs::compact::compact_next,
    jobs::flush::{flush_all, flush_next},
    jobs::next::run_one,
    log::sync_timer::SYNC_INTERVAL,
    open::recovery,
    options::{Durability, EngineOptions},
    write::{
        commit::{Payload, commit},
        log_sync::{sync_due_in, sync_if_due, sync_within},
    },
};
use siltdb_base::{
    clock::ManualClock,
    error::ErrorKind,
    fs::{
        FileLock,
        mem::{CallKind, FaultError, MemFs},
    },
    key::EntryKind,
};
use siltdb_tree::{
    options::TreeOptions, rewrite::progress::Progress, strategy::CompactionStrategy,
};
use std::{path::Path, sync::atomic::Ordering, time::Duration};

#[test]
fn a_pressure_that_was_noted_too_late_stops_nobody_for_ever() {
    for waiting in [Waiting::ForWorkers, Waiting::RunJob(run_one)] {
        let fs = MemFs::new();
        let (database, lock) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
        not_stuck(move || {
            let family = database.catalog.families.named("default").unwrap();
            let huge = vec![7; 2 * database.options.memtable_bytes];
            let put = Payload::one(&family, EntryKind::Put, b"key", &huge);
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
            // A thread that read the debt before the last flush stores it only now.
            database.backpressure.pacer.set_pressure(Pressure::Stop);
            // The commit needs a generation of its own, and so waits for room.
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
            drop(lock);
        });
    }
}

#[test]
fn a_commit_that_wants_to_be_synced_soon_hurries_one_sync_only() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let options = EngineOptions { clock: clock.clone(), ..options(&fs) };
    let (database, _lock) = recovery::open(Path::new(DIR), options, Waiting::ForWorkers).unwrap();
    let soon = Duration::from_millis(5);
    assert_eq!(sync_due_in(&database.log, &database.options), SYNC_INTERVAL);
    for _ in 0..2 {
        sync_within(&database.job_rooms(), soon).unwrap();
        assert_eq!(sync_due_in(&database.log, &database.options), soon);
        clock.advance(soon);
        sync_if_due(&database.installer(), &database.options).unwrap();
        assert_eq!(
            sync_due_in(&database.log, &database.options),
            SYNC_INTERVAL,
            "no commit asks for it any more"
        );
    }
}

#[test]
fn nobody_waits_for_a_compaction_that_is_not_due() {
    // Overlapping runs, of which there may be many; and tables in order, which are one run.
    for (trigger, overlap) in [(100, true), (4, false)] {
        let fs = MemFs::new();
        let tree = TreeOptions {
            level0_runs_trigger: trigger,
            base_level_bytes: 1 << 30,
            ..TreeOptions::default()
        };
        let options = EngineOptions { tree, ..options(&fs) };
        let engine = Engine::open(Path::new(DIR), options).unwrap();
        not_stuck(move || {
            for number in 0..60_u32 {
                let prefix = if overlap { 0 } else { number };
                for key in 0..2 {
                    put(&engine, "default", format!("{prefix:03}-{key}").as_bytes(), b"value");
                }
                flush(&engine).unwrap();
            }
            // Many tables in order are joined, which frees no room.
            assert!(!overlap || !run_job(&engine).unwrap(), "a compaction is due");
            for _ in 0..4 {
                put(&engine, "default", b"large", &vec![7; 64 << 10]);
            }
        });
    }
}

#[test]
fn writers_stop_at_five_times_the_runs_from_which_level_0_is_compacted() {
    for (trigger, delayed, stopped) in [(1, 12, 20), (4, 12, 20), (8, 24, 40), (10, 30, 50)] {
        let fs = MemFs::new();
        let tree = TreeOptions { level0_runs_trigger: trigger, ..TreeOptions::default() };
        let options = EngineOptions { tree, ..options(&fs) };
        let waiting = Waiting::RunJob(run_one);
        let (database, _lock) = recovery::open(Path::new(DIR), options, waiting).unwrap();
        let family = database.catalog.families.named("default").unwrap();
        let runs = || family.tree.view().version.levels()[0].runs() as u64;
        let mut first_delayed = None;
        while !database.backpressure.pacer.is_stopped() {
            let put = Payload::one(&family, EntryKind::Put, b"key", b"value");
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
            flush_all(&database.job_rooms()).unwrap();
            if database.backpressure.is_beyond_soft() {
                first_delayed.get_or_insert_with(runs);
            }
            assert!(runs() <= stopped, "{} runs with a trigger of {trigger}", runs());
        }
        assert_eq!((first_delayed, runs()), (Some(delayed + 1), stopped), "trigger {trigger}");
        assert!(compact_next(&database.job_rooms()).unwrap());
        assert!(!database.backpressure.pacer.is_stopped() && runs() < trigger.into());
    }
}

/// A database with so many generations to flush, and a level 0 that would be compacted otherwise.
fn lagging(fs: &MemFs, generations: usize) -> (Database, Box<dyn FileLock>) {
    let waiting = Waiting::RunJob(run_one);
    let (database, held) = recovery::open(Path::new(DIR), options(fs), waiting).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    let write = |bytes: usize| {
        let value = vec![7; bytes];
        let put = Payload::one(&family, EntryKind::Put, b"key", &value);
        commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
    };
    for _ in 0..family.tree.peek_options().level0_runs_trigger {
        write(1);
        flush_all(&database.job_rooms()).unwrap();
    }
    while lock(&database.log.frozen).len() < generations {
        write(database.options.memtable_bytes / 4);
    }
    (database, held)
}

#[test]
fn compactions_leave_the_processors_to_flushes_that_lag_behind() {
    let (database, _lock) = lagging(&MemFs::new(), 3);
    let mut flushes = 0;
    while database.backpressure.unwritten_share(&database.log) > 0.0 {
        assert!(!compact_next(&database.job_rooms()).unwrap(), "writes are slowed down");
        assert!(flush_next(&database.job_rooms()).unwrap());
        flushes += 1;
    }
    assert!(flushes >= 1);
    assert!(compact_next(&database.job_rooms()).unwrap());
}

#[test]
fn nothing_is_put_off_that_writers_wait_for() {
    let (database, _lock) = lagging(&MemFs::new(), 3);
    assert!(
        database.backpressure.unwritten_share(&database.log) > 0.0
            && database.backpressure.level_share() == 0.0
    );
    // As if level 0 had grown beyond its soft limit.
    let family = database.catalog.families.named("default").unwrap();
    let levels = LevelDebt {
        runs: 14,
        ..database.backpressure.level_debt_of(&family.tree.view().version, &family.tree.options())
    };
    database.backpressure.levels.note(FamilyId(1), Some(levels));
    assert!(compact_next(&database.job_rooms()).unwrap());
}

#[test]
fn what_a_failing_flush_may_need_is_not_kept_waiting_for_it() {
    let fs = MemFs::new();
    let (database, _lock) = lagging(&fs, 3);
    assert!(!compact_next(&database.job_rooms()).unwrap());
    fs.set_fault(fault(Some(CallKind::Create), 1, FaultError::NoSpace));
    assert_eq!(flush_next(&database.job_rooms()).unwrap_err().kind(), ErrorKind::NoSpace);
    assert!(compact_next(&database.job_rooms()).unwrap());
}

#[test]
fn what_a_flush_has_written_weighs_no_more() {
    let (database, _lock) = lagging(&MemFs::new(), 3);
    assert_eq!(
        database.backpressure.memory_share(0, &database.log),
        SHARE_DELAYED_MOST,
        "unwritten, but memory is not full"
    );
    let (database, _lock) = lagging(&MemFs::new(), 2);
    let share = || database.backpressure.memory_share(0, &database.log);
    let progress = || Arc::clone(&lock(&database.log.frozen)[0].progress);
    let before = share();
    assert!((0.1..1.0).contains(&before), "{before}");
    progress().begin(1_000);
    let mut last = share();
    assert_eq!(last, before, "nothing is written yet");
    let steps: [fn(&Progress); 2] =
        [|progress| progress.read(250), |progress| progress.verified(250)];
    for step in steps.into_iter().flat_map(|step| [step; 4]).take(7) {
        step(&progress());
        assert!(share() < last);
        last = share();
    }
    progress().verified(100);
    let last = share();
    progress().verified(150);
    assert_eq!(share(), last, "its tables are to be synced and installed still");
    // Memory is freed only at the end.
    lock(&database.log.frozen)[0].bytes += 2 * database.options.memtable_bytes as u64;
    assert_eq!(share(), 1.0);
}

#[test]
fn of_a_flush_that_failed_nothing_is_written() {
    let fs = MemFs::new();
    let waiting = Waiting::RunJob(run_one);
    let (database, _lock) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    for key in 0..3_000_u32 {
        let key = key.to_be_bytes();
        let put = Payload::one(&family, EntryKind::Put, &key, b"");
        commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
    }
    let parts = |database: &Database| {
        let frozen = lock(&database.log.frozen);
        frozen.iter().map(|frozen| frozen.progress.rest_of(1_000)).collect::<Vec<_>>()
    };
    fs.set_fault(fault(Some(CallKind::SyncDir), 1, FaultError::Io));
    assert_eq!(flush_all(&database.job_rooms()).unwrap_err().kind(), ErrorKind::Io);
    let rests = parts(&database);
    assert!(!rests.is_empty() && rests.iter().all(|&rest| rest == 1_000), "{rests:?}");
}

#[test]
fn a_writer_sleeps_nap_after_nap_and_looks_in_between_whether_it_must() {
    let fs = MemFs::new();
    // There are no workers, so nothing is flushed.
    let opened = recovery::open(Path::new(DIR), options(&fs), Waiting::ForWorkers);
    let (database, _lock) = opened.unwrap();
    let family = database.catalog.families.named("default").unwrap();
    let value = [7; 10_000];
    let delayed_ns = || database.backpressure.waits.delayed_ns.load(Ordering::Relaxed);
    let put = || {
        let before = delayed_ns();
        let put = Payload::one(&family, EntryKind::Put, b"key", &value);
        commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
        delayed_ns() - before
    };
    // 20 ms, if there were anything to flush.
    let price = Price { ns_per_byte: 1000.0, burst_bytes: 0 };
    database.backpressure.pacer.set_pressure(Pressure::Pay(price));
    assert_eq!(put(), 2_000_000);
    let delays: Vec<u64> = (0..18).map(|_| put()).collect();
    assert!(delays.iter().any(|&delay| delay > 4_000_000), "{delays:?}");
    // Short ones are taken together.
    assert!(delays[12..].is_sorted(), "{delays:?}");
}

/// A database with a level 0 that is due, of tables with so many entries each.
fn with_due_level0(fs: &MemFs, strategy: CompactionStrategy) -> (Arc<Database>, Box<dyn FileLock>) {
    let options = options(fs);
    let tree = TreeOptions { compaction: strategy, ..options.tree.clone() };
    let options = EngineOptions { tree, ..options };
    let waiting = Waiting::RunJob(run_one);
    let (database, held) = recovery::open(Path::new(DIR), options, waiting).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    for run in 0..12_u32 {
        for key in 0..300_u32 {
            let (key, value) = (key.to_be_bytes(), run.to_be_bytes());
            let put = Payload::one(&family, EntryKind::Put, &key, &value);
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
        }
        flush_all(&database.job_rooms()).unwrap();
    }
    (Arc::new(database), held)
}

#[test]
fn a_merge_counts_as_done_as_far_as_it_is() {
    for strategy in [CompactionStrategy::Leveled, CompactionStrategy::tiered()] {
        let fs = MemFs::new();
        let (database, _lock) = with_due_level0(&fs, strategy);
        let share = |database: &Database| {
            database.backpressure.update(&database.log);
            database.backpressure.level_share()
        };
        let before = share(&database);
        assert!(before > 0.4, "{before}");
        let shares = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (seen, observed) = (Arc::clone(&shares), Arc::downgrade(&database));
        fs.on_call(Some(Arc::new(move |call| {
            let is_table = call.path.extension().is_some_and(|end| end == "table");
            if let Some(database) = observed.upgrade().filter(|_| is_table) {
                lock(&seen).push(share(&database));
            }
        })));
        assert!(compact_next(&database.job_rooms()).unwrap());
        fs.on_call(None);
        let shares = lock(&shares).clone();
        assert!(shares.is_sorted_by(|a, b| a >= b), "{strategy:?}: {shares:?}");
        assert_eq!(shares[0], before, "nothing is read");
        assert!(shares[shares.len() - 1] < before / 2.0, "{strategy:?}: {shares:?}");
        assert_eq!(share(&database), 0.0, "its inputs are gone");
    }
}

#[test]
fn a_merge_that_fails_gives_its_credit_back() {
    let fs = MemFs::new();
    let (database, _lock) = with_due_level0(&fs, CompactionStrategy::Leveled);
    database.backpressure.update(&database.log);
    let before = database.backpressure.level_share();
    fs.set_fault(fault(Some(CallKind::SyncDir), 1, FaultError::NoSpace));
    assert_eq!(compact_next(&database.job_rooms()).unwrap_err().kind(), ErrorKind::NoSpace);
    database.backpressure.update(&database.log);
    assert_eq!(database.backpressure.level_share(), before);
}

#[test]
fn writers_keep_to_the_pace_once_there_is_debt() {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000)));
    let options = options(&fs);
    let (memory_budget, memtable_bytes) = (1 << 30, 64 << 20);
    let options = EngineOptions { clock: clock.clone(), memory_budget, memtable_bytes, ..options };
    let (database, _lock) = recovery::open(Path::new(DIR), options, Waiting::ForWorkers).unwrap();
    let family = database.catalog.families.named("default").unwrap();
    let value = [7; 10_000];
    // A megabyte in a hundred milliseconds, and what writers sleep.
    let megabyte = || {
        let start = clock.monotonic_ns();
        for _ in 0..100 {
            clock.advance(Duration::from_millis(1));
            let put = Payload::one(&family, EntryKind::Put, b"key", &value);
            commit(Writable::inside(&database), &put, Durability::Buffered).unwrap();
        }
        Duration::from_nanos(clock.monotonic_ns() - start).as_millis()
    };
    let free: Vec<_> = (0..15).map(|_| megabyte()).collect();
    assert_eq!(free, [100; 15], "there is no debt");
    let levels = LevelDebt {
        runs: 17,
        ..database.backpressure.level_debt_of(&family.tree.view().version, &family.tree.options())
    };
    database.backpressure.levels.note(family.id, Some(levels));
    // What was not written before they must wait is a burst, and that is free.
    let paced: Vec<_> = (0..25).map(|_| megabyte()).collect();
    let slow = paced.iter().filter(|&&ms| ms > 150).count();
    assert!(slow >= 8, "{paced:?}");
    assert!(paced[0] <= 110, "{paced:?}");
}
