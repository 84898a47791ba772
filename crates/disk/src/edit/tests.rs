//! Edits there and back, alone and in a manifest; cut off, changed, and made of anything.

use super::{synced::SyncedLog, *};
use crate::{
    batch::BatchBytes,
    branch_record::{BranchFamily, BranchRecord},
    edit::tier::Tier,
    fields::UnknownFields,
    filter_keys::{FilterKeys, PrefixExtractor},
    garbage::Garbage,
    key_sketch::{KeySketch, SketchBuilder},
    log::record::{SEGMENT_BYTES_MAX, SEGMENT_ID_MAX},
    options::TableKind,
    prepared::{HeldKeys, HeldLock, HeldMode},
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use proptest::prelude::*;
use siltdb_base::{
    id::{BlobUid, BranchId, TableUid},
    limits::{FAMILY_NAME_BYTES_MAX, LEVELS, PREPARED_ID_BYTES_MAX, TABLE_END_MAX},
    slice::Slice,
};

fn sample(hashes: &[u64]) -> KeySketch {
    let mut sample = SketchBuilder::default();
    hashes.iter().for_each(|&hash| sample.add(hash, || hash % 300));
    sample.finish()
}

fn table(file: u64) -> TableReference {
    let range = KeySpan {
        first: Slice::copy_from(b"a"),
        last: Slice::copy_from(b"m"),
        end: RangeEnd::Exclusive,
    };
    TableReference {
        file: FileNumber(file),
        offset: 1 << 20,
        length: 4096,
        meta: TableMeta {
            uid: TableUid(u64::MAX),
            range: range.clone(),
            entries: 1,
            point_tombstones: 2,
            range_tombstones: 3,
            merge_operands: 4,
            sequence_min: SequenceNumber(5),
            sequence_max: SequenceNumber::MAX,
            expiry_min_ms: Some(7),
            logical_bytes: 8,
            file_bytes: 4096,
            key_sketch: sample(&[17, 18, u64::MAX]),
            kind: TableKind::Block,
            filter_keys: FilterKeys::WholeAndPrefixes(PrefixExtractor::Separator {
                separator: 0,
                count: 2,
            }),
            created_ms: 9,
            garbage: Garbage::default(),
            blobs: Default::default(),
            unknown: UnknownFields::default(),
        },
        visible_to: Some(SequenceNumber::ZERO),
        key_slice: Some(range),
        slice_bytes: Some(4095),
        global_sequence: Some(SequenceNumber::MAX),
        tier: Tier::Cold,
        unknown: UnknownFields::default(),
    }
}

fn prepared_batch() -> Arc<PreparedBatch> {
    let mut batch = BatchBytes::new();
    batch.put(FamilyId(3), b"key", b"value").unwrap();
    let (family, keys) = (FamilyId(4), HeldKeys::Range(b"a".to_vec(), None));
    let locks = vec![HeldLock { family, keys, mode: HeldMode::Exclusive }];
    let id = vec![b'i'; PREPARED_ID_BYTES_MAX];
    Arc::new(PreparedBatch { id, since_ms: u64::MAX, locks, batch })
}

fn branch() -> BranchRecord {
    let (head, base) = (FamilyId(u32::MAX / 2 - 1), FamilyId(3));
    BranchRecord {
        id: BranchId(u32::MAX / 2 - 1),
        name: "n".repeat(FAMILY_NAME_BYTES_MAX),
        parent: BranchId(u32::MAX / 2 - 2),
        begun: SequenceNumber::MAX,
        begun_ms: u64::MAX,
        families: vec![BranchFamily { head, base, next_base: Some(FamilyId(4)) }],
    }
}

fn every_change() -> Edit {
    let unknown = UnknownFields::default();
    let plain =
        TableReference { unknown, ..TableReference::whole(FileNumber(3), 1 << 20, table(3).meta) };
    let id = FamilyId(u32::MAX);
    let name = "n".repeat(FAMILY_NAME_BYTES_MAX);
    Edit {
        changes: vec![
            Change::Format { version: FORMAT_VERSION, features: FEATURES_KNOWN },
            Change::CreateFamily {
                id: FamilyId(u32::MAX / 2 - 1),
                name: "ünïcode".to_owned(),
                options: vec![0; 300],
            },
            Change::DropFamily { id: FamilyId(0) },
            Change::RenameFamily { id, name },
            Change::FamilyOptions { id, options: Vec::new() },
            Change::AddTable { family: id, level: 0, table: Arc::new(plain) },
            Change::AddTable {
                family: id,
                level: LEVELS as u8 - 1,
                table: Arc::new(table(u64::MAX)),
            },
            Change::RemoveTable { family: id, level: 6, file: FileNumber(9), offset: u64::MAX },
            Change::LogStart { segment: SegmentId(SEGMENT_ID_MAX.0 + 1) },
            Change::LogCut {
                position: LogPosition { segment: SEGMENT_ID_MAX, offset: SEGMENT_BYTES_MAX },
                next: SegmentId(SEGMENT_ID_MAX.0 + 1),
                bytes: 77,
            },
            Change::BlobFile { file: FileNumber(u64::MAX), uid: BlobUid(u64::MAX) },
            Change::BlobFileRemoved { file: FileNumber(u64::MAX) },
            Change::NextFile(NEXT_FILE_MAX),
            Change::NextFamily(FamilyId(13)),
            Change::LastSequence(SequenceNumber::MAX),
            Change::LogSynced(SyncedLog {
                position: LogPosition { segment: SegmentId(14), offset: 64 },
                slot: 3,
                file_bytes: u64::MAX,
            }),
            Change::LatestTime(StoredTime { latest_ms: u64::MAX, jump_ms: 7 }),
            Change::FamiliesLogged { position: LogPosition { segment: SegmentId(15), offset: 65 } },
            Change::RetentionFloor(Some(SequenceNumber::MAX)),
            Change::RetentionFloor(None),
            Change::Branch(BranchChange::Recorded(Arc::new(branch()))),
            Change::Branch(BranchChange::CheckedOut(BranchId(u32::MAX))),
            Change::Branch(BranchChange::Dropped(BranchId(3))),
            Change::ColdDirectory(ColdPlace {
                id: u64::MAX,
                path: "p".repeat(tier::COLD_PATH_BYTES_MAX),
                owner: u64::MAX,
            }),
            Change::ColdDirectoryLeft,
            Change::Identity(DatabaseId(u128::MAX - 1)),
            Change::BackedUp(BackupMark { directory: u64::MAX, mark: u64::MAX - 1, after: 3 }),
            Change::Prepared { number: SequenceNumber::MAX, transaction: prepared_batch() },
            Change::PreparedDecided { number: SequenceNumber(17) },
        ],
    }
}

fn encoded(edit: &Edit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes);
    bytes
}

#[test]
fn every_change_round_trips() {
    let edit = every_change();
    assert_eq!(Edit::decode(&encoded(&edit)).unwrap(), edit);
    assert_eq!(Edit::decode_snapshot(&encoded(&edit)).unwrap(), edit);
    assert_eq!(Edit::decode(b"").unwrap(), Edit::default());
}

#[test]
fn a_truncation_is_refused_or_is_a_prefix_of_the_changes() {
    let edit = every_change();
    let bytes = encoded(&edit);
    let mut whole = 0;
    for end in 0..bytes.len() {
        match Edit::decode(&bytes[..end]) {
            Ok(prefix) => {
                assert_eq!(prefix.changes[..], edit.changes[..whole]);
                whole += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
        }
    }
    assert_eq!(whole, edit.changes.len());
}

/// The encoding of a change whose value is followed by `more`.
fn longer(change: &Change, more: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    change.encode_value(&mut value);
    value.extend_from_slice(more);
    encoded(&Edit { changes: vec![Change::Unknown { tag: change.tag(), value }] })
}

#[test]
fn what_a_newer_build_wrote_is_refused_by_name() {
    for tag in (24..OPTIONAL).chain([128, 1 << 40]) {
        let change = Change::Unknown { tag, value: vec![0, 0] };
        let error = Edit::decode(&encoded(&Edit { changes: vec![change] })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("found={tag}")), "{error}");
    }
    let newer = FORMAT_VERSION + 1;
    let version = Change::Format { version: newer, features: 0 };
    let features = Change::Format { version: FORMAT_VERSION, features: 1 << 63 };
    let found = format!("found={newer}");
    for (change, found) in [(version, &*found), (features, "found=0x8000000000000000")] {
        let error = Edit::decode(&encoded(&Edit { changes: vec![change] })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(found), "{error}");
        assert!(error.to_string().contains("later version"), "{error}");
    }
}

#[test]
fn a_database_of_before_the_first_release_is_unsupported_and_not_corrupt() {
    // There changes had no lengths: version 1, no features, the next file is 2.
    let error = Edit::decode_snapshot(&[1, 1, 0, 10, 2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("before the first release"), "{error}");
}

#[test]
fn changes_of_later_versions_are_passed_over_if_they_are_optional() {
    let changes = vec![
        Change::NextFile(FileNumber(1)),
        Change::Unknown { tag: OPTIONAL, value: vec![1, 2, 3] },
        Change::Unknown { tag: 255, value: Vec::new() },
        Change::NextFile(FileNumber(2)),
    ];
    let edit = Edit { changes };
    assert_eq!(Edit::decode(&encoded(&edit)).unwrap(), edit);
}

#[test]
fn what_later_versions_add_to_a_change_obeys_the_rule_of_fields() {
    // Both above all tags in use; the second one takes two bytes.
    const LATER: u8 = 127;
    const LATER_CRITICAL: [u8; 2] = [0x80, 1];
    for change in every_change().changes {
        // A table reference keeps what it does not know.
        let is_kept = matches!(change, Change::AddTable { .. });
        let decode = |more: &[u8]| Edit::decode(&longer(&change, more));
        let read = decode(&[LATER, 1, 7]).unwrap().changes;
        assert_eq!(read != [change.clone()], is_kept);
        if is_kept {
            assert_eq!(encoded(&Edit { changes: read }), longer(&change, &[LATER, 1, 7]));
        }
        let critical = [&LATER_CRITICAL[..], &[0]].concat();
        assert_eq!(decode(&critical).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(decode(&[LATER]).unwrap_err().kind(), ErrorKind::Corruption);
    }
    let encrypted = longer(&every_change().changes[5], &[6, 1, 1]);
    let error = Edit::decode(&encrypted).unwrap_err();
    assert!(error.to_string().contains("reference to a table: encryption of a file"), "{error}");
    for tier in [0, 2] {
        let error = Edit::decode(&longer(&every_change().changes[5], &[5, 1, tier])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_manifest_must_begin_with_its_format() {
    for changes in [vec![], vec![Change::NextFile(FileNumber(1))]] {
        let error = Edit::decode_snapshot(&encoded(&Edit { changes })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn fields_out_of_range_are_refused() {
    let name = "n".repeat(FAMILY_NAME_BYTES_MAX + 1);
    let level = LEVELS as u8;
    let (family, file) = (FamilyId(1), FileNumber(2));
    let segment_too_large = LogPosition { segment: SegmentId(SEGMENT_ID_MAX.0 + 1), offset: 64 };
    let offset_too_large = LogPosition { segment: SegmentId(1), offset: SEGMENT_BYTES_MAX + 8 };
    let last = TableReference { offset: TABLE_END_MAX - 4096, ..table(1) };
    let change = Change::AddTable { family, level: 0, table: Arc::new(last) };
    assert!(Edit::decode(&encoded(&Edit { changes: vec![change] })).is_ok());
    let beyond = TableReference { offset: TABLE_END_MAX - 4095, ..table(1) };
    let wrapped = TableReference { offset: u64::MAX - 4095, ..table(1) };
    let huge = TableReference { offset: 0, length: 1 << 63, ..table(1) };
    for change in [
        Change::RenameFamily { id: family, name },
        Change::RemoveTable { family, level, file, offset: 0 },
        Change::AddTable { family, level, table: Arc::new(table(1)) },
        Change::AddTable { family, level: 0, table: beyond.into() },
        Change::AddTable { family, level: 0, table: wrapped.into() },
        Change::AddTable { family, level: 0, table: huge.into() },
        Change::LastSequence(SequenceNumber::MAX.next()),
        Change::PreparedDecided { number: SequenceNumber::MAX.next() },
        Change::LogStart { segment: SegmentId(SEGMENT_ID_MAX.0 + 2) },
        Change::LogStart { segment: SegmentId(u64::MAX) },
        Change::LogCut { position: segment_too_large, next: SegmentId(1), bytes: 0 },
        Change::LogCut { position: offset_too_large, next: SegmentId(1), bytes: 0 },
        Change::LogCut { position: LogPosition::ZERO, next: SegmentId(u64::MAX), bytes: 0 },
        Change::LogSynced(SyncedLog { position: segment_too_large, ..SyncedLog::default() }),
        Change::LogSynced(SyncedLog { position: offset_too_large, ..SyncedLog::default() }),
        Change::NextFile(FileNumber(NEXT_FILE_MAX.0 + 1)),
        Change::NextFile(FileNumber(u64::MAX)),
        Change::CreateFamily { id: FamilyId(u32::MAX / 2), name: "a".into(), options: Vec::new() },
        Change::CreateFamily { id: FamilyId(u32::MAX), name: "a".into(), options: Vec::new() },
        Change::NextFamily(FamilyId(u32::MAX / 2 + 1)),
        Change::NextFamily(FamilyId(u32::MAX)),
    ] {
        let error = Edit::decode(&encoded(&Edit { changes: vec![change] })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    for state in [0, 3] {
        assert_eq!(Edit::decode(&[17, 2, 1, state]).unwrap_err().kind(), ErrorKind::Corruption);
    }
    let not_utf8 = [4, 4, 1, 2, 0xff, 0xfe];
    assert_eq!(Edit::decode(&not_utf8).unwrap_err().kind(), ErrorKind::Corruption);
    let too_long_a_length = [5, 12, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(Edit::decode(&too_long_a_length).unwrap_err().kind(), ErrorKind::Corruption);
}

proptest! {
    #[test]
    fn no_bytes_panic_and_what_is_read_is_written_the_same(
        bytes in proptest::collection::vec(prop_oneof![0..14_u8, any::<u8>()], 0..200),
    ) {
        if let Ok(edit) = Edit::decode(&bytes) {
            prop_assert!(edit.changes.len() <= bytes.len());
            prop_assert_eq!(Edit::decode(&encoded(&edit)).unwrap(), edit);
        }
    }

    #[test]
    fn no_changed_byte_panics(index in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = encoded(&every_change());
        let index = index.index(bytes.len());
        bytes[index] = byte;
        if let Ok(edit) = Edit::decode(&bytes) {
            prop_assert_eq!(Edit::decode(&encoded(&edit)).unwrap(), edit);
        }
    }
}

#[test]
fn equal_references_to_a_table_are_decoded_once() {
    let add = |family: u32, table: TableReference| Change::AddTable {
        family: FamilyId(family),
        level: 6,
        table: Arc::new(table),
    };
    let limited = |to: u64| TableReference { visible_to: Some(SequenceNumber(to)), ..table(1) };
    let tables = [table(1), limited(7), limited(7), table(2), limited(8), table(1)];
    let edit =
        Edit { changes: tables.into_iter().zip(1..).map(|(table, id)| add(id, table)).collect() };
    let decoded = Edit::decode(&encoded(&edit)).unwrap();
    assert_eq!(decoded, edit);
    let found: Vec<_> = decoded
        .changes
        .iter()
        .map(|change| match change {
            Change::AddTable { table, .. } => table,
            other => panic!("{other:?}"),
        })
        .collect();
    // Each is compared with the last of its table.
    let is_shared: Vec<bool> = found.windows(2).map(|pair| Arc::ptr_eq(pair[0], pair[1])).collect();
    assert_eq!(is_shared, [false, true, false, false, false]);
}
