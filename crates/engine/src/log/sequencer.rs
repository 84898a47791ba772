//! The sequencer: the short critical section in which a commit gets its place in the order and in
//! the log.
//!
//! The sequencer only hands out numbers. Work that must come first (a file, a window, room) is
//! returned as [`NotReady`], so that no IO and no wait happens under its lock.

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

/// The approximate size of an operation in a memtable beyond its encoding in the log, in bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 40;

/// The approximate additional size of a range deletion, in bytes. It covers the fragments that are
/// cut from it for readers, in any overlap with others.
const RANGE_DELETE_BYTES: u64 = 640;

/// The shortest window of the log that is prepared, in bytes.
const WINDOW_BYTES_MIN: u64 = 256 << 10;

/// How far a window may reach beyond the expected end of the segment, in bytes. That end is where
/// the memtables will be full if the present ratio of log to memory continues.
const BEYOND_BYTES_MAX: u64 = 64 << 10;

/// A window is as long as this part of the used segment, within bounds. The next is requested when
/// less than one window is left. So a small log prepares little space in vain.
const WINDOW_PART: u64 = 4;

/// Writers are idle after this time without a write, in nanoseconds. It is longer than the pauses
/// of a busy program, and short beside the seconds that a large compaction takes.
pub const IDLE_NS: u64 = 1_000_000_000;

/// A generation reports its growth in steps of this part of a memtable.
const STEPS: u64 = 32;

/// Hands out sequence numbers and places in the log.
#[derive(Debug)]
pub struct Sequencer {
    next_sequence: SequenceNumber,
    next_ticket: u64,
    /// The end of the tickets that may be drawn, as last read from the publisher.
    tickets_end: u64,
    active: Option<Active>,
    end: LogPosition,
    synced: LogPosition,
    mark: Option<Mark>,
    /// The last sequence number that [`Sequencer::is_idle`] has seen, and the monotonic time at
    /// which it saw it first.
    seen: (SequenceNumber, u64),
}

/// An earlier end of the log.
#[derive(Debug)]
struct Mark {
    /// The last sequence number before it.
    last: SequenceNumber,
    /// Weak: the mark keeps no segment open.
    segment: Weak<Segment>,
    offset: u64,
}

/// The generation that is being written.
#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    /// The size of its file, in bytes.
    capacity: u64,
    prepared: u64,
    /// The approximate size of its memtables, in bytes.
    bytes: u64,
    /// The value of `bytes` beyond which the next step of growth is reported.
    step_end: u64,
    /// It holds a huge commit, which has a generation for itself.
    is_full: bool,
    /// The end of the window that was requested.
    window: Option<u64>,
}

/// The size of a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitSize {
    /// The size of its record in the log, in bytes.
    pub record_bytes: u64,
    /// The size of its operations in the log, in bytes.
    pub payload_bytes: u64,
    /// The counts of its operations.
    pub counts: Counts,
    /// The generation that it needs.
    pub generation: GenerationPlace,
}

/// How much of a generation a commit fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// At most half of the memtables.
    Part,
    /// More: it gets a segment and a generation of its own.
    Huge,
}

/// The generation that a commit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationPlace {
    /// Any with room.
    Any,
    /// The commit begins one, so that everything older is in an older generation.
    First,
}

/// Counts of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All operations, range deletions included.
    pub all: u32,
    /// Range deletions.
    pub range_deletes: u32,
}

impl CommitSize {
    /// About what the operations take in memtables, in bytes.
    #[inline]
    #[must_use]
    pub fn memtable_bytes(&self) -> u64 {
        memtable_bytes(self.payload_bytes, self.counts)
    }
}

/// Bounds of a generation.
#[derive(Clone, Copy, Debug)]
pub struct GenerationLimits {
    /// Size at which a generation is frozen, in bytes.
    pub memtable_bytes: u64,
    /// Whether one more generation may be frozen.
    pub room: Room,
}

impl GenerationLimits {
    /// The same for what needs no room: it begins a generation also where others would wait.
    #[must_use]
    pub fn without_wait(self) -> Self {
        Self { room: Room::Free, ..self }
    }
}

/// Whether one more generation may be frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Yes.
    Free,
    /// Not before one is flushed.
    Full,
}

/// A place in the order and in the log. Values that follow from these fields are not stored,
/// because every commit moves a reservation several times.
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
    /// How far the log is synced, to be written into the record.
    pub synced: Synced,
    /// Set for the first commit in a segment. Boxed, because it is rare and reservations are moved.
    pub rotation: Option<Box<Rotation>>,
    /// Less than a window of the prepared space is left.
    pub low: bool,
    /// The generation has grown by a step.
    pub grown: bool,
}

impl Reservation {
    /// The generation whose memtables the commit writes to.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> GenerationNumber {
        generation_of(&self.segment)
    }

    /// The last sequence number of the commit before.
    #[inline]
    #[must_use]
    pub fn before(&self) -> SequenceNumber {
        SequenceNumber(self.first.0 - 1)
    }

    /// The position of the record in the log.
    #[inline]
    #[must_use]
    pub fn at(&self) -> LogPosition {
        LogPosition { segment: self.segment.id, offset: self.offset }
    }
}

/// The end of one generation and the beginning of the next.
#[derive(Debug)]
pub struct Rotation {
    /// The generation that ended, if there was one.
    pub frozen: Option<Frozen>,
    /// The header of the new segment. The commit with this reservation fills it.
    pub header: SegmentHeader,
}

/// What a commit must do before it can get a place.
#[derive(Debug)]
pub enum NotReady {
    /// Make a log file of at least this many bytes ready.
    MakeReady(u64),
    /// Prepare the segment up to this offset, then report it by [`Sequencer::prepared`].
    Prepare(Arc<Segment>, u64),
    /// Wait for a flush.
    WaitForRoom,
    /// Wait until this ticket may be drawn.
    WaitForTicket(u64),
    /// Fail with this error.
    Failed(Error),
}

impl Active {
    /// The end of the next window, when `end` bytes of the segment are used. It is at most
    /// `BEYOND_BYTES_MAX` behind the expected end of the segment.
    #[cold]
    fn window_end(&self, end: u64, limits: &GenerationLimits) -> u64 {
        let capacity = self.capacity;
        assert!(end <= capacity, "a record would end at {end}, in a segment of {capacity} bytes");
        let (bytes, full) = (self.bytes.max(1), limits.memtable_bytes);
        let expected = u128::from(end) * u128::from(full.max(bytes)) / u128::from(bytes);
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.prepared >= expected.max(end) {
            return self.prepared;
        }
        let window = self.prepared.max(end) + window_bytes(end);
        let last = expected.saturating_add(BEYOND_BYTES_MAX);
        window.min(last).min(capacity)
    }
}

/// The length of a window at `used` bytes of the segment.
fn window_bytes(used: u64) -> u64 {
    (used / WINDOW_PART).clamp(WINDOW_BYTES_MIN, LOG_WINDOW_BYTES_MAX as u64)
}

impl Sequencer {
    /// A sequencer that continues after `last`, in a log that ends at `end`.
    #[must_use]
    pub fn new(last: SequenceNumber, end: LogPosition) -> Self {
        let next_sequence = last.next();
        let (next_ticket, tickets_end) = (0, 0);
        let (active, mark, synced) = (None, None, end);
        let seen = (last, 0);
        Self { next_sequence, next_ticket, tickets_end, active, end, synced, mark, seen }
    }

    /// The last sequence number that was handed out, and the end of the log.
    #[must_use]
    pub fn last(&self) -> (SequenceNumber, LogPosition) {
        (SequenceNumber(self.next_sequence.0 - 1), self.end)
    }

    /// The end of the tickets that were drawn.
    #[must_use]
    pub fn tickets_drawn(&self) -> u64 {
        self.next_ticket
    }

    /// The oldest segment that the active generation needs; `None` if nothing was written to it.
    #[must_use]
    pub fn active_segment(&self) -> Option<SegmentId> {
        self.active.as_ref().map(|active| active.segment.id)
    }

    /// The segment that commits fill now; `None` if nothing was written to it.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Segment>> {
        self.active.as_ref().map(|active| Arc::clone(&active.segment))
    }

    /// The approximate size of the memtables of the active generation, in bytes.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.bytes)
    }

    /// Whether writers are idle: nothing was written since the open, since a freeze on request, or
    /// for [`IDLE_NS`]. It compares with the last call, so the time is as exact as the calls are
    /// frequent. `now_ns` is monotonic.
    #[must_use]
    pub fn is_idle(&mut self, now_ns: u64) -> bool {
        let (last, _) = self.last();
        if self.seen.0 != last {
            self.seen = (last, now_ns);
        }
        self.active.is_none() || now_ns.saturating_sub(self.seen.1) >= IDLE_NS
    }

    /// The requested window ahead of the end of the log: its segment and its end.
    #[must_use]
    pub fn low_window(&self) -> Option<(Arc<Segment>, u64)> {
        let active = self.active.as_ref()?;
        active.window.map(|end| (Arc::clone(&active.segment), end))
    }

    /// Whether the active generation will soon need a successor. This is late enough for the file
    /// of a flushed one to come back, and early enough to reserve space for a new one.
    #[must_use]
    pub fn is_nearly_full(&self, limits: &GenerationLimits) -> bool {
        self.active_bytes() >= limits.memtable_bytes / 8 * 7
    }

    /// A segment and an offset before which no commit fills bytes any more. The offset is the end
    /// of the log at an earlier call, once everything before it is among the `published`.
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

    /// Notes how far the log is synced, for later records.
    pub fn synced(&mut self, position: LogPosition) {
        let end = self.end;
        assert!(
            position <= end,
            "records would say that {position} is synced, and all end at {end}"
        );
        self.synced = self.synced.max(position);
    }

    /// Gives a commit its place. Cost: tens of nanoseconds, no IO, no wait.
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
            // Read rarely, because every publication changes its cache line.
            self.tickets_end = publisher.tickets_end();
            if self.next_ticket == self.tickets_end {
                return Err(NotReady::WaitForTicket(self.next_ticket));
            }
        }
        let first = self.next_sequence;
        let next = SequenceNumber(first.0 + u64::from(size.counts.all));
        assert!(next > first, "{}", takes_no_number(first));
        // Only a damaged file can cause this: at a million a second the numbers last 2,000 years.
        if next > SequenceNumber::MAX {
            return Err(NotReady::Failed(used_up()));
        }
        let memtable_bytes = size.memtable_bytes();
        let fill = match memtable_bytes > limits.memtable_bytes / 2 {
            true => Fill::Huge,
            false => Fill::Part,
        };
        let mut rotation = None;
        if !self.fits(size, fill, limits) {
            rotation = Some(Box::new(self.rotate(size, limits, wal)?));
        }
        let active = self.active.as_mut().expect("a generation fits or was begun just now");
        let offset = self.end.offset;
        let end = offset + size.record_bytes;
        if end > active.prepared {
            let window = active.window_end(end, limits);
            return Err(NotReady::Prepare(Arc::clone(&active.segment), window));
        }
        active.bytes += memtable_bytes;
        active.is_full |= fill == Fill::Huge;
        let is_near = active.prepared < end + window_bytes(end);
        // A commit longer than a window prepares its own space, and so will later ones like it.
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

    /// Whether the commit fits into the active generation. A huge commit gets its own.
    fn fits(&self, size: &CommitSize, fill: Fill, limits: &GenerationLimits) -> bool {
        self.active.as_ref().is_some_and(|active| {
            let is_new = active.bytes == 0;
            size.generation == GenerationPlace::Any
                && !active.is_full
                && active.bytes < limits.memtable_bytes
                && (is_new || fill == Fill::Part)
                && self.end.offset + size.record_bytes <= active.capacity
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
        let (id, before) = (segment.id, self.end.segment);
        assert!(id > before, "segment {id} would follow segment {before}");
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
            capacity: segment.file.capacity(),
            segment,
            prepared,
            bytes: 0,
            step_end: limits.memtable_bytes / STEPS,
            is_full: false,
            window: None,
        });
        Ok(Rotation { frozen, header })
    }

    /// Ends the active generation, if there is one. The next commit begins another.
    #[must_use]
    pub fn freeze(&mut self) -> Option<Frozen> {
        let active = self.active.take()?;
        let (last, end) = self.last();
        let id = active.segment.id;
        assert!(id == end.segment, "segment {id} would be frozen, and the log ends at {end}");
        let segment = Arc::downgrade(&active.segment);
        self.mark = Some(Mark { last, segment, offset: active.capacity });
        Some(Frozen {
            number: generation_of(&active.segment),
            segments: vec![SegmentSlot { id: active.segment.id, slot: active.segment.slot }],
            last,
            bytes: active.bytes,
            progress: Arc::default(),
        })
    }
}

/// A commit without a number would be published with the number of the one before it.
#[cold]
fn takes_no_number(first: SequenceNumber) -> String {
    format!("a commit at {first} would take no sequence number")
}

#[cold]
fn used_up() -> Error {
    Error::corruption("sequence numbers are used up")
        .with_hint("a file of the database claims numbers that were never handed out")
}

/// A generation has the number of its first segment.
fn generation_of(segment: &Segment) -> GenerationNumber {
    GenerationNumber(segment.id.0)
}

/// The approximate size in memtables of operations that take `payload_bytes` in the log, in bytes.
#[inline]
#[must_use]
pub fn memtable_bytes(payload_bytes: u64, counts: Counts) -> u64 {
    payload_bytes
        + u64::from(counts.all) * ENTRY_OVERHEAD_BYTES
        + u64::from(counts.range_deletes) * RANGE_DELETE_BYTES
}

/// The sequencer under the lock that orders all sequence numbers.
#[derive(Debug)]
pub struct SharedSequencer {
    sequencer: Arc<Mutex<Sequencer>>,
    sequence_lock: Arc<WeakSequencer>,
}

impl SharedSequencer {
    /// Puts `sequencer` under its lock.
    #[must_use]
    pub fn new(sequencer: Sequencer) -> Self {
        let sequencer = Arc::new(Mutex::new(sequencer));
        let sequence_lock = Arc::new(WeakSequencer(Arc::downgrade(&sequencer)));
        Self { sequencer, sequence_lock }
    }

    /// The lock for observers in the trees. It refers weakly to the sequencer, so it keeps no
    /// segment open after the database is closed.
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
