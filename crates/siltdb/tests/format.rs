//! The write-ahead log as `docs/format.md` describes it, read by a decoder written from that page
//! alone. It shares no code with the engine, so the page is proved complete and true.
//!
//! It reads one segment; the manifest decides which segments are needed.

use siltdb::{Durability, FamilyOptions, Options, WriteBatch, WriteOptions};
use siltdb_base::fs::{
    Fs,
    mem::{Crash, MemFs},
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

const PAGE: &str = include_str!("../../../docs/format.md");

/// CRC-32C, bit by bit.
fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], offset: usize, width: usize) -> u64 {
    let field = &bytes[offset..offset + width];
    field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Reads the varint at the front of `bytes`, and removes it.
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// The header of a segment.
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    id: u64,
    first_sequence: u64,
    previous: (u64, u64),
    synced: (u64, u64),
}

/// A record of a segment.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    offset: u64,
    form: u8,
    sequence: u64,
    count: u32,
    synced: (u64, u64),
    payload: Vec<u8>,
}

/// An operation of a batch, with its sequence number.
#[derive(Debug, PartialEq, Eq)]
struct Operation {
    sequence: u64,
    kind: u8,
    family: u64,
    key: Vec<u8>,
    payload: Vec<u8>,
}

/// The segment in a file, if there is one.
fn segment(file: &[u8]) -> Option<Segment> {
    let header = file.get(..64)?;
    let is_segment = header[..8] == *b"siltlog\n"
        && number(header, 8, 4) == 2
        && number(header, 12, 4) == u64::from(crc32c(&[&header[..12], &header[16..]]))
        && number(header, 16, 8) != 0
        && header[56..] == [0; 8];
    is_segment.then(|| Segment {
        id: number(header, 16, 8),
        first_sequence: number(header, 24, 8),
        previous: (number(header, 32, 8), 8 * number(header, 48, 4)),
        synced: (number(header, 40, 8), 8 * number(header, 52, 4)),
    })
}

/// The record of `segment` at `offset` with the sequence number `sequence`, if there is one, and
/// the offset of the next one.
fn record(file: &[u8], segment: &Segment, offset: usize, sequence: u64) -> Option<(Record, usize)> {
    let header = file.get(offset..offset + 24)?;
    let place = (offset as u32 / 8).to_le_bytes();
    let checksum = crc32c(&[&header[..20], &place]) ^ (segment.id >> 32) as u32;
    let (form, back) = (header[0] & 0x0f, u64::from(header[0] >> 4));
    let said = 8 * number(header, 12, 4);
    let is_header = number(header, 4, 4) == segment.id & u64::from(u32::MAX)
        && number(header, 20, 4) == u64::from(checksum)
        && number(header, 1, 3) == sequence & 0x00ff_ffff
        && (if back == 0 { said <= offset as u64 } else { said > 0 });
    if !is_header {
        return None;
    }
    let synced = match (said, back) {
        (0, _) => (0, 0),
        (_, 0) => (segment.id, said),
        // These tests have no segment between.
        _ => (segment.previous.0, said),
    };
    let end = offset + 24 + number(header, 8, 4) as usize;
    let body = file.get(offset + 24..end)?;
    if number(header, 16, 4) != u64::from(crc32c(&[body])) {
        return None;
    }
    let (count, payload) = match form {
        1 | 2 => (1, body),
        4 => (0, body),
        _ => (number(body, 0, 4) as u32, &body[4..]),
    };
    let (offset, payload) = (offset as u64, payload.to_vec());
    let record = Record { offset, form, sequence, count, synced, payload };
    Some((record, end.next_multiple_of(8)))
}

/// All records of a segment, in order.
fn all_records(file: &[u8], segment: &Segment) -> Vec<Record> {
    let (mut offset, mut sequence) = (64, segment.first_sequence);
    let mut records = Vec::new();
    while let Some((record, next)) = record(file, segment, offset, sequence) {
        sequence += u64::from(record.count);
        let is_end = record.form == 4;
        records.push(record);
        if is_end {
            break;
        }
        offset = next;
    }
    records
}

/// The operations of a Batch record.
fn operations(record: &Record) -> Vec<Operation> {
    assert!(matches!(record.form, 1 | 5));
    let mut rest = &record.payload[..];
    let mut operations = Vec::new();
    let take = |rest: &mut &[u8], count: u64| {
        let (taken, behind) = rest.split_at(count as usize);
        *rest = behind;
        taken.to_vec()
    };
    for sequence in record.sequence..record.sequence + u64::from(record.count) {
        let kind = rest[0];
        rest = &rest[1..];
        let (family, key_bytes) = (varint(&mut rest), varint(&mut rest));
        let payload_bytes = if matches!(kind, 3 | 4) { 0 } else { varint(&mut rest) };
        let key = take(&mut rest, key_bytes);
        let payload = take(&mut rest, payload_bytes);
        operations.push(Operation { sequence, kind, family, key, payload });
    }
    assert!(rest.is_empty(), "bytes behind the last operation");
    operations
}

/// The segments in the files of a database, in the order of their ids, with their files' bytes.
fn segments(fs: &MemFs, dir: &str) -> Vec<(Segment, Vec<u8>)> {
    let mut segments: Vec<_> = fs
        .list(Path::new(dir))
        .unwrap()
        .into_iter()
        .filter(|entry| entry.name.ends_with(".log"))
        .map(|entry| fs.read_all(&Path::new(dir).join(entry.name)).unwrap())
        .filter_map(|file| Some((segment(&file)?, file)))
        .collect();
    segments.sort_by_key(|(segment, _)| segment.id);
    segments
}

fn options(fs: &MemFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).workers(0).seed(11).durability(Durability::Synced)
}

fn operation(sequence: u64, kind: u8, family: u64, key: &[u8], payload: &[u8]) -> Operation {
    Operation { sequence, kind, family, key: key.to_vec(), payload: payload.to_vec() }
}

#[test]
fn the_log_is_read_by_the_page_alone() {
    let fs = MemFs::new();
    let db = options(&fs).open("data").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let long = vec![b'v'; 300];
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), b"a", b"1").unwrap();
    let expiry = UNIX_EPOCH + Duration::from_millis(0x0102_0304_0506);
    batch.put_until(&users, b"b", b"2", expiry).unwrap();
    batch.delete(&users, b"c").unwrap();
    batch.single_delete(&users, b"").unwrap();
    batch.delete_range(&users, "d".."f").unwrap();
    batch.put(&users, b"g", &long).unwrap();
    db.write(&batch).unwrap();
    let volatile = WriteOptions::new().durability(Durability::Volatile);
    db.put_with(b"not in the log", b"", &volatile).unwrap();
    db.put(b"z", b"").unwrap();
    // The files of a killed process, since a close would flush what is not in the log, and with it
    // the whole segment.
    let fs = fs.crash_clone(Crash::Kill);

    let found = segments(&fs, "data");
    assert_eq!(found.len(), 1);
    let (segment, file) = &found[0];
    assert_eq!((segment.first_sequence, segment.previous.0), (1, 0));
    let records = all_records(file, segment);
    let forms: Vec<u8> = records.iter().map(|record| record.form).collect();
    assert_eq!(forms.first(), Some(&5), "{forms:?}");
    let expected = [
        operation(1, 1, 0, b"a", b"1"),
        operation(2, 2, 1, b"b", b"\x06\x05\x04\x03\x02\x01\x00\x002"),
        operation(3, 3, 1, b"c", b""),
        operation(4, 4, 1, b"", b""),
        operation(5, 5, 1, b"d", b"f"),
        operation(6, 1, 1, b"g", &long),
    ];
    assert_eq!(operations(&records[0]), expected);
    let last = records.iter().rfind(|record| record.form == 1).unwrap();
    assert_eq!(operations(last), [operation(8, 1, 0, b"z", b"")]);
    // The skipped number is that of the volatile put.
    let skipped: u32 = records.iter().filter(|record| record.form == 3).map(|r| r.count).sum();
    assert_eq!(skipped, 1, "{forms:?}");
}

#[test]
fn a_log_that_was_closed_ends_with_a_mark() {
    let fs = MemFs::new();
    let db = options(&fs).open("data").unwrap();
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
    let found = segments(&fs, "data");
    assert_eq!(found.len(), 1);
    let (segment, file) = &found[0];
    let records = all_records(file, segment);
    let end = records.last().unwrap();
    assert_eq!((end.form, end.count, end.payload.len()), (4, 0, 0));
    assert_eq!(end.synced, (segment.id, end.offset), "an end says that all before it is durable");
}

#[test]
fn a_segment_names_where_the_one_before_it_ended() {
    let fs = MemFs::new();
    options(&fs).open("data").unwrap().put(b"first", b"1").unwrap();
    // Dropping the last handle closes the database.
    let fs = fs.crash_clone(Crash::Kill);
    options(&fs).open("data").unwrap().put(b"second", b"2").unwrap();
    let found = segments(&fs, "data");
    let [(first, first_file), (second, second_file)] = &found[..] else {
        panic!("two segments were expected: {found:?}")
    };
    let written = all_records(first_file, first);
    // The record of a clean close follows.
    let last = written.iter().rfind(|record| record.form != 4).unwrap();
    assert_eq!(last.form, 1, "a form without a count");
    let end = (last.offset + 24 + last.payload.len() as u64).next_multiple_of(8);
    assert_eq!(second.previous, (first.id, end));
    assert!(second.id >> 32 > first.id >> 32);
    let next = all_records(second_file, second);
    assert_eq!(operations(&next[0]), [operation(2, 1, 0, b"second", b"2")]);
}

/// The bytes of the page's example: the hexadecimal digits of each line, up to two spaces.
fn example() -> Vec<u8> {
    let (_, rest) = PAGE.split_once("\n## An example\n").expect("the page has an example");
    let (_, rest) = rest.split_once("```hex\n").expect("it has bytes");
    let (block, _) = rest.split_once("```").expect("they end");
    let digits = block.lines().flat_map(|line| line.split("  ").next());
    let bytes = digits.flat_map(str::split_whitespace);
    bytes.map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}

#[test]
fn the_example_of_the_page_is_what_it_says() {
    let file = example();
    let segment = segment(&file).expect("a segment");
    let records = all_records(&file, &segment);
    assert_eq!(records.len(), 2, "{records:?}");
    let expected =
        [operation(1, 1, 0, b"city:SFO", b"San Francisco"), operation(2, 3, 0, b"x", b"")];
    assert_eq!(operations(&records[0]), expected);
    assert_eq!(records[1].form, 4);
    // The engine writes the same bytes, except for the random half of the segment id.
    let fs = MemFs::new();
    let db = options(&fs).open("data").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), b"city:SFO", b"San Francisco").unwrap();
    batch.delete(&db.default_family(), b"x").unwrap();
    db.write(&batch).unwrap();
    db.close().unwrap();
    let (written, file) = &segments(&fs, "data")[0];
    assert_eq!(written.id >> 32, segment.id >> 32);
    assert_eq!((written.first_sequence, written.previous), (1, (0, 0)));
    let (id, other) = (segment.id, written.id);
    let mut found = all_records(file, written);
    for record in &mut found {
        if record.synced.0 == other {
            record.synced.0 = id;
        }
    }
    assert_eq!(found, records);
}

#[test]
fn the_check_value_of_the_page_is_right() {
    assert!(PAGE.contains(&format!("is `{:08x}`", crc32c(&[b"123456789"]))));
}
