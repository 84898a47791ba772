//! Writes of typed keys and values: to a family, a transaction and a batch.
//!
//! They encode; the verbs on bytes write.

use super::{TypedFamily, TypedSource, encoded};
use crate::{
    batch::WriteBatch,
    family::Family,
    key::Key,
    key_types::{KeyForm, KeyPrefix},
    transaction::Transaction,
    value::Value,
    write_options::WriteOptions,
};
use siltdb_base::error::Result;
use std::{fmt, marker::PhantomData, ops::RangeBounds, time::Duration};

impl<K: Key, V: Value> TypedFamily<K, V> {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// Those of [`Value::pack`]; as [`Family::put`].
    pub fn put(&self, key: &(impl KeyForm<K> + ?Sized), value: &V) -> Result<()> {
        self.source.put(key.form(), value.to_value()?)
    }

    /// Sets the value of a key, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        options: &WriteOptions,
    ) -> Result<()> {
        self.source.put_with(key.form(), value.to_value()?, options)
    }

    /// Sets the value of a key, which expires after `time`; see [`Family::put_for`].
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_for(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        time: Duration,
    ) -> Result<()> {
        self.source.put_for(key.form(), value.to_value()?, time)
    }

    /// Sets the value of a key, which expires after `time`, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_for_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        time: Duration,
        options: &WriteOptions,
    ) -> Result<()> {
        self.source.put_for_with(key.form(), value.to_value()?, time, options)
    }

    /// Sets the value of a key unless it has one, atomically. Returns the value that it had, and
    /// keeps.
    ///
    /// # Errors
    /// As [`TypedFamily::put_if_absent_with`](Self::put_if_absent_with).
    pub fn put_if_absent(&self, key: &(impl KeyForm<K> + ?Sized), value: &V) -> Result<Option<V>> {
        self.put_if_absent_with(key, value, &WriteOptions::new())
    }

    /// Puts as [`put_if_absent`](Self::put_if_absent), with `options`; see
    /// [`Family::put_if_absent_with`].
    ///
    /// # Errors
    /// `Corruption`, if the value that the key had does not decode; as
    /// [`Family::put_if_absent_with`].
    pub fn put_if_absent_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        let found = self.source.put_if_absent_with(key.form(), value.to_value()?, options)?;
        found.as_deref().map(V::from_value).transpose()
    }

    /// Deletes a key, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        options: &WriteOptions,
    ) -> Result<()> {
        self.source.delete_with(key.form(), options)
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<()> {
        self.source.delete(key.form())
    }

    /// Deletes every key of a range, at the cost of one write.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_range(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.source.delete_range(encoded(&range))
    }

    /// Deletes every key that begins with `prefix`, at the cost of one write.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_prefix(&self, prefix: &(impl KeyPrefix<K> + ?Sized)) -> Result<()> {
        self.source.delete_prefix(prefix.prefix())
    }

    /// Deletes a key and returns the value that it had, atomically.
    ///
    /// # Errors
    /// `Corruption`, if the value does not decode: the key is deleted all the same; as
    /// [`Family::take`].
    pub fn take(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<V>> {
        self.take_with(key, &WriteOptions::new())
    }

    /// Deletes a key as [`take`](Self::take), with `options`.
    ///
    /// # Errors
    /// As [`TypedFamily::take`](Self::take).
    pub fn take_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        self.source.take_with(key.form(), options)?.as_deref().map(V::from_value).transpose()
    }

    /// Replaces the value of a key by the result of `change`, atomically, and returns the new
    /// value. `None` is no value. `change` runs again after a conflict. The new value keeps the
    /// expiry of the old one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{FamilyOptions, KeyOrder};
    ///
    /// let options = FamilyOptions::new().key_order(KeyOrder::of::<String>());
    /// let visits = db.create_family("visits", options)?.typed::<String, u64>()?;
    /// for expected in [1, 2] {
    ///     let count = visits.update_and_fetch("home", |count| Some(count.unwrap_or(0) + 1))?;
    ///     assert_eq!(count, Some(expected));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption`, if the value does not decode: it stays; as [`Family::update_and_fetch`].
    pub fn update_and_fetch(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.update_and_fetch_with(key, change, &WriteOptions::new())
    }

    /// Replaces a value as [`update_and_fetch`](Self::update_and_fetch), with `options`. What they
    /// leave unsaid of the expiry stays.
    ///
    /// # Errors
    /// As [`TypedFamily::update_and_fetch`](Self::update_and_fetch).
    pub fn update_and_fetch_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        mut change: impl FnMut(Option<V>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        let key = key.form();
        self.source.step(options, |step| {
            let old = step.current(&key)?;
            let value = old.as_ref().map(|old| V::from_value(&old.value)).transpose()?;
            let new = change(value);
            let bytes = new.as_ref().map(Value::to_value).transpose()?;
            step.replace(&key, old.as_ref(), bytes, options)?;
            Ok(new)
        })
    }

    /// Has the value of a key expire after `time`; see [`Family::touch`].
    ///
    /// # Errors
    /// As [`Family::touch`].
    pub fn touch(&self, key: &(impl KeyForm<K> + ?Sized), time: Duration) -> Result<bool> {
        self.source.touch(key.form(), time)
    }

    /// Removes the expiry of the value of a key; see [`Family::persist`].
    ///
    /// # Errors
    /// As [`Family::touch`].
    pub fn persist(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<bool> {
        self.source.persist(key.form())
    }
}

impl<K: Key, V: Value> TypedSource<Transaction, K, V> {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put(&self, key: &(impl KeyForm<K> + ?Sized), value: &V) -> Result<()> {
        self.source.put(key.form(), value.to_value()?)
    }

    /// Sets the value of a key, with the expiry of `options`.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        options: &WriteOptions,
    ) -> Result<()> {
        self.source.put_with(key.form(), value.to_value()?, options)
    }

    /// Sets the value of a key, which expires after `time`; see [`Family::put_for`].
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_for(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        time: Duration,
    ) -> Result<()> {
        self.source.put_for(key.form(), value.to_value()?, time)
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<()> {
        self.source.delete(key.form())
    }

    /// Deletes every key of a range.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.source.delete_range(encoded(&range))
    }

    /// Deletes every key that begins with `prefix`.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_prefix(&self, prefix: &(impl KeyPrefix<K> + ?Sized)) -> Result<()> {
        self.source.delete_prefix(prefix.prefix())
    }
}

/// A [`WriteBatch`] that gets operations on a typed family; made by
/// [`TypedFamily::in_batch`](TypedSource::in_batch).
pub struct TypedBatch<'a, K, V> {
    family: &'a Family,
    batch: &'a mut WriteBatch,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for TypedBatch<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedBatch").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl<'a, K: Key, V: Value> TypedBatch<'a, K, V> {
    pub(super) fn new(family: &'a Family, batch: &'a mut WriteBatch) -> Self {
        Self { family, batch, types: PhantomData }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn put(&mut self, key: &(impl KeyForm<K> + ?Sized), value: &V) -> Result<()> {
        self.batch.put(self.family, key.form(), value.to_value()?)
    }

    /// Sets the value of a key, which expires after `time`; see [`WriteBatch::put_for`].
    ///
    /// # Errors
    /// As [`WriteBatch::put_for`].
    pub fn put_for(
        &mut self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        time: Duration,
    ) -> Result<()> {
        self.batch.put_for(self.family, key.form(), value.to_value()?, time)
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, key: &(impl KeyForm<K> + ?Sized)) -> Result<()> {
        self.batch.delete(self.family, key.form())
    }

    /// Deletes every key of a range.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete_range(&mut self, range: impl RangeBounds<K>) -> Result<()> {
        self.batch.delete_range(self.family, encoded(&range))
    }

    /// Deletes every key that begins with `prefix`.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete_prefix(&mut self, prefix: &(impl KeyPrefix<K> + ?Sized)) -> Result<()> {
        self.batch.delete_prefix(self.family, prefix.prefix())
    }
}
