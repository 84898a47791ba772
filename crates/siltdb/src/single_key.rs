//! Atomic read-and-write operations on one key.
//!
//! Each is written once, for a [`Transaction`]. The one of a [`Family`] is an update with that
//! single operation, so it is atomic against all other writers: plain writes, batches and
//! transactions.

use crate::{
    family::Family,
    isolation::Isolation,
    options::Durability,
    read::Read,
    source::ReadSource,
    transaction::Transaction,
    update::{UpdateOptions, update},
    write_options::WriteOptions,
};
use siltdb_base::{
    error::{Error, Result},
    seeded_fault,
    slice::Slice,
};
use siltdb_engine::read::ExpiringValue;

/// Ids reserved at a time, at the cost of one sync; a killed process leaves out as many at most.
const BLOCK_IDS: u64 = 4096;

/// The outcome of a `compare_and_swap`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the result says whether the value was swapped"]
pub enum Swap<V = Slice> {
    /// The key had the expected value and has the new one.
    Swapped,
    /// The key has this other value, and keeps it; `None` is no value.
    Differs(Option<V>),
}

impl<V> Swap<V> {
    /// Returns whether the key has the new value.
    #[must_use]
    pub fn is_swapped(&self) -> bool {
        matches!(self, Self::Swapped)
    }
}

fn value_of(found: &Option<ExpiringValue>) -> Option<&[u8]> {
    found.as_ref().map(|found| found.value.as_bytes())
}

impl Transaction {
    /// Compares and swaps as [`Family::compare_and_swap`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        self.compare_and_swap_with(key, expected, new, &WriteOptions::new())
    }

    /// Compares and swaps with the expiry of `options`.
    ///
    /// # Errors
    /// As [`Transaction::compare_and_swap`].
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<Swap> {
        let current = self.current(key.as_ref())?;
        if value_of(&current) != expected {
            return Ok(Swap::Differs(current.map(|found| found.value)));
        }
        self.replace(key.as_ref(), current.as_ref(), new, options)?;
        Ok(Swap::Swapped)
    }

    /// Puts as [`Family::put_if_absent`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        self.put_if_absent_with(key, value, &WriteOptions::new())
    }

    /// Puts a value that is absent, with the expiry of `options`.
    ///
    /// # Errors
    /// As [`Transaction::put_if_absent`].
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        let current = self.get(key.as_ref())?;
        if current.is_none() {
            self.put_with(key, value, options)?;
        }
        Ok(current)
    }

    /// Updates as [`Family::fetch_and_update`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn fetch_and_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Slice>> {
        self.fetch_and_update_with(key, change, &WriteOptions::new())
    }

    /// Updates and returns the old value, with the expiry of `options`.
    ///
    /// # Errors
    /// As [`Transaction::fetch_and_update`].
    pub fn fetch_and_update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        let current = self.current(key.as_ref())?;
        let new = change(value_of(&current));
        self.replace(key.as_ref(), current.as_ref(), new, options)?;
        Ok(current.map(|found| found.value))
    }

    /// Updates as [`Family::update_and_fetch`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn update_and_fetch<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.update_and_fetch_with(key, change, &WriteOptions::new())
    }

    /// Updates and returns the new value, with the expiry of `options`.
    ///
    /// # Errors
    /// As [`Transaction::update_and_fetch`].
    pub fn update_and_fetch_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        let current = self.current(key.as_ref())?;
        let new = change(value_of(&current));
        self.replace(key.as_ref(), current.as_ref(), new.as_ref(), options)?;
        Ok(new)
    }

    /// The value of a key and its expiry, in ms.
    pub(crate) fn current(&self, key: &[u8]) -> Result<Option<ExpiringValue>> {
        self.pin()?.get_expiring(key)
    }

    /// Puts `new` in the place of `old`, or deletes the key. What `options` leave unsaid of the
    /// expiry stays.
    pub(crate) fn replace<V: AsRef<[u8]>>(
        &self,
        key: &[u8],
        old: Option<&ExpiringValue>,
        new: Option<V>,
        options: &WriteOptions,
    ) -> Result<()> {
        let Some(value) = new else { return self.delete(key) };
        let expiry_ms = options.expiry_rule.replacing(old, &self.place.place);
        self.put_at(key, value.as_ref(), expiry_ms)
    }

    /// Takes as [`Family::take`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let current = self.get(key.as_ref())?;
        if current.is_some() {
            self.delete(key)?;
        }
        Ok(current)
    }

    /// Pops as [`Family::pop_first`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn pop_first(&self) -> Result<Option<(Slice, Slice)>> {
        self.first().and_then(|pair| self.pop(pair))
    }

    /// Pops as [`Family::pop_last`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn pop_last(&self) -> Result<Option<(Slice, Slice)>> {
        self.last().and_then(|pair| self.pop(pair))
    }

    fn pop(&self, pair: Option<(Slice, Slice)>) -> Result<Option<(Slice, Slice)>> {
        if let Some((key, _)) = &pair {
            self.delete(key)?;
        }
        Ok(pair)
    }

    /// Returns the next number of the counter `key`, as [`Family::next_id`]. Without a commit the
    /// counter keeps its old value. Two transactions that each take a number conflict.
    ///
    /// # Errors
    /// As [`Family::next_id`]; `InvalidArgument` below [`Isolation::RepeatableRead`], where two
    /// transactions could get the same number.
    pub fn next_id(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        if self.isolation() < Isolation::RepeatableRead {
            return Err(Error::invalid("at this isolation level ids would not be unique")
                .with_mismatch("repeatable-read or stronger", self.isolation().as_str()));
        }
        Ok(self.reserve_ids(key.as_ref(), 0, 1)?.start)
    }

    /// Reserves `count` ids, all of them at least `least`.
    fn reserve_ids(&self, key: &[u8], least: u64, count: u64) -> Result<std::ops::Range<u64>> {
        let next = match self.get(key)? {
            None => 1,
            Some(value) => u64::from_be_bytes(value.as_bytes().try_into().map_err(|_| {
                Error::invalid("the value of the key is no counter of ids")
                    .with_mismatch("8 bytes", value.len())
            })?),
        };
        let start = next.max(least);
        let end = start.checked_add(count).ok_or_else(|| Error::invalid("all ids are used up"))?;
        // An expired counter would begin anew.
        self.put_lasting(key, &end.to_be_bytes())?;
        Ok(start..end)
    }
}

impl Family {
    /// Replaces the value of a key if it equals the expected one, atomically. `None` is no value:
    /// as `expected` it inserts, as `new` it deletes. The new value keeps the expiry of the old
    /// one; [`compare_and_swap_with`](Self::compare_and_swap_with) can give it another.
    ///
    /// Costs a [`Read::get`], a [`Family::put`] and a search in memory for a concurrent commit.
    /// After such a commit the key is compared again. A value that differs costs no write.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Swap;
    ///
    /// assert!(db.compare_and_swap("lock", None, Some(b"mine"))?.is_swapped());
    /// match db.compare_and_swap("lock", Some(b"free"), Some(b"mine"))? {
    ///     Swap::Swapped => unreachable!(),
    ///     Swap::Differs(current) => assert_eq!(current.as_deref(), Some(&b"mine"[..])),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`] and [`Family::put`]; `Conflict`, after 1000 conflicts in a row.
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        self.compare_and_swap_with(key, expected, new, &WriteOptions::new())
    }

    /// Replaces a value as [`Family::compare_and_swap`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<Swap> {
        let key = key.as_ref();
        self.step(options, |step| step.compare_and_swap_with(key, expected, new, options))
    }

    /// Sets the value of a key unless it has one, atomically. Returns the value that the key had,
    /// and keeps.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// assert_eq!(db.put_if_absent("name", "Ada")?, None);
    /// assert_eq!(db.put_if_absent("name", "Eve")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        self.put_if_absent_with(key, value, &WriteOptions::new())
    }

    /// Puts as [`Family::put_if_absent`], with `options`. With a TTL it takes a lock that is free
    /// again when its holder has not renewed the lease in time.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Read, WriteOptions};
    /// use std::time::Duration;
    ///
    /// let lease = WriteOptions::new().ttl(Duration::from_secs(30));
    /// assert_eq!(db.put_if_absent_with("lock", "me", &lease)?, None);
    /// assert_eq!(db.put_if_absent_with("lock", "you", &lease)?.as_deref(), Some(&b"me"[..]));
    /// // The holder renews the lease.
    /// assert!(db.compare_and_swap_with("lock", Some(b"me"), Some(b"me"), &lease)?.is_swapped());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.step(options, |step| step.put_if_absent_with(key, value, options))
    }

    /// Replaces the value of a key by the result of `change`, atomically, and returns the old
    /// value. `None` is no value. `change` runs again after a conflict. The new value keeps the
    /// expiry of the old one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let add = |old: Option<&[u8]>| Some([old.unwrap_or(b""), b"+"].concat());
    /// assert_eq!(db.fetch_and_update("tally", add)?, None);
    /// assert_eq!(db.fetch_and_update("tally", add)?.as_deref(), Some(&b"+"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn fetch_and_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Slice>> {
        self.fetch_and_update_with(key, change, &WriteOptions::new())
    }

    /// Replaces a value as [`Family::fetch_and_update`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn fetch_and_update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        let key = key.as_ref();
        self.step(options, |step| step.fetch_and_update_with(key, &mut change, options))
    }

    /// Replaces a value as [`Family::fetch_and_update`], but returns the new value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let add = |old: Option<&[u8]>| Some([old.unwrap_or(b""), b"+"].concat());
    /// assert_eq!(db.update_and_fetch("tally", add)?, Some(b"+".to_vec()));
    /// assert_eq!(db.update_and_fetch("tally", add)?, Some(b"++".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn update_and_fetch<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.update_and_fetch_with(key, change, &WriteOptions::new())
    }

    /// Replaces a value as [`Family::update_and_fetch`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn update_and_fetch_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        let key = key.as_ref();
        self.step(options, |step| step.update_and_fetch_with(key, &mut change, options))
    }

    /// Deletes a key and returns the value that it had, atomically. A key without a value costs no
    /// write.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// db.put("job", "work")?;
    /// assert_eq!(db.take("job")?.as_deref(), Some(&b"work"[..]));
    /// assert_eq!(db.take("job")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.take_with(key, &WriteOptions::new())
    }

    /// Deletes a key as [`Family::take`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn take_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        options.check_no_expiry()?;
        self.step(options, |step| step.take(key.as_ref()))
    }

    /// Deletes the first key and returns it with its value, atomically. No other caller gets the
    /// same pair, and no smaller key existed. Costs as [`Read::first`] and [`Family::put`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// for job in ["1", "2", "3"] {
    ///     db.put(job, "work")?;
    /// }
    /// assert_eq!(db.pop_first()?.unwrap().0, b"1");
    /// assert_eq!(db.pop_last()?.unwrap().0, b"3");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn pop_first(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop_first_with(&WriteOptions::new())
    }

    /// Deletes the first key as [`Family::pop_first`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn pop_first_with(&self, options: &WriteOptions) -> Result<Option<(Slice, Slice)>> {
        options.check_no_expiry()?;
        self.step(options, Transaction::pop_first)
    }

    /// Deletes the last key and returns it with its value, as [`Family::pop_first`] does with the
    /// first.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn pop_last(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop_last_with(&WriteOptions::new())
    }

    /// Deletes the last key as [`Family::pop_last`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn pop_last_with(&self, options: &WriteOptions) -> Result<Option<(Slice, Slice)>> {
        options.check_no_expiry()?;
        self.step(options, Transaction::pop_last)
    }

    /// Returns the next number of a counter, from 1 on. It is greater than every number that an
    /// earlier call returned. No number is returned twice, also across crashes. Numbers may be
    /// skipped.
    ///
    /// The counter is the value of `key`, an ordinary key of the family: the first number that is
    /// not reserved, as 8 bytes, big-endian. One call in 4096 reserves that many numbers, with a
    /// sync; the others cost a lock. A process that ends skips the rest of its reservation. After
    /// the key is deleted, the counter restarts at some later time, at the next opening at the
    /// latest.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let first = db.next_id("ids")?;
    /// db.put(format!("user:{first:020}"), "Ada")?;
    /// assert!(db.next_id("ids")? > first);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if the value of the key is not a counter; as
    /// [`Family::compare_and_swap`].
    pub fn next_id(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        let key = key.as_ref();
        self.place.check_writable()?;
        let options = UpdateOptions::new().durability(Durability::Synced);
        self.place.engine.database().id_blocks.next(self.id(), key, |least| {
            if seeded_fault!("ids_not_reserved") {
                return Ok(least.max(1)..least.max(1) + BLOCK_IDS);
            }
            update(self, &options, |step| step.reserve_ids(key, least, BLOCK_IDS))
        })
    }

    pub(crate) fn step<T>(
        &self,
        options: &WriteOptions,
        step: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        // It writes one value, which is as long as the caller gave it, as that of a plain put.
        let update_options = UpdateOptions::new().memory_bytes(usize::MAX);
        let update_options = match options.durability {
            None => update_options,
            Some(durability) => update_options.durability(durability),
        };
        update(self, &update_options, step)
    }
}
