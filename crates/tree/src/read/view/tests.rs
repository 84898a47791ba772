//! Lookups in memtables and tables together, and what a search leaves unopened.

use crate::{
    fixture::{
        TestRandom,
        model::AppendOperator,
        world::{World, small_options},
    },
    memory::Generation,
    read::visible::bounds::Bounds,
};
use siltdb_base::{
    fs::Fs,
    id::{FileNumber, SequenceNumber},
    key::EntryKind,
    slice::Slice,
};

/// A tree with the keys 0 to 99 in two runs of tables and one memtable. Its snapshot is from when
/// it had 42 of them.
fn layered() -> World {
    let mut world = World::new(small_options());
    world.snapshots.push(SequenceNumber(42));
    for layer in 0..3_u8 {
        for number in 0..100 {
            world.put(format!("key{number:02}").as_bytes(), &[layer; 40]);
        }
        if layer < 2 {
            world.flush();
        }
    }
    world
}

#[test]
fn each_snapshot_finds_its_version_in_its_layer() {
    let world = layered();
    for layer in 0..3 {
        let snapshot = SequenceNumber(layer * 100 + 100);
        let value = world.get(b"key42", snapshot).unwrap();
        assert_eq!(value.as_bytes(), [layer as u8; 40]);
    }
    assert_eq!(world.get(b"key42", SequenceNumber(42)), None);
    assert_eq!(world.get(b"key42", SequenceNumber(43)).unwrap().as_bytes(), [0; 40]);
    assert_eq!(world.get(b"key100", SequenceNumber::MAX), None);
}

#[test]
fn operands_find_their_base_through_all_layers() {
    let mut world = World::new(small_options());
    world.put(b"k", b"base");
    for operand in ["1", "2", "3"] {
        world.snapshots.push(world.sequence);
        world.flush();
        world.write(b"k", EntryKind::Merge, operand.as_bytes());
        world.write(b"k", EntryKind::Merge, b".");
    }
    assert_eq!(world.get(b"k", world.sequence).unwrap(), b"base1.2.3.");
    assert_eq!(world.get(b"k", SequenceNumber(5)).unwrap(), b"base1.2.");
    assert_eq!(world.get(b"k", SequenceNumber(3)).unwrap(), b"base1.");
}

#[test]
fn many_operands_of_a_table_are_walked_not_looked_up_one_by_one() {
    let mut world = World::new(small_options());
    world.put(b"k", b"");
    for _ in 0..1_000 {
        // A stripe for each, so that the flush keeps them apart.
        world.snapshots.push(world.sequence);
        world.write(b"k", EntryKind::Merge, b"x");
    }
    let unflushed = world.get(b"k", world.sequence).unwrap();
    world.flush();
    let asked = |world: &World| world.cache.stats().hits + world.cache.stats().misses;
    let before = asked(&world);
    let flushed = world.get(b"k", world.sequence).unwrap();
    assert_eq!((unflushed.len(), &flushed), (1_000, &unflushed));
    let asked = asked(&world) - before;
    assert!(asked < 100, "{asked} blocks asked for");
    assert_eq!(world.get(b"k", SequenceNumber(501)).unwrap().len(), 500);
}

#[test]
fn nothing_older_is_opened_once_a_range_tombstone_covers_the_key() {
    let mut world = layered();
    world.flush();
    world.write(b"key40", EntryKind::RangeDelete, b"key50");
    // A read of any table fails from now on.
    for number in world.files_there() {
        world.fs.remove(&world.files.path(FileNumber(number))).unwrap();
    }
    let view = world.tree.view();
    let changes: Vec<_> = view
        .version
        .references()
        .flat_map(|(level, table)| {
            let removal = siltdb_disk::edit::Change::RemoveTable {
                family: crate::fixture::FAMILY,
                level,
                file: table.file,
                offset: table.offset,
            };
            // Another number, so that no open table is found.
            let mut moved = (**table).clone();
            moved.file.0 += 1000;
            [removal, crate::fixture::add(level, moved)]
        })
        .collect();
    drop(view);
    world.tree.apply(&changes, None).unwrap();
    assert_eq!(world.get(b"key45", world.sequence), None);
    let resolver = super::Resolver { operator: Some(&AppendOperator), ..Default::default() };
    assert!(world.tree.view().get(b"key55", world.sequence, || resolver, |_| ()).is_err());
}

#[test]
fn an_iterator_asks_only_the_tables_within_its_bounds() {
    let mut random = TestRandom::new(5);
    let mut world = World::new(small_options());
    for number in 0..400 {
        world.put(format!("key{number:03}").as_bytes(), &random.bytes(60));
    }
    world.flush();
    world.settle();
    world.generation = Generation(9);
    let count = world.tree.view().version.tables().count();
    assert!(count > 5);
    let bounds = Bounds {
        lower: Some(Slice::copy_from(b"key200")),
        upper: Some(Slice::copy_from(b"key210")),
    };
    let before = world.fs.calls();
    let mut iter = world.iter(world.sequence, bounds);
    iter.seek_to_first().unwrap();
    let mut found = 0;
    while iter.key().is_some() {
        found += 1;
        iter.next().unwrap();
    }
    assert_eq!(found, 10);
    assert!(world.fs.calls() - before < 12, "{} calls", world.fs.calls() - before);
}
