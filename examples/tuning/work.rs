//! The work of each row: it fills a database, measures, and compares what it reads.

use siltdb::testing::{Clock, ManualClock};
use siltdb::{
    CompactionFilter, CompactionStrategy, Compression, Db, Durability, Error, Family,
    FamilyOptions, FilterDecision, FilteredEntry, KeyOrder, Options, PrefixExtractor, Read, ReadIo,
    Result, TableKind, WriteBatch, WriteOptions,
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const VALUE_BYTES: usize = 100;
/// Entries whose keys have the same first eight bytes.
const GROUP: u64 = 64;
/// A budget that the data does not fit in, and the memtable that it needs.
const SMALL_BUDGET: usize = 32 << 20;
const SMALL_MEMTABLE: usize = 4 << 20;
/// 2023-11-14, in milliseconds.
const NOW_MS: u64 = 1_700_000_000_000;

/// How some work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// With the defaults.
    Default,
    /// With the option.
    Option,
}

impl How {
    fn pick<T>(self, default: T, option: T) -> T {
        match self {
            Self::Default => default,
            Self::Option => option,
        }
    }
}

/// The odd number makes it a permutation of the numbers below a power of two.
fn scattered(index: u64, count: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (count - 1)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(number / GROUP).to_be_bytes());
    key[8..].copy_from_slice(&(number % GROUP).to_be_bytes());
    key
}

/// A value of which half compresses.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut x = number | 1 << 63;
    let mut value = vec![0; bytes];
    for byte in &mut value[..bytes / 2] {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *byte = x as u8;
    }
    value
}

fn put_all(db: &Db, family: &Family, numbers: impl Iterator<Item = u64>) -> Result<()> {
    put_with(db, family, numbers, (VALUE_BYTES, &WriteOptions::new()))
}

fn put_with(
    db: &Db,
    family: &Family,
    numbers: impl Iterator<Item = u64>,
    (bytes, options): (usize, &WriteOptions),
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(family, key(number), value(number, bytes))?;
        if batch.len() == 1000 {
            db.write_with(&batch, options)?;
            batch.clear();
        }
    }
    db.write_with(&batch, options)
}

/// All entries in random order, in tables.
fn filled(options: &Options, dir: &Path, family: FamilyOptions, count: u64) -> Result<Db> {
    let db = options.clone().default_family(family).open(dir)?;
    put_all(&db, &db.default_family(), (0..count).map(|index| scattered(index, count)))?;
    db.flush()?;
    db.settle()?;
    Ok(db)
}

fn small() -> Options {
    Options::new().memory_budget(SMALL_BUDGET).memtable_bytes(SMALL_MEMTABLE)
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::new(siltdb::ErrorKind::Corruption, format!("another answer than was written: {what}"))
}

fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

/// Random gets a second.
fn gets(db: &Db, count: u64) -> Result<f64> {
    let start = Instant::now();
    let asked = count.min(400_000);
    for index in 0..asked {
        let number = scattered(index, count);
        let found = db.get(key(number))?.ok_or_else(|| wrong(number))?;
        if found[..8] != value(number, 16)[..8] {
            return Err(wrong(number));
        }
    }
    Ok(rate(asked, start))
}

/// The bytes that flushes and compactions have written, and those of blob files, to those put.
fn write_amplification(db: &Db, put_bytes: u64) -> f64 {
    let stats = db.stats();
    (stats.flushed_bytes + stats.compacted_bytes + stats.blob_bytes) as f64 / put_bytes as f64
}

fn table_memory(db: &Db, count: u64) -> Result<f64> {
    gets(db, count)?;
    Ok(db.stats().memory.tables as f64 / count as f64)
}

pub fn sorted_load(dir: &Path, count: u64, how: How) -> Result<f64> {
    let db = Db::open(dir)?;
    let family = db.default_family();
    let start = Instant::now();
    if how == How::Option {
        family.ingest_sorted((0..count).map(|n| (key(n), value(n, VALUE_BYTES))))?;
    } else {
        put_all(&db, &family, 0..count)?;
    }
    db.flush()?;
    db.settle()?;
    let loaded = rate(count, start);
    gets(&db, count).map(|_| loaded)
}

pub fn repeatable_load(dir: &Path, count: u64, how: How) -> Result<f64> {
    let memtable = how.pick(32 << 20, 128 << 20);
    let db = Options::new().memory_budget(1 << 30).memtable_bytes(memtable).open(dir)?;
    let class = how.pick(Durability::Buffered, Durability::Volatile);
    let numbers = (0..count).map(|index| scattered(index, count));
    let start = Instant::now();
    let options = WriteOptions::new().durability(class);
    put_with(&db, &db.default_family(), numbers, (VALUE_BYTES, &options))?;
    db.flush()?;
    let loaded = rate(count, start);
    gets(&db, count).map(|_| loaded)
}

/// Commits a second, one put each.
fn commits(dir: &Path, count: u64, class: Durability, threads: u64) -> Result<f64> {
    let db = Options::new().durability(class).open(dir)?;
    let start = Instant::now();
    thread::scope(|scope| {
        let commit = |thread: u64| {
            let db = &db;
            scope.spawn(move || {
                let mut own = (0..count).filter(|number| number % threads == thread);
                own.try_for_each(|number| db.put(key(number), value(number, VALUE_BYTES)))
            })
        };
        let started: Vec<_> = (0..threads).map(commit).collect();
        started.into_iter().try_for_each(|thread| thread.join().expect("a writer panicked"))
    })?;
    let committed = rate(count, start);
    if db.default_family().count(..)? != count {
        return Err(wrong("the number of commits"));
    }
    Ok(committed)
}

pub fn synced_commits(dir: &Path, count: u64, how: How) -> Result<f64> {
    commits(dir, count / 256, Durability::Synced, how.pick(1, 8))
}

pub fn interval_commits(dir: &Path, count: u64, how: How) -> Result<f64> {
    let interval = Durability::Interval(Duration::from_secs(1));
    commits(dir, count / 256, how.pick(Durability::Synced, interval), 1)
}

pub fn budget_of_gets(dir: &Path, count: u64, how: How) -> Result<f64> {
    let options = how.pick(small(), Options::new());
    let db = filled(&options, dir, FamilyOptions::new(), count)?;
    gets(&db, count)?;
    gets(&db, count)
}

pub fn long_scans(dir: &Path, count: u64, how: How) -> Result<f64> {
    let family = FamilyOptions::new().block_bytes(how.pick(4 << 10, 64 << 10));
    filled(&Options::new(), dir, family, count)?.close()?;
    let db = Db::open(dir)?;
    let start = Instant::now();
    let mut seen = 0;
    for entry in db.iter()? {
        if entry?.0[..] != key(seen) {
            return Err(wrong(seen));
        }
        seen += 1;
    }
    if seen == count { Ok(rate(count, start)) } else { Err(wrong("the number of entries")) }
}

pub fn large_values(dir: &Path, count: u64, how: How) -> Result<f64> {
    const BYTES: usize = 4096;
    let count = count / 16;
    let threshold = how.pick(0, 1 << 10);
    let family = FamilyOptions::new().value_threshold(threshold).blob_garbage_percent(101);
    let db = small().default_family(family).open(dir)?;
    for _ in 0..3 {
        let numbers = (0..count).map(|index| scattered(index, count));
        put_with(&db, &db.default_family(), numbers, (BYTES, &WriteOptions::new()))?;
    }
    db.flush()?;
    let written = write_amplification(&db, 3 * count * (16 + BYTES as u64));
    for number in (0..count).step_by(7) {
        if db.get(key(number))?.as_deref() != Some(&value(number, BYTES)[..]) {
            return Err(wrong(number));
        }
    }
    Ok(written)
}

pub fn mapped_gets(dir: &Path, count: u64, how: How) -> Result<f64> {
    let io = how.pick(ReadIo::Read, ReadIo::Map);
    let compression = how.pick(Compression::Lz4, Compression::None);
    let family = FamilyOptions::new().compression(compression);
    let db = filled(&small().read_io(io), dir, family, count)?;
    gets(&db, count)?;
    gets(&db, count)
}

pub fn mapped_tree_gets(dir: &Path, count: u64, how: How) -> Result<f64> {
    let family = FamilyOptions::new().compression(Compression::None);
    let family = family.table_kind(how.pick(TableKind::Block, TableKind::BTree));
    let db = filled(&small().read_io(ReadIo::Map), dir, family, count)?;
    gets(&db, count)?;
    gets(&db, count)
}

pub fn tree_memory(dir: &Path, count: u64, how: How) -> Result<f64> {
    let kind = how.pick(TableKind::Block, TableKind::BTree);
    let family = FamilyOptions::new().table_kind(kind);
    table_memory(&filled(&Options::new(), dir, family, count)?, count)
}

pub fn absent_gets(dir: &Path, count: u64, how: How) -> Result<f64> {
    let family = FamilyOptions::new().filter_bits_per_key(how.pick(10, 14));
    let db = filled(&small(), dir, family, count)?;
    db.compact()?;
    let looked = |db: &Db| db.stats().cache_hits + db.stats().cache_misses;
    let before = looked(&db);
    let asked = count.min(400_000);
    for index in 0..asked {
        let mut absent = key(scattered(index, count));
        absent[15] |= 1 << 7;
        if db.get(absent)?.is_some() {
            return Err(wrong("an absent key"));
        }
    }
    Ok((looked(&db) - before) as f64 * 1000.0 / asked as f64)
}

pub fn filter_memory(dir: &Path, count: u64, how: How) -> Result<f64> {
    let family = FamilyOptions::new().filter_bits_per_key(how.pick(10, 0));
    table_memory(&filled(&Options::new(), dir, family, count)?, count)
}

pub fn prefix_walks(dir: &Path, count: u64, how: How) -> Result<f64> {
    const TABLES: u64 = 8;
    let family = FamilyOptions::new().level0_runs(2 * TABLES as u32);
    let extractor = how.pick(None, Some(PrefixExtractor::Fixed(8)));
    let db = small().default_family(family.prefix_extractor(extractor)).open(dir)?;
    let groups = count / GROUP;
    for table in 0..TABLES {
        let own = (0..groups).filter(|group| group % TABLES == table);
        let numbers = own.flat_map(|group| group * GROUP..(group + 1) * GROUP);
        put_all(&db, &db.default_family(), numbers)?;
        db.flush()?;
    }
    let start = Instant::now();
    let asked = groups.min(20_000);
    for index in 0..asked {
        let group = scattered(index, groups);
        let found = db.prefix(group.to_be_bytes())?.try_fold(0, |n, entry| entry.map(|_| n + 1))?;
        if found != GROUP {
            return Err(wrong(group));
        }
    }
    Ok(rate(asked, start))
}

pub fn prefix_memory(dir: &Path, count: u64, how: How) -> Result<f64> {
    let family = FamilyOptions::new().prefix_extractor(PrefixExtractor::Fixed(8));
    let family = family.whole_key_filter(how.pick(true, false));
    table_memory(&filled(&Options::new(), dir, family, count)?, count)
}

/// Drops every second group.
#[derive(Debug)]
struct EverySecond;

impl EverySecond {
    fn is_kept(key: &[u8]) -> bool {
        key[7].is_multiple_of(2)
    }
}

impl CompactionFilter for EverySecond {
    fn name(&self) -> &str {
        "every second group"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        if Self::is_kept(entry.key) { FilterDecision::Keep } else { FilterDecision::Drop }
    }
}

pub fn filtered(dir: &Path, count: u64, how: How) -> Result<f64> {
    let options = Options::new().compaction_filter(Arc::new(EverySecond));
    let db = filled(&options, dir, FamilyOptions::new(), count)?;
    let family = db.default_family();
    let start = Instant::now();
    if how == How::Option {
        family.set_options(&family.options().compaction_filter(Arc::new(EverySecond)))?;
    } else {
        let mut batch = WriteBatch::new();
        for entry in family.iter()? {
            let (key, _) = entry?;
            if !EverySecond::is_kept(&key) {
                batch.delete(&family, &key)?;
            }
            if batch.len() == 1000 {
                db.write(&batch)?;
                batch.clear();
            }
        }
        db.write(&batch)?;
    }
    db.compact()?;
    let seconds = start.elapsed().as_secs_f64();
    if family.count(..)? * 2 == count { Ok(seconds) } else { Err(wrong("what is left")) }
}

/// Seconds until nothing is left of the data on disk, or little.
fn removed(db: &Db, remove: impl FnOnce(&Family) -> Result<()>) -> Result<f64> {
    let family = db.default_family();
    let start = Instant::now();
    remove(&family)?;
    db.flush()?;
    while db.stats().table_bytes.iter().sum::<u64>() > 1 << 20 {
        db.settle()?;
        if start.elapsed() > Duration::from_secs(60) {
            return Err(wrong("the space does not come back"));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if family.iter()?.next().is_none() { Ok(seconds) } else { Err(wrong("what is left")) }
}

fn delete_each(db: &Db, count: u64) -> impl FnOnce(&Family) -> Result<()> {
    move |family| {
        let mut batch = WriteBatch::new();
        for number in 0..count {
            batch.delete(family, key(number))?;
            if batch.len() == 1000 {
                db.write(&batch)?;
                batch.clear();
            }
        }
        db.write(&batch)
    }
}

pub fn expired(dir: &Path, count: u64, how: How) -> Result<f64> {
    let hour = Duration::from_secs(3600);
    let clock = Arc::new(ManualClock::at(Duration::from_millis(NOW_MS)));
    let family = FamilyOptions::new().ttl(how.pick(Duration::ZERO, hour));
    let options = Options::new().clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let db = filled(&options, dir, family, count)?;
    match how {
        How::Option => removed(&db, |family| {
            clock.advance(2 * hour);
            // Unasked it is noticed within a minute.
            family.compact()
        }),
        How::Default => removed(&db, delete_each(&db, count)),
    }
}

pub fn range_deleted(dir: &Path, count: u64, how: How) -> Result<f64> {
    let db = filled(&Options::new(), dir, FamilyOptions::new(), count)?;
    match how {
        How::Option => removed(&db, |family| family.delete_range(key(0)..key(count))),
        How::Default => removed(&db, delete_each(&db, count)),
    }
}

/// What is written for overwrites of a fourth of the keys, four times as many.
fn overwritten(dir: &Path, count: u64, strategy: CompactionStrategy) -> Result<f64> {
    let options = small().memtable_bytes(1 << 20);
    let family = FamilyOptions::new().base_level_bytes(8 << 20).compaction(strategy);
    let db = options.default_family(family).open(dir)?;
    let keys = count / 4;
    for _ in 0..4 {
        put_all(&db, &db.default_family(), (0..keys).map(|index| scattered(index, keys)))?;
    }
    db.flush()?;
    db.settle()?;
    let written = write_amplification(&db, count * (16 + VALUE_BYTES as u64));
    match strategy {
        CompactionStrategy::Fifo { .. } => Ok(written),
        _ => gets(&db, keys).map(|_| written),
    }
}

pub fn tiered(dir: &Path, count: u64, how: How) -> Result<f64> {
    let tiered = CompactionStrategy::tiered();
    overwritten(dir, count, how.pick(CompactionStrategy::Leveled, tiered))
}

pub fn fifo(dir: &Path, count: u64, how: How) -> Result<f64> {
    let fifo = CompactionStrategy::Fifo { bytes_max: 256 << 20, age_max: None };
    overwritten(dir, count, how.pick(CompactionStrategy::Leveled, fifo))
}

pub fn disturbed_gets(dir: &Path, count: u64, how: How) -> Result<f64> {
    let options = Options::new().background_rate(how.pick(0, 8 << 20));
    let db = filled(&options, dir, FamilyOptions::new(), count)?;
    gets(&db, count)?;
    put_all(&db, &db.default_family(), 0..count)?;
    let is_done = AtomicBool::new(false);
    let mut times = thread::scope(|scope| {
        let compaction = scope.spawn(|| {
            let compacted = db.compact();
            is_done.store(true, Ordering::Relaxed);
            compacted
        });
        let mut times = Vec::new();
        let end = Instant::now() + Duration::from_secs(2);
        for index in 0.. {
            if is_done.load(Ordering::Relaxed) || Instant::now() > end {
                break;
            }
            let start = Instant::now();
            db.get(key(scattered(index, count)))?.ok_or_else(|| wrong(index))?;
            times.push(start.elapsed());
        }
        db.cancel_compactions()?;
        // The rest of the compaction is not measured.
        let _ = compaction.join().expect("the compaction panicked");
        Ok::<_, Error>(times)
    })?;
    times.sort_unstable();
    let percentile = times.get(times.len() * 99 / 100);
    Ok(percentile.map_or(0.0, |time| time.as_secs_f64() * 1e6))
}

pub fn typed_gets(dir: &Path, count: u64, how: How) -> Result<f64> {
    let db = Db::open(dir)?;
    let options = FamilyOptions::new().key_order(KeyOrder::of::<u64>());
    let numbers = db.create_family("numbers", options)?;
    let typed = numbers.typed::<u64, Vec<u8>>()?;
    for number in 0..count {
        typed.put(&number, &value(number, VALUE_BYTES))?;
    }
    db.flush()?;
    db.settle()?;
    let start = Instant::now();
    for index in 0..count {
        let number = scattered(index, count);
        let found = match how {
            How::Option => typed.get(&number)?.map(|value| value[..8].to_vec()),
            How::Default => numbers.get(number.to_be_bytes())?.map(|value| value[..8].to_vec()),
        };
        if found.as_deref() != Some(&value(number, 16)[..8]) {
            return Err(wrong(number));
        }
    }
    Ok(rate(count, start))
}
