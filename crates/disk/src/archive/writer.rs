//! Writes an archive: families in the order of their names, entries in the order of their keys.
//!
//! It neither syncs nor verifies: the caller owns the file, and reads the archive back before it
//! gives it its name.

use crate::{
    archive::{
        directory::{ARCHIVE_SEQUENCE, ArchiveDirectory, ArchivedFamily, ArchivedTable},
        envelope::{ArchiveFooter, encode_header},
    },
    fields::UnknownFields,
    options::TableOptions,
    table::TableWriter,
    table_meta::TableMeta,
};
use siltdb_base::{
    checksum::{crc32c, crc32c_append},
    error::Result,
    fs::WriteFile,
    id::{SequenceNumber, TableUid},
    key::{Entry, EntryKind},
};

/// Bytes written between two reports.
const REPORT_BYTES: u64 = 64 << 10;

/// A put, as an archive keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedPut<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// When the value expires, in ms since 1970.
    pub expiry_ms: Option<u64>,
}

/// The puts of one family, in the order of their keys, each key once.
pub trait ArchiveSource {
    /// The put that the source stands on; `None` at the end.
    ///
    /// # Errors
    /// Corruption.
    fn put(&self) -> Result<Option<ArchivedPut<'_>>>;

    /// Goes to the next put.
    ///
    /// # Errors
    /// What reading fails with.
    fn advance(&mut self) -> Result<()>;
}

/// What an archive says of itself.
#[derive(Clone, Debug)]
pub struct ArchiveFacts {
    /// A random number.
    pub id: u64,
    /// The sequence number of the snapshot.
    pub sequence: SequenceNumber,
    /// The time, in ms since 1970.
    pub created_ms: u64,
    /// The directory of the database.
    pub source: String,
}

/// What an archive says of a family, and how it writes the family's tables.
#[derive(Clone, Debug)]
pub struct FamilyFacts {
    /// The name.
    pub name: String,
    /// The options, as the manifest has them.
    pub options: Vec<u8>,
    /// The name of the merge operator.
    pub merge_operator: Option<String>,
    /// How tables are written.
    pub table: TableOptions,
    /// Size at which the next table is begun, in bytes: a table takes memory for its keys until it
    /// is finished.
    pub table_bytes: u64,
}

/// Writes one archive to a new file.
///
/// After an error the file is worthless. Memory: that of a [`TableWriter`], and the summaries of
/// the tables.
#[derive(Debug)]
pub struct ArchiveWriter {
    file: SummedFile,
    id: u64,
    directory: ArchiveDirectory,
}

impl ArchiveWriter {
    /// Begins an archive in `file`, which is empty.
    ///
    /// # Errors
    /// What writing the file fails with.
    pub fn new(file: Box<dyn WriteFile>, facts: ArchiveFacts) -> Result<Self> {
        let ArchiveFacts { id, sequence, created_ms, source } = facts;
        let mut file = SummedFile { file, checksum: 0 };
        file.append(&encode_header(id))?;
        let (families, unknown) = (Vec::new(), UnknownFields::default());
        let directory = ArchiveDirectory { families, sequence, created_ms, source, unknown };
        Ok(Self { file, id, directory })
    }

    /// Writes a family, with all that `source` has from where it stands. `uids` gives the random
    /// names of tables. `on_bytes` is told now and then how many bytes were written since it was
    /// told last; its error ends the archive.
    ///
    /// # Errors
    /// What reading and writing fail with; the errors of `on_bytes`.
    ///
    /// # Panics
    /// If the name is not after those before, or an entry not after the one before.
    pub fn add_family(
        &mut self,
        facts: FamilyFacts,
        source: &mut dyn ArchiveSource,
        uids: &mut dyn FnMut() -> TableUid,
        on_bytes: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let last = self.directory.families.last();
        assert!(last.is_none_or(|last| last.name < facts.name), "families out of order");
        let mut report = Report { told: self.file.len(), on_bytes };
        let mut tables = Vec::new();
        while source.put()?.is_some() {
            let offset = self.file.len();
            let table = TableWriter::new(&mut self.file, &facts.table, uids())
                .with_created_ms(self.directory.created_ms);
            let meta = fill(table, source, facts.table_bytes, offset, &mut report)?;
            report.reach(self.file.len())?;
            tables.push(ArchivedTable { offset, meta });
        }
        let FamilyFacts { name, options, merge_operator, .. } = facts;
        let unknown = UnknownFields::default();
        let family = ArchivedFamily { name, options, merge_operator, tables, unknown };
        self.directory.families.push(family);
        Ok(())
    }

    /// Writes directory and footer, and returns the file, which is not synced.
    ///
    /// # Errors
    /// What writing the file fails with.
    pub fn finish(mut self) -> Result<Box<dyn WriteFile>> {
        let mut directory = Vec::new();
        self.directory.encode(&mut directory);
        self.file.append(&directory)?;
        let footer = ArchiveFooter {
            id: self.id,
            directory_bytes: directory.len() as u64,
            content_checksum: self.file.checksum,
            directory_checksum: crc32c(&directory),
        };
        let mut file = self.file.file;
        file.append(&footer.encode())?;
        Ok(file)
    }
}

/// Writes one table, which begins at `offset` of the archive.
fn fill(
    mut table: TableWriter<'_>,
    source: &mut dyn ArchiveSource,
    table_bytes: u64,
    offset: u64,
    report: &mut Report<'_>,
) -> Result<TableMeta> {
    let mut payload = Vec::new();
    while let Some(ArchivedPut { key, value, expiry_ms }) = source.put()? {
        let bytes = table.estimated_bytes();
        if bytes >= table_bytes && !table.is_empty() {
            break;
        }
        if offset + bytes >= report.told + REPORT_BYTES {
            report.reach(offset + bytes)?;
        }
        let (kind, value) = match expiry_ms {
            None => (EntryKind::Put, value),
            Some(expiry_ms) => {
                payload.clear();
                payload.extend_from_slice(&expiry_ms.to_le_bytes());
                payload.extend_from_slice(value);
                (EntryKind::PutExpiring, &payload[..])
            }
        };
        table.add(Entry { key, sequence: ARCHIVE_SEQUENCE, kind, value })?;
        source.advance()?;
    }
    table.finish()
}

/// Tells how many bytes were written.
struct Report<'a> {
    /// How far the file was told of. An estimate may be ahead of the file for a while.
    told: u64,
    on_bytes: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl Report<'_> {
    fn reach(&mut self, end: u64) -> Result<()> {
        let bytes = end.saturating_sub(self.told);
        self.told += bytes;
        if bytes == 0 { Ok(()) } else { (self.on_bytes)(bytes) }
    }
}

/// A file that is written through to another, with a checksum of everything.
#[derive(Debug)]
struct SummedFile {
    file: Box<dyn WriteFile>,
    checksum: u32,
}

impl WriteFile for SummedFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.checksum = crc32c_append(self.checksum, bytes);
        self.file.append(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
}
