//! Single buffered puts: what they cost by mapping and by writing, and how many system calls.
//!
//! Background work is left to itself here; `batch` counts it.

use crate::{
    data::{Order, Result, Verification, key, value},
    run::{
        Bar, Contestant, Figures, Job, Plan, Samples, child_arguments, print_figure, print_ratio,
        scratch,
    },
};
use siltdb::{Db, LogIo, Options, Read};
use std::{path::Path, process::Command, time::Instant};

/// Those who put.
pub const CONTESTANTS: [Contestant; 3] = [
    Contestant { name: "put-map", run: |job| put(job, LogIo::Map) },
    Contestant { name: "put-write", run: |job| put(job, LogIo::Write) },
    Contestant { name: "put-only", run: put_only },
];

/// `log_io = Map` against `log_io = Write`: what a put costs while the memory set aside for writes
/// takes it up, and, four times as long, at the pace of the flushes.
pub fn map_against_write(plan: &Plan) -> Result<()> {
    compare(plan, "put-map-against-write", 1_000_000, Bar::AtLeast(2.0))?;
    compare(plan, "put-map-against-write: sustained", 4_000_000, Bar::Nothing)
}

fn compare(plan: &Plan, row: &str, count: u64, bar: Bar) -> Result<()> {
    let job = Job { count: plan.count(count), dir: plan.dir.clone() };
    let rounds = plan.rounds(&["put-map", "put-write"], &job)?;
    let (map, write) = (rounds[0].figure("puts_per_second")?, rounds[1].figure("puts_per_second")?);
    let cells = [map.show(" M/s", 1e6), format!("Write {}", write.show(" M/s", 1e6))];
    print_ratio(row, cells, &map.over(&write), bar);
    Ok(())
}

/// System calls per put: those of twice as many puts less those of once as many, so that opening
/// and ending do not count. What is left belongs to segments and flushes.
pub fn calls(plan: &Plan) -> Result<()> {
    let count = plan.count(1_000_000);
    let mut per_put = Vec::new();
    for round in 0..plan.repeat {
        let once = calls_of(count, &plan.dir)?;
        let twice = calls_of(2 * count, &plan.dir)?;
        eprintln!(
            "  round {}: {once} calls for {count} puts, {twice} for twice as many",
            round + 1
        );
        per_put.push((twice as f64 - once as f64) / count as f64);
    }
    let unit = (" calls a 1000 puts", 1e-3);
    print_figure("put-calls", &Samples::new(per_put), unit, Bar::AtMost(10.0));
    Ok(())
}

fn calls_of(count: u64, dir: &Path) -> Result<u64> {
    let job = Job { count, dir: dir.to_owned() };
    let counts = dir.join("calls");
    let status = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&counts)
        .arg(std::env::current_exe()?)
        .args(child_arguments("put-only", &job))
        .status()
        .map_err(|error| format!("strace cannot be run: {error}"))?;
    if !status.success() {
        return Err(format!("the traced process failed with {status}").into());
    }
    // | % time | seconds | microseconds per call | calls | errors, if any | name |
    let counts = std::fs::read_to_string(&counts)?;
    let total = counts.lines().rfind(|line| line.ends_with(" total")).ok_or("no total of calls")?;
    let calls = total.split_whitespace().nth(3).ok_or("no number of calls")?;
    Ok(calls.parse()?)
}

fn put_all(db: &Db, count: u64) -> Result<()> {
    for index in 0..count {
        db.put(key(Order::Sequential, index), value(index))?;
    }
    Ok(())
}

fn put_only(job: &Job) -> Result<Figures> {
    let dir = scratch(&job.dir)?;
    let db = Options::new().open(dir.path())?;
    put_all(&db, job.count)?;
    db.close()?;
    Ok(Figures::new())
}

fn put(job: &Job, log_io: LogIo) -> Result<Figures> {
    let dir = scratch(&job.dir)?;
    let db = Options::new().log_io(log_io).open(dir.path())?;
    let start = Instant::now();
    put_all(&db, job.count)?;
    let seconds = start.elapsed().as_secs_f64();
    db.close()?;
    verify(dir.path(), Order::Sequential, job.count)?;
    Ok([("puts_per_second".to_owned(), job.count as f64 / seconds)].into())
}

/// Opens the database again and compares all it holds.
pub fn verify(dir: &Path, order: Order, count: u64) -> Result<()> {
    let db = Db::open(dir)?;
    let mut verification = Verification::new(order, count);
    let mut cursor = db.cursor()?;
    cursor.seek_to_first()?;
    while let Some((key, value)) = cursor.entry() {
        verification.see(key, value)?;
        cursor.next()?;
    }
    drop(cursor);
    db.close()?;
    verification.finish()
}
