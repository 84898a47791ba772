//! Lists there and back, damaged and cut off; names there and back.

use super::*;
use crate::{
    edit::{FEATURES_KNOWN, FORMAT_VERSION},
    filter_keys::FilterKeys,
    garbage::Garbage,
    key_sketch::KeySketch,
    options::TableKind,
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use siltdb_base::{id::FamilyId, slice::Slice};

fn table(file: u64, bytes: u64) -> Change {
    let key = Slice::copy_from(b"key");
    let range = KeySpan { first: key.clone(), last: key, end: RangeEnd::Inclusive };
    let meta = TableMeta {
        uid: TableUid(file * 7),
        range,
        entries: 1,
        point_tombstones: 0,
        range_tombstones: 0,
        merge_operands: 0,
        sequence_min: SequenceNumber(5),
        sequence_max: SequenceNumber(5),
        expiry_min_ms: None,
        logical_bytes: 8,
        file_bytes: bytes,
        key_sketch: KeySketch::default(),
        kind: TableKind::Block,
        filter_keys: FilterKeys::default(),
        created_ms: 9,
        garbage: Garbage::default(),
        blobs: Default::default(),
        unknown: UnknownFields::default(),
    };
    let table = TableReference::whole(FileNumber(file), 0, meta);
    Change::AddTable { family: FamilyId(0), level: 0, table: table.into() }
}

fn object(file: u64, bytes: u64) -> BackupObject {
    let kind = ObjectKind::Tables;
    let name = ObjectName { kind, uid: TableUid(file * 7), checksum: u32::MAX };
    BackupObject { file: FileNumber(file), name, bytes }
}

fn list() -> BackupList {
    let format = Change::Format { version: FORMAT_VERSION, features: FEATURES_KNOWN };
    let blob = Change::BlobFile { file: FileNumber(5), uid: BlobUid(35) };
    let kind = ObjectKind::Blobs;
    let blob_name = ObjectName { kind, ..object(5, 77).name };
    BackupList {
        number: FILE_NUMBER_MAX,
        sequence: SequenceNumber::MAX,
        manifest: FileNumber(12),
        state: Edit { changes: vec![format, table(3, 4096), blob, table(8, 100)] },
        objects: vec![object(3, 4096), object(8, TABLE_END_MAX)],
        blobs: vec![BackupObject { name: blob_name, ..object(5, 77) }],
        may_blobs_grow: true,
        created_ms: u64::MAX,
        source: "/data/ä".to_owned(),
        mark: Some(BackupMark { directory: u64::MAX, mark: 3, after: 2 }),
        unknown: UnknownFields::default(),
    }
}

#[test]
fn a_list_is_read_as_it_was_written() {
    let list = list();
    assert_eq!(BackupList::decode(&list.encode()).unwrap(), list);
    assert_eq!(list.references().count(), 2);
    assert_eq!(list.bytes(), 4096 + 77 + TABLE_END_MAX);
}

#[test]
fn no_flipped_bit_and_no_missing_or_added_byte_is_taken() {
    let bytes = list().encode();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1 << bit;
            let error = BackupList::decode(&damaged).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {index}, bit {bit}: {error}");
        }
        assert!(BackupList::decode(&bytes[..index]).is_err(), "{index} bytes");
    }
    assert!(BackupList::decode(&[&bytes[..], &[0]].concat()).is_err());
}

/// Seals a body as a list of this version is sealed.
fn sealed(version: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    let checksum = crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn a_later_version_and_a_critical_field_are_unsupported() {
    let kind = |bytes: &[u8]| BackupList::decode(bytes).unwrap_err().kind();
    let bytes = list().encode();
    let body = &bytes[LIST_HEAD_BYTES..bytes.len() - SEAL_BYTES];
    assert_eq!(kind(&sealed(BACKUP_LIST_VERSION + 1, body)), ErrorKind::Unsupported);
    assert_eq!(kind(&sealed(BACKUP_LIST_VERSION, &[6, 0])), ErrorKind::Unsupported);
    assert_eq!(kind(&sealed(BACKUP_LIST_VERSION, &[])), ErrorKind::Corruption);
    // An optional one is kept.
    let later = [body, &[67, 1, 9]].concat();
    let read = BackupList::decode(&sealed(BACKUP_LIST_VERSION, &later)).unwrap();
    assert_eq!(read.unknown.tags().collect::<Vec<_>>(), [67]);
    assert_eq!(read.encode(), sealed(BACKUP_LIST_VERSION, &later));
}

#[test]
fn files_and_tables_must_fit_each_other() {
    let kind = |list: &BackupList| BackupList::decode(&list.encode()).unwrap_err().kind();
    let mut lists = vec![list(); 8];
    lists[0].objects.pop();
    lists[1].state.changes.pop();
    lists[2].objects[0].bytes = 4095;
    lists[3].objects.swap(0, 1);
    lists[4].objects[1].bytes = TABLE_END_MAX + 1;
    lists[5].blobs.clear();
    lists[6].blobs[0].name.uid = TableUid(36);
    lists[7].state.changes.remove(2);
    for list in &lists {
        assert_eq!(kind(list), ErrorKind::Corruption, "{list:?}");
    }
}

#[test]
fn names_are_read_as_they_are_printed() {
    let uid = TableUid(0xab);
    for (name, text) in [
        (BackupFileName::List(12), "000012.backup"),
        (BackupFileName::PartialList(1_234_567), "1234567.backup.partial"),
        (
            BackupFileName::Object(ObjectName { kind: ObjectKind::Tables, uid, checksum: 0xf }),
            "00000000000000ab-0000000f.table",
        ),
        (
            BackupFileName::Object(ObjectName { kind: ObjectKind::Blobs, uid, checksum: 0xf }),
            "00000000000000ab-0000000f.blob",
        ),
        (BackupFileName::PartialObject(uid), "00000000000000ab.partial"),
        (BackupFileName::Lock, "LOCK"),
    ] {
        assert_eq!(name.to_string(), text);
        assert_eq!(BackupFileName::parse(text), Some(name));
    }
    for text in [
        "12.backup",
        "000012.table",
        "CURRENT",
        "00000000000000AB-0000000f.table",
        "00000000000000ab-+000000f.table",
        "0000000000000ab-0000000f.table",
        "000012.backup.partial.partial",
        ".partial",
        "",
    ] {
        assert_eq!(BackupFileName::parse(text), None, "{text}");
    }
}
