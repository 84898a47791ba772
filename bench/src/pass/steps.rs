//! Runs plans on an engine, on threads, with or without a clock around each call.
//!
//! Reads are added to a sum; the caller judges the sum.

use super::{data::Data, history::History};
use crate::{
    engine::{Batch, Body, Engine, Failure, Pending, Result, Session, Transaction, Write},
    expect::Tally,
    job::{Held, Waits},
    measure::{self, Pace, Seconds},
    plan::{Commit, Plan, Step, Thread},
};
use hdrhistogram::Histogram;
use std::{
    ops::Range,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

/// A hook around each timed call.
pub trait Probe: Send {
    /// Called when the threads have started.
    fn begin(&mut self) {}

    /// Called before each operation; in an open loop it waits until the operation is due.
    fn next(&mut self) {}

    /// Makes a call.
    fn call<T>(&mut self, call: impl FnOnce() -> T) -> T;
}

/// No clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unclocked;

impl Probe for Unclocked {
    #[inline]
    fn call<T>(&mut self, call: impl FnOnce() -> T) -> T {
        call()
    }
}

/// When the operations of an open loop are due.
///
/// An operation that comes late makes no later one late: each is due a period after the one before
/// was *due*. So a call that takes long is charged to all operations that it kept waiting.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    period: Duration,
    waits: Waits,
    due: Instant,
}

impl Schedule {
    /// One operation each `period`; `None` without one.
    #[must_use]
    pub fn new(period: Option<Duration>, waits: Waits) -> Option<Self> {
        period.map(|period| Self { period, waits, due: Instant::now() })
    }

    /// Waits until the next operation is due; not at all if that time is past. `now` reads the
    /// clock, and `wait` lets some of the given time pass.
    fn next(&mut self, now: impl Fn() -> Instant, wait: impl Fn(Waits, Duration)) {
        self.due += self.period;
        loop {
            let rest = self.due.saturating_duration_since(now());
            if rest.is_zero() {
                return;
            }
            wait(self.waits, rest);
        }
    }
}

fn wait(waits: Waits, rest: Duration) {
    match waits {
        Waits::Spinning => std::hint::spin_loop(),
        Waits::Sleeping => thread::sleep(rest),
    }
}

/// A clock around each call. In an open loop the latency of an operation counts from the time at
/// which it was due.
#[derive(Debug)]
pub struct Clocked {
    /// The durations of calls, in nanoseconds.
    pub histogram: Histogram<u64>,
    schedule: Option<Schedule>,
}

impl Clocked {
    /// By a schedule, or as fast as possible.
    #[must_use]
    pub fn new(schedule: Option<Schedule>) -> Self {
        Self { histogram: measure::histogram(), schedule }
    }
}

impl Probe for Clocked {
    fn begin(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.due = Instant::now();
        }
    }

    fn next(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.next(Instant::now, wait);
        }
    }

    fn call<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = self.schedule.map_or_else(Instant::now, |schedule| schedule.due);
        let outcome = call();
        let nanos = start.elapsed().as_nanos() as u64;
        self.histogram.saturating_record(nanos.max(1));
        outcome
    }
}

/// The work of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The sum of its reads.
    pub tally: Tally,
    /// Number of finished operations of its plan.
    pub done: u64,
    /// Attempts beyond the first of each transaction.
    pub retries: u64,
    /// Context switches of the thread.
    pub context_switches: u64,
}

/// A measured phase.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// The outcome of each thread.
    pub outcomes: Vec<Outcome>,
    /// The duration.
    pub seconds: f64,
    /// The operations of each second.
    pub paced: Seconds,
    /// The history of each thread, where threads compete.
    pub histories: Vec<History>,
    /// The cost of the transactions that were held open, if there were any.
    pub held: Option<Held>,
}

impl Ran {
    /// The sum of all threads' reads.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.outcomes.iter().for_each(|outcome| total.merge(&outcome.tally));
        total
    }

    /// Operations done by all threads.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.done).sum()
    }

    /// Attempts beyond the first of each transaction, of all threads.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.retries).sum()
    }

    /// Context switches of all threads.
    #[must_use]
    pub fn context_switches(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.context_switches).sum()
    }
}

/// Runs `body` on as many threads as there are items, each with a session and its item. Returns
/// their results, and the time from the first start, once all have a session, to the last end. The
/// threads read the clock themselves, because a waiting thread may wake up long after short work is
/// done.
///
/// # Errors
/// The first error of any thread.
pub fn on_threads<E: Engine, I: Send, T: Send>(
    engine: &E,
    items: Vec<I>,
    body: impl Fn(Thread, &mut E::Session<'_>, I) -> Result<T> + Sync,
) -> Result<(Vec<T>, f64)> {
    let count = items.len() as u32;
    let ready = Barrier::new(items.len());
    thread::scope(|scope| {
        let (body, ready) = (&body, &ready);
        let run = move |thread: Thread, item: I| -> Result<(T, Range<Instant>)> {
            let session = engine.session();
            ready.wait();
            let start = Instant::now();
            let outcome = body(thread, &mut session?, item)?;
            Ok((outcome, start..Instant::now()))
        };
        let start = |(index, item)| {
            let thread = Thread { index: index as u32, count };
            scope.spawn(move || run(thread, item))
        };
        let threads: Vec<_> = items.into_iter().enumerate().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<_>>| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::error("a thread of the benchmark panicked")),
        };
        let ended: Vec<Result<(T, Range<Instant>)>> = threads.into_iter().map(join).collect();
        let ended = ended.into_iter().collect::<Result<Vec<_>>>()?;
        let (outcomes, times): (Vec<T>, Vec<Range<Instant>>) = ended.into_iter().unzip();
        Ok((outcomes, covered(&times)))
    })
}

/// Seconds from the first start to the last end.
fn covered(times: &[Range<Instant>]) -> f64 {
    let first = times.iter().map(|time| time.start).min();
    let last = times.iter().map(|time| time.end).max();
    first.zip(last).map_or(0.0, |(first, last)| (last - first).as_secs_f64())
}

/// Runs a plan.
///
/// # Errors
/// Errors of the engine.
pub fn drive<S: Session, P: Probe>(
    session: &mut S,
    thread: Thread,
    plan: &Plan,
    data: &Data,
    pace: &Pace,
    probe: &mut P,
) -> Result<Outcome> {
    let mut driver = Driver {
        session,
        data: data.clone(),
        batch: data.batch(),
        how: plan.commit,
        retries: 0,
        is_stale: true,
    };
    let mut tally = Tally::default();
    let mut done = 0;
    probe.begin();
    for (index, &id) in plan.ids.iter().enumerate() {
        if !pace.goes_on(thread.index, done) {
            break;
        }
        probe.next();
        driver.step(plan, index, id, &mut tally, probe)?;
        done += 1;
    }
    driver.commit(probe)?;
    let (retries, context_switches) = (driver.retries, measure::own_context_switches());
    Ok(Outcome { tally, done, retries, context_switches })
}

/// A thread and its position in a plan.
struct Driver<'a, S> {
    session: &'a mut S,
    data: Data,
    batch: Batch,
    how: Commit,
    retries: u64,
    /// Whether it has written since it last renewed its read transaction.
    is_stale: bool,
}

impl<S: Session> Driver<'_, S> {
    #[inline]
    fn step<P: Probe>(
        &mut self,
        plan: &Plan,
        index: usize,
        id: u32,
        tally: &mut Tally,
        probe: &mut P,
    ) -> Result<()> {
        self.data.select(self.session, id)?;
        match plan.step(index) {
            Step::Put => self.write(plan, id, plan.version(index), probe),
            Step::Delete => self.write(plan, id, 0, probe),
            Step::Get => self.get(id, tally, probe),
            Step::Miss => {
                let key = self.data.keys.missing(id);
                if !probe.call(|| self.session.get(key, |value| tally.add(value)))? {
                    tally.miss();
                }
                Ok(())
            }
            Step::Seek => {
                self.look_anew()?;
                let key = self.data.keys.key(id);
                if !probe
                    .call(|| self.session.seek(key, |key, value| tally.add_entry(key, value)))?
                {
                    tally.miss();
                }
                Ok(())
            }
            Step::Range => self.range(id, plan.range(index), tally, probe),
            Step::DeleteRange => {
                let from = self.data.keys.key(id).to_vec();
                let to = self.data.keys.key(id + plan.range(index) as u32);
                probe.call(|| self.session.delete_range(&from, to))
            }
            Step::Modify => {
                self.get(id, tally, probe)?;
                self.write(plan, id, plan.version(index), probe)
            }
        }
    }

    #[inline]
    fn look_anew(&mut self) -> Result<()> {
        if self.is_stale {
            self.is_stale = false;
            self.session.refresh()?;
        }
        Ok(())
    }

    #[inline]
    fn get<P: Probe>(&mut self, id: u32, tally: &mut Tally, probe: &mut P) -> Result<()> {
        self.look_anew()?;
        let key = self.data.keys.key(id);
        if !probe.call(|| self.session.get(key, |value| tally.add(value)))? {
            tally.miss();
        }
        Ok(())
    }

    fn range<P: Probe>(
        &mut self,
        id: u32,
        limit: u64,
        tally: &mut Tally,
        probe: &mut P,
    ) -> Result<()> {
        self.look_anew()?;
        let key = Some(self.data.keys.key(id));
        let forward = crate::engine::Direction::Forward;
        let seen = |key: &[u8], value: &[u8]| tally.add_entry(key, value);
        let count = probe.call(|| self.session.scan(key, limit, forward, seen))?;
        if count == 0 {
            tally.miss();
        }
        Ok(())
    }

    #[inline]
    fn write<P: Probe>(&mut self, plan: &Plan, id: u32, version: u32, probe: &mut P) -> Result<()> {
        self.is_stale = true;
        if plan.batch > 1 || self.how != Commit::Batch {
            self.batch.push(Pending { id, version });
            return if self.batch.len() < plan.batch as usize {
                Ok(())
            } else {
                self.commit(probe)
            };
        }
        let key = self.data.keys.key(id);
        if version == 0 {
            return probe.call(|| self.session.delete(key));
        }
        let value = self.data.values.value(id, version);
        probe.call(|| self.session.put(key, value))
    }

    fn commit<P: Probe>(&mut self, probe: &mut P) -> Result<()> {
        if !self.batch.is_empty() {
            self.is_stale = true;
            match self.how {
                Commit::Batch => probe.call(|| self.session.write(&mut self.batch))?,
                Commit::Ingest => probe.call(|| self.session.ingest(&mut self.batch))?,
                Commit::Transaction(level) => {
                    let mut puts = Puts { batch: &mut self.batch, attempts: 0 };
                    probe.call(|| self.session.transact(level, &mut puts))?;
                    self.retries += puts.attempts.saturating_sub(1);
                }
            }
            self.batch.clear();
        }
        Ok(())
    }
}

/// The puts of a batch, as the body of a transaction.
struct Puts<'a> {
    batch: &'a mut Batch,
    attempts: u64,
}

impl Body for Puts<'_> {
    fn attempt<T: Transaction>(&mut self, transaction: &mut T) -> Result<()> {
        self.attempts += 1;
        self.batch.for_each(|write| match write {
            Write::Put { key, value } => transaction.put(key, value),
            Write::Delete { .. } => Err(Failure::error("transactions delete nothing here")),
        })
    }
}

#[cfg(test)]
mod tests;
