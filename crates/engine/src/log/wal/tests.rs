//! Files, segments and syncs of the log: what is durable when, and what happens only once (laws A6,
//! L3 and L7).

use super::*;
use crate::fixture::{DIR, Stopped, fault, files, on_segments, stop_call, until};
use siltdb_base::fs::mem::{CallKind, Crash, FaultError, MemFs};
use siltdb_disk::log::segment::SEGMENT_HEADER_BYTES;
use std::{
    collections::BTreeSet,
    thread::{self, JoinHandle},
    time::Duration,
};

const CAPACITY: u64 = 64 << 10;

/// Seeds of a power failure to try.
const SEEDS: u64 = 8;

/// The end of a log that an earlier process wrote.
const OLD_END: LogPosition = LogPosition { segment: SegmentId(1), offset: 128 };

fn new_wal(fs: &MemFs) -> Wal {
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs.sync_dir(Path::new("")).unwrap();
    let start = LogStart { highest_segment: OLD_END.segment, slots: Vec::new(), end: OLD_END };
    let random = Random::new(Some(1));
    Wal::new(fs.open_dir(Path::new(DIR)).unwrap(), LogIo::Auto, CAPACITY, &start, random)
}

fn begin(wal: &Wal) -> Arc<Segment> {
    wal.make_ready(0).unwrap();
    wal.take_segment(0).unwrap().unwrap().0
}

/// Fills the `nth` of many places in a segment, and returns where it ends.
fn fill(segment: &Segment, nth: u64) -> LogPosition {
    let offset = SEGMENT_HEADER_BYTES as u64 + nth * 100;
    segment.file.fill(offset, &[&[nth as u8 + 1; 100]]).unwrap();
    LogPosition { segment: segment.id, offset: offset + 100 }
}

fn slot(segment: &Segment) -> SegmentSlot {
    SegmentSlot { id: segment.id, slot: segment.slot }
}

#[test]
fn the_name_of_a_segment_is_durable_before_anything_is_written_to_it() {
    for seed in 0..SEEDS {
        let fs = MemFs::new();
        let wal = new_wal(&fs);
        wal.make_ready(0).unwrap();
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        assert_eq!(files(&after, ".log"), [Path::new("db/000001.log")], "seed {seed}");
        let (segment, _) = wal.take_segment(0).unwrap().unwrap();
        let end = fill(&segment, 0);
        wal.sync_to(end, &Health::default()).unwrap();
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        let bytes = after.read_all(Path::new("db/000001.log")).unwrap();
        assert_eq!(bytes[end.offset as usize - 100..end.offset as usize], [1; 100]);
    }
}

#[test]
fn the_name_of_a_segment_that_a_commit_waited_for_is_durable_once_anything_in_it_is() {
    let dir_syncs = |fs: &MemFs| {
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        fs.on_call(Some(Arc::new(move |call| {
            *lock(&counted) += u32::from(call.kind == CallKind::SyncDir);
        })));
        count
    };
    let mut lost = 0;
    for seed in 0..SEEDS {
        let fs = MemFs::new();
        let wal = new_wal(&fs);
        let syncs = dir_syncs(&fs);
        wal.make_ready_now(0).unwrap();
        let (segment, _) = wal.take_segment(0).unwrap().unwrap();
        let end = fill(&segment, 0);
        assert_eq!(*lock(&syncs), 0);
        lost += u64::from(files(&fs.crash_clone(Crash::PowerLoss { seed }), ".log").is_empty());
        wal.sync_to(end, &Health::default()).unwrap();
        assert_eq!(*lock(&syncs), 1);
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        let bytes = after.read_all(Path::new("db/000001.log")).unwrap();
        assert_eq!(bytes[end.offset as usize - 100..end.offset as usize], [1; 100]);
        wal.sync_to(fill(&segment, 1), &Health::default()).unwrap();
        assert_eq!(*lock(&syncs), 1, "it was synced");
        wal.retire(&[slot(&segment)]).unwrap();
        wal.make_ready(0).unwrap();
        assert_eq!(*lock(&syncs), 1, "a file that is used again has its name");
    }
    assert!((1..SEEDS).contains(&lost), "without a sync it is a matter of luck: {lost}");
}

#[test]
fn a_directory_that_cannot_be_synced_fails_the_sync_of_a_new_segment() {
    let fs = MemFs::new();
    let wal = new_wal(&fs);
    wal.make_ready_now(0).unwrap();
    let end = fill(&wal.take_segment(0).unwrap().unwrap().0, 0);
    fs.set_fault(fault(Some(CallKind::SyncDir), 1, FaultError::Io));
    let health = Health::default();
    assert_eq!(wal.sync_to(end, &health).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(wal.sync_to(end, &health).unwrap_err().kind(), ErrorKind::Poisoned, "ever");
    assert_eq!(wal.synced(), OLD_END);
}

#[test]
fn a_file_is_made_ready_once_and_after_a_failure_again() {
    for kind in [CallKind::OpenLog, CallKind::Prepare, CallKind::SyncDir] {
        let fs = MemFs::new();
        let wal = new_wal(&fs);
        fs.set_fault(fault(Some(kind), 1, FaultError::NoSpace));
        assert_eq!(wal.make_ready(0).unwrap_err().kind(), ErrorKind::NoSpace);
        assert!(wal.take_segment(0).unwrap().is_none(), "{kind:?} failed");
        wal.make_ready(0).unwrap();
        wal.make_ready(CAPACITY).unwrap();
        assert_eq!(files(&fs, ".log").len(), 1, "{kind:?}");
        let retired = slot(&wal.take_segment(CAPACITY).unwrap().unwrap().0);
        assert!(wal.take_segment(0).unwrap().is_none());
        wal.retire(&[retired]).unwrap();
        // It needs no window, and its directory entry was synced.
        if kind == CallKind::OpenLog {
            fs.set_fault(fault(Some(kind), 1, FaultError::NoSpace));
            assert_eq!(wal.make_ready(0).unwrap_err().kind(), ErrorKind::NoSpace);
        }
        assert_eq!(begin(&wal).slot, retired.slot, "the retired file is not forgotten");
    }
}

#[test]
fn only_retired_files_are_used_again_and_under_new_ids() {
    let fs = MemFs::new();
    let wal = new_wal(&fs);
    let segments: Vec<_> = (0..4).map(|_| begin(&wal)).collect();
    assert_eq!(files(&fs, ".log").len(), 4);
    assert!(segments[0].id > OLD_END.segment);
    let retired: Vec<_> = segments[..3].iter().map(|segment| slot(segment)).collect();
    wal.retire(&retired).unwrap();
    assert_eq!(files(&fs, ".log").len(), 1 + IDLE_FILES_MAX, "no more are kept");
    wal.make_ready(CAPACITY + 1).unwrap();
    let large = wal.take_segment(CAPACITY + 1).unwrap().unwrap().0;
    assert!(large.file.capacity() > CAPACITY, "retired files are too small for it");
    let again: Vec<_> = (0..3).map(|_| begin(&wal)).collect();
    let all: Vec<_> = segments.iter().chain([&large]).chain(&again).collect();
    assert!(all.windows(2).all(|pair| pair[0].id < pair[1].id));
    let slots =
        |segments: &[Arc<Segment>]| segments.iter().map(|s| s.slot).collect::<BTreeSet<_>>();
    assert_eq!(slots(&segments[..3]).intersection(&slots(&again)).count(), IDLE_FILES_MAX);
    assert_eq!(slots(&again).len(), 3);
    let used = slots(&[Arc::clone(&segments[3]), large]);
    assert!(slots(&again).is_disjoint(&used));
}

/// The segments that are synced from now on.
fn watch_syncs(fs: &MemFs) -> Arc<Mutex<Vec<PathBuf>>> {
    let synced = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&synced);
    fs.on_call(Some(Arc::new(move |call| {
        if on_segments(CallKind::Sync)(&call) {
            lock(&seen).push(call.path.to_owned());
        }
    })));
    synced
}

#[test]
fn a_sync_covers_all_segments_before_its_target_and_reports_no_more() {
    let fs = MemFs::new();
    let (wal, health) = (new_wal(&fs), Health::default());
    let segments: Vec<_> = (0..4).map(|_| begin(&wal)).collect();
    let paths: Vec<_> =
        segments.iter().map(|segment| Path::new(DIR).join(file_name(segment.slot))).collect();
    let ends: Vec<_> = segments.iter().map(|segment| fill(segment, 0)).collect();
    fill(&segments[2], 1);
    wal.retire(&[slot(&segments[0])]).unwrap();
    let synced = watch_syncs(&fs);
    let taken = || std::mem::take(&mut *lock(&synced));
    assert_eq!(wal.sync_to(OLD_END, &health).unwrap(), OLD_END);
    assert_eq!(taken(), [] as [PathBuf; 0], "all of it was durable");
    assert_eq!(wal.sync_to(ends[2], &health).unwrap(), ends[2]);
    assert_eq!(wal.synced(), ends[2], "what was filled behind it was not asked for");
    assert_eq!(taken(), paths[1..3], "one is retired, and one lies behind");
    for seed in 0..SEEDS {
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        for (path, end) in paths[1..3].iter().zip(&ends[1..3]) {
            let (now, then) = (fs.read_all(path).unwrap(), after.read_all(path).unwrap());
            let end = end.offset as usize;
            assert!(now[..end] == then[..end], "seed {seed}");
        }
    }
    assert_eq!(wal.sync_to(ends[3], &health).unwrap(), ends[3]);
    assert_eq!(taken(), paths[2..4], "of the first nothing is unsynced");
    assert_eq!(wal.sync_to(ends[1], &health).unwrap(), ends[3]);
    assert_eq!((wal.syncs(), taken().len()), (2, 0));
}

/// Has one thread sync while many wait for it, and lets `end` end that sync. Returns the result of
/// the first and of the others.
fn sync_together(
    fs: &MemFs,
    wal: &Arc<Wal>,
    health: &Arc<Health>,
    end: fn(&MemFs, Stopped),
) -> (thread::Result<Result<LogPosition>>, Vec<Result<LogPosition>>) {
    let segment = begin(wal);
    let before = wal.synced();
    let sync_to = |target| {
        let (wal, health) = (Arc::clone(wal), Arc::clone(health));
        thread::spawn(move || wal.sync_to(target, &health))
    };
    let stopped = stop_call(fs, on_segments(CallKind::Sync));
    let first = sync_to(fill(&segment, 0));
    stopped.wait();
    let mut waiting = Vec::new();
    for nth in 1..8 {
        let target = fill(&segment, nth);
        waiting.push(sync_to(target));
        // A thread that has asked holds the lock until it waits.
        until(|| lock(&wal.groups).requested == target);
    }
    assert_eq!(wal.synced(), before, "acknowledged before it is durable");
    end(fs, stopped);
    until(|| first.is_finished() && waiting.iter().all(JoinHandle::is_finished));
    (first.join(), waiting.into_iter().map(|waiting| waiting.join().unwrap()).collect())
}

#[test]
fn all_who_wait_share_one_sync() {
    let fs = MemFs::new();
    let (wal, health) = (Arc::new(new_wal(&fs)), Arc::default());
    for round in 1..5 {
        let (first, others) = sync_together(&fs, &wal, &health, |_, sync| sync.go_on());
        assert!(first.unwrap().unwrap() < wal.synced(), "it began before the others asked");
        assert_eq!(others.len(), 7);
        for other in others {
            assert_eq!(other.unwrap(), wal.synced());
        }
        assert_eq!(wal.syncs(), 2 * round);
    }
}

/// No thread may sync again: that would succeed, although pages were dropped.
fn assert_nobody_syncs(fs: &MemFs, wal: &Wal, health: &Health, others: Vec<Result<LogPosition>>) {
    assert_eq!(others.len(), 7);
    for other in others {
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Poisoned);
    }
    let segment = begin(wal);
    let end = fill(&segment, 0);
    let calls = fs.calls();
    for target in [LogPosition { segment: OLD_END.segment, offset: 136 }, end] {
        assert_eq!(wal.sync_to(target, health).unwrap_err().kind(), ErrorKind::Poisoned);
    }
    assert_eq!(fs.calls(), calls, "a thread synced again");
    assert_eq!((wal.synced(), wal.syncs()), (OLD_END, 0));
    assert_eq!(wal.sync_to(OLD_END, health).unwrap(), OLD_END, "that much is durable");
    assert_eq!(health.failure().unwrap().kind(), ErrorKind::Poisoned);
}

#[test]
fn a_sync_that_failed_fails_all_who_wait_and_is_never_tried_again() {
    let fs = MemFs::new();
    let (wal, health) = (Arc::new(new_wal(&fs)), Arc::default());
    let (first, others) = sync_together(&fs, &wal, &health, |fs, sync| {
        fs.set_fault(fault(Some(CallKind::Sync), 1, FaultError::Io));
        sync.go_on();
    });
    assert_eq!(first.unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(fs.faults(), 1);
    assert_nobody_syncs(&fs, &wal, &health, others);
}

#[test]
fn a_sync_that_panicked_gives_its_turn_back_and_nobody_takes_it() {
    let fs = MemFs::new();
    let (wal, health) = (Arc::new(new_wal(&fs)), Arc::default());
    let (first, others) = sync_together(&fs, &wal, &health, |_, sync| sync.panic());
    assert!(first.is_err(), "it panicked");
    assert_nobody_syncs(&fs, &wal, &health, others);
}

#[test]
fn a_sync_on_a_thread_that_already_panics_is_a_sync_like_others() {
    struct SyncOnDrop<'a>(&'a Wal, LogPosition, &'a Health);
    impl Drop for SyncOnDrop<'_> {
        fn drop(&mut self) {
            let _ = self.0.sync_to(self.1, self.2);
        }
    }
    let fs = MemFs::new();
    let (wal, health) = (new_wal(&fs), Health::default());
    let end = fill(&begin(&wal), 0);
    let panicked = thread::scope(|scope| {
        let unwind = || {
            let _sync = SyncOnDrop(&wal, end, &health);
            panic!("a panic on purpose");
        };
        scope.spawn(unwind).join()
    });
    assert!(panicked.is_err());
    health.check_log().unwrap();
    assert_eq!(wal.synced(), end);
}

#[test]
fn those_who_need_a_file_at_once_make_one() {
    let fs = MemFs::new();
    let wal = Arc::new(new_wal(&fs));
    let stopped = stop_call(&fs, on_segments(CallKind::OpenLog));
    let make = || {
        let wal = Arc::clone(&wal);
        thread::spawn(move || wal.make_ready(0).unwrap())
    };
    let first = make();
    stopped.wait();
    let others: Vec<_> = (0..3).map(|_| make()).collect();
    // They found none ready and wait for the first.
    thread::sleep(Duration::from_millis(20));
    stopped.go_on();
    first.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(files(&fs, ".log").len(), 1);
}

#[test]
fn the_file_of_a_huge_commit_is_not_kept_for_small_ones() {
    let fs = MemFs::new();
    let wal = new_wal(&fs);
    wal.make_ready(4 * CAPACITY).unwrap();
    let huge = wal.take_segment(4 * CAPACITY).unwrap().unwrap().0;
    let usual = begin(&wal);
    wal.retire(&[slot(&huge), slot(&usual)]).unwrap();
    assert_eq!(files(&fs, ".log").len(), 1);
    assert_eq!(begin(&wal).slot, usual.slot);
}
