//! The wrapping of every block on disk: what it is, how long it is raw, and its checksum.
//!
//! It does not know what the blocks hold.
//!
//! ```text
//! | kind u8 | codec u8 | raw length varint | payload length varint | payload | checksum u32 le |
//! ```
//!
//! The checksum is `CRC-32C(everything before it) + mix(table uid, offset)` modulo 2^32. The offset
//! is that of the frame from the start of its table, and
//!
//! ```text
//! mix(uid, offset): x = uid + offset * 0x9e3779b97f4a7c15      (all modulo 2^64)
//!                   x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
//!                   x = (x ^ (x >> 27)) * 0x94d049bb133111eb
//!                   the upper 32 bits of x ^ (x >> 31)
//! ```
//!
//! So a frame is wrong in another table and at another offset. Yet it can be moved to another place
//! without touching its payload, if both places are known.

use crate::compress::{Codec, Compressor};
use crate::options::DICTIONARY_BYTES;
use crate::zstd::Dictionary;
use siltdb_base::{
    checksum::{bad_checksum, crc32c, crc32c_append},
    codec::{ByteReader, VARINT_BYTES_MAX, put_varint, resize},
    error::{Error, Result},
    id::TableUid,
    invariant,
    limits::{
        COMPRESSED_TOMBSTONES_BYTES_MAX, DATA_FRAME_BYTES_MAX, INDEX_FRAME_BYTES_MAX,
        NODE_BYTES_MAX, PROPERTIES_BYTES_MAX,
    },
    seeded_fault,
};
use std::ops::Range;

/// What a frame holds. The numbers lie on disk.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Entries of a table.
    Data = 1,
    /// A part of the index of a table.
    Index = 2,
    /// The filter of a table.
    Filter = 3,
    /// The range tombstones of a table.
    RangeTombstones = 4,
    /// The properties of a table.
    Properties = 5,
    /// A node of the index of a B+tree table.
    Node = 6,
    /// The dictionary of a table.
    Dictionary = 7,
}

impl FrameKind {
    /// Most raw bytes that a frame of this kind holds with `codec`.
    ///
    /// It bounds what a few damaged or hostile bytes can make a reader allocate.
    #[must_use]
    pub fn raw_bytes_max(self, codec: Codec) -> usize {
        match (self, codec) {
            (Self::Index, _) => INDEX_FRAME_BYTES_MAX,
            (Self::Node, _) => NODE_BYTES_MAX,
            (Self::Properties, _) => PROPERTIES_BYTES_MAX,
            (Self::Dictionary, _) => *DICTIONARY_BYTES.end() as usize,
            (Self::Data | Self::Filter | Self::RangeTombstones, Codec::Raw) => RAW_BYTES_MAX,
            (Self::RangeTombstones, _) => COMPRESSED_TOMBSTONES_BYTES_MAX,
            (Self::Data | Self::Filter, _) => RAW_BYTES_MAX,
        }
    }

    /// Longest frame of this kind, in bytes. A compressed payload is shorter than its raw bytes.
    #[must_use]
    pub fn frame_bytes_max(self) -> u64 {
        (self.raw_bytes_max(Codec::Raw) + FRAME_OVERHEAD_BYTES_MAX) as u64
    }

    /// Whether the writer compresses frames of this kind, if it is told to compress.
    fn may_be_compressed(self) -> bool {
        match self {
            Self::Data | Self::Index | Self::RangeTombstones => true,
            Self::Filter | Self::Properties | Self::Node | Self::Dictionary => false,
        }
    }
}

/// Where a frame lies: the checksum is bound to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// The table that the frame belongs to.
    pub table: TableUid,
    /// Offset of the frame from the start of the table, in bytes.
    pub offset: u64,
}

/// Longest raw block of any kind, in bytes; [`FrameKind::raw_bytes_max`] tells each kind's.
pub const RAW_BYTES_MAX: usize = DATA_FRAME_BYTES_MAX;

/// Most bytes a frame takes beyond its payload.
pub const FRAME_OVERHEAD_BYTES_MAX: usize = 2 + 2 * VARINT_BYTES_MAX + CHECKSUM_BYTES;

/// No frame is shorter, in bytes: kind, codec, two lengths, checksum.
pub const FRAME_BYTES_MIN: u64 = (4 + CHECKSUM_BYTES) as u64;

/// What a frame ends with.
pub const CHECKSUM_BYTES: usize = 4;

/// A frame that was verified.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// How the payload is encoded.
    pub codec: Codec,
    /// The bytes it decodes to.
    pub raw_bytes: usize,
    /// The payload, perhaps compressed.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Verifies that `bytes` are a frame of `kind` written for `place`.
    ///
    /// # Errors
    /// Corruption, if they are not; `Unsupported`, if its codec is unknown.
    pub fn open(bytes: &'a [u8], kind: FrameKind, place: FramePlace) -> Result<Self> {
        verify_checksum(bytes, place)?;
        Self::open_verified(bytes, kind)
    }

    /// The same for bytes that were verified before: the checksum is left out.
    ///
    /// # Errors
    /// As [`Frame::open`], but for the checksum.
    pub fn open_verified(bytes: &'a [u8], kind: FrameKind) -> Result<Self> {
        let Some((covered, _)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(too_short(bytes));
        };
        let mut reader = ByteReader::new(covered);
        let found = reader.u8()?;
        if found != kind as u8 {
            return Err(Error::corruption("wrong frame kind").with_mismatch(kind as u8, found));
        }
        let codec = Codec::from_u8(reader.u8()?)?;
        if codec != Codec::Raw && !kind.may_be_compressed() {
            return Err(Error::corruption("compressed frame of a kind that never is")
                .with_mismatch(Codec::Raw as u8, codec as u8));
        }
        let raw_bytes = reader.varint()?;
        let payload = reader.bytes()?;
        if !reader.is_empty() {
            return Err(Error::corruption("bytes after a frame's payload"));
        }
        let most = kind.raw_bytes_max(codec) as u64;
        let most = codec.raw_bytes_max(payload.len() as u64).min(most);
        let raw_bytes = usize::try_from(raw_bytes)
            .ok()
            .filter(|&raw_bytes| raw_bytes as u64 <= most)
            .ok_or_else(|| {
                Error::corruption("raw length of a frame too large").with_mismatch(most, raw_bytes)
            })?;
        if codec == Codec::Raw && raw_bytes != payload.len() {
            return Err(Error::corruption("raw length of a frame is not its payload's")
                .with_mismatch(payload.len(), raw_bytes));
        }
        Ok(Self { codec, raw_bytes, payload })
    }

    /// What the frame at the front of `bytes` says of its codec, unverified.
    #[must_use]
    pub fn codec_of(bytes: &[u8]) -> Option<Codec> {
        Codec::from_u8(*bytes.get(1)?).ok()
    }

    /// Where its payload lies, if the frame ends at `end`.
    #[must_use]
    pub fn payload_place(&self, end: usize) -> Range<usize> {
        let payload_end = end - CHECKSUM_BYTES;
        payload_end - self.payload.len()..payload_end
    }

    /// The raw bytes: decoded over the contents of `buffer`, or the payload itself. A payload of
    /// Zstandard may need the `dictionary` of its table.
    ///
    /// # Errors
    /// Corruption, if the payload does not decode to the stated length.
    pub fn decode<'b>(
        &self,
        dictionary: Option<&Dictionary>,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        if self.codec == Codec::Raw {
            return Ok(self.payload);
        }
        self.codec.decode(self.payload, dictionary, self.raw_bytes, buffer)?;
        Ok(buffer)
    }

    /// The raw bytes, decoded or copied over the contents of `buffer`, and `padding_bytes` zeros.
    ///
    /// # Errors
    /// The errors of [`Frame::decode`].
    pub fn decode_padded<'b>(
        &self,
        dictionary: Option<&Dictionary>,
        padding_bytes: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        self.codec.decode(self.payload, dictionary, self.raw_bytes, buffer)?;
        resize(buffer, self.raw_bytes + padding_bytes)?;
        Ok(buffer)
    }
}

/// Appends the frame of `raw` for `place` to `out`.
///
/// # Panics
/// If `raw` is longer than a frame of `kind` may be: the limits on keys and values rule that out.
/// If `compressor` compresses what is never compressed.
pub fn seal(
    kind: FrameKind,
    place: FramePlace,
    raw: &[u8],
    compressor: &mut Compressor,
    out: &mut Vec<u8>,
) {
    let most = kind.raw_bytes_max(Codec::Raw);
    assert!(raw.len() <= most, "a {kind:?} frame of {} bytes", raw.len());
    let (codec, payload) = match raw.len() <= kind.raw_bytes_max(Codec::Lz4) {
        true => compressor.compress(raw),
        false => (Codec::Raw, raw),
    };
    assert!(codec == Codec::Raw || kind.may_be_compressed(), "a compressed {kind:?} frame");
    assert!(payload.len() <= raw.len(), "a compressed {kind:?} frame that is longer");
    out.reserve(payload.len() + FRAME_OVERHEAD_BYTES_MAX);
    let start = out.len();
    out.extend_from_slice(&[kind as u8, codec as u8]);
    put_varint(out, raw.len() as u64);
    put_varint(out, payload.len() as u64);
    out.extend_from_slice(payload);
    let checksum = crc32c(&out[start..]).wrapping_add(mix(place));
    out.extend_from_slice(&checksum.to_le_bytes());
    let sealed = &out[start..];
    assert!(sealed.len() as u64 <= kind.frame_bytes_max(), "a frame that no reader accepts");
    invariant!(
        Frame::open(sealed, kind, place).is_ok_and(|frame| frame.raw_bytes == raw.len()),
        "a frame at {place:?} that does not open where it lies"
    );
}

/// What surrounds the raw bytes in a frame that is not compressed.
#[derive(Debug)]
pub struct Envelope {
    /// What comes before them.
    pub head: Vec<u8>,
    /// What follows them.
    pub checksum: [u8; CHECKSUM_BYTES],
}

/// The same as [`seal`] without compression, for raw bytes that lie in pieces and are not copied.
///
/// # Panics
/// Where [`seal`] does.
#[must_use]
pub fn enclose(kind: FrameKind, place: FramePlace, raw: &[&[u8]]) -> Envelope {
    let raw_bytes: usize = raw.iter().map(|piece| piece.len()).sum();
    let most = kind.raw_bytes_max(Codec::Raw);
    assert!(raw_bytes <= most, "a {kind:?} frame of {raw_bytes} bytes");
    let mut head = vec![kind as u8, Codec::Raw as u8];
    put_varint(&mut head, raw_bytes as u64);
    put_varint(&mut head, raw_bytes as u64);
    let sum = raw.iter().fold(crc32c(&head), |sum, piece| crc32c_append(sum, piece));
    Envelope { head, checksum: sum.wrapping_add(mix(place)).to_le_bytes() }
}

/// The checksum of a verified frame if it is moved from one place to another: nothing else changes.
///
/// # Panics
/// If `frame` is shorter than a checksum, which no verified frame is.
#[must_use]
pub fn moved_checksum(frame: &[u8], from: FramePlace, to: FramePlace) -> [u8; CHECKSUM_BYTES] {
    let checksum = frame.last_chunk::<CHECKSUM_BYTES>().expect("a verified frame has one");
    let moved = u32::from_le_bytes(*checksum).wrapping_sub(mix(from)).wrapping_add(mix(to));
    moved.to_le_bytes()
}

fn verify_checksum(bytes: &[u8], place: FramePlace) -> Result<()> {
    let Some((covered, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(too_short(bytes));
    };
    // The suite must notice an engine that does not check: this is that engine.
    if seeded_fault!("skip_checksum") {
        return Ok(());
    }
    let found = crc32c(covered).wrapping_add(mix(place));
    let expected = u32::from_le_bytes(*checksum);
    if found != expected {
        return Err(bad_checksum("bad checksum", expected, found));
    }
    Ok(())
}

#[cold]
fn too_short(bytes: &[u8]) -> Error {
    Error::corruption("frame too short for a checksum").with_mismatch(CHECKSUM_BYTES, bytes.len())
}

/// A number that differs from place to place (see the file header for the function).
fn mix(place: FramePlace) -> u32 {
    let mut x = place.table.0.wrapping_add(place.offset.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 32) as u32
}

#[cfg(test)]
mod tests;
