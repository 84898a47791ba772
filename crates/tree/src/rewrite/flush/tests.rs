//! What a flush writes, where, and what it leaves behind when it fails.

use super::*;
use crate::{
    files::open_files::OpenReference,
    fixture::{
        TestRandom,
        world::{World, small_options},
    },
    planning::pick_leveled::{WriteLoad, pick},
    planning::pick_range::{Request, Step},
    planning::plan::{Busy, PlanKind},
};
use siltdb_base::{
    fs::{
        Fs,
        mem::{CallKind, Crash, Fault, FaultError, FaultSpan, Observer},
    },
    id::{FileNumber, SequenceNumber},
    key::{EntryKind, LookupKey},
    limits::{KEY_BYTES_MAX, WRITE_BUFFER_BYTES},
    sync::Mutex,
    tombstone::RangeTombstone,
};
use siltdb_disk::edit::Change;
use siltdb_memtable::memtable::Memtable;
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

mod sharing;

fn tables(world: &World) -> Vec<Arc<OpenReference>> {
    let view = world.tree.view();
    view.version.tables().map(|(_, table)| table.clone()).collect()
}

/// An input of a family that has nothing but this memtable.
fn input(world: &World, family: u32, memtable: Arc<Memtable>) -> FlushInput {
    let mut input = world.tree.flush_input(world.generation).unwrap();
    input.family = FamilyId(family);
    input.memtable = memtable;
    input
}

fn memtable_of(world: &World, entries: &[(&str, u64)]) -> Arc<Memtable> {
    let memtable = Memtable::new(world.arenas());
    for (key, sequence) in entries {
        memtable.insert(siltdb_base::key::Entry {
            key: key.as_bytes(),
            sequence: SequenceNumber(*sequence),
            kind: EntryKind::Put,
            value: b"value",
        });
    }
    memtable
}

#[test]
fn small_memtables_of_many_families_share_one_file() {
    let mut world = World::new(small_options());
    world.put(b"a", b"1");
    let inputs: Vec<_> = (0..100)
        .map(|family| {
            let memtable = memtable_of(&world, &[("k", 100 + u64::from(family))]);
            input(&world, family, memtable)
        })
        .collect();
    let stripes = Stripes::new(&[], SequenceNumber(1000));
    let output = world
        .with_context(|context| {
            Flush::new(inputs.clone(), stripes.clone(), Arc::default(), 1).run(context)
        })
        .unwrap();
    assert_eq!(output.changes.len(), 100);
    assert_eq!(world.files_there().len(), 1);
    let mut ends = Vec::new();
    for (number, change) in output.changes.iter().enumerate() {
        let Change::AddTable { family, level: 0, table } = change else {
            panic!("{change:?}");
        };
        assert_eq!((family.0 as usize, table.meta.entries), (number, 1));
        ends.push((table.offset, table.offset + table.length));
        let open = world.files.reference(table.clone()).unwrap();
        let table = open.table().unwrap();
        let found =
            table.get(LookupKey::new(b"k"), SequenceNumber::MAX, |found| found.sequence.0).unwrap();
        assert_eq!(found, Some(100 + number as u64));
    }
    assert!(ends.windows(2).all(|pair| pair[0].1 == pair[1].0), "tables touch");
}

#[test]
fn a_memtable_that_nobody_sees_yields_no_table_and_no_file() {
    let mut world = World::new(small_options());
    world.put(b"a", b"1");
    world.write(b"a", EntryKind::Delete, b"");
    world.write(b"b", EntryKind::RangeDelete, b"c");
    world.flush();
    assert!(tables(&world).is_empty() && world.files_there().is_empty());
    // With a snapshot between, both versions are seen.
    world.put(b"a", b"1");
    world.snapshots.push(world.sequence);
    world.write(b"a", EntryKind::Delete, b"");
    world.flush();
    assert_eq!(tables(&world)[0].meta().entries, 2);
    assert_eq!(world.get(b"a", world.snapshots[0]).unwrap(), b"1");
}

#[test]
fn tombstones_stay_while_an_older_generation_is_in_memory() {
    let mut world = World::new(small_options());
    world.put(b"a", b"1");
    let old = world.generation;
    world.generation = Generation(old.0 + 1);
    world.write(b"a", EntryKind::Delete, b"");
    let newer = world.tree.flush_input(world.generation).unwrap();
    let stripes = world.stripes();
    let output = world
        .with_context(|context| {
            Flush::new(vec![newer], stripes.clone(), Arc::default(), 1).run(context)
        })
        .unwrap();
    let [Change::AddTable { table, .. }] = &output.changes[..] else {
        panic!("{:?}", output.changes);
    };
    assert_eq!(table.meta.point_tombstones, 1);
}

#[test]
fn tables_of_a_flush_are_disjoint_and_hold_each_key_and_tombstone_once() {
    for seed in 0..20 {
        let mut random = TestRandom::new(seed);
        let mut world = World::new(small_options());
        // Some are so large that they have files of their own, and are cut into parts.
        let (value_bytes_max, parallelism) =
            [(60, 1), (4_000, 1), (4_000, 2), (4_000, 5)][seed as usize % 4];
        world.flush_parallelism = parallelism;
        let mut points = Vec::new();
        let mut ranges = Vec::new();
        for _ in 0..1500 {
            let key = format!("key{:03}", random.below(300)).into_bytes();
            // Every version has its reader.
            world.snapshots.push(world.sequence);
            if random.below(20) == 0 {
                let end = format!("key{:03}", random.below(300)).into_bytes();
                let (start, end) = (key.clone().min(end.clone()), key.max(end));
                world.write(&start, EntryKind::RangeDelete, &end);
                ranges.push(RangeTombstone {
                    start: start.into(),
                    end: end.into(),
                    sequence: world.sequence,
                });
            } else {
                let length = random.below(value_bytes_max);
                world.put(&key, &random.bytes(length));
                points.push((key, std::cmp::Reverse(world.sequence)));
            }
        }
        let input = world.tree.flush_input(world.generation).unwrap();
        let parts =
            Flush::new(vec![input], world.stripes(), Arc::default(), parallelism).parts().len();
        assert_eq!(parts, parallelism);
        world.flush();
        let mut tables = tables(&world);
        assert!(tables.len() > 5, "the flush was not split");
        tables.sort_by_key(|table| table.range().first.clone());
        let is_apart =
            |pair: &[Arc<OpenReference>]| pair[0].range().is_before(&pair[1].range().first);
        assert!(tables.windows(2).all(is_apart));
        let mut found = Vec::new();
        let mut parts = Vec::new();
        for table in &tables {
            let table = table.table().unwrap();
            let mut cursor = table.cursor();
            cursor.seek_to_first().unwrap();
            while let Some(entry) = cursor.entry() {
                found.push((entry.key.to_vec(), std::cmp::Reverse(entry.sequence)));
                cursor.next().unwrap();
            }
            parts.extend(table.tombstones().tombstones());
        }
        points.sort();
        assert_eq!(found, points);
        // The parts together cover what the tombstones did, no more and no less.
        let (whole, parts) = (Fragments::new(&ranges), Fragments::new(&parts));
        for number in 0..=300 {
            let key = format!("key{number:03}").into_bytes();
            let sequences = |all: &Fragments| all.find(&key).map(|index| all.sequences(index));
            assert_eq!(sequences(&parts), sequences(&whole), "at {key:?}");
        }
    }
}

#[test]
fn a_failed_flush_leaves_no_file_and_the_view_as_it_was() {
    for parts in [1, 3] {
        check_failed_flushes(parts);
    }
}

/// Of a memtable that is cut into `parts`.
fn check_failed_flushes(parts: usize) {
    let mut failures = 0;
    for span in [FaultSpan::Once, FaultSpan::FromThenOn] {
        for error in [FaultError::Io, FaultError::NoSpace] {
            for nth in 1.. {
                let mut random = TestRandom::new(nth);
                let mut world = World::new(TreeOptions {
                    table_bytes_target: if parts == 1 { 4 << 10 } else { 300 << 10 },
                    ..small_options()
                });
                world.flush_parallelism = parts;
                for number in 0..300 {
                    let bytes = if parts == 1 { 40 } else { 4_000 };
                    world.put(format!("key{number:03}").as_bytes(), &random.bytes(bytes));
                }
                world.write(b"key100", EntryKind::RangeDelete, b"key200");
                world.fs.set_fault(Some(Fault { kind: None, nth, span, error }));
                let result = world.try_flush();
                world.fs.set_fault(None);
                if result.is_ok() && world.fs.faults() == 0 {
                    break;
                }
                assert!(world.fs.faults() > 0);
                if result.is_err() {
                    failures += 1;
                    // Where even removing fails, an orphan is left that the purge takes.
                    if span == FaultSpan::FromThenOn {
                        world.purge();
                    }
                    assert!(world.files_there().is_empty(), "call {nth}");
                }
                drop(result);
                world.check(&mut random);
                world.flush();
                world.check(&mut random);
            }
        }
    }
    assert!(failures > 40, "only {failures} failures");
}

#[test]
fn what_a_flush_returns_survives_a_loss_of_power() {
    for seed in 0..20 {
        let mut random = TestRandom::new(seed);
        let mut world = World::new(small_options());
        for number in 0..300 {
            world.put(format!("key{number:03}").as_bytes(), &random.bytes(40));
        }
        let output = world.try_flush().unwrap().unwrap();
        let fs = Arc::new(world.fs.crash_clone(Crash::PowerLoss { seed }));
        let files = crate::fixture::open_files(&fs);
        assert!(output.changes.len() > 3);
        for change in &output.changes {
            let Change::AddTable { table, .. } = change else { panic!("{change:?}") };
            let open = files.reference(table.clone()).unwrap();
            open.pass().unwrap().verify(&mut |_, _, _| Ok(())).unwrap();
        }
    }
}

#[test]
fn a_cancelled_flush_says_so_and_leaves_nothing() {
    let mut world = World::new(small_options());
    for number in 0..300 {
        world.put(format!("key{number:03}").as_bytes(), &[7; 40]);
    }
    world.cancelled.store(true, Ordering::Relaxed);
    let error = world.try_flush().unwrap_err();
    assert_eq!(error.kind(), siltdb_base::error::ErrorKind::Closed);
    assert!(world.files_there().is_empty());
}

#[test]
fn a_file_that_is_not_what_was_written_is_never_returned() {
    const VALUE_BYTES: u64 = 5000;
    // Flip a bit of what was already written: the verification must see it.
    let mut world = World::new(TreeOptions::default());
    let mut random = TestRandom::new(1);
    for number in 0..3 * WRITE_BUFFER_BYTES as u64 / VALUE_BYTES {
        world.put(format!("key{number:03}").as_bytes(), &random.bytes(VALUE_BYTES));
    }
    flip_once_written(&world, 10);
    let error = world.try_flush().unwrap_err();
    assert_eq!(error.kind(), siltdb_base::error::ErrorKind::Corruption);
    world.fs.on_call(None);
    assert!(world.fs.list(Path::new("/db")).unwrap().is_empty());
}

#[test]
fn every_table_of_a_shared_file_is_compared_with_what_was_written() {
    const VALUE_BYTES: u64 = WRITE_BUFFER_BYTES as u64;
    let mut world = World::new(TreeOptions::default());
    world.put(b"a", b"1");
    let mut random = TestRandom::new(3);
    let inputs: Vec<_> = (0..4)
        .map(|family| {
            let memtable = Memtable::new(world.arenas());
            let value = random.bytes(VALUE_BYTES);
            let (key, sequence, kind) = (b"k", SequenceNumber(100), EntryKind::Put);
            memtable.insert(siltdb_base::key::Entry { key, sequence, kind, value: &value });
            input(&world, family, memtable)
        })
        .collect();
    assert!(inputs.iter().all(FlushInput::is_small));
    for table in 0..3 {
        // The value of each table is longer than all else that is in it.
        flip_once_written(&world, table * VALUE_BYTES + VALUE_BYTES / 2);
        let stripes = Stripes::new(&[], SequenceNumber(1000));
        let flush = Flush::new(inputs.clone(), stripes, Arc::default(), 1);
        let error = world.with_context(|context| flush.run(context)).unwrap_err();
        assert_eq!(error.kind(), siltdb_base::error::ErrorKind::Corruption, "{table}");
        world.fs.on_call(None);
        assert!(world.files_there().is_empty());
    }
}

/// Flips a bit of the next file once the byte is written and the file is written on.
fn flip_once_written(world: &World, offset: u64) {
    let path = world.files.path(world.next_file());
    let fs = world.fs.clone();
    let is_flipped = AtomicBool::new(false);
    world.fs.on_call(Some(Arc::new(move |call| {
        assert!(call.kind != CallKind::SyncDir, "unverified tables reached the end");
        let is_written = call.kind == CallKind::Write && call.offset > offset;
        if is_written && !is_flipped.swap(true, Ordering::Relaxed) {
            fs.bytes_flip(&path, offset, 1).unwrap();
        }
    })));
}

#[test]
fn every_file_is_synced_once_after_its_last_write_and_before_the_directory() {
    let mut world = World::new(TreeOptions { table_bytes_target: 200 << 10, ..small_options() });
    let mut random = TestRandom::new(2);
    for number in 0..300 {
        world.put(format!("key{number:03}").as_bytes(), &random.bytes(5000));
    }
    let calls = Arc::new(Mutex::new(Vec::new()));
    let observer: Observer = {
        let calls = calls.clone();
        Arc::new(move |call| calls.lock().unwrap().push((call.kind, call.path.to_owned())))
    };
    world.fs.on_call(Some(observer));
    world.flush();
    world.fs.on_call(None);
    let calls = calls.lock().unwrap();
    let at = |kind, path: &Path| {
        let is_it = |call: &(CallKind, PathBuf)| call.0 == kind && call.1 == path;
        (0..calls.len()).filter(|&index| is_it(&calls[index])).collect::<Vec<_>>()
    };
    let files = world.files_there();
    assert!(files.len() >= 5, "{files:?}");
    let [directory] = at(CallKind::SyncDir, Path::new("/db"))[..] else { panic!("{calls:?}") };
    let mut last_synced = None;
    for number in files {
        let path = world.files.path(FileNumber(number));
        let [synced] = at(CallKind::Sync, &path)[..] else { panic!("{path:?}") };
        let written = *at(CallKind::Write, &path).last().unwrap();
        assert!(written < synced && synced < directory, "{path:?}");
        // The disk has the time of the next file to write one.
        assert!(last_synced.is_none_or(|last| written < last && last < synced), "{path:?}");
        last_synced = Some(synced);
    }
}

#[test]
fn what_is_flushed_is_kept_in_the_cache_where_level_0_is_read() {
    let mut world = World::new(small_options());
    let key = |number| format!("key{number:04}").into_bytes();
    let put_and_flush = |world: &mut World, numbers: std::ops::Range<u32>| {
        for number in numbers {
            world.put(&key(number), &[number as u8; 20]);
        }
        world.flush();
    };
    let check = |world: &World, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let found = world.get(&key(number), SequenceNumber::MAX);
            assert_eq!(found.as_deref(), Some(&[number as u8; 20][..]));
        }
    };
    put_and_flush(&mut world, 0..200);
    assert_eq!(world.cache.stats().insertions, 0);
    check(&world, 0..1);
    put_and_flush(&mut world, 200..400);
    let before = world.cache.stats();
    assert!(before.insertions > 4, "{before:?}");
    check(&world, 200..400);
    assert_eq!(world.cache.stats().misses, before.misses);
    // What was read is compacted, and of what replaces it nothing is read.
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 1);
    }
    let before = world.cache.stats();
    put_and_flush(&mut world, 600..800);
    assert_eq!(world.cache.stats().insertions, before.insertions);
}

#[test]
fn a_flush_tells_how_much_of_its_memtables_it_has_read() {
    let mut world = World::new(small_options());
    for key in 0..10_000 {
        world.put(format!("{key:05}").as_bytes(), &[7; 300]);
    }
    for parallelism in [1, 4] {
        let input = world.tree.flush_input(world.generation).unwrap();
        let progress = Arc::new(Progress::default());
        let flush = Flush::new(vec![input], world.stripes(), progress.clone(), parallelism);
        let parts = flush.parts();
        assert_eq!(parts.len(), parallelism);
        let mut left = 10_000;
        for part in &parts {
            assert_eq!(progress.rest_of(10_000), left);
            let _tables = world.with_context(|context| part.run(context)).unwrap();
            let read = left - progress.rest_of(10_000);
            let all = 10_000 / parallelism as u64;
            assert!((all * 6 / 10..=all * 12 / 10).contains(&read), "{read} of {all}");
            left -= read;
        }
    }
}

#[test]
fn when_a_flush_comes_to_its_last_sync_it_has_told_of_all_else() {
    // In the first all entries but one are read without being written, because no reader sees them
    // any more. The last is large, and read and verified in many tables of a file of their own.
    for (keys, entries) in [(1_u64, 200_u64), (200, 200), (10_000, 10_000)] {
        let mut world = World::new(small_options());
        for key in 0..entries {
            world.put(&(key % keys).to_be_bytes(), &[7; 300]);
        }
        let input = world.tree.flush_input(world.generation).unwrap();
        let progress = Arc::<Progress>::default();
        let flush = Flush::new(vec![input], world.stripes(), Arc::clone(&progress), 1);
        let output = world.with_context(|context| flush.run(context)).unwrap();
        let syncs = world.files_there().len() as u64;
        drop(output);
        world.purge();
        assert_eq!(progress.rest_of(entries), 0);
        progress.begin(entries);
        let (nth, span, error) = (syncs, FaultSpan::Once, FaultError::Io);
        world.fs.set_fault(Some(Fault { kind: Some(CallKind::Sync), nth, span, error }));
        world.with_context(|context| flush.run(context)).unwrap_err();
        // The cursor tells of its steps in bunches, of the last when it is dropped.
        assert!(progress.rest_of(entries) < 64);
    }
}

#[test]
fn a_flush_tells_how_far_it_is_with_large_values_and_with_many_families() {
    let progress_of = |world: &World, inputs: Vec<FlushInput>| {
        let progress = Arc::new(Progress::default());
        let flush = Flush::new(inputs, world.stripes(), progress.clone(), 1);
        let _tables = world.with_context(|context| flush.run(context)).unwrap();
        progress.rest_of(1_000)
    };
    let mut world = World::new(small_options());
    for key in 0..100 {
        world.put(format!("{key:05}").as_bytes(), &[7; 60_000]);
    }
    let large = vec![world.tree.flush_input(world.generation).unwrap()];
    assert!(progress_of(&world, large) <= 10);
    let families = (0..100).map(|family| {
        let memtable = memtable_of(&world, &[("a", 1000), ("b", 1001), ("c", 1002)]);
        input(&world, family, memtable)
    });
    let families: Vec<_> = families.collect();
    assert!(progress_of(&world, families) <= 10);
}

/// Writes keys of five digits, 300 bytes each.
fn put_all(world: &mut World, keys: std::ops::Range<u32>) {
    for key in keys {
        world.put(format!("{key:05}").as_bytes(), &[7; 300]);
    }
}

/// A world with the keys before 10,000 in tables. `keys` are in the memtable that is flushed next,
/// and `younger` in the one after it. Returns how many parts that flush has.
fn flush_between(
    keys: std::ops::Range<u32>,
    younger: std::ops::Range<u32>,
    parallelism: usize,
) -> (World, usize) {
    let mut world = World::new(TreeOptions { table_bytes_target: 64 << 10, ..small_options() });
    world.flush_parallelism = parallelism;
    put_all(&mut world, 0..10_000);
    world.flush();
    let generation = world.generation;
    put_all(&mut world, keys);
    world.generation = Generation(generation.0 + 1);
    put_all(&mut world, younger);
    world.generation = generation;
    let input = world.tree.flush_input(generation).unwrap();
    let parts = Flush::new(vec![input], world.stripes(), Arc::default(), parallelism).parts().len();
    world.flush();
    (world, parts)
}

#[test]
fn an_end_that_overlaps_others_gets_tables_of_its_own() {
    for parallelism in [1, 3] {
        let (world, parts) = flush_between(9_000..20_000, 19_000..19_500, parallelism);
        assert_eq!(parts, parallelism + 2);
        let key = |number: u32| Slice::from(format!("{number:05}").into_bytes());
        // The lower end goes on to the end of a leaf.
        let (tables, lower, upper) = (tables(&world), [key(10_000), key(10_100)], key(19_000));
        let is_lower = |table: &Arc<OpenReference>| {
            table.range().contains(b"09999") || table.range().last < lower[0]
        };
        let reach = tables.iter().filter(|table| is_lower(table)).map(|table| &table.range().last);
        assert!(*reach.max().unwrap() < lower[1]);
        let is_cut =
            |table: &Arc<OpenReference>| table.range().first < upper && table.range().last >= upper;
        assert!(!tables.iter().any(is_cut));
        // What overlaps nothing goes down as it is.
        let (version, options) = (&world.tree.view().version, world.tree.options());
        let busy = Busy::default();
        let plan = pick(version, &options, &busy, world.sequence, WriteLoad::Light).unwrap();
        assert_eq!(plan.kind, PlanKind::TrivialMove);
        let is_moved =
            |table: &Arc<OpenReference>| plan.tables().any(|moved| moved.id() == table.id());
        let is_inner = |table: &&Arc<OpenReference>| {
            lower[0] <= table.range().first && table.range().last < upper
        };
        let inner: Vec<_> = tables.iter().filter(is_inner).collect();
        let entries: u64 = inner.iter().map(|table| table.meta().entries).sum();
        assert!((8_900..=9_000).contains(&entries), "{entries}");
        assert!(inner.iter().all(|table| is_moved(table)));
        let overlaps = |table: &&Arc<OpenReference>| table.range().contains(b"09500");
        assert!(tables.iter().filter(overlaps).all(|table| !is_moved(table)));
    }
}

#[test]
fn a_cut_behind_the_longest_key_is_a_key_that_tombstones_can_end_at() {
    let mut world = World::new(TreeOptions { table_bytes_target: 64 << 10, ..small_options() });
    let longest = [b"00100".as_slice(), &[7; KEY_BYTES_MAX - 5]].concat();
    world.put(&longest, b"last of all tables");
    world.flush();
    put_all(&mut world, 100..10_000);
    world.snapshots.push(world.sequence);
    world.write(b"00050", EntryKind::RangeDelete, b"00200");
    let input = world.tree.flush_input(world.generation).unwrap();
    let flush = Flush::new(vec![input], world.stripes(), Arc::default(), 1);
    assert_eq!(flush.parts().len(), 2, "it is cut");
    world.flush();
    assert_eq!(world.get(b"00199", world.sequence), None);
    assert_eq!(world.get(&longest, world.sequence), None);
    assert_eq!(&*world.get(b"00200", world.sequence).unwrap(), [7; 300].as_slice());
}

#[test]
fn a_flush_is_not_cut_where_that_would_leave_too_little_apart() {
    // Behind all tables, and before all younger memtables.
    assert_eq!(flush_between(10_000..20_000, 20_000..20_100, 1).1, 1);
    // Behind the end of a range that was deleted, which is not part of it.
    let mut world = World::new(TreeOptions { table_bytes_target: 64 << 10, ..small_options() });
    world.put(b"00000", b"value");
    world.snapshots.push(world.sequence);
    world.write(b"00000", EntryKind::RangeDelete, b"10000");
    world.flush();
    put_all(&mut world, 10_000..20_000);
    let input = world.tree.flush_input(world.generation).unwrap();
    assert_eq!(Flush::new(vec![input], world.stripes(), Arc::default(), 1).parts().len(), 1);
    // More than a quarter overlaps.
    assert_eq!(flush_between(5_000..15_000, 12_000..12_100, 1).1, 1);
    // All of it, from the first key to the last.
    assert_eq!(flush_between(0..10_000, 0..100, 2).1, 2);
    // Only one end.
    assert_eq!(flush_between(9_000..20_000, 5_000..5_100, 1).1, 2);
    assert_eq!(flush_between(10_000..20_000, 19_000..19_100, 1).1, 2);
    // Too small to be cut into parts.
    assert_eq!(flush_between(9_950..10_150, 10_140..10_150, 2).1, 1);
}
