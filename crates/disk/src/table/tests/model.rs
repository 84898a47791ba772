//! Every way to read a table against the sorted list of its entries.

use super::*;
use proptest::prelude::*;
use siltdb_base::{
    cursor::{Stretch, StretchContent},
    key::BlobPointer,
    limits::KEY_BYTES_MAX,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A cursor over a sorted list.
struct Model<'a> {
    entries: &'a [Owned],
    position: Option<usize>,
}

impl Model<'_> {
    fn lower_bound(&self, key: &[u8], sequence: u64) -> usize {
        self.entries
            .partition_point(|entry| place(entry) < SortKey::new(key, SequenceNumber(sequence)))
    }

    fn stand(&mut self, position: Option<usize>) {
        self.position = position.filter(|&position| position < self.entries.len());
    }
}

#[derive(Clone, Debug)]
enum Step {
    First,
    Last,
    Seek(Vec<u8>, u64),
    SeekBefore(Vec<u8>, u64),
    Next,
    Prev,
    /// As many steps, within the longest span.
    Walk(Direction, usize),
}

/// What a cursor knows of its spans.
#[derive(Clone, Copy)]
enum Knows {
    All,
    /// It may not know of plain ones that they are.
    Some,
}

/// Takes `steps` with the cursor of a reader, and with that of a scan.
fn walk(table: &Arc<Table>, entries: &[Owned], steps: &[Step]) {
    walk_with(table.cursor(), Knows::All, entries, steps);
    walk_with(passing(table).unwrap().cursor().unwrap(), Knows::Some, entries, steps);
}

fn walk_with(mut cursor: impl EntryCursor, knows: Knows, entries: &[Owned], steps: &[Step]) {
    let mut model = Model { entries, position: None };
    assert!(cursor.entry().is_none() && cursor.stretch().is_none());
    for step in steps {
        match step {
            Step::First => {
                cursor.seek_to_first().unwrap();
                model.stand(Some(0));
            }
            Step::Last => {
                cursor.seek_to_last().unwrap();
                model.stand(entries.len().checked_sub(1));
            }
            Step::Seek(key, sequence) => {
                cursor.seek(key, SequenceNumber(*sequence)).unwrap();
                model.stand(Some(model.lower_bound(key, *sequence)));
            }
            Step::SeekBefore(key, sequence) => {
                cursor.seek_before(key, SequenceNumber(*sequence)).unwrap();
                model.stand(model.lower_bound(key, *sequence).checked_sub(1));
            }
            Step::Next => {
                cursor.next().unwrap();
                model.stand(model.position.map(|position| position + 1));
            }
            Step::Prev => {
                cursor.prev().unwrap();
                model.stand(model.position.and_then(|position| position.checked_sub(1)));
            }
            Step::Walk(direction, steps) => walk_along(&mut cursor, &mut model, *direction, *steps),
        }
        let expected = model.position.map(|position| entry(&entries[position]));
        assert_eq!(cursor.entry(), expected, "after {step:?}");
        check_span(cursor.stretch(), knows, &model);
        for direction in [Direction::Forward, Direction::Backward] {
            check_span(cursor.stretch_along(direction), knows, &model);
        }
    }
}

/// Walks within the longest span, to its end or until `steps` were made.
fn walk_along(
    cursor: &mut impl EntryCursor,
    model: &mut Model<'_>,
    direction: Direction,
    steps: usize,
) {
    let (Some(span), Some(position)) = (cursor.stretch_along(direction), model.position) else {
        assert_eq!(cursor.walk(direction, steps, &mut |_| panic!("it stands nowhere")).unwrap(), 0);
        return;
    };
    let (span_steps, at): (_, &dyn Fn(usize) -> usize) = match direction {
        Direction::Forward => (span.after, &|made| position + made),
        Direction::Backward => (span.before, &|made| position - made),
    };
    let mut made = 0;
    let walked = cursor.walk(direction, span_steps, &mut |seen| {
        made += 1;
        assert_eq!(seen, entry(&model.entries[at(made)]), "after {made} steps {direction:?}");
        if made < steps { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!((walked.unwrap(), made), (made, span_steps.min(steps.max(1))));
    model.stand(Some(at(made)));
}

fn check_span(span: Option<Stretch<'_>>, knows: Knows, model: &Model<'_>) {
    let (Some(span), Some(position)) = (span, model.position) else {
        assert!(span.is_none() && model.position.is_none());
        return;
    };
    let (first, last) = (position - span.before, position + span.after);
    let stretch = &model.entries[first..=last];
    assert_eq!(span.first_key, stretch[0].0);
    assert_eq!(span.last_key, stretch[stretch.len() - 1].0);
    let newest = stretch.iter().map(|entry| entry.1).max();
    assert_eq!(Some(span.sequence_max.0), newest);
    let single = |key: &[u8]| {
        let end = Model { entries: model.entries, position: None }.lower_bound(key, 0);
        let around = &model.entries[..model.entries.len().min(end + 1)];
        around.iter().rev().take(3).filter(|entry| entry.0 == key).count() == 1
    };
    let plain = stretch.iter().all(|entry| entry.2 == EntryKind::Put && single(&entry.0));
    match knows {
        Knows::All => assert_eq!(span.content == StretchContent::Plain, plain),
        Knows::Some => assert!(plain || span.content == StretchContent::Any),
    }
}

fn check(options: &TableOptions, entries: &[Owned], probes: &[(Vec<u8>, u64)], steps: &[Step]) {
    for read_io in [ReadIo::Read, ReadIo::Map] {
        let table = table_by(read_io, options, entries, &[]);
        check_table(&table, entries, probes, steps);
    }
}

fn check_table(table: &Arc<Table>, entries: &[Owned], probes: &[(Vec<u8>, u64)], steps: &[Step]) {
    assert_eq!(scan(table).unwrap(), entries);
    assert_eq!(table.meta().entries, entries.len() as u64);
    for owned in entries {
        for visible in [owned.1.saturating_sub(1), owned.1, owned.1 + 1, SequenceNumber::MAX.0] {
            check_get(table, entries, &owned.0, visible).unwrap();
        }
    }
    for (key, visible) in probes {
        check_get(table, entries, key, *visible).unwrap();
    }
    walk(table, entries, steps);
    let back_and_forth: Vec<Step> = std::iter::once(Step::Last)
        .chain(entries.iter().map(|_| Step::Prev))
        .chain([Step::Next, Step::First])
        .chain(entries.iter().map(|_| Step::Next))
        .chain([Step::Prev])
        .collect();
    walk(table, entries, &back_and_forth);
}

fn every_way(entries: &[Owned], probes: &[&[u8]]) {
    let probes: Vec<_> = probes.iter().map(|key| (key.to_vec(), 5)).collect();
    for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
        for filter_bits_per_key in [0, 10] {
            let options = TableOptions { filter_bits_per_key, ..options(compression) };
            check(&options, entries, &probes, &[]);
        }
    }
}

#[test]
pub(super) fn small_and_extreme_entries_are_found() {
    every_way(&[put("", 1, "")], &[b"", b"a"]);
    every_way(&[put("k", 0, "v")], &[b"", b"a", b"k", b"k\0", b"z"]);
    let longest = vec![b'x'; KEY_BYTES_MAX];
    let mut longest_but = longest.clone();
    longest_but[KEY_BYTES_MAX - 1] = b'y';
    let entries = [
        put("", 9, "empty"),
        put("a", 3, [7; 100_000]),
        put(&longest, 2, ""),
        put(longest_but, 5, "z"),
    ];
    every_way(&entries, &[b"x", b"a\0", b"y", &longest[1..]]);
}

#[test]
pub(super) fn versions_of_one_key_span_blocks() {
    let mut entries: Vec<Owned> = (0..200)
        .rev()
        .map(|sequence| put("hot", 10 + sequence * 2, [sequence as u8; 60]))
        .collect();
    entries.insert(0, put("cold", 1, "before"));
    entries.push(put("zero", 1, "after"));
    every_way(&entries, &[b"hos", b"hot\0", b"hou"]);
    let table = table_of(&options(Compression::None), &entries, &[]);
    assert!(table.block_count() > 10);
    for sequence in 0..500 {
        check_get(&table, &entries, b"hot", sequence).unwrap();
        let steps = [
            Step::Seek(b"hot".to_vec(), sequence),
            Step::Prev,
            Step::SeekBefore(b"hot".to_vec(), sequence),
            Step::Next,
        ];
        walk(&table, &entries, &steps);
    }
}

#[test]
pub(super) fn an_index_of_many_frames_is_read_frame_by_frame() {
    check_many_frames(5, 1_000);
    // The second of two versions begins a frame.
    check_many_frames(2, 950);
}

/// Versions of one key end one frame and begin the next.
fn check_many_frames(versions: u64, key_bytes: usize) {
    let key = |number: u64| format!("{:05}", number / versions).repeat(key_bytes / 5);
    let mut entries: Vec<Owned> =
        (0..600).map(|number| put(key(number), 1_000 - number, [4; 900])).collect();
    entries[77].2 = EntryKind::Merge;
    let options = options(Compression::None);
    let table = table_of(&options, &entries, &[]);
    let frames = passing(&table).unwrap().properties.index_bytes.len();
    assert!(frames > 5 && table.block_count() == 600, "{frames} frames");
    let place = |number: u64| (key(number).into_bytes(), 1_000 - number);
    let mut steps = Vec::new();
    for number in (0..600).step_by(7).chain((0..600).rev().step_by(41)) {
        let (key, sequence) = place(number);
        steps.extend([Step::Seek(key.clone(), sequence), Step::Next, Step::Prev, Step::Prev]);
        steps.extend([Step::SeekBefore(key, sequence), Step::Prev, Step::Next, Step::Next]);
    }
    // Back over each border: a newer version of the key that a frame begins with lies before it.
    for number in (0..600).rev() {
        let (key, sequence) = place(number);
        steps.push(Step::Seek(key, sequence));
    }
    steps.extend([Step::First, Step::Last, Step::Seek(b"9".to_vec(), 1), Step::Next]);
    steps.extend([Step::Last, Step::Next, Step::Prev, Step::Seek(b"0".to_vec(), 1)]);
    steps.extend(std::iter::repeat_n(Step::Next, 610));
    walk(&table, &entries, &steps);
    // The blocks, in order and by their numbers.
    let mut blocks = passing(&table).unwrap().blocks().unwrap();
    for index in 0..table.block_count() {
        assert_eq!((blocks.number(), blocks.block()), (index, Some(table.block_info(index))));
        assert_eq!(blocks.continues(), !(index as u64).is_multiple_of(versions));
        blocks.advance().unwrap();
    }
    for index in [0, 599, 3, 300, 301, 299, 600, 5, usize::MAX, 0] {
        blocks.go_to(index).unwrap();
        assert_eq!(blocks.number(), index.min(600));
        assert_eq!(blocks.block(), (index < 600).then(|| table.block_info(index)));
    }
}

#[test]
pub(super) fn a_stretch_of_plain_entries_goes_over_several_blocks() {
    let mut entries: Vec<Owned> =
        (0..2_000).map(|number| put(format!("k{number:06}"), number, [3; 50])).collect();
    entries[700].2 = EntryKind::Merge;
    entries[1_200].0 = entries[1_199].0.clone();
    entries[1_200].1 = 7;
    let table = table_of(&options(Compression::Lz4), &entries, &[]);
    let block_entries = table.block_info(0).entries as usize;
    assert!(block_entries < 100);
    let mut cursor = table.cursor();
    cursor.seek_to_first().unwrap();
    let far = cursor.stretch_along(Direction::Forward).unwrap();
    assert!((7 * block_entries..700).contains(&far.after), "{far:?}");
    assert_eq!(cursor.stretch_along(Direction::Backward).unwrap().after, block_entries - 1);
    let walks =
        |direction| [5, 1, 500, 2_000, 2_000, 2_000].map(|steps| Step::Walk(direction, steps));
    for from in (0..2_000).step_by(37) {
        let seek = Step::Seek(entries[from].0.clone(), entries[from].1);
        let (forward, backward) = (walks(Direction::Forward), walks(Direction::Backward));
        walk(&table, &entries, &[&[seek], &forward[..], &backward[..], &forward[..]].concat());
    }
}

#[test]
pub(super) fn keys_with_equal_heads_are_told_apart_in_the_index() {
    let entries: Vec<Owned> = (0..300)
        .map(|number| put(format!("a-long-common-prefix-eightsame{number:05}"), 4, [1; 40]))
        .chain((0..100).map(|number| put(format!("b{:>40}", number * 2), 4, [2; 100])))
        .collect();
    let probes: Vec<Vec<u8>> = (0..200).map(|number| format!("b{number:>40}").into()).collect();
    let probes: Vec<&[u8]> = probes.iter().map(Vec::as_slice).collect();
    every_way(&entries, &probes);
}

#[test]
pub(super) fn the_summary_says_what_was_added() {
    let entries = many(300);
    let count = |kind: EntryKind| entries.iter().filter(|entry| entry.2 == kind).count() as u64;
    let table = table_of(
        &options(Compression::Lz4),
        &entries,
        &[tombstone("a", "c", 3), tombstone("b", "zz", 5000), tombstone("x", "x", 9000)],
    );
    let meta = table.meta();
    assert_eq!(meta.point_tombstones, count(EntryKind::Delete));
    assert_eq!(meta.merge_operands, count(EntryKind::Merge));
    assert_eq!(meta.range_tombstones, 4);
    assert_eq!((meta.sequence_min.0, meta.sequence_max.0), (3, 5000));
    let expiry = 9000 - (0..300).filter(|number| number % 11 == 7).max().unwrap();
    assert_eq!(meta.expiry_min_ms, Some(expiry));
    let logical: usize = entries.iter().map(|entry| entry.0.len() + entry.3.len()).sum();
    assert_eq!(meta.logical_bytes, logical as u64);
    assert_eq!((&meta.range.first[..], &meta.range.last[..]), (&b"a"[..], &b"zz"[..]));
    assert!(!meta.range.contains(b"zz"));
    let expected = Fragments::new(&[tombstone("a", "c", 3), tombstone("b", "zz", 5000)]);
    assert_eq!(**table.tombstones(), expected);
    // Each block says what it holds, as the entries do.
    let mut rest = &entries[..];
    for index in 0..table.block_count() {
        let info = table.block_info(index);
        let (block, after) = rest.split_at(info.entries as usize);
        rest = after;
        let has = |kind: EntryKind| block.iter().any(|entry| entry.2 == kind);
        assert_eq!(info.contents.has(Contents::TOMBSTONES), has(EntryKind::Delete));
        assert_eq!(info.contents.has(Contents::MERGES), has(EntryKind::Merge));
        assert_eq!(info.contents.has(Contents::EXPIRING), has(EntryKind::PutExpiring));
        assert_eq!(info.expiry_min_ms.is_some(), has(EntryKind::PutExpiring));
        let versions = block.windows(2).any(|pair| pair[0].0 == pair[1].0);
        assert_eq!(info.contents.has(Contents::VERSIONS), versions);
    }
    assert!(rest.is_empty());
}

#[test]
pub(super) fn blob_pointers_expire_too() {
    let mut payload = Vec::new();
    let pointer = BlobPointer {
        file: siltdb_base::id::FileNumber(3),
        offset: 9,
        length: 100,
        stored_bytes: 5,
        codec: 1,
        checksum: 7,
        expiry_ms: Some(77),
    };
    pointer.encode(&mut payload);
    let entries = [("k".into(), 1, EntryKind::BlobPointer, payload)];
    let table = table_of(&options(Compression::None), &entries, &[]);
    assert_eq!(table.meta().expiry_min_ms, Some(77));
    assert!(table.block_info(0).contents.has(Contents::BLOB_POINTERS));
}

#[test]
pub(super) fn a_table_of_range_tombstones_alone_has_no_entries() {
    let table = table_of(&options(Compression::Lz4), &[], &[tombstone("b", "d", 8)]);
    assert!(table.get(LookupKey::new(b"c"), SequenceNumber::MAX, |_| ()).unwrap().is_none());
    walk(&table, &[], &[Step::First, Step::Last, Step::Seek(b"b".to_vec(), 9), Step::Next]);
    walk(&table, &[], &[Step::SeekBefore(b"b".to_vec(), 9), Step::Prev]);
    assert_eq!(table.meta().sequence_max.0, 8);
    let mut file = Bytes::default();
    let writer = TableWriter::new(&mut file, &TableOptions::default(), TableUid(1));
    assert!(writer.is_empty());
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), siltdb_base::error::ErrorKind::InvalidArgument);
}

#[test]
pub(super) fn a_cursor_whose_walk_panicked_shows_no_value_under_another_key() {
    let entries: Vec<Owned> = many(40).into_iter().map(|it| put(&it.0, it.1, &it.0)).collect();
    let table = table_of(&options(Compression::None), &entries, &[]);
    for direction in [Direction::Forward, Direction::Backward] {
        let mut cursor = table.cursor();
        cursor.seek(&entries[5].0, SequenceNumber::MAX).unwrap();
        let mut seen = 0;
        let walked = catch_unwind(AssertUnwindSafe(|| {
            cursor.walk(direction, 5, &mut |_| {
                seen += 1;
                assert!(seen < 3, "a panic on purpose");
                ControlFlow::Continue(())
            })
        }));
        assert!(walked.is_err());
        assert!(cursor.entry().is_none_or(|entry| entry.key == entry.value), "{direction:?}");
        cursor.next().unwrap();
        assert!(cursor.entry().is_none_or(|entry| entry.key == entry.value), "{direction:?}");
        walk(&table, &entries, &[Step::First, Step::Walk(direction, 9), Step::Last]);
    }
}

#[test]
pub(super) fn tables_share_a_file() {
    let mut file = Bytes(b"something else".to_vec());
    let mut tables = Vec::new();
    for uid in 0..3 {
        let entries: Vec<Owned> =
            many(40).into_iter().map(|entry| put(entry.0, entry.1 + uid, [uid as u8])).collect();
        let offset = file.0.len() as u64;
        let meta = write(&mut file, &TableOptions::default(), uid, &entries, &[]);
        assert_eq!(offset + meta.file_bytes, file.0.len() as u64);
        tables.push((offset, meta, entries));
    }
    let (file, cache): (Arc<dyn File>, _) = (Arc::new(file), new_cache(1 << 20));
    for (offset, meta, entries) in &tables {
        let open = |length: u64| {
            let (file, path) = (Arc::clone(&file), Path::new("t"));
            Table::open(
                TableLocation::new(file, path, *offset, length),
                Some(meta),
                ReadIo::Map,
                &cache,
            )
        };
        let table = open(meta.file_bytes).unwrap();
        verify(&table).unwrap();
        assert_eq!(scan(&table).unwrap(), *entries);
        assert!(open(meta.file_bytes - 1).is_err() && open(meta.file_bytes + 1).is_err());
        assert!(open(u64::MAX).is_err() && open(3).is_err());
    }
}

#[test]
#[should_panic(expected = "does not follow")]
fn entries_out_of_order_are_refused() {
    let mut file = Bytes::default();
    let _ = write(&mut file, &TableOptions::default(), 1, &[put("b", 1, ""), put("a", 1, "")], &[]);
}

#[test]
pub(super) fn the_estimate_is_near_the_length() {
    for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
        let mut file = Bytes::default();
        let mut writer = TableWriter::new(&mut file, &options(compression), TableUid(1));
        for owned in &many(2000) {
            writer.add(entry(owned)).unwrap();
        }
        let estimate = writer.estimated_bytes();
        let length = writer.finish().unwrap().file_bytes;
        assert!(estimate.abs_diff(length) < length / 10, "{estimate} {length}");
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => proptest::collection::vec(0_u8..3, 0..4),
        1 => proptest::collection::vec(0_u8..2, 8..11),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

fn entries() -> impl Strategy<Value = Vec<Owned>> {
    let kind = prop_oneof![
        6 => Just(EntryKind::Put),
        1 => Just(EntryKind::Delete),
        1 => Just(EntryKind::PutExpiring),
        1 => Just(EntryKind::Merge),
    ];
    let value = prop_oneof![
        10 => proptest::collection::vec(0_u8..3, 8..200),
        1 => proptest::collection::vec(any::<u8>(), 1000..1100),
    ];
    let entry = (key(), 0_u64..60, kind, value);
    (proptest::collection::vec(entry, 1..150), proptest::collection::vec(0_u8..3, 0..10)).prop_map(
        |(mut entries, prefix)| {
            for entry in &mut entries {
                entry.0.splice(0..0, prefix.iter().copied());
            }
            sort(&mut entries);
            entries
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::First),
        1 => Just(Step::Last),
        3 => (key(), 0_u64..62).prop_map(|(key, sequence)| Step::Seek(key, sequence)),
        3 => (key(), 0_u64..62).prop_map(|(key, sequence)| Step::SeekBefore(key, sequence)),
        8 => Just(Step::Next),
        8 => Just(Step::Prev),
        4 => (0_usize..90).prop_map(|steps| Step::Walk(Direction::Forward, steps)),
        4 => (0_usize..90).prop_map(|steps| Step::Walk(Direction::Backward, steps)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_answers_as_the_list_of_its_entries(
        entries in entries(),
        probes in proptest::collection::vec((key(), 0_u64..62), 0..30),
        steps in proptest::collection::vec(step(), 0..200),
        compressed in any::<bool>(),
        filter_bits_per_key in prop_oneof![Just(0_u32), Just(10)],
        kind in prop_oneof![Just(TableKind::Block), Just(TableKind::BTree)],
    ) {
        let compression = if compressed { Compression::Lz4 } else { Compression::None };
        let options = TableOptions { filter_bits_per_key, kind, ..options(compression) };
        // The probes and steps once as they are, once among the keys.
        let prefix = entries[0].0.iter().take(4).copied().collect::<Vec<_>>();
        let near = |key: &[u8]| [&prefix, key].concat();
        let mut all_probes = probes.clone();
        all_probes.extend(probes.iter().map(|(key, sequence)| (near(key), *sequence)));
        let near_steps = steps.iter().map(|step| match step {
            Step::Seek(key, sequence) => Step::Seek(near(key), *sequence),
            Step::SeekBefore(key, sequence) => Step::SeekBefore(near(key), *sequence),
            other => other.clone(),
        });
        let all_steps: Vec<Step> = steps.iter().cloned().chain(near_steps).collect();
        check(&options, &entries, &all_probes, &all_steps);
    }
}
