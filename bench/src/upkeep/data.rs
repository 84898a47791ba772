//! The entries of all parts: derived from a number, and compared in full when they are read back.

use crate::{
    engine::{Failure, Result},
    keys::splitmix64,
    upkeep::part::Teller,
};
use siltdb::{Db, Family, Read, WriteBatch};
use std::{
    fs,
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

/// Number of writes in a batch, where single puts are not measured.
pub const BATCH: u64 = 1000;

/// The key of a number; keys are in the order of numbers.
#[must_use]
pub fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The value of a key in a version, which does not compress.
#[must_use]
pub fn value(number: u64, version: u64, length: usize) -> Vec<u8> {
    let words = (0_u64..).map(|word| splitmix64(splitmix64(number ^ version << 48) ^ word));
    words.flat_map(u64::to_le_bytes).take(length).collect()
}

/// Writes a version of the keys of `numbers`.
///
/// # Errors
/// Errors of the engine.
pub fn fill(db: &Db, numbers: Range<u64>, version: u64, length: usize) -> Result<()> {
    fill_family(db, &db.default_family(), numbers, (version, length))
}

/// Writes a version of the keys of `numbers` to a family, with values of a length.
///
/// # Errors
/// Errors of the engine.
pub fn fill_family(
    db: &Db,
    family: &Family,
    numbers: Range<u64>,
    (version, length): (u64, usize),
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(family, key(number), value(number, version, length))?;
        if batch.len() as u64 == BATCH {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(db.write(&batch)?)
}

/// Deletes the entries of the numbers below `deleted` by one range delete.
///
/// # Errors
/// Errors of the engine.
pub fn delete_by_range(db: &Db, deleted: u64) -> Result<()> {
    Ok(db.default_family().delete_range(key(0)..key(deleted))?)
}

/// Deletes the entries of the numbers below `deleted` one by one, in batches.
///
/// # Errors
/// Errors of the engine.
pub fn delete_one_by_one(db: &Db, deleted: u64) -> Result<()> {
    let family = db.default_family();
    let mut batch = WriteBatch::new();
    for number in 0..deleted {
        batch.delete(&family, key(number))?;
        if batch.len() as u64 == BATCH {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(db.write(&batch)?)
}

/// Compares the whole contents of a database or a family with the expected ones, in order.
///
/// # Errors
/// `Verification`, with the first difference; errors of the engine.
pub fn compare(
    source: &impl Read,
    mut wanted: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    teller: &Teller<'_>,
) -> Result<()> {
    let mut count = 0;
    for entry in source.iter()? {
        let (key, value) = entry?;
        match wanted.next() {
            Some((wanted_key, wanted)) if *key == wanted_key && *value == wanted => count += 1,
            Some((wanted, _)) => {
                let message = format!("entry {count} differs. wanted={wanted:?}, found={key:?}");
                return Err(Failure::verification(message));
            }
            None => {
                let message = format!("an entry that was never written or is gone: {key:?}");
                return Err(Failure::verification(message));
            }
        }
    }
    if let Some((wanted, _)) = wanted.next() {
        return Err(Failure::verification(format!("entry {count} is missing. wanted={wanted:?}")));
    }
    teller.compared(count);
    Ok(())
}

/// Runs `body`; returns its result and its duration.
pub fn timed<T>(body: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = Instant::now();
    let outcome = body()?;
    Ok((outcome, start.elapsed()))
}

/// The median of some times, in nanoseconds; 0 for none.
#[must_use]
pub fn median_ns(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0.0, |time| time.as_nanos() as f64)
}

/// Number of files in the directory of a database.
///
/// # Errors
/// Errors of the system.
pub fn files(dir: &Path) -> Result<usize> {
    Ok(fs::read_dir(dir)?.collect::<std::result::Result<Vec<_>, _>>()?.len())
}

/// Bytes of all files of a database but its log. Log segments are preallocated, and after a flush
/// they hold no data that is not in tables.
///
/// # Errors
/// Errors of the system.
pub fn data_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            continue;
        }
        // A file that is removed meanwhile takes no bytes.
        bytes += fs::metadata(&path).map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}
