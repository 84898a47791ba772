//! The files that a copy of a database needs: those of tables, and those of separated values.
//!
//! It copies none. A file that is copied gets its name once it is whole.

use crate::contents::CopyContents;
use siltdb_base::{
    error::Result,
    fs::{File, Fs, WriteFile},
    id::{FileNumber, TableUid},
    seeded_fault,
};
use siltdb_disk::{
    backup_list::{ObjectKind, blob_files, references},
    edit::TableReference,
    table::{TableLocation, TableScan},
};
use siltdb_engine::{
    blobs::blob_file::BlobFile,
    kit::copying::{FilePart, file_bytes},
};
use siltdb_tree::files::open_files::OpenFiles;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file that a copy needs.
#[derive(Debug)]
pub struct CopyFile<'a> {
    /// Its number in the database.
    pub number: FileNumber,
    /// The length of the copy, in bytes.
    pub bytes: u64,
    /// What it is copied from.
    pub source: CopySource<'a>,
}

/// The source of a [`CopyFile`].
#[derive(Debug)]
pub enum CopySource<'a> {
    /// A file of tables.
    Tables {
        /// The files that it is one of.
        files: &'a OpenFiles,
        /// Its tables that the copy refers to, by their offsets; at least one.
        tables: Vec<&'a TableReference>,
    },
    /// A file of separated values.
    Blobs(&'a BlobFile),
}

impl CopyFile<'_> {
    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        match self.source {
            CopySource::Tables { .. } => ObjectKind::Tables,
            CopySource::Blobs(_) => ObjectKind::Blobs,
        }
    }

    /// Its tables that the copy refers to, by their offsets.
    #[must_use]
    pub fn tables(&self) -> &[&TableReference] {
        match &self.source {
            CopySource::Tables { tables, .. } => tables,
            CopySource::Blobs(_) => &[],
        }
    }

    /// The random name of its first table, or its own.
    #[must_use]
    pub fn uid(&self) -> TableUid {
        match &self.source {
            CopySource::Tables { tables, .. } => tables[0].meta.uid,
            CopySource::Blobs(blob) => TableUid(blob.uid().0),
        }
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.source {
            CopySource::Tables { files, .. } => files.path(self.number),
            CopySource::Blobs(blob) => blob.path(),
        }
    }

    /// Opens it, as long as the copy is.
    ///
    /// # Errors
    /// Corruption, if it is missing or another file; the system's.
    pub fn open(&self) -> Result<Arc<dyn File>> {
        match &self.source {
            CopySource::Tables { files, .. } => files.open_file(self.number),
            CopySource::Blobs(blob) => {
                Ok(Arc::new(FilePart::new(Arc::clone(blob.open()?), 0, self.bytes)))
            }
        }
    }
}

/// The files of `contents`: those of tables, which `database` has open unless they were added, and
/// those of separated values; both ascend.
///
/// # Errors
/// Corruption, if one is missing; as [`CopyContents::blob_bytes`]; the system's.
pub fn copy_files<'a>(
    contents: &'a CopyContents,
    database: &'a OpenFiles,
) -> Result<Vec<CopyFile<'a>>> {
    let mut tables: BTreeMap<FileNumber, Vec<&TableReference>> = BTreeMap::new();
    for table in references(&contents.state) {
        tables.entry(table.file).or_default().push(table);
    }
    let table_file = |(number, mut tables): (FileNumber, Vec<&'a TableReference>)| {
        tables.sort_by_key(|table| table.offset);
        // Families may see parts of one table.
        tables.dedup_by_key(|table| table.offset);
        let files = contents.files_of(number, database);
        let bytes = file_bytes(files, number)?;
        Ok(CopyFile { number, bytes, source: CopySource::Tables { files, tables } })
    };
    let blob_file = |(number, _)| {
        let blob = contents.blobs.named(number)?;
        Ok(CopyFile { number, bytes: contents.blob_bytes(blob)?, source: CopySource::Blobs(blob) })
    };
    let mut blobs: Vec<_> = blob_files(&contents.state).collect();
    blobs.sort_unstable();
    tables.into_iter().map(table_file).chain(blobs.into_iter().map(blob_file)).collect()
}

/// Writes a file under the name `partial`, and then gives it the name that `write` returns, which
/// is not durable yet. `write` ends with [`sync_new`] and a look at what was written. If it fails,
/// the file is removed, now or by a later call that finds it.
///
/// # Errors
/// Those of `write`; the system's.
pub fn write_whole<T>(
    fs: &dyn Fs,
    partial: &Path,
    write: impl FnOnce(Box<dyn WriteFile>) -> Result<(PathBuf, T)>,
) -> Result<T> {
    let written = fs.create(partial).and_then(write);
    let (name, result) = written.inspect_err(|_| {
        let _ = fs.remove(partial);
    })?;
    fs.rename(partial, &name)?;
    Ok(result)
}

/// Makes a file durable that is about to get its name.
///
/// # Errors
/// The system's.
pub fn sync_new(mut file: Box<dyn WriteFile>) -> Result<()> {
    match seeded_fault!("copy_without_a_sync") {
        true => file.flush(),
        false => file.sync(),
    }
}

/// Reads each block of the tables in the file called `name`, and verifies it.
///
/// # Errors
/// Corruption, with file and offset; the errors of reading the file.
pub fn verify_tables(fs: &dyn Fs, name: &Path, tables: &[&TableReference]) -> Result<()> {
    if tables.is_empty() {
        return Ok(());
    }
    let path = fs.full_path(name);
    let file = fs.open(name)?;
    for table in tables {
        let TableReference { offset, length, meta, .. } = table;
        TableScan::open(TableLocation::new(file.clone(), &path, *offset, *length), meta)
            .and_then(|scan| scan.verify(&mut |_, _, _| Ok(())))
            .map_err(|error| error.or_file(&path))?;
    }
    Ok(())
}
