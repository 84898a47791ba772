//! The peak of the process's memory under several workloads, to the memory budget of the database.
//!
//! The memory of the program itself does not count: what the process has with an empty database is
//! taken off. Memory that the allocator keeps from one workload to the next does count.

use crate::{
    engine::{Failure, Result},
    keys::splitmix64,
    measure::{peak_resident_bytes, reset_peak, resident_bytes},
    upkeep::{
        data::{BATCH, key, value},
        part::{Line, Teller},
    },
};
use siltdb::{
    Cursor, Db, Family, FamilyOptions, Isolation, MemoryStats, Options, Read, TransactionOptions,
    WriteBatch,
};
use std::{
    cmp::Reverse,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

const MIB: u64 = 1 << 20;
/// Interval between two looks at the memory.
const LOOK: Duration = Duration::from_millis(3);
/// Bytes of most values.
const VALUE_BYTES: usize = 100;
/// Bytes of a key and such a value.
const ENTRY_BYTES: u64 = 108;
const LARGE_VALUE_BYTES: usize = 100_000;
/// Gets of a workload that reads.
const GETS: u64 = 200_000;
/// Every so many gets one is compared, and its value kept.
const KEPT_EVERY: u64 = 50;
/// Entries that a held cursor has passed: enough to read ahead.
const STEPS: u64 = 600;
/// A held cursor for each of these bytes of the budget.
const BYTES_OF_CURSOR: u64 = 256 << 10;
/// A family for each of these bytes of the budget.
const BYTES_OF_FAMILY: u64 = 96 << 10;
/// Open transactions, and the part of the budget that each takes.
const TRANSACTIONS: u64 = 2;
const TRANSACTION_SHARE: u64 = 5;

/// A workload.
struct Workload {
    name: &'static str,
    run: fn(&Work<'_>) -> Result<()>,
}

/// What a workload is given: an empty database, and the bytes of its budget.
struct Work<'a> {
    db: &'a Db,
    budget: u64,
    teller: &'a Teller<'a>,
}

const WORKLOADS: [Workload; 9] = [
    Workload { name: "puts", run: puts },
    Workload { name: "large values", run: large_values },
    Workload { name: "gets", run: gets },
    Workload { name: "cursors", run: cursors },
    Workload { name: "small blocks", run: small_blocks },
    Workload { name: "transactions", run: transactions },
    Workload { name: "compaction", run: compaction },
    Workload { name: "bulk load", run: bulk_load },
    Workload { name: "families", run: families },
];

/// Runs all workloads with a budget of `mib` MiB, and reports the largest share that one takes.
///
/// # Errors
/// Errors of the engine and the system; `Verification`.
pub fn within(bar: &str, dir: &Path, mib: u64, teller: &Teller<'_>) -> Result<()> {
    let budget = mib * MIB;
    // At a small budget the default memtable would be more than half of it.
    let memtable = (budget / 8).min(32 * MIB);
    let options =
        || Options::new().memory_budget(budget as usize).memtable_bytes(memtable as usize);
    options().open(dir)?.close()?;
    fs::remove_dir_all(dir)?;
    let before = resident_bytes();
    if peak_resident_bytes().is_none() {
        teller.lacks(bar, "the system does not tell the peak of memory");
        return Ok(());
    }
    let (mut most, mut note, mut done) = (0.0_f64, Vec::new(), 0);
    for Workload { name, run } in &WORKLOADS {
        if teller.is_over() {
            break;
        }
        teller.doing(format!("{name} with {mib} MiB"));
        let db = options().open(dir)?;
        reset_peak();
        let (ran, counted) = watched(&db, || run(&Work { db: &db, budget, teller }));
        ran?;
        let peak = peak_resident_bytes().unwrap_or(0);
        let share = |bytes: u64| bytes as f64 / budget as f64;
        let of_peak = share(peak.saturating_sub(before));
        note.push(format!("{name} {of_peak:.2} ({})", said(&counted, share)));
        most = most.max(of_peak);
        done += 1;
        db.close()?;
        fs::remove_dir_all(dir)?;
    }
    teller.figure(bar, most, (done, WORKLOADS.len()), note.join(", "))
}

/// Runs `body`, and returns what the database counts by part when the process is largest.
fn watched<T>(db: &Db, body: impl FnOnce() -> T) -> (T, MemoryStats) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut largest, mut counted) = (0, MemoryStats::default());
            // Relaxed: it ends some time after the body.
            while !is_done.load(Ordering::Relaxed) {
                let resident = resident_bytes();
                if resident > largest {
                    (largest, counted) = (resident, db.stats().memory);
                }
                thread::sleep(LOOK);
            }
            counted
        });
        let ran = {
            let _end = Ends(&is_done);
            body()
        };
        (ran, watch.join().unwrap_or_default())
    })
}

/// Says that something is done, also if it panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The sum of what is counted, and its largest parts.
fn said(counted: &MemoryStats, share: impl Fn(u64) -> f64) -> String {
    let mut parts = counted.parts();
    parts.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let large = parts.iter().filter(|(_, bytes)| share(*bytes) >= 0.05);
    let large: Vec<_> = large.map(|(name, bytes)| format!("{name} {:.2}", share(*bytes))).collect();
    format!("counted {:.2}: {}", share(counted.total()), large.join(" "))
}

/// A key of a number that looks random, so that writes and reads are in random order.
fn scattered(number: u64) -> [u8; 8] {
    key(splitmix64(number))
}

impl Work<'_> {
    fn family(&self) -> Family {
        self.db.default_family()
    }

    /// Puts the numbers below `count` in random order.
    fn fill(&self, count: u64) -> Result<()> {
        let family = self.family();
        let mut batch = WriteBatch::new();
        for number in 0..count {
            batch.put(&family, scattered(number), value(number, 0, VALUE_BYTES))?;
            if batch.len() as u64 == BATCH {
                self.db.write(&batch)?;
                batch.clear();
            }
        }
        Ok(self.db.write(&batch)?)
    }

    /// Gets numbers below `count` at random, and holds some of the values to the end.
    fn read(&self, count: u64, seed: u64) -> Result<()> {
        let family = self.family();
        let mut kept = Vec::new();
        for round in 0..GETS {
            let number = splitmix64(seed ^ round) % count;
            let found = family.get(scattered(number))?;
            if round % KEPT_EVERY == 0 {
                same(found.as_deref(), number, VALUE_BYTES)?;
                kept.extend(found);
            }
        }
        Ok(())
    }

    fn compared(&self, entries: u64) {
        self.teller.compared(entries);
    }
}

fn same(found: Option<&[u8]>, number: u64, length: usize) -> Result<()> {
    if found == Some(&value(number, 0, length)[..]) {
        return Ok(());
    }
    let found = found.map(<[u8]>::len);
    Err(Failure::verification(format!("the value of {number} differs. found={found:?} bytes")))
}

fn puts(work: &Work<'_>) -> Result<()> {
    work.fill(2 * work.budget / ENTRY_BYTES)?;
    same(work.db.get(scattered(7))?.as_deref(), 7, VALUE_BYTES)?;
    work.compared(1);
    Ok(())
}

fn large_values(work: &Work<'_>) -> Result<()> {
    let count = 3 * work.budget / LARGE_VALUE_BYTES as u64;
    for number in 0..count {
        work.db.put(scattered(number), value(number, 0, LARGE_VALUE_BYTES))?;
    }
    for number in (0..count).step_by(5) {
        same(work.db.get(scattered(number))?.as_deref(), number, LARGE_VALUE_BYTES)?;
        work.compared(1);
    }
    Ok(())
}

fn gets(work: &Work<'_>) -> Result<()> {
    let count = 3 * work.budget / ENTRY_BYTES;
    work.fill(count)?;
    work.db.settle()?;
    let db = work.db;
    thread::scope(|scope| {
        let threads = [1, 2].map(|seed| scope.spawn(move || read_alone(db, count, seed << 40)));
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(read) => read,
            Err(_) => Err(Failure::error("a thread that reads panicked")),
        })
    })?;
    work.compared(2 * GETS / KEPT_EVERY);
    Ok(())
}

/// Reads on a thread of its own.
fn read_alone(db: &Db, count: u64, seed: u64) -> Result<()> {
    let say = |_: &Line| ();
    let silent = Teller::new(&say, Duration::MAX);
    Work { db, budget: 0, teller: &silent }.read(count, seed)
}

fn cursors(work: &Work<'_>) -> Result<()> {
    let count = 2 * work.budget / ENTRY_BYTES;
    work.fill(count)?;
    work.db.settle()?;
    let mut held: Vec<Cursor> = Vec::new();
    for number in 0..work.budget / BYTES_OF_CURSOR {
        let mut cursor = work.db.cursor()?;
        cursor.seek(scattered(number))?;
        same(cursor.value(), number, VALUE_BYTES)?;
        for _ in 0..STEPS {
            cursor.next()?;
        }
        held.push(cursor);
    }
    work.compared(held.len() as u64);
    work.read(count, 3 << 40)
}

/// Indexes and filters of all tables would take a large part of the budget.
fn small_blocks(work: &Work<'_>) -> Result<()> {
    let options = FamilyOptions::new().block_bytes(1 << 10).filter_bits_per_key(24);
    let family = work.db.create_family("small blocks", options)?;
    let count = 2 * work.budget / ENTRY_BYTES;
    family.ingest_sorted((0..count).map(|n| (key(n), value(n, 0, VALUE_BYTES))))?;
    for round in 0..GETS / 4 {
        let number = splitmix64(round) % count;
        same(family.get(key(number))?.as_deref(), number, VALUE_BYTES)?;
    }
    work.compared(GETS / 4);
    Ok(())
}

fn transactions(work: &Work<'_>) -> Result<()> {
    let count = work.budget / ENTRY_BYTES;
    work.fill(count)?;
    work.read(count, 4 << 40)?;
    let writes = work.budget / TRANSACTION_SHARE / 1_000;
    let mut open = Vec::new();
    for transaction in 0..TRANSACTIONS {
        let one = work.db.begin_with(
            &TransactionOptions::new()
                .isolation(Isolation::Serializable)
                .memory_bytes(work.budget as usize),
        );
        for number in 0..writes {
            one.put(key(number << 8 | transaction), value(number, 0, 900))?;
        }
        open.push(one);
    }
    for transaction in open {
        transaction.commit()?;
    }
    for number in (0..writes).step_by(7) {
        same(work.db.get(key(number << 8))?.as_deref(), number, 900)?;
        work.compared(1);
    }
    Ok(())
}

fn compaction(work: &Work<'_>) -> Result<()> {
    work.fill(2 * work.budget / ENTRY_BYTES)?;
    work.db.compact()?;
    same(work.db.get(scattered(7))?.as_deref(), 7, VALUE_BYTES)?;
    work.compared(1);
    Ok(())
}

fn bulk_load(work: &Work<'_>) -> Result<()> {
    let count = 3 * work.budget / ENTRY_BYTES;
    work.family().ingest_sorted((0..count).map(|n| (key(n), value(n, 0, VALUE_BYTES))))?;
    same(work.db.get(key(7))?.as_deref(), 7, VALUE_BYTES)?;
    work.compared(1);
    Ok(())
}

fn families(work: &Work<'_>) -> Result<()> {
    let families = (0..work.budget / BYTES_OF_FAMILY)
        .map(|number| Ok(work.db.create_family(&format!("{number}"), FamilyOptions::new())?))
        .collect::<Result<Vec<_>>>()?;
    for round in 0..4 {
        for family in &families {
            family.put(key(round), value(round, 0, 500))?;
        }
    }
    for family in &families {
        same(family.get(key(3))?.as_deref(), 3, 500)?;
    }
    work.compared(families.len() as u64);
    Ok(())
}
