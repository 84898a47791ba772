//! Both kinds of tables, mapped and read, compressed and not, give the same answers; everything
//! that takes tables takes those of either kind.

use siltdb::{
    Compression, Create, Db, Family, FamilyOptions, Options, Read, ReadIo, ReadOptions, TableKind,
    inspect::{self, Detail},
    salvage::salvage,
};
use std::{collections::BTreeMap, collections::BTreeSet, path::Path};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const KINDS: [TableKind; 2] = [TableKind::Block, TableKind::BTree];
const COMPRESSIONS: [Compression; 2] = [Compression::None, Compression::Lz4];

/// Little memory and small tables, so that a few thousand entries reach several levels.
fn family_options(kind: TableKind, compression: Compression) -> FamilyOptions {
    FamilyOptions::new()
        .table_kind(kind)
        .compression(compression)
        .block_bytes(1 << 10)
        .table_bytes(256 << 10)
        .base_level_bytes(512 << 10)
        .level0_runs(2)
}

fn options(read_io: ReadIo) -> Options {
    Options::new()
        .workers(0)
        .seed(3)
        .read_io(read_io)
        .memtable_bytes(64 << 10)
        .memory_budget(4 << 20)
        .cache_bytes(256 << 10)
}

fn key(number: u64) -> Vec<u8> {
    format!("customer/{number:06}").into_bytes()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    format!("value {number} of round {round} ").repeat(1 + number as usize % 9).into_bytes()
}

/// Puts, overwrites and deletes, so that several levels have tables.
fn fill(family: &Family, map: &mut Map) {
    for round in 0..4 {
        for number in (round..4_000).step_by(1 + 2 * round as usize) {
            family.put(key(number), value(number, round)).unwrap();
            map.insert(key(number), value(number, round));
        }
        let (start, end) = (key(round * 700), key(round * 700 + 50));
        family.delete_range(start.clone()..end.clone()).unwrap();
        let deleted = start..end;
        map.retain(|key, _| !deleted.contains(key));
    }
}

/// In every way of reading.
fn compare(family: &Family, map: &Map, what: &str) {
    let pairs = |iter: siltdb::Iter| -> Vec<(Vec<u8>, Vec<u8>)> {
        iter.map(|pair| pair.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    };
    let all: Vec<_> = map.clone().into_iter().collect();
    assert!(pairs(family.iter().unwrap()) == all, "{what}: forwards");
    let back: Vec<_> = family.iter().unwrap().rev().map(|pair| pair.unwrap().0.to_vec()).collect();
    assert!(back.iter().rev().eq(map.keys()), "{what}: backwards");
    let keys = family.iter_with(&ReadOptions::new().keys_only(true)).unwrap();
    assert!(keys.map(|pair| pair.unwrap().0.to_vec()).eq(map.keys().cloned()), "{what}: keys");
    let asked: Vec<_> = (0..4_100).step_by(3).map(key).collect();
    let many = family.get_many(&asked).unwrap();
    let mut cursor = family.cursor().unwrap();
    for (asked, found) in asked.iter().zip(many) {
        let expected = map.get(asked).map(Vec::as_slice);
        assert_eq!(family.get(asked).unwrap().as_deref(), expected, "{what}: get");
        assert_eq!(found.as_deref(), expected, "{what}: get_many");
        cursor.seek(asked).unwrap();
        let next = map.range(asked.clone()..).next().map(|(key, _)| &key[..]);
        assert_eq!(cursor.key(), next, "{what}: seek");
        cursor.seek_for_prev(asked).unwrap();
        let before = map.range(..=asked.clone()).next_back().map(|(key, _)| &key[..]);
        assert_eq!(cursor.key(), before, "{what}: seek_for_prev");
    }
    let range = key(500)..key(900);
    let within: Vec<_> = map.range(range.clone()).map(|(k, v)| (k.clone(), v.clone())).collect();
    assert!(pairs(family.range(range.clone()).unwrap()) == within, "{what}: range");
    let size = family.size_of(range).unwrap();
    let entries = within.len() as u64;
    assert!((entries / 2..=entries * 4 + 40).contains(&size.entries), "{what}: {size:?}");
}

/// The kinds of the tables in `dir`.
fn kinds_in(dir: &Path) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "table") {
            inspect::table(&path, Detail::Operations, &mut |line| {
                kinds.extend(line.field("index").map(str::to_owned));
                Ok(())
            })
            .unwrap();
        }
    }
    kinds
}

fn settle(db: &Db) {
    db.flush().unwrap();
    db.settle().unwrap();
}

#[test]
fn both_kinds_answer_the_same_in_every_way() {
    for read_io in [ReadIo::Read, ReadIo::Map] {
        for compression in COMPRESSIONS {
            let dir = tempfile::tempdir().unwrap();
            let mut maps = Vec::new();
            let db = options(read_io).open(dir.path()).unwrap();
            for (kind, name) in KINDS.into_iter().zip(["list", "tree"]) {
                let family = db.create_family(name, family_options(kind, compression)).unwrap();
                let mut map = Map::new();
                fill(&family, &mut map);
                settle(&db);
                compare(&family, &map, name);
                maps.push((name, map));
            }
            assert_eq!(db.check(&mut |_| {}).unwrap().errors.len(), 0);
            db.close().unwrap();
            assert_eq!(kinds_in(dir.path()).into_iter().collect::<Vec<_>>(), ["blocks", "tree"]);
            let db = options(read_io).open(dir.path()).unwrap();
            for (name, map) in &maps {
                compare(&db.family(name).unwrap(), map, "reopened");
            }
            db.compact().unwrap();
            for (name, map) in &maps {
                compare(&db.family(name).unwrap(), map, "compacted");
            }
            assert_eq!(db.check(&mut |_| {}).unwrap().errors.len(), 0);
        }
    }
}

#[test]
fn a_family_changes_its_kind_while_it_is_in_use() {
    for read_io in [ReadIo::Read, ReadIo::Map] {
        let dir = tempfile::tempdir().unwrap();
        let first = family_options(TableKind::Block, Compression::None);
        let db = options(read_io).default_family(first).open(dir.path()).unwrap();
        let family = db.default_family();
        let mut map = Map::new();
        fill(&family, &mut map);
        settle(&db);
        for (kind, words) in [(TableKind::BTree, ["tree"]), (TableKind::Block, ["blocks"])] {
            family.set_options(&family.options().table_kind(kind)).unwrap();
            family.put(key(1), b"of now").unwrap();
            map.insert(key(1), b"of now".to_vec());
            settle(&db);
            compare(&family, &map, "both kinds");
            db.compact().unwrap();
            compare(&family, &map, "one kind");
            assert_eq!(kinds_in(dir.path()).into_iter().collect::<Vec<_>>(), words);
        }
    }
}

#[test]
fn trees_are_copied_cloned_loaded_archived_and_saved() {
    for compression in COMPRESSIONS {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let trees = family_options(TableKind::BTree, compression);
        let db = options(ReadIo::Map).default_family(trees.clone()).open(path("db")).unwrap();
        let family = db.default_family();
        let mut map = Map::new();
        fill(&family, &mut map);
        settle(&db);
        // A clone, over a part of a table too.
        let clone = db.clone_family(&family, "clone").unwrap();
        compare(&clone, &map, "clone");
        // Table files, of the other kind as well.
        for (number, kind) in (0..).zip(KINDS) {
            let file = path(&format!("{number}.table"));
            let mut table = options(ReadIo::Read)
                .table_file(&file, &family_options(kind, compression))
                .unwrap();
            for at in 0..300 {
                let (key, value) = (key(10_000 * (number + 1) + at), value(at, number));
                table.put(&key, &value).unwrap();
                map.insert(key, value);
            }
            table.finish().unwrap();
            db.ingest(&[(family.clone(), file)]).unwrap();
        }
        compare(&family, &map, "ingested");
        // A checkpoint, a backup and an archive.
        db.checkpoint(path("checkpoint")).unwrap();
        let copy = options(ReadIo::Map).default_family(trees.clone()).open(path("checkpoint"));
        compare(&copy.unwrap().default_family(), &map, "checkpoint");
        db.archive(path("a.siltar")).unwrap();
        let other = options(ReadIo::Map).open(path("other")).unwrap();
        other.import_archive(path("a.siltar")).unwrap();
        compare(&other.default_family(), &map, "archive");
        assert_eq!(db.check(&mut |_| {}).unwrap().errors.len(), 0);
        drop((family, clone));
        db.close().unwrap();
        // Without a manifest.
        std::fs::remove_file(path("db").join("CURRENT")).unwrap();
        salvage(path("db"), path("saved"), options(ReadIo::Read), &mut |_| {}).unwrap();
        let saved = options(ReadIo::Map).create(Create::Never).open(path("saved")).unwrap();
        compare(&saved.default_family(), &map, "saved");
    }
}

/// A data block of a table file.
struct DataBlock {
    offset: usize,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

/// The data blocks of the table at `path`, in order.
fn data_blocks(path: &Path) -> Vec<DataBlock> {
    let mut blocks = Vec::new();
    inspect::table(path, Detail::Records, &mut |line| {
        if let (Some(offset), Some(first), Some(last)) =
            (line.field("offset"), line.field("first_key"), line.field("last_key"))
        {
            blocks.push(DataBlock {
                offset: offset.parse().unwrap(),
                first_key: first.trim_matches('"').as_bytes().to_vec(),
                last_key: last.trim_matches('"').as_bytes().to_vec(),
            });
        }
        Ok(())
    })
    .unwrap();
    blocks
}

/// Flips a bit in each block of a table in turn, and reads all entries before and after the block,
/// in both directions.
fn read_around_each_block(kind: TableKind, options: &Options) {
    let dir = tempfile::tempdir().unwrap();
    let compression = Compression::None;
    {
        let db = options.clone().open(dir.path()).unwrap();
        let family = db.create_family("f", family_options(kind, compression)).unwrap();
        (0..80).for_each(|number| family.put(key(number), value(number, 0)).unwrap());
        settle(&db);
    }
    let all: Vec<_> = (0..80).map(key).collect();
    let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "table");
    let table = files.into_iter().find(is_table).unwrap();
    let sound = std::fs::read(&table).unwrap();
    let blocks = data_blocks(&table);
    assert!(blocks.len() >= 10, "{} blocks", blocks.len());
    for DataBlock { offset, first_key, last_key } in blocks {
        let mut bytes = sound.clone();
        bytes[offset + 30] ^= 1;
        std::fs::write(&table, &bytes).unwrap();
        let db = options.clone().open(dir.path()).unwrap();
        let family = db.family("f").unwrap();
        let behind = [&last_key[..], &[0]].concat();
        let keys = |iter: siltdb::Iter| iter.map(|pair| pair.unwrap().0.to_vec());
        let mut before: Vec<_> = keys(family.range(..first_key.clone()).unwrap()).collect();
        let after: Vec<_> = keys(family.range(behind.clone()..).unwrap()).collect();
        let back: Vec<_> = keys(family.range(..first_key.clone()).unwrap()).rev().collect();
        assert!(back.iter().rev().eq(&before));
        let back: Vec<_> = keys(family.range(behind.clone()..).unwrap()).rev().collect();
        assert!(back.iter().rev().eq(&after));
        before.extend(after);
        let readable = all.iter().filter(|key| **key < first_key || **key > last_key);
        assert!(before.iter().eq(readable), "{kind:?}: block at {offset}");
        let mut within = family.range(first_key.clone()..behind).unwrap();
        assert!(within.any(|pair| pair.is_err()), "{kind:?}: block at {offset} was read");
    }
}

#[test]
fn a_range_up_to_a_damaged_block_is_read_to_its_end() {
    for kind in KINDS {
        for read_io in [ReadIo::Read, ReadIo::Map] {
            read_around_each_block(kind, &options(read_io));
        }
    }
}
