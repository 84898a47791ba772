//! What differs between platforms and file systems, and the sizes that were chosen for them.
//!
//! It offers no file; it answers questions about one.

use std::{
    fs::{File, Metadata},
    io,
    os::fd::AsFd,
};

/// Windows of a log end at multiples of this, in bytes: no page is larger.
pub(super) const LOG_WINDOW_BYTES_LEAST: u64 = 64 << 10;

/// What a fill that finds nothing prepared prepares behind itself, in bytes.
pub(super) const FILLED_WINDOW_BYTES: u64 = 256 << 10;

/// From here on pages of a log are populated, in bytes: a small database should not pay for a large
/// one.
pub(super) const POPULATED_FROM: u64 = 2 << 20;

/// Pages of a log are given back in multiples of this, in bytes.
pub(super) const RELEASED_BYTES: u64 = 256 << 10;

/// Longest fill that is copied into a mapping, in bytes. Copying wins for small records. For larger
/// ones a system call costs less than the entries in the page tables. It saves 8 % at 5 KB in all,
/// a quarter at 116 KB. At 1 KB, writers that wait for each other's calls lose a tenth.
pub(super) const MAPPED_FILL_BYTES_MAX: usize = 2 << 10;

/// A write to a file that is mapped is shorter than twice this, in bytes: no page of the page cache
/// becomes larger.
pub(super) const MAPPED_WRITE_BYTES_MAX: usize = 16 << 10;

/// The same below `POPULATED_FROM`: pages of a small database are the smallest there are.
pub(super) const EARLY_WRITE_BYTES_MAX: usize = 4 << 10;

/// Syncs in one window of the log from which commits are likely to wait for syncs, if also
/// `SYNCED_BYTES_MAX` holds.
pub(super) const SYNCS_MIN: u64 = 8;

/// Most bytes between two syncs, on average, at which commits are likely to wait for them.
pub(super) const SYNCED_BYTES_MAX: u64 = 256 << 10;

/// A file that is appended to goes to the disk in pieces of at least this size while it grows, in
/// bytes. Pieces of 4 MiB bring about the same.
pub(super) const WRITEBACK_BYTES: u64 = 1 << 20;

/// Most parts that one `pwritev` takes (IOV_MAX; every platform allows at least as many).
pub(super) const PARTS_MAX: usize = 1024;

/// Open flags so that opening something that is no file (a pipe) does not wait for a partner.
pub(super) const OPEN_FLAGS: rustix::fs::OFlags = rustix::fs::OFlags::NONBLOCK;

/// Whether a shared mapping of `file` is known to be safe and fast: ext4 (ext2 and ext3 share its
/// number and driver), xfs and tmpfs. Their allocated blocks are written in place, so a touched
/// page cannot run out of space.
#[cfg(target_os = "linux")]
pub(super) fn maps_safely(file: &File) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const TMPFS: u64 = 0x0102_1994;
    let kind = rustix::fs::fstatfs(file.as_fd()).map(|system| u64::try_from(system.f_type));
    matches!(kind, Ok(Ok(EXT4 | XFS | TMPFS)))
}

/// Elsewhere nothing allocates the blocks under a mapping reliably.
#[cfg(not(target_os = "linux"))]
pub(super) fn maps_safely(_file: &File) -> bool {
    false
}

/// Whether [`allocate`] works on `file`. It does not on every file system, nor on every file of one
/// where it does: a file of ext4 may come from ext3.
pub(super) fn allocates(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::{fs::FallocateFlags, io::Errno};
        let result = rustix::fs::fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, 1);
        !matches!(result, Err(Errno::OPNOTSUPP | Errno::NOSYS))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}

/// Gives `file` blocks for a range and at least the length of its end; bytes that are there stay.
///
/// `Unsupported` where blocks cannot be had ahead of time.
pub(super) fn allocate(file: &File, start: u64, end: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    loop {
        use rustix::{fs::FallocateFlags, io::Errno};
        match rustix::fs::fallocate(file.as_fd(), FallocateFlags::empty(), start, end - start) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Err(io::ErrorKind::Unsupported.into()),
            Err(error) => return Err(error.into()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, start, end);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Writes a part of `slices` at `offset` by one system call; returns the bytes written.
#[cfg(target_os = "linux")]
pub(super) fn write_vectored_at(
    file: &File,
    slices: &[io::IoSlice<'_>],
    offset: u64,
) -> io::Result<usize> {
    Ok(rustix::io::pwritev(file.as_fd(), slices, offset)?)
}

/// Elsewhere part by part.
#[cfg(not(target_os = "linux"))]
pub(super) fn write_vectored_at(
    file: &File,
    slices: &[io::IoSlice<'_>],
    offset: u64,
) -> io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let part = slices.iter().find(|slice| !slice.is_empty());
    part.map_or(Ok(0), |part| file.write_at(part, offset))
}

/// Refuses what is no plain file, which may have no end and no offsets.
pub(super) fn check_plain(file: &File) -> io::Result<Metadata> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else if !metadata.is_file() {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"))
    } else {
        Ok(metadata)
    }
}

/// Device and number of a file: what tells it from every other.
#[allow(clippy::unnecessary_cast, reason = "the fields differ in width between systems")]
pub(super) fn identity(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Whether there is a process of this id, as far as this one may know.
pub(super) fn is_running(id: u32) -> bool {
    use rustix::{io::Errno, process::Pid};
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| rustix::process::test_kill_process(id) != Err(Errno::SRCH))
}
