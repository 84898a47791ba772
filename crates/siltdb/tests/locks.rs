//! Locks of transactions: which calls wait, for how long, and what a lock guarantees.

use siltdb::{
    Db, Error, ErrorKind, Isolation, LockMode, Options, Read, Result, Transaction,
    TransactionOptions, UpdateOptions, WriteBatch,
};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use LockMode::{Exclusive, Shared};

const SHORT: Duration = Duration::from_millis(30);
/// Longer than any call that is not stuck.
const LONG: Duration = Duration::from_secs(20);

fn open(timeout: Duration) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().lock_timeout(timeout).open(dir.path()).unwrap();
    (dir, db)
}

fn begin(db: &Db, timeout: Duration) -> Transaction {
    let options = TransactionOptions::new().isolation(Isolation::ReadCommitted);
    db.begin_with(&options.lock_timeout(timeout))
}

fn is_busy<T: std::fmt::Debug>(result: Result<T>) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    error
}

fn is_deadlock<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("deadlock"), "{error}");
}

#[test]
fn an_exclusive_lock_excludes_all_others_and_its_error_names_key_and_holder() {
    let (_dir, db) = open(SHORT);
    let (a, b) = (begin(&db, SHORT), begin(&db, SHORT));
    a.lock_key("k", Exclusive).unwrap();
    for mode in [Shared, Exclusive] {
        let error = is_busy(b.lock_key("k", mode)).to_string();
        let holder = format!("transaction {}", a.lock_number().unwrap());
        assert!(error.contains("\"k\"") && error.contains(&holder), "{error}");
    }
    b.lock_key("l", Exclusive).unwrap();
    a.lock_key("k", Exclusive).unwrap();
    a.commit().unwrap();
    b.lock_key("k", Exclusive).unwrap();
}

#[test]
fn shared_locks_stand_beside_each_other_and_keep_writers_out() {
    let (_dir, db) = open(SHORT);
    let (a, b) = (begin(&db, SHORT), begin(&db, SHORT));
    a.lock_key("k", Shared).unwrap();
    b.lock_key("k", Shared).unwrap();
    is_busy(a.lock_key("k", Exclusive));
    is_busy(db.put("k", "v"));
    b.rollback().unwrap();
    a.lock_key("k", Exclusive).unwrap();
    is_busy(begin(&db, SHORT).lock_key("k", Shared));
    a.put("k", "own").unwrap();
    a.commit().unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"own");
}

#[test]
fn a_locked_range_holds_its_keys_whether_they_exist_or_not_and_no_others() {
    let (_dir, db) = open(SHORT);
    let (a, b) = (begin(&db, SHORT), begin(&db, SHORT));
    a.lock_range("b".."d", Exclusive).unwrap();
    for key in ["b", "c", "czz"] {
        is_busy(b.lock_key(key, Shared));
        is_busy(db.put(key, ""));
    }
    for key in ["a", "azz", "d", "e"] {
        b.lock_key(key, Shared).unwrap();
        b.put(key, "").unwrap();
    }
    for range in ["a".."c", "c".."cc", "c".."z", "a".."z"] {
        is_busy(b.lock_range(range, Shared));
    }
    is_busy(b.lock_range(.., Shared));
    b.lock_range("d".., Exclusive).unwrap();
    b.lock_range(.."b", Exclusive).unwrap();
    // The reverse: a locked key within a range.
    let c = begin(&db, SHORT);
    is_busy(c.lock_range("c".."f", Shared));
    // A range without keys locks nothing.
    c.lock_range("d".."b", Exclusive).unwrap();
    c.lock_range("c".."c", Exclusive).unwrap();
    b.commit().unwrap();
    a.rollback().unwrap();
    c.lock_range(.., Exclusive).unwrap();
}

#[test]
fn a_family_of_its_own_has_locks_of_its_own() {
    let (_dir, db) = open(SHORT);
    let other = db.create_family("other", siltdb::FamilyOptions::new()).unwrap();
    let a = begin(&db, SHORT);
    a.family(&other).unwrap().lock_key("k", Exclusive).unwrap();
    db.put("k", "").unwrap();
    is_busy(other.put("k", ""));
    a.commit().unwrap();
    other.put("k", "").unwrap();
}

/// Runs `write` against a lock on "k", and asserts that it continues after the release.
fn waits_and_goes_on(write: impl FnOnce(&Db) -> Result<()> + Send) {
    let (_dir, db) = open(LONG);
    db.put("k", "before").unwrap();
    let holder = begin(&db, LONG);
    assert_eq!(holder.get_for_update("k").unwrap().unwrap(), b"before");
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let db = &db;
        scope.spawn(move || done.send(write(db)).unwrap());
        is_done.recv_timeout(SHORT).expect_err("the write did not wait");
        assert_eq!(db.get("k").unwrap().unwrap(), b"before");
        holder.put("seen", "before").unwrap();
        holder.commit().unwrap();
        is_done.recv_timeout(LONG).unwrap().unwrap();
    });
    assert!(db.get("k").unwrap().is_none_or(|value| value == b"after"));
    assert!(db.contains("seen").unwrap());
}

#[test]
fn a_put_waits_for_the_lock_and_goes_on() {
    waits_and_goes_on(|db| db.put("k", "after"));
}

#[test]
fn a_batch_waits_for_the_lock_and_goes_on_as_a_whole() {
    waits_and_goes_on(|db| {
        let mut batch = WriteBatch::new();
        batch.put(&db.default_family(), "a", "")?;
        batch.put(&db.default_family(), "k", "after")?;
        db.write(&batch)
    });
}

#[test]
fn a_range_deletion_over_a_lock_waits_and_goes_on() {
    waits_and_goes_on(|db| db.delete_range("a".."l"));
}

#[test]
fn a_commit_of_another_transaction_waits_and_goes_on() {
    waits_and_goes_on(|db| {
        let transaction = begin(db, LONG);
        transaction.put("k", "after")?;
        transaction.commit().map(drop)
    });
}

#[test]
fn a_batch_with_a_new_family_waits_and_goes_on() {
    waits_and_goes_on(|db| {
        let mut batch = WriteBatch::new();
        let family = db.prepare_family("new", siltdb::FamilyOptions::new())?;
        batch.create_family(&family)?;
        batch.put(&family, "k", "new")?;
        batch.put(&db.default_family(), "k", "after")?;
        db.write(&batch)?;
        assert!(family.contains("k")?);
        Ok(())
    });
}

#[test]
fn writes_that_waited_too_long_are_busy_and_leave_nothing() {
    let (dir, db) = open(SHORT);
    db.put("k", "before").unwrap();
    let holder = begin(&db, SHORT);
    holder.lock_key("k", Exclusive).unwrap();
    is_busy(db.put("k", "after"));
    is_busy(db.delete("k"));
    is_busy(db.delete_range(..));
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), "other", "").unwrap();
    batch.put(&db.default_family(), "k", "after").unwrap();
    is_busy(db.write(&batch));
    let transaction = begin(&db, SHORT);
    transaction.put("other", "").unwrap();
    transaction.put("k", "after").unwrap();
    is_busy(transaction.commit());
    assert!(!transaction.is_active());
    // Adjacent keys are not locked.
    db.put("j", "").unwrap();
    drop(holder);
    db.put("l", "").unwrap();
    drop((db, transaction));
    let db = Db::open(dir.path()).unwrap();
    let keys: Vec<_> = db.iter().unwrap().keys().map(Result::unwrap).collect();
    assert_eq!(keys, [b"j", b"k", b"l"]);
    assert_eq!(db.get("k").unwrap().unwrap(), b"before");
}

#[test]
fn locks_go_with_rollback_reset_drop_and_a_failed_commit_but_not_with_a_savepoint() {
    let (_dir, db) = open(SHORT);
    let is_free = || db.put("k", "").is_ok();
    let a = begin(&db, SHORT);
    a.savepoint("s").unwrap();
    a.lock_key("k", Exclusive).unwrap();
    a.rollback_to("s").unwrap();
    assert!(!is_free(), "a savepoint released the lock");
    a.rollback().unwrap();
    assert!(is_free());
    a.reset();
    a.lock_key("k", Exclusive).unwrap();
    assert!(!is_free());
    a.reset();
    assert!(is_free());
    a.lock_key("k", Exclusive).unwrap();
    let handle = a.clone();
    drop(a);
    assert!(!is_free(), "one handle of two was dropped");
    drop(handle);
    assert!(is_free());
    let b = db.begin(Isolation::Serializable);
    b.get("x").unwrap();
    db.put("x", "").unwrap();
    b.lock_key("k", Exclusive).unwrap();
    b.put("k", "").unwrap();
    assert!(!is_free());
    assert_eq!(b.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(is_free());
}

#[test]
fn a_transaction_that_is_rolled_back_while_it_waits_gets_no_lock() {
    let (_dir, db) = open(SHORT);
    let (holder, waiter) = (begin(&db, LONG), begin(&db, LONG));
    holder.lock_key("k", Exclusive).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.lock_key("k", Exclusive));
        thread::sleep(SHORT);
        waiter.rollback().unwrap();
        holder.rollback().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
    });
    db.put("k", "").unwrap();
}

/// Lets each of `count` transactions lock a key, and then the key of the next one.
fn deadlock_of(count: usize) {
    let (_dir, db) = open(LONG);
    let transactions: Vec<_> = (0..count).map(|_| begin(&db, LONG)).collect();
    for (i, transaction) in transactions.iter().enumerate() {
        transaction.lock_key(format!("key{i}"), Exclusive).unwrap();
    }
    let barrier = Barrier::new(count);
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|i| {
                let (transaction, barrier) = (&transactions[i], &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let result = transaction.lock_key(format!("key{}", (i + 1) % count), Exclusive);
                    let number = transaction.lock_number().unwrap();
                    transaction.rollback().unwrap();
                    (number, result)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let failed: Vec<_> = results.iter().filter_map(|(_, result)| result.as_ref().err()).collect();
    assert_eq!(failed.len(), 1, "one transaction gives way, not more: {failed:?}");
    assert_eq!(failed[0].kind(), ErrorKind::Conflict);
    let message = failed[0].to_string();
    for (i, (number, _)) in results.iter().enumerate() {
        let (key, holder) = ((i + 1) % count, results[(i + 1) % count].0);
        let edge = format!("transaction {number} waits for the key \"key{key}\"");
        assert!(message.contains(&edge), "{message}: lacks {edge}");
        let held = format!("held by transaction {holder}");
        assert!(message.contains(&held), "{message}: lacks {held}");
    }
    // A transaction that was rolled back holds no locks.
    db.delete_range(..).unwrap();
}

#[test]
fn a_deadlock_of_two_is_found_and_named() {
    deadlock_of(2);
}

#[test]
fn a_deadlock_of_three_is_found_and_named() {
    deadlock_of(3);
}

#[test]
fn two_shared_locks_that_both_want_to_become_exclusive_are_a_deadlock() {
    let (_dir, db) = open(LONG);
    let (a, b) = (begin(&db, LONG), begin(&db, LONG));
    a.lock_key("k", Shared).unwrap();
    b.lock_key("k", Shared).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.lock_key("k", Exclusive));
        thread::sleep(SHORT);
        is_deadlock(b.lock_key("k", Exclusive));
        b.rollback().unwrap();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_commit_that_would_close_a_cycle_fails_at_once() {
    let (_dir, db) = open(LONG);
    let (a, b) = (begin(&db, LONG), begin(&db, LONG));
    a.lock_key("a", Exclusive).unwrap();
    b.lock_key("b", Exclusive).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.lock_key("b", Exclusive));
        thread::sleep(SHORT);
        b.put("a", "").unwrap();
        is_deadlock(b.commit());
        waiting.join().unwrap().unwrap();
    });
    assert!(!db.contains("a").unwrap());
}

/// Two updates that lock two keys in opposite orders, and meet in the middle the first time.
#[test]
fn an_update_that_gives_way_in_a_deadlock_runs_again() {
    let (_dir, db) = open(LONG);
    let options = UpdateOptions::new().isolation(Isolation::ReadCommitted);
    let barrier = Barrier::new(2);
    let attempts = thread::scope(|scope| {
        let threads = [["a", "b"], ["b", "a"]].map(|keys| {
            let (db, barrier, options) = (&db, &barrier, &options);
            scope.spawn(move || {
                let mut attempts = 0;
                let updated = db.update_with(options, |tx| {
                    attempts += 1;
                    tx.lock_key(keys[0], Exclusive)?;
                    if attempts == 1 {
                        barrier.wait();
                    }
                    tx.lock_key(keys[1], Exclusive)?;
                    tx.fetch_and_update("sum", |old| Some([old.map_or(0, |old| old[0]) + 1]))
                });
                updated.unwrap();
                attempts
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    // The loser may meet the winner once more before that has committed.
    assert!(attempts.contains(&1) && attempts.iter().any(|&attempts| attempts > 1), "{attempts:?}");
    assert_eq!(db.get("sum").unwrap().unwrap(), &[2]);
}

#[test]
fn a_snapshot_that_is_older_than_the_key_conflicts_at_once() {
    for &isolation in Isolation::ALL {
        let (_dir, db) = open(SHORT);
        db.put("k", "old").unwrap();
        let transaction = db.begin(isolation);
        assert_eq!(transaction.get_for_update("other").unwrap(), None);
        db.put("k", "new").unwrap();
        match transaction.get_for_update("k") {
            Ok(value) => {
                assert!(isolation <= Isolation::ReadCommitted, "{isolation:?}");
                assert_eq!(value.unwrap(), b"new");
            }
            Err(error) => {
                assert!(isolation > Isolation::ReadCommitted, "{isolation:?}");
                assert_eq!(error.kind(), ErrorKind::Conflict);
            }
        }
    }
}

#[test]
fn locks_count_towards_the_memory_of_the_transaction() {
    let (_dir, db) = open(SHORT);
    let options = TransactionOptions::new().memory_bytes(100_000);
    let transaction = db.begin_with(&options);
    let lock = |i: u32| transaction.lock_key(i.to_be_bytes(), Exclusive);
    let error = (0..10_000).find_map(|i| lock(i).err()).expect("a limit");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn eight_threads_that_increment_a_locked_counter_lose_no_update() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    let (_dir, db) = open(LONG);
    db.put("counter", 0_u64.to_be_bytes()).unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let transaction = begin(&db, LONG);
                for _ in 0..ROUNDS {
                    let counter = transaction.get_for_update("counter").unwrap().unwrap();
                    let counter = u64::from_be_bytes(counter.as_bytes().try_into().unwrap());
                    transaction.put("counter", (counter + 1).to_be_bytes()).unwrap();
                    transaction.commit().unwrap();
                    transaction.reset();
                }
            });
        }
    });
    let counter = db.get("counter").unwrap().unwrap();
    assert_eq!(counter, (THREADS * ROUNDS).to_be_bytes().as_slice());
}

/// A writer that checked before the lock was taken races with the reader that holds it.
#[test]
fn no_plain_write_slips_in_between_a_locked_read_and_the_release() {
    const ROUNDS: u32 = 500;
    let (_dir, db) = open(LONG);
    let stop = Arc::new(AtomicBool::new(false));
    db.put("k", "").unwrap();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|writer| {
                let (db, stop) = (&db, Arc::clone(&stop));
                scope.spawn(move || {
                    let mut count = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        count += 1;
                        db.put("k", (writer << 32 | count).to_be_bytes()).unwrap();
                    }
                    count
                })
            })
            .collect();
        let transaction = begin(&db, LONG);
        for round in 0..ROUNDS {
            let locked = transaction.get_for_update("k").unwrap();
            for _ in 0..3 {
                thread::yield_now();
                let again = transaction.get("k").unwrap();
                if again != locked {
                    stop.store(true, Ordering::Relaxed);
                }
                assert_eq!(again, locked, "a write slipped in, in round {round}");
            }
            transaction.reset();
        }
        stop.store(true, Ordering::Relaxed);
        let counts: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        assert!(counts.iter().all(|&count| count > 1), "writers did not come on: {counts:?}");
    });
}
