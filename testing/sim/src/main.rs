//! `cargo sim`: runs the simulator and reports what it covered.
//!
//! Exit code 0: no promise was broken, and the runs covered every required case.
#![forbid(unsafe_code)]

use clap::Parser;
use siltdb_sim::campaign::{Campaign, campaign, single};
use std::{
    process::ExitCode,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Crash states of a long simulation.
const CRASHES_LONG: u64 = 100_000;

/// Simulates SiltDB on a file system in memory: random operations, faults and crashes, compared
/// with a model. The same seed gives the same runs.
#[derive(Debug, Parser)]
#[command(name = "cargo sim")]
struct Arguments {
    /// Seed of all random choices; without it the time is taken.
    #[arg(long)]
    seed: Option<u64>,
    /// Crash states to check.
    #[arg(long, default_value_t = 2000)]
    crashes: u64,
    /// Checks 100,000 crash states.
    #[arg(long, conflicts_with = "crashes")]
    long: bool,
    /// Does only this run of the seed.
    #[arg(long)]
    run: Option<u64>,
    /// Number of threads among which runs are divided.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Number of operations shown before a violation.
    #[arg(long, default_value_t = 40)]
    lines: usize,
    /// Succeeds only if a promise is found broken; for engines with a seeded fault.
    #[arg(long)]
    expect_failure: bool,
}

/// A simulation of so many crash states must cover every case. Some cases are rare.
const CRASHES_FOR_ALL: u64 = 20_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(seed_from_time);
    println!("seed {seed}");
    let start = Instant::now();
    let mut campaign = match arguments.run {
        Some(run) => match single(seed, run) {
            Ok(report) => Campaign { report, failures: Vec::new() },
            Err(failure) => Campaign { failures: vec![*failure], ..Campaign::default() },
        },
        None => {
            let crashes = if arguments.long { CRASHES_LONG } else { arguments.crashes };
            campaign(seed, crashes, arguments.threads)
        }
    };
    println!("{}", campaign.report);
    println!("time         {:>9.1}  seconds", start.elapsed().as_secs_f64());
    for failure in &mut campaign.failures {
        failure.shorten(arguments.lines);
        println!("\n{failure}");
    }
    if arguments.expect_failure {
        return verdict(!campaign.failures.is_empty(), "no promise was found broken");
    }
    if !campaign.failures.is_empty() {
        return ExitCode::FAILURE;
    }
    let gaps = campaign.report.gaps();
    let message = format!("nothing was shown about: {}", gaps.join(", "));
    if !gaps.is_empty() && campaign.report.crashes() < CRASHES_FOR_ALL {
        eprintln!("note: {message}");
        return ExitCode::SUCCESS;
    }
    verdict(gaps.is_empty(), &message)
}

fn verdict(good: bool, otherwise: &str) -> ExitCode {
    if good {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {otherwise}");
    ExitCode::FAILURE
}

fn seed_from_time() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}
