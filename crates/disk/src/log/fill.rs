//! Writes records and segment headers to the places that were reserved for them.
//!
//! It reserves nothing and syncs nothing: the caller that fills a place must be the only one there.

use super::{
    record::{
        COUNT_BYTES, LogPosition, PlacedHeader, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordForm,
        RecordHeader,
    },
    segment::{SEGMENT_HEADER_BYTES, SegmentHeader},
};
use siltdb_base::{
    checksum::crc32c_append,
    error::{Error, Result},
    fs::LogFile,
    invariant,
};

/// Most parts of a payload.
pub const PARTS_MAX: usize = 6;

/// Longest body that is put together before it is copied to its place, in bytes.
const SMALL_BYTES_MAX: usize = 488;

/// The same for a buffer on which the compiler writes zeros without a call.
const SHORT_BYTES_MAX: usize = 168;

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
    let count = header.count.to_le_bytes();
    let count =
        if RecordForm::new(header.kind, header.count).has_count() { &count[..] } else { &[] };
    let body_bytes = count.len() + parts.iter().map(|part| part.len()).sum::<usize>();
    if body_bytes <= SHORT_BYTES_MAX {
        let record = &mut [0; RECORD_HEADER_BYTES + SHORT_BYTES_MAX];
        fill_whole(file, at, header, count, parts, record)
    } else if body_bytes <= SMALL_BYTES_MAX {
        let record = &mut [0; RECORD_HEADER_BYTES + SMALL_BYTES_MAX];
        fill_whole(file, at, header, count, parts, record)
    } else {
        fill_in_parts(file, at, header, count, parts, body_bytes)
    }
}

/// Puts a record together in `record`, which is long enough and zero.
#[inline(always)]
fn fill_whole(
    file: &dyn LogFile,
    at: LogPosition,
    header: &RecordHeader,
    count: &[u8],
    parts: &[&[u8]],
    record: &mut [u8],
) -> Result<()> {
    let (head, body) = record.split_first_chunk_mut().expect("a record begins with a header");
    body[..count.len()].copy_from_slice(count);
    let mut used = count.len();
    for part in parts {
        body[used..used + part.len()].copy_from_slice(part);
        used += part.len();
    }
    let checksum = crc32c_append(0, &body[..used]);
    let placed = PlacedHeader::new(at, header, used as u32, checksum);
    *head = placed.encode()?;
    assert!(at.offset >= SEGMENT_HEADER_BYTES as u64, "a record in the header of a segment");
    invariant!(placed.end() <= file.capacity(), "a record beyond its segment: {placed:?}");
    file.fill(at.offset, &[&record[..placed.record_bytes() as usize]])
}

fn fill_in_parts(
    file: &dyn LogFile,
    at: LogPosition,
    header: &RecordHeader,
    count: &[u8],
    parts: &[&[u8]],
    body_bytes: usize,
) -> Result<()> {
    let body_length = u32::try_from(body_bytes).map_err(|_| {
        Error::invalid("log record is too long")
            .with_mismatch(format_args!("at most {}", u32::MAX), body_bytes)
    })?;
    let count_sum = crc32c_append(0, count);
    let checksum = parts.iter().fold(count_sum, |sum, part| crc32c_append(sum, part));
    let placed = PlacedHeader::new(at, header, body_length, checksum);
    let mut head = [0; RECORD_HEADER_BYTES + COUNT_BYTES];
    let head = &mut head[..RECORD_HEADER_BYTES + count.len()];
    head[..RECORD_HEADER_BYTES].copy_from_slice(&placed.encode()?);
    assert!(at.offset >= SEGMENT_HEADER_BYTES as u64, "a record in the header of a segment");
    assert!(placed.end() <= file.capacity(), "a record beyond its segment: {placed:?}");
    head[RECORD_HEADER_BYTES..].copy_from_slice(count);
    let padding = placed.record_bytes() as usize - RECORD_HEADER_BYTES - body_bytes;
    let zeros = [0; RECORD_ALIGNMENT as usize];
    let mut all: [&[u8]; PARTS_MAX + 2] = [&[]; PARTS_MAX + 2];
    all[0] = head;
    all[1..=parts.len()].copy_from_slice(parts);
    all[parts.len() + 1] = &zeros[..padding];
    let all = &all[..parts.len() + 2];
    let bytes: usize = all.iter().map(|part| part.len()).sum();
    assert_eq!(bytes as u64, placed.record_bytes(), "a record that does not fill its place");
    file.fill(at.offset, all)
}

/// Fills the header of a segment at the start of its file, before its first record.
///
/// # Errors
/// `InvalidArgument`, if a position is too large; what [`LogFile::fill`] fails with.
///
/// # Panics
/// If the file has no room for a record.
pub fn fill_segment_header(file: &dyn LogFile, header: &SegmentHeader) -> Result<()> {
    let room = file.capacity();
    assert!(room > SEGMENT_HEADER_BYTES as u64, "a segment of {room} bytes has no records");
    file.fill(0, &[&header.encode()?])
}
