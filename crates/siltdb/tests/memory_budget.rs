//! The memory of the process stays within the budget of its database, under each workload.
//!
//! Each workload runs in a process of its own, started by a test of this file, because the system
//! counts the memory of a process. The parent compares the peak of the resident memory with that of
//! an empty database in the same process. So the program itself does not count.

#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use siltdb::{Compression, Cursor, Db, FamilyOptions, Options, Read, WriteBatch};
use std::{
    env, fs,
    panic::{self, AssertUnwindSafe},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

const MIB: u64 = 1 << 20;
/// The budget may be exceeded by a tenth.
const TOLERANCE: f64 = 1.1;
/// What the allocator keeps of freed memory when all work is done, at most, as a factor.
const KEPT_MAX: f64 = 0.5;
/// What the allocator keeps of the memory of a database that is closed, at most, as a factor.
const CLOSED_MAX: f64 = 0.2;
/// What tells a process of this test what to run: a workload and a budget in MiB.
const CASE: &str = "SILT_MEMORY_CASE";

/// The test that runs the workload in its process.
const CHILD: &str = "writers_stay_within_64_mib";

/// A workload on an empty database, given its budget in bytes.
type Workload = fn(&Db, u64);

const WORKLOADS: &[(&str, Workload)] = &[
    ("puts", puts),
    ("large_values", large_values),
    ("gets", gets),
    ("cursors", cursors),
    ("small_blocks", small_blocks),
    ("transactions", transactions),
    ("transactions_after_other_work", transactions_after_other_work),
    ("compaction", compaction),
    ("bulk_load", bulk_load),
    ("families", families),
    #[cfg(feature = "zstd")]
    ("zstd", zstd),
    #[cfg(feature = "zstd")]
    ("zstd_high_level", zstd_high_level),
    #[cfg(feature = "zstd")]
    ("zstd_small_tables", zstd_small_tables),
    #[cfg(feature = "zstd")]
    ("zstd_bulk_load", zstd_bulk_load),
    #[cfg(feature = "zstd")]
    ("zstd_separated", zstd_separated),
];

fn resident(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// A number that looks random, the same for the same `n`.
fn mix(n: u64) -> u64 {
    let mixed = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A value of `bytes` that does not compress.
fn value(n: u64, bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).map(|word| mix(n << 20 | word));
    let mut value: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    value.truncate(bytes);
    value
}

fn key(n: u64) -> [u8; 8] {
    mix(n).to_be_bytes()
}

/// Puts `count` values of `bytes` under keys in random order.
fn fill(db: &Db, count: u64, bytes: usize) {
    let family = db.default_family();
    let mut batch = WriteBatch::new();
    for n in 0..count {
        batch.put(&family, key(n), value(n, bytes)).unwrap();
        if batch.bytes() > 64 << 10 {
            db.write(&batch).unwrap();
            batch.clear();
        }
    }
    db.write(&batch).unwrap();
}

fn puts(db: &Db, budget: u64) {
    fill(db, budget / 100, 100);
    assert_eq!(*db.get(key(7)).unwrap().unwrap(), value(7, 100)[..]);
}

fn large_values(db: &Db, budget: u64) {
    let count = budget * 2 / 100_000;
    for n in 0..count {
        db.put(key(n), value(n, 100_000)).unwrap();
    }
    for n in (0..count).step_by(7) {
        assert_eq!(*db.get(key(n)).unwrap().unwrap(), value(n, 100_000)[..]);
    }
}

fn gets(db: &Db, budget: u64) {
    let count = budget * 3 / 2 / 200;
    fill(db, count, 200);
    db.settle().unwrap();
    thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                // Some values are kept, and with them their blocks.
                let mut kept = Vec::new();
                for round in 0..budget / 2_000 {
                    let n = mix(round << 1 | thread) % count;
                    let found = db.get(key(n)).unwrap().unwrap();
                    if round % 50 == 0 {
                        assert_eq!(*found, value(n, 200)[..]);
                        kept.push(found);
                    }
                }
            });
        }
    });
}

fn cursors(db: &Db, budget: u64) {
    let count = budget / 200;
    fill(db, count, 200);
    db.settle().unwrap();
    let mut held: Vec<Cursor> = Vec::new();
    for n in 0..budget / (128 << 10) {
        let mut cursor = db.cursor().unwrap();
        cursor.seek(key(n)).unwrap();
        for _ in 0..600 {
            cursor.next().unwrap();
        }
        held.push(cursor);
    }
    // Readers beside them find the cache the smaller.
    for n in 0..60_000 {
        assert!(db.get(key(mix(n) % count)).unwrap().is_some());
    }
    let memory = db.stats().memory;
    assert!(memory.pinned_blocks + memory.cursors > budget / 100, "{memory:?}");
}

/// Indexes and filters of all tables would take a large part of the budget.
fn small_blocks(db: &Db, budget: u64) {
    let family = FamilyOptions::new().block_bytes(1 << 10).filter_bits_per_key(24);
    let family = db.create_family("small blocks", family.table_bytes(4 << 20)).unwrap();
    let count = budget / 50;
    let entries = (0..count).map(|n| (n.to_be_bytes(), value(n, 40)));
    family.ingest_sorted(entries).unwrap();
    let mut most = 0;
    for round in 0..20_000 {
        let n = mix(round) % count;
        assert_eq!(*family.get(n.to_be_bytes()).unwrap().unwrap(), value(n, 40)[..]);
        if round % 1_000 == 0 {
            most = most.max(db.stats().memory.tables);
            let mut cursor = family.cursor().unwrap();
            cursor.seek(n.to_be_bytes()).unwrap();
            assert_eq!(cursor.key().unwrap(), n.to_be_bytes());
        }
    }
    assert!(most > budget / 100, "{most} bytes of tables");
}

fn transactions(db: &Db, budget: u64) {
    let count = budget / 400;
    fill(db, count, 200);
    for n in 0..40_000 {
        db.get(key(mix(n) % count)).unwrap();
    }
    let bytes = budget / 5;
    let open: Vec<_> = (0..2_u64)
        .map(|transaction| {
            let open = db.begin(siltdb::Isolation::Serializable);
            for n in 0..bytes / 1_000 {
                open.put(key(n << 8 | transaction), value(n, 900)).unwrap();
            }
            open
        })
        .collect();
    assert!(db.stats().memory.transactions > bytes);
    for transaction in open {
        transaction.commit().unwrap();
    }
    assert_eq!(db.stats().memory.transactions, 0);
}

/// What other work has freed counts for the process, while transactions take more.
fn transactions_after_other_work(db: &Db, budget: u64) {
    cursors(db, budget);
    gets(db, budget);
    transactions(db, budget);
}

fn compaction(db: &Db, budget: u64) {
    fill(db, budget / 100, 100);
    db.compact().unwrap();
    assert_eq!(db.iter().unwrap().take(1_000).count(), 1_000);
}

fn bulk_load(db: &Db, budget: u64) {
    let entries = (0..budget * 3 / 2 / 100).map(|n| (n.to_be_bytes(), value(n, 100)));
    db.default_family().ingest_sorted(entries).unwrap();
    assert_eq!(*db.get(5_u64.to_be_bytes()).unwrap().unwrap(), value(5, 100)[..]);
}

fn families(db: &Db, budget: u64) {
    let options = || FamilyOptions::new().compression(Compression::None);
    let families: Vec<_> = (0..budget / MIB * 12)
        .map(|n| db.create_family(&format!("family-{n}"), options()).unwrap())
        .collect();
    for round in 0..4 {
        for family in &families {
            family.put(key(round), value(round, 500)).unwrap();
        }
    }
    assert_eq!(*families[9].get(key(3)).unwrap().unwrap(), value(3, 500)[..]);
}

/// A row of text that is like the others.
#[cfg(feature = "zstd")]
fn row(n: u64) -> Vec<u8> {
    let town = ["Bern", "Lyon", "Turin", "Graz"][(mix(n) % 4) as usize];
    let (score, mark) = (mix(n) >> 44, mix(n << 1));
    let row = format!("{{\"id\":{n},\"town\":\"{town}\",\"score\":{score},\"mark\":{mark}}}");
    row.into_bytes()
}

/// Puts, compacts and reads `count` rows under keys in random order.
#[cfg(feature = "zstd")]
fn rows(db: &Db, count: u64, options: FamilyOptions) {
    let family = db.create_family("rows", options).unwrap();
    let mut batch = WriteBatch::new();
    for n in 0..count {
        batch.put(&family, key(n), row(n)).unwrap();
        if batch.bytes() > 64 << 10 {
            db.write(&batch).unwrap();
            batch.clear();
        }
    }
    db.write(&batch).unwrap();
    family.compact().unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let family = &family;
            scope.spawn(move || {
                for round in 0..20_000 {
                    let n = mix(round << 2 | thread) % count;
                    assert_eq!(*family.get(key(n)).unwrap().unwrap(), row(n)[..]);
                }
            });
        }
    });
}

#[cfg(feature = "zstd")]
fn with_dictionary(level: i8, bytes: u32) -> FamilyOptions {
    FamilyOptions::new().compression(Compression::Zstd(level)).dictionary_bytes(bytes)
}

#[cfg(feature = "zstd")]
fn zstd(db: &Db, budget: u64) {
    rows(db, budget * 2 / 100, with_dictionary(3, 16 << 10));
}

#[cfg(feature = "zstd")]
fn zstd_high_level(db: &Db, budget: u64) {
    rows(db, budget / 100, with_dictionary(15, 128 << 10));
}

/// Many open tables, each with a dictionary.
#[cfg(feature = "zstd")]
fn zstd_small_tables(db: &Db, budget: u64) {
    let options = with_dictionary(3, 64 << 10).table_bytes(1 << 20);
    rows(db, budget * 3 / 2 / 100, options);
}

#[cfg(feature = "zstd")]
fn zstd_bulk_load(db: &Db, budget: u64) {
    let family = db.create_family("rows", with_dictionary(3, 64 << 10)).unwrap();
    thread::scope(|scope| {
        for part in 0..2 {
            let family =
                db.create_family(&format!("part {part}"), with_dictionary(3, 64 << 10)).unwrap();
            scope.spawn(move || {
                let entries = (0..budget * 2 / 100).map(|n| (n.to_be_bytes(), row(n)));
                family.ingest_sorted(entries).unwrap();
            });
        }
    });
    let entries = (0..budget * 2 / 100).map(|n| (n.to_be_bytes(), row(n)));
    family.ingest_sorted(entries).unwrap();
    assert_eq!(*family.get(5_u64.to_be_bytes()).unwrap().unwrap(), row(5)[..]);
}

/// Long values that eight threads compress at a high level and separate, and that they read again.
#[cfg(feature = "zstd")]
fn zstd_separated(db: &Db, budget: u64) {
    let options = FamilyOptions::new().compression(Compression::Zstd(19)).value_threshold(4 << 10);
    let family = db.create_family("texts", options).unwrap();
    let bytes = budget as usize / 256;
    let text = |n: u64| {
        let rows: Vec<u8> = (n << 20..).flat_map(row).take(bytes).collect();
        rows
    };
    thread::scope(|scope| {
        for thread in 0..8 {
            let (family, text) = (&family, &text);
            scope.spawn(move || {
                for n in (0..8).map(|round| round << 3 | thread) {
                    family.put(key(n), text(n)).unwrap();
                    assert_eq!(*family.get(key(n)).unwrap().unwrap(), text(n)[..]);
                }
            });
        }
    });
}

/// Runs the workload that the environment names, and prints what the memory was.
fn run_workload(case: &str) {
    let (name, mib) = case.split_once(' ').unwrap();
    let budget = mib.parse::<u64>().unwrap() * MIB;
    let (_, run) = WORKLOADS.iter().find(|(known, _)| *known == name).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memory_budget(budget as usize).workers(2);
    drop(options().open(dir.path().join("empty")).unwrap());
    let db = options().open(dir.path().join("db")).unwrap();
    db.put("first", "value").unwrap();
    let before = resident("VmHWM:");
    let (most, is_over) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut at_most = String::new();
    thread::scope(|scope| {
        let sampling = scope.spawn(|| {
            let mut parts = String::new();
            while is_over.load(Ordering::Relaxed) == 0 {
                let memory = db.stats().memory;
                assert_eq!(memory.total(), memory.parts().iter().map(|(_, it)| it).sum::<u64>());
                let resident = resident("VmRSS:");
                if resident > most.fetch_max(resident, Ordering::Relaxed) {
                    parts = format!("{} MiB counted: {memory:?}", memory.total() / MIB);
                }
                thread::sleep(Duration::from_millis(20));
            }
            parts
        });
        // A workload that panics ends the sampling too.
        let ran = panic::catch_unwind(AssertUnwindSafe(|| run(&db, budget)));
        is_over.store(1, Ordering::Relaxed);
        at_most = sampling.join().unwrap();
        ran.unwrap_or_else(|payload| panic::resume_unwind(payload));
    });
    let peak = resident("VmHWM:");
    db.settle().unwrap();
    let kept = resident("VmRSS:").saturating_sub(before + db.stats().memory.total());
    db.close().unwrap();
    let closed = resident("VmRSS:").saturating_sub(before);
    println!("MEMORY {before} {peak} {kept} {closed} {at_most}");
}

/// The memory of a workload, in bytes above that of an empty database.
struct Taken {
    peak: u64,
    /// What the process has beside what the database counts when all work is done.
    kept: u64,
    /// What the process has after the database was closed.
    closed: u64,
    /// What the peak consisted of.
    about: String,
}

fn measure(name: &str, mib: u64) -> Taken {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", CHILD, "--nocapture", "--test-threads", "1"])
        .env(CASE, format!("{name} {mib}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.split_once("MEMORY ")).unwrap().1;
    let mut words = line.splitn(5, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (before, peak, kept, closed) = (number(), number(), number(), number());
    let peak = peak - before;
    let [peak_mib, kept_mib, closed_mib] = [peak, kept, closed].map(|bytes| bytes / MIB);
    let about =
        format!("{name} at {mib} MiB: {peak_mib} MiB, kept {kept_mib}, {closed_mib} closed");
    Taken { peak, kept, closed, about: format!("{about}. {line}") }
}

fn stays_within(mib: u64, names: &[&str]) {
    for name in names {
        let Taken { peak, kept, closed, about } = measure(name, mib);
        let factor = |bytes: u64| bytes as f64 / (mib * MIB) as f64;
        println!("{:.2} {:.2} {:.2} {about}", factor(peak), factor(kept), factor(closed));
        assert!(factor(peak) <= TOLERANCE, "{about}");
        assert!(factor(kept) <= KEPT_MAX, "{about}");
        assert!(factor(closed) <= CLOSED_MAX, "{about}");
    }
}

#[test]
fn writers_stay_within_64_mib() {
    match env::var(CASE) {
        Ok(case) => run_workload(&case),
        Err(_) => stays_within(64, &["puts", "large_values", "transactions", "families"]),
    }
}

#[test]
fn readers_stay_within_64_mib() {
    stays_within(64, &["gets", "cursors", "small_blocks"]);
}

#[test]
fn jobs_stay_within_64_mib() {
    stays_within(64, &["compaction", "bulk_load"]);
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_with_a_dictionary_stays_within_64_mib() {
    stays_within(64, &["zstd", "zstd_high_level", "zstd_small_tables", "zstd_bulk_load"]);
    stays_within(64, &["zstd_separated"]);
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_with_a_dictionary_stays_within_256_mib() {
    stays_within(256, &["zstd"]);
}

#[test]
fn transactions_after_other_work_stay_within_64_mib() {
    stays_within(64, &["transactions_after_other_work"]);
}

#[test]
fn transactions_take_from_the_cache_at_256_mib() {
    stays_within(256, &["transactions"]);
}

/// The database counts no more than its budget after a commit that is larger than all memtables
/// that are reserved. Nothing is read meanwhile, so no block enters the cache.
#[test]
fn the_cache_gives_way_to_a_large_commit() {
    const BUDGET: u64 = 16 * MIB;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(BUDGET as usize).memtable_bytes(1 << 20);
    let db = options.workers(0).open(dir.path()).unwrap();
    let count = 2 * BUDGET / 1000;
    fill(&db, count, 1000);
    db.flush().unwrap();
    db.settle().unwrap();
    for n in (0..count).chain(0..count) {
        assert!(db.get(key(n)).unwrap().is_some());
    }
    let cached = db.stats().memory.cached_blocks;
    assert!(cached > BUDGET / 2, "{cached} bytes are cached");
    let mut batch = WriteBatch::new();
    for n in 0..8 * MIB / 1000 {
        batch.put(&db.default_family(), key(n), value(n, 1000)).unwrap();
    }
    db.write(&batch).unwrap();
    let memory = db.stats().memory;
    assert!(memory.memtables > 8 * MIB * 9 / 10, "{memory:?}");
    assert!(memory.total() <= BUDGET + BUDGET / 10, "{memory:?}");
}

/// There are no workers, which give memory back too. What the tests beside this one free lowers
/// the figure only.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_transaction_that_grows_gives_back_what_others_have_freed() {
    const FREED: u64 = 256 * MIB;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(64 << 20).workers(0);
    let db = options.open(dir.path()).unwrap();
    let transaction = db.begin(siltdb::Isolation::Serializable);
    let mut work: Vec<_> = (0..FREED / 1024).map(|n| vec![n as u8; 1000]).collect();
    // The allocator keeps what lies below it.
    let last = work.pop();
    let peak = resident("VmRSS");
    drop(work);
    for n in 0..8 * MIB / 1000 {
        transaction.put(key(n), value(n, 1000)).unwrap();
    }
    let kept = resident("VmRSS");
    assert!(kept + FREED * 3 / 4 < peak, "{kept} bytes of {peak} are kept");
    assert_eq!(last.map(|bytes| bytes.len()), Some(1000));
}
