//! The entries of all parts: made from a number, and compared in full when they are read back.

use crate::{
    engine::{Failure, Result},
    keys::splitmix64,
    upkeep::part::Teller,
};
use siltdb::{Db, Read, WriteBatch};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// Writes of a batch where single puts are not what is measured.
pub const BATCH: u64 = 1000;

/// A key: numbers in order.
#[must_use]
pub fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A value that does not compress, of a version of a key.
#[must_use]
pub fn value(number: u64, version: u64, length: usize) -> Vec<u8> {
    let words = (0_u64..).map(|word| splitmix64(splitmix64(number ^ version << 48) ^ word));
    words.flat_map(u64::to_le_bytes).take(length).collect()
}

/// Writes a version of the keys of `numbers`.
///
/// # Errors
/// The engine's.
pub fn fill(db: &Db, numbers: std::ops::Range<u64>, version: u64, length: usize) -> Result<()> {
    let family = db.default_family();
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(&family, key(number), value(number, version, length))?;
        if batch.len() as u64 == BATCH {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(db.write(&batch)?)
}

/// Compares all that a database or a family shows with what it must hold, in order.
///
/// # Errors
/// `Verification`, with the first difference; the engine's.
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

/// How long something takes, and what it returns.
pub fn timed<T>(body: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = Instant::now();
    let outcome = body()?;
    Ok((outcome, start.elapsed()))
}

/// The middle of some times, in nanoseconds; 0 of none.
#[must_use]
pub fn median_ns(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0.0, |time| time.as_nanos() as f64)
}

/// Files in the directory of a database.
///
/// # Errors
/// The system's.
pub fn files(dir: &Path) -> Result<usize> {
    Ok(fs::read_dir(dir)?.collect::<std::result::Result<Vec<_>, _>>()?.len())
}

/// Bytes of all files of a database but its log, whose segments are set up ahead and hold no data
/// that is not in tables, too, once it is flushed.
///
/// # Errors
/// The system's.
pub fn data_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            continue;
        }
        // A file that goes meanwhile takes no bytes.
        bytes += fs::metadata(&path).map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}
