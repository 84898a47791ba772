//! Chooses what is done for the sake of space alone: tables that go unread, and tables that are
//! rewritten where they are.
//!
//! It is pure, as the other pickers are. Tables that no reader can see anything of any more are
//! removed by an edit (*delete-only compaction*). Of the others, those are rewritten that would
//! become smaller by a fair part. Garbage is expired entries, versions that no snapshot needs any
//! more, and what range tombstones cover. All three are known from summaries and [`Covered`]. Never
//! more is claimed than a rewrite frees, so a table is not picked twice for the same bytes.

use crate::{
    files::covered::{Covered, covered_whole, span_of},
    files::level::Order,
    files::open_files::{OpenReference, TableId},
    files::table_sum::{
        TableSum, key_weight, pointer_bytes, separated_thousandths, thousandths, void_from_ms,
        weight,
    },
    files::version::Version,
    memory::Memtables,
    options::TreeOptions,
    planning::pick_leveled::{is_worth_syncs, limits},
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
    retain::stripes::Stripes,
    strategy::CompactionStrategy,
};
use siltdb_base::{
    checksum::xxh3, cursor::EntryCursor, id::SequenceNumber, limits::LEVELS, seeded_fault,
};
use siltdb_disk::table_meta::KeySpan;
use std::{
    cell::Cell,
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

/// Entries of a memtable that are looked at, at most, to tell what they replace in tables.
const SEEN_ENTRIES_MAX: u64 = 1 << 16;

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
pub(crate) fn wasteful_thousandths(options: &TreeOptions) -> u64 {
    u64::from(options.garbage_percent_trigger) * 10
}

/// The removal of all tables that no reader can see anything of, and that no running plan takes;
/// `None` if there is none.
///
/// Either range tombstones above a table cover all of it, and no snapshot sees some of it and not
/// these. Or it has nothing but tombstones and expired values, and nothing that stays lies deeper
/// for these to hide.
///
/// Cost: a look at each table that is covered, or has only tombstones and expired values; no IO.
#[must_use]
pub fn pick_drop(
    version: &Version,
    covered: &Covered,
    busy: &Busy,
    moment: &Moment,
) -> Option<Plan> {
    let may_be_void = |sum: &TableSum| sum.extremes.void_from_ms <= moment.now_ms;
    let candidates = candidates(version, covered, may_be_void);
    let mut gone = HashSet::new();
    let mut inputs: Vec<PlanInput> =
        (0..LEVELS).map(|level| PlanInput { level, tables: Vec::new() }).collect();
    // The deepest first: what lies over tables that go may go with them.
    for (place, table) in candidates.into_iter().rev() {
        let is_unseen = is_covered(table, covered, moment)
            || void_from_ms(table) <= moment.now_ms && hides_nothing(version, place, table, &gone);
        if is_unseen && !busy.holds(table.id()) {
            gone.insert(table.id());
            inputs[place.level].tables.push(Arc::clone(table));
        }
    }
    inputs.iter_mut().for_each(|input| input.tables.reverse());
    let deepest = inputs.iter().rev().find(|input| !input.tables.is_empty())?.level;
    Some(Plan::new(PlanKind::DeleteOnly, Reason::Garbage, inputs, deepest))
}

fn is_covered(table: &OpenReference, covered: &Covered, moment: &Moment) -> bool {
    let whole = covered.of(table.id()).and_then(|covered| covered.whole());
    if seeded_fault!("drop_covered_table_ignoring_snapshot") {
        return whole.is_some();
    }
    whole.is_some_and(|to| !moment.stripes.separate(table.sequence_min(), to))
}

/// The tables that something covers, and those below nodes of which `may_hold` is true for every
/// sum, in the order of the version.
fn candidates<'v>(
    version: &'v Version,
    covered: &Covered,
    may_hold: impl Fn(&TableSum) -> bool,
) -> BTreeMap<TablePlace, &'v Arc<OpenReference>> {
    let mut candidates = BTreeMap::new();
    for (level, tables) in version.levels().iter().enumerate() {
        let found = tables.below(&may_hold);
        candidates.extend(found.map(|(index, table)| (TablePlace { level, index }, table)));
    }
    for (level, table) in covered.tables().filter_map(|id| version.find(id)) {
        let index = version.levels()[level].index_of(table);
        candidates.insert(TablePlace { level, index }, table);
    }
    candidates
}

/// Where a table lies in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TablePlace {
    /// The number of its level.
    level: usize,
    /// Its place among the tables of the level.
    index: usize,
}

/// Whether all tables that are deeper than this one and overlap it are among those that are `gone`.
fn hides_nothing(
    version: &Version,
    place: TablePlace,
    table: &OpenReference,
    gone: &HashSet<TableId>,
) -> bool {
    let level = &version.levels()[place.level];
    let older = match level.order() {
        Order::Overlapping => level.within(place.index + 1..level.count()),
        Order::Disjoint => level.within(0..0),
    };
    let below = version.levels()[(place.level + 1).min(LEVELS)..].iter();
    let below = below.flat_map(|level| level.within(level.overlapping_run(table.range())));
    older
        .filter(|older| older.range().overlaps(table.range()))
        .chain(below)
        .all(|deeper| gone.contains(&deeper.id()))
}

/// The rewrite of a table that is garbage for a fair part, together with such neighbours. `None` if
/// there is none, or all are taken by running plans. Tables of a FIFO family leave as they are.
///
/// Cost: a look at each table that may be garbage for such a part; no IO.
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
    let may_be_wasteful = |sum: &TableSum| {
        sum.extremes.superseded_thousandths_max >= wasteful_thousandths(options)
            || sum.extremes.expiry_min_ms <= moment.now_ms
    };
    let mut candidates: Vec<_> =
        candidates(version, covered, may_be_wasteful).into_iter().collect();
    candidates.sort_by_key(|(place, _)| (Reverse(place.level), place.index));
    candidates.into_iter().find_map(|(place, table)| {
        if !is_wasteful(table) {
            return None;
        }
        let level = &version.levels()[place.level];
        // A table of level 0 becomes one that is neither newer nor older; several might not.
        let most = if level.order() == Order::Overlapping { 1 } else { usize::MAX };
        let mut bytes = 0;
        let tables = level.within(place.index..level.count()).take(most);
        let together = tables.take_while(|table| {
            let fits = bytes == 0 || bytes + table.bytes() <= bytes_max;
            bytes += table.bytes();
            fits && is_wasteful(table)
        });
        let inputs = vec![PlanInput { level: place.level, tables: together.cloned().collect() }];
        let plan = Plan::new(PlanKind::Rewrite, Reason::Garbage, inputs, place.level);
        (!busy.conflicts(&plan)).then_some(plan)
    })
}

/// So many keys a hash of a sample stands for that has all hashes up to `border`.
pub(crate) fn keys_for_hash(border: u64) -> f64 {
    u64::MAX as f64 / border.max(1) as f64
}

/// What part of the table a rewrite would leave out, in thousandths: at least so much of the table
/// itself, or about so much of what it weighs. After a rewrite nothing of either is left.
pub(crate) fn garbage_thousandths(
    table: &OpenReference,
    covered: &Covered,
    moment: &Moment,
) -> u64 {
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
    let covered: u64 = parts.map(|part| part.bytes).sum();
    let garbage = expired + superseded;
    // A merge that was cancelled leaves keys behind that its reference does not show.
    let hidden = table.file_bytes() - table.bytes();
    let unseen = thousandths(covered + hidden, table.file_bytes());
    let own = thousandths(garbage, meta.logical_bytes) + unseen;
    own.max(separated_thousandths(table, garbage))
}

/// Whether what is in `memory` deletes or replaces so much of the tables that it is worth a flush
/// of it, because that goes then. It must be a fair part of all tables, and make up for the syncs
/// of new files. Range tombstones count for the tables that they cover whole, other entries for one
/// entry each, if they lie among the keys of the tables. Such an entry weighs as much as an entry
/// of the tables on average; or as a key of the tables' sketches that memory has, too, if that is
/// more.
///
/// Cost: a look at each table among the keys of range tombstones in memory. If entries in memory
/// might replace that much, one at each table, and at up to 65,536 entries of each memtable.
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
    let all = version.totals().weight;
    let spans: Vec<KeySpan> =
        tombstones.iter().filter_map(|tombstones| span_of(tombstones)).collect();
    let is_near = |sum: &TableSum| {
        sum.range.as_ref().is_some_and(|range| spans.iter().any(|span| span.overlaps(range)))
    };
    let near = version.below(&is_near).map(|(_, table)| table);
    let going: u64 = near.filter(|table| goes(table)).map(|table| weight(table)).sum();
    let is_due = |going: u64| {
        thousandths(going, all) >= wasteful_thousandths(options)
            && is_worth_syncs(going, options.base_level_bytes)
    };
    // A snapshot may need what is deleted or replaced.
    let are_seen = !moment.stripes.snapshots().is_empty() || moment.stripes.floor().is_some();
    is_due(going) || !are_seen && is_due(replaced(memory, version, &is_due))
}

/// About what weight of tables the entries in `memory` delete or replace at most, if so much
/// `is_due` that it matters.
fn replaced(memory: &Memtables, version: &Version, is_due: &dyn Fn(u64) -> bool) -> u64 {
    let entries: u64 = memory.tables().iter().map(|table| table.memtable.entries()).sum();
    let at_most = entries.saturating_mul(version.entry_weight_max());
    let Some(range) = version.range().filter(|_| is_due(at_most)) else { return 0 };
    let keys = SampledKeys::of(version);
    let (mut replaced, mut shared) = (0, KeyMean::default());
    for table in memory.tables() {
        let (mut cursor, mut seen, mut within) = (table.memtable.cursor(), 0, 0);
        // A memtable that cannot be read replaces nothing here; its flush says what is wrong.
        let mut go_on = cursor.seek_to_first();
        while let (Ok(()), Some(entry)) = (&go_on, cursor.entry()) {
            if range.contains(entry.key) {
                within += 1;
                shared.merge(keys.find(entry.key));
            }
            seen += 1;
            if seen == SEEN_ENTRIES_MAX {
                break;
            }
            go_on = cursor.next();
        }
        replaced += table.memtable.entries() * within / u64::max(seen, 1);
    }
    // Few or none may be sampled of those that weigh most.
    shared.weight_of(replaced).max(keys.mean.weight_of(replaced))
}

/// Keys, and what they weigh together.
#[derive(Clone, Copy, Debug, Default)]
struct KeyMean {
    keys: f64,
    weight: f64,
}

impl KeyMean {
    fn merge(&mut self, other: Self) {
        self.keys += other.keys;
        self.weight += other.weight;
    }

    /// The weight of so many such keys.
    fn weight_of(self, keys: u64) -> u64 {
        (self.weight / self.keys.max(1.0) * keys as f64) as u64
    }
}

/// The keys of the sketches of all tables.
#[derive(Debug, Default)]
struct SampledKeys {
    /// What the newest key of each hash stands for.
    by_hash: HashMap<u64, KeyMean>,
    /// All keys of the tables.
    mean: KeyMean,
}

impl SampledKeys {
    fn of(version: &Version) -> Self {
        let mut sampled = Self::default();
        for (_, table) in version.tables() {
            let sketch = &table.meta().key_sketch;
            let keys = keys_for_hash(sketch.border());
            for (place, &hash) in sketch.hashes().iter().enumerate() {
                let weight = key_weight(table, place);
                sampled.by_hash.entry(hash).or_insert(KeyMean { keys, weight: weight * keys });
            }
            let entries = table.entries() as f64;
            sampled.mean.merge(KeyMean { keys: entries, weight: weight(table) as f64 });
        }
        sampled
    }

    /// What the key stands for, if it was sampled.
    fn find(&self, key: &[u8]) -> KeyMean {
        self.by_hash.get(&xxh3(key)).copied().unwrap_or_default()
    }
}

/// When there may be more garbage by time alone, in ms since 1970. It is the next moment after
/// `now_ms` at which a table has expired as a whole, or for a part that calls for a rewrite. `None`
/// if there is none.
#[must_use]
pub fn next_expiry_ms(version: &Version, options: &TreeOptions, now_ms: u64) -> Option<u64> {
    let next = |table: &Arc<OpenReference>| {
        let meta = table.meta();
        let counted = match meta.blobs.is_empty() {
            true => meta.logical_bytes,
            false => pointer_bytes(table),
        };
        let (mut bytes, due) = (0, counted * wasteful_thousandths(options) / 1000);
        let part = meta.garbage.expiring().iter().find(|bucket| {
            bytes += bucket.bytes;
            bytes >= due && bucket.until_ms > now_ms
        });
        let whole = meta.garbage.expiry_max_ms().filter(|&last| last > now_ms);
        part.map(|bucket| bucket.until_ms).into_iter().chain(whole).min()
    };
    // When the next of a table is at the earliest: some of it expires then.
    let earliest = |sum: &TableSum| match sum.extremes.expiry_max_ms > now_ms {
        true => sum.extremes.expiry_min_ms.max(now_ms),
        false => u64::MAX,
    };
    let soonest = Cell::new(u64::MAX);
    let may_be_sooner = |sum: &TableSum| earliest(sum) < soonest.get();
    for (_, table) in version.below(&may_be_sooner) {
        soonest.set(next(table).map_or(soonest.get(), |next| next.min(soonest.get())));
    }
    assert!(soonest.get() > now_ms, "the next expiry is over, and would be waited for again");
    (soonest.get() < u64::MAX).then_some(soonest.get())
}

#[cfg(test)]
mod tests;
