//! Compaction filters under random writes, snapshots, retention floors and crashes: what a snapshot
//! or the history sees stays as it is, and everything else is filtered in the end.
//!
//! All choices are random, from a seed that is printed; `FILTERS_SEED` tries one alone.

use siltdb::{
    CompactionFilter, Db, Durability, FamilyOptions, FilterDecision, FilteredEntry, Options,
    PrefixExtractor, Read, RetentionFloor, Snapshot,
    testing::{Crash, MemFs},
};
use siltdb_sim::draw::Draw;
use std::{collections::BTreeMap, sync::Arc};

const DIRECTORY: &str = "db";

/// Seeds of a whole run.
const SEEDS: u64 = 40;

/// Steps of a seed.
const STEPS: u64 = 400;

/// Different keys.
const KEYS: u64 = 150;

/// Jobs that may be due one after another.
const JOBS_MAX: u64 = 10_000;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Drops values that begin with `x`, and makes `C` of the `c` that others begin with.
#[derive(Debug)]
struct Marked;

impl CompactionFilter for Marked {
    fn name(&self) -> &str {
        "marked"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        match filtered(entry.value) {
            None => FilterDecision::Drop,
            Some(value) if value == entry.value => FilterDecision::Keep,
            Some(value) => FilterDecision::Change(value),
        }
    }
}

/// What the filter makes of a value.
fn filtered(value: &[u8]) -> Option<Vec<u8>> {
    match value.first() {
        Some(b'x') => None,
        Some(b'c') => Some([b"C", &value[1..]].concat()),
        _ => Some(value.to_vec()),
    }
}

fn contents(source: &impl Read) -> Map {
    let pair = |pair: siltdb::Result<(siltdb::Slice, siltdb::Slice)>| {
        pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()
    };
    source.iter().unwrap().map(pair).collect()
}

/// A state that must not change.
struct Kept {
    snapshot: Snapshot,
    contents: Map,
}

/// What was seen, so that a run in which nothing happened is no success.
#[derive(Debug, Default)]
struct Seen {
    drops: u64,
    changes: u64,
    crashes: u64,
    /// Values that a filter would drop or change, in snapshots after a compaction.
    kept: u64,
    floors: u64,
}

struct World {
    fs: MemFs,
    db: Db,
    draw: Draw,
    family: FamilyOptions,
    /// What was written, unfiltered.
    written: Map,
    /// What was read last, which only a write or a filter may change.
    read: Map,
    snapshots: Vec<Kept>,
    /// While there is a retention floor.
    has_floor: bool,
    seen: Seen,
}

fn open(fs: &MemFs, family: &FamilyOptions) -> Db {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .seed(3)
        .workers(0)
        .memtable_bytes(4 << 10)
        .memory_budget(1 << 20)
        .durability(Durability::Synced)
        .default_family(family.clone())
        .compaction_filter(Arc::new(Marked))
        .open(DIRECTORY)
        .unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed, 0xf1);
        let family = FamilyOptions::new()
            .compaction_filter(Arc::new(Marked))
            .block_bytes(1 << 10)
            .table_bytes(draw.pick(&[1 << 10, 4 << 10]))
            .base_level_bytes(draw.pick(&[4 << 10, 32 << 10]))
            .level0_runs(draw.pick(&[1_u32, 2, 4]))
            .prefix_extractor(draw.pick(&[None, Some(PrefixExtractor::Fixed(4))]))
            .whole_key_filter(draw.chance(1, 2));
        let fs = MemFs::new();
        let db = open(&fs, &family);
        let (written, read, snapshots) = (Map::new(), Map::new(), Vec::new());
        let seen = Seen::default();
        Self { fs, db, draw, family, written, read, snapshots, has_floor: false, seen }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.draw.below(KEYS);
        format!("k{:02}:{:02}", number / 10, number % 10).into_bytes()
    }

    fn write(&mut self) {
        for _ in 0..self.draw.within(1..=20) {
            let key = self.key();
            if self.draw.chance(1, 8) {
                self.db.delete(&key).unwrap();
                self.written.remove(&key);
                self.read.remove(&key);
            } else {
                let mut value = vec![self.draw.pick(b"xck")];
                value.extend_from_slice(&self.draw.next().to_le_bytes().repeat(4));
                self.db.put(&key, &value).unwrap();
                self.written.insert(key.clone(), value.clone());
                self.read.insert(key, value);
            }
        }
        if self.draw.chance(1, 12) {
            let [start, end] = [self.key(), self.key()];
            if start < end {
                self.db.delete_range(&start[..]..&end[..]).unwrap();
                let keeps = |key: &Vec<u8>| *key < start || *key >= end;
                self.written.retain(|key, _| keeps(key));
                self.read.retain(|key, _| keeps(key));
            }
        }
    }

    /// Every value is as it was read last, or as the filter makes it; with a floor as it was read.
    fn check(&mut self) {
        let found = contents(&self.db);
        for key in found.keys() {
            assert!(self.written.contains_key(key), "{key:?} was deleted");
        }
        for (key, written) in &self.written {
            let (found, before) = (found.get(key), self.read.get(key));
            let is_filtered = found == filtered(written).as_ref();
            let is_right = found == before || is_filtered && !self.has_floor;
            assert!(is_right, "{key:?}: {found:?}, and before {before:?}");
        }
        let key = self.key();
        assert_eq!(self.db.get(&key).unwrap().as_deref(), found.get(&key).map(|value| &value[..]));
        let prefix = &key[..4];
        let within = found.iter().filter(|(key, _)| key.starts_with(prefix)).count();
        assert_eq!(self.db.prefix(prefix).unwrap().count(), within);
        self.read = found;
        for kept in &self.snapshots {
            assert!(contents(&kept.snapshot) == kept.contents, "a snapshot changed");
        }
    }

    fn note_kept(&mut self) {
        let of = self.snapshots.iter().flat_map(|kept| kept.contents.values());
        let is_marked = |value: &&Vec<u8>| filtered(value).as_ref() != Some(*value);
        self.seen.kept += of.filter(is_marked).count() as u64;
    }

    fn count_filtered(&mut self) {
        let stats = self.db.stats();
        self.seen.drops += stats.filter_drops;
        self.seen.changes += stats.filter_changes;
    }

    /// Goes on with what a crash leaves. Everything is synced, so nothing may be missing.
    fn crash(&mut self) {
        let crash = match self.draw.chance(1, 2) {
            true => Crash::Kill,
            false => Crash::PowerLoss { seed: self.draw.next() },
        };
        self.count_filtered();
        self.snapshots.clear();
        self.fs = self.fs.crash_clone(crash);
        self.db = open(&self.fs, &self.family);
        self.seen.crashes += 1;
    }

    /// Runs all jobs that are due, which must come to an end.
    fn settle(&self) {
        let mut jobs = 0;
        while self.db.run_job().unwrap() {
            jobs += 1;
            assert!(jobs < JOBS_MAX, "compactions go on without end");
        }
    }

    fn step(&mut self) {
        match self.draw.below(40) {
            0..20 => self.write(),
            20..24 => self.db.flush().unwrap(),
            24..27 => {
                self.settle();
                self.note_kept();
            }
            27..30 => {
                self.db.compact().unwrap();
                self.note_kept();
            }
            30..34 if self.snapshots.len() < 4 => {
                let snapshot = self.db.snapshot();
                let contents = contents(&snapshot);
                self.snapshots.push(Kept { snapshot, contents });
            }
            34..36 if !self.snapshots.is_empty() => {
                let index = self.draw.index(self.snapshots.len());
                self.snapshots.remove(index);
            }
            36 => {
                let floor = match self.has_floor {
                    true => RetentionFloor::None,
                    false => RetentionFloor::Now,
                };
                self.db.set_retention_floor(floor).unwrap();
                self.has_floor = !self.has_floor;
                self.seen.floors += 1;
            }
            37 => self.crash(),
            _ => {}
        }
        self.check();
    }

    /// Without readers of the past, a compaction leaves nothing unfiltered.
    fn end(mut self) -> Seen {
        self.snapshots.clear();
        if self.has_floor {
            self.db.set_retention_floor(RetentionFloor::None).unwrap();
            self.has_floor = false;
        }
        self.db.compact().unwrap();
        self.check();
        let filtered = |(key, value): (&Vec<u8>, &Vec<u8>)| Some((key.clone(), filtered(value)?));
        assert_eq!(self.read, self.written.iter().filter_map(filtered).collect());
        assert!(self.db.check(&mut |_| ()).unwrap().errors.is_empty());
        self.count_filtered();
        self.seen
    }
}

#[test]
fn filters_leave_snapshots_and_history_as_they_are() {
    let seeds = match std::env::var("FILTERS_SEED") {
        Ok(seed) => {
            let seed = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let mut all = Seen::default();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        let seen = world.end();
        println!("{seen:?}");
        all.drops += seen.drops;
        all.changes += seen.changes;
        all.crashes += seen.crashes;
        all.kept += seen.kept;
        all.floors += seen.floors;
    }
    assert!(all.drops > 20 * count && all.changes > 20 * count && all.kept > 20 * count, "{all:?}");
    assert!(all.crashes >= count && all.floors >= count, "{all:?}");
}
