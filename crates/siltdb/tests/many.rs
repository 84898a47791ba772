//! Many small things: flushes of one key, many families, memtables of an idle family beside a busy
//! one.
//!
//! The assertions are on counts of files, tables, calls and bytes, not on times.

use siltdb::{Db, FamilyOptions, Options, Read};
use siltdb_base::fs::{
    Fs,
    mem::{Crash, MemFs},
};
use std::{path::Path, sync::Arc};

fn open(fs: &MemFs) -> Db {
    Options::new().fs(Arc::new(fs.clone())).seed(1).workers(0).open("db").unwrap()
}

/// The lengths of the database's files with this extension.
fn lengths(fs: &MemFs, extension: &str) -> Vec<u64> {
    let files = fs.list_lengths(Path::new("db")).unwrap().into_iter();
    files.filter(|(name, _)| name.ends_with(extension)).map(|(_, length)| length).collect()
}

fn tables(db: &Db) -> u64 {
    db.stats().tables.iter().sum()
}

/// The number of calls of an opening, on a copy that a killed process left.
fn calls_to_open(fs: &MemFs) -> u64 {
    let copy = fs.crash_clone(Crash::Kill);
    let before = copy.calls();
    let db = open(&copy);
    let calls = copy.calls() - before;
    drop(db);
    calls
}

#[test]
fn a_flush_after_each_of_1200_puts_leaves_few_tables_and_costs_the_same_at_the_end() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut calls = Vec::new();
    for number in 0..1200_u32 {
        let before = fs.calls();
        db.put(number.to_be_bytes(), b"x").unwrap();
        db.flush().unwrap();
        calls.push(fs.calls() - before);
        while db.run_job().unwrap() {}
    }
    // Some flushes begin a new manifest or a new log file.
    let (early, late) = (calls[20..320].iter().sum::<u64>(), calls[900..].iter().sum::<u64>());
    assert!(late <= early + early / 10, "calls for 300 puts: {early} at first, {late} at last");
    assert!(tables(&db) <= 100, "{} tables", tables(&db));
    db.settle().unwrap();
    assert!(tables(&db) <= 100 && lengths(&fs, "").len() <= 110, "{} tables", tables(&db));
    assert_eq!(db.iter().unwrap().count(), 1200);
    let to_open = calls_to_open(&fs);
    assert!(to_open <= 250, "{to_open} calls to open");
    db.compact().unwrap();
    assert!(tables(&db) <= 10, "{} tables", tables(&db));
}

#[test]
fn a_quiet_family_with_rising_keys_beside_a_busy_one_has_few_tables() {
    let fs = MemFs::new();
    let db = open(&fs);
    let quiet = db.create_family("quiet", FamilyOptions::new()).unwrap();
    for round in 0..400_u32 {
        quiet.put(round.to_be_bytes(), b"x").unwrap();
        for number in 0..20_u32 {
            db.put((number * 7919 + round).to_be_bytes(), [7; 200]).unwrap();
        }
        db.flush().unwrap();
        while db.run_job().unwrap() {}
    }
    let found: u64 = quiet.stats().tables.iter().sum();
    assert!(found <= 100, "{found} tables of the quiet family");
    assert_eq!(quiet.iter().unwrap().count(), 400);
    let to_open = calls_to_open(&fs);
    assert!(to_open <= 600, "{to_open} calls to open");
}

#[test]
fn the_thousandth_family_costs_what_the_tenth_did() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut costs = Vec::new();
    for number in 0..2000 {
        let before = (fs.calls(), lengths(&fs, ".manifest").iter().sum::<u64>());
        let family = db.create_family(&format!("f{number:05}"), FamilyOptions::new()).unwrap();
        let after = (fs.calls(), lengths(&fs, ".manifest").iter().sum::<u64>());
        costs.push((after.0 - before.0, after.1.saturating_sub(before.1)));
        family.put(b"key", b"value").unwrap();
    }
    let dearest = |part: &[(u64, u64)]| {
        (part.iter().map(|cost| cost.0).max(), part.iter().map(|cost| cost.1).max())
    };
    let (early, late) = (dearest(&costs[10..110]), dearest(&costs[1900..]));
    assert!(late.0 <= early.0 && late.1 <= early.1.map(|bytes| bytes + 16), "{early:?}, {late:?}");
    // The flush of one family costs the same with any number of families.
    let family = db.family("f00007").unwrap();
    db.flush().unwrap();
    let (files, calls) = (lengths(&fs, "").len(), fs.calls());
    family.put(b"key", b"again").unwrap();
    db.flush().unwrap();
    assert!(fs.calls() - calls <= 40, "{} calls for a flush of one family", fs.calls() - calls);
    assert!(lengths(&fs, "").len() <= files + 2);
    assert!(calls_to_open(&fs) <= 200, "{} calls to open", calls_to_open(&fs));
    assert_eq!(open(&fs.crash_clone(Crash::Kill)).families().len(), 2001);
}
