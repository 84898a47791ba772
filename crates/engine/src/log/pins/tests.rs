//! Which retired segments are let go, and when; and a feed beside a writer under loom.

use super::*;
#[cfg(loom)]
use siltdb_base::sync::{
    atomic::{AtomicU64, Ordering},
    thread,
};

fn segment(id: u64) -> SegmentSlot {
    SegmentSlot { id: SegmentId(id), slot: 100 + id }
}

#[test]
fn without_pins_every_retired_segment_is_let_go() {
    let pins = Arc::new(Pins::default());
    assert_eq!(pins.retire(&[segment(1), segment(2)]), [segment(1), segment(2)]);
    assert_eq!(pins.retire(&[]), []);
}

#[test]
fn a_pin_keeps_its_segment_and_all_later_ones_until_it_is_dropped() {
    let pins = Arc::new(Pins::default());
    let pin = pins.pin(SegmentId(2));
    assert_eq!(pins.retire(&[segment(1), segment(2)]), [segment(1)]);
    assert_eq!(pins.retire(&[segment(3)]), []);
    drop(pin);
    assert_eq!(pins.retire(&[segment(4)]), [segment(2), segment(3), segment(4)]);
}

#[test]
fn the_oldest_of_several_pins_counts() {
    let pins = Arc::new(Pins::default());
    let (late, early, again) =
        (pins.pin(SegmentId(3)), pins.pin(SegmentId(1)), pins.pin(SegmentId(1)));
    assert_eq!(pins.retire(&[segment(1), segment(2), segment(3)]), []);
    drop(early);
    assert_eq!(pins.retire(&[]), [], "another pin is at the same segment");
    drop(again);
    assert_eq!(pins.retire(&[]), [segment(1), segment(2)]);
    drop(late);
    assert_eq!(pins.retire(&[]), [segment(3)]);
}

fn known(id: u64, first: u64) -> KnownSegment {
    KnownSegment {
        slot: segment(id),
        first: SequenceNumber(first),
        previous: LogPosition { segment: SegmentId(id - 1), offset: 100 },
        bytes: 0,
        origin: Origin::Ours,
    }
}

/// Pins with segments of 100 bytes and 10 sequence numbers: 1 from number 1, 2 from number 11, …
fn with_segments(retention: Retention, count: u64) -> Arc<Pins> {
    let pins = Arc::new(Pins::new(retention));
    (1..=count).for_each(|id| pins.begin(known(id, (id - 1) * 10 + 1)));
    pins
}

#[test]
fn a_feed_keeps_what_it_has_not_read() {
    let feed_bytes_max = 1 << 20;
    let pins = with_segments(Retention { feed_bytes_max, ..Retention::default() }, 4);
    let end = SequenceNumber(41);
    let feed = pins.follow(SequenceNumber(15), end).unwrap();
    assert_eq!(pins.retire(&[segment(1), segment(2), segment(3)]), [segment(1)]);
    let found = feed.advance(SequenceNumber(30)).unwrap();
    assert_eq!((found.segment.slot, found.following.unwrap().slot), (segment(3), segment(4)));
    assert_eq!(pins.retire(&[]), [segment(2)]);
    assert_eq!(pins.follow(SequenceNumber(20), end).unwrap_err(), SequenceNumber(21));
    drop(feed);
    assert_eq!(pins.retire(&[]), [segment(3)]);
    assert!(!pins.has_slot(103) && pins.has_slot(104));
}

#[test]
fn a_feed_that_begins_in_an_empty_log_keeps_its_first_segment() {
    let pins = with_segments(Retention::default(), 0);
    let feed = pins.follow(SequenceNumber(7), SequenceNumber(7)).unwrap();
    assert_eq!(pins.follow(SequenceNumber(6), SequenceNumber(7)).unwrap_err(), SequenceNumber(7));
    pins.begin(known(1, 7));
    assert_eq!(pins.retire(&[segment(1)]), []);
    assert_eq!(feed.advance(SequenceNumber(7)).unwrap().segment.slot, segment(1));
}

#[test]
fn a_feed_loses_its_pin_at_one_byte_too_many_of_what_it_alone_keeps() {
    for (bytes, feed_bytes_max, is_held) in
        [(0, 300, true), (0, 299, false), (200, 100, true), (200, 99, false)]
    {
        let retention = Retention { bytes, feed_bytes_max, time: None };
        let pins = with_segments(retention, 4);
        let feed = pins.follow(SequenceNumber(1), SequenceNumber(41)).unwrap();
        let free = pins.retire(&[segment(1), segment(2), segment(3)]);
        assert_eq!(feed.is_held(), is_held, "{bytes} {feed_bytes_max}");
        assert_eq!(free.is_empty(), is_held);
        assert_eq!(feed.advance(SequenceNumber(1)).is_some(), is_held);
    }
}

#[test]
fn what_was_read_while_the_pin_was_lost_is_not_returned() {
    for (feed_bytes_max, expected) in [(100, Some(7)), (99, None)] {
        let pins = with_segments(Retention { feed_bytes_max, ..Retention::default() }, 4);
        let feed = pins.follow(SequenceNumber(1), SequenceNumber(41)).unwrap();
        let read = feed.read(SequenceNumber(1), |found| {
            assert_eq!(found.segment.slot, segment(1));
            let free = pins.retire(&[segment(1)]);
            assert_eq!(free.is_empty(), expected.is_some());
            7
        });
        assert_eq!(read, expected);
    }
}

#[test]
fn retired_segments_are_retained_up_to_their_bytes() {
    for (bytes, free) in [(99, 3), (100, 2), (299, 1), (300, 0)] {
        let pins = with_segments(Retention { bytes, ..Retention::default() }, 4);
        assert_eq!(pins.retire(&[segment(1), segment(2), segment(3)]).len(), free, "{bytes}");
    }
}

/// A log with one commit in each segment, and its files.
#[cfg(loom)]
struct LoomLog {
    pins: Arc<Pins>,
    /// The sequence number of the record in each file.
    files: [AtomicU64; 3],
    published: AtomicU64,
}

#[cfg(loom)]
impl LoomLog {
    const COMMITS: u64 = 3;

    fn new(feed_bytes_max: u64) -> Arc<Self> {
        let retention = Retention { feed_bytes_max, ..Retention::default() };
        let files = [(); 3].map(|()| AtomicU64::new(0));
        Arc::new(Self { pins: Arc::new(Pins::new(retention)), files, published: AtomicU64::new(0) })
    }

    /// Writes all commits. Retires each segment when the next one follows, and reuses its file once
    /// it is released.
    fn write(&self) {
        let mut idle = vec![2, 1, 0];
        let mut last: Option<SegmentSlot> = None;
        for number in 1..=Self::COMMITS {
            let slot = idle.pop().expect("as many files as commits");
            let id = SegmentId(number);
            self.pins.begin(KnownSegment {
                slot: SegmentSlot { id, slot },
                first: SequenceNumber(number),
                previous: LogPosition { segment: SegmentId(number - 1), offset: 100 },
                bytes: 0,
                origin: Origin::Ours,
            });
            // Relaxed: the publication orders it before reads of this record, and the lock of the
            // pins orders it after reads of the record before.
            self.files[slot as usize].store(number, Ordering::Relaxed);
            self.published.store(number, Ordering::Release);
            if let Some(last) = last.replace(SegmentSlot { id, slot }) {
                idle.extend(self.pins.retire(&[last]).into_iter().map(|free| free.slot));
            }
        }
    }

    /// Reads the commit `next` as a feed does; `None`, if the pin was lost.
    fn read(&self, pin: &FeedPin, next: u64) -> Option<u64> {
        pin.read(SequenceNumber(next), |found| {
            let slot = found.segment.slot.slot as usize;
            self.files[slot].load(Ordering::Relaxed)
        })
    }

    /// Runs the writer beside a feed that looks twice for commits. Then the feed reads the rest.
    /// Returns what it read, and whether it kept its pin.
    fn run(self: Arc<Self>) -> (Vec<u64>, bool) {
        let pin = self.pins.follow(SequenceNumber(1), SequenceNumber(1)).expect("an empty log");
        let writer = {
            let log = Arc::clone(&self);
            thread::spawn(move || log.write())
        };
        let mut told = Vec::new();
        let mut tell = |looks: usize| {
            for _ in 0..looks {
                let next = told.len() as u64 + 1;
                if next <= self.published.load(Ordering::Acquire) {
                    match self.read(&pin, next) {
                        Some(number) => told.push(number),
                        None => return false,
                    }
                }
            }
            true
        };
        let is_held = tell(2);
        writer.join().expect("it ends");
        let is_held = is_held && tell(Self::COMMITS as usize);
        (told, is_held)
    }
}

#[cfg(loom)]
#[test]
fn loom_a_feed_tells_each_commit_once_while_segments_are_retired_and_used_again() {
    loom::model(|| {
        let (told, is_held) = LoomLog::new(1 << 20).run();
        assert_eq!((told, is_held), ((1..=LoomLog::COMMITS).collect(), true));
    });
}

#[cfg(loom)]
#[test]
fn loom_a_feed_that_loses_its_pin_tells_nothing_of_what_took_its_place() {
    loom::model(|| {
        let (told, is_held) = LoomLog::new(0).run();
        assert!(told.iter().copied().eq(1..=told.len() as u64), "{told:?}");
        assert!(is_held == (told.len() as u64 == LoomLog::COMMITS), "{told:?}");
    });
}
