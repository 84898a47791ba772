//! The properties of a table: its summary, and where its frames lie.
//!
//! ```text
//! | features varint | summary | data length varint | data frames varint |
//! | filter frame length varint (0: none) | range tombstone frame length varint (0: none) |
//! | index frames varint | index frame length varint, ... |
//! ```
//!
//! A feature is a bit; a reader refuses a table with a bit that it does not know. None exists yet.

use super::footer::FOOTER_BYTES;
use crate::summary::TableSummary;
use siltdb_base::{
    codec::{Reader, put_varint},
    error::{Error, ErrorKind, Result},
};

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
        put_varint(out, 0);
        self.summary.encode(out);
        put_varint(out, self.data_bytes);
        put_varint(out, self.data_frames);
        put_varint(out, self.filter_bytes);
        put_varint(out, self.tombstone_bytes);
        put_varint(out, self.index_bytes.len() as u64);
        for &bytes in &self.index_bytes {
            put_varint(out, bytes);
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
        if features != 0 {
            return Err(Error::new(ErrorKind::Unsupported, "unknown table features")
                .with_mismatch(0, format_args!("{features:#x}")));
        }
        let mut properties = Self {
            summary: TableSummary::decode(&mut reader)?,
            data_bytes: reader.varint()?,
            data_frames: reader.varint()?,
            filter_bytes: reader.varint()?,
            tombstone_bytes: reader.varint()?,
            index_bytes: Vec::new(),
        };
        let index_frames = reader.varint()?;
        if index_frames > reader.rest().len() as u64 {
            return Err(Error::corruption("bad number of index frames"));
        }
        for _ in 0..index_frames {
            properties.index_bytes.push(reader.varint()?);
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
