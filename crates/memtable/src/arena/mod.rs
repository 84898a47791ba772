//! Memory that is handed out in pieces and given back all at once.
//!
//! Nothing is freed, moved or dropped before the whole [`Arena`] is. It does not know what lies in
//! the pieces, and runs no destructors.
//!
//! # Thread safety
//! Any thread may carve; carving takes a short mutex, so callers carve blocks and share them out
//! themselves (see `lane`). A memtable is model-checked without its arena: what happens here is
//! ordered by the mutex alone.
//!
//! # Invariants
//! 1. A chunk belongs to one arena, or is idle in the pool; it is never in two places.
//! 2. A piece lies in one chunk, and no two pieces overlap.
//! 3. A chunk comes with whatever bytes its last use left. The user of a piece writes all that it
//!    will ever read.

mod pool;

pub use pool::{ArenaOptions, ArenaPool};

use siltdb_base::memory::chunk::{ALIGN_MAX, Chunk, round_up};
use std::{
    fmt,
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Smallest and largest block that [`Arena::block_bytes`] recommends, in bytes. The rest of a block
/// that a lane has not handed out is lost, and should not make up a huge page.
const BLOCK_BYTES_MIN: usize = 512;
const BLOCK_BYTES_MAX: usize = 16 << 10;
/// A chunk is carved into about this many blocks.
const BLOCKS_PER_CHUNK: usize = 16;

/// The memory of one memtable.
///
/// It changes with every split, and is kept away from the cache line of the root, which all read.
#[repr(align(64))]
pub struct Arena {
    pool: Arc<ArenaPool>,
    state: Mutex<State>,
    held: AtomicUsize,
    block_bytes: AtomicUsize,
}

struct State {
    chunks: Vec<Chunk>,
    /// The part of the newest regular chunk that is not handed out yet.
    free: NonNull<u8>,
    free_bytes: usize,
}

// SAFETY: `free` points into a chunk of the same state (2), which is Send.
unsafe impl Send for State {}

impl Arena {
    /// An arena that holds no memory yet.
    pub fn new(pool: &Arc<ArenaPool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            state: Mutex::new(State {
                chunks: Vec::new(),
                free: NonNull::dangling(),
                free_bytes: 0,
            }),
            held: AtomicUsize::new(0),
            block_bytes: AtomicUsize::new(BLOCK_BYTES_MIN),
        }
    }

    /// Bytes of all chunks.
    pub fn held(&self) -> usize {
        // Relaxed, here and below: counters carry no other data with them.
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes of all chunks but for the rest that is still to be handed out.
    pub fn used(&self) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.held() - state.free_bytes
    }

    /// How much to carve at a time when sharing out smaller pieces: grows with the arena.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes.load(Ordering::Relaxed)
    }

    /// A piece of `bytes`, aligned to `align` (a power of two up to `ALIGN_MAX`), that no other
    /// caller has. It is valid until the arena is dropped. Its contents are arbitrary (3).
    ///
    /// # Panics
    /// If the machine has no memory left, the process is aborted.
    pub fn carve(&self, bytes: usize, align: usize) -> NonNull<u8> {
        debug_assert!(align.is_power_of_two() && align <= ALIGN_MAX);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(piece) = state.carve_from_free(bytes, align) {
            return piece;
        }
        let chunk_bytes = self.next_chunk_bytes();
        if bytes > chunk_bytes / 2 {
            // A large piece gets a chunk of its own; the free part stays for small ones.
            let chunk = self.pool.take(round_up(bytes));
            self.held.fetch_add(chunk.bytes(), Ordering::Relaxed);
            let piece = chunk.start();
            state.chunks.push(chunk);
            return piece;
        }
        let chunk = self.pool.take(chunk_bytes);
        self.held.fetch_add(chunk.bytes(), Ordering::Relaxed);
        let block = (chunk.bytes() / BLOCKS_PER_CHUNK).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        self.block_bytes.store(block, Ordering::Relaxed);
        state.free = chunk.start();
        state.free_bytes = chunk.bytes();
        state.chunks.push(chunk);
        state.carve_from_free(bytes, align).expect("a piece is at most half of a new chunk")
    }
}

impl Arena {
    /// A chunk is about as large as all before it together, so that small arenas stay small and
    /// large ones take few.
    fn next_chunk_bytes(&self) -> usize {
        let options = self.pool.options();
        let held = 1 << self.held().max(1).ilog2();
        held.clamp(options.chunk_bytes_first, options.chunk_bytes_max)
    }
}

impl State {
    fn carve_from_free(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let padding = self.free.addr().get().wrapping_neg() & (align - 1);
        let total = padding.checked_add(bytes)?;
        if total > self.free_bytes {
            return None;
        }
        // SAFETY: `padding <= total <= free_bytes`, so the result is within the chunk or at its
        // end.
        let piece = unsafe { self.free.add(padding) };
        // SAFETY: as above: `padding + bytes == total <= free_bytes`.
        self.free = unsafe { piece.add(bytes) };
        self.free_bytes -= total;
        Some(piece)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.pool.give(&mut state.chunks);
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("held", &self.held()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
