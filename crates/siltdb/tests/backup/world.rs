//! A database on files in memory, its backups, and what each should hold.

use siltdb::{
    Db, FamilyOptions, Options, Read, WriteBatch,
    backup::{Backup, Backups},
    testing::{Call, CallKind, Crash, Fault, FaultError, FaultSpan, Fs, MemFs},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

pub const DB: &str = "db";
pub const BACKUPS: &str = "copies/backups";
pub const RESTORED: &str = "restored/db";

/// Keys and values of each family.
pub type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// Options without threads, under which little data makes several tables.
pub fn options(fs: &MemFs) -> Options {
    // Each opening gives its tables other uids, as without a seed.
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).seed(fs.calls());
    options.memtable_bytes(32 << 10).memory_budget(16 << 20)
}

pub fn open(fs: &MemFs) -> Db {
    options(fs).open(DB).unwrap()
}

pub fn backups(fs: &MemFs) -> Backups {
    Backups::with_options(BACKUPS, options(fs))
}

/// All that a database shows.
pub fn contents(db: &Db) -> Contents {
    let of = |name: String| {
        let family = db.family(&name).unwrap();
        let pairs = family.prefix(b"").unwrap().map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        });
        let pairs = pairs.collect();
        (name, pairs)
    };
    db.families().into_iter().map(of).collect()
}

pub fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// Puts a value that does not compress, under each of the keys.
pub fn fill(db: &Db, keys: impl IntoIterator<Item = u32>, round: u32) {
    for number in keys {
        db.put(key(number), noise(number, round)).unwrap();
    }
}

fn noise(number: u32, round: u32) -> Vec<u8> {
    let mut state = u64::from(number) << 32 | u64::from(round) | 1 << 20;
    let mut bytes = Vec::new();
    for _ in 0..12 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    bytes
}

/// A database with tables of several levels in two families, and a log that is not flushed.
pub fn filled(fs: &MemFs) -> Db {
    let db = open(fs);
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    for round in 0..3 {
        fill(&db, 0..250, round);
        users.put(key(round), b"user").unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    change(&db, 3);
    db
}

/// Changes some of everything: keys, ranges, families.
pub fn change(db: &Db, round: u32) {
    fill(db, (0..250).step_by(7), round);
    db.delete(key(round)).unwrap();
    db.delete_range(key(20 + round)..key(24 + round)).unwrap();
    db.flush().unwrap();
    let users = db.family("users").unwrap();
    users.put(key(round), format!("user of {round}")).unwrap();
    // A family that comes with data.
    let extra = db.prepare_family(&format!("extra {round}"), FamilyOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.create_family(&extra).unwrap();
    batch.put(&extra, "first", round.to_le_bytes()).unwrap();
    if let Ok(gone) = db.family(&format!("extra {}", round - 1)) {
        batch.drop_family(&gone).unwrap();
    }
    db.write(&batch).unwrap();
    fill(db, 1000..1020, round);
}

/// Restores a backup on a copy of the files, and returns what it holds; it must check as clean.
pub fn restored(fs: &MemFs, number: Option<u64>) -> Contents {
    let fs = fs.crash_clone(Crash::Kill);
    fs.set_space_limit(None);
    let report = backups(&fs).restore(number, RESTORED).unwrap();
    assert!(number.is_none_or(|number| number == report.number), "{report:?}");
    opened(&fs, report.sequence)
}

/// What the database in [`RESTORED`] holds.
pub fn opened(fs: &MemFs, sequence: u64) -> Contents {
    let check = options(fs).check(RESTORED, &mut |_| {}).unwrap();
    assert!(check.is_clean(), "{check:?}");
    let db = options(fs).open(RESTORED).unwrap();
    assert_eq!(db.stats().sequence, sequence);
    let found = contents(&db);
    // It goes on as any database.
    db.put("a later key", "value").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let db = options(fs).open(RESTORED).unwrap();
    assert!(db.contains("a later key").unwrap());
    found
}

/// The numbers of the backups that there are; none if the directory is refused as a source.
pub fn numbers(fs: &MemFs) -> Vec<u64> {
    match backups(fs).list() {
        Ok(listing) => {
            assert!(listing.errors.is_empty(), "{:?}", listing.errors);
            listing.backups.iter().map(|backup| backup.number).collect()
        }
        Err(error) => {
            assert_eq!(error.kind(), siltdb::ErrorKind::NotFound, "{error}");
            Vec::new()
        }
    }
}

/// The names of the files in the directory of backups that end like this, sorted.
pub fn files(fs: &MemFs, end: &str) -> Vec<String> {
    let entries = fs.list(Path::new(BACKUPS)).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    let mut names: Vec<_> = names.filter(|name| name.ends_with(end)).collect();
    names.sort();
    names
}

/// Makes a backup, and says what the database held then.
pub fn back_up(db: &Db) -> (Backup, Contents) {
    let expected = contents(db);
    (db.backup(BACKUPS).unwrap(), expected)
}

/// Does `work`, and returns what a kill and a loss of power before each of its calls would leave.
pub fn crash_states<T>(
    fs: &MemFs,
    work: impl FnOnce() -> siltdb::Result<T>,
) -> Vec<(String, MemFs)> {
    let (states, disk) = (Arc::new(Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |call: Call<'_>| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            let what = format!("{crash:?} before {:?} {}", call.kind, call.path.display());
            seen.lock().unwrap().push((what, disk.crash_clone(crash)));
        }
    })));
    work().map(drop).unwrap();
    fs.on_call(None);
    std::mem::take(&mut *states.lock().unwrap())
}

/// The failure of the `nth` next call, or of the `nth` of a kind.
pub fn fault(kind: Option<CallKind>, nth: u64, error: FaultError) -> Option<Fault> {
    Some(Fault { kind, nth, span: FaultSpan::Once, error })
}
