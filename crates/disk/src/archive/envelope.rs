//! The first and the last bytes of an archive.
//!
//! The layout stands in [`archive`](crate::archive). Length, magic, version and checksum of both
//! have the same place in every version.

use siltdb_base::{
    checksum::{bad_checksum, crc32c},
    codec::ByteReader,
    error::{Error, ErrorKind, Result},
};

/// The version of archives that this build writes and reads.
const ARCHIVE_VERSION: u32 = 1;

/// Length of the header, in bytes.
pub const ARCHIVE_HEADER_BYTES: usize = 24;

/// Length of the footer, in bytes.
pub const ARCHIVE_FOOTER_BYTES: usize = 40;

const MAGIC: [u8; 8] = *b"\xf5SiltArc";

/// Bytes of the header before its checksum.
const HEADER_COVERED: usize = 20;

/// Bytes of the footer before its checksum.
const FOOTER_COVERED: usize = 28;

/// Encodes the header of the archive with this id.
#[must_use]
pub fn encode_header(id: u64) -> [u8; ARCHIVE_HEADER_BYTES] {
    let mut bytes = [0; ARCHIVE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&ARCHIVE_VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&id.to_le_bytes());
    let checksum = crc32c(&bytes[..HEADER_COVERED]);
    bytes[20..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads a header, and returns the id of the archive.
///
/// # Errors
/// `InvalidArgument`, if the file is no archive; corruption, if the header is damaged;
/// `Unsupported`, if a newer version wrote it.
pub fn decode_header(bytes: &[u8; ARCHIVE_HEADER_BYTES]) -> Result<u64> {
    if bytes[..8] != MAGIC {
        return Err(Error::invalid("not an archive: the file begins otherwise").with_offset(0));
    }
    let mut reader = ByteReader::new(&bytes[8..]);
    let (version, id, expected) = (reader.u32()?, reader.u64()?, reader.u32()?);
    check("bad checksum of the header of an archive", expected, &bytes[..HEADER_COVERED])?;
    check_version(version)?;
    Ok(id)
}

/// What the end of an archive says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveFooter {
    /// That of the header.
    pub id: u64,
    /// Length of the directory, which ends where the footer begins, in bytes.
    pub directory_bytes: u64,
    /// The CRC-32C of everything before the footer.
    pub content_checksum: u32,
    /// The CRC-32C of the directory.
    pub directory_checksum: u32,
}

impl ArchiveFooter {
    /// Encodes the footer, with its checksum.
    #[must_use]
    pub fn encode(&self) -> [u8; ARCHIVE_FOOTER_BYTES] {
        let mut bytes = [0; ARCHIVE_FOOTER_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.directory_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.content_checksum.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.directory_checksum.to_le_bytes());
        bytes[24..28].copy_from_slice(&ARCHIVE_VERSION.to_le_bytes());
        let checksum = crc32c(&bytes[..FOOTER_COVERED]);
        bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
        bytes[32..].copy_from_slice(&MAGIC);
        bytes
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if it is none; `Unsupported`, if it is that of a newer version.
    pub fn decode(bytes: &[u8; ARCHIVE_FOOTER_BYTES]) -> Result<Self> {
        if bytes[32..] != MAGIC {
            return Err(Error::corruption("the archive is cut short: no footer at its end"));
        }
        let mut reader = ByteReader::new(bytes);
        let footer = Self {
            id: reader.u64()?,
            directory_bytes: reader.u64()?,
            content_checksum: reader.u32()?,
            directory_checksum: reader.u32()?,
        };
        let (version, expected) = (reader.u32()?, reader.u32()?);
        check("bad checksum of the footer of an archive", expected, &bytes[..FOOTER_COVERED])?;
        check_version(version)?;
        Ok(footer)
    }
}

/// Compares the CRC-32C of `bytes` with the one that is stored.
///
/// # Errors
/// Corruption, with `message`.
pub fn check(message: &'static str, expected: u32, bytes: &[u8]) -> Result<()> {
    let found = crc32c(bytes);
    if expected == found { Ok(()) } else { Err(bad_checksum(message, expected, found)) }
}

fn check_version(version: u32) -> Result<()> {
    if version == ARCHIVE_VERSION {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, "unknown version of an archive")
        .with_mismatch(ARCHIVE_VERSION, version)
        .with_hint("a later version of SiltDB wrote it"))
}
