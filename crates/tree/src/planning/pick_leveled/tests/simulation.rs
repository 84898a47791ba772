//! Whole workloads on a tree of number sets: how much is written, and how much space is taken.

use super::*;
use crate::{
    fixture::simulation::{ENTRY_BYTES, Simulation, compact_all, small},
    planning::pick_range::{Request, Step, plan_request},
};
use siltdb_base::id::FileNumber;

#[test]
fn random_overwrites_settle_with_bounded_write_and_space_amplification() {
    let mut random = TestRandom::new(1);
    let mut tree = Simulation::new(small());
    for _ in 0..300 {
        let keys: Vec<_> = (0..250).map(|_| (random.below(25_000) as u32, true)).collect();
        tree.flush(keys);
        tree.settle();
    }
    tree.check();
    let write = tree.written_bytes as f64 / tree.user_bytes as f64;
    let space = tree.version.bytes().iter().sum::<u64>() as f64 / tree.live_bytes() as f64;
    println!("write amplification {write:.1}, space amplification {space:.2}");
    assert!((2.0..16.0).contains(&write), "write amplification {write}");
    assert!(space < 1.3, "space amplification {space}");
    let targets = Targets::new(&tree.version.bytes(), &tree.options);
    assert!(targets.base < BOTTOM, "too little data for levels");
}

#[test]
fn sequential_loads_are_never_rewritten() {
    let mut tree = Simulation::new(small());
    for round in 0..200 {
        tree.flush((round * 250..(round + 1) * 250).map(|key| (key, true)));
        tree.settle();
    }
    tree.check();
    assert_eq!(tree.written_bytes, tree.user_bytes);
    assert!(tree.version.levels()[0].runs() < 4);
}

#[test]
fn a_queue_gives_its_space_back() {
    let mut tree = Simulation::new(small());
    for round in 0..200_u32 {
        let (new, old) = (round * 200, round.saturating_sub(5) * 200);
        let puts = (new..new + 200).map(|key| (key, true));
        let deletes = (old..old + 200).map(|key| (key, round < 5));
        tree.flush(puts.chain(deletes));
        tree.settle();
    }
    tree.check();
    let bytes: u64 = tree.version.bytes().iter().sum();
    assert!(bytes < 6 * tree.live_bytes(), "{bytes} for {}", tree.live_bytes());
}

#[test]
fn deletes_give_space_back_before_level_0_is_due() {
    let mut random = TestRandom::new(4);
    let mut tree = Simulation::new(small());
    tree.flush((0..900).map(|key| (key, true)));
    tree.settle();
    let loaded = tree.written_bytes;
    let mut keys: Vec<u32> = (0..900).collect();
    let mut deleted = 0;
    while !keys.is_empty() {
        let flushed: Vec<_> = (0..keys.len().min(150))
            .map(|_| keys.swap_remove(random.below(keys.len() as u64) as usize))
            .collect();
        deleted += flushed.len() as u64;
        tree.flush(flushed.into_iter().map(|key| (key, false)));
        tree.settle();
        tree.check();
        let bytes: u64 = tree.version.bytes().iter().sum();
        // Tombstones count as much as entries here.
        let bound = tree.live_bytes() + tree.live_bytes().max(150 * ENTRY_BYTES) / 2;
        assert!(bytes <= bound, "{bytes} bytes for {} after {deleted}", tree.live_bytes());
    }
    assert!(tree.version.is_empty(), "{:?}", tree.version);
    let written = tree.written_bytes - loaded - deleted * ENTRY_BYTES;
    assert!(written <= 5 * deleted * ENTRY_BYTES, "{written} for {deleted} deletes");
}

#[test]
fn overwrites_give_space_back_before_level_0_is_due() {
    let mut random = TestRandom::new(5);
    let mut tree = Simulation::new(small());
    tree.flush((0..300).map(|key| (key, true)));
    tree.settle();
    let (loaded, mut put) = (tree.written_bytes, 0);
    for _ in 0..100 {
        let keys: Vec<u32> = (0..150).map(|_| random.below(300) as u32).collect();
        put += keys.len() as u64;
        tree.flush(keys.into_iter().map(|key| (key, true)));
        tree.settle();
        tree.check();
        let bytes: u64 = tree.version.bytes().iter().sum();
        // As stale as half of what lives is a third of all; samples are a little wrong.
        let bound = tree.live_bytes() * 17 / 10;
        assert!(bytes <= bound, "{bytes} bytes for {}", tree.live_bytes());
    }
    let written = tree.written_bytes - loaded;
    println!("{written} bytes for {put} puts");
    assert!(written <= 4 * put * ENTRY_BYTES, "{written} for {put} puts");
}

#[test]
fn new_keys_are_not_rewritten_before_level_0_is_due() {
    let mut tree = Simulation::new(small());
    for round in 0..3 {
        // The same range every time, and no key twice.
        tree.flush((0..100).map(|key| (key * 3 + round, true)));
        assert_eq!(tree.settle(), 0);
    }
    assert_eq!(tree.version.levels()[0].runs(), 3);
}

#[test]
fn a_tree_that_shrinks_and_grows_drains_its_upper_levels() {
    let mut random = TestRandom::new(2);
    let mut tree = Simulation::new(small());
    for round in 0..300 {
        let is_put = round < 150;
        let keys: Vec<_> = (0..250).map(|_| (random.below(20_000) as u32, is_put)).collect();
        tree.flush(keys);
        tree.settle();
    }
    for round in 0..80 {
        tree.flush((round * 250..(round + 1) * 250).map(|key| (key, false)));
        tree.settle();
    }
    tree.check();
    assert_eq!(tree.live_bytes(), 0);
    let request = Request::new(None, SequenceNumber::MAX, FileNumber(tree.last_file + 1));
    compact_all(&mut tree, &request);
    assert!(tree.version.is_empty(), "{:?}", tree.version);
}

#[test]
fn a_request_leaves_one_level_and_rewrites_each_table_once() {
    let mut random = TestRandom::new(3);
    let mut tree = Simulation::new(small());
    for _ in 0..200 {
        let keys: Vec<_> =
            (0..250).map(|_| (random.below(20_000) as u32, random.below(4) > 0)).collect();
        tree.flush(keys);
        tree.settle();
    }
    let request = Request::new(None, SequenceNumber::MAX, FileNumber(0));
    compact_all(&mut tree, &request);
    let occupied = tree.version.levels().iter().filter(|level| !level.is_empty()).count();
    assert_eq!(occupied, 1);
    let before = tree.written_bytes;
    let request = Request::new(None, SequenceNumber::MAX, FileNumber(tree.last_file + 1));
    compact_all(&mut tree, &request);
    tree.check();
    let live = tree.live_bytes();
    assert_eq!(tree.version.bytes().iter().sum::<u64>(), live);
    assert_eq!(tree.written_bytes - before, live);
}

#[test]
fn plans_that_run_side_by_side_and_end_in_any_order_lose_nothing() {
    for seed in 0..10 {
        let mut random = TestRandom::new(seed);
        let mut tree = Simulation::new(small());
        let mut most = 0;
        for _ in 0..250 {
            // Ranges of keys, so that several plans find room in one level.
            let start = random.below(10_000) as u32;
            let width = 500 + random.below(5_000);
            let keys: Vec<_> = (0..120)
                .map(|_| (start + random.below(width) as u32, random.below(3) > 0))
                .collect();
            tree.flush(keys);
            for _ in 0..random.below(4) {
                let writers = match random.below(3) {
                    0 => WriteLoad::Idle,
                    1 => WriteLoad::Light,
                    _ => WriteLoad::Throttled,
                };
                if let Some(plan) = tree.pick(writers) {
                    tree.begin(plan);
                }
                let request = Request::new(
                    Some(crate::fixture::range(&start.to_be_bytes(), &(start + 50).to_be_bytes())),
                    SequenceNumber::MAX,
                    FileNumber(0),
                );
                if random.below(10) == 0
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
            if random.below(20) == 0 {
                tree.check();
            }
        }
        assert!(most >= 3, "nothing ran side by side");
        tree.settle();
        tree.check();
    }
}

/// Options under which a table of a few entries is small.
fn large_tables() -> TreeOptions {
    let table_bytes_target = 10_000 * ENTRY_BYTES;
    TreeOptions { table_bytes_target, base_level_bytes: 8 * table_bytes_target, ..small() }
}

#[test]
fn many_tiny_flushes_leave_few_tables() {
    // Single keys and pairs; ascending, descending and at random.
    for (seed, width) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
        let mut random = TestRandom::new(seed);
        let mut tree = Simulation::new(large_tables());
        let mut most = 0;
        for round in 0..3000_u32 {
            let key = match seed {
                0 => round,
                1 => 1_000_000 - round,
                _ => random.below(1 << 24) as u32,
            };
            tree.flush((0..width).map(|more| (key + more * 100, true)));
            tree.settle();
            most = most.max(tree.version.tables().count());
        }
        tree.check();
        let write = tree.written_bytes as f64 / tree.user_bytes as f64;
        let tables = tree.version.tables().count();
        println!("seed {seed}: at most {most} tables, {tables} at last, written {write:.1} times");
        assert!(most <= 100, "{most} tables");
        assert!(write <= 40.0, "written {write} times");
    }
}

#[test]
fn tiny_tables_that_have_piled_up_are_joined_when_a_tree_settles() {
    let mut tree = Simulation::new(large_tables());
    for round in 0..1200 {
        tree.flush([(round, true)]);
    }
    let plans = tree.settle();
    tree.check();
    let tables = tree.version.tables().count();
    assert!(tables <= 20, "{tables} tables");
    assert!(plans <= 60, "{plans} plans");
}

#[test]
fn a_request_takes_few_plans_for_many_tiny_tables() {
    let mut tree = Simulation::new(large_tables());
    for round in 0..1200 {
        tree.flush([(round, true)]);
    }
    let request = Request::new(None, SequenceNumber::MAX, FileNumber(tree.last_file + 1));
    let plans = compact_all(&mut tree, &request);
    // A move, and a merge for 256 of them.
    assert_eq!((tree.version.tables().count(), plans), (5, 6));
    tree.check();
}
