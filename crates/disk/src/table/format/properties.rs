//! The properties of a table: its summary, and where its frames lie.
//!
//! The bytes are [fields](crate::fields); a length that is absent is 0:
//!
//! ```text
//! tag  value
//!   1  summary
//!   2  data length varint
//!   3  data frames varint
//!   4  filter frame length varint
//!   5  range tombstone frame length varint
//!   6  index frame lengths: varint, ...
//!   7  of a B+tree table: | lowest nodes varint | leaves u8: 1 can be searched where they lie |
//!  15  dictionary frame length varint
//! ```
//!
//! The origin is there if one of its fields is. It is for salvage, which has no manifest:
//!
//! ```text
//!  64  family varint
//!  65  name, UTF-8
//!  66  family options
//!  67  log start varint
//!  68  inputs: | file varint | uid u64 le | ...
//!  69  earlier: | file varint | uid u64 le | ...
//!  72  inputs before: key; absent: the inputs are replaced whole
//!  73  partly: | file varint | uid u64 le | length varint | key | ...
//! ```
//!
//! A table that was written outside of any database, to be ingested, says so:
//!
//! ```text
//!  70  external: | version varint | key order, UTF-8 |
//! ```
//!
//! The compression is there if it is not that of the options of the origin; without an origin, if
//! it is neither LZ4 nor none:
//!
//! ```text
//!  71  compression: | codec u8 | level i8 |
//! ```

use crate::table::format::footer::FOOTER_BYTES;
use crate::{
    block::BlockLayout,
    fields::{FieldList, FieldsWriter, StoredField, UnknownFields, read_fields},
    frame::FrameKind,
    options::{Compression, TableKind},
    table_meta::TableMeta,
};
use siltdb_base::{
    codec::{ByteReader, put_bytes, put_varint},
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber, SegmentId, TableUid},
    limits::FAMILY_NAME_BYTES_MAX,
    slice::Slice,
};

const FIELDS: FieldList = FieldList { of: "properties of a table", reserved: &[] };

/// What the properties say of a B+tree table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeProperties {
    /// The nodes that lead to blocks. Their frames come first, in the order of the blocks; those of
    /// the other levels follow, and the root is the last.
    pub lowest: usize,
    /// How all of the leaves are written.
    pub leaves: BlockLayout,
}

impl TreeProperties {
    fn encode(self, value: &mut Vec<u8>) {
        put_varint(value, self.lowest as u64);
        value.push(match self.leaves {
            BlockLayout::Entries => 0,
            BlockLayout::Searchable => 1,
        });
    }

    fn decode(value: &mut ByteReader<'_>) -> Result<Self> {
        let lowest = value.varint_u32()? as usize;
        let leaves = match value.u8()? {
            0 => BlockLayout::Entries,
            1 => BlockLayout::Searchable,
            _ => return Err(Error::corruption("unknown leaves of a table")),
        };
        Ok(Self { lowest, leaves })
    }
}

/// The family that a table was written for, as it was then.
///
/// The manifest alone says which family a table belongs to. This is what is left without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOrigin {
    /// The id of the family.
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
    /// The inputs are replaced before this key alone, because the step of a merge that wrote the
    /// table ends there; `None`: as a whole.
    pub inputs_before: Option<Slice>,
    /// Tables that had been replaced before a key.
    pub partly: Vec<PartlyReplaced>,
}

/// A table of which others replace all before a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartlyReplaced {
    /// The table.
    pub table: ReplacedTable,
    /// The first key that they do not replace.
    pub before: Slice,
}

impl PartlyReplaced {
    fn encode_all(tables: &[Self], out: &mut Vec<u8>) {
        for Self { table, before } in tables {
            ReplacedTable::encode_all(&[*table], out);
            put_bytes(out, before);
        }
    }

    fn decode_all(reader: &mut ByteReader<'_>) -> Result<Vec<Self>> {
        let mut tables = Vec::new();
        while !reader.is_empty() {
            let table = ReplacedTable::decode(reader)?;
            tables.push(Self { table, before: Slice::copy_from(reader.bytes()?) });
        }
        Ok(tables)
    }
}

/// What a table says of itself that was written outside of any database.
///
/// Each of its keys has one entry, a put or a delete, and all entries have sequence number 0. The
/// database that ingests the table gives them one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalTable {
    /// The version of these rules.
    pub version: u64,
    /// The name of the order of its keys.
    pub key_order: String,
}

/// The version of [`ExternalTable`] that this build writes and ingests.
const EXTERNAL_VERSION: u64 = 1;

impl ExternalTable {
    /// What this build writes of a table whose keys have the order `key_order`.
    #[must_use]
    pub fn current(key_order: &str) -> Self {
        Self { version: EXTERNAL_VERSION, key_order: key_order.to_owned() }
    }

    /// Checks that this build knows the rules.
    ///
    /// # Errors
    /// `Unsupported`, naming what it does not know.
    pub fn check(&self) -> Result<()> {
        if self.version == EXTERNAL_VERSION {
            return Ok(());
        }
        let message = "unknown version of an external table";
        Err(Error::new(ErrorKind::Unsupported, message)
            .with_mismatch(EXTERNAL_VERSION, self.version))
    }

    fn encode(&self, value: &mut Vec<u8>) {
        put_varint(value, self.version);
        value.extend_from_slice(self.key_order.as_bytes());
    }

    fn decode(value: &mut ByteReader<'_>) -> Result<Self> {
        let version = value.varint()?;
        let key_order = std::str::from_utf8(value.take_all()).map_err(|error| {
            Error::corruption("the key order of a table is not UTF-8").with_source(error)
        })?;
        Ok(Self { version, key_order: key_order.to_owned() })
    }
}

/// A table that others replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplacedTable {
    /// The number of its file.
    pub file: FileNumber,
    /// The random number that names it.
    pub uid: TableUid,
}

impl ReplacedTable {
    fn encode_all(tables: &[Self], out: &mut Vec<u8>) {
        for table in tables {
            put_varint(out, table.file.0);
            out.extend_from_slice(&table.uid.0.to_le_bytes());
        }
    }

    fn decode_all(reader: &mut ByteReader<'_>) -> Result<Vec<Self>> {
        let mut tables = Vec::new();
        while !reader.is_empty() {
            tables.push(Self::decode(reader)?);
        }
        Ok(tables)
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        Ok(Self { file: FileNumber(reader.varint()?), uid: TableUid(reader.u64()?) })
    }
}

impl TableOrigin {
    fn encode(&self, fields: &mut FieldsWriter<'_>) {
        fields.put_number(64, u64::from(self.family.0));
        fields.put(65, |value| value.extend_from_slice(self.name.as_bytes()));
        fields.put(66, |value| value.extend_from_slice(&self.options));
        fields.put_count(67, self.log_start.0);
        for (tag, tables) in [(68, &self.inputs), (69, &self.earlier)] {
            if !tables.is_empty() {
                fields.put(tag, |value| ReplacedTable::encode_all(tables, value));
            }
        }
    }

    /// Writes the fields that came later than others of a table.
    fn encode_steps(&self, fields: &mut FieldsWriter<'_>) {
        if let Some(before) = &self.inputs_before {
            fields.put(72, |value| value.extend_from_slice(before));
        }
        if !self.partly.is_empty() {
            fields.put(73, |value| PartlyReplaced::encode_all(&self.partly, value));
        }
    }

    fn decode_field(&mut self, tag: u64, value: &mut ByteReader<'_>) -> Result<()> {
        match tag {
            72 => self.inputs_before = Some(Slice::copy_from(value.take_all())),
            73 => self.partly = PartlyReplaced::decode_all(value)?,
            64 => self.family = FamilyId(value.varint_u32()?),
            65 => self.name = decode_name(value)?,
            66 => self.options = value.take_all().to_vec(),
            67 => self.log_start = SegmentId(value.varint()?),
            68 => self.inputs = ReplacedTable::decode_all(value)?,
            _ => self.earlier = ReplacedTable::decode_all(value)?,
        }
        Ok(())
    }
}

fn decode_name(value: &mut ByteReader<'_>) -> Result<String> {
    let name = value.take_all();
    if name.len() > FAMILY_NAME_BYTES_MAX {
        return Err(Error::corruption("family name is too long")
            .with_mismatch(format_args!("at most {FAMILY_NAME_BYTES_MAX}"), name.len()));
    }
    let name = std::str::from_utf8(name)
        .map_err(|error| Error::corruption("family name is not UTF-8").with_source(error))?;
    Ok(name.to_owned())
}

/// What the properties say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What is known of the table without opening it.
    pub meta: TableMeta,
    /// Length of all data frames, in bytes.
    pub data_bytes: u64,
    /// The number of data frames.
    pub data_frames: u64,
    /// Length of the filter frame, in bytes; 0: there is none.
    pub filter_bytes: u64,
    /// Length of the frame of range tombstones, in bytes; 0: there is none.
    pub tombstone_bytes: u64,
    /// Length of the frame of the dictionary, in bytes; 0: there is none.
    pub dictionary_bytes: u64,
    /// Length of each index frame, in bytes.
    pub index_bytes: Vec<u64>,
    /// Set for a B+tree table.
    pub tree: Option<TreeProperties>,
    /// The family it was written for, if its writer said so.
    pub origin: Option<TableOrigin>,
    /// Set for a table that was written to be ingested.
    pub external: Option<ExternalTable>,
    /// What it was compressed with, if that does not follow from its origin.
    pub compression: Option<Compression>,
    /// What later versions say.
    pub unknown: UnknownFields,
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

    /// Offset of the frame of the dictionary.
    #[must_use]
    pub fn dictionary_offset(&self) -> u64 {
        self.tombstone_offset() + self.tombstone_bytes
    }

    /// Offset of the first index frame.
    #[must_use]
    pub fn index_offset(&self) -> u64 {
        self.dictionary_offset() + self.dictionary_bytes
    }

    /// Length of each index frame that leads to blocks, in bytes.
    #[must_use]
    pub fn lowest_index_bytes(&self) -> &[u64] {
        let lowest = self.tree.map_or(self.index_bytes.len(), |tree| tree.lowest);
        &self.index_bytes[..lowest]
    }

    /// The kind of these frames.
    #[must_use]
    pub fn index_frame_kind(&self) -> FrameKind {
        if self.tree.is_some() { FrameKind::Node } else { FrameKind::Index }
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, &self.unknown);
        fields.put(1, |value| self.meta.encode(value));
        fields.put_count(2, self.data_bytes);
        fields.put_count(3, self.data_frames);
        fields.put_count(4, self.filter_bytes);
        fields.put_count(5, self.tombstone_bytes);
        if !self.index_bytes.is_empty() {
            fields.put(6, |value| {
                self.index_bytes.iter().for_each(|&bytes| put_varint(value, bytes));
            });
        }
        if let Some(tree) = self.tree {
            fields.put(7, |value| tree.encode(value));
        }
        fields.put_count(15, self.dictionary_bytes);
        if let Some(origin) = &self.origin {
            origin.encode(&mut fields);
        }
        if let Some(external) = &self.external {
            fields.put(70, |value| external.encode(value));
        }
        if let Some(compression) = self.compression {
            fields.put(71, |value| value.extend_from_slice(&compression.to_bytes()));
        }
        if let Some(origin) = &self.origin {
            origin.encode_steps(&mut fields);
        }
        fields.finish();
    }

    /// Reads an encoding of a table of `table_bytes` with a properties frame of `properties_bytes`.
    ///
    /// # Errors
    /// Corruption, if it is none, or the frames do not fill the table; `Unsupported`, for a
    /// critical field that is not known.
    pub fn decode(bytes: &[u8], table_bytes: u64, properties_bytes: u64) -> Result<Self> {
        let (mut meta, mut lengths, mut index_bytes) = (None, [0; 6], Vec::new());
        let mut origin: Option<TableOrigin> = None;
        let (mut external, mut tree) = (None, None);
        let (mut dictionary_bytes, mut compression) = (0, None);
        let unknown = read_fields(&FIELDS, bytes, |tag, value| {
            match tag {
                1 => meta = Some(TableMeta::decode(value.take_all())?),
                2..=5 => lengths[tag as usize] = value.varint()?,
                6 => {
                    while !value.is_empty() {
                        index_bytes.push(value.varint()?);
                    }
                }
                7 => tree = Some(TreeProperties::decode(value)?),
                15 => dictionary_bytes = value.varint()?,
                64..=69 | 72..=73 => origin.get_or_insert_default().decode_field(tag, value)?,
                70 => external = Some(ExternalTable::decode(value)?),
                71 => compression = Some(Compression::from_bytes([value.u8()?, value.u8()?])?),
                _ => return Ok(StoredField::Unknown),
            }
            Ok(StoredField::Known)
        })?;
        let meta = meta.ok_or_else(|| Error::corruption("properties of a table: no summary"))?;
        let [.., data_bytes, data_frames, filter_bytes, tombstone_bytes] = lengths;
        let properties = Self {
            meta,
            data_bytes,
            data_frames,
            filter_bytes,
            tombstone_bytes,
            dictionary_bytes,
            index_bytes,
            tree,
            origin,
            external,
            compression,
            unknown,
        };
        properties.check(table_bytes, properties_bytes)?;
        Ok(properties)
    }

    fn check(&self, table_bytes: u64, properties_bytes: u64) -> Result<()> {
        let around = [
            self.data_bytes,
            self.filter_bytes,
            self.tombstone_bytes,
            self.dictionary_bytes,
            properties_bytes,
            FOOTER_BYTES as u64,
        ];
        let total = around
            .iter()
            .chain(&self.index_bytes)
            .try_fold(0_u64, |total, &bytes| total.checked_add(bytes));
        if total != Some(table_bytes) || self.meta.file_bytes != table_bytes {
            return Err(Error::corruption("the frames of a table do not fill it")
                .with_mismatch(table_bytes, total.unwrap_or(u64::MAX)));
        }
        let is_tree = self.meta.kind == TableKind::BTree;
        let agrees = self.tree.map_or(!is_tree, |tree| {
            is_tree
                && tree.lowest <= self.index_bytes.len()
                && (tree.lowest == 0) == self.index_bytes.is_empty()
        });
        if !agrees {
            return Err(Error::corruption("properties of a table: not those of its kind"));
        }
        Ok(())
    }
}
