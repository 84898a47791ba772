//! A record's header: where it lies, what it carries, and how far the log was durable.
//!
//! It does not read or write files.
//!
//! ```text
//!  0 | segment u64 le                                                   |
//!  8 | kind u8                                                          |
//!  9 | first sequence number u56 le                                     |
//! 16 | synced segment u64 le                                            |
//! 24 | offset / 8 u32 le: where in the segment this header begins       |
//! 28 | payload length u32 le                                            |
//! 32 | count u32 le: sequence numbers the record takes                  |
//! 36 | synced offset / 8 u32 le                                         |
//! 40 | payload checksum u32 le: CRC-32C of the payload                  |
//! 44 | header checksum u32 le: CRC-32C of the 44 bytes before           |
//! 48 | payload, then zeros up to a multiple of 8                        |
//! ```
//!
//! Zeros are no header: their checksum is not zero, and neither is a kind.

use siltdb_base::{
    checksum::crc32c_append,
    error::{Error, ErrorKind, Result},
    id::{SegmentId, SequenceNumber},
};
use std::fmt;

/// Length of a record's header, in bytes.
pub const RECORD_HEADER_BYTES: usize = 48;

/// Where in a header its offset in the segment stands.
pub(super) const OFFSET_AT: usize = 24;

/// Where in a header the checksum of what precedes it stands.
const CHECKSUM_AT: usize = 44;

/// Records and synced positions lie at multiples of this, in bytes.
pub const RECORD_ALIGNMENT: u64 = 8;

/// Longest segment, in bytes: offsets are stored in units of [`RECORD_ALIGNMENT`] as 32 bits.
pub const SEGMENT_BYTES_MAX: u64 = (1 << 32) * RECORD_ALIGNMENT;

/// The bytes a record takes in its segment: header, payload and what fills up to 8.
#[inline]
#[must_use]
pub const fn record_bytes(payload_bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES as u64 + payload_bytes as u64).next_multiple_of(RECORD_ALIGNMENT)
}

/// A place in the log. Positions order as the bytes were reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The segment.
    pub segment: SegmentId,
    /// The offset in it, in bytes.
    pub offset: u64,
}

impl LogPosition {
    /// Precedes every record: as a synced position it says that nothing is known to be durable.
    pub const ZERO: Self = Self { segment: SegmentId(0), offset: 0 };
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.offset)
    }
}

/// Largest segment id. No file may name a larger one; that each id has one after it is for
/// [`super::segment::next_segment`] to say.
pub const SEGMENT_ID_MAX: SegmentId = SegmentId(u64::MAX >> 1);

/// What a record carries. The numbers lie on disk.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A write batch; `count` is its number of operations.
    Batch = 1,
    /// An edit of the manifest; `count` is 1.
    Edit = 2,
    /// Nothing: `count` sequence numbers were given to operations that are not in the log.
    Skip = 3,
    /// Nothing: the log was closed here. `count` is 0.
    End = 4,
}

impl RecordKind {
    fn from_u8(number: u8) -> Result<Self> {
        Ok(match number {
            1 => Self::Batch,
            2 => Self::Edit,
            3 => Self::Skip,
            4 => Self::End,
            _ => {
                return Err(Error::new(ErrorKind::Unsupported, "unknown kind of log record")
                    .with_mismatch("1..=4", number));
            }
        })
    }
}

impl RecordKind {
    /// Whether a record of this kind can have so large a count and payload.
    fn allows(self, count: u32, payload_bytes: u32) -> bool {
        match self {
            Self::Batch => true,
            Self::Edit => count == 1,
            Self::Skip => payload_bytes == 0,
            Self::End => count == 0 && payload_bytes == 0,
        }
    }
}

/// What the writer says of a record; the rest of its header follows from place and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The sequence number of the first operation, or the one that the next operation will have.
    pub first_sequence: SequenceNumber,
    /// How many sequence numbers the record takes.
    pub count: u32,
    /// What it carries.
    pub kind: RecordKind,
    /// Everything before this position was durable when the record was filled.
    pub synced: LogPosition,
}

impl RecordHeader {
    /// The sequence number with which the next record begins.
    #[inline]
    #[must_use]
    pub fn next_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.first_sequence.0 + u64::from(self.count))
    }
}

/// A header together with what follows from place and payload: all that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedHeader {
    /// Where the record begins.
    pub at: LogPosition,
    /// What the writer said.
    pub header: RecordHeader,
    /// Length of the payload, in bytes.
    pub payload_bytes: u32,
    /// CRC-32C of the payload.
    pub payload_checksum: u32,
}

impl PlacedHeader {
    /// The header as it lies on disk.
    ///
    /// # Errors
    /// `InvalidArgument`, if a position is no multiple of 8 or beyond [`SEGMENT_BYTES_MAX`].
    #[inline]
    pub fn encode(&self) -> Result<[u8; RECORD_HEADER_BYTES]> {
        let Self { at, header, .. } = self;
        debug_assert!(is_plausible(self), "a record that would not be read back: {self:?}");
        // Whole words, so that the checksum reads what was written without waiting for its pieces.
        let words = [
            at.segment.0,
            header.first_sequence.0 << 8 | header.kind as u64,
            header.synced.segment.0,
            two(encode_offset(at.offset)?, self.payload_bytes),
            two(header.count, encode_offset(header.synced.offset)?),
        ];
        let mut out = [0; RECORD_HEADER_BYTES];
        for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out[40..44].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let checksum = crc32c_append(0, &out[..CHECKSUM_AT]);
        out[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }

    /// Reads the header of a record that begins at `offset` of its file, and belongs to `segment`
    /// if that is given; `None` if `bytes` are not such a header, whatever else they are.
    ///
    /// Only who names the segment learns of a kind that is not known: elsewhere a value may have
    /// been written to look like a header, and must not be able to make an error.
    ///
    /// # Errors
    /// `Unsupported`, if they are one of `segment` and of a kind this build does not know.
    #[inline]
    pub fn decode(
        bytes: &[u8; RECORD_HEADER_BYTES],
        offset: u64,
        segment: Option<SegmentId>,
    ) -> Result<Option<Self>> {
        let own = SegmentId(wide_field(bytes, 0));
        if segment.is_some_and(|segment| segment != own)
            || decode_offset(field(bytes, OFFSET_AT)) != offset
            || crc32c_append(0, &bytes[..CHECKSUM_AT]) != field(bytes, CHECKSUM_AT)
        {
            return Ok(None);
        }
        let kind_and_sequence = wide_field(bytes, 8);
        let kind = match RecordKind::from_u8(kind_and_sequence as u8) {
            Err(_) if segment.is_none() => return Ok(None),
            kind => kind?,
        };
        let placed = Self {
            at: LogPosition { segment: own, offset },
            header: RecordHeader {
                first_sequence: SequenceNumber(kind_and_sequence >> 8),
                count: field(bytes, 32),
                kind,
                synced: LogPosition {
                    segment: SegmentId(wide_field(bytes, 16)),
                    offset: decode_offset(field(bytes, 36)),
                },
            },
            payload_bytes: field(bytes, 28),
            payload_checksum: field(bytes, 40),
        };
        Ok(is_plausible(&placed).then_some(placed))
    }

    /// The bytes the record takes in its segment.
    #[inline]
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        record_bytes(self.payload_bytes as usize)
    }

    /// Where the record after this one begins.
    #[inline]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.at.offset + self.record_bytes()
    }
}

/// Whether a header says nothing that a writer cannot have meant.
fn is_plausible(placed: &PlacedHeader) -> bool {
    let header = &placed.header;
    placed.at.segment != SegmentId(0)
        && placed.at.segment <= SEGMENT_ID_MAX
        && header.synced <= placed.at
        && (header.synced == LogPosition::ZERO || header.synced.offset > 0)
        && header.next_sequence() <= SequenceNumber::MAX.next()
        && header.kind.allows(header.count, placed.payload_bytes)
}

#[inline]
fn two(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// An offset in units of [`RECORD_ALIGNMENT`].
#[inline]
pub(super) fn encode_offset(offset: u64) -> Result<u32> {
    if !offset.is_multiple_of(RECORD_ALIGNMENT) {
        return Err(Error::invalid("log offset is no multiple of 8").with_offset(offset));
    }
    u32::try_from(offset / RECORD_ALIGNMENT).map_err(|_| {
        Error::invalid("log segment is too long")
            .with_mismatch(format_args!("at most {SEGMENT_BYTES_MAX}"), offset)
    })
}

/// The offset that [`encode_offset`] encoded, in bytes.
#[inline]
pub(super) fn decode_offset(units: u32) -> u64 {
    u64::from(units) * RECORD_ALIGNMENT
}

/// The 4 bytes at a fixed place of a fixed header.
#[inline]
pub(super) fn field<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the slice has 4 bytes"))
}

/// The 8 bytes at a fixed place of a fixed header.
#[inline]
pub(super) fn wide_field<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the slice has 8 bytes"))
}
