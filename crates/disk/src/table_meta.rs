//! What is known of a table without opening it: its identity, key range and counts.
//!
//! The same bytes stand in a table's properties and in the edit that adds it; that they agree is
//! checked when the table is opened.
//!
//! The bytes are [fields](crate::fields); a number that is absent is 0:
//!
//! ```text
//! tag  value
//!   1  uid u64 le
//!   2  key range: | first key: length varint, bytes | last key: length varint, bytes | end u8 |
//!   3  entries varint
//!   4  point tombstones varint
//!   5  range tombstones varint
//!   6  merge operands varint
//!   7  oldest sequence number varint
//!   8  newest sequence number varint
//!   9  earliest expiry, ms since 1970, varint; absent: nothing expires
//!  10  logical bytes varint
//!  11  length of the table varint
//!  12  index kind varint: 1 block table, 2 B+tree table
//!  13  filter keys; absent: whole keys
//!  14  references to blob files, see [`BlobReferences`]; absent: there are none
//!  64  creation time, ms since 1970, varint
//!  65  key sketch
//!  66  garbage: expiring entries
//!  67  garbage: superseded entries
//!  69  bytes of the entries of each sampled key; absent: not known
//! ```

use crate::{
    blob::BlobReferences,
    fields::{FieldList, FieldsWriter, StoredField, UnknownFields, read_fields},
    filter_keys::FilterKeys,
    garbage::Garbage,
    key_sketch::KeySketch,
    options::TableKind,
};
use siltdb_base::{
    codec::{ByteReader, put_bytes},
    error::{Error, ErrorKind, Result},
    id::{SequenceNumber, TableUid},
    key::successor,
    limits::TABLE_END_MAX,
    slice::Slice,
};

/// Whether a [`KeySpan`] holds its last key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeEnd {
    /// The last key belongs to the range.
    Inclusive,
    /// The last key is the end of a range tombstone and does not belong to the range.
    Exclusive,
}

/// A range of user keys that is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpan {
    /// The first key.
    pub first: Slice,
    /// The last key, or the first after it.
    pub last: Slice,
    /// Which of the two `last` is.
    pub end: RangeEnd,
}

impl KeySpan {
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

    /// The first key after the range.
    #[must_use]
    pub fn end_key(&self) -> Slice {
        match self.end {
            RangeEnd::Exclusive => self.last.clone(),
            RangeEnd::Inclusive => successor(&self.last).into(),
        }
    }

    /// The keys of the range from `first` on; `None` if there are none.
    #[must_use]
    pub fn from_key(&self, first: &Slice) -> Option<Self> {
        let first = Slice::clone(std::cmp::max(&self.first, first));
        let rest = Self { first, ..self.clone() };
        (!rest.is_before(&rest.first)).then_some(rest)
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
        assert!(!self.is_before(&self.first), "an empty key range is written: {self:?}");
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
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        // In common memory: an opening reads as many of them as there are tables.
        let (first, last) = (reader.bytes()?, reader.bytes()?);
        let both = Slice::from([first, last].concat());
        let (first, last) = (both.slice(0..first.len()), both.slice(first.len()..both.len()));
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

fn decode_kind(value: &mut ByteReader<'_>) -> Result<TableKind> {
    let number = value.varint()?;
    TableKind::from_number(number).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "unknown index kind of a table")
            .with_mismatch(TableKind::BTree.to_number(), number)
    })
}

/// What is known of a table without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The random name written into the table.
    pub uid: TableUid,
    /// Holds every key of the table, ranges of tombstones included.
    pub range: KeySpan,
    /// Point entries of all kinds.
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
    /// How its blocks are found.
    pub kind: TableKind,
    /// What of its keys its filter holds.
    pub filter_keys: FilterKeys,
    /// When it was written, in ms since 1970; 0 if that is not known.
    pub created_ms: u64,
    /// Drawn from the keys of the point entries.
    pub key_sketch: KeySketch,
    /// What becomes garbage later.
    pub garbage: Garbage,
    /// The separated values of its entries.
    pub blobs: BlobReferences,
    /// What later versions say of it.
    pub unknown: UnknownFields,
}

const FIELDS: FieldList =
    FieldList { of: "summary of a table", reserved: &[(15, "compression dictionary")] };

impl TableMeta {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, &self.unknown);
        fields.put(1, |value| value.extend_from_slice(&self.uid.0.to_le_bytes()));
        fields.put(2, |value| self.range.encode(value));
        fields.put_count(3, self.entries);
        fields.put_count(4, self.point_tombstones);
        fields.put_count(5, self.range_tombstones);
        fields.put_count(6, self.merge_operands);
        fields.put_count(7, self.sequence_min.0);
        fields.put_count(8, self.sequence_max.0);
        if let Some(expiry_ms) = self.expiry_min_ms {
            fields.put_number(9, expiry_ms);
        }
        fields.put_count(10, self.logical_bytes);
        fields.put_count(11, self.file_bytes);
        fields.put_number(12, self.kind.to_number());
        if self.filter_keys != FilterKeys::Whole {
            fields.put(13, |value| self.filter_keys.encode(value));
        }
        if !self.blobs.is_empty() {
            fields.put(14, |value| self.blobs.encode(value));
        }
        fields.put_count(64, self.created_ms);
        if self.key_sketch.keys() > 0 {
            fields.put(65, |value| self.key_sketch.encode(value));
        }
        self.garbage.encode(&mut fields, [66, 67]);
        if self.key_sketch.has_bytes() {
            fields.put(69, |value| self.key_sketch.encode_bytes(value));
        }
        fields.finish();
    }

    /// Reads an encoding that fills all of `bytes`.
    ///
    /// # Errors
    /// Corruption, if the bytes are none; `Unsupported`, for a critical field or an index kind that
    /// is not known.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut uid, mut range) = (None, None);
        let mut numbers = [0; 12];
        let (mut expiry_min_ms, mut kind, mut created_ms) = (None, None, 0);
        let mut filter_keys = FilterKeys::Whole;
        let (mut key_sketch, mut garbage) = (KeySketch::default(), Garbage::default());
        let mut blobs = BlobReferences::default();
        let unknown = read_fields(&FIELDS, bytes, |tag, value| {
            match tag {
                1 => uid = Some(TableUid(value.u64()?)),
                2 => range = Some(KeySpan::decode(value)?),
                3..=8 | 10..=11 => numbers[tag as usize] = value.varint()?,
                9 => expiry_min_ms = Some(value.varint()?),
                12 => kind = Some(decode_kind(value)?),
                13 => filter_keys = FilterKeys::decode(value)?,
                14 => blobs = BlobReferences::decode(value)?,
                64 => created_ms = value.varint()?,
                65 => key_sketch = KeySketch::decode(value)?,
                66 => garbage.decode_expiring(value)?,
                67 => garbage.decode_superseded(value)?,
                69 => key_sketch.decode_bytes(value)?,
                _ => return Ok(StoredField::Unknown),
            }
            Ok(StoredField::Known)
        })?;
        let missing = || Error::corruption("summary of a table: a field is missing");
        let meta = Self {
            uid: uid.ok_or_else(missing)?,
            range: range.ok_or_else(missing)?,
            entries: numbers[3],
            point_tombstones: numbers[4],
            range_tombstones: numbers[5],
            merge_operands: numbers[6],
            sequence_min: SequenceNumber(numbers[7]),
            sequence_max: SequenceNumber(numbers[8]),
            expiry_min_ms,
            logical_bytes: numbers[10],
            file_bytes: numbers[11],
            kind: kind.ok_or_else(missing)?,
            filter_keys,
            created_ms,
            key_sketch,
            garbage,
            blobs,
            unknown,
        };
        meta.check()?;
        Ok(meta)
    }

    fn check(&self) -> Result<()> {
        if self.sequence_min > self.sequence_max || self.sequence_max > SequenceNumber::MAX {
            return Err(Error::corruption("bad sequence range of a table"));
        }
        let counts = [
            self.entries,
            self.point_tombstones,
            self.range_tombstones,
            self.merge_operands,
            self.logical_bytes,
            self.file_bytes,
        ];
        match counts.into_iter().find(|&count| count > TABLE_END_MAX) {
            None => Ok(()),
            Some(count) => Err(Error::corruption("a table has more than any file can hold")
                .with_mismatch(format_args!("at most {TABLE_END_MAX}"), count)),
        }
    }
}

#[cfg(test)]
mod tests;
