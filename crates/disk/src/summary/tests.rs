//! Key ranges at their ends, and the codec.

use super::*;

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

#[test]
fn a_summary_round_trips_and_refuses_every_truncation() {
    let summary = TableSummary {
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
    };
    let mut bytes = Vec::new();
    summary.encode(&mut bytes);
    assert_eq!(TableSummary::decode(&mut Reader::new(&bytes)).unwrap(), summary);
    for end in 0..bytes.len() {
        assert!(TableSummary::decode(&mut Reader::new(&bytes[..end])).is_err());
    }
}
