//! The tables of one level in their order, and what can be found in them without opening one.
//!
//! It does not know its own number. A level is a *stack* of tables that may overlap (level 0) or a
//! *run* of disjoint ones (all others).

use crate::{
    files::finder::Seek,
    files::open_files::{OpenReference, TableId},
    files::stack::{self, Cluster},
    files::table_sum::TableSum,
};
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    shared_list::{self, Below, SharedList, Summand},
};
use siltdb_disk::table_meta::KeySpan;
use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

/// How the tables of a level lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Newest first; ranges may overlap, and of two that do, all of one is newer than the other.
    Overlapping,
    /// Key order; no two ranges overlap.
    Disjoint,
}

/// Most bytes of the tables of a level: those of all levels can be added without overflow.
const LEVEL_BYTES_MAX: u64 = 1 << 60;

/// New tables of a stack that are compared one by one with those of their age. For more, a sweep
/// over all tables costs less.
const COMPARED_MAX: usize = 32;

/// The tables of a level in order.
pub type Tables<'l> = shared_list::ListIter<'l, Arc<OpenReference>, TableSum>;

/// The tables of one level; immutable. Levels made of each other share what is the same.
///
/// # Invariants
/// 1. In a stack `sequence_max` does not ascend, and the sequence ranges of two tables whose key
///    ranges overlap are disjoint. So a reader may stop at the first version of a key it finds.
/// 2. In a run each range ends before the next begins: a key has one table at most. The sum of the
///    tables then has a finder.
#[derive(Debug)]
pub struct Level {
    order: Order,
    tables: SharedList<Arc<OpenReference>, TableSum>,
    /// Of a stack, once it was asked for.
    shape: OnceLock<StackShape>,
}

/// How the tables of a stack lie to each other.
#[derive(Debug)]
struct StackShape {
    /// In key order.
    clusters: Vec<Cluster>,
    /// The value of [`Level::runs`].
    runs: usize,
}

impl Level {
    /// A level without tables.
    #[must_use]
    pub fn empty(order: Order) -> Self {
        Self::of(order, SharedList::new(Vec::new()))
    }

    fn of(order: Order, tables: SharedList<Arc<OpenReference>, TableSum>) -> Self {
        Self { order, tables, shape: OnceLock::new() }
    }

    /// A level of `tables`, given in any order.
    ///
    /// # Errors
    /// Corruption, if they cannot be ordered as invariant (1) or (2) says, or are too long for any
    /// disk.
    pub fn new(order: Order, tables: Vec<Arc<OpenReference>>) -> Result<Self> {
        Self::empty(order).edited(&[], tables)
    }

    /// This level without the tables at the indexes `removed`, which ascend, and with `added`,
    /// given in any order.
    ///
    /// Cost: about the logarithm of the number of tables for each.
    ///
    /// # Errors
    /// As [`Level::new`].
    pub fn edited(&self, removed: &[usize], mut added: Vec<Arc<OpenReference>>) -> Result<Self> {
        match self.order {
            Order::Overlapping => added.sort_by_key(|table| std::cmp::Reverse(age(table))),
            Order::Disjoint => added.sort_by(|a, b| a.range().first.cmp(&b.range().first)),
        }
        let place = |table: &Arc<OpenReference>| match (self.order, self.is_empty()) {
            (_, true) => 0,
            (Order::Overlapping, _) => self.tables.partition_point(|old| age(old) > age(table)),
            (Order::Disjoint, _) => self.index_reaching(&table.range().first),
        };
        let inserted: Vec<_> =
            added.iter().map(|table| (place(table), Arc::clone(table))).collect();
        let level = Self::of(self.order, self.tables.edited(removed, &inserted));
        if level.bytes() > LEVEL_BYTES_MAX {
            return Err(Error::corruption("the tables of a level are too long"));
        }
        match self.order {
            Order::Overlapping if added.len() <= COMPARED_MAX => {
                added.iter().try_for_each(|table| level.check_age(table))?;
            }
            _ => level.check()?,
        }
        Ok(level)
    }

    /// Looks whether invariant (1) holds of a table of a stack.
    fn check_age(&self, table: &Arc<OpenReference>) -> Result<()> {
        let (oldest, newest) = (table.sequence_min(), table.sequence_max());
        let is_near = |sum: &TableSum| {
            sum.extremes.sequence_min <= newest
                && sum.extremes.sequence_max >= oldest
                && sum.range.as_ref().is_some_and(|range| range.overlaps(table.range()))
        };
        let mut near = self.tables.below(is_near).map(|(_, other)| other);
        let is_mixed = |other: &&Arc<OpenReference>| {
            other.id() != table.id()
                && other.sequence_min() <= newest
                && other.sequence_max() >= oldest
                && other.range().overlaps(table.range())
        };
        near.find(is_mixed).map_or(Ok(()), |other| Err(self.fault(other, table)))
    }

    /// Looks whether the invariants hold.
    ///
    /// # Errors
    /// Corruption, naming two tables that do not go together.
    pub fn check(&self) -> Result<()> {
        let fault = match self.order {
            Order::Disjoint if self.sum().finder.is_some() => None,
            Order::Disjoint => {
                let mut pairs = self.tables().zip(self.tables().skip(1));
                pairs.find(|(table, next)| !table.range().is_before(&next.range().first))
            }
            Order::Overlapping => {
                let tables: Vec<_> = self.tables().to_vec();
                let mixed = stack::mixed_ages(&tables);
                mixed.map(|(newer, older)| (self.table(newer), self.table(older)))
            }
        };
        fault.map_or(Ok(()), |(a, b)| Err(self.fault(a, b)))
    }

    /// Whether the sums that edits have brought up to date are those of the tables.
    ///
    /// Cost: adds up everything anew.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.tables.is_consistent()
    }

    #[cold]
    fn fault(&self, a: &OpenReference, b: &OpenReference) -> Error {
        Error::corruption(match self.order {
            Order::Disjoint => "two tables of a level overlap",
            Order::Overlapping => "two tables of level 0 overlap in keys and sequence numbers",
        })
        .with_mismatch(format!("{a:?}"), format!("{b:?}"))
    }

    /// The tables: newest first in a stack, in key order in a run.
    #[inline]
    #[must_use]
    pub fn tables(&self) -> Tables<'_> {
        self.tables.iter()
    }

    /// The tables in their order, by pieces that lie in one array each.
    #[inline]
    pub fn leaves(&self) -> impl Iterator<Item = &[Arc<OpenReference>]> {
        self.tables.leaves()
    }

    /// The tables at the indexes `range`.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn within(&self, range: Range<usize>) -> Tables<'_> {
        self.tables.range(range)
    }

    /// The table at `index`, if there are so many.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Arc<OpenReference>> {
        self.tables.get(index)
    }

    /// The table at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn table(&self, index: usize) -> &Arc<OpenReference> {
        self.tables.get(index).expect("the index is that of a table")
    }

    /// The tables below nodes of which `may_hold` is true for every sum, with their indexes.
    pub fn below(
        &self,
        may_hold: impl Fn(&TableSum) -> bool,
    ) -> impl Iterator<Item = (usize, &Arc<OpenReference>)> {
        self.tables.below(may_hold)
    }

    /// How the tables lie to each other.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// The number of tables.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is no table.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The sum of all tables.
    #[inline]
    #[must_use]
    pub fn sum(&self) -> &TableSum {
        self.tables.sum()
    }

    /// Bytes of the tables in their files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sum().totals.bytes
    }

    /// Bytes of the tables at the indexes `range`.
    #[must_use]
    pub fn bytes_within(&self, range: Range<usize>) -> u64 {
        self.tables.fold(range, 0, |bytes: u64, added| {
            bytes.saturating_add(match added {
                Summand::One(table) => table.bytes(),
                Summand::Sum(sum) => sum.totals.bytes,
            })
        })
    }

    /// The newest sequence number of the tables at the indexes `range`; zero without one.
    #[must_use]
    pub fn newest_within(&self, range: Range<usize>) -> SequenceNumber {
        self.tables.fold(range, SequenceNumber::ZERO, |newest, added| {
            newest.max(match added {
                Summand::One(table) => table.sequence_max(),
                Summand::Sum(sum) => sum.extremes.sequence_max,
            })
        })
    }

    /// The oldest sequence number of the tables at the indexes `range`; the largest without one.
    #[must_use]
    pub fn oldest_within(&self, range: Range<usize>) -> SequenceNumber {
        self.tables.fold(range, SequenceNumber::MAX, |oldest, added| {
            oldest.min(match added {
                Summand::One(table) => table.sequence_min(),
                Summand::Sum(sum) => sum.extremes.sequence_min,
            })
        })
    }

    /// The index of a table of this level.
    ///
    /// # Panics
    /// If the level has no such table.
    #[must_use]
    pub fn index_of(&self, table: &OpenReference) -> usize {
        let index = match self.order {
            Order::Overlapping => self.tables.partition_point(|other| age(other) > age(table)),
            Order::Disjoint => self.index_reaching(&table.range().first),
        };
        let found = self.tables.get(index).map(|found| found.id());
        assert_eq!(found, Some(table.id()), "a table is not where its order says");
        index
    }

    /// Of a run, the index of the first table that reaches `key` or lies after it.
    #[inline]
    #[must_use]
    pub fn index_reaching(&self, key: &[u8]) -> usize {
        debug_assert_eq!(self.order, Order::Disjoint);
        let (mut node, mut start) = (self.tables.root(), 0);
        loop {
            let Some(finder) = &node.sum().finder else { return start };
            let candidates = finder.candidates(key);
            let first = candidates.start;
            match node.below() {
                Below::Elements(tables) => {
                    let skipped =
                        tables[candidates].partition_point(|table| table.range().is_before(key));
                    return start + first + skipped;
                }
                Below::Nodes(nodes) => {
                    let is_before = |range: &KeySpan| range.is_before(key);
                    let skipped = nodes[candidates]
                        .partition_point(|node| node.sum().range.as_ref().is_some_and(is_before));
                    start += node.elements_before(first + skipped);
                    match nodes.get(first + skipped) {
                        Some(next) => node = next,
                        None => return start,
                    }
                }
            }
        }
    }

    /// Of a run, the one table whose range holds `key`.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<OpenReference>> {
        debug_assert_eq!(self.order, Order::Disjoint);
        let mut node = self.tables.root();
        loop {
            match (node.sum().finder.as_ref()?.find(key), node.below()) {
                (Seek::Within(index), Below::Elements(tables)) => return Some(&tables[index]),
                (Seek::Within(index), Below::Nodes(nodes)) => node = &nodes[index],
                (Seek::Nowhere, _) => return None,
                (Seek::Unclear, _) => {
                    let table = self.tables.get(self.index_reaching(key))?;
                    return (!table.range().is_after(key)).then_some(table);
                }
            }
        }
    }

    /// Of a run, the index of the first table that begins with a key which `is_after` some border.
    #[must_use]
    pub fn index_after(&self, is_after: impl Fn(&[u8]) -> bool) -> usize {
        self.tables.partition_point(|table| !is_after(&table.range().first))
    }

    /// The indexes of the tables that overlap `range`. In a stack also those that overlap one of
    /// these, and so on, so that what is left overlaps nothing that was taken.
    #[must_use]
    pub fn overlapping(&self, range: &KeySpan) -> Vec<usize> {
        match self.order {
            Order::Disjoint => self.overlapping_run(range).collect(),
            Order::Overlapping => {
                let clusters = stack::overlapping(self.clusters(), range).iter();
                let mut indexes: Vec<_> =
                    clusters.flat_map(|cluster| &cluster.tables).copied().collect();
                indexes.sort_unstable();
                indexes
            }
        }
    }

    /// Of a run, the indexes of the tables that overlap `range`.
    #[must_use]
    pub fn overlapping_run(&self, range: &KeySpan) -> Range<usize> {
        let start = self.index_reaching(&range.first);
        let end = self.index_after(|first| range.is_before(first));
        start..end.max(start)
    }

    /// The tables that overlap `range`, in order.
    pub fn overlapped(&self, range: &KeySpan) -> impl Iterator<Item = &Arc<OpenReference>> {
        let is_near =
            move |sum: &TableSum| sum.range.as_ref().is_some_and(|all| all.overlaps(range));
        let near = self.tables.below(is_near).map(|(_, table)| table);
        near.filter(move |table| table.range().overlaps(range))
    }

    fn shape(&self) -> &StackShape {
        self.shape.get_or_init(|| {
            let tables: Vec<_> = self.tables().to_vec();
            let (clusters, runs) =
                (stack::clusters(&tables), stack::runs(tables.iter().map(|table| table.range())));
            let clustered = clusters.iter().map(|cluster| cluster.tables.len()).sum::<usize>();
            assert_eq!(clustered, tables.len(), "a table of level 0 is in no cluster, or in two");
            assert!(runs <= tables.len(), "more runs than tables");
            StackShape { clusters, runs }
        })
    }

    /// Of a stack, the groups of tables that overlap each other and nothing else, in key order.
    ///
    /// Cost: once, the number of tables times its logarithm.
    #[must_use]
    pub fn clusters(&self) -> &[Cluster] {
        match self.order {
            Order::Overlapping => &self.shape().clusters,
            Order::Disjoint => &[],
        }
    }

    /// How many tables a lookup may have to open at one key. For a run that is not empty it is 1.
    /// For a stack it is the number of runs left if neighbours in age that do not overlap were
    /// joined, which costs as [`Level::clusters`].
    #[must_use]
    pub fn runs(&self) -> usize {
        match self.order {
            Order::Overlapping => self.shape().runs,
            Order::Disjoint => usize::from(!self.is_empty()),
        }
    }

    /// Of a stack, the lengths of its *ages*, newest first: every table of one age is newer than
    /// every table of the next. Whatever is merged within the stack takes whole ages.
    #[must_use]
    pub fn ages(&self) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut length = 0;
        let mut oldest = SequenceNumber::MAX;
        let mut tables = self.tables().peekable();
        while let Some(table) = tables.next() {
            oldest = oldest.min(table.sequence_min());
            length += 1;
            if tables.peek().is_none_or(|next| next.sequence_max() < oldest) {
                lengths.push(std::mem::take(&mut length));
            }
        }
        let in_ages: usize = lengths.iter().sum();
        assert_eq!(in_ages, self.count(), "a table of level 0 is in no age");
        lengths
    }
}

/// What the tables of a stack are ordered by, descending.
fn age(table: &OpenReference) -> (SequenceNumber, TableId) {
    (table.sequence_max(), table.id())
}

#[cfg(test)]
mod tests;
