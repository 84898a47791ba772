//! Walks over keys alone read no value that lies apart from its key: every such block is damaged
//! here, and each walk gets to its end.

use siltdb::{
    Compression, Db, ErrorKind, FamilyOptions, Isolation, Options, Read, ReadOptions,
    RetentionFloor, Slice,
    testing::{Fs, MemFs},
};
use std::{path::Path, sync::Arc};

const KEYS: u64 = 60;
const VALUE: [u8; 6000] = [0xa7; 6000];

fn open(fs: &MemFs) -> Db {
    let family = FamilyOptions::new().compression(Compression::None).block_bytes(4 << 10);
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).seed(2).cache_bytes(0);
    options.default_family(family).open("db").unwrap()
}

fn key(number: u64) -> String {
    format!("user:{:02}/{number:03}", number / 10)
}

/// Overwrites the middle of each value in the table files; returns how many.
fn damage_values(fs: &MemFs) -> usize {
    let mut damaged = 0;
    for entry in fs.list(Path::new("db")).unwrap() {
        if !entry.name.ends_with(".table") {
            continue;
        }
        let path = Path::new("db").join(&entry.name);
        let mut bytes = fs.read_all(&path).unwrap();
        let mut at = 0;
        while let Some(start) = bytes[at..].windows(VALUE.len()).position(|part| part == VALUE) {
            let middle = at + start + VALUE.len() / 2;
            bytes[middle] ^= 1;
            at += start + VALUE.len();
            damaged += 1;
        }
        fs.remove(&path).unwrap();
        let mut file = fs.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
    }
    damaged
}

fn keys(pairs: impl Iterator<Item = siltdb::Result<(Slice, Slice)>>) -> Vec<String> {
    let key = |pair: siltdb::Result<(Slice, Slice)>| {
        let (key, value) = pair.unwrap();
        assert!(value.is_empty());
        String::from_utf8(key.to_vec()).unwrap()
    };
    pairs.map(key).collect()
}

/// Each way to walk over keys alone.
fn check(read: &impl Read) {
    let all: Vec<_> = (0..KEYS).map(key).collect();
    let only = || ReadOptions::new().keys_only(true);
    assert_eq!(keys(read.iter_with(&only()).unwrap()), all);
    let mut reverse = keys(read.iter_with(&only()).unwrap().rev());
    reverse.reverse();
    assert_eq!(reverse, all);
    let range = only().range(key(7)..key(23));
    assert_eq!(keys(read.iter_with(&range).unwrap()), all[7..23]);
    let prefix = only().prefix("user:03/");
    assert_eq!(keys(read.iter_with(&prefix).unwrap()), all[30..40]);
    let mut reverse = keys(read.iter_with(&prefix).unwrap().rev());
    reverse.reverse();
    assert_eq!(reverse, all[30..40]);
    let found: Vec<_> = read.iter().unwrap().keys().map(|key| key.unwrap()).collect();
    assert!(found.iter().map(|key| &key[..]).eq(all.iter().map(|key| key.as_bytes())));
    let found = read.prefix("user:03/").unwrap().keys().rev().count();
    assert_eq!(found, 10);
    assert_eq!(read.count(..).unwrap(), KEYS);
    assert_eq!(read.count(key(7)..key(23)).unwrap(), 16);
    assert!(!read.is_empty().unwrap());
    let mut cursor = read.cursor_with(&only()).unwrap();
    cursor.seek(key(12)).unwrap();
    assert_eq!(cursor.key(), Some(all[12].as_bytes()));
    cursor.seek_for_prev("user:02/").unwrap();
    assert_eq!(cursor.key(), Some(all[19].as_bytes()));
    cursor.next().unwrap();
    cursor.next().unwrap();
    assert_eq!(cursor.key(), Some(all[21].as_bytes()));
    cursor.seek_to_last().unwrap();
    cursor.prev().unwrap();
    assert_eq!(cursor.key(), Some(all[58].as_bytes()));
}

/// The same of a bucket, in whatever it is read.
macro_rules! check_bucket {
    ($source:expr) => {
        let bucket = $source.bucket(["a"]).unwrap();
        assert_eq!(bucket.count(..).unwrap(), 20);
        assert_eq!(keys(bucket.range(..).unwrap().keys_only()).len(), 20);
        assert_eq!(keys(bucket.range("k05".."k10").unwrap().keys_only().rev())[0], "k09");
    };
}

#[test]
fn no_walk_over_keys_reads_a_long_value() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    for number in 0..KEYS {
        db.put(key(number), VALUE).unwrap();
        if number % 20 == 19 {
            db.flush().unwrap();
        }
    }
    let past = db.snapshot().sequence();
    let rows = db.create_family("rows", db.default_family().options()).unwrap();
    let bucket = rows.bucket(["a"]).unwrap();
    bucket.create().unwrap();
    for number in 0..20 {
        bucket.put(format!("k{number:02}"), VALUE).unwrap();
    }
    db.create_branch("try").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    assert!(damage_values(&fs) >= 80);

    let db = open(&fs);
    let rows = db.family("rows").unwrap();
    check(&db);
    check(&db.snapshot());
    check(&db.snapshot_at(past).unwrap());
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let transaction = db.begin(isolation);
        check(&transaction);
        check_bucket!(transaction.family(&rows).unwrap());
    }
    check(&db.branch("try").unwrap().default_family().unwrap());
    check_bucket!(rows);
    check_bucket!(db.snapshot().family(&rows).unwrap());
    // The values are damaged indeed.
    assert_eq!(db.get(key(3)).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(db.iter().unwrap().any(|pair| pair.is_err()));
}
