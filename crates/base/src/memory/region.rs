//! Memory in pieces of any size that come back one by one, from chunks on huge pages.
//!
//! It grows by chunks up to its limit, joins neighbours that came back, and keeps its chunks until
//! it is dropped. What does not fit comes from the allocator instead; callers see no difference.
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
//! 3. Every byte of a chunk is initialised, so every byte of a piece is, whatever it holds.

use super::{
    chunk::{Chunk, Pages},
    extents::Extents,
};
use crate::sync::lock;
use bytes::Bytes;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::{Arc, Mutex},
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

/// Memory that buffers are taken from.
pub struct Region {
    chunks_max: usize,
    state: Mutex<State>,
}

struct State {
    extents: Extents,
    /// Never touched but through the pieces (1).
    chunks: Vec<Chunk>,
}

impl Region {
    /// A region of at most about `bytes_max`, and 256 GiB; less than a chunk of 4 MiB makes one
    /// without memory.
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            chunks_max: (bytes_max / CHUNK_BYTES).min(CHUNKS_MAX),
            state: Mutex::new(State {
                extents: Extents::new(CHUNK_UNITS as u32),
                chunks: Vec::new(),
            }),
        })
    }

    /// A copy of `body` with `margins` around it: in the region if that has room, else from the
    /// allocator. A copy of more than 256 KiB always comes from the allocator.
    #[must_use]
    pub fn copy(self: &Arc<Self>, body: &[u8], margins: Margins) -> Buffer {
        let bytes = margins.bytes_around(body);
        let Some((unit, start)) = self.carve(bytes) else {
            return Buffer::copy_on_heap(body, margins);
        };
        let region = Arc::clone(self);
        let mut buffer = Buffer(Memory::Piece(Piece { start, bytes, unit, region }));
        let (copy, back) = buffer[margins.front..].split_at_mut(body.len());
        copy.copy_from_slice(body);
        back.fill(0);
        buffer
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
            None if state.chunks.len() < self.chunks_max => {
                state.chunks.push(Chunk::new(CHUNK_BYTES, Pages::Huge));
                state.extents.grow();
                state.extents.take(units)?
            }
            None => return None,
        };
        let chunk = &state.chunks[unit as usize / CHUNK_UNITS];
        let offset = unit as usize % CHUNK_UNITS * UNIT_BYTES;
        // SAFETY: by (1) the extent lies in the chunk, from `offset` on.
        Some((unit, unsafe { chunk.start().add(offset) }))
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("chunks", &lock(&self.state).chunks.len())
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
    Piece(Piece),
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
        let bytes = margins.bytes_around(body);
        let mut buffer = Vec::with_capacity(bytes);
        buffer.resize(margins.front, 0);
        buffer.extend_from_slice(body);
        buffer.resize(bytes, 0);
        Self(Memory::Heap(buffer))
    }

    /// The bytes to be shared. Costs an allocation for those of a region.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        match self.0 {
            Memory::Heap(bytes) => bytes.into(),
            Memory::Piece(piece) => Bytes::from_owner(piece),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Heap(bytes) => bytes,
            Memory::Piece(piece) => piece.as_ref(),
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Heap(bytes) => bytes,
            Memory::Piece(Piece { start, bytes, .. }) => {
                // SAFETY: the piece is there (2), initialised (3) and ours alone (1), and borrowed
                // for as long as the slice.
                unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), *bytes) }
            }
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the piece is there (2), initialised (3), and not written to while it is borrowed
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
        lock(&self.region.state).extents.give(self.unit, units_of(self.bytes));
    }
}

#[cfg(test)]
mod tests;
