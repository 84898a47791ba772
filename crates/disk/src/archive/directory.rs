//! The directory of an archive: which families it holds, and where their tables lie.
//!
//! It is [fields](crate::fields); numbers of a value are varints:
//!
//! ```text
//! tag  value
//!   1  families: | length, family | ...    names ascend strictly
//!   2  sequence number of the snapshot
//!  64  time of creation, in ms since 1970
//!  65  directory of the database, UTF-8
//! ```
//!
//! A family is fields, too:
//!
//! ```text
//! tag  value
//!   1  name, UTF-8
//!   2  options, as in the manifest
//!   3  tables: | length, summary of the table | ...    key ranges ascend and do not touch
//!  64  name of the merge operator that folded the values, UTF-8
//! ```
//!
//! The first table begins behind the header, each next one where the one before ends, and the
//! directory where the last one ends. So the lengths in the summaries say where they lie.

use crate::{
    archive::envelope::ARCHIVE_HEADER_BYTES,
    fields::{FieldList, FieldsWriter, StoredField, UnknownFields, read_fields},
    table_meta::TableMeta,
};
use siltdb_base::{
    codec::{ByteReader, put_bytes},
    error::{Error, Result},
    id::SequenceNumber,
    limits::{FAMILIES_MAX, FAMILY_NAME_BYTES_MAX, TABLE_END_MAX},
};

const FIELDS: FieldList = FieldList { of: "directory of an archive", reserved: &[] };

const FAMILY_FIELDS: FieldList = FieldList { of: "family of an archive", reserved: &[] };

/// The sequence number of every entry of an archive.
pub const ARCHIVE_SEQUENCE: SequenceNumber = SequenceNumber::ZERO;

/// A table of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedTable {
    /// Where it begins in the file.
    pub offset: u64,
    /// What it holds.
    pub meta: TableMeta,
}

/// A family of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFamily {
    /// Its name.
    pub name: String,
    /// Its options, as the manifest has them.
    pub options: Vec<u8>,
    /// The merge operator that folded the values, by name.
    pub merge_operator: Option<String>,
    /// Its tables, in key order.
    pub tables: Vec<ArchivedTable>,
    /// What later versions say of it.
    pub unknown: UnknownFields,
}

impl ArchivedFamily {
    /// The number of its entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.entries).sum()
    }

    /// Keys and values before compression, in bytes.
    #[must_use]
    pub fn logical_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.logical_bytes).sum()
    }

    /// When the first of its entries expires, in ms since 1970.
    #[must_use]
    pub fn expiry_min_ms(&self) -> Option<u64> {
        self.tables.iter().filter_map(|table| table.meta.expiry_min_ms).min()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, &self.unknown);
        fields.put(1, |value| value.extend_from_slice(self.name.as_bytes()));
        fields.put(2, |value| value.extend_from_slice(&self.options));
        fields.put(3, |value| {
            for table in &self.tables {
                let mut meta = Vec::new();
                table.meta.encode(&mut meta);
                put_bytes(value, &meta);
            }
        });
        if let Some(operator) = &self.merge_operator {
            fields.put(64, |value| value.extend_from_slice(operator.as_bytes()));
        }
        fields.finish();
    }

    /// Reads an encoding. Its first table begins at `offset`, which then says where its last one
    /// ends.
    fn decode(bytes: &[u8], offset: &mut u64) -> Result<Self> {
        let (mut name, mut options, mut tables) = (None, None, Vec::new());
        let mut merge_operator = None;
        let unknown = read_fields(&FAMILY_FIELDS, bytes, |tag, value| {
            match tag {
                1 => name = Some(text(value)?),
                2 => options = Some(value.take_all().to_vec()),
                3 => tables = decode_tables(value, offset)?,
                64 => merge_operator = Some(text(value)?),
                _ => return Ok(StoredField::Unknown),
            }
            Ok(StoredField::Known)
        })?;
        let missing = || Error::corruption("family of an archive: a field is missing");
        let (name, options) = (name.ok_or_else(missing)?, options.ok_or_else(missing)?);
        if name.is_empty() || name.len() > FAMILY_NAME_BYTES_MAX {
            return Err(Error::corruption("family of an archive: bad length of its name")
                .with_mismatch(format_args!("1..={FAMILY_NAME_BYTES_MAX}"), name.len()));
        }
        Ok(Self { name, options, merge_operator, tables, unknown })
    }
}

fn text(value: &mut ByteReader<'_>) -> Result<String> {
    let bytes = value.take_all().to_vec();
    String::from_utf8(bytes).map_err(|_| Error::corruption("a name in an archive is not UTF-8"))
}

fn decode_tables(value: &mut ByteReader<'_>, offset: &mut u64) -> Result<Vec<ArchivedTable>> {
    let mut tables: Vec<ArchivedTable> = Vec::new();
    while !value.is_empty() {
        let meta = TableMeta::decode(value.bytes()?)?;
        let holds_puts_alone = meta.entries > 0
            && meta.point_tombstones == 0
            && meta.range_tombstones == 0
            && meta.merge_operands == 0
            && meta.sequence_max == ARCHIVE_SEQUENCE;
        if !holds_puts_alone {
            return Err(Error::corruption("a table of an archive holds more than values"));
        }
        let last = tables.last();
        if last.is_some_and(|last| !last.meta.range.is_before(&meta.range.first)) {
            return Err(Error::corruption("tables of an archive out of order"));
        }
        // Each length is checked against `TABLE_END_MAX`, so that the sum does not overflow.
        let end = *offset + meta.file_bytes;
        if end > TABLE_END_MAX {
            return Err(Error::corruption("tables of an archive are longer than any file"));
        }
        tables.push(ArchivedTable { offset: *offset, meta });
        *offset = end;
    }
    Ok(tables)
}

/// What an archive holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveDirectory {
    /// The families, by ascending name.
    pub families: Vec<ArchivedFamily>,
    /// The snapshot saw every commit up to this sequence number, and none after it.
    pub sequence: SequenceNumber,
    /// When the archive was made, in ms since 1970.
    pub created_ms: u64,
    /// The directory of the database, for people.
    pub source: String,
    /// What later versions say of it.
    pub unknown: UnknownFields,
}

impl ArchiveDirectory {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, &self.unknown);
        fields.put(1, |value| {
            for family in &self.families {
                let mut bytes = Vec::new();
                family.encode(&mut bytes);
                put_bytes(value, &bytes);
            }
        });
        fields.put_number(2, self.sequence.0);
        fields.put_count(64, self.created_ms);
        fields.put(65, |value| value.extend_from_slice(self.source.as_bytes()));
        fields.finish();
    }

    /// Reads an encoding that fills all of `bytes`, which begin at `offset` of their file.
    ///
    /// # Errors
    /// Corruption, if the bytes are none, or the tables do not end at `offset`; `Unsupported`, if a
    /// newer version wrote them.
    pub fn decode(bytes: &[u8], offset: u64) -> Result<Self> {
        let (mut families, mut sequence) = (None, None);
        let (mut created_ms, mut source) = (0, String::new());
        let unknown = read_fields(&FIELDS, bytes, |tag, value| {
            match tag {
                1 => families = Some(decode_families(value, offset)?),
                2 => sequence = Some(value.varint()?),
                64 => created_ms = value.varint()?,
                65 => source = String::from_utf8_lossy(value.take_all()).into_owned(),
                _ => return Ok(StoredField::Unknown),
            }
            Ok(StoredField::Known)
        })?;
        let missing = || Error::corruption("directory of an archive: a field is missing");
        let sequence = sequence.ok_or_else(missing)?;
        if sequence > SequenceNumber::MAX.0 {
            return Err(Error::corruption("sequence number exceeds 56 bits"));
        }
        Ok(Self {
            families: families.ok_or_else(missing)?,
            sequence: SequenceNumber(sequence),
            created_ms,
            source,
            unknown,
        })
    }
}

fn decode_families(value: &mut ByteReader<'_>, end: u64) -> Result<Vec<ArchivedFamily>> {
    let mut families: Vec<ArchivedFamily> = Vec::new();
    let mut offset = ARCHIVE_HEADER_BYTES as u64;
    while !value.is_empty() {
        let family = ArchivedFamily::decode(value.bytes()?, &mut offset)?;
        if families.last().is_some_and(|last| last.name >= family.name) {
            return Err(Error::corruption("families of an archive out of order"));
        }
        if families.len() >= FAMILIES_MAX {
            return Err(Error::corruption("an archive has more families than any database"));
        }
        families.push(family);
    }
    if offset != end {
        return Err(Error::corruption(
            "tables of an archive do not end where its directory begins",
        )
        .with_mismatch(end, offset));
    }
    Ok(families)
}
