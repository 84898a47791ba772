//! Updates and atomic operations on single keys, alone and against seven other threads.

#[path = "updates/long.rs"]
mod long;

use siltdb::{
    Db, Error, ErrorKind, FamilyOptions, Isolation, LockMode, Options, Read, Swap, UpdateOptions,
};
use siltdb_base::clock::ManualClock;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

const THREADS: u64 = 8;

fn open() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("a database");
    (dir, db)
}

/// A database whose clock stands still, so that no update in it takes long: closures here write
/// beside their transaction, which would wait for the locks of a long update.
fn open_timeless() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::default());
    let db = Options::new().clock(clock).open(dir.path()).expect("a database");
    (dir, db)
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().expect("8 bytes")))
}

fn plus_one(value: Option<&[u8]>) -> Option<[u8; 8]> {
    Some((number(value) + 1).to_be_bytes())
}

/// Runs `work` in eight threads that start together, and returns their results.
fn together<T: Send>(work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(usize::try_from(THREADS).expect("8"));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(thread)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

#[test]
fn an_update_runs_again_after_a_conflict() {
    let (_dir, db) = open_timeless();
    let mut runs = 0;
    let value = db.update(|tx| {
        runs += 1;
        let value = number(tx.get("k")?.as_deref());
        if runs <= 5 {
            db.put("k", &(10 * runs).to_string().repeat(8).as_bytes()[..8])?;
        }
        tx.put("k", b"from tx.")?;
        Ok::<_, Error>(value)
    });
    assert_eq!((runs, value.unwrap()), (6, u64::from_be_bytes(*b"50505050")));
    assert_eq!(db.get("k").unwrap().unwrap(), b"from tx.");
}

#[test]
fn an_update_gives_up_after_its_attempts_and_says_how_many() {
    let (_dir, db) = open_timeless();
    for attempts in [1, 7] {
        let mut runs = 0;
        let error = db
            .update_with(&UpdateOptions::new().attempts(attempts), |tx| {
                runs += 1;
                tx.get("k")?;
                db.put("k", "other")?;
                tx.put("k", "mine")
            })
            .unwrap_err();
        assert_eq!((runs, error.kind()), (attempts, ErrorKind::Conflict));
        assert!(error.to_string().contains(&format!("each of {attempts} attempts")), "{error}");
        assert_eq!(db.get("k").unwrap().unwrap(), b"other");
    }
}

#[test]
fn an_error_of_the_closure_rolls_back_and_is_returned_at_once() {
    let (_dir, db) = open();
    let mut runs = 0;
    let error = db.update(|tx| {
        runs += 1;
        tx.put("k", "v")?;
        Err::<(), _>(Error::invalid("no"))
    });
    assert_eq!((runs, error.unwrap_err().kind()), (1, ErrorKind::InvalidArgument));
    assert!(db.is_empty().unwrap());
    // Only a conflict of the update itself runs it again.
    let mut kept = None;
    let error = db.update(|tx| {
        runs += 1;
        kept = Some(tx.clone());
        tx.put("k", "v")?;
        Err::<(), _>(Error::new(ErrorKind::Conflict, "of something else"))
    });
    assert_eq!((runs, error.unwrap_err().kind()), (2, ErrorKind::Conflict));
    assert!(!kept.unwrap().is_active() && db.is_empty().unwrap());
}

/// An error of a program, which tells nothing of the error that it was made of.
#[derive(Debug, PartialEq)]
enum Failure {
    Storage,
    NoStock,
}

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Self::Storage
    }
}

#[test]
fn an_update_returns_the_error_of_the_program_in_its_own_type() {
    let (_dir, db) = open();
    let mut runs = 0;
    let sold = db.update(|tx| {
        runs += 1;
        tx.put("sold", "1")?;
        tx.get("stock")?.ok_or(Failure::NoStock)
    });
    assert_eq!((runs, sold), (1, Err(Failure::NoStock)));
    assert!(db.is_empty().unwrap());
    let ended = db.update(|tx| {
        tx.rollback()?;
        Ok::<(), Failure>(())
    });
    assert_eq!(ended, Err(Failure::Storage));
    let seen = db.view(|snapshot| snapshot.get("stock")?.ok_or(Failure::NoStock));
    assert_eq!(seen, Err(Failure::NoStock));
}

#[test]
fn a_conflict_runs_an_update_again_also_if_the_closure_made_another_error_of_it() {
    let (_dir, db) = open_timeless();
    // At the commit.
    let mut runs = 0;
    let done = db.update(|tx| {
        runs += 1;
        tx.get("k")?;
        if runs < 3 {
            db.put("k", "other")?;
        }
        tx.put("k", "mine")?;
        Ok::<_, Failure>(runs)
    });
    assert_eq!(done, Ok(3));
    // At a commit within the closure.
    let mut runs = 0;
    let done = db.update(|tx| {
        runs += 1;
        tx.get("k")?;
        if runs < 3 {
            db.put("k", "other")?;
            tx.put("k", "mine")?;
            tx.commit()?;
        }
        Ok::<_, Failure>(runs)
    });
    assert_eq!(done, Ok(3));
    // After its last attempt.
    let mut runs = 0;
    let done = db.update_with(&UpdateOptions::new().attempts(2), |tx| {
        runs += 1;
        tx.get("k")?;
        db.put("k", "other")?;
        tx.put("k", "mine")?;
        Ok::<_, Failure>(())
    });
    assert_eq!((runs, done), (2, Err(Failure::Storage)));
}

#[test]
fn a_deadlock_runs_an_update_again_also_if_the_closure_made_another_error_of_it() {
    let (_dir, db) = open();
    let (meet, runs) = (Barrier::new(2), AtomicU64::new(0));
    thread::scope(|scope| {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let (db, meet, runs) = (&db, &meet, &runs);
            scope.spawn(move || {
                let mut met = false;
                db.update(|tx| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    tx.lock_key(first, LockMode::Exclusive)?;
                    if !met {
                        met = true;
                        meet.wait();
                    }
                    tx.lock_key(second, LockMode::Exclusive)?;
                    tx.put(first, "v")?;
                    Ok::<(), Failure>(())
                })
                .unwrap();
            });
        }
    });
    // One of the two was in the other's way, and had another attempt.
    assert!(runs.into_inner() > 2);
    assert_eq!(db.count(..).unwrap(), 2);
}

#[test]
fn a_view_reads_one_moment() {
    let (_dir, db) = open();
    db.put("k", "1").unwrap();
    let (before, after) = db
        .view(|snapshot| {
            let before = snapshot.get("k")?;
            db.put("k", "2")?;
            Ok::<_, Error>((before, snapshot.get("k")?))
        })
        .unwrap();
    assert_eq!(before, after);
}

#[test]
fn eight_threads_on_sixteen_counters_lose_no_update_and_none_of_them_starves() {
    const UPDATES: u64 = 12_000;
    let (_dir, db) = open();
    let (started, attempts_max) = (AtomicU64::new(0), AtomicU64::new(0));
    let counts = together(|thread| {
        let (mut count, mut state) = (0_u64, thread + 1);
        while started.fetch_add(1, Ordering::Relaxed) < UPDATES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = [u8::try_from(state >> 60).unwrap()];
            let mut attempts = 0;
            db.update(|tx| {
                attempts += 1;
                let value = plus_one(tx.get(key)?.as_deref());
                // Lets other threads interfere, also on one processor.
                thread::yield_now();
                tx.put(key, value.unwrap())
            })
            .unwrap();
            attempts_max.fetch_max(attempts, Ordering::Relaxed);
            count += 1;
        }
        count
    });
    let sum: u64 = db.iter().unwrap().map(|pair| number(Some(&pair.unwrap().1))).sum();
    assert_eq!((counts.iter().sum::<u64>(), sum), (UPDATES, UPDATES));
    // How many updates a thread makes depends on when it runs; how often it has to try does not.
    let attempts_max = attempts_max.into_inner();
    assert!(attempts_max <= 40, "an update was tried {attempts_max} times: {counts:?}");
}

#[test]
fn a_long_update_gets_through_a_storm_of_short_ones() {
    let (_dir, db) = open();
    let done = AtomicU64::new(0);
    let long = together(|thread| {
        if thread > 0 {
            while done.load(Ordering::Relaxed) == 0 {
                db.fetch_and_update([u8::try_from(thread).unwrap()], plus_one).unwrap();
            }
            return 0;
        }
        let mut attempts = 0;
        for _ in 0..20 {
            db.update(|tx| {
                attempts += 1;
                let sum: u64 =
                    tx.iter()?.map(|pair| Ok(number(Some(&pair?.1)))).sum::<Result<_, Error>>()?;
                tx.put([0], sum.to_be_bytes())
            })
            .unwrap();
        }
        done.store(1, Ordering::Relaxed);
        attempts
    });
    assert!((20..1000).contains(&long[0]), "{long:?}");
}

#[test]
fn compare_and_swap_tells_what_is_there() {
    let (_dir, db) = open();
    let current = |value: &[u8]| Swap::Differs(Some(siltdb::Slice::copy_from(value)));
    assert_eq!(db.compare_and_swap("k", Some(b"1"), Some(b"2")).unwrap(), Swap::Differs(None));
    assert!(db.compare_and_swap("k", None, None).unwrap().is_swapped());
    assert!(db.compare_and_swap("k", None, Some(b"1")).unwrap().is_swapped());
    assert_eq!(db.compare_and_swap("k", None, Some(b"2")).unwrap(), current(b"1"));
    assert!(db.compare_and_swap("k", Some(b"1"), Some(b"")).unwrap().is_swapped());
    assert_eq!(db.compare_and_swap("k", None, Some(b"2")).unwrap(), current(b""));
    assert!(db.compare_and_swap("k", Some(b""), None).unwrap().is_swapped());
    assert!(!db.contains("k").unwrap());
    let before = db.snapshot().sequence();
    assert!(!db.compare_and_swap("k", Some(b"1"), Some(b"2")).unwrap().is_swapped());
    assert_eq!(
        (db.take("k").unwrap(), db.pop_first().unwrap(), db.pop_last().unwrap()),
        (None, None, None)
    );
    assert_eq!(db.snapshot().sequence(), before);
}

#[test]
fn swaps_of_eight_threads_each_build_on_the_one_before() {
    let (_dir, db) = open();
    together(|_| {
        for _ in 0..200 {
            let mut expected = db.get("k").unwrap();
            loop {
                let new = (number(expected.as_deref()) + 1).to_be_bytes();
                match db.compare_and_swap("k", expected.as_deref(), Some(&new)).unwrap() {
                    Swap::Swapped => break,
                    Swap::Differs(current) => expected = current,
                }
            }
        }
    });
    assert_eq!(number(db.get("k").unwrap().as_deref()), 200 * THREADS);
}

#[test]
fn of_eight_threads_one_puts_each_absent_key_and_one_takes_it() {
    let (_dir, db) = open();
    let family = db.create_family("names", FamilyOptions::new()).unwrap();
    let won = together(|thread| {
        let put = |key: &u64| {
            let kept = family.put_if_absent(key.to_be_bytes(), thread.to_be_bytes()).unwrap();
            kept.is_none()
        };
        (0..200).filter(put).count()
    });
    assert_eq!((won.iter().sum::<usize>(), family.count(..).unwrap()), (200, 200));
    for (thread, won) in won.iter().enumerate() {
        let is_of = |value: &[u8]| number(Some(value)) == thread as u64;
        let kept = family.iter().unwrap().filter(|pair| is_of(&pair.as_ref().unwrap().1)).count();
        assert_eq!(kept, *won);
    }
    let taken = together(|_| {
        (0..200_u64).filter(|key| family.take(key.to_be_bytes()).unwrap().is_some()).count()
    });
    assert_eq!(taken.iter().sum::<usize>(), 200);
    assert!(family.is_empty().unwrap());
}

#[test]
fn updates_of_one_key_return_each_value_once() {
    let (_dir, db) = open();
    let fetched = together(|_| {
        let mut values = Vec::new();
        for _ in 0..100 {
            let old = db.fetch_and_update("k", plus_one).unwrap();
            values.push(number(old.as_deref()));
            let new = db.update_and_fetch("k", plus_one).unwrap().unwrap();
            values.push(number(Some(&new)) - 1);
        }
        assert!(values.is_sorted());
        values
    });
    let all: BTreeSet<u64> = fetched.into_iter().flatten().collect();
    assert!(all.into_iter().eq(0..200 * THREADS));
    assert!(db.update_and_fetch("k", |_| None::<Vec<u8>>).unwrap().is_none());
    assert!(db.is_empty().unwrap());
}

#[test]
fn each_entry_is_popped_once_while_others_are_put() {
    let (_dir, db) = open();
    let popped = together(|thread| {
        let mut popped = Vec::new();
        for round in 0..100_u64 {
            db.put((round * THREADS + thread).to_be_bytes(), "job").unwrap();
            let pair = if round % 2 == 0 { db.pop_first() } else { db.pop_last() };
            popped.push(pair.unwrap().expect("no more are popped than were put").0.to_vec());
        }
        popped
    });
    let all: BTreeSet<Vec<u8>> = popped.into_iter().flatten().collect();
    assert_eq!(all.len() as u64, 100 * THREADS);
    assert!(db.is_empty().unwrap());
}

#[test]
fn ids_ascend_in_each_thread_and_are_given_once() {
    let (_dir, db) = open();
    let given = together(|_| {
        let ids: Vec<_> = (0..2000).map(|_| db.next_id("ids").unwrap()).collect();
        assert!(ids.is_sorted());
        ids
    });
    let all: BTreeSet<u64> = given.into_iter().flatten().collect();
    assert!(all.into_iter().eq(1..=2000 * THREADS));
}

#[test]
fn ids_are_unique_across_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    let db = Db::open(dir.path().join("data")).unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let before: BTreeSet<_> = (0..5000).map(|_| users.next_id("ids").unwrap()).collect();
    // A checkpoint has what is on disk, without a close.
    db.checkpoint(&copy).unwrap();
    let copy = Db::open(&copy).unwrap();
    let after = copy.family("users").unwrap().next_id("ids").unwrap();
    assert!(after > *before.last().unwrap(), "{after}");
    // Another family has its own counters.
    assert_eq!(copy.next_id("ids").unwrap(), 1);
}

#[test]
fn ids_within_and_without_transactions_are_unique_together() {
    let (_dir, db) = open();
    let mut ids = vec![db.next_id("ids").unwrap()];
    for _ in 0..3 {
        ids.push(db.update(|tx| tx.next_id("ids")).unwrap());
        ids.push(db.next_id("ids").unwrap());
    }
    for _ in 0..5000 {
        ids.push(db.next_id("ids").unwrap());
    }
    let rolled_back = db.begin(Isolation::Serializable);
    let lost = rolled_back.next_id("ids").unwrap();
    drop(rolled_back);
    ids.push(db.update(|tx| tx.next_id("ids")).unwrap());
    assert_eq!(ids.last(), Some(&lost));
    let count = ids.len();
    assert_eq!(ids.into_iter().collect::<BTreeSet<_>>().len(), count);
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
        let error = db.begin(isolation).next_id("ids").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn what_is_no_counter_gives_no_id() {
    let (dir, db) = open();
    db.put("k", "text").unwrap();
    assert_eq!(db.next_id("k").unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.put("k", u64::MAX.to_be_bytes()).unwrap();
    assert_eq!(db.next_id("k").unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    let db = Options::new().read_only(true).open(dir.path()).unwrap();
    assert_eq!(db.next_id("ids").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.take("k").unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_step_in_a_transaction_reads_what_the_transaction_wrote() {
    let (_dir, db) = open();
    let tx = db.begin(Isolation::Serializable);
    assert!(tx.compare_and_swap("a", None, Some(b"1")).unwrap().is_swapped());
    assert!(tx.put_if_absent("a", "2").unwrap().is_some());
    assert_eq!(tx.fetch_and_update("a", |_| Some("3")).unwrap().unwrap(), b"1");
    assert_eq!(tx.update_and_fetch("b", |_| Some("4")).unwrap(), Some("4"));
    assert_eq!(tx.take("a").unwrap().unwrap(), b"3");
    assert_eq!(tx.pop_last().unwrap().unwrap().0, b"b");
    assert_eq!(tx.pop_first().unwrap(), None);
    assert!(tx.commit().is_ok() && db.is_empty().unwrap());
}
