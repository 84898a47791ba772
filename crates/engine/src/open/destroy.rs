//! Removes a database: its files, and the directory if nothing else lies in it.
//!
//! It follows no links and enters no directory but `lost`. `CURRENT` is removed last, so that a
//! database partly removed by a crash is still one and can be removed again.

use crate::{
    catalog::log_state::LogState,
    catalog::manifest::{read_current, read_manifest},
    database::Database,
    open::cold::{ColdContents, ColdLocking, ColdOwnership, FoundCold, find_cold, remove_cold},
    open::directory::{lock_directory, no_database, own_file},
    open::foreign::check_not_foreign,
    options::{Access, EngineOptions},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{FileLock, Fs, LockKind, Metadata},
    sync::lock,
};
use siltdb_disk::file_name::FileName;
use std::path::{Path, PathBuf};

/// Removes the database in `dir`: the files with names of ours, then the directory, unless it holds
/// other entries. Durable on return.
///
/// # Errors
/// `NotFound` without a database; `Locked`, if it is open; `Corruption`, if its `CURRENT` is not
/// ours; as [`check_not_foreign`]; the system's. After an error of the system a part may be gone;
/// the rest can be removed
/// again.
pub fn destroy(dir: &Path, options: &EngineOptions) -> Result<()> {
    let fs = &*options.fs;
    check_not_foreign(fs, dir)?;
    match fs.metadata(dir)? {
        None => return Err(no_database(dir).with_hint("check the path")),
        Some(Metadata::Directory) => {}
        Some(_) => {
            return Err(
                Error::invalid("the path of a database is a file, not a directory").with_file(dir)
            );
        }
    }
    let directory = fs.open_dir(dir)?;
    // Checked before the lock, which would leave a file in the directory of another program.
    check_is_ours(&*directory, dir)?;
    let directory_lock = lock_directory(&*directory, options, LockKind::Exclusive)?;
    // Another process may have removed it between the check and the lock.
    if let Err(error) = check_is_ours(&*directory, dir) {
        let _ = directory.remove(&FileName::Lock.to_path());
        return Err(error);
    }
    remove_cold_tier(&*directory, dir, options)?;
    remove_locked(fs, &*directory, dir, directory_lock)
}

/// The directory outside of `dir` from which [`destroy`] removes tables of the database in `dir`:
/// its cold one, if it is there and belongs to this directory.
///
/// # Errors
/// `NotFound` without a database; `Locked`, if it is open; as [`destroy`].
pub fn outside(dir: &Path, options: &EngineOptions) -> Result<Option<PathBuf>> {
    let fs = &*options.fs;
    if fs.metadata(dir)? != Some(Metadata::Directory) {
        return Err(no_database(dir).with_hint("check the path"));
    }
    let directory = fs.open_dir(dir)?;
    check_is_ours(&*directory, dir)?;
    let found = find_own_cold(&*directory, dir, options)?;
    Ok(found.map(|found| found.directory.full_path(Path::new(""))))
}

/// Removes what the database in `directory`, which is locked, has in its cold directory. One that
/// is not there, or is not that of the database, stays as it is.
fn remove_cold_tier(directory: &dyn Fs, dir: &Path, options: &EngineOptions) -> Result<()> {
    let Some(mut found) = find_own_cold(directory, dir, options)? else { return Ok(()) };
    drop(found.lock.take());
    let _lock = lock_directory(&*found.directory, options, LockKind::Exclusive)?;
    remove_cold(&*options.fs, &found)
}

/// Finds the cold directory of the database in `directory`, unless it is that of another one.
fn find_own_cold(
    directory: &dyn Fs,
    dir: &Path,
    options: &EngineOptions,
) -> Result<Option<FoundCold>> {
    let Some(number) = read_current(directory)? else { return Ok(None) };
    let mut state = LogState::default();
    let read = read_manifest(directory, number, &mut |edit| {
        state.note(&edit);
        Ok(())
    });
    // A database whose manifest cannot be read can be removed, too. The directory is then known if
    // an edit that could be read has named it.
    if let Err(error) = read.map(drop)
        && !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported)
    {
        return Err(error);
    }
    // Nothing is begun there.
    let options = EngineOptions { access: Access::ReadOnly, ..options.clone() };
    let found =
        find_cold(dir, &options, state.cold.as_ref(), ColdContents::Nothing, ColdLocking::Locks)?;
    let own = found.filter(|found| found.ownership != ColdOwnership::Foreign);
    if let (None, Some(place)) = (&own, state.cold) {
        log::warn!("the cold directory {} is not there, or not that of this directory", place.path);
    }
    Ok(own)
}

/// Removes a database that is open and writes no more. `directory_lock` is that of its directories.
///
/// # Errors
/// As [`destroy`].
pub(crate) fn remove_open(database: &Database, directory_lock: Box<dyn FileLock>) -> Result<()> {
    let (fs, dir) = (&*database.options.fs, &database.dir);
    let options = EngineOptions { access: Access::ReadOnly, ..database.options.clone() };
    let stored = lock(&database.catalog.manifest_io).state.cold.clone();
    // This process has the lock.
    if let Some(found) =
        find_cold(dir, &options, stored.as_ref(), ColdContents::Nothing, ColdLocking::Follows)?
        && found.ownership != ColdOwnership::Foreign
    {
        remove_cold(fs, &found)?;
    }
    remove_locked(fs, &**database.catalog.files.directory(), dir, directory_lock)
}

/// Removes the database in `directory`, which is locked.
fn remove_locked(
    fs: &dyn Fs,
    directory: &dyn Fs,
    dir: &Path,
    lock: Box<dyn FileLock>,
) -> Result<()> {
    for entry in directory.list(Path::new(""))? {
        match own_file(&entry) {
            None | Some(FileName::Current | FileName::Lock) => {}
            Some(FileName::Lost) => remove_lost(directory)?,
            Some(_) => directory.remove(Path::new(&entry.name))?,
        }
    }
    directory.sync_dir(Path::new(""))?;
    for name in [FileName::Current, FileName::Lock] {
        match directory.remove(&name.to_path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    directory.sync_dir(Path::new(""))?;
    let is_empty = directory.list(Path::new(""))?.is_empty();
    drop(lock);
    if is_empty {
        // This may fail: the name may be a link, or another process may have added an entry. The
        // database is removed in any case.
        let _ = fs.remove_dir(dir);
    }
    Ok(())
}

/// Removes the files of ours in the directory `lost`, and the directory unless it holds others.
fn remove_lost(directory: &dyn Fs) -> Result<()> {
    let lost = FileName::Lost.to_path();
    for entry in directory.list(&lost)? {
        if own_file(&entry).is_some() {
            directory.remove(&lost.join(&entry.name))?;
        }
    }
    if directory.list(&lost)?.is_empty() {
        directory.remove_dir(&lost)?;
    }
    Ok(())
}

/// Checks that `CURRENT` is one of ours: other stores have files of that name, too.
fn check_is_ours(directory: &dyn Fs, dir: &Path) -> Result<()> {
    match read_current(directory) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(no_database(dir)),
        Err(error) if error.kind() == ErrorKind::Corruption => {
            Err(error.with_hint("nothing was removed: this may be the data of another program"))
        }
        Err(error) => Err(error),
    }
}
