//! Which log files must not be used again yet: those that are read, and those that are retained.
//!
//! Pins and retention keep files, not the place where recovery begins: that is what flushes make of
//! it. So a retired segment is replayed by no recovery, and a pin does not outlive its process.

use siltdb_base::{
    clock::Clock,
    id::{SegmentId, SequenceNumber},
    sync::lock,
};
use siltdb_disk::log::record::LogPosition;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A segment file, as far as retiring it needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSlot {
    /// Its id.
    pub id: SegmentId,
    /// The slot of its file.
    pub slot: u64,
}

/// A segment whose file still has its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSegment {
    /// The file.
    pub slot: SegmentSlot,
    /// The sequence number with which its first record begins.
    pub first: SequenceNumber,
    /// Where the segment before it ended; `ZERO` if that is not known.
    pub previous: LogPosition,
    /// Length of what was filled, in bytes; 0 as long as no segment follows.
    pub bytes: u64,
    /// Where it comes from.
    pub origin: Origin,
}

/// How a segment came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This process began or replayed it: up to its end its records are sound.
    Ours,
    /// It was retired when the database was opened, so a loss of power may have taken its end.
    Retained,
}

/// How much of the log outlives its flush.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// The newest retired segments stay up to this many bytes together.
    pub bytes: u64,
    /// And those that were retired less than this long ago, by this clock.
    pub time: Option<(Duration, Arc<dyn Clock>)>,
    /// A feed that keeps more bytes of retired segments than this, beyond what is retained anyway,
    /// loses its pin.
    pub feed_bytes_max: u64,
}

/// The pins of a log.
///
/// # Thread safety
/// Everything may be called from any thread.
///
/// # Invariants
/// 1. A retired segment is let go only if no pin is at it or before it, and no later one was let go
///    before.
/// 2. `segments` has each segment that was begun, replayed or found retained, until it is let go.
#[derive(Debug, Default)]
pub struct Pins {
    retention: Retention,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many pins there are at each segment.
    pinned: BTreeMap<SegmentId, usize>,
    /// The segment of each feed, by its number.
    feeds: BTreeMap<u64, SegmentId>,
    next_feed: u64,
    segments: BTreeMap<SegmentId, KnownSegment>,
    /// Retired segments that were not let go, oldest first.
    kept: Vec<Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    slot: SegmentSlot,
    /// When it was retired, by the monotonic clock.
    retired_ns: u64,
}

/// Keeps a segment and all later ones until it is dropped.
#[derive(Debug)]
pub struct Pin {
    pins: Arc<Pins>,
    segment: SegmentId,
}

/// Keeps what a feed has not read yet, until it is dropped or keeps too much.
#[derive(Debug)]
pub struct FeedPin {
    pins: Arc<Pins>,
    number: u64,
}

/// Where a sequence number lies in the log.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The last segment that begins at or before it.
    pub segment: KnownSegment,
    /// The segment after that one.
    pub following: Option<KnownSegment>,
}

impl Pins {
    /// No pins yet.
    #[must_use]
    pub fn new(retention: Retention) -> Self {
        Self { retention, state: Mutex::default() }
    }

    /// Notes a segment, before anything in it is published.
    pub fn begin(&self, segment: KnownSegment) {
        let mut state = lock(&self.state);
        if let Some(before) = state.segments.get_mut(&segment.previous.segment) {
            before.bytes = segment.previous.offset;
        }
        state.segments.insert(segment.slot.id, segment);
    }

    /// Notes segments that an opening found retired, oldest first.
    pub fn retain(&self, segments: &[KnownSegment]) {
        let retired_ns = self.now_ns();
        let mut state = lock(&self.state);
        for segment in segments {
            state.segments.insert(segment.slot.id, *segment);
            state.kept.push(Kept { slot: segment.slot, retired_ns });
        }
    }

    /// Whether the file of `slot` is that of a known segment.
    #[must_use]
    pub fn has_slot(&self, slot: u64) -> bool {
        lock(&self.state).segments.values().any(|segment| segment.slot.slot == slot)
    }

    /// Keeps the segments from `segment` on, which must not be retired yet.
    #[must_use]
    pub fn pin(self: &Arc<Self>, segment: SegmentId) -> Pin {
        *lock(&self.state).pinned.entry(segment).or_default() += 1;
        Pin { pins: Arc::clone(self), segment }
    }

    /// Keeps what is needed to read the log from `sequence` on.
    ///
    /// # Errors
    /// The oldest sequence number that can be read, if it is a later one; `end`, the next one to be
    /// given, if the log has no segment.
    pub fn follow(
        self: &Arc<Self>,
        sequence: SequenceNumber,
        end: SequenceNumber,
    ) -> Result<FeedPin, SequenceNumber> {
        let mut state = lock(&self.state);
        let segment = match state.find(sequence) {
            Some(found) => found.segment.slot.id,
            // There is no segment: whichever comes next has it.
            None if sequence >= end => SegmentId(0),
            None => return Err(state.oldest().unwrap_or(end)),
        };
        let number = state.next_feed;
        state.next_feed += 1;
        state.feeds.insert(number, segment);
        Ok(FeedPin { pins: Arc::clone(self), number })
    }

    /// The oldest sequence number that the log still has; `None` if it has no segment.
    #[must_use]
    pub fn oldest(&self) -> Option<SequenceNumber> {
        lock(&self.state).oldest()
    }

    /// Takes retired segments, and lets go of those that nothing keeps, of earlier ones as well.
    #[must_use]
    pub fn retire(&self, segments: &[SegmentSlot]) -> Vec<SegmentSlot> {
        let now_ns = self.now_ns();
        let mut state = lock(&self.state);
        state.kept.extend(segments.iter().map(|slot| Kept { slot: *slot, retired_ns: now_ns }));
        let retained = self.retained(&state, now_ns);
        state.drop_slow_feeds(retained, self.retention.feed_bytes_max);
        let pinned = match cfg!(seeded_fault = "ignore_log_pins") {
            true => None,
            false => state.pinned.keys().chain(state.feeds.values()).min().copied(),
        };
        let first = pinned.into_iter().chain(retained).min();
        let (kept, free): (Vec<Kept>, Vec<Kept>) = std::mem::take(&mut state.kept)
            .into_iter()
            .partition(|kept| first.is_some_and(|first| first <= kept.slot.id));
        state.kept = kept;
        free.iter().for_each(|free| {
            state.segments.remove(&free.slot.id);
        });
        free.into_iter().map(|free| free.slot).collect()
    }

    /// The oldest retired segment that the options keep.
    fn retained(&self, state: &State, now_ns: u64) -> Option<SegmentId> {
        let mut bytes = 0_u64;
        let mut first = None;
        for kept in state.kept.iter().rev() {
            bytes += state.bytes_of(kept.slot.id);
            let age = Duration::from_nanos(now_ns.saturating_sub(kept.retired_ns));
            let is_young = self.retention.time.as_ref().is_some_and(|(time, _)| age < *time);
            let is_within = self.retention.bytes > 0 && bytes <= self.retention.bytes;
            if !is_young && !is_within {
                break;
            }
            first = Some(kept.slot.id);
        }
        first
    }

    fn now_ns(&self) -> u64 {
        self.retention.time.as_ref().map_or(0, |(_, clock)| clock.monotonic_ns())
    }
}

impl State {
    fn find(&self, sequence: SequenceNumber) -> Option<Found> {
        let mut following = None;
        for segment in self.segments.values().rev() {
            if segment.first <= sequence {
                return Some(Found { segment: *segment, following });
            }
            following = Some(*segment);
        }
        None
    }

    fn oldest(&self) -> Option<SequenceNumber> {
        self.segments.values().next().map(|segment| segment.first)
    }

    fn bytes_of(&self, segment: SegmentId) -> u64 {
        self.segments.get(&segment).map_or(0, |segment| segment.bytes)
    }

    /// Takes the pins of feeds that alone keep more than `max` bytes of the segments before
    /// `retained`.
    fn drop_slow_feeds(&mut self, retained: Option<SegmentId>, max: u64) {
        let feeds = std::mem::take(&mut self.feeds);
        let is_slow = |segment: SegmentId| {
            let ids = self.kept.iter().map(|kept| kept.slot.id);
            let beyond =
                ids.filter(|id| segment <= *id && retained.is_none_or(|retained| *id < retained));
            beyond.map(|id| self.bytes_of(id)).sum::<u64>() > max
        };
        self.feeds = feeds.into_iter().filter(|(_, segment)| !is_slow(*segment)).collect();
    }
}

impl FeedPin {
    /// Where `sequence` lies, if the pin still keeps it; from now on it keeps nothing before that
    /// segment.
    #[must_use]
    pub fn advance(&self, sequence: SequenceNumber) -> Option<Found> {
        let mut state = lock(&self.pins.state);
        let found = state.find(sequence)?;
        *state.feeds.get_mut(&self.number)? = found.segment.slot.id;
        Some(found)
    }

    /// Whether it still keeps what it was made for.
    #[must_use]
    pub fn is_held(&self) -> bool {
        lock(&self.pins.state).feeds.contains_key(&self.number)
    }
}

impl Drop for FeedPin {
    fn drop(&mut self) {
        lock(&self.pins.state).feeds.remove(&self.number);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = lock(&self.pins.state);
        if let Some(count) = state.pinned.get_mut(&self.segment) {
            *count -= 1;
            if *count == 0 {
                state.pinned.remove(&self.segment);
            }
        }
    }
}

#[cfg(test)]
mod tests;
