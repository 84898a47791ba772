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
