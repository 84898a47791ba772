//! Chooses compactions at rest for what tables supersede of each other: entries below a newer entry
//! of their key in another table, which no single table tells.
//!
//! It is pure, as the other pickers are, and reads no table: key sketches tell which keys tables
//! share (decision 0037). Whatever it picks goes down a level, so it ends.
//!
//! 1. The hashes in the sketches of all tables are put in order. Where a hash occurs twice, all but
//!    the newest occurrence are superseded, unless a snapshot sees one.
//! 2. A hash that a sketch has for each p-th part of all hashes stands for 1/p keys, each of the
//!    weight of the sampled one. What an older table loses counts for the newer one above it. Few
//!    keys may be sampled of those that weigh most, so the mean weight of a table counts if it
//!    gives more.
//! 3. If that and the garbage that tables know of themselves is a fair part of all, the plan that
//!    frees most for each byte that it reads is carried out.

use crate::{
    files::covered::Covered,
    files::open_files::OpenReference,
    files::table_sum::{Totals, key_weight, mean_weight, weight},
    files::version::Version,
    options::TreeOptions,
    planning::descent::{Descent, bring_down},
    planning::pick_garbage::{Moment, garbage_thousandths, keys_for_hash, wasteful_thousandths},
    planning::pick_leveled::{Targets, below_level0, is_worth_syncs, limits},
    planning::pick_tiered::merge_superseded,
    planning::plan::{Busy, Plan, Reason},
    strategy::CompactionStrategy,
};
use siltdb_base::{limits::LEVELS, seeded_fault};
use std::{cmp::Reverse, collections::HashSet, sync::Arc};

/// How many tables above others are compared to find the one that frees most.
const SEEDS_MAX: usize = 16;

/// What newer tables supersede, in bytes of weight.
#[derive(Debug, Default)]
struct Superseded {
    /// By table, in the order of the version: what it supersedes of older ones.
    gains: Vec<u64>,
    /// What of all tables is superseded.
    all: u64,
}

/// A key of a sketch; newer ones of a hash first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SampledKey {
    hash: u64,
    /// The place of its table in the order of the version, where newer ones are first.
    table: u32,
    /// Its place in the sketch, which has few.
    place: u32,
}

/// What a look at the sketches of all tables has found.
#[derive(Debug)]
pub enum SupersededLook {
    /// The compaction that frees most of what newer tables supersede.
    Plan(Plan),
    /// Running plans take all tables that such a compaction would take.
    Held,
    /// So much is not a fair part of the tree.
    Little(Unneeded),
}

impl SupersededLook {
    /// The compaction, if there is one.
    #[must_use]
    pub fn plan(self) -> Option<Plan> {
        match self {
            Self::Plan(plan) => Some(plan),
            Self::Held | Self::Little(_) => None,
        }
    }
}

/// Bytes of weight that no reader needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unneeded {
    /// Those that newer tables supersede.
    pub superseded: u64,
    /// Those that tables know of themselves.
    pub own: u64,
}

impl Unneeded {
    /// Whether so much of a tree calls for a compaction.
    fn is_fair_part(self, version: &Version, options: &TreeOptions) -> bool {
        let Totals { bytes, weight, .. } = version.totals();
        let fair = u128::from(wasteful_thousandths(options));
        let superseded = u128::from(self.superseded);
        // The first compares with what is written: the tables alone.
        is_worth_syncs(self.superseded, options.base_level_bytes)
            && (u128::from(self.own) + superseded) * 6000 >= u128::from(bytes) * fair * 5
            && superseded * 9000 >= u128::from(weight) * fair * 2
    }

    /// Whether so much, and what `entries` entries in new tables may have added since, may call for
    /// a compaction; `false` is certain. An entry supersedes one older one of its key at most, and
    /// may be garbage itself.
    ///
    /// Cost: a look at the sums of the levels.
    #[must_use]
    pub fn may_be_fair_part(self, version: &Version, options: &TreeOptions, entries: u64) -> bool {
        let more = entries.saturating_mul(version.entry_weight_max());
        let (superseded, own) =
            (self.superseded.saturating_add(more), self.own.saturating_add(more));
        Self { superseded, own }.is_fair_part(version, options)
    }
}

/// Looks for the compaction that frees most of what newer tables supersede, if that is a fair part
/// of the tree. Tables of a FIFO tree leave as they are.
///
/// What is left then is below two ninths of [`TreeOptions::garbage_percent_trigger`] of the weight
/// of all tables, or together with the garbage that these know of themselves below five sixths of
/// it of their bytes.
///
/// Cost: sorts the sketches of all tables; no IO.
#[must_use]
pub fn pick_superseded(
    version: &Version,
    covered: &Covered,
    options: &TreeOptions,
    busy: &Busy,
    moment: &Moment,
) -> SupersededLook {
    let is_fifo = matches!(options.compaction, CompactionStrategy::Fifo { .. });
    if is_fifo || options.garbage_percent_trigger > 100 {
        return SupersededLook::Little(Unneeded::default());
    }
    let tables: Vec<(usize, &Arc<OpenReference>)> = version.tables().collect();
    let superseded = find_superseded(&tables, moment);
    let unneeded =
        Unneeded { superseded: superseded.all, own: own_garbage(&tables, covered, moment) };
    if !unneeded.is_fair_part(version, options) {
        return SupersededLook::Little(unneeded);
    }
    best_plan(version, &tables, &superseded, options, busy)
        .map_or(SupersededLook::Held, SupersededLook::Plan)
}

/// The compaction that frees most for each byte that it reads.
fn best_plan(
    version: &Version,
    tables: &[(usize, &Arc<OpenReference>)],
    superseded: &Superseded,
    options: &TreeOptions,
    busy: &Busy,
) -> Option<Plan> {
    let newest = superseded.gains.iter().position(|&gain| gain > 0)?;
    if let CompactionStrategy::Tiered { .. } = options.compaction {
        return merge_superseded(version, tables[newest].0, options, busy);
    }
    let mut seeds: Vec<usize> =
        (0..tables.len()).filter(|&place| superseded.gains[place] > 0).collect();
    seeds.sort_by_key(|&place| Reverse(superseded.gains[place]));
    let plans = seeds
        .into_iter()
        .filter(|&place| !busy.holds(tables[place].1.id()))
        .take(SEEDS_MAX)
        .filter_map(|place| {
            let (level, table) = tables[place];
            plan_down(version, level, table, options, busy)
        })
        .map(|plan| (gain_for_bytes(&plan, tables, &superseded.gains), plan));
    let best = plans.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map(|(_, plan)| plan)
}

/// What newer tables supersede of each other, as their sketches tell.
fn find_superseded(tables: &[(usize, &Arc<OpenReference>)], moment: &Moment) -> Superseded {
    if seeded_fault!("superseded_elsewhere_not_counted") {
        return Superseded { gains: vec![0; tables.len()], all: 0 };
    }
    let mut sampled: Vec<SampledKey> = Vec::new();
    for (number, (_, table)) in tables.iter().enumerate() {
        let hashes = table.meta().key_sketch.hashes();
        // A version has fewer tables than files can be numbered.
        let keys = hashes.iter().zip(0..);
        sampled.extend(keys.map(|(&hash, place)| SampledKey { hash, table: number as u32, place }));
    }
    sampled.sort_unstable();
    let by_keys = weigh_superseded(tables, &sampled, moment, &key_weight);
    let by_means = weigh_superseded(tables, &sampled, moment, &|table, _| mean_weight(table));
    if by_keys.all >= by_means.all { by_keys } else { by_means }
}

/// What newer tables supersede of each other, if a key of a sketch weighs as `weigh` says.
fn weigh_superseded(
    tables: &[(usize, &Arc<OpenReference>)],
    sampled: &[SampledKey],
    moment: &Moment,
    weigh: &dyn Fn(&OpenReference, usize) -> f64,
) -> Superseded {
    let mut lost = vec![0.0_f64; tables.len()];
    let mut gains = vec![0.0_f64; tables.len()];
    for same in sampled.chunk_by(|a, b| a.hash == b.hash).filter(|same| same.len() > 1) {
        // Of the tables that are newer: how far the sample of one of them reaches.
        let mut border = 0;
        for pair in same.windows(2) {
            let (above, below) = (pair[0].table as usize, pair[1].table as usize);
            let ((newer_level, newer), (older_level, older)) = (tables[above], tables[below]);
            border = border.max(newer.meta().key_sketch.border());
            // Two references to slices of one table.
            let are_apart = newer_level == older_level && newer_level > 0;
            let oldest = older.sequence_min();
            if are_apart || moment.stripes.separate(oldest, newer.sequence_max()) {
                continue;
            }
            let border = border.min(older.meta().key_sketch.border());
            let bytes = weigh(older, pair[1].place as usize) * keys_for_hash(border);
            lost[below] += bytes;
            gains[above] += bytes;
        }
    }
    let lost = lost.iter().zip(tables).map(|(&lost, (_, table))| (lost as u64).min(weight(table)));
    Superseded { all: lost.sum(), gains: gains.into_iter().map(|gain| gain as u64).collect() }
}

/// What tables know of themselves that no reader needs, in bytes of weight.
fn own_garbage(tables: &[(usize, &Arc<OpenReference>)], covered: &Covered, moment: &Moment) -> u64 {
    let own = tables.iter().map(|(_, table)| {
        let thousandths = garbage_thousandths(table, covered, moment).min(1000);
        // At most the weight.
        (u128::from(weight(table)) * u128::from(thousandths) / 1000) as u64
    });
    own.fold(0, u64::saturating_add)
}

/// The plan that brings a table down to the next level that has some of its keys.
fn plan_down(
    version: &Version,
    level: usize,
    table: &Arc<OpenReference>,
    options: &TreeOptions,
    busy: &Busy,
) -> Option<Plan> {
    let to = match level {
        0 => below_level0(version, &Targets::new(&version.bytes(), options)),
        _ => (level + 1..LEVELS)
            .find(|&below| !version.levels()[below].overlapping_run(table.range()).is_empty())?,
    };
    let seeds = vec![Arc::clone(table)];
    let descent = Descent { from: level, to };
    let plan = bring_down(version, descent, seeds, Reason::Garbage, limits(options), busy)?;
    assert!(plan.output_level > level, "work at rest that brings nothing down never ends");
    Some(plan)
}

/// What a plan frees for each byte that it reads.
fn gain_for_bytes(plan: &Plan, tables: &[(usize, &Arc<OpenReference>)], gains: &[u64]) -> f64 {
    let taken: HashSet<_> = plan.tables().map(|table| table.id()).collect();
    let gains = tables.iter().zip(gains).filter(|((_, table), _)| taken.contains(&table.id()));
    gains.map(|(_, gain)| *gain as f64).sum::<f64>() / plan.bytes().max(1) as f64
}

#[cfg(test)]
mod tests;
