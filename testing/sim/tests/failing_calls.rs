//! The n-th file system call fails, once or from then on, for each n until a run succeeds.
//!
//! The workload is always the same: it fills, flushes, compacts, creates, clones and drops a
//! family, and closes. After any failure, the acknowledged commits are found as a prefix of all
//! commits. An operation that fails with `NoSpace` before it changed anything succeeds when it is
//! retried, and so do all later ones (law A7).

use siltdb::{Create, Db, Durability, ErrorKind, FamilyOptions, Iter, Options, Read, WriteBatch};
use siltdb_base::{
    clock::ManualClock,
    cursor::Direction,
    fs::mem::{CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
};
use std::{sync::Arc, time::Duration};

const DIRECTORY: &str = "db";

/// Commits of the workload.
const COMMITS: u32 = 60;

/// The workload's response to an operation that fails with `NoSpace`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Patience {
    /// The same as to any other failure: no commit follows a failed one.
    #[default]
    None,
    /// One retry.
    Once,
}

/// The results that the workload received.
#[derive(Debug, Default)]
struct Told {
    patience: Patience,
    /// Retried operations.
    retries: u32,
    /// The last acknowledged commit.
    acknowledged: u32,
    /// The last commit acknowledged as synced.
    synced: u32,
    /// The errors that were left after retries.
    errors: Vec<siltdb::Error>,
}

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at(Duration::from_millis(1_000))))
        .seed(5)
        .workers(0)
        .memtable_bytes(4 << 10)
        .memory_budget(1 << 20)
        .default_family(FamilyOptions::new().block_bytes(1 << 10))
}

/// The keys of commit `number` in each family: its own, and one that all commits share.
fn batch(db: &Db, number: u32) -> siltdb::Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for name in db.families().iter().filter(|name| *name != "gone") {
        let family = db.family(name)?;
        batch.put(&family, format!("key:{number:04}"), vec![number as u8; 150])?;
        batch.put(&family, b"last", number.to_le_bytes())?;
    }
    Ok(batch)
}

impl Told {
    /// Runs an operation, retries it if `Patience` says so, and notes the error that is left.
    fn attempt<T>(&mut self, work: impl Fn() -> siltdb::Result<T>) -> Option<T> {
        let mut result = work();
        let no_space = |error: &siltdb::Error| error.kind() == ErrorKind::NoSpace;
        if self.patience == Patience::Once && result.as_ref().is_err_and(no_space) {
            self.retries += 1;
            result = work();
        }
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.push(error);
                None
            }
        }
    }

    /// Runs the whole workload in spite of failures. No commit follows a failed one.
    fn work(&mut self, fs: &MemFs) {
        let Some(db) = self.attempt(|| options(fs).open(DIRECTORY)) else { return };
        for number in 1..=COMMITS {
            let durability =
                if number.is_multiple_of(4) { Durability::Synced } else { Durability::Buffered };
            let write = siltdb::WriteOptions::new().durability(durability);
            let commit = || batch(&db, number).and_then(|batch| db.write_with(&batch, &write));
            if self.attempt(commit).is_none() {
                break;
            }
            self.acknowledged = number;
            if durability == Durability::Synced {
                self.synced = number;
            }
            self.look_after(&db, number);
        }
        // A second close only reports that the database is closed.
        self.attempt(|| db.clone().close());
    }

    fn look_after(&mut self, db: &Db, number: u32) {
        match number {
            20 => self.attempt(|| db.create_family("gone", FamilyOptions::new()).map(|_| ())),
            42 => self.attempt(|| db.clone_family(&db.default_family(), "gone").map(|_| ())),
            30 | 52 => self.attempt(|| db.drop_family("gone")),
            15 | 25 => self.attempt(|| db.flush()),
            35 => self.attempt(|| db.compact()),
            _ if number.is_multiple_of(5) => self.attempt(|| db.run_job().map(|_| ())),
            _ => None,
        };
    }
}

/// Opens the remaining files, which must hold a prefix of at least `floor` commits.
fn check(fs: &MemFs, floor: u32, what: &str) {
    let read = || -> siltdb::Result<()> {
        let db = options(fs).create(Create::IfMissing).open(DIRECTORY)?;
        let last = match db.get(b"last")? {
            Some(value) => u32::from_le_bytes((*value).try_into().expect("four bytes")),
            None => 0,
        };
        assert!(last >= floor, "{what}: commit {floor} is lost, the last is {last}");
        let mut keys = 0;
        for pair in db.prefix(b"key:")? {
            let (key, value) = pair?;
            keys += 1;
            assert_eq!(*key, *format!("key:{keys:04}").as_bytes(), "{what}");
            assert_eq!(*value, vec![keys as u8; 150], "{what}");
        }
        assert_eq!(keys, last, "{what}: not the first {last} commits");
        batch(&db, last + 1).and_then(|batch| db.write(&batch))
    };
    if let Err(error) = read() {
        panic!("{what}: reading what is left fails: {error}");
    }
}

/// Runs the workload once for each failing call. Returns the number of runs with a failure.
fn sweep(kind: Option<CallKind>, span: FaultSpan, error: FaultError) -> u64 {
    for nth in 1.. {
        let fs = MemFs::new();
        fs.set_fault(Some(Fault { kind, nth, span, error }));
        let mut told = Told::default();
        told.work(&fs);
        if fs.faults() == 0 {
            assert!(told.errors.is_empty(), "nothing failed, and yet: {:?}", told.errors);
            assert_eq!(told.acknowledged, COMMITS);
            return nth - 1;
        }
        let what = format!("call {nth} of {kind:?} fails with {error:?} ({span:?})");
        check(&fs.crash_clone(Crash::Kill), told.acknowledged, &what);
        for seed in 0..2 {
            let lost = fs.crash_clone(Crash::PowerLoss { seed });
            check(&lost, told.synced, &format!("{what}, and the power"));
        }
    }
    unreachable!("a run makes a finite number of calls")
}

#[test]
fn any_call_may_fail_once() {
    let failed = sweep(None, FaultSpan::Once, FaultError::Io);
    assert!(failed > 200, "{failed}");
}

#[test]
fn any_call_may_fail_from_then_on() {
    let failed = sweep(None, FaultSpan::FromThenOn, FaultError::Io);
    assert!(failed > 200, "{failed}");
}

/// Makes one call after the other fail with `NoSpace`, and continues. Returns the number of retried
/// operations.
fn sweep_no_space(kind: CallKind) -> u32 {
    let mut retries = 0;
    for nth in 1.. {
        let fs = MemFs::new();
        let (span, error) = (FaultSpan::Once, FaultError::NoSpace);
        fs.set_fault(Some(Fault { kind: Some(kind), nth, span, error }));
        let mut told = Told { patience: Patience::Once, ..Told::default() };
        told.work(&fs);
        let what = format!("call {nth} of {kind:?} finds no space");
        assert!(told.errors.is_empty(), "{what}: {:?}", told.errors);
        assert_eq!(told.acknowledged, COMMITS, "{what}");
        assert!(u64::from(told.retries) <= fs.faults(), "{what}: {} retries", told.retries);
        retries += told.retries;
        if fs.faults() == 0 {
            return retries;
        }
        // Close syncs everything before it asks for space.
        check(&fs.crash_clone(Crash::Kill), COMMITS, &what);
        check(&fs.crash_clone(Crash::PowerLoss { seed: nth }), COMMITS, &what);
    }
    unreachable!("a run makes a finite number of calls")
}

#[test]
fn what_finds_no_space_once_succeeds_when_it_is_tried_again() {
    for kind in [CallKind::Write, CallKind::Create, CallKind::Prepare, CallKind::OpenLog] {
        let retries = sweep_no_space(kind);
        assert!(retries > 0, "nothing ever failed for want of space at {kind:?}");
    }
}

#[test]
fn any_write_may_find_no_space_once() {
    for kind in [CallKind::Fill, CallKind::Write, CallKind::Prepare, CallKind::OpenLog] {
        let failed = sweep(Some(kind), FaultSpan::Once, FaultError::NoSpace);
        assert!(failed > 0, "no call of {kind:?} was made");
    }
}

/// Makes one read after the other fail during a scan of the whole database. Returns how often that
/// failed the iterator, which then yields nothing more.
fn sweep_reads(fs: &MemFs, direction: Direction) -> u64 {
    let next = |iter: &mut Iter| match direction {
        Direction::Forward => iter.next(),
        Direction::Backward => iter.next_back(),
    };
    let mut failed = 0;
    for nth in 1.. {
        // Reopened, so that nothing is cached.
        let db = options(fs).open(DIRECTORY).expect("it was closed");
        let before = fs.faults();
        let kind = Some(CallKind::Read);
        fs.set_fault(Some(Fault { kind, nth, span: FaultSpan::Once, error: FaultError::Io }));
        let mut iter = db.iter().expect("nothing is read yet");
        let end = std::iter::from_fn(|| next(&mut iter)).find(Result::is_err);
        let hit = fs.faults() > before;
        fs.set_fault(None);
        let more = [iter.next(), iter.next_back(), iter.next()];
        assert!(more.iter().all(Option::is_none), "read {nth} failed, then: {more:?}");
        match (hit, end) {
            (false, None) => return failed,
            // The failed read was read-ahead, and the block was read again when it was needed.
            (true, None) => {}
            (_, Some(end)) => {
                assert!(hit, "no read failed, and yet: {end:?}");
                failed += 1;
            }
        }
    }
    unreachable!("an iterator makes a finite number of reads")
}

#[test]
fn an_iterator_that_failed_stays_failed() {
    let fs = MemFs::new();
    let mut told = Told::default();
    told.work(&fs);
    assert!(told.errors.is_empty(), "{:?}", told.errors);
    for direction in [Direction::Forward, Direction::Backward] {
        let failed = sweep_reads(&fs, direction);
        assert!(failed > 3, "{direction:?}: {failed}");
    }
}

#[test]
fn any_sync_may_fail_once() {
    let failed = sweep(Some(CallKind::Sync), FaultSpan::Once, FaultError::Io);
    assert!(failed > 15, "{failed}");
    let failed = sweep(Some(CallKind::SyncDir), FaultSpan::Once, FaultError::Io);
    assert!(failed > 3, "{failed}");
}
