//! Transactions of threads that change the same keys: counters, ranges of counters, accounts, and
//! keys that only one thread may insert.
//!
//! The version of a value is the counter, so a transaction checks each value that it reads. Each
//! thread logs the changes of its committed transactions. The seed plus all logs give the expected
//! contents of the database, so that a lost update is found. Threads take operations from one
//! shared count, so that a thread with many conflicts does fewer.

use super::{
    data::Data,
    history::{Change, History},
    steps::{Outcome, Probe, on_threads},
};
use crate::{
    engine::{Body, Engine, Failure, Result, Session, Transaction},
    expect::Tally,
    job::{Held, Op, Work},
    keys::{KeyMaker, splitmix64},
    measure::{self, Pace},
    values::{MARK_VERSIONS, read_mark},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// The most that one transfer moves.
const AMOUNT_MAX: u64 = 5;
/// The random stream of ids differs from those of plans by this.
const SALT: u64 = 0x7a5c_0001;
/// The version of a value that is inserted; that of all counters of the null engine.
const INSERTED: u32 = 2;

/// The work of threads that compete.
pub struct Competed<P> {
    /// The outcome of each thread, with its probe.
    pub each: Vec<(Outcome, P)>,
    /// The history of each thread.
    pub histories: Vec<History>,
    /// Seconds from the first start to the last end.
    pub seconds: f64,
}

/// Runs transactions of all threads on the same keys.
///
/// # Errors
/// `Verification`, if a transaction reads a value that none wrote; errors of the engine.
pub fn compete<E: Engine, P: Probe>(
    engine: &E,
    work: &Work,
    data: &Data,
    pace: &Pace,
    probes: Vec<P>,
) -> Result<Competed<P>> {
    if data.families > 1 {
        return Err(Failure::error("transactions of threads that compete use one family"));
    }
    let taken = AtomicU64::new(0);
    let (threads, seconds) = on_threads(engine, probes, |thread, session, mut probe| {
        let mut task = Task::new(work, data);
        let mut done = 0;
        session.refresh()?;
        probe.begin();
        while pace.goes_on(thread.index, done) {
            // Relaxed: only the number is shared.
            let number = taken.fetch_add(1, Ordering::Relaxed);
            if number >= work.run.ops {
                break;
            }
            probe.next();
            task.choose(number);
            probe.call(|| session.transact(work.run.isolation, &mut task))?;
            task.committed();
            done += 1;
        }
        let (retries, context_switches) = (task.attempts - done, measure::own_context_switches());
        let outcome = Outcome { tally: Tally::default(), done, retries, context_switches };
        Ok((outcome, probe, task.history))
    })?;
    let mut competed = Competed { each: Vec::new(), histories: Vec::new(), seconds };
    for (outcome, probe, history) in threads {
        competed.each.push((outcome, probe));
        competed.histories.push(history);
    }
    Ok(competed)
}

/// Transactions of the slowest thread over the mean of all.
#[must_use]
pub fn slowest_share(outcomes: &[Outcome]) -> Option<f64> {
    let total: u64 = outcomes.iter().map(|outcome| outcome.done).sum();
    let least = outcomes.iter().map(|outcome| outcome.done).min()?;
    (total > 0).then(|| least as f64 * outcomes.len() as f64 / total as f64)
}

/// Opens transactions in a session, which holds them, and returns their cost.
///
/// # Errors
/// `Unsupported`; errors of the engine.
pub fn hold<S: Session>(session: &mut S, work: &Work, data: &Data) -> Result<Held> {
    let count = work.run.held;
    let mut keys = data.keys.clone();
    let before = measure::resident_bytes();
    let clock = Instant::now();
    session.hold(count, work.run.isolation, keys.key(0))?;
    let ns = clock.elapsed().as_nanos() as f64;
    let bytes = measure::resident_bytes().saturating_sub(before) as f64;
    Ok(Held { count, begin_ns: ns / f64::from(count), bytes: bytes / f64::from(count) })
}

/// The transaction of one thread, and its log.
struct Task<'a> {
    work: &'a Work,
    data: Data,
    /// Make the end of a range, and the keys in it.
    end: KeyMaker,
    within: KeyMaker,
    /// The account to take from, or the counter to change.
    id: u32,
    /// The account to give to.
    other: u32,
    /// The amount of a transfer, if there is enough.
    amount: u32,
    /// The changes of the current attempt.
    pending: Vec<Change>,
    attempts: u64,
    history: History,
}

impl<'a> Task<'a> {
    fn new(work: &'a Work, data: &Data) -> Self {
        Self {
            work,
            data: data.clone(),
            end: data.keys.clone(),
            within: data.keys.clone(),
            id: 0,
            other: 0,
            amount: 0,
            pending: Vec::new(),
            attempts: 0,
            history: History::default(),
        }
    }

    /// Draws ids and amount of the operation with this number.
    fn choose(&mut self, number: u64) {
        let drawn = splitmix64(splitmix64(SALT) ^ number);
        let more = splitmix64(drawn);
        let keys = match self.work.run.op {
            Op::RangeIncrement => self.work.keys - self.work.run.range,
            _ => self.work.keys,
        };
        self.id = (drawn % u64::from(keys)) as u32;
        let step = 1 + more % u64::from(keys - 1).max(1);
        self.other = ((u64::from(self.id) + step) % u64::from(keys)) as u32;
        self.amount = 1 + ((more >> 32) % AMOUNT_MAX) as u32;
    }

    /// Logs the pending changes, which are committed now.
    fn committed(&mut self) {
        self.history.add(&mut self.pending);
    }

    /// The counter of an id; 0 if there is none.
    fn read<T: Transaction>(&mut self, transaction: &mut T, id: u32) -> Result<u32> {
        let mut mark = None;
        let key = self.data.keys.key(id);
        let found = transaction.get(key, |value| mark = read_mark(value))?;
        self.history.checked += 1;
        match (found, mark) {
            (false, _) => Ok(0),
            (true, Some((owner, version))) if owner == id && version > 0 => Ok(version),
            (true, _) => Err(wrong("a value of another key or none that was written", id)),
        }
    }

    fn read_seeded<T: Transaction>(&mut self, transaction: &mut T, id: u32) -> Result<u32> {
        match self.read(transaction, id)? {
            0 => Err(wrong("nothing", id)),
            version => Ok(version),
        }
    }

    /// Changes a counter whose value is `version`.
    fn change<T: Transaction>(
        &mut self,
        transaction: &mut T,
        (id, version): (u32, u32),
        by: i32,
    ) -> Result<()> {
        let changed = version.saturating_add_signed(by);
        if u64::from(changed) >= MARK_VERSIONS {
            return Err(Failure::error("more changes than a value can count"));
        }
        self.pending.push(Change { id, by });
        let Data { keys, values, .. } = &mut self.data;
        transaction.put(keys.key(id), values.value(id, changed))
    }

    fn transfer<T: Transaction>(&mut self, transaction: &mut T) -> Result<()> {
        let (from, to) = (self.id, self.other);
        let balance = self.read_seeded(transaction, from)?;
        let others = self.read_seeded(transaction, to)?;
        // Version 0 means that a key does not exist, so an account keeps at least one.
        let amount = self.amount.min(balance - 1) as i32;
        if amount == 0 {
            return Ok(());
        }
        self.change(transaction, (from, balance), -amount)?;
        self.change(transaction, (to, others), amount)
    }

    fn increment_range<T: Transaction>(&mut self, transaction: &mut T) -> Result<()> {
        let (id, range) = (self.id, self.work.run.range);
        let (keys, within) = (&mut self.data.keys, &mut self.within);
        let (mut first, mut next, mut is_right) = (0, id, true);
        let count = transaction.scan(keys.key(id), self.end.key(id + range), |key, value| {
            let mark = read_mark(value).filter(|(owner, _)| *owner == next);
            is_right &= mark.is_some() && key == within.key(next);
            if let Some((_, version)) = mark.filter(|_| next == id) {
                first = version;
            }
            next = next.saturating_add(1);
        })?;
        self.history.checked += count;
        if !is_right || count != u64::from(range) || first == 0 {
            return Err(wrong("other entries in a range than there must be", id));
        }
        self.change(transaction, (id, first), 1)
    }
}

impl Body for Task<'_> {
    fn attempt<T: Transaction>(&mut self, transaction: &mut T) -> Result<()> {
        self.attempts += 1;
        self.pending.clear();
        let id = self.id;
        match self.work.run.op {
            Op::RangeIncrement => self.increment_range(transaction),
            Op::Transfer => self.transfer(transaction),
            Op::InsertAbsent => match self.read(transaction, id)? {
                0 => self.change(transaction, (id, 0), INSERTED as i32),
                INSERTED => Ok(()),
                _ => Err(wrong("another value than one that was inserted", id)),
            },
            _ => {
                let version = self.read_seeded(transaction, id)?;
                self.change(transaction, (id, version), 1)
            }
        }
    }
}

fn wrong(found: &str, id: u32) -> Failure {
    Failure::verification(format!("a transaction read {found}. id={id}"))
}
