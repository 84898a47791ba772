//! A pinned, cheaply cloned view of bytes: what `get` returns; and bytes that could become one.
//!
//! It does not say where the bytes lie; holding one keeps their block in memory.

use bytes::{Bytes, BytesMut};
use std::{borrow::Borrow, fmt, ops::Deref};

/// Bytes that stay where they are for as long as a slice of them is held.
///
/// Cloning costs one atomic increment. A `Slice` of a cached block pins that block, one of a mapped
/// table its file. To keep a few of the bytes for long, copy them (`to_vec`).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(Bytes);

impl Slice {
    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_from(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    /// The bytes as a slice.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A part of this slice, sharing its memory.
    ///
    /// # Panics
    /// If the range is not within the slice.
    #[inline]
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self(self.0.slice(range))
    }
}

/// Copies of short bytes in common memory: one allocation serves many of them, and goes with the
/// last. So a slice that is kept may keep 4 KiB.
#[derive(Debug, Default)]
pub struct Copies {
    chunk: BytesMut,
    /// Bytes of the last chunk: chunks grow, so that few copies take little memory.
    chunk_bytes: usize,
}

impl Copies {
    /// The sizes of the first chunk and of those that follow many others, in bytes.
    const CHUNK_BYTES_MIN: usize = 256;
    const CHUNK_BYTES_MAX: usize = 4 << 10;
    /// What is longer has memory of its own.
    const COPY_BYTES_MAX: usize = Self::CHUNK_BYTES_MAX / 4;

    /// A copy of `bytes`.
    #[inline]
    #[must_use]
    pub fn copy(&mut self, bytes: &[u8]) -> Slice {
        if bytes.is_empty() || bytes.len() > Self::COPY_BYTES_MAX {
            return Slice::copy_from(bytes);
        }
        if bytes.len() > self.chunk.capacity() {
            let chunk_bytes = (2 * self.chunk_bytes).max(bytes.len());
            self.chunk_bytes = chunk_bytes.clamp(Self::CHUNK_BYTES_MIN, Self::CHUNK_BYTES_MAX);
            self.chunk = BytesMut::with_capacity(self.chunk_bytes);
        }
        self.chunk.extend_from_slice(bytes);
        Slice(self.chunk.split().freeze())
    }
}

/// Bytes that are looked at where they lie, and that can be made to stay.
///
/// Looking costs nothing. A [`Slice`] of a cached block costs two atomic operations on memory that
/// is in no processor's cache: the time of a cache miss.
#[derive(Clone, Copy, Debug)]
pub struct Pinnable<'a> {
    bytes: &'a [u8],
    /// What keeps them in memory; without one they must be copied to stay.
    home: Option<&'a Bytes>,
}

impl<'a> Pinnable<'a> {
    /// Bytes that lie in `home`.
    #[inline]
    #[must_use]
    pub fn within(home: &'a Bytes, bytes: &'a [u8]) -> Self {
        Self { bytes, home: Some(home) }
    }

    /// The bytes, borrowed.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The same with other bytes of the same memory.
    #[inline]
    #[must_use]
    pub fn with(self, bytes: &'a [u8]) -> Self {
        Self { bytes, ..self }
    }

    /// The bytes to stay: shared with their home, if they have one, else copied.
    ///
    /// # Panics
    /// If the bytes are not within their home.
    #[inline]
    #[must_use]
    pub fn pin(&self) -> Slice {
        match self.home {
            Some(home) => Slice(home.slice_ref(self.bytes)),
            None => Slice::copy_from(self.bytes),
        }
    }
}

impl<'a> From<&'a [u8]> for Pinnable<'a> {
    /// Bytes that will be copied to stay.
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, home: None }
    }
}

impl<'a> From<&'a Slice> for Pinnable<'a> {
    #[inline]
    fn from(slice: &'a Slice) -> Self {
        Self::within(&slice.0, slice)
    }
}

impl From<Bytes> for Slice {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl From<Slice> for Vec<u8> {
    /// The bytes as a vector. A slice that is the last one of memory made from a vector, as a
    /// merged value is, gives it back without a copy. What a block or a mapping keeps is copied.
    fn from(slice: Slice) -> Self {
        slice.0.into()
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Slice {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<[u8]> for Slice {
    fn eq(&self, other: &[u8]) -> bool {
        self.0 == *other
    }
}

impl PartialEq<&[u8]> for Slice {
    fn eq(&self, other: &&[u8]) -> bool {
        self.0 == **other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Slice {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self.0 == other[..]
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
