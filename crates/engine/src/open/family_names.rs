//! The names of the families of a database, without opening it.
//!
//! It reads `CURRENT` and the manifest, and no other file.

use crate::{
    catalog::manifest::{open_manifest, read_current, read_edits},
    open::directory::no_database,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{File, Fs, Metadata},
    id::{FamilyId, FileNumber},
};
use siltdb_disk::edit::Change;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Attempts to read a manifest while another process appends to it or replaces it.
const ATTEMPTS_MAX: usize = 20;

/// The names of all families of the database in `dir`, sorted. It takes no lock and writes nothing.
///
/// # Errors
/// `NotFound` without a database; `Corruption` with file and offset; `Unsupported`; the system's.
pub fn family_names(fs: &dyn Fs, dir: &Path) -> Result<Vec<String>> {
    if !matches!(fs.metadata(dir)?, Some(Metadata::Directory)) {
        return Err(no_database(dir).with_hint("check the path"));
    }
    let directory = fs.open_dir(dir)?;
    let mut failed: Option<Error> = None;
    for _ in 0..ATTEMPTS_MAX {
        let Some(number) = read_current(&*directory)? else { return Err(no_database(dir)) };
        match read_names(&*directory, number) {
            Ok(names) => return Ok(names),
            Err(error) if error.kind() == ErrorKind::Corruption => {
                // An edit that another process is writing looks like damage, but only once.
                let is_lasting = failed.replace(error.duplicate()).is_some_and(|before| {
                    (before.file(), before.offset()) == (error.file(), error.offset())
                });
                if is_lasting {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(failed.expect("each attempt but a successful one leaves its error"))
}

/// The family names in the manifest `number`, sorted.
fn read_names(directory: &dyn Fs, number: FileNumber) -> Result<Vec<String>> {
    let mut names: BTreeMap<FamilyId, String> = BTreeMap::new();
    let (path, file) = open_manifest(directory, number)?;
    let copy = Arc::new(Copied::of(&*file).map_err(|error| error.or_file(&path))?);
    read_edits(path, copy, &mut |edit| {
        for change in edit.changes {
            match change {
                Change::CreateFamily { id, name, .. } | Change::RenameFamily { id, name } => {
                    names.insert(id, name);
                }
                Change::DropFamily { id } => {
                    names.remove(&id);
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    let mut names: Vec<String> = names.into_values().collect();
    names.sort_unstable();
    Ok(names)
}

/// A copy of a file as it was at nearly one moment. If a growing file were read piece by piece, its
/// beginning would be older than its end. The two would hardly ever fit together.
#[derive(Debug)]
struct Copied(Vec<u8>);

impl Copied {
    fn of(file: &dyn File) -> Result<Self> {
        let len = usize::try_from(file.len())
            .map_err(|_| Error::corruption("the manifest exceeds memory"))?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|_| Error::corruption("the manifest exceeds memory"))?;
        bytes.resize(len, 0);
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self(bytes))
    }
}

impl File for Copied {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.0.get(start..)?.get(..buffer.len()));
        let bytes =
            bytes.ok_or_else(|| Error::corruption("file ends early").with_offset(offset))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
