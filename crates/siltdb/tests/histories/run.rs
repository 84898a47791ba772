//! Threads that run random transactions over one database, with kills in between.

use crate::histories::{
    THREADS,
    graph::Graph,
    record::{Access, Key, Kind, ReadOf, Record, Version},
};
use siltdb::{
    Db, ErrorKind, FamilyOptions, Isolation, Options, Read, ReadOptions, Transaction, merge,
};
use siltdb_base::fs::mem::{Crash, MemFs};
use siltdb_engine::kit::random::Random;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// Lives of the database, each ended by a kill during transactions.
const LIVES: u64 = 3;
/// Consecutive transactions that share keys.
const EPOCH: u64 = 200;
/// Shared keys of each kind.
const KEYS: u64 = 6;

#[derive(Debug, Default)]
pub struct History {
    records: Vec<Record>,
    finals: BTreeMap<Key, Vec<Version>>,
    pub conflicts: u64,
}

/// A record, and the interval in which its commit ran.
struct Committed {
    record: Record,
    from: u64,
    to: u64,
}

/// The state that threads share.
struct Life {
    db: Db,
    level: Isolation,
    /// Numbers of transactions, and starts and ends of commits, in one order.
    numbers: Arc<AtomicU64>,
    stamps: AtomicU64,
    conflicts: AtomicU64,
    stop: AtomicBool,
}

fn open(fs: &MemFs) -> Db {
    let append = merge::associative("append", |_, older, newer| Ok([older, newer].concat()));
    let family = FamilyOptions::new().merge_operator(append);
    let options = Options::new().fs(Arc::new(fs.clone())).default_family(family);
    options.workers(2).memory_budget(16 << 20).memtable_bytes(64 << 10).open("db").unwrap()
}

impl History {
    pub fn run(level: Isolation, transactions: u64, seed: u64) -> Self {
        let mut history = Self::default();
        let mut fs = MemFs::new();
        let numbers = Arc::new(AtomicU64::new(0));
        for life in 1..=LIVES {
            let shared = Life {
                db: open(&fs),
                level,
                numbers: Arc::clone(&numbers),
                stamps: AtomicU64::new(0),
                conflicts: AtomicU64::new(0),
                stop: AtomicBool::new(false),
            };
            let killed = thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let seed = seed ^ (life * THREADS + thread).wrapping_mul(0x9e37_79b9);
                        let shared = &shared;
                        scope.spawn(move || shared.transactions(Random::new(Some(seed))))
                    })
                    .collect();
                while numbers.load(SeqCst) < transactions * life / LIVES {
                    assert!(threads.iter().all(|thread| !thread.is_finished()), "a thread failed");
                    thread::sleep(Duration::from_millis(1));
                }
                let killed = (life < LIVES).then(|| {
                    let from = shared.stamps.fetch_add(1, SeqCst);
                    let clone = fs.crash_clone(Crash::Kill);
                    (from, clone, shared.stamps.fetch_add(1, SeqCst))
                });
                shared.stop.store(true, SeqCst);
                let all = threads.into_iter().flat_map(|thread| thread.join().unwrap());
                (all.collect::<Vec<_>>(), killed)
            });
            history.conflicts += shared.conflicts.load(SeqCst);
            match killed {
                (committed, None) => {
                    history.records.extend(committed.into_iter().map(|one| one.record));
                    history.finals = lists(&shared.db);
                }
                (committed, Some((from, clone, to))) => {
                    fs = clone;
                    history.keep(committed, from, to, &lists(&open(&fs)));
                }
            }
        }
        history
    }

    /// Keeps the records that the killed database had to keep or did keep.
    fn keep(
        &mut self,
        committed: Vec<Committed>,
        from: u64,
        to: u64,
        found: &BTreeMap<Key, Vec<Version>>,
    ) {
        let found: BTreeSet<u64> = found.values().flatten().map(|v| v.transaction()).collect();
        assert!(committed.iter().any(|one| one.to < from), "nothing was acknowledged");
        for one in committed {
            let is_found = found.contains(&one.record.transaction);
            let is_writer = !one.record.writes.is_empty();
            let before = one.to < from;
            assert!(!is_writer || !before || is_found, "acknowledged and lost: {:?}", one.record);
            assert!(!is_found || one.from < to, "found before it was committed");
            if is_found || before {
                self.records.push(one.record);
            }
        }
    }

    pub fn committed(&self) -> u64 {
        self.records.len() as u64
    }

    pub fn graph(&self) -> Graph {
        Graph::new(&self.records, &self.finals)
    }
}

fn lists(db: &Db) -> BTreeMap<Key, Vec<Version>> {
    let entry = |entry: siltdb::Result<(siltdb::Slice, siltdb::Slice)>| {
        let (key, value) = entry.unwrap();
        (Key::of_bytes(Kind::List, &key), Version::all(&value))
    };
    db.prefix("l").unwrap().map(entry).collect()
}

impl Life {
    fn transactions(&self, mut random: Random) -> Vec<Committed> {
        let mut all = Vec::new();
        while !self.stop.load(SeqCst) {
            let transaction = self.numbers.fetch_add(1, SeqCst) + 1;
            if transaction.is_multiple_of(EPOCH) {
                self.db.flush().unwrap();
            }
            if transaction.is_multiple_of(EPOCH * 8) {
                self.db.compact().unwrap();
            }
            all.extend(match random.next_u64() % 16 {
                0 => Some(self.plain(transaction, &mut random)),
                _ => self.transaction(transaction, &mut random),
            });
        }
        all
    }

    fn key(transaction: u64, kind: Kind, random: &mut Random) -> Key {
        Key { kind, number: transaction / EPOCH * KEYS + random.next_u64() % KEYS }
    }

    /// A write without a transaction.
    fn plain(&self, transaction: u64, random: &mut Random) -> Committed {
        let key = Self::key(transaction, Kind::List, random);
        let version = Version::new(transaction, 0);
        let from = self.stamps.fetch_add(1, SeqCst);
        self.db.merge(key.bytes(), version.bytes()).unwrap();
        let to = self.stamps.fetch_add(1, SeqCst);
        let record = Record { transaction, writes: vec![(key, version)], ..Record::default() };
        Committed { record, from, to }
    }

    fn transaction(&self, number: u64, random: &mut Random) -> Option<Committed> {
        let transaction = self.db.begin(self.level);
        let mut record = Record { transaction: number, ..Record::default() };
        let mut nth = 0;
        for _ in 0..2 + random.next_u64() % 5 {
            step(&transaction, &mut record, &mut nth, random);
            if random.next_u64().is_multiple_of(8) {
                // A write that is rolled back must never be read.
                transaction.savepoint("s").unwrap();
                let writes = record.writes.clone();
                step(&transaction, &mut record, &mut nth, random);
                transaction.rollback_to("s").unwrap();
                record.writes = writes;
            }
            if random.next_u64().is_multiple_of(2) {
                thread::yield_now();
            }
        }
        if random.next_u64().is_multiple_of(16) {
            transaction.rollback().unwrap();
            return None;
        }
        if !record.writes.is_empty() {
            // Its list identifies each writing transaction after a kill.
            let key = Self::key(number, Kind::List, random);
            write(&transaction, &mut record, &mut nth, key);
        }
        let from = self.stamps.fetch_add(1, SeqCst);
        let committed = transaction.commit();
        let to = self.stamps.fetch_add(1, SeqCst);
        match committed {
            Ok(commit) => record.sequence = commit.sequence,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                self.conflicts.fetch_add(1, SeqCst);
                return None;
            }
        }
        Some(Committed { record, from, to })
    }
}

fn step(transaction: &Transaction, record: &mut Record, nth: &mut usize, random: &mut Random) {
    let kind = [Kind::List, Kind::Register, Kind::Slot][(random.next_u64() % 3) as usize];
    let key = Life::key(record.transaction, kind, random);
    if random.next_u64().is_multiple_of(3) {
        write(transaction, record, nth, key);
        return;
    }
    match kind {
        Kind::List => read_list(transaction, record, key),
        Kind::Register => {
            let value = transaction.get(key.bytes()).unwrap();
            note(record, key, value.as_deref(), Access::Item);
        }
        Kind::Slot => read_slots(transaction, record, random),
    }
}

fn write(transaction: &Transaction, record: &mut Record, nth: &mut usize, key: Key) {
    let version = Version::new(record.transaction, *nth);
    *nth += 1;
    match key.kind {
        Kind::List => transaction.merge(key.bytes(), version.bytes()).unwrap(),
        _ => transaction.put(key.bytes(), version.bytes()).unwrap(),
    }
    record.writes.push((key, version));
}

/// Records the value of a register or slot. An own write hides the writes of others.
fn note(record: &mut Record, key: Key, value: Option<&[u8]>, access: Access) {
    let version = value.map_or(Version::default(), |value| Version::all(value)[0]);
    match record.written(key).last() {
        Some(own) => assert_eq!(version, own, "{key:?} does not show what was just written"),
        None => record.reads.push(ReadOf { key, version, access }),
    }
}

fn read_list(transaction: &Transaction, record: &mut Record, key: Key) {
    let value = transaction.get(key.bytes()).unwrap();
    let mut list = value.map_or_else(Vec::new, |value| Version::all(&value));
    let own: Vec<_> = record.written(key).collect();
    assert!(list.ends_with(&own), "{list:?} does not end with {own:?}");
    list.truncate(list.len() - own.len());
    let version = list.last().copied().unwrap_or_default();
    record.reads.push(ReadOf { key, version, access: Access::Item });
    record.lists.push((key, list));
}

/// Reads a range of slots in either direction, and records those that are missing.
fn read_slots(transaction: &Transaction, record: &mut Record, random: &mut Random) {
    let [a, b] = [(); 2].map(|()| Life::key(record.transaction, Kind::Slot, random));
    let (lower, upper) = (a.min(b), a.max(b));
    let options = ReadOptions::new().range(lower.bytes()..=upper.bytes());
    let found = transaction.iter_with(&options).unwrap();
    let found: Vec<_> = match random.next_u64() % 2 {
        0 => found.collect(),
        _ => found.rev().collect(),
    };
    let found: BTreeMap<_, _> = found
        .into_iter()
        .map(Result::unwrap)
        .map(|(key, value)| (Key::of_bytes(Kind::Slot, &key), value))
        .collect();
    for number in lower.number..=upper.number {
        let key = Key { kind: Kind::Slot, number };
        match found.get(&key) {
            Some(value) => note(record, key, Some(value), Access::Item),
            None => note(record, key, None, Access::Range),
        }
    }
}
