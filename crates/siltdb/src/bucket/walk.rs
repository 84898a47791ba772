//! Iterators and cursors over the keys of a bucket: the family's keys without the bucket's prefix.

use super::path::{Part, key};
use crate::iter::{Cursor, Iter};
use siltdb_base::{error::Result, slice::Slice};
use siltdb_engine::read::stream::ValueStream;
use std::fmt;

/// Iterates over the keys and values of a bucket in order, from both ends.
#[derive(Debug)]
pub struct BucketIter {
    pub(super) iter: Iter,
    /// Length of the prefix before a key of the bucket, in bytes.
    pub(super) prefix_bytes: usize,
}

impl BucketIter {
    /// Leaves the values out of the pairs that are left: they are empty, and those with a block of
    /// their own are not read; see [`ReadOptions::keys_only`](crate::ReadOptions::keys_only).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let photos = db.default_family().bucket(["photos"])?;
    /// photos.create()?;
    /// photos.put("sea", [7; 100_000])?;
    /// let (key, value) = photos.range(..)?.keys_only().next().transpose()?.expect("a photo");
    /// assert!(key == b"sea" && value.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keys_only(self) -> Self {
        Self { iter: self.iter.keys_only(), ..self }
    }

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

/// A cursor over the keys of a bucket at one sequence number.
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
    /// Returns the key under the cursor; `None` without a position.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.cursor.key().map(|key| &key[self.prefix_bytes..])
    }

    /// Returns the key and value under the cursor; `None` without a position.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.entry().map(|(key, value)| (&key[self.prefix_bytes..], value))
    }

    /// Returns the value under the cursor as a stream, if it was left unread; see
    /// [`Cursor::value_reader`].
    ///
    /// # Errors
    /// As [`Cursor::value_reader`].
    pub fn value_reader(&self) -> Result<Option<ValueStream>> {
        self.cursor.value_reader()
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_last`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }

    /// Moves to the first key at or after `wanted`.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek(&mut self, wanted: impl AsRef<[u8]>) -> Result<()> {
        self.cursor.seek(key(self.id, Part::Data, wanted.as_ref()))
    }

    /// Moves to the last key at or before `wanted`.
    ///
    /// # Errors
    /// As [`Cursor::seek_for_prev`].
    pub fn seek_for_prev(&mut self, wanted: impl AsRef<[u8]>) -> Result<()> {
        self.cursor.seek_for_prev(key(self.id, Part::Data, wanted.as_ref()))
    }

    /// Moves to the next key.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    #[allow(clippy::should_implement_trait, reason = "a lending walk, as every engine names it")]
    pub fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }

    /// Moves to the previous key.
    ///
    /// # Errors
    /// As [`Cursor::prev`].
    pub fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }
}
