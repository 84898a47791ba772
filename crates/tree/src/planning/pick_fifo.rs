//! Chooses the tables that leave a FIFO tree, and the small ones that are joined meanwhile.
//!
//! It is pure, as the other pickers are. Tables stay in level 0, newest first, until they leave by
//! an edit, unread. What a tree has below level 0 from another strategy is older, and leaves first.
//!
//! # Law
//! A table leaves only together with, or after, all older tables that it overlaps, and only if no
//! live snapshot and no retention floor sees it. So an older version of a key never comes back, and
//! no snapshot changes.
//!
//! # Seeded fault
//! `fifo_drops_under_a_snapshot`: tables leave that a live snapshot sees.

use crate::{
    files::open_files::OpenReference,
    files::version::Version,
    options::TreeOptions,
    planning::pick_garbage::Moment,
    planning::pick_leveled::WriteLoad,
    planning::pick_small::{has_many_small, join_in_level0},
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
    strategy::CompactionStrategy,
};
use siltdb_base::limits::LEVELS;
use std::sync::Arc;

/// Small tables are joined to at most this part of the size of the family, so that a table that
/// leaves takes little with it.
const JOINED_PART: u64 = 16;

/// The removal of the tables that are too many or too old, oldest first; `None` if there is none.
///
/// Cost: a look at each table; no IO.
#[must_use]
pub fn pick_leaving(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    moment: &Moment,
) -> Option<Plan> {
    let CompactionStrategy::Fifo { bytes_max, age_max } = options.compaction else { return None };
    let age_max_ms = age_max.map(|age| age.as_millis() as u64);
    let oldest_first = oldest_first(version);
    let mut left: u64 = version.bytes().iter().sum();
    let mut inputs: Vec<PlanInput> =
        (0..LEVELS).map(|level| PlanInput { level, tables: Vec::new() }).collect();
    let count = oldest_first.len();
    for (index, (level, table)) in oldest_first.into_iter().enumerate() {
        let is_old = age_max_ms.is_some_and(|age_ms| is_older(table, age_ms, moment.now_ms));
        let is_too_much = left > bytes_max && index + 1 < count;
        // A table that stays keeps all newer ones.
        if !(is_old || is_too_much) || is_seen(table, moment) || busy.holds(table.id()) {
            break;
        }
        left -= table.bytes();
        inputs[level].tables.push(Arc::clone(table));
    }
    let deepest = inputs.iter().rev().find(|input| !input.tables.is_empty())?.level;
    Some(Plan::new(PlanKind::DeleteOnly, Reason::Fifo, inputs, deepest))
}

/// All tables with their levels, in an order in which they may leave: each after all that it hides
/// anything of.
fn oldest_first(version: &Version) -> Vec<(usize, &Arc<OpenReference>)> {
    let mut tables = Vec::new();
    for (number, level) in version.levels().iter().enumerate().rev() {
        let mut of_level: Vec<_> = level.tables().iter().map(|table| (number, table)).collect();
        if number == 0 {
            // They lie newest first.
            of_level.reverse();
        } else {
            of_level.sort_by_key(|(_, table)| table.sequence_max());
        }
        tables.append(&mut of_level);
    }
    tables
}

/// Whether all entries of the table are older than `age_ms`. What is of unknown age is not.
fn is_older(table: &OpenReference, age_ms: u64, now_ms: u64) -> bool {
    let newest_ms = table.meta().created_ms;
    newest_ms > 0 && now_ms.saturating_sub(newest_ms) > age_ms
}

/// Whether a snapshot sees something of the table, or a later one might that reads above the
/// retention floor.
fn is_seen(table: &OpenReference, moment: &Moment) -> bool {
    if cfg!(seeded_fault = "fifo_drops_under_a_snapshot") {
        return false;
    }
    moment.stripes.floor().is_some()
        || moment.newest_snapshot.is_some_and(|newest| table.sequence_min() <= newest)
}

/// Joins small tables of level 0 that are neighbours in age, if there are many.
#[must_use]
pub fn pick_small(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    let CompactionStrategy::Fifo { bytes_max, .. } = options.compaction else { return None };
    let table_bytes_target = options.table_bytes_target.min(bytes_max / JOINED_PART).max(1);
    let options = TreeOptions { table_bytes_target, ..options.clone() };
    let has_many = has_many_small(version, &options, load.factor());
    has_many.then(|| join_in_level0(version, &options, busy)).flatten()
}

/// Whether neither picker finds anything in a version whatever runs and readers hold, until time
/// passes.
#[must_use]
pub fn is_quiet(version: &Version, options: &TreeOptions) -> bool {
    let CompactionStrategy::Fifo { bytes_max, .. } = options.compaction else { return false };
    version.bytes().iter().sum::<u64>() <= bytes_max
        && pick_small(version, options, &Busy::default(), WriteLoad::Idle).is_none()
}

#[cfg(test)]
mod tests;
