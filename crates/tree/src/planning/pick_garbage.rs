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
    planning::pick_leveled::{is_worth_syncs, limits},
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
    retain::stripes::Stripes,
    strategy::CompactionStrategy,
};
use siltdb_base::{
    checksum::xxh3, cursor::EntryCursor, id::SequenceNumber, limits::LEVELS, seeded_fault,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Entries of a memtable that are looked at, at most, to tell what they replace in tables.
const SEEN_ENTRIES_MAX: u64 = 1 << 16;

/// What an entry with a pointer takes in a table, in bytes: with a short key.
const POINTER_ENTRY_BYTES: u64 = 32;

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
                || is_void(table, moment)
                    && hides_nothing(version, TablePlace { level: number, index }, table, &gone);
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
    if seeded_fault!("drop_covered_table_ignoring_snapshot") {
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

/// Where a table lies in a version.
#[derive(Clone, Copy, Debug)]
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
        Order::Overlapping => &level.tables()[place.index + 1..],
        Order::Disjoint => &[],
    };
    let below = version.levels()[(place.level + 1).min(LEVELS)..].iter();
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

/// What space a table holds: its own bytes, and those of the separated values that it refers to.
pub(crate) fn weight(table: &OpenReference) -> u64 {
    table.bytes().saturating_add(table.meta().blobs.bytes())
}

/// What space the entries of a sampled key hold, by its place in the sketch of its table, in bytes
/// of weight. In a table that does not tell: that of a mean entry.
pub(crate) fn key_weight(table: &OpenReference, place: usize) -> f64 {
    let meta = table.meta();
    match meta.key_sketch.bytes(place) {
        // As they are before compression; the weight is what is stored.
        Some(bytes) => {
            let all = meta.logical_bytes.saturating_add(meta.blobs.bytes()).max(1);
            bytes as f64 * weight(table) as f64 / all as f64
        }
        None => mean_weight(table),
    }
}

/// What space an entry of the table holds on average, in bytes of weight.
pub(crate) fn mean_weight(table: &OpenReference) -> f64 {
    weight(table) as f64 / table.meta().entries.max(1) as f64
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
    let covered = parts.map(|part| part.bytes).sum();
    let garbage = expired + superseded;
    let own = thousandths(garbage, meta.logical_bytes) + thousandths(covered, table.bytes());
    own.max(separated_thousandths(table, garbage))
}

/// What part of a table's weight `garbage_bytes` of its entries hold in blob files, in thousandths,
/// if they are pointers.
fn separated_thousandths(table: &OpenReference, garbage_bytes: u64) -> u64 {
    let part = thousandths(garbage_bytes, pointer_bytes(table)).min(1000);
    let separated = u128::from(table.meta().blobs.bytes()) * u128::from(part);
    (separated / u128::from(weight(table).max(1))) as u64
}

/// About what the pointers of a table take in it, in bytes.
fn pointer_bytes(table: &OpenReference) -> u64 {
    let references = table.meta().blobs.files().iter();
    let pointers: u64 = references.map(|reference| reference.count).sum();
    pointers.saturating_mul(POINTER_ENTRY_BYTES).min(table.meta().logical_bytes)
}

/// Both are below 2^50.
fn thousandths(bytes: u64, all: u64) -> u64 {
    bytes * 1000 / all.max(1)
}

/// Whether what is in `memory` deletes or replaces so much of the tables that it is worth a flush
/// of it, because that goes then. It must be a fair part of all tables, and make up for the syncs
/// of new files. Range tombstones count for the tables that they cover whole, other entries for one
/// entry each, if they lie among the keys of the tables. Such an entry weighs as much as an entry
/// of the tables on average; or as a key of the tables' sketches that memory has, too, if that is
/// more.
///
/// Cost: a look at each table; and at the entries of memtables that might replace that much, up to
/// 65,536 of each.
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
    let (mut all, mut going) = (0, 0);
    for (_, table) in version.tables() {
        all += weight(table);
        going += if goes(table) { weight(table) } else { 0 };
    }
    let is_due = |going: u64| {
        thousandths(going, all) >= wasteful_thousandths(options) && is_worth_syncs(going, options)
    };
    // A snapshot may need what is deleted or replaced.
    let are_seen = !moment.stripes.snapshots().is_empty() || moment.stripes.floor().is_some();
    is_due(going) || !are_seen && is_due(replaced(memory, version, &is_due))
}

/// About what weight of tables the entries in `memory` delete or replace at most, if so much
/// `is_due` that it matters.
fn replaced(memory: &Memtables, version: &Version, is_due: &dyn Fn(u64) -> bool) -> u64 {
    let entries: u64 = memory.tables().iter().map(|table| table.memtable.entries()).sum();
    let keys = SampledKeys::of(version);
    let Some(range) = version.range().filter(|_| is_due(keys.at_most(entries))) else {
        return 0;
    };
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
    /// The weight of the heaviest that was sampled.
    heaviest: f64,
}

impl SampledKeys {
    fn of(version: &Version) -> Self {
        let mut sampled = Self::default();
        for (_, table) in version.tables() {
            let sketch = &table.meta().key_sketch;
            let keys = keys_for_hash(sketch.border());
            for (place, &hash) in sketch.hashes().iter().enumerate() {
                let weight = key_weight(table, place);
                sampled.heaviest = sampled.heaviest.max(weight);
                sampled.by_hash.entry(hash).or_insert(KeyMean { keys, weight: weight * keys });
            }
            let entries = table.meta().entries as f64;
            sampled.mean.merge(KeyMean { keys: entries, weight: weight(table) as f64 });
        }
        sampled.heaviest = sampled.heaviest.max(sampled.mean.weight / sampled.mean.keys.max(1.0));
        sampled
    }

    /// What so many entries replace at most.
    fn at_most(&self, entries: u64) -> u64 {
        (self.heaviest * entries as f64) as u64
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
    version.tables().filter_map(|(_, table)| next(table)).min()
}

#[cfg(test)]
mod tests;
