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
fn its_memory_is_small_and_without_a_cache_nothing_stays() {
    let entries = many_frames();
    let (file, meta) = written(&entries);
    let cache = new_cache(0);
    let used = || cache.budget().used(Part::Tables);
    let whole = open(&file.0, Some(&meta), &cache).unwrap();
    let frames = passing(&whole).unwrap().properties.index_bytes.len();
    assert!(frames > 8, "{frames} frames");
    let whole_bytes = used();
    drop(whole);
    let table = by_frames(|| open(&file.0, Some(&meta), &cache)).unwrap();
    for owned in entries.iter().step_by(41).chain(entries.last()) {
        for visible in [owned.1 - 1, owned.1, SequenceNumber::MAX.0] {
            check_get(&table, &entries, &owned.0, visible).unwrap();
        }
        let absent = [&owned.0, &b"-"[..]].concat();
        check_get(&table, &entries, &absent, SequenceNumber::MAX.0).unwrap();
    }
    assert_eq!(table.memory_bytes(), used());
    assert!(used() < 6_000 && whole_bytes > 20 * used(), "{} of {whole_bytes} bytes", used());
    let held = used();
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

/// A file that counts the bytes that are read of it.
#[derive(Debug)]
struct Counting {
    bytes: Bytes,
    read: std::sync::atomic::AtomicUsize,
}

impl Counting {
    fn new(bytes: Bytes) -> Arc<Self> {
        Arc::new(Self { bytes, read: 0.into() })
    }

    fn open(self: &Arc<Self>, meta: &TableMeta, cache: &Arc<Cache>) -> Arc<Table> {
        let file = Arc::clone(self);
        let location = TableLocation::new(file, Path::new("t.table"), 0, File::len(&self.bytes));
        Table::open_by_frames(location, Some(meta), ReadIo::Read, cache).unwrap()
    }

    /// Bytes that were read since the last call.
    fn read(&self) -> usize {
        self.read.swap(0, std::sync::atomic::Ordering::Relaxed)
    }
}

impl File for Counting {
    fn len(&self) -> u64 {
        File::len(&self.bytes)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.read.fetch_add(buffer.len(), std::sync::atomic::Ordering::Relaxed);
        self.bytes.read_exact_at(buffer, offset)
    }
}

#[test]
fn frames_blocks_and_parts_of_the_filter_that_are_read_stay_in_the_cache() {
    let entries = many_frames();
    let (bytes, meta) = written(&entries);
    let file = Counting::new(bytes);
    let cache = new_cache(16 << 20);
    let table = file.open(&meta, &cache);
    let lookups = || {
        for owned in entries.iter().step_by(7) {
            check_get(&table, &entries, &owned.0, SequenceNumber::MAX.0).unwrap();
        }
    };
    lookups();
    assert!(file.read() > 0 && cache.stats().bytes > 0);
    lookups();
    assert_eq!(file.read(), 0, "all of it is in the cache");
    let mut cursor = table.cursor();
    for owned in entries.iter().step_by(7) {
        cursor.seek(&owned.0, SequenceNumber::MAX).unwrap();
        assert_eq!(cursor.entry(), Some(entry(owned)));
    }
    assert_eq!(file.read(), 0, "cursors find the same");
    let cursors = cache.budget().used(Part::Cursors);
    assert!(cursors < 10_000, "a group at a time, not a frame: {cursors} bytes");
    drop(cursor);
    // What is in the cache goes with its table.
    drop(table);
    assert_eq!((cache.stats().bytes, cache.budget().used(Part::Tables)), (0, 0));
}

#[test]
fn frames_that_are_used_stay_in_a_cache_that_cannot_hold_the_blocks() {
    let entries = many_frames();
    let (bytes, meta) = written(&entries);
    let file = Counting::new(bytes);
    let cache = new_cache(600_000);
    let table = file.open(&meta, &cache);
    let frame_bytes = passing(&table).unwrap().properties.index_bytes.iter().sum::<u64>();
    let key_at = |round: usize| &entries[(round * 7_919) % entries.len()];
    for round in 0..3_000 {
        let (key, sequence, ..) = key_at(round);
        let found = table.get(LookupKey::new(key), SequenceNumber::MAX, |found| found.sequence.0);
        assert_eq!(found.unwrap(), Some(*sequence));
    }
    file.read();
    let rounds = 3_000..6_000;
    let block_bytes = (meta.file_bytes - frame_bytes) as usize / table.block_count();
    for round in rounds.clone() {
        let (key, sequence, ..) = key_at(round);
        let found = table.get(LookupKey::new(key), SequenceNumber::MAX, |found| found.sequence.0);
        assert_eq!(found.unwrap(), Some(*sequence));
    }
    // A block for most lookups, and a frame for few.
    let each = file.read() / rounds.len();
    assert!(each < 2 * block_bytes, "{each} bytes a lookup, of blocks of {block_bytes}");
}

#[test]
fn parts_of_a_filter_tell_what_the_filter_tells() {
    let entries = many_frames();
    let (bytes, meta) = written(&entries);
    let cache = new_cache(16 << 20);
    let whole = open(&bytes.0, Some(&meta), &cache).unwrap();
    let filter = whole.filter().unwrap();
    let file = Counting::new(bytes);
    for capacity in [0, 16 << 20] {
        let table = file.open(&meta, &new_cache(capacity));
        let mut denied = 0;
        for number in 0..20_000_u64 {
            let absent = format!("{number:06}-").repeat(7);
            let key = LookupKey::new(absent.as_bytes());
            assert_eq!(table.may_hold(key), filter.may_contain(key), "{absent}");
            denied += u32::from(!filter.may_contain(key));
        }
        assert!(denied > 19_000, "{denied}");
        assert!(table.filter_if_read().is_none(), "it does not hold the whole filter");
        for owned in &entries {
            assert!(table.may_hold(LookupKey::new(&owned.0)), "a key of the table is denied");
        }
    }
}

#[test]
fn a_filter_that_denies_nothing_is_hardly_asked_until_it_denies_again() {
    let entries = many_frames();
    let (bytes, meta) = written(&entries);
    let file = Counting::new(bytes);
    let table = file.open(&meta, &new_cache(0));
    let reads = |ask: &dyn Fn(u64) -> String| {
        file.read();
        let ask = |number| table.may_hold(LookupKey::new(ask(number).as_bytes()));
        let held = (0..1_000).filter(|&number| ask(number)).count();
        // The last part is shorter.
        (held, file.read().div_ceil(4_096))
    };
    let absent = |number: u64| format!("{number:06}-").repeat(7);
    assert!(!table.may_hold(LookupKey::new(b"first")));
    assert!(reads(&absent).1 > 950, "each lookup reads a part without a cache");
    for round in 0..3 {
        let (held, parts) = reads(&|number| key(number));
        assert_eq!(held, 1_000);
        assert!(parts < if round == 0 { 700 } else { 100 }, "{parts} parts, round {round}");
    }
    let (held, _) = reads(&absent);
    assert!(held > 50, "it has to learn first: {held}");
    let (held, parts) = reads(&absent);
    assert!(held < 30 && parts > 950, "{held} held, {parts} parts");
}

#[test]
fn a_part_of_a_filter_that_goes_bad_after_the_opening_is_noticed() {
    let entries = many_frames();
    let (bytes, meta) = written(&entries);
    let whole = open(&bytes.0, Some(&meta), &new_cache(0)).unwrap();
    let from = whole.contents.filter_frame.offset;
    let length = bytes.0.len() as u64;
    let file = Arc::new(Turning { bytes, from, is_bad: false.into() });
    let location = TableLocation::new(file.clone(), Path::new("t.table"), 0, length);
    let table = Table::open_by_frames(location, Some(&meta), ReadIo::Read, &new_cache(0)).unwrap();
    let sought = LookupKey::new(&entries[5].0);
    assert!(table.get(sought, SequenceNumber::MAX, |_| ()).unwrap().is_some());
    file.is_bad.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = table.get(sought, SequenceNumber::MAX, |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let message = error.to_string();
    assert!(message.contains("a part of a filter") && message.contains("t.table"), "{message}");
    assert!(table.may_hold(sought), "a filter that cannot be read tells nothing");
    file.is_bad.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(table.get(sought, SequenceNumber::MAX, |_| ()).unwrap().is_some());
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

#[test]
fn filters_beyond_the_share_of_tables_are_asked_in_parts_whatever_the_kind() {
    for kind in [TableKind::Block, TableKind::BTree] {
        let entries = many_frames();
        let mut file = Bytes::default();
        let options = TableOptions { kind, ..options(Compression::Lz4) };
        let meta = write(&mut file, &options, 7, &entries, &[]);
        let budget = Arc::new(Budget::new(64 << 20));
        let cache = Cache::new(Arc::clone(&budget), 16 << 20, TableMemory::Within);
        let table = open(&file.0, Some(&meta), &cache).unwrap();
        let share = budget.limit() - (8 << 20);
        budget.charge(Part::Tables, share);
        assert!(!cache.has_room_for_tables());
        let before = budget.used(Part::Tables);
        let mut denied = 0;
        for owned in entries.iter().step_by(29) {
            check_get(&table, &entries, &owned.0, SequenceNumber::MAX.0).unwrap();
            let absent = [&owned.0, &b"-"[..]].concat();
            denied += u32::from(!table.may_hold(LookupKey::new(&absent)));
        }
        assert!(denied > 1_000, "{denied} of 1,035, {kind:?}");
        assert!(table.filter_if_read().is_none());
        let filter_bytes = table.contents.filter_frame.bytes as usize;
        let parts = budget.used(Part::Tables) - before;
        assert!(parts > 0 && parts < filter_bytes / 50, "{parts} of {filter_bytes} bytes");
        budget.release(Part::Tables, share);
    }
}
