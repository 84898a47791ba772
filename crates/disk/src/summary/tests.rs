//! Key ranges at their ends, and the codec.

use super::*;
use crate::{
    garbage::{GarbageBuilder, Repeats},
    sample::SampleBuilder,
};
use siltdb_base::key::EntryKind;

fn range(first: &[u8], last: &[u8], end: RangeEnd) -> KeyRange {
    KeyRange { first: Slice::copy_from(first), last: Slice::copy_from(last), end }
}

#[test]
fn ranges_that_touch_at_an_exclusive_end_do_not_overlap() {
    let left = range(b"a", b"m", RangeEnd::Exclusive);
    let right = range(b"m", b"z", RangeEnd::Inclusive);
    assert!(!left.overlaps(&right) && !right.overlaps(&left));
    assert!(!left.contains(b"m") && right.contains(b"m") && right.contains(b"z"));
    let closed = range(b"a", b"m", RangeEnd::Inclusive);
    assert!(closed.overlaps(&right));
    assert_eq!(left.union(&closed), closed);
    assert_eq!(left.union(&right), range(b"a", b"z", RangeEnd::Inclusive));
}

fn garbage() -> Garbage {
    let mut garbage = GarbageBuilder::default();
    let value = 77_u64.to_le_bytes();
    for (repeats, sequence) in [(Repeats::No, 9), (Repeats::Yes, 4)] {
        let said = (SequenceNumber(sequence), EntryKind::PutExpiring, &value[..]);
        garbage.add(repeats, 1, said).unwrap();
    }
    garbage.finish()
}

fn summary() -> TableSummary {
    let mut sample = SampleBuilder::default();
    [9, 1 << 60].into_iter().for_each(|hash| sample.add(hash));
    TableSummary {
        uid: TableUid(9),
        range: range(b"", b"k", RangeEnd::Inclusive),
        entries: 1,
        point_tombstones: 2,
        range_tombstones: 3,
        merge_operands: 4,
        sequence_min: SequenceNumber(5),
        sequence_max: SequenceNumber(600),
        expiry_min_ms: Some(0),
        logical_bytes: 7,
        file_bytes: 1 << 40,
        key_sample: sample.finish(),
        garbage: garbage(),
    }
}

#[test]
fn numbers_that_no_table_reaches_are_refused() {
    let changes: [fn(&mut TableSummary, u64); 6] = [
        |summary, count| summary.entries = count,
        |summary, count| summary.point_tombstones = count,
        |summary, count| summary.range_tombstones = count,
        |summary, count| summary.merge_operands = count,
        |summary, count| summary.logical_bytes = count,
        |summary, count| summary.file_bytes = count,
    ];
    for change in changes {
        for count in [TABLE_END_MAX, TABLE_END_MAX + 1, u64::MAX] {
            let (mut summary, mut bytes) = (summary(), Vec::new());
            change(&mut summary, count);
            summary.encode(&mut bytes);
            let read = TableSummary::decode(&mut Reader::new(&bytes));
            assert_eq!(read.is_ok(), count <= TABLE_END_MAX, "{count}");
        }
    }
}

#[test]
fn a_summary_round_trips_and_refuses_every_truncation() {
    let summary = summary();
    let mut bytes = Vec::new();
    summary.encode(&mut bytes);
    assert_eq!(TableSummary::decode(&mut Reader::new(&bytes)).unwrap(), summary);
    for end in 0..bytes.len() {
        assert!(TableSummary::decode(&mut Reader::new(&bytes[..end])).is_err());
    }
}
