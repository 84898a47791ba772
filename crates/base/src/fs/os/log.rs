//! Log files on disk: filled by copying into a shared mapping, or by `pwritev`.
//!
//! It knows no records. A fill of prepared bytes makes no system call in the mapped way, and one in
//! the other. Either way the bytes are in the page cache when it returns, so a killed process keeps
//! them.
//!
//! # Thread safety
//! Preparing takes a lock; nothing else does, unless a fill has to prepare.
//!
//! # What is populated
//! A page that is copied into was put into the page tables before, so that the copy does not wait
//! for it. But a page that is populated is in memory and will be written to the disk, used or not.
//! So the first two MiB, which may be all that a small database needs, have blocks only. Each page
//! there that is copied into costs a fault, more than it costs to populate it (1.1 ms/MiB). A
//! window has blocks only, too, where syncs follow each other closely, because they cost far more
//! than the faults. Only short records are copied; a `pwrite` needs no page tables. So the next
//! window has blocks only, too, where the last one was mostly written, or one fill is longer than a
//! window.
//!
//! # How large pages are
//! The page cache of ext4 and xfs holds pages of up to 2 MiB, as long as what was written or read
//! ahead at once. A sync writes each page that was touched as a whole, and the pages stay when a
//! file is used again. So nothing is read ahead, and writes are short: in pages at the beginning,
//! where a fresh database finds itself, in 16 KiB behind it.
//!
//! # What is written with zeros
//! The first sync over a reserved block that was never written makes the file system note in its
//! journal that it is written now. It takes about twice as long as a sync over a block that was
//! written before. Where syncs follow each other closely, the next window is therefore written with
//! zeros, page by page. A page cache that holds larger pieces would write whole pieces for a few
//! bytes that are copied. No thread waits for these writes, and what they cannot write is for the
//! next sync to report.
//!
//! # Invariants
//! 1. Bytes before `prepared` have blocks and lie within the file; it only grows, until `shorten`.
//!    It is stored (release) after that is so and loaded (acquire) before bytes are copied.
//! 2. The file is not shortened while a thread fills it (the contract of `shorten`), so what (1)
//!    says stays true. `prepared` goes first: a later fill would prepare anew.
//! 3. Releasing drops page table entries only (see `map`): a late fill before `released` would be
//!    slow, not wrong. Each range is dropped once, and only below `prepared`, so never while it is
//!    being populated.
//!
//! # What a mapping risks
//! A page that the kernel gave up under memory pressure is read again when it is touched. If the
//! device cannot read it, or another process shortens the file, the process is killed (SIGBUS);
//! writing would return an error. Hence `LogIo::Write`, and few windows ahead of the tail.
//!
//! # Syncing a mapping
//! `msync` with `MS_SYNC` does for a range what `fdatasync` does for the file, whether the page
//! cache was modified by a store or by `pwrite`. On Linux, the only platform that maps here, both
//! end in the same call of the file system. `fdatasync` would also write the pages that were
//! populated ahead of the tail, and take each from the page tables meanwhile. Fills would fault on
//! them again, and wait for the writing.

use super::platform::{
    EARLY_WRITE_BYTES_MAX, FILLED_WINDOW_BYTES, LOG_WINDOW_BYTES_LEAST, MAPPED_FILL_BYTES_MAX,
    MAPPED_WRITE_BYTES_MAX, PARTS_MAX, POPULATED_FROM, RELEASED_BYTES, SYNCED_BYTES_MAX, SYNCS_MIN,
    allocate, allocates, maps_safely, write_vectored_at,
};
use crate::{
    error::{Error, ErrorKind, Result},
    fs::{LogFile, LogFileOptions, LogIo, LogWay, map::Mapping},
    hint::begin_writeback,
    limits::LOG_WINDOW_BYTES_MAX,
    sync::lock,
};
use std::{
    fs::File,
    io::{self, IoSlice},
    ops::Range,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// A log file on disk.
#[derive(Debug)]
pub(super) struct OsLogFile {
    file: File,
    path: PathBuf,
    capacity: u64,
    mapping: Option<Mapping>,
    prepared: AtomicU64,
    /// Up to where pages were given back.
    released: AtomicU64,
    /// Bytes that were written, where there is a mapping, since a window was prepared.
    written: AtomicU64,
    /// Syncs since a window was prepared.
    syncs: AtomicU64,
    /// Bytes that the file had when it was opened, and that were written in an earlier life.
    recycled: u64,
    /// Where the last window begins; locked while a thread prepares the next.
    preparing_io: Mutex<u64>,
}

/// What will be done with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    /// How it is filled.
    fills: Fills,
    /// How often it is synced.
    syncs: Syncs,
}

/// How a window is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fills {
    /// Bytes are copied into it.
    Copied,
    /// It is written by `pwritev`.
    Written,
}

/// How often a window is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncs {
    /// Commits wait for them, one after the other.
    Many,
    /// Now and then.
    Few,
}

impl OsLogFile {
    /// Takes over a file that is open for reading and writing.
    pub(super) fn new(file: File, path: &Path, options: LogFileOptions) -> io::Result<Self> {
        let LogFileOptions { capacity, io } = options;
        if capacity > i64::MAX as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "capacity is too large"));
        }
        let wanted = match io {
            LogIo::Auto => maps_safely(&file),
            LogIo::Map => true,
            LogIo::Write => false,
        };
        let mapping = if wanted && capacity > 0 && allocates(&file) {
            match Mapping::new(&file, capacity) {
                // A process that has no addresses left can still write.
                Err(_) if io == LogIo::Auto => None,
                mapping => Some(mapping?),
            }
        } else {
            None
        };
        let recycled = file.metadata()?.len();
        Ok(Self {
            file,
            recycled,
            path: path.to_owned(),
            capacity,
            mapping,
            prepared: AtomicU64::new(0),
            released: AtomicU64::new(0),
            written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            preparing_io: Mutex::new(0),
        })
    }

    /// Prepares a window that ends at `end`, or `needed` at least, if there is no space for it.
    #[cold]
    fn prepare_window(&self, needed: u64, end: u64) -> Result<()> {
        let mut last_window = lock(&self.preparing_io);
        // Relaxed: the lock orders it against the only place that stores.
        let start = self.prepared.load(Ordering::Relaxed);
        if start >= needed {
            return Ok(());
        }
        let round = |end: u64| end.next_multiple_of(LOG_WINDOW_BYTES_LEAST).min(self.capacity);
        let (least, end) = (round(needed), round(end));
        let expected = self.expected_use(start.saturating_sub(*last_window), end - start);
        let done = match self.prepare_range(start, end, expected) {
            Err(error) if error.kind() == ErrorKind::NoSpace && least < end => {
                self.prepare_range(start, least, expected).map(|()| least)?
            }
            result => result.map(|()| end)?,
        };
        *last_window = start;
        // Release: pairs with `fill`, which copies to what was allocated before, by (1).
        self.prepared.store(done, Ordering::Release);
        Ok(())
    }

    /// What will be done with the next `needed` bytes, after a window of `last_bytes`. More than
    /// the longest window is needed by a long fill only, or by one that found nothing prepared and
    /// should not wait for pages.
    fn expected_use(&self, last_bytes: u64, needed: u64) -> Use {
        // Relaxed, both: counts.
        let written = self.written.swap(0, Ordering::Relaxed);
        let syncs = self.syncs.swap(0, Ordering::Relaxed);
        let is_like_last = last_bytes > 0 && written >= last_bytes / 2;
        let is_written = is_like_last || needed > LOG_WINDOW_BYTES_MAX as u64;
        let is_synced = syncs >= SYNCS_MIN && last_bytes / syncs <= SYNCED_BYTES_MAX;
        Use {
            fills: if is_written { Fills::Written } else { Fills::Copied },
            syncs: if is_synced { Syncs::Many } else { Syncs::Few },
        }
    }

    fn prepare_range(&self, start: u64, end: u64, expected: Use) -> Result<()> {
        let reserved = match &self.mapping {
            // Never without blocks, by (1).
            Some(_) => allocate(&self.file, start, end),
            None => allocate_or_grow(&self.file, start, end),
        };
        let written = reserved.and_then(|()| match expected.syncs {
            Syncs::Many => write_zeros(&self.file, start.max(self.recycled), end),
            Syncs::Few => Ok(()),
        });
        let populated = start.max(POPULATED_FROM)..end;
        let ready = written.and_then(|()| match (&self.mapping, expected) {
            (Some(mapping), Use { fills: Fills::Copied, syncs: Syncs::Few })
                if !populated.is_empty() =>
            {
                mapping.populate(populated.start, populated.end)
            }
            _ => Ok(()),
        });
        ready.map_err(|error| Error::io("allocate space", &self.path, error).with_offset(start))
    }

    /// Writes `len` bytes to a file that is mapped: in pieces that leave small pages.
    fn write_small(&self, mut offset: u64, parts: &[&[u8]], len: usize) -> Result<()> {
        let piece_bytes = |offset: u64| {
            if offset < POPULATED_FROM { EARLY_WRITE_BYTES_MAX } else { MAPPED_WRITE_BYTES_MAX }
        };
        // Pages are powers of two: less than two pieces bring none that is larger than one.
        if len < 2 * piece_bytes(offset) {
            return self.write(offset, parts);
        }
        let room_at = |offset: u64| {
            let piece = piece_bytes(offset);
            piece - (offset % piece as u64) as usize
        };
        let mut piece = Vec::new();
        let mut room = room_at(offset);
        for part in parts {
            let mut rest = *part;
            while let Some((now, later)) = rest.split_at_checked(room) {
                piece.push(now);
                self.write(offset, &piece)?;
                piece.clear();
                // To the next border.
                offset += room_at(offset) as u64;
                room = room_at(offset);
                rest = later;
            }
            piece.push(rest);
            room -= rest.len();
        }
        self.write(offset, &piece)
    }

    fn write(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        const INLINE: usize = 8;
        let mut inline = [IoSlice::new(&[]); INLINE];
        let mut long = Vec::new();
        let slices = if parts.len() <= INLINE {
            &mut inline[..parts.len()]
        } else {
            long.resize(parts.len(), IoSlice::new(&[]));
            &mut long[..]
        };
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        write_all_at(&self.file, slices, offset)
            .map_err(|error| Error::io("write", &self.path, error).with_offset(offset))
    }
}

/// Where blocks cannot be had ahead of time, at least the length stands, so that a sync need not
/// write a new one each time.
fn allocate_or_grow(file: &File, start: u64, end: u64) -> io::Result<()> {
    match allocate(file, start, end) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            if file.metadata()?.len() < end { file.set_len(end) } else { Ok(()) }
        }
        result => result,
    }
}

/// Has the blocks of a range written, soon: page by page.
fn write_zeros(file: &File, start: u64, end: u64) -> io::Result<()> {
    const PAGE: [u8; 4096] = [0; 4096];
    let mut offset = start;
    while offset < end {
        let bytes = (end - offset).min(PAGE.len() as u64);
        write_all_at(file, &mut [IoSlice::new(&PAGE[..bytes as usize])], offset)?;
        offset += bytes;
    }
    // It only saves time.
    let _ = begin_writeback(file.as_fd(), start..offset);
    Ok(())
}

/// Writes all of `slices`, continuing short and interrupted writes.
fn write_all_at(file: &File, mut slices: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
    // Takes empty slices off the front, so that no write is asked to do nothing.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let count = slices.len().min(PARTS_MAX);
        match write_vectored_at(file, &slices[..count], offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut slices, written);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl LogFile for OsLogFile {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn way(&self) -> LogWay {
        if self.mapping.is_some() { LogWay::Map } else { LogWay::Write }
    }

    fn prepare(&self, end: u64) -> Result<()> {
        let end = end.min(self.capacity);
        // Relaxed: nothing is copied here.
        if self.prepared.load(Ordering::Relaxed) >= end {
            return Ok(());
        }
        self.prepare_window(end, end)
    }

    fn prepared(&self) -> u64 {
        self.prepared.load(Ordering::Acquire)
    }

    fn release(&self, start: u64) {
        let Some(mapping) = &self.mapping else { return };
        // Relaxed: pages are given back here, nothing is read or written.
        let start = start.min(self.prepared.load(Ordering::Relaxed));
        let end = start - start % RELEASED_BYTES;
        // Relaxed: it only shares out the ranges.
        let released = self.released.fetch_max(end, Ordering::Relaxed);
        if end > released {
            mapping.forget(released, end);
        }
    }

    #[inline]
    fn fill(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let end = match offset.checked_add(len as u64) {
            Some(end) if end <= self.capacity => end,
            _ => return Err(exceeds(&self.path, offset)),
        };
        // Acquire: pairs with the store in `prepare_window`.
        if end > self.prepared.load(Ordering::Acquire) {
            self.prepare_window(end, end.saturating_add(FILLED_WINDOW_BYTES))?;
        }
        let Some(mapping) = &self.mapping else { return self.write(offset, parts) };
        if len > MAPPED_FILL_BYTES_MAX {
            // Relaxed: a count of bytes.
            self.written.fetch_add(len as u64, Ordering::Relaxed);
            return self.write_small(offset, parts, len);
        }
        mapping.copy(offset, parts);
        Ok(())
    }

    fn begin_sync(&self, part: Range<u64>) {
        // It only saves time.
        let _ = begin_writeback(self.file.as_fd(), part);
    }

    fn sync(&self, end: u64) -> Result<()> {
        // Relaxed: a count.
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let synced = match &self.mapping {
            Some(mapping) => mapping.sync(end.min(self.capacity)),
            None => self.file.sync_data(),
        };
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }

    fn shorten(&self, end: u64) -> Result<()> {
        let _nobody_prepares = lock(&self.preparing_io);
        self.prepared.fetch_min(end, Ordering::Release);
        let shortened = match self.file.metadata() {
            Ok(metadata) if metadata.len() <= end => Ok(()),
            _ => self.file.set_len(end),
        };
        shortened.map_err(|error| Error::io("shorten", &self.path, error))
    }
}

#[cold]
fn exceeds(path: &Path, offset: u64) -> Error {
    Error::invalid("fill exceeds the capacity of the log file").with_file(path).with_offset(offset)
}

#[cfg(test)]
mod tests;
