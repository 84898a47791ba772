//! Many families with few keys: the cost of a compaction, a flush and an opening beside them.

use crate::{
    engine::{Failure, Result},
    upkeep::{
        data::{compare, key, median_ns, timed, value},
        part::Teller,
        steps::opening_ns,
    },
};
use siltdb::{Db, FamilyOptions, Options};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Keys of each family that is compacted.
const KEYS: u64 = 3;
/// One family in this many holds a key, where families are only counted.
const HOLDS_KEY: usize = 100;
/// Flushes of which the median is taken.
const FLUSHES: usize = 30;
/// Length of values.
const LENGTH: usize = 16;

/// The numbers of families at which something is measured.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// The smaller number for flushes.
    pub flush_few: usize,
    /// The smaller number for openings.
    pub open_few: usize,
    /// The larger number for openings.
    pub open_many: usize,
    /// The larger number for flushes.
    pub flush_many: usize,
}

fn name(index: usize) -> String {
    format!("family-{index:06}")
}

/// Compacts `count` families with some keys each.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn compaction(dir: &Path, count: usize, teller: &Teller<'_>) -> Result<()> {
    let db = Options::new().open(dir)?;
    let start = Instant::now();
    let mut families = Vec::new();
    while families.len() < count && !teller.is_over() {
        let family = db.create_family(&name(families.len()), FamilyOptions::new())?;
        for number in 0..KEYS {
            family.put(key(number), value(number, families.len() as u64, LENGTH))?;
        }
        families.push(family);
    }
    let note = format!("created in {:.1} s", start.elapsed().as_secs_f64());
    teller.doing(format!("compacts {} families", families.len()));
    let ((), compaction) = timed(|| Ok(db.compact()?))?;
    for (version, family) in (0..).zip(&families) {
        let wanted = (0..KEYS).map(|i| (key(i).to_vec(), value(i, version, LENGTH)));
        compare(family, wanted, teller)?;
    }
    let done = (families.len(), count);
    teller.figure("families/compact", compaction.as_nanos() as f64, done, note)?;
    drop(families);
    Ok(db.close()?)
}

/// Times flushes of one family beside few and many others, and openings with few and many.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn beside(dir: &Path, counts: Counts, teller: &Teller<'_>) -> Result<()> {
    let flush_few = {
        let db = Options::new().open(dir)?;
        grow(&db, counts.flush_few, teller)?;
        let flush = flush_ns(&db, 0)?;
        db.close()?;
        flush
    };
    let few = grown(dir, counts.open_few, teller)?;
    let open_few = opening_ns(dir)?;
    let many = grown(dir, counts.open_many, teller)?;
    teller.doing(format!("opens {many} families"));
    let open_many = opening_ns(dir)?;
    check(dir, many, FLUSHES, teller)?;
    let note = format!("{few} in {:.2} ms, {many} in {:.2} ms", open_few / 1e6, open_many / 1e6);
    let done = (many, counts.open_many);
    teller.figure("families/opening", open_many / open_few.max(1.0), done, note)?;
    let all = grown(dir, counts.flush_many, teller)?;
    let db = Db::open(dir)?;
    db.flush()?;
    teller.doing(format!("flushes beside {all} families"));
    let flush_many = flush_ns(&db, FLUSHES)?;
    db.close()?;
    check(dir, all, 2 * FLUSHES, teller)?;
    let note = format!("{:.2} ms, {:.2} ms", flush_few / 1e6, flush_many / 1e6);
    let done = (all, counts.flush_many);
    teller.figure("families/flush", flush_many / flush_few.max(1.0), done, note)
}

/// Creates families up to `count`, or until the time is over; returns their number.
fn grow(db: &Db, count: usize, teller: &Teller<'_>) -> Result<usize> {
    teller.doing(format!("creates families up to {count}"));
    let mut there = db.families().len() - 1;
    while there < count && !teller.is_over() {
        let family = db.create_family(&name(there), FamilyOptions::new())?;
        if there.is_multiple_of(HOLDS_KEY) {
            family.put(key(there as u64), b"x")?;
        }
        there += 1;
    }
    Ok(there)
}

fn grown(dir: &Path, count: usize, teller: &Teller<'_>) -> Result<usize> {
    let db = Db::open(dir)?;
    let there = grow(&db, count, teller)?;
    db.close()?;
    Ok(there)
}

/// The duration of a flush of one put, after `before` puts: the median, in nanoseconds.
fn flush_ns(db: &Db, before: usize) -> Result<f64> {
    let mut times: Vec<Duration> = Vec::new();
    for number in before..before + FLUSHES {
        let put = || {
            db.put(key(number as u64), b"x")?;
            Ok(db.flush()?)
        };
        times.push(timed(put)?.1);
    }
    Ok(median_ns(&times))
}

/// Reads back the default family and every family that holds a key.
fn check(dir: &Path, count: usize, puts: usize, teller: &Teller<'_>) -> Result<()> {
    let db = Db::open(dir)?;
    compare(&db, (0..puts as u64).map(|i| (key(i).to_vec(), b"x".to_vec())), teller)?;
    let found = db.families().len() - 1;
    if found != count {
        let message = format!("families are missing. wanted={count}, found={found}");
        return Err(Failure::verification(message));
    }
    for index in (0..count).step_by(HOLDS_KEY) {
        let family = db.family(&name(index))?;
        let wanted = [(key(index as u64).to_vec(), b"x".to_vec())];
        compare(&family, wanted.into_iter(), teller)?;
    }
    Ok(db.close()?)
}
