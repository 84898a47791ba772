//! Which tables a plan takes that brings some of a level down to a run below.
//!
//! It reads no table.

use crate::{
    files::level::Order,
    files::open_files::OpenReference,
    files::version::Version,
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
};
use siltdb_base::limits::LEVELS;
use siltdb_disk::table_meta::KeySpan;
use std::sync::Arc;

/// How much one plan may take, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct PlanLimits {
    /// Of the inputs, when sources are added that cost little.
    pub widen_bytes_max: u64,
    /// Of the tables under the output that a moved table may overlap: what a later compaction of
    /// that one table would have to rewrite.
    pub under_bytes_max: u64,
    /// Which levels are written alike; see
    /// [`level_kinds`](crate::options::TreeOptions::level_kinds). A table moves only between such
    /// levels; between others it is rewritten.
    pub level_kinds: [u8; LEVELS],
}

/// The levels between which a plan brings tables down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descent {
    /// The level of the tables.
    pub from: usize,
    /// The run that they go to, which is deeper.
    pub to: usize,
}

/// The plan to bring `seeds` of the upper level down to the run below, with everything of the two
/// levels that must come along. `None` if that conflicts with a running plan.
///
/// # Panics
/// If the descent does not lead down, or there are no seeds.
#[must_use]
pub fn bring_down(
    version: &Version,
    descent: Descent,
    seeds: Vec<Arc<OpenReference>>,
    reason: Reason,
    limits: PlanLimits,
    busy: &Busy,
) -> Option<Plan> {
    let Descent { from, to } = descent;
    assert!(from < to, "down is a higher level");
    let range = range_of(&seeds);
    let source = &version.levels()[from];
    let sources = match source.order() {
        Order::Overlapping => source.overlapping(&range),
        // What lies between seeds must come along too: the output's range may not have gaps.
        Order::Disjoint => source.overlapping_run(&range).collect(),
    };
    let sources: Vec<_> = sources.iter().map(|&index| source.table(index).clone()).collect();
    let range = range_of(&sources);
    // The sources may reach further than the seeds. No level that has some of their keys may be
    // passed over, because newer entries would then lie below older ones.
    let to =
        (from + 1..to).find(|&level| !overlapped(version, level, &range).is_empty()).unwrap_or(to);
    let targets = overlapped(version, to, &range);
    let is_run = source.order() == Order::Disjoint || sources.len() == 1;
    let under = |table: &Arc<OpenReference>| match version.levels().get(to + 1) {
        Some(level) => level.bytes_within(level.overlapping_run(table.range())),
        None => 0,
    };
    let light = sources.iter().all(|table| under(table) <= limits.under_bytes_max);
    let alike = limits.level_kinds[from] == limits.level_kinds[to];
    let plan = if targets.is_empty() && is_run && light && alike {
        Plan::new(
            PlanKind::TrivialMove,
            reason,
            vec![PlanInput { level: from, tables: sources }],
            to,
        )
    } else {
        // Neighbours may have keys in a level that these pass over.
        let sources = match to - from {
            1 => widen(version, Descent { from, to }, sources, &targets, limits, busy),
            _ => sources,
        };
        let inputs = vec![
            PlanInput { level: from, tables: sources },
            PlanInput { level: to, tables: targets },
        ];
        Plan::new(PlanKind::Rewrite, reason, inputs, to)
    };
    (!busy.conflicts(&plan)).then_some(plan)
}

/// Adds the tables of a source run that need no further target: their targets are rewritten anyway.
fn widen(
    version: &Version,
    descent: Descent,
    sources: Vec<Arc<OpenReference>>,
    targets: &[Arc<OpenReference>],
    limits: PlanLimits,
    busy: &Busy,
) -> Vec<Arc<OpenReference>> {
    let level = &version.levels()[descent.from];
    if level.order() == Order::Overlapping || targets.is_empty() {
        return sources;
    }
    let range = range_of(&sources).union(&range_of(targets));
    let wide: Vec<_> = level.within(level.overlapping_run(&range)).cloned().collect();
    let bytes: u64 = wide.iter().chain(targets).map(|table| table.bytes()).sum();
    let needed = overlapped(version, descent.to, &range_of(&wide)).len();
    let fits = needed == targets.len() && bytes <= limits.widen_bytes_max;
    if fits && !wide.iter().any(|table| busy.holds(table.id())) { wide } else { sources }
}

/// The tables of a run that overlap `range`.
fn overlapped(version: &Version, level: usize, range: &KeySpan) -> Vec<Arc<OpenReference>> {
    let level = &version.levels()[level];
    level.within(level.overlapping_run(range)).cloned().collect()
}

fn range_of(tables: &[Arc<OpenReference>]) -> KeySpan {
    let ranges = tables.iter().map(|table| table.range().clone());
    ranges.reduce(|a, b| a.union(&b)).expect("the caller has tables")
}

#[cfg(test)]
mod tests;
