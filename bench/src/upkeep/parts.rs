//! All parts: their measurements, their bars, and their time limits.

use crate::{
    engine::{Failure, Result},
    upkeep::{
        backups::{self, Rounds},
        bar::{Bar, Unit},
        branches, budget, copies, data,
        families::{self, Counts},
        followers,
        part::{Line, Teller},
        reads,
        scale::{self, TableCounts},
        small_cache::{self, Sizes},
        space::{self, Amount, Most},
        steps, syncs,
    },
};
use siltdb::Db;
use std::{path::Path, time::Duration};

/// A part of the work, which runs in a process of its own.
#[derive(Clone, Copy)]
pub struct Part {
    /// Its id.
    pub id: &'static str,
    /// The bars that it reports figures for.
    pub bars: &'static [Bar],
    /// Its time limit.
    pub seconds: u64,
    /// Whether its figures are times.
    pub kind: Kind,
    run: fn(&Path, &Teller<'_>) -> Result<()>,
}

/// Whether a part may run beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It measures times, and runs alone on the machine.
    Timed,
    /// It measures bytes after a wait, in parallel with others of this kind.
    Waiting,
}

/// Bytes that may remain without live data: a log file that is prepared for the next write, 64 KiB,
/// and the manifest.
const LEFT_BYTES_MAX: f64 = 73_728.0;
/// Bytes that may remain, as a factor of the live data.
const LEFT_RATIO_MAX: f64 = 1.3;
/// 100 MB in values of 2,000 bytes.
const LARGE: Amount = Amount { entries: 50_000, length: 2_000 };
/// Deleted entries of it, if some stay.
const LARGE_DELETED: u64 = 45_000;
/// 8 MB in values of 200 bytes.
const SMALL: Amount = Amount { entries: 40_000, length: 200 };
/// 1 GB in values of 1,000 bytes.
const GIGABYTE: Amount = Amount { entries: 1_000_000, length: 1_000 };
/// Deleted entries of it, if some stay.
const GIGABYTE_DELETED: u64 = 900_000;
/// 160 MB in values of 1,000 bytes: a backup at the rate below takes eight seconds.
const BACKED_UP: Amount = Amount { entries: 160_000, length: 1_000 };
/// Backups beside a writer, at 20 MB a second.
const ROUNDS: Rounds = Rounds { count: 3, rate: 20_000_000, alone: Duration::from_secs(4) };
/// Bytes that may remain of a gigabyte: a thousandth.
const LEFT_OF_GIGABYTE_MAX: f64 = 1e6;
/// Keys in small tables: they make thousands of files.
const CLONED: u64 = 120_000;
/// Seconds for which a writer is followed.
const FOLLOWED_SECONDS: u64 = 10;
/// The time in which a copy or a removal of a gigabyte returns, in nanoseconds.
const AT_ONCE_NS: f64 = 50e6;
/// A value that some processes hold at once, in bytes.
const LARGE_VALUE_BYTES: usize = 300_000_000;
/// Numbers of families when openings and flushes are timed.
const FAMILIES: Counts =
    Counts { flush_few: 10, open_few: 1_000, open_many: 8_000, flush_many: 10_000 };
/// Numbers of tables of one family when openings and flushes are timed.
const TABLES: TableCounts = TableCounts { few: 10, opened: 13_000, many: 30_000 };

/// Numbers of branches beside which one more is created, flushed and dropped.
const MANY_BRANCHES: branches::Counts = branches::Counts { few: 10, many: 10_000 };

const fn bar(id: &'static str, unit: Unit, most: f64, about: &'static str) -> Bar {
    Bar { id, about, unit, most }
}

const fn timed(
    id: &'static str,
    seconds: u64,
    bars: &'static [Bar],
    run: fn(&Path, &Teller<'_>) -> Result<()>,
) -> Part {
    Part { id, bars, seconds, kind: Kind::Timed, run }
}

const fn waiting(
    id: &'static str,
    bars: &'static [Bar],
    run: fn(&Path, &Teller<'_>) -> Result<()>,
) -> Part {
    Part { id, bars, seconds: 75, kind: Kind::Waiting, run }
}

/// All parts, in the order of the table.
pub const PARTS: [Part; 28] = [
    timed("flushes", 30, &FLUSHES, |dir, teller| steps::flushes(dir, 1_200, teller)),
    timed("openings", 80, &OPENINGS, |dir, teller| steps::openings(dir, 10_000, teller)),
    timed("syncs", 20, &SYNCS, syncs::syncs),
    timed("families-compact", 25, &COMPACT, |dir, teller| families::compaction(dir, 2_000, teller)),
    timed("families", 55, &BESIDE, |dir, teller| families::beside(dir, FAMILIES, teller)),
    timed("scale-branches", 120, &BRANCHES, |dir, teller| {
        branches::beside(BRANCHES.map(|bar| bar.id), dir, MANY_BRANCHES, teller)
    }),
    timed("scale", 240, &SCALE, |dir, teller| {
        scale::beside([SCALE[0].id, SCALE[1].id, SCALE[2].id], dir, TABLES, teller)
    }),
    timed("deleted", 20, &DELETED, |dir, teller| reads::deleted(dir, 1_000_000, teller)),
    timed("range-deleted", 40, &RANGE_DELETED, |dir, teller| {
        let bars = [RANGE_DELETED[0].id, RANGE_DELETED[1].id];
        reads::range_deleted(bars, dir, 1_000_000, teller)
    }),
    timed("merges", 20, &MERGES, |dir, teller| reads::merges(dir, 20_000, teller)),
    timed("memory", 20, &MEMORY, |dir, teller| reads::large_value(dir, LARGE_VALUE_BYTES, teller)),
    timed("memory-64", 180, &BUDGET_64, |dir, teller| {
        budget::within(BUDGET_64[0].id, dir, 64, teller)
    }),
    timed("memory-256", 180, &BUDGET_256, |dir, teller| {
        budget::within(BUDGET_256[0].id, dir, 256, teller)
    }),
    timed("memory-1024", 600, &BUDGET_1024, |dir, teller| {
        budget::within(BUDGET_1024[0].id, dir, 1024, teller)
    }),
    timed("small-cache", 60, &SMALL_CACHE, |dir, teller| {
        let sizes = Sizes { first: 1_000_000, then: 4_000_000 };
        small_cache::gets(SMALL_CACHE[0].id, dir, sizes, teller)
    }),
    timed("small-cache-large", 300, &SMALL_CACHE_LARGE, |dir, teller| {
        let sizes = Sizes { first: 1_000_000, then: 16_000_000 };
        small_cache::gets(SMALL_CACHE_LARGE[0].id, dir, sizes, teller)
    }),
    timed("copies-clone", 60, &CLONES, |dir, teller| copies::clones(dir, CLONED, teller)),
    timed("copies", 90, &COPIES, |dir, teller| copies::large(dir, GIGABYTE, teller)),
    timed("copies-writer", 180, &BACKUPS, |dir, teller| {
        backups::beside_writer(dir, BACKED_UP, ROUNDS, teller)
    }),
    timed("copies-follower", 40, &FOLLOWERS, |dir, teller| {
        followers::lag(dir, FOLLOWED_SECONDS, followers::write_elsewhere, teller)
    }),
    timed("copies-drop", 90, &DROPS, |dir, teller| {
        let bars = [DROPS[0].id, DROPS[1].id];
        space::drop_of_clone(bars, Most::Bytes(DROPS[1].most), (dir, GIGABYTE), teller)
    }),
    timed("copies-range-delete", 90, &DELETES, |dir, teller| {
        let bars = [DELETES[0].id, DELETES[1].id];
        space::large_range_delete(bars, Most::Bytes(DELETES[1].most), (dir, GIGABYTE), teller)
    }),
    timed("space-gigabyte-range", 120, &GIGABYTE_RANGE, |dir, teller| {
        let bar = (GIGABYTE_RANGE[0].id, Most::Ratio(LEFT_RATIO_MAX));
        let remove = |db: &Db| data::delete_by_range(db, GIGABYTE_DELETED);
        space::removal(bar, (dir, GIGABYTE), GIGABYTE_DELETED, remove, teller)
    }),
    timed("space-gigabyte-points", 120, &GIGABYTE_POINTS, |dir, teller| {
        let bar = (GIGABYTE_POINTS[0].id, Most::Ratio(LEFT_RATIO_MAX));
        let remove = |db: &Db| data::delete_one_by_one(db, GIGABYTE_DELETED);
        space::removal(bar, (dir, GIGABYTE), GIGABYTE_DELETED, remove, teller)
    }),
    waiting("space-range", &RANGE, |dir, teller| {
        let bar = (RANGE[0].id, Most::Ratio(RANGE[0].most));
        space::range_delete(bar, dir, LARGE, LARGE_DELETED, teller)
    }),
    waiting("space-all", &ALL, |dir, teller| {
        let bar = (ALL[0].id, Most::Bytes(ALL[0].most));
        space::range_delete(bar, dir, LARGE, LARGE.entries, teller)
    }),
    waiting("space-expiry", &EXPIRY, |dir, teller| {
        space::expiry((EXPIRY[0].id, Most::Bytes(EXPIRY[0].most)), dir, SMALL, teller)
    }),
    waiting("space-snapshot", &SNAPSHOT, |dir, teller| {
        space::snapshot((SNAPSHOT[0].id, Most::Ratio(SNAPSHOT[0].most)), dir, SMALL, teller)
    }),
];

const FLUSHES: [Bar; 3] = [
    bar("flushes/time", Unit::Ns, 1e6, "a put and its flush, the last of 1,200 with rising keys"),
    bar("flushes/opening", Unit::Ns, 50e6, "opening what 1,200 flushes left"),
    bar("flushes/tables", Unit::Count, 100.0, "tables of it after settle"),
];
const OPENINGS: [Bar; 2] = [
    bar("openings/files", Unit::Count, 100.0, "files after 10,000 openings with one put each"),
    bar("openings/time", Unit::Ns, 5e6, "the last of these openings"),
];
const SYNCS: [Bar; 1] = [bar("openings/syncs", Unit::Count, 4.0, "syncs of open, one put, close")];
const COMPACT: [Bar; 1] =
    [bar("families/compact", Unit::Ns, 1e9, "compact() of 2,000 families with 3 keys each")];
const BESIDE: [Bar; 2] = [
    bar("families/opening", Unit::Ratio, 12.0, "opening 8,000 families, to opening 1,000"),
    bar("families/flush", Unit::Ratio, 1.5, "one family's flush beside 10,000 families, to 10"),
];
const BRANCHES: [Bar; 5] = [
    bar("scale/branch", Unit::Ratio, 2.0, "creating the 10,000th branch, to the 10th"),
    bar("scale/branches-opening", Unit::Ns, 200e6, "opening 10,000 branches"),
    bar("scale/branches-memory", Unit::Bytes, 4096.0, "memory of each of them after the opening"),
    bar("scale/branches-flush", Unit::Ratio, 1.5, "a flush of one put beside 10,000, to 10"),
    bar("scale/branches-drop", Unit::Ratio, 2.0, "dropping one of 10,000 branches, to one of 10"),
];
const SCALE: [Bar; 3] = [
    bar("scale/flush", Unit::Ratio, 3.0, "a put and its flush beside 30,000 tables, to 10"),
    bar("scale/flush-processor", Unit::Ratio, 3.0, "processor time of these until settled"),
    bar("scale/opening", Unit::Ns, 100e6, "opening 13,000 tables"),
];
const DELETED: [Bar; 1] = [bar(
    "reads/deleted",
    Unit::Ns,
    5e6,
    "the slower of the first two seeks across 1 M deleted keys in memory",
)];
const RANGE_DELETED: [Bar; 2] = [
    bar(
        "reads/range-deleted/cold",
        Unit::Ns,
        1e6,
        "the first seek into a range-deleted million of keys, after an opening without page cache",
    ),
    bar("reads/range-deleted/warm", Unit::Ns, 20e3, "the median of the next 100 seeks into it"),
];
const MERGES: [Bar; 2] = [
    bar("reads/merged", Unit::Ns, 1e6, "a get over 20,000 merge operands, after the first"),
    bar(
        "flushes/merged",
        Unit::Ratio,
        // An operator that combines two operands at a time copies each byte log2(20,000) = 14.3
        // times.
        16.0,
        "bytes handed to the operator by their flush, to theirs",
    ),
];
const MEMORY: [Bar; 1] =
    [bar("writes/memory", Unit::Ratio, 2.2, "peak memory of a put of 300 MB, to the value")];
/// The memory may exceed the budget by a tenth.
const BUDGET_RATIO_MAX: f64 = 1.1;
const BUDGET_64: [Bar; 1] =
    [bar("memory/64-mib", Unit::Ratio, BUDGET_RATIO_MAX, "peak of nine workloads, to 64 MiB")];
const BUDGET_256: [Bar; 1] =
    [bar("memory/256-mib", Unit::Ratio, BUDGET_RATIO_MAX, "peak of nine workloads, to 256 MiB")];
const BUDGET_1024: [Bar; 1] =
    [bar("memory/1-gib", Unit::Ratio, BUDGET_RATIO_MAX, "peak of nine workloads, to 1 GiB")];
const SMALL_CACHE: [Bar; 1] = [bar(
    "small-cache/gets-4m",
    Unit::Ratio,
    2.5,
    "the median get of 4 M random keys under 64 MiB, to that of 1 M",
)];
const SMALL_CACHE_LARGE: [Bar; 1] =
    [bar("small-cache/gets-16m", Unit::Ratio, 3.0, "the same of 16 M")];
const CLONES: [Bar; 3] = [
    bar("copies/clone", Unit::Ns, AT_ONCE_NS, "a clone of a family of thousands of files, flushed"),
    bar("copies/first-write", Unit::Ns, 5e6, "the first put to such a clone"),
    bar(
        "copies/reads",
        Unit::Ratio,
        1.0 / 0.95,
        "gets and a scan of a clone, to those of its source",
    ),
];
const COPIES: [Bar; 3] = [
    bar("copies/checkpoint", Unit::Ns, 100e6, "a checkpoint of 1 GB"),
    bar("copies/large-clone", Unit::Ns, AT_ONCE_NS, "a clone of a family of 1 GB"),
    bar(
        "copies/next-backup",
        Unit::Ratio,
        0.05,
        "bytes that a backup copies, to all of its 1 GB, after 1 % of the keys changed",
    ),
];
const BACKUPS: [Bar; 1] = [bar(
    "copies/backup-writer",
    Unit::Ratio,
    1.0 / 0.9,
    "puts a second without a backup, to those beside one of 20 MB a second",
)];
const FOLLOWERS: [Bar; 1] = [bar(
    "copies/follower-lag",
    Unit::Ns,
    100e6,
    "the 99th percentile of a follower's lag behind 100,000 puts a second",
)];
const DROPS: [Bar; 2] = [
    bar("copies/drop", Unit::Ns, AT_ONCE_NS, "the drop of a family of 1 GB, and of its clone"),
    bar("copies/drop-space", Unit::Bytes, LEFT_OF_GIGABYTE_MAX, "bytes a minute after both drops"),
];
const DELETES: [Bar; 2] = [
    bar("copies/range-delete", Unit::Ns, AT_ONCE_NS, "delete_range of all of 1 GB"),
    bar(
        "copies/range-delete-space",
        Unit::Bytes,
        LEFT_OF_GIGABYTE_MAX,
        "bytes a minute after it, without a flush",
    ),
];
const GIGABYTE_RANGE: [Bar; 1] = [bar(
    "space/gigabyte/range",
    Unit::Ratio,
    LEFT_RATIO_MAX,
    "bytes to live bytes, a minute after delete_range of 90 % of 1 GB, without a flush",
)];
const GIGABYTE_POINTS: [Bar; 1] =
    [bar("space/gigabyte/points", Unit::Ratio, LEFT_RATIO_MAX, "the same after 900,000 deletes")];
const RANGE: [Bar; 1] = [bar(
    "space/range-delete",
    Unit::Ratio,
    LEFT_RATIO_MAX,
    "bytes to live bytes, a minute after delete_range of 90 % of 100 MB",
)];
const ALL: [Bar; 1] = [bar(
    "space/range-delete-all",
    Unit::Bytes,
    LEFT_BYTES_MAX,
    "bytes a minute after delete_range of all of 100 MB",
)];
const EXPIRY: [Bar; 1] = [bar(
    "space/expiry",
    Unit::Bytes,
    LEFT_BYTES_MAX,
    "bytes a minute after 40,000 values of 200 bytes expired",
)];
const SNAPSHOT: [Bar; 1] = [bar(
    "space/snapshot",
    Unit::Ratio,
    LEFT_RATIO_MAX,
    "bytes to live bytes, a minute after a snapshot of older versions is dropped",
)];

impl Part {
    /// Runs the part in `dir`, reports through `say`, and reports its end.
    pub fn work(&self, dir: &Path, seconds: u64, say: &dyn Fn(&Line)) {
        let teller = Teller::new(say, Duration::from_secs(seconds));
        match (self.run)(dir, &teller) {
            Ok(()) => say(&Line::Done),
            Err(failure) => say(&Line::Failed(failure.to_string())),
        }
    }
}

/// Serves the part `id`, the traced part, or the followed writer.
///
/// # Errors
/// If there is none; those of the writer.
pub fn serve(id: &str, dir: &Path, seconds: u64, say: &dyn Fn(&Line)) -> Result<()> {
    if id == syncs::TRACED {
        return syncs::traced(dir);
    }
    if id == followers::WRITER {
        return followers::write(dir, seconds);
    }
    let part = PARTS.iter().find(|part| part.id == id);
    let part = part.ok_or_else(|| Failure::error(format!("no part {id}")))?;
    part.work(dir, seconds, say);
    Ok(())
}

#[cfg(test)]
mod tests;
