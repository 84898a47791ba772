//! Crashes at every call: what was acknowledged as synced is there, with its whole value.

use crate::blobs::world::{contents, crashed, key, options, synced, value};
use siltdb::{
    Db, Durability, ErrorKind, Isolation, Read, WriteOptions,
    testing::{Crash, Fault, FaultError, FaultSpan, MemFs},
};
use std::{collections::BTreeMap, ops::Range};

const KEYS: u32 = 12;

/// Puts every key several times; every second commit is synced. Returns the rounds that each key
/// may have: from the last synced one on. Ends at the first error.
fn work(db: &Db, acknowledged: &mut BTreeMap<u32, Vec<u32>>) -> siltdb::Result<()> {
    for round in 1..5 {
        for number in 0..KEYS {
            let bytes = if number % 3 == 0 { 60 } else { 3000 };
            let rounds = acknowledged.entry(number).or_default();
            rounds.push(round);
            let value = value(number, round, bytes);
            if number % 2 == 0 {
                db.put_with(key(number), value, &synced())?;
                // Everything before it is synced, too.
                for rounds in acknowledged.values_mut() {
                    rounds.drain(..rounds.len() - 1);
                }
            } else {
                db.put(key(number), value)?;
            }
        }
        db.flush()?;
        while db.run_job()? {}
    }
    db.compact()?;
    while db.run_job()? {}
    Ok(())
}

fn shown(db: &Db) -> BTreeMap<u32, u32> {
    let mut rounds = BTreeMap::new();
    for (found, bytes) in contents(db) {
        let number = u32::from_be_bytes(found[..].try_into().unwrap());
        let is_round = |round: &u32| {
            let length = if number % 3 == 0 { 60 } else { 3000 };
            bytes == value(number, *round, length)
        };
        let round = (1..5).find(is_round).expect("a value that was put");
        rounds.insert(number, round);
    }
    rounds
}

/// With the seeded fault `blob_synced_after_the_log` a synced record points to lost bytes.
#[test]
fn no_crash_at_any_call_loses_a_synced_value_or_shows_half_of_one() {
    let whole = MemFs::new();
    let mut all = BTreeMap::new();
    work(&options(&whole).open("db").unwrap(), &mut all).unwrap();
    let calls = whole.calls();
    assert!(calls > 200, "{calls} calls");
    let (mut crashes, mut lost_tails) = (0, 0);
    for nth in (1..calls).step_by(3) {
        let fs = MemFs::new();
        let (kind, error) = (None, FaultError::Io);
        fs.set_fault(Some(Fault { kind, nth, error, span: FaultSpan::FromThenOn }));
        let mut acknowledged = BTreeMap::new();
        let failed = match options(&fs).open("db") {
            Ok(db) => work(&db, &mut acknowledged).is_err(),
            Err(_) => true,
        };
        crashes += u32::from(failed);
        for seed in 0..4 {
            let after = match seed {
                0 => fs.crash_clone(Crash::Kill),
                seed => crashed(&fs, seed),
            };
            let db = match options(&after).open("db") {
                Ok(db) => db,
                Err(error) => panic!("call {nth}, seed {seed}: {error}"),
            };
            let rounds = shown(&db);
            for (number, allowed) in &acknowledged {
                let is_synced = allowed.len() == 1 || *number % 2 == 0;
                match rounds.get(number) {
                    Some(round) => {
                        let oldest = allowed[0].saturating_sub(1);
                        assert!(*round >= oldest, "call {nth}, seed {seed}, key {number}");
                    }
                    None => {
                        lost_tails += 1;
                        assert!(
                            !is_synced || allowed[0] == 1,
                            "call {nth}, seed {seed}: key {number}"
                        );
                    }
                }
            }
            assert!(db.check(&mut |_| ()).unwrap().errors.is_empty(), "call {nth}, seed {seed}");
            // It can be written again.
            db.put_with(b"more", value(99, 1, 3000), &synced()).unwrap();
            drop(db);
            let again = options(&crashed(&after, 9)).open("db").unwrap();
            assert_eq!(again.get(b"more").unwrap().unwrap(), value(99, 1, 3000).as_slice());
        }
    }
    assert!(crashes > 50, "{crashes} crashes");
    assert!(lost_tails > 0, "no crash lost anything");
}

#[test]
fn a_lost_value_of_an_unsynced_commit_is_a_lost_tail_and_of_a_synced_one_is_damage() {
    // Few crashes leave both the log and the blob file as they were.
    const CRASHES: u64 = 400;
    let mut tails = 0;
    for seed in 0..CRASHES {
        let fs = MemFs::new();
        let db = options(&fs).open("db").unwrap();
        db.put_with(key(1), value(1, 1, 3000), &synced()).unwrap();
        db.put(key(2), value(2, 1, 3000)).unwrap();
        db.put(key(3), value(3, 1, 3000)).unwrap();
        let after = crashed(&fs, seed);
        let db = options(&after).open("db").unwrap();
        assert_eq!(db.get(key(1)).unwrap().unwrap(), value(1, 1, 3000).as_slice());
        let rest: Vec<_> = [2, 3].map(|number| db.get(key(number)).unwrap()).into();
        assert!(rest[0].is_some() || rest[1].is_none(), "a prefix survives");
        tails += u64::from(rest[1].is_none());
    }
    assert!((1..CRASHES).contains(&tails), "{tails} of {CRASHES}");
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    db.put_with(key(1), value(1, 1, 3000), &synced()).unwrap();
    db.put_with(key(2), value(2, 1, 3000), &synced()).unwrap();
    drop(db);
    let (name, bytes) = crate::blobs::world::blob_files(&fs, "db").remove(0);
    assert!(bytes > 6000);
    crate::blobs::damage::cut(&fs, &name, 5000);
    let error = options(&fs).open("db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&name), "{error}");
    assert!(error.offset().is_some(), "{error}");
}

/// Ingests, prepares, decides, and drops what was written. Ends at the first error.
fn work_aside(db: &Db) -> siltdb::Result<()> {
    let family = db.default_family();
    family.ingest_sorted((0..20).map(|number| (key(number), value(number, 1, 3000))))?;
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put(key(30), value(30, 1, 3000))?;
    transaction.prepare(b"id")?;
    db.flush()?;
    db.commit_prepared(b"id")?;
    family.delete_range(key(0)..key(10))?;
    db.compact()?;
    while db.run_job()? {}
    Ok(())
}

/// An ingest is there as a whole or not at all, and so is what a decision commits.
#[test]
fn no_crash_of_an_ingest_or_a_decision_shows_half_of_a_value() {
    let whole = MemFs::new();
    work_aside(&options(&whole).open("db").unwrap()).unwrap();
    let calls = whole.calls();
    let (mut undecided, mut decided) = (0, 0);
    for nth in 1..calls {
        let fs = MemFs::new();
        let (kind, error) = (None, FaultError::Io);
        fs.set_fault(Some(Fault { kind, nth, error, span: FaultSpan::FromThenOn }));
        let _ = options(&fs).open("db").and_then(|db| work_aside(&db));
        for seed in 0..3 {
            let after = crashed(&fs, seed);
            let db = match options(&after).open("db") {
                Ok(db) => db,
                Err(error) => panic!("call {nth}, seed {seed}: {error}"),
            };
            let found = contents(&db);
            for (key, bytes) in &found {
                let number = u32::from_be_bytes(key[..].try_into().unwrap());
                assert_eq!(*bytes, value(number, 1, 3000), "call {nth}, seed {seed}");
            }
            let of = |range: Range<u32>| range.filter(|n| found.contains_key(&key(*n)[..])).count();
            let ingested = [of(0..10), of(10..20)];
            let is_whole = matches!(ingested, [0, 0] | [10, 10] | [0, 10]);
            assert!(is_whole, "call {nth}, seed {seed}: {ingested:?}");
            undecided += db.prepared().len();
            decided += of(30..31);
            assert!(db.prepared().is_empty() || of(30..31) == 0, "call {nth}, seed {seed}");
            assert!(db.check(&mut |_| ()).unwrap().errors.is_empty(), "call {nth}, seed {seed}");
        }
    }
    assert!(undecided > 10 && decided > 10, "{undecided} undecided, {decided} decided");
}

#[test]
fn a_decision_whose_value_a_crash_took_is_open_again() {
    let mut taken = 0;
    for seed in 0..40 {
        let fs = MemFs::new();
        let db = options(&fs).open("db").unwrap();
        let transaction = db.begin(Isolation::Snapshot);
        transaction.put(key(1), value(1, 1, 3000)).unwrap();
        transaction.prepare(b"id").unwrap();
        let buffered = WriteOptions::new().durability(Durability::Buffered);
        db.commit_prepared_with(b"id", &buffered).unwrap();
        let db = options(&crashed(&fs, seed)).open("db").unwrap();
        let wanted = value(1, 1, 3000);
        match db.get(key(1)).unwrap() {
            Some(found) => assert_eq!(found, wanted.as_slice()),
            None => {
                taken += 1;
                assert_eq!(db.prepared().len(), 1);
                db.commit_prepared(b"id").unwrap();
                assert_eq!(db.get(key(1)).unwrap().unwrap(), wanted.as_slice());
            }
        }
    }
    assert!((1..40).contains(&taken), "{taken} of 40");
}
