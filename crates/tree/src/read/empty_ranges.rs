//! Where a family is known to hold nothing, so that readers need not walk over what was deleted.
//!
//! It knows keys and sequence numbers, not where entries lie: flushes and compactions change
//! nothing about it.
//!
//! A deletion leaves an entry behind until it is compacted away. A reader that takes the first key
//! out of a queue walks over those of all that were taken before, more each time. So a reader that
//! has walked over many has the family *tracked*. From then on writers report what they write.
//! Readers, this one the first, keep as an *empty range* the stretch of keys in which they found
//! nothing. Later readers skip it. A write into an empty range divides it.
//!
//! A family is tracked only while a reader needs it and empty ranges are of use. So a write to any
//! other family costs no more than a look at a flag.

use crate::read::commit_hook::{CommitObserver, Wish};
use siltdb_base::{
    cursor::Direction,
    id::SequenceNumber,
    invariant,
    key::{Entry, EntryKind, successor},
    limits::{EMPTY_RANGE_CANDIDATES_MAX, EMPTY_RANGE_KEY_BYTES_MAX, EMPTY_RANGES_MAX},
    sync::{Mutex, MutexGuard},
};
use std::{fmt, sync::Arc};

/// Fewest deleted keys in a row that make an empty range of their own; fewer make an empty range
/// longer at whose end they lie.
const KEYS_MIN: u32 = 8;

/// Writes (not deletions) that are reported while no reader skips; one more, and the family is no
/// longer tracked.
const REPORTS_IN_VAIN_MAX: u32 = 1 << 16;

/// Hands out sequence numbers.
pub trait SequenceLock: fmt::Debug + Send + Sync {
    /// Calls `work` with the last number that was handed out, and hands out none meanwhile. Does
    /// nothing once the database is closed.
    fn hold(&self, work: &mut dyn FnMut(SequenceNumber));
}

/// The empty ranges of a family.
///
/// # Thread safety
/// Any thread may call any method.
///
/// # Invariants
/// A *write* gives a key a value: it is neither a deletion nor an expiry.
///
/// 1. While the family is tracked, every write above `told_from` is reported before it is
///    published. For `watch` is called under the lock under which sequence numbers are handed out,
///    with the last one handed out. And a writer looks whether the family is tracked after it got
///    its own.
/// 2. No write above its snapshot lies in a candidate. When it was opened, all such writes were yet
///    to be reported, by (1) and since none had been. Those that are reported cut it.
/// 3. No reader at `since` or above and as of `as_of_ms` or later sees a key in an empty range. One
///    at both saw none, and by (2) there was no write since, when the empty range was closed. A
///    write that came later was reported before any reader could see it, and divided the empty
///    range. Deletions and time only take away.
/// 4. Empty ranges ascend, are not empty, and no two of them touch.
///
/// It observes the commits of its family while that is tracked.
#[derive(Debug, Default)]
pub struct EmptyRanges {
    /// Set while the family is tracked; changed under the lock of `known`.
    wish: Wish,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Writes above this number are reported.
    told_from: SequenceNumber,
    /// The newest write that was reported.
    told: SequenceNumber,
    ranges: Vec<EmptyRange>,
    candidates: Vec<Stretch>,
    next_candidate: u64,
    /// Counts the uses of empty ranges.
    uses: u64,
    reports_in_vain: u32,
}

/// The keys from `start` to `end`, without `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EmptyRange {
    start: Vec<u8>,
    end: Vec<u8>,
    since: SequenceNumber,
    /// A reader as of this time, in ms since 1970, saw no key.
    as_of_ms: u64,
    last_use: u64,
}

/// What a candidate may still turn out to be: the keys from `start` to `end`, without `end`.
#[derive(Debug)]
struct Stretch {
    candidate: u64,
    direction: Direction,
    start: Vec<u8>,
    /// `None` is behind every key.
    end: Option<Vec<u8>>,
    snapshot: SequenceNumber,
}

impl Stretch {
    fn holds(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }
}

impl CommitObserver for EmptyRanges {
    fn committing(&self, entries: &[Entry<'_>]) {
        self.report(entries);
    }

    fn ingesting(&self, sequence: SequenceNumber) {
        self.report_unknown(sequence);
    }
}

impl EmptyRanges {
    /// Of a family that is not tracked yet: no empty ranges. Setting `wish` has it tracked.
    #[must_use]
    pub fn new(wish: Wish) -> Self {
        Self { wish, known: Mutex::new(Known::default()) }
    }

    /// Whether writers report. They look once they have their sequence numbers, and before these
    /// are published.
    #[inline]
    #[must_use]
    pub fn is_tracking(&self) -> bool {
        self.wish.is_set()
    }

    /// Has writers report from now on. To be called under the lock under which sequence numbers are
    /// handed out, with the `last` that was.
    pub fn track(&self, last: SequenceNumber) {
        let mut known = self.lock();
        if !self.is_tracking() {
            known.told_from = last;
            self.wish.set();
        }
    }

    /// Takes note of what a writer adds, before it is published.
    #[cold]
    pub fn report(&self, entries: &[Entry<'_>]) {
        let mut writes = entries.iter().filter(|entry| gives_a_value(entry.kind)).peekable();
        if writes.peek().is_none() {
            return;
        }
        let mut known = self.lock();
        for entry in writes {
            known.told = known.told.max(entry.sequence);
            known.cut(entry.key);
            known.reports_in_vain += 1;
        }
        if known.reports_in_vain > REPORTS_IN_VAIN_MAX {
            self.sleep(&mut known);
        }
    }

    /// Forgets all empty ranges, and keeps readers from finding one until
    /// [`EmptyRanges::resume`]. For changes of the family that no writer reports.
    pub fn suspend(&self) {
        let mut known = self.lock();
        known.ranges.clear();
        known.candidates.clear();
        // Candidates are for snapshots at or above it.
        known.told = SequenceNumber::MAX;
    }

    /// Lets readers that begin from now on find empty ranges. `last` is the last sequence number
    /// that was handed out: readers that began before do not see what has changed, and have no
    /// newer snapshot.
    pub fn resume(&self, last: SequenceNumber) {
        self.lock().told = last.next();
    }

    /// Takes note of writes up to `sequence` to keys that are not known, before they are published:
    /// forgets every empty range and candidate.
    fn report_unknown(&self, sequence: SequenceNumber) {
        let mut known = self.lock();
        known.told = known.told.max(sequence);
        known.ranges.clear();
        known.candidates.clear();
    }

    /// Stops tracking the family, and forgets its empty ranges.
    fn sleep(&self, known: &mut Known) {
        known.ranges.clear();
        known.candidates.clear();
        known.reports_in_vain = 0;
        self.wish.clear();
    }

    /// Says whether a reader at `snapshot` and as of `now_ms` is in an empty range at `key`. If so,
    /// puts into `border` where the empty range ends along `direction`. Forward that is the first
    /// key that may be there, backward the one before which the next may be.
    pub fn skip(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
        now_ms: u64,
        direction: Direction,
        border: &mut Vec<u8>,
    ) -> bool {
        let known = &mut *self.lock();
        let Some(index) = known.range_at(key) else { return false };
        let range = &mut known.ranges[index];
        if range.since > snapshot || range.as_of_ms > now_ms {
            return false;
        }
        known.uses += 1;
        range.last_use = known.uses;
        known.reports_in_vain = 0;
        border.clear();
        border.extend_from_slice(match direction {
            Direction::Forward => &range.end,
            Direction::Backward => &range.start,
        });
        true
    }

    /// Begins to look for an empty range, for a reader at `snapshot` that goes on along `direction`
    /// from `edge`. Forward that is the first key of the empty range, backward the first one behind
    /// it. `None` if that would come to nothing.
    pub fn candidate(
        self: &Arc<Self>,
        edge: &[u8],
        snapshot: SequenceNumber,
        direction: Direction,
    ) -> Option<Candidate> {
        let mut known = self.lock();
        let is_told_all = known.told_from.max(known.told) <= snapshot && self.is_tracking();
        let has_room = known.candidates.len() < EMPTY_RANGE_CANDIDATES_MAX;
        if !is_told_all || !has_room || edge.len() > EMPTY_RANGE_KEY_BYTES_MAX {
            return None;
        }
        let (start, end) = match direction {
            Direction::Forward => (edge.to_vec(), None),
            Direction::Backward => (Vec::new(), Some(edge.to_vec())),
        };
        let candidate = known.next_candidate;
        known.next_candidate += 1;
        known.candidates.push(Stretch { candidate, direction, start, end, snapshot });
        Some(Candidate { ranges: Arc::clone(self), number: Some(candidate) })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Known {
    fn range_at(&self, key: &[u8]) -> Option<usize> {
        let behind = self.ranges.partition_point(|range| range.start.as_slice() <= key);
        let index = behind.checked_sub(1)?;
        (key < self.ranges[index].end.as_slice()).then_some(index)
    }

    /// Takes a key out of all that is, or may turn out to be, an empty range.
    fn cut(&mut self, key: &[u8]) {
        if let Some(index) = self.range_at(key) {
            self.divide(index, key);
        }
        for stretch in self.candidates.iter_mut().filter(|stretch| stretch.holds(key)) {
            match stretch.direction {
                Direction::Forward => stretch.end = Some(key.to_vec()),
                Direction::Backward => stretch.start = successor(key),
            }
        }
    }

    fn divide(&mut self, index: usize, key: &[u8]) {
        let range = self.ranges.remove(index);
        let (before, after) = (
            EmptyRange { end: key.to_vec(), ..range.clone() },
            EmptyRange { start: successor(key), ..range },
        );
        for part in [after, before] {
            if part.start < part.end && key.len() < EMPTY_RANGE_KEY_BYTES_MAX {
                self.ranges.insert(index, part);
            }
        }
        self.keep_bound();
    }

    /// Adds an empty range that was found by passing over `keys` deleted keys, together with those
    /// that it touches. Until it is of use it is the first to be forgotten.
    fn add(&mut self, mut range: EmptyRange, keys: u32) {
        let from = self.ranges.partition_point(|before| before.end < range.start);
        let to = self.ranges.partition_point(|other| other.start <= range.end);
        if from == to && keys < KEYS_MIN {
            return;
        }
        for other in self.ranges.drain(from..to) {
            range.start = range.start.min(other.start);
            range.end = range.end.max(other.end);
            range.since = range.since.max(other.since);
            range.as_of_ms = range.as_of_ms.max(other.as_of_ms);
            range.last_use = range.last_use.max(other.last_use);
        }
        self.ranges.insert(from, range);
        self.keep_bound();
    }

    /// Forgets the empty range that has been of no use for longest, if there are too many.
    fn keep_bound(&mut self) {
        invariant!(
            self.ranges.iter().all(|range| range.start < range.end)
                && self.ranges.is_sorted_by(|a, b| a.end < b.start),
            "empty ranges overlap or are out of order"
        );
        if self.ranges.len() > EMPTY_RANGES_MAX {
            let uses = self.ranges.iter().enumerate().map(|(index, range)| (range.last_use, index));
            let (_, oldest) = uses.min().expect("there are more than EMPTY_RANGES_MAX");
            self.ranges.remove(oldest);
        }
    }

    fn take(&mut self, candidate: u64) -> Option<Stretch> {
        let index = self.candidates.iter().position(|stretch| stretch.candidate == candidate)?;
        Some(self.candidates.swap_remove(index))
    }
}

/// A reader's search for an empty range. Dropping it ends the search without a result.
#[derive(Debug)]
pub struct Candidate {
    ranges: Arc<EmptyRanges>,
    /// `None` once it is closed.
    number: Option<u64>,
}

impl Candidate {
    /// Ends the search of a reader that saw nothing from its edge up to `border`. Forward that is
    /// the first key behind the empty range, backward the first key of it. `keys` counts the
    /// deleted keys that the reader passed on its way, also before the edge. `as_of_ms` is its
    /// time.
    pub fn learn(mut self, border: &[u8], keys: u32, as_of_ms: u64) {
        let Some(number) = self.number.take() else { return };
        let mut known = self.ranges.lock();
        let Some(stretch) = known.take(number) else { return };
        let Stretch { start, end, snapshot: since, .. } = stretch;
        let border = border.to_vec();
        let (start, end) = match (stretch.direction, end) {
            (Direction::Forward, None) => (start, border),
            (Direction::Forward, Some(end)) => (start, end.min(border)),
            (Direction::Backward, end) => (start.max(border), end.unwrap_or_default()),
        };
        if start < end && start.len().max(end.len()) <= EMPTY_RANGE_KEY_BYTES_MAX {
            known.add(EmptyRange { start, end, since, as_of_ms, last_use: 0 }, keys);
        }
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.ranges.lock().take(number);
        }
    }
}

fn gives_a_value(kind: EntryKind) -> bool {
    !kind.is_point_tombstone() && kind != EntryKind::RangeDelete
}

#[cfg(test)]
mod tests;
