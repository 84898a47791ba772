//! A map of what others hold: it keeps nothing alive, and does not grow with what is gone.

use siltdb_base::sync::lock;
use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, Weak},
};

/// Values in use, by key.
///
/// # Thread safety
/// Any thread may call it.
pub struct WeakMap<K, V> {
    values: Mutex<HashMap<K, Weak<V>>>,
}

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self { values: Mutex::default() }
    }
}

impl<K: Hash + Eq, V> WeakMap<K, V> {
    /// The value of `key`, if it is in use.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        lock(&self.values).get(key).and_then(Weak::upgrade)
    }

    /// Whether the value of `key` is in use.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        lock(&self.values).get(key).is_some_and(|value| value.strong_count() > 0)
    }

    /// Sets the value of `key`.
    pub fn insert(&self, key: K, value: &Arc<V>) {
        insert(&mut lock(&self.values), key, value);
    }

    /// The value of `key`: the one in use, or else the one that `make` makes.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut values = lock(&self.values);
        if let Some(value) = values.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        let value = Arc::new(make());
        insert(&mut values, key, &value);
        value
    }
}

fn insert<K: Hash + Eq, V>(values: &mut HashMap<K, Weak<V>>, key: K, value: &Arc<V>) {
    // Dead entries are dropped when the map has doubled, so that this costs O(1) a value.
    if values.len() == values.capacity() {
        values.retain(|_, value| value.strong_count() > 0);
    }
    values.insert(key, Arc::downgrade(value));
}

impl<K, V> fmt::Debug for WeakMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakMap").field("len", &lock(&self.values).len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
