//! Range tombstones there and back, out of order, and very many of one fragment.

use super::*;
use proptest::prelude::*;
use siltdb_base::{error::ErrorKind, tombstone::RangeTombstone};
use std::time::{Duration, Instant};

fn encoded(fragments: &Fragments) -> Vec<u8> {
    let mut out = Vec::new();
    encode(fragments, &mut out);
    out
}

/// The encoding of one fragment.
fn fragment(start: &[u8], end: &[u8], sequences: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, start);
    put_bytes(&mut out, end);
    put_varint(&mut out, sequences.len() as u64);
    for &number in sequences {
        put_varint(&mut out, number);
    }
    out
}

#[test]
fn what_nobody_writes_is_refused() {
    let sound = fragment(b"b", b"d", &[9, 4]);
    assert_eq!(encoded(&decode(&sound).unwrap()), sound);
    let largest = SequenceNumber::MAX.0;
    assert!(decode(&fragment(b"", b"a", &[largest, largest])).is_ok());
    for (start, end, sequences) in [
        (&b"c"[..], &b"e"[..], &[1_u64][..]),
        (b"a", b"b", &[1]),
        (b"e", b"e", &[1]),
        (b"f", b"e", &[1]),
        (b"e", b"f", &[]),
        (b"e", b"f", &[4, 0]),
        (b"e", b"f", &[4, 5]),
        (b"e", b"f", &[largest + 1]),
        (b"e", &[b'f'; KEY_BYTES_MAX + 1], &[1]),
    ] {
        let bytes = [sound.clone(), fragment(start, end, sequences)].concat();
        assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
    }
    // More sequence numbers than bytes.
    let mut bytes = fragment(b"e", b"f", &[]);
    bytes.pop();
    put_varint(&mut bytes, u64::MAX);
    assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
}

/// To compare the keys for each sequence number takes a thousand times as long.
#[test]
fn a_fragment_of_very_many_tombstones_is_read_at_once() {
    let keys = [[1; KEY_BYTES_MAX], [2; KEY_BYTES_MAX]];
    let count = 1_000_000;
    let mut sequences = vec![1; count];
    sequences[0] = count as u64;
    let bytes = fragment(&keys[0], &keys[1], &sequences);
    let start = Instant::now();
    let fragments = decode(&bytes).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let [found] = fragments.as_slice() else { panic!("one fragment") };
    assert_eq!((found.start.as_bytes(), found.end.as_bytes()), (&keys[0][..], &keys[1][..]));
    let newest_first = fragments.sequences(0);
    assert!(newest_first.into_iter().rev().eq((1..=count as u64).map(SequenceNumber)));
    assert!(fragments.memory_bytes() <= 8 * count + 2 * KEY_BYTES_MAX + 256);
}

proptest! {
    #[test]
    fn tombstones_are_read_as_they_would_be_cut(
        ranges in proptest::collection::vec((0_u8..12, 0_u8..12, 0_u64..200), 0..12),
    ) {
        let tombstones: Vec<_> = ranges
            .iter()
            .map(|&(start, end, sequence)| RangeTombstone {
                start: Slice::copy_from(&[start]),
                end: Slice::copy_from(&[end]),
                sequence: SequenceNumber(sequence),
            })
            .collect();
        let fragments = Fragments::new(&tombstones);
        let found = decode(&encoded(&fragments)).unwrap();
        let again: Vec<_> = found.tombstones().collect();
        prop_assert_eq!(&Fragments::new(&again), &fragments);
        prop_assert_eq!(found, fragments);
    }

    #[test]
    fn no_bytes_panic_and_what_is_read_is_written_the_same(
        bytes in proptest::collection::vec(prop_oneof![0..5_u8, any::<u8>()], 0..60),
    ) {
        if let Ok(fragments) = decode(&bytes) {
            prop_assert_eq!(decode(&encoded(&fragments)).unwrap(), fragments);
        }
    }
}
