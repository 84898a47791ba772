//! Runs rows: each engine in a child process of its own, in turns, and puts together what they say.
//!
//! A child that fails, crashes, hangs or is missing fails its row, with the reason; the run goes
//! on. When it is interrupted, children end, directories go, finished rows stay.

pub mod child;
pub mod assemble;

use crate::{
    engine::{Failure, FailureKind},
    job::{Job, Progress, Report},
    machine,
    result::{Row, Status},
    suite::Chosen,
};
use child::{Child, Ended, Limits, WorkerBinary};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

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

/// How rows are run.
pub struct Options<'a> {
    /// Engine ids, in the order of the report.
    pub engines: Vec<String>,
    /// Runs of each engine in each row.
    pub repeat: u32,
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
    for row in rows {
        let need = row.config.bytes_max * DISK_FACTOR + DISK_MIN;
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
    for (index, row) in rows.iter().enumerate() {
        let Some(done) = run_row(row, index, options, listener) else { break };
        listener.finished(&done);
        finished.extend(done);
    }
    finished
}

/// `None` if it was interrupted.
fn run_row(
    row: &Chosen,
    index: usize,
    options: &Options<'_>,
    listener: &mut impl Listener,
) -> Option<Vec<Row>> {
    let entry = |engine| Entry { engine, reports: Vec::new(), failure: lacks(row) };
    let mut entries: Vec<Entry<'_>> =
        options.engines.iter().map(String::as_str).map(entry).collect();
    let count = entries.len();
    for round in 0..options.repeat {
        for turn in 0..count {
            // Who begins changes from round to round and from row to row.
            let entry = &mut entries[(index + round as usize + turn) % count];
            if entry.failure.is_some() {
                continue;
            }
            listener.begins(row, entry.engine, round);
            let outcome = run_once(row, entry.engine, options, listener);
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
    let harness_ns = harness_ns(row, options, listener);
    if options.interrupted.load(Ordering::Relaxed) {
        return None;
    }
    let assembled = entries
        .into_iter()
        .map(|entry| assemble::row(row, entry.engine, &entry.reports, entry.failure, harness_ns));
    Some(assembled.collect())
}

fn lacks(row: &Chosen) -> Option<(Status, String)> {
    let needs = || format!("needs {}, which is not there yet", row.needs.join(", "));
    (!row.needs.is_empty()).then(|| (Status::Unsupported, needs()))
}

fn status_of(failure: Failure) -> (Status, String) {
    match failure.kind {
        FailureKind::Error => (Status::Failed, failure.message),
        FailureKind::Verification => (Status::Failed, format!("verification: {}", failure.message)),
        FailureKind::Unsupported => (Status::Unsupported, failure.message),
    }
}

/// One engine, one row, one time, in a directory that goes with it.
fn run_once(
    row: &Chosen,
    engine: &str,
    options: &Options<'_>,
    listener: &mut impl Listener,
) -> Result<Report, Failure> {
    let missing = || Failure::error(format!("no worker drives {engine}"));
    let worker = options.workers.iter().find(|worker| worker.drives(engine)).ok_or_else(missing)?;
    let dir = tempfile::Builder::new().prefix("silt-bench-").tempdir_in(&options.dir)?;
    let job = Job {
        engine: engine.to_owned(),
        dir: dir.path().to_owned(),
        config: row.config.clone(),
        work: row.work.clone(),
        cap_seconds: options.cap_seconds,
    };
    let mut child = Child::start(worker)?;
    let tell = |progress: &Progress| listener.progresses(progress);
    match child.work(job, &options.limits, options.interrupted, tell) {
        Ended::Report(report) => Ok(*report),
        Ended::Failed(failure) => Err(failure),
        Ended::Interrupted => Err(Failure::error("interrupted")),
    }
}

/// What the benchmark itself costs in a row, measured on the engine that does nothing.
fn harness_ns(row: &Chosen, options: &Options<'_>, listener: &mut impl Listener) -> Option<f64> {
    let mut row = row.clone();
    row.work.run.ops = row.work.run.ops.min(HARNESS_OPS_MAX);
    row.work.keys = row.work.keys.min(HARNESS_OPS_MAX as u32);
    row.config.entries_max = row.config.entries_max.min(HARNESS_OPS_MAX);
    let throughput = run_once(&row, "null", options, listener).ok()?.throughput;
    (throughput.ops > 0).then(|| 1e9 * throughput.seconds / throughput.ops as f64)
}

impl Default for Limits {
    fn default() -> Self {
        Self { total: Duration::from_secs(1800), silence: Duration::from_secs(180) }
    }
}

#[cfg(test)]
mod tests;
