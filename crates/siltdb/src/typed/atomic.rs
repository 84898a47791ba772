//! Atomic reads and writes of one typed key, of a family and within a transaction.
//!
//! Each is one step of a transaction. It decodes the value that it found before it writes, so that
//! a value that does not decode stays.

use super::{TypedFamily, TypedSource};
use crate::{
    family::Family, key::Key, key_types::KeyForm, read::Read, single_key::Swap,
    transaction::Transaction, value::Value, write_options::WriteOptions,
};
use siltdb_base::{error::Result, slice::Slice};
use siltdb_engine::read::ExpiringValue;
use std::time::Duration;

/// A family or a transaction.
pub trait AtomicTarget: Read {
    /// Runs `step` in a transaction: for a family, in one of its own, again after each conflict.
    #[doc(hidden)]
    fn atomically<T>(
        &self,
        options: &WriteOptions,
        step: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T>;
}

impl AtomicTarget for Family {
    fn atomically<T>(
        &self,
        options: &WriteOptions,
        step: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        self.step(options, step)
    }
}

impl AtomicTarget for Transaction {
    fn atomically<T>(
        &self,
        _: &WriteOptions,
        mut step: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        step(self)
    }
}

/// The verbs of a [`TypedFamily`] and of one [in a transaction](TypedFamily::in_transaction), where
/// the durability of `options` does not count: the commit has its own.
impl<S: AtomicTarget, K: Key, V: Value> TypedSource<S, K, V> {
    /// Replaces the value of a key if it equals the expected one, atomically; see
    /// [`Family::compare_and_swap`]. Values are equal if their encodings are.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Swap;
    ///
    /// let stock = db.typed::<String, u32>("stock")?;
    /// assert!(stock.compare_and_swap("pen", None, Some(&7))?.is_swapped());
    /// assert_eq!(stock.compare_and_swap("pen", Some(&8), None)?, Swap::Differs(Some(7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption`, if the value differs and does not decode; those of [`Value::pack`]; as
    /// [`Family::compare_and_swap`].
    pub fn compare_and_swap(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        expected: Option<&V>,
        new: Option<&V>,
    ) -> Result<Swap<V>> {
        self.compare_and_swap_with(key, expected, new, &WriteOptions::new())
    }

    /// Swaps as [`compare_and_swap`](Self::compare_and_swap), with `options`.
    ///
    /// # Errors
    /// As [`compare_and_swap`](Self::compare_and_swap).
    pub fn compare_and_swap_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        expected: Option<&V>,
        new: Option<&V>,
        options: &WriteOptions,
    ) -> Result<Swap<V>> {
        let expected = expected.map(Value::to_value).transpose()?;
        let new = new.map(Value::to_value).transpose()?;
        let key = key.form();
        self.source.atomically(options, |step| {
            let (expected, new) = (expected.as_deref(), new.as_deref());
            match step.compare_and_swap_with(&key, expected, new, options)? {
                Swap::Swapped => Ok(Swap::Swapped),
                Swap::Differs(found) => decoded(found.as_ref()).map(Swap::Differs),
            }
        })
    }

    /// Sets the value of a key unless it has one, atomically. Returns the value that it had, and
    /// keeps.
    ///
    /// # Errors
    /// As [`put_if_absent_with`](Self::put_if_absent_with).
    pub fn put_if_absent(&self, key: &(impl KeyForm<K> + ?Sized), value: &V) -> Result<Option<V>> {
        self.put_if_absent_with(key, value, &WriteOptions::new())
    }

    /// Puts as [`put_if_absent`](Self::put_if_absent), with `options`; see
    /// [`Family::put_if_absent_with`].
    ///
    /// # Errors
    /// `Corruption`, if the value that the key had does not decode; those of [`Value::pack`]; as
    /// [`Family::put_if_absent_with`].
    pub fn put_if_absent_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        let (key, value) = (key.form(), value.to_value()?);
        self.source.atomically(options, |step| {
            decoded(step.put_if_absent_with(&key, &value, options)?.as_ref())
        })
    }

    /// Replaces the value of a key by the result of `change`, atomically, and returns the old
    /// value. Otherwise as [`update_and_fetch`](Self::update_and_fetch). The value is decoded
    /// twice.
    ///
    /// # Errors
    /// As [`update_and_fetch`](Self::update_and_fetch).
    pub fn fetch_and_update(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.fetch_and_update_with(key, change, &WriteOptions::new())
    }

    /// Replaces a value as [`fetch_and_update`](Self::fetch_and_update), with `options`.
    ///
    /// # Errors
    /// As [`update_and_fetch`](Self::update_and_fetch).
    pub fn fetch_and_update_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        mut change: impl FnMut(Option<V>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        let key = key.form();
        self.source.atomically(options, |step| {
            let old = step.current(&key)?;
            let returned = found(old.as_ref())?;
            let new = change(found(old.as_ref())?).as_ref().map(Value::to_value).transpose()?;
            step.replace(&key, old.as_ref(), new, options)?;
            Ok(returned)
        })
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
    /// `Corruption`, if the value does not decode: it stays; those of [`Value::pack`]; as
    /// [`Family::update_and_fetch`].
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
    /// As [`update_and_fetch`](Self::update_and_fetch).
    pub fn update_and_fetch_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        mut change: impl FnMut(Option<V>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        let key = key.form();
        self.source.atomically(options, |step| {
            let old = step.current(&key)?;
            let new = change(found(old.as_ref())?);
            let bytes = new.as_ref().map(Value::to_value).transpose()?;
            step.replace(&key, old.as_ref(), bytes, options)?;
            Ok(new)
        })
    }

    /// Deletes a key and returns the value that it had, atomically.
    ///
    /// # Errors
    /// `Corruption`, if the value does not decode: it stays; as [`Family::take`].
    pub fn take(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<V>> {
        self.take_with(key, &WriteOptions::new())
    }

    /// Deletes a key as [`take`](Self::take), with `options`.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        options.check_no_expiry()?;
        let key = key.form();
        self.source.atomically(options, |step| {
            let value = decoded(step.get(&key)?.as_ref())?;
            if value.is_some() {
                step.delete(&key)?;
            }
            Ok(value)
        })
    }

    /// Deletes the first key and returns it with its value, atomically; see [`Family::pop_first`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let jobs = db.typed::<u64, String>("jobs")?;
    /// for (id, job) in [(1, "sweep"), (2, "wash")] {
    ///     jobs.put(&id, &job.to_owned())?;
    /// }
    /// assert_eq!(jobs.pop_first()?, Some((1, "sweep".to_owned())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption`, if key or value do not decode: both stay; as [`Family::pop_first`].
    pub fn pop_first(&self) -> Result<Option<(K, V)>> {
        self.pop_first_with(&WriteOptions::new())
    }

    /// Deletes the first key as [`pop_first`](Self::pop_first), with `options`.
    ///
    /// # Errors
    /// As [`pop_first`](Self::pop_first).
    pub fn pop_first_with(&self, options: &WriteOptions) -> Result<Option<(K, V)>> {
        options.check_no_expiry()?;
        self.source.atomically(options, |step| pop(step, step.first()?))
    }

    /// Deletes the last key and returns it with its value, atomically.
    ///
    /// # Errors
    /// As [`pop_first`](Self::pop_first).
    pub fn pop_last(&self) -> Result<Option<(K, V)>> {
        self.pop_last_with(&WriteOptions::new())
    }

    /// Deletes the last key as [`pop_last`](Self::pop_last), with `options`.
    ///
    /// # Errors
    /// As [`pop_first`](Self::pop_first).
    pub fn pop_last_with(&self, options: &WriteOptions) -> Result<Option<(K, V)>> {
        options.check_no_expiry()?;
        self.source.atomically(options, |step| pop(step, step.last()?))
    }

    /// Has the value of a key expire after `time`; see [`Family::touch`]. The value is not decoded.
    ///
    /// # Errors
    /// As [`Family::touch`].
    pub fn touch(&self, key: &(impl KeyForm<K> + ?Sized), time: Duration) -> Result<bool> {
        self.touch_with(key, &WriteOptions::new().ttl(time))
    }

    /// Removes the expiry of the value of a key; see [`Family::persist`].
    ///
    /// # Errors
    /// As [`Family::touch`].
    pub fn persist(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<bool> {
        let never = WriteOptions::new().expiry(crate::expiry::Expiry::Never);
        self.touch_with(key, &never)
    }

    /// Gives the value of a key the expiry of `options`; see [`Family::touch_with`].
    ///
    /// # Errors
    /// As [`Family::touch`].
    pub fn touch_with(
        &self,
        key: &(impl KeyForm<K> + ?Sized),
        options: &WriteOptions,
    ) -> Result<bool> {
        let key = key.form();
        self.source.atomically(options, |step| step.touch_with(&key, options))
    }
}

impl<K: Key, V: Value> TypedFamily<K, V> {
    /// Returns the next number of the counter `key`; see [`Family::next_id`]. The value of the
    /// counter is 8 bytes, big-endian, which is no value of type `V`. So the counter of a typed
    /// family belongs in a family of its own, such as `typed::<String, u64>("ids")`.
    ///
    /// # Errors
    /// As [`Family::next_id`].
    pub fn next_id(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<u64> {
        self.source.next_id(key.form())
    }
}

impl<K: Key, V: Value> TypedSource<Transaction, K, V> {
    /// Returns the next number of the counter `key`; see [`Transaction::next_id`].
    ///
    /// # Errors
    /// As [`Transaction::next_id`].
    pub fn next_id(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<u64> {
        self.source.next_id(key.form())
    }
}

fn decoded<V: Value>(value: Option<&Slice>) -> Result<Option<V>> {
    value.map(|value| V::from_value(value)).transpose()
}

fn found<V: Value>(found: Option<&ExpiringValue>) -> Result<Option<V>> {
    decoded(found.map(|found| &found.value))
}

/// Decodes a pair and deletes its key.
fn pop<K: Key, V: Value>(
    step: &Transaction,
    pair: Option<(Slice, Slice)>,
) -> Result<Option<(K, V)>> {
    let Some((key, value)) = pair else { return Ok(None) };
    let decoded = (K::from_key(&key)?, V::from_value(&value)?);
    step.delete(&key)?;
    Ok(Some(decoded))
}
