//! The retained sequence numbers, in the registry and in a flush (law V4).

use super::*;
use crate::fixture::{
    compact_all, contents, flush, get, held_up, killed, on_segments, open, put, snapshot, stop_call,
};
use siltdb_base::fs::mem::{CallKind, MemFs};
use std::thread;

fn at(sequence: u64) -> impl FnOnce() -> SequenceNumber {
    move || SequenceNumber(sequence)
}

fn retained(snapshots: &Snapshots, present: u64) -> Vec<u64> {
    let retained = snapshots.retained(at(present), || 0).sequences;
    retained.iter().map(|sequence| sequence.0).collect()
}

#[test]
fn live_snapshots_and_the_present_are_retained_each_once_and_in_order() {
    let snapshots = Arc::new(Snapshots::default());
    assert_eq!(retained(&snapshots, 0), [0]);
    let middle = snapshots.take(at(5), || 0);
    let twin = snapshots.take(at(5), || 0);
    let newest = snapshots.take(at(9), || 0);
    let _oldest = snapshots.take(at(2), || 0);
    assert_eq!(middle.sequence(), SequenceNumber(5));
    assert_eq!(retained(&snapshots, 9), [2, 5, 9]);
    assert_eq!(retained(&snapshots, 12), [2, 5, 9, 12]);
    assert_eq!(snapshots.count(), 4);
    drop(middle);
    assert_eq!(retained(&snapshots, 12), [2, 5, 9, 12], "a twin still reads at 5");
    drop((twin, newest));
    assert_eq!(retained(&snapshots, 12), [2, 12]);
    assert_eq!(snapshots.count(), 1);
}

#[test]
fn snapshots_of_many_threads_are_in_one_list() {
    let registry = Arc::new(Snapshots::default());
    let begin = |sequence| {
        let registry = Arc::clone(&registry);
        thread::spawn(move || registry.take(at(sequence), || sequence + 100))
    };
    let threads: Vec<_> = (1..=40).map(begin).collect();
    let mut taken: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(retained(&registry, 41), (1..=41).collect::<Vec<_>>());
    assert_eq!((registry.count(), registry.newest()), (40, Some(SequenceNumber(40))));
    assert_eq!(registry.retained(at(41), || u64::MAX).earliest_ms, 101);
    assert!(registry.begin_removal(SequenceNumber(40)).is_none());
    // They end on another thread than they began on.
    taken.truncate(2);
    assert_eq!(retained(&registry, 41), [1, 2, 41]);
    assert!(registry.begin_removal(SequenceNumber(3)).is_some());
}

#[test]
fn the_list_and_the_present_are_captured_as_one_and_so_is_a_snapshot() {
    let registry = Arc::new(Snapshots::default());
    let other = Arc::clone(&registry);
    let mut taken = None;
    let list = registry.retained(
        || {
            taken = Some(held_up(move || other.take(at(7), || 0)));
            SequenceNumber(7)
        },
        || 0,
    );
    assert_eq!(list.sequences, [SequenceNumber(7)]);
    let taken = taken.unwrap().recv().unwrap();
    let other = Arc::clone(&registry);
    let mut captured = None;
    let _second = registry.take(
        || {
            captured = Some(held_up(move || retained(&other, 9)));
            SequenceNumber(8)
        },
        || 0,
    );
    assert_eq!(captured.unwrap().recv().unwrap(), [taken.sequence().0, 8, 9]);
}

#[test]
fn a_flush_keeps_what_snapshots_and_the_present_see_and_a_merge_drops_what_they_let_go() {
    let engine = open(&MemFs::new());
    let mut snapshots = Vec::new();
    for value in 0..6_u8 {
        put(&engine, "default", b"key", &[value]);
        if value % 2 == 0 {
            snapshots.push(snapshot(&engine));
        }
    }
    let seen = |snapshot: &LiveSnapshot| {
        contents(&engine, "default", Some(snapshot.sequence()))[0].1.clone()
    };
    flush(&engine).unwrap();
    assert_eq!(
        engine.database().stats().table_entries,
        4,
        "0, 2 and 4 for snapshots, 5 for the present"
    );
    assert_eq!(snapshots.iter().map(seen).collect::<Vec<_>>(), [[0], [2], [4]]);
    drop(snapshots.remove(1));
    compact_all(&engine).unwrap();
    assert_eq!(engine.database().stats().table_entries, 3);
    assert_eq!(snapshots.iter().map(seen).collect::<Vec<_>>(), [[0], [4]]);
    drop(snapshots);
    compact_all(&engine).unwrap();
    assert_eq!(engine.database().stats().table_entries, 1);
    assert_eq!(get(&engine, "default", b"key"), Some(vec![5]));
}

#[test]
fn the_floor_bounds_what_can_be_taken_and_is_captured_with_the_list() {
    let snapshots = Arc::new(Snapshots::default());
    let take =
        |sequence| snapshots.take_at(SequenceNumber(sequence), at(9), || 0).map_err(|e| e.kind());
    assert_eq!(snapshots.retained(at(9), || 0).all_from, None);
    assert_eq!(take(8).unwrap_err(), ErrorKind::NotFound);
    assert_eq!(take(10).unwrap_err(), ErrorKind::InvalidArgument);
    assert_eq!(take(9).unwrap().sequence(), SequenceNumber(9));
    assert_eq!(snapshots.begin_floor(None, at(5)).unwrap(), SequenceNumber(5));
    assert_eq!(snapshots.retained(at(9), || 0).all_from, Some(SequenceNumber(5)));
    assert_eq!(take(4).unwrap_err(), ErrorKind::NotFound);
    let live = take(5).unwrap();
    assert_eq!(retained(&snapshots, 9), [5, 9]);
    // A higher one is in force once it is set.
    let higher = snapshots.begin_floor(Some(SequenceNumber(7)), at(9)).unwrap();
    assert_eq!((higher, snapshots.floor()), (SequenceNumber(7), Some(SequenceNumber(5))));
    snapshots.set_floor(Some(higher));
    assert_eq!(take(5).unwrap_err(), ErrorKind::NotFound);
    assert_eq!(retained(&snapshots, 9), [5, 9], "one that was taken stays");
    drop(live);
    // Commits were lost: the floor is above the present.
    assert_eq!(snapshots.begin_floor(None, at(3)).unwrap(), SequenceNumber(7));
    let lower = snapshots.begin_floor(Some(SequenceNumber(6)), at(9));
    assert_eq!(lower.unwrap_err().kind(), ErrorKind::NotFound);
}

/// A commit has its place in the generation but is not published. The flush must not miss its
/// sequence number in what it captures, nor its entry in what it writes.
#[test]
fn a_flush_waits_until_its_inputs_are_wholly_published() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"early", b"1");
    let stopped = stop_call(&fs, on_segments(CallKind::Fill));
    let writer = {
        let engine = engine.clone();
        thread::spawn(move || put(&engine, "default", b"late", b"2"))
    };
    stopped.wait();
    let flushing = engine.clone();
    let is_flushed = held_up(move || flush(&flushing).unwrap());
    stopped.go_on();
    writer.join().unwrap();
    is_flushed.recv().unwrap();
    assert_eq!(
        (engine.database().stats().table_entries, engine.database().stats().memtable_entries),
        (2, 0)
    );
    let reopened = open(&killed(&fs));
    let both = [(b"early".to_vec(), b"1".to_vec()), (b"late".to_vec(), b"2".to_vec())];
    assert_eq!(contents(&reopened, "default", None), both);
}

#[test]
fn a_removal_begins_only_if_no_snapshot_sees_what_is_removed() {
    let snapshots = Arc::new(Snapshots::default());
    let begins = |oldest| snapshots.begin_removal(SequenceNumber(oldest)).is_some();
    assert!(begins(5));
    let older = snapshots.take(|| SequenceNumber(4), || 0);
    assert!(begins(5) && !begins(4) && snapshots.newest() == Some(SequenceNumber(4)));
    // One that reads at the present sees it, too.
    let present = snapshots.take(|| SequenceNumber(9), || 0);
    assert!(!begins(5) && !begins(9) && begins(10));
    drop((older, present));
    assert!(begins(0));
    snapshots.set_floor(Some(SequenceNumber(9)));
    assert!(!begins(20));
}

#[test]
fn no_snapshot_begins_during_a_removal() {
    let snapshots = Arc::new(Snapshots::default());
    let removal = snapshots.begin_removal(SequenceNumber(5)).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let registry = Arc::clone(&snapshots);
    let reader = std::thread::spawn(move || {
        let snapshot = registry.take(|| SequenceNumber(9), || 0);
        sender.send(snapshot.sequence()).unwrap();
    });
    let waited = receiver.recv_timeout(std::time::Duration::from_millis(50));
    assert!(waited.is_err(), "a snapshot began: {waited:?}");
    drop(removal);
    assert_eq!(receiver.recv(), Ok(SequenceNumber(9)));
    reader.join().unwrap();
}
