//! Reports the log: segments, records, operations, and where and why each segment stops.
//!
//! It does not recover. Records behind a cut and retired segments are shown as well. The first
//! lines say what recovery would make of them.

use super::{
    line::{Detail, Line, OnLine, locate},
    manifest::{change_line, with_prepared},
};
use siltdb_base::{
    error::Result,
    fs::{DirEntry, File, FileKind, Fs, Metadata},
    id::{SegmentId, SequenceNumber},
    key::{BlobPointer, EntryKind, split_expiring},
};
use siltdb_disk::{
    batch::{BatchOperation, operations},
    family_batch,
    file_name::FileName,
    log::{
        read::{Record, SegmentReader},
        record::{RecordHeader, RecordKind},
        segment::SegmentHeader,
    },
    prepared::{Decision, PreparedBatch, split_decision},
};
use siltdb_engine::{
    catalog::log_state::LogState,
    catalog::manifest::{read_current, read_manifest},
    open::foreign::check_not_foreign,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file of the log and its segment header.
struct Slot {
    path: PathBuf,
    file: Arc<dyn File>,
    header: Option<SegmentHeader>,
}

/// Reports the log of the database in the directory `path`, or the one log file `path`, in the
/// order of the segments.
///
/// # Errors
/// `NotFound`; `Unsupported` and `Corruption`, with file and offset; the system's; the errors of
/// `on_line`. The end of a segment is no error: the line `stop` gives its reason.
pub fn inspect_wal(fs: &dyn Fs, path: &Path, detail: Detail, on_line: OnLine<'_>) -> Result<()> {
    check_not_foreign(fs, path)?;
    let paths = match fs.metadata(path)? {
        Some(Metadata::Directory) => {
            report_state(&*fs.open_dir(path)?, on_line)?;
            log_paths(fs, path)?
        }
        _ => vec![path.to_owned()],
    };
    let mut slots = Vec::new();
    for path in paths {
        let file = fs.open(&path)?;
        let header = SegmentHeader::read(&*file, &path)?;
        slots.push(Slot { path, file, header });
    }
    // Files without a segment come last.
    slots.sort_by_key(|slot| slot.header.map_or(SegmentId(u64::MAX), |header| header.id));
    let headers: Vec<_> = slots.iter().filter_map(|slot| slot.header).collect();
    slots.iter().try_for_each(|slot| report_segment(slot, &headers, detail, on_line))
}

fn log_paths(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>> {
    let is_log = |entry: &DirEntry| {
        let is_file = entry.kind == FileKind::File;
        is_file && matches!(FileName::parse(&entry.name), Some(FileName::Segment(_)))
    };
    let logs = fs.list(dir)?.into_iter().filter(is_log);
    let mut paths: Vec<_> = logs.map(|entry| dir.join(entry.name)).collect();
    paths.sort();
    Ok(paths)
}

/// Reports the log's state in the manifest. The log can be read without it, so its errors are
/// shown.
fn report_state(directory: &dyn Fs, on_line: OnLine<'_>) -> Result<()> {
    let mut state = LogState::default();
    let read = read_current(directory).and_then(|current| match current {
        None => Ok(None),
        Some(number) => {
            let mut note = |edit| {
                state.note(&edit);
                Ok(())
            };
            read_manifest(directory, number, &mut note)?;
            Ok(Some(number))
        }
    });
    let line = Line::new("log");
    match read {
        Err(error) => on_line(line.with("manifest_error", error)),
        Ok(None) => on_line(line.with("manifest", "none")),
        Ok(Some(number)) => {
            on_line(
                line.with("manifest", FileName::Manifest(number))
                    .with_number("first_needed", state.first.0)
                    .with_number("last_sequence", state.last_sequence.0),
            )?;
            state.cuts.iter().try_for_each(|cut| {
                let line = Line::new("cut").with("at", cut.at);
                on_line(line.with_number("next_segment", cut.next.0))
            })
        }
    }
}

fn report_segment(
    slot: &Slot,
    headers: &[SegmentHeader],
    detail: Detail,
    on_line: OnLine<'_>,
) -> Result<()> {
    let line = Line::new("segment").with_file(&slot.path);
    let line = line.with_number("file_bytes", slot.file.len());
    let Some(header) = slot.header else {
        return on_line(line.with("segment", "none"));
    };
    on_line(
        line.with_number("segment", header.id.0)
            .with_number("first_sequence", header.first_sequence.0)
            .with("previous", header.previous)
            .with("synced", header.synced),
    )?;
    let mut reader = SegmentReader::new(Arc::clone(&slot.file), slot.path.clone(), header.id)?;
    let known: Vec<_> = headers.iter().map(|header| header.id).collect();
    let mut records = 0_u64;
    while let Some(record) = reader.next()? {
        records += 1;
        if detail >= Detail::Records {
            on_line(record_line(&record, &known))?;
        }
        if detail >= Detail::Operations {
            report_operations(&record, on_line)
                .map_err(|error| locate(error, &slot.path, record.at.offset))?;
        }
    }
    let end = reader.position();
    let reason = reader.stop().expect("a reader that returned no record says why");
    let follows = |header: &&SegmentHeader| header.previous == end;
    let line = Line::new("stop")
        .with_file(&slot.path)
        .with_number("offset", end.offset)
        .with("reason", reason)
        .with_number("records", records)
        .with_number("next_sequence", reader.next_sequence().0);
    on_line(match headers.iter().find(follows) {
        Some(next) => line.with_number("next_segment", next.id.0),
        None => line.with("next_segment", "none"),
    })
}

fn record_line(record: &Record<'_>, known: &[SegmentId]) -> Line {
    let header = &record.header;
    let synced = header.synced.position(record.at.segment, known);
    Line::new("record")
        .with_number("offset", record.at.offset)
        .with(
            "kind",
            match header.kind {
                RecordKind::Batch => "batch",
                RecordKind::Edit => "edit",
                RecordKind::Skip => "skip",
                RecordKind::End => "end",
                RecordKind::Void => "void",
                RecordKind::FamilyBatch => "family-batch",
                RecordKind::Prepare => "prepare",
                RecordKind::Decide => "decide",
            },
        )
        .with_number("first_sequence", header.first_sequence.0)
        .with_number("count", header.count.into())
        .with_number("payload_bytes", record.payload.len() as u64)
        .with("synced", synced)
}

fn report_operations(record: &Record<'_>, on_line: OnLine<'_>) -> Result<()> {
    let RecordHeader { first_sequence, count, kind, .. } = record.header;
    let (mut sequence, count, payload) = match kind {
        RecordKind::Batch => (first_sequence, count, record.payload),
        RecordKind::FamilyBatch => {
            let (edit, payload) = family_batch::split(record.payload)?;
            edit.changes.iter().try_for_each(|change| on_line(change_line(change)))?;
            (first_sequence.next(), count.saturating_sub(1), payload)
        }
        // Its operations have no sequence numbers before it is decided.
        RecordKind::Prepare => {
            let line = Line::new("prepared").with_number("number", first_sequence.0);
            return on_line(with_prepared(line, &PreparedBatch::decode(record.payload)?));
        }
        RecordKind::Decide => {
            let decided = split_decision(record.payload)?;
            let decision = match decided.decision {
                Decision::Commit => "commit",
                Decision::RollBack => "roll-back",
            };
            on_line(
                Line::new("decided")
                    .with_number("number", decided.number.0)
                    .with("decision", decision)
                    .with_bytes("id", decided.id),
            )?;
            (first_sequence.next(), count.saturating_sub(1), decided.operations)
        }
        RecordKind::Edit | RecordKind::Skip | RecordKind::End | RecordKind::Void => return Ok(()),
    };
    for operation in operations(payload, count) {
        on_line(operation_line(sequence, &operation?)?)?;
        sequence = sequence.next();
    }
    Ok(())
}

fn operation_line(sequence: SequenceNumber, operation: &BatchOperation<'_>) -> Result<Line> {
    let line = Line::new("operation")
        .with_number("sequence", sequence.0)
        .with("kind", kind_name(operation.kind))
        .with_number("family", operation.family.0.into())
        .with_key("key", operation.key);
    with_payload(line, operation.kind, operation.payload)
}

/// The name of an entry kind, as the tool shows it.
pub(super) fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Put => "put",
        EntryKind::PutExpiring => "put-expiring",
        EntryKind::Delete => "delete",
        EntryKind::SingleDelete => "single-delete",
        EntryKind::RangeDelete => "range-delete",
        EntryKind::Merge => "merge",
        EntryKind::BlobPointer => "blob-pointer",
    }
}

/// Adds the payload of an entry of `kind`; of a value only its length.
pub(super) fn with_payload(line: Line, kind: EntryKind, payload: &[u8]) -> Result<Line> {
    Ok(match kind {
        EntryKind::Put | EntryKind::Merge => line.with_number("value_bytes", payload.len() as u64),
        EntryKind::Delete | EntryKind::SingleDelete => line,
        EntryKind::RangeDelete => line.with_key("end", payload),
        EntryKind::PutExpiring => {
            let (expiry_ms, value) = split_expiring(payload)?;
            line.with_number("value_bytes", value.len() as u64).with_number("expiry_ms", expiry_ms)
        }
        EntryKind::BlobPointer => {
            let pointer = BlobPointer::decode(payload)?;
            line.with("blob", FileName::Blob(pointer.file))
                .with_number("blob_offset", pointer.offset)
                .with_number("value_bytes", pointer.length.into())
        }
    })
}

#[cfg(test)]
mod tests;
