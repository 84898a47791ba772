//! Which archives a directory holds.

use crate::archive::{info::ArchiveInfo, place::open_archive};
use siltdb_base::{
    error::{Error, Result},
    fs::FileKind,
};
use siltdb_disk::archive::name::ArchiveFileName;
use siltdb_engine::{open::foreign::check_not_foreign, options::EngineOptions};
use std::path::Path;

/// The archives of a directory.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct ArchiveListing {
    /// Those whose directories can be read, by name.
    pub archives: Vec<ArchiveInfo>,
    /// What is wrong with the others.
    pub errors: Vec<Error>,
}

/// The archives in `dir`, by their own directories: the entries are not read. Files of other names
/// are passed over.
///
/// # Errors
/// As [`check_not_foreign`]; the system's.
pub fn list_archives(dir: &Path, options: &EngineOptions) -> Result<ArchiveListing> {
    check_not_foreign(&*options.fs, dir)?;
    let mut names: Vec<ArchiveFileName> = options
        .fs
        .list(dir)?
        .iter()
        .filter(|entry| entry.kind == FileKind::File)
        .filter_map(|entry| ArchiveFileName::parse(&entry.name))
        .filter(|name| matches!(name, ArchiveFileName::Archive(_)))
        .collect();
    names.sort();
    let mut listing = ArchiveListing::default();
    for name in names {
        match open_archive(&dir.join(name.to_path()), options) {
            Ok(archive) => listing.archives.push(ArchiveInfo::of(&archive)),
            Err(error) => listing.errors.push(error),
        }
    }
    Ok(listing)
}
