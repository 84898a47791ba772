//! A database left by a killed process: the worker's side of leaving one, and the message of a row
//! that misses acknowledged data in it.
//!
//! The runner kills the worker.

use super::{
    data::Data,
    prepare::{self, Drawn},
    store,
};
use crate::{
    engine::{Class, Engine, Failure, FailureKind, Result, Session},
    expect::Live,
    job::{Job, Left, State},
    measure::{Watch, Watched, watched},
};
use std::{
    fs,
    io::{self, Read},
    path::Path,
};

/// The reason why an engine has no figure if its acknowledged commits need not survive a kill: it
/// opens less data than the others do.
pub const MAY_LOSE: &str = "may lose acknowledged commits when it is killed";

/// Entries that differ from the acknowledged ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gone {
    /// Absent entries.
    missing: u64,
    /// Entries with another value.
    other: u64,
}

/// Seeds a database into the store of a job, reports that, and waits until its input ends.
///
/// # Errors
/// If there is nothing to seed, or no store; errors of the engine. `Unsupported`, if the engine by
/// its own claim may lose commits in a kill.
pub fn leave<E: Engine>(job: &Job, watch: &Watch<'_>, tell: &dyn Fn(Left)) -> Result<()> {
    let (_engine, left) = seeded::<E>(job, watch)?;
    tell(left);
    // Neither settled nor closed, because a kill leaves no time for that.
    let _ = io::stdin().read(&mut [0]);
    Ok(())
}

/// The open database that a kill will leave in the store of a job.
///
/// # Errors
/// If there is nothing to seed, or no store; errors of the engine. `Unsupported`, if the engine by
/// its own claim may lose commits in a kill.
fn seeded<E: Engine>(job: &Job, watch: &Watch<'_>) -> Result<(E, Left)> {
    if job.work.state != State::Killed {
        return Err(Failure::error("a kill leaves no database in another state"));
    }
    let Some(store) = job.store.as_deref().filter(|store| !store::is_filled(store)) else {
        return Err(Failure::error("there is no empty store to leave a database in"));
    };
    if E::facts(&job.config).class == Class::Memory {
        return Err(Failure::unsupported(format!("{MAY_LOSE}, by its own claim")));
    }
    let Drawn { seeds, .. } = prepare::draw(&job.work)?;
    let data = Data::new(&job.work, job.config.families);
    store::fill(store, |dir| {
        let (engine, phases) = prepare::seeded::<E>(dir, &job.config, &data, &seeds, watch)?;
        let acknowledged = phases.iter().map(|phase| phase.ops).sum();
        if acknowledged == 0 {
            return Err(Failure::error("nothing was seeded that a kill could take"));
        }
        Ok(((engine, Left { acknowledged }), phases))
    })
}

/// Checks that the database of a job has been left, if the job needs that.
///
/// # Errors
/// If it was not: the measuring process cannot be killed for it.
pub fn check(job: &Job) -> Result<()> {
    if job.work.state != State::Killed || job.store.as_deref().is_some_and(store::is_filled) {
        return Ok(());
    }
    Err(Failure::error("no process that was killed has left a database in the store"))
}

/// The failure of a row on a database that a kill left: if commits are missing, with their number.
#[must_use]
pub fn told<E: Engine>(
    failure: Failure,
    (job, store): (&Job, &Path),
    data: &Data,
    live: &Live,
    watch: &Watch<'_>,
) -> Failure {
    let Failure { kind, message } = failure;
    let message = match kind {
        FailureKind::Unsupported | FailureKind::Capped => message,
        FailureKind::Error | FailureKind::Conflict => format!("after kill -9: {message}"),
        FailureKind::Verification => match gone::<E>((job, store), data, live, watch) {
            Ok(gone) if gone == Gone::default() => format!("after kill -9: {message}"),
            Ok(Gone { missing, other }) => {
                let all = live.len();
                let changed = format!("{other} have another value than was acknowledged");
                format!("kill -9 took {missing} of {all} acknowledged entries, {changed}")
            }
            Err(failure) => format!("after kill -9: {message}; {failure}"),
        },
    };
    Failure { kind, message }
}

/// Looks up each entry in a fresh copy of the database that was left.
fn gone<E: Engine>(
    (job, store): (&Job, &Path),
    data: &Data,
    live: &Live,
    watch: &Watch<'_>,
) -> Result<Gone> {
    let dir = job.dir.join("left");
    store::copy_anew(&dir, store)?;
    let engine = E::open(&dir, &job.config)?;
    let what = Watched { phase: "count", total: live.len() as u64, threads: 1, cap: None };
    let (gone, _) = watched(what, watch, |pace| {
        let mut gone = Gone::default();
        let mut data = data.clone();
        let mut session = engine.session()?;
        for (index, &(id, version)) in live.entries().iter().enumerate() {
            // Without a time limit the answer is always yes; the call reports progress.
            let _ = pace.goes_on(0, index as u64);
            data.select(&mut session, id)?;
            let mut is_right = false;
            let expected = data.values.value(id, version);
            let is_there = session.get(data.keys.key(id), |value| is_right = value == expected)?;
            gone.missing += u64::from(!is_there);
            gone.other += u64::from(is_there && !is_right);
        }
        Ok(gone)
    })?;
    engine.close()?;
    fs::remove_dir_all(&dir)?;
    Ok(gone)
}

#[cfg(test)]
mod tests;
