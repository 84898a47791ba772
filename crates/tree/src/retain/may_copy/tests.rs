//! Each condition alone forbids that entries are taken over as they are.

use super::*;
use siltdb_base::{id::SequenceNumber, slice::Slice, tombstone::RangeTombstone};

/// The keys d to m; every condition holds for them.
const STRETCH: CopyCandidate<'_> = CopyCandidate {
    first_key: b"d",
    last_key: b"m",
    content: StretchContent::Plain,
    neighbours: Neighbours { before: Some(b"c"), after: Some(b"n") },
    sight: TableSight::Whole,
    form: BlockForm::Same,
};

fn tombstone(start: &str, end: &str) -> Fragments {
    Fragments::new(&[RangeTombstone {
        start: Slice::copy_from(start.as_bytes()),
        end: Slice::copy_from(end.as_bytes()),
        sequence: SequenceNumber(1),
    }])
}

fn may(stretch: CopyCandidate<'_>) -> bool {
    may_copy(&stretch, &Fragments::default())
}

#[test]
fn plain_entries_that_nothing_reaches_are_copied() {
    assert!(may(STRETCH));
    assert!(may(CopyCandidate { neighbours: Neighbours::default(), ..STRETCH }));
}

#[test]
fn what_is_not_plain_is_not_copied() {
    assert!(!may(CopyCandidate { content: StretchContent::Any, ..STRETCH }));
}

#[test]
fn keys_that_others_have_or_lie_among_are_not_copied() {
    for before in ["d", "e", "m", "z"] {
        let neighbours = Neighbours { before: Some(before.as_bytes()), ..STRETCH.neighbours };
        assert!(!may(CopyCandidate { neighbours, ..STRETCH }), "what is before reaches {before}");
    }
    for after in ["m", "e", "d"] {
        let neighbours = Neighbours { after: Some(after.as_bytes()), ..STRETCH.neighbours };
        assert!(!may(CopyCandidate { neighbours, ..STRETCH }), "what is after begins at {after}");
    }
}

#[test]
fn keys_under_a_range_tombstone_are_not_copied() {
    for (start, end) in [("a", "e"), ("d", "e"), ("f", "g"), ("m", "n"), ("a", "z")] {
        assert!(!may_copy(&STRETCH, &tombstone(start, end)), "{start} to {end}");
    }
    for (start, end) in [("a", "d"), ("n", "z"), ("m\0", "z")] {
        assert!(may_copy(&STRETCH, &tombstone(start, end)), "{start} to {end} is beside it");
    }
}

#[test]
fn what_is_not_seen_whole_is_not_copied() {
    assert!(!may(CopyCandidate { sight: TableSight::Narrow, ..STRETCH }));
}

#[test]
fn blocks_of_another_codec_or_dictionary_are_not_copied() {
    assert!(!may(CopyCandidate { form: BlockForm::Other, ..STRETCH }));
}
