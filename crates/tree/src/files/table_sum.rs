//! What a node of a level tells of the tables below it, so that what few tables have is found
//! without a look at the others.
//!
//! It judges nothing. A number that depends on snapshots or the time is a bound of what any of them
//! could make of a table.

use crate::files::{finder::Finder, open_files::OpenReference, stretches::Stretches};
use siltdb_base::{id::SequenceNumber, shared_list::Sum};
use siltdb_disk::{
    edit::tier::Tier,
    table_meta::{KeySpan, RangeEnd},
};
use std::sync::Arc;

/// About what a pointer to a separated value takes in a table, in bytes: with a short key.
const POINTER_ENTRY_BYTES: u64 = 32;

/// The sum of some tables of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSum {
    /// What can be counted.
    pub totals: Totals,
    /// The least and the most of what tables have.
    pub extremes: Extremes,
    /// The smallest range that holds every key; `None` without tables.
    pub range: Option<KeySpan>,
    /// Neighbours that are small.
    pub stretches: Stretches,
    /// Which part holds a key, if the parts are in key order and disjoint.
    pub finder: Option<Finder>,
}

/// Counts and bytes of some tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The tables.
    pub tables: usize,
    /// Bytes in table files.
    pub bytes: u64,
    /// The same, with the separated values that the tables refer to.
    pub weight: u64,
    /// Point entries.
    pub entries: u64,
    /// Of these, tombstones.
    pub point_tombstones: u64,
    /// Tables with range tombstones.
    pub with_range_tombstones: usize,
    /// Tables that refer to blob files.
    pub with_blobs: usize,
    /// Tables of the cold tier.
    pub cold: usize,
}

/// The least and the most of what some tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// Bytes of the smallest table.
    pub bytes_min: u64,
    /// The largest weight of a sampled key, or the largest mean weight of the entries of a table,
    /// in bytes.
    pub entry_weight_max: u64,
    /// The oldest sequence number that is seen.
    pub sequence_min: SequenceNumber,
    /// The newest sequence number that is seen.
    pub sequence_max: SequenceNumber,
    /// The largest part of a table that is tombstones of either kind, in percent.
    pub tombstone_percent_max: u64,
    /// The largest part of a table that is range tombstones, in percent.
    pub range_tombstone_percent_max: u64,
    /// The largest part of a table that newer entries of it supersede, if no snapshot needs any, or
    /// that its key slice hides, in thousandths.
    pub superseded_thousandths_max: u64,
    /// When the first of the tables has nothing but tombstones and expired values, in ms since
    /// 1970; `u64::MAX` for never.
    pub void_from_ms: u64,
    /// When the first entry expires, in ms since 1970; `u64::MAX` for never.
    pub expiry_min_ms: u64,
    /// When the last entry expires, in ms since 1970; 0 for never.
    pub expiry_max_ms: u64,
    /// When the newest entry of the oldest table was flushed, in ms since 1970; `u64::MAX` if that
    /// is not known of any table.
    pub created_min_ms: u64,
}

impl Totals {
    fn of(table: &OpenReference) -> Self {
        let meta = table.meta();
        Self {
            tables: 1,
            bytes: table.bytes(),
            weight: weight(table),
            entries: table.entries(),
            point_tombstones: table.seen_part_of(meta.point_tombstones),
            with_range_tombstones: usize::from(table.has_range_tombstones()),
            with_blobs: usize::from(!meta.blobs.is_empty()),
            cold: usize::from(table.reference().tier == Tier::Cold),
        }
    }

    /// These and others.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            tables: self.tables + other.tables,
            bytes: self.bytes.saturating_add(other.bytes),
            weight: self.weight.saturating_add(other.weight),
            entries: self.entries.saturating_add(other.entries),
            point_tombstones: self.point_tombstones.saturating_add(other.point_tombstones),
            with_range_tombstones: self.with_range_tombstones + other.with_range_tombstones,
            with_blobs: self.with_blobs + other.with_blobs,
            cold: self.cold + other.cold,
        }
    }
}

impl Extremes {
    /// Those of no table.
    const NONE: Self = Self {
        bytes_min: u64::MAX,
        entry_weight_max: 0,
        sequence_min: SequenceNumber::MAX,
        sequence_max: SequenceNumber::ZERO,
        tombstone_percent_max: 0,
        range_tombstone_percent_max: 0,
        superseded_thousandths_max: 0,
        void_from_ms: u64::MAX,
        expiry_min_ms: u64::MAX,
        expiry_max_ms: 0,
        created_min_ms: u64::MAX,
    };

    fn of(table: &OpenReference) -> Self {
        let meta = table.meta();
        let all = meta.entries.saturating_add(meta.range_tombstones).max(1);
        let percent = |count: u64| count.saturating_mul(100) / all;
        let tombstones = meta.point_tombstones.saturating_add(meta.range_tombstones);
        let superseded = meta.garbage.superseded().iter();
        let superseded = superseded.fold(0_u64, |sum, bucket| sum.saturating_add(bucket.bytes));
        let hidden = table.file_bytes() - table.bytes();
        let own =
            thousandths(superseded, meta.logical_bytes) + thousandths(hidden, table.file_bytes());
        Self {
            bytes_min: table.bytes(),
            entry_weight_max: entry_weight_max(table),
            sequence_min: table.sequence_min(),
            sequence_max: table.sequence_max(),
            tombstone_percent_max: percent(tombstones),
            range_tombstone_percent_max: percent(meta.range_tombstones),
            superseded_thousandths_max: own.max(separated_thousandths(table, superseded)),
            void_from_ms: void_from_ms(table),
            expiry_min_ms: meta.garbage.expiring().first().map_or(u64::MAX, |first| first.until_ms),
            expiry_max_ms: meta.garbage.expiry_max_ms().unwrap_or(0),
            created_min_ms: if meta.created_ms == 0 { u64::MAX } else { meta.created_ms },
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            bytes_min: self.bytes_min.min(other.bytes_min),
            entry_weight_max: self.entry_weight_max.max(other.entry_weight_max),
            sequence_min: self.sequence_min.min(other.sequence_min),
            sequence_max: self.sequence_max.max(other.sequence_max),
            tombstone_percent_max: self.tombstone_percent_max.max(other.tombstone_percent_max),
            range_tombstone_percent_max: self
                .range_tombstone_percent_max
                .max(other.range_tombstone_percent_max),
            superseded_thousandths_max: self
                .superseded_thousandths_max
                .max(other.superseded_thousandths_max),
            void_from_ms: self.void_from_ms.min(other.void_from_ms),
            expiry_min_ms: self.expiry_min_ms.min(other.expiry_min_ms),
            expiry_max_ms: self.expiry_max_ms.max(other.expiry_max_ms),
            created_min_ms: self.created_min_ms.min(other.created_min_ms),
        }
    }
}

impl Sum<Arc<OpenReference>> for TableSum {
    fn of_elements(tables: &[Arc<OpenReference>]) -> Self {
        let (mut totals, mut extremes) = (Totals::default(), Extremes::NONE);
        for table in tables {
            totals = totals.with(Totals::of(table));
            extremes = extremes.with(Extremes::of(table));
        }
        Self {
            totals,
            extremes,
            range: union_of(tables.iter().map(|table| table.range())),
            stretches: Stretches::of_sizes(tables.iter().map(|table| table.bytes())),
            finder: Finder::of_disjoint(tables.iter().map(|table| table.range())),
        }
    }

    fn of_parts<'s>(parts: impl ExactSizeIterator<Item = &'s Self> + Clone) -> Self {
        let (mut totals, mut extremes) = (Totals::default(), Extremes::NONE);
        for part in parts.clone() {
            totals = totals.with(part.totals);
            extremes = extremes.with(part.extremes);
        }
        let ranges = parts.clone().filter_map(|part| part.range.as_ref());
        let are_runs = parts.clone().all(|part| part.finder.is_some());
        Self {
            totals,
            extremes,
            range: union_of(ranges.clone()),
            stretches: Stretches::of_parts(parts.map(|part| &part.stretches)),
            finder: if are_runs { Finder::of_disjoint(ranges) } else { None },
        }
    }
}

/// The smallest range that holds all of `ranges`.
fn union_of<'r>(ranges: impl Iterator<Item = &'r KeySpan>) -> Option<KeySpan> {
    // Of equal last keys the inclusive one reaches further.
    let reach = |range: &'r KeySpan| (&range.last, range.end == RangeEnd::Inclusive);
    let mut ends: Option<(&KeySpan, &KeySpan)> = None;
    for range in ranges {
        ends = Some(match ends {
            None => (range, range),
            Some((first, last)) => (
                if range.first < first.first { range } else { first },
                if reach(range) > reach(last) { range } else { last },
            ),
        });
    }
    let (first, last) = ends?;
    Some(KeySpan { first: first.first.clone(), last: last.last.clone(), end: last.end })
}

/// About what space is seen through a reference to a table: bytes of the table itself, and of the
/// separated values that it refers to.
#[must_use]
pub fn weight(table: &OpenReference) -> u64 {
    table.bytes().saturating_add(table.seen_part_of(table.meta().blobs.bytes()))
}

/// What space the entries of a sampled key hold, by its place in the sketch of its table, in bytes
/// of weight. In a table that does not tell: that of a mean entry.
#[must_use]
pub fn key_weight(table: &OpenReference, place: usize) -> f64 {
    match table.meta().key_sketch.bytes(place) {
        Some(bytes) => stored_weight(table, bytes),
        None => mean_weight(table),
    }
}

/// What space an entry of the table holds on average, in bytes of weight. Entries that a slice
/// hides hold none, and are in the mean, because a sketch has their keys.
#[must_use]
pub fn mean_weight(table: &OpenReference) -> f64 {
    weight(table) as f64 / table.meta().entries.max(1) as f64
}

/// The weight of so many bytes of keys and values: these are before compression, and the weight is
/// what is stored.
fn stored_weight(table: &OpenReference, bytes: u64) -> f64 {
    let meta = table.meta();
    let all = meta.logical_bytes.saturating_add(meta.blobs.bytes()).max(1);
    bytes as f64 * weight(table) as f64 / all as f64
}

fn entry_weight_max(table: &OpenReference) -> u64 {
    let sketch = &table.meta().key_sketch;
    let most = (0..sketch.hashes().len()).filter_map(|place| sketch.bytes(place)).max();
    let heaviest = stored_weight(table, most.unwrap_or(0));
    heaviest.max(mean_weight(table)).ceil() as u64
}

/// From when on every entry of the table deletes or has expired, in ms since 1970; `u64::MAX` for
/// never.
#[must_use]
pub fn void_from_ms(table: &OpenReference) -> u64 {
    let meta = table.meta();
    match meta.point_tombstones.saturating_add(meta.garbage.expiring_entries()) == meta.entries {
        true => meta.garbage.expiry_max_ms().unwrap_or(0),
        false => u64::MAX,
    }
}

/// What part of a table's weight `garbage_bytes` of its entries hold in blob files, in thousandths,
/// if they are pointers.
#[must_use]
pub fn separated_thousandths(table: &OpenReference, garbage_bytes: u64) -> u64 {
    let part = thousandths(garbage_bytes, pointer_bytes(table)).min(1000);
    let separated = u128::from(table.meta().blobs.bytes()) * u128::from(part);
    (separated / u128::from(weight(table).max(1))) as u64
}

/// About what the pointers of a table take in it, in bytes.
#[must_use]
pub fn pointer_bytes(table: &OpenReference) -> u64 {
    let references = table.meta().blobs.files().iter();
    let pointers: u64 = references.map(|reference| reference.count).sum();
    pointers.saturating_mul(POINTER_ENTRY_BYTES).min(table.meta().logical_bytes)
}

/// What part of `all` are `bytes`, in thousandths. Both are mostly below 2^50.
#[must_use]
pub fn thousandths(bytes: u64, all: u64) -> u64 {
    bytes.saturating_mul(1000) / all.max(1)
}
