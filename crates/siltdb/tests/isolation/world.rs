//! A small database in each state in which conflicts must be detected.

use siltdb::{Db, ErrorKind, Family, FamilyOptions, Isolation, Options, Read, Transaction, merge};
use siltdb_base::{
    clock::ManualClock,
    fs::mem::{Crash, MemFs},
};
use std::{sync::Arc, time::Duration};

/// The place of the data while transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Their reads and writes are in the memtable.
    Memtable,
    /// Their reads are in tables of level 0.
    Flushed,
    /// Their reads are in tables of a deeper level.
    Compacted,
    /// Their reads were replayed after a kill.
    Reopened,
    /// Each commit is flushed at once, so others find it only in tables.
    FlushedMeanwhile,
    /// Each commit is flushed and compacted at once.
    CompactedMeanwhile,
}

/// Data that each anomaly begins with: `x` = 10, `y` = 20, `k/1` = 10, `k/2` = 20.
const DATA: [(&str, i64); 4] = [("x", 10), ("y", 20), ("k/1", 10), ("k/2", 20)];

/// Data that expires `TTL` after the begin: `e/1` = 10, `e/2` = 20.
const EXPIRING: [(&str, i64); 2] = [("e/1", 10), ("e/2", 20)];

const TTL: Duration = Duration::from_secs(10);

/// The name of a second family, in which `x` = 10.
const SECOND: &str = "second";

pub struct World {
    pub level: Isolation,
    pub db: Db,
    pub state: State,
    clock: Arc<ManualClock>,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    Conflict,
}

fn number(bytes: &[u8]) -> i64 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

/// Values are decimal numbers, which `merge` adds.
fn options(fs: &MemFs, clock: &Arc<ManualClock>) -> Options {
    let add = merge::associative("add", |_, older, newer| {
        Ok((number(older) + number(newer)).to_string().into_bytes())
    });
    let family = FamilyOptions::new().merge_operator(add);
    let options = Options::new().workers(0).fs(Arc::new(fs.clone())).seed(1);
    options.clock(Arc::clone(clock) as Arc<_>).default_family(family)
}

impl World {
    pub fn new(level: Isolation, state: State) -> Self {
        let (fs, clock) =
            (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000))));
        let mut db = options(&fs, &clock).open("db").unwrap();
        let second = db.create_family(SECOND, FamilyOptions::new()).unwrap();
        second.put("x", "10").unwrap();
        drop(second);
        // Old versions below, so that a compaction has work.
        for step in [1, 0] {
            for (key, value) in DATA {
                db.put(key, (value + step).to_string()).unwrap();
            }
            for (key, value) in EXPIRING {
                db.put_for(key, (value + step).to_string(), TTL).unwrap();
            }
            if step == 1 && matches!(state, State::Compacted | State::CompactedMeanwhile) {
                db.flush().unwrap();
            }
        }
        match state {
            State::Memtable => {}
            State::Flushed | State::FlushedMeanwhile => db.flush().unwrap(),
            State::Compacted | State::CompactedMeanwhile => db.compact().unwrap(),
            State::Reopened => {
                db = options(&fs.crash_clone(Crash::Kill), &clock).open("db").unwrap();
            }
        }
        Self { level, db, state, clock }
    }

    pub fn begin(&self) -> Transaction {
        self.db.begin(self.level)
    }

    /// The second family.
    pub fn second(&self) -> Family {
        self.db.family(SECOND).unwrap()
    }

    /// Returns whether the level is one of `levels`.
    pub fn is(&self, levels: &[Isolation]) -> bool {
        levels.contains(&self.level)
    }

    /// Returns whether each read sees the newest commit.
    pub fn reads_newest(&self) -> bool {
        self.is(&[Isolation::ReadUncommitted, Isolation::ReadCommitted])
    }

    /// Commits, and moves the writes to their place in this state.
    pub fn try_commit(&self, transaction: &Transaction) -> Outcome {
        match transaction.commit() {
            Ok(_) => {
                self.move_meanwhile();
                Outcome::Committed
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(!transaction.is_active());
                Outcome::Conflict
            }
        }
    }

    fn move_meanwhile(&self) {
        match self.state {
            State::FlushedMeanwhile => self.db.flush().unwrap(),
            State::CompactedMeanwhile => self.db.compact().unwrap(),
            _ => {}
        }
    }

    /// Lets the keys below `e/` expire, and drops from tables in this state what no reader sees.
    pub fn expire(&self) {
        self.clock.advance(TTL);
        self.move_meanwhile();
    }

    /// Commits a transaction that must succeed.
    pub fn commit(&self, transaction: &Transaction) {
        assert_eq!(self.try_commit(transaction), Outcome::Committed, "{:?}", self.level);
    }

    /// Commits a transaction that must conflict at `levels`, and succeed at all others.
    pub fn commit_unless(&self, levels: &[Isolation], transaction: &Transaction) -> Outcome {
        let expected = if self.is(levels) { Outcome::Conflict } else { Outcome::Committed };
        let outcome = self.try_commit(transaction);
        assert_eq!(outcome, expected, "{:?}", self.level);
        outcome
    }

    /// Runs a transaction without concurrent ones, which must commit.
    pub fn alone(&self, run: impl FnOnce(&Transaction)) {
        let transaction = self.begin();
        run(&transaction);
        self.commit(&transaction);
    }
}

/// The number under a key.
pub fn get(source: &impl Read, key: &str) -> Option<i64> {
    source.get(key).unwrap().map(|value| number(&value))
}

pub fn put(transaction: &Transaction, key: &str, value: i64) {
    transaction.put(key, value.to_string()).unwrap();
}

/// The numbers under the keys that begin with `k/`.
pub fn list(source: &impl Read) -> Vec<i64> {
    numbers(source, "k/")
}

/// The numbers under the keys that begin with `prefix`.
pub fn numbers(source: &impl Read, prefix: &str) -> Vec<i64> {
    let found = source.prefix(prefix).unwrap();
    found.map(|entry| number(&entry.unwrap().1)).collect()
}
