//! Which blocks are copied, and that no reader can tell.

use super::*;
use crate::{
    files::open_files::OpenReference,
    fixture::{
        TestRandom,
        world::{World, small_options},
    },
    options::TreeOptions,
    planning::pick_leveled::WriteLoad,
    planning::pick_range::{Request, Step},
    planning::plan::Plan,
};
use siltdb_base::{
    cursor::EntryCursor, error::ErrorKind, fs::Fs, id::SequenceNumber, key::EntryKind,
};
use siltdb_disk::options::{Compression, TableKind};

/// How the tables are written that the blocks are copied to.
const WANTED: TableOptions = TableOptions {
    block_bytes: 1024,
    compression: Compression::Lz4,
    filter_bits_per_key: 10,
    dictionary_bytes: 0,
    prefix_extractor: None,
    whole_key_filter: true,
    kind: TableKind::Block,
};

/// Tables of about sixteen blocks.
fn options() -> TreeOptions {
    TreeOptions { table_bytes_target: 16 << 10, base_level_bytes: 64 << 10, ..small_options() }
}

/// The first eight bytes tell nothing.
fn key(number: u64) -> Vec<u8> {
    format!("key number {number:04}").into_bytes()
}

/// A full last level, and four runs above it that touch a few stretches of it.
fn patchy(random: &mut TestRandom) -> World {
    let mut world = World::new(options());
    for number in 0..1500 {
        let value = random.bytes(60);
        world.put(&key(number), &value);
    }
    world.flush();
    world.settle();
    for _ in 0..4 {
        for _ in 0..3 {
            let start = random.below(1500);
            for number in start..start + random.below(30) {
                let value = random.bytes(60);
                match random.below(6) {
                    0 => world.write(&key(number), EntryKind::Delete, b""),
                    1 => world.write(&key(number), EntryKind::Merge, b"+"),
                    _ => world.put(&key(number), &value),
                }
            }
        }
        let start = random.below(1500);
        world.write(&key(start), EntryKind::RangeDelete, &key(start + random.below(40)));
        if random.below(2) == 0 {
            world.snapshots.push(world.sequence);
        }
        world.flush();
    }
    world
}

fn inputs(plan: &Plan) -> Vec<CopyInput<'_>> {
    plan.tables().map(|table| (table, table.pass().unwrap())).collect()
}

/// The first and the last key of each block.
fn blocks_of(table: &Arc<TableScan>) -> impl Iterator<Item = (Slice, Slice)> + use<> {
    let mut blocks = table.blocks().unwrap();
    std::iter::from_fn(move || {
        let info = blocks.block()?;
        let keys = (Slice::copy_from(info.first_key), Slice::copy_from(info.last_key));
        blocks.advance().unwrap();
        Some(keys)
    })
}

/// Every key of the inputs, with the block it is in.
fn places(tables: &[Arc<OpenReference>]) -> Vec<(Vec<u8>, usize, usize)> {
    let mut places = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let lasts: Vec<_> = blocks_of(&table.pass().unwrap()).map(|(_, last)| last).collect();
        let table = table.table().unwrap();
        let mut cursor = table.cursor();
        cursor.seek_to_first().unwrap();
        let mut block = 0;
        while let Some(entry) = cursor.entry() {
            while &lasts[block][..] < entry.key {
                block += 1;
            }
            places.push((entry.key.to_vec(), number, block));
            cursor.next().unwrap();
        }
    }
    places
}

#[test]
fn copied_blocks_are_alone_with_their_keys_and_the_result_is_the_same() {
    let mut copied = 0;
    for seed in 0..25 {
        let mut random = TestRandom::new(seed);
        let mut world = patchy(&mut random);
        let Some(plan) = world.tree.begin_plan(world.oldest_snapshot(), WriteLoad::Light) else {
            continue;
        };
        let tables: Vec<_> = plan.tables().cloned().collect();
        let mut tombstones = Vec::new();
        for table in &tables {
            tombstones.extend(table.tombstones().unwrap().tombstones());
        }
        let tombstones = Fragments::new(&tombstones);
        let runs = untouched_blocks(&inputs(&plan), &tombstones, &WANTED).unwrap();
        let places = places(&tables);
        for run in &runs {
            assert!(run.blocks.len() >= BLOCKS_MIN);
            let inside = |key: &[u8]| run.first_key[..] <= *key && *key <= run.last_key[..];
            let mut keys: Vec<_> = places.iter().filter(|(key, ..)| inside(key)).collect();
            let mut blocks = run.table.blocks().unwrap();
            let mut entries_of = |block| {
                blocks.go_to(block).unwrap();
                blocks.block().unwrap().entries
            };
            let count: u64 = run.blocks.clone().map(&mut entries_of).sum();
            assert_eq!(keys.len() as u64, count, "something else has a key of the run");
            keys.dedup_by(|a, b| a.0 == b.0);
            assert_eq!(keys.len() as u64, count, "a key has two versions");
            for (key, ..) in keys {
                assert_eq!(tombstones.find(key), None);
            }
            copied += count;
        }
        world.compact(&plan, 1 + seed as usize % 4);
        world.check(&mut random);
    }
    assert!(copied > 2000, "only {copied} entries were copied");
}

#[test]
fn nothing_of_a_narrowed_table_is_copied() {
    let mut random = TestRandom::new(1);
    let mut world = patchy(&mut random);
    world.snapshots.clear();
    let plan = world.tree.begin_plan(world.sequence, WriteLoad::Light).unwrap();
    assert!(!untouched_blocks(&inputs(&plan), &Fragments::default(), &WANTED).unwrap().is_empty());
    let mut narrow = plan.clone();
    for table in narrow.inputs.iter_mut().flat_map(|input| &mut input.tables) {
        let mut reference = (**table.reference()).clone();
        reference.visible_to = Some(world.sequence);
        *table = world.files.reference(reference).unwrap();
    }
    assert!(untouched_blocks(&inputs(&narrow), &Fragments::default(), &WANTED).unwrap().is_empty());
}

#[test]
fn a_table_is_untouched_unless_an_entry_or_a_tombstone_of_it_may_go() {
    // One entry a block, so that two versions of a key are in two blocks, which may be in two
    // frames of the index.
    let is_untouched_after = |change: &dyn Fn(&mut World)| {
        let table_bytes_target = 1 << 20;
        let mut world = World::new(TreeOptions { table_bytes_target, ..small_options() });
        for number in 0..100 {
            world.put(&key(number), &[number as u8; 4000]);
        }
        world.snapshots.push(world.sequence);
        change(&mut world);
        world.flush();
        let tables = world.tree.view().version.levels()[0].tables().to_vec();
        let [table] = &tables[..] else { panic!("{} tables", tables.len()) };
        assert!(table.pass().unwrap().block_count() >= 100);
        is_untouched(table, &WANTED).unwrap()
    };
    assert!(is_untouched_after(&|_| ()));
    assert!(!is_untouched_after(&|world| world.write(b"x", EntryKind::RangeDelete, b"z")));
    assert!(!is_untouched_after(&|world| world.write(&key(99), EntryKind::Delete, b"")));
    assert!(!is_untouched_after(&|world| world.write(&key(9), EntryKind::Merge, b"+")));
    for number in 0..100 {
        assert!(!is_untouched_after(&|world| world.put(&key(number), &[1; 4000])), "{number}");
    }
}

#[test]
fn borders_trim_runs_to_whole_blocks() {
    let mut random = TestRandom::new(2);
    let world = patchy(&mut random);
    let view = world.tree.view();
    let (_, reference) = view.version.tables().find(|(level, _)| *level == 6).unwrap();
    let keys: Vec<_> = blocks_of(&reference.pass().unwrap()).collect();
    let count = keys.len();
    assert!(count >= 2 * BLOCKS_MIN);
    let first = |block: usize| keys[block].0.clone();
    let last = |block: usize| keys[block].1.clone();
    let run = BlockRun {
        table: reference.pass().unwrap(),
        blocks: 0..count,
        first_key: first(0),
        last_key: last(count - 1),
    };
    let within = |lower: Option<Slice>, upper: Option<Slice>| {
        let within = run.within(&Borders { lower, upper }).unwrap()?;
        let ends = (&within.first_key, &within.last_key);
        assert_eq!(ends, (&first(within.blocks.start), &last(within.blocks.end - 1)));
        Some(within.blocks)
    };
    assert_eq!(within(None, None), Some(0..count));
    assert_eq!(within(Some(first(2)), None), Some(2..count));
    assert_eq!(within(Some(last(2)), None), Some(3..count));
    assert_eq!(within(None, Some(last(5))), Some(0..5));
    assert_eq!(within(None, Some(first(5))), Some(0..5));
    assert_eq!(within(Some(first(2)), Some(first(2 + BLOCKS_MIN - 1))), None);
}

#[test]
fn a_damaged_block_is_not_copied() {
    let mut random = TestRandom::new(3);
    let mut world = patchy(&mut random);
    world.settle();
    // Nothing lies above the last level where this rewrites it: all plain blocks are copied.
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    let plan = loop {
        let Step::Plan(plan) = world.tree.begin_request(&request) else { panic!("not rewritten") };
        if plan.inputs[0].level == plan.output_level {
            break plan;
        }
        world.compact(&plan, 1);
    };
    let runs = untouched_blocks(&inputs(&plan), &Fragments::default(), &WANTED).unwrap();
    let run = runs.iter().max_by_key(|run| run.blocks.len()).unwrap();
    let table = plan.tables().find(|table| table.meta() == run.table.meta());
    let path = world.files.path(table.unwrap().id().file);
    let mut blocks = run.table.blocks().unwrap();
    blocks.go_to(run.blocks.end - 1).unwrap();
    let offset = blocks.block().unwrap().offset + 40;
    world.fs.bytes_flip(&path, offset, 1).unwrap();
    let before = world.files_there();
    let error = world.carry_out(&plan, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), path.to_str());
    assert_eq!(world.files_there(), before);
    assert!(world.fs.metadata(&path).unwrap().is_some());
    world.snapshots.clear();
}
