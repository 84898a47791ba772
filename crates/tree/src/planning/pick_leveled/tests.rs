//! What is due in given shapes, and whether a tree that works by these rules comes to rest.

use super::*;
use crate::{
    files::open_files::OpenFiles,
    fixture::{TestRandom, numbers, open_files, reference, sample, version},
    planning::strategy,
    strategy::CompactionStrategy,
};
use siltdb_base::fs::mem::MemFs;
use siltdb_disk::edit::TableReference;

mod simulation;

const KIB: u64 = 1 << 10;

fn options() -> TreeOptions {
    TreeOptions {
        table_bytes_target: 100,
        base_level_bytes: 10 * KIB,
        level0_runs_trigger: 4,
        ..TreeOptions::default()
    }
}

fn files() -> Arc<OpenFiles> {
    open_files(&Arc::new(MemFs::new()))
}

fn table(file: u64, first: &str, last: &str, bytes: u64) -> TableReference {
    reference(file, (first.as_bytes(), last.as_bytes()), (file, file), bytes)
}

fn picked(tables: &[(u8, TableReference)], busy: &Busy) -> Option<Plan> {
    picked_while(WriteLoad::Light, tables, busy)
}

fn picked_while(writers: WriteLoad, tables: &[(u8, TableReference)], busy: &Busy) -> Option<Plan> {
    pick(&version(&files(), tables), &options(), busy, SequenceNumber::MAX, writers)
}

fn outline(plan: &Plan) -> (PlanKind, Reason, Vec<(usize, Vec<u64>)>, usize) {
    let inputs = plan.inputs.iter().map(|input| (input.level, numbers(&input.tables)));
    (plan.kind, plan.reason, inputs.collect(), plan.output_level)
}

#[test]
fn targets_follow_the_last_level() {
    let targets = |bottom| {
        let targets = Targets::new(&[0, 0, 0, 0, 0, 0, bottom], &options());
        (targets.base, targets.bytes)
    };
    let rest = u64::MAX;
    assert_eq!(targets(0), (6, [0, 0, 0, 0, 0, 0, rest]));
    assert_eq!(targets(40 * KIB), (6, [0, 0, 0, 0, 0, 0, rest]));
    assert_eq!(targets(50 * KIB), (5, [0, 0, 0, 0, 0, 5 * KIB, rest]));
    assert_eq!(targets(500 * KIB), (4, [0, 0, 0, 0, 5 * KIB, 50 * KIB, rest]));
    let (base, bytes) = targets(u64::MAX);
    assert_eq!((base, bytes[5]), (1, u64::MAX / 10));
}

#[test]
fn a_size_that_wavers_does_not_move_the_base() {
    let base = |upper, bottom| Targets::new(&[0, 0, 0, 0, 0, upper, bottom], &options()).base;
    // Up above 40 KiB; down again only below 20 KiB.
    assert_eq!([30, 39, 41].map(|bottom| base(0, bottom * KIB)), [6, 6, 5]);
    assert_eq!([41, 39, 21, 19].map(|bottom| base(1, bottom * KIB)), [5, 5, 5, 6]);
}

#[test]
fn a_young_tree_waits_for_its_trigger_and_then_goes_to_the_last_level() {
    let mut tables: Vec<_> = (1..=3).map(|file| (0, table(file, "a", "z", 100))).collect();
    assert!(picked(&tables, &Busy::default()).is_none());
    tables.push((0, table(4, "a", "z", 100)));
    let plan = picked(&tables, &Busy::default()).unwrap();
    let expected = (PlanKind::Rewrite, Reason::Level0, vec![(0, vec![4, 3, 2, 1])], 6);
    assert_eq!(outline(&plan), expected);
    // By bytes, one run is enough.
    let plan = picked(&[(0, table(1, "a", "b", 10 * KIB))], &Busy::default()).unwrap();
    assert_eq!(outline(&plan), (PlanKind::TrivialMove, Reason::Level0, vec![(0, vec![1])], 6));
}

#[test]
fn parts_of_one_flush_count_as_one_run_and_move_together() {
    let parts: Vec<_> = (1..=9_u64)
        .map(|file| {
            let key = format!("{file}");
            (0, reference(file, (key.as_bytes(), key.as_bytes()), (file, file), 100))
        })
        .collect();
    assert!(picked(&parts, &Busy::default()).is_none());
    let big: Vec<_> = parts
        .into_iter()
        .map(|(level, mut table)| {
            table.length = 2 * KIB;
            (level, table)
        })
        .collect();
    let plan = picked(&big, &Busy::default()).unwrap();
    let all = vec![(0, vec![9, 8, 7, 6, 5, 4, 3, 2, 1])];
    assert_eq!(outline(&plan), (PlanKind::TrivialMove, Reason::Level0, all, 6));
}

#[test]
fn level_0_never_passes_a_level_that_is_not_drained() {
    let mut tables: Vec<_> = (11..=14).map(|file| (0, table(file, "a", "z", 100))).collect();
    tables.push((2, table(1, "a", "z", 100)));
    tables.push((6, table(2, "a", "z", 100)));
    let plan = picked(&tables, &Busy::default()).unwrap();
    assert_eq!((plan.reason, plan.output_level), (Reason::Level0, 2));
    let plan = picked(&tables[4..], &Busy::default()).unwrap();
    assert_eq!(
        outline(&plan),
        (PlanKind::Rewrite, Reason::Drain, vec![(2, vec![1]), (6, vec![2])], 6)
    );
}

#[test]
fn level_0_is_merged_in_itself_while_it_cannot_go_down() {
    let old: Vec<_> = (1..=4).map(|file| (0, table(file, "a", "z", 100))).collect();
    let mut busy = Busy::default();
    let files = files();
    let first = version(&files, &old);
    busy.begin(&pick(&first, &options(), &busy, SequenceNumber::MAX, WriteLoad::Light).unwrap());
    let mut tables = old;
    tables.extend((5..=7).map(|file| (0, table(file, "a", "z", 100))));
    assert!(picked(&tables, &busy).is_none());
    tables.push((0, table(8, "a", "z", 100)));
    let plan = picked(&tables, &busy).unwrap();
    let expected = (PlanKind::Rewrite, Reason::WithinLevel0, vec![(0, vec![8, 7, 6, 5])], 0);
    assert_eq!(outline(&plan), expected);
    // An age larger than all newer ones ends the stretch.
    tables[5].1.length = 5000;
    assert!(picked(&tables, &busy).is_none());
}

#[test]
fn while_flushes_lag_behind_level_0_takes_up_more_before_it_goes_down() {
    let run = |file| (0, table(file, "a", "z", 100));
    let mut tables: Vec<_> = (1..=11).map(run).collect();
    assert!(picked_while(WriteLoad::Throttled, &tables, &Busy::default()).is_none());
    tables.push(run(12));
    let plan = picked_while(WriteLoad::Throttled, &tables, &Busy::default()).unwrap();
    assert_eq!((plan.reason, plan.tables().count(), plan.output_level), (Reason::Level0, 12, 6));
    // Nor is it merged in itself before as many have come while others go down.
    let mut busy = Busy::default();
    busy.begin(&plan);
    tables.extend((13..=23).map(run));
    assert!(picked_while(WriteLoad::Throttled, &tables, &busy).is_none());
    assert!(picked(&tables, &busy).is_some());
    tables.push(run(24));
    let plan = picked_while(WriteLoad::Throttled, &tables, &busy).unwrap();
    assert_eq!((plan.reason, plan.tables().count()), (Reason::WithinLevel0, 12));
    // By bytes it is three times as much as well; other levels wait for nothing.
    let bytes = |bytes| [(0, table(1, "a", "b", bytes))];
    assert!(picked_while(WriteLoad::Throttled, &bytes(29 * KIB), &Busy::default()).is_none());
    assert!(picked_while(WriteLoad::Throttled, &bytes(30 * KIB), &Busy::default()).is_some());
    let drained = [(2, table(1, "a", "z", 100)), (6, table(2, "a", "z", 100))];
    let plan = picked_while(WriteLoad::Throttled, &drained, &Busy::default()).unwrap();
    assert_eq!(plan.reason, Reason::Drain);
}

#[test]
fn the_table_with_the_cheapest_targets_goes_down_and_busy_ones_stay() {
    let tables = [
        (5, table(1, "a", "c", 4 * KIB)),
        (5, table(2, "d", "f", 4 * KIB)),
        (6, table(3, "a", "b", 40 * KIB)),
        (6, table(4, "d", "e", 10 * KIB)),
    ];
    let plan = picked(&tables, &Busy::default()).unwrap();
    let expected = (PlanKind::Rewrite, Reason::Size, vec![(5, vec![2]), (6, vec![4])], 6);
    assert_eq!(outline(&plan), expected);
    let mut busy = Busy::default();
    busy.begin(&plan);
    // What is on its way down counts no more: the level is within its target.
    assert!(picked(&tables, &busy).is_none());
}

#[test]
fn tombstones_go_down_to_what_they_delete_and_vanish_at_the_end() {
    let mut dense = table(1, "a", "c", 10);
    dense.meta.point_tombstones = 50;
    let bottom = (6, table(2, "b", "m", 50 * KIB));
    let plan = picked(&[(5, dense.clone()), bottom], &Busy::default()).unwrap();
    let expected = (PlanKind::Rewrite, Reason::Tombstones, vec![(5, vec![1]), (6, vec![2])], 6);
    assert_eq!(outline(&plan), expected);
    let shape = version(&files(), &[(6, dense.clone())]);
    let at = |snapshot| {
        let snapshot = SequenceNumber(snapshot);
        pick(&shape, &options(), &Busy::default(), snapshot, WriteLoad::Light)
    };
    assert_eq!(
        outline(&at(1).unwrap()),
        (PlanKind::Rewrite, Reason::Tombstones, vec![(6, vec![1])], 6)
    );
    // Under a snapshot it would be rewritten for nothing, again and again.
    assert!(at(0).is_none());
    dense.meta.point_tombstones = 49;
    assert!(picked(&[(6, dense)], &Busy::default()).is_none());
}

#[test]
fn range_tombstones_go_down_at_a_percent_of_their_own() {
    let options = TreeOptions { range_tombstone_percent_trigger: 10, ..options() };
    for (range_tombstones, goes_down) in [(10, true), (9, false)] {
        let mut dense = table(1, "a", "c", 10);
        dense.meta.range_tombstones = range_tombstones;
        dense.meta.entries = 100 - range_tombstones;
        let shape = version(&files(), &[(5, dense), (6, table(2, "b", "m", 50 * KIB))]);
        let plan = pick(&shape, &options, &Busy::default(), SequenceNumber(1), WriteLoad::Light);
        assert_eq!(plan.is_some(), goes_down, "{range_tombstones} of 100");
    }
}

/// A table whose keys are these numbers, in its level.
fn of(file: u64, level: u8, bytes: u64, keys: std::ops::Range<u64>) -> (u8, TableReference) {
    let mut table = table(file, "a", "m", bytes);
    table.meta.entries = keys.end - keys.start;
    table.meta.key_sketch = sample(keys.map(u64::to_be_bytes));
    (level, table)
}

#[test]
fn level_0_goes_down_when_much_of_what_is_rewritten_is_replaced() {
    let idle = Busy::default();
    // Sets of fewer keys than a sample has at most are counted exactly.
    let tables = [of(2, 0, 160, 11..21), of(1, 6, 500, 0..20)];
    assert!(picked(&tables, &idle).is_none(), "9 of 30");
    let tables = [of(2, 0, 160, 10..20), of(1, 6, 500, 0..20)];
    let plan = picked(&tables, &idle).unwrap();
    let expected = (PlanKind::Rewrite, Reason::Stale, vec![(0, vec![2]), (6, vec![1])], 6);
    assert_eq!(outline(&plan), expected, "10 of 30");
    let tables_too_small = [of(2, 0, 159, 10..20), of(1, 6, 500, 0..20)];
    assert!(picked(&tables_too_small, &idle).is_none());
    // What replaces each other in level 0 counts as much.
    let twice = [of(3, 0, 160, 30..34), of(2, 0, 160, 30..34), of(1, 6, 500, 0..4)];
    assert_eq!(numbers(&picked(&twice, &idle).unwrap().inputs[0].tables), [3, 2], "4 of 12");
    // Not while more is about to come, nor for what a snapshot may have to see.
    assert!(picked_while(WriteLoad::Heavy, &tables, &idle).is_none());
    assert!(picked_while(WriteLoad::Throttled, &tables, &idle).is_none());
    let at = |snapshot| {
        let snapshot = SequenceNumber(snapshot);
        pick(&version(&files(), &tables), &options(), &idle, snapshot, WriteLoad::Light)
    };
    assert!(at(2).is_some());
    assert!(at(1).is_none());
    let mut busy = Busy::default();
    busy.begin(&plan);
    assert!(picked(&tables, &busy).is_none());
}

#[test]
fn tombstones_of_level_0_go_down_when_they_are_many_beside_what_is_rewritten() {
    let young = |tombstones| {
        let mut table = table(3, "a", "m", 10);
        table.meta.entries = 100;
        table.meta.point_tombstones = tombstones;
        (0, table)
    };
    let bottom = |entries| {
        let mut table = table(1, "b", "k", 500);
        table.meta.entries = entries;
        (6, table)
    };
    let idle = Busy::default();
    let plan = picked(&[young(40), bottom(100)], &idle).unwrap();
    let expected = (PlanKind::Rewrite, Reason::Stale, vec![(0, vec![3]), (6, vec![1])], 6);
    assert_eq!(outline(&plan), expected);
    // Too few for what they would have rewritten.
    assert!(picked(&[young(39), bottom(100)], &idle).is_none());
    assert!(picked(&[young(40), bottom(101)], &idle).is_none());
    // What overlaps them in level 0 comes along, with tombstones of its own.
    let mut older = table(2, "l", "z", 10);
    (older.meta.entries, older.meta.point_tombstones) = (50, 20);
    let plan = picked(&[young(30), (0, older.clone()), bottom(100)], &idle).unwrap();
    assert_eq!(numbers(&plan.inputs[0].tables), [3, 2]);
    older.meta.point_tombstones = 19;
    assert!(picked(&[young(30), (0, older), bottom(100)], &idle).is_none());
    // What does not overlap them stays, although it is older.
    let alone = picked(&[young(40), (0, table(2, "x", "z", 10)), bottom(100)], &idle).unwrap();
    assert_eq!(numbers(&alone.inputs[0].tables), [3]);
    // Not while more is about to come, nor for what a snapshot may have to see.
    let tables = [young(40), bottom(100)];
    assert!(picked_while(WriteLoad::Heavy, &tables, &idle).is_none());
    assert!(picked_while(WriteLoad::Throttled, &tables, &idle).is_none());
    let at = |snapshot| {
        let snapshot = SequenceNumber(snapshot);
        pick(&version(&files(), &tables), &options(), &idle, snapshot, WriteLoad::Light)
    };
    assert!(at(3).is_some());
    assert!(at(2).is_none());
    // Nor twice at once.
    let mut busy = Busy::default();
    busy.begin(&plan);
    assert!(picked(&tables, &busy).is_none());
}

#[test]
fn a_small_database_at_rest_is_merged_for_less() {
    let idle = Busy::default();
    let outlined = |tables: &[_]| picked_while(WriteLoad::Idle, tables, &idle).map(|p| outline(&p));
    let merged = |level0, level6| {
        Some((PlanKind::Rewrite, Reason::Stale, vec![(0, level0), (6, level6)], 6))
    };
    let two_of_22 = [of(2, 0, 160, 18..20), of(1, 6, 500, 0..20)];
    assert_eq!(outlined(&two_of_22), merged(vec![2], vec![1]));
    assert!(picked_while(WriteLoad::Light, &two_of_22, &idle).is_none());
    assert_eq!(outlined(&[of(2, 0, 160, 19..21), of(1, 6, 500, 0..20)]), None, "1 of 22");
    assert_eq!(outlined(&[of(2, 0, 159, 18..20), of(1, 6, 500, 0..20)]), None, "not worth syncs");
    // Deletions pay for as many.
    let deleting = |tombstones, entries| {
        let mut young = of(2, 0, 1, 30..40);
        young.1.meta.point_tombstones = tombstones;
        [young, of(1, 6, 500, 0..entries)]
    };
    assert_eq!(outlined(&deleting(2, 14)), merged(vec![2], vec![1]));
    assert_eq!(outlined(&deleting(2, 15)), None);
    // A writer that begins again is not to wait for long.
    let beside = |bytes| [of(2, 0, 160, 18..20), of(1, 6, bytes, 0..20)];
    assert_eq!(outlined(&beside(10 * KIB - 160)), merged(vec![2], vec![1]));
    assert_eq!(outlined(&beside(10 * KIB - 159)), None);
    // All of level 0 goes at once, so that what is below is rewritten once.
    let (mut left, mut right) = (of(3, 0, 80, 18..19), of(2, 0, 80, 19..20));
    left.1.meta.range = table(3, "a", "f", 80).meta.range;
    right.1.meta.range = table(2, "g", "m", 80).meta.range;
    assert_eq!(outlined(&[left, right, of(1, 6, 500, 0..20)]), merged(vec![3, 2], vec![1]));
    // A part of level 0 that goes down under more load also goes down at rest.
    let mut dense = table(3, "a", "f", 10);
    (dense.meta.entries, dense.meta.point_tombstones) = (100, 40);
    let mut full = table(2, "g", "m", 10);
    full.meta.entries = 400;
    let part = [(0, dense), (0, full)];
    let light = picked_while(WriteLoad::Light, &part, &idle).map(|plan| outline(&plan));
    assert!(light.is_some() && outlined(&part) == light, "{light:?}");
}

#[test]
fn debt_is_what_would_have_to_be_written() {
    let debt = |tables: &[(u8, TableReference)]| debt_bytes(&version(&files(), tables), &options());
    let runs = |count: u64| -> Vec<_> {
        (11..11 + count).map(|file| (0, table(file, "a", "z", 100))).collect()
    };
    // Nothing is due.
    assert_eq!(debt(&runs(3)), 0);
    assert_eq!(debt(&[(6, table(1, "a", "c", 50 * KIB))]), 0);
    // Level 0 goes down and takes the last level along.
    assert_eq!(debt(&runs(4)), 400);
    let mut tables = runs(4);
    tables.push((6, table(1, "a", "c", 3000)));
    assert_eq!(debt(&tables), 3400);
    // A level that is twice as large as it may be brings down half of itself, and half of the next.
    let levels = [(5, table(1, "a", "m", 10 * KIB)), (6, table(2, "a", "z", 50 * KIB))];
    assert_eq!(debt(&levels), 5 * KIB + 25 * KIB);
}

/// A version of few or many, small or large tables, as far as they go together.
fn random_version(random: &mut TestRandom, options: &TreeOptions) -> Version {
    let files = files();
    let mut version = Version::empty();
    let sizes = [random.below(4) * 30 + 1, 1 + random.below(10 * KIB)];
    let levels = 1 + random.below(7);
    let tombstones = random.below(3);
    for file in 1..=random.below(40) {
        let level = random.below(levels) as u8;
        let [a, b] = [(); 2].map(|()| [random.below(60) as u8]);
        let bytes = if random.below(10) == 0 { sizes[1] } else { sizes[0] };
        let (first, last) = (a.min(b), a.max(b));
        let mut table = reference(file, (&first, &last), (file, file), bytes);
        table.meta.entries = 1 + random.below(200);
        if tombstones == 0 && random.below(6) == 0 {
            table.meta.point_tombstones = random.below(table.meta.entries + 1);
            table.meta.range_tombstones = random.below(3);
        }
        table.meta.expiry_min_ms = (random.below(5) == 0).then(|| random.below(100));
        table.meta.key_sketch = sample([a, b]);
        let add = crate::fixture::add(level, table);
        version = version.apply(&files, crate::fixture::FAMILY, &[add]).unwrap_or(version);
    }
    assert!(options.check().is_err() || version.check().is_ok());
    version
}

#[test]
fn nothing_is_picked_in_a_version_that_is_quiet() {
    let mut random = TestRandom::new(77);
    let options = TreeOptions { table_bytes_target: 3 * KIB, ..options() };
    let (mut quiet, mut due) = (0, 0);
    for _ in 0..4000 {
        let version = random_version(&mut random, &options);
        let is_quiet = is_quiet(&version, &options);
        let mut is_due = false;
        for writers in [WriteLoad::Idle, WriteLoad::Light, WriteLoad::Heavy, WriteLoad::Throttled] {
            for oldest in [0, 7, 100] {
                let oldest = SequenceNumber(oldest);
                let plan = pick(&version, &options, &Busy::default(), oldest, writers);
                assert!(!is_quiet || plan.is_none(), "{plan:?} in {version:?}");
                is_due |= plan.is_some();
            }
        }
        quiet += u32::from(is_quiet);
        due += u32::from(is_due);
    }
    println!("{quiet} quiet, {due} due");
    assert!(quiet > 100 && due > 100, "{quiet} quiet, {due} due");
}

/// In every strategy, since options may change the strategy of any tables.
#[test]
fn what_is_not_due_is_not_due_under_a_greater_load() {
    const LOADS: [WriteLoad; 4] =
        [WriteLoad::Idle, WriteLoad::Light, WriteLoad::Heavy, WriteLoad::Throttled];
    let mut random = TestRandom::new(78);
    let leveled = TreeOptions { table_bytes_target: 3 * KIB, ..options() };
    let with = |compaction| TreeOptions { compaction, ..leveled.clone() };
    let strategies = [
        leveled.clone(),
        with(CompactionStrategy::Tiered { runs_max: 4, space_percent_max: 100 }),
        with(CompactionStrategy::Fifo { bytes_max: 100 * KIB, age_max: None }),
    ];
    let mut differ = 0;
    for _ in 0..3000 {
        let version = random_version(&mut random, &leveled);
        for options in &strategies {
            let due = LOADS.map(|load| {
                strategy::pick(&version, options, &Busy::default(), SequenceNumber(7), load)
            });
            for (load, plan) in LOADS.iter().zip(&due).filter(|(_, plan)| plan.is_none()) {
                for (other, found) in LOADS.iter().zip(&due) {
                    let is_none = found.is_none();
                    assert!(is_none || load > other, "{load:?} {other:?} {found:?} {plan:?}");
                    differ += u32::from(!is_none);
                }
            }
        }
    }
    assert!(differ > 100, "loads differ in {differ}");
}
