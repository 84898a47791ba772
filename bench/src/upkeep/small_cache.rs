//! Gets with a small memory budget while the data grows: what they take, and what they read.
//!
//! Keys are in random order, so that each get leads to a block that the cache most probably does
//! not hold. The data lies in the page cache.

use crate::{
    engine::{Failure, Result},
    keys::splitmix64,
    upkeep::{
        data::{BATCH, key, median_ns, timed, value},
        part::Teller,
    },
};
use siltdb::{Db, Options, Read, WriteBatch};
use std::{fs, path::Path, time::Duration};

/// The budget of the measured database, in bytes.
const BUDGET_BYTES: usize = 64 << 20;
const VALUE_BYTES: usize = 100;
/// Gets that are timed at each size, and as many before them.
const GETS: u64 = 100_000;
/// Every so many gets are one of a key that is not there.
const ABSENT_EVERY: u64 = 5;
/// Numbers of keys that are never put begin here.
const ABSENT: u64 = 1 << 40;

/// Sizes of the database, in entries.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// At first.
    pub first: u64,
    /// When it has grown.
    pub then: u64,
}

/// Bytes and calls that the process has read with so far.
#[derive(Clone, Copy, Debug, Default)]
struct ReadIo {
    bytes: u64,
    calls: u64,
}

impl ReadIo {
    /// Zero where the system does not tell.
    fn now() -> Self {
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let figure = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        let figure = |name| figure(name).unwrap_or(0);
        Self { bytes: figure("rchar:"), calls: figure("syscr:") }
    }

    /// What was read since, for each of `count` gets.
    fn each(self, count: u64) -> String {
        let now = Self::now();
        let each = |since: u64, now: u64| now.saturating_sub(since) as f64 / count as f64;
        let (calls, bytes) = (each(self.calls, now.calls), each(self.bytes, now.bytes));
        format!("{calls:.2} reads, {:.1} KB", bytes / 1e3)
    }
}

/// Measures gets at both sizes, and reports the median of the second, to that of the first.
///
/// # Errors
/// Errors of the engine; `Verification`, if a get finds another value.
pub fn gets(bar: &str, dir: &Path, sizes: Sizes, teller: &Teller<'_>) -> Result<()> {
    let db = Options::new().memory_budget(BUDGET_BYTES).open(dir)?;
    let grown = |from: u64, to: u64| {
        teller.doing(format!("{to} entries"));
        fill(&db, from, to)?;
        db.settle()?;
        measured(&db, to, teller)
    };
    let (first_ns, first) = grown(0, sizes.first)?;
    let (then_ns, then) = grown(sizes.first, sizes.then)?;
    teller.figure(bar, then_ns / first_ns, (1, 1), format!("{first}; {then}"))?;
    Ok(db.close()?)
}

/// Puts the numbers from `from` on below `to` in random order of their keys.
fn fill(db: &Db, from: u64, to: u64) -> Result<()> {
    let family = db.default_family();
    let mut batch = WriteBatch::new();
    for number in from..to {
        batch.put(&family, scattered(number), value(number, 0, VALUE_BYTES))?;
        if batch.len() as u64 == BATCH {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(db.write(&batch)?)
}

/// A key of a number that looks random, so that keys and numbers have different orders.
fn scattered(number: u64) -> [u8; 8] {
    key(splitmix64(number))
}

/// The median of gets among `entries` entries, and what they took and read.
fn measured(db: &Db, entries: u64, teller: &Teller<'_>) -> Result<(f64, String)> {
    let mut times = [const { Vec::<Duration>::new() }; 2];
    let mut read = ReadIo::default();
    for get in 0..2 * GETS {
        if get == GETS {
            times.iter_mut().for_each(Vec::clear);
            read = ReadIo::now();
        }
        let is_absent = get % ABSENT_EVERY == 0;
        let begin = if is_absent { ABSENT } else { 0 };
        let number = begin + splitmix64(get ^ entries << 20) % entries;
        let (found, time) = timed(|| Ok(db.get(scattered(number))?))?;
        let wanted = (!is_absent).then(|| value(number, 0, VALUE_BYTES));
        if found.as_deref() != wanted.as_deref() {
            return Err(Failure::verification(format!("the value of {number} differs")));
        }
        times[usize::from(is_absent)].push(time);
    }
    let read = read.each(GETS);
    teller.compared(GETS);
    let [present, absent] = &times;
    let memory = db.stats().memory;
    let note = format!(
        "{:.1} M: {:.1} µs, absent {:.1} µs, {read} a get, tables {:.1} MB, cache {:.1} MB",
        entries as f64 / 1e6,
        median_ns(present) / 1e3,
        median_ns(absent) / 1e3,
        memory.tables as f64 / 1e6,
        memory.cached_blocks as f64 / 1e6,
    );
    Ok((median_ns(present), note))
}
