//! Damaged, cut, swapped and forged tables: an error or the right answer, never a wrong one.

use super::*;
use crate::{
    block::BlockBuilder,
    compress::Compressor,
    fields::UnknownFields,
    filter::FilterBuilder,
    filter_keys::{FilterKeys, PrefixExtractor},
    frame::{FrameKind, FramePlace, seal},
    garbage::{Garbage, GarbageBuilder, KeyPosition, SizedEntry},
    key_sketch::{KeySketch, SketchBuilder},
    options::TableKind,
    table::{
        format::block_stats::{BlockStats, Contents},
        format::footer::{FOOTER_BYTES, Footer},
        format::index::IndexBuilder,
        format::properties::Properties,
        read::source::TableSource,
    },
};
use siltdb_base::{
    checksum::{crc32c, xxh3},
    codec::put_varint,
    error::ErrorKind,
};
use siltdb_sweep::Sweep;

fn victim(compression: Compression) -> (Bytes, TableMeta, Vec<Owned>, Vec<RangeTombstone>) {
    let entries = many(60);
    let tombstones = vec![tombstone("key-1", "key-3", 40), tombstone("key-2", "z", 41)];
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(compression), 99, &entries, &tombstones);
    (file, meta, entries, tombstones)
}

/// Reads everything in every way; the answers must be right. Says whether damage was noticed: by
/// lookups as well, if any was by a scan, whether the cache keeps blocks or not. Damage of the
/// filter is noticed by lookups alone.
fn read_all(
    bytes: &[u8],
    expected: Option<&TableMeta>,
    entries: &[Owned],
    tombstones: &[RangeTombstone],
) -> Result<()> {
    let table = open(bytes, expected, &new_cache(1 << 20))?;
    assert_eq!(**table.tombstones(), Fragments::new(tombstones));
    let mut noticed = verify(&table);
    let uncached = open(bytes, expected, &new_cache(0))?;
    let is_damaged = scan(&table).is_err() || uncached.filter().is_err();
    // A reader of the filter alone notices the same of it.
    let alone = filter_alone(bytes, table.meta());
    assert_eq!(alone.is_err(), uncached.filter().is_err());
    if let Ok(filter) = alone {
        assert!(entries.iter().all(|entry| filter.may_contain(LookupKey::new(&entry.0))));
    }
    for table in [&table, &uncached] {
        let mut by_lookups = Ok(());
        for owned in entries {
            for visible in [owned.1, SequenceNumber::MAX.0] {
                if let Err(error) = check_get(table, entries, &owned.0, visible) {
                    by_lookups = Err(error);
                }
            }
        }
        assert_eq!(by_lookups.is_err(), is_damaged);
        noticed = noticed.and(by_lookups);
    }
    assert_eq!(uncached.cache.stats().insertions, 0);
    match scan(&table) {
        Ok(found) => assert_eq!(found, entries),
        Err(error) => noticed = Err(error),
    }
    noticed
}

/// The filter of a table that is not open.
fn filter_alone(bytes: &[u8], expected: &TableMeta) -> Result<TableFilter> {
    let (file, path) = (Arc::new(Bytes(bytes.to_vec())), Path::new("t.table"));
    TableFilter::read(
        TableLocation::new(file, path, 0, bytes.len() as u64),
        expected,
        &new_cache(0),
    )
}

#[test]
pub(super) fn a_filter_alone_is_that_of_the_table_that_is_expected() {
    let (file, meta, entries, _) = victim(Compression::Lz4);
    let filter = filter_alone(&file.0, &meta).unwrap();
    assert!(filter.bytes() > 0 && filter.may_contain(LookupKey::new(&entries[0].0)));
    let passed = (0..1000)
        .filter(|number| filter.may_contain(LookupKey::new(format!("absent-{number}").as_bytes())));
    assert!(passed.count() < 50);
    let other = TableMeta { sequence_max: SequenceNumber(meta.sequence_max.0 + 1), ..meta };
    let error = filter_alone(&file.0, &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("not the one that was installed"), "{error}");
    let other = TableMeta { uid: TableUid(7), ..other };
    assert_eq!(filter_alone(&file.0, &other).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
pub(super) fn every_damaged_byte_is_noticed() {
    let sweep = Sweep::every(3);
    for compression in [Compression::Lz4, Compression::None, Compression::Snappy] {
        let (file, meta, entries, tombstones) = victim(compression);
        read_all(&file.0, Some(&meta), &entries, &tombstones).unwrap();
        assert!(open(&file.0, None, &new_cache(0)).unwrap().block_count() > 3);
        for index in sweep.of(0..file.0.len()) {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = file.0.clone();
                bytes[index] ^= flip;
                for expected in [None, Some(&meta)] {
                    let error = read_all(&bytes, expected, &entries, &tombstones)
                        .expect_err(&format!("byte {index} flipped by {flip:#x}"));
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    assert_eq!(error.file(), Some("t.table"));
                    assert!(error.offset().is_some(), "{error}");
                }
            }
        }
    }
}

#[test]
pub(super) fn zeroed_cut_and_extended_tables_are_noticed() {
    let (file, meta, entries, tombstones) = victim(Compression::Lz4);
    let check = |bytes: &[u8]| {
        assert!(read_all(bytes, None, &entries, &tombstones).is_err());
        assert!(read_all(bytes, Some(&meta), &entries, &tombstones).is_err());
    };
    for end in 0..file.0.len() {
        check(&file.0[..end]);
    }
    for start in 1..file.0.len() {
        check(&file.0[start..]);
    }
    for extra in 1..100 {
        check(&[&file.0[..], &vec![0; extra]].concat());
        check(&[&vec![0; extra][..], &file.0].concat());
        check(&[&file.0[..], &file.0[file.0.len() - extra..]].concat());
    }
    for start in (0..file.0.len()).step_by(64) {
        let mut bytes = file.0.clone();
        let end = bytes.len().min(start + 512);
        bytes[start..end].fill(0);
        check(&bytes);
    }
}

#[test]
pub(super) fn another_table_in_its_place_is_noticed() {
    let (file, meta, entries, tombstones) = victim(Compression::Lz4);
    let mut other = Bytes::default();
    let other_summary = write(&mut other, &options(Compression::Lz4), 100, &entries, &tombstones);
    assert_eq!(file.0.len(), other.0.len());
    let error = open(&other.0, Some(&meta), &new_cache(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    // An older table with the same name, too.
    let mut older = other_summary.clone();
    older.entries += 1;
    assert!(open(&other.0, Some(&older), &new_cache(0)).is_err());
    // And any part of it in place of the same part.
    for part in 0..file.0.len() / 100 {
        let mut bytes = file.0.clone();
        let range = part * 100..part * 100 + 200.min(bytes.len() - part * 100);
        if file.0[range.clone()] == other.0[range.clone()] {
            continue;
        }
        bytes[range.clone()].copy_from_slice(&other.0[range]);
        assert!(read_all(&bytes, Some(&meta), &entries, &tombstones).is_err());
    }
}

#[test]
pub(super) fn swapped_blocks_are_noticed() {
    let entries: Vec<Owned> =
        (0..100).map(|number| put(format!("{number:04}"), 1, [number as u8; 100])).collect();
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::None), 5, &entries, &[]);
    let table = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
    let frame = |index: usize| {
        let info = table.block_info(index);
        info.offset as usize..(info.offset + info.bytes) as usize
    };
    assert!(table.block_count() > 4 && frame(1).len() == frame(2).len());
    let mut bytes = file.0.clone();
    bytes[frame(1)].copy_from_slice(&file.0[frame(2)]);
    bytes[frame(2)].copy_from_slice(&file.0[frame(1)]);
    assert!(read_all(&bytes, Some(&meta), &entries, &[]).is_err());
    let mut doubled = file.0.clone();
    doubled[frame(1)].copy_from_slice(&file.0[frame(2)]);
    assert!(read_all(&doubled, Some(&meta), &entries, &[]).is_err());
}

#[test]
pub(super) fn a_read_error_is_passed_on_and_nothing_is_cached() {
    let (file, meta, entries, _) = victim(Compression::Lz4);
    let cache = new_cache(1 << 20);
    let mut bytes = file.0.clone();
    bytes[20] ^= 1;
    let table = open(&bytes, Some(&meta), &cache).unwrap();
    for _ in 0..2 {
        assert!(table.get(LookupKey::new(&entries[0].0), SequenceNumber::MAX, |_| ()).is_err());
    }
    let mut cursor = table.cursor();
    assert!(cursor.seek_to_first().is_err());
    for _ in 0..2 {
        assert!(cursor.entry().is_none() && cursor.stretch().is_none());
        cursor.next().unwrap();
        cursor.prev().unwrap();
    }
    assert_eq!((cache.stats().bytes, cache.stats().insertions), (0, 0));
    // Positioned anew it works where the table is whole.
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.entry().unwrap(), entry(entries.last().unwrap()));
    // Walking into the damage fails once and then stands nowhere.
    let mut failures = 0;
    while cursor.entry().is_some() {
        failures += usize::from(cursor.prev().is_err());
    }
    assert_eq!(failures, 1);
}

#[test]
fn an_index_frame_that_claims_900_mib_is_refused_before_it_is_decoded() {
    const CLAIM: u64 = 900 << 20;
    let (file, _, _, _) = victim(Compression::None);
    let length = file.0.len() as u64;
    let source = TableSource::new(
        TableLocation::new(Arc::new(file.clone()), Path::new("t"), 0, length),
        None,
    )
    .unwrap();
    let mut properties = source.read_properties(None).unwrap();
    let at = properties.index_offset();
    let mut bytes = file.0[..at as usize].to_vec();
    // A sound frame but for its claim: an attacker that writes the file knows what it is tied to.
    let mut frame = vec![FrameKind::Index as u8, 1];
    put_varint(&mut frame, CLAIM);
    put_varint(&mut frame, CLAIM / 255);
    frame.resize(frame.len() + (CLAIM / 255) as usize, 0);
    reseal_forged(&mut frame, FramePlace { table: source.uid, offset: at });
    let forge = |frame_bytes: u64, properties: &mut Properties, bytes: &mut Vec<u8>| {
        properties.index_bytes = vec![frame_bytes];
        let (at, place) =
            (bytes.len(), FramePlace { table: source.uid, offset: bytes.len() as u64 });
        for _ in 0..3 {
            bytes.truncate(at);
            let mut raw = Vec::new();
            properties.encode(&mut raw);
            seal(
                FrameKind::Properties,
                place,
                &raw,
                &mut Compressor::new(Compression::None),
                bytes,
            );
            properties.meta.file_bytes = (bytes.len() + FOOTER_BYTES) as u64;
        }
        let footer = Footer {
            uid: source.uid,
            table_bytes: properties.meta.file_bytes,
            properties_bytes: (bytes.len() - at) as u64,
        };
        bytes.extend_from_slice(&footer.encode());
    };
    bytes.extend_from_slice(&frame);
    forge(frame.len() as u64, &mut properties, &mut bytes);
    let error = open(&bytes, None, &new_cache(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("frame too long for its kind"), "{error}");
}

/// Ties a frame without its checksum to `place`.
fn reseal_forged(frame: &mut Vec<u8>, place: FramePlace) {
    // The checksum of nothing at this place is what ties a frame to it.
    let mut empty = Vec::new();
    let mut compressor = Compressor::new(Compression::None);
    seal(FrameKind::Data, place, b"", &mut compressor, &mut empty);
    let (covered, checksum) = empty.split_last_chunk::<4>().unwrap();
    let mix = u32::from_le_bytes(*checksum).wrapping_sub(crc32c(covered));
    let checksum = crc32c(frame).wrapping_add(mix);
    frame.extend_from_slice(&checksum.to_le_bytes());
}

/// A table whose parts are all well sealed but need not agree.
struct Forgery {
    blocks: Vec<Vec<Owned>>,
    /// The block as the index shows it, where it is not the real one.
    shown: Vec<(usize, Vec<Owned>)>,
    forgotten: Vec<u8>,
    change: fn(&mut Properties),
}

/// What a frame of the index of a forgery holds.
#[derive(Clone, Copy, Debug)]
enum IndexFrames {
    AllBlocks,
    OneBlock,
}

impl Forgery {
    fn of(blocks: &[&[(&str, u64)]]) -> Self {
        let block = |keys: &&[(&str, u64)]| {
            keys.iter().map(|(key, sequence)| put(key, *sequence, "value")).collect()
        };
        let blocks = blocks.iter().map(block).collect();
        Self { blocks, shown: Vec::new(), forgotten: Vec::new(), change: |_| {} }
    }

    /// Verifies it as a job does, which notices whatever a reader that opens it does.
    fn verify(&self) -> Result<()> {
        self.with_each(|bytes, table| {
            let verified = table.verify(&mut |_, _, _| Ok(()));
            let opened = open(bytes, None, &new_cache(1 << 20));
            assert!(opened.is_ok() || verified.is_err());
            verified
        })
    }

    /// Goes through the index alone.
    fn walk(&self) -> Result<()> {
        self.with_each(|_, table| {
            let mut blocks = table.blocks()?;
            while blocks.block().is_some() {
                blocks.advance()?;
            }
            Ok(())
        })
    }

    /// Merges it, as far as its cursor goes.
    fn scan(&self) -> Result<()> {
        self.with_each(|_, table| {
            let mut cursor = table.cursor()?;
            cursor.seek_to_first()?;
            while cursor.entry().is_some() {
                cursor.next()?;
            }
            Ok(())
        })
    }

    /// Calls `look` with the table, for each way to cut its index into frames: they must agree.
    fn with_each(&self, look: impl Fn(&[u8], &Arc<TableScan>) -> Result<()>) -> Result<()> {
        let [together, apart] = [IndexFrames::AllBlocks, IndexFrames::OneBlock].map(|frames| {
            let bytes = self.bytes(frames);
            let (file, length) = (Arc::new(Bytes(bytes.clone())), bytes.len() as u64);
            let source =
                TableSource::new(TableLocation::new(file, Path::new("t"), 0, length), None)
                    .unwrap();
            let meta = source.read_properties(None).unwrap().meta;
            look(&bytes, &TableScan::read(source, Some(&meta)).unwrap())
        });
        assert_eq!(together.is_err(), apart.is_err());
        together.and(apart)
    }

    fn bytes(&self, frames: IndexFrames) -> Vec<u8> {
        let uid = TableUid(3);
        let mut compressor = Compressor::new(Compression::None);
        let mut bytes = Vec::new();
        let mut add = |kind: FrameKind, raw: &[u8], bytes: &mut Vec<u8>| {
            let place = FramePlace { table: uid, offset: bytes.len() as u64 };
            let before = bytes.len();
            seal(kind, place, raw, &mut compressor, bytes);
            (bytes.len() - before) as u64
        };
        let (mut indexes, mut total, mut filter) =
            (vec![IndexBuilder::default()], BlockStats::default(), FilterBuilder::default());
        for (number, block) in self.blocks.iter().enumerate() {
            let raw = raw_block(block);
            let length = add(FrameKind::Data, &raw, &mut bytes);
            total.merge(&stats_of(block));
            let shown = self.shown.iter().find(|shown| shown.0 == number);
            let shown = shown.map_or(block, |shown| &shown.1);
            let stats = stats_of(shown);
            let (first, last) = (&shown[0], shown.last().unwrap());
            if let (IndexFrames::OneBlock, 1..) = (frames, number) {
                indexes.push(IndexBuilder::default());
            }
            let index = indexes.last_mut().unwrap();
            let last = SortKey::new(&last.0, SequenceNumber(last.1));
            index.add(&first.0, last, &stats, length);
            let kept = block.iter().filter(|entry| entry.0 != self.forgotten);
            kept.for_each(|entry| filter.add(xxh3(&entry.0)));
        }
        let (data_bytes, data_frames) = (bytes.len() as u64, self.blocks.len() as u64);
        let mut raw = Vec::new();
        filter.encode(20, &mut raw);
        let filter_bytes = add(FrameKind::Filter, &raw, &mut bytes);
        let raw = indexes.into_iter().flat_map(IndexBuilder::finish);
        let index_bytes = raw.map(|raw| add(FrameKind::Index, &raw, &mut bytes)).collect();
        // One varint of the length is two bytes here, whatever the change.
        let mut properties = Properties {
            meta: self.meta(uid, &total),
            data_bytes,
            data_frames,
            filter_bytes,
            tombstone_bytes: 0,
            dictionary_bytes: 0,
            index_bytes,
            tree: None,
            origin: None,
            external: None,
            compression: None,
            unknown: UnknownFields::default(),
        };
        (self.change)(&mut properties);
        let at = bytes.len();
        for _ in 0..3 {
            bytes.truncate(at);
            let mut raw = Vec::new();
            properties.encode(&mut raw);
            add(FrameKind::Properties, &raw, &mut bytes);
            properties.meta.file_bytes = (bytes.len() + FOOTER_BYTES) as u64;
        }
        let properties_bytes = (bytes.len() - at) as u64;
        let table_bytes = (bytes.len() + FOOTER_BYTES) as u64;
        bytes.extend_from_slice(&Footer { uid, table_bytes, properties_bytes }.encode());
        bytes
    }

    fn meta(&self, uid: TableUid, total: &BlockStats) -> TableMeta {
        let shown = |number: usize| {
            let shown = self.shown.iter().find(|shown| shown.0 == number);
            shown.map_or(&self.blocks[number], |shown| &shown.1)
        };
        let mut sample = SketchBuilder::default();
        for (key, _, _, value) in self.blocks.iter().flatten() {
            sample.add(xxh3(key), || (key.len() + value.len()) as u64);
        }
        TableMeta {
            uid,
            range: crate::table_meta::KeySpan {
                first: shown(0)[0].0.clone().into(),
                last: shown(self.blocks.len() - 1).last().unwrap().0.clone().into(),
                end: crate::table_meta::RangeEnd::Inclusive,
            },
            entries: total.entries,
            point_tombstones: total.point_tombstones,
            range_tombstones: 0,
            merge_operands: total.merge_operands,
            sequence_min: total.sequence_min,
            sequence_max: total.sequence_max,
            expiry_min_ms: total.expiry_min_ms,
            logical_bytes: total.logical_bytes,
            file_bytes: 0,
            key_sketch: sample.finish(),
            kind: TableKind::Block,
            filter_keys: FilterKeys::default(),
            created_ms: 0,
            garbage: self.garbage(),
            blobs: Default::default(),
            unknown: UnknownFields::default(),
        }
    }

    fn garbage(&self) -> Garbage {
        let mut garbage = GarbageBuilder::default();
        let mut before: Option<&Owned> = None;
        for owned in self.blocks.iter().flatten() {
            let (key, sequence, kind, value) = owned;
            // Versions out of order hide nothing.
            let is_older = |newer: &Owned| newer.0 == *key && newer.1 > *sequence;
            let position = match before.is_some_and(is_older) {
                true => KeyPosition::Repeated,
                false => KeyPosition::First,
            };
            let (sequence, kind) = (SequenceNumber(*sequence), *kind);
            let entry = SizedEntry { key_bytes: key.len(), sequence, kind, value };
            garbage.add(position, entry).unwrap();
            before = Some(owned);
        }
        garbage.finish()
    }
}

/// What is known of entries, also of those that are not in order.
fn stats_of(entries: &[Owned]) -> BlockStats {
    let mut stats = BlockStats::default();
    for (index, (key, sequence, kind, value)) in entries.iter().enumerate() {
        stats.add(key.len(), SequenceNumber(*sequence), *kind, value).unwrap();
        if index > 0 && entries[index - 1].0 == *key {
            stats.contents.add(Contents::VERSIONS);
        }
    }
    stats
}

fn raw_block(entries: &[Owned]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for owned in entries {
        builder.add(entry(owned));
    }
    let mut raw = Vec::new();
    builder.encode(crate::block::BlockLayout::Entries, &mut raw);
    raw
}

#[test]
fn well_sealed_contradictions_are_found_by_verification() {
    let sound = || Forgery::of(&[&[("a", 5), ("b", 5)], &[("b", 4), ("c", 9)]]);
    sound().verify().unwrap();
    sound().walk().unwrap();
    sound().scan().unwrap();
    let message = |forgery: Forgery| forgery.verify().unwrap_err().message().to_owned();

    let disorder = Forgery::of(&[&[("b", 5), ("a", 5), ("c", 1)]]);
    assert!(message(disorder).contains("out of order"));
    let versions = Forgery::of(&[&[("a", 5), ("b", 4)], &[("b", 5), ("c", 9)]]);
    versions.walk().unwrap();
    assert!(message(versions).contains("out of order"));
    let overlap = Forgery::of(&[&[("a", 5), ("d", 4)], &[("b", 5), ("e", 9)]]);
    assert!(overlap.walk().is_err());
    assert!(message(overlap).contains("out of order"));

    let forgotten = Forgery { forgotten: b"c".to_vec(), ..sound() };
    assert!(message(forgotten).contains("filter"));
    let without_prefixes: fn(&mut Properties) = |properties| {
        let extractor = PrefixExtractor::Separator { separator: b'b', count: 1 };
        properties.meta.filter_keys = FilterKeys::WholeAndPrefixes(extractor);
    };
    // The prefix is the key itself, which the filter has as a whole.
    Forgery { change: without_prefixes, ..sound() }.verify().unwrap();
    let without_prefixes: fn(&mut Properties) = |properties| {
        properties.meta.filter_keys = FilterKeys::WholeAndPrefixes(PrefixExtractor::Fixed(1));
    };
    let longer = Forgery::of(&[&[("ab", 5), ("bc", 5)], &[("cd", 9)]]);
    assert!(message(Forgery { change: without_prefixes, ..longer }).contains("filter"));

    for (shown, stops_a_scan) in [
        ([put("a", 5, "value"), put("bb", 5, "value")], true),
        ([put("A", 5, "value"), put("b", 5, "value")], true),
        ([put("a", 6, "value"), put("b", 5, "value")], false),
        ([put("a", 5, "value"), ("b".into(), 5, EntryKind::Delete, Vec::new())], false),
    ] {
        let mut forgery = Forgery::of(&[&[("a", 5), ("b", 5)], &[("c", 9)]]);
        forgery.shown = vec![(0, shown.to_vec())];
        assert_eq!(forgery.scan().is_err(), stops_a_scan);
        assert!(message(forgery).contains("not what its index says"));
    }

    let changes: [fn(&mut Properties); 14] = [
        |properties| properties.meta.garbage = Garbage::default(),
        |properties| properties.meta.entries += 1,
        |properties| properties.meta.point_tombstones += 1,
        |properties| properties.meta.range_tombstones += 1,
        |properties| properties.meta.merge_operands += 1,
        |properties| properties.meta.sequence_min = SequenceNumber(1),
        |properties| properties.meta.sequence_max = SequenceNumber(10),
        |properties| properties.meta.expiry_min_ms = Some(9),
        |properties| properties.meta.logical_bytes += 1,
        |properties| properties.meta.key_sketch = KeySketch::default(),
        |properties| properties.meta.range.last = Slice::copy_from(b"d"),
        |properties| properties.data_frames += 1,
        |properties| properties.data_frames = 0,
        // Nor is memory taken for as many.
        |properties| properties.data_frames = u64::MAX,
    ];
    for change in changes {
        assert!(Forgery { change, ..sound() }.verify().is_err());
    }
}

#[test]
fn another_version_is_unsupported_and_not_corrupt() {
    for (version, hint) in [(1, "before the first release"), (3, "by a later version")] {
        let (file, ..) = victim(Compression::None);
        let mut bytes = file.0;
        let footer = bytes.len() - FOOTER_BYTES;
        bytes[footer + 24] = version;
        let checksum = siltdb_base::checksum::crc32c(&bytes[footer..footer + 28]);
        bytes[footer + 28..footer + 32].copy_from_slice(&checksum.to_le_bytes());
        let error = open(&bytes, None, &new_cache(0)).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.hint().unwrap().contains(hint));
    }
}
