//! How the tables of a level lie to each other that may overlap, told by sweeps over their borders.
//!
//! Every sweep takes time in proportion to n log n for n tables. It opens no table.

use crate::files::open_files::OpenReference;
use siltdb_base::id::SequenceNumber;
use siltdb_disk::table_meta::{KeySpan, RangeEnd};
use std::{collections::BTreeMap, sync::Arc};

/// Tables that overlap each other, directly or through others of the cluster, and no other table.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Holds every key of the tables.
    pub range: KeySpan,
    /// The indexes of the tables, ascending.
    pub tables: Vec<usize>,
}

/// The clusters of `tables`, in key order.
#[must_use]
pub fn clusters(tables: &[Arc<OpenReference>]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for index in by_first(tables) {
        let range = tables[index].range();
        match clusters.last_mut() {
            Some(last) if !ends_before(&last.range, range) => {
                last.range = last.range.union(range);
                last.tables.push(index);
            }
            _ => clusters.push(Cluster { range: range.clone(), tables: vec![index] }),
        }
    }
    for cluster in &mut clusters {
        cluster.tables.sort_unstable();
    }
    clusters
}

/// Of `clusters` in key order, those that overlap `range`.
#[must_use]
pub fn overlapping<'c>(clusters: &'c [Cluster], range: &KeySpan) -> &'c [Cluster] {
    let start = clusters.partition_point(|cluster| ends_before(&cluster.range, range));
    let count = clusters[start..].partition_point(|cluster| !ends_before(range, &cluster.range));
    &clusters[start..start + count]
}

/// How many runs tables of these ranges make, newest first, if neighbours in age that do not
/// overlap are joined.
#[must_use]
pub fn runs<'r>(ranges: impl IntoIterator<Item = &'r KeySpan>) -> usize {
    let mut runs = 0;
    // The ranges of the current run by first key; no two of them overlap.
    let mut run: BTreeMap<&[u8], &KeySpan> = BTreeMap::new();
    for range in ranges {
        let first = range.first.as_bytes();
        let before = run.range(..=first).next_back();
        let after = run.range(first..).next();
        let overlaps = before.is_some_and(|(_, before)| !ends_before(before, range))
            || after.is_some_and(|(_, after)| !ends_before(range, after));
        if runs == 0 || overlaps {
            run.clear();
            runs += 1;
        }
        run.insert(first, range);
    }
    runs
}

/// Two tables that overlap in keys and in sequence numbers, if there are such.
///
/// 1. The tables are entered in the order of their first keys.
/// 2. Before one is entered, those that end before it are left. What is entered and not left
///    overlaps it.
/// 3. The sequence ranges of the entered ones are disjoint, so only the neighbours of the new one
///    can overlap it.
#[must_use]
pub fn mixed_ages(tables: &[Arc<OpenReference>]) -> Option<(usize, usize)> {
    let mut leaving = by_last(tables).into_iter().peekable();
    // By smallest sequence number: the index of the table.
    let mut entered: BTreeMap<SequenceNumber, usize> = BTreeMap::new();
    for index in by_first(tables) {
        let table = &tables[index];
        while let Some(left) =
            leaving.next_if(|&left| ends_before(tables[left].range(), table.range()))
        {
            entered.remove(&tables[left].sequence_min());
        }
        let older = entered.range(..=table.sequence_max()).next_back();
        if let Some((_, &other)) = older
            && tables[other].sequence_max() >= table.sequence_min()
        {
            return Some((index.min(other), index.max(other)));
        }
        entered.insert(table.sequence_min(), index);
    }
    None
}

/// The indexes of `tables` in the order of their first keys.
fn by_first(tables: &[Arc<OpenReference>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tables.len()).collect();
    order.sort_by(|&a, &b| {
        note_comparison();
        tables[a].range().first.cmp(&tables[b].range().first)
    });
    order
}

/// The indexes of `tables` in the order in which they end.
fn by_last(tables: &[Arc<OpenReference>]) -> Vec<usize> {
    // Of equal last keys the exclusive one ends before the inclusive one.
    let reach = |index: usize| {
        let range = tables[index].range();
        (range.last.as_bytes(), range.end == RangeEnd::Inclusive)
    };
    let mut order: Vec<usize> = (0..tables.len()).collect();
    order.sort_by(|&a, &b| {
        note_comparison();
        reach(a).cmp(&reach(b))
    });
    order
}

fn ends_before(range: &KeySpan, next: &KeySpan) -> bool {
    note_comparison();
    range.is_before(&next.first)
}

#[cfg(not(test))]
fn note_comparison() {}

#[cfg(test)]
use tests::note_comparison;

#[cfg(test)]
pub(crate) mod tests;
