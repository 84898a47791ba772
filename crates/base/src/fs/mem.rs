//! A file system in memory that can crash, run full, fail and be damaged: for tests and simulation.
//!
//! It keeps the contract of [`Fs`] at its weakest: what need not survive a crash sometimes does
//! not. It takes no time and gives no concurrency: one lock guards it all.
//!
//! It has a working directory, symbolic links and directories that are renamed, so that a test can
//! move a database's directory while it is open. [`MemFs::strays`] tells what was touched beside
//! it.

mod seed;
mod pages;
mod content;
mod call;
mod place;
mod locks;
mod state;
mod shared;
mod handle;

pub use call::{Call, CallKind, Fault, FaultError, FaultSpan, Observer};

use crate::{
    error::{Error, ErrorKind, Result},
    fs::{
        DirEntry, File, FileKind, FileLock, Fs, Inode, LockKind, LogFile, LogFileOptions, LogIo,
        LogWay, Metadata, WriteFile,
    },
};
use handle::{Handle, MemFile, MemLock, MemLogFile, MemWriteFile};
use place::{MemPlace, NodeId, Start};
use shared::Shared;
use state::{FsNode, State};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file system in memory; clones are handles to the same one.
///
/// `..` in a path goes back one name, before links are followed. Relative paths start at the
/// working directory, which is the root until [`MemFs::set_working_directory`], or at the directory
/// that [`Fs::open_dir`] opened.
///
/// # Examples
/// ```
/// use siltdb_base::fs::{Fs, mem::{Crash, MemFs}};
/// use std::path::Path;
///
/// let fs = MemFs::new();
/// let mut file = fs.create(Path::new("a"))?;
/// file.append(b"kept")?;
/// file.sync()?;
/// fs.sync_dir(Path::new(""))?;
/// file.append(b"lost")?;
/// let after = fs.crash_clone(Crash::PowerLoss { seed: 1 });
/// assert_eq!(after.read_all(Path::new("a"))?, b"kept");
/// # Ok::<(), siltdb_base::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemFs {
    shared: Arc<Shared>,
    /// The directory that relative paths start at; `None`: the working directory.
    opened: Option<Opened>,
}

/// A directory that was opened.
#[derive(Clone, Debug)]
struct Opened {
    node: NodeId,
    /// The path by which the file was opened, for error messages.
    path: PathBuf,
}

/// How a [`MemFs`] crashes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: every completed call stays, of one in progress perhaps a part.
    Kill,
    /// Cuts the power: what was synced stays. Every other sector of 512 bytes holds what it held at
    /// the last sync or at some time since. Files may be shorter. Each change of a directory's
    /// entries is kept or lost as a whole.
    PowerLoss {
        /// Decides what is kept; the same seed on the same state always gives the same.
        seed: u64,
    },
}

impl MemFs {
    /// An empty file system without limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty file system whose files may take `bytes` in sum.
    #[must_use]
    pub fn with_space_limit(bytes: u64) -> Self {
        let fs = Self::new();
        fs.set_space_limit(Some(bytes));
        fs
    }

    /// Limits the sum of the lengths of all files, names and open handles counted; `None`: no
    /// limit. A limit below what is used stops growth and takes nothing away.
    pub fn set_space_limit(&self, bytes: Option<u64>) {
        self.shared.state().limit = bytes;
    }

    /// The sum of the lengths of all files that have a name or an open handle, in bytes.
    #[must_use]
    pub fn space_used(&self) -> u64 {
        self.shared.state().used()
    }

    /// What a crash at this moment would leave: an independent file system with the same space
    /// limit, without locks, handles, fault and observer.
    ///
    /// Everything in the clone of a power loss is durable; the clone of a kill can lose power
    /// itself.
    #[must_use]
    pub fn crash_clone(&self, crash: Crash) -> Self {
        let mut state = self.shared.state().clone();
        state.kill();
        if let Crash::PowerLoss { seed } = crash {
            state.lose_power(seed);
        }
        Self { shared: Arc::new(Shared::new(state)), opened: None }
    }

    /// Sets the failure to come, in place of an earlier one.
    ///
    /// A failed write or fill leaves the first half of its bytes. A failed sync leaves some of what
    /// was unsynced durable and gives the rest up: readers see it, but no later sync saves it.
    /// Other failed calls change nothing.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.shared.gate().fault = fault;
    }

    /// Calls so far, reads included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.gate().calls
    }

    /// Calls that a fault has made fail so far.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.shared.gate().faults
    }

    /// Has `observer` called before each mutating call, by the thread that makes it; `None` calls
    /// nothing.
    ///
    /// No lock is held during the call. The observer may set a fault that hits this very call. It
    /// may also take a crash clone, which then holds a part of the write or fill that is about to
    /// happen.
    pub fn on_call(&self, observer: Option<Observer>) {
        self.shared.gate().observer = observer;
    }

    /// Changes the working directory, as `chdir` does: not counted, and it fails no call.
    ///
    /// # Errors
    /// `NotFound`, or `Io` if `dir` names no directory.
    pub fn set_working_directory(&self, dir: &Path) -> Result<()> {
        let result = self.shared.state().work_in(self.place(dir));
        result.map_err(|error| Error::io("change directory", dir, error))
    }

    /// Creates a symbolic link at `path` that leads to `target`, or switches one. The call is not
    /// counted.
    ///
    /// # Errors
    /// `AlreadyExists`, if no link is there; `NotFound` if the directory does not exist.
    pub fn symlink(&self, target: &Path, path: &Path) -> Result<()> {
        let result = self.shared.state().symlink(target, self.place(path));
        result.map_err(|error| Error::io("link", path, error))
    }

    /// Gives the directory `from` the name `to`, as another process does; durable at once. Not
    /// counted, and no stray.
    ///
    /// # Errors
    /// `NotFound`; `Io` if the name is taken.
    pub fn move_directory(&self, from: &Path, to: &Path) -> Result<()> {
        let (from_place, to_place) = (self.place(from), self.place(to));
        let mut state = self.shared.state();
        let mut moved = || {
            state.rename(from_place, to_place)?;
            let parents = [state.parent(from_place)?.directory, state.parent(to_place)?.directory];
            parents.into_iter().for_each(|parent| state.sync_dir(parent));
            Ok(())
        };
        moved().map_err(|error| Error::io("rename", to, error).with_file(from))
    }

    /// The paths that were touched outside the locked directories while there were any. These are
    /// files that were created, opened, renamed, linked or removed, and directories that were
    /// renamed without being locked themselves. A database touches none: it holds the directory it
    /// locked, and that of a checkpoint while it makes one.
    #[must_use]
    pub fn strays(&self) -> Vec<PathBuf> {
        self.shared.state().strays.clone()
    }

    /// Forgets the strays so far: those of a process that has opened no database, as one that
    /// removes another database.
    pub fn forget_strays(&self) {
        self.shared.state().strays.clear();
    }

    /// The bytes of a file as a reader would see them.
    ///
    /// # Errors
    /// `NotFound`, or `Io` if `path` names no file.
    pub fn read_all(&self, path: &Path) -> Result<Vec<u8>> {
        let state = self.shared.state();
        let node =
            state.find_file(self.place(path)).map_err(|error| Error::io("read", path, error))?;
        let content = &state.file(node).content;
        let mut bytes = vec![0; usize::try_from(content.len()).expect("it lies in memory")];
        content.read(0, &mut bytes);
        Ok(bytes)
    }

    /// Replaces or creates a file; bytes and entry are durable at once. Not limited, not counted.
    ///
    /// # Errors
    /// `NotFound` if the directory does not exist, `Io` if `path` names no file.
    pub fn write_all(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let result = self.shared.state().replace(self.place(path), bytes);
        result.map_err(|error| Error::io("write", path, error))
    }

    /// Exclusive-ors the byte at `offset` with `mask`, at once and durably, along with all that was
    /// unsynced in the file.
    ///
    /// # Errors
    /// `InvalidArgument` at or past the end, else as [`MemFs::read_all`].
    pub fn bytes_flip(&self, path: &Path, offset: u64, mask: u8) -> Result<()> {
        self.damage(path, |state, node| {
            let mut byte = [0];
            if state.file(node).content.read(offset, &mut byte) == 0 {
                return Err(Error::invalid("no byte to flip").with_file(path).with_offset(offset));
            }
            state.damage(node, |pages| pages.write(offset, &[byte[0] ^ mask]));
            Ok(())
        })
    }

    /// Cuts a file to `len`, or grows it with zeros, at once and durably, along with all that was
    /// unsynced in it. It is not limited.
    ///
    /// # Errors
    /// The errors of [`MemFs::read_all`].
    pub fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        self.damage(path, |state, node| {
            state.damage(node, |pages| pages.set_len(len));
            Ok(())
        })
    }

    fn damage(
        &self,
        path: &Path,
        work: impl FnOnce(&mut State, NodeId) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.shared.state();
        let place = self.place(path);
        let node = state.find_file(place).map_err(|error| Error::io("damage", path, error))?;
        work(&mut state, node)
    }

    fn place<'p>(&'p self, path: &'p Path) -> MemPlace<'p> {
        let from = match &self.opened {
            None => Start::Working,
            Some(opened) if crate::seeded_fault!("resolve_path_by_name") => {
                Start::Named(&opened.path)
            }
            Some(opened) => Start::Held(opened.node),
        };
        MemPlace { from, path }
    }

    fn handle(&self, node: NodeId, path: &Path) -> Handle {
        Handle::new(&self.shared, node, path)
    }

    /// Carries out a call on what `path` names.
    fn call<T>(
        &self,
        kind: CallKind,
        path: &Path,
        work: impl FnOnce(&mut State, MemPlace<'_>) -> io::Result<T>,
    ) -> Result<T> {
        let place = self.place(path);
        self.shared.call(kind, &self.full_path(path), |state| work(state, place))
    }

    /// As `call`, for one that must not leave the locked directories.
    fn touch<T>(
        &self,
        kind: CallKind,
        path: &Path,
        work: impl FnOnce(&mut State, MemPlace<'_>) -> io::Result<T>,
    ) -> Result<T> {
        self.call(kind, path, |state, place| {
            state.note_touched(place);
            work(state, place)
        })
    }
}

fn metadata(state: &State, node: NodeId) -> Metadata {
    match state.node(node) {
        FsNode::File(file) => Metadata::File { len: file.content.len() },
        FsNode::Directory(_) => Metadata::Directory,
        FsNode::Link(_) => Metadata::Other,
    }
}

impl Fs for MemFs {
    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Fs>> {
        let node = self.call(CallKind::Open, dir, |state, place| {
            let node = state.find(place)?;
            state.directory(node)?;
            Ok(node)
        })?;
        let opened = Some(Opened { node, path: self.full_path(dir) });
        Ok(Arc::new(Self { shared: Arc::clone(&self.shared), opened }))
    }

    fn full_path(&self, path: &Path) -> PathBuf {
        match &self.opened {
            Some(opened) => opened.path.join(path),
            None => path.to_owned(),
        }
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut ancestors: Vec<_> = dir.ancestors().collect();
        ancestors.reverse();
        for ancestor in ancestors {
            let found = {
                let state = self.shared.state();
                state.find(self.place(ancestor)).and_then(|node| state.directory(node).map(|_| ()))
            };
            match found {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.call(CallKind::CreateDir, ancestor, State::create_dir)?;
                }
                Err(error) => return Err(Error::io(CallKind::CreateDir.action(), dir, error)),
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.call(CallKind::List, dir, |state, place| {
            let dir = state.find(place)?;
            let entry = |name: &std::ffi::OsString| {
                let place = MemPlace { from: Start::Held(dir), path: Path::new(name) };
                // A link that leads nowhere is something else.
                let found = state.find(place);
                DirEntry {
                    name: name.to_string_lossy().into_owned(),
                    kind: found.map_or(FileKind::Other, |node| metadata(state, node).kind()),
                }
            };
            Ok(state.directory(dir)?.current.keys().map(entry).collect())
        })
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>> {
        self.call(CallKind::Metadata, path, |state, place| match state.find(place) {
            Ok(node) => Ok(Some(metadata(state, node))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(state.is_named(place).then_some(Metadata::Other))
            }
            Err(error) => Err(error),
        })
    }

    fn inode(&self, path: &Path) -> Result<Inode> {
        self.call(CallKind::Metadata, path, |state, place| {
            let node = state.find(place)?;
            let links = match state.node(node) {
                FsNode::File(file) => file.links.into(),
                FsNode::Directory(_) | FsNode::Link(_) => 1,
            };
            Ok(Inode { number: node, links })
        })
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        let (node, len) = self.touch(CallKind::Open, path, |state, place| {
            let node = state.find_file(place)?;
            state.hold(node);
            Ok((node, state.file(node).content.len()))
        })?;
        Ok(Arc::new(MemFile { handle: self.handle(node, &self.full_path(path)), len }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let node = self.touch(CallKind::Create, path, |state, place| {
            let node = state.create(place)?;
            state.hold(node);
            Ok(node)
        })?;
        Ok(Box::new(MemWriteFile::new(self.handle(node, &self.full_path(path)))))
    }

    fn open_log(&self, path: &Path, options: LogFileOptions) -> Result<Arc<dyn LogFile>> {
        let node = self.touch(CallKind::OpenLog, path, open_or_create)?;
        let way = match options.io {
            LogIo::Auto | LogIo::Map => LogWay::Map,
            LogIo::Write => LogWay::Write,
        };
        let handle = self.handle(node, &self.full_path(path));
        Ok(Arc::new(MemLogFile { handle, capacity: options.capacity, way }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let source = self.place(from);
        let renamed = self.call(CallKind::Rename, to, |state, to| {
            state.note_renamed(source, to);
            state.rename(source, to)
        });
        renamed.map_err(|error| error.with_file(&self.full_path(from)))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let source = self.place(from);
        self.touch(CallKind::Link, to, |state, to| state.link(source, to))
    }

    fn hard_link_into(&self, from: &Path, into: &dyn Fs, to: &Path) -> Result<()> {
        let (source, target) = (self.place(from), into.full_path(to));
        self.shared.call(CallKind::Link, &target, |state| {
            let to = MemPlace { from: Start::Working, path: &target };
            state.note_touched(to);
            state.link(source, to)
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.touch(CallKind::Remove, path, State::remove)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.call(CallKind::RemoveDir, dir, State::remove_dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call(CallKind::SyncDir, dir, |state, place| {
            let node = state.find(place)?;
            state.directory(node)?;
            state.sync_dir(node);
            Ok(())
        })
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn FileLock>> {
        let locked = self.call(CallKind::Lock, path, |state, place| {
            let dir = state.directory_of(place)?;
            // As on a disk: a lock that is refused creates nothing, and neither does a shared one.
            if !state.locks.is_free(&[dir], kind) {
                return Ok(None);
            }
            let linked = |node: &NodeId| state.file(*node).links > 1;
            if kind == LockKind::Exclusive && state.find_file(place).ok().filter(linked).is_some() {
                state.remove(place)?;
            }
            let file = match kind {
                LockKind::Exclusive => Some(open_or_create(state, place)?),
                LockKind::Shared => state.find_file(place).ok().inspect(|&node| state.hold(node)),
            };
            let nodes: Vec<_> = [dir].into_iter().chain(file).collect();
            let is_free = state.locks.take(&nodes, kind);
            if !is_free {
                file.into_iter().for_each(|node| state.let_go(node));
            }
            Ok(is_free.then_some((nodes, file)))
        })?;
        let path = self.full_path(path);
        let Some((nodes, file)) = locked else {
            return Err(Error::new(ErrorKind::Locked, "the lock is held").with_file(&path));
        };
        let file = file.map(|node| self.handle(node, &path));
        Ok(Box::new(MemLock { shared: Arc::clone(&self.shared), nodes, _file: file }))
    }
}

/// The file at `path`, created if it does not exist, with a handle opened.
fn open_or_create(state: &mut State, place: MemPlace<'_>) -> io::Result<NodeId> {
    let node = match state.find_file(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => state.create(place)?,
        found => found?,
    };
    state.hold(node);
    Ok(node)
}

#[cfg(test)]
mod tests;
