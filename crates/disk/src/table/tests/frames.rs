//! The tests of block tables, with tables whose index stays in the file; and what is particular to
//! these.

use super::*;

macro_rules! also_by_frames {
    ($($room:ident::$test:ident,)*) => {
        $(
            #[test]
            fn $test() {
                let _ = by_frames(super::$room::$test);
            }
        )*
    };
}

also_by_frames! {
    reach::a_cursor_reads_no_block_beyond_its_reach,
    reach::a_cursor_returns_into_its_reach_after_it_has_left_it,
    model::small_and_extreme_entries_are_found,
    model::versions_of_one_key_span_blocks,
    model::an_index_of_many_frames_is_read_frame_by_frame,
    model::a_stretch_of_plain_entries_goes_over_several_blocks,
    model::keys_with_equal_heads_are_told_apart_in_the_index,
    model::blob_pointers_expire_too,
    model::a_table_of_range_tombstones_alone_has_no_entries,
    model::a_cursor_whose_walk_panicked_shows_no_value_under_another_key,
    damage::zeroed_cut_and_extended_tables_are_noticed,
    damage::another_table_in_its_place_is_noticed,
    damage::swapped_blocks_are_noticed,
    mapped::every_damaged_byte_of_a_block_is_noticed_each_time,
    mapped::values_of_a_mapped_block_stay_when_the_table_is_closed,
    mapped::a_table_that_cannot_be_mapped_is_read,
}

fn key(number: u64) -> String {
    format!("{number:06}").repeat(8)
}

/// Entries whose index takes several frames.
fn many_frames() -> Vec<Owned> {
    (0..30_000).map(|number| put(key(number), number + 1, [7; 40])).collect()
}

fn written(entries: &[Owned]) -> (Bytes, TableMeta) {
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::Lz4), 7, entries, &[]);
    (file, meta)
}

#[test]
fn its_memory_is_small_and_lookups_ask_no_filter_and_cache_nothing() {
    let entries = many_frames();
    let (file, meta) = written(&entries);
    let cache = new_cache(1 << 20);
    let used = || cache.budget().used(Part::Tables);
    let whole = open(&file.0, Some(&meta), &cache).unwrap();
    let frames = passing(&whole).unwrap().properties.index_bytes.len();
    assert!(frames > 8, "{frames} frames");
    let whole_bytes = used();
    drop(whole);
    let table = by_frames(|| open(&file.0, Some(&meta), &cache)).unwrap();
    assert_eq!(table.memory_bytes(), used());
    assert!(used() < 4_000 && whole_bytes > 20 * used(), "{} of {whole_bytes} bytes", used());
    let held = used();
    for owned in entries.iter().step_by(41).chain(entries.last()) {
        for visible in [owned.1 - 1, owned.1, SequenceNumber::MAX.0] {
            check_get(&table, &entries, &owned.0, visible).unwrap();
        }
        let absent = [&owned.0, &b"-"[..]].concat();
        check_get(&table, &entries, &absent, SequenceNumber::MAX.0).unwrap();
        assert!(table.may_hold(LookupKey::new(&absent)), "without a filter nothing is certain");
    }
    let mut cursor = table.cursor();
    for owned in entries.iter().step_by(1_000) {
        cursor.seek(&owned.0, SequenceNumber::MAX).unwrap();
        assert_eq!(cursor.entry(), Some(entry(owned)));
    }
    let cursors = cache.budget().used(Part::Cursors);
    assert!((10_000..200_000).contains(&cursors), "{cursors} bytes");
    drop(cursor);
    assert_eq!(cache.budget().used(Part::Cursors), 0);
    assert_eq!((cache.stats().bytes, used()), (0, held));
    assert!(!table.is_read());
    drop(table);
    assert_eq!(used(), 0);
}

#[test]
fn an_estimate_reads_the_frames_at_the_ends_and_is_that_of_the_whole_index() {
    let entries = many_frames();
    let (file, meta) = written(&entries);
    let cache = new_cache(0);
    let whole = open(&file.0, Some(&meta), &cache).unwrap();
    let table = by_frames(|| open(&file.0, Some(&meta), &cache)).unwrap();
    let keys: Vec<Option<Vec<u8>>> = std::iter::once(None)
        .chain((0..30_500).step_by(1_481).map(|number| Some(key(number).into())))
        .chain([Some(b"a".to_vec()), Some(b"z".to_vec())])
        .collect();
    for start in &keys {
        for end in &keys {
            let (start, end) = (start.as_deref(), end.as_deref());
            let expected = whole.extent(start, end).unwrap();
            assert_eq!(table.extent(start, end).unwrap(), expected, "{start:?} to {end:?}");
        }
    }
    assert_eq!(table.extent(None, None).unwrap().entries, 30_000);
}

#[test]
fn damage_of_index_and_block_is_found_when_it_is_read() {
    let entries = many_frames();
    let (file, meta) = written(&entries);
    let cache = new_cache(0);
    let open_damaged = |damage: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = file.0.clone();
        damage(&mut bytes);
        by_frames(|| open(&bytes, Some(&meta), &cache))
    };
    let scan = passing(&open_damaged(&|_| {}).unwrap()).unwrap();
    let index_offset = scan.properties.index_offset() as usize;
    let error = open_damaged(&|bytes| bytes[index_offset + 100] ^= 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let table = open_damaged(&|bytes| bytes[100] ^= 1).unwrap();
    let (first, last) = (&entries[0].0, &entries[29_999].0);
    let error = table.get(LookupKey::new(first), SequenceNumber::MAX, |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("t.table"), "{error}");
    let mut cursor = table.cursor();
    assert!(cursor.seek(first, SequenceNumber::MAX).is_err() && cursor.entry().is_none());
    assert!(cursor.seek_to_first().is_err() && cursor.entry().is_none());
    cursor.seek(last, SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry(), Some(entry(&entries[29_999])));
}

/// A file whose bytes from some place on are read as damaged once it is told.
#[derive(Debug)]
struct Turning {
    bytes: Bytes,
    from: u64,
    is_bad: std::sync::atomic::AtomicBool,
}

impl File for Turning {
    fn len(&self) -> u64 {
        File::len(&self.bytes)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.bytes.read_exact_at(buffer, offset)?;
        let is_bad = self.is_bad.load(std::sync::atomic::Ordering::Relaxed);
        if is_bad && offset + buffer.len() as u64 > self.from {
            buffer[buffer.len() / 2] ^= 1;
        }
        Ok(())
    }
}

#[test]
fn a_frame_that_goes_bad_after_the_opening_fails_what_needs_it_and_is_read_again() {
    let entries = many_frames();
    let (bytes, meta) = written(&entries);
    let cache = new_cache(0);
    let table = open(&bytes.0, Some(&meta), &cache).unwrap();
    let from = passing(&table).unwrap().properties.index_offset();
    let length = bytes.0.len() as u64;
    let file = Arc::new(Turning { bytes, from, is_bad: false.into() });
    let path = Path::new("t.table");
    let shared = Arc::clone(&file);
    let table = Table::open_by_frames(
        TableLocation::new(shared, path, 0, length),
        Some(&meta),
        ReadIo::Read,
        &cache,
    )
    .unwrap();
    let set_bad = |is_bad| file.is_bad.store(is_bad, std::sync::atomic::Ordering::Relaxed);
    let mut cursor = table.cursor();
    cursor.seek_to_first().unwrap();
    set_bad(true);
    // The frame at hand is in memory.
    cursor.seek(&entries[5].0, SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry(), Some(entry(&entries[5])));
    for _ in 0..2 {
        let error = cursor.seek(&entries[29_000].0, SequenceNumber::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(cursor.entry().is_none() && cursor.stretch().is_none());
    }
    set_bad(false);
    for number in [29_000, 5, 15_000] {
        cursor.seek(&entries[number].0, SequenceNumber::MAX).unwrap();
        assert_eq!(cursor.entry(), Some(entry(&entries[number])));
    }
}
