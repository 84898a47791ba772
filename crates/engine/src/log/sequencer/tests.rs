//! Places in the order and in the log: handed out together, without gaps. A commit that has to wait
//! gets none (laws O1 and O2).

use super::*;
use crate::{kit::random::Random, log::publish::IN_FLIGHT_MAX, log::wal::LogStart};
use siltdb_base::{
    error::ErrorKind,
    fs::{LogIo, mem::MemFs},
};
use siltdb_disk::log::record::{RecordKind, record_bytes};

const MEMTABLE_BYTES: u64 = 64 << 10;
const FREE: GenerationLimits =
    GenerationLimits { memtable_bytes: MEMTABLE_BYTES, room: Room::Free };
const FULL: GenerationLimits = GenerationLimits { room: Room::Full, ..FREE };
const HEADER_BYTES: u64 = SEGMENT_HEADER_BYTES as u64;

/// The end of a log that an earlier process wrote.
const OLD_END: LogPosition = LogPosition { segment: SegmentId(1), offset: 128 };
const OLD_LAST: SequenceNumber = SequenceNumber(100);

/// A sequencer and the rooms that it asks.
struct Log {
    sequencer: Sequencer,
    wal: Wal,
    publisher: Publisher,
}

/// A log whose segments have `capacity` bytes.
fn log(capacity: u64) -> Log {
    let fs = Arc::new(MemFs::new());
    let start = LogStart { highest_segment: OLD_END.segment, slots: vec![1], end: OLD_END };
    Log {
        sequencer: Sequencer::new(OLD_LAST, OLD_END),
        wal: Wal::new(fs, LogIo::Auto, capacity, &start, Random::new(Some(1))),
        publisher: Publisher::new(OLD_LAST),
    }
}

/// The size of a commit of `count` operations in this many bytes.
fn size(payload_bytes: u64, count: u32) -> CommitSize {
    let counts = Counts { all: count, range_deletes: 0 };
    let record_bytes = record_bytes(RecordKind::Batch, count, payload_bytes as usize);
    CommitSize { record_bytes, payload_bytes, counts, generation: GenerationPlace::Any }
}

impl Log {
    /// Asks once; a refused commit must leave no trace.
    fn ask(
        &mut self,
        size: &CommitSize,
        limits: &GenerationLimits,
    ) -> Result<Reservation, NotReady> {
        let trace = |sequencer: &Sequencer| {
            (sequencer.last(), sequencer.next_ticket, sequencer.active_segment())
        };
        let before = trace(&self.sequencer);
        let answer = self.sequencer.reserve(size, limits, &self.wal, &self.publisher);
        if answer.is_err() {
            assert_eq!(trace(&self.sequencer), before, "refused, and yet changed");
        }
        answer
    }

    /// Asks until there is a place, and does what the sequencer asks for: a file or a window.
    fn reserve(&mut self, size: CommitSize) -> Reservation {
        for _ in 0..3 {
            match self.ask(&size, &FREE) {
                Ok(reservation) => return reservation,
                Err(NotReady::MakeReady(bytes)) => self.wal.make_ready(bytes).unwrap(),
                Err(NotReady::Prepare(segment, end)) => self.sequencer.prepared(segment.id, end),
                Err(not_ready) => panic!("not to be done here: {not_ready:?}"),
            }
        }
        panic!("never ready");
    }

    /// Reserves a place in the segment that `before` is in.
    fn reserve_behind(&mut self, before: &Reservation, size: CommitSize) -> Reservation {
        let reservation = self.reserve(size);
        assert!(reservation.rotation.is_none());
        assert_eq!(reservation.segment.id, before.segment.id);
        reservation
    }
}

/// Checks that `next` begins a generation after the one of `last`, whose record ends at `end`.
fn assert_rotated(next: &Reservation, last: &Reservation, end: u64, bytes: u64) {
    let rotation = next.rotation.as_ref().expect("a rotation");
    let previous = LogPosition { offset: end, ..last.at() };
    let id = next.segment.id;
    assert!(id > last.segment.id);
    // Nothing is synced meanwhile.
    let synced = OLD_END;
    let header = SegmentHeader { id, first_sequence: next.first, previous, synced };
    assert_eq!(rotation.header, header);
    assert_eq!(next.at(), header.first_record());
    let frozen = rotation.frozen.as_ref().expect("the generation before");
    assert_eq!(frozen.number, last.generation());
    assert_ne!(next.generation(), last.generation());
    let slot = SegmentSlot { id: last.segment.id, slot: last.segment.slot };
    assert_eq!(frozen.segments, [slot]);
    assert_eq!(frozen.last.next(), next.first);
    assert_eq!(frozen.bytes, bytes);
}

#[test]
fn numbers_and_log_space_are_reserved_together_and_without_gaps() {
    let mut log = log(1 << 20);
    let mut sequence = OLD_LAST.next();
    let mut offset = HEADER_BYTES;
    for (ticket, count) in [1, 7, 1, 300, 2].into_iter().enumerate() {
        let size = size(count * 11, count as u32);
        let reservation = log.reserve(size);
        assert_eq!(reservation.ticket, ticket as u64);
        assert_eq!((reservation.first, reservation.offset), (sequence, offset));
        assert_eq!(reservation.rotation.is_some(), ticket == 0);
        if let Some(first) = reservation.rotation {
            assert!(first.frozen.is_none());
            let SegmentHeader { first_sequence, previous, .. } = first.header;
            assert_eq!((first_sequence, previous), (sequence, OLD_END));
        }
        sequence = SequenceNumber(sequence.0 + count);
        offset += size.record_bytes;
        let end = LogPosition { segment: reservation.segment.id, offset };
        assert_eq!(log.sequencer.last(), (SequenceNumber(sequence.0 - 1), end));
    }
}

#[test]
fn a_full_generation_is_followed_by_another() {
    let mut log = log(1 << 20);
    let piece = size(MEMTABLE_BYTES / 4, 1);
    let first = log.reserve(piece);
    let mut last = log.reserve_behind(&first, piece);
    for _ in 0..2 {
        last = log.reserve_behind(&first, piece);
    }
    let next = log.reserve(piece);
    let end = HEADER_BYTES + 4 * piece.record_bytes;
    assert_rotated(&next, &last, end, MEMTABLE_BYTES + 4 * ENTRY_OVERHEAD_BYTES);
}

#[test]
fn a_commit_that_must_be_first_begins_a_generation_and_others_go_on_in_it() {
    let mut log = log(1 << 20);
    let piece = size(100, 1);
    let first = CommitSize { generation: GenerationPlace::First, ..piece };
    let mut last = log.reserve(piece);
    let mut bytes = HEADER_BYTES + piece.record_bytes;
    for pieces in [1, 2] {
        let next = log.reserve(first);
        assert_rotated(&next, &last, bytes, pieces * (100 + ENTRY_OVERHEAD_BYTES));
        last = log.reserve_behind(&next, piece);
        bytes = HEADER_BYTES + 2 * piece.record_bytes;
    }
    // It waits for room as any other that begins one.
    assert!(matches!(log.ask(&first, &FULL), Err(NotReady::WaitForRoom)));
}

#[test]
fn range_deletes_fill_a_generation_sooner_than_their_bytes() {
    let mut log = log(1 << 20);
    let piece = CommitSize { counts: Counts { all: 2, range_deletes: 1 }, ..size(30, 2) };
    let bytes = 30 + 2 * ENTRY_OVERHEAD_BYTES + RANGE_DELETE_BYTES;
    let fit = MEMTABLE_BYTES.div_ceil(bytes);
    let first = log.reserve(piece);
    let mut last = log.reserve_behind(&first, piece);
    for _ in 2..fit {
        last = log.reserve_behind(&first, piece);
    }
    let next = log.reserve(piece);
    assert_rotated(&next, &last, HEADER_BYTES + fit * piece.record_bytes, fit * bytes);
    let half = MEMTABLE_BYTES / 2 / (RANGE_DELETE_BYTES + ENTRY_OVERHEAD_BYTES) + 1;
    let counts = Counts { all: half as u32, range_deletes: half as u32 };
    let huge = log.reserve(CommitSize { counts, ..size(30, 1) });
    assert!(huge.rotation.is_some(), "a generation of its own");
}

#[test]
fn a_commit_that_does_not_fit_into_the_segment_begins_the_next() {
    let piece = size(1000, 1);
    for slack in [0, 8] {
        let mut log = log(HEADER_BYTES + 2 * piece.record_bytes + piece.record_bytes - slack);
        let first = log.reserve(piece);
        let second = log.reserve_behind(&first, piece);
        if slack == 0 {
            log.reserve_behind(&first, piece);
        } else {
            let next = log.reserve(piece);
            let end = HEADER_BYTES + 2 * piece.record_bytes;
            assert_rotated(&next, &second, end, 2 * (1000 + ENTRY_OVERHEAD_BYTES));
        }
    }
}

#[test]
fn a_huge_commit_gets_a_segment_and_a_generation_of_its_own() {
    let half = MEMTABLE_BYTES / 2 - ENTRY_OVERHEAD_BYTES;
    let small = size(10, 1);
    let mut log = log(MEMTABLE_BYTES);
    let first = log.reserve(small);
    let last = log.reserve_behind(&first, size(half, 1));
    let end = log.sequencer.last().1.offset;
    let huge = log.reserve(size(half + 1, 1));
    assert_rotated(&huge, &last, end, half + 10 + 2 * ENTRY_OVERHEAD_BYTES);
    let next = log.reserve(small);
    let end = HEADER_BYTES + size(half + 1, 1).record_bytes;
    assert_rotated(&next, &huge, end, half + 1 + ENTRY_OVERHEAD_BYTES);
    // Larger than a segment usually is, by its many operations.
    let vast = size(5 * MEMTABLE_BYTES, 1000);
    let huge = log.reserve(vast);
    assert!(huge.segment.file.capacity() >= huge.offset + vast.record_bytes);
    assert!(huge.rotation.is_some());
    assert!(log.reserve(small).rotation.is_some());
}

#[test]
fn only_who_would_freeze_a_generation_waits_for_room() {
    let mut log = log(1 << 20);
    let huge = size(MEMTABLE_BYTES, 1);
    assert!(matches!(log.ask(&huge, &FULL), Err(NotReady::MakeReady(_))), "nothing to be frozen");
    let first = log.reserve(size(10, 1));
    log.wal.make_ready(HEADER_BYTES + huge.record_bytes).unwrap();
    assert!(matches!(log.ask(&huge, &FULL), Err(NotReady::WaitForRoom)));
    let beside = log.ask(&size(10, 1), &FULL).unwrap();
    assert_eq!(beside.segment.id, first.segment.id);
    assert!(log.ask(&huge, &FREE).unwrap().rotation.is_some());
}

#[test]
fn tickets_end_where_the_ring_of_the_publisher_is_full() {
    let mut log = log(1 << 20);
    let small = size(1, 2);
    let last = |reservation: &Reservation| reservation.first.next();
    let taken: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| log.reserve(small)).collect();
    for oldest in &taken[..2] {
        match log.ask(&small, &FREE) {
            Err(NotReady::WaitForTicket(ticket)) => {
                assert_eq!(ticket, oldest.ticket + IN_FLIGHT_MAX);
            }
            other => panic!("one ticket too many: {other:?}"),
        }
        log.publisher.complete(oldest.ticket, last(oldest));
        assert_eq!(log.reserve(small).ticket, oldest.ticket + IN_FLIGHT_MAX);
    }
}

#[test]
fn a_place_behind_the_prepared_window_is_given_once_the_window_was_moved() {
    let limits = GenerationLimits { memtable_bytes: u64::MAX, ..FREE };
    let mut log = log(64 << 20);
    log.wal.make_ready(0).unwrap();
    let piece = size(100 << 10, 1);
    let mut prepared = None;
    let mut asked = 0;
    for _ in 0..200 {
        let reservation = match log.ask(&piece, &limits) {
            Err(NotReady::Prepare(segment, end)) => {
                assert!(end >= log.sequencer.last().1.offset + piece.record_bytes);
                assert!(prepared < Some(end), "windows move forward");
                segment.file.prepare(end).unwrap();
                log.sequencer.prepared(SegmentId(segment.id.0 - 1), u64::MAX);
                log.sequencer.prepared(segment.id, end);
                prepared = Some(end);
                asked = 0;
                log.ask(&piece, &limits).unwrap()
            }
            answer => answer.unwrap(),
        };
        let end = reservation.offset + piece.record_bytes;
        assert!(prepared.is_none_or(|prepared| end <= prepared), "not prepared");
        asked += u32::from(reservation.low);
        assert!(asked <= 1, "the next window is asked for once");
        assert_eq!(log.sequencer.low_window().is_some(), asked == 1);
    }
    assert!(prepared > Some(16 << 20));
    let last = log.reserve(size(100, 1));
    assert!(last.rotation.is_some(), "within the usual limits the generation is full");
}

#[test]
fn what_is_prepared_ahead_grows_with_the_log_and_ends_with_the_generation() {
    const MIB: u64 = 1 << 20;
    let limits = GenerationLimits { memtable_bytes: 32 * MIB, ..FREE };
    for (payload_bytes, count) in [(20, 1), (120, 1), (12_000, 100)] {
        let mut log = log(64 * MIB);
        log.wal.make_ready(0).unwrap();
        let piece = size(payload_bytes, count);
        let (mut prepared, mut end, mut windows) = (256 << 10, 0, 0);
        loop {
            let reservation = match log.ask(&piece, &limits) {
                Ok(reservation) => reservation,
                Err(NotReady::MakeReady(_)) => break,
                Err(not_ready) => panic!("windows are asked for in time: {not_ready:?}"),
            };
            log.publisher.complete(reservation.ticket, log.sequencer.last().0);
            end = reservation.offset + piece.record_bytes;
            assert_eq!(
                log.sequencer.is_nearly_full(&limits),
                log.sequencer.active_bytes() >= 28 * MIB
            );
            let window = log.sequencer.low_window();
            assert_eq!(window.is_some(), reservation.low);
            if let Some((segment, window)) = window {
                assert!(window > prepared);
                (prepared, windows) = (window, windows + 1);
                log.sequencer.prepared(segment.id, window);
            }
            let ahead = prepared - end;
            assert!(
                ahead <= (end / 2).max(2 * WINDOW_BYTES_MIN)
                    && ahead <= 2 * LOG_WINDOW_BYTES_MAX as u64,
                "{ahead} at {end}"
            );
        }
        assert!(prepared - end <= 128 << 10, "{prepared} {end}");
        assert!(windows < 64, "{windows} windows");
    }
}

#[test]
fn a_log_that_was_expected_to_end_sooner_is_prepared_in_whole_windows() {
    // Long values first, then keys alone, which take less of the log for as much of the memory.
    let limits = GenerationLimits { memtable_bytes: 4 << 20, ..FREE };
    let mut log = log(64 << 20);
    log.wal.make_ready(0).unwrap();
    let (long, short) = (size(100 << 10, 1), size(10, 1));
    let (mut prepared, mut windows) = (256 << 10, Vec::new());
    for piece in std::iter::repeat_n(&long, 20).chain(std::iter::repeat(&short)) {
        let reservation = match log.ask(piece, &limits) {
            Ok(reservation) => reservation,
            Err(NotReady::MakeReady(_)) => break,
            Err(NotReady::Prepare(segment, end)) => {
                log.sequencer.prepared(segment.id, end);
                prepared = end;
                log.ask(piece, &limits).unwrap()
            }
            Err(not_ready) => panic!("{not_ready:?}"),
        };
        log.publisher.complete(reservation.ticket, log.sequencer.last().0);
        if let Some((segment, end)) = log.sequencer.low_window() {
            windows.push(end - prepared);
            prepared = end;
            log.sequencer.prepared(segment.id, end);
        }
    }
    let shortest = windows.into_iter().min();
    assert!(shortest >= Some(WINDOW_BYTES_MIN), "{shortest:?}");
}

#[test]
fn nothing_is_prepared_behind_a_commit_longer_than_a_window() {
    let limits = GenerationLimits { memtable_bytes: 64 << 20, ..FREE };
    let mut log = log(64 << 20);
    let long = size(LOG_WINDOW_BYTES_MAX as u64 + 1, 1);
    log.wal.make_ready(HEADER_BYTES + long.record_bytes).unwrap();
    assert!(!log.ask(&long, &limits).unwrap().low);
    let Err(NotReady::Prepare(segment, end)) = log.ask(&size(1, 1), &limits) else {
        panic!("nothing was prepared");
    };
    log.sequencer.prepared(segment.id, end);
    let window = window_bytes(end);
    let asked = (0..window / 1000).any(|_| log.ask(&size(1000, 1), &limits).unwrap().low);
    assert!(asked, "commits that are short are seen to");
}

#[test]
fn nothing_is_prepared_behind_a_huge_commit_nor_beyond_the_capacity() {
    let limits = GenerationLimits { memtable_bytes: 1 << 20, ..FREE };
    let mut huge = log(2 << 20);
    let commit = size(600 << 10, 1);
    huge.wal.make_ready(HEADER_BYTES + commit.record_bytes).unwrap();
    assert!(!huge.ask(&commit, &limits).unwrap().low, "it has the generation for itself");
    let unlimited = GenerationLimits { memtable_bytes: u64::MAX, ..FREE };
    let mut log = log(2 << 20);
    log.wal.make_ready(0).unwrap();
    let mut last = 0;
    for _ in 0..100 {
        let reservation = log.ask(&size(20_000, 1), &unlimited).unwrap();
        if let Some((segment, window)) = log.sequencer.low_window() {
            assert!(window <= segment.file.capacity());
            log.sequencer.prepared(segment.id, window);
            last = window;
        }
        assert!(reservation.rotation.is_some() == (reservation.ticket == 0));
    }
    assert_eq!(last, 2 << 20, "all of the segment is prepared in the end");
}

#[test]
fn places_carry_the_newest_synced_position() {
    let mut log = log(1 << 20);
    let first = log.reserve(size(10, 1));
    let said = |position, reservation: &Reservation| Synced::new(position, reservation.segment.id);
    assert_eq!(first.synced, said(OLD_END, &first), "what recovery left is durable");
    let end = log.sequencer.last().1;
    log.sequencer.synced(end);
    log.sequencer.synced(OLD_END);
    let next = log.reserve(size(10, 1));
    assert_eq!(next.synced, said(end, &next));
    // A record can refer to a limited number of segments back, a segment header to any.
    for back in 1..20 {
        let huge = log.reserve(size(MEMTABLE_BYTES, 1));
        assert_eq!(huge.synced, said(end, &huge));
        assert_eq!(huge.synced == Synced::UNSAID, back > 15);
        assert_eq!(huge.rotation.unwrap().header.synced, end);
    }
}

#[test]
fn a_frozen_tail_begins_a_generation_with_the_next_commit() {
    let mut log = log(1 << 20);
    assert!(log.sequencer.freeze().is_none());
    let first = log.reserve(size(10, 3));
    let before = log.sequencer.last();
    let frozen = log.sequencer.freeze().expect("a generation");
    assert_eq!((frozen.number, frozen.last), (first.generation(), before.0));
    assert!(log.sequencer.freeze().is_none());
    assert_eq!((log.sequencer.last(), log.sequencer.active_segment()), (before, None));
    let next = log.reserve(size(10, 1)).rotation.expect("a rotation");
    assert!(next.frozen.is_none(), "it was frozen before");
    assert_eq!((next.header.previous, next.header.first_sequence), (before.1, before.0.next()));
}

#[test]
fn writers_are_at_rest_behind_a_freeze_and_when_nothing_came_for_a_while() {
    let mut log = log(1 << 20);
    assert!(log.sequencer.is_idle(5), "nothing was written");
    log.reserve(size(10, 1));
    assert!(!log.sequencer.is_idle(IDLE_NS + 5), "it was written since the question before");
    assert!(!log.sequencer.is_idle(2 * IDLE_NS + 4));
    assert!(log.sequencer.is_idle(2 * IDLE_NS + 5));
    assert!(log.sequencer.is_idle(9 * IDLE_NS));
    log.reserve(size(10, 1));
    assert!(!log.sequencer.is_idle(9 * IDLE_NS));
    let _ = log.sequencer.freeze();
    assert!(log.sequencer.is_idle(9 * IDLE_NS));
    log.reserve(size(10, 1));
    assert!(!log.sequencer.is_idle(9 * IDLE_NS));
}

#[test]
fn sequence_numbers_end_with_an_error() {
    let mut log = log(1 << 20);
    log.sequencer = Sequencer::new(SequenceNumber(SequenceNumber::MAX.0 - 3), OLD_END);
    let Err(NotReady::Failed(error)) = log.ask(&size(10, 3), &FREE) else { panic!("one too many") };
    assert_eq!(error.kind(), ErrorKind::Corruption);
    log.reserve(size(10, 2));
    assert!(matches!(log.ask(&size(10, 1), &FREE), Err(NotReady::Failed(_))));
}

#[test]
fn what_lies_behind_all_writers_is_passed_once_and_not_before_all_of_it_is_published() {
    let mut log = log(1 << 20);
    assert!(log.sequencer.filled_up_to(OLD_LAST).is_none(), "nothing was written");
    let first = log.reserve(size(100, 1));
    assert!(log.sequencer.filled_up_to(OLD_LAST).is_none(), "nothing was marked before");
    let second = log.reserve(size(100, 2));
    // The mark lies between the two, so it does not matter that the second is not published.
    assert!(log.sequencer.filled_up_to(OLD_LAST).is_none());
    let (segment, end) = log.sequencer.filled_up_to(first.first).unwrap();
    assert_eq!((segment.id, end), (first.segment.id, second.offset));
    assert!(log.sequencer.filled_up_to(first.first).is_none());
    // Now the mark lies behind the second.
    let (_, end) = log.sequencer.filled_up_to(SequenceNumber(second.first.0 + 1)).unwrap();
    assert_eq!(end, log.sequencer.last().1.offset);
}

#[test]
fn a_segment_of_a_frozen_generation_is_passed_as_a_whole() {
    let mut log = log(1 << 20);
    let first = log.reserve(size(100, 1));
    assert!(log.sequencer.filled_up_to(OLD_LAST).is_none());
    let second = log.reserve(size(100, 1));
    let frozen = log.sequencer.freeze().unwrap();
    let next = log.reserve(size(100, 1));
    assert!(log.sequencer.filled_up_to(first.first).is_none(), "the second is not published");
    assert_eq!(frozen.last, second.first);
    let (segment, end) = log.sequencer.filled_up_to(frozen.last).unwrap();
    assert_eq!((segment.id, end), (first.segment.id, first.segment.file.capacity()));
    let (segment, end) = log.sequencer.filled_up_to(next.first).unwrap();
    assert_eq!((segment.id, end), (next.segment.id, log.sequencer.last().1.offset));
}

#[test]
fn a_segment_that_is_gone_has_nothing_to_give_back() {
    let mut log = log(MEMTABLE_BYTES * 2);
    let first = log.reserve(size(100, 1));
    assert!(log.sequencer.filled_up_to(OLD_LAST).is_none());
    let published = first.first;
    let Log { mut sequencer, wal, .. } = log;
    drop((first, wal, sequencer.freeze()));
    assert!(sequencer.filled_up_to(published).is_none());
}
