//! Writes records and segment headers to the places that were reserved for them.
//!
//! It reserves nothing and syncs nothing: who fills a place must be the only one to do so.

use super::{
    record::{LogPosition, PlacedHeader, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader},
    segment::SegmentHeader,
};
use siltdb_base::{
    checksum::{crc32c, crc32c_append},
    error::{Error, Result},
    fs::LogFile,
};

/// Most parts of a payload.
pub const PARTS_MAX: usize = 6;

/// Records up to this length are put together on the stack and filled in one piece.
const SHORT_BYTES_MAX: usize = 512;

/// Fills the record whose payload is `parts`, one after the other, into the
/// [`record_bytes`](super::record::record_bytes) reserved at `at`.
///
/// Cost: one pass over the payload for the checksum and one to copy it; no allocation. Durability on
/// return is that of [`LogFile::fill`].
///
/// # Errors
/// `InvalidArgument`, if the payload or the offset is too large; what [`LogFile::fill`] fails with.
///
/// # Panics
/// If there are more than [`PARTS_MAX`] parts.
#[inline]
pub fn fill_record(
    file: &dyn LogFile,
    at: LogPosition,
    header: &RecordHeader,
    parts: &[&[u8]],
) -> Result<()> {
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    if RECORD_HEADER_BYTES + payload_bytes <= SHORT_BYTES_MAX {
        fill_short(file, at, header, parts)
    } else {
        fill_long(file, at, header, parts)
    }
}

/// Copies the payload behind its header first: one call each for checksum and fill is cheaper
/// than one for each part, as long as the copy is short.
fn fill_short(
    file: &dyn LogFile,
    at: LogPosition,
    header: &RecordHeader,
    parts: &[&[u8]],
) -> Result<()> {
    let mut record = [0; SHORT_BYTES_MAX];
    let mut end = RECORD_HEADER_BYTES;
    for part in parts {
        record[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let payload = &record[RECORD_HEADER_BYTES..end];
    let placed = PlacedHeader {
        at,
        header: *header,
        payload_bytes: payload.len() as u32,
        payload_checksum: crc32c(payload),
    };
    record[..RECORD_HEADER_BYTES].copy_from_slice(&placed.encode()?);
    file.fill(at.offset, &[&record[..end.next_multiple_of(RECORD_ALIGNMENT as usize)]])
}

fn fill_long(
    file: &dyn LogFile,
    at: LogPosition,
    header: &RecordHeader,
    parts: &[&[u8]],
) -> Result<()> {
    assert!(parts.len() <= PARTS_MAX, "a payload of too many parts");
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let placed = PlacedHeader {
        at,
        header: *header,
        payload_bytes: u32::try_from(payload_bytes).map_err(|_| {
            Error::invalid("log record is too long")
                .with_mismatch(format_args!("at most {}", u32::MAX), payload_bytes)
        })?,
        payload_checksum: parts.iter().fold(0, |sum, part| crc32c_append(sum, part)),
    };
    let header_bytes = placed.encode()?;
    let padding = placed.record_bytes() as usize - RECORD_HEADER_BYTES - payload_bytes;
    let zeros = [0; RECORD_ALIGNMENT as usize];
    let mut all: [&[u8]; PARTS_MAX + 2] = [&[]; PARTS_MAX + 2];
    all[0] = &header_bytes;
    all[1..=parts.len()].copy_from_slice(parts);
    all[parts.len() + 1] = &zeros[..padding];
    file.fill(at.offset, &all[..parts.len() + 2])
}

/// Fills the header of a segment at the start of its file, before its first record.
///
/// # Errors
/// `InvalidArgument`, if a position is too large; what [`LogFile::fill`] fails with.
pub fn fill_segment_header(file: &dyn LogFile, header: &SegmentHeader) -> Result<()> {
    file.fill(0, &[&header.encode()?])
}
