//! Chooses the next compaction of a tiered tree, from the shape of a version alone.
//!
//! It is pure, as the other pickers are, and moves or merges whole runs.
//!
//! A tier is a level: each level below level 0 is one sorted run, as in a leveled tree, and runs of
//! lower-numbered levels are newer. So readers, requests and ingests are those of a leveled tree,
//! and a tree may change its strategy at any time: either picker goes on from any version.
//!
//! # Law
//! A merge takes neighbours: all runs from its first input to its output, without one between them
//! that is left behind. Its output goes to the deepest of its inputs, or to an empty level right
//! above the first run. Otherwise newer entries of a key would lie below older ones (invariant 2 of
//! [`Version`]).

use crate::{
    files::version::Version,
    options::TreeOptions,
    planning::descent::PlanLimits,
    planning::pick_leveled::{self, WriteLoad, dense_tables, pick_tombstones},
    planning::pick_small::{has_many_small, join_in_level0, join_in_run},
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
    strategy::CompactionStrategy,
};
use siltdb_base::{id::SequenceNumber, limits::LEVELS, seeded_fault};
use std::ops::Range;

/// All runs are merged for space only if the newer ones take at least this part of
/// [`TreeOptions::base_level_bytes`]. For less, syncing new files costs more than the space is
/// worth.
const SPACE_PART: u64 = 64;

/// Level 0 becomes a run before it is due if this many times its tombstones are at least all
/// entries of the tree, while writers are slow: then much can go.
const YOUNG_TOMBSTONES: u64 = 12;

/// A sorted run: level 0, taken as one, or a level below it.
#[derive(Clone, Copy, Debug)]
struct Run {
    level: usize,
    bytes: u64,
    /// No running plan takes any of its tables, or writes more of it.
    is_free: bool,
    /// A running plan takes all of it to a deeper level.
    is_leaving: bool,
}

impl Run {
    fn new(version: &Version, level: usize, busy: &Busy) -> Self {
        let (run, taken) = (&version.levels()[level], busy.taken(version, level));
        let is_whole = level == 0 || !busy.writes_to(level);
        Self {
            level,
            bytes: run.bytes(),
            is_free: is_whole && taken.all == 0,
            is_leaving: taken.leaving == run.count(),
        }
    }
}

/// The runs below level 0, newest first.
fn runs(version: &Version, busy: &Busy) -> Vec<Run> {
    let occupied = (1..LEVELS).filter(|&level| !version.levels()[level].is_empty());
    occupied.map(|level| Run::new(version, level, busy)).collect()
}

/// The bounds that a tiered tree keeps to: its runs, and the percentage of the oldest run that the
/// newer ones may reach.
fn bounds(options: &TreeOptions) -> (usize, u32) {
    let strategy = match options.compaction {
        CompactionStrategy::Tiered { .. } => options.compaction,
        _ => CompactionStrategy::tiered(),
    };
    match strategy {
        CompactionStrategy::Tiered { runs_max, space_percent_max } => {
            (runs_max as usize, space_percent_max)
        }
        _ => (LEVELS, u32::MAX),
    }
}

/// A run goes down whole, so what lies under one of its tables is no bound.
fn limits(options: &TreeOptions) -> PlanLimits {
    PlanLimits { under_bytes_max: u64::MAX, ..pick_leveled::limits(options) }
}

/// The next compaction that is due and conflicts with none in `busy`; `None` if there is none.
///
/// 1. Level 0 becomes a new run when it has enough runs or bytes.
/// 2. Runs of similar size are merged when there are too many.
/// 3. All runs are merged when the newer ones have reached the permitted part of the oldest.
/// 4. Small tables are joined, and tables of mostly tombstones go towards what they delete.
///
/// The arguments and the cost are those of [`pick_leveled`](crate::planning::pick_leveled::pick).
#[must_use]
pub fn pick(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    oldest_snapshot: SequenceNumber,
    load: WriteLoad,
) -> Option<Plan> {
    pick_level0(version, options, busy, load)
        .or_else(|| pick_runs(version, options, busy))
        .or_else(|| pick_space(version, options, busy, load))
        .or_else(|| pick_small(version, options, busy, load))
        .or_else(|| {
            let limits = limits(options);
            pick_tombstones(version, options, limits, busy, oldest_snapshot, |_, below| below)
        })
        .or_else(|| pick_young_tombstones(version, options, busy, load))
}

/// Whether [`pick`] finds nothing in a version whatever runs, writers do and readers hold.
#[must_use]
pub fn is_quiet(version: &Version, options: &TreeOptions) -> bool {
    let busy = Busy::default();
    let has_dense = dense_tables(version, options).next().is_some();
    !is_level0_due(version, options, WriteLoad::Idle)
        && due_runs(version, options, &busy).is_none()
        && due_for_space(version, options, &busy, WriteLoad::Idle).is_none()
        && !has_many_small(version, options, 1)
        && join_in_run(version, options, limits(options), &busy).is_none()
        && !has_dense
        && !has_young_tombstones(version)
}

/// About how many bytes compactions would have to write until nothing is due any more.
#[must_use]
pub fn debt_bytes(version: &Version, options: &TreeOptions) -> u64 {
    let busy = Busy::default();
    let level0 = match is_level0_due(version, options, WriteLoad::Idle) {
        true => version.levels()[0].bytes(),
        false => 0,
    };
    let due = due_runs(version, options, &busy)
        .or_else(|| due_for_space(version, options, &busy, WriteLoad::Heavy));
    let bytes = due.iter().flatten().map(|run| run.bytes);
    bytes.fold(level0, u64::saturating_add)
}

/// Joins small tables of level 0, if there are many, and small neighbours in the runs below.
#[must_use]
pub fn pick_small(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    let has_many = has_many_small(version, options, load.factor());
    let in_level0 = has_many.then(|| join_in_level0(version, options, busy));
    in_level0.flatten().or_else(|| join_in_run(version, options, limits(options), busy))
}

fn is_level0_due(version: &Version, options: &TreeOptions, load: WriteLoad) -> bool {
    let level0 = &version.levels()[0];
    let runs_min = u64::from(options.level0_runs_trigger.max(1)) * load.factor();
    level0.runs() as u64 >= runs_min
        || level0.bytes() >= options.base_level_bytes.saturating_mul(load.factor())
}

fn pick_level0(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    if !is_level0_due(version, options, load) {
        return None;
    }
    bring_down_level0(version, options, Reason::Level0, busy)
}

/// Makes a run of level 0, or makes room for it.
///
/// All of level 0 goes together, because an older entry that stayed there would lie above a newer
/// one. Tables that overlap nothing are moved, if those of the run are written alike.
fn bring_down_level0(
    version: &Version,
    options: &TreeOptions,
    reason: Reason,
    busy: &Busy,
) -> Option<Plan> {
    let level0 = &version.levels()[0];
    if level0.is_empty() || !Run::new(version, 0, busy).is_free {
        return None;
    }
    let first = (1..LEVELS).find(|&level| !version.levels()[level].is_empty());
    let tables: Vec<_> = level0.tables().to_vec();
    let are_disjoint = level0.clusters().len() == tables.len();
    let kinds = options.level_kinds();
    let can_move = |level: usize| are_disjoint && kinds[0] == kinds[level];
    let is_apart = |level: usize| {
        let run = &version.levels()[level];
        match can_move(level) {
            true => tables.iter().all(|table| run.overlapping_run(table.range()).is_empty()),
            false => {
                let all = tables.iter().map(|table| table.range().clone());
                let all = all.reduce(|a, b| a.union(&b));
                all.is_none_or(|all| run.overlapping_run(&all).is_empty())
            }
        }
    };
    let to = match first {
        None => LEVELS - 1,
        // New keys extend the newest run, so that loads in key order make one run.
        Some(first) if is_apart(first) => first,
        Some(1) => return make_room(version, options, busy),
        Some(first) => first - 1,
    };
    let kind = if can_move(to) { PlanKind::TrivialMove } else { PlanKind::Rewrite };
    let plan = Plan::new(kind, reason, vec![PlanInput { level: 0, tables }], to);
    (!busy.conflicts(&plan)).then_some(plan)
}

/// Empties level 1: moves runs down where a level is empty, or else merges those that cost least.
fn make_room(version: &Version, options: &TreeOptions, busy: &Busy) -> Option<Plan> {
    shift(version, options, busy).or_else(|| {
        let level0 = Run::new(version, 0, busy);
        let all: Vec<Run> = [level0].into_iter().chain(runs(version, busy)).collect();
        cheapest(&all).and_then(|chosen| merge(version, &all[chosen], Reason::Level0, busy))
    })
}

/// Moves a run to the empty level right below it, or as deep as there are empty ones. Where tables
/// are written otherwise there, it is rewritten.
fn shift(version: &Version, options: &TreeOptions, busy: &Busy) -> Option<Plan> {
    let kinds = options.level_kinds();
    let is_empty = |level: usize| version.levels()[level].is_empty();
    (1..LEVELS - 1).rev().find_map(|level| {
        if is_empty(level) || !Run::new(version, level, busy).is_free {
            return None;
        }
        let to = (level + 1..LEVELS).take_while(|&below| is_empty(below)).last()?;
        let tables = version.levels()[level].tables().to_vec();
        let inputs = vec![PlanInput { level, tables }];
        let is_alike = kinds[level] == kinds[to];
        let kind = if is_alike { PlanKind::TrivialMove } else { PlanKind::Rewrite };
        let plan = Plan::new(kind, Reason::Drain, inputs, to);
        (!busy.conflicts(&plan)).then_some(plan)
    })
}

/// Merges runs of similar size while there are more than permitted. Those that a running plan
/// merges with others count as merged.
fn pick_runs(version: &Version, options: &TreeOptions, busy: &Busy) -> Option<Plan> {
    due_runs(version, options, busy).and_then(|due| merge(version, &due, Reason::Size, busy))
}

/// The runs that [`pick_runs`] merges.
fn due_runs(version: &Version, options: &TreeOptions, busy: &Busy) -> Option<Vec<Run>> {
    let (runs_max, _) = bounds(options);
    let all = runs(version, busy);
    let staying = all.iter().filter(|run| !run.is_leaving).count();
    if staying <= runs_max {
        return None;
    }
    cheapest(&all).map(|chosen| all[chosen].to_vec())
}

/// Of `runs`, the neighbours whose merge costs least, if there are two that no plan takes.
///
/// A merge costs the bytes that it writes for each run that goes. That counts the more, the larger
/// the largest of the runs is beside the others together: it would be written again for little. So
/// several runs of similar size are merged at once, and a large one waits until what is newer has
/// grown up to it. Merging the cheapest pair by bytes alone wrote three to ten times as much in
/// simulations of trees that grow.
fn cheapest(runs: &[Run]) -> Option<Range<usize>> {
    let mut best: Option<(f64, Range<usize>)> = None;
    for start in 0..runs.len() {
        let (mut bytes, mut largest) = (0_u64, 0);
        for (index, run) in runs.iter().enumerate().skip(start) {
            if !run.is_free {
                break;
            }
            bytes = bytes.saturating_add(run.bytes);
            largest = largest.max(run.bytes);
            if index == start {
                continue;
            }
            let others = (bytes - largest).max(1) as f64;
            let cost = bytes as f64 / (index - start) as f64 * (largest as f64 / others);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, start..index + 1));
            }
        }
    }
    best.map(|(_, runs)| runs)
}

/// The merge of `runs`, which are neighbours, into the deepest of their levels.
fn merge(version: &Version, runs: &[Run], reason: Reason, busy: &Busy) -> Option<Plan> {
    let to = runs.last()?.level;
    let tables = |level: usize| version.levels()[level].tables().to_vec();
    let inputs = runs.iter().map(|run| PlanInput { level: run.level, tables: tables(run.level) });
    let mut inputs: Vec<_> = inputs.collect();
    if seeded_fault!("tiered_runs_out_of_order") && inputs.len() > 2 {
        inputs.remove(1);
    }
    let is_input = |level: usize| inputs.iter().any(|input| input.level == level);
    let between = inputs.first().map_or(to, |first| first.level)..=to;
    let is_whole = |level: usize| version.levels()[level].is_empty() || is_input(level);
    assert!(between.clone().all(is_whole), "a merge of the levels {between:?} leaves a run out");
    let plan = Plan::new(PlanKind::Rewrite, reason, inputs, to);
    (!busy.conflicts(&plan)).then_some(plan)
}

/// Merges all runs when the newer ones have reached the permitted part of the oldest. So replaced
/// and deleted entries take at most about that part.
///
/// Level 0 stays out of it where the runs below are enough, because what is flushed during a long
/// merge could not go down before it.
fn pick_space(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    let due = due_for_space(version, options, busy, load)?;
    if due[0].level == 0 && due.len() > 2 {
        return bring_down_level0(version, options, Reason::Stale, busy);
    }
    // Level 1 stays free for what is flushed meanwhile.
    let room = if due[0].level == 1 { shift(version, options, busy) } else { None };
    room.or_else(|| merge(version, &due, Reason::Stale, busy))
}

/// The runs that [`pick_space`] merges, or makes room for.
fn due_for_space(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Vec<Run>> {
    let (_, percent) = bounds(options);
    let all = runs(version, busy);
    let (oldest, newer) = all.split_last()?;
    if !all.iter().all(|run| run.is_free) {
        return None;
    }
    let is_due = |bytes: u64| {
        bytes.saturating_mul(SPACE_PART) >= options.base_level_bytes
            && u128::from(bytes) * 100 >= u128::from(oldest.bytes) * u128::from(percent)
    };
    let below: u64 = newer.iter().map(|run| run.bytes).sum();
    if is_due(below) && !newer.is_empty() {
        return Some(all);
    }
    let level0 = Run::new(version, 0, busy);
    let is_resting = matches!(load, WriteLoad::Idle | WriteLoad::Light);
    if !is_resting || level0.bytes == 0 || !level0.is_free || !is_due(below + level0.bytes) {
        return None;
    }
    Some([level0].into_iter().chain(all).collect())
}

/// The merge of all runs from the level `top` on into the deepest one. Of level 0, what came later
/// than `newest` stays.
///
/// # Panics
/// If there is no table from `top` on.
pub(crate) fn merge_all(version: &Version, top: usize, newest: SequenceNumber) -> Plan {
    let level0 = &version.levels()[0];
    let mut later = 0;
    for length in level0.ages() {
        if level0.oldest_within(later..later + length) <= newest {
            break;
        }
        later += length;
    }
    let mut inputs: Vec<_> = (top..LEVELS)
        .map(|level| {
            let tables = version.levels()[level].tables().to_vec();
            PlanInput { level, tables }
        })
        .collect();
    if let Some(input) = inputs.first_mut().filter(|input| input.level == 0) {
        input.tables.drain(..later);
    }
    let deepest = inputs.iter().rev().find(|input| !input.tables.is_empty());
    let to = deepest.map_or(LEVELS - 1, |input| input.level.max(1));
    Plan::new(PlanKind::Rewrite, Reason::Request, inputs, to)
}

/// The merge at rest of all runs from the level `top` on, whose tables supersede much of those
/// below. `None` if a running plan takes some.
pub(crate) fn merge_superseded(
    version: &Version,
    top: usize,
    options: &TreeOptions,
    busy: &Busy,
) -> Option<Plan> {
    if version.runs().is_empty() {
        return bring_down_level0(version, options, Reason::Garbage, busy);
    }
    let plan = Plan { reason: Reason::Garbage, ..merge_all(version, top, SequenceNumber::MAX) };
    (!busy.conflicts(&plan)).then_some(plan)
}

fn pick_young_tombstones(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    let is_due =
        matches!(load, WriteLoad::Idle | WriteLoad::Light) && has_young_tombstones(version);
    is_due.then(|| bring_down_level0(version, options, Reason::Stale, busy)).flatten()
}

fn has_young_tombstones(version: &Version) -> bool {
    let tombstones = version.levels()[0].sum().totals.point_tombstones;
    let entries = version.totals().entries;
    tombstones > 0 && tombstones.saturating_mul(YOUNG_TOMBSTONES) >= entries
}

#[cfg(test)]
mod tests;
