//! Streams cut into tables, and tables from elsewhere taken or refused.

use super::*;
use crate::fixture::world::{World, small_options};
use siltdb_base::{
    fs::{Fs, mem::MemFs},
    id::TableUid,
    slice::Slice,
    tombstone::RangeTombstone,
};
use siltdb_disk::{edit::Change, options::TableOptions, table::ExternalTable};

const FAMILY: FamilyId = FamilyId(3);

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn writer() -> IngestWriter {
    IngestWriter::new(FAMILY, Arc::new(small_options()), SequenceNumber(5))
}

fn add(writer: &mut IngestWriter, context: &JobContext<'_>, numbers: std::ops::Range<u32>) {
    for number in numbers {
        if writer.is_turn_due() {
            let written = writer.turn(context).unwrap();
            written.into_iter().for_each(|table| writer.add_verified(table.run(context).unwrap()));
        }
        writer.add(EntryKind::Put, &key(number), &[b'v'; 40]).unwrap();
    }
}

#[test]
fn a_stream_becomes_tables_of_the_target_size_in_order() {
    let world = World::new(small_options());
    world.with_context(|context| {
        let mut writer = writer();
        add(&mut writer, context, 0..2000);
        assert_eq!(writer.entries(), 2000);
        let output = writer.finish(context).unwrap();
        assert!(output.changes.len() > 3);
        let mut next = 0;
        for change in &output.changes {
            let Change::AddTable { family: FAMILY, level: 0, table } = change else {
                panic!("{change:?}")
            };
            assert!(table.length < 3 * small_options().table_bytes_target);
            assert_eq!(&*table.meta.range.first, &key(next)[..]);
            next += table.meta.entries as u32;
            assert_eq!(&*table.meta.range.last, &key(next - 1)[..]);
            let reference = world.files.reference(table.clone()).unwrap();
            let scan = reference.pass().unwrap();
            let origin = scan.origin().unwrap();
            assert_eq!(origin.family, FAMILY);
            assert!(scan.external().is_none());
        }
        assert_eq!(next, 2000);
    });
}

#[test]
fn a_writer_that_is_dropped_removes_its_files_and_an_abandoned_one_leaves_them() {
    let world = World::new(small_options());
    world.with_context(|context| {
        let mut dropped = writer();
        add(&mut dropped, context, 0..1000);
        assert!(world.files_there().len() > 1);
        drop(dropped);
        assert!(world.files_there().is_empty());
        let mut abandoned = writer();
        add(&mut abandoned, context, 0..1000);
        let there = world.files_there().len();
        abandoned.abandon();
        assert_eq!(world.files_there().len(), there);
    });
}

#[test]
fn an_entry_out_of_order_is_refused_with_both_keys() {
    let check = |last: Option<&str>, key: &str| {
        check_entry(last.map(str::as_bytes), key.as_bytes(), b"").map_err(|error| {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            error.to_string()
        })
    };
    assert_eq!(check(None, ""), Ok(()));
    assert_eq!(check(Some("a"), "aa"), Ok(()));
    for (last, key) in [("b", "a"), ("b", "b"), ("b", ""), ("", "")] {
        let text = check(Some(last), key).unwrap_err();
        assert!(
            text.contains(&format!("{last:?}")) && text.contains(&format!("{key:?}")),
            "{text}"
        );
    }
    let long = vec![0; KEY_BYTES_MAX + 1];
    assert!(check_entry(None, &long[1..], b"").is_ok());
    assert!(check_entry(None, &long, b"").is_err());
}

/// A table file as `change` makes it.
fn external(fs: &MemFs, change: impl FnOnce(&mut TableWriter<'_>)) -> Arc<dyn File> {
    let path = Path::new("/outside.table");
    let mut file = fs.create(path).unwrap();
    let mut table = TableWriter::new(&mut *file, &TableOptions::default(), TableUid(77))
        .with_external(ExternalTable::current(BYTEWISE));
    let (key, value) = (&b"a"[..], &b"value"[..]);
    table.add(Entry { key, sequence: SequenceNumber::ZERO, kind: EntryKind::Put, value }).unwrap();
    change(&mut table);
    table.finish().unwrap();
    file.sync().unwrap();
    let opened = fs.open(path).unwrap();
    fs.remove(path).unwrap();
    opened
}

#[test]
fn an_external_table_is_copied_and_one_with_other_entries_is_refused() {
    let world = World::new(small_options());
    let copy = |file: Arc<dyn File>| {
        world.with_context(|context| {
            let mut tables = NewTables::default();
            let path = Path::new("/outside.table");
            copy_external(FAMILY, &small_options(), &file, path, &mut tables, context)?;
            tables.sync()?;
            tables.finish([], context)
        })
    };
    let output = copy(external(&world.fs, |_| ())).unwrap();
    assert_eq!((output.changes.len(), world.files_there().len()), (1, 1));
    let Change::AddTable { table, .. } = &output.changes[0] else { panic!("no table") };
    let copied = world.files.reference(table.clone()).unwrap().pass().unwrap();
    assert_eq!(copied.origin().map(|origin| origin.family), Some(FAMILY));
    assert!(copied.external().is_none(), "a table of a database is no external one");
    assert_ne!(table.meta.uid, TableUid(77), "a second copy is another table");
    let entry = |kind, sequence: u64, value| {
        move |table: &mut TableWriter<'_>| {
            let sequence = SequenceNumber(sequence);
            table.add(Entry { key: b"b", sequence, kind, value }).unwrap();
        }
    };
    let tombstone = RangeTombstone {
        start: Slice::copy_from(b"b"),
        end: Slice::copy_from(b"c"),
        sequence: SequenceNumber(0),
    };
    let bad = [
        external(&world.fs, entry(EntryKind::Merge, 0, b"1")),
        external(&world.fs, entry(EntryKind::Put, 1, b"1")),
        external(&world.fs, |table| table.add_tombstone(&tombstone)),
    ];
    for file in bad {
        let error = copy(file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("outside.table"), "{error}");
        assert_eq!(world.files_there().len(), 1);
    }
    let other = |external: ExternalTable| {
        let path = Path::new("/other.table");
        let mut file = world.fs.create(path).unwrap();
        let table = TableWriter::new(&mut *file, &TableOptions::default(), TableUid(78));
        let mut table = table.with_external(external);
        let (kind, sequence) = (EntryKind::Put, SequenceNumber::ZERO);
        table.add(Entry { key: b"a", sequence, kind, value: b"" }).unwrap();
        table.finish().unwrap();
        file.sync().unwrap();
        let opened = world.fs.open(path).unwrap();
        world.fs.remove(path).unwrap();
        opened
    };
    let ordered = ExternalTable::current("u64");
    let newer = ExternalTable { version: ordered.version + 1, ..ExternalTable::current(BYTEWISE) };
    let refused =
        [(ordered, ErrorKind::InvalidArgument, "u64"), (newer, ErrorKind::Unsupported, "version")];
    for (external, kind, part) in refused {
        let error = copy(other(external)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
