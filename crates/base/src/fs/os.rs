//! The file system of the operating system.
//!
//! It adds no caching and no names of its own; a path means what it means to the system.

mod platform;
mod descriptors;
mod file;
mod log;
mod lock;

use crate::{
    error::{Error, Result},
    fs::{DirEntry, File, FileLock, Fs, LogFile, LogFileOptions, Metadata, WriteFile},
};
use descriptors::ReadableFile;
use file::{OsFile, OsWriteFile};
use log::OsLogFile;
use platform::{OPEN_DIRECTORY_FLAGS, OPEN_FLAGS, check_plain};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFs;

/// The parent of a plain relative name is the empty path, which the system does not take.
fn or_current(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

fn describe(metadata: &fs::Metadata) -> Metadata {
    if metadata.is_file() {
        Metadata::File { len: metadata.len() }
    } else if metadata.is_dir() {
        Metadata::Directory
    } else {
        Metadata::Other
    }
}

/// What an entry names, links followed; `None` if it vanished since it was listed.
fn describe_entry(entry: &fs::DirEntry) -> io::Result<Option<Metadata>> {
    match entry.metadata() {
        // A link that leads nowhere, or in a circle, is something else.
        Ok(metadata) if metadata.is_symlink() => {
            let target = fs::metadata(entry.path());
            Ok(Some(target.map_or(Metadata::Other, |metadata| describe(&metadata))))
        }
        Ok(metadata) => Ok(Some(describe(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn list(dir: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(or_current(dir))? {
        let entry = entry?;
        if let Some(metadata) = describe_entry(&entry)? {
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(DirEntry { name, metadata });
        }
    }
    Ok(entries)
}

fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(describe(&metadata))),
        // A link that leads nowhere still takes the name.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(path) {
            Ok(_) => Ok(Some(Metadata::Other)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

impl Fs for OsFs {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Error::io("create directory", dir, io::ErrorKind::NotADirectory.into())
                    .with_hint("a file stands where a directory should be")
            }
            _ => Error::io("create directory", dir, error),
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        list(dir).map_err(|error| Error::io("list directory", dir, error))
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>> {
        metadata(or_current(path)).map_err(|error| Error::io("read metadata", path, error))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = ReadableFile::open(path).map_err(|error| Error::io("open", path, error))?;
        Ok(Arc::new(OsFile { file, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| Error::io("create", path, error))?;
        Ok(Box::new(OsWriteFile::new(file, path)))
    }

    fn open_log(&self, path: &Path, options: LogFileOptions) -> Result<Arc<dyn LogFile>> {
        let open = || {
            let mut how = OpenOptions::new();
            how.read(true).write(true).create(true).truncate(false).custom_flags(OPEN_FLAGS);
            let file = how.open(path)?;
            check_plain(&file)?;
            OsLogFile::new(file, path, options)
        };
        let file = open().map_err(|error| Error::io("open log", path, error))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| Error::io("rename", from, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|error| Error::io("link", to, error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut how = OpenOptions::new();
        how.read(true).custom_flags(OPEN_DIRECTORY_FLAGS);
        let synced = how.open(or_current(dir)).and_then(|directory| directory.sync_all());
        synced.map_err(|error| Error::io("sync directory", dir, error))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock(path)?))
    }
}

#[cfg(test)]
mod tests;
