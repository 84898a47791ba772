//! Iterators and cursors over typed keys and values.
//!
//! They decode what the ones over bytes yield.

use crate::{
    iter::{Cursor, Iter},
    key::Key,
    key_types::KeyForm,
    value::Value,
};
use siltdb_base::error::Result;
use std::{fmt, iter::FusedIterator, marker::PhantomData};

/// Iterates over typed keys and values from both ends. A pair that does not decode is an error, and
/// the iterator continues behind it.
pub struct TypedIter<K, V> {
    iter: Iter,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> TypedIter<K, V> {
    pub(super) fn new(iter: Iter) -> Self {
        Self { iter, types: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedIter<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedIter").field(&self.iter).finish()
    }
}

impl<K: Key, V: Value> Iterator for TypedIter<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.iter.next().map(|pair| {
            let (key, value) = pair?;
            decode(&key, &value)
        })
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for TypedIter<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.iter.next_back().map(|pair| {
            let (key, value) = pair?;
            decode(&key, &value)
        })
    }
}

impl<K: Key, V: Value> FusedIterator for TypedIter<K, V> {}

fn decode<K: Key, V: Value>(key: &[u8], value: &[u8]) -> Result<(K, V)> {
    Ok((K::from_key(key)?, V::from_value(value)?))
}

/// A [`Cursor`] over typed keys and values.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{FamilyOptions, KeyOrder};
///
/// let options = FamilyOptions::new().key_order(KeyOrder::of::<i32>());
/// let family = db.create_family("temperatures", options)?.typed::<i32, String>()?;
/// for (degrees, word) in [(-10, "cold"), (20, "warm")] {
///     family.put(&degrees, &word.to_owned())?;
/// }
/// let mut cursor = family.cursor()?;
/// cursor.seek(&0)?;
/// assert_eq!(cursor.entry()?, Some((20, "warm".to_owned())));
/// cursor.prev()?;
/// assert_eq!(cursor.key()?, Some(-10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedCursor<K, V> {
    cursor: Cursor,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for TypedCursor<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedCursor").field(&self.cursor).finish()
    }
}

impl<K: Key, V: Value> TypedCursor<K, V> {
    pub(super) fn new(cursor: Cursor) -> Self {
        Self { cursor, types: PhantomData }
    }

    /// Returns the key and value under the cursor; `None` past either end of its range.
    ///
    /// # Errors
    /// `Corruption`, if they do not decode. The cursor keeps its position.
    pub fn entry(&self) -> Result<Option<(K, V)>> {
        self.cursor.entry().map(|(key, value)| decode(key, value)).transpose()
    }

    /// Returns the key under the cursor; `None` past either end of its range.
    ///
    /// # Errors
    /// As [`TypedCursor::entry`].
    pub fn key(&self) -> Result<Option<K>> {
        self.cursor.key().map(K::from_key).transpose()
    }

    /// Moves to the first key of the range.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }

    /// Moves to the last key of the range.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }

    /// Moves to the first key at or after `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek(&mut self, key: &(impl KeyForm<K> + ?Sized)) -> Result<()> {
        self.cursor.seek(key.form())
    }

    /// Moves to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: &(impl KeyForm<K> + ?Sized)) -> Result<()> {
        self.cursor.seek_for_prev(key.form())
    }

    /// Moves to the next key. Without a position it does nothing.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[allow(clippy::should_implement_trait, reason = "as the cursor over bytes names it")]
    pub fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }

    /// Moves to the previous key. Without a position it does nothing.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }
}
