//! Cursors over whole, narrowed and neighbouring tables, SortKeyd with a plain list.

use super::*;
use crate::{
    files::level::{Level, Order},
    files::open_files::{OpenFiles, OpenReference},
    fixture::{TestRandom, open_files, range},
    rewrite::job::{JobContext, NewFile},
    rewrite::processor_share::ProcessorShare,
};
use siltdb_base::{
    clock::ManualClock,
    fs::{Fs, mem::MemFs},
    id::{FileNumber, TableUid},
    key::{EntryKind, LookupKey, SortKey},
    slice::Slice,
    tombstone::RangeTombstone,
};
use siltdb_disk::{
    edit::TableReference,
    options::TableOptions,
    table::TableWriter,
    table::{ScanCursor, TableCursor},
    table_meta::{KeySpan, RangeEnd},
};
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// Keys and sequence numbers in the order of entries.
type Places = Vec<(Vec<u8>, u64)>;

fn files() -> Arc<OpenFiles> {
    let fs = Arc::new(MemFs::new());
    fs.create_dir_all(Path::new("/db")).unwrap();
    open_files(&fs)
}

fn write(files: &Arc<OpenFiles>, number: u64, places: &Places) -> TableReference {
    let context = JobContext {
        files,
        file_numbers: &|| FileNumber(number),
        uids: &|| TableUid(number),
        family_names: &|_| None,
        log_start: siltdb_base::id::SegmentId(0),
        clock: &ManualClock::at(Duration::ZERO),
        cancelled: &AtomicBool::new(false),
        given_up: None,
        processor_share: &ProcessorShare::default(),
        mover: None,
        progress: None,
        rate: None,
    };
    let (file, mut writer) = NewFile::create(&context).unwrap();
    let options = TableOptions { block_bytes: 1024, ..TableOptions::default() };
    let mut table = TableWriter::new(&mut *writer, &options, TableUid(number));
    for (key, sequence) in places {
        let value = sequence.to_be_bytes().repeat(10);
        let sequence = SequenceNumber(*sequence);
        table.add(Entry { key, sequence, kind: EntryKind::Put, value: &value }).unwrap();
    }
    table.add_tombstone(&RangeTombstone {
        start: Slice::copy_from(b"key050"),
        end: Slice::copy_from(b"key060"),
        sequence: SequenceNumber(40),
    });
    let meta = table.finish().unwrap();
    writer.sync().unwrap();
    let reference = TableReference::whole(file.number(), 0, meta);
    // The file system in memory keeps the file for as long as this test wants it.
    std::mem::forget(file);
    reference
}

fn random_places(random: &mut TestRandom, versions_max: u64) -> Places {
    let mut places: Places = Vec::new();
    for number in 0..100 {
        if random.below(3) > 0 {
            let mut sequences: Vec<u64> =
                (0..1 + random.below(versions_max)).map(|_| random.below(80)).collect();
            sequences.sort_by(|a, b| b.cmp(a));
            sequences.dedup();
            let key = format!("key{number:03}").into_bytes();
            places.extend(sequences.into_iter().map(|sequence| (key.clone(), sequence)));
        }
    }
    places
}

fn place(entry: Option<Entry<'_>>) -> Option<(Vec<u8>, u64)> {
    entry.map(|entry| (entry.key.to_vec(), entry.sequence.0))
}

/// Seeks at random and walks a little, both ways.
fn walk(cursor: &mut impl EntryCursor, expected: &Places, random: &mut TestRandom) {
    assert_eq!(place(cursor.entry()), None, "a new cursor stands nowhere");
    for _ in 0..300 {
        let key = format!("key{:03}", random.below(105)).into_bytes();
        let sequence = random.below(90);
        let before = |place: &(Vec<u8>, u64)| {
            let place = SortKey::new(&place.0, SequenceNumber(place.1));
            place < SortKey::new(&key, SequenceNumber(sequence))
        };
        let index = expected.partition_point(before);
        let mut at = match random.below(4) {
            0 => {
                cursor.seek_to_first().unwrap();
                Some(0)
            }
            1 => {
                cursor.seek_to_last().unwrap();
                expected.len().checked_sub(1)
            }
            2 => {
                cursor.seek(&key, SequenceNumber(sequence)).unwrap();
                Some(index)
            }
            _ => {
                cursor.seek_before(&key, SequenceNumber(sequence)).unwrap();
                index.checked_sub(1)
            }
        };
        for _ in 0..random.below(20) {
            let wanted = at.and_then(|at| expected.get(at)).cloned();
            assert_eq!(place(cursor.entry()), wanted);
            if wanted.is_none() {
                break;
            }
            if random.below(2) == 0 {
                cursor.next().unwrap();
                at = at.map(|at| at + 1);
            } else {
                cursor.prev().unwrap();
                at = at.and_then(|at| at.checked_sub(1));
            }
        }
    }
}

#[test]
fn a_reference_shows_what_it_lets_through_in_both_directions() {
    for seed in 0..30 {
        let mut random = TestRandom::new(seed);
        let files = files();
        let is_ingested = seed % 3 == 0;
        let places = random_places(&mut random, if is_ingested { 1 } else { 4 });
        let mut reference = write(&files, 1, &places);
        let mut expected = places;
        if is_ingested {
            reference.global_sequence = Some(SequenceNumber(45));
            expected.iter_mut().for_each(|(_, sequence)| *sequence = 45);
        }
        if seed % 2 == 0 {
            let (first, last) = (20 + random.below(20), 50 + random.below(20));
            let (first, last) = (format!("key{first:03}"), format!("key{last:03}"));
            let end = if seed % 4 == 0 { RangeEnd::Inclusive } else { RangeEnd::Exclusive };
            let slice = KeySpan { end, ..range(first.as_bytes(), last.as_bytes()) };
            expected.retain(|(key, _)| slice.contains(key));
            reference.key_slice = Some(slice);
        }
        if seed % 5 > 2 {
            reference.visible_to = Some(SequenceNumber(50));
            expected.retain(|(_, sequence)| *sequence <= 50);
        }
        let open = files.reference(reference).unwrap();
        let mut cursor = ReferenceCursor::<TableCursor>::new(open.clone()).unwrap();
        walk(&mut cursor, &expected, &mut random);
        let mut cursor = ReferenceCursor::<ScanCursor>::new(open.clone()).unwrap();
        walk(&mut cursor, &expected, &mut random);
        for _ in 0..200 {
            let key = format!("key{:03}", random.below(105)).into_bytes();
            let visible = SequenceNumber(random.below(90));
            let found = open.get(LookupKey::new(&key), visible, |found| found.sequence.0).unwrap();
            let wanted = expected.iter().find(|(k, sequence)| *k == key && *sequence <= visible.0);
            assert_eq!(found, wanted.map(|(_, sequence)| *sequence));
        }
        check_tombstones(&open);
    }
}

/// The tombstone over `key050` to `key060` is numbered 40.
fn check_tombstones(open: &OpenReference) {
    let sequence = open.reference().global_sequence.unwrap_or(SequenceNumber(40));
    let tombstones = open.tombstones().unwrap();
    for number in 0..100 {
        let key = format!("key{number:03}").into_bytes();
        let is_seen = (50..60).contains(&number)
            && open.reference().key_slice.as_ref().is_none_or(|slice| slice.contains(&key));
        let wanted = is_seen.then_some(sequence);
        assert_eq!(tombstones.covering(&key, SequenceNumber::MAX), wanted, "{key:?}");
    }
}

#[test]
fn a_run_is_walked_like_one_table_and_skips_those_that_show_nothing() {
    for seed in 0..20 {
        let mut random = TestRandom::new(seed);
        let files = files();
        let places = random_places(&mut random, 3);
        let mut references = Vec::new();
        let mut expected = Vec::new();
        let keys = places.chunk_by(|a, b| a.0 == b.0).collect::<Vec<_>>();
        for (chunk, number) in keys.chunks(9).zip(1..) {
            let part: Places = chunk.concat();
            let mut reference = write(&files, number, &part);
            // Without the tombstone the tables would not be disjoint.
            reference.key_slice = Some(range(&part[0].0, &part[part.len() - 1].0));
            if number % 3 == 0 {
                // Nothing is that old: the table shows no entry.
                reference.visible_to = Some(SequenceNumber::ZERO);
                expected.extend(part.into_iter().filter(|(_, sequence)| *sequence == 0));
            } else {
                expected.extend(part);
            }
            references.push(files.reference(reference).unwrap());
        }
        let level = Arc::new(Level::new(Order::Disjoint, references).unwrap());
        let count = level.tables().len();
        assert!(count > 4);
        let mut cursor = RunCursor::<ScanCursor>::new(level.clone(), 0..count);
        walk(&mut cursor, &expected, &mut random);
        let mut cursor = RunCursor::<TableCursor>::new(level.clone(), 0..count);
        walk(&mut cursor, &expected, &mut random);
        let mut none = RunCursor::<TableCursor>::new(level.clone(), 2..2);
        walk(&mut none, &Vec::new(), &mut random);
        let (from, to) = (level.table(1), level.table(count - 2));
        let inside = |key: &[u8]| !from.range().is_after(key) && !to.range().is_before(key);
        expected.retain(|(key, _)| inside(key));
        let mut part = RunCursor::<ScanCursor>::new(level.clone(), 1..count - 1);
        walk(&mut part, &expected, &mut random);
    }
}

#[test]
fn a_run_cursor_that_fails_stands_nowhere() {
    let files = files();
    let missing = crate::fixture::reference(7, (b"a", b"b"), (1, 1), 10);
    let level =
        Arc::new(Level::new(Order::Disjoint, vec![files.reference(missing).unwrap()]).unwrap());
    let mut cursor = RunCursor::<TableCursor>::new(level, 0..1);
    assert!(cursor.seek_to_first().is_err() && cursor.entry().is_none());
    cursor.next().unwrap();
    cursor.prev().unwrap();
    assert!(cursor.seek(b"a", SequenceNumber::MAX).is_err() && cursor.entry().is_none());
}
