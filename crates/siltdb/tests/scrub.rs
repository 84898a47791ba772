//! Scrubs of a database in use.

use siltdb::{
    CancelToken, Db, ErrorKind, FamilyOptions, Options, Read, ScrubOptions, ScrubReport,
    testing::{Fs, ManualClock, MemFs},
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
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
        .memtable_bytes(16 << 10)
        .memory_budget(4 << 20)
        .default_family(family_options())
}

fn family_options() -> FamilyOptions {
    FamilyOptions::new().block_bytes(1 << 10).table_bytes(16 << 10)
}

fn until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < STUCK, "it does not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

fn scrub(db: &Db) -> Arc<ScrubReport> {
    db.scrub(&ScrubOptions::new(), &mut |_| {}).unwrap()
}

/// Ends the writers of a test, also if it fails.
struct EndWriters<'a>(&'a AtomicBool);

impl Drop for EndWriters<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A database with a family that no writer touches any more, and the files of its tables.
fn with_cold_family(options: Options, fs: &MemFs) -> (Db, Vec<PathBuf>) {
    let db = options.open("db").unwrap();
    let cold = db.create_family("cold", family_options()).unwrap();
    for key in 0..600_u32 {
        cold.put(key.to_be_bytes(), key.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(10))
            .unwrap();
    }
    cold.flush().unwrap();
    cold.compact().unwrap();
    db.settle().unwrap();
    let entries = fs.list(Path::new("db")).unwrap().into_iter();
    let tables = entries.filter(|entry| entry.name.ends_with(".table"));
    let tables: Vec<_> = tables.map(|entry| Path::new("db").join(entry.name)).collect();
    assert!(tables.len() > 1);
    (db, tables)
}

#[test]
fn damage_is_found_while_writers_run_and_stops_none_of_them() {
    let fs = MemFs::new();
    let (db, tables) = with_cold_family(options(&fs, 2), &fs);
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _end = EndWriters(&is_over);
        for writer in 0..3_u8 {
            let (db, is_over, written) = (&db, &is_over, &written);
            scope.spawn(move || {
                let mut number = 0_u32;
                while !is_over.load(Ordering::Relaxed) {
                    number += 1;
                    db.put([&[writer][..], &(number % 500).to_be_bytes()].concat(), [writer; 60])
                        .unwrap();
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until(|| db.stats().compactions > 2);
        let before = written.load(Ordering::Relaxed);
        for _ in 0..5 {
            let report = scrub(&db);
            assert!(report.is_clean() && report.is_complete, "{report:?}");
        }
        for path in &tables {
            let len = fs.read_all(path).unwrap().len() as u64;
            for offset in [20, len / 2, len - 20] {
                fs.bytes_flip(path, offset, 1).unwrap();
                let report = scrub(&db);
                assert_eq!(report.found.tables_damaged, 1, "byte {offset} of {path:?}");
                assert_eq!(report.found.errors.len(), 1, "the log is sound: {report:?}");
                let lost = &report.found.damage[0];
                assert_eq!(lost.family.as_deref(), Some("cold"));
                assert!(lost.first.is_some() && lost.last.is_some());
                let (name, error) = (path.display().to_string(), db.background_error().unwrap());
                assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&name[..])));
                assert!(error.offset().is_some());
                fs.bytes_flip(path, offset, 1).unwrap();
            }
        }
        assert!(scrub(&db).is_clean() && db.background_error().is_none());
        until(|| written.load(Ordering::Relaxed) > before + 1000);
    });
    assert_eq!(db.family("cold").unwrap().count(..).unwrap(), 600);
    db.close().unwrap();
}

/// So no crash during a scrub differs from one before it.
#[test]
fn a_scrub_makes_no_call_that_changes_anything() {
    let fs = MemFs::new();
    let (db, _) = with_cold_family(options(&fs, 0), &fs);
    db.put("late", "1").unwrap();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    fs.on_call(Some(Arc::new(move |call| noted.lock().unwrap().push(call.kind))));
    let report = scrub(&db);
    fs.on_call(None);
    assert!(report.is_clean() && report.found.log_records > 0 && report.found.tables > 1);
    assert_eq!(*calls.lock().unwrap(), []);
}

#[test]
fn the_background_scrub_finds_damage_and_sees_it_go() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000))));
    let interval = Duration::from_secs(3600);
    let scrubbing = options(&fs, 1).clock(clock.clone()).scrub_interval(interval);
    let (db, tables) = with_cold_family(scrubbing.scrub_bytes_per_second(1 << 20), &fs);
    until(|| db.stats().scrubs == 1);
    assert!(db.last_scrub().unwrap().is_clean());
    let later = |scrubs: u64| {
        // The sleeps of a scrub move this clock far less.
        clock.advance(interval);
        until(|| db.stats().scrubs == scrubs);
    };
    fs.bytes_flip(&tables[0], 30, 1).unwrap();
    later(2);
    assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Corruption);
    let stats = db.stats();
    assert!(stats.scrub_damage == 1 && stats.scrub_bytes > 0 && stats.scrub_started_ms > 0);
    fs.bytes_flip(&tables[0], 30, 1).unwrap();
    // A pause holds it back, and its end wakes it.
    let pause = db.pause_background().unwrap();
    clock.advance(interval);
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(db.stats().scrubs, 2);
    pause.resume();
    until(|| db.stats().scrubs == 3);
    assert!(db.background_error().is_none());
    db.put("k", "v").unwrap();
    db.close().unwrap();
}

#[test]
fn a_close_ends_scrubs_soon() {
    let fs = MemFs::new();
    let clock = Arc::new(siltdb_base::clock::SystemClock::default());
    let slow = options(&fs, 1).clock(clock).scrub_bytes_per_second(1 << 10);
    let (db, _) = with_cold_family(slow.scrub_interval(Duration::from_secs(3600)), &fs);
    let (begun, beginning) = mpsc::channel();
    let scrubbing = {
        let db = db.clone();
        thread::spawn(move || {
            let options = ScrubOptions::new().bytes_per_second(1 << 10);
            db.scrub(&options, &mut |_| {
                let _ = begun.send(());
            })
        })
    };
    beginning.recv_timeout(STUCK).unwrap();
    let start = Instant::now();
    db.close().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(scrubbing.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_cancelled_scrub_continues_where_it_was_also_after_a_reopen() {
    let fs = MemFs::new();
    let (db, tables) = with_cold_family(options(&fs, 0), &fs);
    let token = CancelToken::new();
    let (stopped, mut blocks) = (token.clone(), 0);
    let options_of_it = ScrubOptions::new().cancel(&token);
    let first = db.scrub(&options_of_it, &mut |progress| {
        assert!(progress.bytes_done <= progress.bytes_total);
        blocks += 1;
        if blocks == 20 {
            stopped.cancel();
        }
    });
    let first = first.unwrap();
    assert!(!first.is_complete && first.found.tables > 0, "{first:?}");
    assert_eq!(db.stats().scrubs, 0);
    db.close().unwrap();
    let db = options(&fs, 0).open("db").unwrap();
    let rest = db.scrub(&ScrubOptions::new().after(first.last_table), &mut |_| {}).unwrap();
    assert!(rest.is_complete && rest.found.tables > 0);
    let all = scrub(&db);
    assert_eq!(first.found.tables + rest.found.tables, all.found.tables);
    assert!(all.found.tables >= tables.len() as u64);
}

#[test]
fn bad_input_is_refused() {
    let fs = MemFs::new();
    let (db, _) = with_cold_family(options(&fs, 0), &fs);
    for rate in [0, 1, 1023] {
        let slow = ScrubOptions::new().bytes_per_second(rate);
        let error = db.scrub(&slow, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let opened = options(&MemFs::new(), 1).scrub_bytes_per_second(rate).open("db");
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    // No table has a larger uid.
    let nothing = db.scrub(&ScrubOptions::new().after(Some(u64::MAX)), &mut |_| {}).unwrap();
    assert!(nothing.is_complete && nothing.found.tables == 0 && nothing.bytes == 0);
    let clone = db.clone();
    db.close().unwrap();
    let closed = clone.scrub(&ScrubOptions::new(), &mut |_| {}).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}
