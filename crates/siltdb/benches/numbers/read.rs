//! Reads of compacted, cached records: single keys and a full scan, against a map in memory.
//!
//! Nothing is read from a file while the clock runs: that is checked.

use crate::{
    batch::{map_of, verify_map, write_all},
    data::{Order, Result, check_sum, key, shuffled, sum, sum_of},
    put::verify,
    run::{Bar, Contestant, Figures, Job, Plan, child, print_ratio},
};
use siltdb::{Db, Options, Read};
use std::{thread, time::Instant};

/// Those who read.
pub const CONTESTANTS: [Contestant; 5] = [
    Contestant { name: "read-seed", run: seed },
    Contestant { name: "get-siltdb", run: get_database },
    Contestant { name: "get-map", run: get_map },
    Contestant { name: "scan-siltdb", run: scan_database },
    Contestant { name: "scan-map", run: scan_map },
];

/// Records of both rows.
const COUNT: u64 = 5_000_000;
/// Enough memory for all of them, decoded.
const MEMORY: usize = 6 << 30;

/// `get` of every key in random order against `BTreeMap::get`, and two threads against one.
pub fn get(plan: &Plan) -> Result<()> {
    let job = Job { count: plan.count(COUNT), dir: plan.dir.join("seed") };
    child("read-seed", &job)?;
    let rounds = plan.rounds(&["get-siltdb", "get-map"], &job)?;
    let (ours, map) = (rounds[0].figure("gets_per_second")?, rounds[1].figure("gets_per_second")?);
    let cells = [ours.show(" M/s", 1e6), format!("BTreeMap {}", map.show(" M/s", 1e6))];
    print_ratio("get-random", cells, &ours.over(&map), Bar::AtLeast(0.6));
    let two = rounds[0].figure("two_threads_per_second")?;
    let cells = [two.show(" M/s", 1e6), format!("one thread {}", ours.show(" M/s", 1e6))];
    print_ratio("get-random: two threads", cells, &two.over(&ours), Bar::AtLeast(1.8));
    Ok(())
}

/// A walk over everything against an iteration of the map.
pub fn scan(plan: &Plan) -> Result<()> {
    let job = Job { count: plan.count(COUNT), dir: plan.dir.join("seed") };
    child("read-seed", &job)?;
    let rounds = plan.rounds(&["scan-siltdb", "scan-map"], &job)?;
    let per_second = "entries_per_second";
    let (ours, map) = (rounds[0].figure(per_second)?, rounds[1].figure(per_second)?);
    let cells = [ours.show(" M/s", 1e6), format!("BTreeMap {}", map.show(" M/s", 1e6))];
    print_ratio("scan", cells, &ours.over(&map), Bar::AtLeast(0.5));
    Ok(())
}

fn seed(job: &Job) -> Result<Figures> {
    let db = Db::open(&job.dir)?;
    write_all(&db, job.count)?;
    db.compact()?;
    db.close()?;
    verify(&job.dir, Order::Random, job.count)?;
    Ok(Figures::new())
}

/// Opens the database and reads every key, so that every block is cached.
fn open_warm(job: &Job, probes: &[u32]) -> Result<Db> {
    let db = Options::new().memory_budget(MEMORY).open(&job.dir)?;
    let expected = sum_of(0..job.count);
    check_sum(get_all(&db, probes)?, expected)?;
    check_sum(walk(&db)?, expected)?;
    Ok(db)
}

/// Runs `work`; fails if it read blocks from files.
fn timed_in_memory(db: &Db, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = db.stats().cache_misses;
    let start = Instant::now();
    work()?;
    let seconds = start.elapsed().as_secs_f64();
    match db.stats().cache_misses - before {
        0 => Ok(seconds),
        misses => Err(format!("not all blocks were cached. misses={misses}").into()),
    }
}

fn get_all(db: &Db, probes: &[u32]) -> Result<u64> {
    let mut total = 0_u64;
    for &index in probes {
        let value = db.get(key(Order::Random, u64::from(index)))?.ok_or("a key was not found")?;
        total = total.wrapping_add(sum(&value));
    }
    Ok(total)
}

fn get_database(job: &Job) -> Result<Figures> {
    let probes = shuffled(job.count);
    let db = open_warm(job, &probes)?;
    let expected = sum_of(0..job.count);
    let one = timed_in_memory(&db, || check_sum(get_all(&db, &probes)?, expected))?;
    let (front, back) = probes.split_at(probes.len() / 2);
    let two = timed_in_memory(&db, || {
        thread::scope(|scope| {
            let other = scope.spawn(|| get_all(&db, front));
            let mine = get_all(&db, back)?;
            let other = other.join().map_err(|_| "a reader panicked")??;
            check_sum(mine.wrapping_add(other), expected)
        })
    })?;
    db.close()?;
    verify(&job.dir, Order::Random, job.count)?;
    Ok([
        ("gets_per_second".to_owned(), job.count as f64 / one),
        ("two_threads_per_second".to_owned(), job.count as f64 / two),
    ]
    .into())
}

fn get_map(job: &Job) -> Result<Figures> {
    let map = map_of(job.count);
    let probes = shuffled(job.count);
    let expected = sum_of(0..job.count);
    let get_all = || {
        let mut total = 0_u64;
        for &index in &probes {
            let value = map.get(&key(Order::Random, u64::from(index))[..]);
            total = total.wrapping_add(sum(value.ok_or("a key was not found")?));
        }
        check_sum(total, expected)
    };
    get_all()?;
    let start = Instant::now();
    get_all()?;
    let seconds = start.elapsed().as_secs_f64();
    verify_map(&map, job.count)?;
    Ok([("gets_per_second".to_owned(), job.count as f64 / seconds)].into())
}

fn walk(db: &Db) -> Result<u64> {
    let mut total = 0_u64;
    let mut cursor = db.cursor()?;
    cursor.seek_to_first()?;
    while let Some((_, value)) = cursor.entry() {
        total = total.wrapping_add(sum(value));
        cursor.next()?;
    }
    Ok(total)
}

fn scan_database(job: &Job) -> Result<Figures> {
    let db = open_warm(job, &shuffled(job.count))?;
    let expected = sum_of(0..job.count);
    let seconds = timed_in_memory(&db, || check_sum(walk(&db)?, expected))?;
    db.close()?;
    verify(&job.dir, Order::Random, job.count)?;
    Ok([("entries_per_second".to_owned(), job.count as f64 / seconds)].into())
}

fn scan_map(job: &Job) -> Result<Figures> {
    let map = map_of(job.count);
    let expected = sum_of(0..job.count);
    let walk = || {
        let add = |total: u64, value: &Vec<u8>| total.wrapping_add(sum(value));
        check_sum(map.values().fold(0, add), expected)
    };
    walk()?;
    let start = Instant::now();
    walk()?;
    let seconds = start.elapsed().as_secs_f64();
    verify_map(&map, job.count)?;
    Ok([("entries_per_second".to_owned(), job.count as f64 / seconds)].into())
}
