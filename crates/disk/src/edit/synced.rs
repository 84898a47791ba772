//! How far the log is durable, as an edit says it.
//!
//! It opens no log. Behind the numbers of the change stand [fields](crate::fields):
//!
//! ```text
//! tag  value
//!  65  file bytes varint; absent: not known
//! ```

use crate::{
    fields::{FieldList, FieldsWriter, StoredField, UnknownFields, read_fields},
    log::record::LogPosition,
};
use siltdb_base::{
    codec::{ByteReader, put_varint},
    error::Result,
};

/// Optional, because a reader that does not know it checks less.
const FILE_BYTES: u64 = 65;

const FIELDS: FieldList = FieldList { of: "synced log", reserved: &[] };

/// How far the log is durable, whatever the log itself says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncedLog {
    /// The position in the log.
    pub position: LogPosition,
    /// The slot of the file that has its segment; 0: not known.
    pub slot: u64,
    /// The file is at least this long, durably, in bytes; 0: not known.
    pub file_bytes: u64,
}

impl SyncedLog {
    /// Whether this says more than `known`: a later position, or another length of the file, as
    /// that of a close.
    #[must_use]
    pub fn is_news_to(&self, known: &Self) -> bool {
        let is_same = self.position == known.position && self.slot == known.slot;
        let is_resized = self.file_bytes > 0 && self.file_bytes != known.file_bytes;
        self.position > known.position || is_same && is_resized
    }

    /// Appends the value of the change.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.position.segment.0);
        put_varint(out, self.position.offset);
        put_varint(out, self.slot);
        let kept = UnknownFields::default();
        let mut fields = FieldsWriter::new(out, &kept);
        fields.put_count(FILE_BYTES, self.file_bytes);
        fields.finish();
    }

    /// Reads all that stands behind the position in the value of the change.
    pub(super) fn decode(position: LogPosition, reader: &mut ByteReader<'_>) -> Result<Self> {
        let mut synced = Self { position, slot: reader.varint()?, file_bytes: 0 };
        let rest = reader.take(reader.rest().len())?;
        read_fields(&FIELDS, rest, |tag, value| match tag {
            FILE_BYTES => {
                synced.file_bytes = value.varint()?;
                Ok(StoredField::Known)
            }
            _ => Ok(StoredField::Unknown),
        })?;
        Ok(synced)
    }
}
