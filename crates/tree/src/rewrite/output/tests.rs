//! Where tables end. What they hold is tested where they are made: by flushes and compactions.

use super::*;
use crate::{
    fixture::{
        FAMILY, TestRandom, open_files, reference,
        world::{World, small_options},
    },
    retain::{entries::Rules, stripes::Stripes},
};
use siltdb_base::{fs::mem::MemFs, key::EntryKind};
use siltdb_memtable::memtable::Memtable;

fn entries(world: &World, count: u64, random: &mut TestRandom) -> Arc<Memtable> {
    let memtable = Memtable::new(world.arenas());
    for number in 0..count {
        let key = format!("key{number:04}");
        let value = random.bytes(40);
        memtable.insert(Entry {
            key: key.as_bytes(),
            sequence: SequenceNumber(number + 1),
            kind: EntryKind::Put,
            value: &value,
        });
    }
    memtable
}

fn written(
    world: &World,
    memtable: &Arc<Memtable>,
    tombstones: &[RangeTombstone],
    borders: Borders,
    under: &[Arc<OpenReference>],
) -> Vec<TableMeta> {
    let mut cursor = memtable.cursor();
    match &borders.lower {
        Some(lower) => cursor.seek(lower, SequenceNumber::MAX).unwrap(),
        None => cursor.seek_to_first().unwrap(),
    }
    let tombstones = Arc::new(Fragments::new(tombstones));
    let rules = Rules {
        stripes: Stripes::new(&[], SequenceNumber::MAX),
        tombstones: Arc::default(),
        now_ms: 0,
        operator: None,
        filter: None,
    };
    let mut retain = CompactionIter::new(cursor, rules, |_: &[u8]| OlderEntries::None);
    let options = small_options();
    let destination = Destination {
        family: FAMILY,
        level: 5,
        options: &options,
        under,
        last_half: None,
        merged_before: None,
        merged: &Merged::default(),
        opening: Opening::WhenRead,
        created_ms: None,
    };
    let mut tables = NewTables::default();
    let result = world.with_context(|context| {
        let stream =
            OutputIter::new(&mut retain, &tombstones, borders, BlockCopies::default(), None, None)?;
        write_tables(stream, &destination, &mut OutputPlace::OwnFile, &mut tables, context)
    });
    result.unwrap();
    tables.tables().iter().map(|table| table.reference.meta.clone()).collect()
}

fn key(number: u64) -> Slice {
    Slice::from(format!("key{number:04}").into_bytes())
}

fn tombstone(start: u64, end: u64) -> RangeTombstone {
    RangeTombstone { start: key(start), end: key(end), sequence: SequenceNumber(7) }
}

#[test]
fn tables_have_about_the_target_size() {
    let mut random = TestRandom::new(1);
    let world = World::new(small_options());
    let memtable = entries(&world, 1000, &mut random);
    let tables = written(&world, &memtable, &[], Borders::default(), &[]);
    let target = small_options().table_bytes_target;
    let (last, full) = tables.split_last().unwrap();
    assert!(full.len() > 5 && last.file_bytes < target * 5 / 4);
    for table in full {
        assert!((target * 3 / 4..target * 5 / 4).contains(&table.file_bytes), "{table:?}");
    }
    assert_eq!(tables.iter().map(|table| table.entries).sum::<u64>(), 1000);
}

#[test]
fn a_table_ends_before_it_overlaps_too_much_under_it() {
    let mut random = TestRandom::new(2);
    let world = World::new(small_options());
    let memtable = entries(&world, 40, &mut random);
    let files = open_files(&Arc::new(MemFs::new()));
    let target = small_options().table_bytes_target;
    let under: Vec<_> = (0..40)
        .map(|number| {
            let place = key(number);
            // Eleven of them are more than ten times the target.
            files.reference(reference(number + 1, (&place, &place), (1, 1), target)).unwrap()
        })
        .collect();
    assert_eq!(written(&world, &memtable, &[], Borders::default(), &[]).len(), 1);
    let tables = written(&world, &memtable, &[], Borders::default(), &under);
    let counts: Vec<_> = tables.iter().map(|table| table.entries).collect();
    assert_eq!(counts, [11, 11, 11, 7]);
}

#[test]
fn borders_cut_entries_and_tombstones() {
    let mut random = TestRandom::new(3);
    let world = World::new(small_options());
    let memtable = entries(&world, 100, &mut random);
    let tombstones = [tombstone(0, 15), tombstone(20, 90), tombstone(95, 99)];
    let range = |lower: u64, upper: u64| {
        let borders = Borders { lower: Some(key(lower)), upper: Some(key(upper)) };
        written(&world, &memtable, &tombstones, borders, &[])
    };
    let tables = range(10, 30);
    assert_eq!((tables[0].entries, tables[0].range_tombstones), (20, 2));
    assert_eq!((&tables[0].range.first, &tables[0].range.last), (&key(10), &key(30)));
    // Nothing but a piece of a tombstone.
    let beyond = Borders { lower: Some(key(97)), upper: Some(Slice::copy_from(b"key0097a")) };
    let empty = Memtable::new(world.arenas());
    let tables = written(&world, &empty, &tombstones, beyond, &[]);
    assert_eq!((tables.len(), tables[0].entries, tables[0].range_tombstones), (1, 0, 1));
    let nothing = Borders { lower: Some(key(99)), upper: None };
    assert!(written(&world, &empty, &tombstones, nothing, &[]).is_empty());
}
