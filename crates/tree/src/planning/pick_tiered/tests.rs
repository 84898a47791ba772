//! What is due in given shapes; and whole workloads, beside the leveled strategy.

use super::*;
use crate::{
    fixture::{
        TestRandom, numbers, open_files, range, reference,
        simulation::{ENTRY_BYTES, Simulation, compact_all, small},
        version,
    },
    planning::pick_range::{Request, Step, plan_request},
    planning::strategy,
};
use siltdb_base::{fs::mem::MemFs, id::FileNumber};
use siltdb_disk::{edit::TableReference, options::Compression};
use std::sync::Arc;

const KIB: u64 = 1 << 10;

fn options() -> TreeOptions {
    TreeOptions {
        table_bytes_target: KIB,
        base_level_bytes: 64 * KIB,
        level0_runs_trigger: 2,
        compaction: CompactionStrategy::tiered(),
        ..TreeOptions::default()
    }
}

fn table(file: u64, first: &str, last: &str, bytes: u64) -> TableReference {
    reference(file, (first.as_bytes(), last.as_bytes()), (file, file), bytes)
}

fn shape(tables: &[(u8, TableReference)]) -> Version {
    version(&open_files(&Arc::new(MemFs::new())), tables)
}

/// Runs of these sizes, in KiB, from `level` on: the newer, the higher the file number.
fn with_runs(level: u8, kib: &[u64]) -> Vec<(u8, TableReference)> {
    let runs = kib.iter().enumerate();
    runs.map(|(index, kib)| (level + index as u8, table(50 - index as u64, "a", "z", kib * KIB)))
        .collect()
}

fn outline(plan: &Plan) -> (PlanKind, Reason, Vec<u64>, usize) {
    (plan.kind, plan.reason, numbers(plan.tables()), plan.output_level)
}

fn picked(version: &Version, busy: &Busy) -> Option<(PlanKind, Reason, Vec<u64>, usize)> {
    let plan = pick(version, &options(), busy, SequenceNumber::MAX, WriteLoad::Light)?;
    Some(outline(&plan))
}

#[test]
fn level_0_becomes_a_run_right_above_the_newest_one() {
    let flushed = |tables: &mut Vec<_>| {
        tables.push((0, table(61, "a", "m", KIB)));
        tables.push((0, table(62, "a", "z", KIB)));
    };
    let mut tables = Vec::new();
    flushed(&mut tables);
    let expected = Some((PlanKind::Rewrite, Reason::Level0, vec![62, 61], 6));
    assert_eq!(picked(&shape(&tables), &Busy::default()), expected);
    let mut tables = with_runs(5, &[100, 400]);
    flushed(&mut tables);
    let expected = Some((PlanKind::Rewrite, Reason::Level0, vec![62, 61], 4));
    assert_eq!(picked(&shape(&tables), &Busy::default()), expected);
    // An older table that a plan takes would be left above newer entries.
    let version = shape(&tables);
    let mut busy = Busy::default();
    let oldest = version.levels()[0].table(1).clone();
    let inputs = vec![PlanInput { level: 0, tables: vec![oldest] }];
    busy.begin(&Plan::new(PlanKind::Rewrite, Reason::Small, inputs, 0));
    assert_eq!(picked(&version, &busy), None);
}

#[test]
fn new_keys_extend_the_newest_run_without_a_merge() {
    let mut tables = vec![(5, table(40, "a", "m", 100 * KIB)), (6, table(39, "a", "z", 900 * KIB))];
    tables.push((0, table(61, "n", "o", 40 * KIB)));
    tables.push((0, table(62, "p", "q", 40 * KIB)));
    let expected = Some((PlanKind::TrivialMove, Reason::Level0, vec![62, 61], 5));
    assert_eq!(picked(&shape(&tables), &Busy::default()), expected);
    // They overlap the newest run.
    tables.push((0, table(63, "l", "l", 40 * KIB)));
    let expected = Some((PlanKind::TrivialMove, Reason::Level0, vec![63, 62, 61], 4));
    assert_eq!(picked(&shape(&tables), &Busy::default()), expected);
}

#[test]
fn tables_are_rewritten_where_a_level_is_written_otherwise() {
    let levels = |count: usize| TreeOptions {
        compression_per_level: [vec![Compression::None; count], vec![Compression::Lz4]].concat(),
        ..options()
    };
    let outline = |tables: &[(u8, TableReference)], options: &TreeOptions| {
        let version = shape(tables);
        let plan = pick(&version, options, &Busy::default(), SequenceNumber::MAX, WriteLoad::Light);
        outline(&plan.unwrap())
    };
    // Two tables around the run: each alone is apart from it, the range of both is not.
    let mut tables = with_runs(5, &[100, 400]);
    tables.push((0, table(61, "A", "B", 40 * KIB)));
    tables.push((0, table(62, "zz", "zzz", 40 * KIB)));
    let moved = outline(&tables, &options());
    assert_eq!(moved, (PlanKind::TrivialMove, Reason::Level0, vec![62, 61], 5));
    let rewritten = outline(&tables, &levels(1));
    assert_eq!(rewritten, (PlanKind::Rewrite, Reason::Level0, vec![62, 61], 4));
    assert_eq!(outline(&tables, &levels(6)), moved);
    // New keys behind the run go into it, by a rewrite of their own.
    tables[2] = (0, table(61, "zy", "zyy", 40 * KIB));
    let rewritten = outline(&tables, &levels(1));
    assert_eq!(rewritten, (PlanKind::Rewrite, Reason::Level0, vec![62, 61], 5));
    // A run that makes room.
    let mut tables = with_runs(1, &[100]);
    tables.push((0, table(61, "a", "z", KIB)));
    tables.push((0, table(62, "a", "z", KIB)));
    let moved = outline(&tables, &levels(1));
    assert_eq!(moved, (PlanKind::TrivialMove, Reason::Drain, vec![50], 6));
    let rewritten = outline(&tables, &levels(6));
    assert_eq!(rewritten, (PlanKind::Rewrite, Reason::Drain, vec![50], 6));
}

#[test]
fn runs_of_similar_size_are_merged_when_there_are_too_many() {
    let version = shape(&with_runs(2, &[4, 5, 4, 200, 900]));
    let expected = Some((PlanKind::Rewrite, Reason::Size, vec![50, 49, 48], 4));
    assert_eq!(picked(&version, &Busy::default()), expected);
    // The older ones, where those cost less for each run that goes.
    let version = shape(&with_runs(2, &[70, 10, 9, 200, 900]));
    let expected = Some((PlanKind::Rewrite, Reason::Size, vec![49, 48], 4));
    assert_eq!(picked(&version, &Busy::default()), expected);
    // As many as permitted.
    let version = shape(&with_runs(3, &[4, 5, 200, 900]));
    assert_eq!(picked(&version, &Busy::default()), None);
}

#[test]
fn runs_that_are_being_merged_count_as_merged() {
    let version = shape(&with_runs(2, &[4, 5, 4, 200, 900]));
    let mut busy = Busy::default();
    busy.begin(&pick_runs(&version, &options(), &busy).unwrap());
    assert_eq!(picked(&version, &busy), None);
}

#[test]
fn all_runs_are_merged_when_the_newer_ones_reach_the_permitted_part() {
    let version = shape(&with_runs(4, &[30, 169, 100]));
    assert_eq!(picked(&version, &Busy::default()), None);
    let version = shape(&with_runs(4, &[30, 170, 100]));
    let expected = Some((PlanKind::Rewrite, Reason::Stale, vec![50, 49, 48], 6));
    assert_eq!(picked(&version, &Busy::default()), expected);
    // Level 1 is emptied before, so that level 0 can go down meanwhile.
    let mut tables = with_runs(1, &[170]);
    tables.push((6, table(1, "a", "z", 80 * KIB)));
    let expected = Some((PlanKind::TrivialMove, Reason::Drain, vec![50], 5));
    assert_eq!(picked(&shape(&tables), &Busy::default()), expected);
}

#[test]
fn level_0_has_room_while_all_other_runs_are_being_merged() {
    let mut tables = with_runs(1, &[10, 20, 500, 1000, 3000, 9000]);
    tables.push((0, table(61, "a", "m", KIB)));
    tables.push((0, table(62, "a", "z", KIB)));
    let version = shape(&tables);
    let levels = (3..LEVELS)
        .map(|level| PlanInput { level, tables: version.levels()[level].tables().to_vec() });
    let mut busy = Busy::default();
    busy.begin(&Plan::new(PlanKind::Rewrite, Reason::Stale, levels.collect(), 6));
    let expected = Some((PlanKind::Rewrite, Reason::Level0, vec![62, 61, 50, 49], 2));
    assert_eq!(picked(&version, &busy), expected);
}

#[test]
fn a_table_of_tombstones_goes_to_the_next_run_that_has_its_keys() {
    let mut dense = table(40, "c", "d", KIB);
    dense.meta.point_tombstones = 90;
    let below = [(4, table(39, "m", "z", KIB)), (6, table(1, "a", "z", 900 * KIB))];
    let tables: Vec<_> = [(3, dense)].into_iter().chain(below).collect();
    let expected = Some((PlanKind::Rewrite, Reason::Tombstones, vec![40, 1], 6));
    assert_eq!(picked(&shape(&tables), &Busy::default()), expected);
    // Nothing below: it is rewritten without its tombstones.
    let expected = Some((PlanKind::Rewrite, Reason::Tombstones, vec![40], 3));
    assert_eq!(picked(&shape(&tables[..2]), &Busy::default()), expected);
}

fn tiered(runs_max: u32, space_percent_max: u32) -> TreeOptions {
    let compaction = CompactionStrategy::Tiered { runs_max, space_percent_max };
    TreeOptions { compaction, ..small() }
}

/// A tiered tree that has settled is quiet. (Of a leveled one more is asked.)
fn check_rest(tree: &Simulation) {
    let is_tiered = tree.options.compaction != CompactionStrategy::Leveled;
    assert!(!is_tiered || strategy::is_quiet(&tree.version, &tree.options));
}

/// The write and space amplification of random overwrites, and the most runs below level 0.
fn overwrite(options: TreeOptions) -> (f64, f64, usize) {
    let mut random = TestRandom::new(1);
    let mut tree = Simulation::new(options);
    let (mut space, mut runs): (f64, usize) = (0.0, 0);
    for round in 0..600 {
        let keys: Vec<_> = (0..250).map(|_| (random.below(25_000) as u32, true)).collect();
        tree.flush(keys);
        tree.settle();
        runs = runs.max(tree.version.runs().len());
        if round >= 300 {
            let bytes = tree.version.bytes().iter().sum::<u64>();
            space = space.max(bytes as f64 / tree.live_bytes() as f64);
        }
    }
    tree.check();
    check_rest(&tree);
    assert_eq!(strategy::debt(&tree.version, &tree.options).1, 0);
    let write = tree.written_bytes as f64 / tree.user_bytes as f64;
    let strategy = tree.options.compaction;
    println!("{strategy:?}: written {write:.2} times, space {space:.2}, at most {runs} runs");
    (write, space, runs)
}

#[test]
fn random_overwrites_are_written_less_often_than_in_levels_within_bounded_space() {
    let (leveled, leveled_space, _) = overwrite(small());
    let (default, space, runs) = overwrite(tiered(4, 200));
    assert!(default < leveled / 1.5, "{default} against {leveled}");
    // The oldest run, twice its size, and level 0.
    assert!(leveled_space < space && space < 3.2, "space amplification {space}");
    assert!(runs <= 4, "{runs} runs");
    let (middle, space, _) = overwrite(tiered(4, 100));
    assert!(middle < leveled / 1.5 && space < 2.2, "written {middle} times, space {space}");
    let (narrow, space, _) = overwrite(tiered(4, 50));
    assert!(default < narrow && space < 1.7, "written {narrow} times, space {space}");
    let (many, _, runs) = overwrite(tiered(5, 200));
    assert!(many < leveled / 1.5 && runs <= 5, "written {many} times, {runs} runs");
    let (few, _, runs) = overwrite(tiered(2, 200));
    assert!(default < few && runs <= 2, "written {few} times, {runs} runs");
}

#[test]
fn a_growing_tree_writes_each_byte_a_few_times() {
    let mut random = TestRandom::new(2);
    let mut tree = Simulation::new(tiered(4, 200));
    for _ in 0..400 {
        tree.flush((0..250).map(|_| (random.next() as u32, true)).collect::<Vec<_>>());
        tree.settle();
    }
    tree.check();
    let write = tree.written_bytes as f64 / tree.user_bytes as f64;
    println!("written {write:.2} times");
    assert!(write < 7.0, "written {write} times");
}

#[test]
fn sequential_loads_are_never_rewritten_and_make_one_run() {
    let mut tree = Simulation::new(tiered(4, 200));
    for round in 0..200 {
        tree.flush((round * 250..(round + 1) * 250).map(|key| (key, true)));
        tree.settle();
    }
    tree.check();
    assert_eq!(tree.written_bytes, tree.user_bytes);
    assert_eq!(tree.version.runs().len(), 1);
}

#[test]
fn what_is_deleted_goes_when_a_tree_settles() {
    let mut tree = Simulation::new(tiered(4, 200));
    let mut random = TestRandom::new(3);
    for _ in 0..40 {
        tree.flush((0..250).map(|_| (random.below(8_000) as u32, true)).collect::<Vec<_>>());
        tree.settle();
    }
    for start in (0..8_000).step_by(250) {
        tree.flush((start..start + 250).map(|key| (key, key % 10 == 0)));
        tree.settle();
    }
    tree.check();
    let bytes = tree.version.bytes().iter().sum::<u64>();
    // Tombstones count as much as entries here, and level 0 is not due.
    assert!(bytes <= 5 * tree.live_bytes(), "{bytes} for {}", tree.live_bytes());
}

#[test]
fn a_full_request_is_one_merge_and_leaves_one_level() {
    let mut random = TestRandom::new(4);
    let mut tree = Simulation::new(tiered(4, 1000));
    for _ in 0..101 {
        tree.flush((0..250).map(|_| (random.below(20_000) as u32, true)).collect::<Vec<_>>());
        tree.settle();
    }
    assert!(tree.version.runs().len() > 1 && !tree.version.levels()[0].is_empty());
    let written = tree.written_bytes;
    let request = Request::new(None, SequenceNumber::MAX, FileNumber(0));
    assert_eq!(compact_all(&mut tree, &request), 1);
    tree.check();
    assert_eq!(tree.written_bytes - written, tree.live_bytes());
    assert_eq!((tree.version.runs().len(), tree.version.levels()[0].is_empty()), (1, true));
}

#[test]
fn a_request_leaves_what_was_flushed_after_it() {
    let mut tables = with_runs(5, &[10, 20]);
    tables.push((0, table(61, "a", "z", KIB)));
    tables.push((0, table(62, "a", "z", KIB)));
    let version = shape(&tables);
    let request = Request::new(None, SequenceNumber(61), FileNumber(0));
    let step = plan_request(&version, &request, &options(), &Busy::default());
    let Step::Plan(plan) = step else { panic!("{step:?}") };
    assert_eq!(outline(&plan), (PlanKind::Rewrite, Reason::Request, vec![61, 50, 49], 6));
}

#[test]
fn a_strategy_that_changes_over_and_over_loses_nothing() {
    for seed in 0..12 {
        let mut random = TestRandom::new(seed);
        let mut tree = Simulation::new(small());
        let mut most = 0;
        for _ in 0..250 {
            let start = random.below(10_000) as u32;
            let width = 500 + random.below(5_000);
            let keys: Vec<_> = (0..120)
                .map(|_| (start + random.below(width) as u32, random.below(3) > 0))
                .collect();
            tree.flush(keys);
            if random.below(15) == 0 {
                tree.options.compaction = match random.below(3) {
                    0 => CompactionStrategy::Leveled,
                    _ => CompactionStrategy::Tiered {
                        runs_max: 2 + random.below(4) as u32,
                        space_percent_max: 20 + random.below(300) as u32,
                    },
                };
            }
            for _ in 0..random.below(4) {
                let loads = [WriteLoad::Idle, WriteLoad::Light, WriteLoad::Throttled];
                if let Some(plan) = tree.pick(loads[random.below(3) as usize]) {
                    tree.begin(plan);
                }
                let keys = range(&start.to_be_bytes(), &(start + 50).to_be_bytes());
                let keys = (random.below(3) > 0).then_some(keys);
                let request = Request::new(keys, SequenceNumber::MAX, FileNumber(0));
                if random.below(20) == 0
                    && let Step::Plan(plan) =
                        plan_request(&tree.version, &request, &tree.options, &tree.busy)
                {
                    tree.begin(plan);
                }
            }
            most = most.max(tree.running.len());
            while !tree.running.is_empty() && random.below(3) > 0 {
                tree.end(random.below(tree.running.len() as u64) as usize);
            }
            if random.below(10) == 0 {
                tree.check();
            }
        }
        assert!(most >= 2, "nothing ran side by side");
        tree.settle();
        tree.check();
        check_rest(&tree);
    }
}

#[test]
fn tiny_flushes_leave_few_tables() {
    let table_bytes_target = 10_000 * ENTRY_BYTES;
    let base_level_bytes = 8 * table_bytes_target;
    for is_sequential in [true, false] {
        let mut random = TestRandom::new(7);
        let options = TreeOptions { table_bytes_target, base_level_bytes, ..tiered(4, 200) };
        let mut tree = Simulation::new(options);
        let mut most = 0;
        for round in 0..2000_u32 {
            let key = if is_sequential { round } else { random.below(1 << 24) as u32 };
            tree.flush([(key, true)]);
            tree.settle();
            most = most.max(tree.version.tables().count());
        }
        tree.check();
        assert!(most <= 100, "{most} tables");
    }
}
