//! Tables against a sorted list, damaged in every byte, forged, copied, and read by many threads.

mod readahead;
mod block_copy;
mod damage;
#[cfg(feature = "zstd")]
mod dictionary;
mod external;
mod faults;
mod filter_keys;
mod frames;
mod keys_only;
mod long;
mod lookup;
mod mapped;
mod model;
mod reach;
mod salvage;
mod trees;

use super::*;
use crate::{
    block::Block,
    cache::{Cache, TableMemory},
    options::{Compression, TableKind, TableOptions},
    table::{
        format::index::Index,
        read::contents::{IndexHold, TableIndex},
    },
    table_meta::TableMeta,
};
use siltdb_base::{
    budget::{Budget, Part},
    cursor::{Direction, EntryCursor},
    error::{Error, ErrorKind, Result},
    fs::{File, ReadIo, WriteFile},
    id::{SequenceNumber, TableUid},
    key::{Entry, EntryKind, LookupKey, SortKey},
    slice::Slice,
    tombstone::{Fragments, RangeTombstone},
};
use std::{cell::Cell, ops::ControlFlow, path::Path, sync::Arc};

type Owned = (Vec<u8>, u64, EntryKind, Vec<u8>);

/// A file in memory, and nothing more.
#[derive(Clone, Debug, Default)]
struct Bytes(Vec<u8>);

impl File for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let found = self.0.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or_else(|| Error::corruption("file ends early"))?);
        Ok(())
    }
}

impl WriteFile for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

fn new_cache(capacity: usize) -> Arc<Cache> {
    Cache::new(Arc::new(Budget::new(1 << 30)), capacity, TableMemory::Beside)
}

thread_local! {
    /// The kind of the tables that a test writes. Tests of block tables are called by `trees` with
    /// the other kind.
    static KIND: Cell<TableKind> = const { Cell::new(TableKind::Block) };
    /// What of their indexes is in memory. Tests are called by `frames` with the other.
    static HOLD: Cell<IndexHold> = const { Cell::new(IndexHold::Whole) };
}

/// Runs `test` with block tables whose index stays in the file.
fn by_frames<R>(test: impl FnOnce() -> R) -> R {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            HOLD.set(IndexHold::Whole);
        }
    }
    HOLD.set(IndexHold::Frames);
    let _reset = Reset;
    test()
}

fn options(compression: Compression) -> TableOptions {
    let kind = KIND.get();
    TableOptions { block_bytes: 1024, compression, kind, ..TableOptions::default() }
}

impl Table {
    /// What the index says of a block, whichever the kind of the table.
    fn block_info(&self, number: usize) -> BlockInfo<'static> {
        let mut blocks = passing(self).unwrap().blocks().unwrap();
        blocks.go_to(number).unwrap();
        let info = blocks.block().unwrap();
        let (first_key, last_key) = (info.first_key.to_vec().leak(), info.last_key.to_vec().leak());
        BlockInfo { first_key, last_key, ..info }
    }

    fn read_sealed(&self, number: usize) -> Result<SealedBlock> {
        passing(self)?.read_sealed(&self.block_info(number))
    }

    /// The index of a block table.
    fn whole(&self) -> &Index {
        match &self.contents.index {
            TableIndex::Whole(index) => index,
            TableIndex::Frames(_) | TableIndex::Tree(_) => panic!("no whole index in memory"),
        }
    }
}

fn entry(owned: &Owned) -> Entry<'_> {
    let (key, sequence, kind, value) = owned;
    Entry { key, sequence: SequenceNumber(*sequence), kind: *kind, value }
}

fn put(key: impl AsRef<[u8]>, sequence: u64, value: impl AsRef<[u8]>) -> Owned {
    (key.as_ref().to_vec(), sequence, EntryKind::Put, value.as_ref().to_vec())
}

fn tombstone(start: &str, end: &str, sequence: u64) -> RangeTombstone {
    let key = |key: &str| Slice::copy_from(key.as_bytes());
    RangeTombstone { start: key(start), end: key(end), sequence: SequenceNumber(sequence) }
}

fn place(entry: &Owned) -> SortKey<'_> {
    SortKey::new(&entry.0, SequenceNumber(entry.1))
}

fn sort(entries: &mut Vec<Owned>) {
    entries.sort_by(|a, b| place(a).cmp(&place(b)));
    entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
}

/// Writes a table to the end of `file`.
fn write(
    file: &mut Bytes,
    options: &TableOptions,
    uid: u64,
    entries: &[Owned],
    tombstones: &[RangeTombstone],
) -> TableMeta {
    let mut writer = TableWriter::new(file, options, TableUid(uid));
    for tombstone in tombstones {
        writer.add_tombstone(tombstone);
    }
    for owned in entries {
        writer.add(entry(owned)).unwrap();
    }
    writer.finish().unwrap()
}

fn open(bytes: &[u8], expected: Option<&TableMeta>, cache: &Arc<Cache>) -> Result<Arc<Table>> {
    open_by(ReadIo::Read, bytes, expected, cache)
}

fn open_by(
    read_io: ReadIo,
    bytes: &[u8],
    expected: Option<&TableMeta>,
    cache: &Arc<Cache>,
) -> Result<Arc<Table>> {
    let (file, path) = (Arc::new(Bytes(bytes.to_vec())), Path::new("t.table"));
    let length = bytes.len() as u64;
    match HOLD.get() {
        IndexHold::Whole => {
            Table::open(TableLocation::new(file, path, 0, length), expected, read_io, cache)
        }
        IndexHold::Frames => Table::open_by_frames(
            TableLocation::new(file, path, 0, length),
            expected,
            read_io,
            cache,
        ),
    }
}

/// Writes, opens and verifies a table.
fn table_of(
    options: &TableOptions,
    entries: &[Owned],
    tombstones: &[RangeTombstone],
) -> Arc<Table> {
    table_by(ReadIo::Read, options, entries, tombstones)
}

fn table_by(
    read_io: ReadIo,
    options: &TableOptions,
    entries: &[Owned],
    tombstones: &[RangeTombstone],
) -> Arc<Table> {
    let mut file = Bytes::default();
    let meta = write(&mut file, options, 7, entries, tombstones);
    let table = open_by(read_io, &file.0, Some(&meta), &new_cache(1 << 20)).unwrap();
    let mut bytes = 0;
    let mut add = |_: usize, info: &BlockInfo<'_>, _: &Block| {
        bytes += info.bytes;
        Ok(())
    };
    passing(&table).unwrap().verify(&mut add).unwrap();
    assert!(bytes <= meta.file_bytes);
    table
}

/// The same table, to be read once.
fn passing(table: &Table) -> Result<Arc<TableScan>> {
    TableScan::read(table.source.clone(), Some(table.meta()))
}

/// Verifies the table and keeps its blocks in the cache.
fn verify_and_keep(table: &Table) {
    let mut keep = |index: usize, _: &BlockInfo<'_>, block: &Block| {
        table.keep(index, block);
        Ok(())
    };
    passing(table).unwrap().verify(&mut keep).unwrap();
}

fn verify(table: &Table) -> Result<()> {
    passing(table)?.verify(&mut |_, _, _| Ok(()))
}

/// What a scan of the table shows.
fn scan(table: &Table) -> Result<Vec<Owned>> {
    let mut cursor = passing(table)?.cursor()?;
    cursor.seek_to_first()?;
    let mut found = Vec::new();
    while let Some(entry) = cursor.entry() {
        found.push((entry.key.to_vec(), entry.sequence.0, entry.kind, entry.value.to_vec()));
        cursor.next()?;
    }
    Ok(found)
}

#[test]
fn a_long_walk_displaces_nothing_and_is_kept_when_it_comes_again() -> Result<()> {
    let entries = many(8_000);
    let cache = new_cache(64 << 20);
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::Lz4), 7, &entries, &[]);
    let table = open(&file.0, Some(&meta), &cache)?;
    let blocks = table.block_count() as u64;
    assert!(blocks > 40);
    let walk = |seen: &mut Vec<Owned>| -> Result<()> {
        let mut cursor = table.cursor();
        cursor.seek_to_first()?;
        while let Some(entry) = cursor.entry() {
            seen.push((entry.key.to_vec(), entry.sequence.0, entry.kind, entry.value.to_vec()));
            let enough = seen.len() + 30;
            cursor.walk(
                Direction::Forward,
                cursor.stretch().map_or(0, |span| span.after),
                &mut |entry| {
                    seen.push((
                        entry.key.to_vec(),
                        entry.sequence.0,
                        entry.kind,
                        entry.value.to_vec(),
                    ));
                    match seen.len() < enough {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                },
            )?;
            cursor.next()?;
        }
        Ok(())
    };
    for kept in [8, blocks, blocks] {
        let mut seen = Vec::new();
        walk(&mut seen)?;
        assert!(seen == entries, "every entry once, in order");
        assert_eq!(cache.stats().insertions, kept, "of {blocks} blocks");
    }
    Ok(())
}

/// What `get` must answer.
fn get_expected<'a>(entries: &'a [Owned], key: &[u8], visible: u64) -> Option<&'a Owned> {
    entries.iter().find(|entry| entry.0 == key && entry.1 <= visible)
}

fn check_get(table: &Table, entries: &[Owned], key: &[u8], visible: u64) -> Result<()> {
    let found = table.get(LookupKey::new(key), SequenceNumber(visible), |found| {
        assert_eq!(found.value.pin(), *found.value.bytes());
        (found.sequence.0, found.kind, found.value.bytes().to_vec())
    })?;
    let expected =
        get_expected(entries, key, visible).map(|entry| (entry.1, entry.2, entry.3.clone()));
    assert_eq!(found, expected, "{key:?} at {visible}");
    Ok(())
}

/// Entries of many kinds over many blocks, in order: several versions, compressible values.
fn many(count: u64) -> Vec<Owned> {
    let mut entries = Vec::new();
    for number in 0..count {
        let key = format!("key-{:05}", number * 3);
        let value = format!("value {number} ").repeat(3 + number as usize % 5);
        entries.push(put(&key, 1000 + number, &value));
        match number % 11 {
            3 => entries.push((key.into(), 500, EntryKind::Delete, Vec::new())),
            5 => entries.push((key.into(), 17, EntryKind::Merge, b"operand".to_vec())),
            7 => {
                let payload = [&(9000 - number).to_le_bytes()[..], b"soon gone"].concat();
                entries.push((key.into(), 600, EntryKind::PutExpiring, payload));
            }
            _ => {}
        }
    }
    sort(&mut entries);
    entries
}

#[test]
fn a_table_with_the_latest_of_expiries_is_read_back() {
    for expiry_ms in [u64::MAX - 1, u64::MAX] {
        let value = [&expiry_ms.to_le_bytes()[..], b"value"].concat();
        let entries = [(b"key".to_vec(), 1, EntryKind::PutExpiring, value)];
        let mut file = Bytes::default();
        let meta = write(&mut file, &options(Compression::None), 1, &entries, &[]);
        let table = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
        verify(&table).unwrap();
        assert_eq!(scan(&table).unwrap(), entries);
    }
}
