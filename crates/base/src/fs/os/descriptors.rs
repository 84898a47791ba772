//! Open files for reading, at most as many at a time as the process can spare descriptors.
//!
//! It does not read them. A file over the limit is closed, and opened again by its path at its next
//! read. The clock algorithm chooses one that was not read since the hand last came by.
//!
//! # Thread safety
//! Any thread may ask for a descriptor. No lock is held while a file is opened.
//!
//! # Invariants
//! 1. A file is in the ring exactly once from when it gets a descriptor until that is taken from
//!    it. The file leaves the ring before its descriptor is taken, and enters only when it is not
//!    in it.
//!
//! Lock order: the ring, then the descriptor of one file.

use super::place::OsPlace;
use crate::sync::lock;
use rustix::fs::OFlags;
use std::{
    collections::VecDeque,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

/// Files that are held open at least, whatever the process is allowed.
const OPEN_MIN: usize = 16;

/// Files that are held open where there is no limit.
const OPEN_MAX: usize = 1 << 16;

/// The descriptors of all files that this process reads.
static DESCRIPTORS: LazyLock<Arc<Descriptors>> = LazyLock::new(|| {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    // The other half is for logs, for what is written, and for the program.
    Arc::new(Descriptors::new((limit / 2).clamp(OPEN_MIN, OPEN_MAX)))
});

/// A ring of files that hold descriptors.
#[derive(Debug)]
pub(super) struct Descriptors {
    max: usize,
    ring: Mutex<VecDeque<Weak<ReadableFile>>>,
}

/// A file that can be read, with a descriptor or without.
#[derive(Debug)]
pub(super) struct ReadableFile {
    descriptors: Arc<Descriptors>,
    place: OsPlace,
    /// In a held directory, or from the root, so that it leads to the file wherever the process
    /// goes.
    path: PathBuf,
    len: u64,
    /// Device and number: what else comes to stand at the path is not this file.
    identity: (u64, u64),
    descriptor: Mutex<Option<Arc<fs::File>>>,
    /// It was read since the hand came by.
    is_used: AtomicBool,
}

impl ReadableFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn open(place: &OsPlace, path: &Path) -> io::Result<Arc<Self>> {
        Self::open_among(&DESCRIPTORS, place, path)
    }

    fn open_among(
        descriptors: &Arc<Descriptors>,
        place: &OsPlace,
        path: &Path,
    ) -> io::Result<Arc<Self>> {
        let (file, metadata) = place.open_plain(path, OFlags::RDONLY)?;
        let readable = Arc::new(Self {
            descriptors: Arc::clone(descriptors),
            place: place.clone(),
            path: place.fixed(path)?,
            len: metadata.len(),
            identity: (metadata.dev(), metadata.ino()),
            descriptor: Mutex::new(Some(Arc::new(file))),
            is_used: AtomicBool::new(true),
        });
        descriptors.add(&readable);
        Ok(readable)
    }

    /// Its length, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// A descriptor of it, which stays open for as long as the result lives.
    ///
    /// # Errors
    /// The system's; `NotFound`, if it had none and another file has taken its place.
    pub(super) fn descriptor(self: &Arc<Self>) -> io::Result<Arc<fs::File>> {
        // Relaxed: a hint for the hand. Looking first keeps the line shared among readers.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        if let Some(file) = &*lock(&self.descriptor) {
            return Ok(Arc::clone(file));
        }
        let (file, metadata) = self.place.open_plain(&self.path, OFlags::RDONLY)?;
        if (metadata.dev(), metadata.ino()) != self.identity {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another file has its name"));
        }
        let file = Arc::new(file);
        {
            let mut descriptor = lock(&self.descriptor);
            if let Some(other) = &*descriptor {
                return Ok(Arc::clone(other));
            }
            *descriptor = Some(Arc::clone(&file));
        }
        // By (1): it had none.
        self.descriptors.add(self);
        Ok(file)
    }
}

impl Descriptors {
    fn new(max: usize) -> Self {
        Self { max, ring: Mutex::default() }
    }

    /// Puts a file in that has got a descriptor, and takes those of others that are too many.
    fn add(&self, file: &Arc<ReadableFile>) {
        let mut ring = lock(&self.ring);
        ring.push_back(Arc::downgrade(file));
        if ring.len() <= self.max {
            return;
        }
        // Once to take the marks away, and once to take descriptors; files that are gone leave.
        for _ in 0..2 * ring.len() {
            if ring.len() <= self.max {
                return;
            }
            let Some(next) = ring.pop_front() else { return };
            let Some(file) = next.upgrade() else { continue };
            // Relaxed: as in `ReadableFile::descriptor`.
            if file.is_used.swap(false, Ordering::Relaxed) {
                ring.push_back(next);
            } else {
                // By (1): it is out of the ring. A read that is under way keeps it open until its
                // end.
                lock(&file.descriptor).take();
            }
        }
    }
}

#[cfg(test)]
mod tests;
