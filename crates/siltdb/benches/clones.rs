//! How long a clone of thousands of files takes after its flush, the first write to it, and reads
//! of it beside those of its source.
//!
//! `cargo bench -p siltdb --bench clones`; it takes no options.

use siltdb::{Db, Family, FamilyOptions, Options, Read};
use std::{
    error::Error,
    time::{Duration, Instant},
};

/// Keys in the source: with tables of 4 KiB they make thousands of files.
const KEYS: u64 = 120_000;

/// Clones that are timed.
const CLONES: usize = 9;

/// Rounds of reads, source and clone in turn.
const ROUNDS: usize = 7;

/// Keys that are looked up in a round.
const LOOKUPS: u64 = 50_000;

/// The next of numbers that look random (splitmix64; Steele, Lea and Flood, 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Looks keys up, and scans all.
fn read(family: &Family, state: &mut u64) -> siltdb::Result<Duration> {
    let start = Instant::now();
    for _ in 0..LOOKUPS {
        let key = (next(state) % KEYS).to_be_bytes();
        assert!(family.get(key)?.is_some(), "a key is missing");
    }
    assert_eq!(family.iter()?.count() as u64, KEYS);
    Ok(start.elapsed())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    ms(times[times.len() / 2])
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let family = FamilyOptions::new().table_bytes(4 << 10).base_level_bytes(64 << 10);
    let options = Options::new().memtable_bytes(4 << 20).default_family(family);
    let db: Db = options.open(dir.path().join("db"))?;
    let state = &mut 1;
    for number in 0..KEYS {
        let value: Vec<u8> = (0..100).map(|_| next(state) as u8).collect();
        db.put(number.to_be_bytes(), value)?;
    }
    db.flush()?;
    db.settle()?;
    let source = db.default_family();
    let tables: u64 = source.stats().tables.iter().sum();
    let (mut clones, mut writes) = (Vec::new(), Vec::new());
    for number in 0..CLONES {
        let name = format!("clone {number}");
        let start = Instant::now();
        let clone = db.clone_family(&source, &name)?;
        clones.push(start.elapsed());
        clone.put(b"first", b"write")?;
        writes.push(start.elapsed() - clones[number]);
        db.drop_family(&name)?;
    }
    let slowest = clones.iter().max().copied().map_or(0.0, ms);
    println!(
        "{tables} tables, {CLONES} clones: median {:.1} ms, slowest {slowest:.1} ms",
        median(clones)
    );
    println!("first write to a clone: median {:.3} ms", median(writes));
    let copy = db.clone_family(&source, "read")?;
    let (mut of_source, mut of_copy) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_source.push(read(&source, state)?);
        of_copy.push(read(&copy, state)?);
    }
    let (of_source, of_copy) = (median(of_source), median(of_copy));
    println!("{LOOKUPS} gets and a scan: source {of_source:.1} ms, clone {of_copy:.1} ms");
    Ok(())
}
