//! Tables damaged in every place: what is shown is what was written, and what is not is named.

use super::*;
use crate::table::{
    FOOTER_BYTES, LostEntries, LostList, PartlyReplaced, Properties, ReplacedTable, SalvageCursor,
    TableOrigin, TablePlace, TableSalvage, find_tables, scan::salvage::DataFrames,
};
use siltdb_base::{
    error::ErrorKind,
    id::{FamilyId, FileNumber, SegmentId},
    limits::FAMILY_NAME_BYTES_MAX,
    sync::lock,
};

const PATH: &str = "t.table";

pub(super) fn read_salvage(
    bytes: &[u8],
    expected: Option<&TableMeta>,
) -> Result<(Vec<Owned>, Vec<LostEntries>)> {
    let (file, lost) = (Arc::new(Bytes(bytes.to_vec())), LostList::default());
    let length = expected.map_or(bytes.len() as u64, |expected| expected.file_bytes);
    let place = TablePlace { offset: 0, length };
    let table = Arc::new(TableSalvage::open(file, Path::new(PATH), place, expected, &lost)?);
    let mut cursor = SalvageCursor::new(table, Arc::clone(&lost));
    let mut found = Vec::new();
    cursor.seek_to_first();
    while let Some(entry) = cursor.entry() {
        found.push((entry.key.to_vec(), entry.sequence.0, entry.kind, entry.value.to_vec()));
        cursor.next();
    }
    drop(cursor);
    let lost = std::mem::take(&mut *lock(&lost));
    Ok((found, lost))
}

/// Whether an entry of `key` is among those said to be lost.
fn is_lost(key: &[u8], lost: &[LostEntries]) -> bool {
    lost.iter().any(|lost| {
        lost.first.as_ref().is_none_or(|first| first.as_bytes() <= key)
            && lost.last.as_ref().is_none_or(|last| key <= last.as_bytes())
    })
}

fn check(found: &[Owned], lost: &[LostEntries], entries: &[Owned], what: &str) {
    for entry in found {
        assert!(entries.contains(entry), "{what}: {entry:?} was never written");
    }
    for entry in entries.iter().filter(|entry| !found.contains(entry)) {
        assert!(is_lost(&entry.0, lost), "{what}: {entry:?} is missing and not said to be lost");
    }
    let missing = (entries.len() - found.len()) as u64;
    let bound: Option<u64> = lost.iter().map(|lost| lost.entries_max).sum();
    assert!(bound.is_none_or(|bound| missing <= bound), "{what}: {missing} of {bound:?} lost");
    for lost in lost {
        assert!(lost.error.file() == Some(PATH) && lost.error.offset().is_some(), "{what}");
    }
}

#[test]
pub(super) fn a_table_damaged_anywhere_gives_what_verifies() {
    for compression in [Compression::Lz4, Compression::None, Compression::Snappy] {
        let entries = many(60);
        let tombstones = [tombstone("key-1", "key-3", 40)];
        let mut file = Bytes::default();
        let meta = write(&mut file, &options(compression), 99, &entries, &tombstones);
        let (found, lost) = read_salvage(&file.0, None).unwrap();
        assert!(found == entries && lost.is_empty());
        let mut fewest = usize::MAX;
        for index in 0..file.0.len() {
            let mut bytes = file.0.clone();
            bytes[index] ^= 0x81;
            for expected in [None, Some(&meta)] {
                // One byte is never so much that nothing is left.
                let (found, lost) = read_salvage(&bytes, expected).unwrap();
                check(&found, &lost, &entries, &format!("byte {index} flipped"));
                fewest = fewest.min(found.len());
            }
        }
        assert!(0 < fewest && fewest < entries.len(), "{fewest}");
    }
}

#[test]
pub(super) fn a_table_cut_short_gives_the_blocks_in_front_to_those_who_know_its_name() {
    let entries = many(60);
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::Lz4), 99, &entries, &[]);
    let mut counts = Vec::new();
    for length in 0..file.0.len() {
        let bytes = &file.0[..length];
        assert!(read_salvage(bytes, None).is_err(), "cut to {length}");
        let (found, lost) = read_salvage(bytes, Some(&meta)).unwrap();
        check(&found, &lost, &entries, &format!("cut to {length}"));
        counts.push(found.len());
    }
    assert!(counts.is_sorted() && counts.ends_with(&[entries.len()]), "{counts:?}");
}

#[test]
pub(super) fn tables_are_found_behind_a_damaged_footer() {
    let mut file = Bytes::default();
    let mut ends = Vec::new();
    for uid in 1..4 {
        write(&mut file, &options(Compression::Lz4), uid, &many(20), &[]);
        ends.push(file.0.len() as u64);
    }
    let all = find_tables(&file);
    let found: Vec<_> = all.iter().map(|place| place.offset + place.length).collect();
    assert_eq!(found, ends);
    let bytes = &mut file.0;
    bytes[ends[1] as usize - 1] ^= 1;
    assert_eq!(find_tables(&file), all);
    // The properties tell what the footer does not.
    let place = all[1];
    let lost = LostList::default();
    let file: Arc<dyn File> = Arc::new(file);
    let table = TableSalvage::open(file, Path::new(PATH), place, None, &lost).unwrap();
    assert_eq!(table.properties().unwrap().meta.uid, TableUid(2));
    assert_eq!(table.properties().unwrap().meta.sequence_max, SequenceNumber(1019));
}

#[test]
pub(super) fn blocks_out_of_order_are_not_shown() {
    let entries = many(60);
    let mut file = Bytes::default();
    write(&mut file, &options(Compression::None), 99, &entries, &[]);
    let lost = LostList::default();
    let place = TablePlace { offset: 0, length: file.0.len() as u64 };
    let table = TableSalvage::open(Arc::new(file), Path::new(PATH), place, None, &lost).unwrap();
    let mut table = Arc::new(table);
    let inner = Arc::get_mut(&mut table).unwrap();
    let DataFrames::Index(index) = &inner.blocks else { panic!("the index is whole") };
    let mut places: Vec<_> = (0..index.count())
        .map(|block| (index.info(block).offset, index.info(block).bytes))
        .collect();
    places.swap(0, 1);
    inner.blocks = DataFrames::Scanned(places);
    let mut cursor = SalvageCursor::new(table, Arc::clone(&lost));
    cursor.seek_to_first();
    let mut keys = Vec::new();
    while let Some(entry) = cursor.entry() {
        keys.push((entry.key.to_vec(), std::cmp::Reverse(entry.sequence)));
        cursor.next();
    }
    assert!(keys.is_sorted() && !keys.is_empty());
    assert_eq!(lock(&lost).len(), 1);
}

fn origin(name_bytes: usize) -> TableOrigin {
    let replaced = |number| ReplacedTable { file: FileNumber(number), uid: TableUid(number << 40) };
    TableOrigin {
        family: FamilyId(7),
        name: "n".repeat(name_bytes),
        options: vec![1, 2, 3],
        log_start: SegmentId(5 << 32),
        inputs: vec![replaced(300), replaced(301)],
        earlier: vec![replaced(2)],
        inputs_before: Some(Slice::copy_from(b"middle")),
        partly: vec![PartlyReplaced { table: replaced(4), before: Slice::copy_from(b"k") }],
    }
}

/// The properties of a small table that says where it comes from, with the length of their frame.
fn properties_of(origin: TableOrigin) -> Result<Properties> {
    let mut file = Bytes::default();
    let uid = TableUid(99);
    let mut table = TableWriter::new(&mut file, &options(Compression::None), uid);
    let key = b"key";
    table.add(Entry { key, sequence: SequenceNumber(1), kind: EntryKind::Put, value: b"v" })?;
    table.with_origin(origin, Compression::None).finish()?;
    let length = file.0.len() as u64;
    let place = TablePlace { offset: 0, length };
    let table =
        TableSalvage::open(Arc::new(file), Path::new(PATH), place, None, &LostList::default())?;
    table.properties().cloned().ok_or_else(|| Error::corruption("no properties"))
}

#[test]
pub(super) fn a_table_tells_where_it_comes_from() {
    for name_bytes in [0, 1, FAMILY_NAME_BYTES_MAX] {
        let origin = origin(name_bytes);
        assert_eq!(properties_of(origin.clone()).unwrap().origin, Some(origin));
    }
    assert!(properties_of(origin(FAMILY_NAME_BYTES_MAX + 1)).is_err());
}

#[test]
pub(super) fn a_damaged_origin_is_an_error() {
    let properties = properties_of(origin(3)).unwrap();
    let mut raw = Vec::new();
    properties.encode(&mut raw);
    let table_bytes = properties.meta.file_bytes;
    let parts = [properties.data_bytes, properties.filter_bytes, properties.tombstone_bytes];
    let parts: u64 = parts.iter().chain(&properties.index_bytes).sum();
    let properties_bytes = table_bytes - parts - FOOTER_BYTES as u64;
    let decode = |raw: &[u8]| Properties::decode(raw, table_bytes, properties_bytes);
    assert_eq!(decode(&raw).unwrap(), properties);
    let read = (0..raw.len()).filter(|&end| decode(&raw[..end]).is_ok());
    // A cut between two fields of the origin leaves absent ones; all other cuts are seen.
    assert_eq!(read.count(), 8);
    let mut longer = raw.clone();
    longer.push(0);
    assert!(decode(&longer).is_err());
    // A length of a list for which there are no bytes is not believed.
    let behind = [2 + 9, 2 + "middle".len(), 2 + 9 + 2];
    let inputs = raw.len() - behind.iter().sum::<usize>() - 2 * 10;
    assert_eq!(raw[inputs - 2..inputs], [68, 2 * 10]);
    let mut claims = raw.clone();
    claims.splice(inputs - 1..inputs, [0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(decode(&claims).is_err());
    // What later versions say is passed over, unless it is critical.
    let with = |tag: u64| {
        let mut bytes = raw.clone();
        siltdb_base::codec::put_varint(&mut bytes, tag);
        bytes.push(0);
        bytes
    };
    assert_eq!(decode(&with(77)).unwrap().unknown.tags().collect::<Vec<_>>(), [77]);
    let unknown = with(128);
    assert_eq!(decode(&unknown).unwrap_err().kind(), ErrorKind::Unsupported);
}
