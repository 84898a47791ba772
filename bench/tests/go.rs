//! The worker of engines in Go does the same work as this program: every operation, told and not
//! drawn. Skipped, with the reason, where Go or the modules of the worker are missing.

use siltdb_bench::{
    engine::{Failure, FailureKind, Result},
    job::{Extent, Job, Op, Report, Request, Seed, SeedOp, State},
    keys::KeyStyle,
    runner::child::{Child, Ended, Limits, WorkerBinary},
    trial::{self, OPS, TRANSACTIONS},
    values::ValueStyle,
};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{OnceLock, atomic::AtomicBool},
};

/// The worker of engines in Go; `None` where it cannot be built.
fn worker() -> Option<&'static WorkerBinary> {
    static BUILT: OnceLock<Option<WorkerBinary>> = OnceLock::new();
    BUILT.get_or_init(built).as_ref()
}

fn built() -> Option<WorkerBinary> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/go");
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(&folder).env("GOPROXY", "off").output()
    };
    match go(&["list", "-deps", "."]) {
        Ok(listed) if listed.status.success() => {}
        Ok(listed) => {
            eprintln!("skipped: {}", String::from_utf8_lossy(&listed.stderr));
            return None;
        }
        Err(error) => {
            eprintln!("skipped: `go` does not run: {error}");
            return None;
        }
    }
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("silt-bench-go");
    let path = program.to_str().expect("the path is of this repository");
    let build = go(&["build", "-o", path, "."]).expect("it ran before");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    Some(WorkerBinary::ask(program, Vec::new()).expect("it speaks the protocol"))
}

fn this() -> WorkerBinary {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_silt-bench"));
    WorkerBinary::ask(program, vec!["worker".to_owned()]).expect("it speaks the protocol")
}

/// Runs a small row on an engine of a worker.
fn row(
    worker: &WorkerBinary,
    engine: &str,
    op: Op,
    change: impl FnOnce(&mut Job),
) -> Result<Report> {
    let dir = tempfile::tempdir()?;
    let mut job = trial::job(op, dir.path());
    job.engine = engine.to_owned();
    job.extent = Extent::Throughput;
    (job.config.entries_max, job.config.bytes_max) = (10_000, 4 << 20);
    change(&mut job);
    let (request, limits) = (Request::Job(Box::new(job)), Limits::default());
    match Child::start(worker)?.work(&request, &limits, &AtomicBool::new(false), |_| ()) {
        Ended::Report(report) => Ok(*report),
        Ended::Failed(failure) => Err(failure),
        _ => Err(Failure::error("another answer")),
    }
}

/// What two engines have in common that did the same work.
fn counts(report: &Report) -> [u64; 5] {
    let seeded = report.seed.iter().map(|phase| phase.ops).sum();
    [
        report.throughput.ops,
        report.verified.checked,
        report.logical_bytes,
        report.live_bytes,
        seeded,
    ]
}

#[test]
fn every_operation_does_the_same_on_an_engine_in_go() {
    let Some(worker) = worker() else { return };
    let this = this();
    for op in OPS.into_iter().chain(TRANSACTIONS) {
        let change = |job: &mut Job| {
            let mut gone = job.work.seed.first().cloned();
            if let Some(gone) = &mut gone {
                (gone.op, gone.percent) = (SeedOp::Delete, 20);
            }
            // A queue has no gaps. Ranges beside inserts end within the seeded ids if none is gone.
            if !op.competes() && !matches!(op, Op::YcsbE | Op::Queue) {
                job.work.seed.extend(gone);
            }
            // Threads that compete do what the sequence of their operations leads to.
            job.work.threads = if op.competes() { 1 } else { job.work.threads };
        };
        let theirs = row(worker, "bbolt", op, change);
        if matches!(op, Op::RangeDelete | Op::Compact) {
            assert_eq!(theirs.unwrap_err().kind, FailureKind::Unsupported, "{op:?}");
            continue;
        }
        let theirs = theirs.unwrap_or_else(|failure| panic!("{op:?}: {failure}"));
        let ours = row(&this, "siltdb", op, change).unwrap();
        assert_eq!(counts(&theirs), counts(&ours), "{op:?}");
        assert_eq!(theirs.verified.checked, theirs.verified.expected, "{op:?}");
    }
}

#[test]
fn an_engine_in_go_deletes_the_same_ranges() {
    let Some(worker) = worker() else { return };
    for op in [Op::RangeDelete, Op::Seek, Op::Scan] {
        let change = |job: &mut Job| {
            if op == Op::RangeDelete {
                return;
            }
            job.work.threads = 1;
            let gone = Seed { op: SeedOp::DeleteRange, percent: 60, ..job.work.seed[0].clone() };
            job.work.seed.push(gone);
        };
        let theirs = row(worker, "pebble", op, change).unwrap();
        let ours = row(&this(), "siltdb", op, change).unwrap();
        assert_eq!(counts(&theirs), counts(&ours), "{op:?}");
    }
}

#[test]
fn what_is_not_driven_in_go_is_unsupported_and_not_something_else() {
    let Some(worker) = worker() else { return };
    let bulk = row(worker, "bbolt", Op::Ingest, |_| ());
    let seed = row(worker, "bbolt", Op::Get, |job| {
        job.work.threads = 1;
        let gone = Seed { op: SeedOp::DeleteRange, ..job.work.seed[0].clone() };
        job.work.seed.push(gone);
    });
    for failure in [bulk, seed] {
        assert_eq!(failure.unwrap_err().kind, FailureKind::Unsupported);
    }
    let invalid = row(worker, "bbolt", Op::Get, |job| job.work.threads = 0);
    assert!(invalid.unwrap_err().message.contains("makes no sense"));
}

/// A worker that made other bytes would refuse the witness.
#[test]
fn keys_and_values_are_the_same_in_go_byte_for_byte() {
    let Some(worker) = worker() else { return };
    let (marked, ramp) = (ValueStyle::Marked, ValueStyle::Ramp);
    let sparse = [8, 16, 20, 1024].map(|bytes| (KeyStyle::Sparse, bytes));
    let digits = [(KeyStyle::Counter, 16), (KeyStyle::ReversedCounter, 24)];
    let values = [(marked, 16, 0), (marked, 70_001, 50), (marked, 4096, 100), (ramp, 300, 90)];
    for (key_style, key_bytes) in sparse.into_iter().chain(digits) {
        for (value_style, value_bytes, percent) in values {
            row(worker, "go-null", Op::Mixed, |job| {
                let work = &mut job.work;
                (work.key_style, work.key_bytes) = (key_style, key_bytes);
                (work.value_style, work.value_bytes) = (value_style, value_bytes);
                (work.compressible_percent, work.keys) = (percent, 50);
                work.run.ops = 10;
            })
            .unwrap_or_else(|failure| panic!("{key_style:?} {value_style:?}: {failure}"));
        }
    }
}

#[test]
fn a_database_left_by_a_kill_is_told_the_same_plan_twice() {
    let Some(worker) = worker() else { return };
    let dir = tempfile::tempdir().unwrap();
    let killed = |job: &mut Job| {
        job.work.state = State::Killed;
        job.store = Some(dir.path().join("store"));
    };
    let mut job = trial::job(Op::Open, dir.path());
    job.engine = "bbolt".to_owned();
    (job.config.entries_max, job.config.bytes_max) = (10_000, 4 << 20);
    killed(&mut job);
    let request = Request::Leave(Box::new(job));
    let interrupted = AtomicBool::new(false);
    let ended =
        Child::start(worker).unwrap().work(&request, &Limits::default(), &interrupted, |_| ());
    match ended {
        Ended::Left(left) => assert_eq!(left.acknowledged, 1000),
        Ended::Failed(failure) => panic!("{failure}"),
        _ => panic!("another answer"),
    }
    let report = row(worker, "bbolt", Op::Open, killed).unwrap();
    assert_eq!((report.throughput.ops, report.seed[0].ops), (3, 1000));
}
