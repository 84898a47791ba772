//! Chooses compactions that join small tables into fewer. So the number of tables follows from the
//! bytes of a tree and not from the number of its flushes.
//!
//! It is pure, and looks at no key. `pick_leveled` decides which levels are due by size.

use crate::{
    files::level::Level,
    files::open_files::OpenReference,
    files::stretches::STRETCH,
    files::version::Version,
    options::TreeOptions,
    planning::descent::PlanLimits,
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
};
use siltdb_base::limits::LEVELS;
use siltdb_disk::table_meta::KeySpan;
use std::{ops::Range, sync::Arc};

/// Small tables of level 0 from which on they go down or are joined, though they make few runs. The
/// bound is twice the runs that call for a compaction, if that is more.
const LEVEL0_SMALL_TABLES: usize = 16;

/// Fewest neighbours that are joined. It exceeds the parts that one such job is cut into, so that
/// each job leaves fewer tables than it takes.
const JOINED_TABLES_MIN: usize = STRETCH;

/// Neighbours that are joined at most: their files are open meanwhile.
const JOINED_TABLES_MAX: usize = 64;

/// What is joined at once takes at most a table of the target size, and at most this many bytes.
const JOINED_BYTES_MAX: u64 = 32 << 20;

/// A table is small if it takes less than this part of what is joined at once.
const SMALL_PART: u64 = 8;

/// What is joined takes at least this many times its largest table. So a byte is written again only
/// as often as its table grows by this factor.
const GROWTH_MIN: u64 = 4;

/// The sizes of tables that are joined first, in bytes: less than a block.
const SMALLEST_BYTES: u64 = 1 << 10;

/// Bytes below which a table is small.
fn small_bytes(options: &TreeOptions) -> u64 {
    joined_bytes_max(options) / SMALL_PART
}

fn joined_bytes_max(options: &TreeOptions) -> u64 {
    options.table_bytes_target.min(JOINED_BYTES_MAX)
}

/// Whether level 0 has at least `factor` times the small tables from which on they go down or are
/// joined.
#[must_use]
pub fn has_many_small(version: &Version, options: &TreeOptions, factor: u64) -> bool {
    let small = small_bytes(options);
    let level0 = &version.levels()[0];
    let trigger = options.level0_runs_trigger as usize;
    let many = LEVEL0_SMALL_TABLES.max(2 * trigger) * factor as usize;
    small_tables(level0, small).take(many).count() >= many
}

/// The tables of a level with fewer than `small` bytes, with their indexes.
fn small_tables(level: &Level, small: u64) -> impl Iterator<Item = (usize, &Arc<OpenReference>)> {
    let tables = level.below(move |sum| sum.extremes.bytes_min < small);
    tables.filter(move |(_, table)| table.bytes() < small)
}

/// Joins small tables of level 0 that are neighbours in age, if there are any to join.
#[must_use]
pub fn join_in_level0(version: &Version, options: &TreeOptions, busy: &Busy) -> Option<Plan> {
    let level = &version.levels()[0];
    let small = small_bytes(options);
    // By age: the index after its tables, and their bytes if all are small and free.
    let (mut ends, mut ages, mut start) = (Vec::new(), Vec::new(), 0);
    for length in level.ages() {
        let mut tables = level.within(start..start + length);
        let is_free = tables.all(|table| table.bytes() < small && !busy.holds(table.id()));
        ages.push(is_free.then(|| level.bytes_within(start..start + length)));
        start += length;
        ends.push(start);
    }
    let joined = neighbours(&ages, joined_bytes_max(options))?;
    let first = joined.start.checked_sub(1).map_or(0, |before| ends[before]);
    let tables = level.within(first..ends[joined.end - 1]).cloned().collect();
    let inputs = vec![PlanInput { level: 0, tables }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::Small, inputs, 0);
    (!busy.conflicts(&plan)).then_some(plan)
}

/// Joins small tables of a run that are neighbours in key order, if there are any to join.
#[must_use]
pub fn join_in_run(
    version: &Version,
    options: &TreeOptions,
    limits: PlanLimits,
    busy: &Busy,
) -> Option<Plan> {
    (1..LEVELS).find_map(|number| {
        let level = &version.levels()[number];
        let small = small_bytes(options);
        if !level.sum().stretches.has_below(small) {
            return None;
        }
        // Free small tables in order. What lies between two that are no neighbours is left out.
        let (mut tables, mut sizes, mut next) = (Vec::new(), Vec::new(), 0);
        for (index, table) in
            small_tables(level, small).filter(|(_, table)| !busy.holds(table.id()))
        {
            if index != next {
                tables.push(None);
                sizes.push(None);
            }
            tables.push(Some(table));
            sizes.push(Some(table.bytes()));
            next = index + 1;
        }
        loop {
            let joined = neighbours(&sizes, joined_bytes_max(options))?;
            let tables = tables[joined.clone()].iter().filter_map(|table| table.cloned()).collect();
            let inputs = vec![PlanInput { level: number, tables }];
            let plan = Plan::new(PlanKind::Rewrite, Reason::Small, inputs, number);
            // A table over more would be cut into as many as there were.
            let fits = under_bytes(version, number, &plan.range) <= limits.under_bytes_max;
            if fits && !busy.conflicts(&plan) {
                return Some(plan);
            }
            sizes[joined].fill(None);
        }
    })
}

/// Bytes of the tables of the level under `number` that overlap `range`.
fn under_bytes(version: &Version, number: usize, range: &KeySpan) -> u64 {
    let Some(under) = version.levels().get(number + 1) else { return 0 };
    under.bytes_within(under.overlapping_run(range))
}

/// Neighbours to join among tables of these `sizes`; those without one stay. The smallest come
/// first: what is left of them is joined with larger ones.
fn neighbours(sizes: &[Option<u64>], bytes_max: u64) -> Option<Range<usize>> {
    let mut largest_joined = SMALLEST_BYTES;
    loop {
        let mut start = 0;
        while start < sizes.len() {
            let (mut end, mut bytes, mut largest) = (start, 0, 0);
            while let Some(&Some(size)) = sizes.get(end)
                && size <= largest_joined
                && bytes + size <= bytes_max
                && end - start < JOINED_TABLES_MAX
            {
                (end, bytes, largest) = (end + 1, bytes + size, largest.max(size));
            }
            if end - start >= JOINED_TABLES_MIN && largest * GROWTH_MIN <= bytes {
                return Some(start..end);
            }
            start = end.max(start + 1);
        }
        if largest_joined >= bytes_max {
            return None;
        }
        largest_joined *= GROWTH_MIN;
    }
}

#[cfg(test)]
mod tests;
