//! Small rows for the tests of engines: every operation, at a size that takes a moment.
//!
//! Its figures mean nothing. This file does not know which engines there are.

use crate::{
    engine::{Codec, Config, Engine, Failure, FailureKind, Isolation, Result},
    job::{Extent, Job, Op, Report, Run, Seed, SeedOp, State, Waits, Work},
    keys::KeyStyle,
    measure::Watch,
    order::Order,
    pass,
    values::ValueStyle,
};
use std::{path::Path, time::Duration};

/// Every operation of rows, but for bulk loads, which few engines have, and transactions.
pub const OPS: [Op; 22] = [
    Op::Put,
    Op::Delete,
    Op::PutDelete,
    Op::Get,
    Op::GetMiss,
    Op::Seek,
    Op::Range,
    Op::Scan,
    Op::ScanReverse,
    Op::Iterate,
    Op::Mixed,
    Op::MixedInsert,
    Op::YcsbA,
    Op::YcsbB,
    Op::YcsbC,
    Op::YcsbD,
    Op::YcsbE,
    Op::YcsbF,
    Op::Queue,
    Op::RangeDelete,
    Op::Open,
    Op::Compact,
];

/// The operations that are transactions.
pub const TRANSACTIONS: [Op; 5] =
    [Op::TransactionPut, Op::Increment, Op::RangeIncrement, Op::Transfer, Op::InsertAbsent];

/// A small row of an operation.
#[must_use]
pub fn job(op: Op, dir: &Path) -> Job {
    let seed = Seed { op: SeedOp::Put, order: Order::Random, percent: 100, batch: 100 };
    let ops = match op {
        Op::Open => 3,
        Op::RangeDelete => 20,
        Op::Ingest => 1000,
        _ => 2000,
    };
    let order = match op {
        Op::Ingest => Order::Sequential,
        op if op.competes() => Order::Uniform,
        _ => Order::Random,
    };
    let run = Run {
        op,
        order,
        ops,
        batch: if op == Op::Ingest { 170 } else { 1 },
        reads_percent: 50,
        range: 7,
        open_loop_percent: 0,
        open_loop_per_s: 0,
        waits: Waits::default(),
        isolation: Isolation::Serializable,
        held: 0,
    };
    let work = Work {
        keys: 1000,
        key_style: KeyStyle::Sparse,
        key_bytes: 16,
        value_style: ValueStyle::Marked,
        value_bytes: 100,
        compressible_percent: 50,
        threads: if op == Op::Queue { 1 } else { 2 },
        seed: if op == Op::Put || op == Op::InsertAbsent { Vec::new() } else { vec![seed] },
        state: State::Settled,
        warm_up: false,
        run,
    };
    let (engine, dir, config) = ("test".to_owned(), dir.to_owned(), Config::default());
    Job { engine, dir, config, work, cap_seconds: 60.0, store: None, extent: Extent::Full }
}

/// Runs a small row, changed by `change`, in a directory of its own.
///
/// # Errors
/// The failure of the row.
pub fn run<E: Engine>(op: Op, change: impl FnOnce(&mut Job)) -> Result<Report> {
    let dir = tempfile::tempdir()?;
    let mut job = job(op, dir.path());
    change(&mut job);
    let watch = Watch { tell: &|_| {}, cap: Duration::try_from_secs_f64(job.cap_seconds)? };
    pass::run::<E>(&job, &watch)
}

/// States of a database that has been written to, except the one that needs a killed process.
const STATES: [State; 4] = [State::AsIs, State::Compacted, State::Reopened, State::Cold];

/// Runs a small row that reads and writes in batches in every state, uncompressed. Also runs one
/// over three families with a short level 0. Calls `change` first.
///
/// # Errors
/// The first failure, with its state.
pub fn every_state<E: Engine>(change: fn(&mut Job)) -> Result<()> {
    for state in STATES {
        let report = run::<E>(Op::Mixed, |job| {
            change(job);
            job.work.state = state;
            job.work.run.batch = 30;
            job.config.codec = Codec::None;
        });
        report.map_err(|failure| Failure {
            message: format!("{}. state={state:?}", failure.message),
            ..failure
        })?;
    }
    let families = run::<E>(Op::Mixed, |job| {
        change(job);
        job.config.families = 3;
        job.config.level0_runs = Some(2);
        job.work.seed[0].batch = 1;
    });
    families.map(drop)
}

/// Runs a small row of every operation. Those of `lacks` must be reported as unsupported; all
/// others must be verified in full.
///
/// # Errors
/// The first unexpected result, with its operation.
pub fn every_operation<E: Engine>(lacks: &[Op], change: fn(&mut Job)) -> Result<()> {
    every_one::<E>(&OPS, lacks, change)
}

/// As [`every_operation`], for [`TRANSACTIONS`].
///
/// # Errors
/// As [`every_operation`].
pub fn every_transaction<E: Engine>(lacks: &[Op], change: fn(&mut Job)) -> Result<()> {
    every_one::<E>(&TRANSACTIONS, lacks, change)
}

fn every_one<E: Engine>(ops: &[Op], lacks: &[Op], change: fn(&mut Job)) -> Result<()> {
    for &op in ops {
        let outcome = run::<E>(op, change);
        let named = |failure: Failure| {
            let message = format!("{}. engine={}, op={op:?}", failure.message, E::ID);
            Failure { message, ..failure }
        };
        if lacks.contains(&op) {
            match outcome {
                Err(failure) if failure.kind == FailureKind::Unsupported => {}
                Err(failure) => return Err(named(failure)),
                Ok(_) => return Err(named(Failure::error("has what it was said to lack"))),
            }
            continue;
        }
        let verified = outcome.map_err(named)?.verified;
        if verified.checked == 0 || verified.checked != verified.expected {
            let message = format!("verified {}/{}", verified.checked, verified.expected);
            return Err(named(Failure::verification(message)));
        }
    }
    Ok(())
}
