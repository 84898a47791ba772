//! Chooses the next table to move to the other tier: one that does not lie where its family wants
//! it.
//!
//! Nothing waits for a move, so it gives way to every compaction.

use crate::{
    files::open_files::{OpenReference, TableId},
    files::table_sum::{TableSum, Totals},
    files::version::Version,
    options::TreeOptions,
};
use siltdb_base::id::SequenceNumber;
use siltdb_disk::edit::tier::Tier;
use std::sync::Arc;

/// The tier that the tables of a level belong to.
#[must_use]
pub fn wanted_tier(options: &TreeOptions, level: usize) -> Tier {
    if level >= options.cold_from_level as usize { Tier::Cold } else { Tier::Hot }
}

/// The tables that do not lie where they belong and have an entry of `newest` or before, deepest
/// level first: it stays longest.
pub fn misplaced<'v>(
    version: &'v Version,
    options: &'v TreeOptions,
    newest: SequenceNumber,
) -> impl Iterator<Item = (usize, &'v Arc<OpenReference>)> {
    let levels = version.levels().iter().enumerate().rev();
    levels.flat_map(move |(number, level)| {
        let wanted = wanted_tier(options, number);
        let may_be_due = move |sum: &TableSum| {
            let Totals { tables, cold, .. } = sum.totals;
            let elsewhere = if wanted == Tier::Cold { tables - cold } else { cold };
            sum.extremes.sequence_min <= newest && elsewhere > 0
        };
        let is_due = move |table: &&Arc<OpenReference>| {
            table.reference().tier != wanted && table.sequence_min() <= newest
        };
        let tables = level.below(may_be_due).map(|(_, table)| table);
        tables.filter(is_due).map(move |table| (number, table))
    })
}

/// The next table to move, and where to. `stays` says which tables must not be moved now.
#[must_use]
pub fn pick_tier(
    version: &Version,
    options: &TreeOptions,
    newest: SequenceNumber,
    stays: &dyn Fn(TableId) -> bool,
) -> Option<(Arc<OpenReference>, Tier)> {
    let (level, table) =
        misplaced(version, options, newest).find(|(_, table)| !stays(table.id()))?;
    Some((Arc::clone(table), wanted_tier(options, level)))
}

#[cfg(test)]
mod tests;
