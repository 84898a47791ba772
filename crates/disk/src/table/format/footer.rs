//! The last bytes of a table: what it is, and where its properties lie.
//!
//! ```text
//! | uid u64 le | table length u64 le | properties frame length u64 le | version u32 le |
//! | checksum u32 le | magic u8[8] |
//! ```
//!
//! The checksum is the CRC-32C of everything before it. Length of the footer, magic, checksum and
//! version have the same place in every version.

use siltdb_base::{
    checksum::{bad_checksum, crc32c},
    codec::ByteReader,
    error::{Error, ErrorKind, Result},
    id::TableUid,
    seeded_fault,
};

/// Length of a footer, in bytes.
pub const FOOTER_BYTES: usize = 40;

pub(in crate::table) const MAGIC: [u8; 8] = *b"\xf5SiltTab";
const VERSION: u32 = 2;
const COVERED_BYTES: usize = 28;

/// What the footer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The random name of the table.
    pub uid: TableUid,
    /// Length of the table, this footer included, in bytes.
    pub table_bytes: u64,
    /// Length of the properties frame, which ends where the footer begins, in bytes.
    pub properties_bytes: u64,
}

impl Footer {
    /// Encodes the footer, with its checksum.
    #[must_use]
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&self.uid.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.table_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.properties_bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&VERSION.to_le_bytes());
        let checksum = crc32c(&bytes[..COVERED_BYTES]);
        bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
        bytes[32..].copy_from_slice(&MAGIC);
        bytes
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if it is none; `Unsupported`, if it is that of a newer version.
    pub fn decode(bytes: &[u8; FOOTER_BYTES]) -> Result<Self> {
        if bytes[32..] != MAGIC {
            return Err(Error::corruption("not a table, or cut short: no footer at its end"));
        }
        let mut reader = ByteReader::new(bytes);
        let footer = Self {
            uid: TableUid(reader.u64()?),
            table_bytes: reader.u64()?,
            properties_bytes: reader.u64()?,
        };
        let version = reader.u32()?;
        let (expected, found) = (reader.u32()?, crc32c(&bytes[..COVERED_BYTES]));
        if expected != found && !seeded_fault!("skip_checksum") {
            return Err(bad_checksum("bad checksum of a table's footer", expected, found));
        }
        if version != VERSION {
            return Err(Error::new(ErrorKind::Unsupported, "unknown table format version")
                .with_mismatch(VERSION, version)
                .with_hint(if version < VERSION {
                    "written before the first release"
                } else {
                    "written by a later version"
                }));
        }
        Ok(footer)
    }
}
