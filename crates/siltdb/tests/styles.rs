//! The compaction strategies of a family: what readers see, what leaves, and what is written.

use siltdb::{
    CompactionStrategy, Compression, Db, Durability, ErrorKind, Event, Family, FamilyOptions,
    Options, Read, RetentionFloor, SubscribeOptions, merge,
    testing::{Crash, Fs, ManualClock, MemFs},
};
use siltdb_base::clock::Clock;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// A database without threads, on files in memory, with a manual clock.
struct Bench {
    db: Db,
    fs: MemFs,
    clock: Arc<ManualClock>,
    state: u64,
}

fn open(fs: &MemFs, clock: &Arc<ManualClock>) -> Db {
    let options = Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::clone(clock) as Arc<_>)
        .seed(5)
        .workers(0)
        .durability(Durability::Synced)
        .memtable_bytes(8 << 10)
        .merge_operator(merge::full("sum", |_, _, _| Ok(Vec::new())))
        .memory_budget(4 << 20);
    options.open("db").unwrap()
}

impl Bench {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let (fs, clock) =
            (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000_000))));
        Self { db: open(&fs, &clock), fs, clock, state: seed }
    }

    fn family(&self, strategy: CompactionStrategy) -> Family {
        let options = FamilyOptions::new()
            .table_bytes(4 << 10)
            .base_level_bytes(32 << 10)
            .level0_runs(3)
            .compaction(strategy);
        self.db.family_or_create("styled", options).unwrap()
    }

    /// A number below `bound` (a linear congruential generator).
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
        (self.state >> 33) % bound
    }

    /// A value that begins with `number` and does not compress.
    fn value(&mut self, number: u64) -> Vec<u8> {
        let mut value = number.to_be_bytes().to_vec();
        while value.len() < 100 {
            value.push(self.below(256) as u8);
        }
        value
    }

    /// What a process finds after this one was killed.
    fn crash(self) -> Self {
        let fs = self.fs.crash_clone(Crash::PowerLoss { seed: self.state });
        Self { db: open(&fs, &self.clock), fs, ..self }
    }

    fn run_jobs(&self) {
        while self.db.run_job().unwrap() {}
    }
}

#[test]
fn a_limited_rate_delays_compactions_and_no_flush() {
    let (fs, clock) =
        (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000_000))));
    let options = Options::new().fs(Arc::new(fs)).clock(Arc::clone(&clock) as Arc<_>);
    let options = options.seed(5).workers(0).memtable_bytes(64 << 10).memory_budget(4 << 20);
    // Nothing is due by itself.
    let family = FamilyOptions::new().level0_runs(1000).compression(Compression::None);
    let options = options.background_rate(1 << 20).default_family(family);
    let db = options.open("db").unwrap();
    for round in 0..10_u8 {
        for key in 0..1000_u32 {
            db.put(key.to_be_bytes(), [round; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    assert!(db.stats().flushed_bytes > 1 << 20 && db.stats().compacted_bytes == 0);
    assert_eq!(clock.monotonic_ns(), 0);
    let start = clock.monotonic_ns();
    db.compact().unwrap();
    let took_ms = (clock.monotonic_ns() - start) / 1_000_000;
    // What was flushed before is missing to it for at most a second.
    let own_ms = (db.stats().compacted_bytes * 1000) >> 20;
    assert!(own_ms > 50, "{own_ms} ms");
    assert!((own_ms / 2..own_ms + 1100).contains(&took_ms), "{took_ms} for {own_ms} ms");
}

fn table_bytes(family: &Family) -> u64 {
    family.stats().table_bytes.iter().sum()
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

fn fifo(bytes_max: u64) -> CompactionStrategy {
    CompactionStrategy::Fifo { bytes_max, age_max: None }
}

const LARGE: u64 = 1 << 40;

#[test]
fn a_family_that_changes_its_strategy_shows_the_same() {
    for seed in 1..=3 {
        let mut bench = Bench::new(seed);
        let mut family = bench.family(CompactionStrategy::tiered());
        let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let (mut tiered, mut crashes) = (0, 0);
        for round in 0..6_000_u64 {
            let key = format!("key{:04}", bench.below(700)).into_bytes();
            match bench.below(20) {
                0..14 => {
                    let value = bench.value(round);
                    family.put(&key, value).unwrap();
                    model.insert(key, round);
                }
                14..19 => {
                    family.delete(&key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let end = format!("key{:04}", bench.below(700)).into_bytes();
                    if key < end {
                        family.delete_range(key.as_slice()..end.as_slice()).unwrap();
                        model.retain(|other, _| *other < key || *other >= end);
                    }
                }
            }
            if bench.below(50) == 0 {
                bench.run_jobs();
            }
            if bench.below(400) == 0 {
                let strategy = match bench.below(3) {
                    0 => CompactionStrategy::Leveled,
                    1 => CompactionStrategy::Tiered { runs_max: 2, space_percent_max: 50 },
                    _ => CompactionStrategy::Tiered { runs_max: 5, space_percent_max: 1000 },
                };
                family.set_options(&family.options().compaction(strategy)).unwrap();
            }
            if bench.below(900) == 0 {
                drop(family);
                bench = bench.crash();
                family = bench.db.family("styled").unwrap();
                crashes += 1;
            }
            if bench.below(700) == 0 {
                bench.db.compact().unwrap();
            }
            if round % 200 == 0 {
                let found = family.iter().unwrap().map(|entry| {
                    let (key, value) = entry.unwrap();
                    (key.to_vec(), number(&value))
                });
                assert_eq!(found.collect::<BTreeMap<_, _>>(), model, "round {round}");
                tiered += bench.db.stats().tiered_families;
            }
        }
        assert!(tiered > 5 && crashes > 1, "{tiered} tiered, {crashes} crashes");
    }
}

#[test]
fn a_tiered_family_writes_less_than_a_leveled_one() {
    let written = |strategy| {
        let mut bench = Bench::new(4);
        let family = bench.family(strategy);
        for round in 0..12_000_u64 {
            let key = bench.below(5_000).to_be_bytes();
            let value = bench.value(round);
            family.put(key, value).unwrap();
            bench.run_jobs();
        }
        let stats = family.stats();
        let runs = stats.tables[1..].iter().filter(|&&tables| tables > 0).count();
        assert!(runs <= 4, "{runs} runs");
        bench.db.stats().compacted_bytes
    };
    let leveled = written(CompactionStrategy::Leveled);
    let tiered = written(CompactionStrategy::tiered());
    println!("compactions wrote {leveled} bytes leveled, {tiered} tiered");
    assert!(tiered * 4 < leveled * 3, "{tiered} against {leveled}");
}

/// Writes and crashes, and what a FIFO family may show of it: of each key its newest value or
/// nothing, and all that was written last.
#[test]
fn a_fifo_family_has_the_newest_data_and_never_an_older_version() {
    const BYTES_MAX: u64 = 64 << 10;
    for seed in 1..=3 {
        let mut bench = Bench::new(seed);
        let mut family = bench.family(fifo(BYTES_MAX));
        let mut newest: HashMap<u64, Option<u64>> = HashMap::new();
        let mut order: Vec<(u64, Option<u64>)> = Vec::new();
        let (mut crashes, mut gone, mut dropped) = (0, 0, 0);
        for round in 0..8_000_u64 {
            let key = bench.below(3_000);
            if bench.below(8) == 0 {
                family.delete(key.to_be_bytes()).unwrap();
                order.push((key, None));
                newest.insert(key, None);
            } else {
                let value = bench.value(round);
                family.put(key.to_be_bytes(), value).unwrap();
                order.push((key, Some(round)));
                newest.insert(key, Some(round));
            }
            if bench.below(20) == 0 {
                bench.run_jobs();
            }
            if bench.below(1500) == 0 {
                dropped += bench.db.stats().dropped_tables;
                drop(family);
                bench = bench.crash();
                family = bench.db.family("styled").unwrap();
                crashes += 1;
            }
            if bench.below(1000) == 0 {
                bench.db.compact().unwrap();
            }
            if round % 250 == 249 {
                bench.run_jobs();
                assert!(table_bytes(&family) <= BYTES_MAX, "{}", table_bytes(&family));
                for (key, expected) in &newest {
                    let found = family.get(key.to_be_bytes()).unwrap().map(|value| number(&value));
                    assert!(found.is_none() || found == *expected, "{found:?} for {expected:?}");
                    gone += u64::from(found != *expected);
                }
                // A table takes about 4 KiB, so at least half of what fits is there. An entry takes
                // less than 130 bytes.
                for (key, expected) in order.iter().rev().take((BYTES_MAX / 2 / 130) as usize) {
                    if newest[key] == *expected {
                        let found = family.get(key.to_be_bytes()).unwrap();
                        assert_eq!(found.map(|value| number(&value)), *expected);
                    }
                }
            }
        }
        assert!(gone > 1000 && crashes > 1, "{gone} are gone, {crashes} crashes");
        assert!(dropped > 20, "{dropped} tables have left");
    }
}

fn fill(bench: &mut Bench, family: &Family, keys: std::ops::Range<u64>) {
    for key in keys {
        let value = bench.value(key);
        family.put(key.to_be_bytes(), value).unwrap();
    }
    bench.db.flush().unwrap();
}

#[test]
fn a_snapshot_and_the_retention_floor_keep_what_a_fifo_family_would_lose() {
    let mut bench = Bench::new(1);
    let family = bench.family(fifo(20 << 10));
    fill(&mut bench, &family, 0..50);
    // It reads at the present, as a reader without a snapshot does.
    let snapshot = bench.db.snapshot();
    fill(&mut bench, &family, 50..800);
    bench.run_jobs();
    let view = snapshot.family(&family).unwrap();
    assert_eq!(view.iter().unwrap().count(), 50);
    assert_eq!(family.iter().unwrap().count(), 800);
    drop((view, snapshot));
    bench.db.settle().unwrap();
    let left = family.iter().unwrap().count();
    assert!((50..300).contains(&left), "{left} are left");
    assert_eq!(family.get(0_u64.to_be_bytes()).unwrap(), None);

    bench.db.set_retention_floor(RetentionFloor::Now).unwrap();
    fill(&mut bench, &family, 800..1600);
    bench.db.settle().unwrap();
    assert_eq!(family.iter().unwrap().count(), left + 800);
    bench.db.set_retention_floor(RetentionFloor::None).unwrap();
    bench.db.settle().unwrap();
    assert!(table_bytes(&family) <= 20 << 10);
}

#[test]
fn data_of_a_fifo_family_leaves_by_age_also_after_its_tables_were_joined() {
    let mut bench = Bench::new(1);
    let age_max = Some(Duration::from_secs(3600));
    let family = bench.family(CompactionStrategy::Fifo { bytes_max: LARGE, age_max });
    family.set_options(&family.options().table_bytes(64 << 10)).unwrap();
    // Tables of a few entries, which are joined.
    for hour in 0..40_u64 {
        fill(&mut bench, &family, hour * 4..(hour + 1) * 4);
        bench.clock.advance(Duration::from_secs(60));
        bench.run_jobs();
    }
    let tables: u64 = family.stats().tables.iter().sum();
    assert!(tables < 30, "{tables} tables");
    assert_eq!(family.iter().unwrap().count(), 160);
    // Past the age of the first half, and of everything.
    bench.clock.advance(Duration::from_secs(3600 - 20 * 60));
    bench.db.settle().unwrap();
    let left = family.iter().unwrap().count();
    assert!((80..160).contains(&left), "{left} are left");
    assert!(family.get(159_u64.to_be_bytes()).unwrap().is_some());
    bench.clock.advance(Duration::from_secs(20 * 60 + 1));
    bench.db.settle().unwrap();
    assert_eq!(family.iter().unwrap().count(), 0);
}

#[test]
fn a_family_with_data_becomes_fifo_and_back_without_a_rewrite() {
    let mut bench = Bench::new(1);
    let family = bench.family(CompactionStrategy::Leveled);
    for start in [0, 500, 250] {
        fill(&mut bench, &family, start..start + 500);
    }
    bench.db.settle().unwrap();
    let (before, written) = (table_bytes(&family), bench.db.stats().compacted_bytes);
    assert!(family.stats().tables[6] > 1);
    family.set_options(&family.options().compaction(fifo(before * 2))).unwrap();
    bench.db.settle().unwrap();
    assert_eq!(family.iter().unwrap().count(), 1000);
    fill(&mut bench, &family, 2000..4000);
    bench.db.settle().unwrap();
    // The old levels have left, and what came last is there.
    assert!(table_bytes(&family) <= before * 2);
    assert!(family.get(3999_u64.to_be_bytes()).unwrap().is_some());
    let left = family.iter().unwrap().count();
    assert!(left < 3000 && bench.db.stats().compacted_bytes == written, "{left} are left");
    family.set_options(&family.options().compaction(CompactionStrategy::Leveled)).unwrap();
    bench.db.settle().unwrap();
    assert_eq!(family.iter().unwrap().count(), left);
    bench.db.compact().unwrap();
    assert_eq!(family.iter().unwrap().count(), left);
}

/// How rows come into a family past the log.
#[derive(Clone, Copy, Debug)]
enum Way {
    Sorted,
    TableFile,
}

impl Bench {
    fn ingest(&mut self, family: &Family, way: Way, keys: impl Iterator<Item = u64>) {
        let rows: Vec<_> = keys.map(|key| (key.to_be_bytes(), self.value(key))).collect();
        match way {
            Way::Sorted => {
                family.ingest_sorted(rows).unwrap();
            }
            Way::TableFile => {
                self.write_table(&rows);
                self.ingest_table(family);
            }
        }
    }

    /// Writes a table file beside the database.
    fn write_table(&self, rows: &[([u8; 8], Vec<u8>)]) {
        let options = Options::new().fs(Arc::new(self.fs.clone()));
        let options = options.clock(Arc::clone(&self.clock) as Arc<_>);
        let mut table = options.table_file("outside.table", &FamilyOptions::new()).unwrap();
        rows.iter().for_each(|(key, value)| table.put(key, value).unwrap());
        table.finish().unwrap();
    }

    fn ingest_table(&self, family: &Family) {
        self.db.ingest(&[(family.clone(), "outside.table")]).unwrap();
        self.fs.remove(Path::new("outside.table")).unwrap();
    }
}

fn keys_of(family: &Family) -> Vec<u64> {
    let keys = family.iter().unwrap().map(|entry| entry.unwrap().0);
    keys.map(|key| u64::from_be_bytes(key[..].try_into().unwrap())).collect()
}

#[test]
fn what_is_ingested_into_a_full_fifo_family_stays_and_the_oldest_leaves() {
    const BYTES_MAX: u64 = 64 << 10;
    for way in [Way::Sorted, Way::TableFile] {
        // Behind the old keys, before them, and among them.
        for (first, step) in [(20_000, 1), (0, 1), (10_001, 2)] {
            let mut bench = Bench::new(1);
            let family = bench.family(fifo(BYTES_MAX));
            for part in 0..8 {
                let start = 10_000 + part * 200;
                let even = (start..start + 200).map(|key| key * 2 - 10_000);
                for key in even {
                    let value = bench.value(key);
                    family.put(key.to_be_bytes(), value).unwrap();
                }
                bench.db.flush().unwrap();
            }
            bench.db.settle().unwrap();
            let before = keys_of(&family);
            assert!(before.len() > 300 && before[0] > 10_000, "{} are there", before.len());
            let new: Vec<u64> = (0..200).map(|index| first + index * step).collect();
            bench.ingest(&family, way, new.iter().copied());
            bench.db.settle().unwrap();
            let what = format!("{way:?} from {first}");
            assert!(table_bytes(&family) <= BYTES_MAX, "{what}: {}", table_bytes(&family));
            let found = keys_of(&family);
            let lost = new.iter().filter(|key| !found.contains(key)).count();
            assert_eq!(lost, 0, "{what}: of {} new rows", new.len());
            // The end of what was written before them is there, and nothing else.
            let old: Vec<u64> = found.into_iter().filter(|key| !new.contains(key)).collect();
            assert!(old.len() > 100 && before.ends_with(&old), "{what}: {} old rows", old.len());
            // What is written later outlives them.
            drop(family);
            let mut bench = bench.crash();
            let family = bench.db.family("styled").unwrap();
            fill(&mut bench, &family, 40_000..40_600);
            bench.db.settle().unwrap();
            let found = keys_of(&family);
            assert!((40_200..40_600).all(|key| found.contains(&key)), "{what}");
            assert!(!found.contains(&new[0]), "{what}");
        }
    }
}

#[test]
fn the_age_of_what_is_ingested_counts_from_the_ingest() {
    let hour = Duration::from_secs(3600);
    let mut bench = Bench::new(1);
    let strategy = CompactionStrategy::Fifo { bytes_max: LARGE, age_max: Some(hour) };
    let family = bench.family(strategy);
    let rows: Vec<_> = (0..100_u64).map(|key| (key.to_be_bytes(), bench.value(key))).collect();
    bench.write_table(&rows);
    // The file lies around for a day.
    bench.clock.advance(hour * 24);
    bench.ingest_table(&family);
    bench.ingest(&family, Way::Sorted, 200..300);
    bench.clock.advance(hour);
    bench.db.settle().unwrap();
    assert_eq!(keys_of(&family).len(), 200);
    bench.clock.advance(Duration::from_millis(1));
    bench.db.settle().unwrap();
    assert_eq!(keys_of(&family).len(), 0);
}

#[test]
fn the_oldest_rows_leave_a_family_that_became_fifo_whatever_their_level() {
    let mut bench = Bench::new(1);
    let family = bench.family(CompactionStrategy::Leveled);
    fill(&mut bench, &family, 1000..1400);
    bench.db.compact().unwrap();
    fill(&mut bench, &family, 2000..2060);
    // The newest rows lie as deep as the oldest, and below those of middle age.
    bench.ingest(&family, Way::Sorted, 0..200);
    let tables = family.stats().tables;
    assert!(tables[0] > 0 && tables[6] > 1, "{tables:?}");
    let bytes_max = table_bytes(&family) / 3;
    family.set_options(&family.options().compaction(fifo(bytes_max))).unwrap();
    bench.db.settle().unwrap();
    let found = keys_of(&family);
    assert!((0..200).all(|key| found.contains(&key)), "{} are there", found.len());
    assert!(!found.contains(&1000) && table_bytes(&family) <= bytes_max);
    // And back: nothing leaves any more.
    family.set_options(&family.options().compaction(CompactionStrategy::Leveled)).unwrap();
    fill(&mut bench, &family, 5000..6000);
    bench.db.compact().unwrap();
    assert_eq!(keys_of(&family).len(), found.len() + 1000);
}

#[test]
fn what_an_archive_brought_into_a_fifo_family_leaves_before_what_is_written_later() {
    const BYTES_MAX: u64 = 64 << 10;
    let mut bench = Bench::new(1);
    let family = bench.family(fifo(BYTES_MAX));
    fill(&mut bench, &family, 1000..1300);
    bench.db.archive("rows.siltar").unwrap();
    bench.db.drop_family("styled").unwrap();
    bench.db.import_archive("rows.siltar").unwrap();
    let family = bench.db.family("styled").unwrap();
    assert_eq!(keys_of(&family).len(), 300);
    // Their keys lie before those of the archive.
    fill(&mut bench, &family, 0..400);
    bench.db.settle().unwrap();
    let found = keys_of(&family);
    assert!((0..400).all(|key| found.contains(&key)), "{} are there", found.len());
    assert!(found.len() < 600 && table_bytes(&family) <= BYTES_MAX);
}

#[test]
fn a_clone_of_a_fifo_family_keeps_and_loses_by_its_own_bound() {
    let mut bench = Bench::new(1);
    let family = bench.family(fifo(64 << 10));
    fill(&mut bench, &family, 0..400);
    bench.db.clone_family(&family, "copy").unwrap();
    let copy = bench.db.family("copy").unwrap();
    fill(&mut bench, &family, 1000..2000);
    bench.ingest(&copy, Way::Sorted, 3000..3100);
    bench.db.settle().unwrap();
    assert!(keys_of(&family)[0] >= 1000);
    let found = keys_of(&copy);
    assert!((3000..3100).all(|key| found.contains(&key)) && found.len() > 300, "{}", found.len());
    assert!(table_bytes(&copy) <= 64 << 10);
}

#[test]
fn a_fifo_family_counts_separated_values_within_its_bound() {
    const BYTES_MAX: u64 = 256 << 10;
    let mut bench = Bench::new(1);
    let family = bench.family(fifo(BYTES_MAX));
    let options = family.options().value_threshold(64).blob_file_bytes(16 << 10);
    family.set_options(&options).unwrap();
    for key in 0..3_000_u64 {
        let value: Vec<u8> = (0..8).flat_map(|_| bench.value(key)).collect();
        family.put(key.to_be_bytes(), value).unwrap();
        if key % 100 == 99 {
            bench.db.flush().unwrap();
            bench.run_jobs();
        }
    }
    bench.db.settle().unwrap();
    let files = bench.fs.list_lengths(Path::new("db")).unwrap();
    let blobs = files.iter().filter(|(name, _)| name.ends_with(".blob"));
    let bytes: u64 = blobs.map(|(_, length)| length).sum();
    // The borders of blob files are not those of tables.
    assert!(bytes <= BYTES_MAX + (48 << 10), "{bytes} bytes of separated values");
    let found = keys_of(&family);
    assert!(found.len() > 150 && found.last() == Some(&2999), "{} are there", found.len());
    assert!(found.windows(2).all(|pair| pair[1] == pair[0] + 1), "the newest stay");
    assert!(family.get(2999_u64.to_be_bytes()).unwrap().unwrap().len() == 800);
}

#[test]
fn the_feed_is_not_told_of_data_that_leaves() {
    let mut bench = Bench::new(1);
    let family = bench.family(fifo(8 << 10));
    let mut feed = bench.db.subscribe(&SubscribeOptions::new()).unwrap();
    fill(&mut bench, &family, 0..500);
    bench.db.settle().unwrap();
    assert!(family.iter().unwrap().count() < 400);
    let mut operations = 0;
    while let Some(Event::Commit(commit)) = feed.try_next().unwrap() {
        operations += commit.changes().count();
    }
    assert_eq!(operations, 500);
}

#[test]
fn a_fifo_family_has_no_merge_operator() {
    let bench = Bench::new(1);
    let operator = merge::full("sum", |_, _, _| Ok(Vec::new()));
    let counter = FamilyOptions::new().compaction(fifo(LARGE)).merge_operator(operator.clone());
    let error = bench.db.create_family("counter", counter).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let family = bench.db.create_family("pages", FamilyOptions::new().compaction(fifo(LARGE)));
    let family = family.unwrap();
    let error = family.set_options(&family.options().merge_operator(operator.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    // Nor does one with an operator become one.
    let options = FamilyOptions::new().merge_operator(operator);
    let counter = bench.db.create_family("counter", options).unwrap();
    let error = counter.set_options(&FamilyOptions::new().compaction(fifo(LARGE))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(counter.options().entries(), FamilyOptions::new().entries());
}
