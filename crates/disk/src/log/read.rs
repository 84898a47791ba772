//! Reads one segment: its records in order, up to the first place where none follows.
//!
//! Whether that place is the end of the log, a lost tail or damage is not decided here.

use super::{
    record::{LogPosition, PlacedHeader, RECORD_HEADER_BYTES, RecordHeader, RecordKind},
    segment::SegmentHeader,
    window::Window,
};
use siltdb_base::{
    checksum::crc32c,
    error::{Error, Result},
    fs::File,
    id::{SegmentId, SequenceNumber},
    seeded_fault,
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A record, borrowed from the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it begins.
    pub at: LogPosition,
    /// What its writer said of it.
    pub header: RecordHeader,
    /// What it carries.
    pub payload: &'a [u8],
}

/// Why a segment has no further record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The segment is full, or ends here as its successor says.
    SegmentEnd,
    /// The log was closed here.
    Closed,
    /// Unused space, or bytes that are no header of a record of this segment at this place.
    NoHeader,
    /// A record's header is sound, but the record goes beyond the end of the segment.
    PastEnd,
    /// A record's header is sound, but its payload is not.
    BadPayload,
    /// A record is sound, but does not continue the sequence numbers of the one before it.
    SequenceGap,
    /// A record is sound, but bytes in other files that it refers to are lost.
    NotWhole,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SegmentEnd => "the end of the segment",
            Self::Closed => "the end of the log",
            Self::NoHeader => "no record",
            Self::PastEnd => "a record beyond the end of the segment",
            Self::BadPayload => "a record with a bad checksum",
            Self::SequenceGap => "a gap in the sequence numbers",
            Self::NotWhole => "a record whose separated values are lost",
        })
    }
}

/// Reads the records of one segment in order.
///
/// Memory: one window of 1 MiB, or the longest record if that is longer; never more than the file.
#[derive(Debug)]
pub struct SegmentReader {
    window: Window,
    header: SegmentHeader,
    /// Where the next record begins.
    pub(super) offset: u64,
    /// Where the segment ends.
    pub(super) end: u64,
    pub(super) next_sequence: SequenceNumber,
    pub(super) stop: Option<Stop>,
}

impl SegmentReader {
    /// A reader at the first record of `segment`.
    ///
    /// # Errors
    /// `Corruption`, if the file does not hold this segment; `Unsupported`, if it is of another
    /// format version; what reading fails with.
    pub fn new(file: Arc<dyn File>, path: PathBuf, segment: SegmentId) -> Result<Self> {
        match SegmentHeader::read(&*file, &path)? {
            Some(header) if header.id == segment => Ok(Self::with_header(file, path, header)),
            other => Err(Error::corruption("not the expected log segment")
                .with_file(&path)
                .with_offset(0)
                .with_mismatch(segment, other.map_or(SegmentId(0), |header| header.id))),
        }
    }

    /// A reader at the first record of the segment with this header, which was read from `file`.
    pub(super) fn with_header(file: Arc<dyn File>, path: PathBuf, header: SegmentHeader) -> Self {
        Self {
            end: file.len(),
            window: Window::new(file, path),
            header,
            offset: header.first_record().offset,
            next_sequence: header.first_sequence,
            stop: None,
        }
    }

    /// The same reader, for a segment that is known to end at `offset`.
    #[must_use]
    pub(super) fn ending_at(mut self, offset: u64) -> Self {
        self.end = self.end.min(offset);
        self
    }

    /// The same reader at a record that it would come to, and that begins with `sequence`; it reads
    /// nothing behind `end`. For a segment that is being filled: records that are not published
    /// must not be asked for.
    #[must_use]
    pub fn resumed(mut self, offset: u64, sequence: SequenceNumber, end: u64) -> Self {
        let first = self.header.first_record().offset;
        assert!(offset >= first, "a record at {offset}, before the first at {first}");
        assert!(sequence >= self.header.first_sequence, "a record older than its segment");
        (self.offset, self.next_sequence) = (offset, sequence);
        self.window.end_at(end);
        self.ending_at(end)
    }

    /// The segment's header.
    #[must_use]
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// The segment's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.window.path()
    }

    /// Where the next record begins or, once there is none, would.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        LogPosition { segment: self.header.id, offset: self.offset }
    }

    /// The sequence number with which the next record begins.
    #[must_use]
    pub fn next_sequence(&self) -> SequenceNumber {
        self.next_sequence
    }

    /// Why [`SegmentReader::next`] returned that there is no further record.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// The next record; `None` if none follows, and from then on.
    ///
    /// # Errors
    /// `Unsupported`, if it is of a form this build does not know; what reading fails with.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        if self.stop.is_some() {
            return Ok(None);
        }
        let placed = match self.next_header()? {
            Ok(placed) => placed,
            Err(stop) => {
                self.stop = Some(stop);
                return Ok(None);
            }
        };
        let length = placed.record_bytes() as usize;
        let body = RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + placed.body_bytes as usize;
        let body = &self.window.view(placed.at.offset, length)?[body];
        if !seeded_fault!("skip_checksum") && crc32c(body) != placed.body_checksum {
            self.stop = Some(Stop::BadPayload);
            return Ok(None);
        }
        let (kind, count, payload) = placed.form.split(body);
        let first_sequence = self.next_sequence;
        let header = RecordHeader { first_sequence, count, kind, synced: placed.synced };
        if header.next_sequence() > SequenceNumber::MAX.next() {
            self.stop = Some(Stop::SequenceGap);
            return Ok(None);
        }
        self.offset = placed.end();
        self.next_sequence = header.next_sequence();
        if kind == RecordKind::End {
            self.stop = Some(Stop::Closed);
        }
        Ok(Some(Record { at: placed.at, header, payload }))
    }

    /// The header of the next record, checked against everything but its body.
    fn next_header(&mut self) -> Result<std::result::Result<PlacedHeader, Stop>> {
        let offset = self.offset;
        let left = self.end.saturating_sub(offset);
        if left < RECORD_HEADER_BYTES as u64 {
            return Ok(Err(Stop::SegmentEnd));
        }
        let bytes = self.window.view(offset, RECORD_HEADER_BYTES)?;
        let bytes = bytes.first_chunk().expect("the view is at least as long as asked for");
        let tied = !seeded_fault!("replay_without_segment_id");
        let placed = PlacedHeader::decode(bytes, offset, tied.then_some(self.header.id))
            .map_err(|error| error.or_file(self.window.path()).or_offset(offset))?;
        let Some(placed) = placed else { return Ok(Err(Stop::NoHeader)) };
        Ok(if placed.record_bytes() > left {
            Err(Stop::PastEnd)
        } else if tied && !placed.begins_with(self.next_sequence) {
            Err(Stop::SequenceGap)
        } else {
            Ok(placed)
        })
    }
}
