//! Sweeps over borders against the comparison of all pairs, and how much they compare.

use super::*;
use crate::{
    files::level::{Level, Order},
    fixture::{TestRandom, open_files, range, reference},
};
use siltdb_base::fs::mem::MemFs;
use std::cell::Cell;

thread_local! {
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

/// Called wherever two keys are compared.
pub fn note_comparison() {
    COMPARISONS.set(COMPARISONS.get() + 1);
}

/// How often two keys were compared on this thread.
pub fn comparisons() -> u64 {
    COMPARISONS.get()
}

fn random_tables(random: &mut TestRandom, keys: u64) -> Vec<Arc<OpenReference>> {
    let files = open_files(&Arc::new(MemFs::new()));
    let count = random.below(12);
    let tables = (0..count).map(|number| {
        let [a, b] = [random.below(keys), random.below(keys)].map(|key| [key as u8]);
        let [c, d] = [random.below(20), random.below(20)];
        let sequences = (1 + c.min(d), 1 + c.max(d));
        let mut table =
            reference(number + 1, (a.min(b).as_slice(), a.max(b).as_slice()), sequences, 9);
        if a != b && random.below(3) == 0 {
            table.meta.range.end = RangeEnd::Exclusive;
        }
        files.reference(table).unwrap()
    });
    let mut tables: Vec<_> = tables.collect();
    tables.sort_by_key(|table| std::cmp::Reverse((table.sequence_max(), table.id())));
    tables
}

/// The same as [`runs`], by comparing with every table of the run.
fn runs_by_pairs(tables: &[Arc<OpenReference>]) -> usize {
    let mut runs: Vec<Vec<&KeySpan>> = Vec::new();
    for table in tables {
        match runs.last_mut() {
            Some(run) if !run.iter().any(|other| other.overlaps(table.range())) => {
                run.push(table.range());
            }
            _ => runs.push(vec![table.range()]),
        }
    }
    runs.len()
}

/// The same as the tables of [`overlapping`], by adding what overlaps until nothing does.
fn overlapping_by_pairs(tables: &[Arc<OpenReference>], range: &KeySpan) -> Vec<usize> {
    let (mut reached, mut taken) = (range.clone(), Vec::new());
    loop {
        let more = (0..tables.len())
            .find(|index| !taken.contains(index) && tables[*index].range().overlaps(&reached));
        let Some(index) = more else { break };
        reached = reached.union(tables[index].range());
        taken.push(index);
    }
    taken.sort_unstable();
    taken
}

#[test]
fn sweeps_tell_what_all_pairs_tell() {
    let mut random = TestRandom::new(31);
    let (mut mixed, mut good) = (0, 0);
    for round in 0..3000 {
        let keys = 2 + round % 40;
        let tables = random_tables(&mut random, keys);
        let pairs_mix = tables.iter().enumerate().any(|(index, newer)| {
            tables[index + 1..].iter().any(|older| {
                newer.range().overlaps(older.range())
                    && newer.sequence_min() <= older.sequence_max()
            })
        });
        let found = mixed_ages(&tables);
        assert_eq!(found.is_some(), pairs_mix, "{tables:?}");
        if let Some((a, b)) = found {
            assert!(a < b && tables[a].range().overlaps(tables[b].range()));
            assert!(tables[a].sequence_min() <= tables[b].sequence_max());
            mixed += 1;
        } else {
            good += 1;
        }
        assert_eq!(
            runs(tables.iter().map(|table| table.range())),
            runs_by_pairs(&tables),
            "{tables:?}"
        );
        let clusters = clusters(&tables);
        let all: usize = clusters.iter().map(|cluster| cluster.tables.len()).sum();
        assert_eq!(all, tables.len());
        let [a, b] = [random.below(keys), random.below(keys)].map(|key| [key as u8]);
        let wanted = range(&a.min(b), &a.max(b));
        let mut taken: Vec<_> = overlapping(&clusters, &wanted)
            .iter()
            .flat_map(|cluster| cluster.tables.clone())
            .collect();
        taken.sort_unstable();
        assert_eq!(taken, overlapping_by_pairs(&tables, &wanted), "{tables:?}");
    }
    assert!(mixed > 100 && good > 100, "{mixed} {good}");
}

#[test]
fn a_stack_of_tables_that_do_not_overlap_costs_little_more_than_sorting() {
    let files = open_files(&Arc::new(MemFs::new()));
    let comparisons = |count: u64| {
        let tables = (0..count).map(|number| {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let sequences = (number + 1, number + 1);
            files.reference(reference(number + 1, (&key, &key), sequences, 9)).unwrap()
        });
        let tables = tables.collect();
        COMPARISONS.set(0);
        let level = Level::new(Order::Overlapping, tables).unwrap();
        assert_eq!((level.runs(), level.clusters().len()), (1, count as usize));
        let key = [7; 8];
        assert!(level.overlapping(&range(&key, &key)).len() <= 1);
        COMPARISONS.get()
    };
    let count = 4096;
    let log = 12;
    let made = comparisons(count);
    assert!(made >= count, "comparisons are not counted: {made}");
    assert!(made <= 4 * count * log, "{made}");
}
