//! Log segments that the manifest calls retired, read where a table that took their place is lost.
//!
//! The files may still be there: an opening retains them, or no later segment has used them again.
//! Only the operations that a lost part of a table can have held are taken, by family, key and
//! sequence number. Others are in tables that are whole, or were removed on purpose.

use super::{
    find::{FoundTable, Salvageable, own_files},
    report::ManifestState,
    run::open_table,
    scratch::ScratchTables,
};
use siltdb_base::{
    error::Result,
    fs::{File, Fs},
    id::{FamilyId, SequenceNumber},
    key::{Entry, EntryKind},
    sync::lock,
};
use siltdb_disk::{
    batch::operations,
    family_batch,
    file_name::FileName,
    log::{read::Record, record::RecordKind, salvage::SegmentSalvage, segment::SegmentHeader},
    prepared::split_decision,
    table::{LostEntries, LostList, SalvageCursor},
    table_meta::{KeySpan, RangeEnd},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A part of a table that cannot be read.
struct Gap {
    family: FamilyId,
    keys: KeySpan,
    /// The sequence numbers of the table.
    oldest: SequenceNumber,
    newest: SequenceNumber,
}

impl Gap {
    fn can_have_held(&self, family: FamilyId, entry: &Entry<'_>) -> bool {
        let is_within = (self.oldest..=self.newest).contains(&entry.sequence);
        // The range of a deletion may begin before the gap.
        let has_key = entry.kind == EntryKind::RangeDelete || self.keys.contains(entry.key);
        self.family == family && is_within && has_key
    }
}

/// A segment that is retired and still there.
struct RetiredSegment {
    header: SegmentHeader,
    path: PathBuf,
    file: Arc<dyn File>,
}

/// Adds what lost parts of tables held to `scratch`, as far as retired segments in `dir` have it.
/// Returns the number of operations.
///
/// Cost: nothing without such segments; else all tables are read once more.
///
/// # Errors
/// Failures of listing the directory, or of writing the operations.
pub fn read_retired(
    (fs, dir): (&dyn Fs, &Path),
    found: &Salvageable,
    scratch: &mut ScratchTables,
) -> Result<u64> {
    // Without a manifest it is not known which segments are retired, and none is passed over.
    if found.manifest != ManifestState::Whole || cfg!(seeded_fault = "retired_segments_not_read") {
        return Ok(0);
    }
    let segments = retired_segments(fs, dir, found)?;
    if segments.is_empty() {
        return Ok(0);
    }
    let tables = found
        .families
        .iter()
        .flat_map(|(family, found)| found.tables.iter().map(move |table| (*family, table)));
    let gaps: Vec<Gap> = tables.flat_map(|(family, table)| gaps_of(family, table)).collect();
    if gaps.is_empty() {
        return Ok(0);
    }
    let mut taken = 0;
    let headers: Vec<_> = segments.iter().map(|segment| segment.header).collect();
    for segment in segments {
        let RetiredSegment { header, path, file } = segment;
        let ends = headers.iter().map(|next| next.previous);
        let end = ends.filter(|end| end.segment == header.id).map(|end| end.offset).min();
        let mut salvage = SegmentSalvage::new(file, path, header, end);
        // What cannot be read here is a part of the loss that the tables have already reported.
        loop {
            match salvage.next() {
                Ok(Some(record)) => {
                    taken += take_record(&record, &gaps, scratch)?;
                    continue;
                }
                Ok(None) => {}
                Err(_) => break,
            }
            if !matches!(salvage.resume(), Ok(Some(_))) {
                break;
            }
        }
    }
    Ok(taken)
}

/// The retired segments in `dir`, oldest first.
fn retired_segments(fs: &dyn Fs, dir: &Path, found: &Salvageable) -> Result<Vec<RetiredSegment>> {
    let mut segments = Vec::new();
    for name in own_files(fs, dir)? {
        let FileName::Segment(_) = name else { continue };
        let path = dir.join(name.to_string());
        let Ok(file) = fs.open(&path) else { continue };
        match SegmentHeader::read(&*file, &path) {
            Ok(Some(header)) if header.id < found.log.first => {
                segments.push(RetiredSegment { header, path, file });
            }
            _ => {}
        }
    }
    segments.sort_by_key(|segment| segment.header.id);
    Ok(segments)
}

/// The parts of a table that cannot be read.
fn gaps_of(family: FamilyId, table: &FoundTable) -> Vec<Gap> {
    let meta = &table.reference.meta;
    // An ingest writes no operations to the log.
    if table.reference.global_sequence.is_some() {
        return Vec::new();
    }
    let list = LostList::default();
    let lost = match open_table(table, &list) {
        Err(lost) => vec![lost],
        Ok(opened) => {
            let mut cursor = SalvageCursor::new(Arc::new(opened), Arc::clone(&list));
            cursor.seek_to_first();
            while cursor.entry().is_some() {
                cursor.next();
            }
            std::mem::take(&mut *lock(&list))
        }
    };
    let gap = |LostEntries { first, last, .. }: LostEntries| Gap {
        family,
        keys: KeySpan {
            first: first.unwrap_or_else(|| meta.range.first.clone()),
            last: last.unwrap_or_else(|| meta.range.last.clone()),
            end: RangeEnd::Inclusive,
        },
        oldest: meta.sequence_min,
        newest: meta.sequence_max,
    };
    lost.into_iter().map(gap).collect()
}

/// Adds the operations of a record that a gap can have held; returns how many.
fn take_record(record: &Record<'_>, gaps: &[Gap], scratch: &mut ScratchTables) -> Result<u64> {
    let (first, count) = (record.header.first_sequence, record.header.count);
    let behind = (first.next(), count.saturating_sub(1));
    let ((mut sequence, count), payload) = match record.header.kind {
        RecordKind::Batch => ((first, count), record.payload),
        RecordKind::FamilyBatch => match family_batch::split(record.payload) {
            Ok((_, payload)) => (behind, payload),
            Err(_) => return Ok(0),
        },
        RecordKind::Decide => match split_decision(record.payload) {
            Ok(decided) => (behind, decided.operations),
            Err(_) => return Ok(0),
        },
        _ => return Ok(0),
    };
    let mut taken = 0;
    for operation in operations(payload, count) {
        let Ok(operation) = operation else { break };
        let entry = operation.entry(sequence);
        if gaps.iter().any(|gap| gap.can_have_held(operation.family, &entry)) {
            scratch.add(operation.family, entry)?;
            taken += 1;
        }
        sequence = sequence.next();
    }
    Ok(taken)
}
