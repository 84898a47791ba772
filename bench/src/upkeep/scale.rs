//! One large family: what a flush and an opening cost beside few and many tables.
//!
//! It looks at no read, and compares ratios: bytes and syncs of a step are the same at every size.

use crate::{
    engine::Result,
    upkeep::{
        data::{compare, fill, key, median_ns, timed, value},
        part::Teller,
        steps::opening_ns,
    },
};
use siltdb::{Db, FamilyOptions, Options};
use std::{fs, path::Path, time::Duration};

/// Settings under which little data makes many tables, all in the last level: level 0 goes there.
/// A large database, too, has nearly all of its tables in the last level and few in level 0.
const TABLE_BYTES: u64 = 1 << 10;
const BASE_LEVEL_BYTES: u64 = 1 << 30;
const MEMTABLE_BYTES: usize = 2 << 20;
/// Bytes of a value, which does not compress.
const VALUE_BYTES: usize = 600;
/// Keys that are written before the tables are counted again.
const STEP: u64 = 2_000;
/// Flushes that are measured at each size.
const FLUSHES: u64 = 50;
/// Flushed keys lie behind all others, and never change.
const FLUSHED: u64 = 1 << 40;

/// The numbers of tables at which something is measured.
#[derive(Clone, Copy, Debug)]
pub struct TableCounts {
    /// The smaller number for flushes.
    pub few: usize,
    /// The number for openings.
    pub opened: usize,
    /// The larger number for flushes.
    pub many: usize,
}

/// What a flush of one put costs.
#[derive(Clone, Copy, Debug)]
struct FlushCost {
    /// Until it returns, in nanoseconds: a median.
    returns_ns: f64,
    /// Processor time of all threads until nothing is due, in nanoseconds: a mean.
    processor_ns: f64,
}

/// Times flushes of one put beside few and many tables, and openings between.
///
/// # Errors
/// Errors of the engine and the system; `Verification`.
pub fn beside(bars: [&str; 3], dir: &Path, counts: TableCounts, teller: &Teller<'_>) -> Result<()> {
    let family = FamilyOptions::new().table_bytes(TABLE_BYTES).base_level_bytes(BASE_LEVEL_BYTES);
    let options = Options::new().memtable_bytes(MEMTABLE_BYTES).default_family(family);
    let (mut keys, mut flushed) = (0, 0);
    let db = options.clone().open(dir)?;
    grow(&db, &mut keys, counts.few, teller)?;
    let few = flush_cost(&db, &mut flushed)?;
    let opened = grow(&db, &mut keys, counts.opened, teller)?;
    db.close()?;
    teller.doing(format!("opens {opened} tables"));
    let opening = opening_ns(dir)?;
    check(&Db::open(dir)?, keys, flushed, teller)?;
    teller.figure(bars[2], opening, (opened.min(counts.opened), counts.opened), "")?;
    let db = options.open(dir)?;
    let many = grow(&db, &mut keys, counts.many, teller)?;
    teller.doing(format!("flushes beside {many} tables"));
    let cost = flush_cost(&db, &mut flushed)?;
    check(&db, keys, flushed, teller)?;
    let done = (many.min(counts.many), counts.many);
    for (bar, [few, many]) in bars
        .into_iter()
        .zip([[few.returns_ns, cost.returns_ns], [few.processor_ns, cost.processor_ns]])
    {
        let note = format!("{:.2} ms, {:.2} ms", few / 1e6, many / 1e6);
        teller.figure(bar, many / few.max(1.0), done, note)?;
    }
    Ok(db.close()?)
}

/// Appends keys until there are `count` tables, or until the time is over; returns their number.
fn grow(db: &Db, keys: &mut u64, count: usize, teller: &Teller<'_>) -> Result<usize> {
    teller.doing(format!("grows to {count} tables"));
    let mut tables = 0;
    while tables < count && !teller.is_over() {
        let missing = (count - tables) as u64;
        let next = *keys + missing.min(STEP);
        fill(db, *keys..next, 0, VALUE_BYTES)?;
        *keys = next;
        db.flush()?;
        db.compact()?;
        tables = db.stats().tables.iter().sum::<u64>() as usize;
    }
    Ok(tables)
}

fn flush_cost(db: &Db, flushed: &mut u64) -> Result<FlushCost> {
    let before_ns = processor_ns()?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..FLUSHES {
        let put = || {
            db.put(key(FLUSHED + *flushed), b"x")?;
            Ok(db.flush()?)
        };
        times.push(timed(put)?.1);
        *flushed += 1;
        db.settle()?;
    }
    let processor_ns = (processor_ns()? - before_ns) as f64 / FLUSHES as f64;
    Ok(FlushCost { returns_ns: median_ns(&times), processor_ns })
}

/// Time on a processor of the threads that live, in nanoseconds.
fn processor_ns() -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task")? {
        // A thread that ends meanwhile counts no more.
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let on_processor = text.split_whitespace().next().and_then(|word| word.parse().ok());
        sum += on_processor.unwrap_or(0_u64);
    }
    Ok(sum)
}

fn check(db: &Db, keys: u64, flushed: u64, teller: &Teller<'_>) -> Result<()> {
    let filled = (0..keys).map(|i| (key(i).to_vec(), value(i, 0, VALUE_BYTES)));
    let flushed = (0..flushed).map(|i| (key(FLUSHED + i).to_vec(), b"x".to_vec()));
    compare(db, filled.chain(flushed), teller)
}
