//! A directory of the operating system's, as a file system: the working directory, or a held one.
//!
//! It gives errors their action and path; the calls themselves are those of the place.

use super::{
    descriptors::ReadableFile,
    file::{OsFile, OsWriteFile},
    lock,
    log::OsLogFile,
    place::OsPlace,
};
use crate::{
    error::{Error, Result},
    fs::{
        DirEntry, File, FileKind, FileLock, Fs, Inode, LockKind, LogFile, LogFileOptions, Metadata,
        WriteFile,
    },
};
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A directory of the operating system's.
#[derive(Clone, Debug, Default)]
pub(super) struct OsDirectory {
    place: OsPlace,
}

fn describe(stat: &Stat) -> Metadata {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Metadata::File { len: u64::try_from(stat.st_size).unwrap_or(0) },
        FileType::Directory => Metadata::Directory,
        _ => Metadata::Other,
    }
}

fn or_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl OsDirectory {
    /// The working directory; files are created with these permissions.
    pub(super) fn with_file_mode(mode: u32) -> Self {
        Self { place: OsPlace::with_file_mode(mode) }
    }

    fn failed(&self, action: &'static str, path: &Path, error: io::Error) -> Error {
        Error::io(action, &self.place.full_path(path), error)
    }

    fn try_list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for (name, listed) in self.place.entries(dir)? {
            let kind = match listed {
                FileType::RegularFile => Some(FileKind::File),
                FileType::Directory => Some(FileKind::Directory),
                // A file system may not say it.
                FileType::Symlink | FileType::Unknown => self.kind_of_entry(&dir.join(&name))?,
                _ => Some(FileKind::Other),
            };
            // Else it vanished since it was listed.
            if let Some(kind) = kind {
                entries.push(DirEntry { name: name.to_string_lossy().into_owned(), kind });
            }
        }
        Ok(entries)
    }

    /// What an entry names, links followed.
    fn kind_of_entry(&self, path: &Path) -> io::Result<Option<FileKind>> {
        let Some(stat) = or_none(self.place.stat(path, AtFlags::SYMLINK_NOFOLLOW))? else {
            return Ok(None);
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Some(describe(&stat).kind()));
        }
        // A link that leads nowhere, or in a circle, is something else.
        let target = self.place.stat(path, AtFlags::empty());
        Ok(Some(target.map_or(FileKind::Other, |stat| describe(&stat).kind())))
    }

    fn try_metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        if let Some(stat) = or_none(self.place.stat(path, AtFlags::empty()))? {
            return Ok(Some(describe(&stat)));
        }
        // A link that leads nowhere still takes the name.
        let named = or_none(self.place.stat(path, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(named.map(|_| Metadata::Other))
    }
}

#[allow(clippy::useless_conversion, reason = "the widths of these fields depend on the system")]
fn inode(stat: &Stat) -> Inode {
    Inode { number: stat.st_ino.into(), links: stat.st_nlink.into() }
}

impl Fs for OsDirectory {
    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Fs>> {
        let held = self.place.hold(dir);
        let place = held.map_err(|error| self.failed("open directory", dir, error))?;
        Ok(Arc::new(Self { place }))
    }

    fn full_path(&self, path: &Path) -> PathBuf {
        self.place.full_path(path)
    }

    fn file_mode(&self) -> u32 {
        self.place.file_mode()
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.place.create_dir_all(dir).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => self
                .failed("create directory", dir, io::ErrorKind::NotADirectory.into())
                .with_hint("a file stands where a directory should be"),
            _ => self.failed("create directory", dir, error),
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.try_list(dir).map_err(|error| self.failed("list directory", dir, error))
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>> {
        self.try_metadata(path).map_err(|error| self.failed("read metadata", path, error))
    }

    fn inode(&self, path: &Path) -> Result<Inode> {
        let stat = self.place.stat(path, AtFlags::empty());
        let stat = stat.map_err(|error| self.failed("read metadata", path, error))?;
        Ok(inode(&stat))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = ReadableFile::open(&self.place, path);
        let file = file.map_err(|error| self.failed("open", path, error))?;
        Ok(Arc::new(OsFile { file, path: self.full_path(path) }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = self.place.open(path, flags);
        let file = file.map_err(|error| self.failed("create", path, error))?;
        Ok(Box::new(OsWriteFile::new(file, &self.full_path(path))))
    }

    fn open_log(&self, path: &Path, options: LogFileOptions) -> Result<Arc<dyn LogFile>> {
        let file = self.place.open_plain(path, OFlags::RDWR | OFlags::CREATE);
        let file = file.and_then(|(file, _)| OsLogFile::new(file, &self.full_path(path), options));
        Ok(Arc::new(file.map_err(|error| self.failed("open log", path, error))?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.place.rename(from, to).map_err(|error| self.failed("rename", from, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.place.hard_link(from, to).map_err(|error| self.failed("link", to, error))
    }

    fn hard_link_into(&self, from: &Path, into: &dyn Fs, to: &Path) -> Result<()> {
        let into_dir = into.descriptor().ok_or(io::ErrorKind::Unsupported.into());
        let linked = into_dir.and_then(|dir| self.place.hard_link_into(from, &dir, to));
        linked.map_err(|error| self.failed("link", from, error))
    }

    fn descriptor(&self) -> Option<Arc<std::fs::File>> {
        self.place.descriptor()
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.place.remove(path).map_err(|error| self.failed("remove", path, error))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.place.remove_dir(dir).map_err(|error| self.failed("remove directory", dir, error))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.place.sync_dir(dir).map_err(|error| self.failed("sync directory", dir, error))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock(&self.place, path, kind)?))
    }
}
