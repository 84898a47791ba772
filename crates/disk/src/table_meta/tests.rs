//! Key ranges at their ends, and the codec.

use super::*;
use crate::{
    filter_keys::PrefixExtractor,
    garbage::{GarbageBuilder, KeyPosition, SizedEntry},
    key_sketch::SketchBuilder,
};
use siltdb_base::key::EntryKind;

fn range(first: &[u8], last: &[u8], end: RangeEnd) -> KeySpan {
    KeySpan { first: Slice::copy_from(first), last: Slice::copy_from(last), end }
}

#[test]
fn ranges_that_touch_at_an_exclusive_end_do_not_overlap() {
    let left = range(b"a", b"m", RangeEnd::Exclusive);
    let right = range(b"m", b"z", RangeEnd::Inclusive);
    assert!(!left.overlaps(&right) && !right.overlaps(&left));
    assert!(!left.contains(b"m") && right.contains(b"m") && right.contains(b"z"));
    let closed = range(b"a", b"m", RangeEnd::Inclusive);
    assert!(closed.overlaps(&right));
    assert_eq!(left.union(&closed), closed);
    assert_eq!(left.union(&right), range(b"a", b"z", RangeEnd::Inclusive));
}

fn garbage() -> Garbage {
    let mut garbage = GarbageBuilder::default();
    let value = 77_u64.to_le_bytes();
    for (position, sequence) in [(KeyPosition::First, 9), (KeyPosition::Repeated, 4)] {
        let (sequence, kind) = (SequenceNumber(sequence), EntryKind::PutExpiring);
        let entry = SizedEntry { key_bytes: 1, sequence, kind, value: &value };
        garbage.add(position, entry).unwrap();
    }
    garbage.finish()
}

fn meta() -> TableMeta {
    let mut sample = SketchBuilder::default();
    [9, 1 << 60].into_iter().for_each(|hash| sample.add(hash, || 5));
    TableMeta {
        uid: TableUid(9),
        range: range(b"", b"k", RangeEnd::Inclusive),
        entries: 1,
        point_tombstones: 2,
        range_tombstones: 3,
        merge_operands: 4,
        sequence_min: SequenceNumber(5),
        sequence_max: SequenceNumber(600),
        expiry_min_ms: Some(0),
        logical_bytes: 7,
        file_bytes: 1 << 40,
        key_sketch: sample.finish(),
        kind: TableKind::Block,
        filter_keys: FilterKeys::Prefixes(PrefixExtractor::Fixed(300)),
        created_ms: 8,
        garbage: garbage(),
        blobs: Default::default(),
        unknown: UnknownFields::default(),
    }
}

#[test]
fn numbers_that_no_table_reaches_are_refused() {
    let changes: [fn(&mut TableMeta, u64); 6] = [
        |meta, count| meta.entries = count,
        |meta, count| meta.point_tombstones = count,
        |meta, count| meta.range_tombstones = count,
        |meta, count| meta.merge_operands = count,
        |meta, count| meta.logical_bytes = count,
        |meta, count| meta.file_bytes = count,
    ];
    for change in changes {
        for count in [TABLE_END_MAX, TABLE_END_MAX + 1, u64::MAX] {
            let (mut meta, mut bytes) = (meta(), Vec::new());
            change(&mut meta, count);
            meta.encode(&mut bytes);
            let read = TableMeta::decode(&bytes);
            assert_eq!(read.is_ok(), count <= TABLE_END_MAX, "{count}");
        }
    }
}

fn encoded(meta: &TableMeta) -> Vec<u8> {
    let mut bytes = Vec::new();
    meta.encode(&mut bytes);
    bytes
}

#[test]
fn a_summary_round_trips_and_a_cut_is_refused_or_leaves_a_shorter_one() {
    let meta = meta();
    let bytes = encoded(&meta);
    assert_eq!(TableMeta::decode(&bytes).unwrap(), meta);
    let read: Vec<_> = (0..bytes.len())
        .filter_map(|end| TableMeta::decode(&bytes[..end]).ok().map(|read| (end, read)))
        .collect();
    // What follows the index kind may be absent, each field by itself.
    assert_eq!(read.len(), 6);
    for (end, read) in read {
        assert_eq!(encoded(&read), bytes[..end].to_vec());
        assert!(read != meta && read.kind == TableKind::Block);
    }
}

#[test]
fn what_a_later_version_says_of_a_table_is_kept_or_refused_by_name() {
    let mut later = encoded(&meta());
    later.extend_from_slice(&[70, 1, 9]);
    let read = TableMeta::decode(&later).unwrap();
    assert_eq!(read.unknown.tags().collect::<Vec<_>>(), [70]);
    assert_eq!(encoded(&read), later);
    // It is part of what the summary in the manifest and that in the table agree on.
    assert_ne!(read, meta());
    let mut critical = Vec::new();
    let mut fields = FieldsWriter::new(&mut critical, &read.unknown);
    fields.put_number(15, 5);
    fields.finish();
    let error = TableMeta::decode(&critical).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("summary of a table: compression dictionary"), "{error}");
}

#[test]
fn an_unknown_index_kind_is_unsupported() {
    let mut bytes = encoded(&meta());
    let at = bytes.windows(3).position(|field| field == [12, 1, 1]).unwrap();
    bytes[at + 2] = 3;
    assert_eq!(TableMeta::decode(&bytes).unwrap_err().kind(), ErrorKind::Unsupported);
}
