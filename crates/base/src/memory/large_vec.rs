//! A vector of plain values that gives its memory back to the system at once when it is large.
//!
//! The allocator of a C library may keep what was freed for what is allocated next, however long
//! that takes. A vector of 64 KiB and more lies in a mapped [`Chunk`]: when it is dropped, its
//! memory is the system's again.
//!
//! # Invariants
//! 1. `room` owns the memory at `start`: place for `capacity` values, aligned for them. The first
//!    `len` of them are initialised.
//! 2. A room is not touched before it is dropped: it is replaced together with `start` and
//!    `capacity`. So `start` remains good when the vector moves.
//! 3. What a [`LargeSlice`] shares is only lent, never given back as a vector.
//! 4. The values need no drop, so moving them is copying their bytes.

use super::chunk::{ALIGN_MAX, Chunk, MAPPED_BYTES_MIN, Pages, round_up};
use std::{
    fmt,
    mem::{MaybeUninit, needs_drop},
    ops::{Deref, DerefMut, Range},
    ptr::NonNull,
    slice,
    sync::Arc,
};

/// Bytes that the first room has, at least.
const ROOM_BYTES_MIN: usize = 64;

/// A vector of values that need no drop.
pub struct LargeVec<T> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
    room: Room<T>,
}

/// The memory of a vector.
enum Room<T> {
    Heap { _memory: Vec<MaybeUninit<T>> },
    Mapped(Chunk),
}

// SAFETY: the vector owns its values, and by (1) their memory.
unsafe impl<T: Send> Send for LargeVec<T> {}
// SAFETY: shared, it lends its values and nothing else; a room is not touched (2).
unsafe impl<T: Sync> Sync for LargeVec<T> {}

impl<T> LargeVec<T> {
    const VALUES_FIT: () =
        assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGN_MAX && !needs_drop::<T>());

    /// An empty vector with room for `capacity` values.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut vec = Self::default();
        if capacity > 0 {
            vec.move_to(capacity);
        }
        vec
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.room {
            Room::Heap { .. } => self.capacity * size_of::<T>(),
            Room::Mapped(chunk) => chunk.bytes(),
        }
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        let place = self.place_for(1);
        // SAFETY: a place of the vector's own memory, behind its values.
        unsafe { place.write(value) };
        self.len += 1;
    }

    /// Where the next values go: behind the first `len`, with room for `count`.
    #[inline]
    fn place_for(&mut self, count: usize) -> NonNull<T> {
        if count > self.capacity - self.len {
            self.grow(count);
        }
        // SAFETY: `len <= capacity`, so by (1) it is within the memory or at its end.
        unsafe { self.start.add(self.len) }
    }

    /// Removes all values; the memory stays.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Gives back the memory that no value lies in.
    pub fn shrink_to_fit(&mut self) {
        let bytes = self.len * size_of::<T>();
        let fits = match &self.room {
            Room::Heap { .. } => self.len == self.capacity,
            Room::Mapped(chunk) => bytes >= MAPPED_BYTES_MIN && round_up(bytes) == chunk.bytes(),
        };
        if !fits {
            self.move_to(self.len);
        }
    }

    /// The same values, to be shared.
    #[must_use]
    pub fn share(mut self) -> LargeSlice<T> {
        self.shrink_to_fit();
        LargeSlice { start: self.start, len: self.len, _owner: Arc::new(self) }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let needed = self.len.checked_add(more).expect("a vector fits memory");
        let least = ROOM_BYTES_MIN.div_ceil(size_of::<T>());
        self.move_to(needed.max(self.capacity.saturating_mul(2)).max(least));
    }

    /// Moves the values to a room for `capacity`, which is not less than their number.
    fn move_to(&mut self, capacity: usize) {
        let () = Self::VALUES_FIT;
        assert!(capacity >= self.len, "a room for all values");
        let bytes = capacity.checked_mul(size_of::<T>()).expect("a vector fits memory");
        let (start, capacity, room) = if bytes < MAPPED_BYTES_MIN {
            let mut memory = Vec::with_capacity(capacity);
            let start =
                NonNull::new(memory.as_mut_ptr()).map_or(NonNull::dangling(), NonNull::cast);
            (start, capacity, Room::Heap { _memory: memory })
        } else {
            let chunk = Chunk::new(round_up(bytes), Pages::Huge);
            (chunk.start().cast(), chunk.bytes() / size_of::<T>(), Room::Mapped(chunk))
        };
        // SAFETY: by (1) the first `len` values are initialised. The new room is other memory, and
        // has place for `capacity` of them. The old places are forgotten (4).
        unsafe { start.copy_from_nonoverlapping(self.start, self.len) };
        (self.start, self.capacity, self.room) = (start, capacity, room);
    }
}

impl<T: Copy> LargeVec<T> {
    /// Appends `values`.
    #[inline]
    pub fn extend_from_slice(&mut self, values: &[T]) {
        let (place, source) = (self.place_for(values.len()), NonNull::from(values).cast());
        // SAFETY: there is room for so many. They do not overlap `values`: nothing of a vector is
        // lent while it changes.
        unsafe { place.copy_from_nonoverlapping(source, values.len()) };
        self.len += values.len();
    }

    /// Appends copies of values that it has.
    ///
    /// # Panics
    /// If it does not have all of them.
    #[inline]
    pub fn extend_from_within(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "a range beyond the values");
        let place = self.place_for(range.len());
        // SAFETY: the range lies within the first `len` values.
        let source = unsafe { self.start.add(range.start) };
        // SAFETY: by (1) so many values are initialised there, and there is room for as many behind
        // all of them.
        unsafe { place.copy_from_nonoverlapping(source, range.len()) };
        self.len += range.len();
    }
}

impl<T> Default for LargeVec<T> {
    fn default() -> Self {
        Self {
            start: NonNull::dangling(),
            len: 0,
            capacity: 0,
            room: Room::Heap { _memory: Vec::new() },
        }
    }
}

impl<T> Deref for LargeVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: by (1) these are `len` initialised values, which live as long as the vector.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for LargeVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; and `&mut self` is the only way to them while this borrow lives.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> FromIterator<T> for LargeVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let values = values.into_iter();
        let mut vec = Self::with_capacity(values.size_hint().0);
        values.for_each(|value| vec.push(value));
        vec
    }
}

impl<T: fmt::Debug> fmt::Debug for LargeVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The values of a vector that will not change. A clone shares them.
pub struct LargeSlice<T> {
    start: NonNull<T>,
    len: usize,
    _owner: Arc<LargeVec<T>>,
}

// SAFETY: it lends the values of its owner, and nothing else.
unsafe impl<T: Send + Sync> Send for LargeSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for LargeSlice<T> {}

impl<T> Clone for LargeSlice<T> {
    fn clone(&self) -> Self {
        Self { start: self.start, len: self.len, _owner: Arc::clone(&self._owner) }
    }
}

impl<T> Deref for LargeSlice<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: by (1) and (2) these are the values of the owner, which lives as long as the
        // slice; by (3) they do not change.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: fmt::Debug> fmt::Debug for LargeSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
