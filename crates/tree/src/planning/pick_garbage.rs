//! Chooses what is done for the sake of space alone: tables that go unread, and tables that are
//! rewritten where they are.
//!
//! It is pure, as the other pickers are. Tables that no reader can see anything of any more are
//! removed by an edit (*delete-only compaction*). Of the others, those are rewritten that would
//! become smaller by a fair part. Garbage is expired entries, versions that no snapshot needs any
//! more, and what range tombstones cover. All three are known from summaries and [`Covered`]. Never
//! more is claimed than a rewrite frees, so a table is not picked twice for the same bytes.

use crate::{
    files::covered::{Covered, covered_whole},
    files::level::Order,
    files::open_files::{OpenReference, TableId},
    files::version::Version,
    memory::Memtables,
    options::TreeOptions,
    planning::pick_leveled::limits,
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
    retain::stripes::Stripes,
    strategy::CompactionStrategy,
};
use siltdb_base::{cursor::EntryCursor, id::SequenceNumber, key::EntryKind, limits::LEVELS};
use std::{collections::HashSet, sync::Arc};

/// Memtables are flushed for the sake of tables that their range tombstones cover if this many
/// times the size of these reaches [`TreeOptions::base_level_bytes`].
const FLUSHED_PART: u64 = 64;

/// Entries of a memtable that are looked at to tell what part of them deletes.
const SAMPLED_ENTRIES: u64 = 256;

/// What decides whether something is garbage.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The snapshots and the present from which the database is looked at.
    pub stripes: Stripes,
    /// The newest live snapshot. Unlike the stripes, it tells one that reads at the present.
    pub newest_snapshot: Option<SequenceNumber>,
    /// The wall time that decides expiry, in ms since 1970.
    pub now_ms: u64,
}

/// The part of a table that must be garbage for it to be rewritten, in thousandths.
fn wasteful_thousandths(options: &TreeOptions) -> u64 {
    u64::from(options.garbage_percent_trigger) * 10
}

/// The removal of all tables that no reader can see anything of, and that no running plan takes;
/// `None` if there is none.
///
/// Either range tombstones above a table cover all of it, and no snapshot sees some of it and not
/// these. Or it has nothing but tombstones and expired values, and nothing that stays lies deeper
/// for these to hide.
///
/// Cost: a look at each table; no IO.
#[must_use]
pub fn pick_drop(
    version: &Version,
    covered: &Covered,
    busy: &Busy,
    moment: &Moment,
) -> Option<Plan> {
    let mut gone = HashSet::new();
    let mut inputs: Vec<PlanInput> = Vec::new();
    // The deepest first: what lies over tables that go may go with them.
    for (number, level) in version.levels().iter().enumerate().rev() {
        let mut tables = Vec::new();
        for (index, table) in level.tables().iter().enumerate().rev() {
            let is_unseen = is_covered(table, covered, moment)
                || is_void(table, moment) && hides_nothing(version, (number, index), table, &gone);
            if is_unseen && !busy.holds(table.id()) {
                gone.insert(table.id());
                tables.push(Arc::clone(table));
            }
        }
        tables.reverse();
        inputs.push(PlanInput { level: number, tables });
    }
    inputs.reverse();
    let deepest = inputs.iter().rev().find(|input| !input.tables.is_empty())?.level;
    Some(Plan::new(PlanKind::DeleteOnly, Reason::Garbage, inputs, deepest))
}

fn is_covered(table: &OpenReference, covered: &Covered, moment: &Moment) -> bool {
    let whole = covered.of(table.id()).and_then(|covered| covered.whole());
    if cfg!(seeded_fault = "drop_covered_table_ignoring_snapshot") {
        return whole.is_some();
    }
    whole.is_some_and(|to| !moment.stripes.separate(table.sequence_min(), to))
}

/// Whether every entry of the table deletes or has expired.
fn is_void(table: &OpenReference, moment: &Moment) -> bool {
    let meta = table.meta();
    let expiring = meta.garbage.expiring_entries();
    let are_expired = meta.garbage.expiry_max_ms().is_none_or(|last| last <= moment.now_ms);
    are_expired && meta.point_tombstones + expiring == meta.entries
}

/// Whether all tables that are deeper than this one and overlap it are among those that are `gone`.
fn hides_nothing(
    version: &Version,
    (number, index): (usize, usize),
    table: &OpenReference,
    gone: &HashSet<TableId>,
) -> bool {
    let level = &version.levels()[number];
    let older = match level.order() {
        Order::Overlapping => &level.tables()[index + 1..],
        Order::Disjoint => &[],
    };
    let below = version.levels()[(number + 1).min(LEVELS)..].iter();
    let below = below.flat_map(|level| &level.tables()[level.overlapping_run(table.range())]);
    older
        .iter()
        .filter(|older| older.range().overlaps(table.range()))
        .chain(below)
        .all(|deeper| gone.contains(&deeper.id()))
}

/// The rewrite of a table that is garbage for a fair part, together with such neighbours. `None` if
/// there is none, or all are taken by running plans. Tables of a FIFO family leave as they are.
///
/// Cost: a look at each table; no IO.
#[must_use]
pub fn pick_rewrite(
    version: &Version,
    covered: &Covered,
    options: &TreeOptions,
    busy: &Busy,
    moment: &Moment,
) -> Option<Plan> {
    if matches!(options.compaction, CompactionStrategy::Fifo { .. }) {
        return None;
    }
    let is_wasteful = |table: &Arc<OpenReference>| {
        garbage_thousandths(table, covered, moment) >= wasteful_thousandths(options)
            && !busy.holds(table.id())
    };
    let bytes_max = limits(options).widen_bytes_max;
    let levels = version.levels().iter().enumerate().rev();
    levels.into_iter().find_map(|(number, level)| {
        let tables = level.tables();
        (0..tables.len()).find_map(|first| {
            if !is_wasteful(&tables[first]) {
                return None;
            }
            // A table of level 0 becomes one that is neither newer nor older; several might not.
            let most = if level.order() == Order::Overlapping { 1 } else { usize::MAX };
            let mut bytes = 0;
            let together = tables[first..].iter().take(most).take_while(|table| {
                let fits = bytes == 0 || bytes + table.bytes() <= bytes_max;
                bytes += table.bytes();
                fits && is_wasteful(table)
            });
            let inputs = vec![PlanInput { level: number, tables: together.cloned().collect() }];
            let plan = Plan::new(PlanKind::Rewrite, Reason::Garbage, inputs, number);
            (!busy.conflicts(&plan)).then_some(plan)
        })
    })
}

/// What part of the table a rewrite would leave out at least, in thousandths.
fn garbage_thousandths(table: &OpenReference, covered: &Covered, moment: &Moment) -> u64 {
    let meta = table.meta();
    let superseded = meta.garbage.superseded().iter();
    let superseded = superseded.filter(|bucket| !moment.stripes.separate(bucket.from, bucket.to));
    let superseded: u64 = superseded.map(|bucket| bucket.bytes).sum();
    // What is newer than the retention floor is kept, expired or not.
    let has_kept = moment.stripes.find(table.sequence_max()).is_none();
    let expired = if has_kept { 0 } else { meta.garbage.expired_bytes(moment.now_ms) };
    let parts = covered.of(table.id()).map_or(&[][..], |covered| covered.parts());
    let oldest = table.sequence_min();
    let parts = parts.iter().filter(|part| !moment.stripes.separate(oldest, part.to));
    let covered = parts.map(|part| part.bytes).sum();
    thousandths(expired + superseded, meta.logical_bytes) + thousandths(covered, table.bytes())
}

/// Both are below 2^50.
fn thousandths(bytes: u64, all: u64) -> u64 {
    bytes * 1000 / all.max(1)
}

/// Whether the tombstones in `memory` delete so much of the tables that it is worth a flush of it,
/// because that goes then. It must be a fair part of all tables, and make up for the syncs of new
/// files. Range tombstones count for the tables that they cover whole, others for an entry each.
///
/// Cost: a look at each table, and at some entries of a memtable that might delete that much.
#[must_use]
pub fn is_worth_flush(
    memory: &Memtables,
    version: &Version,
    options: &TreeOptions,
    moment: &Moment,
) -> bool {
    let memtables = memory.tables().iter().map(|table| &table.memtable);
    let tombstones: Vec<_> = memtables
        .filter(|memtable| memtable.range_tombstones() > 0)
        .map(|memtable| memtable.tombstones())
        .collect();
    let goes = |table: &OpenReference| {
        tombstones
            .iter()
            .filter_map(|tombstones| covered_whole(tombstones, table))
            .any(|to| !moment.stripes.separate(table.sequence_min(), to))
    };
    let (mut all, mut entries, mut going) = (0, 0, 0);
    for (_, table) in version.tables() {
        all += table.bytes();
        entries += table.meta().entries;
        going += if goes(table) { table.bytes() } else { 0 };
    }
    let is_due = |going: u64| {
        thousandths(going, all) >= wasteful_thousandths(options)
            && going * FLUSHED_PART >= options.base_level_bytes
    };
    // A snapshot may need what is deleted.
    let are_seen = !moment.stripes.snapshots().is_empty() || moment.stripes.floor().is_some();
    is_due(going) || !are_seen && is_due(deleted(memory, all / u64::max(entries, 1), &is_due))
}

/// About how many bytes of tables point tombstones in `memory` delete, if an entry takes
/// `entry_bytes` there and so much `is_due` that it matters.
fn deleted(memory: &Memtables, entry_bytes: u64, is_due: &dyn Fn(u64) -> bool) -> u64 {
    let entries: u64 = memory.tables().iter().map(|table| table.memtable.entries()).sum();
    if !is_due(entries * entry_bytes) {
        return 0;
    }
    let tombstones = memory.tables().iter().map(|table| {
        let (mut cursor, mut seen, mut deleting) = (table.memtable.cursor(), 0, 0);
        // A memtable that cannot be read deletes nothing here; its flush says what is wrong.
        let mut go_on = cursor.seek_to_first();
        while let (Ok(()), Some(entry)) = (&go_on, cursor.entry()) {
            deleting +=
                u64::from(matches!(entry.kind, EntryKind::Delete | EntryKind::SingleDelete));
            seen += 1;
            if seen == SAMPLED_ENTRIES {
                break;
            }
            go_on = cursor.next();
        }
        table.memtable.entries() * deleting / u64::max(seen, 1)
    });
    tombstones.sum::<u64>() * entry_bytes
}

/// When there may be more garbage by time alone, in ms since 1970. It is the next moment after
/// `now_ms` at which a table has expired as a whole, or for a part that calls for a rewrite. `None`
/// if there is none.
#[must_use]
pub fn next_expiry_ms(version: &Version, options: &TreeOptions, now_ms: u64) -> Option<u64> {
    let next = |table: &Arc<OpenReference>| {
        let meta = table.meta();
        let (mut bytes, due) = (0, meta.logical_bytes * wasteful_thousandths(options) / 1000);
        let part = meta.garbage.expiring().iter().find(|bucket| {
            bytes += bucket.bytes;
            bytes >= due && bucket.until_ms > now_ms
        });
        let whole = meta.garbage.expiry_max_ms().filter(|&last| last > now_ms);
        part.map(|bucket| bucket.until_ms).into_iter().chain(whole).min()
    };
    version.tables().filter_map(|(_, table)| next(table)).min()
}

#[cfg(test)]
mod tests;
