//! The directory that names are looked up in: the working directory, or one that is held open.
//!
//! A held directory is a descriptor. It stays the same directory when it is renamed, when another
//! takes its name, and when the working directory changes.

use super::platform::{OPEN_FLAGS, check_plain};
use crate::fs::FILE_MODE;
use rustix::{
    fs::{self as sys, AtFlags, CWD, FileType, Mode, OFlags, Stat},
    io::retry_on_intr,
};
use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where relative paths start.
#[derive(Clone, Debug)]
pub(super) struct OsPlace {
    held: Option<Held>,
    /// The permissions of new files, before those of the umask are taken away.
    file_mode: u32,
}

impl Default for OsPlace {
    fn default() -> Self {
        Self::with_file_mode(FILE_MODE)
    }
}

/// A directory that is held open.
#[derive(Clone, Debug)]
struct Held {
    dir: Arc<fs::File>,
    /// What it was called when it was opened.
    path: PathBuf,
}

/// The parent of a plain relative name is the empty path, which the system does not take.
fn or_current(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// The permissions of new directories: those that may read one may search it.
fn directory_mode(file_mode: u32) -> Mode {
    Mode::from_raw_mode(file_mode | (file_mode & 0o444) >> 2)
}

impl OsPlace {
    /// The working directory; files are created with these permissions.
    pub(super) fn with_file_mode(file_mode: u32) -> Self {
        Self { held: None, file_mode }
    }

    /// The permissions of new files.
    pub(super) fn file_mode(&self) -> u32 {
        self.file_mode
    }

    fn dir(&self) -> BorrowedFd<'_> {
        self.held.as_ref().map_or(CWD, |held| held.dir.as_fd())
    }

    /// Opens a directory and holds it.
    pub(super) fn hold(&self, dir: &Path) -> io::Result<Self> {
        let opened = self.open_dir(dir)?;
        let held = Held { dir: Arc::new(opened), path: self.full_path(dir) };
        Ok(Self { held: Some(held), file_mode: self.file_mode })
    }

    /// What messages call a path.
    pub(super) fn full_path(&self, path: &Path) -> PathBuf {
        match &self.held {
            Some(held) => held.path.join(path),
            None => path.to_owned(),
        }
    }

    /// The same place and path, for later calls: the working directory may be another by then.
    pub(super) fn fixed(&self, path: &Path) -> io::Result<PathBuf> {
        match self.held {
            Some(_) => Ok(path.to_owned()),
            None => std::path::absolute(path),
        }
    }

    /// Opens a file.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> io::Result<fs::File> {
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(self.file_mode);
        let opened = retry_on_intr(|| sys::openat(self.dir(), path, flags, mode))?;
        Ok(fs::File::from(opened))
    }

    /// Opens a plain file, with what is known of it.
    pub(super) fn open_plain(
        &self,
        path: &Path,
        flags: OFlags,
    ) -> io::Result<(fs::File, fs::Metadata)> {
        let file = self.open(path, flags | OPEN_FLAGS)?;
        let metadata = check_plain(&file)?;
        Ok((file, metadata))
    }

    /// Opens a directory, as one that no other descriptor shares.
    pub(super) fn open_dir(&self, dir: &Path) -> io::Result<fs::File> {
        self.open(or_current(dir), OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Makes the entries of a directory durable. That of a held one takes no new descriptor.
    pub(super) fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match &self.held {
            Some(held) if or_current(dir) == Path::new(".") => held.dir.sync_all(),
            _ => self.open_dir(dir)?.sync_all(),
        }
    }

    /// Creates a directory and its parents.
    pub(super) fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let create = || sys::mkdirat(self.dir(), dir, directory_mode(self.file_mode));
        let created = match create().map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match dir.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => {
                    self.create_dir_all(parent)?;
                    create().map_err(io::Error::from)
                }
                _ => Err(error),
            },
            created => created,
        };
        match created {
            // Perhaps by another process just now.
            Err(_) if self.is_dir(dir) => Ok(()),
            created => created,
        }
    }

    fn is_dir(&self, dir: &Path) -> bool {
        let stat = self.stat(dir, AtFlags::empty());
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// What a path names.
    pub(super) fn stat(&self, path: &Path, flags: AtFlags) -> io::Result<Stat> {
        Ok(retry_on_intr(|| sys::statat(self.dir(), or_current(path), flags))?)
    }

    /// The names in a directory, and what the directory says of each.
    pub(super) fn entries(&self, dir: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
        use std::os::unix::ffi::OsStringExt;
        let mut entries = Vec::new();
        for entry in sys::Dir::new(self.open_dir(dir)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                let name = PathBuf::from(std::ffi::OsString::from_vec(name));
                entries.push((name, entry.file_type()));
            }
        }
        Ok(entries)
    }

    /// Renames within the place.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(sys::renameat(self.dir(), from, self.dir(), to)?)
    }

    /// Gives a file a second name in the place.
    pub(super) fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(sys::linkat(self.dir(), from, self.dir(), to, AtFlags::empty())?)
    }

    /// Gives a file a second name in another directory.
    pub(super) fn hard_link_into(&self, from: &Path, into: &fs::File, to: &Path) -> io::Result<()> {
        Ok(sys::linkat(self.dir(), from, into, to, AtFlags::empty())?)
    }

    /// The descriptor of a held directory.
    pub(super) fn descriptor(&self) -> Option<Arc<fs::File>> {
        self.held.as_ref().map(|held| Arc::clone(&held.dir))
    }

    /// Removes the name of a file.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(sys::unlinkat(self.dir(), path, AtFlags::empty())?)
    }

    /// Removes the name of an empty directory.
    pub(super) fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        Ok(sys::unlinkat(self.dir(), dir, AtFlags::REMOVEDIR)?)
    }
}
