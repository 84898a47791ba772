//! Manifests as they are reported: every change, appended edits, damage and absence.

use super::inspect_manifest;
use crate::inspect::line::{Detail, Line};
use siltdb_base::{
    error::{ErrorKind, Result},
    fs::{Fs, mem::MemFs},
    id::{DatabaseId, FamilyId, FileNumber, SegmentId, SequenceNumber, TableUid},
    slice::Slice,
};
use siltdb_disk::{
    edit::{
        Change, Edit, FORMAT_VERSION, TableReference,
        identity::BackupMark,
        tier::{ColdPlace, Tier},
    },
    fields::UnknownFields,
    filter_keys::FilterKeys,
    garbage::Garbage,
    key_sketch::KeySketch,
    log::record::LogPosition,
    options::TableKind,
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use siltdb_engine::{catalog::log_state::LogState, catalog::manifest::Manifest};
use std::path::Path;

const DIR: &str = "db";

fn range(first: &[u8], last: &[u8], end: RangeEnd) -> KeySpan {
    KeySpan { first: Slice::copy_from(first), last: Slice::copy_from(last), end }
}

fn reference() -> TableReference {
    TableReference {
        file: FileNumber(12),
        offset: 4096,
        length: 900,
        meta: TableMeta {
            uid: TableUid(0xab),
            range: range(b"a", b"m", RangeEnd::Exclusive),
            entries: 5,
            point_tombstones: 1,
            range_tombstones: 2,
            merge_operands: 3,
            sequence_min: SequenceNumber(7),
            sequence_max: SequenceNumber(9),
            expiry_min_ms: Some(1234),
            logical_bytes: 555,
            file_bytes: 900,
            key_sketch: KeySketch::default(),
            kind: TableKind::Block,
            filter_keys: FilterKeys::default(),
            created_ms: 77,
            garbage: Garbage::default(),
            blobs: Default::default(),
            unknown: UnknownFields::default(),
        },
        visible_to: Some(SequenceNumber(8)),
        key_slice: Some(range(b"b", b"c", RangeEnd::Inclusive)),
        slice_bytes: Some(450),
        global_sequence: Some(SequenceNumber(6)),
        tier: Tier::Cold,
        unknown: UnknownFields::default(),
    }
}

/// One of each kind of change.
fn changes() -> Vec<Change> {
    let (id, segment) = (FamilyId(3), SegmentId(5));
    vec![
        Change::Format { version: FORMAT_VERSION, features: 0 },
        Change::CreateFamily { id, name: "users".into(), options: vec![1, 65] },
        Change::DropFamily { id },
        Change::RenameFamily { id, name: "people".into() },
        Change::FamilyOptions { id, options: vec![] },
        Change::AddTable { family: id, level: 2, table: reference().into() },
        Change::RemoveTable { family: id, level: 0, file: FileNumber(11), offset: 64 },
        Change::LogStart { segment },
        Change::LogCut { position: LogPosition { segment, offset: 64 }, next: segment, bytes: 9 },
        Change::NextFile(FileNumber(13)),
        Change::NextFamily(FamilyId(4)),
        Change::LastSequence(SequenceNumber(99)),
        Change::Identity(DatabaseId(0xab)),
        Change::BackedUp(BackupMark { directory: 0xd1, mark: 0x3a, after: 2 }),
        Change::ColdDirectory(ColdPlace { id: 0xcd, path: "../cold".into(), owner: 5 }),
        Change::Unknown { tag: 70, value: vec![b'v'] },
    ]
}

fn encoded(changes: Vec<Change>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Edit { changes }.encode(&mut bytes);
    bytes
}

/// A manifest of a snapshot and one edit.
fn filled() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let directory = fs.open_dir(Path::new(DIR)).unwrap();
    let mut manifest = Manifest::new(directory, None, None, LogState::default());
    manifest.begin(FileNumber(2), &encoded(changes()), 7).unwrap();
    manifest.append(&encoded(vec![Change::NextFile(FileNumber(20))])).unwrap();
    fs
}

fn report(fs: &MemFs, path: &str, detail: Detail) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    inspect_manifest(fs, Path::new(path), detail, &mut |line: Line| {
        lines.push(line.to_string());
        Ok(())
    })?;
    Ok(lines)
}

#[test]
fn every_change_is_spelled_out() {
    let lines = report(&filled(), DIR, Detail::Operations).unwrap();
    let found: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("item=change  kind=")).collect();
    let expected = [
        "format  version=2  features=0x0",
        r#"create-family  family=3  name="users"  options="\x01A""#,
        "drop-family  family=3",
        r#"rename-family  family=3  name="people""#,
        r#"family-options  family=3  options="""#,
        "add-table  family=3  level=2  file=000012.table  offset=4096  length=900  visible_to=8  \
         slice_first=\"b\"  slice_last=\"c\"  slice_bytes=450  global_sequence=6  tier=cold  \
         uid=00000000000000ab  \
         first_key=\"a\"  last_key=\"m\"  range_end=exclusive  entries=5  point_tombstones=1  \
         range_tombstones=2  merge_operands=3  sequence_min=7  sequence_max=9  \
         logical_bytes=555  table_bytes=900  index=blocks  sampled_keys=0  created_ms=77  \
         expiry_min_ms=1234",
        "remove-table  family=3  level=0  file=000011.table  offset=64",
        "log-start  segment=5",
        "log-cut  at=5:64  next_segment=5  bytes=9",
        "next-file  number=13",
        "next-family  family=4",
        "last-sequence  sequence=99",
        "identity  id=000000000000000000000000000000ab",
        "backed-up  directory=00000000000000d1  mark=000000000000003a  after=0000000000000002",
        r#"cold-directory  id=00000000000000cd  path="../cold"  owner=0000000000000005"#,
        r#"unknown  tag=70  value="v""#,
        "next-file  number=20",
    ];
    assert_eq!(found, expected);
}

#[test]
fn current_edits_and_the_end_frame_the_changes() {
    let fs = filled();
    let lines = report(&fs, DIR, Detail::Records).unwrap();
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert_eq!(lines[0], "item=current  file=CURRENT  manifest=000002.manifest");
    assert!(lines[1].starts_with("item=manifest  file=000002.manifest  file_bytes="));
    assert!(lines[2].starts_with("item=edit  edit=0  offset=64  "), "{}", lines[2]);
    assert!(lines[2].ends_with("changes=16") && lines[3].ends_with("changes=1"));
    assert!(lines[4].ends_with("  edits=2"), "{}", lines[4]);
    // The file alone says the same, CURRENT apart.
    assert_eq!(report(&fs, "db/000002.manifest", Detail::Records).unwrap(), lines[1..]);
    let meta = report(&fs, DIR, Detail::Summary).unwrap();
    assert_eq!(meta, [&lines[0], &lines[1], &lines[4]].map(String::clone));
}

#[test]
fn damage_ends_the_report_at_the_edit_it_hit() {
    let fs = filled();
    fs.bytes_flip(Path::new("db/000002.manifest"), 64 + 24, 1).unwrap();
    let lines = report(&fs, DIR, Detail::Operations).unwrap();
    let stop = lines.last().unwrap();
    assert!(stop.ends_with("offset=64  reason=a record with a bad checksum  edits=0"), "{stop}");
}

#[test]
fn what_is_no_manifest_is_an_error_that_names_the_file() {
    let fs = filled();
    fs.bytes_flip(Path::new("db/000002.manifest"), 0, 1).unwrap();
    let error = report(&fs, DIR, Detail::Summary).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(0)));
    assert!(error.file().unwrap().ends_with("000002.manifest"), "{error}");
    fs.remove(Path::new("db/CURRENT")).unwrap();
    let error = report(&fs, DIR, Detail::Summary).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.file().unwrap().ends_with("CURRENT"), "{error}");
}
