//! Opening after a kill: what recovery takes, against the work that no recovery can do without.
//!
//! The yardstick reads the same log files, checks the same checksums and inserts the same records
//! into a fresh memtable.

use crate::{
    data::{Order, Result, key, value},
    put::verify,
    run::{Bar, Contestant, Figures, Job, Plan, child, print_ratio, scratch},
};
use siltdb::{Db, Options};
use siltdb_base::{
    budget::Budget,
    fs::{Fs, os::OsFs},
};
use siltdb_disk::{
    batch::operations,
    file_name::FileName,
    log::{read::SegmentReader, record::RecordKind, segment::SegmentHeader},
};
use siltdb_memtable::{
    arena::{ArenaOptions, ArenaPool},
    memtable::Memtable,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// Those who recover, and the one who leaves something to recover.
pub const CONTESTANTS: [Contestant; 3] = [
    Contestant { name: "open-seed", run: seed },
    Contestant { name: "open-siltdb", run: open_database },
    Contestant { name: "open-memtable", run: fill_memtable },
];

/// Records of 16 + 100 bytes, each put alone, that take 64 MB of log.
const COUNT: u64 = 400_000;
/// So large that nothing is flushed.
const MEMTABLE: usize = 512 << 20;

/// Opening a killed database against reading its log into a memtable.
pub fn log(plan: &Plan) -> Result<()> {
    let job = Job { count: plan.count(COUNT), dir: plan.dir.join("seed") };
    child("open-seed", &job)?;
    let rounds = plan.rounds(&["open-siltdb", "open-memtable"], &job)?;
    let (ours, floor) = (rounds[0].figure("seconds")?, rounds[1].figure("seconds")?);
    let megabytes = rounds[1].figure("log_bytes")?.median() / 1e6;
    let cells = [
        format!("{}, {megabytes:.0} MB of log", ours.show(" ms", 1e-3)),
        format!("read and insert {}", floor.show(" ms", 1e-3)),
    ];
    print_ratio("open-log", cells, &ours.over(&floor), Bar::AtMost(3.0));
    Ok(())
}

fn open(dir: &Path) -> Result<Db> {
    let options = Options::new().memtable_bytes(MEMTABLE).memory_budget(4 * MEMTABLE);
    Ok(options.open(dir)?)
}

fn seed(job: &Job) -> Result<Figures> {
    let db = open(&job.dir)?;
    for index in 0..job.count {
        db.put(key(Order::Random, index), value(index))?;
    }
    // The process ends as if it were killed: nothing is dropped, so nothing is closed.
    std::process::exit(0);
}

/// A copy of the killed database, so that each round finds what the first one did.
fn copy_of(seed: &Path) -> Result<tempfile::TempDir> {
    let copy = scratch(seed.parent().ok_or("the seed has a parent")?)?;
    for entry in fs::read_dir(seed)? {
        let entry = entry?;
        fs::copy(entry.path(), copy.path().join(entry.file_name()))?;
    }
    Ok(copy)
}

fn open_database(job: &Job) -> Result<Figures> {
    let copy = copy_of(&job.dir)?;
    let start = Instant::now();
    let db = open(copy.path())?;
    let seconds = start.elapsed().as_secs_f64();
    db.close()?;
    verify(copy.path(), Order::Random, job.count)?;
    Ok([("seconds".to_owned(), seconds)].into())
}

/// The log files of a database, in the order of their segments.
fn log_files(dir: &Path) -> Result<Vec<(SegmentHeader, PathBuf)>> {
    let mut files = Vec::new();
    for entry in OsFs.list(dir)? {
        let path = dir.join(&entry.name);
        if let Some(FileName::Segment(_)) = FileName::parse(&entry.name)
            && let Some(header) = SegmentHeader::read(&*OsFs.open(&path)?, &path)?
        {
            files.push((header, path));
        }
    }
    files.sort_by_key(|(header, _)| header.id);
    Ok(files)
}

fn fill_memtable(job: &Job) -> Result<Figures> {
    let copy = copy_of(&job.dir)?;
    let start = Instant::now();
    let pool = ArenaPool::new(Arc::new(Budget::new(4 * MEMTABLE)), ArenaOptions::default());
    let memtable = Memtable::new(&pool);
    let mut log_bytes = 0;
    for (header, path) in log_files(copy.path())? {
        let mut reader = SegmentReader::new(OsFs.open(&path)?, path, header.id)?;
        while let Some(record) = reader.next()? {
            if record.header.kind != RecordKind::Batch {
                continue;
            }
            let mut sequence = record.header.first_sequence;
            for operation in operations(record.payload, record.header.count) {
                memtable.insert(operation?.entry(sequence));
                sequence = sequence.next();
            }
        }
        log_bytes += reader.position().offset;
    }
    let seconds = start.elapsed().as_secs_f64();
    if memtable.entries() != job.count {
        let found = memtable.entries();
        return Err(
            format!("wrong number of entries. expected={}, found={found}", job.count).into()
        );
    }
    Ok([("seconds".to_owned(), seconds), ("log_bytes".to_owned(), log_bytes as f64)].into())
}
