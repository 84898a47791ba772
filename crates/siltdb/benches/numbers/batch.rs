//! Random batches until everything has settled, against a map in memory that knows neither log nor
//! disk.
//!
//! Debt counts: the clock stops when nothing is left to flush or compact.

use crate::{
    data::{Order, Result, Verification, key, value},
    put::verify,
    run::{Bar, Contestant, Figures, Job, Plan, print_figure, print_ratio, scratch},
};
use siltdb::{Db, Options, WriteBatch};
use std::{collections::BTreeMap, thread, time::Instant};

/// Those who fill.
pub const CONTESTANTS: [Contestant; 2] = [
    Contestant { name: "batch-siltdb", run: fill_database },
    Contestant { name: "batch-map", run: fill_map },
];

/// Records in a batch.
const BATCH: u64 = 1000;
/// Threads that write.
const THREADS: u64 = 2;

/// Two threads and batches of 1000 against one thread and a `BTreeMap`.
pub fn random(plan: &Plan) -> Result<()> {
    let job = Job { count: plan.count(10_000_000), dir: plan.dir.clone() };
    let rounds = plan.rounds(&["batch-siltdb", "batch-map"], &job)?;
    let (ours, map) =
        (rounds[0].figure("settled_per_second")?, rounds[1].figure("puts_per_second")?);
    let cells = [ours.show(" M/s", 1e6), format!("BTreeMap {}", map.show(" M/s", 1e6))];
    print_ratio("batch-1000-random", cells, &ours.over(&map), Bar::AtLeast(1.0));
    let unit = (" ms", 1e6);
    let stall = rounds[0].figure("longest_ns")?;
    print_figure("batch-1000-random: longest call", &stall, unit, Bar::NeverAbove(50.0));
    let tail = rounds[0].figure("p999_ns")?;
    print_figure("batch-1000-random: 99.9 % of calls", &tail, unit, Bar::AtMost(50.0));
    Ok(())
}

fn fill_database(job: &Job) -> Result<Figures> {
    let dir = scratch(&job.dir)?;
    let db = Options::new().open(dir.path())?;
    let start = Instant::now();
    let mut latencies = write_all(&db, job.count)?;
    let written = start.elapsed().as_secs_f64();
    db.settle()?;
    let settled = start.elapsed().as_secs_f64();
    db.close()?;
    verify(dir.path(), Order::Random, job.count)?;
    latencies.sort_unstable();
    let longest = latencies.last().copied().unwrap_or(0);
    let p999 = latencies[(latencies.len() - 1) * 999 / 1000];
    Ok([
        ("settled_per_second".to_owned(), job.count as f64 / settled),
        ("written_per_second".to_owned(), job.count as f64 / written),
        ("longest_ns".to_owned(), longest as f64),
        ("p999_ns".to_owned(), p999 as f64),
    ]
    .into())
}

/// Writes all records; returns how long each call took, in nanoseconds.
pub fn write_all(db: &Db, count: u64) -> Result<Vec<u64>> {
    let family = db.default_family();
    let write = |thread: u64| -> Result<Vec<u64>> {
        let mut latencies = Vec::new();
        let mut batch = WriteBatch::new();
        for first in (thread * BATCH..count).step_by((THREADS * BATCH) as usize) {
            batch.clear();
            for index in first..(first + BATCH).min(count) {
                batch.put(&family, key(Order::Random, index), value(index))?;
            }
            let start = Instant::now();
            db.write(&batch)?;
            latencies.push(start.elapsed().as_nanos() as u64);
        }
        Ok(latencies)
    };
    thread::scope(|scope| {
        let write = &write;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
        let mut latencies = Vec::new();
        for thread in threads {
            latencies.extend(thread.join().map_err(|_| "a writer panicked")??);
        }
        Ok(latencies)
    })
}

/// The same records in a map.
pub fn map_of(count: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pair = |index| (key(Order::Random, index).to_vec(), value(index).to_vec());
    let mut map = BTreeMap::new();
    for (key, value) in (0..count).map(pair) {
        map.insert(key, value);
    }
    map
}

/// Compares all that a map holds.
pub fn verify_map(map: &BTreeMap<Vec<u8>, Vec<u8>>, count: u64) -> Result<()> {
    let mut verification = Verification::new(Order::Random, count);
    map.iter().try_for_each(|(key, value)| verification.see(key, value))?;
    verification.finish()
}

fn fill_map(job: &Job) -> Result<Figures> {
    let start = Instant::now();
    let map = map_of(job.count);
    let seconds = start.elapsed().as_secs_f64();
    verify_map(&map, job.count)?;
    Ok([("puts_per_second".to_owned(), job.count as f64 / seconds)].into())
}
