//! A database in a memory file system whose values of 100 bytes or more are separated.

use siltdb::{
    Db, Durability, FamilyOptions, Options, Read,
    testing::{Crash, Fs, MemFs},
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

pub const DIR: &str = "db";

/// Values of this length or more are separated.
pub const THRESHOLD: u64 = 100;

/// Options of a family that separates.
pub fn separating() -> FamilyOptions {
    let options = FamilyOptions::new().value_threshold(THRESHOLD).table_bytes(16 << 10);
    options.blob_file_bytes(64 << 10)
}

pub fn options(fs: &MemFs) -> Options {
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).seed(3);
    options.memtable_bytes(64 << 10).memory_budget(16 << 20).default_family(separating())
}

pub fn open(fs: &MemFs) -> Db {
    options(fs).open(DIR).unwrap()
}

/// A value that does not compress, one of each key and round.
pub fn value(key: u32, round: u32, bytes: usize) -> Vec<u8> {
    let mut x = u64::from(key) << 32 | u64::from(round) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..bytes).map(|_| next()).collect()
}

pub fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Puts keys with values of 1000 bytes, synced at the end.
pub fn fill(db: &Db, keys: std::ops::Range<u32>, round: u32) {
    for number in keys {
        db.put(key(number), value(number, round, 1000)).unwrap();
    }
    db.sync_wal().unwrap();
}

pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a scan sees; each value is also what a get sees.
pub fn contents(db: &impl Read) -> Contents {
    let mut all = BTreeMap::new();
    for entry in db.prefix(b"").unwrap() {
        let (key, value) = entry.unwrap();
        assert_eq!(db.get(&key).unwrap().unwrap(), value);
        all.insert(key.to_vec(), value.to_vec());
    }
    all
}

/// What `fill` has put.
pub fn filled(keys: std::ops::Range<u32>, round: u32) -> Contents {
    keys.map(|number| (key(number).to_vec(), value(number, round, 1000))).collect()
}

/// The blob files in a directory, with their lengths.
pub fn blob_files(fs: &MemFs, dir: &str) -> Vec<(String, u64)> {
    let mut files = fs.list_lengths(Path::new(dir)).unwrap();
    files.retain(|(name, _)| name.ends_with(".blob"));
    files.sort();
    files
}

/// The file system as a power failure leaves it.
pub fn crashed(fs: &MemFs, seed: u64) -> MemFs {
    fs.crash_clone(Crash::PowerLoss { seed })
}

pub fn synced() -> siltdb::WriteOptions {
    siltdb::WriteOptions::new().durability(Durability::Synced)
}
