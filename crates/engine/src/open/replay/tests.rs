//! The generations that a replay returns.

use super::*;

fn slot(id: u64) -> SegmentSlot {
    SegmentSlot { id: SegmentId(id), slot: id }
}

fn generation(ids: &[u64]) -> Frozen {
    Frozen {
        number: Generation(ids[0]),
        segments: ids.iter().map(|id| slot(*id)).collect(),
        last: SequenceNumber(ids[0]),
        bytes: 0,
        progress: Arc::default(),
    }
}

/// A feed looks for a record in the last known segment that begins before it. A segment that is
/// retired after a later one would be taken for it.
#[test]
fn segments_without_records_are_retired_in_their_order() {
    let mut frozen = [generation(&[2]), generation(&[5, 6]), generation(&[8])];
    for id in [9, 7, 1, 3, 4] {
        add_empty(&mut frozen, slot(id));
    }
    let ids: Vec<Vec<u64>> = frozen
        .iter()
        .map(|frozen| frozen.segments.iter().map(|segment| segment.id.0).collect())
        .collect();
    assert_eq!(ids, [vec![1, 2], vec![3, 4, 5, 6], vec![7, 8, 9]]);
    let numbers: Vec<u64> = frozen.iter().map(|frozen| frozen.number.0).collect();
    assert_eq!(numbers, [2, 5, 8]);
}
