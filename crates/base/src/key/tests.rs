//! The order of entries and the payload codecs.

use super::*;
use proptest::prelude::*;

#[test]
fn newer_entries_of_a_key_come_first() {
    let at = |key, sequence| SortKey::new(key, SequenceNumber(sequence));
    assert!(at(b"a", 2) < at(b"a", 1));
    assert!(at(b"a", 1) < at(b"b", 9));
    assert!(at(b"", 1) < at(b"\0", 1));
    assert_eq!(at(b"a", 1).cmp(&at(b"a", 1)), Ordering::Equal);
}

#[test]
fn a_trailer_keeps_both_parts() {
    let trailer = Trailer::new(SequenceNumber::MAX, EntryKind::Merge);
    assert_eq!(trailer.sequence(), SequenceNumber::MAX);
    assert_eq!(trailer.kind().unwrap(), EntryKind::Merge);
    assert!(Trailer(0).kind().is_err());
    assert!(EntryKind::from_u8(8).is_err());
}

#[test]
fn a_blob_pointer_round_trips_and_refuses_every_truncation() {
    let pointer = BlobPointer {
        file: FileNumber(300),
        offset: 1 << 40,
        length: u32::MAX,
        stored_bytes: 5,
        codec: 1,
        checksum: 7,
        expiry_ms: Some(1),
    };
    let mut bytes = Vec::new();
    pointer.encode(&mut bytes);
    assert_eq!(BlobPointer::decode(&bytes).unwrap(), pointer);
    for end in 0..bytes.len() {
        assert!(BlobPointer::decode(&bytes[..end]).is_err());
    }
    bytes.push(0);
    assert!(BlobPointer::decode(&bytes).is_err());
}

proptest! {
    #[test]
    fn heads_never_contradict_keys(
        a in proptest::collection::vec(0_u8..3, 0..12),
        b in proptest::collection::vec(0_u8..3, 0..12),
    ) {
        if a < b {
            prop_assert!(head(&a) <= head(&b));
        }
    }
}

proptest! {
    #[test]
    fn the_first_place_not_before_another_is_found_by_heads(
        mut places in prop::collection::vec((0_u8..8, 0_u8..8), 0..40),
        sought in (0_u8..8, 0_u8..8),
    ) {
        places.sort_unstable();
        let expected = places.partition_point(|place| *place < sought);
        let heads: Vec<_> = places.iter().map(|place| place.0).collect();
        let is_before = |index: usize| places[index] < sought;
        let found = lower_bound(&heads, sought.0, |head| head < sought.0, is_before);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(lower_bound_within(0..places.len(), is_before), expected);
        let from = expected / 2;
        prop_assert_eq!(lower_bound_within(from..places.len(), is_before), expected);
    }
}

#[test]
fn a_search_ends_where_a_place_cannot_be_looked_at() {
    let look = |index: usize| if index == 5 { Err("damaged") } else { Ok(index < 3) };
    assert_eq!(try_lower_bound_within(0..10, look), Err("damaged"));
    assert_eq!(try_lower_bound_within(0..4, look), Ok(3));
    assert_eq!(try_lower_bound_within(7..7, look), Ok(7));
}
