//! Gaps against their invariants, step by step and with all steps in any order.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const FORWARD: Course = Course::Forward;
const BACKWARD: Course = Course::Backward;

fn put(key: &[u8], sequence: u64) -> Entry<'_> {
    Entry { key, sequence: SequenceNumber(sequence), kind: EntryKind::Put, value: b"" }
}

fn watched() -> Arc<Gaps> {
    let gaps = Arc::new(Gaps::default());
    gaps.watch(SequenceNumber::ZERO);
    gaps
}

/// Gaps that know of one from `start` to `end`, seen at `since`.
fn with_gap(start: &[u8], end: &[u8], since: u64) -> Arc<Gaps> {
    let gaps = watched();
    let survey = gaps.survey(start, SequenceNumber(since), FORWARD);
    survey.expect("nothing was reported").close(end, KEYS_MIN);
    gaps
}

fn leap(gaps: &Gaps, key: &[u8], snapshot: u64, course: Course) -> Option<Vec<u8>> {
    let mut border = Vec::new();
    gaps.leap(key, SequenceNumber(snapshot), course, &mut border).then_some(border)
}

#[test]
fn readers_from_its_snapshot_on_leap_over_a_gap() {
    let gaps = with_gap(b"b", b"f", 7);
    for (key, snapshot) in [(&b"a"[..], 7), (b"f", 7), (b"c", 6)] {
        assert_eq!(leap(&gaps, key, snapshot, FORWARD), None, "{key:?} at {snapshot}");
    }
    for (key, snapshot) in [(&b"b"[..], 7), (b"eee", 8)] {
        assert_eq!(leap(&gaps, key, snapshot, FORWARD).as_deref(), Some(&b"f"[..]));
        assert_eq!(leap(&gaps, key, snapshot, BACKWARD).as_deref(), Some(&b"b"[..]));
    }
}

#[test]
fn a_write_divides_a_gap_and_what_only_takes_away_does_not() {
    let gaps = with_gap(b"b", b"f", 7);
    for kind in [EntryKind::Delete, EntryKind::SingleDelete, EntryKind::RangeDelete] {
        gaps.report(&[Entry { kind, ..put(b"d", 8) }]);
    }
    assert_eq!(leap(&gaps, b"b", 9, FORWARD).as_deref(), Some(&b"f"[..]));
    for kind in [EntryKind::Put, EntryKind::Merge, EntryKind::PutExpiring, EntryKind::BlobPointer] {
        let gaps = with_gap(b"b", b"f", 7);
        gaps.report(&[Entry { kind, ..put(b"d", 8) }]);
        assert_eq!(leap(&gaps, b"b", 9, FORWARD).as_deref(), Some(&b"d"[..]));
        assert_eq!(leap(&gaps, b"d", 9, FORWARD), None);
        assert_eq!(leap(&gaps, b"e", 9, BACKWARD).as_deref(), Some(&b"d\0"[..]));
    }
    gaps.report(&[put(b"b", 10), put(b"d", 11), put(b"e", 12)]);
    assert_eq!(leap(&gaps, b"b", 12, FORWARD), None);
    assert_eq!(leap(&gaps, b"b\0", 12, FORWARD).as_deref(), Some(&b"d"[..]));
    assert_eq!(leap(&gaps, b"e\0", 12, BACKWARD).as_deref(), Some(&b"e\0"[..]));
}

#[test]
fn gaps_that_touch_become_one_from_the_later_snapshot_on() {
    let gaps = with_gap(b"b", b"f", 7);
    let survey = gaps.survey(b"f", SequenceNumber(9), FORWARD).unwrap();
    survey.close(b"g", 1);
    assert_eq!(leap(&gaps, b"c", 8, FORWARD), None);
    assert_eq!(leap(&gaps, b"c", 9, FORWARD).as_deref(), Some(&b"g"[..]));
    let survey = gaps.survey(b"b", SequenceNumber(10), BACKWARD).unwrap();
    survey.close(b"a", 1);
    assert_eq!(leap(&gaps, b"f", 10, BACKWARD).as_deref(), Some(&b"a"[..]));
    assert_eq!(leap(&gaps, b"a", 10, FORWARD).as_deref(), Some(&b"g"[..]));
}

#[test]
fn few_keys_are_no_gap_of_their_own() {
    let gaps = watched();
    let survey = || gaps.survey(b"b", SequenceNumber(7), FORWARD).unwrap();
    survey().close(b"f", KEYS_MIN - 1);
    assert_eq!(leap(&gaps, b"c", 7, FORWARD), None);
    survey().close(b"f", KEYS_MIN);
    assert!(leap(&gaps, b"c", 7, FORWARD).is_some());
}

#[test]
fn a_write_ends_a_survey_in_which_it_lies() {
    for (course, edge, border, start, end) in
        [(FORWARD, b"b", b"f", &b"b"[..], &b"d"[..]), (BACKWARD, b"f", b"b", b"d\0", b"f")]
    {
        let gaps = watched();
        let survey = gaps.survey(edge, SequenceNumber(7), course).unwrap();
        gaps.report(&[put(b"a", 8), put(b"d", 9), put(b"g", 10)]);
        survey.close(border, KEYS_MIN);
        assert_eq!(leap(&gaps, start, 10, FORWARD).as_deref(), Some(end));
        assert_eq!(leap(&gaps, start, 10, BACKWARD).as_deref(), Some(start));
        assert_eq!(leap(&gaps, b"d", 10, FORWARD), None);
    }
}

#[test]
fn who_cannot_know_of_all_writes_finds_no_gap() {
    let gaps = Arc::new(Gaps::default());
    let survey = |snapshot| gaps.survey(b"b", SequenceNumber(snapshot), FORWARD);
    assert!(survey(7).is_none(), "nobody watches");
    gaps.watch(SequenceNumber(7));
    assert!(gaps.is_watched());
    assert!(survey(6).is_none(), "a write below 7 may have looked before");
    assert!(survey(7).is_some());
    gaps.report(&[put(b"x", 9)]);
    assert!(survey(8).is_none(), "a write above 8 was reported before");
    assert!(survey(9).is_some());
    gaps.watch(SequenceNumber(20));
    assert!(survey(9).is_some(), "it is watched already");
}

#[test]
fn a_family_in_which_nobody_leaps_is_not_watched_for_ever() {
    let gaps = with_gap(b"b", b"f", 1);
    let reports = |count: u32| (0..count).for_each(|_| gaps.report(&[put(b"x", 2)]));
    reports(REPORTS_IN_VAIN_MAX);
    assert!(leap(&gaps, b"c", 2, FORWARD).is_some());
    reports(REPORTS_IN_VAIN_MAX);
    assert!(gaps.is_watched());
    let survey = gaps.survey(b"g", SequenceNumber(2), FORWARD).unwrap();
    reports(1);
    assert!(!gaps.is_watched());
    // What is written from here on is not reported.
    gaps.watch(SequenceNumber(3));
    survey.close(b"h", KEYS_MIN);
    assert_eq!(leap(&gaps, b"c", 3, FORWARD), None);
    assert_eq!(leap(&gaps, b"g", 3, FORWARD), None);
}

#[test]
fn bounds_hold() {
    let gaps = watched();
    let key = |number: usize| format!("{number:08}").into_bytes();
    let add = |number: usize| {
        let survey = gaps.survey(&key(2 * number), SequenceNumber(1), FORWARD).unwrap();
        survey.close(&key(2 * number + 1), KEYS_MIN);
    };
    let is_gap = |number: usize| leap(&gaps, &key(2 * number), 1, FORWARD).is_some();
    (0..GAPS_MAX).for_each(add);
    assert!(is_gap(0));
    add(GAPS_MAX);
    assert!(is_gap(0) && is_gap(GAPS_MAX), "was of use lately");
    assert!(!is_gap(1), "was of use least lately");
    gaps.report(&[put(&[&key(0)[..], b"x"].concat(), 2)]);
    assert!(!is_gap(2), "what is divided is one more");
    assert_eq!(gaps.lock().gaps.len(), GAPS_MAX);

    let survey = |edge: &[u8]| gaps.survey(edge, SequenceNumber(2), BACKWARD);
    let surveys: Vec<_> = (0..GAP_SURVEYS_MAX).map(|_| survey(b"x").unwrap()).collect();
    assert!(survey(b"x").is_none());
    drop(surveys);
    assert!(survey(b"x").is_some());

    let long = vec![b'k'; GAP_KEY_BYTES_MAX + 1];
    assert!(survey(&long).is_none());
    let longest = &long[..GAP_KEY_BYTES_MAX];
    survey(longest).unwrap().close(b"j", KEYS_MIN);
    assert_eq!(leap(&gaps, b"ja", 2, FORWARD).as_deref(), Some(longest));
    gaps.survey(longest, SequenceNumber(2), FORWARD).unwrap().close(&long, KEYS_MIN);
    assert_eq!(leap(&gaps, longest, 2, FORWARD), None);
    gaps.report(&[put(&[&b"ja"[..], longest].concat(), 3)]);
    assert_eq!(leap(&gaps, b"ja", 3, FORWARD), None);
}

/// Keys of the model are single bytes below this.
const KEYS: u8 = 12;

#[derive(Clone, Debug)]
enum Step {
    /// A writer gets its number; it puts, or it deletes.
    Reserve(u8, EntryKind),
    /// One of those who have numbers looks whether it is to report.
    Look(u8),
    /// One of those who have numbers reports, if it is to.
    Report(u8),
    /// The oldest of them publishes.
    Publish,
    Watch,
    Sleep,
    /// A reader of the present begins to look, or one so much older.
    Survey(u8, Course, u64),
    /// One of them ends.
    Close(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(EntryKind::Put), Just(EntryKind::Delete)];
    let course = prop_oneof![Just(FORWARD), Just(BACKWARD)];
    prop_oneof![
        4 => (0..KEYS, kind).prop_map(|(key, kind)| Step::Reserve(key, kind)),
        2 => any::<u8>().prop_map(Step::Look),
        2 => any::<u8>().prop_map(Step::Report),
        4 => Just(Step::Publish),
        3 => Just(Step::Watch),
        1 => Just(Step::Sleep),
        4 => (0..KEYS, course, prop_oneof![4 => Just(0_u64), 1 => 1_u64..4])
            .prop_map(|(key, course, age)| Step::Survey(key, course, age)),
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
    fn look(&mut self, gaps: &Gaps) {
        if self.stage == Stage::Reserved {
            self.stage = if gaps.is_watched() { Stage::ToReport } else { Stage::Done };
        }
    }

    fn report(&mut self, gaps: &Gaps) {
        self.look(gaps);
        if self.stage == Stage::ToReport {
            let entry = put(&self.key, self.sequence);
            gaps.report(&[Entry { kind: self.kind, ..entry }]);
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
    readers: Vec<(Option<Survey>, u8, Course, u64)>,
}

impl Model {
    fn sees(&self, key: u8, snapshot: u64) -> bool {
        let mut versions = self.published.iter().rev();
        let last = versions.find(|commit| commit.key == [key] && commit.sequence <= snapshot);
        last.is_some_and(|last| last.kind == EntryKind::Put)
    }

    fn take(&mut self, step: &Step, gaps: &Arc<Gaps>) {
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
                    (Some(commit), Step::Look(_)) => commit.look(gaps),
                    (Some(commit), _) => commit.report(gaps),
                    (None, _) => {}
                }
            }
            Step::Publish => {
                if let Some(mut commit) = self.in_flight.pop_front() {
                    commit.report(gaps);
                    self.published.push(commit);
                }
            }
            Step::Watch => gaps.watch(SequenceNumber(self.handed_out)),
            Step::Sleep => gaps.sleep(&mut gaps.lock()),
            Step::Survey(key, course, age) => {
                let present = self.published.last().map_or(0, |commit| commit.sequence);
                let snapshot = present.saturating_sub(age);
                let survey = gaps.survey(&[key], SequenceNumber(snapshot), course);
                self.readers.push((survey, key, course, snapshot));
            }
            Step::Close(which) => {
                let count = self.readers.len().max(1);
                if usize::from(which) % count < self.readers.len() {
                    let reader = self.readers.swap_remove(usize::from(which) % count);
                    self.close(reader);
                }
            }
        }
    }

    /// Ends a survey where its reader sees a key.
    fn close(&self, (survey, edge, course, snapshot): (Option<Survey>, u8, Course, u64)) {
        let Some(survey) = survey else { return };
        match course {
            FORWARD => {
                let seen = (edge..KEYS).find(|&key| self.sees(key, snapshot));
                survey.close(&[seen.unwrap_or(KEYS)], KEYS_MIN);
            }
            BACKWARD => {
                let seen = (0..edge).rev().find(|&key| self.sees(key, snapshot));
                survey.close(&[seen.map_or(0, |key| key + 1)], KEYS_MIN);
            }
        }
    }

    /// No reader who can exist sees what lies in a gap.
    fn check(&self, gaps: &Gaps) {
        let present = self.published.last().map_or(0, |commit| commit.sequence);
        for snapshot in 0..=present {
            for key in 0..KEYS {
                let Some(end) = leap(gaps, &[key], snapshot, FORWARD) else { continue };
                let start = leap(gaps, &[key], snapshot, BACKWARD).unwrap();
                let is_inside = |key: &u8| start[..] <= [*key][..] && [*key][..] < end[..];
                for inside in (0..KEYS).filter(is_inside) {
                    assert!(!self.sees(inside, snapshot), "{inside} at {snapshot}: {gaps:?}");
                }
            }
        }
        let known = gaps.lock();
        assert!(known.gaps.iter().all(|gap| gap.start < gap.end));
        assert!(known.gaps.windows(2).all(|pair| pair[0].end < pair[1].start));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nobody_sees_a_key_in_a_gap(steps in proptest::collection::vec(step(), 0..80)) {
        let gaps = Arc::new(Gaps::default());
        let mut model = Model::default();
        for step in &steps {
            model.take(step, &gaps);
            model.check(&gaps);
        }
    }
}

/// A write into what a reader looks through, while the family comes to be watched; if `again`, for
/// the second time, and while the first watch ends.
#[cfg(loom)]
fn loom_write_and_look(again: bool) {
    use crate::read::commit_hook::CommitHook;
    use siltdb_base::sync::{
        atomic::{AtomicU64, Ordering},
        thread,
    };

    loom::model(move || {
        let mut hook = CommitHook::default();
        let gaps = hook.add(Gaps::new);
        let hook = Arc::new(hook);
        if again {
            gaps.watch(SequenceNumber::ZERO);
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
            gaps.sleep(&mut gaps.lock());
        }
        {
            let last = tail.lock().unwrap();
            gaps.watch(SequenceNumber(*last));
        }
        let snapshot = published.load(Ordering::Acquire);
        if let Some(survey) = gaps.survey(b"b", SequenceNumber(snapshot), FORWARD) {
            let border = if snapshot == 0 { b"f" } else { b"d" };
            survey.close(border, KEYS_MIN);
        }
        let snapshot = published.load(Ordering::Acquire);
        let end = leap(&gaps, b"b", snapshot, FORWARD);
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
