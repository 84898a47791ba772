//! The n-th call to the file system fails, once or from then on, for each n until a run passes.
//!
//! The workload is the same each time: it fills, flushes, compacts, creates and drops a family, and
//! closes. Whatever fails, what was acknowledged is found afterwards, as a prefix of the commits.

use siltdb::{Create, Db, Durability, FamilyOptions, Options, Read, WriteBatch};
use siltdb_base::{
    clock::ManualClock,
    fs::mem::{CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
};
use std::sync::Arc;

const DIRECTORY: &str = "db";

/// Commits of the workload.
const COMMITS: u32 = 60;

/// What the workload was told.
#[derive(Debug, Default)]
struct Told {
    /// The last commit that was acknowledged.
    acknowledged: u32,
    /// The last one that was acknowledged as synced.
    synced: u32,
    /// Errors that reached it.
    errors: Vec<siltdb::Error>,
}

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::new(1_000)))
        .seed(5)
        .workers(0)
        .memtable_bytes(4 << 10)
        .memory_budget(1 << 20)
        .default_family(FamilyOptions::new().block_bytes(1 << 10))
}

/// The keys of commit `number` in each family: its own, and one that all share.
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
    /// Notes an error; says whether it was fine.
    fn note<T>(&mut self, result: siltdb::Result<T>) -> bool {
        let fine = result.is_ok();
        self.errors.extend(result.err());
        fine
    }

    /// Does everything, whatever fails; after a commit that failed, no other is made.
    fn work(&mut self, fs: &MemFs) {
        let opened = options(fs).open(DIRECTORY);
        let db = match opened {
            Ok(db) => db,
            Err(error) => return self.errors.push(error),
        };
        for number in 1..=COMMITS {
            let durability =
                if number.is_multiple_of(4) { Durability::Synced } else { Durability::Buffered };
            let write = siltdb::WriteOptions::new().durability(durability);
            let written = batch(&db, number).and_then(|batch| db.write_with(&batch, &write));
            if !self.note(written) {
                break;
            }
            self.acknowledged = number;
            if durability == Durability::Synced {
                self.synced = number;
            }
            self.look_after(&db, number);
        }
        self.note(db.close());
    }

    fn look_after(&mut self, db: &Db, number: u32) {
        match number {
            20 => self.note(db.create_family("gone", FamilyOptions::new()).map(|_| ())),
            30 => self.note(db.drop_family("gone")),
            15 | 25 => self.note(db.flush()),
            35 => self.note(db.compact()),
            _ if number.is_multiple_of(5) => self.note(db.run_job()),
            _ => true,
        };
    }
}

/// Opens what is left, which must hold the first so many commits: at least `floor`.
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

/// Runs the workload with one failure after the other. Returns how many failed.
fn sweep(kind: Option<CallKind>, span: FaultSpan, error: FaultError) -> u64 {
    for nth in 1.. {
        let fs = MemFs::new();
        fs.set_fault(Some(Fault { kind, nth, span, error }));
        let mut told = Told::default();
        told.work(&fs);
        if fs.faults() == 0 {
            assert_eq!(told.acknowledged, COMMITS, "nothing failed, and yet: {:?}", told.errors);
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

#[test]
fn any_write_may_find_no_space_once() {
    for kind in [CallKind::Fill, CallKind::Write, CallKind::Prepare, CallKind::OpenLog] {
        sweep(Some(kind), FaultSpan::Once, FaultError::NoSpace);
    }
}

#[test]
fn any_sync_may_fail_once() {
    let failed = sweep(Some(CallKind::Sync), FaultSpan::Once, FaultError::Io);
    assert!(failed > 15, "{failed}");
    let failed = sweep(Some(CallKind::SyncDir), FaultSpan::Once, FaultError::Io);
    assert!(failed > 3, "{failed}");
}
