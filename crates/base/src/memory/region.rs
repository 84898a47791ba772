//! Memory in pieces of any size that come back one by one, from chunks on huge pages.
//!
//! It grows by chunks up to its limit, and joins neighbours that came back. What does not fit comes
//! from the allocator instead; callers see no difference. When the limit falls, chunks are closed:
//! each goes back to the system with its last piece. All its memory is charged to a budget, gaps
//! included.
//!
//! # Thread safety
//! Any thread may make buffers and drop them; both take a short mutex.
//!
//! # Invariants
//! 1. A piece is an extent of units that is out. `State::extents` hands out no unit twice before it
//!    came back; unit `n` lies in chunk `n / CHUNK_UNITS`. A piece goes back once, with the length
//!    it had: both are its own, and do not change.
//! 2. A piece keeps its region alive, and a region keeps its chunks. So the memory of a piece is
//!    there for as long as the piece.
//! 3. [`Part::BlockMemory`] counts the chunks that are there, and the buffers of the allocator.
//! 4. Every byte of a chunk is initialised, so every byte of a piece is, whatever it holds.

use super::{
    chunk::{Chunk, Pages},
    extents::Extents,
};
use crate::{
    budget::{Budget, Part},
    sync::lock,
};
use bytes::Bytes;
use std::{
    fmt,
    ops::{Deref, DerefMut, Range},
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Bytes that a region grows by: two huge pages.
const CHUNK_BYTES: usize = 4 << 20;
/// Larger buffers come from the allocator: few fit a chunk.
const PIECE_BYTES_MAX: usize = CHUNK_BYTES / 16;
/// Pieces are multiples of this.
const UNIT_BYTES: usize = 64;
const CHUNK_UNITS: usize = CHUNK_BYTES / UNIT_BYTES;
/// Units are numbered with 32 bits: a region has less than 256 GiB.
const CHUNKS_MAX: usize = u32::MAX as usize / CHUNK_UNITS;

/// Chunks beyond the limit stay up to one part in this many of it, so that a limit that goes up and
/// down by little moves no memory.
const SURPLUS_SHARE: usize = 16;

/// Memory that buffers are taken from.
pub struct Region {
    budget: Arc<Budget>,
    chunks_max: AtomicUsize,
    /// Chunks that pieces are taken from.
    chunks_open: AtomicUsize,
    /// Bytes of all buffers, in chunks and from the allocator.
    held: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    extents: Extents,
    /// By index; `None` for a vacant one. Never touched but through the pieces (1).
    chunks: Vec<Option<Chunk>>,
}

impl Region {
    /// A region of at most about `bytes_max`, and 256 GiB; less than a chunk of 4 MiB makes one
    /// without memory. Its memory is charged to [`Part::BlockMemory`] of `budget`.
    #[must_use]
    pub fn new(budget: &Arc<Budget>, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            chunks_max: AtomicUsize::new(chunks_of(bytes_max)),
            chunks_open: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            state: Mutex::new(State {
                extents: Extents::new(CHUNK_UNITS as u32),
                chunks: Vec::new(),
            }),
        })
    }

    /// Bytes of all buffers that are there.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        // Relaxed, here and below: counters carry no other data with them.
        self.held.load(Ordering::Relaxed)
    }

    /// Changes its limit. Returns whether it has so many chunks more that some are to be closed.
    pub fn set_limit(&self, bytes_max: usize) -> bool {
        let chunks_max = chunks_of(bytes_max);
        // Looked at first: callers come by often, and mostly change nothing.
        if self.chunks_max.load(Ordering::Relaxed) != chunks_max {
            self.chunks_max.store(chunks_max, Ordering::Relaxed);
        }
        self.chunks_open.load(Ordering::Relaxed) > chunks_max + chunks_max / SURPLUS_SHARE
    }

    /// Closes the chunks beyond the limit: no piece is taken from them any more, and each goes back
    /// to the system with its last piece. Returns the addresses of those that still have pieces.
    #[must_use]
    pub fn close_surplus(&self) -> Vec<Range<usize>> {
        let (mut left, mut vacant) = (Vec::new(), Vec::new());
        let mut state = lock(&self.state);
        let state = &mut *state;
        while self.chunks_open.load(Ordering::Relaxed) > self.chunks_max.load(Ordering::Relaxed) {
            let Some((index, out)) = state.extents.close_one() else { break };
            self.chunks_open.fetch_sub(1, Ordering::Relaxed);
            let chunk = &mut state.chunks[index];
            if out == 0 {
                vacant.extend(chunk.take());
            } else if let Some(chunk) = chunk {
                let start = chunk.start().addr().get();
                left.push(start..start + chunk.bytes());
            }
        }
        self.budget.release(Part::BlockMemory, vacant.len() * CHUNK_BYTES);
        left
    }

    /// A copy of `body` with `margins` around it: in the region if that has room, else from the
    /// allocator. A copy of more than 256 KiB always comes from the allocator.
    #[must_use]
    pub fn copy(self: &Arc<Self>, body: &[u8], margins: Margins) -> Buffer {
        let bytes = margins.bytes_around(body);
        let Some((unit, start)) = self.carve(bytes) else {
            return self.copy_beside(body, margins);
        };
        let region = Arc::clone(self);
        let mut buffer = Buffer(Memory::Piece(Piece { start, bytes, unit, region }));
        let (copy, back) = buffer[margins.front..].split_at_mut(body.len());
        copy.copy_from_slice(body);
        back.fill(0);
        buffer
    }

    /// A copy of `body` with `margins` around it, from the allocator, charged as the region is. For
    /// copies that are not to stay: what lies in a chunk keeps the chunk.
    #[must_use]
    pub fn copy_beside(self: &Arc<Self>, body: &[u8], margins: Margins) -> Buffer {
        let bytes = copied(body, margins);
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.budget.charge(Part::BlockMemory, bytes.len());
        Buffer(Memory::Beside(Beside { bytes, region: Arc::clone(self) }))
    }

    /// The first unit of an extent that is now out, and where it lies.
    fn carve(&self, bytes: usize) -> Option<(u32, NonNull<u8>)> {
        if !(1..=PIECE_BYTES_MAX).contains(&bytes) {
            return None;
        }
        let units = units_of(bytes);
        let mut state = lock(&self.state);
        let state = &mut *state;
        let unit = match state.extents.take(units) {
            Some(unit) => unit,
            None if self.may_grow(state) => {
                let chunk = Chunk::new(CHUNK_BYTES, Pages::Huge);
                self.budget.charge(Part::BlockMemory, CHUNK_BYTES);
                self.chunks_open.fetch_add(1, Ordering::Relaxed);
                let index = state.extents.grow();
                if index == state.chunks.len() {
                    state.chunks.push(None);
                }
                state.chunks[index] = Some(chunk);
                state.extents.take(units)?
            }
            None => return None,
        };
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let chunk = state.chunks[unit as usize / CHUNK_UNITS].as_ref();
        let chunk = chunk.expect("an open chunk is there");
        let offset = unit as usize % CHUNK_UNITS * UNIT_BYTES;
        // SAFETY: by (1) the extent lies in the chunk, from `offset` on.
        Some((unit, unsafe { chunk.start().add(offset) }))
    }

    fn may_grow(&self, state: &State) -> bool {
        let open = self.chunks_open.load(Ordering::Relaxed);
        let has_number =
            || state.chunks.len() < CHUNKS_MAX || state.chunks.iter().any(Option::is_none);
        open < self.chunks_max.load(Ordering::Relaxed) && has_number()
    }
}

/// Chunks of at most `bytes`.
fn chunks_of(bytes: usize) -> usize {
    (bytes / CHUNK_BYTES).min(CHUNKS_MAX)
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("chunks_open", &self.chunks_open)
            .field("chunks_max", &self.chunks_max)
            .finish_non_exhaustive()
    }
}

/// Units that a piece of `bytes` takes.
fn units_of(bytes: usize) -> u32 {
    bytes.div_ceil(UNIT_BYTES) as u32
}

/// Bytes that a piece of `bytes` takes.
#[must_use]
pub fn piece_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT_BYTES)
}

/// Room around a copy, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Margins {
    /// Before it, to be written: their contents are arbitrary.
    pub front: usize,
    /// Zeros behind it.
    pub back: usize,
}

impl Margins {
    fn bytes_around(&self, body: &[u8]) -> usize {
        self.front + body.len() + self.back
    }
}

/// Bytes of a fixed number, to be written and then shared.
#[derive(Debug)]
pub struct Buffer(Memory);

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    Beside(Beside),
    Piece(Piece),
}

/// Bytes of the allocator that a region counts.
#[derive(Debug)]
struct Beside {
    bytes: Vec<u8>,
    region: Arc<Region>,
}

/// A part of a region.
struct Piece {
    start: NonNull<u8>,
    bytes: usize,
    unit: u32,
    region: Arc<Region>,
}

// SAFETY: a piece is plain memory with one owner (1).
unsafe impl Send for Piece {}
// SAFETY: behind a shared reference it is only read.
unsafe impl Sync for Piece {}

impl Buffer {
    /// A copy of `body` with `margins` around it, from the allocator.
    #[must_use]
    pub fn copy_on_heap(body: &[u8], margins: Margins) -> Self {
        Self(Memory::Heap(copied(body, margins)))
    }

    /// The bytes to be shared. Costs an allocation for those that a region counts.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        match self.0 {
            Memory::Heap(bytes) => bytes.into(),
            Memory::Beside(beside) => Bytes::from_owner(beside),
            Memory::Piece(piece) => Bytes::from_owner(piece),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Heap(bytes) => bytes,
            Memory::Beside(beside) => &beside.bytes,
            Memory::Piece(piece) => piece.as_ref(),
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Heap(bytes) => bytes,
            Memory::Beside(beside) => &mut beside.bytes,
            Memory::Piece(Piece { start, bytes, .. }) => {
                // SAFETY: the piece is there (2), initialised (4) and ours alone (1), and borrowed
                // for as long as the slice.
                unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), *bytes) }
            }
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the piece is there (2), initialised (4), and not written to while it is borrowed
        // (1).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let region = &self.region;
        region.held.fetch_sub(self.bytes, Ordering::Relaxed);
        let mut state = lock(&region.state);
        let vacant = state.extents.give(self.unit, units_of(self.bytes));
        let chunk = vacant.and_then(|index| state.chunks[index].take());
        // Unmapping takes long, so it happens after the lock was left.
        drop(state);
        if let Some(chunk) = chunk {
            region.budget.release(Part::BlockMemory, chunk.bytes());
        }
    }
}

impl AsRef<[u8]> for Beside {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.region.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        self.region.budget.release(Part::BlockMemory, self.bytes.len());
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let chunks = state.chunks.iter().flatten().count();
        self.budget.release(Part::BlockMemory, chunks * CHUNK_BYTES);
    }
}

/// A copy of `body` with `margins` around it.
fn copied(body: &[u8], margins: Margins) -> Vec<u8> {
    let bytes = margins.bytes_around(body);
    let mut copy = Vec::with_capacity(bytes);
    copy.resize(margins.front, 0);
    copy.extend_from_slice(body);
    copy.resize(bytes, 0);
    copy
}

#[cfg(test)]
mod tests;
