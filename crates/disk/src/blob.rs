//! Blob files: separated values, one after the other, in the order in which they got their place.
//!
//! It knows neither keys nor who refers to a value. Writing and syncing are for the engine.
//!
//! The file begins with a header of 32 bytes, and each record with one of 32 bytes:
//!
//! ```text
//! file    | "siltblob" | version u32 le | 0 u32 | uid u64 le | 0 u32 | checksum u32 le |
//! record  | checksum u32 le | payload checksum u32 le | key hash u64 le | family u32 le
//!         | raw length u32 le | stored length u32 le | codec u8 | 0 three times |
//!         | payload | padding to a multiple of 8 bytes |
//! ```
//!
//! The checksum of the file header covers the 28 bytes before it. Those of a record are CRC-32C
//! over `| uid u64 le | offset u64 le |`, then the bytes covered: of a header the 28 bytes behind
//! the checksum, with the offset of the header; of a payload its stored bytes, with their offset.
//! So a record is wrong in another file and at another offset. The key hash is XXH3 of the key.
//!
//! Records begin at multiples of 8. Between them may lie bytes of commits that never ended, or that
//! a power failure took: a scan looks for the next header there.

pub mod window;

use crate::compress::Codec;
use siltdb_base::{
    checksum::{bad_checksum, crc32c, crc32c_append},
    codec::{ByteReader, put_varint, resize},
    error::{Error, ErrorKind, Result},
    fs::File,
    id::{BlobUid, FamilyId, FileNumber},
    key::BlobPointer,
    limits::VALUE_BYTES_MAX,
    seeded_fault,
    slice::Slice,
};
use std::sync::Arc;

/// Length of the header of a file, and so where the first record begins, in bytes.
pub const BLOB_FILE_HEADER_BYTES: u64 = 32;

/// Length of the header of a record, in bytes.
pub const BLOB_HEADER_BYTES: u64 = 32;

/// Records begin at multiples of this, in bytes.
const ALIGNMENT: u64 = 8;

/// What a scan reads at once while it looks for a header, in bytes.
const SEARCH_BYTES: usize = 64 << 10;

/// What is read of a payload at once while it is verified, in bytes.
const VERIFY_BYTES: usize = 256 << 10;

const MAGIC: &[u8; 8] = b"siltblob";

const VERSION: u32 = 1;

/// The header of a file.
#[must_use]
pub fn encode_file_header(uid: BlobUid) -> [u8; BLOB_FILE_HEADER_BYTES as usize] {
    let mut header = [0; BLOB_FILE_HEADER_BYTES as usize];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&uid.0.to_le_bytes());
    let checksum = crc32c(&header[..28]);
    header[28..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Reads the header of a file.
///
/// # Errors
/// Corruption, with the offset; `Unsupported`, for another version; what reading fails with.
pub fn read_file_header(file: &dyn File) -> Result<BlobUid> {
    let mut header = [0; BLOB_FILE_HEADER_BYTES as usize];
    file.read_exact_at(&mut header, 0)?;
    let mut reader = ByteReader::new(&header);
    if reader.take(8)? != MAGIC {
        return Err(Error::corruption("not a blob file").with_offset(0));
    }
    let (version, _) = (reader.u32()?, reader.u32()?);
    let (uid, _, checksum) = (BlobUid(reader.u64()?), reader.u32()?, reader.u32()?);
    let found = crc32c(&header[..28]);
    if found != checksum {
        return Err(Error::corruption("bad checksum of the header of a blob file")
            .with_offset(0)
            .with_mismatch(format_args!("{checksum:08x}"), format_args!("{found:08x}")));
    }
    if version != VERSION {
        return Err(Error::new(ErrorKind::Unsupported, "unknown version of a blob file")
            .with_mismatch(VERSION, version));
    }
    Ok(uid)
}

/// The checksum of nothing at a place: those of what lies there begin with it.
#[must_use]
pub fn checksum_at(uid: BlobUid, offset: u64) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&uid.0.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c(&place)
}

/// What a record takes in its file, in bytes.
#[must_use]
pub fn record_bytes(stored_bytes: u32) -> u64 {
    (BLOB_HEADER_BYTES + u64::from(stored_bytes)).next_multiple_of(ALIGNMENT)
}

/// What the header of a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHeader {
    /// The checksum of the stored bytes at their place.
    pub checksum: u32,
    /// The hash of the key that got the value.
    pub key_hash: u64,
    /// The family of the key.
    pub family: FamilyId,
    /// Length of the value, in bytes.
    pub length: u32,
    /// Length of the stored bytes, in bytes.
    pub stored_bytes: u32,
    /// How they are encoded.
    pub codec: u8,
}

impl BlobHeader {
    /// The bytes of the header of the record at `offset`.
    #[must_use]
    pub fn encode(&self, uid: BlobUid, offset: u64) -> [u8; BLOB_HEADER_BYTES as usize] {
        assert!(
            offset >= BLOB_FILE_HEADER_BYTES && offset.is_multiple_of(ALIGNMENT),
            "a separated value at {offset}, where no scan looks"
        );
        assert!(self.stored_bytes <= self.length, "a separated value that no reader accepts");
        let mut bytes = [0; BLOB_HEADER_BYTES as usize];
        bytes[4..8].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key_hash.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.family.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[28] = self.codec;
        let checksum = crc32c_append(checksum_at(uid, offset), &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header that these bytes at `offset` are; `None` if they are none.
    fn decode(bytes: &[u8], uid: BlobUid, offset: u64) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let checksum = reader.u32().ok()?;
        // A header never is all zeros, so most of what is no header is passed without a checksum.
        if checksum == 0 && bytes.iter().all(|byte| *byte == 0) {
            return None;
        }
        let covered = bytes.get(4..BLOB_HEADER_BYTES as usize)?;
        if crc32c_append(checksum_at(uid, offset), covered) != checksum {
            return None;
        }
        Some(Self {
            checksum: reader.u32().ok()?,
            key_hash: reader.u64().ok()?,
            family: FamilyId(reader.u32().ok()?),
            length: reader.u32().ok()?,
            stored_bytes: reader.u32().ok()?,
            codec: reader.u8().ok()?,
        })
    }

    /// The pointer to the value of the record at `offset` of `file`.
    #[must_use]
    pub fn pointer(&self, file: FileNumber, offset: u64, expiry_ms: Option<u64>) -> BlobPointer {
        BlobPointer {
            file,
            offset: offset + BLOB_HEADER_BYTES,
            length: self.length,
            stored_bytes: self.stored_bytes,
            codec: self.codec,
            checksum: self.checksum,
            expiry_ms,
        }
    }
}

/// Reads the stored bytes that a pointer leads to, and verifies them.
///
/// # Errors
/// Corruption, with the offset; `Io`, if there is no memory; what reading fails with.
pub fn read_stored(file: &dyn File, uid: BlobUid, pointer: &BlobPointer) -> Result<Vec<u8>> {
    let mut stored = Vec::new();
    resize(&mut stored, pointer.stored_bytes as usize)?;
    file.read_exact_at(&mut stored, pointer.offset)?;
    let found = crc32c_append(checksum_at(uid, pointer.offset), &stored);
    check_stored(pointer, found)?;
    Ok(stored)
}

/// Reads the value that a pointer leads to, by one read.
///
/// # Errors
/// As [`read_stored`]; `Unsupported`, for a codec that this build does not know.
pub fn read_value(file: &dyn File, uid: BlobUid, pointer: &BlobPointer) -> Result<Slice> {
    check_length(pointer)?;
    let stored = read_stored(file, uid, pointer)?;
    Ok(decompressed(pointer, &stored)?.unwrap_or_else(|| stored.into()))
}

/// The value that is compressed in the bytes that a pointer leads to; `None` if they are the value.
fn decompressed(pointer: &BlobPointer, stored: &[u8]) -> Result<Option<Slice>> {
    let codec = Codec::from_u8(pointer.codec)?;
    if codec == Codec::Raw && pointer.length == pointer.stored_bytes {
        return Ok(None);
    }
    let mut value = Vec::new();
    let decoded = codec.decode(stored, None, pointer.length as usize, &mut value);
    decoded.map_err(|error| error.or_offset(pointer.offset))?;
    Ok(Some(value.into()))
}

/// Verifies what a pointer leads to in pieces, without keeping it.
///
/// # Errors
/// As [`read_stored`].
pub fn verify_stored(file: &dyn File, uid: BlobUid, pointer: &BlobPointer) -> Result<()> {
    check_length(pointer)?;
    let mut piece = vec![0; VERIFY_BYTES.min(pointer.stored_bytes as usize)];
    let (mut done, mut found) = (0, checksum_at(uid, pointer.offset));
    while done < u64::from(pointer.stored_bytes) {
        let left = u64::from(pointer.stored_bytes) - done;
        let bytes = &mut piece[..left.min(VERIFY_BYTES as u64) as usize];
        file.read_exact_at(bytes, pointer.offset.saturating_add(done))?;
        found = crc32c_append(found, bytes);
        done += bytes.len() as u64;
    }
    check_stored(pointer, found)
}

/// Compares the checksum of what lies at a pointer with what the pointer says.
///
/// # Errors
/// Corruption, if they differ.
pub fn check_stored(pointer: &BlobPointer, found: u32) -> Result<()> {
    if found == pointer.checksum || seeded_fault!("skip_checksum") {
        return Ok(());
    }
    let error = bad_checksum("bad checksum of a separated value", pointer.checksum, found);
    Err(error.with_offset(pointer.offset))
}

fn check_length(pointer: &BlobPointer) -> Result<()> {
    if pointer.length as usize <= VALUE_BYTES_MAX && pointer.stored_bytes <= pointer.length {
        return Ok(());
    }
    Err(Error::corruption("bad length of a separated value")
        .with_offset(pointer.offset)
        .with_mismatch(format_args!("at most {VALUE_BYTES_MAX}"), pointer.length))
}

/// A record that a scan has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundBlob {
    /// Where its header begins, in bytes.
    pub offset: u64,
    /// What the header says.
    pub header: BlobHeader,
    /// Bytes before it that are no record.
    pub gap_bytes: u64,
}

/// A walk over the headers of a file, from its begin to its end. It reads no payload.
#[derive(Debug)]
pub struct BlobScan {
    file: Arc<dyn File>,
    uid: BlobUid,
    offset: u64,
    end: u64,
}

impl BlobScan {
    /// A scan of `file`, whose header is read.
    ///
    /// # Errors
    /// As [`read_file_header`].
    pub fn new(file: Arc<dyn File>) -> Result<Self> {
        let uid = read_file_header(&*file)?;
        let end = file.len();
        Ok(Self { file, uid, offset: BLOB_FILE_HEADER_BYTES, end })
    }

    /// The uid of the file.
    #[must_use]
    pub fn uid(&self) -> BlobUid {
        self.uid
    }

    /// The next record that lies in the file as a whole; `None` at the end.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn next_blob(&mut self) -> Result<Option<FoundBlob>> {
        let (start, mut at) = (self.offset, self.offset);
        let mut window = Vec::new();
        while at + BLOB_HEADER_BYTES <= self.end {
            // One header where it is expected; many places once it is not there.
            let wanted = if at == start { BLOB_HEADER_BYTES as usize } else { SEARCH_BYTES };
            let bytes = (self.end - at).min(wanted as u64) as usize;
            window.resize(bytes, 0);
            self.file.read_exact_at(&mut window, at)?;
            for place in (0..=bytes - BLOB_HEADER_BYTES as usize).step_by(ALIGNMENT as usize) {
                let offset = at + place as u64;
                let header = &window[place..place + BLOB_HEADER_BYTES as usize];
                let Some(header) = BlobHeader::decode(header, self.uid, offset) else { continue };
                let payload_end = offset + BLOB_HEADER_BYTES + u64::from(header.stored_bytes);
                if payload_end > self.end {
                    continue;
                }
                self.offset = offset + record_bytes(header.stored_bytes);
                assert!(self.offset > start, "a scan stands still at {start}");
                return Ok(Some(FoundBlob { offset, header, gap_bytes: offset - start }));
            }
            let tried = bytes as u64 - BLOB_HEADER_BYTES + 1;
            at += tried.next_multiple_of(ALIGNMENT);
        }
        self.offset = self.end;
        Ok(None)
    }
}

/// What a table refers to in one blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobReference {
    /// The file.
    pub file: FileNumber,
    /// The number of values.
    pub count: u64,
    /// What their records take in the file, in bytes.
    pub bytes: u64,
}

/// What a table refers to in blob files, ascending by file.
///
/// `| file varint | count varint | bytes varint | ...`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobReferences {
    files: Vec<BlobReference>,
}

impl BlobReferences {
    /// Adds a pointer.
    pub fn note(&mut self, pointer: &BlobPointer) {
        let bytes = record_bytes(pointer.stored_bytes);
        match self.files.binary_search_by_key(&pointer.file, |reference| reference.file) {
            Ok(place) => {
                self.files[place].count += 1;
                self.files[place].bytes += bytes;
            }
            Err(place) => {
                self.files.insert(place, BlobReference { file: pointer.file, count: 1, bytes });
            }
        }
    }

    /// The references, ascending by file.
    #[must_use]
    pub fn files(&self) -> &[BlobReference] {
        &self.files
    }

    /// What the values take in all blob files, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, reference| sum.saturating_add(reference.bytes))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether any of them is one to `file`.
    #[must_use]
    pub fn has(&self, file: FileNumber) -> bool {
        self.files.binary_search_by_key(&file, |reference| reference.file).is_ok()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let is_sorted = self.files.is_sorted_by(|a, b| a.file < b.file);
        assert!(is_sorted, "blob references out of order: {:?}", self.files);
        for BlobReference { file, count, bytes } in &self.files {
            put_varint(out, file.0);
            put_varint(out, *count);
            put_varint(out, *bytes);
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        let mut files: Vec<BlobReference> = Vec::new();
        while !reader.is_empty() {
            let file = FileNumber(reader.varint()?);
            if files.last().is_some_and(|last| last.file >= file) {
                return Err(Error::corruption("blob references out of order"));
            }
            files.push(BlobReference { file, count: reader.varint()?, bytes: reader.varint()? });
        }
        Ok(Self { files })
    }
}

#[cfg(test)]
mod tests;
