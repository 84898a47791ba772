//! Fragments against the plain definition of coverage.

use super::*;
use proptest::prelude::*;

fn tombstone(start: &[u8], end: &[u8], sequence: u64) -> RangeTombstone {
    RangeTombstone {
        start: Slice::copy_from(start),
        end: Slice::copy_from(end),
        sequence: SequenceNumber(sequence),
    }
}

#[test]
fn overlapping_tombstones_are_cut_at_each_border() {
    let fragments = Fragments::new(&[tombstone(b"a", b"m", 5), tombstone(b"g", b"z", 9)]);
    let shape: Vec<_> = fragments
        .as_slice()
        .iter()
        .map(|fragment| (fragment.start.to_vec(), fragment.end.to_vec(), fragment.sequences.len()))
        .collect();
    assert_eq!(
        shape,
        [
            (b"a".to_vec(), b"g".to_vec(), 1),
            (b"g".to_vec(), b"m".to_vec(), 2),
            (b"m".to_vec(), b"z".to_vec(), 1),
        ]
    );
    assert_eq!(fragments.covering(b"g", SequenceNumber(8)), Some(SequenceNumber(5)));
    assert_eq!(fragments.covering(b"z", SequenceNumber::MAX), None);
}

#[test]
fn what_is_out_of_order_makes_no_fragments() {
    let fragment = |start: &[u8], end: &[u8], sequences: &[u64]| Fragment {
        start: Slice::copy_from(start),
        end: Slice::copy_from(end),
        sequences: sequences.iter().copied().map(SequenceNumber).collect(),
    };
    let sound = || fragment(b"b", b"d", &[9, 4]);
    for neighbours in [vec![], vec![sound()], vec![sound(), fragment(b"d", b"e", &[9])]] {
        let fragments = Fragments::from_ordered(neighbours.clone()).unwrap();
        assert_eq!(fragments.as_slice(), neighbours);
    }
    for wrong in [
        fragment(b"c", b"e", &[1]),
        fragment(b"a", b"z", &[1]),
        fragment(b"e", b"e", &[1]),
        fragment(b"f", b"e", &[1]),
        fragment(b"e", b"f", &[]),
        fragment(b"e", b"f", &[4, 4]),
        fragment(b"e", b"f", &[4, 9]),
    ] {
        assert_eq!(Fragments::from_ordered(vec![sound(), wrong]), None);
    }
}

proptest! {
    #[test]
    fn coverage_is_that_of_the_definition(
        ranges in proptest::collection::vec((0_u8..12, 0_u8..12, 1_u64..9), 0..12),
        visible in 0_u64..10,
    ) {
        let tombstones: Vec<_> = ranges
            .iter()
            .map(|&(start, end, sequence)| tombstone(&[start], &[end], sequence))
            .collect();
        let fragments = Fragments::new(&tombstones);
        for key in 0_u8..13 {
            let expected = ranges
                .iter()
                .filter(|&&(start, end, sequence)| {
                    start <= key && key < end && sequence <= visible
                })
                .map(|&(_, _, sequence)| SequenceNumber(sequence))
                .max();
            prop_assert_eq!(fragments.covering(&[key], SequenceNumber(visible)), expected);
        }
        for pair in fragments.as_slice().windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        let again: Vec<_> = fragments.tombstones().collect();
        prop_assert_eq!(again.len(), fragments.count());
        prop_assert_eq!(&Fragments::new(&again), &fragments);
        let ordered = Fragments::from_ordered(fragments.as_slice().to_vec());
        prop_assert_eq!(ordered, Some(fragments));
    }
}
