//! Chooses the next compaction of a leveled tree, from the shape of a version alone.
//!
//! It is pure: it reads no table, starts nothing, and what runs already is an argument.
//!
//! Level sizes follow from what the last level really holds. Each level above may hold the part of
//! it that [`TreeOptions::level_size_ratio`] says, up to the *base level*, which level 0 goes to.
//! Levels above the base stay empty. So little of the space is ever taken by dead versions.

use crate::{
    files::level::Level,
    files::open_files::OpenReference,
    files::table_sum::{Extremes, TableSum},
    files::version::Version,
    options::TreeOptions,
    planning::descent::{Descent, PlanLimits, bring_down},
    planning::pick_small::{has_many_small, join_in_level0, join_in_run},
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
};
use siltdb_base::{id::SequenceNumber, limits::LEVELS};
use siltdb_disk::{
    key_sketch::{KeySketch, Overlap},
    table_meta::KeySpan,
};
use std::{cmp::Reverse, sync::Arc};

/// The last level.
const BOTTOM: usize = LEVELS - 1;

/// Runs of level 0 beyond the trigger from which on it is merged in itself, if it cannot go down.
const WITHIN_LEVEL0_RUNS: usize = 4;

/// Tables of a run that are compared to find one to bring down. Of so many, the best is among the
/// best hundredth of all but for one time in thirteen.
const SEEDS_COMPARED: usize = 256;

/// A score that calls for a compaction, in thousandths.
const DUE: u64 = 1000;

/// While flushes lag behind, level 0 is brought down when it holds this many times what otherwise
/// calls for it. A larger compaction rewrites the level below once, and until then the processors
/// are left to writers and flushes (tuning note 0012).
pub const LAGGING_FACTOR: u64 = 3;

/// Level 0 is brought down before it is due if this many times its tombstones are at least the
/// entries that are merged for them. A tombstone so pays for a few entries, and the deleted part of
/// the level below that may stay is bounded.
const YOUNG_TOMBSTONES: u64 = 5;

/// The same for entries that are replaced: this many times their number must reach the entries
/// merged for them. Each is replaced by one that takes as much space, so they are worth fewer than
/// deleted ones. With 5, overwriting half of a database of ten million keys wrote half as much
/// again (decision 0028).
const REPLACED: u64 = 3;

/// Replaces both factors while there are no writes, if level 0 and the next take no more than
/// [`TreeOptions::base_level_bytes`] together. No more entries are to come that could be merged
/// along. A later writer does not wait for such a compaction for long (tuning note 0029).
const STALE_IDLE: u64 = 12;

/// Nothing is written again for less space than this part of [`TreeOptions::base_level_bytes`], 4
/// MiB by default: syncing new files costs more than the space is worth.
const REPLACING_PART: u64 = 64;

/// How much writers leave to background work. The more it is, the less is due: a tree without a due
/// plan has none under a greater load either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteLoad {
    /// There are no writes, and nothing is left to be flushed.
    Idle,
    /// Less than half a memtable of theirs is left to be flushed, counting the one that is being
    /// filled.
    Light,
    /// More is, but flushes keep up with them.
    Heavy,
    /// They are slowed down, so that flushes can keep up.
    Throttled,
}

impl WriteLoad {
    /// How many times as much as otherwise calls for a compaction of level 0.
    pub(crate) fn factor(self) -> u64 {
        match self {
            Self::Idle | Self::Light | Self::Heavy => 1,
            Self::Throttled => LAGGING_FACTOR,
        }
    }
}

/// How many bytes each level may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The level that level 0 goes to.
    pub base: usize,
    /// Bytes by level: 0 above the base, `u64::MAX` for the last level.
    pub bytes: [u64; LEVELS],
}

impl Targets {
    /// The targets for levels of these sizes, in bytes.
    ///
    /// The base moves up when the level below it asks for more than four tenths of a full ratio of
    /// [`TreeOptions::base_level_bytes`]. It moves down when that level asks for less than two. So
    /// a size that wavers around a border does not move data up and down.
    #[must_use]
    pub fn new(sizes: &[u64; LEVELS], options: &TreeOptions) -> Self {
        let ratio = u64::from(options.level_size_ratio.max(2));
        let top = (1..LEVELS).find(|&level| sizes[level] > 0).unwrap_or(BOTTOM);
        let mut bytes = [0; LEVELS];
        let mut base = BOTTOM;
        let mut target = sizes[BOTTOM];
        while base > 1 {
            let tenths = if top < base { 2 } else { 4 };
            let border = options.base_level_bytes.saturating_mul(ratio) / 10 * tenths;
            if target <= border {
                break;
            }
            base -= 1;
            target /= ratio;
            bytes[base] = target.max(1);
        }
        bytes[BOTTOM] = u64::MAX;
        Self { base, bytes }
    }
}

/// The next compaction that is due and conflicts with none in `busy`; `None` if there is none.
///
/// `oldest_snapshot` is the oldest sequence number that may still be read at: the published present
/// if there is no snapshot. What is not due while writes of `load` run ahead of flushes becomes due
/// once these keep up.
///
/// Cost: about the number of tables times the logarithm of it; no IO.
#[must_use]
pub fn pick(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    oldest_snapshot: SequenceNumber,
    load: WriteLoad,
) -> Option<Plan> {
    let targets = Targets::new(&version.bytes(), options);
    let mut due: Vec<(u64, usize)> = (0..BOTTOM)
        .map(|level| (score(version, level, &targets, options, busy), level))
        .filter(|&(score, level)| score >= if level == 0 { DUE * load.factor() } else { DUE })
        .collect();
    due.sort_by_key(|&(score, level)| (Reverse(score), level));
    let by_size = due.into_iter().find_map(|(_, level)| match level {
        0 => pick_level0(version, &targets, options, busy, load),
        _ => pick_run(version, level, &targets, options, busy),
    });
    by_size
        .or_else(|| pick_small(version, options, busy, load))
        .or_else(|| {
            let limits = limits(options);
            pick_tombstones(version, options, limits, busy, oldest_snapshot, |level, _| level + 1)
        })
        .or_else(|| pick_stale(version, options, busy, oldest_snapshot, load))
}

/// Whether [`pick`] finds nothing in a version whatever runs, writers do and readers hold: then it
/// need not be asked before tables or options change. `false` promises nothing.
///
/// Each picker has its part here: what it never takes.
#[must_use]
pub fn is_quiet(version: &Version, options: &TreeOptions) -> bool {
    let (level0, busy) = (&version.levels()[0], Busy::default());
    let targets = Targets::new(&version.bytes(), options);
    let is_due = (0..BOTTOM).any(|level| score(version, level, &targets, options, &busy) >= DUE);
    let has_small = has_many_small(version, options, 1)
        || join_in_run(version, options, limits(options), &busy).is_some();
    let has_dense = dense_tables(version, options).next().is_some();
    let may_be_stale =
        has_tombstones(level0) || is_worth_syncs(level0.bytes(), options.base_level_bytes);
    !(is_due || has_small || has_dense || may_be_stale)
}

fn has_tombstones(level0: &Level) -> bool {
    level0.sum().totals.point_tombstones > 0
}

/// How much a level calls for a compaction, in thousandths of what makes one due.
fn score(
    version: &Version,
    number: usize,
    targets: &Targets,
    options: &TreeOptions,
    busy: &Busy,
) -> u64 {
    let level = &version.levels()[number];
    let bytes = level.bytes().saturating_sub(busy.leaving_bytes(version, number));
    if number == 0 {
        let by_runs = level.runs() as u64 * DUE / u64::from(options.level0_runs_trigger.max(1));
        return by_runs.max(thousandths(bytes, options.base_level_bytes));
    }
    match targets.bytes[number] {
        // What lies above the base is due, but never before what makes writers wait.
        0 => u64::from(bytes > 0) * DUE,
        target => thousandths(bytes, target),
    }
}

fn thousandths(bytes: u64, target: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(DUE) / u128::from(target.max(1)))
        .unwrap_or(u64::MAX)
}

/// About how many bytes compactions would have to write until nothing is due any more: what writers
/// have to be slowed down by.
///
/// What a level has too much goes down, and with it goes what it overlaps in the next level: of
/// that level, the same part. What arrives there counts to what that level has too much.
#[must_use]
pub fn debt_bytes(version: &Version, options: &TreeOptions) -> u64 {
    let sizes = version.bytes();
    let targets = Targets::new(&sizes, options);
    let level0 = &version.levels()[0];
    let is_due = level0.runs() >= options.level0_runs_trigger as usize
        || sizes[0] >= options.base_level_bytes;
    let used: Vec<usize> =
        (1..LEVELS).filter(|&level| targets.bytes[level] > 0 || sizes[level] > 0).collect();
    let mut debt = 0_u64;
    let (mut from, mut going) = (0, if is_due { sizes[0] } else { 0 });
    for to in used {
        let part = thousandths(going, sizes[from]).min(1000);
        let overlapped = u128::from(sizes[to]) * u128::from(part) / 1000;
        let overlapped = u64::try_from(overlapped).unwrap_or(u64::MAX);
        debt = debt.saturating_add(going).saturating_add(overlapped);
        going = sizes[to].saturating_add(going).saturating_sub(targets.bytes[to]);
        from = to;
    }
    debt
}

pub(crate) fn limits(options: &TreeOptions) -> PlanLimits {
    PlanLimits {
        widen_bytes_max: options.table_bytes_target.saturating_mul(25),
        under_bytes_max: options.table_bytes_target.saturating_mul(10),
        level_kinds: options.level_kinds(),
    }
}

/// The level that level 0 goes to now: the base, or a level above it that is not drained yet.
pub(crate) fn below_level0(version: &Version, targets: &Targets) -> usize {
    (1..targets.base).find(|&level| !version.levels()[level].is_empty()).unwrap_or(targets.base)
}

fn pick_level0(
    version: &Version,
    targets: &Targets,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    let to = below_level0(version, targets);
    move_isolated(version, to, Reason::Level0, options, busy, |_| true)
        .or_else(|| {
            // The oldest first: what overlaps it comes along.
            version.levels()[0].tables().rev().find_map(|seed| {
                let seeds = vec![seed.clone()];
                bring_down(
                    version,
                    Descent { from: 0, to },
                    seeds,
                    Reason::Level0,
                    limits(options),
                    busy,
                )
            })
        })
        .or_else(|| pick_within_level0(version, options, busy, load))
}

/// Moves every table of level 0 that is wanted and overlaps neither another one nor the level `to`;
/// none, if tables of that level are written otherwise. That level must be the first below level 0
/// that has tables, or lie above it.
pub(crate) fn move_isolated(
    version: &Version,
    to: usize,
    reason: Reason,
    options: &TreeOptions,
    busy: &Busy,
    is_wanted: impl Fn(&OpenReference) -> bool,
) -> Option<Plan> {
    let limits = limits(options);
    if limits.level_kinds[0] != limits.level_kinds[to] {
        return None;
    }
    let (level0, target) = (&version.levels()[0], &version.levels()[to]);
    let under_bytes = |range: &KeySpan| -> u64 {
        let Some(under) = version.levels().get(to + 1) else { return 0 };
        under.bytes_within(under.overlapping_run(range))
    };
    let mut alone: Vec<usize> = level0
        .clusters()
        .iter()
        .filter_map(|cluster| match cluster.tables[..] {
            [index] => Some(index),
            _ => None,
        })
        .collect();
    alone.sort_unstable();
    let isolated = alone.into_iter().map(|index| level0.table(index)).filter(|table| {
        target.overlapping_run(table.range()).is_empty()
            && under_bytes(table.range()) <= limits.under_bytes_max
            && !busy.holds(table.id())
            && is_wanted(table)
    });
    let tables: Vec<_> = isolated.cloned().collect();
    if tables.is_empty() {
        return None;
    }
    let plan = Plan::new(PlanKind::TrivialMove, reason, vec![PlanInput { level: 0, tables }], to);
    (!busy.conflicts(&plan)).then_some(plan)
}

/// Moves small tables out of level 0 that overlap nothing, or joins them, if there are many. They
/// make few runs, but each costs time when the database is opened and at each edit. Joins small
/// neighbours in the runs below, where such moves leave them.
#[must_use]
pub fn pick_small(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    let in_level0 = has_many_small(version, options, load.factor()).then(|| {
        let to = below_level0(version, &Targets::new(&version.bytes(), options));
        move_isolated(version, to, Reason::Small, options, busy, |_| true)
            .or_else(|| join_in_level0(version, options, busy))
    });
    in_level0.flatten().or_else(|| join_in_run(version, options, limits(options), busy))
}

/// Merges the newest ages of level 0 with each other, down to the first that is taken already.
///
/// An age larger than all newer ones together ends the stretch. So a byte is merged within level 0
/// only as often as that level doubles.
fn pick_within_level0(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    let level = &version.levels()[0];
    let trigger = options.level0_runs_trigger as usize;
    let runs_min = WITHIN_LEVEL0_RUNS * load.factor() as usize;
    if level.runs() < trigger + runs_min {
        return None;
    }
    let (mut taken, mut ages, mut bytes) = (0, 0, 0);
    for length in level.ages() {
        let mut age = level.within(taken..taken + length);
        let age_bytes = level.bytes_within(taken..taken + length);
        let is_large = ages > 0 && age_bytes > bytes;
        if is_large
            || bytes + age_bytes > options.base_level_bytes
            || age.any(|table| busy.holds(table.id()))
        {
            break;
        }
        (taken, ages, bytes) = (taken + length, ages + 1, bytes + age_bytes);
    }
    if ages < runs_min {
        return None;
    }
    let tables = level.within(0..taken).cloned().collect();
    let inputs = vec![PlanInput { level: 0, tables }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::WithinLevel0, inputs, 0);
    (!busy.conflicts(&plan)).then_some(plan)
}

/// Brings down the table of a run whose targets are the fewest bytes for each of its own.
///
/// Of a run of many tables only some are compared, which lie evenly among the others: the best of
/// these is hardly worse than the best of all. Only if plans that run hold up all of them, the
/// next ones are compared.
fn pick_run(
    version: &Version,
    number: usize,
    targets: &Targets,
    options: &TreeOptions,
    busy: &Busy,
) -> Option<Plan> {
    let (to, reason) = if number < targets.base {
        let next = (number + 1..targets.base).find(|&level| !version.levels()[level].is_empty());
        (next.unwrap_or(targets.base), Reason::Drain)
    } else {
        (number + 1, Reason::Size)
    };
    let target = &version.levels()[to];
    let cost = |table: &Arc<OpenReference>| {
        thousandths(target.bytes_within(target.overlapping_run(table.range())), table.bytes())
    };
    let level = &version.levels()[number];
    let step = level.count().div_ceil(SEEDS_COMPARED).max(1);
    (0..step).find_map(|first| {
        let tables = (first..level.count()).step_by(step).map(|index| level.table(index));
        let free = tables.filter(|table| !busy.holds(table.id()));
        let mut seeds: Vec<_> =
            free.map(|table| (cost(table), table.sequence_max(), table)).collect();
        // Of equal cost the oldest data first: it has waited longest.
        seeds.sort_by_key(|&(cost, sequence, _)| (cost, sequence));
        seeds.into_iter().find_map(|(_, _, seed)| {
            let seeds = vec![seed.clone()];
            bring_down(version, Descent { from: number, to }, seeds, reason, limits(options), busy)
        })
    })
}

/// Brings a table of mostly tombstones towards what they delete, or rewrites it without them if
/// nothing lies below it. `to` picks the level that it goes to, of its own and of the next one that
/// has something below it.
pub fn pick_tombstones(
    version: &Version,
    options: &TreeOptions,
    limits: PlanLimits,
    busy: &Busy,
    oldest_snapshot: SequenceNumber,
    to: impl Fn(usize, usize) -> usize,
) -> Option<Plan> {
    let dense = dense_tables(version, options);
    let mut dense = dense.filter(|(_, table)| !busy.holds(table.id()));
    dense.find_map(|(level, table)| {
        let seeds = vec![table.clone()];
        let overlaps =
            |below: &usize| !version.levels()[*below].overlapping_run(table.range()).is_empty();
        if let Some(below) = (level + 1..LEVELS).find(overlaps) {
            let levels = Descent { from: level, to: to(level, below) };
            return bring_down(version, levels, seeds, Reason::Tombstones, limits, busy);
        }
        // With a snapshot among its versions a tombstone would survive, and be picked again.
        if table.sequence_max() > oldest_snapshot {
            return None;
        }
        let inputs = vec![PlanInput { level, tables: seeds }];
        let plan = Plan::new(PlanKind::Rewrite, Reason::Tombstones, inputs, level);
        (!busy.conflicts(&plan)).then_some(plan)
    })
}

/// Brings level 0 down before it is due if what is deleted or replaced is much of what is merged
/// for it. So stale entries that are kept are at most a part of what the next level holds.
///
/// Not while writers are fast: what they are about to flush could be merged along.
fn pick_stale(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    oldest_snapshot: SequenceNumber,
    load: WriteLoad,
) -> Option<Plan> {
    let level0 = &version.levels()[0];
    if !matches!(load, WriteLoad::Idle | WriteLoad::Light)
        || !(has_tombstones(level0) || is_worth_syncs(level0.bytes(), options.base_level_bytes))
    {
        return None;
    }
    let to = below_level0(version, &Targets::new(&version.bytes(), options));
    let due = |seeds: Vec<Arc<OpenReference>>, factors| {
        let plan = bring_down(
            version,
            Descent { from: 0, to },
            seeds,
            Reason::Stale,
            limits(options),
            busy,
        )?;
        is_much_stale(&plan, options, oldest_snapshot, factors).then_some(plan)
    };
    let is_small = level0.bytes() + version.levels()[to].bytes() <= options.base_level_bytes;
    let of_all = || {
        let factors = StaleFactors { deleted: STALE_IDLE, replaced: STALE_IDLE };
        due(level0.tables().to_vec(), factors)
    };
    if let Some(plan) = (load == WriteLoad::Idle && is_small).then(of_all).flatten() {
        return Some(plan);
    }
    let factors = StaleFactors { deleted: YOUNG_TOMBSTONES, replaced: REPLACED };
    // Any table of a cluster brings all of it along. The cluster with the oldest table is first.
    let mut oldest: Vec<_> =
        level0.clusters().iter().filter_map(|cluster| cluster.tables.last()).collect();
    oldest.sort_unstable_by_key(|index| Reverse(**index));
    oldest.into_iter().find_map(|&index| due(vec![level0.table(index).clone()], factors))
}

/// How much of what a plan merges is much: one entry in so many.
#[derive(Clone, Copy, Debug)]
struct StaleFactors {
    /// That is deleted.
    deleted: u64,
    /// That is replaced.
    replaced: u64,
}

/// Whether young tables of the plan delete or replace much of what it merges.
///
/// Cost: a look at each table, and sorting their samples if level 0 is not small beside the rest.
fn is_much_stale(
    plan: &Plan,
    options: &TreeOptions,
    oldest_snapshot: SequenceNumber,
    factors: StaleFactors,
) -> bool {
    let (mut entries, mut young_entries, mut young_tombstones, mut young_bytes) = (0, 0, 0, 0);
    let mut samples = Vec::new();
    for input in &plan.inputs {
        for table in &input.tables {
            let meta = table.meta();
            entries += table.entries();
            let is_young = input.level == 0;
            // With versions that a snapshot may have to see it might not let anything go yet.
            if is_young && table.sequence_max() > oldest_snapshot {
                continue;
            }
            samples.push(&meta.key_sketch);
            if is_young {
                young_entries += table.entries();
                young_tombstones += table.seen_part_of(meta.point_tombstones);
                young_bytes += table.bytes();
            }
        }
    }
    if young_tombstones > 0 && young_tombstones * factors.deleted >= entries {
        return true;
    }
    // Few young entries cannot replace many.
    if young_entries * factors.replaced < entries
        || !is_worth_syncs(young_bytes, options.base_level_bytes)
    {
        return false;
    }
    let Overlap { sampled, repeated } = KeySketch::overlap(samples);
    repeated > 0 && repeated * factors.replaced >= sampled
}

/// Whether so much space is worth the syncs of new files, in a family with this base level.
#[must_use]
pub fn is_worth_syncs(bytes: u64, base_level_bytes: u64) -> bool {
    bytes.saturating_mul(REPLACING_PART) >= base_level_bytes
}

/// The tables below level 0 that go down for their tombstones, with their levels' numbers.
pub(crate) fn dense_tables<'v>(
    version: &'v Version,
    options: &'v TreeOptions,
) -> impl Iterator<Item = (usize, &'v Arc<OpenReference>)> {
    let may_be_dense = move |sum: &TableSum| {
        let Extremes { tombstone_percent_max, range_tombstone_percent_max, .. } = sum.extremes;
        tombstone_percent_max >= u64::from(options.tombstone_percent_trigger)
            || range_tombstone_percent_max >= u64::from(options.range_tombstone_percent_trigger)
    };
    let runs = version.levels().iter().enumerate().skip(1);
    let tables = runs.flat_map(move |(number, level)| {
        level.below(may_be_dense).map(move |(_, table)| (number, table))
    });
    tables.filter(move |(_, table)| is_dense(table, options))
}

/// Whether so much of the table are tombstones, or range tombstones, that it goes down for them.
pub(crate) fn is_dense(table: &OpenReference, options: &TreeOptions) -> bool {
    let meta = table.meta();
    let tombstones = meta.point_tombstones + meta.range_tombstones;
    let all = meta.entries + meta.range_tombstones;
    let reaches = |count: u64, percent: u32| count > 0 && count * 100 >= all * u64::from(percent);
    reaches(tombstones, options.tombstone_percent_trigger)
        || reaches(meta.range_tombstones, options.range_tombstone_percent_trigger)
}

#[cfg(test)]
mod tests;
