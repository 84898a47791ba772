//! Chooses the tables that leave a FIFO tree, and the small ones that are joined meanwhile.
//!
//! It is pure, as the other pickers are. Flushed tables stay in level 0, newest first, until they
//! leave by an edit, unread. Ingested tables, and those of another strategy, may lie below it.
//! Their age is that of their newest sequence number too, whatever their level is.
//!
//! # Law
//! A table leaves only together with, or after, all older tables that it overlaps, and only if no
//! live snapshot and no retention floor sees it. So an older version of a key never comes back, and
//! no snapshot changes. Tables of level 0 with mixed ages, such as those of one flush, leave
//! together: all that has left level 0 is older than what stays in it.
//!
//! # Seeded faults
//! * `fifo_drops_under_a_snapshot`: tables leave that a live snapshot sees.
//! * `fifo_drops_what_was_ingested`: tables of deep levels leave first.
//! * `fifo_forgets_separated_values`: separated values do not count.

use crate::{
    files::open_files::OpenReference,
    files::table_sum,
    files::version::Version,
    options::TreeOptions,
    planning::pick_garbage::Moment,
    planning::pick_leveled::WriteLoad,
    planning::pick_small::{has_many_small, join_in_level0},
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
    strategy::CompactionStrategy,
};
use siltdb_base::{id::SequenceNumber, limits::LEVELS, seeded_fault};
use std::sync::Arc;

/// Small tables are joined to at most this part of the size of the family, so that a table that
/// leaves takes little with it.
const JOINED_PART: u64 = 16;

/// Tables that are looked at first to find those that leave.
const LOOKED_AT_FIRST: usize = 64;

/// The removal of the tables that are too many or too old, oldest first; `None` if there is none.
///
/// Cost: nothing, if none is too many or too old. Else a look at about four times the tables that
/// leave, or at all tables if some lie below level 0; no IO.
#[must_use]
pub fn pick_leaving(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    moment: &Moment,
) -> Option<Plan> {
    let CompactionStrategy::Fifo { bytes_max, age_max } = options.compaction else { return None };
    let age_max_ms = age_max.map(|age| age.as_millis() as u64);
    if bytes(version) <= bytes_max && !age_max_ms.is_some_and(|age| has_old(version, age, moment)) {
        return None;
    }
    let mut looked_at = LOOKED_AT_FIRST;
    let leaving = loop {
        let from = border(version, looked_at);
        let tables = oldest_first(version, from);
        let mut left = bytes(version);
        let mut leaving = 0;
        for end in cuts(&tables) {
            let together = &tables[leaving..end];
            let is_old = age_max_ms.is_some_and(|age_ms| {
                together.iter().all(|(_, table)| is_older(table, age_ms, moment.now_ms))
            });
            let is_too_much = left > bytes_max && (end < tables.len() || from > 0);
            let is_held = |table: &OpenReference| is_seen(table, moment) || busy.holds(table.id());
            // What stays keeps all that is newer.
            if !(is_old || is_too_much) || together.iter().any(|(_, table)| is_held(table)) {
                break;
            }
            let bytes = together.iter().map(|(_, table)| weight(table));
            left = bytes.fold(left, u64::saturating_sub);
            leaving = end;
        }
        if leaving < tables.len() || from == 0 {
            break tables.into_iter().take(leaving);
        }
        looked_at *= 4;
    };
    let mut inputs: Vec<PlanInput> =
        (0..LEVELS).map(|level| PlanInput { level, tables: Vec::new() }).collect();
    for (level, table) in leaving {
        inputs[level].tables.push(Arc::clone(table));
    }
    let deepest = inputs.iter().rev().find(|input| !input.tables.is_empty())?.level;
    let plan = Plan::new(PlanKind::DeleteOnly, Reason::Fifo, inputs, deepest);
    let oldest = plan.tables().map(|table| table.sequence_min()).min();
    let is_seen = moment.newest_snapshot.is_some_and(|newest| Some(newest) >= oldest);
    assert!(!is_seen, "a table leaves although a snapshot sees it: {plan:?}");
    Some(plan)
}

/// The bytes that count: those of all tables, with the separated values that they refer to.
fn bytes(version: &Version) -> u64 {
    let totals = version.totals();
    if seeded_fault!("fifo_forgets_separated_values") { totals.bytes } else { totals.weight }
}

fn weight(table: &OpenReference) -> u64 {
    match seeded_fault!("fifo_forgets_separated_values") {
        true => table.bytes(),
        false => table_sum::weight(table),
    }
}

/// Whether a table may be older than `age_ms`.
fn has_old(version: &Version, age_ms: u64, moment: &Moment) -> bool {
    let oldest = version.levels().iter().map(|level| level.sum().extremes.created_min_ms).min();
    oldest.is_some_and(|oldest| moment.now_ms.saturating_sub(oldest) > age_ms)
}

/// The index in level 0 from which on at least `count` tables lie that are all older than those
/// before. 0 if there are no more, or tables below level 0.
fn border(version: &Version, count: usize) -> usize {
    let level0 = &version.levels()[0];
    if !version.runs().is_empty() {
        return 0;
    }
    let mut from = level0.count().saturating_sub(count);
    while from > 0 && level0.table(from).sequence_max() >= level0.oldest_within(0..from) {
        from = from.saturating_sub(count);
    }
    from
}

/// The tables of level 0 from an index on and those of all deeper levels, with their levels, in an
/// order in which they may leave: each after all that it hides anything of.
///
/// A table has the *rank* of its newest entry, or that of an older table that it overlaps, if that
/// is higher. Older are the tables of deeper levels, and in level 0 all that lie behind it.
///
/// Cost: a search in each deeper level for each table, if there are deeper levels.
fn oldest_first(version: &Version, from: usize) -> Vec<(usize, &Arc<OpenReference>)> {
    let levels = version.levels();
    let mut ranks: Vec<Vec<SequenceNumber>> = vec![Vec::new(); LEVELS];
    let mut tables = Vec::new();
    for (number, level) in levels.iter().enumerate().rev() {
        // In level 0 they lie newest first.
        let start = if number == 0 { from } else { 0 };
        let mut of_level: Vec<_> = level.within(start..level.count()).collect();
        if number == 0 {
            of_level.reverse();
        }
        let mut newest_before = SequenceNumber(0);
        for table in of_level {
            let below = (number + 1..LEVELS).filter(|&deeper| !levels[deeper].is_empty());
            let below = below.flat_map(|deeper| {
                let overlapping = levels[deeper].overlapping_run(table.range());
                ranks[deeper][overlapping].iter().copied()
            });
            let rank = below.fold(table.sequence_max(), SequenceNumber::max).max(newest_before);
            if number == 0 {
                newest_before = rank;
            }
            ranks[number].push(rank);
            let place = match seeded_fault!("fifo_drops_what_was_ingested") {
                true => SequenceNumber(0),
                false => rank,
            };
            tables.push((place, number, table));
        }
    }
    // Stable: of one rank, what lies deeper leaves first.
    tables.sort_by_key(|(rank, ..)| *rank);
    // Of one ingest, the first keys leave first. File numbers do not tell: a rewrite changes them.
    for ingested in tables.chunk_by_mut(|(_, level, table), (_, other_level, other)| {
        level == other_level && are_of_one_ingest(table, other)
    }) {
        ingested.sort_by(|(.., table), (.., other)| table.range().first.cmp(&other.range().first));
    }
    tables.into_iter().map(|(_, number, table)| (number, table)).collect()
}

/// The indexes before which `tables`, oldest first, may be divided into what leaves and what stays,
/// ascending; the last one is their count.
///
/// Tables of level 0 with mixed ages are not divided, such as those of one flush. Those of one
/// ingest have no order among them: they are.
fn cuts(tables: &[(usize, &Arc<OpenReference>)]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut newer: Option<Together> = None;
    for (index, (level, table)) in tables.iter().enumerate().rev() {
        cuts.push(index + 1);
        if *level > 0 {
            continue;
        }
        let age = Together::of(table, index);
        newer = Some(match newer {
            Some(newer) if newer.is_mixed_with(&age) => {
                while cuts.pop_if(|cut| *cut <= newer.first).is_some() {}
                newer.with(&age)
            }
            _ => age,
        });
    }
    cuts.reverse();
    cuts
}

fn are_of_one_ingest(table: &OpenReference, other: &OpenReference) -> bool {
    let sequence = table.reference().global_sequence;
    sequence.is_some() && sequence == other.reference().global_sequence
}

/// Tables of level 0 that leave together.
struct Together {
    oldest: SequenceNumber,
    newest: SequenceNumber,
    /// Whether they are of one ingest.
    are_ingested: bool,
    /// The index of the oldest table.
    first: usize,
}

impl Together {
    fn of(table: &OpenReference, index: usize) -> Together {
        Together {
            oldest: table.sequence_min(),
            newest: table.sequence_max(),
            are_ingested: table.reference().global_sequence.is_some(),
            first: index,
        }
    }

    /// Whether the next older table has newer entries than some of these, or may have: a flush
    /// gives entries of different ages one number (decision 0027).
    fn is_mixed_with(&self, older: &Together) -> bool {
        let are_of_one_ingest = self.are_ingested && older.are_ingested;
        older.newest > self.oldest || older.newest == self.oldest && !are_of_one_ingest
    }

    /// These and the next older table.
    fn with(self, older: &Together) -> Together {
        Together {
            oldest: older.oldest.min(self.oldest),
            newest: self.newest,
            are_ingested: self.are_ingested && older.are_ingested,
            first: older.first,
        }
    }
}

/// Whether all entries of the table are older than `age_ms`. What is of unknown age is not.
fn is_older(table: &OpenReference, age_ms: u64, now_ms: u64) -> bool {
    let newest_ms = table.meta().created_ms;
    newest_ms > 0 && now_ms.saturating_sub(newest_ms) > age_ms
}

/// Whether a snapshot sees something of the table, or a later one might that reads above the
/// retention floor.
fn is_seen(table: &OpenReference, moment: &Moment) -> bool {
    if seeded_fault!("fifo_drops_under_a_snapshot") {
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
    bytes(version) <= bytes_max
        && pick_small(version, options, &Busy::default(), WriteLoad::Idle).is_none()
}

#[cfg(test)]
mod tests;
