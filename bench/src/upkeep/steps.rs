//! Many tiny steps: a flush after each put, an opening for each put.

use crate::{
    engine::Result,
    upkeep::{
        data::{compare, files, key, median_ns, timed},
        part::Teller,
    },
};
use siltdb::{Db, Options};
use std::path::Path;

/// The last steps of a loop: this many of them give the figure at the end.
const LAST: usize = 50;
/// Openings of which the median is taken.
const OPENINGS: usize = 3;
/// The time limit is checked after this many steps.
const LOOK: usize = 10;

/// Whether a loop ends here because the time is over; it takes some steps in any case.
fn ends(steps: usize, teller: &Teller<'_>) -> bool {
    steps > 0 && steps.is_multiple_of(LOOK) && teller.is_over()
}

/// Puts a small value with rising keys and flushes, `count` times.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn flushes(dir: &Path, count: usize, teller: &Teller<'_>) -> Result<()> {
    let wanted = |count: usize| (0..count as u64).map(|i| (key(i).to_vec(), b"x".to_vec()));
    let db = Options::new().open(dir)?;
    let mut times = Vec::new();
    while times.len() < count && !ends(times.len(), teller) {
        let put = || {
            db.put(key(times.len() as u64), b"x")?;
            Ok(db.flush()?)
        };
        times.push(timed(put)?.1);
    }
    let done = (times.len(), count);
    compare(&db, wanted(times.len()), teller)?;
    let (first, last) = (times.len().min(LAST), times.len().saturating_sub(LAST));
    let note = format!("{:.2} ms at first", median_ns(&times[..first]) / 1e6);
    teller.figure("flushes/time", median_ns(&times[last..]), done, note)?;
    db.close()?;
    teller.doing("opens what flushes left");
    let (db, opening) = timed(|| Ok(Db::open(dir)?))?;
    compare(&db, wanted(times.len()), teller)?;
    teller.figure("flushes/opening", opening.as_nanos() as f64, done, "")?;
    teller.doing("settles");
    let ((), settling) = timed(|| Ok(db.settle()?))?;
    compare(&db, wanted(times.len()), teller)?;
    let tables: u64 = db.stats().tables.iter().sum();
    let note = format!("settled in {:.1} s", settling.as_secs_f64());
    teller.figure("flushes/tables", tables as f64, done, note)?;
    Ok(db.close()?)
}

/// Opens a database, puts a small value and closes it, `count` times.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn openings(dir: &Path, count: usize, teller: &Teller<'_>) -> Result<()> {
    let name = |i: usize| format!("k{i}").into_bytes();
    let mut times = Vec::new();
    while times.len() < count && !ends(times.len(), teller) {
        if times.len() % 1000 == 0 {
            teller.doing(format!("opening {} of {count}", times.len()));
        }
        let (db, opening) = timed(|| Ok(Db::open(dir)?))?;
        db.put(name(times.len()), b"x")?;
        db.close()?;
        times.push(opening);
    }
    let (done, found) = ((times.len(), count), files(dir)?);
    let last = times.len().saturating_sub(LAST);
    let opening = median_ns(&times[last..]);
    let mut wanted: Vec<_> = (0..times.len()).map(|i| (name(i), b"x".to_vec())).collect();
    wanted.sort();
    let db = Db::open(dir)?;
    compare(&db, wanted.into_iter(), teller)?;
    db.close()?;
    teller.figure("openings/files", found as f64, done, "")?;
    let note = format!("{:.2} ms at first", median_ns(&times[..times.len().min(LAST)]) / 1e6);
    teller.figure("openings/time", opening, done, note)
}

/// The duration of an opening, in nanoseconds: a median.
///
/// # Errors
/// Errors of the engine.
pub fn opening_ns(dir: &Path) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..OPENINGS {
        let (db, opening) = timed(|| Ok(Db::open(dir)?))?;
        times.push(opening);
        db.close()?;
    }
    Ok(median_ns(&times))
}
