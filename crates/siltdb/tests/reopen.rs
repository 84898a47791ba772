//! The state, besides data, that a database keeps from one process to the next.

use siltdb::{
    Db, Durability, ErrorKind, FamilyOptions, Isolation, Options, Read, RecoveryMode, WriteBatch,
    WriteOptions,
};
use siltdb_base::{
    clock::ManualClock,
    fs::{
        Fs,
        mem::{Crash, MemFs},
    },
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

fn options(fs: &MemFs, clock: &Arc<ManualClock>) -> Options {
    let (fs, clock) = (Arc::new(fs.clone()), Arc::clone(clock));
    Options::new().workers(0).fs(fs).clock(clock).seed(1)
}

fn open(fs: &MemFs, clock: &Arc<ManualClock>) -> siltdb::Result<Db> {
    options(fs, clock).open("db")
}

#[test]
fn what_was_seen_expired_stays_so_after_a_restart_with_the_clock_set_back() {
    // After a flush, the log has nothing that the close would have to end.
    for is_flushed in [false, true] {
        let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
        let db = open(&fs, &clock).unwrap();
        let mut batch = WriteBatch::new();
        let family = db.default_family();
        batch.put_for(&family, b"short", b"1", Duration::from_millis(1_000)).unwrap();
        let late = UNIX_EPOCH + Duration::from_millis(9_000);
        batch.put_until(&family, b"long", b"2", late).unwrap();
        db.write(&batch).unwrap();
        if is_flushed {
            db.flush().unwrap();
            db.sync_wal().unwrap();
        }
        assert!(db.contains(b"short").unwrap());
        clock.set(Duration::from_millis(3_000));
        assert!(!db.contains(b"short").unwrap());
        db.close().unwrap();
        clock.set(Duration::from_millis(1_500));
        let db = open(&fs, &clock).unwrap();
        assert!(!db.contains(b"short").unwrap());
        assert!(db.contains(b"long").unwrap());
    }
}

/// Reads in each way that finds a key absent because it has expired.
type Look = fn(&Db) -> bool;

const LOOKS: [(&str, Look); 8] = [
    ("contains", |db| db.contains(b"short").unwrap()),
    ("get", |db| db.get(b"short").unwrap().is_some()),
    ("expires_at", |db| db.expires_at(b"short").unwrap().is_some()),
    ("iterator", |db| db.iter().unwrap().any(|pair| pair.unwrap().0 == b"short")),
    ("backward", |db| db.iter().unwrap().rev().any(|pair| pair.unwrap().0 == b"short")),
    ("count", |db| db.count(..).unwrap() == 2),
    ("snapshot", |db| db.snapshot().contains(b"short").unwrap()),
    ("transaction", |db| db.begin(Isolation::Serializable).get(b"short").unwrap().is_some()),
];

#[test]
fn what_was_seen_expired_stays_so_after_a_kill_without_a_flush() {
    for (name, look) in LOOKS {
        for (is_flushed, threshold) in [(false, 0), (true, 0), (true, 32)] {
            let (fs, clock) =
                (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
            let db = open(&fs, &clock).unwrap();
            let family = db.default_family();
            family.set_options(&family.options().value_threshold(threshold)).unwrap();
            family.put_for(b"short", [1; 100], Duration::from_millis(1_000)).unwrap();
            family.put_for(b"long", [2; 100], Duration::from_millis(8_000)).unwrap();
            if is_flushed {
                db.flush().unwrap();
            }
            assert!(look(&db), "{name}");
            clock.set(Duration::from_millis(3_000));
            assert!(!look(&db), "{name}");
            // Twice, because the second recovery must keep what the first one found.
            let (mut fs, mut open_now) = (fs, db);
            for _ in 0..2 {
                fs = fs.crash_clone(Crash::Kill);
                clock.set(Duration::from_millis(1_500));
                open_now = open(&fs, &clock).unwrap();
                assert!(!look(&open_now), "{name}, flushed: {is_flushed}");
                assert!(open_now.contains(b"long").unwrap());
            }
            drop(open_now);
        }
    }
}

#[test]
fn what_a_process_that_only_read_saw_expired_stays_so() {
    for (name, look) in LOOKS {
        let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
        let db = open(&fs, &clock).unwrap();
        db.put_for(b"short", b"1", Duration::from_millis(1_000)).unwrap();
        db.put_for(b"long", b"2", Duration::from_millis(8_000)).unwrap();
        db.close().unwrap();
        let db = open(&fs, &clock).unwrap();
        clock.set(Duration::from_millis(3_000));
        assert!(!look(&db), "{name}");
        db.close().unwrap();
        clock.set(Duration::from_millis(1_500));
        let db = open(&fs, &clock).unwrap();
        assert!(!look(&db), "{name}");
        assert!(db.contains(b"long").unwrap());
    }
}

#[test]
fn the_log_takes_one_note_of_what_has_expired_and_none_without_it() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = open(&fs, &clock).unwrap();
    for (key, ms) in [("a", 1_000), ("b", 2_000), ("c", 90_000)] {
        db.put_for(key, "value", Duration::from_millis(ms)).unwrap();
    }
    let sequence = || db.snapshot().sequence();
    let before = sequence();
    for key in ["a", "b", "c", "none"] {
        db.get(key).unwrap();
    }
    assert_eq!((db.count(..).unwrap(), sequence()), (3, before));
    clock.set(Duration::from_millis(5_000));
    for _ in 0..3 {
        assert_eq!(db.count(..).unwrap(), 1);
        assert_eq!(db.get("a").unwrap(), None);
    }
    assert_eq!(sequence(), before + 1);
}

/// The clock once reads decades ahead, then the right time again, in the same process and the next.
#[test]
fn one_wrong_reading_of_the_clock_neither_ends_nor_stops_expiry() {
    const NOW_MS: u64 = 1_790_000_000_000;
    const HOUR: Duration = Duration::from_secs(3600);
    for is_closed in [false, true] {
        let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(NOW_MS))));
        let mut db = open(&fs, &clock).unwrap();
        let put = |db: &Db, key: &[u8], life: Duration| {
            db.default_family().put_for(key, b"value", life).unwrap();
        };
        put(&db, b"before", 2 * HOUR);
        // The year 2096.
        clock.set(Duration::from_millis(NOW_MS + 70 * 365 * 86_400_000));
        assert!(!db.contains(b"before").unwrap(), "the clock is believed while it says so");
        put(&db, b"wrong", HOUR);
        if is_closed {
            db.flush().unwrap();
            db.close().unwrap();
            clock.set(Duration::from_millis(NOW_MS + 1000));
            db = open(&fs, &clock).unwrap();
        }
        clock.set(Duration::from_millis(NOW_MS + 1000));
        let mut batch = WriteBatch::new();
        let until = UNIX_EPOCH + Duration::from_millis(NOW_MS) + HOUR;
        batch.put_until(&db.default_family(), b"hour", b"value", until).unwrap();
        db.write(&batch).unwrap();
        put(&db, b"minute", Duration::from_secs(60));
        assert!(db.contains(b"hour").unwrap(), "it expired at once, closed: {is_closed}");
        assert!(db.contains(b"minute").unwrap());
        assert!(db.contains(b"before").unwrap());
        clock.advance(Duration::from_secs(61));
        assert!(!db.contains(b"minute").unwrap(), "it does not expire, closed: {is_closed}");
        assert!(db.contains(b"hour").unwrap());
        clock.advance(2 * HOUR);
        assert!(!db.contains(b"hour").unwrap() && !db.contains(b"before").unwrap());
    }
}

#[test]
fn a_close_keeps_what_is_not_in_the_log() {
    let volatile = WriteOptions::new().durability(Durability::Volatile);
    for closes in [true, false] {
        let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
        let db = open(&fs, &clock).unwrap();
        let users = db.create_family("users", FamilyOptions::new()).unwrap();
        db.put_with(b"loaded", b"1", &volatile).unwrap();
        users.put_with(b"alice", b"2", &volatile).unwrap();
        db.put(b"logged", b"3").unwrap();
        drop(users);
        if closes {
            db.close().unwrap();
        } else {
            drop(db);
        }
        let db = open(&fs, &clock).unwrap();
        let users = db.family("users").unwrap();
        assert!(db.contains(b"loaded").unwrap() && db.contains(b"logged").unwrap());
        assert!(users.contains(b"alice").unwrap());
        // No flush is written if there is nothing to lose.
        assert_eq!(db.stats().flushes, 0);
        db.put(b"logged", b"4").unwrap();
        drop(users);
        db.close().unwrap();
        assert_eq!(open(&fs, &clock).unwrap().stats().table_entries, 3);
    }
}

#[test]
fn a_close_that_cannot_keep_everything_says_so_to_all() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = open(&fs, &clock).unwrap();
    let volatile = WriteOptions::new().durability(Durability::Volatile);
    db.put(b"logged", b"1").unwrap();
    db.put_with(b"loaded", vec![7; 1 << 20], &volatile).unwrap();
    fs.set_space_limit(Some(fs.space_used()));
    let clone = db.clone();
    for db in [db, clone] {
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::NoSpace);
    }
    fs.set_space_limit(None);
    let db = open(&fs, &clock).unwrap();
    assert!(db.contains(b"logged").unwrap() && !db.contains(b"loaded").unwrap());
}

#[test]
fn a_close_leaves_little_to_be_replayed() {
    let value = vec![7; 1 << 10];
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let write = |db: &Db, first: u32, count: u32| {
        for number in first..first + count {
            db.put(number.to_be_bytes(), &value).unwrap();
        }
    };
    let db = open(&fs, &clock).unwrap();
    write(&db, 0, 500);
    db.close().unwrap();
    let db = open(&fs, &clock).unwrap();
    assert_eq!(db.stats().table_entries, 0);
    // Replayed entries count like written ones.
    write(&db, 500, 600);
    db.close().unwrap();
    let db = open(&fs, &clock).unwrap();
    assert_eq!(db.stats().table_entries, 1_100);
    // If there is no space for a table, the log still has everything.
    write(&db, 1_100, 1_100);
    fs.set_space_limit(Some(fs.space_used()));
    db.close().unwrap();
    fs.set_space_limit(None);
    let db = open(&fs, &clock).unwrap();
    assert_eq!(db.stats().table_entries, 1_100);
    assert_eq!(db.iter().unwrap().count(), 2_200);
}

/// The log files, at least one.
fn logs(fs: &MemFs) -> siltdb::Result<Vec<PathBuf>> {
    let entries = fs.list(Path::new("db"))?;
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    let logs: Vec<_> = logs.map(|log| Path::new("db").join(&log.name)).collect();
    assert!(!logs.is_empty());
    Ok(logs)
}

fn lose_log(fs: &MemFs) -> siltdb::Result<()> {
    logs(fs)?.iter().try_for_each(|log| fs.remove(log))
}

fn assert_refused(fs: &MemFs, clock: &Arc<ManualClock>) {
    let kind = open(fs, clock).err().map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::Corruption));
}

#[test]
fn a_log_that_is_missing_after_a_close_is_noticed() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = open(&fs, &clock).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    lose_log(&fs).unwrap();
    assert_refused(&fs, &clock);
}

#[test]
fn a_log_that_is_missing_after_a_close_that_followed_a_crash_is_noticed() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = open(&fs, &clock).unwrap();
    db.put(b"key", b"value").unwrap();
    let fs = fs.crash_clone(Crash::Kill);
    open(&fs, &clock).unwrap().close().unwrap();
    lose_log(&fs).unwrap();
    assert_refused(&fs, &clock);
}

#[test]
fn a_log_whose_segment_was_full_at_the_close_is_missed_as_well() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = options(&fs, &clock).memtable_bytes(8 << 10).open("db").unwrap();
    // A commit larger than a segment gets a segment of its own, which it fills.
    db.put(b"key", vec![b'v'; 64 << 10]).unwrap();
    db.close().unwrap();
    lose_log(&fs).unwrap();
    assert_refused(&fs, &clock);
}

/// A database opened with accepted losses opens strictly from then on, and accepts writes.
fn accept_once(fs: &MemFs, clock: &Arc<ManualClock>) -> siltdb::Result<()> {
    assert_refused(fs, clock);
    let accepting = options(fs, clock).recovery(RecoveryMode::PointInTime);
    accepting.open("db")?.close()?;
    let db = open(fs, clock)?;
    assert!(!db.contains(b"key")?);
    db.put(b"key", b"again")?;
    db.close()?;
    assert!(open(fs, clock)?.contains(b"key")?);
    Ok(())
}

#[test]
fn a_missing_log_that_was_accepted_once_stays_accepted() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = open(&fs, &clock).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    lose_log(&fs).unwrap();
    accept_once(&fs, &clock).unwrap();
}

#[test]
fn a_damaged_log_that_was_accepted_once_stays_accepted() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let db = open(&fs, &clock).unwrap();
    db.put(b"first", b"value").unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    for log in logs(&fs).unwrap() {
        let bytes = fs.read_all(&log).unwrap();
        let key = bytes.windows(3).position(|window| window == b"key").unwrap();
        fs.bytes_flip(&log, key as u64, 1).unwrap();
    }
    accept_once(&fs, &clock).unwrap();
    assert!(open(&fs, &clock).unwrap().contains(b"first").unwrap());
}

#[test]
fn a_closed_database_of_one_key_takes_a_few_kib_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let bytes_of = |name: &str| -> u64 {
        let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        let named = entries.filter(|entry| entry.file_name().to_str().unwrap().ends_with(name));
        named.map(|entry| entry.metadata().unwrap().len()).sum()
    };
    for round in 0..3_u8 {
        let db = Db::open(&path).unwrap();
        db.put(b"key", [round; 100]).unwrap();
        db.close().unwrap();
        assert!(bytes_of(".log") < 4_000 && bytes_of(".manifest") < 4_000, "{round}");
        assert!((100..20_000).contains(&bytes_of("")), "{round}");
        let db = Db::open(&path).unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&[round; 100][..]));
    }
}
