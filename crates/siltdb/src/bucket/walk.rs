//! Walking over the keys of a bucket: those of the database without what stands before them.

use super::path::{Part, key};
use crate::iter::{Cursor, Iter};
use siltdb_base::{error::Result, slice::Slice};
use std::fmt;

/// The keys and values of a bucket, in order, from either end.
#[derive(Debug)]
pub struct BucketIter {
    pub(super) iter: Iter,
    /// Bytes before a key of the bucket.
    pub(super) prefix_bytes: usize,
}

impl BucketIter {
    fn inner(&self, pair: Result<(Slice, Slice)>) -> Result<(Slice, Slice)> {
        pair.map(|(key, value)| (key.slice(self.prefix_bytes..key.len()), value))
    }
}

impl Iterator for BucketIter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.iter.next().map(|pair| self.inner(pair))
    }
}

impl DoubleEndedIterator for BucketIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.iter.next_back().map(|pair| self.inner(pair))
    }
}

/// A cursor over the keys of a bucket at one moment. It stands on a key or beyond an end.
pub struct BucketCursor<S> {
    pub(super) cursor: Cursor,
    pub(super) bucket: super::Bucket<S>,
    pub(super) id: u64,
    pub(super) prefix_bytes: usize,
}

impl<S> fmt::Debug for BucketCursor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketCursor").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl<S> BucketCursor<S> {
    /// The key that it stands on.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.cursor.key().map(|key| &key[self.prefix_bytes..])
    }

    /// The key that it stands on, and its value.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.entry().map(|(key, value)| (&key[self.prefix_bytes..], value))
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_last`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }

    /// Goes to `wanted`, or else to the key after it.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek(&mut self, wanted: impl AsRef<[u8]>) -> Result<()> {
        self.cursor.seek(key(self.id, Part::Data, wanted.as_ref()))
    }

    /// Goes to `wanted`, or else to the key before it.
    ///
    /// # Errors
    /// As [`Cursor::seek_for_prev`].
    pub fn seek_for_prev(&mut self, wanted: impl AsRef<[u8]>) -> Result<()> {
        self.cursor.seek_for_prev(key(self.id, Part::Data, wanted.as_ref()))
    }

    /// Goes to the next key.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    #[allow(clippy::should_implement_trait, reason = "a lending walk, as every engine names it")]
    pub fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }

    /// Goes to the key before.
    ///
    /// # Errors
    /// As [`Cursor::prev`].
    pub fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }
}
