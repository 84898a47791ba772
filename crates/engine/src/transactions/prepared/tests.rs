//! What a flush says of prepared transactions, and what an opening makes of it (law L9).

use super::*;
use crate::{
    engine::Engine,
    fixture::{
        DIR, fault, flush, get, killed, on_segments, open, options, put, put_range, run_job,
        stop_call,
    },
    transactions::conditional_commit::Writes,
    write::locks::{Writer, acquire},
};
use siltdb_base::{
    error::ErrorKind,
    fs::mem::{CallKind, Crash, FaultError, MemFs},
    id::FamilyId,
};
use std::{path::Path, thread};

fn batch(key: &[u8]) -> BatchBytes {
    let mut batch = BatchBytes::new();
    batch.put(FamilyId(0), key, b"value").unwrap();
    batch
}

fn prepare(engine: &Engine, id: &str) -> Result<Undecided> {
    let writer = Writer { holder: None, timeout: Duration::ZERO };
    let conditions = Conditions {
        snapshot: None,
        first_expiry: None,
        reads: None,
        writes: Writes::Unchecked,
        writer,
    };
    super::prepare(engine.writable().unwrap(), id.as_bytes(), &batch(id.as_bytes()), &conditions)
}

fn decide(engine: &Engine, id: &str, decision: Decision) -> Result<SequenceNumber> {
    super::decide(engine.writable().unwrap(), id.as_bytes(), None, decision, Durability::Synced)
}

fn ids(engine: &Engine) -> Vec<String> {
    let undecided = engine.database().prepared.undecided();
    let id = |one: &Undecided| String::from_utf8(one.transaction.id.clone()).unwrap();
    undecided.iter().map(id).collect()
}

/// The numbers of the transactions that the manifest says.
fn said(engine: &Engine) -> Vec<u64> {
    let manifest = lock(&engine.database().catalog.manifest_io);
    manifest.state.prepared.keys().map(|number| number.0).collect()
}

#[test]
fn the_edit_of_a_flush_says_what_it_leaves_behind_and_forgets_what_was_decided() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let first = prepare(&engine, "a").unwrap().number.0;
    assert!(said(&engine).is_empty(), "the log has it");
    flush(&engine).unwrap();
    assert_eq!(said(&engine), [first]);
    // Said once, whatever is flushed after that.
    put_range(&engine, "k", 0..10, b"");
    flush(&engine).unwrap();
    assert_eq!(said(&engine), [first]);
    assert!(
        carry_forward(
            &engine.database().installer(),
            &engine.database().prepared,
            engine.database().log.publisher.published()
        )
        .unwrap()
        .is_empty()
    );
    decide(&engine, "a", Decision::Commit).unwrap();
    let second = prepare(&engine, "a").unwrap().number.0;
    assert_eq!(said(&engine), [first], "the log has the decision");
    let reopened = open(&killed(&fs));
    assert_eq!((ids(&reopened), said(&reopened)), (vec!["a".to_owned()], vec![first]));
    assert_eq!(reopened.database().prepared.undecided()[0].number.0, second);
    flush(&engine).unwrap();
    assert_eq!(said(&engine), [second]);
    decide(&engine, "a", Decision::RollBack).unwrap();
    flush(&engine).unwrap();
    assert!(said(&engine).is_empty());
    let reopened = open(&killed(&fs));
    assert!(ids(&reopened).is_empty() && said(&reopened).is_empty());
    assert_eq!(get(&reopened, "default", b"a").unwrap(), b"value");
}

#[test]
fn a_flush_syncs_decisions_of_later_generations_before_it_forgets_the_record() {
    let fs = MemFs::new();
    let engine = open(&fs);
    prepare(&engine, "a").unwrap();
    put(&engine, "default", b"k", b"v");
    let frozen = lock(&engine.database().log.sequencer).freeze().unwrap();
    engine.database().installer().freeze(frozen);
    super::decide(engine.writable().unwrap(), b"a", None, Decision::Commit, Durability::Buffered)
        .unwrap();
    assert!(run_job(&engine).unwrap(), "the first generation is flushed");
    for seed in 0..20 {
        let lost = open(&fs.crash_clone(Crash::PowerLoss { seed }));
        assert!(ids(&lost).is_empty());
        assert_eq!(get(&lost, "default", b"a").unwrap(), b"value", "seed {seed}");
    }
}

/// A writer that waits for the locks validates against what is published.
#[test]
fn its_locks_are_held_until_the_decision_is_published() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let owner = prepare(&engine, "a").unwrap().owner;
    let fill = stop_call(&fs, on_segments(CallKind::Fill));
    let decider = engine.clone();
    let decision = thread::spawn(move || decide(&decider, "a", Decision::Commit));
    fill.wait();
    assert_eq!(engine.database().locks.held(owner).len(), 1);
    fill.go_on();
    decision.join().unwrap().unwrap();
    assert!(engine.database().locks.held(owner).is_empty());
}

#[test]
fn a_prepare_that_fails_keeps_neither_id_nor_locks() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"k", b"v");
    fs.set_fault(fault(Some(CallKind::Prepare), 1, FaultError::NoSpace));
    let mut long = batch(b"long");
    long.put(FamilyId(0), b"value", &vec![0; 4 << 20]).unwrap();
    let writer = Writer { holder: None, timeout: Duration::ZERO };
    let conditions = Conditions {
        snapshot: None,
        first_expiry: None,
        reads: None,
        writes: Writes::Unchecked,
        writer,
    };
    let error = super::prepare(engine.writable().unwrap(), b"a", &long, &conditions).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    fs.set_fault(None);
    put(&engine, "default", b"long", b"not locked");
    prepare(&engine, "a").unwrap();
    // So does a decision that fails: the transaction waits as before.
    fs.set_fault(fault(Some(CallKind::Sync), 1, FaultError::Io));
    assert_eq!(decide(&engine, "a", Decision::Commit).unwrap_err().kind(), ErrorKind::Poisoned);
    for seed in 0..20 {
        let reopened = open(&fs.crash_clone(Crash::PowerLoss { seed }));
        let is_there = get(&reopened, "default", b"a").is_some();
        assert_eq!(is_there, ids(&reopened).is_empty(), "seed {seed}");
    }
}

#[test]
fn locks_of_every_form_are_the_same_after_a_reopen() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let family = engine.database().catalog.families.named("default").unwrap();
    let holder = LockHolder::new(&engine.database().locks);
    let range = |lower: Option<&[u8]>, upper: Option<&[u8]>| {
        let (lower, upper) = (lower.map(Slice::copy_from), upper.map(Slice::copy_from));
        LockTarget::Range(Bounds { lower, upper })
    };
    let locks = [
        (LockTarget::Key(Slice::copy_from(b"k")), LockMode::Exclusive),
        (range(Some(b"m"), Some(b"n")), LockMode::Shared),
        (range(Some(b"x"), None), LockMode::Shared),
        (range(None, Some(b"b")), LockMode::Shared),
    ];
    for lock in locks {
        acquire(engine.writable().unwrap(), &holder, &family, lock.0, lock.1, Duration::ZERO)
            .unwrap();
    }
    let writer = Writer { holder: Some(&holder), timeout: Duration::ZERO };
    let conditions = Conditions {
        snapshot: None,
        first_expiry: None,
        reads: None,
        writes: Writes::Unchecked,
        writer,
    };
    super::prepare(engine.writable().unwrap(), b"a", &batch(b"written"), &conditions).unwrap();
    drop(holder);
    let shown = |engine: &Engine| {
        let owner = engine.database().prepared.undecided()[0].owner;
        let held = engine.database().locks.held(owner).into_iter();
        let mut held: Vec<_> = held.map(|lock| format!("{lock} {:?}", lock.mode)).collect();
        held.sort();
        held
    };
    let before = shown(&engine);
    assert_eq!(before.len(), 5, "{before:?}");
    let reopened = open(&killed(&fs));
    assert_eq!(shown(&reopened), before);
}

#[test]
fn a_database_that_is_read_lists_what_waits_and_decides_nothing() {
    let fs = MemFs::new();
    let engine = open(&fs);
    prepare(&engine, "a").unwrap();
    engine.close().unwrap();
    let access = crate::options::Access::ReadOnly;
    let reader =
        Engine::open(Path::new(DIR), crate::options::EngineOptions { access, ..options(&fs) });
    let reader = reader.unwrap();
    assert_eq!(ids(&reader), ["a"]);
    assert_eq!(decide(&reader, "a", Decision::Commit).unwrap_err().kind(), ErrorKind::ReadOnly);
}
