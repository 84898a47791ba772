//! An open archive: its directory in memory, its tables where they lie.
//!
//! It says what there is; whether a value has expired is for callers.

use crate::{
    archive::{
        directory::{ArchiveDirectory, ArchivedTable},
        envelope::{
            ARCHIVE_FOOTER_BYTES, ARCHIVE_HEADER_BYTES, ArchiveFooter, check, decode_header,
        },
    },
    table::{TableLocation, TableScan},
};
use siltdb_base::{
    checksum::{bad_checksum, crc32c_append},
    codec::resize,
    error::{Error, ErrorKind, Result},
    fs::File,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Longest directory, in bytes: that of some ten million tables.
const DIRECTORY_BYTES_MAX: u64 = 1 << 32;

/// Bytes read at a time for the checksum of an archive.
const PIECE_BYTES: u64 = 256 << 10;

/// An archive that is open.
///
/// # Thread safety
/// It is immutable.
#[derive(Debug)]
pub struct ArchiveFile {
    file: Arc<dyn File>,
    path: PathBuf,
    footer: ArchiveFooter,
    directory: ArchiveDirectory,
}

impl ArchiveFile {
    /// Opens the archive in `file`, which lies at `path`. Header, footer and directory are read and
    /// verified; the rest is when it is read.
    ///
    /// # Errors
    /// `InvalidArgument`, if the file is no archive; corruption, if it is cut short or damaged;
    /// `Unsupported`, if a newer version wrote it; what reading fails with.
    pub fn open(file: Arc<dyn File>, path: &Path) -> Result<Arc<Self>> {
        let (footer, directory) = read(&*file).map_err(|error| damaged(error.or_file(path)))?;
        let path = path.to_owned();
        Ok(Arc::new(Self { file, path, footer, directory }))
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &ArchiveDirectory {
        &self.directory
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its random number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.footer.id
    }

    /// Its length, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.file.len()
    }

    /// Opens one of its tables.
    ///
    /// # Errors
    /// Corruption, if the table is damaged, or another one than the directory says; what reading
    /// fails with.
    pub fn open_table(&self, table: &ArchivedTable) -> Result<Arc<TableScan>> {
        let ArchivedTable { offset, meta } = table;
        TableScan::open(
            TableLocation::new(self.file.clone(), &self.path, *offset, meta.file_bytes),
            meta,
        )
    }

    /// Reads everything twice: once for the checksum of the file, and once for each block of each
    /// table. `on_bytes` is told of the bytes as they are read; its error ends the verification.
    ///
    /// # Errors
    /// Corruption, naming file and offset; what reading fails with; the errors of `on_bytes`.
    pub fn verify(&self, on_bytes: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        self.try_verify(on_bytes).map_err(damaged)
    }

    fn try_verify(&self, on_bytes: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let end = self.file.len() - ARCHIVE_FOOTER_BYTES as u64;
        let (mut buffer, mut offset, mut found) = (Vec::new(), 0, 0);
        while offset < end {
            let piece = PIECE_BYTES.min(end - offset);
            resize(&mut buffer, piece as usize)?;
            let bytes = &mut buffer[..piece as usize];
            self.file
                .read_exact_at(bytes, offset)
                .map_err(|error| error.or_file(&self.path).or_offset(offset))?;
            found = crc32c_append(found, bytes);
            offset += piece;
            on_bytes(piece)?;
        }
        let expected = self.footer.content_checksum;
        // A damaged block says more than the checksum of the file.
        for table in self.directory.families.iter().flat_map(|family| &family.tables) {
            let mut told = 0;
            self.open_table(table)?.verify(&mut |_, info, _| {
                let bytes = info.offset + info.bytes - told;
                told += bytes;
                on_bytes(bytes)
            })?;
            on_bytes(table.meta.file_bytes.saturating_sub(told))?;
        }
        if expected == found {
            return Ok(());
        }
        Err(bad_checksum("bad checksum of the archive", expected, found).with_file(&self.path))
    }
}

/// The error with what to do about damage to an archive.
pub(super) fn damaged(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corruption => error.with_hint("another copy of the archive may be whole"),
        _ => error,
    }
}

/// Refuses a file that does not begin as an archive of any version.
///
/// # Errors
/// `InvalidArgument`, if it is another file; what reading fails with.
pub fn begins_as_archive(file: &dyn File) -> Result<()> {
    let bytes = first_bytes(file)?;
    match decode_header(&bytes) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) if error.kind() == ErrorKind::Corruption => {
            Err(Error::invalid("not an archive: its first bytes are others").with_source(error))
        }
        decoded => decoded.map(drop),
    }
}

/// Whether a file has nothing where an archive has its header: no bytes, or the zeros of a write
/// that a power loss undid.
///
/// # Errors
/// What reading fails with.
pub fn begins_unwritten(file: &dyn File) -> Result<bool> {
    Ok(first_bytes(file)?.iter().all(|byte| *byte == 0))
}

/// As many bytes as a header has, with zeros behind the end of the file.
fn first_bytes(file: &dyn File) -> Result<[u8; ARCHIVE_HEADER_BYTES]> {
    let mut bytes = [0; ARCHIVE_HEADER_BYTES];
    let length = file.len().min(ARCHIVE_HEADER_BYTES as u64) as usize;
    file.read_exact_at(&mut bytes[..length], 0)?;
    Ok(bytes)
}

/// Reads header, footer and directory.
fn read(file: &dyn File) -> Result<(ArchiveFooter, ArchiveDirectory)> {
    let (head, tail) = (ARCHIVE_HEADER_BYTES as u64, ARCHIVE_FOOTER_BYTES as u64);
    if file.len() < head {
        return Err(Error::invalid("not an archive: the file is too short")
            .with_mismatch(format_args!("at least {head} bytes"), file.len()));
    }
    let mut bytes = [0; ARCHIVE_HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    let id = decode_header(&bytes)?;
    let Some(footer_offset) = file.len().checked_sub(tail).filter(|offset| *offset >= head) else {
        return Err(Error::corruption("the archive is cut short: no footer at its end"));
    };
    let mut bytes = [0; ARCHIVE_FOOTER_BYTES];
    file.read_exact_at(&mut bytes, footer_offset)?;
    let at_footer = |error: Error| error.or_offset(footer_offset);
    let footer = ArchiveFooter::decode(&bytes).map_err(at_footer)?;
    if footer.id != id {
        let error = Error::corruption("the end of an archive is that of another one");
        let error =
            error.with_mismatch(format_args!("{id:016x}"), format_args!("{:016x}", footer.id));
        return Err(at_footer(error));
    }
    let directory_bytes = footer.directory_bytes;
    let directory_offset = footer_offset.checked_sub(directory_bytes);
    let Some(directory_offset) = directory_offset.filter(|offset| *offset >= head) else {
        return Err(at_footer(Error::corruption("directory longer than its archive")));
    };
    if directory_bytes > DIRECTORY_BYTES_MAX {
        return Err(at_footer(Error::corruption("directory of an archive is too long"))
            .with_mismatch(format_args!("at most {DIRECTORY_BYTES_MAX}"), directory_bytes));
    }
    let mut bytes = Vec::new();
    resize(&mut bytes, directory_bytes as usize)?;
    file.read_exact_at(&mut bytes, directory_offset)?;
    let directory =
        check("bad checksum of the directory of an archive", footer.directory_checksum, &bytes)
            .and_then(|()| ArchiveDirectory::decode(&bytes, directory_offset))
            .map_err(|error| error.or_offset(directory_offset))?;
    Ok((footer, directory))
}
