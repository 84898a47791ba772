//! Many branches: the cost of one more, an opening, a flush and a drop, and their memory.

use crate::{
    engine::{Failure, Result},
    measure::resident_bytes,
    upkeep::{
        data::{compare, key, median_ns, timed},
        part::Teller,
        steps::opening_ns,
    },
};
use siltdb::{Db, Options};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Branches of which the median is taken.
const SAMPLE: usize = 20;
/// Flushes of which the median is taken.
const FLUSHES: usize = 20;
/// One branch in this many is read back.
const READ_EVERY: usize = 100;

/// The bars, in their order: creation, opening, memory, flush, drop.
pub type Bars = [&'static str; 5];

/// The numbers of branches beside which something is measured.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// The smaller number.
    pub few: usize,
    /// The larger number.
    pub many: usize,
}

fn name(index: usize) -> String {
    format!("branch-{index:06}")
}

/// Creates branches of a family with one key, and measures beside few and many of them.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn beside(bars: Bars, dir: &Path, counts: Counts, teller: &Teller<'_>) -> Result<()> {
    let [creation, opening, memory, flush, removal] = bars;
    let db = Options::new().open(dir)?;
    db.put(key(0), b"x")?;
    let start = Instant::now();
    grow(&db, counts.few, teller)?;
    let few = grow(&db, counts.few + SAMPLE, teller)?;
    let flush_few = flush_ns(&db)?;
    let drop_few = drop_ns(&db, few.len().min(SAMPLE))?;
    teller.doing(format!("creates {} branches", counts.many));
    let many = grow(&db, counts.many, teller)?;
    let done = (db.branches().len(), counts.many);
    check(&db, teller)?;
    let last = &many[many.len().saturating_sub(SAMPLE)..];
    let (few_ns, last_ns) = (median_ns(&few), median_ns(last));
    let note = format!(
        "{:.3} ms, {:.3} ms; all in {:.1} s",
        few_ns / 1e6,
        last_ns / 1e6,
        start.elapsed().as_secs_f64()
    );
    teller.figure(creation, last_ns / few_ns.max(1.0), done, note)?;
    db.close()?;

    teller.doing("opens them");
    let before = resident_bytes();
    let db = Db::open(dir)?;
    let bytes = resident_bytes().saturating_sub(before);
    check(&db, teller)?;
    db.close()?;
    let note = format!("{:.1} MB for all", bytes as f64 / 1e6);
    let opening_time = opening_ns(dir)?;
    check(&Db::open(dir)?, teller)?;
    teller.figure(opening, opening_time, done, "")?;
    let db = Db::open(dir)?;
    check(&db, teller)?;
    teller.figure(memory, bytes as f64 / done.0.max(1) as f64, done, note)?;

    teller.doing("flushes beside them");
    let flush_many = flush_ns(&db)?;
    check(&db, teller)?;
    let note = format!("{:.3} ms, {:.3} ms", flush_few / 1e6, flush_many / 1e6);
    teller.figure(flush, flush_many / flush_few.max(1.0), done, note)?;
    let drop_many = drop_ns(&db, SAMPLE)?;
    check(&db, teller)?;
    let note = format!("{:.3} ms, {:.3} ms", drop_few / 1e6, drop_many / 1e6);
    teller.figure(removal, drop_many / drop_few.max(1.0), done, note)?;
    Ok(db.close()?)
}

/// Creates branches up to `count`, or until the time is over. Returns the time of each.
fn grow(db: &Db, count: usize, teller: &Teller<'_>) -> Result<Vec<Duration>> {
    let (mut times, mut there) = (Vec::new(), db.branches().len());
    while there < count && !teller.is_over() {
        times.push(timed(|| Ok(db.create_branch(&name(there))?))?.1);
        there += 1;
    }
    Ok(times)
}

/// The duration of a flush of one put: the median, in nanoseconds.
fn flush_ns(db: &Db) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..FLUSHES {
        let put = || {
            db.put(key(0), b"x")?;
            Ok(db.flush()?)
        };
        times.push(timed(put)?.1);
    }
    Ok(median_ns(&times))
}

/// The duration of dropping one of the newest `count` branches: the median, in nanoseconds.
fn drop_ns(db: &Db, count: usize) -> Result<f64> {
    let all = db.branches();
    let newest = all.iter().rev().take(count);
    let times = newest.map(|branch| Ok(timed(|| Ok(db.drop_branch(&branch.name)?))?.1));
    Ok(median_ns(&times.collect::<Result<Vec<_>>>()?))
}

/// Reads back a part of the branches.
fn check(db: &Db, teller: &Teller<'_>) -> Result<()> {
    for index in (0..db.branches().len()).step_by(READ_EVERY) {
        let family = db.branch(&name(index))?.default_family()?;
        compare(&family, [(key(0).to_vec(), b"x".to_vec())].into_iter(), teller)?;
    }
    if db.branches().is_empty() {
        return Err(Failure::verification("there are no branches"));
    }
    Ok(())
}
