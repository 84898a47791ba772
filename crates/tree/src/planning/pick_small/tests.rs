//! Which neighbours are joined, and that what is joined is bounded.

use super::*;
use crate::{
    fixture::{TestRandom, numbers, open_files, reference, version},
    planning::pick_leveled::limits,
};
use siltdb_base::fs::mem::MemFs;
use siltdb_disk::edit::TableReference;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const BYTES_MAX: u64 = 1 << 20;

fn of(sizes: &[u64]) -> Vec<Option<u64>> {
    sizes.iter().copied().map(Some).collect()
}

#[test]
fn small_neighbours_are_joined_from_eight_on() {
    assert_eq!(neighbours(&of(&[300; 7]), BYTES_MAX), None);
    assert_eq!(neighbours(&of(&[300; 8]), BYTES_MAX), Some(0..8));
    assert_eq!(neighbours(&of(&[300; 100]), BYTES_MAX), Some(0..JOINED_TABLES_MAX));
    assert_eq!(neighbours(&of(&[]), BYTES_MAX), None);
}

#[test]
fn a_table_that_outweighs_its_neighbours_is_not_joined_with_them() {
    let mut sizes = vec![300; 5];
    sizes.push(100 * KIB);
    sizes.extend([300; 5]);
    assert_eq!(neighbours(&of(&sizes), BYTES_MAX), None);
    sizes.extend([300; 3]);
    assert_eq!(neighbours(&of(&sizes), BYTES_MAX), Some(6..14));
}

#[test]
fn the_smallest_come_first_and_what_stays_cuts_neighbours_apart() {
    let mut sizes = of(&[100 * KIB; 8]);
    sizes.extend(of(&[300; 8]));
    assert_eq!(neighbours(&sizes, BYTES_MAX), Some(8..16));
    sizes[12] = None;
    assert_eq!(neighbours(&sizes, BYTES_MAX), Some(0..12));
    // No more at once than the most that may be joined.
    assert_eq!(neighbours(&of(&[100 * KIB; 12]), BYTES_MAX), Some(0..10));
}

#[test]
fn ever_more_small_tables_stay_few_and_are_written_again_only_as_they_grow() {
    for seed in 0..20 {
        let mut random = TestRandom::new(seed);
        let (mut sizes, mut put, mut written, mut most) = (Vec::new(), 0, 0, 0);
        for _ in 0..20_000 {
            let spread = 1 + random.below(2000);
            let size = 200 + random.below(spread);
            // At the end, as ascending keys do, or anywhere.
            let place = if seed % 2 == 0 {
                sizes.len()
            } else {
                random.below(sizes.len() as u64 + 1) as usize
            };
            sizes.insert(place, size);
            put += size;
            let small = |size: &u64| (*size < BYTES_MAX / SMALL_PART).then_some(*size);
            while let Some(joined) =
                neighbours(&sizes.iter().map(small).collect::<Vec<_>>(), BYTES_MAX)
            {
                let bytes: u64 = sizes[joined.clone()].iter().sum();
                assert!(bytes <= BYTES_MAX && joined.len() >= JOINED_TABLES_MIN);
                written += bytes;
                sizes.splice(joined, [bytes]);
            }
            most = most.max(sizes.len());
        }
        let times = written as f64 / put as f64;
        println!("at most {most} tables, {} at last, written {times:.1} times", sizes.len());
        // Between two tables that are not small any more, fewer stay than would be joined.
        let large = put / (BYTES_MAX / SMALL_PART);
        let bound = if seed % 2 == 0 { 50 + large } else { JOINED_TABLES_MIN as u64 * large };
        assert!(most as u64 <= bound, "{most} tables");
        // From 1 KiB to 128 KiB are three and a half times a growth by four.
        assert!(times <= 5.0, "written {times} times");
    }
}

fn options() -> TreeOptions {
    TreeOptions { table_bytes_target: BYTES_MAX, ..TreeOptions::default() }
}

fn table(file: u64, key: u64) -> TableReference {
    let key = key.to_be_bytes();
    reference(file, (&key, &key), (file, file), 300)
}

#[test]
fn tables_of_level_0_are_joined_by_age() {
    let files = open_files(&Arc::new(MemFs::new()));
    let mut tables: Vec<_> = (1..=12).map(|file| (0, table(file, file * 37 % 16))).collect();
    // Too large to be joined, in the middle of the ages.
    tables[9].1.length = BYTES_MAX;
    let version = version(&files, &tables);
    let plan = join_in_level0(&version, &options(), &Busy::default()).unwrap();
    assert_eq!(numbers(plan.tables()), [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!((plan.kind, plan.reason, plan.output_level), (PlanKind::Rewrite, Reason::Small, 0));
    let mut busy = Busy::default();
    busy.begin(&plan);
    assert!(join_in_level0(&version, &options(), &busy).is_none());
}

#[test]
fn level_0_has_many_small_tables_from_sixteen_or_twice_its_trigger_on() {
    let files = open_files(&Arc::new(MemFs::new()));
    let mut tables: Vec<_> = (1..=40).map(|file| (0, table(file, file))).collect();
    for (trigger, many) in [(1, 16), (8, 16), (20, 40)] {
        let options = TreeOptions { level0_runs_trigger: trigger, ..options() };
        let is_many = |count: usize, factor| {
            has_many_small(&version(&files, &tables[..count]), &options, factor)
        };
        assert_eq!([is_many(many - 1, 1), is_many(many, 1)], [false, true]);
        assert!(!is_many(many, 3));
    }
    tables.iter_mut().for_each(|(_, table)| table.length = BYTES_MAX / SMALL_PART);
    assert!(!has_many_small(&version(&files, &tables), &options(), 1));
}

#[test]
fn tables_of_a_run_are_joined_in_key_order_unless_they_overlap_much_below() {
    let files = open_files(&Arc::new(MemFs::new()));
    let mut tables: Vec<_> = (1..=8).map(|file| (5, table(file, file * 10))).collect();
    let limits = limits(&options());
    let picked = |tables: &[(u8, TableReference)], busy: &Busy| {
        join_in_run(&version(&files, tables), &options(), limits, busy)
    };
    let plan = picked(&tables, &Busy::default()).unwrap();
    assert_eq!(numbers(plan.tables()), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((plan.kind, plan.reason, plan.output_level), (PlanKind::Rewrite, Reason::Small, 5));
    let mut busy = Busy::default();
    busy.begin(&plan);
    assert!(picked(&tables, &busy).is_none());
    let mut under = table(9, 45);
    under.length = limits.under_bytes_max + 1;
    tables.push((6, under));
    assert!(picked(&tables, &Busy::default()).is_none());
}
