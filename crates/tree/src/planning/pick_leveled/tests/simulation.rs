//! A tree of number sets instead of files. The picker's plans are carried out at once or late, and
//! the outcome is compared with a plain map.

use super::*;
use crate::{
    fixture::{FAMILY, add},
    planning::pick_range::{Request, Step, plan_request},
    planning::plan::Busy,
};
use siltdb_base::id::FileNumber;
use siltdb_disk::edit::Change;
use std::collections::{BTreeMap, HashMap};

/// Bytes that each entry counts for.
const ENTRY_BYTES: u64 = 100;

/// What a key has: a number that tells its versions apart, or a tombstone.
type Entry = Option<u64>;

struct Simulation {
    files: Arc<OpenFiles>,
    options: TreeOptions,
    version: Version,
    contents: HashMap<u64, BTreeMap<u32, Entry>>,
    model: BTreeMap<u32, Entry>,
    running: Vec<(Plan, Vec<Change>)>,
    busy: Busy,
    last_file: u64,
    sequence: u64,
    user_bytes: u64,
    written_bytes: u64,
}

impl Simulation {
    fn new(options: TreeOptions) -> Self {
        Self {
            files: files(),
            options,
            version: Version::empty(),
            contents: HashMap::new(),
            model: BTreeMap::new(),
            running: Vec::new(),
            busy: Busy::default(),
            last_file: 0,
            sequence: 0,
            user_bytes: 0,
            written_bytes: 0,
        }
    }

    /// Additions of tables of the target size that hold `entries`.
    fn write(
        &mut self,
        level: usize,
        entries: BTreeMap<u32, Entry>,
        ages: (u64, u64),
    ) -> Vec<Change> {
        let count = (self.options.table_bytes_target / ENTRY_BYTES) as usize;
        let entries: Vec<_> = entries.into_iter().collect();
        let chunks = entries.chunks(count).map(|chunk| {
            self.last_file += 1;
            let bytes = chunk.len() as u64 * ENTRY_BYTES;
            self.written_bytes += bytes;
            let (first, last) = (chunk[0].0.to_be_bytes(), chunk[chunk.len() - 1].0.to_be_bytes());
            let mut table = reference(self.last_file, (&first, &last), ages, bytes);
            table.meta.entries = chunk.len() as u64;
            table.meta.point_tombstones =
                chunk.iter().filter(|(_, entry)| entry.is_none()).count() as u64;
            table.meta.key_sketch = sample(chunk.iter().map(|(key, _)| key.to_be_bytes()));
            self.contents.insert(self.last_file, chunk.iter().copied().collect());
            add(level as u8, table)
        });
        chunks.collect()
    }

    fn install(&mut self, changes: &[Change]) {
        self.version = self.version.apply(&self.files, FAMILY, changes).unwrap();
        self.version.check().unwrap();
    }

    fn flush(&mut self, entries: impl IntoIterator<Item = (u32, bool)>) {
        let first = self.sequence + 1;
        let mut memtable = BTreeMap::new();
        for (key, is_put) in entries {
            self.sequence += 1;
            self.user_bytes += ENTRY_BYTES;
            memtable.insert(key, is_put.then_some(self.sequence));
        }
        self.model.extend(memtable.clone());
        let changes = self.write(0, memtable, (first, self.sequence));
        self.install(&changes);
    }

    /// Works out what a plan leads to; no reader sees it before it is installed.
    fn carry_out(&mut self, plan: &Plan) -> Vec<Change> {
        if plan.kind == PlanKind::TrivialMove {
            return plan.edit_changes(FAMILY);
        }
        let deeper: Vec<_> = self.version.levels()[plan.output_level + 1..].to_vec();
        let mut merged = BTreeMap::new();
        for input in plan.inputs.iter().rev() {
            for table in input.tables.iter().rev() {
                merged.extend(self.contents[&table.id().file.0].clone());
            }
        }
        if plan.output_level > 0 {
            merged.retain(|key, entry| {
                let key = key.to_be_bytes();
                entry.is_some() || deeper.iter().any(|level| level.find(&key).is_some())
            });
        }
        let min = plan.tables().map(|table| table.sequence_min().0).min().unwrap();
        let max = plan.tables().map(|table| table.sequence_max().0).max().unwrap();
        let additions = self.write(plan.output_level, merged, (min, max));
        plan.removals(FAMILY).chain(additions).collect()
    }

    fn begin(&mut self, plan: Plan) {
        self.busy.begin(&plan);
        let changes = self.carry_out(&plan);
        self.running.push((plan, changes));
    }

    fn end(&mut self, index: usize) {
        let (plan, changes) = self.running.swap_remove(index);
        self.install(&changes);
        self.busy.end(&plan);
    }

    fn pick(&self, writers: WriteLoad) -> Option<Plan> {
        pick(&self.version, &self.options, &self.busy, SequenceNumber(self.sequence), writers)
    }

    /// Carries out plans until nothing is due; returns how many.
    fn settle(&mut self) -> usize {
        while !self.running.is_empty() {
            self.end(0);
        }
        let mut plans = 0;
        while let Some(plan) = self.pick(WriteLoad::Light) {
            self.begin(plan);
            self.end(0);
            plans += 1;
            assert!(plans < 100_000, "the tree does not come to rest");
        }
        plans
    }

    /// Looks every key of the model up as a reader does: the first entry found counts.
    fn check(&self) {
        for (key, expected) in &self.model {
            let bytes = key.to_be_bytes();
            let found = self
                .version
                .tables()
                .filter(|(_, table)| table.range().contains(&bytes))
                .find_map(|(_, table)| self.contents[&table.id().file.0].get(key))
                .copied()
                .flatten();
            assert_eq!(found, *expected, "key {key}");
        }
    }

    fn live_bytes(&self) -> u64 {
        self.model.values().filter(|entry| entry.is_some()).count() as u64 * ENTRY_BYTES
    }
}

fn small() -> TreeOptions {
    TreeOptions {
        table_bytes_target: 100 * ENTRY_BYTES,
        base_level_bytes: 1000 * ENTRY_BYTES,
        ..TreeOptions::default()
    }
}

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

/// Carries out a request; returns in how many plans.
fn compact_all(tree: &mut Simulation, request: &Request) -> usize {
    for plans in 0..10_000 {
        match plan_request(&tree.version, request, &tree.options, &tree.busy) {
            Step::Plan(plan) => {
                tree.begin(plan);
                tree.end(0);
            }
            Step::Wait => panic!("nothing is running"),
            Step::Done => return plans,
        }
    }
    panic!("the request does not end");
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
