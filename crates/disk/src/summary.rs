//! What is known of a table without opening it: its identity, key range and counts.
//!
//! The same bytes stand in a table's properties and in the edit that adds it; that they agree is
//! checked when the table is opened.
//!
//! ```text
//! | uid u64 le | first key: length varint, bytes | last key: length varint, bytes | end u8 |
//! | entries varint | point tombstones varint | range tombstones varint | merge operands varint |
//! | sequence min varint | sequence max varint | expiry min + 1 varint (0: none) |
//! | logical bytes varint | file bytes varint | key sample | garbage: length varint, fields |
//! ```

use crate::{garbage::Garbage, sample::KeySample};
use siltdb_base::{
    codec::{Reader, put_bytes, put_varint},
    error::{Error, Result},
    id::{SequenceNumber, TableUid},
    limits::TABLE_END_MAX,
    slice::Slice,
};

/// Whether a [`KeyRange`] holds its last key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeEnd {
    /// The last key belongs to the range.
    Inclusive,
    /// The last key is the end of a range tombstone and does not belong to the range.
    Exclusive,
}

/// A range of user keys that is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub first: Slice,
    /// The last key, or the first after it.
    pub last: Slice,
    /// Which of the two `last` is.
    pub end: RangeEnd,
}

impl KeyRange {
    /// Whether the whole range lies before `key`.
    #[must_use]
    pub fn is_before(&self, key: &[u8]) -> bool {
        match self.end {
            RangeEnd::Inclusive => self.last.as_bytes() < key,
            RangeEnd::Exclusive => self.last.as_bytes() <= key,
        }
    }

    /// Whether the whole range lies after `key`.
    #[must_use]
    pub fn is_after(&self, key: &[u8]) -> bool {
        self.first.as_bytes() > key
    }

    /// Whether `key` is in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.is_before(key) && !self.is_after(key)
    }

    /// Whether some key is in both ranges.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.is_before(&other.first) && !other.is_before(&self.first)
    }

    /// The smallest range that holds both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let first = Slice::clone(std::cmp::min(&self.first, &other.first));
        // Of equal last keys the inclusive one reaches further.
        let reach = |range: &Self| (range.last.clone(), range.end == RangeEnd::Inclusive);
        let (last, end) = if reach(self) >= reach(other) {
            (self.last.clone(), self.end)
        } else {
            (other.last.clone(), other.end)
        };
        Self { first, last, end }
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.first);
        put_bytes(out, &self.last);
        out.push(match self.end {
            RangeEnd::Inclusive => 0,
            RangeEnd::Exclusive => 1,
        });
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if the bytes are none or the range is empty.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let first = Slice::copy_from(reader.bytes()?);
        let last = Slice::copy_from(reader.bytes()?);
        let end = match reader.u8()? {
            0 => RangeEnd::Inclusive,
            1 => RangeEnd::Exclusive,
            other => {
                return Err(Error::corruption("bad range end").with_mismatch("0 or 1", other));
            }
        };
        let range = Self { first, last, end };
        if range.is_before(&range.first) {
            return Err(Error::corruption("empty key range"));
        }
        Ok(range)
    }
}

/// What is known of a table without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// The random name written into the table.
    pub uid: TableUid,
    /// Holds every key of the table, ranges of tombstones included.
    pub range: KeyRange,
    /// Point entries.
    pub entries: u64,
    /// Point entries that delete.
    pub point_tombstones: u64,
    /// Range tombstones, counted by fragment and sequence number.
    pub range_tombstones: u64,
    /// Point entries that are merge operands.
    pub merge_operands: u64,
    /// The oldest sequence number.
    pub sequence_min: SequenceNumber,
    /// The newest sequence number.
    pub sequence_max: SequenceNumber,
    /// The earliest expiry, in ms since 1970.
    pub expiry_min_ms: Option<u64>,
    /// Keys and values before compression, in bytes.
    pub logical_bytes: u64,
    /// What the table takes in its file, in bytes.
    pub file_bytes: u64,
    /// Drawn from the keys of the point entries.
    pub key_sample: KeySample,
    /// What becomes garbage later.
    pub garbage: Garbage,
}

impl TableSummary {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.uid.0.to_le_bytes());
        self.range.encode(out);
        for number in [
            self.entries,
            self.point_tombstones,
            self.range_tombstones,
            self.merge_operands,
            self.sequence_min.0,
            self.sequence_max.0,
            self.expiry_min_ms.map_or(0, |expiry| expiry.saturating_add(1)),
            self.logical_bytes,
            self.file_bytes,
        ] {
            put_varint(out, number);
        }
        self.key_sample.encode(out);
        self.garbage.encode(out);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if the bytes are none.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let uid = TableUid(reader.u64()?);
        let range = KeyRange::decode(reader)?;
        let summary = Self {
            uid,
            range,
            entries: reader.varint()?,
            point_tombstones: reader.varint()?,
            range_tombstones: reader.varint()?,
            merge_operands: reader.varint()?,
            sequence_min: SequenceNumber(reader.varint()?),
            sequence_max: SequenceNumber(reader.varint()?),
            expiry_min_ms: reader.varint()?.checked_sub(1),
            logical_bytes: reader.varint()?,
            file_bytes: reader.varint()?,
            key_sample: KeySample::decode(reader)?,
            garbage: Garbage::decode(reader)?,
        };
        if summary.sequence_min > summary.sequence_max || summary.sequence_max > SequenceNumber::MAX
        {
            return Err(Error::corruption("bad sequence range of a table"));
        }
        let counts = [
            summary.entries,
            summary.point_tombstones,
            summary.range_tombstones,
            summary.merge_operands,
            summary.logical_bytes,
            summary.file_bytes,
        ];
        if let Some(count) = counts.into_iter().find(|&count| count > TABLE_END_MAX) {
            return Err(Error::corruption("a table has more than any file can hold")
                .with_mismatch(format_args!("at most {TABLE_END_MAX}"), count));
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests;
