//! Many runs from one seed, until enough crash states were checked.
//!
//! Runs share nothing, so threads may do them in parallel. Each is a function of seed and number
//! alone.

use crate::{draw::Draw, report::Report, run::Run, settings::Settings, violation::Violation};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A campaign ends after this many runs, however few crash states they gave.
const RUNS_MAX: u64 = 1 << 32;

/// A run that found a broken promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the campaign.
    pub seed: u64,
    /// The number of the run in the campaign.
    pub run: u64,
    /// The broken promise.
    pub violation: Violation,
    /// The options of the run.
    pub settings: String,
    /// The operations before the violation, one to a line.
    pub log: Vec<String>,
}

impl Failure {
    /// Forgets all but the last `lines` operations.
    pub fn shorten(&mut self, lines: usize) {
        self.log.drain(..self.log.len().saturating_sub(lines));
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, run, violation, settings, log } = self;
        writeln!(f, "run {run} of seed {seed}: {settings}")?;
        for line in log {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "violation: {violation}")?;
        write!(f, "to see it again: cargo sim --seed {seed} --run {run}")
    }
}

/// Runs number `run` of `seed`.
///
/// # Errors
/// If it breaks a promise, or panics.
pub fn single(seed: u64, run: u64) -> Result<Report, Box<Failure>> {
    let mut draw = Draw::new(seed, run);
    let settings = Settings::new(&mut draw);
    let described = format!("{settings:?}");
    // After a panic only the log of the run is read, so a half-done state does no harm.
    let mut progress: Option<Run> = None;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let run = progress.insert(Run::new(draw, settings)?);
        run.go()
    }));
    let violation = match caught {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation),
        Err(panic) => Some(Violation::new(format!("panic: {}", message(&*panic)))),
    };
    let Some(violation) = violation else {
        return Ok(progress.map(|run| run.report().clone()).unwrap_or_default());
    };
    let log = progress.as_ref().map_or_else(Vec::new, |run| run.log().to_vec());
    // A database that panicked is not closed, because its locks may be held.
    std::mem::forget(progress);
    Err(Box::new(Failure { seed, run, violation, settings: described, log }))
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// The result of a campaign.
#[derive(Debug, Default)]
pub struct Campaign {
    /// The sum of all runs that kept every promise.
    pub report: Report,
    /// The runs that broke a promise, by number.
    pub failures: Vec<Failure>,
}

/// Performs runs of `seed` on `threads` threads until `crashes` crash states were checked or a run
/// fails.
#[must_use]
pub fn campaign(seed: u64, crashes: u64, threads: usize) -> Campaign {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let results = Mutex::new(Campaign::default());
    let lock =
        || -> MutexGuard<'_, Campaign> { results.lock().unwrap_or_else(PoisonError::into_inner) };
    let work = || {
        // Relaxed: the numbers carry no other data with them.
        while !failed.load(Ordering::Relaxed) && lock().report.crashes() < crashes {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= RUNS_MAX {
                return;
            }
            match single(seed, number) {
                Ok(report) => lock().report.add(&report),
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    lock().failures.push(*failure);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut campaign = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    campaign.failures.sort_by_key(|failure| failure.run);
    campaign
}
