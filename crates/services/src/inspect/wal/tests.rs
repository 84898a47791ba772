//! The log as it is reported: whole, recycled, damaged, cut, and beside a manifest.

use super::inspect_wal;
use crate::inspect::line::{Detail, Line};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LogFile, LogFileOptions, LogIo, mem::MemFs},
    id::{FamilyId, FileNumber, SegmentId, SequenceNumber},
};
use siltdb_disk::{
    batch::BatchBytes,
    edit::{Change, Edit, FORMAT_VERSION},
    family_batch::encode_changes,
    log::{
        fill::{fill_record, fill_segment_header},
        record::{LogPosition, RecordHeader, RecordKind, Synced, record_bytes},
        segment::SegmentHeader,
    },
    prepared::{Decision, PreparedBatch, encode_decision},
};
use siltdb_engine::{catalog::log_state::LogState, catalog::manifest::Manifest};
use std::{path::Path, sync::Arc};

const DIR: &str = "db";
const FIRST: SegmentId = SegmentId(1 << 32);
const SECOND: SegmentId = SegmentId(2 << 32);

/// Writes segments as commits do.
struct Writer {
    file: Arc<dyn LogFile>,
    end: LogPosition,
    next: SequenceNumber,
    synced: LogPosition,
}

impl Writer {
    fn begin(fs: &MemFs, name: &str, id: SegmentId, before: Option<&Self>) -> Self {
        fs.create_dir_all(Path::new(DIR)).unwrap();
        let options = LogFileOptions { capacity: 1 << 16, io: LogIo::Write };
        let file = fs.open_log(&Path::new(DIR).join(name), options).unwrap();
        file.prepare(1 << 16).unwrap();
        let header = SegmentHeader {
            id,
            first_sequence: before.map_or(SequenceNumber(1), |before| before.next),
            previous: before.map_or(LogPosition::ZERO, |before| before.end),
            synced: LogPosition::ZERO,
        };
        fill_segment_header(&*file, &header).unwrap();
        let synced = LogPosition::ZERO;
        Self { file, end: header.first_record(), next: header.first_sequence, synced }
    }

    fn append(&mut self, kind: RecordKind, count: u32, payload: &[u8]) -> LogPosition {
        let at = self.end;
        let (first_sequence, synced) = (self.next, Synced::new(self.synced, at.segment));
        let header = RecordHeader { first_sequence, count, kind, synced };
        fill_record(&*self.file, at, &header, &[payload]).unwrap();
        self.end.offset += record_bytes(kind, count, payload.len());
        self.next = header.next_sequence();
        at
    }

    fn append_batch(&mut self, batch: &BatchBytes) -> LogPosition {
        self.append(RecordKind::Batch, batch.count(), batch.as_bytes())
    }
}

fn batch() -> BatchBytes {
    let mut batch = BatchBytes::new();
    batch.put(FamilyId(0), b"key \x01", b"value").unwrap();
    batch.put_expiring(FamilyId(3), b"soon", b"gone", 77).unwrap();
    batch.delete(FamilyId(0), b"old").unwrap();
    batch.delete_range(FamilyId(0), b"a", b"b").unwrap();
    batch
}

fn report(fs: &MemFs, path: &str, detail: Detail) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    inspect_wal(fs, Path::new(path), detail, &mut |line| {
        lines.push(line);
        Ok(())
    })?;
    Ok(lines)
}

fn of_item<'a>(lines: &'a [Line], item: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.field("item") == Some(item)).collect()
}

#[test]
fn segments_records_and_operations_are_shown() {
    let fs = MemFs::new();
    let mut writer = Writer::begin(&fs, "000001.log", FIRST, None);
    let batch = batch();
    let at = writer.append_batch(&batch);
    writer.append(RecordKind::Skip, 2, b"");
    let void = writer.append(RecordKind::Void, 3, b"no operations").offset;
    let mut family_batch = Vec::new();
    let dropped = Change::DropFamily { id: FamilyId(7) };
    encode_changes(&Edit { changes: vec![dropped] }, &mut family_batch);
    let mut operations = BatchBytes::new();
    operations.delete(FamilyId(0), b"row").unwrap();
    family_batch.extend_from_slice(operations.as_bytes());
    let families = writer.append(RecordKind::FamilyBatch, 2, &family_batch).offset;
    let family_bytes = family_batch.len();
    writer.append(RecordKind::End, 0, b"");
    let lines = report(&fs, DIR, Detail::Operations).unwrap();
    let shown: Vec<String> = lines.iter().map(Line::to_string).collect();
    let segment = FIRST.0;
    let bytes = batch.as_bytes().len();
    let (skip, end) = (at.offset + record_bytes(RecordKind::Batch, 4, bytes), writer.end.offset);
    assert_eq!(
        shown,
        [
            "item=log  manifest=none".to_owned(),
            format!(
                "item=segment  file=000001.log  file_bytes=65536  segment={segment}  \
                 first_sequence=1  previous=0:0  synced=0:0"
            ),
            format!(
                "item=record  offset=64  kind=batch  first_sequence=1  count=4  \
                 payload_bytes={bytes}  synced=0:0"
            ),
            r#"item=operation  sequence=1  kind=put  family=0  key="key \x01"  value_bytes=5"#
                .to_owned(),
            "item=operation  sequence=2  kind=put-expiring  family=3  key=\"soon\"  value_bytes=4  \
             expiry_ms=77"
                .to_owned(),
            r#"item=operation  sequence=3  kind=delete  family=0  key="old""#.to_owned(),
            r#"item=operation  sequence=4  kind=range-delete  family=0  key="a"  end="b""#
                .to_owned(),
            format!(
                "item=record  offset={skip}  kind=skip  first_sequence=5  count=2  \
                 payload_bytes=0  synced=0:0"
            ),
            format!(
                "item=record  offset={void}  kind=void  first_sequence=7  count=3  \
                 payload_bytes=13  synced=0:0"
            ),
            format!(
                "item=record  offset={families}  kind=family-batch  first_sequence=10  count=2  \
                 payload_bytes={family_bytes}  synced=0:0",
            ),
            "item=change  kind=drop-family  family=7".to_owned(),
            r#"item=operation  sequence=11  kind=delete  family=0  key="row""#.to_owned(),
            format!(
                "item=record  offset={}  kind=end  first_sequence=12  count=0  \
                 payload_bytes=0  synced=0:0",
                families + record_bytes(RecordKind::FamilyBatch, 2, family_bytes)
            ),
            format!(
                "item=stop  file=000001.log  offset={end}  reason=the end of the log  records=5  \
                 next_sequence=12  next_segment=none"
            ),
        ]
    );
}

#[test]
fn a_synced_position_is_shown_with_the_id_of_its_segment() {
    let fs = MemFs::new();
    let first = SegmentId(FIRST.0 | 77);
    let mut before = Writer::begin(&fs, "000001.log", first, None);
    before.append_batch(&batch());
    let mut writer = Writer::begin(&fs, "000002.log", SECOND, Some(&before));
    for synced in [before.end, writer.end] {
        writer.synced = synced;
        writer.append_batch(&batch());
    }
    let lines = report(&fs, DIR, Detail::Records).unwrap();
    let shown: Vec<_> =
        of_item(&lines, "record").iter().map(|line| line.field("synced").unwrap()).collect();
    let position = |segment: SegmentId, offset: u64| format!("{}:{offset}", segment.0);
    let expected = ["0:0".to_owned(), position(first, before.end.offset), position(SECOND, 64)];
    assert_eq!(shown, expected);
}

#[test]
fn less_detail_leaves_lines_out_and_changes_none() {
    let fs = MemFs::new();
    Writer::begin(&fs, "000001.log", FIRST, None).append_batch(&batch());
    let all = report(&fs, DIR, Detail::Operations).unwrap();
    for (detail, items) in [
        (Detail::Summary, &["log", "segment", "stop"][..]),
        (Detail::Records, &["log", "segment", "record", "stop"]),
    ] {
        let kept = |line: &&Line| items.contains(&line.field("item").unwrap());
        let expected: Vec<Line> = all.iter().filter(kept).cloned().collect();
        assert_eq!(report(&fs, DIR, detail).unwrap(), expected);
        assert_eq!(expected.len(), items.len());
    }
}

#[test]
fn segments_come_in_order_whatever_their_slots_and_name_their_successor() {
    let fs = MemFs::new();
    let mut first = Writer::begin(&fs, "000007.log", FIRST, None);
    first.append_batch(&batch());
    Writer::begin(&fs, "000002.log", SECOND, Some(&first));
    // A file that was made ready holds no segment yet, and a foreign one is not ours.
    let options = LogFileOptions { capacity: 4096, io: LogIo::Write };
    fs.open_log(Path::new("db/000009.log"), options).unwrap().prepare(4096).unwrap();
    fs.write_all(Path::new("db/notes.log"), b"mine").unwrap();
    let lines = report(&fs, DIR, Detail::Summary).unwrap();
    let segments = of_item(&lines, "segment");
    let files: Vec<_> = segments.iter().map(|line| line.field("file").unwrap()).collect();
    assert_eq!(files, ["000007.log", "000002.log", "000009.log"]);
    assert_eq!(segments[2].field("segment"), Some("none"));
    let stops = of_item(&lines, "stop");
    assert_eq!(stops.len(), 2);
    assert_eq!(stops[0].field("next_segment"), Some(SECOND.to_string().as_str()));
    assert_eq!(stops[0].field("reason"), Some("no record"));
    assert_eq!(stops[1].field("next_segment"), Some("none"));
}

#[test]
fn damage_stops_a_segment_at_the_record_it_hit() {
    let fs = MemFs::new();
    let mut writer = Writer::begin(&fs, "000001.log", FIRST, None);
    writer.append_batch(&batch());
    let hit = writer.append_batch(&batch());
    writer.append_batch(&batch());
    let path = Path::new("db/000001.log");
    fs.bytes_flip(path, hit.offset + 28, 1).unwrap();
    let lines = report(&fs, "db/000001.log", Detail::Records).unwrap();
    let stop = of_item(&lines, "stop")[0].clone();
    assert_eq!(stop.field("reason"), Some("a record with a bad checksum"));
    assert_eq!(stop.field("offset"), Some(hit.offset.to_string().as_str()));
    assert_eq!(stop.field("records"), Some("1"));
    // One file alone: the report says nothing of a manifest.
    assert!(of_item(&lines, "log").is_empty());
}

#[test]
fn a_batch_that_is_none_is_an_error_with_file_and_offset() {
    let fs = MemFs::new();
    let mut writer = Writer::begin(&fs, "000001.log", FIRST, None);
    writer.append_batch(&batch());
    let at = writer.append(RecordKind::Batch, 1, b"\xff");
    let error = report(&fs, DIR, Detail::Operations).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.offset(), Some(at.offset));
    assert!(error.file().unwrap().ends_with("000001.log"), "{error}");
    report(&fs, DIR, Detail::Records).unwrap();
}

#[test]
fn what_the_manifest_says_of_the_log_comes_first() {
    let fs = MemFs::new();
    Writer::begin(&fs, "000001.log", FIRST, None);
    let snapshot = Edit {
        changes: vec![
            Change::Format { version: FORMAT_VERSION, features: 0 },
            Change::LogStart { segment: FIRST },
            Change::LogCut {
                position: LogPosition { segment: FIRST, offset: 64 },
                next: SECOND,
                bytes: 9,
            },
            Change::LastSequence(SequenceNumber(12)),
        ],
    };
    let mut bytes = Vec::new();
    snapshot.encode(&mut bytes);
    let directory = fs.open_dir(Path::new(DIR)).unwrap();
    Manifest::new(directory, None, None, LogState::default())
        .begin(FileNumber(4), &bytes, 1)
        .unwrap();
    let lines = report(&fs, DIR, Detail::Summary).unwrap();
    assert_eq!(
        lines[0].to_string(),
        format!("item=log  manifest=000004.manifest  first_needed={FIRST}  last_sequence=12")
    );
    assert_eq!(lines[1].to_string(), format!("item=cut  at={FIRST}:64  next_segment={SECOND}"));
    // A damaged manifest is reported, and the log is shown all the same.
    fs.bytes_flip(Path::new("db/CURRENT"), 3, 1).unwrap();
    let lines = report(&fs, DIR, Detail::Summary).unwrap();
    assert!(lines[0].field("manifest_error").unwrap().contains("CURRENT"), "{}", lines[0]);
    assert_eq!(of_item(&lines, "segment").len(), 1);
}

#[test]
fn what_is_not_there_is_not_found_and_the_caller_can_end_it() {
    let fs = MemFs::new();
    assert_eq!(report(&fs, DIR, Detail::Summary).unwrap_err().kind(), ErrorKind::NotFound);
    Writer::begin(&fs, "000001.log", FIRST, None);
    let mut lines = 0;
    let ended = inspect_wal(&fs, Path::new(DIR), Detail::Summary, &mut |_| {
        lines += 1;
        Err(Error::new(ErrorKind::Closed, "enough"))
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(lines, 1);
}

#[test]
fn prepared_transactions_and_decisions_are_shown() {
    let fs = MemFs::new();
    let mut writer = Writer::begin(&fs, "000001.log", FIRST, None);
    let mut operations = BatchBytes::new();
    operations.delete(FamilyId(0), b"row").unwrap();
    let (since_ms, batch) = (77, operations.clone());
    let prepared = PreparedBatch { id: b"t 1".to_vec(), since_ms, batch, ..Default::default() };
    let mut payload = Vec::new();
    prepared.encode(&mut payload);
    writer.append(RecordKind::Prepare, 1, &payload);
    for decision in [Decision::Commit, Decision::RollBack] {
        let mut payload = Vec::new();
        encode_decision(SequenceNumber(1), decision, b"t 1", &mut payload);
        let commits = decision == Decision::Commit;
        payload.extend_from_slice(if commits { operations.as_bytes() } else { b"" });
        writer.append(RecordKind::Decide, 1 + u32::from(commits), &payload);
    }
    let lines = report(&fs, DIR, Detail::Operations).unwrap();
    let kinds: Vec<_> = of_item(&lines, "record").iter().map(|line| line.field("kind")).collect();
    assert_eq!(kinds, [Some("prepare"), Some("decide"), Some("decide")]);
    let shown =
        |item| of_item(&lines, item).iter().map(|line| line.to_string()).collect::<Vec<_>>();
    let prepared = r#"item=prepared  number=1  id="t 1"  since_ms=77  locks=0  operations=1"#;
    assert_eq!(shown("prepared"), [prepared]);
    let decided = ["commit", "roll-back"];
    let decided = decided.map(|how| format!(r#"item=decided  number=1  decision={how}  id="t 1""#));
    assert_eq!(shown("decided"), decided);
    // The operations follow the number of the decision.
    let operation = r#"item=operation  sequence=3  kind=delete  family=0  key="row""#;
    assert_eq!(shown("operation"), [operation]);
}
