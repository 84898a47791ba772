//! Lookups with a maplet answer as those without.

use super::*;
use crate::{maplet::EntryPlace, table::read::lookup::LookupOutcome};

/// Entries with many versions of some keys, so that keys go on from block to block.
fn versions() -> Vec<Owned> {
    let mut entries = Vec::new();
    for number in 0..600_u64 {
        let count = if number % 50 == 7 { 60 } else { 1 + number % 2 };
        for version in 0..count {
            entries.push(put(format!("key-{number:04}"), 1 + 3 * version, vec![b'v'; 30]));
        }
    }
    sort(&mut entries);
    entries
}

fn opened(entries: &[Owned], filter_bits_per_key: u32, cache: &Arc<Cache>) -> Arc<Table> {
    let mut file = Bytes::default();
    let options = TableOptions { filter_bits_per_key, ..options(Compression::Lz4) };
    let meta = write(&mut file, &options, 7, entries, &[]);
    open(&file.0, Some(&meta), cache).unwrap()
}

fn check_all(table: &Table, entries: &[Owned]) {
    for owned in entries {
        for visible in [owned.1 - 1, owned.1, owned.1 + 1, SequenceNumber::MAX.0] {
            check_get(table, entries, &owned.0, visible).unwrap();
        }
    }
    for number in 0..600 {
        for absent in [format!("key-{number:04}-"), format!("key{number:04}")] {
            check_get(table, entries, absent.as_bytes(), SequenceNumber::MAX.0).unwrap();
        }
    }
}

/// Seeks to everything, and steps on from there.
fn check_seeks(table: &Arc<Table>, entries: &[Owned]) {
    let mut cursor = table.cursor();
    let mut check = |key: &[u8], visible: u64| {
        cursor.seek(key, SequenceNumber(visible)).unwrap();
        let before = |entry: &Owned| place(entry) < SortKey::new(key, SequenceNumber(visible));
        let first = entries.partition_point(before);
        for expected in entries.iter().map(Some).chain([None; 3]).skip(first).take(3) {
            let found = cursor.entry().map(|entry| (entry.key.to_vec(), entry.sequence.0));
            assert_eq!(found, expected.map(|entry| (entry.0.clone(), entry.1)));
            cursor.next().unwrap();
        }
    };
    for (number, owned) in entries.iter().enumerate() {
        for visible in [owned.1 - 1, owned.1, owned.1 + 1, SequenceNumber::MAX.0] {
            check(&owned.0, visible);
        }
        // Now and then in vain, and then so often that it asks no more.
        if number % 100 == 99 || number + 10 > entries.len() {
            check(format!("key-{:04}-", number % 600).as_bytes(), 7);
        }
    }
    let first = entries[0].clone();
    check(&first.0, SequenceNumber::MAX.0);
}

/// The cache holds a few of the blocks, or none: of those that it has, and of those that come by.
#[test]
pub(super) fn lookups_answer_the_same_where_no_block_stays() {
    let entries = versions();
    for (read_io, compression) in [
        (ReadIo::Read, Compression::Lz4),
        (ReadIo::Read, Compression::None),
        (ReadIo::Map, Compression::Lz4),
        (ReadIo::Map, Compression::None),
    ] {
        let mut file = Bytes::default();
        let meta = write(&mut file, &options(compression), 7, &entries, &[]);
        for capacity in [0, 6 << 10] {
            let cache = new_cache(capacity);
            let table = open_by(read_io, &file.0, Some(&meta), &cache).unwrap();
            check_all(&table, &entries);
            check_seeks(&table, &entries);
            let is_in_place = KIND.get() == TableKind::BTree
                && (read_io, compression) == (ReadIo::Map, Compression::None);
            assert_eq!(cache.stats().insertions > 0, capacity > 0 && !is_in_place);
        }
        // Led by a maplet to blocks that are gone.
        let cache = new_cache(8 << 20);
        let table = open_by(read_io, &file.0, Some(&meta), &cache).unwrap();
        check_all(&table, &entries);
        assert_eq!(table.maplet.get().is_some(), KIND.get() == TableKind::Block);
        cache.set_capacity(0);
        check_all(&table, &entries);
    }
}

/// A maplet may lead to any block, for a key that shares a fingerprint with one of it. That may be
/// a block into which a key goes on, too.
#[test]
fn no_block_shows_an_entry_that_is_not_the_newest() {
    let entries = versions();
    let table = opened(&entries, 10, &new_cache(0));
    let mut shown = 0;
    for owned in &entries {
        for visible in [owned.1, SequenceNumber::MAX.0] {
            let expected = get_expected(&entries, &owned.0, visible).map(|entry| entry.1);
            for block in 0..table.block_count() {
                let (place, visible) = (EntryPlace { block, entry: 0 }, SequenceNumber(visible));
                let sight = table.look_at(place, &owned.0, visible, |found| found.sequence.0);
                if let LookupOutcome::Shown(sequence) = sight.unwrap() {
                    assert_eq!(Some(sequence), expected, "{}", owned.0.escape_ascii());
                    shown += 1;
                }
            }
        }
    }
    assert!(shown > 500, "{shown}");
}

#[test]
fn who_looks_at_an_entry_may_look_up_another() {
    let entries = versions();
    let table = opened(&entries, 10, &new_cache(0));
    for pair in entries.windows(2) {
        let [first, second] = [&pair[0], &pair[1]].map(|owned| owned.0.clone());
        let seen = table.get(LookupKey::new(&first), SequenceNumber::MAX, |found| {
            check_get(&table, &entries, &second, SequenceNumber::MAX.0).unwrap();
            found.value.bytes().to_vec()
        });
        assert_eq!(seen.unwrap().as_deref(), Some(&pair[0].3[..]));
    }
}

#[test]
fn seeks_are_led_by_the_maplet_and_stand_where_others_do() {
    let entries = versions();
    let cache = new_cache(8 << 20);
    let table = opened(&entries, 10, &cache);
    check_seeks(&table, &entries);
    let maplet = table.maplet.get().unwrap();
    // All that begin with the newest entry of a key were looked into for it.
    check_seeks(&table, &entries);
    assert!((0..table.block_count()).filter(|&index| maplet.has_block(index)).count() > 20);
    let mut cursor = table.cursor();
    cursor.seek(&entries[900].0, SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry().map(|entry| entry.key.to_vec()), Some(entries[900].0.clone()));
    cache.set_capacity(0);
    check_seeks(&table, &entries);
}

/// A table whose first `cached` blocks, more than half, are in the cache and its maplet.
fn partly_cached(entries: &[Owned], cached: usize, cache: &Arc<Cache>) -> Arc<Table> {
    let table = opened(entries, 10, cache);
    assert!(cached > table.block_count() / 2 && cached + 1 < table.block_count());
    // Once to cache them, and once more to be learnt by the maplet that was made meanwhile.
    for index in (0..cached).chain(0..cached) {
        let key = table.block_info(index).first_key.to_vec();
        check_get(&table, entries, &key, SequenceNumber::MAX.0).unwrap();
    }
    table
}

#[test]
fn a_jump_by_the_maplet_ends_a_long_walk() {
    let entries: Vec<Owned> =
        (0..2_000).map(|number| put(format!("k{number:06}"), number, [3; 50])).collect();
    let cache = new_cache(8 << 20);
    let cached = opened(&entries, 10, &new_cache(0)).block_count() * 3 / 4;
    let table = partly_cached(&entries, cached, &cache);
    let last = table.block_info(cached - 1).first_key.to_vec();
    assert!(table.maplet.get().unwrap().has_block(cached - 1));
    let mut cursor = table.cursor();
    cursor.seek_to_first().unwrap();
    // Long enough that what it came to next would only be offered to the cache.
    for _ in 0..entries.len() / 2 {
        cursor.next().unwrap();
    }
    let before = cache.stats().insertions;
    cursor.seek(&last, SequenceNumber::MAX).unwrap();
    for _ in 0..table.block_info(cached - 1).entries {
        cursor.next().unwrap();
    }
    assert_eq!(cursor.entry().map(|entry| entry.key), Some(table.block_info(cached).first_key));
    assert_eq!(cache.stats().insertions, before + 1, "the first steps after a jump are kept");
}

#[test]
fn one_who_passes_teaches_the_maplet_nothing() {
    let entries: Vec<Owned> =
        (0..2_000).map(|number| put(format!("k{number:06}"), number, [3; 50])).collect();
    let cached = opened(&entries, 10, &new_cache(0)).block_count() * 3 / 4;
    let table = partly_cached(&entries, cached, &new_cache(8 << 20));
    let (maplet, key) = (table.maplet.get().unwrap(), table.block_info(cached).first_key);
    let before = table.cache.stats();
    passing(&table).unwrap().cursor().unwrap().seek(key, SequenceNumber::MAX).unwrap();
    assert!(!maplet.has_block(cached));
    assert_eq!(table.cache.stats(), before, "nor is the cache asked");
    table.cursor().seek(key, SequenceNumber::MAX).unwrap();
    assert!(maplet.has_block(cached));
}

#[test]
fn a_table_that_is_half_in_memory_gets_a_maplet_and_answers_the_same() {
    let entries = versions();
    for filter_bits_per_key in [0, 10] {
        let cache = new_cache(8 << 20);
        let table = opened(&entries, filter_bits_per_key, &cache);
        let blocks = table.block_count();
        assert!(blocks > 20 && (0..blocks).any(|index| table.whole().continues(index)));
        for index in 0..blocks {
            assert!(table.maplet.get().is_none() || 2 * index >= blocks, "{index}");
            let key = table.block_info(index).first_key.to_vec();
            check_get(&table, &entries, &key, SequenceNumber::MAX.0).unwrap();
        }
        // The blocks that were looked into before it was made are mapped when they are again.
        check_all(&table, &entries);
        assert!(table.maplet.get().unwrap().knows_all());
        check_all(&table, &entries);
        // Also where the blocks are gone.
        cache.set_capacity(0);
        check_all(&table, &entries);
    }
}

#[test]
fn a_maplet_that_knows_all_leads_past_filter_and_index() {
    let entries = versions();
    let cache = new_cache(8 << 20);
    let table = opened(&entries, 0, &cache);
    check_all(&table, &entries);
    check_all(&table, &entries);
    let looks = || cache.stats().hits + cache.stats().misses;
    let before = looks();
    let absent = |number| format!("key-{number:04}-");
    for number in 0..600 {
        check_get(&table, &entries, absent(number).as_bytes(), 5).unwrap();
    }
    // Without a filter, each would have looked into a block. Some lines are full, some tags alike.
    assert!(looks() - before < 200, "{}", looks() - before);
}

#[test]
fn the_memory_of_a_maplet_is_counted_with_its_tables() {
    let entries = versions();
    let cache = new_cache(8 << 20);
    let used = || cache.budget().used(Part::Tables);
    let table = opened(&entries, 10, &cache);
    assert!(table.filter().unwrap().get().is_some());
    let before = used();
    check_all(&table, &entries);
    let maplet_bytes = table.maplet_shape.unwrap().bytes();
    assert_eq!(used(), before + maplet_bytes);
    cache.set_capacity(0);
    assert_eq!(cache.budget().used(Part::Blocks), 0);
    assert_eq!(used(), before + maplet_bytes, "it stays when the blocks go");
    drop(table);
    assert_eq!(used(), 0);
    // Where it would be too large a part of the cache, there is none.
    let cache = new_cache(maplet_bytes * 8 - 1);
    let table = opened(&entries, 10, &cache);
    check_all(&table, &entries);
    assert!(table.maplet.get().is_none());
}

#[test]
pub(super) fn a_filter_is_in_memory_once_a_key_is_looked_up() {
    let entries = versions();
    let cache = new_cache(8 << 20);
    let used = || cache.budget().used(Part::Tables);
    let table = opened(&entries, 10, &cache);
    let before = used();
    table.prefetch(LookupKey::new(b"absent"));
    assert_eq!(scan(&table).unwrap(), entries);
    assert_eq!((used(), table.memory_bytes()), (before, before), "a walk needs none");
    assert!(!table.may_hold(LookupKey::new(b"absent")));
    let filter_bytes = table.filter_if_read().unwrap().bytes();
    assert_eq!((used(), table.memory_bytes()), (before + filter_bytes, before + filter_bytes));
    drop(table);
    assert_eq!(used(), 0);
}

#[test]
fn threads_that_look_at_once_make_one_maplet() {
    let entries = versions();
    let cache = new_cache(8 << 20);
    let table = opened(&entries, 10, &cache);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check_all(&table, &entries));
        }
    });
    assert!(table.maplet.get().is_some());
    drop(table);
    assert_eq!(cache.budget().used(Part::Tables), 0);
}

#[test]
fn what_was_verified_is_kept_where_there_is_room() {
    let entries = versions();
    let cache = new_cache(8 << 20);
    let table = opened(&entries, 10, &cache);
    verify_and_keep(&table);
    let kept = cache.stats();
    assert_eq!(kept.insertions, table.block_count() as u64);
    check_all(&table, &entries);
    assert_eq!(cache.stats().misses, kept.misses);
    // Nothing goes for it.
    let cache = new_cache(kept.bytes / 2);
    let table = opened(&entries, 10, &cache);
    verify_and_keep(&table);
    let stats = cache.stats();
    assert!(stats.insertions > 0 && stats.insertions < kept.insertions, "{stats:?}");
    assert_eq!(stats.evictions, 0);
    check_all(&table, &entries);
}
