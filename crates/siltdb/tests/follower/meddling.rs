//! A file system on which something happens whenever a file is opened for reading or a directory is
//! listed.

use siltdb::{Result, testing::Fs};
use siltdb_base::fs::{
    DirEntry, File, FileLock, Inode, LockKind, LogFile, LogFileOptions, Metadata, WriteFile,
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What happens before a file is opened or a directory listed.
pub type Meddle = Arc<dyn Fn(&Path) + Send + Sync>;

/// Calls a function before a file is opened for reading or a directory is listed, and hands all
/// calls on.
#[derive(Clone)]
pub struct MeddlingFs {
    inner: Arc<dyn Fs>,
    meddle: Meddle,
}

impl MeddlingFs {
    pub fn new(inner: Arc<dyn Fs>, meddle: Meddle) -> Self {
        Self { inner, meddle }
    }
}

impl fmt::Debug for MeddlingFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MeddlingFs").field(&self.inner).finish()
    }
}

impl Fs for MeddlingFs {
    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Fs>> {
        Ok(Arc::new(Self { inner: self.inner.open_dir(dir)?, meddle: Arc::clone(&self.meddle) }))
    }

    fn full_path(&self, path: &Path) -> PathBuf {
        self.inner.full_path(path)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        (self.meddle)(dir);
        self.inner.list(dir)
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>> {
        self.inner.metadata(path)
    }

    fn inode(&self, path: &Path) -> Result<Inode> {
        self.inner.inode(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        (self.meddle)(path);
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.inner.create(path)
    }

    fn open_log(&self, path: &Path, options: LogFileOptions) -> Result<Arc<dyn LogFile>> {
        self.inner.open_log(path, options)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.hard_link(from, to)
    }

    fn hard_link_into(&self, from: &Path, into: &dyn Fs, to: &Path) -> Result<()> {
        self.inner.hard_link_into(from, into, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path, kind)
    }
}
