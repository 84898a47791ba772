//! Log segments that the manifest calls retired, read where a table that took their place is lost.
//!
//! The files may still be there: an opening retains them, or no later segment has used them again.
//! A segment counts only if the next one follows it, so that what was cut off stays away. It does
//! not say whether all of a lost table is found.
//!
//! The sequence numbers in tables do not tell which operations a table held, because flushes and
//! compactions give values shared, older numbers. The log has the true ones. So operations are
//! taken by key, for all keys that the lost parts can have held, and ranked against tables:
//!
//! ```text
//! operations in the log, if the log has everything from there on   newest
//! tables, and an unflushed log behind a gap
//! retired operations with a gap behind them                        oldest
//! ```
//!
//! 1. Above the last gap, an operation is newer than every table, or in one: the newest of a key
//!    in the log is the newest there is. A gap is a sequence number whose operation is not in the
//!    log: of a `Volatile` commit, an ingest, or a damaged record.
//! 2. Before a gap, a table may have something newer, with an older number. So a table counts
//!    first, and such operations only give back keys that no table has. A lost table may have had
//!    something newer, too. The report counts these operations apart.
//! 3. A range deletion is cut to the keys of the lost parts: of other keys not all is taken.
//! 4. Merge operands need a value or deletion below them in the same segments (see `based`),
//!    because a table may have folded them already. Before a gap nothing of a family with operands
//!    is taken.
//! 5. Of a FIFO family nothing is taken that is older than the lost tables: its tables left.
//! 6. A table of an ingest never was in the log.
//!
//! # Seeded fault
//! `retired_segments_not_read`: nothing is taken.

use super::{
    find::{FoundFamily, OldDatabase, Salvageable, own_files},
    log::LogRead,
    report::ManifestState,
    run::open_table,
    scratch::ScratchTables,
};
use siltdb_base::{
    error::Result,
    fs::{File, Fs},
    id::{FamilyId, SequenceNumber},
    key::{Entry, EntryKind, successor},
    seeded_fault,
    slice::Slice,
    sync::lock,
};
use siltdb_disk::{
    batch::operations,
    family_batch,
    file_name::FileName,
    log::{
        read::Record,
        record::{RecordHeader, RecordKind},
        salvage::SegmentSalvage,
        segment::SegmentHeader,
    },
    prepared::split_decision,
    table::{LostEntries, LostList, SalvageCursor},
};
use siltdb_tree::strategy::CompactionStrategy;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Keys from `start` to before `end`.
struct Span {
    start: Slice,
    end: Slice,
}

/// What of a family cannot be read.
struct Gaps {
    /// Ascending; they do not overlap.
    spans: Vec<Span>,
    /// The oldest sequence number of the tables.
    oldest: SequenceNumber,
    has_operands: bool,
    is_fifo: bool,
}

/// A segment that is retired and still there.
struct RetiredSegment {
    header: SegmentHeader,
    path: PathBuf,
    file: Arc<dyn File>,
    /// Where it ends, if the next segment says so.
    end: Option<u64>,
    /// Its sequence numbers are smaller.
    before: SequenceNumber,
}

/// The number of operations that were read from retired segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetiredOperations {
    pub all: u64,
    /// Those before a gap: the last value of their key may have been in a lost table alone.
    pub before_gap: u64,
}

/// Adds what lost parts of tables held to `scratch`, as far as retired segments of `old` have it.
/// The live log is there already, with these `numbers`.
///
/// Cost: nothing without such segments; else all tables are read once more.
///
/// # Errors
/// Failures of listing the directory, or of writing the operations.
pub fn read_retired(
    old: OldDatabase<'_>,
    found: &mut Salvageable,
    mut numbers: LogRead,
    scratch: &mut ScratchTables,
) -> Result<RetiredOperations> {
    // Without a manifest it is not known which segments are retired, and none is passed over.
    let mut taken = RetiredOperations::default();
    if found.manifest != ManifestState::Whole || seeded_fault!("retired_segments_not_read") {
        return Ok(taken);
    }
    let segments = retired_segments(&**old.fs, old.dir, found, numbers)?;
    let Some(last) = segments.last() else { return Ok(taken) };
    let (gaps, rank) = (find_gaps(found), rank(found, numbers));
    if gaps.is_empty() || rank > SequenceNumber::MAX.0 / 4 {
        return Ok(taken);
    }
    find_unlogged(&segments, &mut numbers)?;
    let is_above_gaps = |sequence: SequenceNumber| sequence > numbers.unlogged;
    let tables = found.families.values_mut().flat_map(|family| &mut family.tables);
    tables.for_each(|table| table.raised_by = rank);
    let has_above = is_above_gaps(SequenceNumber(last.before.0 - 1));
    scratch.raise(if has_above { 2 * rank } else { rank })?;
    let mut is_above = false;
    read_segments(&segments, &mut |record| {
        if is_above_gaps(record.header.first_sequence) && !is_above {
            is_above = true;
            scratch.raise_next(2 * rank)?;
        }
        for_each_operation(record, &mut |family, entry| {
            let Some(gaps) = gaps.get(&family) else { return Ok(()) };
            if gaps.has_operands && !is_above || gaps.is_fifo && entry.sequence < gaps.oldest {
                return Ok(());
            }
            let parts = gaps.take(entry, &mut |entry| scratch.add(family, entry))?;
            taken.all += parts;
            taken.before_gap += if is_above { 0 } else { parts };
            Ok(())
        })
    })?;
    scratch.write_out()?;
    scratch.note_retired(2 * rank..2 * rank + last.before.0);
    Ok(taken)
}

/// How far the sequence numbers of one rank are from those of the next: beyond each that the
/// database has given.
fn rank(found: &Salvageable, numbers: LogRead) -> u64 {
    let tables = found.families.values().flat_map(|family| &family.tables);
    let newest = tables.map(|table| {
        let reference = &table.reference;
        reference.meta.sequence_max.max(reference.global_sequence.unwrap_or_default())
    });
    let newest = newest.max().unwrap_or_default();
    newest.max(numbers.last).max(found.log.last_sequence).next().0
}

/// Notes the last gap in the operations of `segments`.
fn find_unlogged(segments: &[RetiredSegment], numbers: &mut LogRead) -> Result<()> {
    let mut next = segments.first().map_or(SequenceNumber(0), |first| first.header.first_sequence);
    read_segments(segments, &mut |record| {
        let RecordHeader { first_sequence, kind, .. } = record.header;
        if first_sequence > next {
            numbers.lacks(SequenceNumber(first_sequence.0 - 1));
        }
        next = after(record);
        if kind == RecordKind::Skip && next > first_sequence {
            numbers.lacks(SequenceNumber(next.0 - 1));
        }
        Ok(())
    })?;
    let end = segments.last().map_or(next, |last| last.before);
    if next < end {
        numbers.lacks(SequenceNumber(end.0 - 1));
    }
    Ok(())
}

/// The sequence number after those of a record.
fn after(record: &Record<'_>) -> SequenceNumber {
    SequenceNumber(record.header.first_sequence.0 + u64::from(record.header.count))
}

/// The retired segments in `dir` behind which nothing of the log is missing, oldest first. The live
/// log has these `numbers`.
fn retired_segments(
    fs: &dyn Fs,
    dir: &Path,
    found: &Salvageable,
    numbers: LogRead,
) -> Result<Vec<RetiredSegment>> {
    let mut files = Vec::new();
    for name in own_files(fs, dir)? {
        let FileName::Segment(_) = name else { continue };
        let path = dir.join(name.to_string());
        let Ok(file) = fs.open(&path) else { continue };
        if let Ok(Some(header)) = SegmentHeader::read(&*file, &path) {
            files.push((header, path, file));
        }
    }
    files.sort_by_key(|(header, ..)| std::cmp::Reverse(header.id));
    let mut segments: Vec<RetiredSegment> = Vec::new();
    let mut next: Option<SegmentHeader> = None;
    // A flush notes its last number with the beginning of the log.
    let flushed = found.log.last_sequence.next();
    let mut before = numbers.first.map_or(flushed, |first| first.min(flushed));
    for (header, path, file) in files {
        if header.id < found.log.first {
            let previous = next.map(|next| next.previous);
            // An opening that replays nothing begins a segment without a predecessor.
            let previous = previous.filter(|previous| previous.segment.0 > 0);
            if previous.is_some_and(|previous| previous.segment != header.id) {
                break;
            }
            let end = previous.map(|previous| previous.offset);
            segments.push(RetiredSegment { header, path, file, end, before });
            before = before.min(header.first_sequence);
        }
        next = Some(header);
    }
    segments.reverse();
    Ok(segments)
}

/// Passes on each record that verifies.
fn read_segments(
    segments: &[RetiredSegment],
    each: &mut dyn FnMut(&Record<'_>) -> Result<()>,
) -> Result<()> {
    for segment in segments {
        let RetiredSegment { header, path, file, end, before } = segment;
        let mut salvage = SegmentSalvage::new(Arc::clone(file), path.clone(), *header, *end);
        // What cannot be read here is a part of the loss that the tables report.
        loop {
            match salvage.next() {
                Ok(Some(record)) => {
                    if after(&record) > *before {
                        break;
                    }
                    each(&record)?;
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
    Ok(())
}

/// The families of which a part of a table cannot be read.
fn find_gaps(found: &Salvageable) -> BTreeMap<FamilyId, Gaps> {
    // Without the options of a family it is not known whether it has operands.
    let known = found.families.iter().filter(|(_, family)| family.is_known);
    known.filter_map(|(id, family)| Gaps::of(family).map(|gaps| (*id, gaps))).collect()
}

impl Gaps {
    /// The gaps of a family; `None` if there are none.
    fn of(family: &FoundFamily) -> Option<Self> {
        let (mut spans, mut oldest) = (Vec::new(), SequenceNumber::MAX);
        for table in &family.tables {
            let meta = &table.reference.meta;
            if table.reference.global_sequence.is_some() {
                continue;
            }
            let list = LostList::default();
            match open_table(table, &list) {
                Err(lost) => lock(&list).push(lost),
                Ok(opened) => {
                    let mut cursor = SalvageCursor::new(Arc::new(opened), Arc::clone(&list));
                    cursor.seek_to_first();
                    while cursor.entry().is_some() {
                        cursor.next();
                    }
                }
            }
            for LostEntries { first, last, .. } in std::mem::take(&mut *lock(&list)) {
                let start = first.unwrap_or_else(|| meta.range.first.clone());
                let end = last.map_or_else(|| meta.range.end_key(), |last| successor(&last).into());
                oldest = oldest.min(meta.sequence_min);
                spans.push(Span { start, end });
            }
        }
        let options = &family.options;
        let is_fifo = matches!(options.compaction, CompactionStrategy::Fifo { .. });
        let has_operands = options.merge_operator.is_some();
        let gaps = Self { spans: joined(spans), oldest, has_operands, is_fifo };
        (!gaps.spans.is_empty()).then_some(gaps)
    }

    /// Passes on the parts of an entry that lie in a gap; returns their number.
    fn take(&self, entry: Entry<'_>, each: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<u64> {
        let mut taken = 0;
        let first = self.spans.partition_point(|span| span.end.as_bytes() <= entry.key);
        for span in &self.spans[first..] {
            let (start, end) = (span.start.as_bytes(), span.end.as_bytes());
            if entry.kind != EntryKind::RangeDelete {
                if start <= entry.key {
                    each(entry)?;
                    taken += 1;
                }
                break;
            }
            let (key, value) = (entry.key.max(start), entry.value.min(end));
            if entry.value <= start {
                break;
            }
            each(Entry { key, value, ..entry })?;
            taken += 1;
        }
        Ok(taken)
    }
}

/// The same keys in ascending spans that do not overlap.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| a.start.cmp(&b.start));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = span.end.max(last.end.clone()),
            _ => joined.push(span),
        }
    }
    joined
}

/// Passes on the operations of a record, as far as they can be read.
fn for_each_operation(
    record: &Record<'_>,
    each: &mut dyn FnMut(FamilyId, Entry<'_>) -> Result<()>,
) -> Result<()> {
    let (first, count) = (record.header.first_sequence, record.header.count);
    let behind = (first.next(), count.saturating_sub(1));
    let ((mut sequence, count), payload) = match record.header.kind {
        RecordKind::Batch => ((first, count), record.payload),
        RecordKind::FamilyBatch => match family_batch::split(record.payload) {
            Ok((_, payload)) => (behind, payload),
            Err(_) => return Ok(()),
        },
        RecordKind::Decide => match split_decision(record.payload) {
            Ok(decided) => (behind, decided.operations),
            Err(_) => return Ok(()),
        },
        _ => return Ok(()),
    };
    for operation in operations(payload, count) {
        let Ok(operation) = operation else { break };
        each(operation.family, operation.entry(sequence))?;
        sequence = sequence.next();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
