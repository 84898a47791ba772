//! Reads that skip or fold many entries, and the memory of a large write.

use crate::{
    engine::{Failure, Result},
    keys::splitmix64,
    measure::{drop_from_page_cache, peak_resident_bytes},
    upkeep::{
        data::{compare, delete_by_range, delete_one_by_one, fill, key, median_ns, timed, value},
        part::Teller,
    },
};
use siltdb::{Db, FamilyOptions, MergeOperator, Options, Read};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Large enough for the puts and deletes of a million keys without a flush.
const MEMTABLE_BYTES: usize = 512 << 20;
/// Bytes of the values that a range delete removes, and seeks across it.
const RANGE_VALUE_BYTES: usize = 100;
const RANGE_SEEKS: u64 = 101;
/// Gets of which the median is taken.
const GETS: usize = 5;
/// Bytes of an operand.
const OPERAND_BYTES: usize = 4;

/// Seeks twice across `count` keys that were put and deleted and are in no table.
///
/// # Errors
/// Errors of the engine; `Verification`, if a seek ends elsewhere than at the one remaining key.
pub fn deleted(dir: &Path, count: u64, teller: &Teller<'_>) -> Result<()> {
    let options = Options::new().memtable_bytes(MEMTABLE_BYTES);
    let db = options.memory_budget(4 * MEMTABLE_BYTES).open(dir)?;
    fill(&db, 0..count, 0, OPERAND_BYTES)?;
    db.put(key(count), b"left")?;
    delete_one_by_one(&db, count)?;
    let flushes = db.stats().flushes;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..2 {
        let mut cursor = db.cursor()?;
        times.push(timed(|| Ok(cursor.seek_to_first()?))?.1);
        if cursor.key() != Some(&key(count)[..]) {
            let message = format!("a seek found another key. found={:?}", cursor.key());
            return Err(Failure::verification(message));
        }
    }
    compare(&db, [(key(count).to_vec(), b"left".to_vec())].into_iter(), teller)?;
    if flushes > 0 {
        return Err(Failure::error(format!("{flushes} flushes moved entries out of memory")));
    }
    let [first, second] = [times[0], times[1]].map(|time| time.as_nanos() as f64);
    let note = format!("{:.2} ms, then {:.2} ms", first / 1e6, second / 1e6);
    teller.figure("reads/deleted", first.max(second), (1, 1), note)?;
    Ok(db.close()?)
}

/// Seeks into a range of `count` keys that one range delete removed from tables: first with nothing
/// in memory or the page cache, then again.
///
/// # Errors
/// Errors of the engine; `Verification`, if a seek ends elsewhere than at the one remaining key.
pub fn range_deleted(
    [cold, warm]: [&str; 2],
    dir: &Path,
    count: u64,
    teller: &Teller<'_>,
) -> Result<()> {
    let db = Db::open(dir)?;
    fill(&db, 0..count + 1, 0, RANGE_VALUE_BYTES)?;
    db.flush()?;
    db.settle()?;
    delete_by_range(&db, count)?;
    db.close()?;
    drop_from_page_cache(dir)?;
    let db = Db::open(dir)?;
    let mut times: Vec<Duration> = Vec::new();
    for seek in 0..RANGE_SEEKS {
        let mut cursor = db.cursor()?;
        times.push(timed(|| Ok(cursor.seek(key(splitmix64(seek) % count))?))?.1);
        if cursor.key() != Some(&key(count)[..]) {
            let message = format!("a seek found another key. found={:?}", cursor.key());
            return Err(Failure::verification(message));
        }
    }
    let left = value(count, 0, RANGE_VALUE_BYTES);
    compare(&db, [(key(count).to_vec(), left)].into_iter(), teller)?;
    let (first, others) = times.split_first().expect("some seeks are made");
    teller.figure(cold, first.as_nanos() as f64, (1, 1), "")?;
    teller.figure(warm, median_ns(others), (1, 1), "")?;
    Ok(db.close()?)
}

/// Appends operands, and counts the bytes that it gets.
#[derive(Debug, Default)]
struct Append {
    handed: AtomicU64,
}

impl Append {
    fn join<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        let parts: Vec<&[u8]> = parts.collect();
        let joined = parts.concat();
        // Relaxed: the count is read when nothing merges.
        self.handed.fetch_add(joined.len() as u64, Ordering::Relaxed);
        joined
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &'static str {
        "append"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> siltdb::Result<Vec<u8>> {
        Ok(self.join(base.into_iter().chain(operands.iter().copied())))
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(self.join([older, newer].into_iter()))
    }
}

/// Merges `count` operands into one key; gets it, and flushes it.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn merges(dir: &Path, count: u64, teller: &Teller<'_>) -> Result<()> {
    let operator = Arc::new(Append::default());
    let options = FamilyOptions::new().merge_operator(operator.clone());
    let db = Options::new().merge_operator(operator.clone()).open(dir)?;
    let family = db.create_family("merged", options)?;
    // The base value lies in a table, so a flush can only fold the operands among themselves.
    let mut wanted = b"base".to_vec();
    family.put(key(0), &wanted)?;
    db.flush()?;
    for number in 0..count {
        let operand = value(number, 0, OPERAND_BYTES);
        family.merge(key(0), &operand)?;
        wanted.extend(operand);
    }
    let get = || -> Result<()> {
        match family.get(key(0))? {
            Some(found) if *found == wanted[..] => {
                teller.compared(1);
                Ok(())
            }
            found => {
                let found = found.map(|found| found.len());
                let length = wanted.len();
                let message = format!("merged otherwise. wanted={length} bytes, found={found:?}");
                Err(Failure::verification(message))
            }
        }
    };
    let first = timed(get)?.1;
    let times = (0..GETS).map(|_| Ok(timed(get)?.1)).collect::<Result<Vec<_>>>()?;
    let note = format!("the first took {:.2} ms", first.as_secs_f64() * 1e3);
    teller.figure("reads/merged", median_ns(&times), (1, 1), note)?;
    // Relaxed: nothing merges now.
    operator.handed.store(0, Ordering::Relaxed);
    let ((), flush) = timed(|| Ok(db.flush()?))?;
    let handed = operator.handed.load(Ordering::Relaxed) as f64;
    get()?;
    let note = format!("{:.2} MB, flushed in {:.1} ms", handed / 1e6, flush.as_secs_f64() * 1e3);
    teller.figure("flushes/merged", handed / wanted.len().max(1) as f64, (1, 1), note)?;
    drop(family);
    Ok(db.close()?)
}

/// Puts one value of `length` bytes, and measures the process's peak of memory.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn large_value(dir: &Path, length: usize, teller: &Teller<'_>) -> Result<()> {
    let large = value(1, 0, length);
    let db = Db::open(dir)?;
    let ((), put) = timed(|| Ok(db.put(key(1), &large)?))?;
    let Some(peak) = peak_resident_bytes() else {
        teller.lacks("writes/memory", "the system does not tell the peak of memory");
        return Ok(());
    };
    compare(&db, [(key(1).to_vec(), large)].into_iter(), teller)?;
    let note = format!("{:.0} MB, put in {:.2} s", peak as f64 / 1e6, put.as_secs_f64());
    teller.figure("writes/memory", peak as f64 / length as f64, (1, 1), note)?;
    Ok(db.close()?)
}
