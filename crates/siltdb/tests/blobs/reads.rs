//! What reads and writes see of separated values.

use crate::blobs::world::{
    THRESHOLD, blob_files, contents, fill, filled, key, open, options, value,
};
use siltdb::{
    Action, Db, Event, FamilyOptions, Isolation, MergeOperator, Read, Result, SubscribeOptions,
    WriteBatch,
    testing::{CallKind, Fault, FaultError, FaultSpan, MemFs},
};
use std::{path::Path, sync::Arc, time::Duration};

/// Appends operands.
#[derive(Debug)]
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

#[test]
fn values_are_the_same_in_memory_in_tables_after_a_compaction_and_a_reopen() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..200, 1);
    // Shorter than the threshold: it stays in the log and the tables.
    db.put(b"short", [1; THRESHOLD as usize - 1]).unwrap();
    let mut expected = filled(0..200, 1);
    expected.insert(b"short".to_vec(), vec![1; THRESHOLD as usize - 1]);
    assert_eq!(contents(&db), expected);
    db.flush().unwrap();
    assert_eq!(contents(&db), expected);
    db.compact().unwrap();
    assert_eq!(contents(&db), expected);
    let bytes: u64 = blob_files(&fs, "db").iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes >= 200_000, "{bytes} bytes of blob files");
    let tables: u64 = db.stats().table_bytes.iter().sum();
    assert!(tables < 60_000, "tables have {tables} bytes: they copy pointers");
    assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
    db.close().unwrap();
    let db = open(&fs);
    assert_eq!(contents(&db), expected);
    // Rewritten by no compaction.
    fill(&db, 0..10, 2);
    expected.append(&mut filled(0..10, 2));
    db.compact().unwrap();
    assert_eq!(contents(&db), expected);
}

#[test]
fn a_compressible_value_is_stored_compressed() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put(b"key", vec![7; 50_000]).unwrap();
    db.close().unwrap();
    assert_eq!(open(&fs).get(b"key").unwrap().unwrap(), vec![7; 50_000].as_slice());
    let bytes: u64 = blob_files(&fs, "db").iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes < 10_000, "{bytes} bytes of blob files");
}

#[test]
fn operands_fold_onto_separated_values_and_snapshots_keep_them() {
    let fs = MemFs::new();
    let open = || options(&fs).merge_operator(Arc::new(Append));
    let family = crate::blobs::world::separating().merge_operator(Arc::new(Append));
    let db = open().default_family(family).open("db").unwrap();
    let old = value(1, 1, 300);
    db.put(b"k", &old).unwrap();
    let snapshot = db.snapshot();
    db.merge(b"k", b"+1").unwrap();
    db.flush().unwrap();
    db.merge(b"k", b"+2").unwrap();
    db.compact().unwrap();
    let folded = [&old[..], b"+1+2"].concat();
    assert_eq!(db.get(b"k").unwrap().unwrap(), folded.as_slice());
    assert_eq!(snapshot.get(b"k").unwrap().unwrap(), old.as_slice());
    db.put(b"k", value(1, 2, 300)).unwrap();
    db.compact().unwrap();
    while db.run_job().unwrap() {}
    assert_eq!(snapshot.get(b"k").unwrap().unwrap(), old.as_slice());
    assert_eq!(db.get(b"k").unwrap().unwrap(), value(1, 2, 300).as_slice());
}

#[test]
fn separated_values_expire_and_are_deleted() {
    let fs = MemFs::new();
    let clock = Arc::new(siltdb::testing::ManualClock::at(Duration::from_millis(1_000_000)));
    let db = options(&fs).clock(clock.clone()).open("db").unwrap();
    db.put_for(b"a", value(1, 1, 500), Duration::from_secs(60)).unwrap();
    fill(&db, 0..30, 1);
    assert_eq!(db.get(b"a").unwrap().unwrap(), value(1, 1, 500).as_slice());
    db.flush().unwrap();
    db.delete(key(3)).unwrap();
    db.delete_range(key(10)..key(20)).unwrap();
    clock.advance(Duration::from_secs(61));
    let mut expected = filled(0..10, 1);
    expected.append(&mut filled(20..30, 1));
    expected.remove(&key(3)[..]);
    assert_eq!(contents(&db), expected);
    db.compact().unwrap();
    assert_eq!(contents(&db), expected);
}

#[test]
fn batches_and_transactions_separate_and_see_their_own_writes() {
    let fs = MemFs::new();
    let db = open(&fs);
    let plain = db.create_family("plain", FamilyOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..20 {
        batch.put(&db.default_family(), key(number), value(number, 1, 1000)).unwrap();
        batch.put(&plain, key(number), value(number, 1, 1000)).unwrap();
        batch.delete(&db.default_family(), b"none").unwrap();
    }
    db.write(&batch).unwrap();
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put(key(5), value(5, 2, 700)).unwrap();
    assert_eq!(transaction.get(key(5)).unwrap().unwrap(), value(5, 2, 700).as_slice());
    assert_eq!(transaction.get(key(6)).unwrap().unwrap(), value(6, 1, 1000).as_slice());
    transaction.commit().unwrap();
    assert!(
        db.compare_and_swap(key(6), Some(&value(6, 1, 1000)), Some(&value(6, 3, 800)))
            .unwrap()
            .is_swapped()
    );
    let mut expected = filled(0..20, 1);
    expected.insert(key(5).to_vec(), value(5, 2, 700));
    expected.insert(key(6).to_vec(), value(6, 3, 800));
    assert_eq!(contents(&db), expected);
    assert_eq!(contents(&plain), filled(0..20, 1));
    let bytes: u64 = blob_files(&fs, "db").iter().map(|(_, bytes)| bytes).sum();
    assert!((20_000..30_000).contains(&bytes), "one of two families separates: {bytes} bytes");
}

/// What a subscription reports: keys and values.
fn reported(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut subscription = db.subscribe(&SubscribeOptions::new().from_oldest()).unwrap();
    let mut values = Vec::new();
    while let Some(event) = subscription.try_next().unwrap() {
        let Event::Commit(commit) = event else { panic!("unlogged: {event:?}") };
        for change in commit.changes() {
            let value = match change.operation.action {
                Action::Put(value) | Action::PutUntil { value, .. } => value.to_vec(),
                _ => Vec::new(),
            };
            values.push((change.operation.key.to_vec(), value));
        }
    }
    values
}

#[test]
fn a_change_feed_reports_whole_values_also_of_a_retained_log() {
    let fs = MemFs::new();
    let options = || options(&fs).retain_log_bytes(10 << 20);
    let db = options().open("db").unwrap();
    fill(&db, 0..80, 1);
    db.put_for(b"expires", value(1, 1, 500), Duration::from_secs(60)).unwrap();
    let mut expected: Vec<_> = filled(0..80, 1).into_iter().collect();
    expected.push((b"expires".to_vec(), value(1, 1, 500)));
    assert_eq!(reported(&db), expected);
    // Nothing but the log refers to the first values.
    fill(&db, 0..80, 2);
    db.compact().unwrap();
    while db.run_job().unwrap() {}
    expected.extend(filled(0..80, 2));
    assert_eq!(reported(&db), expected);
    db.close().unwrap();
    let db = options().open("db").unwrap();
    while db.run_job().unwrap() {}
    assert_eq!(reported(&db), expected);
}

/// The first blob file has values of a decided transaction alone, and in the end only the log
/// refers to them.
#[test]
fn a_change_feed_reports_the_values_of_a_retained_decision() {
    let fs = MemFs::new();
    let db = options(&fs).retain_log_bytes(10 << 20).open("db").unwrap();
    let transaction = db.begin(Isolation::Snapshot);
    for number in 0..80 {
        transaction.put(key(number), value(number, 1, 1000)).unwrap();
    }
    transaction.prepare(b"id").unwrap();
    db.commit_prepared(b"id").unwrap();
    let first = blob_files(&fs, "db").remove(0).0;
    fill(&db, 0..80, 2);
    db.compact().unwrap();
    while db.run_job().unwrap() {}
    assert_eq!(blob_files(&fs, "db").remove(0).0, first, "the log refers to it");
    let expected: Vec<_> = filled(0..80, 1).into_iter().chain(filled(0..80, 2)).collect();
    assert_eq!(reported(&db), expected);
}

/// A subscriber that pulls again after an error must not miss the commit that could not be read.
#[test]
fn a_feed_tells_a_commit_whose_value_could_not_be_read_at_first() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..20, 1);
    let expected: Vec<_> = filled(0..20, 1).into_iter().collect();
    let (mut failed, mut nth) = (0, 1);
    loop {
        let fault =
            Fault { kind: Some(CallKind::Read), nth, span: FaultSpan::Once, error: FaultError::Io };
        let mut subscription = db.subscribe(&SubscribeOptions::new().from_oldest()).unwrap();
        fs.set_fault(Some(fault));
        let (mut told, mut errors) = (Vec::new(), 0);
        loop {
            match subscription.try_next() {
                Ok(None) => break,
                Ok(Some(Event::Commit(commit))) => {
                    told.extend(commit.changes().map(|change| change.operation.key.to_vec()));
                }
                Ok(Some(event)) => panic!("read {nth}: {event:?}"),
                Err(_) => errors += 1,
            }
        }
        fs.set_fault(None);
        assert!(told.iter().eq(expected.iter().map(|(key, _)| key)), "read {nth}: {told:?}");
        failed += errors;
        if errors == 0 {
            break;
        }
        nth += 1;
    }
    assert!(failed > 20, "{failed} failed reads");
}

/// A recovery may have cut the log at a lost value, and the records behind it with it. So a feed
/// tells none of them from a segment that was retired before the opening.
#[test]
fn a_feed_ends_a_retained_segment_at_a_lost_value() {
    let fs = MemFs::new();
    let options = || options(&fs).retain_log_bytes(10 << 20);
    let db = options().open("db").unwrap();
    fill(&db, 0..20, 1);
    db.flush().unwrap();
    db.close().unwrap();
    let (name, bytes) = blob_files(&fs, "db").remove(0);
    let db = options().open("db").unwrap();
    db.put(b"later", b"short").unwrap();
    db.flush().unwrap();
    // The value of the key 10, of 1032 bytes with its header, behind the header of the file.
    fs.bytes_flip(&std::path::Path::new("db").join(&name), 32 + 10 * 1032 + 500, 1).unwrap();
    assert!(bytes > 20 * 1032, "{bytes} bytes");
    db.close().unwrap();
    let db = options().open("db").unwrap();
    let mut subscription = db.subscribe(&SubscribeOptions::new().from_oldest()).unwrap();
    let (mut told, mut unlogged) = (Vec::new(), Vec::new());
    while let Some(event) = subscription.try_next().unwrap() {
        match event {
            Event::Commit(commit) => {
                told.extend(commit.changes().map(|c| c.operation.key.to_vec()))
            }
            Event::Unlogged(range) => unlogged.push(range),
            event => panic!("{event:?}"),
        }
    }
    let mut expected: Vec<_> = (0..10).map(|number| key(number).to_vec()).collect();
    expected.push(b"later".to_vec());
    assert_eq!(told, expected);
    assert_eq!(unlogged, [11..=20]);
}

#[test]
fn real_files_and_threads_serve_readers_while_values_move() {
    let dir = tempfile::tempdir().unwrap();
    let options = siltdb::Options::new().memtable_bytes(64 << 10).workers(2);
    let family = crate::blobs::world::separating().blob_garbage_percent(20);
    let db = options.default_family(family).open(dir.path().join("db")).unwrap();
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let db = db.clone();
            scope.spawn(move || {
                for turn in 0..3000_u32 {
                    let number = (turn * 7 + reader) % 100;
                    if let Some(found) = db.get(key(number)).unwrap() {
                        assert_eq!(found.len(), 1000);
                    }
                    if turn % 100 == 0 {
                        for entry in db.prefix(b"").unwrap() {
                            assert_eq!(entry.unwrap().1.len(), 1000);
                        }
                    }
                }
            });
        }
        for round in 0..40 {
            for number in 0..100 {
                db.put(key(number), value(number, round, 1000)).unwrap();
            }
        }
    });
    db.compact().unwrap();
    db.settle().unwrap();
    assert_eq!(contents(&db), filled(0..100, 39));
    assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
    db.close().unwrap();
}

/// All bytes of a stream, read in small pieces.
pub fn streamed(mut stream: siltdb::ValueStream) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let (mut all, mut piece) = (Vec::new(), [0; 1000]);
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(all),
            bytes => all.extend_from_slice(&piece[..bytes]),
        }
    }
}

#[test]
fn values_are_written_and_read_as_streams() {
    let fs = MemFs::new();
    let family = crate::blobs::world::separating().merge_operator(Arc::new(Append));
    let db = options(&fs).merge_operator(Arc::new(Append)).default_family(family);
    let db = db.open("db").unwrap();
    let family = db.default_family();
    let long = value(1, 1, 700_001);
    family.put_reader(b"long", long.len() as u64, &long[..]).unwrap();
    family.put_reader(b"empty", 0, &[][..]).unwrap();
    family.put(b"inline", b"short").unwrap();
    family.put(b"packed", vec![3; 5000]).unwrap();
    family.put_reader(b"merged", 5, &b"value"[..]).unwrap();
    family.merge(b"merged", b"+").unwrap();
    family.put_for(b"expires", value(1, 1, 500), Duration::from_secs(60)).unwrap();
    for flushes in [false, true] {
        if flushes {
            db.flush().unwrap();
        }
        for (key, expected) in [
            (&b"long"[..], long.clone()),
            (b"empty", Vec::new()),
            (b"inline", b"short".to_vec()),
            (b"packed", vec![3; 5000]),
            (b"merged", b"value+".to_vec()),
            (b"expires", value(1, 1, 500)),
        ] {
            let stream = family.get_reader(key).unwrap().unwrap();
            assert_eq!(stream.len(), expected.len() as u64);
            assert!(streamed(stream).unwrap() == expected, "{key:?}");
            assert!(family.get(key).unwrap().unwrap() == expected.as_slice());
        }
        assert!(family.get_reader(b"none").unwrap().is_none());
    }
    // A stream that is held reads on after the value was replaced and its file was removed.
    let held = family.get_reader(b"long").unwrap().unwrap();
    family.delete(b"long").unwrap();
    db.compact().unwrap();
    while db.run_job().unwrap() {}
    assert!(streamed(held).unwrap() == long);
    assert!(family.get_reader(b"long").unwrap().is_none());
}

#[test]
fn a_stream_that_is_shorter_or_longer_than_said_or_fails_writes_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.default_family();
    for said in [0, 99, 101, 70_000] {
        let error = family.put_reader(b"k", said, &[1; 100][..]).unwrap_err();
        assert_eq!(error.kind(), siltdb::ErrorKind::InvalidArgument, "{said}");
    }
    let error = family.put_reader(b"k", u64::MAX, &[1; 100][..]).unwrap_err();
    assert_eq!(error.kind(), siltdb::ErrorKind::InvalidArgument);
    assert_eq!(db.get(b"k").unwrap(), None);
    family.put_reader(b"k", 100, &[1; 100][..]).unwrap();
    let (name, bytes) = blob_files(&fs, "db").pop().unwrap();
    // The last record of the last file.
    fs.bytes_flip(&std::path::Path::new("db").join(&name), bytes - 10, 4).unwrap();
    let db = open(&fs.crash_clone(siltdb::testing::Crash::Kill));
    assert_eq!(db.get(b"k").unwrap(), None, "the damaged tail of the log was never synced");
}

#[test]
fn many_values_come_in_the_order_of_their_keys_wherever_they_lie() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..300, 1);
    for number in (0..300).step_by(3) {
        db.put(key(number), b"short").unwrap();
    }
    db.flush().unwrap();
    fill(&db, 50..70, 2);
    db.delete(key(60)).unwrap();
    db.put_for(key(61), b"gone", Duration::ZERO).unwrap();
    // Any order, absent ones, and some twice.
    let asked: Vec<_> = (0..700_u32).map(|index| key(index * 367 % 350)).collect();
    let single = |source: &dyn Fn(&[u8]) -> Option<Vec<u8>>| -> Vec<Option<Vec<u8>>> {
        asked.iter().map(|key| source(key)).collect()
    };
    fn owned(values: Vec<Option<siltdb::Slice>>) -> Vec<Option<Vec<u8>>> {
        values.into_iter().map(|value| value.map(|value| value.to_vec())).collect()
    }
    let get = |key: &[u8]| db.get(key).unwrap().map(|value| value.to_vec());
    let expected = single(&get);
    assert!(expected.iter().flatten().any(|value| value.len() == 1000));
    assert!(expected.iter().flatten().any(|value| value == b"short"));
    assert!(expected.iter().any(Option::is_none));
    assert_eq!(owned(db.get_many(&asked).unwrap()), expected);
    assert_eq!(owned(db.snapshot().get_many(&asked).unwrap()), expected);
    // With own writes on top.
    let transaction = db.begin(Isolation::Serializable);
    transaction.put(key(7), value(7, 9, 500)).unwrap();
    transaction.delete(key(8)).unwrap();
    let get = |key: &[u8]| transaction.get(key).unwrap().map(|value| value.to_vec());
    let changed = single(&get);
    assert_ne!(changed, expected);
    assert_eq!(owned(transaction.get_many(&asked).unwrap()), changed);
    let none: [&[u8]; 0] = [];
    assert_eq!(db.get_many(&none).unwrap(), []);
}

#[test]
fn many_values_are_folded_onto_separated_ones() {
    let fs = MemFs::new();
    let family = crate::blobs::world::separating().merge_operator(Arc::new(Append));
    let db = options(&fs).default_family(family).open("db").unwrap();
    fill(&db, 0..20, 1);
    db.merge(key(3), b"+").unwrap();
    let values = db.get_many(&[key(4), key(3)]).unwrap();
    assert_eq!(values[0].as_deref().unwrap(), value(4, 1, 1000));
    assert_eq!(values[1].as_deref().unwrap(), [value(3, 1, 1000), b"+".to_vec()].concat());
    assert_eq!(db.value_len(key(3)).unwrap(), Some(1001));
}

#[test]
fn the_length_of_a_separated_value_is_told_without_reading_it() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put("long", value(1, 1, 5000)).unwrap();
    db.put("even", vec![7; 50_000]).unwrap();
    db.put("short", "abc").unwrap();
    db.put("empty", "").unwrap();
    db.flush().unwrap();
    // What a read of a blob file would meet.
    for (path, _) in blob_files(&fs, "db") {
        let path = Path::new("db").join(path);
        let bytes = fs.read_all(&path).unwrap().len();
        fs.write_all(&path, &vec![0; bytes]).unwrap();
    }
    let lengths = ["long", "even", "short", "empty", "gone"].map(|key| db.value_len(key).unwrap());
    assert_eq!(lengths, [Some(5000), Some(50_000), Some(3), Some(0), None]);
    assert!(db.get("long").is_err(), "the value is read and its damage is found");
    let transaction = db.begin(Isolation::Serializable);
    transaction.put("long", "own").unwrap();
    assert_eq!(transaction.value_len("long").unwrap(), Some(3));
    assert_eq!(transaction.value_len("even").unwrap(), Some(50_000));
    db.put("even", "changed").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), siltdb::ErrorKind::Conflict);
}
