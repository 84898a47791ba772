//! Iterators and point reads against the definition of the operations.

use crate::{
    fixture::new_cache,
    read::empty_ranges::EmptyRanges,
    read::folds::Folds,
    read::merge::{
        Merge, MergeSource,
        fixture::{Owned, VecCursor},
    },
    read::visible::{
        bounds::Bounds,
        iter::VisibleIter,
        model::{History, KEYS, ModelOperation, NOW_MS, key, merge, operations, reader},
        point::{KeyVersion, Point},
        reader::Reader,
    },
};
use proptest::prelude::*;
use siltdb_base::{
    clock::ManualClock,
    cursor::{Direction, Fetch},
    error::{ErrorKind, Result},
    id::SequenceNumber,
    key::EntryKind,
    slice::Pinnable,
};
use std::{
    cmp::Reverse,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

mod separated;
mod skip;

fn open(histories: &[History], block: usize, snapshot: u64) -> VisibleIter<VecCursor> {
    open_with(histories, block, reader(snapshot), Bounds::default())
}

fn open_with(
    histories: &[History],
    block: usize,
    reader: Reader,
    bounds: Bounds,
) -> VisibleIter<VecCursor> {
    let tombstones = histories.iter().map(History::fragments).collect();
    VisibleIter::new(merge(histories, block), tombstones, reader, bounds)
}

/// Empty ranges that know of none yet, and are told of all writes after `last`.
fn tracking(last: u64) -> Arc<EmptyRanges> {
    let empty_ranges = Arc::new(EmptyRanges::default());
    empty_ranges.track(SequenceNumber(last));
    empty_ranges
}

type Pair = (Vec<u8>, Vec<u8>);

fn shown(iter: &VisibleIter<VecCursor>) -> Option<Pair> {
    assert_eq!(iter.key().is_some(), iter.value().is_some());
    Some((iter.key()?.to_vec(), iter.value()?.to_vec()))
}

fn forward(iter: &mut VisibleIter<VecCursor>) -> Vec<Pair> {
    iter.seek_to_first().unwrap();
    let mut pairs = Vec::new();
    while let Some(pair) = shown(iter) {
        pairs.push(pair);
        iter.next().unwrap();
    }
    pairs
}

fn backward(iter: &mut VisibleIter<VecCursor>) -> Vec<Pair> {
    iter.seek_to_last().unwrap();
    let mut pairs = Vec::new();
    while let Some(pair) = shown(iter) {
        pairs.push(pair);
        iter.prev().unwrap();
    }
    pairs.reverse();
    pairs
}

#[derive(Clone, Debug)]
enum Move {
    First,
    Last,
    Seek(u8),
    SeekForPrev(u8),
    Next(u8),
    Prev(u8),
    /// At most as many as the first, until as many as the second were shown.
    Walk(u8, u8),
    WalkBack(u8, u8),
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => (0..=KEYS).prop_map(Move::Seek),
        2 => (0..=KEYS).prop_map(Move::SeekForPrev),
        4 => (1_u8..12).prop_map(Move::Next),
        4 => (1_u8..12).prop_map(Move::Prev),
        4 => (0_u8..20, 1_u8..40).prop_map(|(limit, enough)| Move::Walk(limit, enough)),
        4 => (0_u8..20, 1_u8..40).prop_map(|(limit, enough)| Move::WalkBack(limit, enough)),
    ]
}

/// Walks, and says how far.
fn walk(
    iter: &mut VisibleIter<VecCursor>,
    pairs: &[Pair],
    fetch: Fetch,
    direction: Direction,
    (limit, enough): (u8, u8),
) -> usize {
    let with_values = fetch == Fetch::Values;
    let mut seen = Vec::new();
    let walked = iter.walk(direction, u64::from(limit), |key, value| {
        seen.push((key.to_vec(), if with_values { value.to_vec() } else { Vec::new() }));
        match seen.len() < usize::from(enough) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    let pairs: Vec<&Pair> = match direction {
        Direction::Forward => pairs.iter().collect(),
        Direction::Backward => pairs.iter().rev().collect(),
    };
    let wanted = pairs.into_iter().take(usize::from(limit.min(enough))).cloned();
    let wanted: Vec<Pair> = match with_values {
        true => wanted.collect(),
        false => wanted.map(|(key, _)| (key, Vec::new())).collect(),
    };
    assert_eq!(seen, wanted, "limit {limit}, enough {enough}");
    assert_eq!(walked.unwrap(), wanted.len() as u64);
    wanted.len()
}

/// Makes one step of `step`; the answer is where that leads among `pairs`.
fn go(
    iter: &mut VisibleIter<VecCursor>,
    pairs: &[Pair],
    fetch: Fetch,
    at: Option<usize>,
    step: &Move,
) -> Option<usize> {
    match *step {
        Move::First => {
            iter.seek_to_first().unwrap();
            Some(0)
        }
        Move::Last => {
            iter.seek_to_last().unwrap();
            pairs.len().checked_sub(1)
        }
        Move::Seek(number) => {
            iter.seek(&key(number)).unwrap();
            Some(pairs.partition_point(|pair| pair.0 < key(number)))
        }
        Move::SeekForPrev(number) => {
            iter.seek_for_prev(&key(number)).unwrap();
            pairs.partition_point(|pair| pair.0 <= key(number)).checked_sub(1)
        }
        Move::Next(_) => {
            iter.next().unwrap();
            at.map(|at| at + 1)
        }
        Move::Prev(_) => {
            iter.prev().unwrap();
            at.and_then(|at| at.checked_sub(1))
        }
        Move::Walk(limit, enough) => {
            at.map(|at| at + walk(iter, &pairs[at..], fetch, Direction::Forward, (limit, enough)))
        }
        Move::WalkBack(limit, enough) => at.and_then(|at| {
            (at + 1).checked_sub(
                1 + walk(iter, &pairs[..=at], fetch, Direction::Backward, (limit, enough)),
            )
        }),
    }
    .filter(|&at| at < pairs.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn scans_at_every_snapshot_show_what_the_operations_mean(
        operations in operations(),
        sources in 1_usize..5,
        block in 0_usize..5,
    ) {
        let histories = History::distribute(&operations, sources);
        let all = History::union(&histories);
        for snapshot in 0..=all.sequence_max() + 1 {
            let expected: Vec<_> = all.seen_at(snapshot).into_iter().collect();
            let mut iter = open(&histories, block, snapshot);
            prop_assert_eq!(&forward(&mut iter), &expected, "forward at {}", snapshot);
            prop_assert_eq!(&backward(&mut iter), &expected, "backward at {}", snapshot);
        }
    }

    #[test]
    fn empty_ranges_change_nothing_about_what_is_seen(
        operations in operations(),
        sources in 1_usize..5,
        block in 0_usize..5,
    ) {
        let histories = History::distribute(&operations, sources);
        let all = History::union(&histories);
        let empty_ranges = tracking(0);
        for present in 0..=all.sequence_max() + 1 {
            let written = all.entries.iter().filter(|entry| entry.sequence.0 == present);
            empty_ranges.report(&written.map(Owned::borrow).collect::<Vec<_>>());
            for snapshot in [present, present, present / 2] {
                let expected: Vec<_> = all.seen_at(snapshot).into_iter().collect();
                let known = Some(empty_ranges.clone());
                let reader = Reader { empty_ranges: known, ..reader(snapshot) };
                let mut iter = open_with(&histories, block, reader, Bounds::default());
                prop_assert_eq!(&forward(&mut iter), &expected, "forward at {}", snapshot);
                prop_assert_eq!(&backward(&mut iter), &expected, "backward at {}", snapshot);
            }
        }
    }

    #[test]
    fn folds_of_other_readers_change_nothing_about_what_is_seen(
        operations in operations(),
        sources in 1_usize..5,
        block in 0_usize..5,
        snapshots in proptest::collection::vec(0_u64..90, 1..20),
    ) {
        let histories = History::distribute(&operations, sources);
        let all = History::union(&histories);
        let folds = Arc::new(Folds::new(new_cache()));
        for (turn, snapshot) in snapshots.into_iter().enumerate() {
            let expected: Vec<_> = all.seen_at(snapshot).into_iter().collect();
            let reader = Reader { folds: Some(Arc::clone(&folds)), ..reader(snapshot) };
            let mut iter = open_with(&histories, block, reader.clone(), Bounds::default());
            let pairs = if turn % 2 == 0 { forward(&mut iter) } else { backward(&mut iter) };
            prop_assert_eq!(&pairs, &expected, "at {}", snapshot);
            for number in 0..KEYS {
                let key = key(number);
                let covering = all.fragments().covering(&key, SequenceNumber(snapshot));
                let mut seen: Vec<_> = all.entries.iter().collect();
                seen.retain(|entry| entry.key == key && entry.sequence.0 <= snapshot);
                seen.sort_by_key(|entry| Reverse(entry.sequence));
                let versions = seen.into_iter().map(|entry| version(entry, covering));
                let found = resolve(&key, &reader, versions);
                let expected = expected.iter().find(|pair| pair.0 == key);
                prop_assert_eq!(found.unwrap(), expected.map(|pair| pair.1.clone()));
            }
        }
    }

    #[test]
    fn moves_in_bounds_lead_where_the_definition_says(
        operations in operations(),
        sources in 1_usize..5,
        block in 0_usize..5,
        snapshot in 0_u64..80,
        lower in proptest::option::of(0..=KEYS),
        upper in proptest::option::of(0..=KEYS),
        empty_ranges in proptest::option::of(Just(0_u64)),
        moves in proptest::collection::vec(a_move(), 1..25),
    ) {
        let histories = History::distribute(&operations, sources);
        let bounds = Bounds {
            lower: lower.map(|number| key(number).into()),
            upper: upper.map(|number| key(number).into()),
        };
        let pairs: Vec<_> = History::union(&histories)
            .seen_at(snapshot)
            .into_iter()
            .filter(|(key, _)| !bounds.is_before(key) && !bounds.is_after(key))
            .collect();
        let reader = Reader { empty_ranges: empty_ranges.map(tracking), ..reader(snapshot) };
        let mut iter = open_with(&histories, block, reader.clone(), bounds);
        let mut keys_only = open_with(
            &histories,
            block,
            Reader { operator: None, blobs: None, fetch: Fetch::KeysOnly, ..reader },
            iter_bounds(lower, upper),
        );
        let (mut at, mut key_at) = (None, None);
        for step in &moves {
            let times = match step {
                Move::Next(times) | Move::Prev(times) => *times,
                _ => 1,
            };
            for _ in 0..times {
                at = go(&mut iter, &pairs, Fetch::Values, at, step);
                prop_assert_eq!(shown(&iter), at.map(|at| pairs[at].clone()), "{:?}", step);
                key_at = go(&mut keys_only, &pairs, Fetch::KeysOnly, key_at, step);
                prop_assert_eq!(keys_only.key(), key_at.map(|at| pairs[at].0.as_slice()));
            }
        }
    }

    #[test]
    fn point_reads_agree_with_the_definition_and_ask_no_more_than_needed(
        operations in operations(),
        snapshot in 0_u64..80,
    ) {
        let histories = History::distribute(&operations, 1);
        let fragments = histories[0].fragments();
        let snapshot_number = SequenceNumber(snapshot);
        let reader = reader(snapshot);
        for number in 0..KEYS {
            let key = key(number);
            let mut versions: Vec<_> =
                histories[0].entries.iter().filter(|entry| entry.key == key).collect();
            versions.retain(|entry| entry.sequence <= snapshot_number);
            versions.sort_by_key(|entry| std::cmp::Reverse(entry.sequence));
            let covering = fragments.covering(&key, snapshot_number);
            let mut asked = 0;
            let shown = versions.iter().inspect(|_| asked += 1);
            let found = resolve(&key, &reader, shown.map(|entry| version(entry, covering)));
            let expected = histories[0].get(&key, snapshot);
            prop_assert_eq!(found.unwrap(), expected);
            let operands =
                versions.iter().take_while(|entry| entry.kind == EntryKind::Merge).count();
            prop_assert!(asked <= operands + 1);
        }
    }

    #[test]
    fn failed_source_fails_the_iterator_and_shows_no_wrong_key(
        operations in operations(),
        fails_in in 0_usize..80,
        block in 0_usize..4,
    ) {
        let histories = History::distribute(&operations, 3);
        let all = History::union(&histories);
        let snapshot = all.sequence_max();
        let pairs: Vec<_> = all.seen_at(snapshot).into_iter().collect();
        let mut broken = VecCursor::new(histories[1].entries.clone(), block);
        broken.fail_in(fails_in);
        let sources = histories.iter().enumerate().map(|(index, history)| {
            let cursor = VecCursor::new(history.entries.clone(), block);
            let sequence_max = cursor.sequence_max();
            MergeSource { cursor: if index == 1 { broken.clone() } else { cursor }, sequence_max }
        });
        let tombstones = histories.iter().map(History::fragments).collect();
        let merge = Merge::new(sources.collect());
        let mut iter = VisibleIter::new(merge, tombstones, reader(snapshot), Bounds::default());
        let mut walked = 0;
        let mut result: Result<()> = iter.seek_to_first();
        while result.is_ok() {
            let Some(pair) = shown(&iter) else { break };
            prop_assert_eq!(&pair, &pairs[walked]);
            walked += 1;
            result = iter.next();
        }
        if result.is_ok() {
            prop_assert_eq!(walked, pairs.len());
        } else {
            prop_assert_eq!(shown(&iter), None);
            iter.next().unwrap();
            iter.prev().unwrap();
            prop_assert_eq!(shown(&iter), None);
            prop_assert!(iter.seek_to_last().is_err());
        }
    }
}

fn iter_bounds(lower: Option<u8>, upper: Option<u8>) -> Bounds {
    Bounds {
        lower: lower.map(|number| key(number).into()),
        upper: upper.map(|number| key(number).into()),
    }
}

#[test]
fn expired_value_is_gone_and_hides_the_older_one() {
    let mut history = History::default();
    let mut sequence = 1;
    for operation in [
        ModelOperation::Put(1),
        ModelOperation::PutExpiring(1, NOW_MS),
        ModelOperation::Put(2),
        ModelOperation::PutExpiring(2, NOW_MS + 1),
        ModelOperation::Put(3),
        ModelOperation::Blob(3, Some(NOW_MS - 1)),
    ] {
        history.apply(&operation, &mut sequence);
    }
    let mut iter = open(&[history], 4, sequence);
    let expected = vec![(key(2), b"v4".to_vec())];
    assert_eq!(forward(&mut iter), expected);
    assert_eq!(backward(&mut iter), expected);
}

#[test]
fn fold_of_operands_on_a_value_that_expires_is_good_until_then() {
    let mut history = History::default();
    let mut sequence = 1;
    for operation in [
        ModelOperation::PutExpiring(1, NOW_MS + 1),
        ModelOperation::Merge(1),
        ModelOperation::Blob(2, Some(NOW_MS + 1)),
        ModelOperation::Merge(2),
        ModelOperation::PutExpiring(3, NOW_MS + 1),
        ModelOperation::Put(3),
        ModelOperation::Merge(3),
    ] {
        history.apply(&operation, &mut sequence);
    }
    let histories = [history];
    let folds = Arc::new(Folds::new(new_cache()));
    let expired = [&b"v2"[..], b"v4", b"v6,v7"];
    for (now_ms, expected) in [
        (NOW_MS, [b"v1,v2", &b"blob3,v4"[..], b"v6,v7"]),
        (NOW_MS + 1, expired),
        (NOW_MS + 2, expired),
    ] {
        let reader = Reader {
            clock: Arc::new(ManualClock::at(Duration::from_millis(now_ms))),
            folds: Some(Arc::clone(&folds)),
            ..reader(sequence)
        };
        for direction in [Direction::Forward, Direction::Backward, Direction::Forward] {
            let mut iter = open_with(&histories, 0, reader.clone(), Bounds::default());
            let pairs = match direction {
                Direction::Forward => forward(&mut iter),
                Direction::Backward => backward(&mut iter),
            };
            let values: Vec<_> = pairs.iter().map(|pair| pair.1.as_slice()).collect();
            assert_eq!(values, expected, "{direction:?} at {now_ms}");
            let expiry_ms = |number| folds.find(&key(number)).map(|fold| fold.expiry_ms);
            let kept = (now_ms == NOW_MS).then_some(NOW_MS + 1);
            assert_eq!([1, 2, 3].map(expiry_ms), [kept, kept, None].map(Some));
        }
    }
}

#[test]
fn range_tombstone_is_skipped_not_walked() {
    let number = |number: u32| [b"key".as_slice(), &number.to_be_bytes()].concat();
    let entry = |index: u32| Owned::new(&number(index), 1 + u64::from(index), EntryKind::Put, b"");
    let old = History { entries: (0..10_000).map(entry).collect(), tombstones: Vec::new() };
    let tombstones = vec![siltdb_base::tombstone::RangeTombstone {
        start: number(10).into(),
        end: number(9_990).into(),
        sequence: SequenceNumber(20_000),
    }];
    let new = Owned::new(&number(5_000), 20_001, EntryKind::Put, b"new");
    let new = History { entries: vec![new], tombstones };
    let histories = [new, old];
    let sources = histories.iter().map(|history| {
        let mut cursor = VecCursor::new(history.entries.clone(), 0);
        // 20 visible steps per direction, few more in the range, and the seeks.
        cursor.fail_in(100);
        MergeSource { sequence_max: cursor.sequence_max(), cursor }
    });
    let tombstones = histories.iter().map(History::fragments).collect();
    let merge = Merge::new(sources.collect());
    let mut iter = VisibleIter::new(merge, tombstones, reader(30_000), Bounds::default());
    assert_eq!(forward(&mut iter).len(), 21);
    assert_eq!(backward(&mut iter).len(), 21);
}

#[test]
fn many_versions_of_one_key_are_skipped_by_a_seek() {
    let entries = (1..=1_000).map(|sequence| Owned::new(b"a", sequence, EntryKind::Put, b"x"));
    let mut entries: Vec<_> = entries.collect();
    entries.push(Owned::new(b"b", 1_001, EntryKind::Put, b"y"));
    for snapshot in [5, 500, 1_001] {
        let mut cursor = VecCursor::new(entries.clone(), 0);
        cursor.fail_in(200);
        let merge = Merge::new(vec![MergeSource { cursor, sequence_max: SequenceNumber::MAX }]);
        let mut iter = VisibleIter::new(merge, Vec::new(), reader(snapshot), Bounds::default());
        let expected = if snapshot > 1_000 { 2 } else { 1 };
        assert_eq!(forward(&mut iter).len(), expected);
    }
}

/// Goes on from where the iterator stands, and returns what it shows.
fn rest(iter: &mut VisibleIter<VecCursor>, direction: Direction) -> Vec<Pair> {
    let mut pairs = Vec::new();
    while let Some(pair) = shown(iter) {
        pairs.push(pair);
        match direction {
            Direction::Forward => iter.next().unwrap(),
            Direction::Backward => iter.prev().unwrap(),
        }
    }
    pairs
}

#[test]
fn who_panics_in_a_walk_and_goes_on_is_shown_nothing_wrong() {
    // Deletions around plain entries: an iterator that counts too many of these shows them.
    let entry = |number: u8| {
        let kind = if (8..16).contains(&number) { EntryKind::Put } else { EntryKind::Delete };
        Owned::new(&[number], 1, kind, &[number][..usize::from(kind == EntryKind::Put)])
    };
    let history = History { entries: (0..24).map(entry).collect(), tombstones: Vec::new() };
    let expected: Vec<Pair> = (8..16).map(|number| (vec![number], vec![number])).collect();
    for (direction, block) in
        [Direction::Forward, Direction::Backward].map(|it| [(it, 0), (it, 8)]).concat()
    {
        let mut iter = open(std::slice::from_ref(&history), block, 9);
        match direction {
            Direction::Forward => iter.seek_to_first().unwrap(),
            Direction::Backward => iter.seek_to_last().unwrap(),
        }
        let mut seen = 0;
        let walked = catch_unwind(AssertUnwindSafe(|| {
            iter.walk(direction, 100, |_, _| {
                seen += 1;
                assert!(seen < 5, "a panic on purpose");
                ControlFlow::Continue(())
            })
        }));
        assert!(walked.is_err());
        let rest = rest(&mut iter, direction);
        assert!(rest.iter().all(|pair| expected.contains(pair)), "{direction:?} {block}: {rest:?}");
        assert_eq!(forward(&mut iter), expected);
    }
}

#[test]
fn missing_means_are_reported_as_unsupported() {
    for (operation, without) in [
        (ModelOperation::Merge(1), Reader { operator: None, ..reader(9) }),
        (ModelOperation::Blob(1, None), Reader { blobs: None, ..reader(9) }),
    ] {
        let mut history = History::default();
        history.apply(&operation, &mut 1);
        let histories = [history];
        let mut iter = open_with(&histories, 2, without.clone(), Bounds::default());
        for error in [iter.seek_to_first().unwrap_err(), iter.seek_to_last().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(iter.key(), None);
        }
        let entry = &histories[0].entries[0];
        let found = resolve(&entry.key, &without, [version(entry, None)]);
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(forward(&mut open(&histories, 2, 9)).len(), 1);
    }
}

fn version(entry: &Owned, covering: Option<SequenceNumber>) -> KeyVersion<'_> {
    let value = Pinnable::from(entry.value.as_slice());
    KeyVersion { sequence: entry.sequence, kind: entry.kind, value, covering }
}

/// The value of a key from its versions; no more of them are shown than are wanted.
fn resolve<'v>(
    key: &[u8],
    reader: &Reader,
    versions: impl IntoIterator<Item = KeyVersion<'v>>,
) -> Result<Option<Vec<u8>>> {
    let mut point = Point::new(key, || reader.resolver(), |value| value.bytes().to_vec());
    for version in versions {
        if point.add(version)?.is_break() {
            break;
        }
    }
    point.finish()
}

#[test]
fn damaged_payload_is_corruption() {
    for (kind, payload) in [
        (EntryKind::PutExpiring, &b"short"[..]),
        (EntryKind::BlobPointer, b"\xff"),
        (EntryKind::RangeDelete, b"z"),
    ] {
        let entry = Owned::new(b"a", 1, kind, payload);
        let reader = reader(9);
        let found = resolve(b"a", &reader, [version(&entry, None)]);
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Corruption);
        let history = History { entries: vec![entry], tombstones: Vec::new() };
        let mut iter = open(&[history], 1, 9);
        assert_eq!(iter.seek_to_first().unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(iter.seek_for_prev(b"b").unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn operator_error_reaches_the_reader() {
    let entry = Owned::new(b"a", 1, EntryKind::Merge, b"!");
    let history = History { entries: vec![entry], tombstones: Vec::new() };
    let mut iter = open(&[history], 1, 9);
    assert!(iter.seek_to_first().is_err());
    assert!(iter.seek_to_last().is_err());
}

#[test]
fn prefix_bounds_hold_all_keys_of_the_prefix_and_no_others() {
    for prefix in [&b""[..], b"a", b"a\xff", b"\xff\xff", b"ab"] {
        let bounds = Bounds::prefix(prefix);
        for key in [&b""[..], b"a", b"a\xff", b"a\xff\xff", b"ab", b"abc", b"b", b"\xff\xff\xff"] {
            let is_inside = !bounds.is_before(key) && !bounds.is_after(key);
            assert_eq!(is_inside, key.starts_with(prefix), "{prefix:?} {key:?}");
        }
    }
}
