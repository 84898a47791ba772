//! A segment's header: which use of a file this is, and where the log stood when it began.
//!
//! It does not name files: the file of a segment is a slot that is recycled.
//!
//! ```text
//!  0 | magic, 8 bytes: "siltlog" and 0x0a                               |
//!  8 | format version u32 le                                            |
//! 12 | checksum u32 le: CRC-32C of bytes 0..12 and 16..64               |
//! 16 | segment u64 le                                                   |
//! 24 | first sequence number u64 le                                     |
//! 32 | previous segment u64 le (0: none)                                |
//! 40 | synced segment u64 le                                            |
//! 48 | previous end / 8 u32 le                                          |
//! 52 | synced offset / 8 u32 le                                         |
//! 56 | zeros, 8 bytes                                                   |
//! ```
//!
//! Every version keeps magic, version and checksum as they are, so that each can refuse the others.

use super::record::{LogPosition, SEGMENT_ID_MAX, decode_offset, encode_offset, field, wide_field};
use siltdb_base::{
    checksum::crc32c_append,
    error::{Error, ErrorKind, Result},
    fs::File,
    id::{SegmentId, SequenceNumber},
};
use std::path::Path;

/// Length of a segment's header, in bytes: where its first record begins.
pub const SEGMENT_HEADER_BYTES: usize = 64;

/// The version of segments and records that this build writes and reads.
pub const LOG_FORMAT_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"siltlog\n";

/// Low bits of a segment id that are random.
const RANDOM_BITS: u32 = 32;

/// What the first bytes of a segment say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// This use of the file.
    pub id: SegmentId,
    /// The sequence number with which its first record begins.
    pub first_sequence: SequenceNumber,
    /// Where the segment before it ended; [`LogPosition::ZERO`] if there is none.
    pub previous: LogPosition,
    /// Everything before this position was durable when the segment was begun.
    pub synced: LogPosition,
}

impl SegmentHeader {
    /// Where the first record of the segment begins.
    #[must_use]
    pub fn first_record(&self) -> LogPosition {
        LogPosition { segment: self.id, offset: SEGMENT_HEADER_BYTES as u64 }
    }

    /// The header as it lies on disk.
    ///
    /// # Errors
    /// `InvalidArgument`, if a position is no multiple of 8 or too large.
    pub fn encode(&self) -> Result<[u8; SEGMENT_HEADER_BYTES]> {
        assert!(self.is_plausible(), "a segment that would not be read back: {self:?}");
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&LOG_FORMAT_VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.id.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.first_sequence.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.previous.segment.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.synced.segment.0.to_le_bytes());
        out[48..52].copy_from_slice(&encode_offset(self.previous.offset)?.to_le_bytes());
        out[52..56].copy_from_slice(&encode_offset(self.synced.offset)?.to_le_bytes());
        let checksum = checksum(&out);
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }

    /// Reads a header; `None` if `bytes` are none.
    ///
    /// # Errors
    /// `Unsupported`, if they are one of another format version.
    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<Option<Self>> {
        if bytes[..8] != MAGIC || checksum(bytes) != field(bytes, 12) {
            return Ok(None);
        }
        let version = field(bytes, 8);
        if version != LOG_FORMAT_VERSION {
            return Err(Error::new(ErrorKind::Unsupported, "unknown format version of a log")
                .with_mismatch(LOG_FORMAT_VERSION, version));
        }
        let header = Self {
            id: SegmentId(wide_field(bytes, 16)),
            first_sequence: SequenceNumber(wide_field(bytes, 24)),
            previous: LogPosition {
                segment: SegmentId(wide_field(bytes, 32)),
                offset: decode_offset(field(bytes, 48)),
            },
            synced: LogPosition {
                segment: SegmentId(wide_field(bytes, 40)),
                offset: decode_offset(field(bytes, 52)),
            },
        };
        Ok((header.is_plausible() && wide_field(bytes, 56) == 0).then_some(header))
    }

    /// Reads the header at the start of `file`; `None` if there is none.
    ///
    /// # Errors
    /// As [`SegmentHeader::decode`], and what reading fails with.
    pub fn read(file: &dyn File, path: &Path) -> Result<Option<Self>> {
        if file.len() < SEGMENT_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        Self::decode(&bytes).map_err(|error| error.or_file(path).or_offset(0))
    }

    fn is_plausible(&self) -> bool {
        self.id <= SEGMENT_ID_MAX
            && self.previous.segment < self.id
            && self.synced.segment < self.id
            && (self.synced == LogPosition::ZERO || self.synced.offset > 0)
            && self.first_sequence <= SequenceNumber::MAX.next()
    }
}

fn checksum(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> u32 {
    crc32c_append(crc32c_append(0, &bytes[..12]), &bytes[16..])
}

/// The id of a new segment: above `highest`, which is above every id ever used, and not to be
/// guessed from it.
///
/// There are 2^31 - 1 segments in the life of a log; at one a second that is 68 years.
///
/// # Errors
/// Corruption, if they are used up: only a file that claims ids which were never given can bring
/// this about.
pub fn next_segment(highest: SegmentId, random: u32) -> Result<SegmentId> {
    let count = (highest.0 >> RANDOM_BITS) + 1;
    if count > SEGMENT_ID_MAX.0 >> RANDOM_BITS {
        return Err(Error::corruption("segment ids are used up")
            .with_hint("a file of the database claims segments that were never written"));
    }
    Ok(SegmentId(count << RANDOM_BITS | u64::from(random)))
}

/// The bound above every id that was ever used; `highest` is the largest of them.
#[must_use]
pub fn segments_end(highest: SegmentId) -> SegmentId {
    SegmentId(highest.0.min(SEGMENT_ID_MAX.0) + 1)
}

/// The bound above the ids of `count` segments that follow `highest`.
#[must_use]
pub(super) fn segments_within(highest: SegmentId, count: u64) -> SegmentId {
    let last = (highest.0 >> RANDOM_BITS).saturating_add(count);
    SegmentId(last.saturating_add(1).saturating_mul(1 << RANDOM_BITS))
}
