//! Establishes by test what an acknowledged commit survives, for each engine.
//!
//! A worker commits and is killed with `kill -9`; another opens the database and counts. If an
//! acknowledged commit is missing, the class is `memory`, else at least `process`. It is `power` if
//! the block device also received at least one flush for each commit. An engine gets at most the
//! class that it claims, because one test without a loss does not prove more.

use super::child::{Child, Ended, Limits, WorkerBinary};
use crate::{
    engine::{Arm, Class, Config, Durability, Failure, Result},
    job::{CrashStep, CrashTest, Request, Survived},
    measure::device_flushes,
};
use std::{path::Path, sync::atomic::AtomicBool, time::Duration};

/// A worker is killed after this many acknowledged commits.
const COMMITS: u64 = 2_000;
/// It is killed after this time in any case.
const COMMIT_TIME: Duration = Duration::from_secs(2);
/// More commits than a worker can make before it is killed.
const COMMITS_MAX: u32 = 1_000_000;

/// A durability class and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// The class.
    pub class: Class,
    /// The evidence, in words.
    pub how: String,
}

/// The observations of a crash test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Commits that were acknowledged.
    acknowledged: u64,
    /// The remaining commits.
    survived: Survived,
    /// The number of flushes that the device received meanwhile, if it counts them.
    flushes: Option<u64>,
}

/// Establishes what an acknowledged commit of an engine survives, with a database below `dir`.
///
/// # Errors
/// Errors of the engine; `Unsupported`, if it does not offer the durability; `Verification`, if the
/// remaining data is damaged.
pub fn establish(
    worker: &WorkerBinary,
    engine: &str,
    (durability, arm): (Durability, Arm),
    dir: &Path,
    interrupted: &AtomicBool,
) -> Result<Established> {
    let dir = tempfile::Builder::new().prefix("silt-bench-").tempdir_in(dir)?;
    let test = |step| CrashTest {
        engine: engine.to_owned(),
        dir: dir.path().to_owned(),
        config: Config { durability, arm, entries_max: COMMITS_MAX.into(), ..Config::default() },
        step,
        commits: COMMITS_MAX,
    };
    let before = device_flushes(dir.path());
    let acknowledged =
        Child::start(worker)?.commits_until_killed(test(CrashStep::Commit), COMMITS, COMMIT_TIME);
    let acknowledged = acknowledged.map_err(|failure| when("before kill -9", failure))?;
    let flushes = flushes_since(before, dir.path());
    let request = Request::Crash(test(CrashStep::Count));
    let ended = Child::start(worker)?.work(&request, &Limits::default(), interrupted, |_| ());
    match ended {
        Ended::Survived(survived) => Ok(conclude(Seen { acknowledged, survived, flushes })),
        Ended::Failed(failure) => Err(when("after kill -9", failure)),
        Ended::Report(_) => Err(Failure::error("the worker measured instead")),
        Ended::Left(_) => Err(Failure::error("the worker left a database instead")),
        Ended::Interrupted => Err(Failure::error("interrupted")),
    }
}

fn when(when: &str, failure: Failure) -> Failure {
    Failure { message: format!("{when}: {}", failure.message), ..failure }
}

fn flushes_since(before: Option<u64>, dir: &Path) -> Option<u64> {
    Some(device_flushes(dir)?.saturating_sub(before?))
}

fn conclude(seen: Seen) -> Established {
    let Seen { acknowledged, survived, flushes } = seen;
    let claimed = survived.class;
    if survived.found < acknowledged {
        let lost = acknowledged - survived.found;
        let how = format!("memory: kill -9 took {lost} of {acknowledged} acknowledged commits");
        return Established { class: Class::Memory, how };
    }
    let kept = format!("all {acknowledged} acknowledged commits survived kill -9");
    let (shown, synced) = match flushes {
        Some(flushes) if flushes >= acknowledged => {
            (Class::Power, format!(", during which the device was flushed {flushes} times"))
        }
        Some(flushes) if claimed == Class::Power => {
            (Class::Process, format!(", but the device was flushed only {flushes} times"))
        }
        None if claimed == Class::Power => {
            (Class::Process, ", and the device counts no flushes".to_owned())
        }
        _ => (Class::Process, String::new()),
    };
    let class = shown.min(claimed);
    let word = if claimed < shown { ", the engine promises no more" } else { "" };
    Established { class, how: format!("{}: {kept}{synced}{word}", class.name()) }
}

#[cfg(test)]
mod tests;
