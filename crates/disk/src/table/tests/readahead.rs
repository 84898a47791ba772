//! Reading ahead: fewer reads, the same frames, and errors where they belong.

use super::*;
use crate::table::read::readahead::{Readahead, WINDOW_BYTES, WINDOW_BYTES_OF_MANY};
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// A file that counts its reads and cannot be read in one place.
#[derive(Debug)]
struct Sick {
    bytes: Vec<u8>,
    bad: Mutex<Option<u64>>,
    reads: AtomicUsize,
}

impl File for Sick {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let range = offset..offset + buffer.len() as u64;
        if self.bad.lock().unwrap().is_some_and(|bad| range.contains(&bad)) {
            return Err(Error::new(siltdb_base::error::ErrorKind::Io, "cannot read"));
        }
        Bytes(self.bytes.clone()).read_exact_at(buffer, offset)
    }
}

fn sick(bad: Option<u64>) -> (Arc<Sick>, TableMeta, Vec<Owned>) {
    let entries = many(1000);
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::None), 7, &entries, &[]);
    let file = Sick { bytes: file.0, bad: Mutex::new(bad), reads: AtomicUsize::new(0) };
    (Arc::new(file), meta, entries)
}

fn open_sick(file: &Arc<Sick>, meta: &TableMeta) -> Arc<Table> {
    open_sick_in(&new_cache(1 << 20), file, meta)
}

fn open_sick_in(cache: &Arc<Cache>, file: &Arc<Sick>, meta: &TableMeta) -> Arc<Table> {
    let (file, length) = (Arc::clone(file) as Arc<dyn File>, meta.file_bytes);
    Table::open(
        TableLocation::new(file, Path::new("sick"), 0, length),
        Some(meta),
        ReadIo::Read,
        cache,
    )
    .unwrap()
}

#[test]
fn a_walk_that_passes_reads_large_pieces() {
    let (file, meta, entries) = sick(None);
    let table = open_sick(&file, &meta);
    let before = file.reads.load(Ordering::Relaxed);
    assert_eq!(scan(&table).unwrap(), entries);
    let reads = file.reads.load(Ordering::Relaxed) - before;
    assert!(table.block_count() > 40 && reads < 8, "{reads} reads");
}

/// How many reads it takes to walk back over everything.
fn reads_backward(file: &Sick, cursor: &mut impl EntryCursor, entries: &[Owned]) -> usize {
    let before = file.reads.load(Ordering::Relaxed);
    cursor.seek_to_last().unwrap();
    for expected in entries.iter().rev() {
        assert_eq!(cursor.entry().unwrap(), entry(expected));
        cursor.prev().unwrap();
    }
    assert_eq!(cursor.entry(), None);
    file.reads.load(Ordering::Relaxed) - before
}

#[test]
fn a_walk_backward_reads_large_pieces_too() {
    let (file, meta, entries) = sick(None);
    let cache = new_cache(1 << 20);
    let table = open_sick_in(&cache, &file, &meta);
    assert!(table.block_count() > 40);
    let reads = reads_backward(&file, &mut table.cursor(), &entries);
    assert!(reads < 20, "{reads} reads");
    // Only the first blocks of a walk enter the cache.
    assert!(cache.stats().insertions <= 10);
    let mut cursor = passing(&table).unwrap().cursor().unwrap();
    let reads = reads_backward(&file, &mut cursor, &entries);
    assert!(reads < 20, "{reads} reads of a scan");
}

#[test]
pub(super) fn jumps_while_passing_find_their_frames() {
    let (file, meta, entries) = sick(None);
    let table = open_sick(&file, &meta);
    let mut cursor = passing(&table).unwrap().cursor().unwrap();
    let mut state = 1_u64;
    for _ in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let index = (state >> 33) as usize % entries.len();
        cursor.seek(&entries[index].0, SequenceNumber(entries[index].1)).unwrap();
        let steps = (state >> 20) as usize % 90;
        for expected in entries[index..].iter().take(steps) {
            assert_eq!(cursor.entry().unwrap(), entry(expected));
            cursor.next().unwrap();
        }
        cursor.seek(&entries[index].0, SequenceNumber(entries[index].1)).unwrap();
        for expected in entries[..=index].iter().rev().take(2 * steps) {
            assert_eq!(cursor.entry().unwrap(), entry(expected));
            cursor.prev().unwrap();
        }
    }
}

#[test]
pub(super) fn a_bad_place_ahead_fails_only_its_own_block() {
    let (file, meta, entries) = sick(Some(20_000));
    let table = open_sick(&file, &meta);
    let before: u64 = (0..table.block_count())
        .map(|index| table.block_info(index))
        .take_while(|info| info.offset + info.bytes <= 20_000)
        .map(|info| info.entries)
        .sum();
    let mut cursor = passing(&table).unwrap().cursor().unwrap();
    cursor.seek_to_first().unwrap();
    for expected in &entries[..before as usize] {
        assert_eq!(cursor.entry().unwrap(), entry(expected));
        let moved = cursor.next();
        assert_eq!(moved.is_err(), expected == &entries[before as usize - 1]);
    }
    assert!(before > 100 && cursor.entry().is_none());
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.entry().unwrap(), entry(entries.last().unwrap()));
    assert!(cursor.seek(&entries[before as usize].0, SequenceNumber::MAX).is_err());
}

/// The entries of blocks that were all read before one is looked at.
fn entries_of_held(table: &Table, window_bytes: u64) -> Vec<Owned> {
    let mut ahead = Readahead::new(window_bytes);
    let data_bytes = table.contents.data_bytes;
    let mut read = |index: usize| {
        ahead.block(&table.source, data_bytes, index, &table.block_info(index)).unwrap()
    };
    let blocks: Vec<_> = (0..table.block_count()).map(&mut read).collect();
    let entries = blocks.iter().flat_map(|block| {
        (0..block.count()).map(|index| {
            let entry = block.entry(index);
            let key = [block.prefix(), entry.suffix].concat();
            (key, entry.sequence.0, entry.kind, entry.value.to_vec())
        })
    });
    entries.collect()
}

#[test]
pub(super) fn blocks_that_are_held_keep_what_they_were_read_from() {
    let (file, meta, entries) = sick(None);
    let table = open_sick(&file, &meta);
    for window_bytes in [16 << 10, 20_000, WINDOW_BYTES_OF_MANY, WINDOW_BYTES] {
        assert_eq!(entries_of_held(&table, window_bytes), entries, "pieces of {window_bytes}");
    }
}

#[test]
pub(super) fn what_could_not_be_read_is_read_again() {
    let (file, meta, _) = sick(Some(20_000));
    let table = open_sick(&file, &meta);
    let data_bytes = table.contents.data_bytes;
    let holds_bad = |&index: &usize| {
        let info = table.block_info(index);
        (info.offset..info.offset + info.bytes).contains(&20_000)
    };
    let bad = (0..table.block_count()).find(holds_bad).unwrap();
    let mut ahead = Readahead::new(WINDOW_BYTES);
    let mut read =
        |index: usize| ahead.block(&table.source, data_bytes, index, &table.block_info(index));
    assert!(bad > 1 && read(bad - 2).is_ok() && read(bad - 1).is_ok());
    for _ in 0..2 {
        assert_eq!(read(bad).unwrap_err().kind(), siltdb_base::error::ErrorKind::Io);
    }
    *file.bad.lock().unwrap() = None;
    assert!(read(bad).is_ok());
}
