//! Pauses of the background work, and compactions that are cancelled.

use siltdb::{
    CancelToken, CompactOptions, CompactProgress, Create, Db, ErrorKind, FamilyOptions, Options,
    Read, Result,
    testing::{Call, CallKind, Crash, Fs, ManualClock, MemFs},
};
use std::{
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Longer than any test takes that is not stuck.
const STUCK: Duration = Duration::from_secs(60);

fn options(fs: &MemFs, workers: usize) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at(Duration::from_millis(1_000_000))))
        .seed(5)
        .workers(workers)
        .memtable_bytes(4 << 10)
        .memory_budget(4 << 20)
        .default_family(FamilyOptions::new().level0_runs(2).table_bytes(4 << 10))
}

fn open(fs: &MemFs, workers: usize) -> Db {
    options(fs, workers).open("db").unwrap()
}

/// Bytes that do not compress.
fn value(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
        (state >> 56) as u8
    };
    (0..100).map(|_| next()).collect()
}

/// Overwrites all of `count` keys.
fn fill(db: &Db, count: u32, round: u64) -> Result<()> {
    (0..count).try_for_each(|key| db.put(key.to_be_bytes(), value(round << 32 | u64::from(key))))
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn contents(db: &Db) -> Pairs {
    let pairs = db.iter().unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    pairs.collect()
}

fn table_files(fs: &MemFs) -> Vec<String> {
    let entries = fs.list(Path::new("db")).unwrap().into_iter();
    let mut names: Vec<_> = entries.map(|entry| entry.name).collect();
    names.retain(|name| name.ends_with(".table"));
    names.sort();
    names
}

/// Waits until `is_so`.
fn until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < STUCK, "it does not come about");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `work` on a thread; it must not take for ever.
fn not_stuck<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let _ = thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(STUCK).expect("it waits for ever")
}

/// Level 0 with more runs than trigger a compaction.
fn with_due_compaction(db: &Db) {
    for round in 0..6 {
        fill(db, 30, round).unwrap();
        db.flush().unwrap();
    }
}

#[test]
fn no_compaction_begins_during_a_pause_and_all_begin_after_it() {
    let fs = MemFs::new();
    let db = open(&fs, 0);
    let pause = db.pause_background().unwrap();
    with_due_compaction(&db);
    let runs = db.stats().tables[0];
    assert!(runs >= 6, "{runs}");
    assert!(!db.run_job().unwrap());
    db.settle().unwrap();
    let stats = db.stats();
    assert_eq!((stats.tables[0], stats.compactions, stats.background_pauses), (runs, 0, 1));
    // A manual compaction is no background work.
    let before = contents(&db);
    db.default_family().compact_range(..4_u32.to_be_bytes()).unwrap();
    assert!(db.stats().compactions > 0 && contents(&db) == before);
    with_due_compaction(&db);
    let compactions = db.stats().compactions;
    assert!(!db.run_job().unwrap());
    drop(pause);
    db.settle().unwrap();
    let stats = db.stats();
    assert!(stats.compactions > compactions && stats.tables[0] < 2, "{stats}");
    assert_eq!(stats.background_pauses, 0);
}

#[test]
fn overlapping_pauses_end_with_the_last_one() {
    let fs = MemFs::new();
    let db = open(&fs, 2);
    let (first, second) = (db.pause_background().unwrap(), db.pause_background().unwrap());
    with_due_compaction(&db);
    assert_eq!(db.stats().background_pauses, 2);
    first.resume();
    db.settle().unwrap();
    assert_eq!(db.stats().compactions, 0);
    second.resume();
    // No signal but that of the pause wakes the threads.
    until(|| db.stats().compactions > 0);
    db.settle().unwrap();
    assert!(db.stats().tables[0] < 2);
}

/// Far more flushes than level 0 takes before writers stop. No memory holds so much either.
#[test]
fn no_writer_waits_for_the_end_of_a_pause() {
    for workers in [0, 2] {
        let fs = MemFs::new();
        let db = open(&fs, workers);
        let pause = db.pause_background().unwrap();
        let writer = db.clone();
        not_stuck(move || {
            for round in 0..100 {
                fill(&writer, 60, round)?;
            }
            Ok::<(), siltdb::Error>(())
        })
        .unwrap();
        let stats = db.stats();
        assert!(stats.flushes >= 40, "{stats}");
        assert!(stats.compactions > 0, "without them writers could not go on: {stats}");
        // Without the pause each second flush makes one due.
        assert!(stats.compactions * 3 < stats.flushes, "compacted before writers waited: {stats}");
        drop(pause);
        db.settle().unwrap();
        assert_eq!(contents(&db).len(), 60);
    }
}

#[test]
fn a_paused_database_closes_and_opens_again() {
    let fs = MemFs::new();
    let mut pauses = Vec::new();
    for close in [true, false] {
        let db = open(&fs, 2);
        pauses.push(db.pause_background().unwrap());
        with_due_compaction(&db);
        let again = options(&fs, 2);
        not_stuck(move || if close { db.close().unwrap() } else { drop(db) });
        // The pause does not hold the lock.
        let db = again.create(Create::Never).open("db").unwrap();
        assert_eq!((contents(&db).len(), db.stats().background_pauses), (30, 0));
    }
    drop(pauses);
}

#[test]
fn only_a_database_that_is_open_for_writing_is_paused() {
    let fs = MemFs::new();
    let db = open(&fs, 0);
    let clone = db.clone();
    db.close().unwrap();
    assert_eq!(clone.pause_background().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(clone.cancel_compactions().unwrap_err().kind(), ErrorKind::Closed);
    let db = options(&fs, 0).read_only(true).open("db").unwrap();
    assert_eq!(db.pause_background().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.cancel_compactions().unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// A call of the file system at which its thread stops.
struct Stop {
    reached: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

/// Stops the first call for which `is_it` is true.
fn stop_call(fs: &MemFs, is_it: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static) -> Stop {
    let ((sender, reached), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Mutex::new(Some((sender, goes_on)));
    fs.on_call(Some(Arc::new(move |call| {
        if !is_it(&call) {
            return;
        }
        let gate = gate.lock().unwrap().take();
        if let Some((sender, goes_on)) = gate {
            sender.send(()).unwrap();
            let _ = goes_on.recv();
        }
    })));
    Stop { reached, go_on }
}

fn is_new_table(call: &Call<'_>) -> bool {
    call.kind == CallKind::Create && call.path.extension().is_some_and(|name| name == "table")
}

/// A database in which a compaction is due that takes more than one block, and its contents.
fn before_a_compaction(fs: &MemFs) -> (Db, Pairs) {
    let db = open(fs, 0);
    let pause = db.pause_background().unwrap();
    for round in 0..4 {
        fill(&db, 300, round).unwrap();
        db.flush().unwrap();
    }
    let before = contents(&db);
    drop(pause);
    (db, before)
}

/// The stopped thread has created a table; it meets the cancellation before it is through.
#[test]
fn a_cancelled_compaction_leaves_no_file_and_no_failure() {
    let fs = MemFs::new();
    // One thread compacts, so no other compaction ends meanwhile.
    let db = open(&fs, 1);
    let pause = db.pause_background().unwrap();
    for round in 0..3 {
        fill(&db, 300, round).unwrap();
        db.flush().unwrap();
    }
    let (before, files) = (contents(&db), table_files(&fs));
    let stop = stop_call(&fs, |call| {
        let is_worker = thread::current().name().is_some_and(|name| name.contains("compact"));
        is_worker && is_new_table(call)
    });
    drop(pause);
    stop.reached.recv_timeout(STUCK).unwrap();
    let pause = db.pause_background().unwrap();
    let compactions = db.stats().compactions;
    let cancelling = {
        let db = db.clone();
        thread::spawn(move || db.cancel_compactions())
    };
    // It waits for the running compaction.
    thread::sleep(Duration::from_millis(50));
    assert!(!cancelling.is_finished());
    stop.go_on.send(()).unwrap();
    cancelling.join().unwrap().unwrap();
    fs.on_call(None);
    assert_eq!(db.stats().compactions, compactions);
    assert_eq!(table_files(&fs), files, "a partial output is left");
    assert!(db.background_error().is_none());
    assert!(contents(&db) == before);
    drop(pause);
    db.settle().unwrap();
    assert!(db.stats().compactions > 0 && contents(&db) == before);
    assert!(db.check(&mut |_| {}).unwrap().is_clean());
}

/// How a manual compaction is cancelled.
#[derive(Clone, Copy, Debug)]
enum Way {
    Token,
    Database,
}

#[test]
fn a_cancelled_manual_compaction_fails_and_can_be_repeated() {
    for way in [Way::Token, Way::Database] {
        let fs = MemFs::new();
        let (db, before) = before_a_compaction(&fs);
        let files = table_files(&fs);
        let stop = stop_call(&fs, is_new_table);
        let token = CancelToken::new();
        let compacting = {
            let (db, options) = (db.clone(), CompactOptions::new().cancel(&token));
            thread::spawn(move || db.compact_with(&options, &mut |_| {}))
        };
        stop.reached.recv_timeout(STUCK).unwrap();
        let cancelling = {
            let (db, token) = (db.clone(), token.clone());
            thread::spawn(move || match way {
                Way::Token => token.cancel(),
                Way::Database => db.cancel_compactions().unwrap(),
            })
        };
        if let Way::Token = way {
            until(|| token.is_cancelled());
        } else {
            thread::sleep(Duration::from_millis(50));
        }
        stop.go_on.send(()).unwrap();
        cancelling.join().unwrap();
        let error = compacting.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{way:?}");
        fs.on_call(None);
        assert_eq!(table_files(&fs), files, "{way:?}: a partial output is left");
        assert!(db.background_error().is_none() && contents(&db) == before);
        // Only the token stays cancelled.
        let again = db.compact_with(&CompactOptions::new().cancel(&token), &mut |_| {});
        assert_eq!(again.is_err(), matches!(way, Way::Token), "{way:?}: {again:?}");
        db.compact().unwrap();
        assert_eq!((db.stats().tables[0], db.stats().table_entries), (0, 300));
        assert!(contents(&db) == before);
    }
}

#[test]
fn a_range_compaction_tells_its_progress_and_stops_between_steps() {
    let fs = MemFs::new();
    let (db, before) = before_a_compaction(&fs);
    let family = db.default_family();
    let mut steps: Vec<CompactProgress> = Vec::new();
    let range = 100_u32.to_be_bytes()..200_u32.to_be_bytes();
    let mut note = |progress| steps.push(progress);
    family.compact_range_with(range.clone(), &CompactOptions::new(), &mut note).unwrap();
    assert!(!steps.is_empty() && contents(&db) == before);
    let ascend = |pair: &[CompactProgress]| {
        pair[0].compactions < pair[1].compactions && pair[0].bytes_done < pair[1].bytes_done
    };
    assert!(steps.windows(2).all(ascend) && steps[0].bytes_done > 0, "{steps:?}");
    // A token that was cancelled before lets nothing begin.
    let token = CancelToken::new();
    token.cancel();
    let (options, compactions) = (CompactOptions::new().cancel(&token), db.stats().compactions);
    let kind = |result: Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(family.compact_range_with(.., &options, &mut |_| {})), ErrorKind::Cancelled);
    assert_eq!(kind(family.compact_with(&options, &mut |_| {})), ErrorKind::Cancelled);
    assert_eq!(kind(db.compact_with(&options, &mut |_| {})), ErrorKind::Cancelled);
    assert_eq!(db.stats().compactions, compactions);
    assert!(db.background_error().is_none());
}

/// Two levels below level 0 in each of `families`, so that compacting one takes several steps.
fn with_levels(fs: &MemFs, families: usize) -> Db {
    let shape = FamilyOptions::new().level0_runs(2).table_bytes(4 << 10).base_level_bytes(8 << 10);
    let db = options(fs, 0).default_family(shape.clone()).open("db").unwrap();
    for number in 1..families {
        db.create_family(&format!("family {number}"), shape.clone()).unwrap();
    }
    for round in 0..4 {
        for name in db.families() {
            let family = db.family(&name).unwrap();
            for key in 0..300_u32 {
                family.put(key.to_be_bytes(), value(round << 32 | u64::from(key))).unwrap();
            }
        }
        db.flush().unwrap();
        db.settle().unwrap();
    }
    db
}

/// Between two steps, and between two families, no compaction runs that could meet the
/// cancellation.
#[test]
fn a_compaction_that_is_cancelled_between_its_steps_takes_no_further_one() {
    for families in [1, 3] {
        let fs = MemFs::new();
        drop(with_levels(&fs, families));
        let compact = |fs: &MemFs, cancelled: Option<(Way, u64)>| {
            let db = open(fs, 0);
            let _pause = db.pause_background().unwrap();
            fill(&db, 300, 9).unwrap();
            let before = contents(&db);
            let (token, mut steps) = (CancelToken::new(), 0);
            let compacted = db.compact_with(&CompactOptions::new().cancel(&token), &mut |_| {
                steps += 1;
                match &cancelled {
                    Some((Way::Token, step)) if *step == steps => token.cancel(),
                    Some((Way::Database, step)) if *step == steps => {
                        db.cancel_compactions().unwrap();
                    }
                    _ => {}
                }
            });
            let what = format!("{families} families: {steps} steps, {compacted:?}");
            match &cancelled {
                None => assert!(compacted.is_ok() && steps > families as u64, "{what}"),
                Some((_, step)) => {
                    assert_eq!(compacted.unwrap_err().kind(), ErrorKind::Cancelled, "{what}");
                    assert_eq!(steps, *step, "{what}");
                }
            }
            assert!(contents(&db) == before, "{what}");
            // A cancellation is for what ran then.
            db.compact().unwrap();
            assert_eq!(db.stats().tables[0], 0, "{what}");
            steps
        };
        let steps = compact(&fs.crash_clone(Crash::Kill), None);
        // Some steps are the last of their family, and the next one belongs to another.
        for step in 1..steps {
            for way in [Way::Token, Way::Database] {
                compact(&fs.crash_clone(Crash::Kill), Some((way, step)));
            }
        }
    }
}

/// Each call of a compaction that is cancelled in the middle, and of the pause after it, is a crash
/// point: everything is there after a reopen, and nothing superfluous.
#[test]
fn a_crash_while_a_compaction_is_cancelled_loses_nothing() {
    let fs = MemFs::new();
    let (db, before) = before_a_compaction(&fs);
    let token = CancelToken::new();
    let crashed = Arc::new(Mutex::new(Vec::new()));
    let calls = Mutex::new(0);
    fs.on_call(Some(Arc::new({
        let (device, crashed, token) = (fs.clone(), Arc::clone(&crashed), token.clone());
        move |call| {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            // In the middle of the first output.
            if *calls == 4 {
                token.cancel();
            }
            let seed = call.number;
            let mut crashed = crashed.lock().unwrap();
            crashed.push(device.crash_clone(Crash::Kill));
            crashed.push(device.crash_clone(Crash::PowerLoss { seed }));
        }
    })));
    let options_of_it = CompactOptions::new().cancel(&token);
    let cancelled = db.compact_with(&options_of_it, &mut |_| {}).unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
    fs.on_call(None);
    let crashed = std::mem::take(&mut *crashed.lock().unwrap());
    assert!(crashed.len() >= 8, "{}", crashed.len());
    for fs in crashed {
        let db = open(&fs, 0);
        assert!(contents(&db) == before);
        assert!(db.check(&mut |_| {}).unwrap().is_clean());
        db.compact().unwrap();
        drop(db.clone());
        assert_eq!(db.stats().table_entries, 300);
    }
}
