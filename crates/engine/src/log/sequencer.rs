//! The sequencer: the one short critical section in which a commit gets its place in the order and
//! in the log (DESIGN D4).
//!
//! It only hands out numbers. What has to be done first (a file, a window, room) it returns as
//! [`NotReady`], so that its lock is held for no IO and no wait.

use crate::{
    log::generation::Frozen,
    log::publish::Publisher,
    log::{
        pins::{KnownSegment, Origin, SegmentSlot},
        wal::{Segment, Wal},
    },
};
use siltdb_base::{
    error::Error,
    id::{SegmentId, SequenceNumber},
    limits::LOG_WINDOW_BYTES_MAX,
    sync::lock,
};
use siltdb_disk::log::{
    record::{LogPosition, Synced},
    segment::{SEGMENT_HEADER_BYTES, SegmentHeader},
};
use siltdb_tree::{memory::Generation as GenerationNumber, read::empty_ranges::SequenceLock};
use std::{
    ops::Deref,
    sync::{Arc, Mutex, Weak},
};

/// Roughly what an operation takes in a memtable beyond its encoding in the log, in bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 40;

/// Roughly what a range deletion takes beyond that, with the fragments that are cut from it for
/// readers, however it overlaps others, in bytes.
const RANGE_DELETE_BYTES: u64 = 640;

/// Shortest window of the log that is prepared, in bytes.
const WINDOW_BYTES_MIN: u64 = 256 << 10;

/// How far behind the place where the memtables will be full, if things go on as they did, a window
/// may reach, in bytes.
const BEYOND_BYTES_MAX: u64 = 64 << 10;

/// Windows are as long as this part of what was used of the segment, within bounds, and one is
/// asked for when less is left than one: whoever writes little has little prepared in vain.
const WINDOW_PART: u64 = 4;

/// Writers are idle if they have not written for so long, in nanoseconds: longer than the pauses of
/// a program that is busy otherwise, short beside the seconds that a large compaction takes.
pub const IDLE_NS: u64 = 1_000_000_000;

/// A generation says so whenever it has grown by this part of a memtable.
const STEPS: u64 = 32;

/// Hands out sequence numbers and places in the log.
#[derive(Debug)]
pub struct Sequencer {
    next_sequence: SequenceNumber,
    next_ticket: u64,
    /// Tickets up to here may be drawn.
    tickets_end: u64,
    active: Option<Active>,
    end: LogPosition,
    synced: LogPosition,
    mark: Option<Mark>,
    /// The last sequence number that a question for idleness has seen, and when it saw it first, by
    /// the monotonic clock.
    seen: (SequenceNumber, u64),
}

/// A place that was the end of the log once.
#[derive(Debug)]
struct Mark {
    /// What was handed out up to there.
    last: SequenceNumber,
    /// Weak: the segment goes when nobody needs it for anything else.
    segment: Weak<Segment>,
    offset: u64,
}

/// The generation that is being written.
#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    prepared: u64,
    /// Roughly what its memtables hold, in bytes.
    bytes: u64,
    /// Up to here `bytes` has not grown by a step.
    step_end: u64,
    /// It holds a commit so large that it has the generation for itself.
    is_full: bool,
    /// The end of the window that was asked for.
    window: Option<u64>,
}

/// What a commit needs.
#[derive(Clone, Copy, Debug)]
pub struct CommitSize {
    /// What its record takes in the log, in bytes.
    pub record_bytes: u64,
    /// What its operations take in the log, in bytes.
    pub payload_bytes: u64,
    /// Operations.
    pub counts: Counts,
}

/// How many operations there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In all.
    pub all: u32,
    /// Those that delete a range.
    pub range_deletes: u32,
}

impl CommitSize {
    #[inline]
    fn memtable_bytes(&self) -> u64 {
        memtable_bytes(self.payload_bytes, self.counts)
    }
}

/// Bounds of a generation.
#[derive(Clone, Copy, Debug)]
pub struct GenerationLimits {
    /// Size at which a generation is frozen, in bytes.
    pub memtable_bytes: u64,
    /// Whether frozen generations may become one more.
    pub room: Room,
}

/// Whether one more generation may be frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Yes.
    Free,
    /// Not before one is flushed.
    Full,
}

/// A place in the order and in the log. What follows from the rest is not stored: every commit
/// moves one about.
#[derive(Debug)]
pub struct Reservation {
    /// The place in the order of publication.
    pub ticket: u64,
    /// The sequence number of the first operation.
    pub first: SequenceNumber,
    /// The segment to fill.
    pub segment: Arc<Segment>,
    /// Where in the segment the record goes.
    pub offset: u64,
    /// How far the log is synced, to write into the record.
    pub synced: Synced,
    /// Set for the first in a segment. Boxed, because it is rare and reservations are moved about.
    pub rotation: Option<Box<Rotation>>,
    /// The prepared window is nearly used up.
    pub low: bool,
    /// The generation has grown by a step.
    pub grown: bool,
}

impl Reservation {
    /// The generation whose memtables to write to.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> GenerationNumber {
        generation_of(&self.segment)
    }

    /// Where the record goes.
    #[inline]
    #[must_use]
    pub fn at(&self) -> LogPosition {
        LogPosition { segment: self.segment.id, offset: self.offset }
    }
}

/// One generation ended, another begun.
#[derive(Debug)]
pub struct Rotation {
    /// The generation that ended, if there was one.
    pub frozen: Option<Frozen>,
    /// The header of the new segment: whoever got the place fills it.
    pub header: SegmentHeader,
}

/// What must be done before there is a place.
#[derive(Debug)]
pub enum NotReady {
    /// Make a log file of at least so many bytes ready.
    MakeReady(u64),
    /// Prepare the segment up to this offset, then report it.
    Prepare(Arc<Segment>, u64),
    /// Wait for a flush.
    WaitForRoom,
    /// Wait until this ticket may be drawn.
    WaitForTicket(u64),
    /// Fail, for this reason.
    Failed(Error),
}

impl Active {
    /// Where the next window ends, when `end` bytes of the segment are used: not far behind the
    /// place where the memtables will be full, if things go on as they did.
    #[cold]
    fn window_end(&self, end: u64, limits: &GenerationLimits) -> u64 {
        let (bytes, full) = (self.bytes.max(1), limits.memtable_bytes);
        let expected = u128::from(end) * u128::from(full.max(bytes)) / u128::from(bytes);
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.prepared >= expected.max(end) {
            return self.prepared;
        }
        let window = self.prepared.max(end) + window_bytes(end);
        let last = expected.saturating_add(BEYOND_BYTES_MAX);
        window.min(last).min(self.segment.file.capacity())
    }
}

/// How long a window is where `used` bytes of the segment are.
fn window_bytes(used: u64) -> u64 {
    (used / WINDOW_PART).clamp(WINDOW_BYTES_MIN, LOG_WINDOW_BYTES_MAX as u64)
}

impl Sequencer {
    /// The sequencer after everything up to `last`, in a log that ends at `end`.
    #[must_use]
    pub fn new(last: SequenceNumber, end: LogPosition) -> Self {
        let next_sequence = last.next();
        let (next_ticket, tickets_end) = (0, 0);
        let (active, mark, synced) = (None, None, end);
        let seen = (last, 0);
        Self { next_sequence, next_ticket, tickets_end, active, end, synced, mark, seen }
    }

    /// The last sequence number that was handed out, and where the log ends.
    #[must_use]
    pub fn last(&self) -> (SequenceNumber, LogPosition) {
        (SequenceNumber(self.next_sequence.0 - 1), self.end)
    }

    /// The oldest segment that the active generation needs; `None` if nothing was written.
    #[must_use]
    pub fn active_segment(&self) -> Option<SegmentId> {
        self.active.as_ref().map(|active| active.segment.id)
    }

    /// The segment being filled; `None` if nothing was written.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Segment>> {
        self.active.as_ref().map(|active| Arc::clone(&active.segment))
    }

    /// Roughly what the memtables of the active generation hold, in bytes.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.bytes)
    }

    /// Whether writers are idle: nothing was written since the database was opened, since a
    /// generation was frozen on request, or for [`IDLE_NS`] up to `now_ns` of the monotonic clock,
    /// as far as can be told by asking now and then.
    #[must_use]
    pub fn is_idle(&mut self, now_ns: u64) -> bool {
        let (last, _) = self.last();
        if self.seen.0 != last {
            self.seen = (last, now_ns);
        }
        self.active.is_none() || now_ns.saturating_sub(self.seen.1) >= IDLE_NS
    }

    /// The window to prepare ahead of the end of the log: a segment, and up to which offset.
    #[must_use]
    pub fn low_window(&self) -> Option<(Arc<Segment>, u64)> {
        let active = self.active.as_ref()?;
        active.window.map(|end| (Arc::clone(&active.segment), end))
    }

    /// Whether the active generation will soon need a successor: late, for until then the file of a
    /// flushed one may have come back, and early enough to reserve space for a new one.
    #[must_use]
    pub fn is_nearly_full(&self, limits: &GenerationLimits) -> bool {
        self.active_bytes() >= limits.memtable_bytes / 8 * 7
    }

    /// A segment, and up to which offset nobody fills it any more: what had been handed out when
    /// this was asked before, once all of that is among the `published`.
    pub fn filled_up_to(&mut self, published: SequenceNumber) -> Option<(Arc<Segment>, u64)> {
        let passed = self.mark.take_if(|mark| mark.last <= published);
        let (last, end) = self.last();
        if self.mark.is_none() {
            self.mark = self.active.as_ref().map(|active| Mark {
                last,
                segment: Arc::downgrade(&active.segment),
                offset: end.offset,
            });
        }
        passed.and_then(|mark| Some((mark.segment.upgrade()?, mark.offset)))
    }

    /// Notes that `segment` is prepared up to `end`.
    pub fn prepared(&mut self, segment: SegmentId, end: u64) {
        if let Some(active) = &mut self.active
            && active.segment.id == segment
        {
            active.prepared = active.prepared.max(end);
            active.window = None;
        }
    }

    /// Notes how far the log is synced, for the records to come.
    pub fn synced(&mut self, position: LogPosition) {
        self.synced = self.synced.max(position);
    }

    /// Gives a commit its place: tens of nanoseconds, no IO, no waiting.
    ///
    /// # Errors
    /// [`NotReady`] says what to do before asking again.
    #[inline]
    pub fn reserve(
        &mut self,
        size: &CommitSize,
        limits: &GenerationLimits,
        wal: &Wal,
        publisher: &Publisher,
    ) -> Result<Reservation, NotReady> {
        if self.next_ticket == self.tickets_end {
            // Looked at only now and then: every publication changes it.
            self.tickets_end = publisher.tickets_end();
            if self.next_ticket == self.tickets_end {
                return Err(NotReady::WaitForTicket(self.next_ticket));
            }
        }
        let first = self.next_sequence;
        let next = SequenceNumber(first.0 + u64::from(size.counts.all));
        // Only a damaged file can bring this about: at a million a second they last 2,000 years.
        if next > SequenceNumber::MAX {
            return Err(NotReady::Failed(used_up()));
        }
        let mut rotation = None;
        if !self.fits(size, limits) {
            rotation = Some(Box::new(self.rotate(size, limits, wal)?));
        }
        let active = self.active.as_mut().expect("a generation fits or was begun just now");
        let offset = self.end.offset;
        let end = offset + size.record_bytes;
        if end > active.prepared {
            let window = active.window_end(end, limits);
            return Err(NotReady::Prepare(Arc::clone(&active.segment), window));
        }
        active.bytes += size.memtable_bytes();
        active.is_full |= is_huge(size, limits);
        let is_near = active.prepared < end + window_bytes(end);
        // A commit longer than a window prepares for itself what it needs, and so will its likes.
        let is_short = size.record_bytes <= LOG_WINDOW_BYTES_MAX as u64;
        let low = is_near && is_short && !active.is_full && active.window.is_none() && {
            let window = active.window_end(end, limits);
            active.window = (window > active.prepared).then_some(window);
            active.window.is_some()
        };
        let grown = active.bytes > active.step_end;
        if grown {
            active.step_end = active.bytes + limits.memtable_bytes / STEPS;
        }
        let ticket = self.next_ticket;
        let segment = Arc::clone(&active.segment);
        self.next_ticket = ticket + 1;
        self.next_sequence = next;
        self.end.offset = end;
        let synced = Synced::new(self.synced, segment.id);
        Ok(Reservation { ticket, first, segment, offset, synced, rotation, low, grown })
    }

    /// Whether the commit belongs into the active generation. A huge one gets its own.
    fn fits(&self, size: &CommitSize, limits: &GenerationLimits) -> bool {
        self.active.as_ref().is_some_and(|active| {
            let is_new = active.bytes == 0;
            !active.is_full
                && active.bytes < limits.memtable_bytes
                && (is_new || !is_huge(size, limits))
                && self.end.offset + size.record_bytes <= active.segment.file.capacity()
        })
    }

    /// Freezes the active generation, if there is one, and begins the next.
    fn rotate(
        &mut self,
        size: &CommitSize,
        limits: &GenerationLimits,
        wal: &Wal,
    ) -> Result<Rotation, NotReady> {
        if self.active.is_some() && limits.room == Room::Full {
            return Err(NotReady::WaitForRoom);
        }
        let needed = SEGMENT_HEADER_BYTES as u64 + size.record_bytes;
        let taken = wal.take_segment(needed).map_err(NotReady::Failed)?;
        let Some((segment, prepared)) = taken else { return Err(NotReady::MakeReady(needed)) };
        let frozen = self.freeze();
        let header = SegmentHeader {
            id: segment.id,
            first_sequence: self.next_sequence,
            previous: self.end,
            synced: self.synced,
        };
        wal.begin(KnownSegment {
            slot: SegmentSlot { id: segment.id, slot: segment.slot },
            first: header.first_sequence,
            previous: header.previous,
            bytes: 0,
            origin: Origin::Ours,
        });
        self.end = header.first_record();
        self.active = Some(Active {
            segment,
            prepared,
            bytes: 0,
            step_end: limits.memtable_bytes / STEPS,
            is_full: false,
            window: None,
        });
        Ok(Rotation { frozen, header })
    }

    /// Ends the active generation, if there is one; the next commit begins another.
    #[must_use]
    pub fn freeze(&mut self) -> Option<Frozen> {
        let active = self.active.take()?;
        let (last, _) = self.last();
        let segment = Arc::downgrade(&active.segment);
        self.mark = Some(Mark { last, segment, offset: active.segment.file.capacity() });
        Some(Frozen {
            number: generation_of(&active.segment),
            segments: vec![SegmentSlot { id: active.segment.id, slot: active.segment.slot }],
            last,
            bytes: active.bytes,
            progress: Arc::default(),
        })
    }
}

#[cold]
fn used_up() -> Error {
    Error::corruption("sequence numbers are used up")
        .with_hint("a file of the database claims numbers that were never given")
}

/// A generation is named after its first segment.
fn generation_of(segment: &Segment) -> GenerationNumber {
    GenerationNumber(segment.id.0)
}

/// Roughly what operations take in memtables that take `payload_bytes` in the log.
#[inline]
#[must_use]
pub fn memtable_bytes(payload_bytes: u64, counts: Counts) -> u64 {
    payload_bytes
        + u64::from(counts.all) * ENTRY_OVERHEAD_BYTES
        + u64::from(counts.range_deletes) * RANGE_DELETE_BYTES
}

/// Whether a commit is so large that it gets a segment and a generation of its own.
fn is_huge(size: &CommitSize, limits: &GenerationLimits) -> bool {
    size.memtable_bytes() > limits.memtable_bytes / 2
}

/// The sequencer under its lock, the one under which sequence numbers are handed out.
#[derive(Debug)]
pub struct SharedSequencer {
    sequencer: Arc<Mutex<Sequencer>>,
    sequence_lock: Arc<WeakSequencer>,
}

impl SharedSequencer {
    /// Shares a sequencer.
    #[must_use]
    pub fn new(sequencer: Sequencer) -> Self {
        let sequencer = Arc::new(Mutex::new(sequencer));
        let sequence_lock = Arc::new(WeakSequencer(Arc::downgrade(&sequencer)));
        Self { sequencer, sequence_lock }
    }

    /// The lock as readers know it. It keeps no segment from being closed with the database.
    #[must_use]
    pub fn sequence_lock(&self) -> Arc<dyn SequenceLock> {
        Arc::clone(&self.sequence_lock) as _
    }
}

impl Deref for SharedSequencer {
    type Target = Mutex<Sequencer>;

    fn deref(&self) -> &Mutex<Sequencer> {
        &self.sequencer
    }
}

#[derive(Debug)]
struct WeakSequencer(Weak<Mutex<Sequencer>>);

impl SequenceLock for WeakSequencer {
    fn hold(&self, work: &mut dyn FnMut(SequenceNumber)) {
        if let Some(sequencer) = self.0.upgrade() {
            let sequencer = lock(&sequencer);
            work(sequencer.last().0);
        }
    }
}

#[cfg(test)]
mod tests;
