//! Reads the log records that verify, segment by segment, also behind damage.
//!
//! It does not judge what was durable: each whole operation is saved. An operation that the log or
//! the manifest says existed, and that is missing, is lost.

use super::{
    find::{Salvageable, is_live, own_files},
    report::ManifestState,
    scratch::ScratchTables,
};
use siltdb_base::{
    error::{Error, Result},
    fs::{File, Fs},
    id::{SegmentId, SequenceNumber},
};
use siltdb_disk::{
    batch::operations,
    family_batch,
    file_name::FileName,
    log::{
        read::Record,
        record::{LogPosition, RecordHeader, RecordKind},
        salvage::{SegmentSalvage, segment_of_records},
        segment::SegmentHeader,
        time_note::time_after,
    },
    prepared::{PreparedBatch, split_decision},
};
use siltdb_engine::reports::lost::Lost;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The count in a segment id stands above this many bits.
const COUNT_SHIFT: u32 = 32;

/// How far the sequence numbers of a segment without a header may be from the guess.
const SEQUENCES_APART: u64 = 1 << 23;

/// A log file that holds a live segment.
struct Segment {
    id: SegmentId,
    path: PathBuf,
    file: Arc<dyn File>,
    header: Option<SegmentHeader>,
}

/// The log while it is being read.
pub struct LogSalvage<'a> {
    found: &'a mut Salvageable,
    scratch: &'a mut ScratchTables,
    lost: &'a mut Vec<Lost>,
    records: u64,
    /// The highest synced position that a record or header names, and the end of the last segment
    /// read.
    synced: LogPosition,
    end: LogPosition,
    /// The next expected sequence number, if known.
    expected: Option<SequenceNumber>,
    read: LogRead,
}

/// Which sequence numbers of a log have operations that were read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRead {
    /// The first number, if it is known.
    pub first: Option<SequenceNumber>,
    /// A number at or after the last one.
    pub last: SequenceNumber,
    /// The last number whose operation is not in the log: it was lost, or was never logged.
    pub unlogged: SequenceNumber,
}

impl LogRead {
    /// Notes that there is no operation at or before `last`.
    pub fn lacks(&mut self, last: SequenceNumber) {
        self.unlogged = self.unlogged.max(last);
    }
}

impl<'a> LogSalvage<'a> {
    /// The log of the database that was `found`. Its operations go to `scratch`.
    pub fn new(
        found: &'a mut Salvageable,
        scratch: &'a mut ScratchTables,
        lost: &'a mut Vec<Lost>,
    ) -> Self {
        // Segments before the first one are retired, and may be missing.
        let (synced, end) =
            (found.log.synced.position, LogPosition { segment: found.log.first, offset: 0 });
        Self {
            found,
            scratch,
            lost,
            records: 0,
            synced,
            end,
            expected: None,
            read: LogRead::default(),
        }
    }

    /// The number of records that were read.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Which sequence numbers were read.
    pub fn numbers(&self) -> LogRead {
        self.read
    }

    /// Reads the log in `dir`.
    ///
    /// # Errors
    /// Failures of listing the directory, or of writing the operations.
    pub fn read(&mut self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        let segments = self.find_segments(fs, dir)?;
        let ids: Vec<_> = segments.iter().map(|segment| segment.id).collect();
        let first = segments.first().and_then(|segment| segment.header);
        self.read.first = first.map(|header| header.first_sequence);
        for (index, segment) in segments.iter().enumerate() {
            self.check_predecessor(segment, &ids);
            let cuts = self.found.log.cuts.iter().map(|cut| cut.at);
            let successors = segments.iter().filter_map(|segment| segment.header);
            let ends = cuts.chain(successors.map(|header| header.previous));
            let end = ends.filter(|end| end.segment == segment.id).map(|end| end.offset).min();
            let next = segments[index + 1..].iter().find_map(|segment| segment.header);
            self.read_segment(segment, end, next, &ids)?;
        }
        if self.synced > self.end {
            let error = Error::corruption("the log ends before its synced position");
            let error = error.with_file(dir).with_mismatch(self.synced, self.end);
            self.lost.push(Lost::anything(error));
        }
        self.scratch.write_out()
    }

    /// The live segments, in order.
    fn find_segments(&mut self, fs: &dyn Fs, dir: &Path) -> Result<Vec<Segment>> {
        let (mut segments, mut unknown) = (Vec::new(), Vec::new());
        let mut highest = self.found.log.first.max(self.found.log.synced.position.segment);
        for name in own_files(fs, dir)? {
            let FileName::Segment(_) = name else { continue };
            let path = dir.join(name.to_string());
            let read = fs
                .open(&path)
                .and_then(|file| SegmentHeader::read(&*file, &path).map(|header| (file, header)));
            match read {
                Ok((file, Some(header))) => {
                    highest = highest.max(header.id);
                    if is_live(&self.found.log, header.id) {
                        let (id, header) = (header.id, Some(header));
                        segments.push(Segment { id, path, file, header });
                    }
                }
                Ok((file, None)) => unknown.push((file, path)),
                Err(error) => self.lost.push(Lost::anything(error.or_file(&path))),
            }
        }
        // A segment without its first bytes has one of the missing ids, or a later one.
        let count_max = (highest.0 >> COUNT_SHIFT) + unknown.len() as u64;
        for (file, path) in unknown {
            let known: Vec<_> = segments.iter().map(|segment: &Segment| segment.id).collect();
            let may_be = |id: SegmentId| {
                let is_near = id.0 >> COUNT_SHIFT <= count_max;
                is_near && is_live(&self.found.log, id) && !known.contains(&id)
            };
            match segment_of_records(&file, &path, &may_be) {
                Ok(Some(id)) => segments.push(Segment { id, path, file, header: None }),
                Ok(None) => {}
                Err(error) => self.lost.push(Lost::anything(error.or_file(&path))),
            }
        }
        segments.sort_by_key(|segment| segment.id);
        Ok(segments)
    }

    /// Notes what is missing before a segment.
    fn check_predecessor(&mut self, segment: &Segment, ids: &[SegmentId]) {
        let Some(header) = segment.header else { return };
        self.synced = self.synced.max(header.synced);
        match self.expected {
            Some(expected) if expected < header.first_sequence => {
                self.lose_operations(segment, 0, header.first_sequence.0 - expected.0);
                self.read.lacks(SequenceNumber(header.first_sequence.0 - 1));
            }
            None if header.previous.segment >= self.found.log.first
                && header.previous != LogPosition::ZERO
                && self.found.manifest == ManifestState::Whole
                && !ids.contains(&header.previous.segment) =>
            {
                let error = Error::corruption("the log segment before this one is missing");
                self.lost.push(Lost::anything(error.with_file(&segment.path).with_offset(0)));
            }
            _ => {}
        }
    }

    fn lose_operations(&mut self, segment: &Segment, offset: u64, operations: u64) {
        if operations > 0 {
            let error = Error::corruption("damaged records of the log");
            let error = error.with_file(&segment.path).with_offset(offset);
            let mut lost = Lost::anything(error);
            lost.entries_max = Some(operations);
            self.lost.push(lost);
        }
    }

    fn read_segment(
        &mut self,
        segment: &Segment,
        end: Option<u64>,
        next: Option<SegmentHeader>,
        ids: &[SegmentId],
    ) -> Result<()> {
        let (file, path) = (Arc::clone(&segment.file), segment.path.clone());
        let mut salvage = match segment.header {
            Some(header) => SegmentSalvage::new(file, path, header, end),
            None => {
                let first = self.guess_sequence(next);
                SegmentSalvage::without_header(file, path, segment.id, first)
            }
        };
        let mut is_first = segment.header.is_none();
        loop {
            match salvage.next() {
                Ok(Some(record)) => {
                    let synced = record.header.synced.position(segment.id, ids);
                    self.synced = self.synced.max(synced);
                    self.read_record(&record, segment)?;
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    self.lost.push(Lost::anything(error.or_file(&segment.path)));
                    break;
                }
            }
            match salvage.resume() {
                // Without a header the first record is found as after damage. The number of records
                // before it is unknown.
                Ok(Some(gap)) if is_first && self.expected.is_none() => {
                    if salvage.position().offset > gap.offset {
                        let error = Error::corruption("damaged records of the log");
                        let error = error.with_file(&segment.path).with_offset(gap.offset);
                        self.lost.push(Lost::anything(error));
                    }
                }
                Ok(Some(gap)) => {
                    self.lose_operations(segment, gap.offset, gap.operations);
                    self.read.lacks(SequenceNumber(salvage.next_sequence().0.saturating_sub(1)));
                }
                Ok(None) => break,
                Err(error) => {
                    self.lost.push(Lost::anything(error.or_file(&segment.path)));
                    break;
                }
            }
            is_first = false;
        }
        self.expected = self.expected.max(Some(salvage.next_sequence()));
        self.read.last = self.read.last.max(salvage.next_sequence());
        let synced = &self.found.log.synced;
        if segment.id == synced.position.segment && segment.file.len() < synced.file_bytes {
            let error = Error::corruption("a log file is shorter than when it was synced");
            let found = segment.file.len();
            let bytes = format!("at least {} bytes", synced.file_bytes);
            self.lost
                .push(Lost::anything(error.with_file(&segment.path).with_mismatch(bytes, found)));
        }
        self.end = self.end.max(salvage.position());
        Ok(())
    }

    /// A sequence number at or before the first one of a segment without a header.
    fn guess_sequence(&self, next: Option<SegmentHeader>) -> SequenceNumber {
        let near = |sequence: SequenceNumber| {
            SequenceNumber(sequence.0.saturating_sub(SEQUENCES_APART).max(1))
        };
        match (self.expected, next) {
            (Some(expected), _) => expected,
            (None, Some(next)) => near(next.first_sequence),
            (None, None) => near(self.found.log.last_sequence),
        }
    }

    fn lose_record(&mut self, error: Error, segment: &Segment, at: LogPosition) {
        let error = error.or_file(&segment.path).or_offset(at.offset);
        self.lost.push(Lost::anything(error));
    }

    fn read_record(&mut self, record: &Record<'_>, segment: &Segment) -> Result<()> {
        self.records += 1;
        let RecordHeader { first_sequence, count, kind, .. } = record.header;
        let (mut sequence, count, payload) = match kind {
            RecordKind::Batch => (first_sequence, count, record.payload),
            RecordKind::FamilyBatch => match family_batch::split(record.payload) {
                Ok((edit, payload)) => {
                    self.found.change_families(record.at, &edit);
                    (first_sequence.next(), count.saturating_sub(1), payload)
                }
                Err(error) => {
                    self.lose_record(error, segment, record.at);
                    return Ok(());
                }
            },
            RecordKind::Prepare => {
                match PreparedBatch::decode(record.payload) {
                    Ok(transaction) => {
                        self.found.log.prepared.insert(first_sequence, Arc::new(transaction));
                    }
                    Err(error) => self.lose_record(error, segment, record.at),
                }
                return Ok(());
            }
            RecordKind::Decide => match split_decision(record.payload) {
                Ok(decided) => {
                    self.found.log.prepared.remove(&decided.number);
                    (first_sequence.next(), count.saturating_sub(1), decided.operations)
                }
                Err(error) => {
                    self.lose_record(error, segment, record.at);
                    return Ok(());
                }
            },
            RecordKind::Skip => {
                self.read
                    .lacks(SequenceNumber((first_sequence.0 + u64::from(count)).saturating_sub(1)));
                return Ok(());
            }
            RecordKind::Void => {
                self.found.log.time = time_after(self.found.log.time, record);
                return Ok(());
            }
            _ => return Ok(()),
        };
        for operation in operations(payload, count) {
            let operation = match operation {
                Ok(operation) => operation,
                Err(error) => {
                    self.lose_record(error, segment, record.at);
                    return Ok(());
                }
            };
            let family = operation.family;
            if !self.found.families.contains_key(&family)
                && self.found.manifest == ManifestState::Lost
                && !self.found.dropped.contains(&family)
            {
                self.found.add_unknown(family);
            }
            // Operations of a dropped family are skipped.
            if self.found.families.contains_key(&family) {
                self.scratch.add(family, operation.entry(sequence))?;
            }
            sequence = sequence.next();
        }
        Ok(())
    }
}
