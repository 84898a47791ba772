//! Tables with a dictionary: read in every way, damaged, and copied.

use super::salvage::read_salvage;
use super::*;
use crate::frame::{FRAME_BYTES_MIN, FrameKind, FramePlace};
use crate::zstd::TRAINER_BYTES;
use siltdb_base::error::ErrorKind;
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

const DICTIONARY_BYTES: u32 = 1 << 10;

fn with_dictionary() -> TableOptions {
    TableOptions { dictionary_bytes: DICTIONARY_BYTES, ..options(Compression::ZSTD) }
}

/// Rows that share much with each other, in blocks that share little within.
fn rows(count: u64) -> Vec<Owned> {
    let row = |number: u64| {
        let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let text = format!("{{\"state\":\"active\",\"balance\":{noise},\"currency\":\"EUR\"}}");
        put(format!("account:{number:08}"), number + 1, text)
    };
    (0..count).map(row).collect()
}

fn written(options: &TableOptions, entries: &[Owned]) -> (Bytes, TableMeta) {
    let mut file = Bytes::default();
    let meta = write(&mut file, options, 7, entries, &[tombstone("a", "b", 9)]);
    (file, meta)
}

#[test]
fn tables_with_a_dictionary_are_smaller_and_read_in_every_way() {
    let entries = rows(3000);
    let (file, meta) = written(&with_dictionary(), &entries);
    let (plain, _) = written(&options(Compression::ZSTD), &entries);
    assert!(file.0.len() * 10 < plain.0.len() * 9, "{} of {}", file.0.len(), plain.0.len());
    for read_io in [ReadIo::Read, ReadIo::Map] {
        for cache in [new_cache(0), new_cache(1 << 20)] {
            let table = open_by(read_io, &file.0, Some(&meta), &cache).unwrap();
            verify(&table).unwrap();
            assert_eq!(scan(&table).unwrap(), entries);
            for owned in entries.iter().step_by(97) {
                check_get(&table, &entries, &owned.0, owned.1).unwrap();
            }
            let mut cursor = table.cursor();
            cursor.seek_to_first().unwrap();
            let mut count = 0;
            while cursor.entry().is_some() {
                count += 1;
                cursor.next().unwrap();
            }
            assert_eq!(count, entries.len());
        }
    }
    let (found, lost) = read_salvage(&file.0, None).unwrap();
    assert!(found == entries && lost.is_empty());
}

#[test]
fn a_dictionary_is_read_when_a_block_needs_it_and_charged_then() {
    let (file, meta) = written(&with_dictionary(), &rows(3000));
    let cache = new_cache(0);
    let table = open(&file.0, Some(&meta), &cache).unwrap();
    let used = || cache.budget().used(Part::Tables);
    let opened = used();
    check_get(&table, &rows(3000), b"account:00000005", 6).unwrap();
    let filter = table.filter().unwrap().bytes();
    let dictionary = used() - opened - filter;
    assert!(dictionary > DICTIONARY_BYTES as usize, "{dictionary}");
    drop(table);
    assert_eq!(used(), 0);
}

#[test]
fn a_table_read_by_frames_decodes_with_the_dictionary_and_charges_it() {
    let entries = rows(3000);
    let (file, meta) = written(&with_dictionary(), &entries);
    let cache = new_cache(0);
    let table = by_frames(|| open(&file.0, Some(&meta), &cache)).unwrap();
    for owned in entries.iter().step_by(97) {
        let visible = SequenceNumber(owned.1);
        let found = table.get(LookupKey::new(&owned.0), visible, |found| {
            assert_eq!(found.value.bytes(), &owned.3[..]);
        });
        assert!(found.unwrap().is_some());
    }
    assert!(cache.budget().used(Part::Tables) > DICTIONARY_BYTES as usize);
}

/// Writes `entries` with a charge to the budget of `cache`, and returns the most that was charged
/// to jobs: while blocks were added, and at any time.
fn most_charged(cache: &Arc<Cache>, options: &TableOptions, entries: &[Owned]) -> [usize; 2] {
    let charged = || cache.budget().used(Part::Jobs);
    let (most, is_over, mut between) = (AtomicUsize::new(0), AtomicBool::new(false), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(charged(), Ordering::Relaxed);
            }
        });
        let mut file = Bytes::default();
        let writer = TableWriter::new(&mut file, options, TableUid(7));
        let mut writer = writer.with_charge(cache);
        for (key, sequence, kind, value) in entries {
            let sequence = SequenceNumber(*sequence);
            writer.add(Entry { key, sequence, kind: *kind, value }).unwrap();
            between = between.max(charged());
        }
        writer.finish().unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(charged(), 0);
    [between, most.into_inner()]
}

#[test]
fn a_writer_charges_its_samples_and_its_trainer() {
    let (samples, entries) = (100 * DICTIONARY_BYTES as usize, rows(3000));
    // The trainer takes memory only while it trains, when the thread that looks may not run.
    let is_seen = (0..200).any(|_| {
        let [between, most] = most_charged(&new_cache(0), &with_dictionary(), &entries);
        assert!((samples..6 << 20).contains(&between), "{between}");
        most > samples + TRAINER_BYTES
    });
    assert!(is_seen, "the trainer was never charged");
}

#[test]
fn a_small_budget_bounds_the_samples() {
    let options = TableOptions { dictionary_bytes: 128 << 10, ..with_dictionary() };
    let entries = rows(60_000);
    let of = |budget: usize| {
        let cache = Cache::new(Arc::new(Budget::new(budget)), 0, TableMemory::Within);
        most_charged(&cache, &options, &entries)[0]
    };
    let (small, large) = (of(64 << 20), of(1 << 30));
    assert!(small < 5 << 20, "{small}");
    assert!(large > 12 << 20, "{large}");
}

#[test]
fn tables_beyond_their_share_of_the_budget_keep_no_dictionary() {
    let entries = rows(3000);
    let (file, meta) = written(&with_dictionary(), &entries);
    let budget = Arc::new(Budget::new(4 << 20));
    let cache = Cache::new(Arc::clone(&budget), 2 << 20, TableMemory::Within);
    let tables: Vec<_> = (0..40)
        .map(|_| {
            let table = by_frames(|| open(&file.0, Some(&meta), &cache)).unwrap();
            // Twice: with the dictionary that was read, and with the one that the thread has.
            for _ in 0..2 {
                let found = table.get(LookupKey::new(&entries[7].0), SequenceNumber(8), |found| {
                    assert_eq!(found.value.bytes(), &entries[7].3[..]);
                });
                assert!(found.unwrap().is_some());
            }
            table
        })
        .collect();
    let used = budget.used(Part::Tables);
    assert!(used < 4 << 20, "{used} bytes of {} tables", tables.len());
    assert!(!cache.has_room_for_tables());
    drop(tables);
    assert_eq!(budget.used(Part::Tables), 0);
}

#[test]
fn a_dictionary_is_found_among_bytes_that_look_like_one() {
    let mut entries = rows(3000);
    // The front of a frame of a dictionary, many times, in a block that is not compressed.
    let noise = (0..300_000_u32).flat_map(|number| [7, 0, (number >> 3) as u8, number as u8]);
    entries.push(put("account:99999999", 9_000_000, noise.collect::<Vec<u8>>()));
    let (file, meta) = written(&with_dictionary(), &entries);
    let mut damaged = file.0.clone();
    // The properties say where it lies.
    let properties_end = damaged.len() - FOOTER_BYTES;
    damaged[properties_end - 20..properties_end].fill(0);
    let (found, _) = read_salvage(&damaged, None).unwrap();
    assert_eq!(found.len(), entries.len());
    assert!(found == entries && meta.entries == entries.len() as u64);
}

#[test]
fn a_table_too_small_to_train_from_has_no_dictionary() {
    for count in [1, 3] {
        let entries = rows(count);
        let (file, meta) = written(&with_dictionary(), &entries);
        let table = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
        assert_eq!(scan(&table).unwrap(), entries);
        assert!(!passing(&table).unwrap().has_dictionary());
    }
}

/// Where the frame of the dictionary lies.
fn dictionary_place(file: &Bytes, meta: &TableMeta) -> (usize, usize) {
    let table = open(&file.0, Some(meta), &new_cache(0)).unwrap();
    let scan = passing(&table).unwrap();
    let start = scan.properties.dictionary_offset() as usize;
    (start, scan.properties.dictionary_bytes as usize)
}

#[test]
fn a_damaged_dictionary_is_an_error_with_file_and_offset() {
    let entries = rows(3000);
    let (file, meta) = written(&with_dictionary(), &entries);
    let (start, bytes) = dictionary_place(&file, &meta);
    assert!(bytes as u64 > FRAME_BYTES_MIN + 500);
    for at in (start..start + bytes).step_by(7).chain([start + bytes - 1]) {
        let mut damaged = file.0.clone();
        damaged[at] ^= 0x10;
        let table = open(&damaged, Some(&meta), &new_cache(0)).unwrap();
        let errors = [
            verify(&table).unwrap_err(),
            scan(&table).unwrap_err(),
            check_get(&table, &entries, &entries[5].0, entries[5].1).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
            assert_eq!(error.file(), Some("t.table"), "byte {at}: {error}");
            assert_eq!(error.offset(), Some(start as u64), "byte {at}: {error}");
        }
        // Nothing of the data can be read then, and salvage says so.
        let (found, lost) = read_salvage(&damaged, Some(&meta)).unwrap();
        assert!(found.is_empty() && !lost.is_empty());
    }
}

#[test]
fn a_dictionary_is_found_without_properties() {
    let entries = rows(3000);
    let (file, meta) = written(&with_dictionary(), &entries);
    let mut damaged = file.0.clone();
    let length = damaged.len();
    // Footer and the end of the properties.
    damaged[length - 60..].fill(0);
    let (found, _) = read_salvage(&damaged, Some(&meta)).unwrap();
    assert_eq!(found, entries);
}

#[test]
fn a_block_copied_without_its_dictionary_is_refused_by_the_verification() {
    let entries = rows(3000);
    let (file, meta) = written(&with_dictionary(), &entries);
    let table = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
    let mut copy = Bytes::default();
    let mut writer = TableWriter::new(&mut copy, &options(Compression::ZSTD), TableUid(8));
    for index in 0..table.block_count() {
        writer.add_sealed(&table.read_sealed(index).unwrap()).unwrap();
    }
    let copied = writer.finish().unwrap();
    let copy = open(&copy.0, Some(&copied), &new_cache(0)).unwrap();
    let error = verify(&copy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.offset().is_some(), "{error}");
}

#[test]
fn long_values_among_samples_are_written_in_order() {
    let mut entries = rows(200);
    entries[100].3 = vec![7; 3 << 20];
    entries[150].3 = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let (file, meta) = written(&with_dictionary(), &entries);
    let table = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
    verify(&table).unwrap();
    assert_eq!(scan(&table).unwrap(), entries);
}

#[test]
fn a_frame_of_a_dictionary_is_bound_to_its_place() {
    let (file, meta) = written(&with_dictionary(), &rows(3000));
    let (start, bytes) = dictionary_place(&file, &meta);
    let frame = &file.0[start..start + bytes];
    let open = |place| crate::frame::Frame::open(frame, FrameKind::Dictionary, place);
    open(FramePlace { table: meta.uid, offset: start as u64 }).unwrap();
    assert!(open(FramePlace { table: meta.uid, offset: start as u64 + 1 }).is_err());
    assert!(open(FramePlace { table: TableUid(8), offset: start as u64 }).is_err());
}
