//! What is deleted is crossed by skips, which change nothing about what is seen.

use super::*;
use crate::read::empty_ranges::SequenceLock;
use siltdb_base::{
    slice::Slice,
    tombstone::{Fragments, RangeTombstone},
};

/// Deleted keys between `a` and `z`, and how to read them with so few operations on the source.
fn across_deleted(
    block: usize,
    empty_ranges: &Arc<EmptyRanges>,
    operations: usize,
) -> VisibleIter<VecCursor> {
    let put = |key: &[u8]| Owned::new(key, 1, EntryKind::Put, b"");
    let deleted = (0..500).flat_map(|number| {
        let key = format!("deleted {number:03}").into_bytes();
        [put(&key), Owned::new(&key, 2, EntryKind::Delete, b"")]
    });
    let entries = deleted.chain([put(b"a"), put(b"z")]).collect();
    let mut cursor = VecCursor::new(entries, block);
    cursor.fail_in(operations);
    let merge = Merge::new(vec![MergeSource { sequence_max: cursor.sequence_max(), cursor }]);
    let reader = Reader { empty_ranges: Some(empty_ranges.clone()), ..reader(9) };
    VisibleIter::new(merge, Vec::new(), reader, Bounds::default())
}

#[test]
fn what_one_reader_walked_over_others_skip() {
    const MANY: usize = 5_000;
    const FEW: usize = 50;
    let both = [(b"a".to_vec(), Vec::new()), (b"z".to_vec(), Vec::new())];
    for block in [0, 4, 300] {
        for first in [forward, backward] {
            let empty_ranges = tracking(9);
            assert!(across_deleted(block, &empty_ranges, FEW).seek(b"b").is_err());
            assert_eq!(first(&mut across_deleted(block, &empty_ranges, MANY)), both);
            assert_eq!(forward(&mut across_deleted(block, &empty_ranges, FEW)), both);
            assert_eq!(backward(&mut across_deleted(block, &empty_ranges, FEW)), both);
            for direction in [Direction::Forward, Direction::Backward] {
                let mut iter = across_deleted(block, &empty_ranges, 2 * FEW);
                match direction {
                    Direction::Forward => iter.seek_to_first().unwrap(),
                    Direction::Backward => iter.seek_to_last().unwrap(),
                }
                let walked = iter.walk(direction, 9, |_, _| ControlFlow::Continue(()));
                assert_eq!(walked.unwrap(), 2);
            }
        }
    }
}

/// A source of 500 keys from 1, one from 9, and range tombstones from 5 and 6 over the keys between
/// `a` and `z`. The source must be read with so few operations.
fn across_a_deleted_range(operations: usize) -> VisibleIter<VecCursor> {
    let put = |key: &[u8], sequence| Owned::new(key, sequence, EntryKind::Put, b"");
    let deleted = (0..500).map(|number| put(format!("deleted {number:03}").as_bytes(), 1));
    let old = deleted.chain([put(b"a", 1), put(b"z", 1)]).collect();
    let new = vec![put(b"deleted 300", 9)];
    let sources = [(old, operations), (new, 1_000)].map(|(entries, operations)| {
        let mut cursor = VecCursor::new(entries, 0);
        cursor.fail_in(operations);
        MergeSource { sequence_max: cursor.sequence_max(), cursor }
    });
    let ranges = [(&b"b"[..], &b"deleted 2"[..], 5), (b"deleted 2", b"y", 6)];
    let tombstones = ranges.map(|(start, end, sequence)| {
        Arc::new(Fragments::new(&[RangeTombstone {
            start: Slice::copy_from(start),
            end: Slice::copy_from(end),
            sequence: SequenceNumber(sequence),
        }]))
    });
    VisibleIter::new(Merge::new(sources.into()), tombstones.into(), reader(9), Bounds::default())
}

#[test]
fn a_seek_into_a_deleted_range_reads_nothing_of_it() {
    for (key, next, before) in
        [("deleted 100", "deleted 300", "a"), ("deleted 400", "z", "deleted 300")]
    {
        let mut iter = across_a_deleted_range(3);
        iter.seek(key.as_bytes()).unwrap();
        assert_eq!(iter.key(), Some(next.as_bytes()));
        let mut iter = across_a_deleted_range(3);
        iter.seek_for_prev(key.as_bytes()).unwrap();
        assert_eq!(iter.key(), Some(before.as_bytes()));
    }
    let mut iter = across_a_deleted_range(3);
    iter.bounds = Bounds { lower: Some(Slice::copy_from(b"deleted 000")), upper: None };
    iter.seek_to_first().unwrap();
    assert_eq!(iter.key(), Some(&b"deleted 300"[..]));
}

/// The range behind the one that a seek begins in was deleted before that, and before a key in it
/// was put.
#[test]
fn ranges_are_passed_together_only_if_the_second_hides_as_much() {
    let put = |key: &[u8], sequence| Owned::new(key, sequence, EntryKind::Put, b"");
    let tombstone = |start: &[u8], end: &[u8], sequence| RangeTombstone {
        start: Slice::copy_from(start),
        end: Slice::copy_from(end),
        sequence: SequenceNumber(sequence),
    };
    let entries = vec![put(b"c", 1), put(b"e", 4), put(b"f", 1), put(b"z", 1)];
    let tombstones = vec![tombstone(b"b", b"d", 6), tombstone(b"d", b"y", 3)];
    let histories = [History { entries, tombstones }];
    let mut iter = open_with(&histories, 0, reader(9), Bounds::default());
    iter.seek(b"c").unwrap();
    assert_eq!(iter.key(), Some(&b"e"[..]));
}

/// Has handed out this number, and no other.
#[derive(Debug)]
struct Still(u64);

impl SequenceLock for Still {
    fn hold(&self, work: &mut dyn FnMut(SequenceNumber)) {
        work(SequenceNumber(self.0));
    }
}

#[test]
fn who_has_a_family_tracked_leaves_an_empty_range_behind_at_once() {
    for block in [0, 4, 300] {
        for first in [forward, backward] {
            let empty_ranges = Arc::new(EmptyRanges::default());
            let mut iter = across_deleted(block, &empty_ranges, 5_000);
            iter.reader.sequence_lock = Some(Arc::new(Still(9)));
            assert_eq!(first(&mut iter).len(), 2);
            assert!(empty_ranges.is_tracking());
            // The second reader meets what was walked over before the watch began, and no more.
            assert_eq!(forward(&mut across_deleted(block, &empty_ranges, 400)).len(), 2);
            assert_eq!(forward(&mut across_deleted(block, &empty_ranges, 50)).len(), 2);
        }
    }
}

#[test]
fn who_has_a_family_tracked_beside_a_write_makes_no_empty_range_before_it_is_seen() {
    let empty_ranges = Arc::new(EmptyRanges::default());
    let mut iter = across_deleted(0, &empty_ranges, 5_000);
    // A write at 10 may be on its way, and its writer has looked already.
    iter.reader.sequence_lock = Some(Arc::new(Still(10)));
    assert_eq!(forward(&mut iter).len(), 2);
    assert!(empty_ranges.is_tracking());
    let skips = |key: &[u8]| {
        empty_ranges.skip(key, SequenceNumber(10), u64::MAX, Direction::Forward, &mut Vec::new())
    };
    assert!((0..500).all(|number| !skips(format!("deleted {number:03}").as_bytes())));
}

/// Backward, the operand at `n` fails after a candidate of the deleted keys behind it was begun.
#[test]
fn what_was_passed_over_before_an_error_is_no_empty_range_of_a_later_search() {
    let mut entries = vec![
        Owned::new(b"a", 1, EntryKind::Put, b""),
        Owned::new(b"m", 1, EntryKind::Put, b""),
        Owned::new(b"n", 1, EntryKind::Merge, b"!"),
    ];
    for number in 0..40 {
        let key = format!("{}{number:02}", if number < 20 { "d" } else { "y" });
        entries.push(Owned::new(key.as_bytes(), 2, EntryKind::Delete, b""));
    }
    let histories = [History { entries, tombstones: Vec::new() }];
    let empty_ranges = tracking(2);
    let reader = Reader { empty_ranges: Some(empty_ranges.clone()), ..reader(9) };
    let mut iter = open_with(&histories, 0, reader, Bounds::default());
    assert!(iter.seek_for_prev(b"z").is_err());
    iter.seek_for_prev(b"e").unwrap();
    assert_eq!(iter.key(), Some(&b"a"[..]));
    let skips = |key: &[u8]| {
        empty_ranges.skip(key, SequenceNumber(9), u64::MAX, Direction::Forward, &mut Vec::new())
    };
    assert!(skips(b"d00"));
    assert!(!skips(b"m") && !skips(b"n") && !skips(b"y25"));
}

#[test]
fn a_walk_that_fails_makes_no_empty_range() {
    let empty_ranges = tracking(9);
    for operations in 20..400 {
        let mut iter = across_deleted(0, &empty_ranges, operations);
        assert!(iter.seek(b"b").is_err());
        drop(iter);
        let border = empty_ranges.skip(
            b"deleted 010",
            SequenceNumber(9),
            u64::MAX,
            Direction::Forward,
            &mut Vec::new(),
        );
        assert!(!border, "{operations}");
    }
}

/// A crossing begins anew with each key that is seen: the stretches before do not count to it.
#[test]
fn each_of_many_short_stretches_becomes_an_empty_range() {
    const STRETCHES: usize = 40;
    let deleted = |stretch: usize, number: usize| format!("{stretch:02} {number:02}").into_bytes();
    let mut entries = Vec::new();
    for stretch in 0..STRETCHES {
        let put = format!("{stretch:02}").into_bytes();
        entries.push(Owned::new(&put, 1, EntryKind::Put, b""));
        for number in 0..9 {
            entries.push(Owned::new(&deleted(stretch, number), 2, EntryKind::Delete, b""));
        }
    }
    let histories = [History { entries, tombstones: Vec::new() }];
    let empty_ranges = tracking(2);
    let reader = Reader { empty_ranges: Some(empty_ranges.clone()), ..reader(9) };
    assert_eq!(forward(&mut open_with(&histories, 0, reader, Bounds::default())).len(), STRETCHES);
    for stretch in 0..STRETCHES {
        let key = deleted(stretch, 8);
        let is_empty_range = empty_ranges.skip(
            &key,
            SequenceNumber(9),
            u64::MAX,
            Direction::Forward,
            &mut Vec::new(),
        );
        assert!(is_empty_range, "{stretch}");
    }
}
