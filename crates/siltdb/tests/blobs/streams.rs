//! Streams read what their source sees, and nothing before they are read.

use crate::blobs::{
    reads::{Append, streamed},
    world::{blob_files, fill, key, open, options, separating, value},
};
use siltdb::{Db, ErrorKind, Isolation, Read, ReadOptions, testing::MemFs};
use std::{path::Path, sync::Arc};

/// Overwrites all of `keys`, deletes every second one, and removes the files of their old values.
fn replace(db: &Db, keys: std::ops::Range<u32>) {
    fill(db, keys.clone(), 9);
    for number in keys.step_by(2) {
        db.delete(key(number)).unwrap();
    }
    db.compact().unwrap();
    while db.run_job().unwrap() {}
}

/// The value of a key of `source` as a stream.
fn get(source: &impl Read, number: u32) -> Option<Vec<u8>> {
    let stream = source.get_reader(key(number)).unwrap();
    stream.map(|stream| streamed(stream).unwrap())
}

#[test]
fn a_snapshot_streams_the_values_that_it_sees() {
    for with_operator in [false, true] {
        let fs = MemFs::new();
        let db = match with_operator {
            false => open(&fs),
            true => {
                let family = separating().merge_operator(Arc::new(Append));
                let options = options(&fs).merge_operator(Arc::new(Append));
                options.default_family(family).open("db").unwrap()
            }
        };
        fill(&db, 0..50, 1);
        if with_operator {
            db.merge(key(7), "+").unwrap();
        }
        let snapshot = db.snapshot();
        let held = snapshot.get_reader(key(3)).unwrap().unwrap();
        replace(&db, 0..50);
        for number in 0..50 {
            let mut expected = value(number, 1, 1000);
            if with_operator && number == 7 {
                expected.push(b'+');
            }
            assert!(get(&snapshot, number) == Some(expected), "{number}");
            let now = (number % 2 == 1).then(|| value(number, 9, 1000));
            assert!(get(&db, number) == now, "{number}");
        }
        assert_eq!(get(&snapshot, 50), None);
        drop(snapshot);
        db.compact().unwrap();
        while db.run_job().unwrap() {}
        assert!(streamed(held).unwrap() == value(3, 1, 1000), "a held stream reads on");
    }
}

#[test]
fn a_transaction_streams_its_own_writes_and_depends_on_what_it_streamed() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..10, 1);
    let transaction = db.begin(Isolation::Serializable);
    transaction.put(key(1), value(1, 5, 700)).unwrap();
    transaction.delete(key(2)).unwrap();
    replace(&db, 4..10);
    assert!(get(&transaction, 1) == Some(value(1, 5, 700)));
    assert_eq!(get(&transaction, 2), None);
    assert!(get(&transaction, 3) == Some(value(3, 1, 1000)));
    db.put(key(3), "changed").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_cursor_streams_the_long_values_of_its_state_in_both_directions() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..40, 1);
    for number in (0..40).step_by(4) {
        db.put(key(number), "short").unwrap();
        db.put(key(number + 1), value(number + 1, 1, 999)).unwrap();
        db.put(key(number + 2), vec![7; 5000]).unwrap();
    }
    let of = |number: u32| match number % 4 {
        0 => (b"short".to_vec(), false),
        1 => (value(number, 1, 999), false),
        2 => (vec![7; 5000], true),
        _ => (value(number, 1, 1000), true),
    };
    let options = ReadOptions::new().stream_from(1000);
    let mut cursor = db.cursor_with(&options).unwrap();
    let pairs: Vec<_> = db.iter_with(&options).unwrap().map(Result::unwrap).collect();
    assert_eq!(pairs.len(), 40);
    for (number, (_, value)) in (0..40).zip(pairs) {
        assert!(value == of(number).0.as_slice(), "an iterator reads all: {number}");
    }
    replace(&db, 0..40);
    let here = |cursor: &siltdb::Cursor| {
        let stream = cursor.value_reader().unwrap();
        let is_streamed = stream.is_some();
        assert!(!is_streamed || cursor.value() == Some(b""));
        let whole = stream.map_or(cursor.value().unwrap().to_vec(), |s| streamed(s).unwrap());
        (cursor.key().unwrap().to_vec(), whole, is_streamed)
    };
    let expected = |number: u32| {
        let (value, is_streamed) = of(number);
        (key(number).to_vec(), value, is_streamed)
    };
    cursor.seek_to_first().unwrap();
    for number in 0..40 {
        assert!(here(&cursor) == expected(number), "{number}");
        cursor.next().unwrap();
    }
    assert!(cursor.value_reader().unwrap().is_none());
    cursor.seek_to_last().unwrap();
    for number in (0..40).rev() {
        assert!(here(&cursor) == expected(number), "{number}");
        cursor.prev().unwrap();
    }
    let bucket = db.default_family().bucket(["b"]).unwrap();
    bucket.create().unwrap();
    bucket.put("k", value(1, 1, 2000)).unwrap();
    let mut cursor = bucket.cursor_with(&options.range("k"..="k")).unwrap();
    cursor.seek_to_first().unwrap();
    assert_eq!(cursor.entry(), Some((&b"k"[..], &b""[..])));
    let stream = cursor.value_reader().unwrap().expect("it is long");
    assert!(streamed(stream).unwrap() == value(1, 1, 2000));
}

#[test]
fn a_cursor_passes_over_a_damaged_value_whose_stream_fails() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..3, 1);
    db.flush().unwrap();
    for (name, bytes) in blob_files(&fs, "db") {
        let path = Path::new("db").join(name);
        fs.bytes_flip(&path, bytes - 10, 4).unwrap();
    }
    let mut cursor = db.cursor_with(&ReadOptions::new().stream_from(1)).unwrap();
    cursor.seek_to_first().unwrap();
    let mut failed = Vec::new();
    while let Some(found) = cursor.key().map(<[u8]>::to_vec) {
        let stream = cursor.value_reader().unwrap().unwrap();
        if let Err(error) = streamed(stream) {
            let error = error.downcast::<siltdb::Error>().unwrap();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            failed.push(found);
        }
        cursor.next().unwrap();
    }
    assert_eq!(failed, [key(2).to_vec()], "the last value of the file");
}
