//! Brings a database to the state before the measured phase: seed phases, then a row's state.
//!
//! A seed phase has its own clock. Its plan says what it wrote.

use super::{
    data::Data,
    steps::{Unclocked, drive, on_threads},
};
use crate::{
    engine::{Config, Engine, Failure, Result},
    expect::{Live, Model},
    job::{Op, Phase, SeedOp, State, Work},
    keys::KeyStyle,
    measure::{Watch, Watched, watched},
    order::Order,
    plan::{self, Plan, Thread},
    values::{VALUE_BYTES_MAX, VALUE_BYTES_MIN, ValueStyle},
};
use std::path::Path;

/// All operations to be done, and the contents that the seed phases leave.
pub struct Drawn {
    /// The seed phases, each with a plan for each thread.
    pub seeds: Vec<Vec<Plan>>,
    /// The measured phase of each thread.
    pub plans: Vec<Plan>,
    /// The contents of the database after seeding.
    pub model: Model,
}

/// Draws all phases of a workload.
///
/// # Errors
/// If the workload is invalid.
pub fn draw(work: &Work) -> Result<Drawn> {
    check(work)?;
    let mut model = Model::new(work);
    let mut seeds = Vec::new();
    let mut versions = vec![1_u32; work.threads as usize];
    for phase in &work.seed {
        let mut plans = Vec::new();
        for (thread, mut own) in Thread::all(work.threads).zip(model.parts()) {
            let version = &mut versions[thread.index as usize];
            let plan = plan::seed(work, phase, thread, *version);
            *version = plan.next_version();
            own.replay(&plan, plan.ids.len(), &Live::default());
            plans.push(plan);
        }
        seeds.push(plans);
    }
    let plan = |thread: Thread| plan::run(work, thread, versions[thread.index as usize]);
    let plans = Thread::all(work.threads).map(plan).collect();
    Ok(Drawn { seeds, plans, model })
}

/// Checks a workload.
///
/// # Errors
/// If it is invalid, with the reason.
pub fn check(work: &Work) -> Result<()> {
    let refuse = |why: &str| Err(Failure::error(format!("the workload makes no sense: {why}")));
    if work.threads == 0 || work.threads > work.keys {
        return refuse("there are no threads, or more than keys");
    }
    if work.ids() > u64::from(u32::MAX / 2) || work.run.ops > u64::from(u32::MAX / 2) {
        return refuse("more keys or operations than fit");
    }
    if !work.key_style.fits(work.key_bytes) {
        return refuse("keys are 8, if they are sparse, or at least 16 bytes long");
    }
    if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&work.value_bytes) {
        return refuse("values are 16 to 1,048,575 bytes long");
    }
    let deletes_range = work.seed.iter().any(|seed| seed.op == SeedOp::DeleteRange);
    if deletes_range && work.threads != 1 {
        return refuse("one thread deletes the range of a seed");
    }
    let orders_ids =
        deletes_range || matches!(work.run.op, Op::Queue | Op::RangeDelete | Op::YcsbE);
    if work.key_style != KeyStyle::Sparse && orders_ids {
        return refuse("a queue, a range of ids and ranges beside inserts need sparse keys");
    }
    let is_ascending = work.run.order == Order::Sequential
        && work.key_style != KeyStyle::ReversedCounter
        && work.run.ops <= u64::from(work.keys);
    if work.run.op == Op::Ingest && !is_ascending {
        return refuse("a bulk load has ascending keys, each once");
    }
    check_transactions(work)?;
    if work.run.batch == 0 || work.run.range == 0 || work.seed.iter().any(|s| s.batch == 0) {
        return refuse("an empty batch or range");
    }
    Ok(())
}

/// Checks what transactions need of a workload.
fn check_transactions(work: &Work) -> Result<()> {
    let run = &work.run;
    let refuse = |why: &str| Err(Failure::error(format!("the workload makes no sense: {why}")));
    if run.op.competes() {
        if run.order != Order::Uniform || work.value_style != ValueStyle::Marked {
            return refuse("threads that compete draw uniform ids, and count in marked values");
        }
        if work.keys < 2 || work.key_style != KeyStyle::Sparse {
            return refuse("a transfer needs two accounts, and a range of counters sparse keys");
        }
        if run.op == Op::RangeIncrement && run.range >= work.keys {
            return refuse("a range is shorter than all keys");
        }
    }
    let is_driven = !matches!(
        run.op,
        Op::Scan
            | Op::ScanReverse
            | Op::Iterate
            | Op::Queue
            | Op::RangeDelete
            | Op::Open
            | Op::Compact
    );
    if run.held > 0 && !is_driven {
        return refuse("no transactions are held open beside such operations");
    }
    Ok(())
}

/// Opens a database and runs the seed phases, each to its end. A row needs all of its data, so only
/// the time limit of the row as a whole stops a slow engine.
///
/// # Errors
/// Errors of the engine.
pub fn seeded<E: Engine>(
    dir: &Path,
    config: &Config,
    data: &Data,
    seeds: &[Vec<Plan>],
    watch: &Watch<'_>,
) -> Result<(E, Vec<Phase>)> {
    let engine = E::open(dir, config)?;
    let mut phases = Vec::new();
    for plans in seeds {
        let ops = plans.iter().map(|plan| plan.ids.len() as u64).sum();
        let threads = plans.len() as u32;
        let what = Watched { phase: "seed", total: ops, threads, cap: None };
        let ((_, seconds), _) = watched(what, watch, |pace| {
            on_threads(&engine, plans.iter().collect(), |thread, session, plan: &Plan| {
                drive(session, thread, plan, data, pace, &mut Unclocked)
            })
        })?;
        phases.push(Phase { ops, seconds });
    }
    Ok((engine, phases))
}

/// Brings a database into the state of a row.
///
/// # Errors
/// Errors of the engine; errors of the system.
pub fn to_state<E: Engine>(mut engine: E, dir: &Path, config: &Config, work: &Work) -> Result<E> {
    match work.state {
        State::AsIs if !charges_debt(work) => Ok(engine),
        State::AsIs | State::Settled | State::Cold => {
            engine.settle()?;
            Ok(engine)
        }
        State::Compacted => {
            engine.compact()?;
            engine.settle()?;
            Ok(engine)
        }
        State::Reopened => {
            engine.close()?;
            E::open(dir, config)
        }
        State::Killed => Err(Failure::error("a process cannot go on once it is killed")),
    }
}

/// Whether the measured phase would pay for background work of the seed. For rows that measure
/// compaction, that work is part of the compaction.
fn charges_debt(work: &Work) -> bool {
    !work.seed.is_empty() && work.run.op.writes() && work.run.op != Op::Compact
}
