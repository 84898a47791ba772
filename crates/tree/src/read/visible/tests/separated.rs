//! Values that are left unread are those that lie apart and have no operands.

use super::*;
use crate::read::visible::resolve::BlobSource;
use siltdb_base::{key::BlobPointer, slice::Slice};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A reader that leaves values of `from` bytes and more unread, and how many its source has read.
fn leaving(snapshot: u64, from: u64) -> (Reader, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let blobs = reader(snapshot).blobs.expect("a reader with all means");
    let source = move |pointer: &BlobPointer| -> Result<Slice> {
        counted.fetch_add(1, Ordering::Relaxed);
        blobs.read(pointer)
    };
    let blobs: Option<Arc<dyn BlobSource>> = Some(Arc::new(source));
    (Reader { streamed_from: Some(from), blobs, ..reader(snapshot) }, reads)
}

/// The pair under the iterator, with the value that its reader left unread.
fn whole(iter: &VisibleIter<VecCursor>, unread: &mut usize) -> Option<Pair> {
    let mut pair = shown(iter)?;
    if let Some(pointer) = iter.unread() {
        assert!(pair.1.is_empty(), "an unread value is shown");
        *unread += 1;
        pair.1 = reader(0).resolver().fetch(pointer).unwrap().to_vec();
    }
    Some(pair)
}

fn pairs(iter: &mut VisibleIter<VecCursor>, direction: Direction) -> (Vec<Pair>, usize) {
    let (mut pairs, mut unread) = (Vec::new(), 0);
    match direction {
        Direction::Forward => iter.seek_to_first().unwrap(),
        Direction::Backward => iter.seek_to_last().unwrap(),
    }
    while let Some(pair) = whole(iter, &mut unread) {
        pairs.push(pair);
        match direction {
            Direction::Forward => iter.next().unwrap(),
            Direction::Backward => iter.prev().unwrap(),
        }
    }
    assert_eq!(iter.unread(), None, "past the end");
    if direction == Direction::Backward {
        pairs.reverse();
    }
    (pairs, unread)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_unread_and_what_is_shown_make_up_what_is_seen(
        operations in operations(),
        sources in 1_usize..5,
        block in 0_usize..5,
    ) {
        let histories = History::distribute(&operations, sources);
        let all = History::union(&histories);
        for snapshot in 0..=all.sequence_max() + 1 {
            let expected: Vec<_> = all.seen_at(snapshot).into_iter().collect();
            // All pointers of the model say 9 bytes.
            for (from, is_left) in [(9, true), (10, false)] {
                for direction in [Direction::Forward, Direction::Backward] {
                    let (reader, _) = leaving(snapshot, from);
                    let mut iter = open_with(&histories, block, reader, Bounds::default());
                    let (seen, unread) = pairs(&mut iter, direction);
                    prop_assert_eq!(&seen, &expected, "{:?} at {}", direction, snapshot);
                    prop_assert!(is_left || unread == 0, "{} values were left", unread);
                }
            }
        }
    }
}

#[test]
fn an_unread_value_is_not_read_and_one_with_an_operand_is() {
    let operations = [
        ModelOperation::Blob(1, None),
        ModelOperation::Blob(2, None),
        ModelOperation::Merge(2),
        ModelOperation::Blob(3, None),
    ];
    let histories = History::distribute(&operations.map(|operation| (0, operation)), 1);
    let expected: Vec<_> = histories[0].seen_at(9).into_iter().collect();
    for direction in [Direction::Forward, Direction::Backward] {
        let (reader, reads) = leaving(9, 1);
        let mut iter = open_with(&histories, 0, reader, Bounds::default());
        assert_eq!(pairs(&mut iter, direction), (expected.clone(), 2), "{direction:?}");
        assert_eq!(reads.load(Ordering::Relaxed), 1, "{direction:?}");
    }
}
