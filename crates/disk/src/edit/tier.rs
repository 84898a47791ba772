//! Tiers: which directory a table file lies in, and what names the cold one.
//!
//! It opens no directory. The file `COLD` of a cold directory is one line that people can read:
//!
//! ```text
//! siltdb cold 00112233aabbccdd crc32c 1c2d3e4f\n
//! ```
//!
//! The 16 hexadecimal digits are the id of the cold directory. The checksum, 8 digits, is CRC-32C
//! of the line before ` crc32c`. All digits are in lower case.

use siltdb_base::{
    checksum::crc32c,
    codec::{ByteReader, put_bytes},
    error::{Error, Result},
};

/// The name of the file that says whose a cold directory is.
pub const COLD_FILE: &str = "COLD";

/// Longest content of that file, in bytes: what is longer need not be read.
pub const COLD_FILE_BYTES_MAX: usize = 64;

/// Longest path of a cold directory, in bytes: the longest that Linux takes.
pub const COLD_PATH_BYTES_MAX: usize = 4096;

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
}

impl ColdPlace {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_le_bytes());
        put_bytes(out, self.path.as_bytes());
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
        Ok(Self { id, path: path.to_owned() })
    }

    /// The content of the file [`COLD_FILE`] of this directory.
    #[must_use]
    pub fn file_content(&self) -> String {
        content(self.id)
    }
}

fn content(id: u64) -> String {
    let line = format!("siltdb cold {id:016x}");
    let checksum = crc32c(line.as_bytes());
    format!("{line} crc32c {checksum:08x}\n")
}

/// The id that the file [`COLD_FILE`] with this content has.
///
/// # Errors
/// Corruption, if the content is none, to the byte.
pub fn id_of_cold_file(bytes: &[u8]) -> Result<u64> {
    let digits = bytes.strip_prefix(b"siltdb cold ").and_then(|rest| rest.get(..16));
    let id = digits
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    if let Some(id) = id.filter(|id| content(*id).as_bytes() == bytes) {
        return Ok(id);
    }
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(COLD_FILE_BYTES_MAX)]);
    Err(Error::corruption("COLD names no cold directory")
        .with_mismatch("siltdb cold ID crc32c CHECKSUM", format_args!("{shown:?}")))
}

#[cfg(test)]
mod tests;
