//! Headers and records there and back, their bytes, and bytes that are none.

use super::model::{MemoryFile, MemoryLog, Writer, from_first, id, recovered};
use crate::log::{
    fill::{PARTS_MAX, fill_record},
    read::{SegmentReader, Stop},
    record::{
        LogPosition, PlacedHeader, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_ID_MAX,
        Synced, record_bytes,
    },
    segment::{
        LOG_FORMAT_VERSION, SEGMENT_HEADER_BYTES, SegmentHeader, next_segment, segments_end,
    },
};
use proptest::prelude::*;
use siltdb_base::{
    checksum::{crc32c, crc32c_append},
    error::ErrorKind,
    id::{SegmentId, SequenceNumber},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

const SEGMENT: SegmentId = SegmentId(0x0102_0304_0506_0708);
const OFFSET: u64 = 0x88;

fn header() -> RecordHeader {
    RecordHeader {
        first_sequence: SequenceNumber(0x11_2233_4455_6677),
        count: 3,
        kind: RecordKind::Batch,
        synced: Synced { back: 0, offset: 0x40 },
    }
}

fn placed() -> PlacedHeader {
    let at = LogPosition { segment: SEGMENT, offset: OFFSET };
    PlacedHeader::new(at, &header(), 5, 0xdead_beef)
}

/// The header that says what the first 20 bytes do, of a place.
fn tied(bytes: &[u8], segment: SegmentId, offset: u64) -> [u8; RECORD_HEADER_BYTES] {
    let mut bytes = bytes.first_chunk().copied().expect("a header");
    bytes[20..].copy_from_slice(&((offset / 8) as u32).to_le_bytes());
    let sum = crc32c(&bytes) ^ (segment.0 >> 32) as u32;
    bytes[20..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn segment_header() -> SegmentHeader {
    SegmentHeader {
        id: SegmentId(7),
        first_sequence: SequenceNumber(100),
        previous: LogPosition { segment: SegmentId(6), offset: 4096 },
        synced: LogPosition { segment: SegmentId(5), offset: 64 },
    }
}

#[test]
fn a_record_header_has_the_documented_bytes() {
    let bytes = placed().encode().unwrap();
    assert_eq!(bytes[..8], [5, 0x77, 0x66, 0x55, 8, 7, 6, 5]);
    assert_eq!(bytes[8..16], [5, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(bytes[16..20], 0xdead_beef_u32.to_le_bytes());
    assert_eq!(bytes, tied(&bytes, SEGMENT, OFFSET));
    for segment in [None, Some(SEGMENT)] {
        assert_eq!(PlacedHeader::decode(&bytes, OFFSET, segment).unwrap(), Some(placed()));
    }
    let before = PlacedHeader { synced: Synced { back: 15, offset: 0x100 }, ..placed() };
    let before = before.encode().unwrap();
    assert_eq!((before[0], &before[12..16]), (0xf5, &[0x20, 0, 0, 0][..]));
    let unsaid = PlacedHeader { synced: Synced::UNSAID, ..placed() }.encode().unwrap();
    assert_eq!((unsaid[0], &unsaid[12..16]), (5, &[0; 4][..]));
}

#[test]
fn a_record_says_what_it_can_of_a_synced_position() {
    let said = |number, offset| Synced::new(LogPosition { segment: id(number), offset }, id(20));
    for (number, back) in [(20, 0), (19, 1), (5, 15)] {
        assert_eq!(said(number, 64), Synced { back, offset: 64 });
    }
    for (number, offset) in [(4, 64), (1, 64), (0, 0), (20, 0), (19, 0)] {
        assert_eq!(said(number, offset), Synced::UNSAID);
    }
    let known = [5, 19, 21].map(id);
    for (number, offset) in [(20, 64), (19, 128), (5, 72), (0, 0)] {
        let position = LogPosition { segment: id(number), offset };
        assert_eq!(said(number, offset).position(id(20), &known), position);
    }
    // Of one that is lost: between those around it.
    let lost = said(18, 64).position(id(20), &known);
    assert_eq!(lost, LogPosition { segment: SegmentId(18 << 32), offset: 64 });
}

#[test]
fn a_segment_header_has_the_documented_bytes() {
    let bytes = segment_header().encode().unwrap();
    assert_eq!(&bytes[..12], b"siltlog\n\x02\0\0\0");
    assert_eq!(bytes[16..32], [7, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[32..48], [6, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[48..], [0, 2, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(SegmentHeader::decode(&bytes).unwrap(), Some(segment_header()));
}

#[test]
fn a_header_is_none_at_another_place_or_with_any_bit_flipped() {
    let bytes = placed().encode().unwrap();
    let of_segment =
        |bytes: &_, offset| PlacedHeader::decode(bytes, offset, Some(SEGMENT)).unwrap();
    // Without a segment to compare with it seems to be one of another.
    let of_any = |bytes: &_, offset| {
        let found = PlacedHeader::decode(bytes, offset, None).unwrap();
        found.filter(|found| found.at.segment == SEGMENT)
    };
    for offset in [0, 8, 0x90, 0x188, u64::from(u32::MAX) * 8] {
        assert_eq!((of_segment(&bytes, offset), of_any(&bytes, offset)), (None, None));
    }
    for other in [SEGMENT.0 ^ 1, SEGMENT.0 ^ 1 << 32, 7] {
        let found = PlacedHeader::decode(&bytes, OFFSET, Some(SegmentId(other)));
        assert_eq!(found.unwrap(), None);
    }
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        let found = (of_segment(&flipped, OFFSET), of_any(&flipped, OFFSET));
        assert_eq!(found, (None, None), "bit {bit}");
    }
    let bytes = segment_header().encode().unwrap();
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(SegmentHeader::decode(&flipped).unwrap(), None, "bit {bit}");
    }
}

#[test]
fn uniform_bytes_are_never_a_header() {
    for byte in 0..=u8::MAX {
        let segment = Some(SegmentId(u64::from_le_bytes([byte; 8])));
        let offset = u64::from(u32::from_le_bytes([byte; 4])) * 8;
        let bytes = [byte; RECORD_HEADER_BYTES];
        for offset in [0, 64, offset] {
            assert_eq!(PlacedHeader::decode(&bytes, offset, segment).unwrap(), None);
        }
        assert_eq!(SegmentHeader::decode(&[byte; SEGMENT_HEADER_BYTES]).unwrap(), None);
    }
    // Whatever segment is looked for.
    assert_eq!(PlacedHeader::decode(&[0; RECORD_HEADER_BYTES], OFFSET, None).unwrap(), None);
}

#[test]
fn implausible_headers_with_good_checksums_are_none() {
    let change = |at: usize, new: &[u8]| {
        let mut bytes = placed().encode().unwrap();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    let decode = |bytes: &[u8]| {
        PlacedHeader::decode(&tied(bytes, SEGMENT, OFFSET), OFFSET, Some(SEGMENT)).unwrap()
    };
    assert!(decode(&change(1, &[1])).is_some());
    assert!(decode(&change(12, &[0x11])).is_some(), "synced up to itself");
    assert_eq!(decode(&change(12, &[0x12])), None, "synced behind itself");
    assert!(decode(&change(0, &[0x15])).is_some(), "synced in the segment before");
    assert!(decode(&change(0, &[0xf5])).is_some(), "and long before");
    let mut nowhere = change(0, &[0x15]);
    nowhere[12] = 0;
    assert_eq!(decode(&nowhere), None, "synced up to the start of the segment before");
    let segment = SegmentId(2 << 32 | u64::from(SEGMENT.0 as u32));
    for (back, is_one) in [(1, true), (2, true), (3, false)] {
        let bytes = tied(&change(0, &[back << 4 | 5]), segment, OFFSET);
        let found = PlacedHeader::decode(&bytes, OFFSET, Some(segment)).unwrap();
        assert_eq!(found.is_some(), is_one, "there are fewer segments before");
    }
    for segment in [0, 1 << 63, u64::MAX] {
        let segment = SegmentId(segment | 8);
        let bytes = change(4, &8_u32.to_le_bytes());
        let bytes = tied(&bytes, segment, OFFSET);
        let found = PlacedHeader::decode(&bytes, OFFSET, Some(segment)).unwrap();
        assert_eq!(found.is_some(), segment <= SEGMENT_ID_MAX, "segment {segment}");
    }
    let nobody = tied(&change(4, &[0; 4]), SegmentId(0), OFFSET);
    assert_eq!(PlacedHeader::decode(&nobody, OFFSET, None).unwrap(), None, "segment 0");
    for body_bytes in [0, 1, 3, 4, 5, u32::MAX] {
        let has_count = body_bytes >= 4;
        let (is_skip, is_end) = (body_bytes == 4, body_bytes == 0);
        let allowed = [
            [true, true, is_skip, is_end, has_count],
            [true, has_count, true, has_count, has_count],
        ];
        for (form, allowed) in (1..).zip(allowed.concat()) {
            let mut bytes = change(0, &[form]);
            bytes[8..12].copy_from_slice(&body_bytes.to_le_bytes());
            assert_eq!(decode(&bytes).is_some(), allowed, "form {form}, {body_bytes} bytes");
        }
    }
    for form in [0, 11, 15, 0x10, 0x1b, 255] {
        let bytes = tied(&change(0, &[form]), SEGMENT, OFFSET);
        let of = |segment| PlacedHeader::decode(&bytes, OFFSET, segment);
        let error = of(Some(SEGMENT)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("a record of a later version"), "{error}");
        // Of no segment that was asked for: its writer may have meant anything.
        assert_eq!(of(Some(SegmentId(7))).unwrap(), None);
        assert_eq!(of(None).unwrap(), None);
    }
}

#[test]
fn another_format_version_is_refused_by_name() {
    let mut writer = Writer::new(1, vec![0; 512]);
    writer.append_numbered(8);
    for version in [LOG_FORMAT_VERSION - 1, LOG_FORMAT_VERSION + 1] {
        let file = &mut writer.files[0];
        file[8] = version as u8;
        let sum = crc32c_append(crc32c(&file[..12]), &file[16..64]);
        file[12..16].copy_from_slice(&sum.to_le_bytes());
        let error = recovered(&writer.files, &from_first(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        let versions = format!("expected={LOG_FORMAT_VERSION}, found={version}");
        assert!(text.contains("000000.log") && text.contains(&versions), "{text}");
    }
}

#[test]
fn parts_and_lengths_make_no_difference_to_the_bytes() {
    let payload: Vec<u8> = (0..2000_u32).map(|index| (index * 11 + 5) as u8).collect();
    let at = LogPosition { segment: SegmentId(1), offset: 64 };
    let lengths = [0, 1, 7, 8, 9, 130, 456, 479, 480, 483, 484, 485, 487, 488, 489, 490, 496, 2000];
    let cases = [1, 3].into_iter().flat_map(|count| lengths.map(|n| (count, n)));
    let kinds = [RecordKind::Batch, RecordKind::Void];
    for ((count, length), kind) in cases.flat_map(|case| kinds.map(|kind| (case, kind))) {
        let header = RecordHeader { synced: Synced::UNSAID, count, kind, ..header() };
        let payload = &payload[..length];
        let mut body = if count == 1 { Vec::new() } else { count.to_le_bytes().to_vec() };
        body.extend(payload);
        let mut expected = vec![0xee; 4096];
        let placed = PlacedHeader::new(at, &header, body.len() as u32, crc32c(&body));
        let end = 64 + record_bytes(header.kind, count, length) as usize;
        expected[64..end].fill(0);
        expected[64..88].copy_from_slice(&placed.encode().unwrap());
        expected[88..88 + body.len()].copy_from_slice(&body);
        for parts in 1..=PARTS_MAX {
            let log = MemoryLog(Mutex::new(vec![0xee; 4096]));
            let parts: Vec<_> = payload.chunks(length.div_ceil(parts).max(1)).collect();
            fill_record(&log, at, &header, &parts).unwrap();
            assert!(*log.0.lock().unwrap() == expected, "{count}, {length} in {}", parts.len());
        }
    }
}

#[test]
fn records_take_the_bytes_that_are_documented() {
    let bytes = |kind, count, payload_bytes| record_bytes(kind, count, payload_bytes);
    assert_eq!(bytes(RecordKind::Batch, 1, 120), 24 + 120);
    assert_eq!(bytes(RecordKind::Batch, 1, 121), 24 + 128);
    assert_eq!(bytes(RecordKind::Batch, 2, 116), 24 + 120);
    assert_eq!(bytes(RecordKind::Batch, 0, 0), 24 + 8);
    assert_eq!(bytes(RecordKind::Edit, 1, 16), 24 + 16);
    assert_eq!(bytes(RecordKind::Skip, 1, 0), 24 + 8);
    assert_eq!(bytes(RecordKind::End, 0, 0), 24);
    // It has a count always.
    assert_eq!(bytes(RecordKind::FamilyBatch, 1, 116), 24 + 120);
    assert_eq!(bytes(RecordKind::Decide, 1, 116), 24 + 120);
    assert_eq!(bytes(RecordKind::Prepare, 1, 120), 24 + 120);
    // A void takes the place of any batch.
    for (count, payload_bytes) in [(1, 120), (1, 121), (2, 116), (0, 0), (7, 1000)] {
        let batch = bytes(RecordKind::Batch, count, payload_bytes);
        assert_eq!(bytes(RecordKind::Void, count, payload_bytes), batch);
    }
}

#[test]
fn places_that_cannot_be_written_are_refused() {
    let log = MemoryLog(Mutex::new(vec![0; 64]));
    let header = RecordHeader { synced: Synced::UNSAID, ..header() };
    for offset in [65, 1 << 35, u64::MAX - 7] {
        let at = LogPosition { segment: SegmentId(1), offset };
        let error = fill_record(&log, at, &header, &[b"x"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn segment_ids_rise_and_hold_the_random_part() {
    let first = next_segment(SegmentId(0), u32::MAX).unwrap();
    let second = next_segment(first, 0).unwrap();
    assert!(SegmentId(0) < first && first < second);
    assert_eq!(first.0 as u32, u32::MAX);
}

#[test]
fn the_last_segment_id_has_none_after_it() {
    let last_but_one = SegmentId(SEGMENT_ID_MAX.0 - (1 << 32));
    assert_eq!(next_segment(last_but_one, u32::MAX).unwrap(), SEGMENT_ID_MAX);
    for used_up in [next_segment(last_but_one, 7).unwrap(), SEGMENT_ID_MAX, SegmentId(u64::MAX)] {
        let error = next_segment(used_up, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(segments_end(used_up) > SegmentId(0));
    }
    assert_eq!(segments_end(SegmentId(7)), SegmentId(8));
    let end = SegmentId(SEGMENT_ID_MAX.0 + 1);
    assert_eq!((segments_end(SEGMENT_ID_MAX), segments_end(end)), (end, end));
}

#[test]
fn a_reader_says_where_and_why_it_stopped() {
    let mut writer = Writer::new(9, vec![0; 4096]);
    writer.append_numbered(100);
    writer.append_kind(RecordKind::Skip, 1000, b"");
    writer.append_numbered(8);
    writer.close();
    let file = Arc::new(MemoryFile(writer.files[0].clone()));
    let mut reader = SegmentReader::new(file.clone(), PathBuf::new(), id(9)).unwrap();
    let mut kinds = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        kinds.push((record.at.offset, record.header.kind));
    }
    let batch = RecordKind::Batch;
    let expected = [(64, batch), (192, RecordKind::Skip), (224, batch), (264, RecordKind::End)];
    assert_eq!(kinds, expected);
    assert_eq!(reader.stop(), Some(Stop::Closed));
    assert_eq!(reader.position(), writer.position);
    assert_eq!(reader.next_sequence().0, writer.sequence);
    assert!(reader.next().unwrap().is_none());
    let error = SegmentReader::new(file, PathBuf::new(), id(8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn a_record_that_takes_numbers_beyond_the_largest_is_none() {
    let last = SequenceNumber::MAX.0;
    for (first, count, is_one) in [(last, 1, true), (last - 1, 2, true), (last, 2, false)] {
        let mut writer = Writer::new(9, vec![0; 512]);
        writer.sequence = first;
        writer.begin(10, vec![0; 512]);
        writer.append_kind(RecordKind::Batch, count, b"12345678");
        let file = Arc::new(MemoryFile(writer.files[1].clone()));
        let mut reader = SegmentReader::new(file, PathBuf::new(), id(10)).unwrap();
        assert_eq!(reader.next().unwrap().is_some(), is_one);
        assert!(reader.next().unwrap().is_none());
        let stop = if is_one { Stop::NoHeader } else { Stop::SequenceGap };
        assert_eq!(reader.stop(), Some(stop));
    }
}

#[test]
fn records_longer_than_the_window_are_read() {
    let mut writer = Writer::new(1, vec![0; 8 << 20]);
    for length in [10, 3 << 20, 10, (1 << 20) - 24, 100, 1 << 20, 10, 2 << 20, 77] {
        writer.append_numbered(length);
    }
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert!(payloads == writer.payloads);
    assert_eq!(report.end, writer.position);
}

#[test]
fn a_length_beyond_the_file_is_not_allocated() {
    let mut writer = Writer::new(1, vec![0; 256]);
    writer.append_numbered(8);
    let at = writer.position;
    let header = RecordHeader {
        first_sequence: SequenceNumber(writer.sequence),
        synced: Synced::UNSAID,
        ..header()
    };
    let huge = PlacedHeader::new(at, &header, u32::MAX, 0);
    let bytes = huge.encode().unwrap();
    let offset = at.offset as usize;
    writer.files[0][offset..offset + bytes.len()].copy_from_slice(&bytes);
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert_eq!(payloads, writer.payloads);
    assert_eq!(report.cut.unwrap().stop, Stop::PastEnd);
}

proptest! {
    #[test]
    fn no_bytes_panic(
        files in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..700), 0..4),
        first in 0..4_u64,
    ) {
        let _ = recovered(&files, &from_first(first));
    }

    #[test]
    fn any_record_header_round_trips(
        (segment, units, sequence) in (1..=SEGMENT_ID_MAX.0, 8..=u32::MAX, any::<u64>()),
        (count, kind, length) in (0..4_u32, 0..8_usize, any::<u32>()),
        (sum, back, synced_units) in (any::<u32>(), 0..=15_u8, 1..=u32::MAX),
    ) {
        let kind = [
            RecordKind::Batch,
            RecordKind::Edit,
            RecordKind::Skip,
            RecordKind::End,
            RecordKind::Void,
            RecordKind::FamilyBatch,
            RecordKind::Prepare,
            RecordKind::Decide,
        ][kind];
        let body_bytes = match kind {
            RecordKind::Batch
            | RecordKind::Edit
            | RecordKind::Void
            | RecordKind::FamilyBatch
            | RecordKind::Prepare
            | RecordKind::Decide => length.max(4),
            RecordKind::Skip => 4,
            RecordKind::End => 0,
        };
        let back = u32::from(back).min((segment >> 32) as u32) as u8;
        let synced_units = if back == 0 { synced_units.min(units) } else { synced_units };
        let synced = Synced { back, offset: u64::from(synced_units) * 8 };
        let first_sequence = SequenceNumber(sequence);
        let header = RecordHeader { first_sequence, count, kind, synced };
        let at = LogPosition { segment: SegmentId(segment), offset: u64::from(units) * 8 };
        let placed = PlacedHeader::new(at, &header, body_bytes, sum);
        let bytes = placed.encode().unwrap();
        for segment in [None, Some(at.segment)] {
            let found = PlacedHeader::decode(&bytes, at.offset, segment).unwrap();
            prop_assert_eq!(found, Some(placed));
        }
        prop_assert!(placed.begins_with(first_sequence));
        prop_assert!(!placed.begins_with(SequenceNumber(sequence ^ 1)));
    }
}
