//! The lock that keeps a second opener away: other processes by the system, this one by a registry.
//!
//! A system's lock belongs to an open file. On some platforms a process could take it twice under
//! two names, or lose it by closing another handle. Hence the registry of (device, inode). The
//! directory is locked as well as the lock file in it, so that removing the file lets no other
//! process in. A directory that the system cannot lock (NFS) has the file alone.
//!
//! The lock file says which process wrote it last, for messages. It decides nothing. A file of that
//! name with other contents is left alone. A symbolic link is not followed, because it would lead
//! to a file outside the database.
//!
//! # Invariants
//! 1. A file is in the registry from before its lock is tried until after it is given back.
//! 2. The path still names the locked file once the lock is held; else another process replaced
//!    the file and may hold the new one's lock.

use super::{
    place::OsPlace,
    platform::{identity, is_running},
};
use crate::{
    error::{Error, ErrorKind, Result},
    fs::{FileLock, LockKind},
};
use rustix::{
    fs::{AtFlags, OFlags},
    io::Errno,
};
use std::{
    collections::BTreeMap,
    env,
    fs::{File, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How often a lock file may be replaced while we try to lock it.
const ATTEMPTS_MAX: usize = 8;

/// The longest line by which a lock file names its holder, in bytes.
const HOLDER_BYTES_MAX: usize = 128;

type Identity = (u64, u64);

/// Locks of this process: exclusive ones count as `usize::MAX` holders.
static HELD: Mutex<BTreeMap<Identity, usize>> = Mutex::new(BTreeMap::new());

const EXCLUSIVE: usize = usize::MAX;

pub(super) fn held() -> MutexGuard<'static, BTreeMap<Identity, usize>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place in the registry.
#[derive(Debug)]
struct Registered {
    identity: Identity,
    process: u32,
}

impl Registered {
    /// `None`, if this process holds a lock that excludes it.
    fn new(identity: Identity, kind: LockKind) -> Option<Self> {
        let mut held = held();
        let count = match (held.get(&identity), kind) {
            (None, LockKind::Exclusive) => EXCLUSIVE,
            (None, LockKind::Shared) => 1,
            (Some(&count), LockKind::Shared) if count != EXCLUSIVE => count + 1,
            (Some(_), _) => return None,
        };
        held.insert(identity, count);
        Some(Self { identity, process: process::id() })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let held = match process::id() == self.process {
            true => Some(held()),
            // In a forked child, a thread that it does not have may hold the registry for good.
            false => HELD.try_lock().ok(),
        };
        let Some(mut held) = held else { return };
        match held.get_mut(&self.identity) {
            Some(count) if *count != EXCLUSIVE && *count > 1 => *count -= 1,
            _ => drop(held.remove(&self.identity)),
        }
    }
}

/// One locked file or directory. Fields are dropped in order: the file first, by (1).
#[derive(Debug)]
struct Locked {
    file: File,
    _registered: Registered,
    kind: LockKind,
    process: u32,
}

impl Drop for Locked {
    fn drop(&mut self) {
        // A forked child shares the open file: unlocking there would take the parent's lock away,
        // closing does not. In the parent, closing would leave the lock to the child.
        if process::id() == self.process {
            if self.kind == LockKind::Exclusive && is_ours(&self.file) {
                let _ = self.file.set_len(0);
            }
            // Closing the file is what remains to be done, and happens next.
            let _ = self.file.unlock();
        }
    }
}

/// A held lock: of the lock file, if there is one, and of its directory, if the system can.
#[derive(Debug)]
pub(super) struct OsLock {
    _file: Option<Locked>,
    _directory: Option<Locked>,
}

impl FileLock for OsLock {}

/// What locks are taken for.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    place: &'a OsPlace,
    /// The lock file.
    path: &'a Path,
    kind: LockKind,
}

/// Takes the lock of the file at `path`, and of the directory that it lies in.
pub(super) fn lock(place: &OsPlace, path: &Path, kind: LockKind) -> Result<OsLock> {
    let attempt = Attempt { place, path, kind };
    let directory = attempt.lock_directory()?;
    if directory.is_some() && kind == LockKind::Exclusive {
        attempt.part_from_links()?;
    }
    for _ in 0..ATTEMPTS_MAX {
        match attempt.open_file()? {
            None => return Ok(OsLock { _file: None, _directory: directory }),
            Some(file) => {
                if let Some(file) = attempt.lock_file(file)? {
                    return Ok(OsLock { _file: Some(file), _directory: directory });
                }
            }
        }
    }
    let message = "the lock file keeps being replaced";
    Err(Error::new(ErrorKind::Busy, message).with_file(&place.full_path(path)))
}

impl Attempt<'_> {
    fn failed(&self, error: io::Error) -> Error {
        Error::io("lock", &self.place.full_path(self.path), error)
    }

    /// `None`, where a directory cannot be locked.
    fn lock_directory(&self) -> Result<Option<Locked>> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let file = self.place.open_dir(dir).map_err(|error| self.failed(error))?;
        match self.take(file) {
            Ok(locked) => Ok(Some(locked)),
            Err(TryLockError::WouldBlock) => Err(self.held_elsewhere()),
            // EBADF, EINVAL, ENOTSUP and their kin, depending on the system.
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Removes a lock file of ours that has a second name in another directory. The directory is
    /// locked, so no process holds the file by this name.
    fn part_from_links(&self) -> Result<()> {
        let found = self.place.open_plain(self.path, OFlags::RDONLY | OFlags::NOFOLLOW);
        match found {
            Ok((file, metadata)) if metadata.nlink() > 1 && is_ours(&file) => {
                self.place.remove(self.path).map_err(|error| self.failed(error))
            }
            // What is wrong with it is said when it is locked.
            _ => Ok(()),
        }
    }

    /// The lock file; `None`, if there is none and the lock must not create one, or if it cannot
    /// be read.
    fn open_file(&self) -> Result<Option<File>> {
        let flags = match self.kind {
            LockKind::Exclusive => OFlags::RDWR | OFlags::CREATE,
            LockKind::Shared => OFlags::RDONLY,
        };
        let is_refused = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        };
        match self.place.open_plain(self.path, flags | OFlags::NOFOLLOW) {
            Ok((file, _)) => Ok(Some(file)),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                Err(self.failed(io::Error::other("is a symbolic link")))
            }
            Err(error) if self.kind == LockKind::Shared && is_refused(&error) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// `None`, if the file was replaced meanwhile.
    fn lock_file(&self, file: File) -> Result<Option<Locked>> {
        let locked = self.take(file).map_err(|error| match error {
            TryLockError::WouldBlock => self.held_elsewhere(),
            TryLockError::Error(error) => self.failed(error),
        })?;
        // By (2), the file may have been replaced.
        match self.place.stat(self.path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) if identity(&now) == locked._registered.identity => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        }
        if self.kind == LockKind::Exclusive {
            write_holder(&locked.file);
        }
        Ok(Some(locked))
    }

    /// Locks one file or directory: in this process, then in the system.
    fn take(&self, file: File) -> std::result::Result<Locked, TryLockError> {
        let metadata = file.metadata().map_err(TryLockError::Error)?;
        let identity = (metadata.dev(), metadata.ino());
        let registered = Registered::new(identity, self.kind).ok_or(TryLockError::WouldBlock)?;
        match self.kind {
            LockKind::Exclusive => file.try_lock()?,
            LockKind::Shared => file.try_lock_shared()?,
        }
        Ok(Locked { file, _registered: registered, kind: self.kind, process: process::id() })
    }

    /// What is said when a lock is held, and by which process as far as the lock file tells.
    #[cold]
    fn held_elsewhere(&self) -> Error {
        let holder = self.place.open_plain(self.path, OFlags::RDONLY);
        let holder = holder.ok().and_then(|(file, _)| read_holder(&file));
        // One that was killed has left its line.
        let holder = holder.filter(|(id, _)| is_running(*id));
        let hint = match &holder {
            Some((id, _)) if *id == process::id() => {
                "this process has it open already: share the handle".to_owned()
            }
            Some((id, program)) => {
                format!("process {id} ({program}) has it open: close it there first")
            }
            None => "another process, or this one, has it open: close it there first".to_owned(),
        };
        Error::new(ErrorKind::Locked, "the lock is held")
            .with_file(&self.place.full_path(self.path))
            .with_hint(hint)
    }
}

/// Writes which process holds the lock; without it messages are less exact, and nothing else is.
fn write_holder(file: &File) {
    if !is_ours(file) {
        return;
    }
    let program = env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name).unwrap_or_default();
    let mut line = format!("{} {}", process::id(), program.to_string_lossy());
    while line.len() >= HOLDER_BYTES_MAX {
        line.pop();
    }
    line.push('\n');
    // In this order a kill leaves no line that is made of two.
    let _ = file.set_len(0).and_then(|()| file.write_all_at(line.as_bytes(), 0));
}

/// Whether a lock file is empty or holds nothing but the line that names its holder.
fn is_ours(file: &File) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let is_line = || metadata.len() <= HOLDER_BYTES_MAX as u64 && read_holder(file).is_some();
    metadata.is_file() && (metadata.len() == 0 || is_line())
}

/// The process and program that wrote the lock file last.
fn read_holder(file: &File) -> Option<(u32, String)> {
    let mut bytes = [0; HOLDER_BYTES_MAX];
    let read = file.read_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    let line = text.strip_suffix('\n').filter(|line| !line.contains('\n'))?;
    let (id, program) = line.split_once(' ')?;
    let program = program.chars().filter(|c| !c.is_control()).collect();
    Some((id.parse().ok()?, program))
}
