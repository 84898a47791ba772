//! Reports the manifest: which one is in force, and its edits, change by change.
//!
//! It does not apply the edits.

use super::line::{Detail, Line, OnLine, locate};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, Metadata},
    id::{BranchId, FamilyId},
};
use siltdb_disk::{
    branch_record::{BranchChange, BranchFamily},
    edit::{
        Change, Edit, TableReference,
        identity::BackupMark,
        synced::SyncedLog,
        tier::{ColdPlace, Tier},
    },
    fields::UnknownFields,
    file_name::FileName,
    log::{
        read::{Record, SegmentReader},
        record::RecordKind,
        segment::SegmentHeader,
    },
    options::TableKind,
    prepared::PreparedBatch,
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use siltdb_engine::{catalog::manifest::read_current, open::foreign::check_not_foreign};
use std::path::Path;

/// Reports the manifest in force of the database in the directory `path`, or the one manifest file
/// `path`.
///
/// # Errors
/// `NotFound`; `Unsupported` and `Corruption`, with file and offset; the system's; the errors of
/// `on_line`. The end of the file is no error: the line `stop` gives its reason.
pub fn inspect_manifest(
    fs: &dyn Fs,
    path: &Path,
    detail: Detail,
    on_line: OnLine<'_>,
) -> Result<()> {
    check_not_foreign(fs, path)?;
    if !matches!(fs.metadata(path)?, Some(Metadata::Directory)) {
        return report_file(fs, path, detail, on_line);
    }
    let Some(number) = read_current(&*fs.open_dir(path)?)? else {
        return Err(Error::new(ErrorKind::NotFound, "no database: there is no CURRENT")
            .with_file(&path.join(FileName::Current.to_string())));
    };
    let name = FileName::Manifest(number);
    on_line(Line::new("current").with("file", FileName::Current).with("manifest", name))?;
    report_file(fs, &path.join(name.to_string()), detail, on_line)
}

fn report_file(fs: &dyn Fs, path: &Path, detail: Detail, on_line: OnLine<'_>) -> Result<()> {
    let file = fs.open(path)?;
    let Some(header) = SegmentHeader::read(&*file, path)? else {
        return Err(locate(Error::corruption("the manifest has no header"), path, 0));
    };
    on_line(
        Line::new("manifest")
            .with_file(path)
            .with_number("file_bytes", file.len())
            .with_number("segment", header.id.0),
    )?;
    let mut reader = SegmentReader::new(file, path.to_owned(), header.id)?;
    let mut edits = 0_u64;
    while let Some(record) = reader.next()? {
        // The mark after an edit says only that the edit was synced.
        if record.header.kind == RecordKind::Skip {
            continue;
        }
        report_edit(&record, edits, detail, on_line)
            .map_err(|error| locate(error, path, record.at.offset))?;
        edits += 1;
    }
    let reason = reader.stop().expect("a reader that returned no record says why");
    on_line(
        Line::new("stop")
            .with_file(path)
            .with_number("offset", reader.position().offset)
            .with("reason", reason)
            .with_number("edits", edits),
    )
}

fn report_edit(record: &Record<'_>, index: u64, detail: Detail, on_line: OnLine<'_>) -> Result<()> {
    if record.header.kind != RecordKind::Edit {
        return Err(Error::corruption("a manifest record is not an edit"));
    }
    let edit = match index {
        0 => Edit::decode_snapshot(record.payload)?,
        _ => Edit::decode(record.payload)?,
    };
    if detail >= Detail::Records {
        on_line(
            Line::new("edit")
                .with_number("edit", index)
                .with_number("offset", record.at.offset)
                .with_number("payload_bytes", record.payload.len() as u64)
                .with_number("changes", edit.changes.len() as u64),
        )?;
    }
    if detail >= Detail::Operations {
        edit.changes.iter().try_for_each(|change| on_line(change_line(change)))?;
    }
    Ok(())
}

pub(super) fn change_line(change: &Change) -> Line {
    let line = |kind: &str| Line::new("change").with("kind", kind);
    let of_family = |kind: &str, id: FamilyId| line(kind).with_number("family", id.0.into());
    match change {
        Change::Format { version, features } => line("format")
            .with_number("version", (*version).into())
            .with("features", format_args!("{features:#x}")),
        Change::CreateFamily { id, name, options } => of_family("create-family", *id)
            .with_bytes("name", name.as_bytes())
            .with_bytes("options", options),
        Change::DropFamily { id } => of_family("drop-family", *id),
        Change::RenameFamily { id, name } => {
            of_family("rename-family", *id).with_bytes("name", name.as_bytes())
        }
        Change::FamilyOptions { id, options } => {
            of_family("family-options", *id).with_bytes("options", options)
        }
        Change::AddTable { family, level, table } => {
            let line = of_family("add-table", *family).with_number("level", (*level).into());
            with_summary(with_reference(line, table), &table.meta)
        }
        Change::RemoveTable { family, level, file, offset } => of_family("remove-table", *family)
            .with_number("level", (*level).into())
            .with("file", FileName::Table(*file))
            .with_number("offset", *offset),
        Change::LogStart { segment } => line("log-start").with_number("segment", segment.0),
        Change::LogCut { position, next, bytes } => line("log-cut")
            .with("at", position)
            .with_number("next_segment", next.0)
            .with_number("bytes", *bytes),
        Change::NextFile(file) => line("next-file").with_number("number", file.0),
        Change::NextFamily(family) => of_family("next-family", *family),
        Change::LastSequence(sequence) => line("last-sequence").with_number("sequence", sequence.0),
        Change::LogSynced(SyncedLog { position, slot, file_bytes }) => line("log-synced")
            .with("at", position)
            .with_number("slot", *slot)
            .with_number("file_bytes", *file_bytes),
        Change::LatestTime(time) => line("latest-time")
            .with_number("ms", time.latest_ms)
            .with_number("jump_ms", time.jump_ms),
        Change::FamiliesLogged { position } => line("families-logged").with("at", position),
        Change::RetentionFloor(Some(floor)) => {
            line("retention-floor").with_number("sequence", floor.0)
        }
        Change::RetentionFloor(None) => line("retention-floor").with("sequence", "none"),
        Change::Branch(change) => branch_line(change),
        Change::ColdDirectory(place) => cold_line(place),
        Change::ColdDirectoryLeft => line("cold-directory-left"),
        Change::Identity(id) => line("identity").with("id", id),
        Change::BackedUp(mark) => mark_line(*mark),
        Change::BlobFile { file, uid } => line("blob-file")
            .with("file", FileName::Blob(*file))
            .with("uid", format_args!("{:016x}", uid.0)),
        Change::BlobFileRemoved { file } => {
            line("blob-file-removed").with("file", FileName::Blob(*file))
        }
        Change::Prepared { number, transaction } => {
            let line = line("prepared").with_number("number", number.0);
            with_prepared(line, transaction)
        }
        Change::PreparedDecided { number } => {
            line("prepared-decided").with_number("number", number.0)
        }
        Change::Unknown { tag, value } => {
            line("unknown").with_number("tag", *tag).with_bytes("value", value)
        }
        // Changes that later versions may add.
        other => line("other").with("change", format_args!("{other:?}")),
    }
}

fn cold_line(place: &ColdPlace) -> Line {
    Line::new("change")
        .with("kind", "cold-directory")
        .with("id", format_args!("{:016x}", place.id))
        .with_bytes("path", place.path.as_bytes())
        .with("owner", format_args!("{:016x}", place.owner))
}

fn mark_line(BackupMark { directory, mark, after }: BackupMark) -> Line {
    Line::new("change")
        .with("kind", "backed-up")
        .with("directory", format_args!("{directory:016x}"))
        .with("mark", format_args!("{mark:016x}"))
        .with("after", format_args!("{after:016x}"))
}

fn branch_line(change: &BranchChange) -> Line {
    let line = |kind: &str, id: BranchId| {
        Line::new("change").with("kind", kind).with_number("branch", id.0.into())
    };
    match change {
        BranchChange::Recorded(branch) => {
            let ids = |family: &BranchFamily| {
                family.ids().map(|id| id.to_string()).collect::<Vec<_>>().join("+")
            };
            let families: Vec<String> = branch.families.iter().map(ids).collect();
            line("branch", branch.id)
                .with_bytes("name", branch.name.as_bytes())
                .with_number("parent", branch.parent.0.into())
                .with_number("sequence", branch.begun.0)
                .with_number("begun_ms", branch.begun_ms)
                .with("families", families.join(","))
        }
        BranchChange::Dropped(id) => line("drop-branch", *id),
        BranchChange::CheckedOut(id) => line("check-out", *id),
    }
}

/// Adds what there is to say of a prepared transaction.
pub(super) fn with_prepared(line: Line, transaction: &PreparedBatch) -> Line {
    line.with_bytes("id", &transaction.id)
        .with_number("since_ms", transaction.since_ms)
        .with_number("locks", transaction.locks.len() as u64)
        .with_number("operations", transaction.batch.count().into())
}

fn with_reference(line: Line, table: &TableReference) -> Line {
    let mut line = line
        .with("file", FileName::Table(table.file))
        .with_number("offset", table.offset)
        .with_number("length", table.length);
    if let Some(sequence) = table.visible_to {
        line = line.with_number("visible_to", sequence.0);
    }
    if let Some(slice) = &table.key_slice {
        line = with_range(line, ["slice_first", "slice_last"], slice);
    }
    if let Some(bytes) = table.slice_bytes {
        line = line.with_number("slice_bytes", bytes);
    }
    if let Some(sequence) = table.global_sequence {
        line = line.with_number("global_sequence", sequence.0);
    }
    if table.tier == Tier::Cold {
        line = line.with("tier", "cold");
    }
    with_unknown(line, &table.unknown)
}

/// Adds the tags of fields of later versions.
pub(super) fn with_unknown(line: Line, unknown: &UnknownFields) -> Line {
    let tags: Vec<String> = unknown.tags().map(|tag| tag.to_string()).collect();
    if tags.is_empty() { line } else { line.with("unknown_fields", tags.join("+")) }
}

/// Adds all fields of the table meta.
pub(super) fn with_summary(line: Line, meta: &TableMeta) -> Line {
    let line = line.with("uid", format_args!("{:016x}", meta.uid.0));
    let line = with_range(line, ["first_key", "last_key"], &meta.range)
        .with_number("entries", meta.entries)
        .with_number("point_tombstones", meta.point_tombstones)
        .with_number("range_tombstones", meta.range_tombstones)
        .with_number("merge_operands", meta.merge_operands)
        .with_number("sequence_min", meta.sequence_min.0)
        .with_number("sequence_max", meta.sequence_max.0)
        .with_number("logical_bytes", meta.logical_bytes)
        .with_number("table_bytes", meta.file_bytes)
        .with("index", index_word(meta.kind))
        .with_number("sampled_keys", meta.key_sketch.keys() as u64);
    let mut line = with_unknown(line, &meta.unknown);
    if meta.created_ms > 0 {
        line = line.with_number("created_ms", meta.created_ms);
    }
    if let Some(expiry_ms) = meta.expiry_min_ms {
        line = line.with_number("expiry_min_ms", expiry_ms);
    }
    if let Some(expiry_ms) = meta.garbage.expiry_max_ms() {
        line = line.with_number("expiry_max_ms", expiry_ms);
        line = line.with_number("expiring_entries", meta.garbage.expiring_entries());
    }
    for reference in meta.blobs.files() {
        line = line
            .with("blob", FileName::Blob(reference.file))
            .with_number("blob_values", reference.count)
            .with_number("blob_bytes", reference.bytes);
    }
    let superseded: u64 = meta.garbage.superseded().iter().map(|bucket| bucket.bytes).sum();
    if superseded > 0 { line.with_number("superseded_bytes", superseded) } else { line }
}

/// Adds both ends of a range. An exclusive end is followed by `exclusive`.
fn with_range(line: Line, [first, last]: [&'static str; 2], range: &KeySpan) -> Line {
    let line = line.with_key(first, &range.first).with_key(last, &range.last);
    match range.end {
        RangeEnd::Inclusive => line,
        RangeEnd::Exclusive => line.with("range_end", "exclusive"),
    }
}

fn index_word(kind: TableKind) -> &'static str {
    match kind {
        TableKind::BTree => "tree",
        _ => "blocks",
    }
}

#[cfg(test)]
mod tests;
