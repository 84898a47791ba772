//! Where arenas get their chunks and give them back: a fresh page costs more than a used one.
//!
//! It keeps a bounded amount of idle memory, and does not clear it.

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
    /// Most bytes of chunks that wait for their next use.
    pub idle_bytes_max: usize,
    /// What pages large chunks ask for.
    pub pages: Pages,
}

impl Default for ArenaOptions {
    fn default() -> Self {
        Self {
            chunk_bytes_first: 4 << 10,
            chunk_bytes_max: 4 << 20,
            idle_bytes_max: 64 << 20,
            pages: Pages::Huge,
        }
    }
}

/// The chunks of all memtables of a database.
///
/// Chunks in use are charged to [`Part::Memtables`]. Idle ones are not, as a memtable that was
/// dropped must not look as if it still had to be flushed; they are bounded by
/// [`ArenaOptions::idle_bytes_max`] instead.
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

    /// Gives all idle chunks back to the system.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.idle());
        // Unmapping takes long, so it happens after the lock was left.
        drop(idle);
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk of `bytes`, used before or new.
    pub(super) fn take(&self, bytes: usize) -> Chunk {
        self.budget.charge(Part::Memtables, bytes);
        let recycled = {
            let mut idle = self.idle();
            let found = idle.chunks.iter().rposition(|chunk| chunk.bytes() == bytes);
            found.map(|index| {
                idle.bytes -= bytes;
                idle.chunks.swap_remove(index)
            })
        };
        recycled.unwrap_or_else(|| Chunk::new(bytes, self.options.pages))
    }

    /// Takes chunks back: keeps what may be idle, frees the rest.
    pub(super) fn give(&self, chunks: &mut Vec<Chunk>) {
        for chunk in chunks.drain(..) {
            self.budget.release(Part::Memtables, chunk.bytes());
            let regular = chunk.bytes().is_power_of_two()
                && chunk.bytes() >= IDLE_CHUNK_BYTES_MIN
                && chunk.bytes() <= self.options.chunk_bytes_max;
            let mut idle = self.idle();
            if regular && idle.bytes + chunk.bytes() <= self.options.idle_bytes_max {
                idle.bytes += chunk.bytes();
                idle.chunks.push(chunk);
            }
        }
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
