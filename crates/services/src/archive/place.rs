//! Where archives lie: their paths, their directories, and the lock of those.
//!
//! It reads no archive but to open it.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{FileLock, Fs, LockKind, Metadata},
};
use siltdb_disk::archive::{
    name::{ARCHIVE_EXTENSION, ArchiveFileName},
    reader::{ArchiveFile, begins_as_archive, begins_unwritten},
};
use siltdb_engine::{
    open::{directory::lock_by, foreign::check_not_foreign, outside::check_outside_databases},
    options::EngineOptions,
};
use std::{path::Path, sync::Arc};

/// Opens the archive at `path`, whatever the file is called.
///
/// # Errors
/// `NotFound`; `InvalidArgument`, if it is no archive; as [`check_not_foreign`] and
/// [`ArchiveFile::open`].
pub fn open_archive(path: &Path, options: &EngineOptions) -> Result<Arc<ArchiveFile>> {
    let fs = &*options.fs;
    check_not_foreign(fs, path)?;
    match fs.metadata(path)? {
        None => Err(Error::new(ErrorKind::NotFound, "no archive at the path").with_file(path)),
        Some(Metadata::Directory) => {
            Err(Error::invalid("not an archive: it is a directory").with_file(path))
        }
        Some(_) => ArchiveFile::open(fs.open(path)?, path),
    }
}

/// The name of the archive at `path`, without its extension.
///
/// # Errors
/// `InvalidArgument`, if the path does not end in the name of an archive.
pub fn archive_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(ArchiveFileName::parse);
    match name {
        Some(ArchiveFileName::Archive(name)) => Ok(name),
        _ => Err(Error::invalid("the path is not that of an archive")
            .with_file(path)
            .with_hint(format!("give a file whose name ends in {ARCHIVE_EXTENSION}"))),
    }
}

/// Refuses a file that does not begin as an archive.
///
/// # Errors
/// `InvalidArgument`; what reading it fails with.
pub fn check_ours(fs: &dyn Fs, name: &Path) -> Result<()> {
    let path = fs.full_path(name);
    begins_as_archive(&*fs.open(name)?).map_err(|error| error.or_file(&path))
}

/// Refuses a file that does not begin as an archive of which perhaps nothing was written yet.
///
/// # Errors
/// As [`check_ours`].
pub fn check_unfinished(fs: &dyn Fs, name: &Path) -> Result<()> {
    match begins_unwritten(&*fs.open(name)?)? {
        true => Ok(()),
        false => check_ours(fs, name),
    }
}

/// A directory in which archives are made or removed: open, and locked against others that do so.
#[derive(Debug)]
pub struct LockedArchives {
    fs: Arc<dyn Fs>,
    lock: Option<Box<dyn FileLock>>,
}

impl LockedArchives {
    /// The directory in which the archive at `path` lies or will lie.
    ///
    /// # Errors
    /// As [`LockedArchives::open`].
    pub fn around(path: &Path, options: &EngineOptions) -> Result<Self> {
        Self::open(path.parent().unwrap_or(Path::new("")), options)
    }

    /// The directory `dir`.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument`, if it is or lies in the directory of a database; `Locked`,
    /// while another call or process makes or removes archives there; the system's.
    pub fn open(dir: &Path, options: &EngineOptions) -> Result<Self> {
        check_outside_databases(&*options.fs, dir)?;
        let fs = options.fs.open_dir(dir)?;
        let name = ArchiveFileName::Lock.to_path();
        let lock = Some(lock_by(&*fs, &name, options, LockKind::Exclusive)?);
        Ok(Self { fs, lock })
    }

    /// The directory.
    #[must_use]
    pub fn fs(&self) -> &dyn Fs {
        &*self.fs
    }
}

impl Drop for LockedArchives {
    fn drop(&mut self) {
        // The directory may be anyone's: no trace is left in it. A lock file that cannot be
        // removed, or that a kill left, is used by the next call.
        let _ = self.fs.remove(&ArchiveFileName::Lock.to_path());
        self.lock = None;
    }
}
