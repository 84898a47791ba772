//! A small database in one of the states in which conflicts must be found.

use siltdb::{Db, ErrorKind, FamilyOptions, Isolation, Options, Read, Transaction, merge};
use siltdb_base::fs::mem::{Crash, MemFs};
use std::sync::Arc;

/// Where the data is while transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// What they read and what they write is in the memtable.
    Memtable,
    /// What they read is in tables of level 0.
    Flushed,
    /// What they read is in tables of a deeper level.
    Compacted,
    /// What they read was replayed after a kill.
    Reopened,
    /// Each commit is flushed at once, so that the others find it in tables only.
    FlushedMeanwhile,
    /// Each commit is flushed and compacted at once.
    CompactedMeanwhile,
}

/// Data that each anomaly begins with: `x` = 10, `y` = 20, `k/1` = 10, `k/2` = 20.
const DATA: [(&str, i64); 4] = [("x", 10), ("y", 20), ("k/1", 10), ("k/2", 20)];

pub struct World {
    pub level: Isolation,
    pub db: Db,
    pub state: State,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    Conflict,
}

fn number(bytes: &[u8]) -> i64 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

/// The values are numbers in decimals, which `merge` adds.
fn options(fs: &MemFs) -> Options {
    let add = merge::associative("add", |_, older, newer| {
        Ok((number(older) + number(newer)).to_string().into_bytes())
    });
    let family = FamilyOptions::new().merge_operator(add);
    Options::new().workers(0).fs(Arc::new(fs.clone())).seed(1).default_family(family)
}

impl World {
    pub fn new(level: Isolation, state: State) -> Self {
        let fs = MemFs::new();
        let mut db = options(&fs).open("db").unwrap();
        // Old versions below, so that a compaction has something to do.
        for step in [1, 0] {
            for (key, value) in DATA {
                db.put(key, (value + step).to_string()).unwrap();
            }
            if step == 1 && matches!(state, State::Compacted | State::CompactedMeanwhile) {
                db.flush().unwrap();
            }
        }
        match state {
            State::Memtable => {}
            State::Flushed | State::FlushedMeanwhile => db.flush().unwrap(),
            State::Compacted | State::CompactedMeanwhile => db.compact().unwrap(),
            State::Reopened => db = options(&fs.crash_clone(Crash::Kill)).open("db").unwrap(),
        }
        Self { level, db, state }
    }

    pub fn begin(&self) -> Transaction {
        self.db.begin(self.level)
    }

    /// Whether the level is one of those.
    pub fn is(&self, levels: &[Isolation]) -> bool {
        levels.contains(&self.level)
    }

    /// Whether each read sees the newest commit.
    pub fn reads_newest(&self) -> bool {
        self.is(&[Isolation::ReadUncommitted, Isolation::ReadCommitted])
    }

    /// Commits, and brings what was written to where the state wants it.
    pub fn try_commit(&self, transaction: &Transaction) -> Outcome {
        match transaction.commit() {
            Ok(_) => {
                match self.state {
                    State::FlushedMeanwhile => self.db.flush().unwrap(),
                    State::CompactedMeanwhile => self.db.compact().unwrap(),
                    _ => {}
                }
                Outcome::Committed
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(!transaction.is_active());
                Outcome::Conflict
            }
        }
    }

    /// Commits what must commit.
    pub fn commit(&self, transaction: &Transaction) {
        assert_eq!(self.try_commit(transaction), Outcome::Committed, "{:?}", self.level);
    }

    /// Commits what must conflict at `levels`, and must commit at all others.
    pub fn commit_unless(&self, levels: &[Isolation], transaction: &Transaction) -> Outcome {
        let expected = if self.is(levels) { Outcome::Conflict } else { Outcome::Committed };
        let outcome = self.try_commit(transaction);
        assert_eq!(outcome, expected, "{:?}", self.level);
        outcome
    }

    /// Runs a transaction that nothing runs beside: it must commit.
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
    let found = source.prefix("k/").unwrap();
    found.map(|entry| number(&entry.unwrap().1)).collect()
}
