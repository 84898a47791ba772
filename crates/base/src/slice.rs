//! A pinned, cheaply cloned view of bytes: what `get` returns.
//!
//! It does not say where the bytes lie; holding one keeps their block in memory.

use bytes::Bytes;
use std::{borrow::Borrow, fmt, ops::Deref};

/// Bytes that stay where they are for as long as somebody holds them.
///
/// Cloning costs one atomic increment. A `Slice` of a cached block pins that block: copy the bytes
/// (`to_vec`) to keep a few of them for long.
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

impl From<Bytes> for Slice {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
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
