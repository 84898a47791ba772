//! The values that changes of the manifest consist of, each with its bounds.
//!
//! What a change means is not known here. Lists of numbers are written, and each kind of value is
//! read by a function that refuses what no process can have written.

use crate::log::record::{LogPosition, SEGMENT_BYTES_MAX, SEGMENT_ID_MAX};
use siltdb_base::{
    codec::{ByteReader, put_varint},
    error::{Error, Result},
    id::{FamilyId, FileNumber, SegmentId, SequenceNumber},
    limits::{
        FAMILY_IDS_MAX, FAMILY_NAME_BYTES_MAX, FILE_NUMBER_MAX, FILES_BETWEEN_EDITS_MAX, LEVELS,
    },
};

/// Largest `Change::NextFile` of an edit. The numbers that a process gives out before the next
/// edit are still valid file numbers.
pub const NEXT_FILE_MAX: FileNumber = FileNumber(FILE_NUMBER_MAX - FILES_BETWEEN_EDITS_MAX);

pub(super) fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    for &number in numbers {
        put_varint(out, number);
    }
}

pub(super) fn put_position(out: &mut Vec<u8>, position: LogPosition) {
    put_numbers(out, &[position.segment.0, position.offset]);
}

pub(super) fn retention_floor(reader: &mut ByteReader<'_>) -> Result<Option<SequenceNumber>> {
    let floor = reader.varint()?.checked_sub(1).map(SequenceNumber);
    if floor > Some(SequenceNumber::MAX) {
        return Err(Error::corruption("a retention floor exceeds 56 bits"));
    }
    Ok(floor)
}

pub(super) fn family(reader: &mut ByteReader<'_>) -> Result<FamilyId> {
    reader.varint_u32().map(FamilyId)
}

/// The id of a family that is created: one that a process can have given out.
pub(super) fn new_family(reader: &mut ByteReader<'_>) -> Result<FamilyId> {
    let id = family(reader)?;
    if id.0 >= FAMILY_IDS_MAX {
        return Err(Error::corruption("no family has got this id")
            .with_mismatch(format_args!("below {FAMILY_IDS_MAX}"), id));
    }
    Ok(id)
}

pub(super) fn next_family(reader: &mut ByteReader<'_>) -> Result<FamilyId> {
    let next = family(reader)?;
    if next.0 > FAMILY_IDS_MAX {
        return Err(Error::corruption("ids of families are used up")
            .with_mismatch(format_args!("at most {FAMILY_IDS_MAX}"), next));
    }
    Ok(next)
}

/// What may be one more than the id of any segment.
pub(super) fn segments_end(reader: &mut ByteReader<'_>) -> Result<SegmentId> {
    let segment = SegmentId(reader.varint()?);
    if segment.0 > SEGMENT_ID_MAX.0 + 1 {
        return Err(Error::corruption("no such segment")
            .with_mismatch(format_args!("at most {SEGMENT_ID_MAX}"), segment));
    }
    Ok(segment)
}

pub(super) fn position(reader: &mut ByteReader<'_>) -> Result<LogPosition> {
    let position = LogPosition { segment: SegmentId(reader.varint()?), offset: reader.varint()? };
    if position.segment > SEGMENT_ID_MAX || position.offset > SEGMENT_BYTES_MAX {
        let last = LogPosition { segment: SEGMENT_ID_MAX, offset: SEGMENT_BYTES_MAX };
        return Err(Error::corruption("no such position in a log")
            .with_mismatch(format_args!("at most {last}"), position));
    }
    Ok(position)
}

pub(super) fn next_file(reader: &mut ByteReader<'_>) -> Result<FileNumber> {
    let next = FileNumber(reader.varint()?);
    if next > NEXT_FILE_MAX {
        return Err(Error::corruption("file numbers are used up")
            .with_mismatch(format_args!("at most {NEXT_FILE_MAX}"), next));
    }
    Ok(next)
}

pub(super) fn level(reader: &mut ByteReader<'_>) -> Result<u8> {
    let level = reader.u8()?;
    if usize::from(level) >= LEVELS {
        return Err(
            Error::corruption("no such level").with_mismatch(format_args!("below {LEVELS}"), level)
        );
    }
    Ok(level)
}

pub(super) fn name(reader: &mut ByteReader<'_>) -> Result<String> {
    let bytes = reader.bytes()?;
    if bytes.len() > FAMILY_NAME_BYTES_MAX {
        return Err(Error::corruption("family name is too long")
            .with_mismatch(format_args!("at most {FAMILY_NAME_BYTES_MAX}"), bytes.len()));
    }
    match std::str::from_utf8(bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(error) => Err(Error::corruption("family name is not UTF-8").with_source(error)),
    }
}
