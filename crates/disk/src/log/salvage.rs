//! Reads a segment that may be damaged: its records in order, and those behind a damage.
//!
//! It does not say whether what is missing was ever durable. A record behind a damage is tied to
//! its segment and place as any other, so no stale bytes are taken for one.

use super::{
    read::{Record, SegmentReader, Stop},
    record::{LogPosition, PlacedHeader, RECORD_ALIGNMENT, RECORD_HEADER_BYTES},
    scan::{HeaderMatch, HeaderSearch, scan_headers},
    segment::SegmentHeader,
};
use siltdb_base::{
    checksum::crc32c,
    codec::resize,
    error::Result,
    fs::File,
    id::{SegmentId, SequenceNumber},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Sequence numbers that a record's header tells apart.
const SEQUENCES: u64 = 1 << 24;

/// What a damage took between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Operations that are wholly lost in the gap, if fewer than 2^24.
    pub operations: u64,
}

/// A segment that may be damaged.
#[derive(Debug)]
pub struct SegmentSalvage {
    file: Arc<dyn File>,
    reader: SegmentReader,
}

impl SegmentSalvage {
    /// The segment with this header, which was read from `file`, up to `end` if it is known to end
    /// there.
    #[must_use]
    pub fn new(
        file: Arc<dyn File>,
        path: PathBuf,
        header: SegmentHeader,
        end: Option<u64>,
    ) -> Self {
        let reader = SegmentReader::with_header(Arc::clone(&file), path, header);
        let reader = match end {
            Some(end) => reader.ending_at(end),
            None => reader,
        };
        Self { file, reader }
    }

    /// The segment `id` in a file whose first bytes are lost. Its records begin behind
    /// `first_sequence`, and before 2^24 more.
    #[must_use]
    pub fn without_header(
        file: Arc<dyn File>,
        path: PathBuf,
        id: SegmentId,
        first_sequence: SequenceNumber,
    ) -> Self {
        let nothing = LogPosition::ZERO;
        let header = SegmentHeader { id, first_sequence, previous: nothing, synced: nothing };
        Self::new(file, path, header, None)
    }

    /// The next record; `None` if none follows without a gap.
    ///
    /// # Errors
    /// The errors of [`SegmentReader::next`].
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        self.reader.next()
    }

    /// Where the next record begins, or would.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        self.reader.position()
    }

    /// The sequence number with which the next record begins.
    #[must_use]
    pub fn next_sequence(&self) -> SequenceNumber {
        self.reader.next_sequence()
    }

    /// After [`SegmentSalvage::next`] found no further record: goes on to the next record of this
    /// segment that verifies, if there is one. Says what lies between.
    ///
    /// # Errors
    /// The errors of [`SegmentReader::next`].
    pub fn resume(&mut self) -> Result<Option<Gap>> {
        let from = match self.reader.stop {
            None | Some(Stop::Closed) => return Ok(None),
            Some(Stop::SequenceGap) => self.reader.offset,
            Some(_) => self.reader.offset + RECORD_ALIGNMENT,
        };
        let mut found = None;
        let (file, end) = (Arc::clone(&self.file), self.reader.end);
        let search = HeaderSearch { segment: Some(self.reader.header().id), offset: from };
        scan_headers(&self.file, self.reader.path(), search, &mut |placed| {
            if placed.end() <= end && has_body(&*file, placed) {
                found = Some(*placed);
                return HeaderMatch::Enough;
            }
            // Its body is damaged, or a header in it is whole by chance: that of a later record.
            HeaderMatch::Stale
        })?;
        let Some(placed) = found else { return Ok(None) };
        let expected = self.reader.next_sequence.0;
        let operations = u64::from(placed.sequence_bits).wrapping_sub(expected) % SEQUENCES;
        let gap = Gap { offset: self.reader.offset, operations };
        self.reader.offset = placed.at.offset;
        self.reader.next_sequence = SequenceNumber(expected + operations);
        self.reader.stop = None;
        Ok(Some(gap))
    }
}

/// The segment of the first record in `file` that verifies and whose segment `is_live`: for a file
/// whose first bytes are no header.
///
/// # Errors
/// What reading fails with.
pub fn segment_of_records(
    file: &Arc<dyn File>,
    path: &Path,
    is_live: &dyn Fn(SegmentId) -> bool,
) -> Result<Option<SegmentId>> {
    let mut found = None;
    scan_headers(file, path, HeaderSearch { segment: None, offset: 0 }, &mut |placed| {
        if is_live(placed.at.segment) && has_body(&**file, placed) {
            found = Some(placed.at.segment);
            return HeaderMatch::Enough;
        }
        HeaderMatch::Stale
    })?;
    Ok(found)
}

/// Whether the body behind a header is the one that it was made for.
fn has_body(file: &dyn File, placed: &PlacedHeader) -> bool {
    let start = placed.at.offset + RECORD_HEADER_BYTES as u64;
    let bytes = u64::from(placed.body_bytes);
    if start + bytes > file.len() {
        return false;
    }
    let mut body = Vec::new();
    resize(&mut body, placed.body_bytes as usize).is_ok()
        && file.read_exact_at(&mut body, start).is_ok()
        && crc32c(&body) == placed.body_checksum
}
