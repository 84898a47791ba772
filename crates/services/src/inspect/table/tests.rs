//! Table files as they are reported: several tables in one, every kind of entry, and damage.

use super::inspect_table;
use crate::inspect::line::{Detail, Line};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, mem::MemFs},
    id::{SequenceNumber, TableUid},
    key::{Entry, EntryKind},
    slice::Slice,
    tombstone::RangeTombstone,
};
use siltdb_disk::{
    options::{Compression, TableOptions},
    table::{Footer, TableWriter},
};
use siltdb_engine::fixture::{
    compact_all, create_family, files, flush, open, put, rename_family, tree_options,
};
use std::path::Path;

const PATH: &str = "000003.table";

fn add(table: &mut TableWriter<'_>, key: &str, sequence: u64, kind: EntryKind, value: &[u8]) {
    let sequence = SequenceNumber(sequence);
    table.add(Entry { key: key.as_bytes(), sequence, kind, value }).unwrap();
}

/// Two tables in one file; returns where the second begins.
fn filled() -> (MemFs, u64) {
    let fs = MemFs::new();
    let mut file = fs.create(Path::new(PATH)).unwrap();
    let options = TableOptions {
        block_bytes: 1024,
        compression: Compression::None,
        ..TableOptions::default()
    };
    let mut table = TableWriter::new(&mut *file, &options, TableUid(1));
    let expiring = [&77_u64.to_le_bytes()[..], b"v"].concat();
    add(&mut table, "a", 9, EntryKind::PutExpiring, &expiring);
    add(&mut table, "b", 8, EntryKind::Delete, b"");
    add(&mut table, "b", 7, EntryKind::Put, b"old");
    add(&mut table, "c", 6, EntryKind::Merge, b"+1");
    let key = |key: &[u8]| Slice::copy_from(key);
    let (start, end) = (key(b"x"), key(b"z"));
    table.add_tombstone(&RangeTombstone { start, end, sequence: SequenceNumber(5) });
    table.finish().unwrap();
    let second = file.len();
    let mut table = TableWriter::new(&mut *file, &options, TableUid(2));
    for index in 0..100 {
        let value = [index as u8; 100];
        add(&mut table, &format!("key{index:03}"), 1 + index, EntryKind::Put, &value);
    }
    table.finish().unwrap();
    file.sync().unwrap();
    (fs, second)
}

fn report(fs: &MemFs, detail: Detail) -> (Vec<Line>, Result<()>) {
    let mut lines = Vec::new();
    let result = inspect_table(fs, Path::new(PATH), detail, &mut |line| {
        lines.push(line);
        Ok(())
    });
    (lines, result)
}

fn all(fs: &MemFs, detail: Detail) -> Vec<Line> {
    let (lines, result) = report(fs, detail);
    result.unwrap();
    lines
}

fn of_item<'a>(lines: &'a [Line], item: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.field("item") == Some(item)).collect()
}

fn number(line: &Line, name: &str) -> u64 {
    line.field(name).unwrap().parse().unwrap()
}

#[test]
fn every_table_of_a_file_is_found_in_order() {
    let (fs, second) = filled();
    let lines = all(&fs, Detail::Summary);
    assert_eq!(lines[0].field("tables"), Some("2"));
    let tables = of_item(&lines, "table");
    assert_eq!([number(tables[0], "offset"), number(tables[1], "offset")], [0, second]);
    assert_eq!(tables[0].field("uid"), Some("0000000000000001"));
    assert_eq!(tables[0].field("last_key"), Some(r#""z""#));
    assert_eq!(tables[0].field("range_end"), Some("exclusive"));
    assert_eq!(tables[1].field("first_key"), Some(r#""key000""#));
    assert_eq!(number(tables[1], "entries"), 100);
    for (table, properties) in tables.iter().zip(of_item(&lines, "properties")) {
        let parts = ["data", "filter", "range_tombstone", "index", "properties"];
        let parts = parts.map(|part| match part {
            "data" => number(properties, "data_bytes"),
            "filter" => number(properties, "filter_bytes"),
            "range_tombstone" => number(properties, "range_tombstone_bytes"),
            "index" => number(properties, "index_bytes"),
            _ => number(properties, "properties_bytes"),
        });
        assert_eq!(parts.iter().sum::<u64>() + 40, number(table, "length"));
    }
}

#[test]
fn blocks_follow_each_other_and_hold_all_entries() {
    let (fs, _) = filled();
    let lines = all(&fs, Detail::Records);
    assert!(of_item(&lines, "entry").is_empty());
    let blocks = of_item(&lines, "block");
    assert_eq!(blocks[0].field("flags"), Some("tombstones+versions+expiring+merges"));
    assert_eq!(number(blocks[0], "expiry_min_ms"), 77);
    let second = &blocks[1..];
    assert!(second.len() > 5, "{} blocks", second.len());
    let mut offset = 0;
    for (index, block) in second.iter().enumerate() {
        assert_eq!((number(block, "block"), number(block, "offset")), (index as u64, offset));
        assert_eq!(block.field("flags"), Some("plain"));
        offset += number(block, "length");
    }
    assert_eq!(second.iter().map(|block| number(block, "entries")).sum::<u64>(), 100);
    assert_eq!(second[0].field("first_key"), Some(r#""key000""#));
    assert_eq!(second[second.len() - 1].field("last_key"), Some(r#""key099""#));
}

#[test]
fn entries_of_every_kind_are_shown() {
    let (fs, _) = filled();
    let lines = all(&fs, Detail::Operations);
    let entries: Vec<String> = of_item(&lines, "entry").iter().map(ToString::to_string).collect();
    assert_eq!(entries.len(), 104);
    assert_eq!(
        entries[..5],
        [
            r#"item=entry  key="a"  sequence=9  kind=put-expiring  value_bytes=1  expiry_ms=77"#,
            r#"item=entry  key="b"  sequence=8  kind=delete"#,
            r#"item=entry  key="b"  sequence=7  kind=put  value_bytes=3"#,
            r#"item=entry  key="c"  sequence=6  kind=merge  value_bytes=2"#,
            r#"item=entry  key="key000"  sequence=1  kind=put  value_bytes=100"#,
        ]
    );
    let tombstones = of_item(&lines, "range-tombstone");
    assert_eq!(tombstones.len(), 1);
    assert_eq!(
        tombstones[0].to_string(),
        r#"item=range-tombstone  start="x"  end="z"  sequence=5"#
    );
}

#[test]
fn a_damaged_block_is_an_error_only_where_entries_are_asked_for() {
    let (fs, second) = filled();
    fs.bytes_flip(Path::new(PATH), second + 20, 1).unwrap();
    all(&fs, Detail::Records);
    let (lines, result) = report(&fs, Detail::Operations);
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(second)));
    assert_eq!(error.file(), Some(PATH));
    assert_eq!(of_item(&lines, "entry").len(), 4);
}

#[test]
fn the_table_behind_a_damaged_footer_is_still_shown() {
    let (fs, second) = filled();
    fs.bytes_flip(Path::new(PATH), second - 1, 1).unwrap();
    let (lines, result) = report(&fs, Detail::Summary);
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(second - 40)));
    let tables = of_item(&lines, "table");
    assert_eq!(tables.len(), 1);
    assert_eq!(number(tables[0], "offset"), second);
}

#[test]
fn a_file_that_ends_early_is_no_table() {
    let (fs, second) = filled();
    let file_bytes = fs.read_all(Path::new(PATH)).unwrap().len() as u64;
    for len in [0, 1, 39, 40, second - 1, second + 1, file_bytes - 1] {
        fs.write_all(Path::new(PATH), &filled().0.read_all(Path::new(PATH)).unwrap()).unwrap();
        fs.truncate(Path::new(PATH), len).unwrap();
        let (lines, result) = report(&fs, Detail::Operations);
        assert_eq!(result.map_err(|error: Error| error.kind()), Err(ErrorKind::Corruption));
        assert!(of_item(&lines, "table").is_empty(), "{len}");
    }
}

/// Checksum and magic are right: such a file was made to be read.
#[test]
fn a_footer_whose_lengths_cannot_be_is_an_error() {
    let fs = MemFs::new();
    let lengths = [(40, u64::MAX), (40, u64::MAX - 39), (40, 1), (39, 0), (41, 0), (u64::MAX, 0)];
    for (table_bytes, properties_bytes) in lengths {
        let footer = Footer { uid: TableUid(1), table_bytes, properties_bytes };
        fs.write_all(Path::new(PATH), &footer.encode()).unwrap();
        let (lines, result) = report(&fs, Detail::Operations);
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(0)), "{error}");
        assert_eq!(error.file(), Some(PATH));
        assert!(of_item(&lines, "table").is_empty());
    }
}

/// A database without its manifest learns from its tables which families there are.
#[test]
fn tables_say_which_family_they_are_of() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create_family(&engine, "first", tree_options()).unwrap();
    let origins = |fs: &MemFs| {
        let mut origins = Vec::new();
        for path in files(fs, ".table") {
            inspect_table(fs, &path, Detail::Summary, &mut |line| {
                if line.field("item") == Some("origin") {
                    origins.push((
                        line.field("family").unwrap().to_owned(),
                        line.field("name").unwrap().to_owned(),
                    ));
                }
                Ok(())
            })
            .unwrap();
        }
        origins.sort();
        origins.dedup();
        origins
    };
    let named = |id: &str, name: &str| (id.to_owned(), format!("{name:?}"));
    for family in ["default", "first"] {
        put(&engine, family, b"key", b"value");
        flush(&engine).unwrap();
    }
    assert_eq!(origins(&fs), [named("0", "default"), named("1", "first")]);
    rename_family(&engine, "first", "second").unwrap();
    put(&engine, "second", b"key", b"other");
    compact_all(&engine).unwrap();
    drop(engine);
    drop(open(&fs));
    assert_eq!(origins(&fs), [named("0", "default"), named("1", "second")]);
}
