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
        .enumerate()
        .map(|(index, fragment)| {
            (fragment.start.to_vec(), fragment.end.to_vec(), fragments.sequences(index).len())
        })
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
    let fragment = |start: &[u8], end: &[u8], sequences: &[u64]| {
        let fragment = Fragment { start: Slice::copy_from(start), end: Slice::copy_from(end) };
        (fragment, sequences.iter().copied().map(SequenceNumber).collect::<Vec<_>>())
    };
    let sound = || fragment(b"b", b"d", &[9, 4]);
    for neighbours in [vec![], vec![sound()], vec![sound(), fragment(b"d", b"e", &[9])]] {
        let fragments = Fragments::from_ordered(neighbours.clone()).unwrap();
        assert_eq!(fragments.as_slice().len(), neighbours.len());
        for (index, (fragment, sequences)) in neighbours.into_iter().enumerate() {
            assert_eq!(fragments.as_slice()[index], fragment);
            assert_eq!(fragments.sequences(index), sequences);
        }
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

#[test]
fn nested_tombstones_take_no_square_of_memory() {
    let count = if cfg!(miri) { 50 } else { 20_000_u32 };
    let nested = |number: u32| {
        let (start, end) = (number.to_be_bytes(), (2 * count - number).to_be_bytes());
        tombstone(&start, &end, u64::from(number) + 1)
    };
    let all: Vec<_> = (0..count).map(nested).collect();
    let fragments = Fragments::new(&all);
    assert_eq!(fragments.as_slice().len(), 2 * count as usize - 1);
    let bytes = fragments.memory_bytes();
    assert!(bytes < 500 * count as usize, "{bytes} bytes");
    for number in [0, 1, count / 2, count - 1] {
        for key in [number, 2 * count - number - 1] {
            let newest = |visible| fragments.covering(&key.to_be_bytes(), SequenceNumber(visible));
            assert_eq!(newest(SequenceNumber::MAX.0), Some(SequenceNumber(u64::from(number) + 1)));
            assert_eq!(newest(1), Some(SequenceNumber(1)));
        }
    }
    let middle = fragments.find(&count.to_be_bytes()).unwrap();
    assert_eq!(fragments.sequences(middle).len(), count as usize);
}

#[test]
fn memory_is_charged_while_the_fragments_live() {
    let budget = Arc::new(Budget::new(0));
    let fragments = Fragments::new(&[tombstone(b"a", b"m", 5), tombstone(b"g", b"z", 9)]);
    let fragments = fragments.charged(&budget, Part::Memtables);
    assert_eq!(budget.used(Part::Memtables), fragments.memory_bytes());
    drop(fragments);
    assert_eq!(budget.total(), 0);
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
            let over = ranges.iter().filter(|range| (range.0..range.1).contains(&key));
            let mut all: Vec<_> = over.map(|range| SequenceNumber(range.2)).collect();
            all.sort_by_key(|&sequence| Reverse(sequence));
            all.dedup();
            let found = fragments.find(&[key]).map(|index| fragments.sequences(index));
            prop_assert_eq!(found.unwrap_or_default(), all);
        }
        for pair in fragments.as_slice().windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        let again: Vec<_> = fragments.tombstones().collect();
        prop_assert_eq!(again.len(), fragments.count());
        prop_assert_eq!(&Fragments::new(&again), &fragments);
        let ordered = Fragments::from_ordered(
            fragments.as_slice().iter().cloned().enumerate()
                .map(|(index, fragment)| (fragment, fragments.sequences(index)))
                .collect(),
        );
        prop_assert_eq!(ordered, Some(fragments));
    }
}
