//! A sorted map that is cheap to copy with one change: the copy shares all but one chunk of its
//! entries with the original.
//!
//! It is for maps that are read far more often than changed. A lookup is two binary searches.

use std::{borrow::Borrow, sync::Arc};

/// The maximum number of entries in a chunk. A change copies one chunk, and a pointer for each
/// other chunk.
const CHUNK_ENTRIES_MAX: usize = 256;

/// A sorted map in chunks.
///
/// # Invariants
/// 1. Keys ascend strictly, within a chunk and from each to the next.
/// 2. No chunk is empty.
#[derive(Clone, Debug)]
pub struct ChunkedMap<K, V> {
    chunks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for ChunkedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> ChunkedMap<K, V> {
    /// The value of `key`. Cost: two binary searches.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let index = chunk.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        Some(&chunk[index].1)
    }

    /// Whether the key has a value.
    #[must_use]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Sets the value of `key`. Returns the previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.chunks.is_empty() {
            self.chunks.push(Arc::default());
        }
        let number = self.chunk_of(&key);
        let chunk = Arc::make_mut(&mut self.chunks[number]);
        match chunk.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(index) => Some(std::mem::replace(&mut chunk[index].1, value)),
            Err(index) => {
                chunk.insert(index, (key, value));
                self.len += 1;
                if chunk.len() > CHUNK_ENTRIES_MAX {
                    let upper = chunk.split_off(CHUNK_ENTRIES_MAX / 2);
                    self.chunks.insert(number + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    /// Removes `key`. Returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let number = self.chunk_of(key);
        let chunk = self.chunks.get_mut(number)?;
        let index = chunk.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        let (_, value) = Arc::make_mut(chunk).remove(index);
        if chunk.is_empty() {
            self.chunks.remove(number);
        }
        self.len -= 1;
        Some(value)
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(_, value)| value))
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The index of the chunk that has `key` or would get it: the last one that does not begin
    /// after `key`, or else the first.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let begins = |chunk: &Arc<Vec<(K, V)>>| {
            chunk.first().is_some_and(|(first, _)| first.borrow() <= key)
        };
        self.chunks.partition_point(begins).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
