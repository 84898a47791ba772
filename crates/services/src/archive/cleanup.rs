//! Removing archives: one by its name, old ones, and what killed exports have left.
//!
//! What does not begin as an archive stays, whatever it is called.

use crate::archive::{
    info::ArchiveInfo,
    list::list_archives,
    place::{LockedArchives, archive_name, check_ours, check_unfinished},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, Metadata},
};
use siltdb_disk::archive::name::ArchiveFileName;
use siltdb_engine::options::EngineOptions;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Which archives are old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanupRequest {
    /// How many of the newest stay, however old they are.
    pub keep: Option<u64>,
    /// Archives that were made more recently stay.
    pub older_than: Option<Duration>,
    /// Whether the report says what would be removed, and nothing is.
    pub is_dry: bool,
}

/// The result of a cleanup.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct CleanupReport {
    /// The archives that were removed, oldest first.
    pub archives: Vec<PathBuf>,
    /// What killed exports had left.
    pub unfinished: Vec<PathBuf>,
    /// The bytes of all these files.
    pub bytes: u64,
    /// The reasons why other files with such names stay: they cannot be read.
    pub errors: Vec<Error>,
}

/// Removes the archive at `path`, damaged or not. Returns its length, in bytes.
///
/// # Errors
/// `NotFound`; `InvalidArgument`, if the path does not end in `.siltar`, or the file does not begin
/// as an archive; as [`LockedArchives::open`].
pub fn remove_archive(path: &Path, options: &EngineOptions) -> Result<u64> {
    let name = ArchiveFileName::Archive(archive_name(path)?).to_path();
    let locked = LockedArchives::around(path, options)?;
    let fs = locked.fs();
    let bytes = match fs.metadata(&name)? {
        Some(Metadata::File { len }) => len,
        Some(_) => return Err(Error::invalid("not an archive: it is no file").with_file(path)),
        None => {
            return Err(Error::new(ErrorKind::NotFound, "no archive at the path").with_file(path));
        }
    };
    check_ours(fs, &name)?;
    fs.remove(&name)?;
    fs.sync_dir(Path::new(""))?;
    Ok(bytes)
}

/// Removes what killed exports have left in `dir`, and the archives that `request` calls old. If it
/// calls none old, all archives stay. An archive that cannot be read stays, and counts for nothing.
///
/// # Errors
/// As [`LockedArchives::open`].
pub fn clean_archives(
    dir: &Path,
    request: &CleanupRequest,
    options: &EngineOptions,
) -> Result<CleanupReport> {
    let locked = LockedArchives::open(dir, options)?;
    let fs = locked.fs();
    let mut report = CleanupReport::default();
    let mut found = list_archives(dir, options)?;
    report.errors.append(&mut found.errors);
    let now_ms = options.clock.wall_ms();
    for archive in old(found.archives, request, now_ms) {
        if let Some(name) = archive.path.file_name() {
            remove(fs, Path::new(name), archive.bytes, request, &mut report)?;
            report.archives.push(archive.path);
        }
    }
    for (name, len) in fs.list_lengths(Path::new(""))? {
        let Some(ArchiveFileName::Partial(_)) = ArchiveFileName::parse(&name) else { continue };
        let name = Path::new(&name);
        match check_unfinished(fs, name) {
            Ok(()) => {
                remove(fs, name, len, request, &mut report)?;
                report.unfinished.push(dir.join(name));
            }
            Err(error) => report.errors.push(error),
        }
    }
    report.unfinished.sort();
    if !request.is_dry {
        fs.sync_dir(Path::new(""))?;
    }
    Ok(report)
}

/// Those of `archives` that are old, oldest first.
fn old(mut archives: Vec<ArchiveInfo>, request: &CleanupRequest, now_ms: u64) -> Vec<ArchiveInfo> {
    let CleanupRequest { keep, older_than, .. } = *request;
    if keep.is_none() && older_than.is_none() {
        return Vec::new();
    }
    archives.sort_by(|a, b| (a.created_ms, &a.path).cmp(&(b.created_ms, &b.path)));
    let kept = usize::try_from(keep.unwrap_or(0)).unwrap_or(usize::MAX);
    archives.truncate(archives.len().saturating_sub(kept));
    let age_ms = older_than.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    archives.retain(|archive| now_ms.saturating_sub(archive.created_ms) >= age_ms);
    archives
}

/// Removes a file of this name and length, and counts it, or only counts it.
fn remove(
    fs: &dyn Fs,
    name: &Path,
    len: u64,
    request: &CleanupRequest,
    report: &mut CleanupReport,
) -> Result<()> {
    report.bytes += len;
    if request.is_dry { Ok(()) } else { fs.remove(name) }
}
