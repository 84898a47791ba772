//! Mappings of files, one that bytes are copied into and one that is read: the only `unsafe` of
//! the file system.
//!
//! They neither allocate nor sync: their owner says which bytes of the file are there.
//!
//! # Thread safety
//! Everything may be called from any thread; concurrent copies must be disjoint.
//!
//! # Invariants
//! Of one that bytes are copied into:
//! 1. The whole length is mapped once, when the mapping is made, and unmapped when it is dropped.
//!    So an address inside it stays valid as long as a method can be called. No part has a lifetime
//!    of its own: `forget` gives back pages, never addresses.
//! 2. Pages wholly beyond the end of the file must not be touched (the kernel answers with SIGBUS),
//!    nor holes of a full disk. The owner allocates a range before it lets a thread copy to it, and
//!    shortens the file only when no thread copies any more.
//! 3. No reference into the mapping ever exists, only raw pointers: other processes, `pwrite` and
//!    disjoint copies may change the bytes under it. Copies that overlap, which the contract of
//!    [`LogFile::fill`](super::LogFile::fill) forbids, would mix bytes in their own range.
//!
//! Of one that is read:
//! 4. Its file's bytes do not change any more, as the contract of [`File::map`](super::File::map)
//!    demands: references into it are to constant bytes.

use crate::limits::MAPPINGS_MAX;
use bytes::Bytes;
use memmap2::{Mmap, MmapOptions, MmapRaw};
use std::{
    fs::File,
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A file mapped shared and writable.
#[derive(Debug)]
pub(super) struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    /// Reserves addresses for the first `len` bytes of `file`, whatever its length now.
    ///
    /// Nothing is read ahead when a copy faults: what lies behind is empty, and the page cache
    /// would fill large pages with its zeros.
    pub(super) fn new(file: &File, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let map = MmapOptions::new().len(len).map_raw(file)?;
        // It only saves time. For the whole: parts that were advised differently are synced alone.
        let _ = map.advise(memmap2::Advice::Random);
        Ok(Self { map })
    }

    /// Has the kernel make the pages of a range present and writable, so that a copy does not
    /// fault.
    ///
    /// A kernel that cannot (before Linux 5.14) does nothing. Fails if touching the pages would
    /// kill the process: a read error, or no space under them.
    #[cfg(target_os = "linux")]
    pub(super) fn populate(&self, start: u64, end: u64) -> io::Result<()> {
        let len = (end - start) as usize;
        loop {
            let error =
                match self.map.advise_range(memmap2::Advice::PopulateWrite, start as usize, len) {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                };
            match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::INTR) => {}
                Some(rustix::io::Errno::FAULT | rustix::io::Errno::HWPOISON) => return Err(error),
                // Anything else says that it cannot be done ahead of time: the copy will fault.
                _ => return Ok(()),
            }
        }
    }

    /// Elsewhere there is no such call: the copy will fault.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn populate(&self, _start: u64, _end: u64) -> io::Result<()> {
        Ok(())
    }

    /// Makes the bytes before `end` durable.
    pub(super) fn sync(&self, end: u64) -> io::Result<()> {
        self.map.flush_range(0, end as usize)
    }

    /// Gives back the page table entries of a range; its bytes stay in the file.
    pub(super) fn forget(&self, start: u64, end: u64) {
        let (start, len) = (start as usize, (end - start) as usize);
        let advice = memmap2::UncheckedAdvice::DontNeed;
        // SAFETY: by (1) the addresses stay mapped, and by (3) no reference relies on their pages.
        // In a shared mapping of a file they come back with the file's bytes when touched
        // (madvise(2)).
        let advised = unsafe { self.map.unchecked_advise_range(advice, start, len) };
        // It only saves memory.
        let _ = advised;
    }

    /// Copies `parts`, one after the other, to `offset`. The range must be allocated, by (2).
    ///
    /// # Panics
    /// If the range exceeds the mapping.
    #[inline]
    pub(super) fn copy(&self, offset: u64, parts: &[&[u8]]) {
        let mut offset = offset as usize;
        for part in parts {
            let room = self.map.len().checked_sub(offset);
            assert!(room.is_some_and(|room| part.len() <= room), "a copy stays in the mapping");
            // SAFETY: `offset` is within the mapping, which is one allocation by (1).
            let target = unsafe { self.map.as_mut_ptr().add(offset) };
            // SAFETY: `part.len()` bytes from `target` lie within the mapping and are valid by (1)
            // and (2). `part` is a live slice and cannot overlap, since by (3) no slice points into
            // the mapping.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target, part.len()) };
            offset += part.len();
        }
    }
}

/// The mappings of this process that are read.
pub(super) static MAPPINGS: Mappings = Mappings::new(MAPPINGS_MAX);

/// Counts mappings, because the system limits their number in a process.
#[derive(Debug)]
pub(super) struct Mappings {
    max: usize,
    count: AtomicUsize,
}

/// A mapping that is read, counted.
struct ReadMapping {
    map: Mmap,
    mappings: &'static Mappings,
}

impl Mappings {
    pub(super) const fn new(max: usize) -> Self {
        Self { max, count: AtomicUsize::new(0) }
    }

    /// The `bytes` bytes of `file` from `offset` on, mapped to be read.
    ///
    /// Fails if there are too many mappings, or if the file ends before: by (2) nothing behind its
    /// end may be touched.
    pub(super) fn map(&'static self, file: &File, offset: u64, bytes: u64) -> io::Result<Bytes> {
        let len = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        if file.metadata()?.len().checked_sub(offset).is_none_or(|left| left < bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Relaxed, as in `drop`: a count. It may be too high for a moment, never too low.
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::other("too many files are mapped"));
        }
        let mut options = MmapOptions::new();
        // SAFETY: by (4) the bytes do not change while they are mapped, and the result keeps the
        // mapping.
        let mapped = unsafe { options.offset(offset).len(len).map(file) };
        match mapped {
            Ok(map) => Ok(Bytes::from_owner(ReadMapping { map, mappings: self })),
            Err(error) => {
                self.count.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

impl AsRef<[u8]> for ReadMapping {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for ReadMapping {
    fn drop(&mut self) {
        self.mappings.count.fetch_sub(1, Ordering::Relaxed);
    }
}
