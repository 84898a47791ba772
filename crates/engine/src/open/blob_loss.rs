//! Which records of the log point to separated values that a crash took.
//!
//! A sync of the log follows one of the blob files. So a record below the synced position points to
//! values that are durable: if one is missing, that is damage. Behind that position the value may
//! be lost although the record is not. The log then ends before the record.

use crate::blobs::Blobs;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FileNumber,
    key::{BlobPointer, EntryKind},
};
use siltdb_disk::{
    batch::operations,
    family_batch,
    log::{
        read::Record,
        record::{LogPosition, RecordKind},
    },
    prepared::split_decision,
};
use std::{collections::BTreeMap, ops::Range};

/// Finds the separated values of replayed records.
pub(super) struct BlobLoss<'a> {
    blobs: &'a Blobs,
    /// The manifest says that the log is durable up to here.
    synced: LogPosition,
    /// Where the values of the records lie that may not be durable.
    found: Vec<(LogPosition, FileNumber, Range<u64>)>,
}

impl<'a> BlobLoss<'a> {
    pub(super) fn new(blobs: &'a Blobs, synced: LogPosition) -> Self {
        Self { blobs, synced, found: Vec::new() }
    }

    /// What is lost of the values of a record.
    ///
    /// Cost: without blob files none; else those behind the synced position are read.
    ///
    /// # Errors
    /// Corruption, if the record is none; the system's.
    pub(super) fn of(&mut self, record: &Record<'_>) -> Result<Option<Error>> {
        if !self.blobs.is_used() {
            return Ok(None);
        }
        lost_value(record, |pointer| self.note(record.at, pointer))
    }

    fn note(&mut self, at: LogPosition, pointer: &BlobPointer) -> Result<()> {
        if at < self.synced {
            return self.blobs.check_place(pointer);
        }
        self.blobs.verify(pointer)?;
        let end = pointer.offset + u64::from(pointer.stored_bytes);
        self.found.push((at, pointer.file, pointer.offset..end));
        Ok(())
    }

    /// The parts of blob files that must be written again, because records at or behind `synced`
    /// point to them.
    pub(super) fn unsynced(&self, synced: LogPosition) -> BTreeMap<FileNumber, Range<u64>> {
        let mut parts: BTreeMap<FileNumber, Range<u64>> = BTreeMap::new();
        for (_, file, part) in self.found.iter().filter(|(at, _, _)| *at >= synced) {
            let whole = parts.entry(*file).or_insert(part.clone());
            *whole = whole.start.min(part.start)..whole.end.max(part.end);
        }
        parts
    }
}

/// Calls `check` with the pointer of each separated value of a record, and returns the first that
/// it finds lost or damaged.
///
/// # Errors
/// Corruption, if the record is none; other errors of `check`.
pub fn lost_value(
    record: &Record<'_>,
    mut check: impl FnMut(&BlobPointer) -> Result<()>,
) -> Result<Option<Error>> {
    let (payload, count) = match record.header.kind {
        RecordKind::Batch => (record.payload, record.header.count),
        RecordKind::FamilyBatch => {
            let (_, operations) = family_batch::split(record.payload)?;
            (operations, record.header.count.saturating_sub(1))
        }
        RecordKind::Decide => {
            (split_decision(record.payload)?.operations, record.header.count.saturating_sub(1))
        }
        // Prepared transactions keep their values up to the decision.
        _ => return Ok(None),
    };
    for operation in operations(payload, count) {
        let operation = operation?;
        if operation.kind != EntryKind::BlobPointer {
            continue;
        }
        let pointer = BlobPointer::decode(operation.payload)?;
        if let Err(error) = check(&pointer) {
            return match error.kind() {
                ErrorKind::Corruption | ErrorKind::NotFound => Ok(Some(error)),
                _ => Err(error),
            };
        }
    }
    Ok(None)
}
