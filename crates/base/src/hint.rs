//! Hints to the processor and to the operating system behind safe functions.
//!
//! A hint never changes a result, so there is no fallback to test beyond "does nothing".

/// Bytes that travel between memory and processor together.
pub const CACHE_LINE_BYTES: usize = 64;

/// Prefetches the cache line at `place`; does nothing where that is not possible.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    prefetch_address(std::ptr::from_ref(place).cast::<u8>());
}

/// Prefetches the cache line that holds `address`; the address need not be valid.
#[inline(always)]
pub fn prefetch_address(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Prefetches all cache lines of `bytes` bytes from `address` on; the address need not be valid.
#[inline(always)]
pub fn prefetch_bytes(address: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(CACHE_LINE_BYTES) {
        prefetch_address(address.wrapping_add(line * CACHE_LINE_BYTES));
    }
}

/// Continues CRC-32C (as the bare remainder, inverted neither before nor after) over `bytes` with
/// the processor's instruction for it; `None` where it has none.
///
/// One instruction per 8 bytes, each waiting for the one before: the fastest way up to some 256
/// bytes, and no longer beyond.
#[inline]
#[must_use]
pub fn crc32c_remainder(remainder: u32, bytes: &[u8]) -> Option<u32> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2, which is all that the function asks for.
        return Some(unsafe { crc32c_remainder_sse42(remainder, bytes) });
    }
    let _ = (remainder, bytes);
    None
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn crc32c_remainder_sse42(remainder: u32, bytes: &[u8]) -> u32 {
    use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut wide = u64::from(remainder);
    for word in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
    }
    let mut remainder = wide as u32;
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        remainder = _mm_crc32_u32(remainder, u32::from_le_bytes(*half));
    }
    for &byte in rest {
        remainder = _mm_crc32_u8(remainder, byte);
    }
    remainder
}

/// Asks the scheduler to prefer other threads to this one by `steps` of nice, each some 20 % less
/// of a contended processor. Does nothing where that cannot be asked for one thread alone.
pub fn lower_priority(steps: u8) {
    // Linux takes the calling thread for the process that is meant; others lower them all.
    #[cfg(target_os = "linux")]
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        // Refused in some sandboxes: then all threads stay equal.
        let _ = rustix::process::setpriority_process(None, nice + i32::from(steps));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = steps;
}

/// The time that this thread has had a processor, in nanoseconds; `None` where that is not known.
#[must_use]
pub fn thread_processor_ns() -> Option<u64> {
    #[cfg(all(target_os = "macos", not(miri)))]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec).ok()?;
        Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::fs::{Mode, OFlags};
        let path = "/proc/thread-self/schedstat";
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut line = [0; 64];
        let length = rustix::io::read(&file, &mut line).ok()?;
        let text = std::str::from_utf8(&line[..length]).ok()?;
        text.split(' ').next()?.parse().ok()
    }
    #[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri))))]
    None
}

/// Asks the system to begin writing this range of a file to the disk, so that a later sync has less
/// to wait for. Does nothing where that cannot be asked. Returns before anything is durable: what
/// cannot be written is for that sync to report.
///
/// # Errors
/// The system's, if it was not understood; nothing has changed then.
#[cfg(unix)]
pub fn begin_writeback(
    file: std::os::fd::BorrowedFd<'_>,
    range: std::ops::Range<u64>,
) -> std::io::Result<()> {
    #[cfg(all(target_os = "linux", not(miri)))]
    if !range.is_empty() {
        use std::os::fd::AsRawFd;
        let number = |number: u64| {
            i64::try_from(number)
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput))
        };
        let (offset, bytes) = (number(range.start)?, number(range.end - range.start)?);
        let flags = libc::SYNC_FILE_RANGE_WRITE;
        // SAFETY: the call reads no memory of ours, and the descriptor stays open while borrowed.
        if unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (file, range);
    Ok(())
}
