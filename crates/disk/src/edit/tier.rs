//! Tiers: which directory a table file lies in, and what names the cold one.
//!
//! It opens no directory. The file `COLD` of a cold directory is one line that people can read:
//!
//! ```text
//! siltdb cold 00112233aabbccdd owner 0123456789abcdef inode 00000000000000c8 crc32c 1c2d3e4f\n
//! ```
//!
//! These are the id of the cold directory, the random number that its owner has in the manifest,
//! and the inode of the directory of the owner, 16 hexadecimal digits each. Earlier versions wrote
//! neither owner nor inode. The checksum, 8 digits, is CRC-32C of the line before ` crc32c`. All
//! digits are in lower case.

use crate::fields::{FieldList, FieldsWriter, StoredField, UnknownFields, read_fields};
use siltdb_base::{
    checksum::crc32c,
    codec::{ByteReader, put_bytes},
    error::{Error, Result},
};

/// The name of the file that says whose a cold directory is.
pub const COLD_FILE: &str = "COLD";

/// Longest content of that file, in bytes: what is longer need not be read.
pub const COLD_FILE_BYTES_MAX: usize = 128;

/// Longest path of a cold directory, in bytes: the longest that Linux takes.
pub const COLD_PATH_BYTES_MAX: usize = 4096;

/// What a change says of a cold directory behind its path.
const PLACE_FIELDS: FieldList = FieldList { of: "cold directory", reserved: &[] };

/// The directory that a table file lies in. The numbers lie on disk.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The directory of the database.
    #[default]
    Hot = 0,
    /// The cold directory.
    Cold = 1,
}

impl Tier {
    /// The tier of a field that says it. A hot table has no such field.
    ///
    /// # Errors
    /// Corruption, if there is no such tier.
    pub(super) fn decode(value: &mut ByteReader<'_>) -> Result<Self> {
        match value.varint()? {
            1 => Ok(Self::Cold),
            number => Err(Error::corruption("no such tier").with_mismatch(1, number)),
        }
    }
}

/// The cold directory of a database, as its manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdPlace {
    /// The random id that its `COLD` file has.
    pub id: u64,
    /// Its path; a relative one starts at the directory of the database.
    pub path: String,
    /// The random number by which the database is its owner; 0: none was written yet.
    pub owner: u64,
}

impl ColdPlace {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_le_bytes());
        put_bytes(out, self.path.as_bytes());
        let unknown = UnknownFields::default();
        let mut fields = FieldsWriter::new(out, &unknown);
        if self.owner != 0 {
            fields.put(1, |value| value.extend_from_slice(&self.owner.to_le_bytes()));
        }
        fields.finish();
    }

    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        let id = reader.u64()?;
        let path = reader.bytes()?;
        if path.is_empty() || path.len() > COLD_PATH_BYTES_MAX {
            return Err(Error::corruption("bad length of the path of a cold directory")
                .with_mismatch(format_args!("1 to {COLD_PATH_BYTES_MAX}"), path.len()));
        }
        let path = std::str::from_utf8(path).map_err(|error| {
            Error::corruption("the path of a cold directory is not UTF-8").with_source(error)
        })?;
        let mut owner = 0;
        read_fields(&PLACE_FIELDS, reader.take_all(), |tag, value| {
            match tag {
                1 => owner = value.u64()?,
                _ => return Ok(StoredField::Unknown),
            }
            Ok(StoredField::Known)
        })?;
        Ok(Self { id, path: path.to_owned(), owner })
    }
}

/// What the file [`COLD_FILE`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdFile {
    /// The id of the cold directory.
    pub id: u64,
    /// Whose it is; `None` in the file of an earlier version.
    pub owner: Option<ColdOwner>,
}

/// The database that a cold directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdOwner {
    /// The number that its manifest has.
    pub number: u64,
    /// The inode of its directory: that of a copy is another one.
    pub inode: u64,
}

impl ColdFile {
    /// The content of the file.
    #[must_use]
    pub fn encode(&self) -> String {
        let Self { id, owner } = self;
        let mut line = format!("siltdb cold {id:016x}");
        if let Some(ColdOwner { number, inode }) = owner {
            line.push_str(&format!(" owner {number:016x} inode {inode:016x}"));
        }
        let checksum = crc32c(line.as_bytes());
        format!("{line} crc32c {checksum:08x}\n")
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// Corruption, if the content is none, to the byte.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let digits = |word: &str, at: usize| {
            let digits = bytes.get(at..)?.strip_prefix(word.as_bytes())?.get(..16)?;
            u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        let owner = || {
            let number = digits(" owner ", ID_END)?;
            Some(ColdOwner { number, inode: digits(" inode ", ID_END + OWNER_BYTES)? })
        };
        let file = digits("siltdb cold ", 0).map(|id| Self { id, owner: owner() });
        if let Some(file) = file.filter(|file| file.encode().as_bytes() == bytes) {
            return Ok(file);
        }
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(COLD_FILE_BYTES_MAX)]);
        Err(Error::corruption("COLD names no cold directory")
            .with_mismatch("siltdb cold ID ... crc32c CHECKSUM", format_args!("{shown:?}")))
    }
}

/// Where the id ends in the line of a cold directory, in bytes.
const ID_END: usize = "siltdb cold ".len() + 16;

/// The bytes of the number of the owner, with its word.
const OWNER_BYTES: usize = " owner ".len() + 16;

#[cfg(test)]
mod tests;
