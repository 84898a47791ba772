//! What locks cost those that wait, and those that do not: `cargo bench -p siltdb --bench
//! lock_costs`. The numbers mean something where nothing else runs.

#![expect(clippy::unwrap_used, reason = "a measurement that fails names the line")]

use siltdb::{
    Db, Isolation, LockMode, Options, Read, Result, Transaction, TransactionOptions, WriteBatch,
};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

const BATCH_KEYS: u32 = 32_000;
const RANGES: u32 = 10_000;
const ROUNDS: usize = 9;
const THREADS: usize = 16;

fn open() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().lock_timeout(Duration::from_secs(60));
    let db = options.open(dir.path()).unwrap();
    (dir, db)
}

fn begin(db: &Db) -> Transaction {
    db.begin_with(&TransactionOptions::new().isolation(Isolation::ReadCommitted))
}

/// How long one put of another key takes.
fn put_time(db: &Db, n: u64) -> Duration {
    let start = Instant::now();
    db.put([b"other/", &n.to_be_bytes()[..]].concat(), "value").unwrap();
    start.elapsed()
}

/// Two batches wait for the same key, which is the last of each, and then for each other.
fn puts_beside_two_waiting_batches() {
    let (_dir, db) = open();
    let key = |n: u32| [b"batch/", &n.to_be_bytes()[..]].concat();
    for round in 0..ROUNDS as u64 {
        let holder = begin(&db);
        holder.lock_key(key(BATCH_KEYS - 1), LockMode::Exclusive).unwrap();
        let written = AtomicU64::new(0);
        let longest = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let family = db.default_family();
                    let mut batch = WriteBatch::new();
                    (0..BATCH_KEYS).for_each(|n| batch.put(&family, key(n), "value").unwrap());
                    db.write(&batch).unwrap();
                    written.fetch_add(1, Ordering::SeqCst);
                });
            }
            let start = Instant::now();
            let (mut longest, mut held, mut n) = (Duration::ZERO, Some(holder), 0);
            while written.load(Ordering::SeqCst) < 2 {
                longest = longest.max(put_time(&db, round << 32 | n));
                n += 1;
                if start.elapsed() > Duration::from_millis(500) {
                    held.take();
                }
                thread::sleep(Duration::from_micros(200));
            }
            longest
        });
        println!("round {round}: the longest put took {longest:?}");
    }
}

fn puts_beside_ten_thousand_locked_ranges() {
    let (_dir, db) = open();
    let mut n = 0;
    let mut median_of_puts = || {
        let mut times: Vec<_> = (0..20_000)
            .map(|_| {
                n += 1;
                put_time(&db, n)
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    for _ in 0..ROUNDS {
        let without = median_of_puts();
        let holder = begin(&db);
        for range in 0..RANGES {
            let bound = |end: u8| [b"range/", &range.to_be_bytes()[..], &[end]].concat();
            holder.lock_range(bound(1)..bound(2), LockMode::Shared).unwrap();
        }
        let beside = median_of_puts();
        drop(holder);
        let ratio = beside.as_secs_f64() / without.as_secs_f64();
        println!("without {without:?}, beside {RANGES} ranges {beside:?}: {ratio:.2}");
    }
}

/// Commits a second of `THREADS` threads that each add 1 to one counter, which is compared.
fn rate(add: impl Fn(&Db) -> Result<()> + Sync) -> f64 {
    let (_dir, db) = open();
    db.put("hot", 0_u64.to_be_bytes()).unwrap();
    let (is_over, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    add(&db).unwrap();
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs(1));
        is_over.store(true, Ordering::Relaxed);
    });
    let commits = commits.into_inner();
    assert_eq!(number(&db.get("hot").unwrap().unwrap()), commits);
    commits as f64
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

fn locks_beside_update_on_one_key() {
    for _ in 0..ROUNDS {
        let locks = rate(|db| {
            let transaction = begin(db);
            let value = number(&transaction.get_for_update("hot")?.unwrap());
            transaction.put("hot", (value + 1).to_be_bytes())?;
            transaction.commit().map(drop)
        });
        let update = rate(|db| {
            db.update(|transaction| -> Result<()> {
                let value = number(&transaction.get("hot")?.unwrap());
                transaction.put("hot", (value + 1).to_be_bytes())
            })
            .map(drop)
        });
        println!("locks {locks:.0}/s, update {update:.0}/s: {:.2}", locks / update);
    }
}

fn main() {
    puts_beside_two_waiting_batches();
    puts_beside_ten_thousand_locked_ranges();
    locks_beside_update_on_one_key();
}
