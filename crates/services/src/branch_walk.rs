//! Walks over several families at one moment, key by key, so that what they hold can be compared.
//!
//! It decides nothing about differences.
//!
//! 1. The readers of all families are pinned, then the time is taken. From then on it stands still
//!    for the walk, so that nothing expires in one family before it does in another.
//! 2. Where two families share a table and nothing else has keys of its range, they are equal.
//!    These two families are walked only within the ranges of tables and memtables that one of
//!    them has alone.

use siltdb_base::error::Result;
use siltdb_disk::{
    edit::TableReference,
    table_meta::{KeySpan, RangeEnd},
};
use siltdb_engine::{
    catalog::family::FamilyData,
    database::read_rooms::ReadRooms,
    read::{PinnedReader, ReadCursor},
    snapshots::read_point::ReadPoint,
};
use siltdb_tree::read::{view::View, visible::bounds::Bounds};
use std::{collections::BTreeMap, sync::Arc, vec};

/// Most ranges of a walk. More are walked as one, because each costs new cursors.
const RANGES_MAX: usize = 1024;

/// A value as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenValue<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// When it expires, in ms since 1970.
    pub expiry_ms: Option<u64>,
}

/// A walk over `N` families, of which the first two are compared: keys at which these are certainly
/// equal may be left out.
#[derive(Debug)]
pub struct BranchWalk<const N: usize> {
    readers: [PinnedReader; N],
    /// The ranges left, in order.
    ranges: vec::IntoIter<KeySpan>,
    cursors: Option<[ReadCursor; N]>,
    /// The present key.
    key: Vec<u8>,
    /// Which cursors stand at it.
    is_at: [bool; N],
}

impl<const N: usize> BranchWalk<N> {
    /// A walk over `families` at `point`, which a live snapshot must hold.
    ///
    /// # Errors
    /// `Closed`; failures of reading.
    pub fn new(
        reading: &ReadRooms<'_>,
        families: [&FamilyData; N],
        point: &ReadPoint,
    ) -> Result<Self> {
        assert!(N >= 2, "a walk over {N} families compares nothing");
        let mut pinned = Vec::with_capacity(N);
        for family in families {
            pinned.push(PinnedReader::new(reading, family, Some(point))?);
        }
        let ranges = match &pinned[..] {
            [first, second, ..] => ranges_that_differ(first.view(), second.view())?,
            _ => Vec::new(),
        };
        let mut pinned = pinned.into_iter();
        let readers = std::array::from_fn(|_| pinned.next().expect("there is one for each family"));
        let (ranges, key) = (ranges.into_iter(), Vec::new());
        Ok(Self { readers, ranges, cursors: None, key, is_at: [false; N] })
    }

    /// Goes to the next key that one of the families has. Returns whether there is one.
    ///
    /// # Errors
    /// Failures of reading. The walk must not go on then.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            if self.cursors.is_none() && !self.enter_range()? {
                return Ok(false);
            }
            let Some(cursors) = &mut self.cursors else { return Ok(false) };
            for (cursor, is_at) in cursors.iter_mut().zip(&mut self.is_at) {
                if std::mem::take(is_at) {
                    cursor.next()?;
                }
            }
            let Some(least) = cursors.iter().filter_map(|cursor| cursor.key()).min() else {
                self.cursors = None;
                continue;
            };
            assert!(self.key.is_empty() || *self.key < *least, "a walk goes back to {least:?}");
            self.key.clear();
            self.key.extend_from_slice(least);
            for (cursor, is_at) in cursors.iter().zip(&mut self.is_at) {
                *is_at = cursor.key() == Some(&self.key[..]);
            }
            return Ok(true);
        }
    }

    /// The present key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The values of the present key.
    ///
    /// # Errors
    /// Corruption.
    pub fn values(&self) -> Result<[Option<SeenValue<'_>>; N]> {
        let mut values = [None; N];
        let cursors = self.cursors.iter().flatten();
        for ((cursor, is_at), value) in cursors.zip(self.is_at).zip(&mut values) {
            if let (true, Some(bytes)) = (is_at, cursor.value()) {
                *value = Some(SeenValue { bytes, expiry_ms: cursor.expiry_ms()? });
            }
        }
        Ok(values)
    }

    /// Opens cursors at the beginning of the next range. Returns whether there is one.
    fn enter_range(&mut self) -> Result<bool> {
        let Some(range) = self.ranges.next() else { return Ok(false) };
        let bounds = bounds_of(range);
        let mut opened = Vec::with_capacity(N);
        for reader in &self.readers {
            let mut cursor = reader.cursor_within(bounds.clone())?;
            cursor.seek_to_first()?;
            opened.push(cursor);
        }
        let mut opened = opened.into_iter();
        let next = |_| opened.next().expect("there is one for each reader");
        self.cursors = Some(std::array::from_fn(next));
        Ok(true)
    }
}

fn bounds_of(range: KeySpan) -> Bounds {
    let upper = range.end_key();
    Bounds { lower: Some(range.first), upper: Some(upper) }
}

/// The ranges outside of which two views certainly hold the same: those of what one of them has
/// alone. They are in order and do not overlap.
fn ranges_that_differ(first: &View, second: &View) -> Result<Vec<KeySpan>> {
    let mut ranges = Vec::new();
    for (view, other) in [(first, second), (second, first)] {
        ranges.extend(view.memory.ranges()?);
        for table in view.memory.tables() {
            let tombstones = table.memtable.tombstones();
            ranges.extend(tombstones.as_slice().iter().map(|fragment| KeySpan {
                first: fragment.start.clone(),
                last: fragment.end.clone(),
                end: RangeEnd::Exclusive,
            }));
        }
        let place = |table: &TableReference| (table.file, table.offset);
        let others = other.version.references().map(|(_, table)| (place(table), table));
        let others: BTreeMap<_, _> = others.collect();
        let is_shared = |table: &Arc<TableReference>| others.get(&place(table)) == Some(&table);
        let alone = view.version.references().filter(|(_, table)| !is_shared(table));
        ranges.extend(alone.map(|(_, table)| table.meta.range.clone()));
    }
    Ok(joined(ranges))
}

/// The same ranges in order, with those that overlap joined.
fn joined(mut ranges: Vec<KeySpan>) -> Vec<KeySpan> {
    ranges.sort_by(|a, b| a.first.cmp(&b.first));
    let mut joined: Vec<KeySpan> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.overlaps(&range) => *last = last.union(&range),
            _ => joined.push(range),
        }
    }
    let are_apart = joined.is_sorted_by(|a, b| a.is_before(&b.first));
    assert!(are_apart, "the ranges of a walk overlap: {joined:?}");
    if joined.len() > RANGES_MAX {
        let all = joined.into_iter().reduce(|all, range| all.union(&range));
        return all.into_iter().collect();
    }
    joined
}

#[cfg(test)]
mod tests;
