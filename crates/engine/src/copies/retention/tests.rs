//! A floor is durable before it lets anything go, and keeps every state from it on (law V12).

use super::*;
use crate::{
    engine::Engine,
    fixture::{
        Pairs, compact_all, contents, fault, flush, killed, leave_manifest_unfinished, open, put,
        put_range, settle, stop_call, try_put,
    },
    options::Durability,
    read::begin_snapshot_at,
    snapshots::LiveSnapshot,
};
use siltdb_base::fs::mem::{CallKind, Crash, FaultError, MemFs};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    thread,
};

/// Crash states after the end of an operation.
const AFTER: u64 = 5;

/// What the default family held after each of some sequence numbers.
type States = BTreeMap<u64, Pairs>;

/// Overwrites a third of the keys, and adds the state after it.
fn write(engine: &Engine, round: u8, states: &mut States) {
    let first = u32::from(round % 3) * 40;
    put_range(engine, "a", first..first + 60, &[round; 30]);
    states.insert(engine.database().log.publisher.published().0, contents(engine, "default", None));
}

fn merge(engine: &Engine) {
    compact_all(engine).unwrap();
    settle(engine).unwrap();
}

/// Each state from the floor on can be read, and no other.
fn check(engine: &Engine, states: &States) {
    let oldest = engine
        .database()
        .snapshots
        .floor()
        .unwrap_or_else(|| engine.database().log.publisher.published())
        .0;
    for (sequence, expected) in states {
        let at = SequenceNumber(*sequence);
        match snapshot_at(engine, at) {
            Ok(_live) => {
                assert!(*sequence >= oldest, "{sequence} is below {oldest}");
                let found = contents(engine, "default", Some(at));
                assert!(found == *expected, "the state at {sequence}, floor {oldest}");
            }
            Err(error) => {
                assert!(*sequence < oldest, "{sequence}: {error}");
                assert_eq!(error.kind(), ErrorKind::NotFound);
                assert!(error.to_string().contains(&format!("at least {oldest}")), "{error}");
            }
        }
    }
}

fn floor(engine: &Engine) -> Option<u64> {
    engine.database().snapshots.floor().map(|floor| floor.0)
}

fn set_retention_floor(engine: &Engine, change: FloorChange) -> Result<Option<SequenceNumber>> {
    engine.at_work(|database| set_floor(&database.job_rooms(), change))
}

fn snapshot_at(engine: &Engine, sequence: SequenceNumber) -> Result<LiveSnapshot> {
    begin_snapshot_at(&engine.database().read_rooms(), sequence)
}

fn set(engine: &Engine, change: FloorChange) -> Option<u64> {
    let set = set_retention_floor(engine, change).unwrap().map(|floor| floor.0);
    assert_eq!(set, floor(engine));
    set
}

fn at(sequence: u64) -> FloorChange {
    FloorChange::At(SequenceNumber(sequence))
}

#[test]
fn every_state_from_the_floor_on_survives_flushes_merges_and_reopens() {
    let (mut fs, mut states) = (MemFs::new(), States::new());
    let mut engine = open(&fs);
    (0..3).for_each(|round| write(&engine, round, &mut states));
    let set_at = set(&engine, FloorChange::Present).unwrap();
    assert_eq!(Some(&set_at), states.keys().last());
    for round in 3..15 {
        write(&engine, round, &mut states);
        match round % 4 {
            0 => flush(&engine).unwrap(),
            1 => merge(&engine),
            2 => {
                fs = killed(&fs);
                engine = open(&fs);
            }
            _ => {
                engine.close().unwrap();
                engine = open(&fs);
            }
        }
        assert_eq!(floor(&engine), Some(set_at));
        check(&engine, &states);
    }
    merge(&engine);
    check(&engine, &states);
    let (kept, middle) = (engine.database().stats().table_entries, *states.keys().nth(9).unwrap());
    assert!(kept > 600, "{kept}");
    assert_eq!(set(&engine, at(middle)), Some(middle));
    merge(&engine);
    check(&engine, &states);
    assert!(engine.database().stats().table_entries < kept);
    assert_eq!(set(&engine, FloorChange::Off), None);
    merge(&engine);
    check(&engine, &states);
    assert_eq!(engine.database().stats().table_entries, 140, "versions were kept without a floor");
    assert_eq!(floor(&open(&killed(&fs))), None);
}

/// Crash states before each call of `work`, and [`AFTER`] more after it.
fn crashes(fs: &MemFs, work: impl FnOnce()) -> Vec<MemFs> {
    let (states, disk) = (Arc::new(Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |call| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            lock(&seen).push(disk.crash_clone(crash));
        }
    })));
    work();
    fs.on_call(None);
    let mut states = std::mem::take(&mut *lock(&states));
    states.extend((0..AFTER).map(|seed| fs.crash_clone(Crash::PowerLoss { seed })));
    states
}

/// The power is lost, or the process killed, before each call.
#[test]
fn a_floor_is_the_old_one_or_the_new_one_after_a_crash_and_never_promises_what_is_gone() {
    let mut outcomes = [0, 0];
    for change in [FloorChange::Present, at(0), FloorChange::Off] {
        let (fs, mut states) = (MemFs::new(), States::new());
        let engine = open(&fs);
        (0..3).for_each(|round| write(&engine, round, &mut states));
        let mut change = change;
        if change != FloorChange::Present {
            set(&engine, FloorChange::Present);
        }
        (3..9).for_each(|round| write(&engine, round, &mut states));
        if change == at(0) {
            change = at(*states.keys().nth(5).unwrap());
        }
        flush(&engine).unwrap();
        put(&engine, "default", b"z", b"not synced");
        states.insert(
            engine.database().log.publisher.published().0,
            contents(&engine, "default", None),
        );
        let before = floor(&engine);
        let after = Mutex::new(None);
        let crashed = crashes(&fs, || {
            *lock(&after) = Some(set(&engine, change));
        });
        let after = lock(&after).unwrap();
        let later = crashes(&fs, || merge(&engine));
        for (number, state) in crashed.iter().chain(later.iter().step_by(7)).enumerate() {
            let engine = open(state);
            let found = floor(&engine);
            assert!(found == before || found == after, "state {number}: {found:?}");
            assert!(
                number + (AFTER as usize) < crashed.len() || found == after,
                "state {number}: {found:?}"
            );
            outcomes[usize::from(found == after)] += 1;
            assert!(
                found.is_none_or(|floor| floor <= engine.database().log.publisher.published().0)
            );
            check_kept(&engine, &states);
            merge(&engine);
            check_kept(&engine, &states);
        }
    }
    assert!(outcomes.iter().all(|count| *count > 10), "{outcomes:?}");
}

/// As [`check`], of a database that may have lost its last commits.
fn check_kept(engine: &Engine, states: &States) {
    let last = engine.database().log.publisher.published().0;
    let there = states.iter().filter(|(sequence, _)| **sequence <= last);
    check(engine, &there.map(|(sequence, pairs)| (*sequence, pairs.clone())).collect());
}

/// The floor that jobs see while the edit is being made durable.
#[test]
fn a_first_floor_holds_before_its_edit_and_a_higher_one_after_it() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let mut states = States::new();
    for (change, before_edit) in [
        (FloorChange::Present, Some(60)),
        (FloorChange::Present, Some(60)),
        (FloorChange::Off, Some(120)),
    ] {
        if change == FloorChange::Present {
            write(&engine, 0, &mut states);
        }
        let stopped = stop_call(&fs, |call| {
            call.kind == CallKind::Sync
                && call.path.extension().is_some_and(|name| name == "manifest")
        });
        let setter = engine.clone();
        let setting = thread::spawn(move || set_retention_floor(&setter, change).unwrap());
        stopped.wait();
        assert_eq!(floor(&engine), before_edit);
        stopped.go_on();
        setting.join().unwrap();
        fs.on_call(None);
    }
    assert_eq!(floor(&engine), None);
}

#[test]
fn a_floor_that_fails_is_the_one_before_and_keeps_what_it_promises() {
    let (ready, mut states) = (MemFs::new(), States::new());
    let engine = open(&ready);
    (0..3).for_each(|round| write(&engine, round, &mut states));
    set(&engine, FloorChange::Present);
    (3..6).for_each(|round| write(&engine, round, &mut states));
    engine.close().unwrap();
    drop(engine);
    let last = *states.keys().last().unwrap();
    let errors = [FaultError::Io, FaultError::NoSpace];
    for (is_first, error) in errors.into_iter().flat_map(|error| [(false, error), (true, error)]) {
        let mut failures = 0;
        for nth in 1.. {
            let fs = killed(&ready);
            let engine = open(&fs);
            if is_first {
                set(&engine, FloorChange::Off);
            }
            let before = floor(&engine);
            put(&engine, "default", b"z", b"one more");
            fs.set_fault(fault(None, nth, error));
            let made = set_retention_floor(&engine, FloorChange::Present);
            fs.set_fault(None);
            if fs.faults() == 0 {
                assert_eq!(made.unwrap(), Some(SequenceNumber(last + 1)));
                break;
            }
            let is_poisoned = engine.database().health.failure().is_some();
            if made.is_err() {
                failures += 1;
                assert!(is_poisoned || floor(&engine) == before, "call {nth}");
            }
            if !is_poisoned {
                set(&engine, FloorChange::Present);
            }
            let expected = [before, Some(last + 1)];
            drop(engine);
            let engine = open(&fs);
            assert!(expected.contains(&floor(&engine)), "call {nth}");
            if !is_first {
                check_kept(&engine, &states);
            }
        }
        assert!(failures > 1, "{failures}");
    }
}

#[test]
fn numbers_that_are_not_kept_are_refused_by_name() {
    let (fs, mut states) = (MemFs::new(), States::new());
    let engine = open(&fs);
    (0..2).for_each(|round| write(&engine, round, &mut states));
    let snapshot = |sequence: u64| snapshot_at(&engine, SequenceNumber(sequence)).map(drop);
    let kind = |error: siltdb_base::error::Error| error.kind();
    // Without a floor only the present is there.
    snapshot(120).unwrap();
    assert!(snapshot(119).unwrap_err().to_string().contains("no retention floor"));
    assert_eq!(snapshot(119).map_err(kind), Err(ErrorKind::NotFound));
    assert_eq!(snapshot(121).map_err(kind), Err(ErrorKind::InvalidArgument));
    assert_eq!(set_retention_floor(&engine, at(119)).map_err(kind), Err(ErrorKind::NotFound));
    assert_eq!(
        set_retention_floor(&engine, at(121)).map_err(kind),
        Err(ErrorKind::InvalidArgument)
    );
    assert_eq!(floor(&engine), None);
    assert_eq!(set(&engine, at(120)), Some(120));
    write(&engine, 2, &mut states);
    let below = snapshot(119).unwrap_err();
    assert!(below.to_string().contains("below the retention floor"), "{below}");
    assert!(below.to_string().contains("at least 120"), "{below}");
    assert_eq!(set_retention_floor(&engine, at(119)).map_err(kind), Err(ErrorKind::NotFound));
    assert_eq!(
        set_retention_floor(&engine, at(181)).map_err(kind),
        Err(ErrorKind::InvalidArgument)
    );
    assert_eq!(floor(&engine), Some(120));
    // A number between two commits counts as any other.
    assert_eq!(set(&engine, at(130)), Some(130));
    assert_eq!(set(&engine, at(130)), Some(130));
    assert_eq!(set(&engine, FloorChange::Off), None);
    assert_eq!(set(&engine, FloorChange::Off), None);
    engine.close().unwrap();
    let refused = set_retention_floor(&engine, FloorChange::Present).map_err(kind);
    assert_eq!(refused, Err(ErrorKind::Closed));
}

/// A snapshot that is held below a floor that was raised keeps its own state.
#[test]
fn a_snapshot_that_was_taken_before_the_floor_rose_stays_readable() {
    let (fs, mut states) = (MemFs::new(), States::new());
    let engine = open(&fs);
    set(&engine, FloorChange::Present);
    (0..4).for_each(|round| write(&engine, round, &mut states));
    let held = snapshot_at(&engine, SequenceNumber(120)).unwrap();
    set(&engine, FloorChange::Present);
    merge(&engine);
    assert!(snapshot_at(&engine, SequenceNumber(120)).is_err());
    assert!(contents(&engine, "default", Some(held.sequence())) == states[&120]);
    let entries = engine.database().stats().table_entries;
    drop(held);
    merge(&engine);
    assert!(engine.database().stats().table_entries < entries);
}

#[test]
fn all_up_to_the_floor_survives_a_power_loss() {
    for durability in [Durability::Volatile, Durability::Buffered] {
        let fs = MemFs::new();
        let engine = open(&fs);
        for number in 0..50_u8 {
            try_put(&engine, "default", &[number], b"1", durability).unwrap();
        }
        let expected = contents(&engine, "default", None);
        assert_eq!(set(&engine, FloorChange::Present), Some(50));
        try_put(&engine, "default", b"\0", b"2", durability).unwrap();
        for seed in 0..4 {
            let lost = open(&fs.crash_clone(Crash::PowerLoss { seed }));
            assert_eq!(floor(&lost), Some(50));
            let _live = snapshot_at(&lost, SequenceNumber(50)).unwrap();
            assert!(contents(&lost, "default", Some(SequenceNumber(50))) == expected);
        }
    }
}

#[test]
fn a_manifest_that_is_begun_anew_has_the_floor() {
    let (fs, mut states) = (MemFs::new(), States::new());
    let engine = open(&fs);
    write(&engine, 0, &mut states);
    set(&engine, FloorChange::Present);
    (1..5).for_each(|round| write(&engine, round, &mut states));
    engine.close().unwrap();
    drop(engine);
    leave_manifest_unfinished(&fs);
    let engine = open(&fs);
    merge(&engine);
    let again = open(&killed(&fs));
    assert_eq!(floor(&again), Some(60));
    check(&again, &states);
}
