//! The passes over a row: throughput without clocks around calls, latency with them, verification.
//!
//! 1. Throughput on a fresh database: seed, bring it to the row's state, run, settle. The sum of
//!    what was read must equal that of the model. A cold row includes the opening in the run; a
//!    warm row runs twice before.
//! 2. Rows that write: close, reopen, compare every key and value. Then all again on a second
//!    database with a clock around each call; its reads are compared as in (3).
//! 3. Rows that read: the same with clocks, then once more with everything compared in full.
//! 4. Size on disk, after closing and after compacting.
//!
//! Where threads change the same keys, their histories give the expected contents.
//!
//! Repeats need the first pass only, and its verification.
//!
//! A mismatch is an error, and the row then has no figure. The code is generic over the engine, so
//! that timed code has no dynamic dispatch.

pub mod data;
pub mod history;
pub mod steps;
pub mod verify;
pub mod store;
pub mod special;
pub mod transactions;
pub mod prepare;
pub mod crash;
pub mod killed;

use crate::{
    engine::{Durability, Engine, Failure, Result, Session},
    expect::{Live, Model, Tally},
    job::{Extent, Job, Latency, Op, Phase, Report, State, Throughput, Transactions, Verified},
    measure::{self, CountAt, Counted, Meter, Pace, Watch, Watched, watched},
    plan::{Plan, Thread},
};
use data::Data;
use hdrhistogram::Histogram;
use history::History;
use prepare::{Drawn, seeded, to_state};
use special::{Door, Finds};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use steps::{Clocked, Outcome, Probe, Ran, Schedule, Unclocked, drive, on_threads};
use transactions::{compete, hold, slowest_share};

/// Number of warm-up runs of a warm row. Two, because a cache may keep only what is read twice.
const WARM_UPS: u32 = 2;

/// The state shared by all passes over a row.
struct Course<'a> {
    job: &'a Job,
    data: Data,
    seeds: Vec<Vec<Plan>>,
    /// The measured phase of each thread.
    plans: Vec<Plan>,
    /// The contents of the database after seeding.
    model: Model,
    live: Live,
    watch: &'a Watch<'a>,
}

/// An open database and its directory.
struct Place<E> {
    engine: E,
    dir: PathBuf,
}

/// Runs one row on one engine.
///
/// # Errors
/// Errors of the engine; `Unsupported`; `Verification`, if anything read was wrong.
pub fn run<E: Engine>(job: &Job, watch: &Watch<'_>) -> Result<Report> {
    let Drawn { seeds, plans, model } = prepare::draw(&job.work)?;
    killed::check(job)?;
    let data = Data::new(&job.work, job.config.families);
    let live = Live::new(&model);
    let mut course = Course { job, data, seeds, plans, model, live, watch };
    course.report::<E>().map_err(|failure| match course.fresh() {
        Some(store) => killed::told::<E>(failure, (job, store), &course.data, &course.live, watch),
        None => failure,
    })
}

/// The cost of a row's loops on an engine that does nothing: nanoseconds of wall time for one
/// operation. Nothing is verified, because the engine holds nothing.
///
/// # Errors
/// If the workload makes no sense.
pub fn harness<E: Engine>(job: &Job, watch: &Watch<'_>) -> Result<Report> {
    let Drawn { seeds, plans, model } = prepare::draw(&job.work)?;
    let data = Data::new(&job.work, job.config.families);
    let live = Live::new(&model);
    let course = Course { job, data, seeds, plans, model, live, watch };
    let meter = Meter::start(&job.dir, CountAt::Process, measure::resident_bytes());
    let place = Place { engine: E::open(&job.dir, &job.config)?, dir: job.dir.clone() };
    let (_, ran, _) = course.measured(place, "throughput", || Unclocked)?;
    let throughput = Throughput {
        ops: course.ops(&ran),
        seconds: ran.seconds,
        settled_seconds: ran.seconds,
        samples: ran.paced.samples.clone(),
        capped: ran.paced.capped,
    };
    Ok(Report {
        facts: E::facts(&job.config),
        seed: Vec::new(),
        throughput,
        latency: None,
        verified: Verified::default(),
        logical_bytes: course.logical_bytes(&ran),
        db_bytes: 0,
        db_bytes_compacted: None,
        live_bytes: 0,
        usage: meter.stop(ran.context_switches(), &ran.paced.aside),
        transactions: None,
    })
}

impl Course<'_> {
    /// Runs all passes.
    fn report<E: Engine>(&mut self) -> Result<Report> {
        let job = self.job;
        let harness_rss_bytes = measure::resident_bytes();
        let (place, seed) = self.prepared::<E>("throughput")?;
        let place = if job.work.warm_up { self.warmed_up(place)? } else { place };
        let meter = Meter::start(&place.dir, self.count_at(), harness_rss_bytes);
        let (place, ran, _) = self.measured(place, "throughput", || Unclocked)?;
        let clock = Instant::now();
        let quiet = self.unwatched("settle", || place.engine.settle())?;
        let settling = quiet.saturating_duration_since(clock).as_secs_f64();
        let usage = meter.stop(ran.context_switches(), &ran.paced.aside);
        self.shorten(&ran);
        let (after, mut verified) = self.sums_hold(&ran)?;
        let throughput = Throughput {
            ops: self.ops(&ran),
            seconds: ran.seconds,
            settled_seconds: ran.seconds + settling,
            samples: ran.paced.samples.clone(),
            capped: ran.paced.capped,
        };
        let dir = place.dir.clone();
        let is_full = job.extent == Extent::Full;
        let mut latency = None;
        if job.work.run.op.writes() {
            verified.add(self.reopened(place, &after)?);
        } else if is_full {
            let (place, found, after) = self.clocked(place, &throughput)?;
            latency = Some(found);
            verified.add(self.compared(&place.engine, &after)?);
            place.engine.close()?;
        } else {
            place.engine.close()?;
        }
        let db_bytes = measure::disk_bytes(&dir)?;
        let compacted = || self.compacted_bytes::<E>(&dir);
        let db_bytes_compacted = is_full.then(compacted).transpose()?;
        fs::remove_dir_all(&dir)?;
        if is_full && latency.is_none() {
            latency = Some(self.second_database::<E>(&throughput, &mut verified)?);
        }
        Ok(Report {
            facts: E::facts(&job.config),
            seed,
            latency,
            verified,
            logical_bytes: self.logical_bytes(&ran),
            throughput,
            db_bytes,
            db_bytes_compacted,
            live_bytes: Live::new(&after).len() as u64 * job.work.entry_bytes(),
            usage,
            transactions: self.transactions::<E>(&ran),
        })
    }

    /// Counts and costs of the transactions of a row, if it has any.
    fn transactions<E: Engine>(&self, ran: &Ran) -> Option<Transactions> {
        let Job { work, config, .. } = self.job;
        let (op, held) = (work.run.op, ran.held);
        let competes = op.competes();
        (competes || op == Op::TransactionPut || held.is_some()).then(|| Transactions {
            isolation: E::isolation(config, work.run.isolation).to_owned(),
            retries: ran.retries(),
            slowest_share: slowest_share(&ran.outcomes).filter(|_| competes),
            held,
        })
    }

    /// Runs the throughput pass without counting it; its reads are verified all the same.
    fn warmed_up<E: Engine>(&self, mut place: Place<E>) -> Result<Place<E>> {
        for _ in 0..WARM_UPS {
            let (same, ran, _) = self.ran(place, "warm up", || Unclocked)?;
            self.sums_hold(&ran)?;
            place = same;
        }
        Ok(place)
    }

    /// Closes a database, reopens it, and compares its whole contents.
    fn reopened<E: Engine>(&self, place: Place<E>, after: &Model) -> Result<Verified> {
        self.unwatched("verify", || {
            place.engine.close()?;
            let engine = E::open(&place.dir, &self.job.config)?;
            let verified = verify::holds(&engine, &self.data, &Live::new(after), after.ids())?;
            engine.close().map(|()| verified)
        })
    }

    fn count_at(&self) -> CountAt {
        match self.job.config.durability {
            Durability::Buffered => CountAt::Process,
            Durability::Synced => CountAt::Device,
        }
    }

    /// A separate database, seeded and in the state of the row.
    fn prepared<E: Engine>(&self, name: &str) -> Result<(Place<E>, Vec<Phase>)> {
        let dir = self.job.dir.join(name);
        fs::create_dir_all(&dir)?;
        let Some(store) = &self.job.store else {
            let (engine, phases) = self.seeded_in(&dir)?;
            return Ok((Place { engine, dir }, phases));
        };
        let make = |dir: &Path| {
            let (engine, phases) = self.seeded_in::<E>(dir)?;
            engine.close().map(|()| phases)
        };
        let phases = store::copy_to(&dir, store, make)?;
        Ok((Place { engine: E::open(&dir, &self.job.config)?, dir }, phases))
    }

    /// The store that is copied before each opening.
    fn fresh(&self) -> Option<&Path> {
        self.job.store.as_deref().filter(|_| self.job.work.state == State::Killed)
    }

    /// The database that each opening of a row about openings finds.
    fn finds(&self) -> Finds<'_> {
        match (self.fresh(), self.job.work.state) {
            (Some(store), _) => Finds::CopyOf(store),
            (None, State::Cold) => Finds::Cold,
            (None, _) => Finds::AsLeft,
        }
    }

    /// Seeds a database in a directory and brings it to the state of the row.
    fn seeded_in<E: Engine>(&self, dir: &Path) -> Result<(E, Vec<Phase>)> {
        let config = &self.job.config;
        let (engine, phases) = seeded::<E>(dir, config, &self.data, &self.seeds, self.watch)?;
        let work = &self.job.work;
        let engine = self.unwatched("prepare", || to_state(engine, dir, config, work))?;
        Ok((engine, phases))
    }

    /// Runs work without a count, and reports that it is running.
    fn unwatched<T>(&self, phase: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let what = Watched { phase, total: 0, threads: 1, cap: None };
        watched(what, self.watch, |_| body()).map(|(outcome, _)| outcome)
    }

    /// The measured phase, with a probe for each thread. For a cold row the opening of the database
    /// counts as time, but not as a call.
    fn measured<E: Engine, P: Probe>(
        &self,
        place: Place<E>,
        phase: &str,
        probe: impl Fn() -> P,
    ) -> Result<(Place<E>, Ran, Vec<P>)> {
        let is_cold = self.job.work.state == State::Cold && self.job.work.run.op != Op::Open;
        if !is_cold {
            return self.ran(place, phase, probe);
        }
        let (place, seconds, aside) = self.opened_cold(place)?;
        let (place, mut ran, probes) = self.ran(place, phase, probe)?;
        ran.seconds += seconds;
        ran.paced.aside.add(aside);
        Ok((place, ran, probes))
    }

    /// Closes a database and drops it from the page cache, outside the measured time. Then opens
    /// it, and returns the time of that. An opening is never cut off: the time limit is for the
    /// operations after it.
    fn opened_cold<E: Engine>(&self, place: Place<E>) -> Result<(Place<E>, f64, Counted)> {
        let Place { engine, dir } = place;
        let what = Watched { phase: "open", total: 0, threads: 1, cap: None };
        let ((engine, seconds), paced) = watched(what, self.watch, |pace| {
            pace.aside(&dir, || {
                engine.close()?;
                measure::drop_from_page_cache(&dir)
            })?;
            let clock = Instant::now();
            let engine = E::open(&dir, &self.job.config)?;
            Ok((engine, clock.elapsed().as_secs_f64()))
        })?;
        Ok((Place { engine, dir }, seconds, paced.aside))
    }

    /// Runs the measured phase on an open database.
    fn ran<E: Engine, P: Probe>(
        &self,
        place: Place<E>,
        phase: &str,
        probe: impl Fn() -> P,
    ) -> Result<(Place<E>, Ran, Vec<P>)> {
        let work = &self.job.work;
        let Place { mut engine, dir } = place;
        let cap = Some(self.watch.cap);
        let what = Watched { phase, total: work.run.ops, threads: work.threads, cap };
        let probes: Vec<P> = (0..work.threads).map(|_| probe()).collect();
        let data = &self.data;
        let holds = work.run.held > 0;
        let (mut histories, mut held) = (Vec::new(), None);
        let ((engine, each, seconds), paced) = watched(what, self.watch, |pace| {
            let (each, seconds) = match work.run.op {
                Op::Scan | Op::ScanReverse | Op::Iterate => {
                    special::scan(&engine, work, data, &self.live, pace, probes)?
                }
                Op::Queue => special::queue(&engine, work, data, pace, probes)?,
                Op::RangeDelete => special::range_delete(&engine, work, data, pace, probes)?,
                Op::Open => {
                    let (config, finds) = (&self.job.config, self.finds());
                    let door = Door { dir: &dir, config, finds };
                    let (engine, outcome, probe, seconds) =
                        special::open(engine, door, work, data, pace, probe())?;
                    return Ok((engine, vec![(outcome, probe)], seconds));
                }
                Op::Compact if !E::COMPACTS => {
                    return Err(Failure::unsupported("no compaction in place"));
                }
                Op::Compact => {
                    let mut probe = probe();
                    let clock = Instant::now();
                    probe.begin();
                    probe.call(|| engine.compact())?;
                    let seconds = clock.elapsed().as_secs_f64();
                    (vec![(Outcome { done: 1, ..Outcome::default() }, probe)], seconds)
                }
                op => {
                    let mut holder = holds.then(|| engine.session()).transpose()?;
                    let holder = holder.as_mut();
                    held = holder.map(|holder| hold(holder, work, data)).transpose()?;
                    if op.competes() {
                        let competed = compete(&engine, work, data, pace, probes)?;
                        histories = competed.histories;
                        (competed.each, competed.seconds)
                    } else {
                        self.driven(&engine, pace, probes)?
                    }
                }
            };
            Ok((engine, each, seconds))
        })?;
        let (outcomes, probes) = each.into_iter().unzip();
        Ok((Place { engine, dir }, Ran { outcomes, seconds, paced, histories, held }, probes))
    }

    /// Runs the plans.
    fn driven<E: Engine, P: Probe>(
        &self,
        engine: &E,
        pace: &Pace,
        probes: Vec<P>,
    ) -> Result<(Vec<(Outcome, P)>, f64)> {
        let items: Vec<(&Plan, P)> = self.plans.iter().zip(probes).collect();
        on_threads(engine, items, |thread, session, (plan, mut probe)| {
            session.refresh()?;
            let outcome = drive(session, thread, plan, &self.data, pace, &mut probe)?;
            Ok((outcome, probe))
        })
    }

    /// Compares the sums of reads with the expected ones, thread by thread. Returns the expected
    /// contents of the database.
    fn sums_hold(&self, ran: &Ran) -> Result<(Model, Verified)> {
        let mut model = self.model.clone();
        let work = &self.job.work;
        let mut verified = Verified::default();
        for (thread, outcome) in Thread::all(ran.outcomes.len() as u32).zip(&ran.outcomes) {
            let expected = match work.run.op {
                Op::Scan | Op::ScanReverse | Op::Iterate => {
                    special::expected_scan(work, &self.live, thread, outcome.done)
                }
                Op::Queue => special::expected_queue(work, &mut model, outcome.done),
                Op::RangeDelete => {
                    special::expected_range_delete(work, &mut model, thread, outcome.done);
                    Tally::default()
                }
                Op::Open => self.expected_open(outcome.done),
                Op::Compact => Tally::default(),
                op if op.competes() => Tally::default(),
                _ => {
                    let plan = &self.plans[thread.index as usize];
                    let mut parts = model.parts();
                    parts[thread.index as usize].replay(plan, outcome.done as usize, &self.live)
                }
            };
            if outcome.tally != expected {
                return Err(wrong_sum(thread, &expected, &outcome.tally));
            }
            verified.add(Verified::all(expected.found));
        }
        history::apply(&ran.histories, &mut model)?;
        let checked = ran.histories.iter().map(|history| history.checked).sum();
        verified.add(Verified::all(checked));
        Ok((model, verified))
    }

    fn expected_open(&self, done: u64) -> Tally {
        let mut tally = Tally::default();
        for id in special::opened_ids(&self.job.work, done) {
            self.model.get(id, &mut tally);
        }
        tally
    }

    /// Limits later passes to the operations that a pass did before it was cut off.
    fn shorten(&mut self, ran: &Ran) {
        for (plan, outcome) in self.plans.iter_mut().zip(&ran.outcomes) {
            plan.truncate(outcome.done as usize);
        }
    }

    /// The measured phase with a clock around each call, and the contents of the database after it.
    fn clocked<E: Engine>(
        &mut self,
        place: Place<E>,
        throughput: &Throughput,
    ) -> Result<(Place<E>, Latency, Model)> {
        let run = &self.job.work.run;
        let peak = peak(throughput);
        let rate = match (run.open_loop_per_s, run.open_loop_percent) {
            (0, 0) => None,
            (0, percent) => Some(peak * f64::from(percent) / 100.0),
            (rate, _) => Some(rate as f64),
        };
        let each = rate.map(|rate| rate / f64::from(self.job.work.threads));
        let period = each.map(|rate| Duration::from_secs_f64(1.0 / rate.max(0.01)));
        let probe = || Clocked::new(Schedule::new(period, run.waits));
        let (place, ran, probes) = self.measured(place, "latency", probe)?;
        self.shorten(&ran);
        let (after, _) = self.sums_hold(&ran)?;
        let mut all: Histogram<u64> = measure::histogram();
        for probe in &probes {
            all.add(&probe.histogram).map_err(|_| Failure::error("histograms do not add"))?;
        }
        let batch = if run.op.writes() { u64::from(run.batch) } else { 1 };
        let ops_per_call = match run.op {
            Op::Scan | Op::ScanReverse | Op::Iterate | Op::Compact => {
                throughput.ops / all.len().max(1)
            }
            Op::Put | Op::Delete | Op::PutDelete | Op::Ingest | Op::TransactionPut => batch,
            _ => 1,
        };
        Ok((place, measure::latency(&all, ops_per_call, rate), after))
    }

    /// Repeats the operations of the pass with clocks, and compares everything that it reads.
    fn compared<E: Engine>(&self, engine: &E, model: &Model) -> Result<Verified> {
        let work = &self.job.work;
        match work.run.op {
            Op::Scan | Op::ScanReverse | Op::Iterate => {
                return self.unwatched("verify", || {
                    special::verify_scan(engine, work, &self.data, &self.live)
                });
            }
            Op::Queue | Op::RangeDelete | Op::Compact => return Ok(Verified::default()),
            Op::Open => {
                return verify::holds(engine, &self.data, &self.live, self.model.ids());
            }
            op if op.competes() => {
                let live = Live::new(model);
                return self
                    .unwatched("verify", || verify::holds(engine, &self.data, &live, model.ids()));
            }
            _ => {}
        }
        let plans: Vec<Plan> = self.plans.iter().map(Plan::again).collect();
        let total = plans.iter().map(|plan| plan.ids.len() as u64).sum();
        let what = Watched { phase: "verify", total, threads: work.threads, cap: None };
        let mut model = model.clone();
        let items = plans.iter().zip(model.parts()).collect();
        let ((each, _), _) = watched(what, self.watch, |pace| {
            on_threads(engine, items, |thread, session, (plan, mut own)| {
                let expect = (&mut own, &self.live);
                verify::steps(session, thread, plan, &self.data, pace, expect)
            })
        })?;
        let mut verified = Verified::default();
        each.into_iter().for_each(|one| verified.add(one));
        Ok(verified)
    }

    /// Size of a database after a full compaction.
    fn compacted_bytes<E: Engine>(&self, dir: &Path) -> Result<u64> {
        self.unwatched("compact", || {
            let mut engine = E::open(dir, &self.job.config)?;
            engine.compact()?;
            engine.settle()?;
            engine.close()?;
            measure::disk_bytes(dir)
        })
    }

    /// The latency pass of a row that writes, with its reads compared. They are compared on the
    /// same database, or on a third one if the repetition would find its own inserts.
    fn second_database<E: Engine>(
        &mut self,
        throughput: &Throughput,
        verified: &mut Verified,
    ) -> Result<Latency> {
        let (place, _) = self.prepared::<E>("latency")?;
        let dir = place.dir.clone();
        let (place, latency, after) = self.clocked(place, throughput)?;
        let op = self.job.work.run.op;
        if op.reads() && !op.inserts() {
            verified.add(self.compared(&place.engine, &after)?);
        }
        place.engine.close()?;
        fs::remove_dir_all(&dir)?;
        if op.inserts() {
            let (place, _) = self.prepared::<E>("verify")?;
            verified.add(self.compared(&place.engine, &self.model)?);
            place.engine.close()?;
            fs::remove_dir_all(&place.dir)?;
        }
        Ok(latency)
    }

    /// Number of operations, as the row counts them.
    fn ops(&self, ran: &Ran) -> u64 {
        match self.job.work.run.op {
            Op::Scan | Op::ScanReverse | Op::Iterate => ran.total().found,
            Op::Compact => self.live.len() as u64,
            _ => ran.done(),
        }
    }

    /// Bytes of keys and values that were written; in rows that only read, that were read.
    fn logical_bytes(&self, ran: &Ran) -> u64 {
        let work = &self.job.work;
        let key = u64::from(work.key_bytes);
        let read = ran.total();
        match work.run.op {
            Op::Queue => ran.done() * (work.entry_bytes() + key),
            Op::RangeDelete => ran.done() * key * 2,
            Op::Compact => self.live.len() as u64 * work.entry_bytes(),
            op if op.competes() => {
                ran.histories.iter().map(History::writes).sum::<u64>() * work.entry_bytes()
            }
            op if op.writes() => {
                let writes = self.plans.iter().map(Plan::writes);
                writes.map(|(puts, deletes)| puts * work.entry_bytes() + deletes * key).sum()
            }
            _ => read.found * key + read.value_bytes,
        }
    }
}

/// The operations a second of which an open loop does a share: those that an engine keeps up with
/// its background work. If the pass was cut off it has shown no end of that work, and then they are
/// those of the median second.
fn peak(throughput: &Throughput) -> f64 {
    let mut seconds = throughput.samples.clone();
    seconds.sort_unstable();
    match seconds.get(seconds.len() / 2) {
        Some(&median) if throughput.capped => median as f64,
        _ => throughput.ops as f64 / throughput.settled_seconds.max(1e-9),
    }
}

fn wrong_sum(thread: Thread, expected: &Tally, found: &Tally) -> Failure {
    let what = if expected.found == found.found {
        "the values read do not add up".to_owned()
    } else {
        format!("other entries were found. expected={}, found={}", expected.found, found.found)
    };
    Failure::verification(format!("{what}. thread={}", thread.index))
}

#[cfg(test)]
mod tests;
