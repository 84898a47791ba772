//! Headers and records there and back, their bytes, and bytes that are none.

use super::model::{MemoryFile, MemoryLog, Writer, from_first, recovered};
use crate::log::{
    fill::{PARTS_MAX, fill_record},
    read::{SegmentReader, Stop},
    record::{
        LogPosition, PlacedHeader, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_ID_MAX,
        record_bytes,
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

fn placed() -> PlacedHeader {
    PlacedHeader {
        at: LogPosition { segment: SegmentId(0x0102_0304_0506_0708), offset: 0x88 },
        header: RecordHeader {
            first_sequence: SequenceNumber(0x11_2233_4455_6677),
            count: 0x8899_aabb,
            kind: RecordKind::Batch,
            synced: LogPosition { segment: SegmentId(0x0102_0304_0506_0708), offset: 0x40 },
        },
        payload_bytes: 5,
        payload_checksum: 0xdead_beef,
    }
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
    assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(bytes[8..16], [1, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(bytes[16..24], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(bytes[24..32], [0x11, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(bytes[32..40], [0xbb, 0xaa, 0x99, 0x88, 8, 0, 0, 0]);
    assert_eq!(bytes[40..44], 0xdead_beef_u32.to_le_bytes());
    assert_eq!(bytes[44..], crc32c(&bytes[..44]).to_le_bytes());
    for segment in [None, Some(placed().at.segment)] {
        assert_eq!(PlacedHeader::decode(&bytes, 0x88, segment).unwrap(), Some(placed()));
    }
}

#[test]
fn a_segment_header_has_the_documented_bytes() {
    let bytes = segment_header().encode().unwrap();
    assert_eq!(&bytes[..12], b"siltlog\n\x01\0\0\0");
    assert_eq!(bytes[16..32], [7, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[32..48], [6, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[48..], [0, 2, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(SegmentHeader::decode(&bytes).unwrap(), Some(segment_header()));
}

#[test]
fn a_header_is_none_at_another_place_or_with_any_bit_flipped() {
    let bytes = placed().encode().unwrap();
    assert_eq!(PlacedHeader::decode(&bytes, 0x90, None).unwrap(), None);
    assert_eq!(PlacedHeader::decode(&bytes, 0x88, Some(SegmentId(7))).unwrap(), None);
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(PlacedHeader::decode(&flipped, 0x88, None).unwrap(), None, "bit {bit}");
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
        let offset = u64::from(u32::from_le_bytes([byte; 4])) * 8;
        let bytes = [byte; RECORD_HEADER_BYTES];
        assert_eq!(PlacedHeader::decode(&bytes, offset, None).unwrap(), None);
        assert_eq!(SegmentHeader::decode(&[byte; SEGMENT_HEADER_BYTES]).unwrap(), None);
    }
}

#[test]
fn implausible_headers_with_good_checksums_are_none() {
    let change = |at: usize, new: &[u8]| {
        let mut bytes = placed().encode().unwrap();
        bytes[at..at + new.len()].copy_from_slice(new);
        let sum = crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let decode = |at: usize, new: &[u8]| PlacedHeader::decode(&change(at, new), 0x88, None);
    assert!(decode(32, &[1]).unwrap().is_some());
    assert_eq!(decode(0, &[0; 8]).unwrap(), None, "segment 0");
    assert_eq!(decode(36, &[0x12]).unwrap(), None, "synced behind itself");
    assert_eq!(decode(36, &[0]).unwrap(), None, "synced at offset 0");
    assert_eq!(decode(9, &[0xff; 7]).unwrap(), None, "sequence numbers beyond the largest");
    for (count, payload_bytes) in [(0, 0), (1, 0), (1, 5), (2, 0), (0, 5), (u32::MAX, u32::MAX)] {
        let allowed = [true, count == 1, payload_bytes == 0, count == 0 && payload_bytes == 0];
        for (kind, allowed) in (1..).zip(allowed) {
            let mut bytes = change(8, &[kind]);
            bytes[28..32].copy_from_slice(&payload_bytes.to_le_bytes());
            bytes[32..36].copy_from_slice(&count.to_le_bytes());
            let sum = crc32c(&bytes[..44]);
            bytes[44..].copy_from_slice(&sum.to_le_bytes());
            let found = PlacedHeader::decode(&bytes, 0x88, None).unwrap();
            assert_eq!(found.is_some(), allowed, "kind {kind}, {count} and {payload_bytes} bytes");
        }
    }
    for kind in [0, 5, 255] {
        let bytes = change(8, &[kind]);
        let of = |segment| PlacedHeader::decode(&bytes, 0x88, segment);
        assert_eq!(of(Some(placed().at.segment)).unwrap_err().kind(), ErrorKind::Unsupported);
        // Of no segment that was asked for: whoever wrote it may have meant anything.
        assert_eq!(of(Some(SegmentId(7))).unwrap(), None);
        assert_eq!(of(None).unwrap(), None);
    }
}

#[test]
fn another_format_version_is_refused_by_name() {
    let mut writer = Writer::new(1, vec![0; 512]);
    writer.append_numbered(8);
    let file = &mut writer.files[0];
    file[8] = LOG_FORMAT_VERSION as u8 + 1;
    let sum = crc32c_append(crc32c(&file[..12]), &file[16..64]);
    file[12..16].copy_from_slice(&sum.to_le_bytes());
    let error = recovered(&writer.files, &from_first(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("000000.log") && text.contains("expected=1, found=2"), "{text}");
}

#[test]
fn parts_and_lengths_make_no_difference_to_the_bytes() {
    let payload: Vec<u8> = (0..2000_u32).map(|index| (index * 11 + 5) as u8).collect();
    let header = RecordHeader { synced: LogPosition::ZERO, count: 3, ..placed().header };
    let at = LogPosition { segment: SegmentId(1), offset: 64 };
    for length in [0, 1, 7, 8, 9, 130, 456, 463, 464, 465, 466, 472, 473, 2000] {
        let payload = &payload[..length];
        let mut expected = vec![0xee; 4096];
        let placed = PlacedHeader {
            at,
            header,
            payload_bytes: length as u32,
            payload_checksum: crc32c(payload),
        };
        let end = 64 + record_bytes(length) as usize;
        expected[64..112].copy_from_slice(&placed.encode().unwrap());
        expected[112..112 + length].copy_from_slice(payload);
        expected[112 + length..end].fill(0);
        for parts in 1..=PARTS_MAX {
            let log = MemoryLog(Mutex::new(vec![0xee; 4096]));
            let parts: Vec<_> = payload.chunks(length.div_ceil(parts).max(1)).collect();
            fill_record(&log, at, &header, &parts).unwrap();
            assert!(*log.0.lock().unwrap() == expected, "{length} in {}", parts.len());
        }
    }
}

#[test]
fn places_that_cannot_be_written_are_refused() {
    let log = MemoryLog(Mutex::new(vec![0; 64]));
    let header = RecordHeader { synced: LogPosition::ZERO, count: 3, ..placed().header };
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
    let mut reader = SegmentReader::new(file.clone(), PathBuf::new(), SegmentId(9)).unwrap();
    let mut kinds = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        kinds.push((record.at.offset, record.header.kind));
    }
    let batch = RecordKind::Batch;
    let expected = [(64, batch), (216, RecordKind::Skip), (264, batch), (320, RecordKind::End)];
    assert_eq!(kinds, expected);
    assert_eq!(reader.stop(), Some(Stop::Closed));
    assert_eq!(reader.position(), writer.position);
    assert_eq!(reader.next_sequence().0, writer.sequence);
    assert!(reader.next().unwrap().is_none());
    let error = SegmentReader::new(file, PathBuf::new(), SegmentId(8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn records_longer_than_the_window_are_read() {
    let mut writer = Writer::new(1, vec![0; 8 << 20]);
    for length in [10, 3 << 20, 10, (1 << 20) - 48, 100, 1 << 20, 10, 2 << 20, 77] {
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
        count: 1,
        kind: RecordKind::Batch,
        synced: LogPosition::ZERO,
    };
    let huge = PlacedHeader { at, header, payload_bytes: u32::MAX, payload_checksum: 0 };
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
        (segment, units, sequence) in (1..=SEGMENT_ID_MAX.0, 8..=u32::MAX, 0..1_u64 << 55),
        (count, kind, length) in (any::<u32>(), 0..4_usize, any::<u32>()),
        (sum, synced_units) in (any::<u32>(), any::<u32>()),
    ) {
        let kinds = [RecordKind::Batch, RecordKind::Edit, RecordKind::Skip, RecordKind::End];
        let (count, length) = match kinds[kind] {
            RecordKind::Batch => (count, length),
            RecordKind::Edit => (1, length),
            RecordKind::Skip => (count, 0),
            RecordKind::End => (0, 0),
        };
        let segment = SegmentId(segment);
        let synced_units = synced_units.clamp(1, units);
        let placed = PlacedHeader {
            at: LogPosition { segment, offset: u64::from(units) * 8 },
            header: RecordHeader {
                first_sequence: SequenceNumber(sequence),
                count,
                kind: kinds[kind],
                synced: LogPosition { segment, offset: u64::from(synced_units) * 8 },
            },
            payload_bytes: length,
            payload_checksum: sum,
        };
        let bytes = placed.encode().unwrap();
        let found = PlacedHeader::decode(&bytes, placed.at.offset, Some(segment)).unwrap();
        prop_assert_eq!(found, Some(placed));
    }
}
