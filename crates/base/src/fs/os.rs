//! The file system of the operating system.
//!
//! It adds no caching and no names of its own; a path means what it means to the system.

mod platform;
mod place;
mod descriptors;
mod file;
mod log;
mod lock;
mod directory;

use crate::{
    error::Result,
    fs::{
        DirEntry, File, FileLock, Fs, Inode, LockKind, LogFile, LogFileOptions, Metadata, WriteFile,
    },
};
use directory::OsDirectory;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file system of the operating system, seen from the working directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFs;

/// The file system of the operating system, in which files are created with these permissions, less
/// those of the umask. Directories can be searched by those that may read them.
#[must_use]
pub fn with_file_mode(mode: u32) -> Arc<dyn Fs> {
    Arc::new(OsDirectory::with_file_mode(mode))
}

/// The working directory, whichever it is at each call.
fn working() -> OsDirectory {
    OsDirectory::default()
}

impl Fs for OsFs {
    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Fs>> {
        working().open_dir(dir)
    }

    fn full_path(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        working().create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        working().list(dir)
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>> {
        working().metadata(path)
    }

    fn inode(&self, path: &Path) -> Result<Inode> {
        working().inode(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        working().open(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        working().create(path)
    }

    fn open_log(&self, path: &Path, options: LogFileOptions) -> Result<Arc<dyn LogFile>> {
        working().open_log(path, options)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        working().rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        working().hard_link(from, to)
    }

    fn hard_link_into(&self, from: &Path, into: &dyn Fs, to: &Path) -> Result<()> {
        working().hard_link_into(from, into, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        working().remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        working().remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        working().sync_dir(dir)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        working().lock(path, kind)
    }
}

#[cfg(test)]
mod tests;
