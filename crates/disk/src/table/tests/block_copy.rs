//! Blocks copied from table to table, and tables read by many threads within the budget.

use super::*;
use crate::table_meta::RangeEnd;

#[test]
pub(super) fn copied_blocks_read_as_if_they_had_been_written() {
    for compression in [Compression::Lz4, Compression::None, Compression::Snappy] {
        let entries = many(300);
        let (left, right) = entries.split_at(entries.len() / 2);
        let source = table_of(&options(compression), left, &[]);
        assert!(source.block_count() > 5);
        let mut file = Bytes(b"not at the start".to_vec());
        let offset = file.0.len() as u64;
        let mut writer = TableWriter::new(&mut file, &options(compression), TableUid(1234));
        let first = put("a", 1, "before");
        writer.add(entry(&first)).unwrap();
        for index in 0..source.block_count() {
            let sealed = source.read_sealed(index).unwrap();
            assert_eq!(sealed.block().count() as u64, source.block_info(index).entries);
            writer.add_sealed(&sealed).unwrap();
            assert!(!writer.is_empty() && writer.estimated_bytes() > 0);
        }
        for owned in right {
            writer.add(entry(owned)).unwrap();
        }
        let meta = writer.finish().unwrap();
        let all: Vec<Owned> = std::iter::once(first).chain(entries).collect();
        let table = Table::open(
            TableLocation::new(Arc::new(file), Path::new("copy"), offset, meta.file_bytes),
            Some(&meta),
            ReadIo::Read,
            &new_cache(1 << 20),
        )
        .unwrap();
        verify(&table).unwrap();
        assert_eq!(scan(&table).unwrap(), all);
        for owned in &all {
            check_get(&table, &all, &owned.0, owned.1).unwrap();
        }
        // The facts are those of a table that was written entry by entry.
        let written = table_of(&options(compression), &all, &[]);
        let alike =
            TableMeta { uid: meta.uid, file_bytes: meta.file_bytes, ..written.meta().clone() };
        assert_eq!(meta, alike);
        assert_eq!(meta.range.end, RangeEnd::Inclusive);
        // The filter lets few absent keys through, so the copied keys were hashed once each.
        let passed = (0..1000).filter(|number| {
            let key = format!("key-{:05}x", number * 3);
            table.filter().unwrap().may_contain(LookupKey::new(key.as_bytes()))
        });
        assert!(passed.count() < 50);
    }
}

#[test]
#[should_panic(expected = "does not follow")]
fn a_copied_block_that_does_not_follow_is_refused() {
    let source = table_of(&options(Compression::Lz4), &many(10), &[]);
    let mut file = Bytes::default();
    let mut writer = TableWriter::new(&mut file, &options(Compression::Lz4), TableUid(1));
    writer.add(entry(&put("key-00000", 1, "older version"))).unwrap();
    let _ = writer.add_sealed(&source.read_sealed(0).unwrap());
}

#[test]
pub(super) fn versions_of_a_key_continue_in_a_copied_block() {
    let old: Vec<Owned> = vec![put("k", 5, "old"), put("l", 1, "x")];
    let source = table_of(&options(Compression::Lz4), &old, &[]);
    let mut file = Bytes::default();
    let mut writer = TableWriter::new(&mut file, &options(Compression::Lz4), TableUid(1));
    writer.add(entry(&put("k", 9, "new"))).unwrap();
    writer.add_sealed(&source.read_sealed(0).unwrap()).unwrap();
    let meta = writer.finish().unwrap();
    let table = open(&file.0, Some(&meta), &new_cache(1 << 20)).unwrap();
    verify(&table).unwrap();
    let all = [&[put("k", 9, "new")][..], &old].concat();
    for visible in 0..12 {
        check_get(&table, &all, b"k", visible).unwrap();
    }
    let mut cursor = table.cursor();
    cursor.seek_to_first().unwrap();
    assert_eq!(cursor.stretch().unwrap().content, siltdb_base::cursor::StretchContent::Any);
}

#[test]
pub(super) fn damaged_blocks_are_not_copied() {
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::Lz4), 7, &many(50), &[]);
    let mut bytes = file.0.clone();
    bytes[100] ^= 4;
    let table = open(&bytes, Some(&meta), &new_cache(0)).unwrap();
    assert!(table.read_sealed(0).is_err());
    assert!(table.read_sealed(1).is_ok());
}

#[test]
fn memory_is_accounted_and_given_back() {
    let mut file = Bytes::default();
    let meta =
        write(&mut file, &options(Compression::Lz4), 7, &many(500), &[tombstone("a", "b", 1)]);
    let cache = new_cache(20_000);
    let budget = Arc::clone(cache.budget());
    let table = open(&file.0, Some(&meta), &cache).unwrap();
    assert_eq!(budget.used(Part::Tables), table.memory_bytes());
    assert!(table.memory_bytes() > 500 * 10 / 8);
    let mut cursor = passing(&table).unwrap().cursor().unwrap();
    cursor.seek_to_first().unwrap();
    while cursor.entry().is_some() {
        cursor.next().unwrap();
    }
    assert_eq!(budget.used(Part::Blocks), 0);
    let key = LookupKey::new(b"key-00300");
    let held = table.get(key, SequenceNumber::MAX, |found| found.value.pin());
    assert!(budget.used(Part::Blocks) > 1000);
    drop((cursor, table));
    assert_eq!(budget.others(), 0);
    // What a reader holds stays, though its table is gone, and is charged.
    assert!(budget.total() > 1000);
    assert!(held.as_ref().unwrap().as_ref().unwrap().starts_with(b"value 100 "));
    drop(held);
    assert_eq!(budget.total(), 0);
}

#[test]
pub(super) fn concurrent_readers_stay_within_the_capacity_and_right() {
    const CAPACITY: usize = 30_000;
    let entries = many(2000);
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::Lz4), 7, &entries, &[]);
    let cache = new_cache(CAPACITY);
    let table = open(&file.0, Some(&meta), &cache).unwrap();
    assert!(meta.logical_bytes as usize > 3 * CAPACITY);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (table, entries, cache) = (&table, &entries, &cache);
            scope.spawn(move || {
                let mut state = thread + 1;
                let mut cursor = table.cursor();
                for _ in 0..3000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let index = (state >> 33) as usize % entries.len();
                    let owned = &entries[index];
                    let is_right =
                        table.get(LookupKey::new(&owned.0), SequenceNumber(owned.1), |found| {
                            found.value.bytes() == owned.3
                        });
                    assert_eq!(is_right.unwrap(), Some(true));
                    cursor.seek(&owned.0, SequenceNumber(owned.1)).unwrap();
                    for expected in entries[index..].iter().take(5) {
                        assert_eq!(cursor.entry().unwrap(), entry(expected));
                        cursor.next().unwrap();
                    }
                    assert!(cache.budget().used(Part::Blocks) <= CAPACITY);
                }
            });
        }
    });
    assert!(cache.stats().evictions > 100 && cache.stats().hits > 100);
}
