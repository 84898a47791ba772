//! Writes of typed keys and values: to a family, a transaction and a batch.
//!
//! They encode; the verbs on bytes write. Reads that write stand in `atomic`.

use super::{TypedFamily, TypedSource, encoded};
use crate::{
    batch::WriteBatch,
    db_upkeep::CompactOptions,
    family::Family,
    key::Key,
    key_types::{KeyForm, KeyPrefix},
    transaction::{Transaction, snapshot_reads::SnapshotReads},
    value::Value,
    write_options::WriteOptions,
};
use siltdb_base::error::Result;
use siltdb_engine::{jobs::request::CompactProgress, lock_state::lock_table::LockMode};
use siltdb_tree::read::range_size::RangeSize;
use std::{
    fmt,
    marker::PhantomData,
    ops::RangeBounds,
    time::{Duration, SystemTime},
};

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

    /// Sets the value of a key, which expires at `expiry`; see [`Family::put_until`].
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_until(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        expiry: SystemTime,
    ) -> Result<()> {
        self.source.put_until(key.form(), value.to_value()?, expiry)
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

    /// Deletes every key of a range, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_range_with(
        &self,
        range: impl RangeBounds<K>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.source.delete_range_with(encoded(&range), options)
    }

    /// Deletes every key that begins with `prefix`, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_prefix_with(
        &self,
        prefix: &(impl KeyPrefix<K> + ?Sized),
        options: &WriteOptions,
    ) -> Result<()> {
        self.source.delete_prefix_with(prefix.prefix(), options)
    }

    /// Deletes every key of the family in one write; see [`Family::clear`].
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn clear(&self) -> Result<()> {
        self.source.clear()
    }

    /// Writes a merge operand for a key, which is a value of type `V`. The merge operator gets its
    /// encoding; see [`Family::merge`].
    ///
    /// # Errors
    /// Those of [`Value::pack`]; as [`Family::merge`].
    pub fn merge(&self, key: &(impl KeyForm<K> + ?Sized), operand: &V) -> Result<()> {
        self.source.merge(key.form(), operand.to_value()?)
    }

    /// Writes a merge operand for a key, with `options`.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub fn merge_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        operand: &V,
        options: &WriteOptions,
    ) -> Result<()> {
        self.source.merge_with(key.form(), operand.to_value()?, options)
    }

    /// Estimates the size of a range of keys; see [`Family::size_of`].
    ///
    /// # Errors
    /// As [`Family::size_of`].
    pub fn size_of(&self, range: impl RangeBounds<K>) -> Result<RangeSize> {
        self.source.size_of(encoded(&range))
    }

    /// Compacts the tables with keys of a range; see [`Family::compact_range`].
    ///
    /// # Errors
    /// As [`Family::compact`].
    pub fn compact_range(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.source.compact_range(encoded(&range))
    }

    /// Compacts the tables with keys of a range, with `options`; see
    /// [`Family::compact_range_with`].
    ///
    /// # Errors
    /// As [`Family::compact_range_with`].
    pub fn compact_range_with(
        &self,
        range: impl RangeBounds<K>,
        options: &CompactOptions,
        on_progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<()> {
        self.source.compact_range_with(encoded(&range), options, on_progress)
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

    /// Returns a handle whose reads the commit does not validate; see
    /// [`Transaction::snapshot_reads`].
    #[must_use]
    pub fn snapshot_reads(&self) -> TypedSource<SnapshotReads, K, V> {
        TypedSource::new(self.source.snapshot_reads())
    }

    /// Writes a merge operand for a key, which is a value of type `V`.
    ///
    /// # Errors
    /// Those of [`Value::pack`]; as [`Transaction::merge`].
    pub fn merge(&self, key: &(impl KeyForm<K> + ?Sized), operand: &V) -> Result<()> {
        self.source.merge(key.form(), operand.to_value()?)
    }

    /// Locks a key exclusively and returns its newest value; see [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// `Corruption`, if the value does not decode; as [`Transaction::get_for_update`].
    pub fn get_for_update(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<V>> {
        self.source.get_for_update(key.form())?.as_deref().map(V::from_value).transpose()
    }

    /// Locks a key, present or absent; see [`Transaction::lock_key`].
    ///
    /// # Errors
    /// As [`Transaction::lock_key`].
    pub fn lock_key(&self, key: &(impl KeyForm<K> + ?Sized), mode: LockMode) -> Result<()> {
        self.source.lock_key(key.form(), mode)
    }

    /// Locks every key of a range, present or absent; see [`Transaction::lock_range`].
    ///
    /// # Errors
    /// As [`Transaction::lock_range`].
    pub fn lock_range(&self, range: impl RangeBounds<K>, mode: LockMode) -> Result<()> {
        self.source.lock_range(encoded(&range), mode)
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

    /// Sets the value of a key, with the expiry of `options`; see [`WriteBatch::put_with`].
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn put_with(
        &mut self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        options: &WriteOptions,
    ) -> Result<()> {
        self.batch.put_with(self.family, key.form(), value.to_value()?, options)
    }

    /// Sets the value of a key, which expires at `expiry`; see [`WriteBatch::put_until`].
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn put_until(
        &mut self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        expiry: SystemTime,
    ) -> Result<()> {
        self.batch.put_until(self.family, key.form(), value.to_value()?, expiry)
    }

    /// Deletes a key that was put exactly once; see [`WriteBatch::single_delete`].
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn single_delete(&mut self, key: &(impl KeyForm<K> + ?Sized)) -> Result<()> {
        self.batch.single_delete(self.family, key.form())
    }

    /// Writes a merge operand for a key, which is a value of type `V`.
    ///
    /// # Errors
    /// Those of [`Value::pack`]; as [`WriteBatch::merge`].
    pub fn merge(&mut self, key: &(impl KeyForm<K> + ?Sized), operand: &V) -> Result<()> {
        self.batch.merge(self.family, key.form(), operand.to_value()?)
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
