//! What a cache keeps: values with what it must know of them, and how the hand passes over them.

use std::{
    ops::{Deref, Range},
    sync::atomic::{AtomicBool, Ordering},
};

/// What a cached value costs beyond its own bytes: reference counts and the allocator's header.
pub(super) const HELD_OVERHEAD_BYTES: usize = 24;

/// What can be kept in a cache.
pub trait Cacheable: Send + Sync + 'static {
    /// Bytes at its front that a reader looks at first.
    const FRONT_BYTES: usize;

    /// Where it begins in memory.
    fn front(&self) -> *const u8;

    /// How its parts lie behind its front, in its own terms, so that a part can be prefetched
    /// before the value itself was looked at.
    fn layout(&self) -> u64;
}

/// A value in the cache, or one that was or could have been.
#[derive(Debug)]
pub struct Cached<T> {
    pub(super) referenced: AtomicBool,
    bytes: u32,
    value: T,
}

impl<T> Cached<T> {
    /// A value that takes `bytes` of memory beside its own size.
    #[must_use]
    pub fn new(value: T, bytes: usize) -> Self {
        let bytes = bytes + size_of::<Self>() + HELD_OVERHEAD_BYTES;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { referenced: AtomicBool::new(false), bytes, value }
    }

    /// Bytes of memory it takes; what takes 4 GiB or more counts as so much.
    pub(super) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    pub(super) fn mark(&self) {
        // Relaxed: the mark is a hint to the hand. Looking first keeps the line shared among
        // readers.
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }
}

impl<T> Deref for Cached<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A slot array as the hand sees it.
pub(super) trait Sweep: Send + Sync {
    /// The number of its slots.
    fn count(&self) -> usize;

    /// Passes over `slots`, whose bits share a word, until `wanted` bytes are free, and spares at
    /// most `patience` marked values.
    fn sweep(&self, slots: Range<usize>, wanted: usize, patience: &mut usize) -> Swept;

    /// Evicts the values that lie at one of the `places` in memory, marked or not.
    fn sweep_out(&self, places: &[Range<usize>]) -> Swept;
}

/// What one pass of the hand did.
pub(super) struct Swept {
    pub(super) freed: usize,
    pub(super) evicted: u64,
    /// The slot to go on at; `None` if all were passed.
    pub(super) next: Option<usize>,
}
