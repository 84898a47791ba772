//! Totals that must be exact under any interleaving of transactions.

use crate::histories::{THREADS, seed};
use siltdb::{Db, ErrorKind, Isolation, Options, Read, Transaction};
use siltdb_base::fs::mem::MemFs;
use siltdb_engine::kit::random::Random;
use std::{sync::Arc, thread};

/// The levels that lose no update.
const LEVELS: [Isolation; 3] =
    [Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable];

fn open() -> Db {
    Options::new()
        .fs(Arc::new(MemFs::new()))
        .workers(2)
        .memtable_bytes(64 << 10)
        .open("db")
        .unwrap()
}

fn get(source: &impl Read, key: [u8; 1]) -> i64 {
    let value = source.get(key).unwrap();
    value.map_or(0, |value| i64::from_le_bytes(value.as_bytes().try_into().unwrap()))
}

/// Runs `run` again until it commits.
fn retry(db: &Db, level: Isolation, mut run: impl FnMut(&Transaction)) {
    let transaction = db.begin(level);
    loop {
        run(&transaction);
        match transaction.commit() {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
        transaction.reset();
    }
}

/// Increments of one counter leave little time between the check of a commit and its sequence
/// number. Some other commits fall into that gap.
#[test]
fn no_increment_is_lost() {
    const INCREMENTS: i64 = 400;
    for level in LEVELS {
        let db = open();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..INCREMENTS {
                        retry(&db, level, |transaction| {
                            let count = get(transaction, [0]) + 1;
                            transaction.put([0], count.to_le_bytes()).unwrap();
                        });
                    }
                });
            }
        });
        assert_eq!(get(&db, [0]), INCREMENTS * THREADS as i64, "{level:?}");
    }
}

#[test]
fn transfers_keep_the_sum_of_all_accounts() {
    const ACCOUNTS: u8 = 12;
    const TRANSFERS: u64 = 400;
    let seed = seed();
    for level in LEVELS {
        let db = open();
        for account in 0..ACCOUNTS {
            db.put([account], 100_i64.to_le_bytes()).unwrap();
        }
        let sum = |source: &Transaction| {
            let amount = |entry: siltdb::Result<(_, siltdb::Slice)>| {
                i64::from_le_bytes(entry.unwrap().1.as_bytes().try_into().unwrap())
            };
            source.iter().unwrap().map(amount).sum::<i64>()
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, mut random) = (&db, Random::new(Some(seed ^ thread)));
                scope.spawn(move || {
                    for nth in 0..TRANSFERS {
                        let [from, to] = [(); 2].map(|()| (random.next_u64() % 12) as u8);
                        let amount = (random.next_u64() % 50) as i64;
                        retry(db, level, |transaction| {
                            for (account, change) in [(from, -amount), (to, amount)] {
                                let balance = get(transaction, [account]) + change;
                                thread::yield_now();
                                transaction.put([account], balance.to_le_bytes()).unwrap();
                            }
                        });
                        if nth.is_multiple_of(10) {
                            let reader = db.begin(level);
                            assert_eq!(sum(&reader), i64::from(ACCOUNTS) * 100, "{level:?}");
                            reader.commit().unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(sum(&db.begin(level)), i64::from(ACCOUNTS) * 100, "{level:?}");
    }
}
