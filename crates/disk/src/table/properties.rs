//! The properties of a table: its summary, and where its frames lie.
//!
//! ```text
//! | features varint | summary | data length varint | data frames varint |
//! | filter frame length varint (0: none) | range tombstone frame length varint (0: none) |
//! | index frames varint | index frame length varint, ... | origin, if feature 0 |
//!
//! origin: | family varint | name: length varint, bytes | options: length varint, bytes |
//!         | log start varint | inputs varint | replaced table, ... |
//!         | earlier varint | replaced table, ... |
//! replaced table: | file varint | uid u64 le |
//! ```
//!
//! A feature is a bit; a reader refuses a table with a bit that it does not know. Feature 0 says
//! that the origin is there. Only a salvage without the manifest reads it.

use super::footer::FOOTER_BYTES;
use crate::summary::TableSummary;
use siltdb_base::{
    codec::{Reader, put_bytes, put_varint},
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber, SegmentId, TableUid},
    limits::FAMILY_NAME_BYTES_MAX,
};

/// The feature of a table that says where it comes from.
const FEATURE_ORIGIN: u64 = 1;

/// The family that a table was written for, as it was then.
///
/// The manifest alone says which family a table belongs to. This is what is left without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOrigin {
    /// The family.
    pub family: FamilyId,
    /// What it was called.
    pub name: String,
    /// Its options, encoded by the floors that know them.
    pub options: Vec<u8>,
    /// Earlier segments of the log were not needed any more.
    pub log_start: SegmentId,
    /// The tables that it was merged from, which it replaces once it counts.
    pub inputs: Vec<ReplacedTable>,
    /// Tables whose files were still there, but which had been replaced before.
    pub earlier: Vec<ReplacedTable>,
}

/// A table that others replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplacedTable {
    /// Its file.
    pub file: FileNumber,
    /// Its name.
    pub uid: TableUid,
}

impl ReplacedTable {
    fn encode_all(tables: &[Self], out: &mut Vec<u8>) {
        put_varint(out, tables.len() as u64);
        for table in tables {
            put_varint(out, table.file.0);
            out.extend_from_slice(&table.uid.0.to_le_bytes());
        }
    }

    fn decode_all(reader: &mut Reader<'_>) -> Result<Vec<Self>> {
        let count = reader.varint()?;
        if count > reader.rest().len() as u64 {
            return Err(Error::corruption("bad number of replaced tables"));
        }
        let table = |_| {
            let (file, uid) = (FileNumber(reader.varint()?), TableUid(reader.u64()?));
            Ok(Self { file, uid })
        };
        (0..count).map(table).collect()
    }
}

impl TableOrigin {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.family.0));
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, &self.options);
        put_varint(out, self.log_start.0);
        ReplacedTable::encode_all(&self.inputs, out);
        ReplacedTable::encode_all(&self.earlier, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let family = FamilyId(reader.varint_u32()?);
        let name = reader.bytes()?;
        if name.len() > FAMILY_NAME_BYTES_MAX {
            return Err(Error::corruption("family name is too long")
                .with_mismatch(format_args!("at most {FAMILY_NAME_BYTES_MAX}"), name.len()));
        }
        let name = std::str::from_utf8(name)
            .map_err(|error| Error::corruption("family name is not UTF-8").with_source(error))?;
        Ok(Self {
            family,
            name: name.to_owned(),
            options: reader.bytes()?.to_vec(),
            log_start: SegmentId(reader.varint()?),
            inputs: ReplacedTable::decode_all(reader)?,
            earlier: ReplacedTable::decode_all(reader)?,
        })
    }
}

/// What the properties say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What is known of the table without opening it.
    pub summary: TableSummary,
    /// Length of all data frames, in bytes.
    pub data_bytes: u64,
    /// Data frames.
    pub data_frames: u64,
    /// Length of the filter frame, in bytes; 0: there is none.
    pub filter_bytes: u64,
    /// Length of the frame of range tombstones, in bytes; 0: there is none.
    pub tombstone_bytes: u64,
    /// Length of each index frame, in bytes.
    pub index_bytes: Vec<u64>,
    /// The family it was written for, if its writer said so.
    pub origin: Option<TableOrigin>,
}

impl Properties {
    /// Offset of the filter frame.
    #[must_use]
    pub fn filter_offset(&self) -> u64 {
        self.data_bytes
    }

    /// Offset of the frame of range tombstones.
    #[must_use]
    pub fn tombstone_offset(&self) -> u64 {
        self.filter_offset() + self.filter_bytes
    }

    /// Offset of the first index frame.
    #[must_use]
    pub fn index_offset(&self) -> u64 {
        self.tombstone_offset() + self.tombstone_bytes
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, if self.origin.is_some() { FEATURE_ORIGIN } else { 0 });
        self.summary.encode(out);
        put_varint(out, self.data_bytes);
        put_varint(out, self.data_frames);
        put_varint(out, self.filter_bytes);
        put_varint(out, self.tombstone_bytes);
        put_varint(out, self.index_bytes.len() as u64);
        for &bytes in &self.index_bytes {
            put_varint(out, bytes);
        }
        if let Some(origin) = &self.origin {
            origin.encode(out);
        }
    }

    /// Reads an encoding of a table of `table_bytes` with a properties frame of `properties_bytes`.
    ///
    /// # Errors
    /// Corruption, if it is none, or the frames do not fill the table; `Unsupported`, if the table
    /// has an unknown feature.
    pub fn decode(bytes: &[u8], table_bytes: u64, properties_bytes: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let features = reader.varint()?;
        if features & !FEATURE_ORIGIN != 0 {
            return Err(Error::new(ErrorKind::Unsupported, "unknown table features")
                .with_mismatch(
                    format_args!("bits within {FEATURE_ORIGIN:#x}"),
                    format_args!("{features:#x}"),
                ));
        }
        let mut properties = Self {
            summary: TableSummary::decode(&mut reader)?,
            data_bytes: reader.varint()?,
            data_frames: reader.varint()?,
            filter_bytes: reader.varint()?,
            tombstone_bytes: reader.varint()?,
            index_bytes: Vec::new(),
            origin: None,
        };
        let index_frames = reader.varint()?;
        if index_frames > reader.rest().len() as u64 {
            return Err(Error::corruption("bad number of index frames"));
        }
        for _ in 0..index_frames {
            properties.index_bytes.push(reader.varint()?);
        }
        if features & FEATURE_ORIGIN != 0 {
            properties.origin = Some(TableOrigin::decode(&mut reader)?);
        }
        if !reader.is_empty() {
            return Err(Error::corruption("bytes after the properties of a table"));
        }
        let around = [
            properties.data_bytes,
            properties.filter_bytes,
            properties.tombstone_bytes,
            properties_bytes,
            FOOTER_BYTES as u64,
        ];
        let total = around
            .iter()
            .chain(&properties.index_bytes)
            .try_fold(0_u64, |total, &bytes| total.checked_add(bytes));
        if total != Some(table_bytes) || properties.summary.file_bytes != table_bytes {
            return Err(Error::corruption("the frames of a table do not fill it")
                .with_mismatch(table_bytes, total.unwrap_or(u64::MAX)));
        }
        Ok(properties)
    }
}
