//! References to tables: where a table lies, and what a tree sees of it.
//!
//! They are values of the edits that add tables. Numbers are varints; the fields stand behind file,
//! offset and length:
//!
//! ```text
//! tag  field of a table reference
//!   1  summary
//!   2  visible to: sequence; absent: all is
//!   3  global sequence: sequence; absent: each entry has its own
//!   4  key slice; absent: every key is seen
//!   5  tier: 1 cold; absent: hot
//!  65  bytes within the key slice, about; absent: the length. Optional
//! ```

use crate::{
    edit::tier::Tier,
    fields::{FieldList, FieldsWriter, OPTIONAL, StoredField, UnknownFields, read_fields},
    table_meta::{KeySpan, TableMeta},
};
use siltdb_base::{
    codec::{ByteReader, put_varint},
    error::{Error, Result},
    id::{FileNumber, SequenceNumber},
    limits::TABLE_END_MAX,
};
use std::{collections::HashMap, sync::Arc};

/// Where a table lies, and what its tree sees of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReference {
    /// The number of the file.
    pub file: FileNumber,
    /// Where in the file the table begins, in bytes.
    pub offset: u64,
    /// Its length, in bytes.
    pub length: u64,
    /// What is known of it without opening it.
    pub meta: TableMeta,
    /// Newer entries of the table are not seen; for clones.
    pub visible_to: Option<SequenceNumber>,
    /// Only keys in this range are seen.
    pub key_slice: Option<KeySpan>,
    /// About how many bytes of the table the key slice shows; `None`: all. At most the length.
    pub slice_bytes: Option<u64>,
    /// All entries have this sequence number, whatever the table says; for ingestion.
    pub global_sequence: Option<SequenceNumber>,
    /// The directory of the file. All references to a file agree.
    pub tier: Tier,
    /// What later versions say of the reference.
    pub unknown: UnknownFields,
}

/// The tag of the bytes within a key slice. A reader that does not know it counts the whole table.
const SLICE_BYTES: u64 = OPTIONAL | 1;

const REFERENCE_FIELDS: FieldList =
    FieldList { of: "reference to a table", reserved: &[(6, "encryption of a file")] };

impl TableReference {
    /// All of a table that lies in `file` from `offset` on.
    #[must_use]
    pub fn whole(file: FileNumber, offset: u64, meta: TableMeta) -> Self {
        let length = meta.file_bytes;
        Self {
            file,
            offset,
            length,
            meta,
            visible_to: None,
            key_slice: None,
            slice_bytes: None,
            global_sequence: None,
            tier: Tier::Hot,
            unknown: UnknownFields::default(),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.offset);
        put_varint(out, self.length);
        let mut fields = FieldsWriter::new(out, &self.unknown);
        fields.put(1, |value| self.meta.encode(value));
        if let Some(sequence) = self.visible_to {
            fields.put_number(2, sequence.0);
        }
        if let Some(sequence) = self.global_sequence {
            fields.put_number(3, sequence.0);
        }
        if let Some(range) = &self.key_slice {
            fields.put(4, |value| range.encode(value));
        }
        fields.put_count(5, self.tier as u64);
        if let Some(bytes) = self.slice_bytes {
            fields.put_number(SLICE_BYTES, bytes);
        }
        fields.finish();
    }

    /// Reads all that is left of `reader`.
    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        let (file, offset, length) =
            (FileNumber(reader.varint()?), reader.varint()?, reader.varint()?);
        if offset.checked_add(length).is_none_or(|end| end > TABLE_END_MAX) {
            return Err(Error::corruption("table beyond the end of any file"));
        }
        let (mut meta, mut key_slice, mut slice_bytes) = (None, None, None);
        let (mut visible_to, mut global_sequence, mut tier) = (None, None, Tier::Hot);
        let unknown = read_fields(&REFERENCE_FIELDS, reader.take_all(), |tag, value| {
            match tag {
                1 => meta = Some(TableMeta::decode(value.take_all())?),
                2 => visible_to = Some(sequence(value)?),
                3 => global_sequence = Some(sequence(value)?),
                4 => key_slice = Some(KeySpan::decode(value)?),
                5 => tier = Tier::decode(value)?,
                SLICE_BYTES => slice_bytes = Some(value.varint()?),
                _ => return Ok(StoredField::Unknown),
            }
            Ok(StoredField::Known)
        })?;
        let meta = meta.ok_or_else(|| Error::corruption("reference to a table: no summary"))?;
        if let Some(bytes) = slice_bytes.filter(|&bytes| bytes > length) {
            return Err(Error::corruption("a key slice is longer than its table")
                .with_mismatch(format_args!("at most {length}"), bytes));
        }
        Ok(Self {
            length,
            visible_to,
            key_slice,
            slice_bytes,
            global_sequence,
            tier,
            unknown,
            ..Self::whole(file, offset, meta)
        })
    }
}

/// The references that were decoded last of each table of an edit.
#[derive(Debug, Default)]
pub(super) struct KnownReferences<'a>(HashMap<&'a [u8], KnownReference<'a>>);

#[derive(Debug)]
struct KnownReference<'a> {
    bytes: &'a [u8],
    reference: Arc<TableReference>,
}

impl<'a> KnownReferences<'a> {
    /// Reads all that is left of `reader`, or finds that it was read before.
    pub(super) fn decode(&mut self, reader: &mut ByteReader<'a>) -> Result<Arc<TableReference>> {
        let bytes = reader.rest();
        let mut behind = *reader;
        let _file_and_offset = (behind.varint()?, behind.varint()?);
        let place = &bytes[..bytes.len() - behind.rest().len()];
        if let Some(known) = self.0.get(place).filter(|known| known.bytes == bytes) {
            reader.take_all();
            return Ok(Arc::clone(&known.reference));
        }
        let reference = Arc::new(TableReference::decode(reader)?);
        let known = KnownReference { bytes, reference: Arc::clone(&reference) };
        self.0.insert(place, known);
        Ok(reference)
    }
}

/// Reads a sequence number.
///
/// # Errors
/// Corruption, if there is none of that size.
pub(super) fn sequence(reader: &mut ByteReader<'_>) -> Result<SequenceNumber> {
    let number = reader.varint()?;
    if number > SequenceNumber::MAX.0 {
        return Err(Error::corruption("sequence number exceeds 56 bits"));
    }
    Ok(SequenceNumber(number))
}
