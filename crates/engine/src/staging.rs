//! Directories of new databases, filled under another name: a copy is whole or not there.
//!
//! It does not say what a database is made of.
//!
//! 1. `DIR.partial` is created and locked, and what an earlier attempt left there is removed.
//! 2. It is filled; each file is synced by the one that writes it.
//! 3. The directory is synced and renamed to `DIR`, and the new name is synced.

use crate::{
    catalog::manifest::{LogState, Manifest},
    open::directory::sync_ancestors,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LockKind, Metadata},
    id::FileNumber,
};
use siltdb_disk::{edit::Edit, file_name::FileName};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The suffix of the directory until it is whole.
const PARTIAL: &str = ".partial";

/// Refuses a file and a directory that is not empty.
///
/// # Errors
/// `AlreadyExists`; the system's.
pub fn check_free(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let is_free = match fs.metadata(dir)? {
        None => true,
        Some(Metadata::Directory) => fs.list(dir)?.is_empty(),
        Some(_) => false,
    };
    if is_free {
        return Ok(());
    }
    Err(Error::new(ErrorKind::AlreadyExists, "the path of the new database is in use")
        .with_file(dir)
        .with_hint("give a directory that does not exist"))
}

/// Refuses a directory that is one of a database, or lies in one.
///
/// # Errors
/// `InvalidArgument`; the system's.
pub fn check_outside_databases(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let kind = |path: &Path| match path.as_os_str().is_empty() {
        true => Ok(Some(Metadata::Directory)),
        false => fs.metadata(path),
    };
    let mut ancestors: Vec<&Path> = dir.ancestors().collect();
    // From the top, because nothing lies in a directory that is not there.
    ancestors.reverse();
    for ancestor in ancestors {
        if kind(ancestor)? != Some(Metadata::Directory) {
            break;
        }
        let [current, lock] =
            [FileName::Current, FileName::Lock].map(|name| ancestor.join(name.to_path()));
        let is_file = |kind| matches!(kind, Some(Metadata::File { .. }));
        if is_file(kind(&current)?) && is_file(kind(&lock)?) {
            return Err(Error::invalid("the directory belongs to a database")
                .with_file(ancestor)
                .with_hint("give a directory outside of it"));
        }
    }
    Ok(())
}

/// Makes the directory `dir` of what `fill` writes into it. On return it is durable.
///
/// # Errors
/// `AlreadyExists`, if something is there; `Locked`, if another process fills it; what `fill` fails
/// with; the system's. Then `dir` does not exist, or, if only the sync of its name failed, is
/// whole. Beside it there may be a `DIR.partial`, which the next attempt replaces.
pub fn fill_directory<T>(
    fs: &dyn Fs,
    dir: &Path,
    fill: impl FnOnce(&Arc<dyn Fs>) -> Result<T>,
) -> Result<T> {
    check_free(fs, dir)?;
    let name = dir.file_name().ok_or_else(|| {
        Error::invalid("the path of a new database does not end in a name").with_file(dir)
    })?;
    let parent = open_parent(fs, dir)?;
    let (name, partial) = (Path::new(name), partial_name(name));
    parent.create_dir_all(&partial)?;
    let target = parent.open_dir(&partial)?;
    // Against another attempt at that name.
    let target_lock = target.lock(&FileName::Lock.to_path(), LockKind::Exclusive)?;
    let filled = empty(&*target).and_then(|()| fill(&target));
    let filled = filled.inspect_err(|_| {
        // The next attempt at that name removes them otherwise.
        let _ = remove_files(&*target);
    })?;
    parent.sync_dir(Path::new(""))?;
    parent.rename(&partial, name)?;
    drop(target_lock);
    parent.sync_dir(Path::new(""))?;
    Ok(filled)
}

/// Writes manifest and `CURRENT`, which make the directory a database. The other files are synced
/// before.
///
/// # Errors
/// The system's.
pub fn begin_manifest(
    target: &Arc<dyn Fs>,
    (number, state): (FileNumber, &Edit),
    random: u32,
) -> Result<()> {
    target.sync_dir(Path::new(""))?;
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut manifest = Manifest::new(Arc::clone(target), None, None, LogState::default());
    manifest.begin(number, &bytes, random).map_err(|failure| failure.into_error())?;
    manifest.give_back_unused();
    Ok(())
}

fn partial_name(name: &OsStr) -> PathBuf {
    let mut name = name.to_owned();
    name.push(PARTIAL);
    name.into()
}

/// Opens the directory that `dir` will lie in, and makes its name durable.
fn open_parent(fs: &dyn Fs, dir: &Path) -> Result<Arc<dyn Fs>> {
    let parent = dir.parent().unwrap_or(Path::new(""));
    if !parent.as_os_str().is_empty() {
        fs.create_dir_all(parent)?;
        sync_ancestors(fs, parent)?;
    }
    fs.open_dir(parent)
}

/// Removes the files of an earlier attempt that was killed.
fn empty(target: &dyn Fs) -> Result<()> {
    remove_files(target)?;
    match target
        .list(Path::new(""))?
        .iter()
        .find(|entry| FileName::parse(&entry.name) != Some(FileName::Lock))
    {
        None => Ok(()),
        Some(entry) => Err(Error::new(
            ErrorKind::AlreadyExists,
            "the partial directory of a new database has a foreign file",
        )
        .with_file(&target.full_path(Path::new(&entry.name)))),
    }
}

fn remove_files(target: &dyn Fs) -> Result<()> {
    let is_ours = |name: &str| FileName::parse(name).is_some_and(|name| name != FileName::Lock);
    for entry in target.list(Path::new(""))?.into_iter().filter(|entry| is_ours(&entry.name)) {
        target.remove(Path::new(&entry.name))?;
    }
    Ok(())
}
