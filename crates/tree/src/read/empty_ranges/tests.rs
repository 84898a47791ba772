//! Empty ranges against their invariants, step by step and with all steps in any order.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const FORWARD: Direction = Direction::Forward;
const BACKWARD: Direction = Direction::Backward;

fn put(key: &[u8], sequence: u64) -> Entry<'_> {
    Entry { key, sequence: SequenceNumber(sequence), kind: EntryKind::Put, value: b"" }
}

fn tracking() -> Arc<EmptyRanges> {
    let ranges = Arc::new(EmptyRanges::default());
    ranges.track(SequenceNumber::ZERO);
    ranges
}

/// Empty ranges that know of one from `start` to `end`, seen at `since`.
fn with_empty_range(start: &[u8], end: &[u8], since: u64) -> Arc<EmptyRanges> {
    let ranges = tracking();
    let candidate = ranges.candidate(start, SequenceNumber(since), FORWARD);
    candidate.expect("nothing was reported").learn(end, KEYS_MIN, 0);
    ranges
}

fn skip(ranges: &EmptyRanges, key: &[u8], snapshot: u64, direction: Direction) -> Option<Vec<u8>> {
    let mut border = Vec::new();
    ranges.skip(key, SequenceNumber(snapshot), 0, direction, &mut border).then_some(border)
}

#[test]
fn readers_from_its_snapshot_on_skip_an_empty_range() {
    let ranges = with_empty_range(b"b", b"f", 7);
    for (key, snapshot) in [(&b"a"[..], 7), (b"f", 7), (b"c", 6)] {
        assert_eq!(skip(&ranges, key, snapshot, FORWARD), None, "{key:?} at {snapshot}");
    }
    for (key, snapshot) in [(&b"b"[..], 7), (b"eee", 8)] {
        assert_eq!(skip(&ranges, key, snapshot, FORWARD).as_deref(), Some(&b"f"[..]));
        assert_eq!(skip(&ranges, key, snapshot, BACKWARD).as_deref(), Some(&b"b"[..]));
    }
}

#[test]
fn a_write_divides_an_empty_range_and_what_only_takes_away_does_not() {
    let ranges = with_empty_range(b"b", b"f", 7);
    for kind in [EntryKind::Delete, EntryKind::SingleDelete, EntryKind::RangeDelete] {
        ranges.report(&[Entry { kind, ..put(b"d", 8) }]);
    }
    assert_eq!(skip(&ranges, b"b", 9, FORWARD).as_deref(), Some(&b"f"[..]));
    for kind in [EntryKind::Put, EntryKind::Merge, EntryKind::PutExpiring, EntryKind::BlobPointer] {
        let ranges = with_empty_range(b"b", b"f", 7);
        ranges.report(&[Entry { kind, ..put(b"d", 8) }]);
        assert_eq!(skip(&ranges, b"b", 9, FORWARD).as_deref(), Some(&b"d"[..]));
        assert_eq!(skip(&ranges, b"d", 9, FORWARD), None);
        assert_eq!(skip(&ranges, b"e", 9, BACKWARD).as_deref(), Some(&b"d\0"[..]));
    }
    ranges.report(&[put(b"b", 10), put(b"d", 11), put(b"e", 12)]);
    assert_eq!(skip(&ranges, b"b", 12, FORWARD), None);
    assert_eq!(skip(&ranges, b"b\0", 12, FORWARD).as_deref(), Some(&b"d"[..]));
    assert_eq!(skip(&ranges, b"e\0", 12, BACKWARD).as_deref(), Some(&b"e\0"[..]));
}

#[test]
fn empty_ranges_that_touch_become_one_from_the_later_snapshot_on() {
    let ranges = with_empty_range(b"b", b"f", 7);
    let candidate = ranges.candidate(b"f", SequenceNumber(9), FORWARD).unwrap();
    candidate.learn(b"g", 1, 0);
    assert_eq!(skip(&ranges, b"c", 8, FORWARD), None);
    assert_eq!(skip(&ranges, b"c", 9, FORWARD).as_deref(), Some(&b"g"[..]));
    let candidate = ranges.candidate(b"b", SequenceNumber(10), BACKWARD).unwrap();
    candidate.learn(b"a", 1, 0);
    assert_eq!(skip(&ranges, b"f", 10, BACKWARD).as_deref(), Some(&b"a"[..]));
    assert_eq!(skip(&ranges, b"a", 10, FORWARD).as_deref(), Some(&b"g"[..]));
}

#[test]
fn few_keys_are_no_empty_range_of_their_own() {
    let ranges = tracking();
    let candidate = || ranges.candidate(b"b", SequenceNumber(7), FORWARD).unwrap();
    candidate().learn(b"f", KEYS_MIN - 1, 0);
    assert_eq!(skip(&ranges, b"c", 7, FORWARD), None);
    candidate().learn(b"f", KEYS_MIN, 0);
    assert!(skip(&ranges, b"c", 7, FORWARD).is_some());
}

#[test]
fn a_write_ends_a_survey_in_which_it_lies() {
    for (direction, edge, border, start, end) in
        [(FORWARD, b"b", b"f", &b"b"[..], &b"d"[..]), (BACKWARD, b"f", b"b", b"d\0", b"f")]
    {
        let ranges = tracking();
        let candidate = ranges.candidate(edge, SequenceNumber(7), direction).unwrap();
        ranges.report(&[put(b"a", 8), put(b"d", 9), put(b"g", 10)]);
        candidate.learn(border, KEYS_MIN, 0);
        assert_eq!(skip(&ranges, start, 10, FORWARD).as_deref(), Some(end));
        assert_eq!(skip(&ranges, start, 10, BACKWARD).as_deref(), Some(start));
        assert_eq!(skip(&ranges, b"d", 10, FORWARD), None);
    }
}

#[test]
fn who_cannot_know_of_all_writes_finds_no_empty_range() {
    let ranges = Arc::new(EmptyRanges::default());
    let candidate = |snapshot| ranges.candidate(b"b", SequenceNumber(snapshot), FORWARD);
    assert!(candidate(7).is_none(), "no writer reports to it");
    ranges.track(SequenceNumber(7));
    assert!(ranges.is_tracking());
    assert!(candidate(6).is_none(), "a write below 7 may have looked before");
    assert!(candidate(7).is_some());
    ranges.report(&[put(b"x", 9)]);
    assert!(candidate(8).is_none(), "a write above 8 was reported before");
    assert!(candidate(9).is_some());
    ranges.track(SequenceNumber(20));
    assert!(candidate(9).is_some(), "it is watched already");
}

#[test]
fn a_change_that_no_writer_reports_leaves_no_empty_range_behind() {
    let ranges = with_empty_range(b"b", b"f", 7);
    let began_before = ranges.candidate(b"m", SequenceNumber(8), FORWARD).unwrap();
    ranges.suspend();
    assert_eq!(skip(&ranges, b"c", 8, FORWARD), None);
    began_before.learn(b"p", KEYS_MIN, 0);
    assert_eq!(skip(&ranges, b"n", 8, FORWARD), None);
    assert!(ranges.candidate(b"g", SequenceNumber(9), FORWARD).is_none());
    ranges.report(&[put(b"x", 9)]);
    ranges.resume(SequenceNumber(9));
    assert!(ranges.candidate(b"g", SequenceNumber(9), FORWARD).is_none(), "it began before");
    ranges.candidate(b"g", SequenceNumber(10), FORWARD).unwrap().learn(b"k", KEYS_MIN, 0);
    assert!(skip(&ranges, b"h", 10, FORWARD).is_some());
}

#[test]
fn a_family_in_which_nobody_skips_is_not_tracked_for_ever() {
    let ranges = with_empty_range(b"b", b"f", 1);
    let reports = |count: u32| (0..count).for_each(|_| ranges.report(&[put(b"x", 2)]));
    reports(REPORTS_IN_VAIN_MAX);
    assert!(skip(&ranges, b"c", 2, FORWARD).is_some());
    reports(REPORTS_IN_VAIN_MAX);
    assert!(ranges.is_tracking());
    let candidate = ranges.candidate(b"g", SequenceNumber(2), FORWARD).unwrap();
    reports(1);
    assert!(!ranges.is_tracking());
    // What is written from here on is not reported.
    ranges.track(SequenceNumber(3));
    candidate.learn(b"h", KEYS_MIN, 0);
    assert_eq!(skip(&ranges, b"c", 3, FORWARD), None);
    assert_eq!(skip(&ranges, b"g", 3, FORWARD), None);
}

#[test]
fn bounds_hold() {
    let ranges = tracking();
    let key = |number: usize| format!("{number:08}").into_bytes();
    let add = |number: usize| {
        let candidate = ranges.candidate(&key(2 * number), SequenceNumber(1), FORWARD).unwrap();
        candidate.learn(&key(2 * number + 1), KEYS_MIN, 0);
    };
    let is_empty_range = |number: usize| skip(&ranges, &key(2 * number), 1, FORWARD).is_some();
    (0..EMPTY_RANGES_MAX).for_each(add);
    assert!(is_empty_range(0));
    add(EMPTY_RANGES_MAX);
    assert!(is_empty_range(0) && is_empty_range(EMPTY_RANGES_MAX), "was of use lately");
    assert!(!is_empty_range(1), "was of use least lately");
    ranges.report(&[put(&[&key(0)[..], b"x"].concat(), 2)]);
    assert!(!is_empty_range(2), "what is divided is one more");
    assert_eq!(ranges.lock().ranges.len(), EMPTY_RANGES_MAX);

    let candidate = |edge: &[u8]| ranges.candidate(edge, SequenceNumber(2), BACKWARD);
    let candidates: Vec<_> =
        (0..EMPTY_RANGE_CANDIDATES_MAX).map(|_| candidate(b"x").unwrap()).collect();
    assert!(candidate(b"x").is_none());
    drop(candidates);
    assert!(candidate(b"x").is_some());

    let long = vec![b'k'; EMPTY_RANGE_KEY_BYTES_MAX + 1];
    assert!(candidate(&long).is_none());
    let longest = &long[..EMPTY_RANGE_KEY_BYTES_MAX];
    candidate(longest).unwrap().learn(b"j", KEYS_MIN, 0);
    assert_eq!(skip(&ranges, b"ja", 2, FORWARD).as_deref(), Some(longest));
    ranges.candidate(longest, SequenceNumber(2), FORWARD).unwrap().learn(&long, KEYS_MIN, 0);
    assert_eq!(skip(&ranges, longest, 2, FORWARD), None);
    ranges.report(&[put(&[&b"ja"[..], longest].concat(), 3)]);
    assert_eq!(skip(&ranges, b"ja", 3, FORWARD), None);
}

/// Keys of the model are single bytes below this.
const KEYS: u8 = 12;

#[derive(Clone, Debug)]
enum Step {
    /// A writer gets its number; it puts, or it deletes.
    Reserve(u8, EntryKind),
    /// One of the writers that have numbers looks whether it is to report.
    Look(u8),
    /// One of the writers that have numbers reports, if it is to.
    Report(u8),
    /// The oldest of them publishes.
    Publish,
    Watch,
    Sleep,
    /// A reader of the present begins to look, or one so much older.
    Candidate(u8, Direction, u64),
    /// One of them ends.
    Close(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(EntryKind::Put), Just(EntryKind::Delete)];
    let direction = prop_oneof![Just(FORWARD), Just(BACKWARD)];
    prop_oneof![
        4 => (0..KEYS, kind).prop_map(|(key, kind)| Step::Reserve(key, kind)),
        2 => any::<u8>().prop_map(Step::Look),
        2 => any::<u8>().prop_map(Step::Report),
        4 => Just(Step::Publish),
        3 => Just(Step::Watch),
        1 => Just(Step::Sleep),
        4 => (0..KEYS, direction, prop_oneof![4 => Just(0_u64), 1 => 1_u64..4])
            .prop_map(|(key, direction, age)| Step::Candidate(key, direction, age)),
        4 => any::<u8>().prop_map(Step::Close),
    ]
}

struct Commit {
    key: [u8; 1],
    kind: EntryKind,
    sequence: u64,
    stage: Stage,
}

/// How far a commit is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reserved,
    ToReport,
    Done,
}

impl Commit {
    fn look(&mut self, ranges: &EmptyRanges) {
        if self.stage == Stage::Reserved {
            self.stage = if ranges.is_tracking() { Stage::ToReport } else { Stage::Done };
        }
    }

    fn report(&mut self, ranges: &EmptyRanges) {
        self.look(ranges);
        if self.stage == Stage::ToReport {
            let entry = put(&self.key, self.sequence);
            ranges.report(&[Entry { kind: self.kind, ..entry }]);
            self.stage = Stage::Done;
        }
    }
}

/// Writers, readers and what they have written and read.
#[derive(Default)]
struct Model {
    handed_out: u64,
    in_flight: VecDeque<Commit>,
    published: Vec<Commit>,
    readers: Vec<(Option<Candidate>, u8, Direction, u64)>,
}

impl Model {
    fn sees(&self, key: u8, snapshot: u64) -> bool {
        let mut versions = self.published.iter().rev();
        let last = versions.find(|commit| commit.key == [key] && commit.sequence <= snapshot);
        last.is_some_and(|last| last.kind == EntryKind::Put)
    }

    fn take(&mut self, step: &Step, ranges: &Arc<EmptyRanges>) {
        match *step {
            Step::Reserve(key, kind) => {
                self.handed_out += 1;
                let (sequence, stage) = (self.handed_out, Stage::Reserved);
                self.in_flight.push_back(Commit { key: [key], kind, sequence, stage });
            }
            Step::Look(which) | Step::Report(which) => {
                let count = self.in_flight.len().max(1);
                let commit = self.in_flight.get_mut(usize::from(which) % count);
                match (commit, step) {
                    (Some(commit), Step::Look(_)) => commit.look(ranges),
                    (Some(commit), _) => commit.report(ranges),
                    (None, _) => {}
                }
            }
            Step::Publish => {
                if let Some(mut commit) = self.in_flight.pop_front() {
                    commit.report(ranges);
                    self.published.push(commit);
                }
            }
            Step::Watch => ranges.track(SequenceNumber(self.handed_out)),
            Step::Sleep => ranges.sleep(&mut ranges.lock()),
            Step::Candidate(key, direction, age) => {
                let present = self.published.last().map_or(0, |commit| commit.sequence);
                let snapshot = present.saturating_sub(age);
                let candidate = ranges.candidate(&[key], SequenceNumber(snapshot), direction);
                self.readers.push((candidate, key, direction, snapshot));
            }
            Step::Close(which) => {
                let count = self.readers.len().max(1);
                if usize::from(which) % count < self.readers.len() {
                    let reader = self.readers.swap_remove(usize::from(which) % count);
                    self.learn(reader);
                }
            }
        }
    }

    /// Ends a candidate where its reader sees a key.
    fn learn(
        &self,
        (candidate, edge, direction, snapshot): (Option<Candidate>, u8, Direction, u64),
    ) {
        let Some(candidate) = candidate else { return };
        match direction {
            FORWARD => {
                let seen = (edge..KEYS).find(|&key| self.sees(key, snapshot));
                candidate.learn(&[seen.unwrap_or(KEYS)], KEYS_MIN, 0);
            }
            BACKWARD => {
                let seen = (0..edge).rev().find(|&key| self.sees(key, snapshot));
                candidate.learn(&[seen.map_or(0, |key| key + 1)], KEYS_MIN, 0);
            }
        }
    }

    /// No reader that can exist sees what lies in an empty range.
    fn check(&self, ranges: &EmptyRanges) {
        let present = self.published.last().map_or(0, |commit| commit.sequence);
        for snapshot in 0..=present {
            for key in 0..KEYS {
                let Some(end) = skip(ranges, &[key], snapshot, FORWARD) else { continue };
                let start = skip(ranges, &[key], snapshot, BACKWARD).unwrap();
                let is_inside = |key: &u8| start[..] <= [*key][..] && [*key][..] < end[..];
                for inside in (0..KEYS).filter(is_inside) {
                    assert!(!self.sees(inside, snapshot), "{inside} at {snapshot}: {ranges:?}");
                }
            }
        }
        let known = ranges.lock();
        assert!(known.ranges.iter().all(|range| range.start < range.end));
        assert!(known.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nobody_sees_a_key_in_an_empty_range(steps in proptest::collection::vec(step(), 0..80)) {
        let ranges = Arc::new(EmptyRanges::default());
        let mut model = Model::default();
        for step in &steps {
            model.take(step, &ranges);
            model.check(&ranges);
        }
    }
}

/// A write into what a reader looks through, while the family comes to be tracked. If `again`, it
/// is for the second time, and while the first watch ends.
#[cfg(loom)]
fn loom_write_and_look(again: bool) {
    use crate::read::commit_hook::CommitHook;
    use siltdb_base::sync::{
        atomic::{AtomicU64, Ordering},
        thread,
    };

    loom::model(move || {
        let mut hook = CommitHook::default();
        let ranges = hook.add(EmptyRanges::new);
        let hook = Arc::new(hook);
        if again {
            ranges.track(SequenceNumber::ZERO);
        }
        let tail = loom::sync::Arc::new(Mutex::new(0_u64));
        let published = loom::sync::Arc::new(AtomicU64::new(0));
        let writer = thread::spawn({
            let (hook, tail, published) = (hook.clone(), tail.clone(), published.clone());
            move || {
                let sequence = {
                    let mut last = tail.lock().unwrap();
                    *last += 1;
                    *last
                };
                hook.run(&[put(b"d", sequence)]);
                published.store(sequence, Ordering::Release);
            }
        });
        if again {
            ranges.sleep(&mut ranges.lock());
        }
        {
            let last = tail.lock().unwrap();
            ranges.track(SequenceNumber(*last));
        }
        let snapshot = published.load(Ordering::Acquire);
        if let Some(candidate) = ranges.candidate(b"b", SequenceNumber(snapshot), FORWARD) {
            let border = if snapshot == 0 { b"f" } else { b"d" };
            candidate.learn(border, KEYS_MIN, 0);
        }
        let snapshot = published.load(Ordering::Acquire);
        let end = skip(&ranges, b"b", snapshot, FORWARD);
        assert!(snapshot == 0 || end.is_none_or(|end| end.as_slice() <= &b"d"[..]));
        writer.join().unwrap();
    });
}

#[cfg(loom)]
#[test]
fn loom_a_write_is_reported_or_seen() {
    loom_write_and_look(false);
}

#[cfg(loom)]
#[test]
fn loom_a_write_is_reported_or_seen_when_the_watch_is_another() {
    loom_write_and_look(true);
}

#[test]
fn an_ingest_forgets_all_and_readers_before_it_learn_nothing() {
    let ranges = with_empty_range(b"b", b"f", 7);
    let begun = ranges.candidate(b"m", SequenceNumber(7), FORWARD).unwrap();
    ranges.ingesting(SequenceNumber(9));
    assert_eq!(skip(&ranges, b"c", 9, FORWARD), None);
    begun.learn(b"p", KEYS_MIN, 0);
    assert_eq!(skip(&ranges, b"n", 9, FORWARD), None);
    assert!(ranges.candidate(b"b", SequenceNumber(8), FORWARD).is_none());
    let later = ranges.candidate(b"b", SequenceNumber(9), FORWARD).unwrap();
    later.learn(b"f", KEYS_MIN, 0);
    assert_eq!(skip(&ranges, b"c", 9, FORWARD).as_deref(), Some(&b"f"[..]));
}
