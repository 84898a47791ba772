//! One contiguous stretch of memory: from the allocator, or mapped, on huge pages when it is large.
//!
//! It does not know what it is used for. A new one is all zeros; it is not cleared after that.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    fmt,
    ptr::NonNull,
};

/// Alignment of every chunk, and the largest a piece of one can ask for.
pub const ALIGN_MAX: usize = 64;
/// Chunks of this size and more are mapped where that is possible: the allocator would clear, and
/// so touch, all of them.
pub const MAPPED_BYTES_MIN: usize = 64 << 10;
/// Chunks of this size and more are aligned to it, on huge pages if the system has them.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Chunks are multiples of this.
const PAGE_BYTES: usize = 4 << 10;

/// What pages a large chunk asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Huge ones where the system has them: fewer misses of the address cache.
    #[default]
    Huge,
    /// Whatever the system gives.
    Small,
}

/// Memory owned by the holder of the chunk. Every byte of it is initialised.
pub struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
    origin: Origin,
}

enum Origin {
    Allocator,
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    Mapping,
}

// SAFETY: a chunk is plain memory with one owner; nothing in it is bound to a thread.
unsafe impl Send for Chunk {}

/// The size of a chunk that holds at least `bytes`.
#[must_use]
pub fn round_up(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(PAGE_BYTES)
}

impl Chunk {
    /// A new chunk of exactly `bytes`, a result of [`round_up`]. Aborts if there is no memory.
    ///
    /// Memory of one of 64 KiB and more is taken from the system when it is first touched.
    #[must_use]
    pub fn new(bytes: usize, pages: Pages) -> Self {
        debug_assert_eq!(bytes, round_up(bytes));
        Self::map(bytes, pages).unwrap_or_else(|| Self::allocate(bytes))
    }

    /// Where it begins, aligned to at least [`ALIGN_MAX`].
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The size of the chunk, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGN_MAX).expect("a chunk is smaller than isize::MAX")
    }

    fn allocate(bytes: usize) -> Self {
        let layout = Self::layout(bytes);
        // SAFETY: the size is not zero, as `round_up` gives at least one page.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, bytes, origin: Origin::Allocator },
            None => handle_alloc_error(layout),
        }
    }

    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    fn map(_bytes: usize, _pages: Pages) -> Option<Self> {
        None
    }

    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    fn map(bytes: usize, pages: Pages) -> Option<Self> {
        let start = match bytes {
            HUGE_PAGE_BYTES.. => map_aligned(bytes, pages)?,
            MAPPED_BYTES_MIN.. => map_pages(bytes)?,
            _ => return None,
        };
        Some(Self { start: NonNull::new(start)?, bytes, origin: Origin::Mapping })
    }
}

/// New pages at an address of the kernel's choice.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
fn map_pages(bytes: usize) -> Option<*mut u8> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh private mapping at an address of the kernel's choice touches no other memory.
    let start =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
    start.ok().map(<*mut _>::cast)
}

/// New pages aligned to a huge one: maps more than asked for and gives back what lies outside.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
fn map_aligned(bytes: usize, pages: Pages) -> Option<*mut u8> {
    use rustix::mm::{Advice, madvise, munmap};
    let base = map_pages(bytes.checked_add(HUGE_PAGE_BYTES)?)?;
    let before = base.addr().wrapping_neg() & (HUGE_PAGE_BYTES - 1);
    // SAFETY: `before < HUGE_PAGE_BYTES`, so it is within the mapping.
    let start = unsafe { base.byte_add(before) };
    // SAFETY: `before + bytes` is less than what was mapped.
    let end = unsafe { start.byte_add(bytes) };
    if before > 0 {
        // SAFETY: the pages before `start` are ours and no pointer leads to them.
        let result = unsafe { munmap(base.cast(), before) };
        debug_assert!(result.is_ok(), "part of an own mapping");
    }
    // SAFETY: the pages from `end` on are ours and no pointer leads to them.
    let result = unsafe { munmap(end.cast(), HUGE_PAGE_BYTES - before) };
    debug_assert!(result.is_ok(), "part of an own mapping");
    if pages == Pages::Huge {
        // SAFETY: the range is ours; the advice does not change its contents. That a system
        // without huge pages refuses it is no error.
        let _ = unsafe { madvise(start.cast(), bytes, Advice::LinuxHugepage) };
    }
    Some(start)
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        match self.origin {
            Origin::Allocator => {
                let layout = Self::layout(self.bytes);
                // SAFETY: it came from `alloc_zeroed` with the same layout, and has no other owner.
                unsafe { dealloc(self.start.as_ptr(), layout) };
            }
            #[cfg(all(target_os = "linux", not(miri), not(loom)))]
            Origin::Mapping => {
                // SAFETY: exactly the pages that `map` kept, without another owner.
                let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
                debug_assert!(result.is_ok(), "an own mapping");
            }
        }
    }
}

#[cfg(test)]
mod tests;
