//! A record's header: where it lies, what it carries, and how far the log was durable.
//!
//! It does not read or write files.
//!
//! ```text
//!  0 | form, 4 bits: what follows the header; back, 4 bits: see synced offset               |
//!  1 | first sequence number, its low 24 bits, le                                           |
//!  4 | segment, its low 32 bits, le                                                         |
//!  8 | body length u32 le                                                                   |
//! 12 | synced offset / 8 u32 le, in the segment that was `back` before; 0: nothing is said   |
//! 16 | body checksum u32 le: CRC-32C of the body                                            |
//! 20 | header checksum u32 le                                                               |
//! 24 | body: count u32 le, if the form has one, and payload; zeros up to a multiple of 8    |
//! ```
//!
//! The header checksum ties a header to its place. It is the CRC-32C of the header, XOR the high 32
//! bits of the segment. In the place of the checksum stands the offset in the segment / 8. So both
//! need no bytes of their own, and a reader that knows the offset can tell the segment of a header.
//!
//! Zeros are no header: no form is zero.

use siltdb_base::{
    checksum::crc32c_append,
    error::{Error, ErrorKind, Result},
    id::{SegmentId, SequenceNumber},
    invariant,
    limits::BATCH_BYTES_MAX,
};
use std::fmt;

/// Length of a record's header, in bytes.
pub const RECORD_HEADER_BYTES: usize = 24;

/// Length of the count in front of some payloads, in bytes.
pub(super) const COUNT_BYTES: usize = 4;

const _: () = assert!(BATCH_BYTES_MAX + COUNT_BYTES <= u32::MAX as usize);

/// Where in a header the low half of the segment's id stands.
pub(super) const SEGMENT_AT: usize = 4;

/// Where in a header its checksum stands.
const CHECKSUM_AT: usize = 20;

/// The bits of a header's first byte that are its form; the others are `back`.
const FORM_BITS: u32 = 4;

/// Most segments back for which a record can say how far they were synced.
const BACK_MAX: u8 = u8::MAX >> FORM_BITS;

/// Records and synced positions lie at multiples of this, in bytes.
pub const RECORD_ALIGNMENT: u64 = 8;

/// Longest segment, in bytes: offsets are stored in units of [`RECORD_ALIGNMENT`] as 32 bits.
pub const SEGMENT_BYTES_MAX: u64 = (1 << 32) * RECORD_ALIGNMENT;

/// The bytes a record takes in its segment: header, body and what fills up to 8.
#[inline]
#[must_use]
pub const fn record_bytes(kind: RecordKind, count: u32, payload_bytes: usize) -> u64 {
    let count_bytes = if RecordForm::new(kind, count).has_count() { COUNT_BYTES } else { 0 };
    bytes_of(count_bytes as u64 + payload_bytes as u64)
}

/// The bytes a record with such a body takes.
const fn bytes_of(body_bytes: u64) -> u64 {
    (RECORD_HEADER_BYTES as u64 + body_bytes).next_multiple_of(RECORD_ALIGNMENT)
}

/// A place in the log. Positions order as the bytes were reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The segment that holds the position.
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

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A write batch; `count` is its number of operations.
    Batch,
    /// An edit of the manifest; `count` is 1.
    Edit,
    /// Nothing: `count` sequence numbers were given to operations that are not in the log.
    Skip,
    /// Nothing: the log was closed here. `count` is 0.
    End,
    /// Nothing: the place was reserved for a batch of `count` operations that failed after that.
    /// It has the length of that batch, and its payload means nothing.
    Void,
    /// A [batch with changes of families](crate::family_batch); `count` is one more than its number
    /// of operations, because the changes take the first sequence number.
    FamilyBatch,
    /// A [prepared transaction](crate::prepared); `count` is 1.
    Prepare,
    /// The [decision](crate::prepared) about one; `count` is one more than its number of
    /// operations, because the decision takes the first sequence number.
    Decide,
}

/// How a record's body is to be read. The numbers lie on disk.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RecordForm {
    /// A batch of one operation.
    Single = 1,
    /// An edit of the manifest.
    Edit = 2,
    /// A count of sequence numbers that are passed over.
    Skip = 3,
    /// No body: the end mark of a closed log.
    End = 4,
    /// A count `n`, and a batch of `n` operations.
    Batch = 5,
    /// Anything, as long as a batch of one operation.
    SingleVoid = 6,
    /// A count `n`, and any bytes, as many as a batch of `n` operations.
    Void = 7,
    /// A prepared transaction.
    Prepare = 8,
    /// A count, and the decision about a prepared transaction.
    Decide = 9,
    /// A count, and a batch with changes of families.
    FamilyBatch = 10,
}

impl RecordForm {
    pub(super) const fn new(kind: RecordKind, count: u32) -> Self {
        match kind {
            RecordKind::Batch if count == 1 => Self::Single,
            RecordKind::Batch => Self::Batch,
            RecordKind::Edit => Self::Edit,
            RecordKind::Skip => Self::Skip,
            RecordKind::End => Self::End,
            RecordKind::Void if count == 1 => Self::SingleVoid,
            RecordKind::Void => Self::Void,
            RecordKind::FamilyBatch => Self::FamilyBatch,
            RecordKind::Prepare => Self::Prepare,
            RecordKind::Decide => Self::Decide,
        }
    }

    fn from_u8(number: u8) -> Result<Self> {
        Ok(match number {
            1 => Self::Single,
            2 => Self::Edit,
            3 => Self::Skip,
            4 => Self::End,
            5 => Self::Batch,
            6 => Self::SingleVoid,
            7 => Self::Void,
            8 => Self::Prepare,
            9 => Self::Decide,
            10 => Self::FamilyBatch,
            _ => return Err(unknown_form(number)),
        })
    }

    /// Whether the body begins with the count.
    pub(super) const fn has_count(self) -> bool {
        matches!(self, Self::Skip | Self::Batch | Self::Void | Self::Decide | Self::FamilyBatch)
    }

    /// Whether a body can be so long.
    fn allows(self, body_bytes: u32) -> bool {
        match self {
            Self::Single | Self::Edit | Self::SingleVoid | Self::Prepare => true,
            Self::Skip => body_bytes == COUNT_BYTES as u32,
            Self::End => body_bytes == 0,
            Self::Batch | Self::Void | Self::Decide | Self::FamilyBatch => {
                body_bytes >= COUNT_BYTES as u32
            }
        }
    }

    /// The kind, the count and the payload of a body of this form, which must be so long as
    /// [`RecordForm::allows`].
    pub(super) fn split(self, body: &[u8]) -> (RecordKind, u32, &[u8]) {
        let with_count = |kind| {
            let (count, payload) = body.split_first_chunk().expect("a count that is there");
            (kind, u32::from_le_bytes(*count), payload)
        };
        match self {
            Self::Single => (RecordKind::Batch, 1, body),
            Self::Edit => (RecordKind::Edit, 1, body),
            Self::Skip => with_count(RecordKind::Skip),
            Self::End => (RecordKind::End, 0, body),
            Self::Batch => with_count(RecordKind::Batch),
            Self::SingleVoid => (RecordKind::Void, 1, body),
            Self::Void => with_count(RecordKind::Void),
            Self::FamilyBatch => with_count(RecordKind::FamilyBatch),
            Self::Prepare => (RecordKind::Prepare, 1, body),
            Self::Decide => with_count(RecordKind::Decide),
        }
    }
}

#[cold]
fn unknown_form(number: u8) -> Error {
    let message = "the log has a record of a later version, which this version cannot read";
    Error::new(ErrorKind::Unsupported, message)
        .with_mismatch("forms 1..=10", number)
        .with_hint("open it with the version that wrote it")
}

/// How far the log was durable, as a record says it: up to an offset of its segment, or of one not
/// long before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// How many segments before the record's, by the counts in their ids.
    pub(super) back: u8,
    /// The offset in it, in bytes; 0 if nothing is said.
    pub(super) offset: u64,
}

impl Synced {
    /// Nothing is said beyond what the headers of segments say.
    pub const UNSAID: Self = Self { back: 0, offset: 0 };

    /// What a record of `segment` can say of `position`, which must not be behind it: all, unless
    /// it is 16 or more segments back.
    #[inline]
    #[must_use]
    pub fn new(position: LogPosition, segment: SegmentId) -> Self {
        let back = halves(segment).1.saturating_sub(halves(position.segment).1);
        match u8::try_from(back) {
            Ok(back @ 0..=BACK_MAX) if position.offset > 0 => {
                Self { back, offset: position.offset }
            }
            _ => Self::UNSAID,
        }
    }

    /// The position that this stands for in a record of `segment`, if its segment is `segment` or
    /// among `known`. The id of a lost segment is not known, only its place in the order.
    #[must_use]
    pub fn position(self, segment: SegmentId, known: &[SegmentId]) -> LogPosition {
        let Self { back, offset } = self;
        if offset == 0 {
            return LogPosition::ZERO;
        }
        if back == 0 {
            return LogPosition { segment, offset };
        }
        let count = halves(segment).1.saturating_sub(u32::from(back));
        let found = known.iter().find(|id| halves(**id).1 == count);
        let lost = SegmentId(two(0, count));
        LogPosition { segment: found.copied().unwrap_or(lost), offset }
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
    /// Everything before this was durable when the record was filled.
    pub synced: Synced,
}

impl RecordHeader {
    /// The sequence number with which the next record begins.
    #[inline]
    #[must_use]
    pub fn next_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.first_sequence.0 + u64::from(self.count))
    }
}

/// A header and where it lies: all that its bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedHeader {
    /// Where the record begins.
    pub at: LogPosition,
    /// How its body is to be read.
    pub form: RecordForm,
    /// The low 24 bits of its first sequence number.
    pub sequence_bits: u32,
    /// How far the log was durable.
    pub synced: Synced,
    /// Length of the body, in bytes.
    pub body_bytes: u32,
    /// CRC-32C of the body.
    pub body_checksum: u32,
}

impl PlacedHeader {
    /// The header of a record with this body.
    #[inline]
    pub(super) fn new(
        at: LogPosition,
        header: &RecordHeader,
        body_bytes: u32,
        body_checksum: u32,
    ) -> Self {
        Self {
            at,
            form: RecordForm::new(header.kind, header.count),
            sequence_bits: sequence_bits(header.first_sequence),
            synced: header.synced,
            body_bytes,
            body_checksum,
        }
    }

    /// The header as it lies on disk.
    ///
    /// # Errors
    /// `InvalidArgument`, if an offset is no multiple of 8 or beyond [`SEGMENT_BYTES_MAX`].
    #[inline]
    pub(super) fn encode(&self) -> Result<[u8; RECORD_HEADER_BYTES]> {
        invariant!(is_plausible(self), "a record that would not be read back: {self:?}");
        let Synced { back, offset: synced } = self.synced;
        let (segment_low, segment_high) = halves(self.at.segment);
        let form = u32::from(self.form as u8 | back << FORM_BITS);
        // Whole words, so that the checksum reads what was written without waiting for its pieces.
        let words = [
            two(form | self.sequence_bits << 8, segment_low),
            two(self.body_bytes, encode_offset(synced)?),
            two(self.body_checksum, encode_offset(self.at.offset)?),
        ];
        let mut out = [0; RECORD_HEADER_BYTES];
        for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let checksum = crc32c_append(0, &out) ^ segment_high;
        out[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }

    /// Reads the header of a record that begins at `offset` of its file, and belongs to `segment`
    /// if that is given. `None` if `bytes` are no such header, whatever else they are.
    ///
    /// If it is not given, the caller has to judge whether the segment that is returned exists. Any
    /// bytes that look like a header are one of some segment.
    ///
    /// Only a caller that names the segment gets an error for an unknown form. Elsewhere a value
    /// may have been written to look like a header, and must not be able to make an error.
    ///
    /// # Errors
    /// `Unsupported`, if they are one of `segment` and of a form this build does not know.
    #[inline]
    pub(super) fn decode(
        bytes: &[u8; RECORD_HEADER_BYTES],
        offset: u64,
        segment: Option<SegmentId>,
    ) -> Result<Option<Self>> {
        let segment_low = field(bytes, SEGMENT_AT);
        if segment.is_some_and(|segment| halves(segment).0 != segment_low) {
            return Ok(None);
        }
        let mut placed = *bytes;
        placed[CHECKSUM_AT..].copy_from_slice(&encode_offset(offset)?.to_le_bytes());
        let segment_high = crc32c_append(0, &placed) ^ field(bytes, CHECKSUM_AT);
        let own = SegmentId(two(segment_low, segment_high));
        if segment.is_some_and(|segment| segment != own) {
            return Ok(None);
        }
        let form = match RecordForm::from_u8(form_bits(bytes)) {
            Err(_) if segment.is_none() => return Ok(None),
            form => form?,
        };
        let synced =
            Synced { back: bytes[0] >> FORM_BITS, offset: decode_offset(field(bytes, 12)) };
        let placed = Self {
            at: LogPosition { segment: own, offset },
            form,
            sequence_bits: field(bytes, 0) >> 8,
            synced,
            body_bytes: field(bytes, 8),
            body_checksum: field(bytes, 16),
        };
        Ok(is_plausible(&placed).then_some(placed))
    }

    /// Whether `sequence` can be the record's first sequence number.
    #[inline]
    pub(super) fn begins_with(&self, sequence: SequenceNumber) -> bool {
        self.sequence_bits == sequence_bits(sequence)
    }

    /// The bytes the record takes in its segment.
    #[inline]
    pub(super) fn record_bytes(&self) -> u64 {
        bytes_of(self.body_bytes.into())
    }

    /// Where the record after this one begins.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.at.offset + self.record_bytes()
    }
}

/// Whether a header begins with a form that is known.
#[inline]
pub(super) fn has_known_form(header: &[u8; RECORD_HEADER_BYTES]) -> bool {
    (RecordForm::Single as u8..=RecordForm::FamilyBatch as u8).contains(&form_bits(header))
}

#[inline]
fn form_bits(header: &[u8; RECORD_HEADER_BYTES]) -> u8 {
    header[0] & ((1 << FORM_BITS) - 1)
}

/// Whether a header says nothing that a writer cannot have meant.
fn is_plausible(placed: &PlacedHeader) -> bool {
    placed.at.segment != SegmentId(0)
        && placed.at.segment <= SEGMENT_ID_MAX
        && match placed.synced {
            Synced { back: 0, offset } => offset <= placed.at.offset,
            Synced { back, offset } => offset > 0 && u32::from(back) <= halves(placed.at.segment).1,
        }
        && placed.form.allows(placed.body_bytes)
}

/// What a header holds of a sequence number.
#[inline]
fn sequence_bits(sequence: SequenceNumber) -> u32 {
    sequence.0 as u32 & 0x00ff_ffff
}

/// The low and the high half of a segment's id.
#[inline]
pub(super) fn halves(segment: SegmentId) -> (u32, u32) {
    (segment.0 as u32, (segment.0 >> 32) as u32)
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
