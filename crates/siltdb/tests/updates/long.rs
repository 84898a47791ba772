//! Updates that take long, beside others that do not, and updates within updates.

use super::{number, open, plus_one, together};
use siltdb::{Db, Error, ErrorKind, Isolation, Read, UpdateOptions};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// What others do while a long update runs.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Updates,
    Puts,
    Steps,
}

impl Beside {
    fn write(self, db: &Db, key: &[u8]) {
        match self {
            Self::Updates => db
                .update(|tx| {
                    let value = plus_one(tx.get(key)?.as_deref());
                    tx.put(key, value.expect("a value"))
                })
                .expect("a short update commits"),
            Self::Puts => db.put(key, 1_u64.to_be_bytes()).expect("a plain put waits"),
            Self::Steps => drop(db.fetch_and_update(key, plus_one).expect("a step commits")),
        }
    }
}

/// The attempts of an update that works for 100 ms, beside seven threads that write what it reads.
fn attempts_beside(beside: Beside, isolation: Isolation) -> u64 {
    let (_dir, db) = open();
    for key in 0..4_u8 {
        db.put([key], 0_u64.to_be_bytes()).expect("a put");
    }
    let (is_done, attempts) = (AtomicBool::new(false), AtomicU64::new(0));
    together(|thread| {
        if thread > 0 {
            while !is_done.load(Ordering::Relaxed) {
                beside.write(&db, &[u8::try_from(thread % 4).expect("below 4")]);
            }
            return;
        }
        let options = UpdateOptions::new().isolation(isolation);
        let done = db.update_with(&options, |tx| {
            attempts.fetch_add(1, Ordering::Relaxed);
            let mut sum = 0;
            for key in 0..4_u8 {
                sum += number(tx.get([key])?.as_deref());
            }
            thread::sleep(Duration::from_millis(100));
            tx.put([0], sum.to_be_bytes())?;
            Ok::<_, Error>(())
        });
        is_done.store(true, Ordering::Relaxed);
        done.expect("a long update commits");
    });
    attempts.into_inner()
}

#[test]
fn a_long_update_commits_at_its_third_attempt_beside_short_ones_and_plain_writes() {
    for beside in [Beside::Updates, Beside::Puts, Beside::Steps] {
        for isolation in [Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable] {
            let attempts = attempts_beside(beside, isolation);
            assert!(attempts <= 3, "{attempts} attempts at {isolation:?} beside {beside:?}");
        }
    }
}

#[test]
fn long_updates_that_read_each_others_keys_all_commit() {
    let (_dir, db) = open();
    let attempts_max = AtomicU64::new(0);
    together(|thread| {
        let mut attempts = 0;
        db.update(|tx| {
            attempts += 1;
            // A range, so that each conflicts with all others.
            let sum: u64 =
                tx.iter()?.map(|pair| Ok(number(Some(&pair?.1)))).sum::<Result<_, Error>>()?;
            thread::sleep(Duration::from_millis(20));
            tx.put(thread.to_be_bytes(), (sum + 1).to_be_bytes())
        })
        .unwrap();
        attempts_max.fetch_max(attempts, Ordering::Relaxed);
    });
    // Each saw the sum of those before it, so the values are powers of two.
    let mut values: Vec<u64> =
        db.iter().unwrap().map(|pair| number(Some(&pair.unwrap().1))).collect();
    values.sort_unstable();
    assert_eq!(values, [1, 2, 4, 8, 16, 32, 64, 128]);
    let attempts_max = attempts_max.into_inner();
    assert!(attempts_max <= 20, "{attempts_max} attempts");
}

#[test]
fn an_update_within_an_update_fails_at_once_and_says_why() {
    let (_dir, db) = open();
    let (_other_dir, other) = open();
    let began = Instant::now();
    let mut runs = 0;
    let error = db
        .update(|outer| {
            runs += 1;
            outer.get("k")?;
            db.update(|inner| inner.put("k", "v"))
        })
        .unwrap_err();
    assert_eq!((runs, error.kind()), (1, ErrorKind::InvalidArgument));
    let said = error.to_string();
    assert!(said.contains("an update within an update of the same database"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(db.is_empty().unwrap());
    // After it, after a panic, on another database and from another thread an update runs.
    db.update(|tx| tx.put("after", "v")).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.update(|_| -> Result<(), Error> { panic!("of the program") })
    }));
    assert!(panicked.is_err());
    db.update(|tx| {
        tx.put("outer", "v")?;
        other.update(|tx| tx.put("other", "v"))?;
        thread::scope(|scope| {
            scope.spawn(|| db.update(|tx| tx.put("thread", "v"))).join().expect("no panic")
        })
    })
    .unwrap();
    assert_eq!((db.count(..).unwrap(), other.count(..).unwrap()), (3, 1));
}
