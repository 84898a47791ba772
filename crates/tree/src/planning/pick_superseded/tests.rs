//! What is brought down at rest, by the sketches of tables that are not there.

use super::*;
use crate::{
    fixture::{TestRandom, numbers, open_files, reference, sample, sample_of, version},
    retain::stripes::Stripes,
};
use siltdb_base::{
    fs::mem::MemFs,
    id::{FileNumber, SequenceNumber},
    key::BlobPointer,
};
use siltdb_disk::edit::TableReference;
use std::ops::Range;

const MIB: u64 = 1 << 20;

/// A table with an entry for each of these keys, `bytes` long, which is newer the higher its file
/// number is.
fn table(file: u64, keys: Range<u64>, bytes: u64) -> TableReference {
    let name = |key: u64| format!("{key:08}").into_bytes();
    let (first, last) = (name(keys.start), name(keys.end - 1));
    let mut table = reference(file, (&first, &last), (10 * file, 10 * file + 9), bytes);
    table.meta.entries = keys.end - keys.start;
    table.meta.key_sketch = sample(keys.map(name));
    table
}

fn picked_with(
    tables: &[(u8, TableReference)],
    options: &TreeOptions,
    snapshots: &[SequenceNumber],
) -> Option<(Vec<u64>, usize)> {
    let files = open_files(&Arc::new(MemFs::new()));
    let stripes = Stripes::new(snapshots, SequenceNumber(1_000_000));
    let moment = Moment { stripes, newest_snapshot: snapshots.last().copied(), now_ms: 0 };
    let version = version(&files, tables);
    let plan = pick_superseded(&version, &Covered::default(), options, &Busy::default(), &moment)
        .plan()?;
    Some((numbers(plan.tables()), plan.output_level))
}

fn picked(tables: &[(u8, TableReference)]) -> Option<(Vec<u64>, usize)> {
    picked_with(tables, &TreeOptions::default(), &[])
}

#[test]
fn small_values_over_large_ones_go_down_and_new_keys_do_not() {
    let below = table(1, 0..20_000, 80 * MIB);
    assert_eq!(picked(&[(0, table(2, 0..20_000, MIB)), (6, below.clone())]), Some((vec![2, 1], 6)));
    // Among each other, but none again.
    let mut new = table(2, 0..20_000, MIB);
    new.meta.key_sketch = sample((0..20_000).map(|key| format!("{key:08}x")));
    assert_eq!(picked(&[(0, new), (6, below.clone())]), None);
    assert_eq!(picked(&[(0, table(2, 30_000..50_000, MIB)), (6, below)]), None);
}

#[test]
fn a_key_weighs_what_its_entries_take_and_not_what_others_do() {
    // Each tenth value is long. Together they take 20 MiB of the lower table, the others 0.2.
    let is_long = |key: u64| key.is_multiple_of(10);
    let takes = |key: u64| if is_long(key) { 10_000 } else { 10 };
    let mut below = table(1, 0..20_000, 2_000 * 10_000 + 18_000 * 10);
    let keys = |keep: fn(bool) -> bool| (0..20_000).filter(move |&key| keep(is_long(key)));
    let name = |key: u64| format!("{key:08}").into_bytes();
    below.meta.key_sketch = sample_of(keys(|_| true).map(|key| (name(key), takes(key))));
    // A tenth of the keys, at the mean weight, is too little.
    let mut above = table(2, 0..20_000, MIB / 10);
    above.meta.entries = 2_000;
    above.meta.key_sketch = sample(keys(|is_long| is_long).map(name));
    assert_eq!(picked(&[(0, above.clone()), (6, below.clone())]), Some((vec![2, 1], 6)));
    below.meta.key_sketch = sample(keys(|_| true).map(name));
    assert_eq!(picked(&[(0, above), (6, below)]), None);
}

#[test]
fn a_table_weighs_what_it_refers_to() {
    let pointers = |file: u64, bytes: u32| {
        let mut table = table(file, 0..20_000, MIB / 2);
        let pointer = BlobPointer {
            file: FileNumber(7),
            offset: 64,
            length: bytes,
            stored_bytes: bytes,
            codec: 0,
            checksum: 0,
            expiry_ms: None,
        };
        table.meta.blobs.note(&pointer);
        table
    };
    assert_eq!(picked(&[(0, table(2, 0..20_000, 1)), (6, pointers(1, 0))]), None);
    let lower = pointers(1, 80 << 20);
    assert_eq!(picked(&[(0, table(2, 0..20_000, 1)), (6, lower)]), Some((vec![2, 1], 6)));
}

#[test]
fn what_a_snapshot_between_two_tables_sees_does_not_count() {
    let tables = [(0, table(2, 0..20_000, MIB)), (6, table(1, 0..20_000, 80 * MIB))];
    let picked = |snapshot| {
        picked_with(&tables, &TreeOptions::default(), &[SequenceNumber(snapshot)]).is_some()
    };
    assert!(!picked(19) && !picked(20) && picked(29) && picked(9));
}

#[test]
fn many_small_tables_count_below_a_large_one() {
    // Of each of the lower tables, a sample of the upper one has at most one key.
    let mut tables: Vec<_> =
        (1..101).map(|file| (6, table(file, file * 200..file * 200 + 200, MIB))).collect();
    tables.push((0, table(200, 0..20_200, MIB)));
    let (taken, level) = picked(&tables).unwrap();
    assert_eq!((taken.len(), level), (101, 6));
    // An eighth of them is not a fair part.
    tables.pop();
    tables.push((0, table(200, 0..2_700, MIB)));
    assert_eq!(picked(&tables), None);
}

#[test]
fn the_part_that_counts_is_that_of_the_option_and_101_is_never() {
    let tables = [(0, table(2, 0..2_000, MIB)), (6, table(1, 0..20_000, 80 * MIB))];
    let with = |percent| {
        let options = TreeOptions { garbage_percent_trigger: percent, ..TreeOptions::default() };
        picked_with(&tables, &options, &[]).is_some()
    };
    assert!(with(5) && !with(30) && !with(101));
}

#[test]
fn a_tiered_tree_merges_all_runs_below_the_one_that_supersedes_and_a_fifo_tree_none() {
    let tables = [
        (0, table(9, 90_000..90_100, MIB)),
        (4, table(3, 0..20_000, MIB)),
        (5, table(2, 50_000..60_000, MIB)),
        (6, table(1, 0..20_000, 80 * MIB)),
    ];
    let with = |compaction| {
        let options = TreeOptions { compaction, ..TreeOptions::default() };
        picked_with(&tables, &options, &[])
    };
    assert_eq!(with(CompactionStrategy::tiered()), Some((vec![3, 2, 1], 6)));
    assert_eq!(with(CompactionStrategy::Fifo { bytes_max: 1 << 40, age_max: None }), None);
}

/// Estimates of small samples err, and must not err by much over many tables.
#[test]
fn the_estimate_is_near_what_is_superseded() {
    let mut random = TestRandom::new(11);
    for part in [1_u64, 3, 10] {
        let files = open_files(&Arc::new(MemFs::new()));
        let mut tables: Vec<(u8, TableReference)> =
            (1..41).map(|file| (6, table(file, file * 500..file * 500 + 500, MIB))).collect();
        let keys = (500..20_500_u64).filter(|_| random.below(part) == 0);
        let keys: Vec<_> = keys.map(|key| format!("{key:08}").into_bytes()).collect();
        let mut above = table(100, 500..20_500, MIB);
        above.meta.entries = keys.len() as u64;
        above.meta.key_sketch = sample(&keys);
        tables.push((0, above));
        let version = version(&files, &tables);
        let tables: Vec<_> = version.tables().collect();
        let moment = Moment {
            stripes: Stripes::new(&[], SequenceNumber(10_000)),
            newest_snapshot: None,
            now_ms: 0,
        };
        let found = find_superseded(&tables, &moment).all as f64;
        let is = 40.0 * MIB as f64 / part as f64;
        assert!((0.5..1.6).contains(&(found / is)), "1 in {part}: {found} of {is}");
    }
}
