//! The tests of block tables, with B+tree tables; and what is particular to these.

use super::*;
use crate::{
    block::BlockLayout,
    frame::{CHECKSUM_BYTES, FrameKind, FramePlace, moved_checksum},
    table::format::node::NodeView,
};
use siltdb_base::error::ErrorKind;
use siltdb_sweep::Sweep;

/// Runs `test` with B+tree tables.
fn with_trees<R>(test: impl FnOnce() -> R) -> R {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            KIND.set(TableKind::Block);
        }
    }
    KIND.set(TableKind::BTree);
    let _reset = Reset;
    test()
}

macro_rules! also_with_trees {
    ($($room:ident::$test:ident,)*) => {
        $(
            #[test]
            fn $test() {
                let _ = with_trees(super::$room::$test);
            }
        )*
    };
}

also_with_trees! {
    reach::a_cursor_reads_no_block_beyond_its_reach,
    reach::a_cursor_returns_into_its_reach_after_it_has_left_it,
    model::small_and_extreme_entries_are_found,
    model::versions_of_one_key_span_blocks,
    model::an_index_of_many_frames_is_read_frame_by_frame,
    model::a_stretch_of_plain_entries_goes_over_several_blocks,
    model::keys_with_equal_heads_are_told_apart_in_the_index,
    model::the_summary_says_what_was_added,
    model::blob_pointers_expire_too,
    model::a_table_of_range_tombstones_alone_has_no_entries,
    model::a_cursor_whose_walk_panicked_shows_no_value_under_another_key,
    model::tables_share_a_file,
    model::the_estimate_is_near_the_length,
    external::a_copy_has_the_entries_under_its_own_uid_and_names_its_family,
    external::a_damaged_table_has_no_copy_that_verifies,
    external::a_copy_that_is_cancelled_ends,
    faults::an_unsynced_table_is_whole_or_refused_after_power_loss,
    faults::every_failing_call_is_an_error_and_the_next_attempt_succeeds,
    keys_only::a_walk_over_keys_alone_shows_the_same_keys_and_reads_a_fraction,
    long::long_values_are_written_from_where_they_lie_and_read_as_any,
    long::damage_to_a_long_value_is_noticed,
    readahead::jumps_while_passing_find_their_frames,
    readahead::a_bad_place_ahead_fails_only_its_own_block,
    readahead::blocks_that_are_held_keep_what_they_were_read_from,
    readahead::what_could_not_be_read_is_read_again,
    salvage::a_table_damaged_anywhere_gives_what_verifies,
    salvage::a_table_cut_short_gives_the_blocks_in_front_to_those_who_know_its_name,
    salvage::tables_are_found_behind_a_damaged_footer,
    salvage::blocks_out_of_order_are_not_shown,
    salvage::a_table_tells_where_it_comes_from,
    salvage::a_damaged_origin_is_an_error,
    block_copy::copied_blocks_read_as_if_they_had_been_written,
    block_copy::versions_of_a_key_continue_in_a_copied_block,
    block_copy::damaged_blocks_are_not_copied,
    block_copy::concurrent_readers_stay_within_the_capacity_and_right,
    damage::a_filter_alone_is_that_of_the_table_that_is_expected,
    damage::every_damaged_byte_is_noticed,
    damage::zeroed_cut_and_extended_tables_are_noticed,
    damage::another_table_in_its_place_is_noticed,
    damage::swapped_blocks_are_noticed,
    damage::a_read_error_is_passed_on_and_nothing_is_cached,
    mapped::every_damaged_byte_of_a_block_is_noticed_each_time,
    mapped::values_of_a_mapped_block_stay_when_the_table_is_closed,
    mapped::a_table_that_cannot_be_mapped_is_read,
    lookup::lookups_answer_the_same_where_no_block_stays,
    lookup::a_filter_is_in_memory_once_a_key_is_looked_up,
}

/// Entries over so many blocks that the tree has several levels.
fn tall(count: u64) -> Vec<Owned> {
    let value = |number: u64| [number as u8; 300];
    (0..count).map(|number| put(format!("tenant/{number:06}"), 1 + number, value(number))).collect()
}

fn tall_table(compression: Compression, count: u64) -> (Bytes, TableMeta, Vec<Owned>) {
    let entries = tall(count);
    let mut file = Bytes::default();
    let meta = with_trees(|| write(&mut file, &options(compression), 7, &entries, &[]));
    (file, meta, entries)
}

fn levels(table: &Table) -> u32 {
    let scan = passing(table).unwrap();
    let properties = &scan.properties;
    let end = properties.index_offset() + properties.index_bytes.iter().sum::<u64>();
    let bytes = *properties.index_bytes.last().unwrap();
    let read = scan
        .source
        .read_frame(FrameKind::Node, end - bytes, bytes, |raw| Ok(NodeView::at(raw)?.level() + 1));
    read.unwrap()
}

/// Where the frames of the nodes lie.
fn node_frames(table: &Table) -> Vec<std::ops::Range<usize>> {
    let scan = passing(table).unwrap();
    let mut at = scan.properties.index_offset() as usize;
    let place = |&bytes: &u64| {
        let frame = at..at + bytes as usize;
        at = frame.end;
        frame
    };
    scan.properties.index_bytes.iter().map(place).collect()
}

const WAYS: [(Compression, ReadIo); 4] = [
    (Compression::None, ReadIo::Map),
    (Compression::None, ReadIo::Read),
    (Compression::Lz4, ReadIo::Map),
    (Compression::Lz4, ReadIo::Read),
];

#[test]
fn a_tall_tree_is_read_in_every_way() {
    for (compression, read_io) in WAYS {
        let (file, meta, entries) = tall_table(compression, 3_000);
        assert_eq!(meta.kind, TableKind::BTree);
        for capacity in [0, 64 << 10, 8 << 20] {
            let cache = new_cache(capacity);
            let table = open_by(read_io, &file.0, Some(&meta), &cache).unwrap();
            assert!(levels(&table) >= 3, "{} levels", levels(&table));
            for owned in entries.iter().step_by(7) {
                check_get(&table, &entries, &owned.0, owned.1).unwrap();
                check_get(&table, &entries, &owned.0, owned.1 - 1).unwrap();
                check_get(&table, &entries, &[&owned.0[..], b"x"].concat(), u64::MAX >> 8).unwrap();
            }
            let mut cursor = table.cursor();
            cursor.seek_to_first().unwrap();
            for owned in &entries {
                assert_eq!(cursor.entry(), Some(entry(owned)));
                cursor.next().unwrap();
            }
            cursor.seek_to_last().unwrap();
            for owned in entries.iter().rev() {
                assert_eq!(cursor.entry(), Some(entry(owned)));
                cursor.prev().unwrap();
            }
            assert!(cursor.entry().is_none());
            let bytes = cache.stats().bytes;
            assert!(bytes <= capacity, "{bytes} bytes");
            if (compression, read_io) == (Compression::None, ReadIo::Map) {
                assert_eq!(bytes, 0, "nothing that is mapped is copied");
            }
            drop((cursor, table));
            assert_eq!(cache.stats().bytes, 0);
            assert_eq!(cache.budget().used(Part::Tables), 0);
        }
    }
}

#[test]
fn an_open_tree_holds_its_root_alone() {
    for (compression, read_io) in WAYS {
        let held = |count| {
            let (file, meta, _) = tall_table(compression, count);
            let cache = new_cache(1 << 20);
            let table = open_by(read_io, &file.0, Some(&meta), &cache).unwrap();
            (cache.budget().used(Part::Tables), table.block_count())
        };
        let ((few_bytes, few), (many_bytes, many)) = (held(3_000), held(12_000));
        assert!(many > 3 * few);
        // At most the bits of what was verified, and another level of nodes.
        assert!(many_bytes <= few_bytes + many, "{few_bytes} and {many_bytes} bytes");
    }
}

#[test]
fn estimates_of_a_tree_are_those_of_a_list() {
    let (file, meta, entries) = tall_table(Compression::None, 3_000);
    let mut list = Bytes::default();
    write(&mut list, &options(Compression::Lz4), 8, &entries, &[]);
    let tree = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
    let list = open(&list.0, None, &new_cache(0)).unwrap();
    let key = |at: usize| Some(&entries[at].0[..]);
    for (start, end) in [(0, 2_999), (5, 6), (100, 2_500), (1_000, 1_000), (2_990, 2_999)] {
        let (found, expected) =
            (tree.extent(key(start), key(end)), list.extent(key(start), key(end)));
        let (found, expected) = (found.unwrap().entries, expected.unwrap().entries);
        assert!(found.abs_diff(expected) <= 8, "{found} and {expected} entries");
    }
    let all = tree.extent(None, None).unwrap();
    assert_eq!((all.entries, all.bytes), (3_000, tree.contents.data_bytes));
}

/// Two nodes of one length, each sealed for the place of the other.
fn swapped_nodes(file: &[u8], table: &Table, at: [usize; 2]) -> Vec<u8> {
    let frames = node_frames(table);
    let mut bytes = file.to_vec();
    let place = |at: usize| FramePlace { table: TableUid(7), offset: frames[at].start as u64 };
    for (from, to) in [(at[0], at[1]), (at[1], at[0])] {
        let frame = &file[frames[from].clone()];
        assert_eq!(frame.len(), frames[to].len());
        let checksum = moved_checksum(frame, place(from), place(to));
        let target = &mut bytes[frames[to].clone()];
        target.copy_from_slice(frame);
        let end = target.len() - CHECKSUM_BYTES;
        target[end..].copy_from_slice(&checksum);
    }
    bytes
}

#[test]
fn a_sound_node_at_the_place_of_another_is_refused() {
    for (compression, read_io) in WAYS {
        let (file, meta, entries) = tall_table(compression, 3_000);
        let whole = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
        let lowest = passing(&whole).unwrap().properties.tree.unwrap().lowest;
        // Of the lowest level, and of the one above it.
        for at in [[1, 2], [lowest + 1, lowest + 2]] {
            let bytes = swapped_nodes(&file.0, &whole, at);
            let table = open_by(read_io, &bytes, Some(&meta), &new_cache(1 << 20)).unwrap();
            assert!(verify(&table).is_err());
            let get = |owned: &Owned| check_get(&table, &entries, &owned.0, owned.1);
            let refused = entries.iter().filter(|owned| get(owned).is_err()).count();
            assert!(refused > 0, "each other answer was right");
            let mut cursor = table.cursor();
            let walked = cursor.seek_to_first().and_then(|()| {
                for owned in &entries {
                    assert_eq!(cursor.entry(), Some(entry(owned)));
                    cursor.next()?;
                }
                Ok(())
            });
            assert!(walked.is_err());
        }
    }
}

#[test]
fn every_damaged_byte_of_a_node_is_noticed() {
    let (file, meta, entries) = tall_table(Compression::None, 400);
    let whole = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
    assert!(levels(&whole) >= 3);
    let (first, last) = (node_frames(&whole)[0].start, node_frames(&whole).last().unwrap().end);
    for at in Sweep::every(6).of(first..last) {
        let mut bytes = file.0.clone();
        bytes[at] ^= 0x11;
        for read_io in [ReadIo::Map, ReadIo::Read] {
            let opened = open_by(read_io, &bytes, Some(&meta), &new_cache(1 << 20));
            let noticed = opened.and_then(|table| {
                let verified = verify(&table);
                let gets =
                    entries.iter().map(|owned| check_get(&table, &entries, &owned.0, owned.1));
                let gets = gets.fold(Ok(()), Result::and);
                assert!(verified.is_err() && gets.is_err(), "byte {at}");
                gets
            });
            let error = noticed.expect_err("a byte was changed");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(error.file(), Some("t.table"));
            assert!(error.offset().is_some());
        }
    }
}

#[test]
fn blocks_are_copied_between_the_kinds() {
    let entries = many(2_000);
    for compression in [Compression::None, Compression::Lz4] {
        for (from, to) in
            [(TableKind::Block, TableKind::BTree), (TableKind::BTree, TableKind::Block)]
        {
            let options = |kind| TableOptions { kind, ..options(compression) };
            let (mut source, mut copy) = (Bytes::default(), Bytes::default());
            let meta = write(&mut source, &options(from), 7, &entries, &[]);
            let source = open(&source.0, Some(&meta), &new_cache(0)).unwrap();
            let mut writer = TableWriter::new(&mut copy, &options(to), TableUid(8));
            for number in 0..source.block_count() {
                writer.add_sealed(&source.read_sealed(number).unwrap()).unwrap();
            }
            let meta = writer.finish().unwrap();
            assert_eq!(meta.kind, to);
            for read_io in [ReadIo::Map, ReadIo::Read] {
                let table = open_by(read_io, &copy.0, Some(&meta), &new_cache(1 << 20)).unwrap();
                verify(&table).unwrap();
                assert!(scan(&table).unwrap() == entries);
                let leaves = passing(&table).unwrap().properties.tree.map(|tree| tree.leaves);
                let searchable = compression == Compression::None && to == TableKind::BTree;
                assert_eq!(leaves == Some(BlockLayout::Searchable), searchable);
                for number in 0..table.block_count() {
                    let block = table.read_sealed(number).unwrap();
                    assert_eq!(block.block().is_searchable(), searchable);
                }
            }
        }
    }
}
