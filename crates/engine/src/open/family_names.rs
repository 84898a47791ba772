//! The names of the families of a database, without opening it.
//!
//! It reads the manifest and nothing else.

use crate::{
    catalog::manifest::{read_current, read_manifest},
    open::directory::no_database,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, Metadata},
    id::{FamilyId, FileNumber},
};
use siltdb_disk::edit::Change;
use std::{collections::BTreeMap, path::Path};

/// Attempts to read a manifest that another process appends to, or replaces, meanwhile.
const ATTEMPTS_MAX: usize = 20;

/// The names of all families of the database in `dir`, sorted. Takes no lock.
///
/// # Errors
/// `NotFound`, if there is no database; `Corruption` with file and offset; `Unsupported`; the
/// system's.
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
                // What a process was writing when it was read looks like damage, once.
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

/// The names that the manifest `number` comes to, sorted.
fn read_names(directory: &dyn Fs, number: FileNumber) -> Result<Vec<String>> {
    let mut names: BTreeMap<FamilyId, String> = BTreeMap::new();
    read_manifest(directory, number, &mut |edit| {
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
