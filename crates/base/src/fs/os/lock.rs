//! The lock that keeps a second opener away: other processes by the system, this one by a registry.
//!
//! A system's lock belongs to an open file, so a process could take it twice under two names or
//! lose it by closing another handle, on some platforms. Hence the registry of (device, inode).
//!
//! # Invariants
//! 1. A file is in the registry from before its lock is tried until after it is given back.
//! 2. The path still names the locked file once the lock is held; else somebody replaced the file
//!    and another process may hold the new one's.

use super::platform::{OPEN_FLAGS, check_plain};
use crate::{
    error::{Error, ErrorKind, Result},
    fs::FileLock,
};
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How often a lock file may be replaced while we try to lock it.
const ATTEMPTS_MAX: usize = 8;

type Identity = (u64, u64);

static HELD: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

fn held() -> MutexGuard<'static, BTreeSet<Identity>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place in the registry.
#[derive(Debug)]
struct Registered(Identity);

impl Drop for Registered {
    fn drop(&mut self) {
        held().remove(&self.0);
    }
}

/// A held lock. Fields are dropped in order: the file first, by (1).
#[derive(Debug)]
pub(super) struct OsLock {
    file: File,
    _registered: Registered,
    process: u32,
}

impl FileLock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        // A forked child shares the open file: unlocking there would take the parent's lock away,
        // closing does not. In the parent, closing would leave the lock to the child.
        if process::id() == self.process {
            // Closing the file is what remains to be done, and happens next.
            let _ = self.file.unlock();
        }
    }
}

/// Takes the lock of the file at `path`, creating it.
pub(super) fn lock(path: &Path) -> Result<OsLock> {
    for _ in 0..ATTEMPTS_MAX {
        if let Some(lock) = try_lock(path)? {
            return Ok(lock);
        }
    }
    Err(Error::new(ErrorKind::Busy, "the lock file keeps being replaced").with_file(path))
}

/// As `lock`; `None` if the file was replaced meanwhile.
fn try_lock(path: &Path) -> Result<Option<OsLock>> {
    let failed = |error| Error::io("lock", path, error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(OPEN_FLAGS);
    let file = options.open(path).map_err(failed)?;
    let metadata = check_plain(&file).map_err(failed)?;
    let identity = (metadata.dev(), metadata.ino());
    if !held().insert(identity) {
        return Err(locked(path, "this process has it open already: share the handle"));
    }
    let registered = Registered(identity);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(locked(path, "another process has it open: close it there first"));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let lock = OsLock { file, _registered: registered, process: process::id() };
    match fs::metadata(path) {
        Ok(now) if (now.dev(), now.ino()) == identity => Ok(Some(lock)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn locked(path: &Path, hint: &'static str) -> Error {
    Error::new(ErrorKind::Locked, "the lock is held").with_file(path).with_hint(hint)
}
