//! What is read of a segment behind a damage: all that is whole, with its own sequence numbers.

use super::model::{MemoryFile, Writer, id, small_log};
use crate::log::{
    record::RECORD_HEADER_BYTES,
    salvage::{Gap, SegmentSalvage, segment_of_records},
    segment::{SEGMENT_HEADER_BYTES, SegmentHeader},
};
use siltdb_base::{
    fs::File,
    id::{SegmentId, SequenceNumber},
};
use std::{path::PathBuf, sync::Arc};

/// A payload, and the sequence number with which its record begins.
type Found = (u64, Vec<u8>);

fn path() -> PathBuf {
    PathBuf::from("000001.log")
}

/// Everything that is left of a segment.
fn all(segment: &mut SegmentSalvage) -> (Vec<Found>, Vec<Gap>) {
    let (mut found, mut gaps) = (Vec::new(), Vec::new());
    loop {
        while let Some(record) = segment.next().unwrap() {
            found.push((record.header.first_sequence.0, record.payload.to_vec()));
        }
        match segment.resume().unwrap() {
            Some(gap) => gaps.push(gap),
            None => return (found, gaps),
        }
    }
}

/// The records of one file of a log, and where each begins and ends.
fn written(writer: &Writer, segment: u64) -> Vec<(Found, std::ops::Range<u64>)> {
    let mut sequence = 1;
    let mut written = Vec::new();
    for (payload, (at, end)) in writer.payloads.iter().zip(&writer.places) {
        if at.segment == id(segment) {
            written.push(((sequence, payload.clone()), at.offset..*end));
        }
        sequence += 1 + payload.len() as u64 % 3;
    }
    written
}

#[test]
fn every_whole_record_is_read_whatever_byte_is_damaged() {
    let writer = small_log();
    let mut resumed = 0;
    for (index, bytes) in writer.files.iter().enumerate() {
        let written = written(&writer, index as u64 + 1);
        let header = SegmentHeader::decode(bytes[..64].try_into().unwrap()).unwrap().unwrap();
        for place in SEGMENT_HEADER_BYTES..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0x40;
            let file = Arc::new(MemoryFile(bytes));
            let (found, gaps) = all(&mut SegmentSalvage::new(file, path(), header, None));
            let is_hit =
                |(_, range): &&(Found, std::ops::Range<u64>)| range.contains(&(place as u64));
            // What fills up to a multiple of 8 is not looked at.
            let whole: Vec<_> =
                written.iter().filter(|record| !is_hit(record)).map(|(found, _)| found).collect();
            assert!(whole.iter().all(|record| found.contains(record)), "byte {place}");
            assert!(found.iter().all(|record| written.iter().any(|(all, _)| all == record)));
            let lost = written.len() - found.len();
            assert!(lost <= 1 && gaps.len() <= lost, "byte {place}: {gaps:?}");
            if let [gap] = gaps[..] {
                let hit = written.iter().find(is_hit).unwrap();
                let operations = 1 + hit.0.1.len() as u64 % 3;
                assert_eq!(gap, Gap { offset: hit.1.start, operations });
                resumed += 1;
            }
        }
    }
    assert!(resumed > 100, "{resumed}");
}

#[test]
fn a_file_without_a_header_is_read_by_its_records() {
    let writer = small_log();
    let mut bytes = writer.files[1].clone();
    bytes[..SEGMENT_HEADER_BYTES].fill(0xee);
    let file: Arc<dyn File> = Arc::new(MemoryFile(bytes));
    let find = |is_live: &dyn Fn(SegmentId) -> bool| segment_of_records(&file, &path(), is_live);
    assert_eq!(find(&|segment| segment == id(2)).unwrap(), Some(id(2)));
    assert_eq!(find(&|segment| segment == id(3)).unwrap(), None);
    let written: Vec<_> = written(&writer, 2).into_iter().map(|(found, _)| found).collect();
    for first in [SequenceNumber(1), SequenceNumber(written[0].0)] {
        let mut segment = SegmentSalvage::without_header(Arc::clone(&file), path(), id(2), first);
        let (found, gaps) = all(&mut segment);
        assert_eq!(found, written);
        assert_eq!(gaps.len(), usize::from(first.0 < written[0].0));
    }
}

#[test]
fn nothing_is_read_behind_a_known_end() {
    let writer = small_log();
    let bytes = &writer.files[0];
    let header = SegmentHeader::decode(bytes[..64].try_into().unwrap()).unwrap().unwrap();
    let second = writer.places[1].0.offset;
    let mut bytes = bytes.clone();
    bytes[SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES] ^= 1;
    let file = Arc::new(MemoryFile(bytes));
    let mut segment = SegmentSalvage::new(file, path(), header, Some(second));
    assert_eq!(all(&mut segment), (vec![], vec![]));
}
