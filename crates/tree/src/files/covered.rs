//! What range tombstones cover of the tables below them: all of a table, or some of its blocks.
//!
//! It chooses nothing, and reads no data block. What it says of a table stays true as long as the
//! table is there. A range tombstone goes only when nothing deeper has keys in its range.

use crate::{
    files::key_slice::seen_tombstones,
    files::open_files::{OpenReference, TableId},
    files::table_sum::TableSum,
    files::version::Version,
};
use siltdb_base::{
    error::Result,
    id::SequenceNumber,
    limits::LEVELS,
    tombstone::{Fragments, RangeTombstone},
};
use siltdb_disk::table_meta::{KeySpan, RangeEnd};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

/// Parts of a table that are told apart by the sequence numbers that cover them.
const PARTS_MAX: usize = 16;

/// Bytes of range tombstones that stay in memory; more are read again when the version changes.
const TOMBSTONE_BYTES_MAX: usize = 4 << 20;

/// The index of a table is read again once its new range tombstones are at least one for this many
/// known at the last reading. So it is read a few times, however many come one by one.
const REREAD_PART: usize = 4;

/// Blocks of a table that range tombstones cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveredPart {
    /// No snapshot at or after this one sees any of them.
    pub to: SequenceNumber,
    /// Their length, in bytes.
    pub bytes: u64,
}

/// What range tombstones cover of one table.
#[derive(Debug, Default)]
pub struct CoveredTable {
    /// The tables whose range tombstones overlap it.
    by: Vec<TableId>,
    whole: Option<SequenceNumber>,
    parts: Vec<CoveredPart>,
    /// Range tombstones over it when its index was read, and the newest of them.
    known: (usize, SequenceNumber),
    /// Those over it now, if its index is to be read.
    unread: Option<Fragments>,
}

impl CoveredTable {
    /// No snapshot at or after this one sees anything of the table; `None` if that is not known.
    #[must_use]
    pub fn whole(&self) -> Option<SequenceNumber> {
        self.whole
    }

    /// What is known of its blocks, if not all of it is covered.
    #[must_use]
    pub fn parts(&self) -> &[CoveredPart] {
        &self.parts
    }

    /// Takes note of `over`, the range tombstones over the table.
    fn cover(&mut self, table: &OpenReference, over: &[RangeTombstone]) {
        let fragments = Fragments::new(over);
        self.whole = covered_whole(&fragments, table);
        let (known, newest) = self.known;
        let fresh = over.iter().filter(|tombstone| tombstone.sequence > newest).count();
        let is_worth_reading = fresh > 0 && fresh >= known / REREAD_PART;
        // Sequence numbers in an index are those of the whole table.
        if self.whole.is_none() && is_worth_reading && table.is_whole() {
            self.unread = Some(fragments);
        }
    }

    /// Reads the index of the table, which has `fragments` over it.
    fn read_index(&mut self, table: &OpenReference, fragments: &Fragments) -> Result<()> {
        let newest = |index| fragments.newest_visible(index, SequenceNumber::MAX);
        let count = fragments.as_slice().len();
        self.known = (count, (0..count).filter_map(newest).max().unwrap_or_default());
        let mut parts: BTreeMap<SequenceNumber, u64> = BTreeMap::new();
        let table = table.pass()?;
        let mut blocks = table.blocks()?;
        while let Some(block) = blocks.block() {
            let (first, last, newest) = (block.first_key, block.last_key, block.sequence_max);
            if let Some(to) = covered_to(fragments, first, last, RangeEnd::Inclusive, newest) {
                *parts.entry(to).or_insert(0) += block.bytes;
            }
            blocks.advance()?;
        }
        let parts: Vec<_> =
            parts.into_iter().map(|(to, bytes)| CoveredPart { to, bytes }).collect();
        let joined =
            parts.chunks(parts.len().div_ceil(PARTS_MAX).max(1)).map(|parts| CoveredPart {
                to: parts.iter().map(|part| part.to).max().unwrap_or_default(),
                bytes: parts.iter().map(|part| part.bytes).sum(),
            });
        self.parts = joined.collect();
        Ok(())
    }
}

/// A snapshot at or after the number returned sees nothing of `table`, because `tombstones` newer
/// than it cover it. `None` if they do not cover all of it.
#[must_use]
pub fn covered_whole(tombstones: &Fragments, table: &OpenReference) -> Option<SequenceNumber> {
    let KeySpan { first, last, end } = table.range();
    covered_to(tombstones, first, last, *end, table.sequence_max())
}

/// The smallest snapshot that sees, at every key from `first` to `last`, a tombstone newer than
/// `newest`. `None` if a key has none.
fn covered_to(
    fragments: &Fragments,
    first: &[u8],
    last: &[u8],
    end: RangeEnd,
    newest: SequenceNumber,
) -> Option<SequenceNumber> {
    let (mut reached, mut to) = (first, SequenceNumber::ZERO);
    let mut index = fragments.index_ending_after(first);
    loop {
        let fragment = fragments.as_slice().get(index)?;
        if fragment.start.as_bytes() > reached {
            return None;
        }
        let newer = fragments.sequences(index).into_iter().filter(|&sequence| sequence > newest);
        to = to.max(newer.min()?);
        reached = &fragment.end;
        let is_done = match end {
            RangeEnd::Inclusive => reached > last,
            RangeEnd::Exclusive => reached >= last,
        };
        if is_done {
            return Some(to);
        }
        index += 1;
    }
}

/// The range tombstones that are seen of a table through its key slice. A merge that takes keys
/// away from the table takes its range tombstones over them, too.
#[derive(Debug)]
struct SeenTombstones {
    slice: Option<KeySpan>,
    fragments: Arc<Fragments>,
}

/// What range tombstones cover of the tables of a tree.
#[derive(Debug, Default)]
pub struct Covered {
    /// The version that was looked at last.
    version: Weak<Version>,
    /// The range tombstones of the tables that have some, or nothing, if they are many.
    tombstones: HashMap<TableId, SeenTombstones>,
    tables: HashMap<TableId, CoveredTable>,
}

impl Covered {
    /// What is known of a table that something covers.
    #[must_use]
    pub fn of(&self, table: TableId) -> Option<&CoveredTable> {
        self.tables.get(&table)
    }

    /// Takes note of another version.
    ///
    /// Cost: nothing, if it is the one that was looked at last. Else a look at each table that
    /// range tombstones reach into, and three reads for each that is new and has some.
    pub fn follow(&mut self, version: &Arc<Version>) {
        if std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version)) {
            return;
        }
        self.version = Arc::downgrade(version);
        self.read_tombstones(version);
        if self.tombstones.is_empty() {
            self.tables.clear();
            return;
        }
        self.tables.retain(|id, _| version.find(*id).is_some());
        for (level, table) in self.reached(version) {
            let above = self.above(version, level, table);
            if above.is_empty() {
                continue;
            }
            let by: Vec<TableId> = above.iter().map(|other| other.id()).collect();
            if self.of(table.id()).is_some_and(|covered| covered.by == by) {
                continue;
            }
            let over: Vec<_> = above
                .iter()
                .filter_map(|other| self.tombstones.get(&other.id()))
                .flat_map(|tombstones| over_table(&tombstones.fragments, table))
                .collect();
            let covered = self.tables.entry(table.id()).or_default();
            covered.by = by;
            covered.cover(table, &over);
        }
        self.keep_bound(TOMBSTONE_BYTES_MAX);
    }

    /// The tables that range tombstones reach into, with their levels' numbers.
    fn reached<'v>(&self, version: &'v Version) -> Vec<(usize, &'v Arc<OpenReference>)> {
        let mut reached = BTreeMap::new();
        for (number, over) in version.with_range_tombstones() {
            let Some(span) =
                self.tombstones.get(&over.id()).and_then(|all| span_of(&all.fragments))
            else {
                continue;
            };
            for (level, tables) in version.levels().iter().enumerate().skip(number) {
                let over =
                    |sum: &TableSum| sum.range.as_ref().is_some_and(|all| all.overlaps(&span));
                let within = tables.below(over).map(|(_, table)| table);
                let within = within.filter(|table| table.range().overlaps(&span));
                reached.extend(within.map(|table| (table.id(), (level, table))));
            }
        }
        reached.into_values().collect()
    }

    /// Forgets the range tombstones if they take more than this. What was found out stays.
    fn keep_bound(&mut self, bytes_max: usize) {
        let seen = self.tombstones.values();
        let bytes = seen.map(|tombstones| tombstones.fragments.memory_bytes());
        if bytes.sum::<usize>() > bytes_max {
            self.tombstones.clear();
        }
    }

    /// Reads the range tombstones of new tables, and forgets those of tables that are gone.
    fn read_tombstones(&mut self, version: &Version) {
        let mut before = std::mem::take(&mut self.tombstones);
        for (_, table) in version.with_range_tombstones() {
            let slice = &table.reference().key_slice;
            let read = || -> Result<SeenTombstones> {
                let fragments = Arc::clone(table.seen_of(table.pass()?.tombstones()));
                Ok(SeenTombstones { slice: slice.clone(), fragments })
            };
            let known = before.remove(&table.id()).map(|known| match known.slice == *slice {
                true => known,
                // A slice only narrows, so that what is cut from the one before is all of it.
                false => {
                    let cut = seen_tombstones(table.reference(), &known.fragments);
                    SeenTombstones { slice: slice.clone(), fragments: Arc::new(cut) }
                }
            });
            // A damaged table covers nothing; the job that merges it says what is wrong.
            if let Some(tombstones) = known.or_else(|| read().ok()) {
                self.tombstones.insert(table.id(), tombstones);
            }
        }
    }

    /// The tables whose range tombstones may cover entries of `table`: those above it, and itself.
    fn above<'v>(
        &self,
        version: &'v Version,
        number: usize,
        table: &'v Arc<OpenReference>,
    ) -> Vec<&'v Arc<OpenReference>> {
        let mut above = Vec::new();
        for level in &version.levels()[..=number.min(LEVELS - 1)] {
            let range = table.range();
            let may_hide = |sum: &TableSum| {
                sum.totals.with_range_tombstones > 0
                    && sum.range.as_ref().is_some_and(|all| all.overlaps(range))
            };
            let tables = level.below(may_hide).map(|(_, other)| other);
            above.extend(tables.filter(|other| {
                self.tombstones.contains_key(&other.id())
                    && other.range().overlaps(range)
                    && other.sequence_max() > table.sequence_min()
            }));
        }
        above
    }

    /// The tables that something covers in whole or in part.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        let covered = self.tables.iter();
        let covered = covered.filter(|(_, of)| of.whole.is_some() || !of.parts.is_empty());
        covered.map(|(id, _)| *id)
    }

    /// Whether there is a table whose index is to be read.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        self.tables.values().any(|covered| covered.unread.is_some())
    }

    /// Reads the index of one table that range tombstones cover in part and whose index is due to
    /// be read. Says whether there was one.
    pub fn read_index(&mut self, version: &Version) -> bool {
        let unread = self.tables.iter().filter(|(_, covered)| covered.unread.is_some());
        let unread = unread.filter_map(|(id, _)| version.find(*id));
        let Some((_, table)) = unread.min_by_key(|(_, table)| table.id()) else { return false };
        if let Some(covered) = self.tables.get_mut(&table.id())
            && let Some(fragments) = covered.unread.take()
        {
            // As above: what is damaged is left as it is.
            let _ = covered.read_index(table, &fragments);
        }
        true
    }
}

/// The range from the first key of some range tombstones to the last; `None` without any.
#[must_use]
pub fn span_of(tombstones: &Fragments) -> Option<KeySpan> {
    let all = tombstones.as_slice();
    let (first, last) = (all.first()?.start.clone(), all.last()?.end.clone());
    Some(KeySpan { first, last, end: RangeEnd::Exclusive })
}

/// One tombstone of each fragment of `tombstones` that overlaps `table`. It is the one that hides
/// all of the table from most snapshots, or the newest if none hides all.
fn over_table(tombstones: &Fragments, table: &OpenReference) -> Vec<RangeTombstone> {
    let range = table.range();
    let first = tombstones.index_ending_after(&range.first);
    let fragments = tombstones.as_slice().iter().enumerate().skip(first);
    let over = fragments.take_while(|(_, fragment)| !range.is_before(&fragment.start));
    over.filter_map(|(index, fragment)| {
        let sequences = tombstones.sequences(index);
        let hides_all = |sequence: &&SequenceNumber| **sequence > table.sequence_max();
        let sequence = *sequences.iter().rev().find(hides_all).or(sequences.first())?;
        Some(RangeTombstone { start: fragment.start.clone(), end: fragment.end.clone(), sequence })
    })
    .collect()
}

#[cfg(test)]
mod tests;
