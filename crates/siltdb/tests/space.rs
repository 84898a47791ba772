//! Space that background work reclaims within a minute, counted in bytes of table files.

use siltdb::{CompactionStrategy, Db, FamilyOptions, Options, Read, Snapshot, WriteBatch};
use siltdb_base::{
    clock::ManualClock,
    fs::{Fs, mem::MemFs},
};
use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// A database without threads, with tables of 64 KiB, on files in memory and a manual clock.
struct Bench {
    db: Db,
    fs: MemFs,
    clock: Arc<ManualClock>,
    state: u64,
}

impl Bench {
    fn new() -> Self {
        let (fs, clock) =
            (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000))));
        let db = Options::new()
            .workers(0)
            .fs(Arc::new(fs.clone()))
            .clock(clock.clone())
            .seed(1)
            // Smaller memtables share files, which are removed only as a whole.
            .memtable_bytes(1200 << 10)
            .default_family(FamilyOptions::new().table_bytes(64 << 10).base_level_bytes(1 << 20))
            .open("db")
            .unwrap();
        Self { db, fs, clock, state: 7 }
    }

    /// 200 bytes that do not compress.
    fn value(&mut self) -> Vec<u8> {
        let mut value = Vec::new();
        while value.len() < 200 {
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            value.extend_from_slice(&(self.state >> 24).to_le_bytes()[..5]);
        }
        value
    }

    fn fill(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let value = self.value();
            self.db.put(key(number), value).unwrap();
        }
    }

    /// Bytes of all table files in the directory.
    fn bytes(&self) -> u64 {
        let entries = self.fs.list(Path::new("db")).unwrap();
        let tables = entries.iter().filter(|entry| entry.name.ends_with(".table"));
        let files = tables.map(|entry| self.fs.open(&Path::new("db").join(&entry.name)).unwrap());
        files.map(|file| file.len()).sum()
    }

    /// The work of background threads in a minute without writes.
    fn pass_a_minute(&self) {
        for _ in 0..60 {
            while self.db.run_job().unwrap() {}
            self.clock.advance(Duration::from_secs(1));
        }
    }

    fn delete_range(&self, numbers: std::ops::Range<u64>) {
        self.db.default_family().delete_range(key(numbers.start)..key(numbers.end)).unwrap();
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Bytes of `keys` live keys in a database that never had others.
fn live(keys: u64) -> u64 {
    let mut bench = Bench::new();
    bench.fill(0..keys);
    bench.db.compact().unwrap();
    bench.bytes()
}

#[test]
fn all_keys_deleted_by_a_range_leave_nothing_whether_or_not_it_is_flushed() {
    for is_flushed in [true, false] {
        let mut bench = Bench::new();
        bench.fill(0..10_000);
        bench.db.compact().unwrap();
        assert!(bench.bytes() > 2_000_000);
        bench.delete_range(0..u64::MAX);
        if is_flushed {
            bench.db.flush().unwrap();
        }
        bench.pass_a_minute();
        assert_eq!(bench.bytes(), 0, "flushed: {is_flushed}");
        assert!(bench.db.stats().dropped_tables > 20);
        assert_eq!(bench.db.iter().unwrap().count(), 0);
    }
}

#[test]
fn nine_tenths_deleted_by_ranges_leave_what_lives() {
    for step in [10_000, 1_000, 100] {
        let mut bench = Bench::new();
        bench.fill(0..10_000);
        bench.db.compact().unwrap();
        for start in (0..10_000).step_by(step) {
            bench.delete_range(start..start + step as u64 * 9 / 10);
        }
        bench.db.flush().unwrap();
        bench.pass_a_minute();
        let (bytes, live) = (bench.bytes(), live(1_000));
        assert!(bytes * 10 <= live * 13, "by {step}: {bytes} bytes, {live} live");
        assert_eq!(bench.db.iter().unwrap().count(), 1_000);
    }
}

#[test]
fn nine_tenths_deleted_one_by_one_leave_what_lives_whether_or_not_that_is_flushed() {
    for strategy in [CompactionStrategy::Leveled, CompactionStrategy::tiered()] {
        for is_flushed in [true, false] {
            let mut bench = Bench::new();
            let default = bench.db.default_family();
            default.set_options(&default.options().compaction(strategy)).unwrap();
            bench.fill(0..10_000);
            bench.db.compact().unwrap();
            for number in (0..10_000).filter(|number| number % 10 != 3) {
                bench.db.delete(key(number)).unwrap();
            }
            if is_flushed {
                bench.db.flush().unwrap();
            }
            bench.pass_a_minute();
            let (bytes, live) = (bench.bytes(), live(1_000));
            let case = format!("{strategy:?}, flushed: {is_flushed}");
            assert!(bytes * 10 <= live * 13, "{case}: {bytes} bytes, {live} live");
            assert_eq!(bench.db.iter().unwrap().count(), 1_000);
        }
    }
}

#[test]
fn what_is_written_after_a_range_delete_elsewhere_does_not_keep_it() {
    let mut bench = Bench::new();
    bench.fill(0..10_000);
    bench.db.compact().unwrap();
    bench.delete_range(0..10_000);
    bench.fill(20_000..23_000);
    bench.db.flush().unwrap();
    bench.pass_a_minute();
    let (bytes, live) = (bench.bytes(), live(3_000));
    assert!(bytes * 10 <= live * 13, "{bytes} bytes, {live} live");
}

#[test]
fn values_that_expired_an_hour_ago_leave_nothing() {
    let mut bench = Bench::new();
    let family = bench.db.default_family();
    for number in 0..10_000 {
        let value = bench.value();
        family.put_for(key(number), value, Duration::from_secs(60)).unwrap();
    }
    bench.db.flush().unwrap();
    bench.db.settle().unwrap();
    assert!(bench.bytes() > 2_000_000);
    bench.clock.advance(Duration::from_secs(3600));
    bench.db.put("one", "more").unwrap();
    bench.pass_a_minute();
    assert_eq!(bench.bytes(), 0);
    assert_eq!(bench.db.iter().unwrap().count(), 1);
}

#[test]
fn rising_keys_that_expire_are_not_only_moved_down() {
    let mut bench = Bench::new();
    let family = bench.db.default_family();
    let mut most = 0;
    for number in 0..30_000 {
        let value = bench.value();
        family.put_for(key(number), value, Duration::from_secs(60)).unwrap();
        if number % 100 == 0 {
            bench.clock.advance(Duration::from_secs(2));
            while bench.db.run_job().unwrap() {}
            most = most.max(bench.bytes());
        }
    }
    // 3,000 keys are live at a time, and up to one memtable of others is still in memory.
    let live = live(3_000);
    assert!(most > 0 && most <= live * 2, "{most} bytes, {live} live");
    bench.db.flush().unwrap();
    bench.clock.advance(Duration::from_secs(60));
    bench.pass_a_minute();
    assert_eq!(bench.bytes(), 0);
}

#[test]
fn expired_values_among_live_ones_give_their_space_back() {
    let mut bench = Bench::new();
    let family = bench.db.default_family();
    for number in 0..10_000 {
        let value = bench.value();
        match number % 2 {
            0 => family.put(key(number), value).unwrap(),
            _ => family.put_for(key(number), value, Duration::from_secs(60)).unwrap(),
        }
    }
    bench.db.compact().unwrap();
    bench.clock.advance(Duration::from_secs(60));
    bench.pass_a_minute();
    let (bytes, live) = (bench.bytes(), live(5_000));
    assert!(bytes * 10 <= live * 13, "{bytes} bytes, {live} live");
    assert!(bench.db.stats().space_compactions > 0);
    assert_eq!(bench.db.iter().unwrap().count(), 5_000);
}

#[test]
fn versions_that_only_a_dropped_snapshot_needed_go() {
    let mut bench = Bench::new();
    bench.fill(0..10_000);
    bench.db.compact().unwrap();
    let (snapshot, live) = (bench.db.snapshot(), live(10_000));
    bench.fill(0..10_000);
    bench.db.compact().unwrap();
    bench.pass_a_minute();
    assert!(bench.bytes() > live * 19 / 10, "the snapshot keeps what it sees");
    let old: Snapshot = snapshot;
    assert_eq!(old.iter().unwrap().count(), 10_000);
    drop(old);
    bench.db.put("one", "more").unwrap();
    bench.pass_a_minute();
    let bytes = bench.bytes();
    assert!(bytes * 10 <= live * 13, "{bytes} bytes, {live} live");
}

#[test]
fn what_a_dropped_snapshot_saw_under_a_range_delete_goes() {
    let mut bench = Bench::new();
    bench.fill(0..10_000);
    bench.db.compact().unwrap();
    let snapshot = bench.db.snapshot();
    bench.delete_range(0..9_000);
    bench.db.compact().unwrap();
    bench.pass_a_minute();
    assert_eq!(snapshot.iter().unwrap().count(), 10_000);
    drop(snapshot);
    bench.pass_a_minute();
    let (bytes, live) = (bench.bytes(), live(1_000));
    assert!(bytes * 10 <= live * 13, "{bytes} bytes, {live} live");
}

#[test]
fn a_database_that_is_opened_again_gives_space_back_too() {
    let mut bench = Bench::new();
    bench.fill(0..10_000);
    bench.db.compact().unwrap();
    let mut batch = WriteBatch::new();
    let family = bench.db.default_family();
    batch.delete_range(&family, key(500)..key(9_500)).unwrap();
    bench.db.write(&batch).unwrap();
    bench.db.flush().unwrap();
    let (fs, clock) = (bench.fs.clone(), bench.clock.clone());
    drop((family, bench));
    let options = Options::new().workers(0).fs(Arc::new(fs.clone())).clock(clock.clone()).seed(2);
    let db = options.open("db").unwrap();
    let bench = Bench { db, fs, clock, state: 1 };
    bench.pass_a_minute();
    let (bytes, live) = (bench.bytes(), live(1_000));
    assert!(bytes * 10 <= live * 13, "{bytes} bytes, {live} live");
}

#[test]
fn the_workers_notice_that_time_has_passed() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000))));
    let options = Options::new().workers(1).fs(Arc::new(fs)).clock(clock.clone()).seed(1);
    let db = options.open("db").unwrap();
    for number in 0..1_000 {
        db.default_family().put_for(key(number), [7; 100], Duration::from_secs(60)).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.stats().table_entries, 1_000);
    clock.advance(Duration::from_secs(61));
    // Background work checks once a second.
    let start = Instant::now();
    while db.stats().table_entries > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "no worker looks again");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(db.stats().dropped_tables, 1);
}
