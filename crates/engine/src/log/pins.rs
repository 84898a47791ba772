//! Which retired log files must not be reused yet: pinned ones and retained ones.
//!
//! Pins and retention keep files. They do not move the place where recovery begins: flushes do. So
//! no recovery replays a retired segment, and a pin does not outlive its process.

use siltdb_base::{
    clock::Clock,
    id::{SegmentId, SequenceNumber},
    invariant, seeded_fault,
    sync::{Mutex, MutexGuard},
};
use siltdb_disk::log::record::LogPosition;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// What the retirement of a segment needs to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSlot {
    /// The segment's id.
    pub id: SegmentId,
    /// The slot of its file.
    pub slot: u64,
}

/// A segment whose file still has its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSegment {
    /// The segment's id and slot.
    pub slot: SegmentSlot,
    /// The sequence number of its first record.
    pub first: SequenceNumber,
    /// The end of the segment before it; `ZERO` if that is not known.
    pub previous: LogPosition,
    /// The length of its filled part, in bytes; 0 as long as no segment follows.
    pub bytes: u64,
    /// How the segment came to be known.
    pub origin: Origin,
}

/// How a segment came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This process began or replayed it: all its records are sound.
    Ours,
    /// It was already retired when the database was opened. A power failure may have taken its end.
    Retained,
}

/// How much of the log is kept after its flush.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// The newest retired segments are kept up to this many bytes in total; 0 keeps none for size.
    pub bytes: u64,
    /// Segments retired less than this long ago, by this clock, are kept as well.
    pub time: Option<(Duration, Arc<dyn Clock>)>,
    /// The largest size of retired segments, in bytes, that one feed keeps beyond what is retained
    /// anyway. At a larger size the feed loses its pin.
    pub feed_bytes_max: u64,
}

/// The pins and the retention of a log.
///
/// # Thread safety
/// Everything may be called from any thread.
///
/// # Invariants
/// 1. A retired segment is released only if no pin is at it or before it, and no later segment was
///    released before.
/// 2. `segments` has each segment that was begun, replayed or found retained, until it is released.
#[derive(Debug)]
pub struct Pins {
    retention: Retention,
    state: Mutex<State>,
}

impl Default for Pins {
    fn default() -> Self {
        Self::new(Retention::default())
    }
}

#[derive(Debug, Default)]
struct State {
    /// The number of pins at each segment.
    pinned: BTreeMap<SegmentId, usize>,
    /// The segment of each feed, by its number.
    feeds: BTreeMap<u64, SegmentId>,
    next_feed: u64,
    segments: BTreeMap<SegmentId, KnownSegment>,
    /// Retired segments that were not released, oldest first.
    kept: Vec<Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    slot: SegmentSlot,
    /// The time of retirement, by the monotonic clock.
    retired_ns: u64,
}

/// Keeps the files of a segment and of all later ones until it is dropped.
#[derive(Debug)]
pub struct Pin {
    pins: Arc<Pins>,
    segment: SegmentId,
}

/// Keeps the files that a feed has not read yet, until it is dropped or keeps too much.
#[derive(Debug)]
pub struct FeedPin {
    pins: Arc<Pins>,
    number: u64,
}

/// The place of a sequence number in the log.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The last segment that begins at or before the number.
    pub segment: KnownSegment,
    /// The segment after that one.
    pub following: Option<KnownSegment>,
}

impl Pins {
    /// A log without pins.
    #[must_use]
    pub fn new(retention: Retention) -> Self {
        Self { retention, state: Mutex::new(State::default()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a segment. To be called before anything in it is published.
    pub fn begin(&self, segment: KnownSegment) {
        let mut state = self.lock();
        let KnownSegment { slot: SegmentSlot { id, slot }, .. } = segment;
        let newest = state.segments.last_key_value().map(|(newest, _)| *newest);
        assert!(newest.is_none_or(|newest| newest < id), "segment {id} would follow {newest:?}");
        invariant!(
            state.segments.values().all(|kept| kept.slot.slot != slot),
            "segment {id} would overwrite the one that is kept in file {slot}"
        );
        if let Some(before) = state.segments.get_mut(&segment.previous.segment) {
            before.bytes = segment.previous.offset;
        }
        state.segments.insert(segment.slot.id, segment);
    }

    /// Notes segments that an opening found retired, oldest first.
    pub fn retain(&self, segments: &[KnownSegment]) {
        let retired_ns = self.now_ns();
        let mut state = self.lock();
        for segment in segments {
            state.segments.insert(segment.slot.id, *segment);
            state.kept.push(Kept { slot: segment.slot, retired_ns });
        }
    }

    /// Whether the file of `slot` is that of a known segment.
    #[must_use]
    pub fn has_slot(&self, slot: u64) -> bool {
        self.lock().segments.values().any(|segment| segment.slot.slot == slot)
    }

    /// Pins the segments from `segment` on, none of which may be retired yet.
    #[must_use]
    pub fn pin(self: &Arc<Self>, segment: SegmentId) -> Pin {
        let mut state = self.lock();
        let retired = state.kept.last().map(|kept| kept.slot.id);
        let is_there = retired.is_none_or(|retired| retired < segment);
        assert!(is_there, "segment {segment} would be pinned after {retired:?} was retired");
        *state.pinned.entry(segment).or_default() += 1;
        Pin { pins: Arc::clone(self), segment }
    }

    /// Pins what a feed needs to read the log from `sequence` on.
    ///
    /// # Errors
    /// The oldest sequence number that can be read, if `sequence` is older. If the log has no
    /// segment, this is `end`, the next number to be given.
    pub fn follow(
        self: &Arc<Self>,
        sequence: SequenceNumber,
        end: SequenceNumber,
    ) -> Result<FeedPin, SequenceNumber> {
        let mut state = self.lock();
        let segment = match state.find(sequence) {
            Some(found) => found.segment.slot.id,
            // The log has no segment: the next one will have the number.
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
        self.lock().oldest()
    }

    /// The first segment after `after`, and the one behind it. It is not pinned: its file may be
    /// reused at any time, and then [`Pins::is_known`] does not know it any more.
    #[must_use]
    pub fn segment_after(&self, after: SegmentId) -> Option<Found> {
        let state = self.lock();
        let mut behind = state.segments.range(after..).map(|(_, segment)| *segment);
        let segment = behind.by_ref().find(|segment| segment.slot.id > after)?;
        Some(Found { segment, following: behind.next() })
    }

    /// Whether the file of a segment still has its records: it was not released.
    #[must_use]
    pub fn is_known(&self, segment: SegmentId) -> bool {
        self.lock().segments.contains_key(&segment)
    }

    /// Takes newly retired segments. Returns all retired segments, earlier ones included, that
    /// nothing keeps any more.
    #[must_use]
    pub fn retire(&self, segments: &[SegmentSlot]) -> Vec<SegmentSlot> {
        let now_ns = self.now_ns();
        let mut state = self.lock();
        state.kept.extend(segments.iter().map(|slot| Kept { slot: *slot, retired_ns: now_ns }));
        let is_sorted = state.kept.is_sorted_by(|a, b| a.slot.id < b.slot.id);
        assert!(is_sorted, "segments would be retired out of order: {:?}", state.kept);
        let retained = self.retained(&state, now_ns);
        state.drop_slow_feeds(retained, self.retention.feed_bytes_max);
        let pinned = match seeded_fault!("ignore_log_pins") {
            true => None,
            false => state.first_pinned(),
        };
        let first = pinned.into_iter().chain(retained).min();
        let (kept, free): (Vec<Kept>, Vec<Kept>) = std::mem::take(&mut state.kept)
            .into_iter()
            .partition(|kept| first.is_some_and(|first| first <= kept.slot.id));
        state.kept = kept;
        if let (Some(free), Some(pinned)) = (free.last(), state.first_pinned()) {
            let id = free.slot.id;
            assert!(id < pinned, "segment {id} would be reused, and {pinned} is pinned");
        }
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

    /// The first segment that a copy or a feed needs.
    fn first_pinned(&self) -> Option<SegmentId> {
        self.pinned.keys().chain(self.feeds.values()).min().copied()
    }

    fn oldest(&self) -> Option<SequenceNumber> {
        self.segments.values().next().map(|segment| segment.first)
    }

    fn bytes_of(&self, segment: SegmentId) -> u64 {
        self.segments.get(&segment).map_or(0, |segment| segment.bytes)
    }

    /// Drops the pins of feeds that alone keep more than `max` bytes of the segments before
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
    /// Calls `read` with the place of `sequence`. From now on the pin keeps nothing before that
    /// segment. `None`, if the pin was lost before or during the call: `read` may then have seen
    /// the bytes of a later segment.
    pub fn read<T>(&self, sequence: SequenceNumber, read: impl FnOnce(&Found) -> T) -> Option<T> {
        let found = self.advance(sequence)?;
        let value = read(&found);
        self.is_held().then_some(value)
    }

    /// The place of `sequence`, if the pin still keeps it.
    fn advance(&self, sequence: SequenceNumber) -> Option<Found> {
        let mut state = self.pins.lock();
        let found = state.find(sequence)?;
        *state.feeds.get_mut(&self.number)? = found.segment.slot.id;
        Some(found)
    }

    /// Whether the pin still keeps its segments: the feed was not too slow.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.pins.lock().feeds.contains_key(&self.number)
    }
}

impl Drop for FeedPin {
    fn drop(&mut self) {
        self.pins.lock().feeds.remove(&self.number);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.pins.lock();
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
