//! The tables of one level in their order, and what can be found in them without opening one.
//!
//! It does not know its own number. A level is a *stack* of tables that may overlap (level 0) or a
//! *run* of disjoint ones (all others).

use crate::{
    files::open_files::OpenReference,
    files::stack::{self, Cluster},
};
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    key::head,
    slice::Slice,
};
use siltdb_disk::table_meta::KeySpan;
use std::{ops::Range, sync::Arc};

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

/// The tables of one level; immutable.
///
/// # Invariants
/// 1. In a stack `sequence_max` does not ascend, and the sequence ranges of two tables whose key
///    ranges overlap are disjoint. So a reader may stop at the first version of a key it finds.
/// 2. In a run each range ends before the next begins: a key has one table at most.
#[derive(Debug)]
pub struct Level {
    order: Order,
    tables: Vec<Arc<OpenReference>>,
    bytes: u64,
    /// Of a run.
    finder: Finder,
    /// Of a stack, in key order.
    clusters: Vec<Cluster>,
    /// The value of [`Level::runs`].
    runs: usize,
}

impl Level {
    /// A level without tables.
    #[must_use]
    pub fn empty(order: Order) -> Self {
        let (finder, clusters) = (Finder::default(), Vec::new());
        Self { order, tables: Vec::new(), bytes: 0, finder, clusters, runs: 0 }
    }

    /// A level of `tables`, given in any order.
    ///
    /// # Errors
    /// Corruption, if they cannot be ordered as invariant (1) or (2) says, or are too long for any
    /// disk.
    pub fn new(order: Order, mut tables: Vec<Arc<OpenReference>>) -> Result<Self> {
        match order {
            Order::Overlapping => {
                tables.sort_by_key(|table| std::cmp::Reverse((table.sequence_max(), table.id())));
            }
            Order::Disjoint => tables.sort_by(|a, b| a.range().first.cmp(&b.range().first)),
        }
        let bytes = tables.iter().try_fold(0_u64, |sum, table| {
            sum.checked_add(table.bytes()).filter(|&sum| sum <= LEVEL_BYTES_MAX)
        });
        let bytes = bytes.ok_or_else(|| Error::corruption("the tables of a level are too long"))?;
        let mut level = Self { tables, bytes, ..Self::empty(order) };
        level.check()?;
        match order {
            Order::Disjoint => {
                level.finder = Finder::new(&level.tables);
                level.runs = usize::from(!level.tables.is_empty());
            }
            Order::Overlapping => {
                level.clusters = stack::clusters(&level.tables);
                level.runs = stack::runs(&level.tables);
            }
        }
        let clustered = level.clusters.iter().map(|cluster| cluster.tables.len()).sum::<usize>();
        let in_clusters = if order == Order::Overlapping { level.tables.len() } else { 0 };
        assert_eq!(clustered, in_clusters, "a table of level 0 is in no cluster, or in two");
        assert!(level.runs <= level.tables.len(), "more runs than tables");
        Ok(level)
    }

    /// Looks whether the invariants hold.
    ///
    /// # Errors
    /// Corruption, naming two tables that do not go together.
    pub fn check(&self) -> Result<()> {
        let fault = match self.order {
            Order::Disjoint => self
                .tables
                .windows(2)
                .find(|pair| !pair[0].range().is_before(&pair[1].range().first))
                .map(|pair| (&pair[0], &pair[1])),
            Order::Overlapping => stack::mixed_ages(&self.tables)
                .map(|(newer, older)| (&self.tables[newer], &self.tables[older])),
        };
        match fault {
            None => Ok(()),
            Some((a, b)) => Err(Error::corruption(match self.order {
                Order::Disjoint => "two tables of a level overlap",
                Order::Overlapping => "two tables of level 0 overlap in keys and sequence numbers",
            })
            .with_mismatch(format!("{a:?}"), format!("{b:?}"))),
        }
    }

    /// The tables: newest first in a stack, in key order in a run.
    #[inline]
    #[must_use]
    pub fn tables(&self) -> &[Arc<OpenReference>] {
        &self.tables
    }

    /// How the tables lie to each other.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Whether there is no table.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Bytes of the tables in their files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of a run, the index of the first table that reaches `key` or lies after it.
    #[inline]
    #[must_use]
    pub fn index_reaching(&self, key: &[u8]) -> usize {
        debug_assert_eq!(self.order, Order::Disjoint);
        let candidates = self.finder.candidates(key);
        let skipped =
            self.tables[candidates.clone()].partition_point(|table| table.range().is_before(key));
        candidates.start + skipped
    }

    /// Of a run, the one table whose range holds `key`.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<OpenReference>> {
        debug_assert_eq!(self.order, Order::Disjoint);
        match self.finder.find(key) {
            Seek::Within(index) => Some(&self.tables[index]),
            Seek::Nowhere => None,
            Seek::Unclear => {
                let table = self.tables.get(self.index_reaching(key))?;
                (!table.range().is_after(key)).then_some(table)
            }
        }
    }

    /// The indexes of the tables that overlap `range`. In a stack also those that overlap one of
    /// these, and so on, so that what is left overlaps nothing that was taken.
    #[must_use]
    pub fn overlapping(&self, range: &KeySpan) -> Vec<usize> {
        match self.order {
            Order::Disjoint => self.overlapping_run(range).collect(),
            Order::Overlapping => {
                let clusters = stack::overlapping(&self.clusters, range).iter();
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
        let count = self.tables[start..].partition_point(|table| table.range().overlaps(range));
        start..start + count
    }

    /// Of a stack, the groups of tables that overlap each other and nothing else, in key order.
    #[must_use]
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// How many tables a lookup may have to open at one key. For a run that is not empty it is 1.
    /// For a stack it is the number of runs left if neighbours in age that do not overlap were
    /// joined.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Of a stack, the lengths of its *ages*, newest first: every table of one age is newer than
    /// every table of the next. Whatever is merged within the stack takes whole ages.
    #[must_use]
    pub fn ages(&self) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut length = 0;
        let mut oldest = SequenceNumber::MAX;
        for (index, table) in self.tables.iter().enumerate() {
            oldest = oldest.min(table.sequence_min());
            length += 1;
            let next = self.tables.get(index + 1);
            if next.is_none_or(|next| next.sequence_max() < oldest) {
                lengths.push(std::mem::take(&mut length));
            }
        }
        let in_ages: usize = lengths.iter().sum();
        assert_eq!(in_ages, self.tables.len(), "a table of level 0 is in no age");
        lengths
    }
}

/// Which table of a run holds a key, as far as heads of keys tell.
#[derive(Clone, Copy, Debug)]
enum Seek {
    /// The one of this index.
    Within(usize),
    /// No table holds the key.
    Nowhere,
    /// The key has the head of a border: keys must be compared whole.
    Unclear,
}

/// The first and last keys of the tables of a run as integers, so that finding a table touches two
/// arrays and no table.
///
/// Heads are taken after the prefix that all keys of the level share: without that, keys such as
/// `user:0000123` would all have one head.
#[derive(Debug, Default)]
struct Finder {
    prefix: Vec<u8>,
    firsts: Vec<u64>,
    lasts: Vec<u64>,
}

impl Finder {
    /// The tables must be a run.
    fn new(tables: &[Arc<OpenReference>]) -> Self {
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else {
            return Self::default();
        };
        let shared = common_prefix(&first.range().first, &last.range().last);
        let prefix = first.range().first[..shared].to_vec();
        // Between the first and the last key of the level all keys have the prefix.
        let head_after = |key: &Slice| head(&key[shared..]);
        let firsts = tables.iter().map(|table| head_after(&table.range().first)).collect();
        let lasts = tables.iter().map(|table| head_after(&table.range().last)).collect();
        Self { prefix, firsts, lasts }
    }

    /// The table whose range holds `key`.
    #[inline]
    fn find(&self, key: &[u8]) -> Seek {
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else { return Seek::Nowhere };
        let wanted = head(rest);
        let index = self.lasts.partition_point(|&last| last < wanted);
        match (self.firsts.get(index), self.lasts.get(index)) {
            (Some(&first), Some(&last)) if first < wanted && wanted < last => Seek::Within(index),
            (Some(&first), Some(&last)) if first == wanted || wanted == last => Seek::Unclear,
            _ => Seek::Nowhere,
        }
    }

    /// The indexes among which the first table lies that reaches `key`: those before do not reach
    /// it, and those after do.
    fn candidates(&self, key: &[u8]) -> Range<usize> {
        let shared = self.prefix.len();
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else {
            let place = if key < self.prefix.as_slice() { 0 } else { self.lasts.len() };
            return place..place;
        };
        debug_assert!(shared <= key.len());
        let wanted = head(rest);
        let start = self.lasts.partition_point(|&last| last < wanted);
        let equal = self.lasts[start..].partition_point(|&last| last == wanted);
        start..start + equal
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
