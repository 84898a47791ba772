//! Runs rows: each engine in a child process of its own, in turns, and puts together what they say.
//!
//! A child that fails, crashes, hangs or is missing fails its row, with the reason; the run goes
//! on. When it is interrupted, children end, directories go, finished rows stay.

pub mod child;
pub mod bound;
pub mod assemble;
pub mod classes;
pub mod stores;
pub mod estimate;

use crate::{
    engine::{Class, Durability, Failure, FailureKind},
    job::{Extent, Job, Left, Progress, Report, Request, State},
    machine,
    pass::{killed::MAY_LOSE, store},
    result::{Limit, Row, Status},
    suite::Chosen,
    worker::is_trial,
};
use assemble::Known;
use bound::Bound;
use child::{Child, Ended, Limits, WorkerBinary};
use classes::Established;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use stores::Stores;
use tempfile::TempDir;

/// What a database needs beyond its bytes: old files, logs, and what compaction writes beside.
const DISK_FACTOR: u64 = 4;
/// Room for logs that are set up ahead and for small databases.
const DISK_MIN: u64 = 1 << 30;
/// Memory that engines use beyond their cache: memtables, indexes, filters.
const ENGINE_MEMORY: u64 = 512 << 20;
/// Memory of the benchmark for each operation and key: plan, model, sums.
const HARNESS_BYTES_PER_OP: u64 = 32;
/// Operations after which the cost of the benchmark itself is known.
const HARNESS_OPS_MAX: u64 = 2_000_000;

/// The engine of this program that does nothing.
const IDLE: &str = "null";
/// How the ids of those of other programs end.
const IDLE_SUFFIX: &str = "-null";

/// How rows are run.
pub struct Options<'a> {
    /// Engines that cannot run here, and why.
    pub absent: HashMap<String, String>,
    /// What the machine can do at best, if it was measured.
    pub machine: Vec<Limit>,
    /// Its processors.
    pub cores: u32,
    /// What was established about the durability of engines.
    pub classes: HashMap<(String, Durability), Established>,
    /// Runs of each engine in each row.
    pub repeat: u32,
    /// Only the engines that stay within this factor of the best of their durability class are
    /// repeated, and those that always are.
    pub repeat_within: Option<f64>,
    /// Engines that are always repeated.
    pub always: fn(&str) -> bool,
    /// Where databases lie.
    pub dir: PathBuf,
    /// Seconds after which a measured phase is cut off.
    pub cap_seconds: f64,
    /// When a child is given up.
    pub limits: Limits,
    /// The workers there are.
    pub workers: Vec<WorkerBinary>,
    /// Set when the run shall end.
    pub interrupted: &'a AtomicBool,
}

/// Who hears how a run goes.
pub trait Listener {
    /// An engine begins its part of a row.
    fn begins(&mut self, row: &Chosen, engine: &str, round: u32);
    /// An engine is on its way.
    fn progresses(&mut self, progress: &Progress);
    /// An engine has done its part once.
    fn ended(&mut self, row: &Chosen, engine: &str, outcome: &Result<Report, Failure>);
    /// All engines have done a row; what came of it.
    fn finished(&mut self, rows: &[Row]);
}

/// What one engine did in one row.
struct Entry<'a> {
    engine: &'a str,
    reports: Vec<Report>,
    failure: Option<(Status, String)>,
}

/// Says what would be missing before anything starts.
///
/// # Errors
/// A message with what a row needs and what there is.
pub fn check_room(rows: &[Chosen], options: &Options<'_>) -> Result<(), String> {
    let free = machine::disk_free(&options.dir).map_err(|error| error.message)?;
    let memory = machine::memory_free();
    let stores = Stores::new(rows, options.dir.clone());
    for (index, row) in rows.iter().enumerate() {
        let need = row.config.bytes_max * DISK_FACTOR + stores.bytes_at(index) + DISK_MIN;
        let name = format!("{} {}", row.suite, row.row);
        if need > free {
            let dir = options.dir.display();
            return Err(format!("{name} needs {} of disk, {dir} has {}", gib(need), gib(free)));
        }
        let operations = row.work.run.ops + row.work.ids();
        let need = operations * HARNESS_BYTES_PER_OP + row.config.cache_bytes + ENGINE_MEMORY;
        if let Some(memory) = memory.filter(|memory| need > *memory) {
            return Err(format!("{name} needs {} of memory, {} are free", gib(need), gib(memory)));
        }
    }
    Ok(())
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Runs rows, one after another; those that are finished when it is interrupted are returned.
pub fn run(rows: &[Chosen], options: &Options<'_>, listener: &mut impl Listener) -> Vec<Row> {
    let mut finished = Vec::new();
    let mut stores = Stores::new(rows, options.dir.clone());
    for (index, row) in rows.iter().enumerate() {
        let Some(done) = run_row(row, index, &mut stores, options, listener) else { break };
        listener.finished(&done);
        finished.extend(done);
        stores.done(index);
    }
    finished
}

/// `None` if it was interrupted.
fn run_row(
    row: &Chosen,
    index: usize,
    stores: &mut Stores,
    options: &Options<'_>,
    listener: &mut impl Listener,
) -> Option<Vec<Row>> {
    let mut entries: Vec<Entry<'_>> =
        row.engines.iter().map(|engine| Entry::new(engine, row, options)).collect();
    let count = entries.len();
    for round in 0..options.repeat {
        let repeated = repeated(row, &entries, options);
        for at in turns(index + round as usize, count) {
            let entry = &mut entries[at];
            if entry.failure.is_some() || (round > 0 && !repeated[at]) {
                continue;
            }
            listener.begins(row, entry.engine, round);
            let has_latencies = row.seconds.is_none() || row.work.run.open_loop_percent > 0;
            let is_full = round == 0 && has_latencies;
            let extent = if is_full { Extent::Full } else { Extent::Throughput };
            let outcome = entry.run(row, extent, stores, options, listener);
            if options.interrupted.load(Ordering::Relaxed) {
                return None;
            }
            listener.ended(row, entry.engine, &outcome);
            match outcome {
                Ok(report) => entry.reports.push(report),
                Err(failure) => entry.failure = Some(status_of(failure)),
            }
        }
    }
    let mut harness: HashMap<&str, Option<f64>> = HashMap::new();
    for entry in entries.iter().filter(|entry| !entry.reports.is_empty()) {
        let idle = idle_beside(entry.engine, options);
        if !harness.contains_key(idle) {
            harness.insert(idle, harness_ns(row, idle, options, listener));
        }
    }
    if options.interrupted.load(Ordering::Relaxed) {
        return None;
    }
    let bound = Bound::of(row, &options.machine, options.cores);
    let bound = bound.as_ref();
    let assembled = entries.into_iter().map(|Entry { engine, reports, failure }| {
        let class = established(engine, row, options);
        let harness_ns = harness.get(idle_beside(engine, options)).copied().flatten();
        let known = Known { harness_ns, bound, class };
        assemble::row(row, engine, &reports, failure, known)
    });
    Some(assembled.collect())
}

/// The order of `count` engines, of which another begins in each round and each row.
fn turns(first: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (first + turn) % count)
}

impl<'a> Entry<'a> {
    fn new(engine: &'a str, row: &Chosen, options: &Options<'_>) -> Self {
        let absent = options.absent.get(engine);
        let failure = absent.map(|reason| (Status::NotRun, reason.clone())).or_else(|| lacks(row));
        let failure = failure.or_else(|| may_lose(engine, row, options));
        Self { engine, reports: Vec::new(), failure }
    }

    fn run(
        &mut self,
        row: &Chosen,
        extent: Extent,
        stores: &mut Stores,
        options: &Options<'_>,
        listener: &mut impl Listener,
    ) -> Result<Report, Failure> {
        let is_killed = row.work.state == State::Killed;
        // Those that the benchmark is tried with keep nothing on disk that could be copied; what
        // a kill leaves of that they have to show.
        let has_store = is_killed || !is_trial(self.engine);
        let store = if has_store { stores.of(self.engine, row)? } else { None };
        let unfilled = store.as_deref().filter(|store| is_killed && !store::is_filled(store));
        if let Some(store) = unfilled
            && let Err(failure) = leave(row, self.engine, store, options, listener)
        {
            stores.refuse(self.engine, row, failure.clone());
            return Err(failure);
        }
        let outcome = run_once(row, self.engine, extent, store, options, listener);
        if let Err(failure) = &outcome
            && failure.kind == FailureKind::Capped
        {
            stores.cut_off(self.engine, row, failure);
        }
        outcome
    }
}

/// Whether each entry is worth another round.
fn repeated(row: &Chosen, entries: &[Entry<'_>], options: &Options<'_>) -> Vec<bool> {
    // A row that runs for a time shows its variation by the second.
    if row.seconds.is_some() {
        return vec![false; entries.len()];
    }
    let Some(within) = options.repeat_within else { return vec![true; entries.len()] };
    let writes = row.work.run.op.writes();
    // Reads compare across classes.
    let standing = |entry: &Entry<'_>| -> Option<(Option<Class>, f64)> {
        let report = entry.reports.first()?;
        let class = established(entry.engine, row, options).unwrap_or(report.facts.class);
        Some((writes.then_some(class), assemble::figure(report, row.work.run.op)))
    };
    let standings: Vec<_> = entries.iter().map(standing).collect();
    let is_near = |(entry, standing): (&Entry<'_>, &Option<(Option<Class>, f64)>)| {
        let Some((class, figure)) = standing else { return false };
        let alike = standings.iter().flatten().filter(|(other, _)| other == class);
        let best = alike.map(|(_, figure)| *figure).fold(0.0, f64::max);
        (options.always)(entry.engine) || figure * within >= best
    };
    entries.iter().zip(&standings).map(is_near).collect()
}

/// The durability class of an engine in a row, if it was tried out.
fn established(engine: &str, row: &Chosen, options: &Options<'_>) -> Option<Class> {
    let promise = (engine.to_owned(), row.config.durability);
    options.classes.get(&promise).map(|established| established.class)
}

/// A directory that goes with its owner.
fn directory(options: &Options<'_>) -> Result<TempDir, Failure> {
    Ok(tempfile::Builder::new().prefix("silt-bench-").tempdir_in(&options.dir)?)
}

fn lacks(row: &Chosen) -> Option<(Status, String)> {
    let needs = || format!("needs {}, which is not there yet", row.needs.join(", "));
    (!row.needs.is_empty()).then(|| (Status::Unsupported, needs()))
}

/// An engine that need not keep what it acknowledged would open less than the others after a kill,
/// and be the faster for it.
fn may_lose(engine: &str, row: &Chosen, options: &Options<'_>) -> Option<(Status, String)> {
    let promise = (engine.to_owned(), row.config.durability);
    let established = options.classes.get(&promise).filter(|_| row.work.state == State::Killed)?;
    let reason = || format!("{MAY_LOSE}; {}", established.how);
    (established.class == Class::Memory).then(|| (Status::Unsupported, reason()))
}

fn status_of(failure: Failure) -> (Status, String) {
    match failure.kind {
        FailureKind::Error | FailureKind::Conflict => (Status::Failed, failure.message),
        FailureKind::Verification => (Status::Failed, format!("verification: {}", failure.message)),
        FailureKind::Unsupported => (Status::Unsupported, failure.message),
        FailureKind::Capped => (Status::Capped, failure.message),
    }
}

/// Lets a worker seed the database of a row into a store, and kills it.
fn leave(
    row: &Chosen,
    engine: &str,
    store: &Path,
    options: &Options<'_>,
    listener: &mut impl Listener,
) -> Result<(), Failure> {
    let dir = directory(options)?;
    let job = Job { store: Some(store.to_owned()), ..job(row, engine, &dir, options) };
    match serve(engine, &Request::Leave(Box::new(job)), options, listener)? {
        Ended::Left(Left { acknowledged: 0 }) => {
            Err(Failure::error("nothing was acknowledged before the kill"))
        }
        Ended::Left(_) => Ok(()),
        other => Err(unasked(other)),
    }
}

/// One engine, one row, one time, in a directory that goes with it.
fn run_once(
    row: &Chosen,
    engine: &str,
    extent: Extent,
    store: Option<PathBuf>,
    options: &Options<'_>,
    listener: &mut impl Listener,
) -> Result<Report, Failure> {
    let dir = directory(options)?;
    let job = Job { extent, store, ..job(row, engine, &dir, options) };
    match serve(engine, &Request::Job(Box::new(job)), options, listener)? {
        Ended::Report(report) => Ok(*report),
        other => Err(unasked(other)),
    }
}

/// All of a row.
fn job(row: &Chosen, engine: &str, dir: &TempDir, options: &Options<'_>) -> Job {
    Job {
        engine: engine.to_owned(),
        dir: dir.path().to_owned(),
        config: row.config.clone(),
        work: row.work.clone(),
        cap_seconds: row.seconds.map_or(options.cap_seconds, f64::from),
        store: None,
        extent: Extent::Full,
    }
}

/// Has a worker do what is requested.
fn serve(
    engine: &str,
    request: &Request,
    options: &Options<'_>,
    listener: &mut impl Listener,
) -> Result<Ended, Failure> {
    let missing = || Failure::error(format!("no worker drives {engine}"));
    let worker = options.workers.iter().find(|worker| worker.drives(engine)).ok_or_else(missing)?;
    let tell = |progress: &Progress| listener.progresses(progress);
    Ok(Child::start(worker)?.work(request, &options.limits, options.interrupted, tell))
}

/// Why a worker that ended so did not do what it was asked for.
fn unasked(ended: Ended) -> Failure {
    match ended {
        Ended::Failed(failure) => failure,
        Ended::Interrupted => Failure::error("interrupted"),
        Ended::Report(_) => Failure::error("the worker measured instead"),
        Ended::Survived(_) => Failure::error("the worker counted instead"),
        Ended::Left(_) => Failure::error("the worker left a database instead"),
    }
}

/// The engine that does nothing of the worker that drives an engine, if it has one: workers in
/// other languages have loops of their own.
fn idle_beside<'a>(engine: &str, options: &'a Options<'_>) -> &'a str {
    let worker = options.workers.iter().find(|worker| worker.drives(engine));
    let idle = worker
        .and_then(|worker| worker.engines.iter().find(|info| info.engine.ends_with(IDLE_SUFFIX)));
    idle.map_or(IDLE, |info| info.engine.as_str())
}

/// What the benchmark itself costs in a row, measured on an engine that does nothing.
fn harness_ns(
    row: &Chosen,
    idle: &str,
    options: &Options<'_>,
    listener: &mut impl Listener,
) -> Option<f64> {
    let mut row = row.clone();
    row.work.run.ops = row.work.run.ops.min(HARNESS_OPS_MAX);
    row.work.keys = row.work.keys.min(HARNESS_OPS_MAX as u32);
    row.config.entries_max = row.config.entries_max.min(HARNESS_OPS_MAX);
    let throughput =
        run_once(&row, idle, Extent::Throughput, None, options, listener).ok()?.throughput;
    (throughput.ops > 0).then(|| 1e9 * throughput.seconds / throughput.ops as f64)
}

impl Default for Limits {
    fn default() -> Self {
        Self { total: Duration::from_secs(1800), silence: Duration::from_secs(180) }
    }
}

#[cfg(test)]
mod tests;
