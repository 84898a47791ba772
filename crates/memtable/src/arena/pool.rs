//! Where arenas get their chunks and give them back: a fresh page costs more than a used one.
//!
//! It keeps no more memory idle than is in use, and does not clear it. So a busy writer reuses what
//! was given back, and after a pause nothing is kept. What is in use and what is idle stay together
//! within the memory that memtables may have; idle chunks give way.

use siltdb_base::{
    budget::{Budget, Part},
    memory::chunk::{Chunk, Pages},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Smaller chunks are cheap to get from the allocator and are not kept.
const IDLE_CHUNK_BYTES_MIN: usize = 64 << 10;

/// How arenas grow and how much idle memory is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArenaOptions {
    /// Size of the first chunk of an arena: a power of two from 4 KiB on.
    pub chunk_bytes_first: usize,
    /// Each chunk is twice as large as the one before, up to this: a power of two.
    pub chunk_bytes_max: usize,
    /// Most bytes of chunks that wait for their next use, however many are in use.
    pub idle_bytes_max: usize,
    /// No chunk waits for its next use if that makes more bytes, together with those in use.
    pub pooled_bytes_max: usize,
    /// What pages large chunks ask for.
    pub pages: Pages,
    /// What chunks in use are charged to.
    pub part: Part,
}

impl Default for ArenaOptions {
    fn default() -> Self {
        Self {
            chunk_bytes_first: 4 << 10,
            chunk_bytes_max: 4 << 20,
            idle_bytes_max: 64 << 20,
            pooled_bytes_max: usize::MAX,
            pages: Pages::Huge,
            part: Part::Memtables,
        }
    }
}

/// The chunks of all memtables of a database.
///
/// Chunks in use are charged to [`ArenaOptions::part`], and idle ones to [`Part::IdleMemtables`]: a
/// memtable that was dropped must not look as if it still had to be flushed. Whenever chunks are
/// given back, there are no more idle ones than are in use, and at most
/// [`ArenaOptions::idle_bytes_max`]. Whenever one is taken or given back, idle ones are within
/// [`ArenaOptions::pooled_bytes_max`] less what is in use.
///
/// # Thread safety
/// Any thread may take and give.
pub struct ArenaPool {
    budget: Arc<Budget>,
    options: ArenaOptions,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    chunks: Vec<Chunk>,
    bytes: usize,
}

impl Idle {
    /// Moves chunks to `surplus` until no more than `bytes_max` are left.
    fn shrink(&mut self, bytes_max: usize, surplus: &mut Vec<Chunk>) {
        while self.bytes > bytes_max
            && let Some(chunk) = self.chunks.pop()
        {
            self.bytes -= chunk.bytes();
            surplus.push(chunk);
        }
    }
}

impl ArenaPool {
    /// A pool without chunks that charges `budget`.
    ///
    /// # Panics
    /// If a chunk size is no power of two, less than 4 KiB, or the first is above the largest.
    #[must_use]
    pub fn new(budget: Arc<Budget>, options: ArenaOptions) -> Arc<Self> {
        assert!(
            options.chunk_bytes_first.is_power_of_two()
                && options.chunk_bytes_max.is_power_of_two()
                && options.chunk_bytes_first >= 4 << 10
                && options.chunk_bytes_first <= options.chunk_bytes_max,
            "bad chunk sizes. options={options:?}"
        );
        Arc::new(Self { budget, options, idle: Mutex::default() })
    }

    /// How arenas grow.
    #[must_use]
    pub fn options(&self) -> &ArenaOptions {
        &self.options
    }

    /// The account that is charged.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes of chunks that wait for their next use.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.idle().bytes
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk of `bytes`, used before or new.
    pub(super) fn take(&self, bytes: usize) -> Chunk {
        self.budget.charge(self.options.part, bytes);
        let mut surplus = Vec::new();
        let recycled = {
            let mut idle = self.idle();
            let before = idle.bytes;
            let found = idle.chunks.iter().rposition(|chunk| chunk.bytes() == bytes);
            let recycled = found.map(|index| {
                idle.bytes -= bytes;
                idle.chunks.swap_remove(index)
            });
            let used = self.budget.used(self.options.part);
            idle.shrink(self.options.pooled_bytes_max.saturating_sub(used), &mut surplus);
            self.budget.release(Part::IdleMemtables, before - idle.bytes);
            recycled
        };
        // Unmapping takes long, so it happens after the lock was left; and before more is mapped.
        drop(surplus);
        recycled.unwrap_or_else(|| Chunk::new(bytes, self.options.pages))
    }

    /// Takes chunks back: keeps what may be idle, gives the rest back to the system.
    pub(super) fn give(&self, chunks: &mut Vec<Chunk>) {
        self.budget.release(self.options.part, chunks.iter().map(Chunk::bytes).sum());
        let is_regular = |chunk: &mut Chunk| {
            chunk.bytes().is_power_of_two()
                && chunk.bytes() >= IDLE_CHUNK_BYTES_MIN
                && chunk.bytes() <= self.options.chunk_bytes_max
        };
        let mut idle = self.idle();
        // Within the lock, so that of two arenas released at the same time the second sees what
        // both released.
        let used = self.budget.used(self.options.part);
        let room = self.options.pooled_bytes_max.saturating_sub(used);
        let idle_max = used.min(self.options.idle_bytes_max).min(room);
        let before = idle.bytes;
        for chunk in chunks.extract_if(.., is_regular) {
            idle.bytes += chunk.bytes();
            idle.chunks.push(chunk);
        }
        idle.shrink(idle_max, chunks);
        self.budget.charge(Part::IdleMemtables, idle.bytes);
        self.budget.release(Part::IdleMemtables, before);
        // Unmapping takes long, so it happens after the lock was left.
        drop(idle);
        chunks.clear();
    }
}

impl Drop for ArenaPool {
    fn drop(&mut self) {
        self.budget.release(Part::IdleMemtables, self.idle_bytes());
    }
}

impl fmt::Debug for ArenaPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArenaPool")
            .field("options", &self.options)
            .field("idle_bytes", &self.idle_bytes())
            .finish_non_exhaustive()
    }
}
