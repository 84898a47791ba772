//! The directory of a database: whether it holds one or may get one, and its lock.
//!
//! This module reads names only. Recovery reads the files.

use crate::{
    catalog::manifest::RECOVER_HINT,
    open::{foreign::check_not_foreign, outside::check_outside_databases},
    options::{Access, Create, EngineOptions},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{DirEntry, FileKind, FileLock, Fs, LockKind, Metadata},
    seeded_fault,
};
use siltdb_disk::file_name::{FileName, MARK};
use std::{path::Path, sync::Arc, time::Duration};

/// The pause between two attempts to take a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The directory that a new Linux file system has at its root.
const LOST_AND_FOUND: &str = "lost+found";

/// Whether a directory had a lock file before it was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFile {
    /// The lock file was there.
    Found,
    /// Locking creates it.
    Missing,
}

/// Removes the lock file that a failed open has created, if the directory holds nothing else.
///
/// The lock must be held. Another opener with the same file open finds the file replaced once it
/// has the lock, and locks the new file.
pub fn remove_lone_lock(directory: &dyn Fs) {
    let lock = FileName::Lock.to_string();
    let is_alone = |entries: &[DirEntry]| matches!(entries, [entry] if entry.name == lock);
    if directory.list(Path::new("")).is_ok_and(|entries| is_alone(&entries)) {
        // If this fails, the caller still gets the error of the open.
        let _ = directory.remove(Path::new(&lock));
    }
}

/// Takes the lock of a directory. Waits for it as long as the options say.
///
/// # Errors
/// `Locked`; the system's.
pub fn lock_directory(
    directory: &dyn Fs,
    options: &EngineOptions,
    kind: LockKind,
) -> Result<Box<dyn FileLock>> {
    lock_by(directory, &FileName::Lock.to_path(), options, kind)
}

/// As [`lock_directory`], by the lock file of this name.
///
/// # Errors
/// `Locked`; the system's.
pub fn lock_by(
    directory: &dyn Fs,
    name: &Path,
    options: &EngineOptions,
    kind: LockKind,
) -> Result<Box<dyn FileLock>> {
    let clock = &*options.clock;
    let start_ns = clock.monotonic_ns();
    loop {
        let locked = directory.lock(name, kind);
        let waited = Duration::from_nanos(clock.monotonic_ns().saturating_sub(start_ns));
        match locked {
            Err(error) if error.kind() == ErrorKind::Locked && waited < options.lock_wait => {
                clock.sleep(LOCK_PAUSE.min(options.lock_wait - waited));
            }
            locked => return locked,
        }
    }
}

/// The error for a directory without a database.
pub fn no_database(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "no database in the directory").with_file(dir)
}

/// Opens the directory that holds a database or may get one. The result stays the same directory,
/// even if it is renamed.
///
/// # Errors
/// `NotFound`, `InvalidArgument`; as [`check_not_foreign`], [`check_contents`] and, for a new
/// database, [`check_outside_databases`]; the system's.
///
/// # Seeded faults
/// `database_within_a_database`: a new database may lie in the directory of another.
pub fn open_directory(dir: &Path, options: &EngineOptions) -> Result<(Arc<dyn Fs>, FoundFiles)> {
    let fs = &*options.fs;
    check_not_foreign(fs, dir)?;
    match fs.metadata(dir)? {
        None if options.create == Create::Never => {
            return Err(no_database(dir).with_hint("check the path"));
        }
        None => {
            check_place(fs, dir)?;
            fs.create_dir_all(dir)?;
        }
        Some(Metadata::Directory) => {}
        Some(_) => {
            return Err(
                Error::invalid("the path of a database is a file, not a directory").with_file(dir)
            );
        }
    }
    let directory = fs.open_dir(dir)?;
    let found = check_contents(&*directory, options)?;
    if found.contents == DirectoryContents::Nothing {
        check_place(fs, dir)?;
    }
    if found.name == DirectoryName::MayBeLost && options.access != Access::ReadOnly {
        sync_ancestors(fs, dir)?;
    }
    Ok((directory, found))
}

/// Checks that a new database may be in `dir`: an opening, a copy or a removal of a database that
/// it lies in would take its files for those of that one.
fn check_place(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if seeded_fault!("database_within_a_database") {
        return Ok(());
    }
    check_outside_databases(fs, dir)
}

/// The contents of a directory that may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundFiles {
    /// Whether it holds a database.
    pub contents: DirectoryContents,
    /// Whether it holds a lock file.
    pub lock_file: LockFile,
    /// Whether its name is durable.
    pub name: DirectoryName,
}

/// Whether a power loss keeps the name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryName {
    /// It keeps the name.
    Durable,
    /// The process that gave it the name may have been killed before it synced the entry.
    MayBeLost,
}

/// Whether a directory holds a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryContents {
    /// It holds a database.
    Database,
    /// It holds neither a database nor other files.
    Nothing,
}

/// Checks that a directory holds a database or may get one.
///
/// Cost: a look for three names; without `CURRENT` at all of them.
///
/// # Errors
/// `NotFound` and `AlreadyExists`, as the options say; `InvalidArgument`, if it holds other files;
/// `Corruption`, if `CURRENT` is missing.
pub fn check_contents(directory: &dyn Fs, options: &EngineOptions) -> Result<FoundFiles> {
    let dir = &directory.full_path(Path::new(""));
    let find = |name: FileName| directory.metadata(&name.to_path());
    let lock_file = match find(FileName::Lock)? {
        Some(_) => LockFile::Found,
        None => LockFile::Missing,
    };
    // A new database has it until its name is durable.
    let name = match find(MARK)? {
        Some(Metadata::File { .. }) => DirectoryName::MayBeLost,
        _ => DirectoryName::Durable,
    };
    let database = || match options.create {
        Create::New => {
            let message = "the directory has a database already";
            Err(Error::new(ErrorKind::AlreadyExists, message).with_file(dir))
        }
        _ => Ok(FoundFiles { contents: DirectoryContents::Database, lock_file, name }),
    };
    if find(FileName::Current)?.is_some() {
        return database();
    }
    let entries = directory.list(Path::new(""))?;
    let names: Vec<_> = entries.iter().map(own_file).collect();
    // A link that leads nowhere.
    if names.contains(&Some(FileName::Current)) {
        return database();
    }
    if let Some(index) = names.iter().position(|name| {
        matches!(name, Some(FileName::Table(_) | FileName::Segment(_) | FileName::Blob(_)))
    }) {
        return Err(Error::corruption("CURRENT is missing beside other files of a database")
            .with_file(&dir.join(&entries[index].name))
            .with_hint(RECOVER_HINT));
    }
    if options.create == Create::Never {
        return Err(no_database(dir));
    }
    let is_own = |entry: &DirEntry| own_file(entry).is_some_and(|name| name != FileName::Lost);
    let is_foreign = |entry: &DirEntry| !is_own(entry) && !is_of_file_system(entry);
    match entries.iter().position(is_foreign) {
        None => Ok(FoundFiles {
            contents: DirectoryContents::Nothing,
            lock_file,
            name: DirectoryName::MayBeLost,
        }),
        Some(index) => Err(Error::invalid("the directory holds other files and no database")
            .with_file(&dir.join(&entries[index].name))
            .with_hint("give the new database a directory of its own")),
    }
}

/// The parsed name of a file of ours, or of the directory `lost`; `None` for other files, and for
/// an entry with such a name that is not a file.
#[must_use]
pub fn own_file(entry: &DirEntry) -> Option<FileName> {
    FileName::parse(&entry.name).filter(|name| match name {
        FileName::Current | FileName::Lock => true,
        FileName::Lost => entry.kind == FileKind::Directory,
        _ => entry.kind == FileKind::File,
    })
}

/// Whether the file system made the entry, as `mkfs` does at the root of a new one.
fn is_of_file_system(entry: &DirEntry) -> bool {
    entry.kind == FileKind::Directory && entry.name == LOST_AND_FOUND
}

/// Makes the directory entries of `dir` and of all directories above it durable. Without them a
/// power failure would lose the whole database.
///
/// # Errors
/// The system's.
pub fn sync_ancestors(fs: &dyn Fs, dir: &Path) -> Result<()> {
    for ancestor in dir.ancestors().skip(1) {
        match fs.sync_dir(ancestor) {
            // This process cannot have created anything in a directory that it may not read.
            Err(error) if error.kind() == ErrorKind::ReadOnly => {}
            result => result?,
        }
    }
    Ok(())
}
