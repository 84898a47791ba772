//! The chain of segments that an opening retains.

use super::*;
use siltdb_base::id::SegmentId;

/// A retained segment of 1000 bytes: its id, its first sequence number, and the end of the one
/// before it.
fn segment(id: u64, first: u64, previous: (u64, u64)) -> KnownSegment {
    KnownSegment {
        slot: SegmentSlot { id: SegmentId(id), slot: id },
        first: SequenceNumber(first),
        previous: LogPosition { segment: SegmentId(previous.0), offset: previous.1 },
        bytes: 1000,
        origin: Origin::Retained,
    }
}

/// The ids and lengths of a chain.
fn chained(next: Option<KnownSegment>, older: Vec<KnownSegment>) -> Vec<(u64, u64)> {
    let chain = chain(next.as_ref(), older);
    chain.iter().map(|segment| (segment.slot.id.0, segment.bytes)).collect()
}

#[test]
fn a_chain_goes_back_as_far_as_each_segment_names_the_one_before_it() {
    let older = vec![segment(2, 5, (1, 300)), segment(1, 1, (0, 0)), segment(4, 9, (2, 400))];
    let next = segment(6, 20, (4, 500));
    assert_eq!(chained(Some(next), older.clone()), [(1, 300), (2, 400), (4, 500)]);
    // Without a next one, the newest begins the chain, up to the end of its file.
    assert_eq!(chained(None, older.clone()), [(1, 300), (2, 400), (4, 1000)]);
    // One that is missing ends it.
    let without = older.into_iter().filter(|segment| segment.slot.id.0 != 2).collect();
    assert_eq!(chained(Some(next), without), [(4, 500)]);
}

#[test]
fn a_segment_that_nothing_names_is_passed_over() {
    let older = vec![segment(1, 1, (0, 0)), segment(2, 5, (1, 300)), segment(3, 9, (2, 400))];
    // Segment 4 follows 2: an opening began 3, and the next crash emptied it.
    let next = segment(4, 9, (2, 400));
    assert_eq!(chained(Some(next), older), [(1, 300), (2, 400)]);
}

#[test]
fn a_missing_segment_without_records_ends_no_chain() {
    let older = vec![segment(1, 1, (0, 0)), segment(2, 5, (1, 300))];
    let next = segment(4, 9, (3, 64));
    assert_eq!(chained(Some(next), older.clone()), [(1, 300), (2, 1000)]);
    // It had records, so there is a gap.
    let next = segment(4, 9, (3, 96));
    assert_eq!(chained(Some(next), older), []);
}
