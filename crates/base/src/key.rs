//! What an entry is: a user key, its place in the order, what kind of operation, and its payload.
//!
//! It does not say how entries lie in memory or on disk. Only their order is fixed here: user keys
//! ascending bytewise, and within one key sequence numbers descending (newest first).

use crate::{
    checksum::xxh3,
    codec::{ByteReader, put_varint},
    error::{Error, Result},
    id::{FileNumber, SequenceNumber},
};
use std::{cmp::Ordering, convert::Infallible, ops::Range};

/// What an entry does to its key. The numbers lie on disk.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// The key has the payload as its value.
    Put = 1,
    /// As `Put`, until an expiry: the payload is `| expiry_ms u64 le | value |`.
    PutExpiring = 2,
    /// The key has no value. The payload is empty.
    Delete = 3,
    /// Cancels exactly one older `Put`. The payload is empty.
    SingleDelete = 4,
    /// Keys in `[key, payload)` have no older value.
    RangeDelete = 5,
    /// The payload is an operand for the family's merge operator.
    Merge = 6,
    /// The value lies in a blob file: the payload is a [`BlobPointer`].
    BlobPointer = 7,
}

impl EntryKind {
    /// The kind with this number.
    ///
    /// # Errors
    /// Corruption, if there is none.
    #[inline]
    pub fn from_u8(number: u8) -> Result<Self> {
        Ok(match number {
            1 => Self::Put,
            2 => Self::PutExpiring,
            3 => Self::Delete,
            4 => Self::SingleDelete,
            5 => Self::RangeDelete,
            6 => Self::Merge,
            7 => Self::BlobPointer,
            _ => return Err(Error::corruption("unknown entry kind").with_mismatch("1..=7", number)),
        })
    }

    /// Whether the entry says "no value": `Delete` and `SingleDelete`.
    #[inline]
    #[must_use]
    pub fn is_point_tombstone(self) -> bool {
        matches!(self, Self::Delete | Self::SingleDelete)
    }
}

/// A user key to be looked up in several places: it is hashed once.
#[derive(Clone, Copy, Debug)]
pub struct LookupKey<'k> {
    key: &'k [u8],
    hash: u64,
}

impl<'k> LookupKey<'k> {
    /// Hashes `key` once, for all lookups that follow.
    #[inline]
    #[must_use]
    pub fn new(key: &'k [u8]) -> Self {
        Self { key, hash: xxh3(key) }
    }

    /// The user key, as it was given.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &'k [u8] {
        self.key
    }

    /// Its [`xxh3`], as the filters of tables have it.
    #[inline]
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Sequence number and kind in one word: `sequence << 8 | kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// Packs the two.
    #[inline]
    #[must_use]
    pub fn new(sequence: SequenceNumber, kind: EntryKind) -> Self {
        debug_assert!(sequence <= SequenceNumber::MAX);
        Self(sequence.0 << 8 | kind as u64)
    }

    /// The sequence number.
    #[inline]
    #[must_use]
    pub fn sequence(self) -> SequenceNumber {
        SequenceNumber(self.0 >> 8)
    }

    /// The kind of the entry, from the low byte.
    ///
    /// # Errors
    /// Corruption, if the low byte is no kind.
    #[inline]
    pub fn kind(self) -> Result<EntryKind> {
        EntryKind::from_u8(self.0 as u8)
    }
}

/// One operation on one key, borrowed from wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The user key; of a range tombstone, its inclusive start.
    pub key: &'a [u8],
    /// Its place in the order of the database; unique among the entries of a key.
    pub sequence: SequenceNumber,
    /// The operation that the entry stands for.
    pub kind: EntryKind,
    /// Its payload, as [`EntryKind`] says.
    pub value: &'a [u8],
}

/// The place of an entry among all others. They are sorted by user key, ascending; the entries of
/// one key by sequence number, descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// The sequence number of the entry.
    pub sequence: SequenceNumber,
}

impl<'a> SortKey<'a> {
    /// The place of the entry of `key` at `sequence`.
    #[inline]
    #[must_use]
    pub fn new(key: &'a [u8], sequence: SequenceNumber) -> Self {
        Self { key, sequence }
    }
}

impl Ord for SortKey<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(other.key).then_with(|| other.sequence.cmp(&self.sequence))
    }
}

impl PartialOrd for SortKey<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The smallest key greater than `key`.
#[must_use]
pub fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The first 8 bytes of `key` as a number that orders as the keys do (shorter keys: zero-filled).
///
/// Equal heads say nothing: compare the keys.
#[inline]
#[must_use]
pub fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(chunk)
        }
    }
}

/// The first of the sorted places that is not before the sought one; their count, if all are.
///
/// `heads` are those of the places, in their form in memory, `sought` is that of the sought place,
/// and `is_lower` says whether a head is lower than it. `is_before` decides for places of the same
/// head, of which most searches meet at most one.
#[inline(always)]
pub fn lower_bound<H: Copy + Eq>(
    heads: &[H],
    sought: H,
    is_lower: impl Fn(H) -> bool,
    is_before: impl Fn(usize) -> bool,
) -> usize {
    let first = heads.partition_point(|&head| is_lower(head));
    let has_sought = |index: usize| heads.get(index) == Some(&sought);
    if !has_sought(first) {
        return first;
    }
    if !has_sought(first + 1) {
        return first + usize::from(is_before(first));
    }
    let same = heads[first..].partition_point(|&head| head == sought);
    lower_bound_within(first..first + same, is_before)
}

/// The first of `places` for which `is_before` is false; their end, if it is true for all. It is
/// true for none behind the first for which it is false.
#[inline(always)]
pub fn lower_bound_within(places: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    match try_lower_bound_within(places, |place| Ok::<_, Infallible>(is_before(place))) {
        Ok(found) => found,
    }
}

/// As [`lower_bound_within`], where looking at a place may fail.
///
/// # Errors
/// Those of `is_before`.
#[inline(always)]
pub fn try_lower_bound_within<E>(
    places: Range<usize>,
    is_before: impl Fn(usize) -> Result<bool, E>,
) -> Result<usize, E> {
    let Range { start: mut low, end: mut high } = places;
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Splits the payload of [`EntryKind::PutExpiring`] into expiry (ms since 1970) and value.
///
/// # Errors
/// Corruption, if it is shorter than 8 bytes.
#[inline]
pub fn split_expiring(payload: &[u8]) -> Result<(u64, &[u8])> {
    match payload.split_first_chunk::<8>() {
        Some((expiry, value)) => Ok((u64::from_le_bytes(*expiry), value)),
        None => Err(Error::corruption("expiring entry without an expiry")),
    }
}

/// Where a separated value lies: the payload of [`EntryKind::BlobPointer`].
///
/// ```text
/// | file varint | offset varint | length varint | stored length varint | codec u8
/// | checksum u32 le | expiry_ms varint (0: none) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobPointer {
    /// The blob file.
    pub file: FileNumber,
    /// Offset of the stored bytes in it, in bytes.
    pub offset: u64,
    /// Length of the value, in bytes.
    pub length: u32,
    /// Length of the stored bytes, which may be compressed, in bytes.
    pub stored_bytes: u32,
    /// The codec of the stored bytes, by its number.
    pub codec: u8,
    /// CRC-32C of the stored bytes, bound to their place.
    pub checksum: u32,
    /// Absolute expiry in ms since 1970, if any.
    pub expiry_ms: Option<u64>,
}

impl BlobPointer {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.length));
        put_varint(out, u64::from(self.stored_bytes));
        out.push(self.codec);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        put_varint(out, self.expiry_ms.unwrap_or(0));
    }

    /// Reads an encoding that fills all of `payload`.
    ///
    /// # Errors
    /// Corruption, if it is none.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(payload);
        let pointer = Self {
            file: FileNumber(reader.varint()?),
            offset: reader.varint()?,
            length: reader.varint_u32()?,
            stored_bytes: reader.varint_u32()?,
            codec: reader.u8()?,
            checksum: reader.u32()?,
            expiry_ms: match reader.varint()? {
                0 => None,
                expiry => Some(expiry),
            },
        };
        if !reader.is_empty() {
            return Err(Error::corruption("bytes after a blob pointer"));
        }
        Ok(pointer)
    }
}

#[cfg(test)]
mod tests;
