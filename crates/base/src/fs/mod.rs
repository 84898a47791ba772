//! The only access to files: a small set of operations that a disk, a memory or a simulator offers.
//!
//! It knows paths and bytes, not what they mean. What survives which failure is part of the
//! contract. A kill keeps every completed call. A power loss keeps only what was synced, and of the
//! rest any mixture, torn at 512 bytes. A directory's entries (create, rename, remove, link) are
//! synced by [`Fs::sync_dir`] alone.

use crate::error::{Error, Result};
use bytes::Bytes;
use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

#[allow(unsafe_code)]
mod map;
pub mod os;
pub mod mem;
pub mod memory_limit;

/// The permissions of a new file unless others are given: those of the umask.
pub const FILE_MODE: u32 = 0o666;

/// A file system as the engine needs it, seen from one directory: relative paths start there.
///
/// A database opens its directory once, by [`Fs::open_dir`], and from then on names its files by
/// that handle alone. So it touches no other directory when links, the working directory or the
/// directory's own name change.
///
/// Errors carry the action and the path; out of space is
/// [`NoSpace`](crate::error::ErrorKind::NoSpace).
pub trait Fs: Send + Sync + fmt::Debug {
    /// The same file system, seen from `dir`: a handle that stays with the directory when it is
    /// renamed, or when another takes its name.
    ///
    /// # Errors
    /// `NotFound` and the system's; `Io` if `dir` is no directory.
    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Fs>>;

    /// The path that messages give for `path`: that of an opened directory joined to it. It need
    /// not lead there any more.
    fn full_path(&self, path: &Path) -> PathBuf;

    /// Creates a directory and its parents; fine if it exists.
    ///
    /// # Errors
    /// The system's; `NotFound`/`Io` if a file stands in the way.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// The entries of a directory, in no order.
    ///
    /// # Errors
    /// Errors of the system.
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>>;

    /// The names of the files of a directory with their lengths in bytes, in no order. A file that
    /// vanishes meanwhile may be missing.
    ///
    /// Cost: a call of the system for each file, which [`Fs::list`] does not take.
    ///
    /// # Errors
    /// Errors of the system.
    fn list_lengths(&self, dir: &Path) -> Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for DirEntry { name, kind } in self.list(dir)? {
            if kind == FileKind::File
                && let Some(Metadata::File { len }) = self.metadata(&dir.join(&name))?
            {
                files.push((name, len));
            }
        }
        Ok(files)
    }

    /// What lies at `path`; `None` if nothing does.
    ///
    /// # Errors
    /// Errors of the system.
    fn metadata(&self, path: &Path) -> Result<Option<Metadata>>;

    /// Which file or directory `path` names, whatever its names.
    ///
    /// # Errors
    /// `NotFound` and the system's.
    fn inode(&self, path: &Path) -> Result<Inode>;

    /// Opens a file for reading at any offset.
    ///
    /// # Errors
    /// `NotFound` and the system's.
    fn open(&self, path: &Path) -> Result<Arc<dyn File>>;

    /// Creates a new file, to be appended to.
    ///
    /// # Errors
    /// `AlreadyExists` and the system's.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Opens a file of a log for filling; creates it if it does not exist, keeps its bytes if it
    /// does.
    ///
    /// # Errors
    /// Errors of the system.
    fn open_log(&self, path: &Path, options: LogFileOptions) -> Result<Arc<dyn LogFile>>;

    /// Renames, replacing what `to` named.
    ///
    /// # Errors
    /// Errors of the system.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name.
    ///
    /// # Errors
    /// `AlreadyExists` and the system's.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name in another directory, which was opened by the same kind of file
    /// system.
    ///
    /// # Errors
    /// As [`Fs::hard_link`]; the system's, where the two directories cannot share a file.
    fn hard_link_into(&self, from: &Path, into: &dyn Fs, to: &Path) -> Result<()>;

    /// The permissions with which files are created, before the process takes those of its umask
    /// away. Directories can be searched by those that may read them.
    fn file_mode(&self) -> u32 {
        FILE_MODE
    }

    /// The descriptor of the opened directory, if there is one.
    fn descriptor(&self) -> Option<Arc<std::fs::File>> {
        None
    }

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` and the system's.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// `NotFound`; `Io` if it is not empty or no directory; the system's.
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// Errors of the system.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes the lock of the file at `path` and of the directory that it lies in. Locking the
    /// directory keeps a second process out when the file is removed. Dropping the guard releases
    /// both.
    ///
    /// An exclusive lock creates the file, also in place of one that has a second name: the lock of
    /// a directory made by `cp -al` is not that of its source. A shared one creates and writes
    /// nothing, and does without the file if there is none.
    ///
    /// # Errors
    /// [`Locked`](crate::error::ErrorKind::Locked) if any process, this one included, holds a lock
    /// that excludes it; it names the holder where that is known.
    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>>;
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its name; bytes that are not UTF-8 are replaced, so such a name matches none of ours.
    pub name: String,
    /// What the entry names, or what the link leads to that it names.
    pub kind: FileKind,
}

/// What an entry of a directory names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A file, of any kind that can be read.
    File,
    /// A directory; [`Fs::list`] finds its entries.
    Directory,
    /// Neither of them: a pipe or a device, say.
    Other,
}

/// What a path names.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metadata {
    /// A file, of any kind that can be read.
    File {
        /// Its length, in bytes.
        len: u64,
    },
    /// A directory; [`Fs::list`] finds its entries.
    Directory,
    /// Neither of them: a pipe or a device, say.
    Other,
}

impl Metadata {
    /// The same without a length.
    #[must_use]
    pub fn kind(self) -> FileKind {
        match self {
            Self::File { .. } => FileKind::File,
            Self::Directory => FileKind::Directory,
            Self::Other => FileKind::Other,
        }
    }
}

/// A file or directory, apart from its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its number in its file system. A rename keeps it, a copy has another one. It says nothing
    /// about two file systems.
    pub number: u64,
    /// The number of its names; 1 or more for a file, without meaning for a directory.
    pub links: u64,
}

/// A file that is read at any offset, by any number of threads.
pub trait File: Send + Sync + fmt::Debug {
    /// The length when the file was opened, in bytes.
    fn len(&self) -> u64;

    /// Whether the file was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `Corruption` if the file ends before the buffer is full; the system's.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// Says that the `bytes` bytes from `offset` on will be read soon, so that the system can read
    /// them meanwhile. It only saves time, and may do nothing.
    fn will_read(&self, _offset: u64, _bytes: u64) {}

    /// The `bytes` bytes from `offset` on, where they lie. They stay valid while the slice is held,
    /// also after the file was closed and removed.
    ///
    /// Only for a file that is not written to or shortened any more. Where the system maps it,
    /// bytes that cannot be read end the process (SIGBUS) when they are looked at. Without a system
    /// that maps, it is a copy.
    ///
    /// # Errors
    /// `Corruption` if the file ends before; the system's, which may refuse to map a file.
    fn map(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        let left = self.len().saturating_sub(offset);
        if bytes > left {
            return Err(Error::corruption("file ends early")
                .with_offset(offset)
                .with_mismatch(bytes, left));
        }
        let bytes = usize::try_from(bytes)
            .map_err(|_| Error::corruption("file exceeds memory").with_offset(offset))?;
        let mut copy = vec![0; bytes];
        self.read_exact_at(&mut copy, offset)?;
        Ok(copy.into())
    }
}

/// A new file that is appended to by one thread.
pub trait WriteFile: Send + fmt::Debug {
    /// Bytes appended so far.
    fn len(&self) -> u64;

    /// Whether nothing was appended yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends all of `bytes`; may hold them back until [`WriteFile::sync`] or `flush`.
    ///
    /// # Errors
    /// `NoSpace` and the system's; the file is then worthless.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Hands what is held back to the operating system, so that readers of the file find it. Asks
    /// the system to begin writing all of it to the disk.
    ///
    /// # Errors
    /// The errors of [`WriteFile::append`].
    fn flush(&mut self) -> Result<()>;

    /// Makes everything appended durable; the directory entry is not part of it.
    ///
    /// # Errors
    /// As [`WriteFile::append`]; never retried.
    fn sync(&mut self) -> Result<()>;
}

impl<W: WriteFile + ?Sized> WriteFile for &mut W {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        (**self).append(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        (**self).flush()
    }

    fn sync(&mut self) -> Result<()> {
        (**self).sync()
    }
}

/// A file of a log: filled at disjoint places by any number of threads, synced by one.
///
/// # Thread safety
/// Everything may be called from any thread at any time; concurrent fills must be disjoint.
pub trait LogFile: Send + Sync + fmt::Debug {
    /// The bytes it can hold.
    fn capacity(&self) -> u64;

    /// How fills reach the operating system.
    fn way(&self) -> LogWay;

    /// Makes the bytes before `end` ready to be filled (space, mapping, page tables); an `end` past
    /// the capacity means all. Called ahead of time by a worker; a fill prepares for itself what
    /// was not.
    ///
    /// # Errors
    /// `NoSpace` and the system's; nothing is lost.
    fn prepare(&self, end: u64) -> Result<()>;

    /// How much is prepared, in bytes. The file is at least as long, and a sync that begins later
    /// makes that length durable.
    fn prepared(&self) -> u64;

    /// Promises that nothing before `start` is filled again.
    fn release(&self, start: u64);

    /// Copies `parts`, one after the other, to `offset`. On return a killed process keeps them.
    ///
    /// # Errors
    /// `NoSpace` if the bytes were not prepared and there is no space; the system's. What lies in
    /// the range is then unknown.
    fn fill(&self, offset: u64, parts: &[&[u8]]) -> Result<()>;

    /// Has the system begin to write what was filled in `part`, so that a later sync has less to
    /// wait for. Nothing is durable on return; what cannot be written is for that sync to report.
    fn begin_sync(&self, part: Range<u64>) {
        let _ = part;
    }

    /// Makes what fills that returned before this call left before `end` durable, and the length of
    /// the file; an `end` past the capacity means all. What lies behind may become durable or not.
    /// Never retried after an error.
    ///
    /// # Errors
    /// Errors of the system.
    fn sync(&self, end: u64) -> Result<()>;

    /// Gives back the space from `end` on, for good or until power is lost. No more may be filled.
    ///
    /// # Errors
    /// The system's; the bytes before `end` are as before.
    fn shorten(&self, end: u64) -> Result<()>;
}

/// What a log file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFileOptions {
    /// The bytes it can hold.
    pub capacity: u64,
    /// How fills shall reach the operating system.
    pub io: LogIo,
}

/// How the log is written.
///
/// A mapping makes most commits free of system calls. Its price is a signal (SIGBUS) that ends the
/// process where writing would return an error. It comes if the device fails to read back a page of
/// the log, or another process shortens the file.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogIo {
    /// By mapping where that is safe (ext4, xfs, tmpfs), else by writing.
    #[default]
    Auto,
    /// By a shared mapping (large records still by writing).
    Map,
    /// By `pwrite`: a system call for each commit.
    Write,
}

/// How the data blocks of tables are read.
///
/// A mapping spares the copies: an uncompressed block is read in place, and a cache miss costs no
/// system call. Its price is that of [`LogIo`]: a signal (SIGBUS) ends the process if the device
/// fails to read, or another process shortens the file. Reading by calls would return an error. A
/// block that is read in place is verified once. If the device fails later and gives other bytes, a
/// read may answer wrongly, or panic. Flushes and compactions do not read through the mapping. The
/// pages count as memory of the process, outside any budget, until the system needs them for
/// something else.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadIo {
    /// By `pread`: whatever goes wrong is an error.
    #[default]
    Read,
    /// By a mapping of each table file that is open, of 16,384 at most; others are read, and those
    /// that the system does not map.
    Map,
}

/// How a log file is in fact written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogWay {
    /// By a shared mapping.
    Map,
    /// By the system call `pwrite`.
    Write,
}

/// What a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Every other lock; a writer takes it.
    Exclusive,
    /// Exclusive locks; a reader takes it.
    Shared,
}

/// The lock of a directory, held until dropped.
pub trait FileLock: Send + Sync + fmt::Debug {}

#[cfg(test)]
mod tests;
