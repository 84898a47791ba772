//! Rows on databases left by a kill. These tests kill nothing: a database that is still open while
//! its directory is copied leaves the same files. `tests/command.rs` kills processes.

use super::{Left, MAY_LOSE, seeded, store};
use crate::{
    adapters::{
        liar::{Liar, lie},
        null::Null,
        siltdb::{Siltdb, SiltdbSession},
    },
    engine::{Config, Engine, Facts, Failure, FailureKind, Result},
    job::{Extent, Job, Op, Report, State},
    measure::Watch,
    pass, trial,
};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const WATCH: Watch<'static> = Watch { tell: &|_| {}, cap: Duration::from_secs(60) };

/// A small row on a database that a kill left in a store.
fn job(op: Op, dir: &TempDir) -> Job {
    let mut job = trial::job(op, &dir.path().join("row"));
    job.work.state = State::Killed;
    job.store = Some(dir.path().join("store"));
    job
}

fn run<E: Engine>(job: &Job) -> Result<Report> {
    pass::run::<E>(job, &WATCH)
}

/// SiltDB, which refuses a directory where it was opened before.
struct Once(Siltdb);

impl Engine for Once {
    type Session<'a> = SiltdbSession<'a>;

    const ID: &'static str = "once";

    fn facts(config: &Config) -> Facts {
        Siltdb::facts(config)
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        let mark = dir.join("opened");
        if mark.exists() {
            return Err(Failure::error("it was opened before"));
        }
        fs::write(mark, "")?;
        Siltdb::open(dir, config).map(Self)
    }

    fn session(&self) -> Result<SiltdbSession<'_>> {
        self.0.session()
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn settle(&self) -> Result<Instant> {
        self.0.settle()
    }

    fn compact(&mut self) -> Result<()> {
        self.0.compact()
    }

    fn close(self) -> Result<()> {
        self.0.close()
    }
}

#[test]
fn rows_measure_and_verify_what_a_kill_left() {
    for op in [Op::Open, Op::Get, Op::ScanReverse, Op::Mixed, Op::Delete] {
        let dir = tempfile::tempdir().unwrap();
        let job = job(op, &dir);
        let (_still_open, left) = seeded::<Siltdb>(&job, &WATCH).unwrap();
        assert_eq!(left, Left { acknowledged: 1000 });
        let report = run::<Siltdb>(&job).unwrap_or_else(|failure| panic!("{op:?}: {failure}"));
        assert_eq!(report.seed[0].ops, 1000, "{op:?}");
        let verified = report.verified;
        assert!(verified.checked == verified.expected && verified.checked >= 1000, "{op:?}");
        assert!(report.throughput.ops > 0 && report.latency.is_some(), "{op:?}");
    }
}

#[test]
fn each_opening_finds_a_fresh_copy() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = job(Op::Open, &dir);
    job.extent = Extent::Throughput;
    let (_still_open, _) = seeded::<Siltdb>(&job, &WATCH).unwrap();
    assert_eq!(run::<Once>(&job).unwrap().throughput.ops, 3);
    job.work.state = State::Settled;
    assert_eq!(run::<Once>(&job).unwrap_err(), Failure::error("it was opened before"));
}

#[test]
fn what_an_engine_keeps_in_its_own_memory_is_said_to_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(Op::Open, &dir);
    let (_still_open, left) = seeded::<Liar<{ lie::HONEST }>>(&job, &WATCH).unwrap();
    assert_eq!(left.acknowledged, 1000);
    let failure = run::<Liar<{ lie::HONEST }>>(&job).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Verification);
    let taken = "kill -9 took 1000 of 1000 acknowledged entries";
    assert!(failure.message.starts_with(taken), "{failure}");
}

#[test]
fn the_last_commits_are_missed_too_and_counted() {
    for (left_percent, percent, wanted) in [
        (99, 100, "took 10 of 1000 acknowledged entries, 0 have another value"),
        (100, 150, "took 0 of 1000 acknowledged entries, 500 have another value"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(Op::Open, &dir);
        job.work.seed[0].percent = left_percent;
        let (_still_open, _) = seeded::<Siltdb>(&job, &WATCH).unwrap();
        job.work.seed[0].percent = percent;
        let failure = run::<Siltdb>(&job).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Verification, "{failure}");
        assert!(failure.message.contains(wanted), "{failure}");
    }
}

#[test]
fn an_engine_that_does_not_recover_says_that_it_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(Op::Open, &dir);
    // It finds its own mark in the copy.
    let (_still_open, _) = seeded::<Once>(&job, &WATCH).unwrap();
    let failure = run::<Once>(&job).unwrap_err();
    assert_eq!(failure, Failure::error("after kill -9: it was opened before"));
}

#[test]
fn an_engine_that_promises_nothing_is_unsupported() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(Op::Open, &dir);
    let failure = seeded::<Null>(&job, &WATCH).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert!(failure.message.starts_with(MAY_LOSE), "{failure}");
    assert!(!store::is_filled(job.store.as_deref().unwrap()));
}

#[test]
fn a_worker_does_not_do_what_takes_a_kill_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = job(Op::Open, &dir);
    for store in [None, job.store.clone()] {
        job.store = store;
        let failure = run::<Siltdb>(&job).unwrap_err();
        assert!(failure.message.starts_with("no process that was killed"), "{failure}");
        assert!(!job.dir.exists(), "nothing was seeded");
    }
}

#[test]
fn only_what_can_be_lost_is_left_and_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |job: &Job, why: &str| {
        let failure = seeded::<Siltdb>(job, &WATCH).err().unwrap();
        assert!(failure.kind == FailureKind::Error && failure.message.contains(why), "{failure}");
    };
    let mut job = job(Op::Open, &dir);
    let seed = std::mem::take(&mut job.work.seed);
    refused(&job, "nothing was seeded");
    job.work.seed = seed;
    job.work.state = State::Settled;
    refused(&job, "in another state");
    job.work.state = State::Killed;
    let store = job.store.take();
    refused(&job, "no empty store");
    job.store = store;
    let (_still_open, _) = seeded::<Siltdb>(&job, &WATCH).unwrap();
    refused(&job, "no empty store");
}
