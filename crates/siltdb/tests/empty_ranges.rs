//! Readers that skip deleted keys, and writers into the ranges that they skip.

use siltdb::{Cursor, Db, Durability, Options, Read, WriteBatch, WriteOptions};
use siltdb_base::fs::mem::MemFs;
use std::{
    sync::{Arc, mpsc},
    thread,
};

fn open(fs: &MemFs) -> Db {
    let options = Options::new().workers(0).fs(Arc::new(fs.clone())).seed(1);
    options.open("db").unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn number(cursor: &Cursor) -> Option<u64> {
    cursor.key().map(|key| u64::from_be_bytes(key.try_into().unwrap()))
}

fn first(db: &Db) -> Option<u64> {
    let mut cursor = db.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    number(&cursor)
}

fn last(db: &Db) -> Option<u64> {
    let mut cursor = db.cursor().unwrap();
    cursor.seek_to_last().unwrap();
    number(&cursor)
}

/// Keys 1000 to 2000, all deleted but the first and the last, with the empty range known to
/// readers.
fn with_empty_range(fs: &MemFs) -> Db {
    let db = open(fs);
    for number in 1000..=2000 {
        db.put(key(number), "").unwrap();
    }
    for number in 1001..2000 {
        db.delete(key(number)).unwrap();
    }
    for _ in 0..3 {
        assert_eq!((first(&db), last(&db)), (Some(1000), Some(2000)));
        assert_eq!(db.iter().unwrap().count(), 2);
    }
    db
}

#[test]
fn what_is_written_into_an_empty_range_is_seen_at_once() {
    let fs = MemFs::new();
    let db = with_empty_range(&fs);
    let family = db.default_family();
    let before = db.snapshot();
    db.put(key(1500), "one").unwrap();
    let seen = |from: u64| {
        let mut cursor = db.cursor().unwrap();
        cursor.seek(key(from)).unwrap();
        let found = number(&cursor);
        cursor.seek_for_prev(key(3000 - from)).unwrap();
        (found, number(&cursor))
    };
    assert_eq!(seen(1001), (Some(1500), Some(1500)));
    let mut batch = WriteBatch::new();
    batch.put(&family, key(1300), "many").unwrap();
    batch.delete(&family, key(1301)).unwrap();
    batch.put(&family, key(1700), "many").unwrap();
    db.write(&batch).unwrap();
    assert_eq!(seen(1001), (Some(1300), Some(1700)));
    let volatile = WriteOptions::new().durability(Durability::Volatile);
    db.put_with(key(1200), "volatile", &volatile).unwrap();
    db.put(key(1800), "").unwrap();
    assert_eq!(seen(1001), (Some(1200), Some(1800)));
    for number in [1200, 1300, 1500, 1700, 1800] {
        db.delete(key(number)).unwrap();
    }
    assert_eq!(seen(1001), (Some(2000), Some(1000)));
    let old: Vec<_> = before.iter().unwrap().map(|pair| pair.unwrap().0).collect();
    assert_eq!(old, [&key(1000), &key(2000)]);
}

#[test]
fn a_snapshot_from_before_the_deletions_sees_what_it_saw() {
    let fs = MemFs::new();
    let db = open(&fs);
    for number in 0..500 {
        db.put(key(number), "").unwrap();
    }
    let before = db.snapshot();
    for number in 0..499 {
        db.delete(key(number)).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(first(&db), Some(499));
        assert_eq!(before.iter().unwrap().count(), 500);
        assert_eq!(before.iter().unwrap().rev().count(), 500);
    }
    // A snapshot between the two.
    let between = db.snapshot();
    db.put(key(250), "").unwrap();
    assert_eq!(first(&db), Some(250));
    assert_eq!(between.iter().unwrap().count(), 1);
    assert_eq!(before.iter().unwrap().count(), 500);
}

#[test]
fn a_queue_and_a_stack_give_everything_in_order() {
    let fs = MemFs::new();
    let db = open(&fs);
    for number in 0..3000 {
        db.put(key(number + 10), "").unwrap();
        if number >= 10 {
            let head = first(&db).unwrap();
            assert_eq!(head, number);
            db.delete(key(head)).unwrap();
        }
        if number == 1500 {
            db.flush().unwrap();
        }
    }
    for _ in 0..8 {
        db.delete(key(first(&db).unwrap())).unwrap();
    }
    let mut depth = 0;
    let mut top = last(&db).unwrap();
    for step in 0..3000 {
        if step % 7 < 4 {
            depth += 1;
            top += 1;
            db.put(key(top), "").unwrap();
        } else {
            assert_eq!(last(&db), Some(top));
            db.delete(key(top)).unwrap();
            depth -= 1;
            top = last(&db).unwrap();
        }
    }
    assert!(depth > 0);
}

#[test]
fn whoever_is_told_of_a_write_sees_it() {
    const WRITES: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let fs = MemFs::new();
    let db = with_empty_range(&fs);
    let (tell, told) = mpsc::sync_channel(4);
    thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (tell, db) = (tell.clone(), &db);
            scope.spawn(move || {
                for number in 0..WRITES {
                    let place = 1001 + (number * 7919 + writer) % 998;
                    let written = [key(place), key(number * 2 + writer)].concat();
                    db.put(&written, "").unwrap();
                    tell.send(written).unwrap();
                }
            });
        }
        drop(tell);
        for written in told {
            let mut cursor = db.cursor().unwrap();
            cursor.seek(key(1001)).unwrap();
            assert!(cursor.key().unwrap() <= written.as_slice(), "{written:?}");
            cursor.seek_for_prev(key(1999)).unwrap();
            assert!(cursor.key().unwrap() >= written.as_slice(), "{written:?}");
            db.delete(&written).unwrap();
        }
    });
    assert_eq!((first(&db), last(&db)), (Some(1000), Some(2000)));
}
