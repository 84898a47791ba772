//! Writes records and segment headers to the places that were reserved for them.
//!
//! It reserves nothing and syncs nothing: who fills a place must be the only one to do so.

use super::{
    record::{LogPosition, PlacedHeader, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader},
    segment::SegmentHeader,
};
use siltdb_base::{
    checksum::crc32c_append,
    error::{Error, Result},
    fs::LogFile,
};

/// Most parts of a payload.
pub const PARTS_MAX: usize = 6;

/// Longest payload that is put together before it is copied to its place, in bytes.
const SMALL_BYTES_MAX: usize = 464;

/// Fills the record whose payload is `parts`, one after the other, into the
/// [`record_bytes`](super::record::record_bytes) reserved at `at`.
///
/// Cost: one pass over the payload for the checksum and one to copy it, no allocation. A small one
/// is put together first: a few large steps cost less than many small ones. Durability on return is
/// that of [`LogFile::fill`].
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
    assert!(parts.len() <= PARTS_MAX, "a payload of too many parts");
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    if payload_bytes > SMALL_BYTES_MAX {
        return fill_in_parts(file, at, header, parts, payload_bytes);
    }
    let mut record = [0; RECORD_HEADER_BYTES + SMALL_BYTES_MAX];
    let (head, payload) = record.split_first_chunk_mut().expect("a record begins with a header");
    let mut used = 0;
    for part in parts {
        payload[used..used + part.len()].copy_from_slice(part);
        used += part.len();
    }
    let placed = PlacedHeader {
        at,
        header: *header,
        payload_bytes: payload_bytes as u32,
        payload_checksum: crc32c_append(0, &payload[..used]),
    };
    *head = placed.encode()?;
    file.fill(at.offset, &[&record[..placed.record_bytes() as usize]])
}

fn fill_in_parts(
    file: &dyn LogFile,
    at: LogPosition,
    header: &RecordHeader,
    parts: &[&[u8]],
    payload_bytes: usize,
) -> Result<()> {
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
