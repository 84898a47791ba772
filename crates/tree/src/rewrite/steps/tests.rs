//! Where merges are cut, and what is seen between their steps.

use super::*;
use crate::{
    fixture::{
        TestRandom,
        world::{World, small_options},
    },
    options::TreeOptions,
    planning::pick_leveled::WriteLoad,
    planning::pick_range::{Request, Step},
    planning::plan::{PlanInput, PlanKind, Reason},
};
use siltdb_base::{
    id::{FileNumber, SequenceNumber},
    key::EntryKind,
};
use std::sync::Arc;

const TABLE: u64 = 32 << 20;

#[test]
fn borders_cut_a_table_into_about_equal_parts() {
    let mut world = World::new(TreeOptions { table_bytes_target: 1 << 20, ..small_options() });
    for number in 0..4000 {
        world.put(format!("key{number:04}").as_bytes(), &[number as u8; 20]);
    }
    world.flush();
    let tables = world.tree.view().version.levels()[0].tables().to_vec();
    let plan = {
        let inputs = vec![PlanInput { level: 0, tables: tables.clone() }];
        Plan::new(PlanKind::Rewrite, Reason::Request, inputs, 6)
    };
    let inputs: Vec<_> = tables.iter().map(|table| (table, table.pass().unwrap())).collect();
    assert!(inputs.len() == 1 && inputs[0].1.block_count() > SAMPLES_PER_TABLE);
    let size = CutSize { parts_min: 4, table_bytes: 1 << 20, installs: Installs::InSteps };
    let cuts = Cuts::new(&plan, &inputs, size).unwrap();
    let number = |key: &Slice| String::from_utf8_lossy(&key[3..7]).parse::<i64>().unwrap();
    let numbers: Vec<_> = cuts.borders.iter().map(number).collect();
    assert_eq!((numbers.len(), cuts.parts_per_step()), (3, 4));
    for (number, quarter) in numbers.iter().zip(1..) {
        assert!((number - quarter * 1000).abs() < 150, "{numbers:?}");
    }
    assert_eq!(cuts.left_after(&cuts.keys_of(&(0..4))), Left::default());
}

#[test]
fn what_steps_leave_of_the_inputs_falls_evenly_to_nothing() {
    let mut world = World::new(TreeOptions { table_bytes_target: 1 << 10, ..small_options() });
    for run in 0..3 {
        for number in 0..2000 {
            world.put(format!("key{number:04}").as_bytes(), &[(number + run) as u8; 20]);
        }
        world.flush();
    }
    let tables = world.tree.view().version.levels()[0].tables().to_vec();
    let inputs = vec![PlanInput { level: 0, tables: tables.clone() }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::Request, inputs, 6);
    let (compaction, parts) = world.compaction(plan.clone(), 2).unwrap();
    drop(parts);
    let steps: Vec<_> = compaction.steps().collect();
    assert!(steps.len() > 8, "{steps:?}");
    for (number, step) in steps.iter().enumerate() {
        let left = compaction.left_after(step);
        let behind = (steps.len() - 1 - number) as u64;
        let expected = plan.bytes() * behind / steps.len() as u64;
        let differs = left.bytes.abs_diff(expected);
        assert!(differs < plan.bytes() / 10, "{left:?} of {} after {number}", plan.bytes());
        assert_eq!(left.level0_runs, if behind > 0 { 3 } else { 0 });
    }
}

#[test]
fn the_parts_of_a_merge_and_nothing_else_of_it_keep_its_inputs() {
    let (world, _) = world(2);
    let plan = due(&world);
    let kept = |plan: &Plan| -> Vec<_> { plan.tables().map(Arc::strong_count).collect() };
    let before = kept(&plan);
    let (compaction, parts) = world.compaction(plan.clone(), 2).unwrap();
    assert!(kept(&plan).iter().zip(&before).all(|(now, before)| now > before));
    drop(parts);
    assert_eq!(kept(&plan), before);
    drop(compaction);
}

#[test]
fn a_merge_has_steps_of_one_to_four_tables() {
    let steps =
        |bytes, installs| CutSize { parts_min: 2, table_bytes: TABLE, installs }.steps(bytes);
    for (tables, expected) in
        [(0, 1), (1, 1), (4, 1), (5, 5), (16, 16), (21, 16), (64, 16), (80, 20), (100_000, 256)]
    {
        assert_eq!(steps(tables * TABLE, Installs::InSteps), expected, "{tables} tables");
        assert_eq!(steps(tables * TABLE, Installs::AtOnce), 1);
        let large = (tables / 4).clamp(1, 256);
        assert_eq!(steps(tables * TABLE, Installs::InLargeSteps), large);
    }
}

/// Four runs of level 0 over the same keys, with deletions and range deletions, and a level below
/// them. Snapshots see some of it.
fn world(seed: u64) -> (World, TestRandom) {
    let (mut world, mut random) = (World::new(small_options()), TestRandom::new(seed));
    for run in 0..8 {
        for _ in 0..250 {
            let key = format!("key{:04}", random.below(400)).into_bytes();
            let value = random.bytes(50);
            match random.below(6) {
                0 => world.write(&key, EntryKind::Delete, b""),
                1 => world.write(&key, EntryKind::Merge, b"more"),
                _ => world.put(&key, &value),
            }
        }
        let start = random.below(400);
        let [start, end] = [start, start + 120].map(|number| format!("key{number:04}"));
        world.write(start.as_bytes(), EntryKind::RangeDelete, end.as_bytes());
        if run % 3 == 1 {
            world.snapshots.push(world.sequence);
        }
        world.flush();
        if run == 3 {
            world.settle();
        }
    }
    (world, random)
}

fn due(world: &World) -> Plan {
    let plan = world.tree.begin_plan(world.oldest_snapshot(), WriteLoad::Light).unwrap();
    assert_eq!(plan.kind, PlanKind::Rewrite);
    plan
}

#[test]
fn readers_see_the_same_between_steps_and_level_0_shrinks() {
    let mut sliced = 0;
    for seed in 0..6 {
        let (mut world, mut random) = world(seed);
        let plan = due(&world);
        let level0 = |world: &World| world.tree.view().version.levels()[0].clone();
        let mut bytes = level0(&world).bytes();
        let (mut steps, mut falls) = (0, 0);
        let inputs: Vec<_> = plan.tables().map(|table| table.id()).collect();
        world.compact_with(&plan, 2, |world, _| {
            world.check(&mut random);
            let now = level0(world).bytes();
            assert!(now <= bytes, "step {steps} leaves {now} of {bytes} bytes");
            // Not if it has keys of the level below alone.
            falls += usize::from(now < bytes);
            bytes = now;
            steps += 1;
            let view = world.tree.view();
            let narrow = view.version.tables().filter(|(_, table)| {
                inputs.contains(&table.id()) && table.reference().key_slice.is_some()
            });
            for (_, table) in narrow {
                assert!(table.bytes() <= table.file_bytes() && table.bytes() > 0);
                sliced += usize::from(table.bytes() < table.file_bytes());
            }
        });
        assert!(steps > 4 && falls * 4 > steps * 3, "{falls} of {steps} steps");
        assert!(level0(&world).is_empty());
        assert!(world.tree.view().version.tables().all(|(_, table)| table.is_whole()));
        world.settle();
        world.check(&mut random);
    }
    assert!(sliced > 50, "only {sliced} references with a slice");
}

#[test]
fn an_input_goes_with_the_step_that_it_ends_in() {
    let (world, mut random) = world(3);
    let plan = due(&world);
    let below: Vec<_> = plan.inputs.iter().filter(|input| input.level > 0).collect();
    assert!(below.iter().map(|input| input.tables.len()).sum::<usize>() > 4);
    drop(below);
    let before = world.files_there();
    let files: Vec<_> = plan.tables().map(|table| table.id().file.0).collect();
    let count = files.len();
    let mut there = count;
    let (steps, mut seen) = (world.carry_out_in_steps(&plan, 2).unwrap(), 0);
    world.tree.end_plan(plan.name());
    drop(plan);
    for step in steps {
        world.tree.apply(&step.changes, None).unwrap();
        drop(step);
        world.purge();
        let left = files.iter().filter(|file| world.files_there().contains(file)).count();
        assert!(left <= there);
        seen += usize::from(left < there);
        there = left;
        world.check(&mut random);
    }
    assert!(seen > 2 && there == 0 && before.len() >= count, "{seen} steps removed files");
}

#[test]
fn a_merge_that_is_cancelled_keeps_its_steps_and_goes_on_from_there() {
    for (seed, kept) in [(1, 1), (2, 2), (3, 3), (4, 4)] {
        let (mut world, mut random) = world(seed);
        let plan = due(&world);
        let all = world.tree.view().version.levels()[0].bytes();
        let steps = world.carry_out_in_steps(&plan, 1).unwrap();
        assert!(steps.len() > kept + 1);
        for step in steps.into_iter().take(kept) {
            world.tree.apply(&step.changes, None).unwrap();
        }
        world.tree.end_plan(plan.name());
        drop(plan);
        world.check(&mut random);
        // What is flushed meanwhile lies above what is left.
        for number in 0..400 {
            world.put(format!("key{:04}", number).as_bytes(), b"newer");
        }
        world.flush();
        world.check(&mut random);
        let again = due(&world);
        let narrow = again.tables().filter(|table| !table.is_whole()).count();
        assert!(narrow > 2 && again.bytes() < 2 * all);
        world.compact_with(&again, 2, |world, _| world.check(&mut random));
        world.settle();
        world.check(&mut random);
        let request = Request::new(None, SequenceNumber::MAX, world.next_file());
        while let Step::Plan(plan) = world.tree.begin_request(&request) {
            world.compact_with(&plan, 2, |world, _| world.check(&mut random));
        }
        let view = world.tree.view();
        assert!(view.version.tables().all(|(_, table)| table.is_whole()));
        world.check(&mut random);
    }
}

#[test]
fn a_clone_that_is_made_between_steps_sees_all_and_merges_for_itself() {
    let (mut world, mut random) = world(5);
    let plan = due(&world);
    let mut clones = Vec::new();
    world.compact_with(&plan, 2, |world, step| {
        if step % 2 == 0 {
            let (present, snapshot) = (world.sequence, world.snapshots[1]);
            clones.push((world.clone_at(present), present));
            clones.push((world.clone_at(snapshot), snapshot));
        }
    });
    assert!(clones.len() > 4);
    for (mut clone, moment) in clones {
        clone.check_at(moment, &mut random);
        clone.settle();
        clone.check_at(moment, &mut random);
        let request = Request::new(None, SequenceNumber::MAX, FileNumber(u64::MAX));
        if let Step::Plan(plan) = clone.tree.begin_request(&request) {
            clone.compact_with(&plan, 2, |clone, _| clone.check_at(moment, &mut random));
        }
    }
    world.check(&mut random);
}

#[test]
fn a_part_ends_with_no_small_table() {
    let mut world = World::new(TreeOptions { base_level_bytes: 1 << 20, ..small_options() });
    let mut random = TestRandom::new(9);
    for number in 0..6000 {
        let value = random.bytes(50);
        world.put(format!("key{number:04}").as_bytes(), &value);
    }
    world.flush();
    let tables = world.tree.view().version.levels()[0].tables().to_vec();
    let inputs = vec![PlanInput { level: 0, tables }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::Request, inputs, 6);
    let steps = world.carry_out_in_steps(&plan, 1).unwrap();
    assert!(steps.len() >= STEPS_MIN as usize);
    let target = small_options().table_bytes_target;
    let mut small = 0;
    for step in &steps {
        let sizes = step.changes.iter().filter_map(|change| match change {
            Change::AddTable { table, .. } if table.key_slice.is_none() => Some(table.length),
            _ => None,
        });
        small += sizes.filter(|&bytes| bytes < target / 3).count();
    }
    assert!(small * 8 < steps.len(), "{small} small tables of {} steps", steps.len());
}
