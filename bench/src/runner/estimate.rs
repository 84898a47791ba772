//! The expected duration of a run.
//!
//! It is computed from the cost of operations on a typical engine, not from this machine. So a run
//! may take half as long or twice. This file measures nothing.

use crate::{
    engine::Durability,
    job::{Op, SeedOp, State},
    runner::Options,
    suite::Chosen,
};
use std::collections::BTreeSet;

/// Starting a worker, opening and closing a database.
const PROCESS_SECONDS: f64 = 0.5;
/// Bytes a second at which a seeded database is copied to where it is measured.
const COPIED_PER_SECOND: f64 = 500e6;
/// Reading an entry back to compare it, in nanoseconds.
const COMPARED_NS: f64 = 500.0;
/// A sync, which all threads share, in nanoseconds.
const SYNC_NS: f64 = 500_000.0;
/// The factor of the other engines, on average over those that are measured.
const OTHERS_FACTOR: f64 = 3.0;
/// The prefix of the ids of SiltDB and its variants.
const OURS: &str = "siltdb";
/// The factor of a clock around each call.
const CLOCK_FACTOR: f64 = 1.2;

/// The expected seconds of rows with these options, without the preliminary measurements.
#[must_use]
pub fn seconds(rows: &[Chosen], options: &Options<'_>) -> f64 {
    let mut seeded = BTreeSet::new();
    let mut seconds = 0.0;
    for row in rows.iter().filter(|row| row.needs.is_empty()) {
        for engine in &row.engines {
            if options.absent.contains_key(engine) {
                continue;
            }
            let factor = if engine.starts_with(OURS) { 1.0 } else { OTHERS_FACTOR };
            // Rows that begin with the same database share it.
            let is_first = seeded.insert(format!("{engine} {:?}", seeds(row)));
            let seeding = if is_first { seeding(row) * factor } else { 0.0 };
            if let Some(time) = row.seconds {
                let passes = if row.work.run.open_loop_percent > 0 { 2.0 } else { 1.0 };
                seconds += seeding + f64::from(time) * passes;
                continue;
            }
            seconds += seeding + f64::from(options.repeat) * round(row, factor, options);
            seconds += (measured(row, 1.0) * CLOCK_FACTOR * factor).min(options.cap_seconds);
        }
    }
    seconds
}

/// The parameters that define the database at the start of a row.
fn seeds(row: &Chosen) -> impl std::fmt::Debug + '_ {
    let work = &row.work;
    (&work.seed, work.keys, work.value_bytes, work.state, work.threads, &row.config)
}

/// A round of a row: the throughput pass and its preparation and verification.
fn round(row: &Chosen, factor: f64, options: &Options<'_>) -> f64 {
    let work = &row.work;
    let bytes = work.ids() as f64 * work.entry_bytes() as f64;
    let copied = if work.seed.is_empty() { 0.0 } else { bytes / COPIED_PER_SECOND };
    let passes = if work.warm_up { 3.0 } else { 1.0 };
    let measured = passes * (measured(row, 1.0) * factor).min(options.cap_seconds);
    let settled = if work.run.op.writes() { measured } else { 0.0 };
    let compared = work.ids() as f64 * COMPARED_NS / 1e9;
    PROCESS_SECONDS + copied + measured + settled + compared
}

fn seeding(row: &Chosen) -> f64 {
    let share = |percent: u32| f64::from(row.work.keys) * f64::from(percent) / 100.0;
    let phases = row.work.seed.iter();
    let ns: f64 = phases.map(|seed| share(seed.percent) * seed_ns(seed.op)).sum();
    let is_compacted = row.work.state == State::Compacted;
    let compacted =
        if is_compacted { f64::from(row.work.keys) * ns_of(Op::Compact, 0) } else { 0.0 };
    (ns + compacted) / 1e9
}

fn seed_ns(op: SeedOp) -> f64 {
    match op {
        SeedOp::Put => ns_of(Op::Put, 0),
        SeedOp::Delete => ns_of(Op::Delete, 0),
        SeedOp::DeleteRange => 0.0,
    }
}

/// The measured operations, slower by `factor`.
fn measured(row: &Chosen, factor: f64) -> f64 {
    let run = &row.work.run;
    let each = ns_of(run.op, run.range) * factor;
    let is_synced = row.config.durability == Durability::Synced && run.op.writes();
    let together = f64::from(run.batch) * f64::from(row.work.threads);
    let sync = if is_synced { SYNC_NS / together } else { 0.0 };
    run.ops as f64 * (each + sync) / 1e9
}

/// The time of an operation, in nanoseconds, without threads and batches.
fn ns_of(op: Op, range: u32) -> f64 {
    match op {
        Op::Put | Op::Delete | Op::PutDelete | Op::TransactionPut => 1_500.0,
        Op::Get | Op::GetMiss | Op::YcsbC => 1_500.0,
        Op::Mixed | Op::MixedInsert | Op::YcsbA | Op::YcsbB | Op::YcsbD | Op::YcsbF => 2_000.0,
        Op::Seek => 2_500.0,
        Op::Range => 2_500.0 + 100.0 * f64::from(range),
        Op::YcsbE | Op::Increment | Op::Transfer | Op::InsertAbsent => 10_000.0,
        Op::RangeIncrement => 10_000.0 + 100.0 * f64::from(range),
        Op::Scan | Op::ScanReverse | Op::Iterate => 100.0,
        Op::Queue => 5_000.0,
        Op::RangeDelete => 20_000.0,
        Op::Open => 100e6,
        Op::Compact | Op::Ingest => 500.0,
    }
}

#[cfg(test)]
mod tests;
