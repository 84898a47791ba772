//! Copies of data: clones of families, checkpoints, backups one after another.
//!
//! It removes nothing whose space must come back, and runs nothing beside a copy.

use crate::{
    engine::{Failure, Result},
    keys::splitmix64,
    upkeep::{
        data::{compare, fill, key, median_ns, timed, value},
        part::Teller,
        space::Amount,
    },
};
use siltdb::{Db, Family, FamilyOptions, Options, Read, backup::Backups};
use std::{fs, path::Path, time::Duration};

/// Settings under which a family soon has thousands of tables.
const TABLE_BYTES: u64 = 4 << 10;
const BASE_LEVEL_BYTES: u64 = 64 << 10;
const MEMTABLE_BYTES: usize = 4 << 20;
/// Bytes of a value in these tables.
const VALUE_BYTES: usize = 100;
/// Clones and checkpoints of which the slowest counts.
const COPIES: usize = 9;
/// Rounds of reads, of which the median counts. A clone and its source take turns in beginning.
const ROUNDS: usize = 15;
/// Keys that are looked up in a round.
const LOOKUPS: u64 = 200_000;
/// Bytes of a value that a lookup compares.
const COMPARED_BYTES: usize = 8;
/// One key in so many changes between two backups.
const CHANGED: u64 = 100;

fn slowest(times: &[Duration]) -> f64 {
    times.iter().max().map_or(0.0, |time| time.as_nanos() as f64)
}

fn all(entries: u64, length: usize) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..entries).map(move |i| (key(i).to_vec(), value(i, 0, length)))
}

/// Clones a family of `keys` keys in small tables; writes to clones, and reads one beside its
/// source.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn clones(dir: &Path, keys: u64, teller: &Teller<'_>) -> Result<()> {
    let family = FamilyOptions::new().table_bytes(TABLE_BYTES).base_level_bytes(BASE_LEVEL_BYTES);
    let db = Options::new().memtable_bytes(MEMTABLE_BYTES).default_family(family).open(dir)?;
    fill(&db, 0..keys, 0, VALUE_BYTES)?;
    db.flush()?;
    db.settle()?;
    let source = db.default_family();
    let tables: u64 = source.stats().tables.iter().sum();
    let (mut times, mut writes) = (Vec::new(), Vec::new());
    for number in 0..COPIES {
        let name = format!("clone {number}");
        let (clone, time) = timed(|| Ok(db.clone_family(&source, &name)?))?;
        times.push(time);
        writes.push(timed(|| Ok(clone.put(key(keys), b"x")?))?.1);
        let first = (key(keys).to_vec(), b"x".to_vec());
        compare(&clone, all(keys, VALUE_BYTES).chain([first]), teller)?;
        db.drop_family(&name)?;
    }
    compare(&source, all(keys, VALUE_BYTES), teller)?;
    let done = (times.len(), COPIES);
    let median = |times: &[Duration]| format!("median {:.2} ms", median_ns(times) / 1e6);
    let note = format!("{tables} tables, {}", median(&times));
    teller.figure("copies/clone", slowest(&times), done, note)?;
    teller.figure("copies/first-write", slowest(&writes), done, median(&writes))?;
    teller.doing("reads a clone and its source in turn");
    let clone = db.clone_family(&source, "read")?;
    reads(&source, &clone, keys, teller)?;
    drop((source, clone));
    Ok(db.close()?)
}

/// Compares the speed of reads of a clone with that of its source.
fn reads(source: &Family, clone: &Family, keys: u64, teller: &Teller<'_>) -> Result<()> {
    let mut state = 0;
    let mut read = |family: &Family| -> Result<f64> {
        let begun = state;
        state += LOOKUPS;
        Ok(timed(|| look_up(family, begun..begun + LOOKUPS, keys))?.1.as_secs_f64())
    };
    let mut ratios: Vec<f64> = Vec::new();
    // The first round fills the cache.
    for round in 0..=ROUNDS {
        let ratio = if round % 2 == 0 {
            let of_source = read(source)?;
            read(clone)? / of_source
        } else {
            let of_clone = read(clone)?;
            of_clone / read(source)?
        };
        if round > 0 {
            ratios.push(ratio);
        }
    }
    compare(clone, all(keys, VALUE_BYTES), teller)?;
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let note = format!("{least:.2} to {most:.2} in {ROUNDS} rounds");
    teller.figure("copies/reads", ratios[ratios.len() / 2], (1, 1), note)
}

/// Looks up keys in an order that looks random, and scans all.
fn look_up(family: &Family, draws: std::ops::Range<u64>, keys: u64) -> Result<()> {
    for draw in draws {
        let number = splitmix64(draw) % keys;
        let found = family.get(key(number))?;
        if !found.is_some_and(|found| found.starts_with(&value(number, 0, COMPARED_BYTES))) {
            return Err(Failure::verification(format!("wrong or missing value. key={number}")));
        }
    }
    let found = family.iter()?.try_fold(0, |count, entry| entry.map(|_| count + 1))?;
    if found != keys {
        let message = format!("a scan found other keys. wanted={keys}, found={found}");
        return Err(Failure::verification(message));
    }
    Ok(())
}

/// Makes checkpoints and clones of a large database; then two backups with a change between them.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn large(dir: &Path, amount: Amount, teller: &Teller<'_>) -> Result<()> {
    let Amount { entries, length } = amount;
    fs::create_dir_all(dir)?;
    let db = Db::open(dir.join("db"))?;
    fill(&db, 0..entries, 0, length)?;
    db.flush()?;
    db.settle()?;
    teller.doing("makes checkpoints");
    let mut times = Vec::new();
    for number in 0..COPIES {
        let target = dir.join(format!("checkpoint {number}"));
        times.push(timed(|| Ok(db.checkpoint(&target)?))?.1);
    }
    let checkpoint = Db::open(dir.join("checkpoint 0"))?;
    compare(&checkpoint, all(entries, length), teller)?;
    checkpoint.close()?;
    let note = format!("median {:.2} ms", median_ns(&times) / 1e6);
    teller.figure("copies/checkpoint", slowest(&times), (COPIES, COPIES), note)?;
    for number in 0..COPIES {
        fs::remove_dir_all(dir.join(format!("checkpoint {number}")))?;
    }
    let (clone, time) = timed(|| Ok(db.clone_family(&db.default_family(), "clone")?))?;
    compare(&clone, all(entries, length), teller)?;
    teller.figure("copies/large-clone", time.as_nanos() as f64, (1, 1), "")?;
    drop(clone);
    db.drop_family("clone")?;
    backups(dir, &db, amount, teller)?;
    Ok(db.close()?)
}

/// Makes a backup, changes one key in [`CHANGED`], and makes another.
fn backups(dir: &Path, db: &Db, amount: Amount, teller: &Teller<'_>) -> Result<()> {
    let Amount { entries, length } = amount;
    teller.doing("makes backups");
    let target = dir.join("backups");
    db.backup(&target)?;
    let mut versions = vec![0; entries as usize];
    for draw in 0..entries.div_ceil(CHANGED) {
        let number = splitmix64(draw) % entries;
        db.put(key(number), value(number, 1, length))?;
        versions[number as usize] = 1;
    }
    db.flush()?;
    db.settle()?;
    let (second, time) = timed(|| Ok(db.backup(&target)?))?;
    let backups = Backups::new(&target);
    teller.doing("restores a backup");
    backups.restore(Some(second.number), dir.join("restored"))?;
    let restored = Db::open(dir.join("restored"))?;
    let versions = versions.into_iter().zip(0_u64..);
    let wanted = versions.map(|(version, i)| (key(i).to_vec(), value(i, version, length)));
    compare(&restored, wanted, teller)?;
    restored.close()?;
    let note = format!(
        "{:.1} of {:.0} MB in {:.0} ms",
        second.copied_bytes as f64 / 1e6,
        second.bytes as f64 / 1e6,
        time.as_secs_f64() * 1e3
    );
    let share = second.copied_bytes as f64 / second.bytes.max(1) as f64;
    teller.figure("copies/next-backup", share, (1, 1), note)
}
