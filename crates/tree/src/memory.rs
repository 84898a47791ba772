//! The memtables of a tree, newest generation first.
//!
//! It neither creates memtables nor decides when a generation is frozen; a list is immutable and
//! replaced as a whole.

use siltdb_base::{
    cursor::EntryCursor,
    error::Result,
    id::{FamilyId, SequenceNumber},
    slice::Slice,
    sync::lock,
};
use siltdb_disk::table_meta::{KeySpan, RangeEnd};
use siltdb_memtable::{cursor::MemtableCursor, memtable::Memtable};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
};

/// The place of a log segment, and of the memtables written under it, in the order of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// A memtable and the generation it belongs to.
#[derive(Clone)]
pub struct MemoryTable {
    /// The generation; every entry of a younger one has a higher sequence number.
    pub generation: Generation,
    /// The memtable with the entries.
    pub memtable: Arc<Memtable>,
}

/// The memtables of a tree.
///
/// # Invariants
/// 1. Generations descend strictly: a tree has at most one memtable of a generation.
#[derive(Clone, Default)]
pub struct Memtables {
    tables: Vec<MemoryTable>,
}

impl Memtables {
    /// The memtables, newest first.
    #[inline]
    #[must_use]
    pub fn tables(&self) -> &[MemoryTable] {
        &self.tables
    }

    /// The memtable of `generation`; first looks at the newest, which is the one written to.
    #[inline]
    #[must_use]
    pub fn find(&self, generation: Generation) -> Option<&Arc<Memtable>> {
        self.tables
            .iter()
            .find(|table| table.generation <= generation)
            .filter(|table| table.generation == generation)
            .map(|table| &table.memtable)
    }

    /// The oldest generation that has a memtable.
    #[must_use]
    pub fn oldest(&self) -> Option<Generation> {
        self.tables.last().map(|table| table.generation)
    }

    /// The keys from the first to the last of each memtable that has any.
    ///
    /// # Errors
    /// What walking to them fails with.
    pub fn ranges(&self) -> Result<Vec<KeySpan>> {
        let mut ranges = Vec::new();
        for table in &self.tables {
            let mut cursor = table.memtable.cursor();
            let key =
                |cursor: &MemtableCursor| cursor.entry().map(|entry| Slice::copy_from(entry.key));
            cursor.seek_to_first()?;
            let first = key(&cursor);
            cursor.seek_to_last()?;
            if let (Some(first), Some(last)) = (first, key(&cursor)) {
                ranges.push(KeySpan { first, last, end: RangeEnd::Inclusive });
            }
        }
        Ok(ranges)
    }

    /// Whether a memtable of an older generation than `before` has an entry of a key in `range`, or
    /// a range tombstone over one.
    ///
    /// # Errors
    /// What walking to the first such entry fails with.
    pub fn reach_into(&self, range: &KeySpan, before: Generation) -> Result<bool> {
        for table in self.tables.iter().filter(|table| table.generation < before) {
            let mut cursor = table.memtable.cursor();
            cursor.seek(&range.first, SequenceNumber::MAX)?;
            if cursor.entry().is_some_and(|entry| range.contains(entry.key)) {
                return Ok(true);
            }
            for list in table.memtable.tombstone_lists() {
                let fragments = list.as_slice().get(list.index_ending_after(&range.first)..);
                let next = fragments.and_then(|fragments| fragments.first());
                if next.is_some_and(|fragment| !range.is_before(&fragment.start)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The list with a memtable more, in its place: a slow writer may come with an older generation
    /// after a newer one has begun.
    ///
    /// # Panics
    /// If the generation has a memtable already.
    #[must_use]
    pub fn with(&self, generation: Generation, memtable: Arc<Memtable>) -> Self {
        let mut tables = self.tables.clone();
        let index = tables.partition_point(|table| table.generation > generation);
        let occupied = tables.get(index).is_some_and(|table| table.generation == generation);
        assert!(!occupied, "a second memtable of one generation");
        tables.insert(index, MemoryTable { generation, memtable });
        let is_sorted = tables.is_sorted_by(|newer, older| newer.generation > older.generation);
        assert!(is_sorted, "memtables are not in the order of their generations");
        Self { tables }
    }

    /// The list without the memtable of `generation`, which may have none.
    #[must_use]
    pub fn without(&self, generation: Generation) -> Self {
        let rest = self.tables.iter().filter(|table| table.generation != generation);
        let tables: Vec<_> = rest.cloned().collect();
        assert!(tables.len() + 1 >= self.tables.len(), "two memtables of one generation");
        Self { tables }
    }
}

/// Which families have a memtable of a generation, so that a flush need not look at all families.
///
/// # Thread safety
/// Any thread may note and ask. A family is noted before the first entry gets into its memtable.
#[derive(Debug, Default)]
pub struct Holders {
    families: Mutex<BTreeMap<Generation, Vec<FamilyId>>>,
}

impl Holders {
    /// Notes that a family gets a memtable of `generation`.
    pub fn note(&self, generation: Generation, family: FamilyId) {
        let mut families = lock(&self.families);
        let holders = families.entry(generation).or_default();
        assert!(!holders.contains(&family), "{family} has two memtables of one generation");
        holders.push(family);
    }

    /// The families that have a memtable of `generation`, or had one and are gone, ascending.
    #[must_use]
    pub fn of(&self, generation: Generation) -> Vec<FamilyId> {
        let mut families = lock(&self.families).get(&generation).cloned().unwrap_or_default();
        families.sort_unstable();
        families
    }

    /// The families that have a memtable of any generation, or had one and are gone, ascending.
    #[must_use]
    pub fn all(&self) -> BTreeSet<FamilyId> {
        lock(&self.families).values().flatten().copied().collect()
    }

    /// Notes that `generation` has left the memory.
    pub fn forget(&self, generation: Generation) {
        lock(&self.families).remove(&generation);
    }
}

impl fmt::Debug for Memtables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tables.iter().map(|table| table.generation)).finish()
    }
}

#[cfg(test)]
mod tests;
