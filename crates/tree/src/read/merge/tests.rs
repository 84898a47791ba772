//! The merge against a sorted vector.

use super::{
    Merge, MergeSource,
    deferred::VAIN_MAX,
    fixture::{Owned, VecCursor, sort},
};
use proptest::prelude::*;
use siltdb_base::{
    cursor::{Direction, EntryCursor, Stretch, StretchContent},
    error::{ErrorKind, Result},
    id::SequenceNumber,
    key::{Entry, EntryKind, LookupKey, SortKey},
};
use std::cell::RefCell;

fn put(key: &[u8], sequence: u64) -> Owned {
    Owned::new(key, sequence, EntryKind::Put, &sequence.to_le_bytes())
}

fn merge(sources: &[VecCursor]) -> Merge<VecCursor> {
    let source = |cursor: &VecCursor| MergeSource {
        cursor: cursor.clone(),
        sequence_max: cursor.sequence_max(),
    };
    Merge::new(sources.iter().map(source).collect())
}

/// Keys that agree in the first 8 bytes, keys that do not, and the empty key.
fn key(number: u8) -> Vec<u8> {
    match number % 4 {
        0 if number == 0 => Vec::new(),
        0 => vec![0xff; usize::from(number)],
        1 => format!("user:0000{number:03}").into_bytes(),
        _ => vec![number, 0],
    }
}

#[derive(Clone, Debug)]
enum Move {
    First,
    Last,
    Seek(u8, u64),
    SeekBefore(u8, u64),
    Next(u8),
    Prev(u8),
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => (0_u8..40, 0_u64..120).prop_map(|(key, sequence)| Move::Seek(key, sequence)),
        2 => (0_u8..40, 0_u64..120).prop_map(|(key, sequence)| Move::SeekBefore(key, sequence)),
        4 => (1_u8..20).prop_map(Move::Next),
        4 => (1_u8..20).prop_map(Move::Prev),
    ]
}

/// (source, key, run): a run of neighbouring keys makes blocks that overlap nothing.
fn layout() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    proptest::collection::vec((0_usize..6, 0_u8..40, 1_u8..6), 0..40)
}

fn build(layout: &[(usize, u8, u8)], sources: usize, block: usize) -> Vec<VecCursor> {
    let mut entries = vec![Vec::new(); sources];
    let mut sequence = 0;
    for &(source, first, run) in layout {
        for number in first..first + run {
            sequence += 1;
            if sources > 0 {
                entries[source % sources].push(put(&key(number), sequence));
            }
        }
    }
    entries.into_iter().map(|entries| VecCursor::new(entries, block)).collect()
}

fn all(sources: &[VecCursor]) -> Vec<Owned> {
    let mut all = Vec::new();
    for source in sources {
        let mut cursor = source.clone();
        cursor.seek_to_first().unwrap();
        while let Some(entry) = cursor.entry() {
            all.push(Owned::from(entry));
            cursor.next().unwrap();
        }
    }
    sort(&mut all);
    all
}

/// What a span of the merge promises, checked against all entries.
fn check_span(merge: &Merge<VecCursor>, all: &[Owned], position: usize) {
    let spans = [
        merge.stretch(),
        merge.stretch_along(Direction::Forward),
        merge.stretch_along(Direction::Backward),
    ];
    for span in spans.into_iter().flatten() {
        check_one_span(&span, all, position);
    }
}

fn check_one_span(span: &Stretch<'_>, all: &[Owned], position: usize) {
    let stretch = &all[position - span.before..=position + span.after];
    assert_eq!(stretch[0].key, span.first_key);
    assert_eq!(stretch[stretch.len() - 1].key, span.last_key);
    assert!(stretch.iter().all(|entry| entry.sequence <= span.sequence_max));
    if span.content == StretchContent::Plain {
        for entry in stretch {
            assert_eq!(entry.kind, EntryKind::Put);
            assert_eq!(all.iter().filter(|other| other.key == entry.key).count(), 1);
        }
    }
}

fn go(
    merge: &mut Merge<VecCursor>,
    all: &[Owned],
    at: Option<usize>,
    step: &Move,
) -> Option<usize> {
    let bound = |number: u8, sequence: u64| {
        let place = (key(number), SequenceNumber(sequence));
        all.partition_point(|entry| entry.place() < SortKey::new(&place.0, place.1))
    };
    match *step {
        Move::First => {
            merge.seek_to_first().unwrap();
            Some(0)
        }
        Move::Last => {
            merge.seek_to_last().unwrap();
            all.len().checked_sub(1)
        }
        Move::Seek(number, sequence) => {
            merge.seek(&key(number), SequenceNumber(sequence)).unwrap();
            Some(bound(number, sequence))
        }
        Move::SeekBefore(number, sequence) => {
            merge.seek_before(&key(number), SequenceNumber(sequence)).unwrap();
            bound(number, sequence).checked_sub(1)
        }
        Move::Next(_) => {
            merge.next().unwrap();
            at.map(|at| at + 1)
        }
        Move::Prev(_) => {
            merge.prev().unwrap();
            at.and_then(|at| at.checked_sub(1))
        }
    }
    .filter(|&at| at < all.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn merge_walks_as_a_sorted_vector(
        layout in layout(),
        sources in 0_usize..7,
        block in 0_usize..6,
        moves in proptest::collection::vec(a_move(), 1..30),
    ) {
        let sources = build(&layout, sources, block);
        let all = all(&sources);
        let mut merge = merge(&sources);
        let mut at = None;
        prop_assert!(merge.entry().is_none());
        for step in &moves {
            let times = match step {
                Move::Next(times) | Move::Prev(times) => *times,
                _ => 1,
            };
            for _ in 0..times {
                at = go(&mut merge, &all, at, step);
                prop_assert_eq!(merge.entry().map(Owned::from), at.map(|at| all[at].clone()));
                if let Some(at) = at {
                    check_span(&merge, &all, at);
                }
            }
        }
    }

    #[test]
    fn failed_source_makes_the_merge_stand_nowhere_until_positioned(
        layout in layout(),
        count in 1_usize..5,
        block in 0_usize..4,
        fails_in in 0_usize..60,
    ) {
        let mut sources = build(&layout, count, block);
        let all = all(&sources);
        sources[count / 2].fail_in(fails_in);
        let mut merge = merge(&sources);
        let mut walked = 0;
        let mut result = merge.seek_to_first();
        while result.is_ok() {
            let Some(entry) = merge.entry() else { break };
            prop_assert_eq!(entry, all[walked].borrow());
            walked += 1;
            result = merge.next();
        }
        match result {
            Ok(()) => prop_assert_eq!(walked, all.len()),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Io);
                prop_assert!(merge.entry().is_none() && merge.stretch().is_none());
                merge.next().unwrap();
                merge.prev().unwrap();
                prop_assert!(merge.entry().is_none());
                prop_assert!(merge.seek_to_last().is_err());
            }
        }
    }

    #[test]
    fn duplicates_of_damaged_files_all_come_out_and_end(
        numbers in proptest::collection::vec((0_u8..5, 1_u64..3), 0..20),
        block in 0_usize..3,
    ) {
        let entries: Vec<_> =
            numbers.iter().map(|&(number, sequence)| put(&key(number), sequence)).collect();
        let sources = vec![VecCursor::new(entries.clone(), block); 3];
        let mut merge = merge(&sources);
        let mut count = 0;
        merge.seek_to_first().unwrap();
        while merge.entry().is_some() {
            count += 1;
            merge.next().unwrap();
        }
        prop_assert_eq!(count, 3 * entries.len());
        merge.seek_to_last().unwrap();
        while merge.entry().is_some() {
            count -= 1;
            merge.prev().unwrap();
        }
        prop_assert_eq!(count, 0);
    }
}

#[test]
fn hidden_entries_of_old_sources_are_skipped_and_new_ones_are_not() {
    let old: Vec<_> = (10..90_u8).map(|number| put(&[number], u64::from(number))).collect();
    let new = vec![put(&[30], 200), put(&[40], 90)];
    let mut merge = merge(&[VecCursor::new(new, 2), VecCursor::new(old, 8)]);
    merge.seek(&[20], SequenceNumber::MAX).unwrap();
    merge.skip_hidden(&[60], SequenceNumber(100)).unwrap();
    let mut keys = Vec::new();
    while let Some(entry) = merge.entry() {
        keys.push(entry.key[0]);
        merge.next().unwrap();
    }
    assert_eq!(keys[..3], [30, 40, 60]);
    merge.seek_before(&[60], SequenceNumber::MAX).unwrap();
    merge.skip_hidden(&[20], SequenceNumber(100)).unwrap();
    let mut keys = Vec::new();
    while let Some(entry) = merge.entry() {
        keys.push(entry.key[0]);
        merge.prev().unwrap();
    }
    assert_eq!(keys[..3], [40, 30, 19]);
}

#[test]
fn block_that_overlaps_nothing_is_passed_on_as_a_span() {
    let low: Vec<_> = (0..64_u8).map(|number| put(&[number], 1)).collect();
    let high: Vec<_> = (64..128_u8).map(|number| put(&[number], 2)).collect();
    let mut merge = merge(&[VecCursor::new(high, 16), VecCursor::new(low, 16)]);
    let (mut forward, mut backward) = (0, 0);
    merge.seek_to_first().unwrap();
    while merge.entry().is_some() {
        forward += usize::from(merge.stretch().is_some_and(|span| span.after > 0));
        merge.next().unwrap();
    }
    merge.seek_to_last().unwrap();
    while merge.entry().is_some() {
        backward += usize::from(merge.stretch().is_some_and(|span| span.before > 0));
        merge.prev().unwrap();
    }
    assert!(forward > 100 && backward > 100, "in spans: {forward} and {backward} of 128");
}

/// A source that notes what is asked of it, beside its name.
#[derive(Debug)]
struct Witness<'l> {
    cursor: VecCursor,
    name: char,
    asked: &'l RefCell<String>,
}

impl Witness<'_> {
    fn note(&self, what: &str) {
        self.asked.borrow_mut().push_str(&format!("{what} {}, ", self.name));
    }
}

impl EntryCursor for Witness<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.entry()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.note("seek");
        self.cursor.seek(key, sequence)
    }

    fn prefetch(&self, _: &[u8], _: SequenceNumber) {
        self.note("prefetch");
    }

    fn prefetch_filter(&self, _: LookupKey<'_>) {
        self.note("prefetch filter");
    }

    fn may_hold(&self, key: LookupKey<'_>) -> bool {
        self.note("ask");
        self.cursor.holds(key.key())
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.cursor.seek_before(key, sequence)
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }
}

/// A merge of sources a, b and so on of some entries, and what is asked of them.
fn witnessed(asked: &RefCell<String>, sources: Vec<Vec<Owned>>) -> Merge<Witness<'_>> {
    let source = |(name, entries)| {
        let cursor = VecCursor::new(entries, 0);
        MergeSource { sequence_max: cursor.sequence_max(), cursor: Witness { cursor, name, asked } }
    };
    Merge::new(('a'..).zip(sources).map(source).collect())
}

/// Two sources that share no key.
fn apart() -> Vec<Vec<Owned>> {
    vec![vec![put(b"k1", 1), put(b"k2", 2)], vec![put(b"k3", 3), put(b"k4", 4)]]
}

#[test]
fn seek_to_a_key_that_is_there_searches_no_source_that_does_not_know_it() {
    let asked = RefCell::new(String::new());
    let mut merge = witnessed(&asked, apart());
    merge.seek(b"k3", SequenceNumber::MAX).unwrap();
    assert_eq!(merge.entry().unwrap().key, b"k3");
    assert_eq!(asked.take(), "prefetch filter a, prefetch filter b, ask a, ask b, seek b, ");
    // Going on from there needs it.
    merge.next().unwrap();
    assert_eq!(asked.take(), "prefetch a, seek a, ");
    assert_eq!(merge.entry().unwrap().key, b"k4");
    merge.seek(b"k1", SequenceNumber::MAX).unwrap();
    assert_eq!(merge.entry().unwrap().key, b"k1");
    merge.prev().unwrap();
    assert!(merge.entry().is_none());
}

#[test]
fn seek_searches_no_source_that_can_only_be_older_than_what_was_found() {
    let asked = RefCell::new(String::new());
    let mut merge = witnessed(&asked, vec![vec![put(b"k", 5)], vec![put(b"k", 3), put(b"l", 1)]]);
    merge.seek(b"k", SequenceNumber::MAX).unwrap();
    assert_eq!(merge.entry().unwrap().sequence, SequenceNumber(5));
    assert_eq!(asked.take(), "prefetch filter a, prefetch filter b, ask a, seek a, ");
    merge.next().unwrap();
    assert_eq!(merge.entry().unwrap().sequence, SequenceNumber(3));
    // The one that may hold something newer is asked, wherever it stands.
    let mut merge = witnessed(&asked, vec![vec![put(b"k", 3)], vec![put(b"k", 5), put(b"l", 1)]]);
    merge.seek(b"k", SequenceNumber::MAX).unwrap();
    assert_eq!(merge.entry().unwrap().sequence, SequenceNumber(5));
    merge.seek(b"k", SequenceNumber(4)).unwrap();
    assert_eq!(merge.entry().unwrap().sequence, SequenceNumber(3));
}

#[test]
fn seek_asks_for_the_memory_of_all_sources_before_it_searches_one_of_those_left() {
    let asked = RefCell::new(String::new());
    let mut merge = witnessed(&asked, apart());
    merge.seek(b"k0", SequenceNumber::MAX).unwrap();
    assert!(asked.take().ends_with("ask b, prefetch a, prefetch b, seek a, seek b, "));
    // One alone looks at what it would ask for.
    let mut merge = witnessed(&asked, vec![vec![put(b"k", 1)]]);
    merge.seek(b"k", SequenceNumber::MAX).unwrap();
    assert_eq!(asked.take(), "seek a, ");
}

#[test]
fn who_goes_on_from_each_key_sought_has_all_sources_searched_at_once() {
    let asked = RefCell::new(String::new());
    let mut merge = witnessed(&asked, apart());
    let mut defers = |steps: usize| {
        merge.seek(b"k1", SequenceNumber::MAX).unwrap();
        (0..steps).for_each(|_| merge.next().unwrap());
        asked.take().contains("ask")
    };
    for _ in 1..VAIN_MAX {
        assert!(defers(1));
    }
    // Once it was not in vain.
    assert!(defers(0));
    for _ in 0..VAIN_MAX {
        assert!(defers(1));
    }
    assert!(!defers(1) && !defers(0));
}

#[test]
fn search_that_fails_half_way_leaves_nothing_to_catch_up_with() {
    let asked = RefCell::new(String::new());
    let mut merge = witnessed(&asked, [apart(), vec![vec![put(b"k0", 9)]]].concat());
    merge.sources[2].cursor.cursor.fail_in(0);
    merge.seek(b"k1", SequenceNumber::MAX).unwrap();
    assert_eq!(merge.entry().unwrap().key, b"k1");
    merge.seek(b"k0", SequenceNumber::MAX).unwrap_err();
    merge.skip_hidden(b"k2", SequenceNumber(9)).unwrap();
    merge.next().unwrap();
    assert!(merge.entry().is_none());
}
