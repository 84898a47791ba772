//! Claims on files.

use super::*;
use crate::fixture::{
    open_files,
    world::{World, small_options},
};
use crate::read::visible::bounds::Bounds;
use siltdb_base::{budget::Part, fs::mem::MemFs, key::EntryKind};

#[test]
fn a_claimed_file_is_one_thing_and_is_forgotten_when_dropped() {
    let files = open_files(&Arc::new(MemFs::new()));
    let first = files.claim(FileNumber(1));
    assert!(Arc::ptr_eq(&first, &files.claim(FileNumber(1))));
    assert!(files.is_in_use(FileNumber(1)) && !files.is_in_use(FileNumber(2)));
    drop(first);
    assert!(!files.is_in_use(FileNumber(1)));
}

#[test]
fn equal_references_are_one_and_others_are_not() {
    let files = open_files(&Arc::new(MemFs::new()));
    let table = |visible_to| {
        let table = crate::fixture::reference(1, (b"a", b"b"), (1, 9), 10);
        TableReference { visible_to, ..table }
    };
    let whole = files.reference(table(None)).unwrap();
    assert!(Arc::ptr_eq(&whole, &files.reference(table(None)).unwrap()));
    let older = files.reference(table(Some(SequenceNumber(4)))).unwrap();
    assert_eq!((older.sequence_max().0, whole.sequence_max().0), (4, 9));
    let mut elsewhere = table(None);
    elsewhere.offset = 4096;
    assert_eq!(files.reference(elsewhere).unwrap().id().offset, 4096);
    let gone = Arc::downgrade(&older);
    drop(older);
    assert!(gone.upgrade().is_none(), "a reference outlives its versions");
}

#[test]
fn a_missing_file_fails_when_it_is_read_and_not_before() {
    let files = open_files(&Arc::new(MemFs::new()));
    let table = crate::fixture::reference(1, (b"a", b"b"), (1, 1), 10);
    let open = files.reference(table).unwrap();
    for _ in 0..2 {
        assert_eq!(open.table().unwrap_err().kind(), siltdb_base::error::ErrorKind::Corruption);
    }
}

/// Memory of open tables.
fn held(world: &World) -> usize {
    world.cache.budget().used(Part::Tables)
}

fn fill(world: &mut World) {
    for number in 0..500_u32 {
        world.put(&number.to_be_bytes(), &[7; 30]);
    }
    world.flush();
}

#[test]
fn jobs_leave_tables_closed_that_replace_what_is_not_read() {
    let mut world = World::new(small_options());
    for _ in 0..8 {
        fill(&mut world);
    }
    assert!(world.settle() > 0);
    assert_eq!(held(&world), 0, "flushes and compactions let go of what they read");
    // A table that is open, but was not looked at.
    let view = world.tree.view();
    let (_, table) = view.version.tables().next().unwrap();
    assert!(!table.table().unwrap().is_read() && !table.is_read());
    let before = held(&world);
    assert!(before > 0);
    fill(&mut world);
    assert_eq!(held(&world), before);
}

#[test]
fn jobs_open_tables_ahead_that_replace_what_is_read() {
    let mut world = World::new(small_options());
    for _ in 0..8 {
        fill(&mut world);
    }
    let level0 = |world: &World| world.tree.view().version.levels()[0].tables().to_vec();
    let is_open = |table: &Arc<OpenReference>| table.table.get().is_some();
    let is_read = |table: &Arc<OpenReference>| table.is_read();
    assert!(!level0(&world).iter().any(is_open));
    assert!(world.get(&7_u32.to_be_bytes(), world.sequence).is_some());
    let before = level0(&world).len();
    assert_eq!(level0(&world).iter().filter(|table| is_read(table)).count(), 1);
    fill(&mut world);
    let new = level0(&world).len() - before;
    assert!(level0(&world)[..new].iter().all(|table| is_open(table) && !is_read(table)));
    // So is what a compaction makes of it, which was not read yet: it ends there.
    let plan = world.next_plan().unwrap();
    assert!(plan.tables().any(is_read));
    world.compact(&plan, 1);
    let view = world.tree.view();
    let made = view.version.levels()[plan.output_level].tables().to_vec();
    assert!(!made.is_empty() && made.iter().all(|table| is_open(table) && !is_read(table)));
    world.settle();
    let view = world.tree.view();
    assert!(!view.version.tables().any(|(_, table)| is_read(table)));
    fill(&mut world);
    let new = level0(&world).len();
    assert!(new > 0 && !level0(&world).iter().any(is_open));
}

#[test]
fn a_lookup_opens_a_table_only_if_its_filter_lets_the_key_pass() {
    let mut world = World::new(small_options());
    // Each run reaches over the keys of the others.
    for run in 0..3_u32 {
        for number in 0..150_u32 {
            world.put(&(3 * number + run).to_be_bytes(), &[7; 30]);
        }
        world.flush();
    }
    let view = world.tree.view();
    let runs = view.version.levels()[0].tables().to_vec();
    assert_eq!(runs.len(), 3);
    let key = 225_u32.to_be_bytes();
    let key = LookupKey::new(&key);
    let get = |table: &OpenReference| {
        table.get(key, SequenceNumber::MAX, |found| found.sequence).unwrap()
    };
    let held = || world.cache.budget().used(Part::Tables);
    // The newest is first; 225 is of the first run, the oldest.
    let [absent, other, present] = &runs[..] else { unreachable!() };
    assert!(absent.may_hold(key), "nothing is known of it");
    for table in [absent, other] {
        assert_eq!(get(table), None);
        assert!(table.table.get().is_none() && !table.may_hold(key));
    }
    let filter_bytes = absent.filter.get().unwrap().bytes();
    assert!(filter_bytes > 100 && held() == 2 * filter_bytes);
    assert_eq!(get(present), Some(SequenceNumber(1)), "that of its memtable, as nothing is deeper");
    let table = present.table.get().unwrap();
    assert_eq!(held(), 2 * filter_bytes + table.memory_bytes(), "the filter is there once");
    assert_eq!(table.filter().unwrap().bytes(), filter_bytes);
    // A reference to a table that is open asks its filter; a clone shares the one it finds.
    // An equal reference would be the same.
    let [open, clone] = [present, absent].map(|table| {
        let visible_to = Some(table.sequence_max().next());
        let other = TableReference { visible_to, ..(**table.reference()).clone() };
        world.files.reference(other).unwrap()
    });
    assert!(open.table.get().is_some() && clone.table.get().is_none());
    let table = absent.table().unwrap();
    let before = held();
    assert_eq!(get(&clone), None);
    assert_eq!(held(), before, "its own would have been read again");
    assert!(clone.table.get().is_none() && table.filter().is_ok());
}

#[test]
fn references_to_a_table_share_it_while_its_index_stays_in_the_file() {
    let mut world = World::new(small_options());
    fill(&mut world);
    let view = world.tree.view();
    let (_, table) = view.version.tables().next().unwrap();
    let clone = world.files.reference(table.reference().clone()).unwrap();
    let others = 1 << 30;
    world.cache.budget().charge(Part::Tables, others);
    for reference in [table, &clone] {
        drop(reference.reading().unwrap());
        assert!(reference.table.get().is_none());
    }
    let [lean, other] = [table, &clone].map(|reference| reference.by_frames.get().unwrap());
    assert!(Arc::ptr_eq(lean, other), "its frames in the cache would be there twice");
    world.cache.budget().release(Part::Tables, others);
}

#[test]
fn tables_are_read_without_being_held_when_they_have_their_share_of_memory() {
    let mut world = World::new(small_options());
    fill(&mut world);
    world.write(&1_u32.to_be_bytes(), EntryKind::RangeDelete, &2_u32.to_be_bytes());
    fill(&mut world);
    let view = world.tree.view();
    // The newest is first.
    let table_with = |key: u32| {
        let mut tables = view.version.tables().map(|(_, table)| table);
        tables.find(|table| table.range().contains(&key.to_be_bytes())).unwrap()
    };
    let table = table_with(77);
    let others = 1 << 30;
    world.cache.budget().charge(Part::Tables, others);
    let before = world.cache.budget().used(Part::Tables);
    for (key, wanted) in [(&[0, 0, 0, 77][..], true), (&[0, 0, 0, 77, 0], false)] {
        let found = table
            .get(LookupKey::new(key), SequenceNumber::MAX, |found| found.value.bytes().to_vec());
        assert_eq!(found.unwrap(), wanted.then(|| vec![7; 30]));
    }
    let deleting = table_with(1);
    let tombstones = deleting.tombstones().unwrap();
    assert_eq!(tombstones.count(), 1);
    assert!(Arc::ptr_eq(tombstones, deleting.tombstones().unwrap()), "read once");
    assert!(deleting.table.get().is_none());
    let mut iter = world.iter(world.sequence, Bounds::default());
    iter.seek_to_first().unwrap();
    let mut count = 0;
    while iter.entry().is_some() {
        count += 1;
        iter.next().unwrap();
    }
    drop(iter);
    assert_eq!(count, 500);
    drop(table.reading().unwrap());
    assert!(table.table.get().is_none() && table.filter.get().is_none());
    let lean = world.cache.budget().used(Part::Tables) - before;
    let tables = view.version.tables().count();
    assert!((1..2_000 * tables).contains(&lean), "{lean} bytes for {tables} tables");
    world.cache.budget().release(Part::Tables, others);
    drop(table.reading().unwrap());
    assert!(table.table.get().is_some());
}
