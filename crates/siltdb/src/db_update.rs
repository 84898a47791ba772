//! Updates and views of a database, and atomic operations on one key of its default family.

use crate::{
    db::Db,
    single_key::Swap,
    snapshot::Snapshot,
    transaction::Transaction,
    update::{Running, UpdateOptions, update},
    write_options::WriteOptions,
};
use siltdb_base::{
    error::{Error, Result},
    slice::Slice,
};

impl Db {
    /// Runs `run` in a serializable transaction and commits it. After a conflict, a deadlock
    /// included, `run` runs again, up to 1000 times.
    ///
    /// The error type `E` is [`Error`](crate::Error) or one of the program that `?` makes of it.
    /// Where nothing else names it, the closure does: `|tx| -> Result<_, MyError> { .. }`.
    ///
    /// An error of `run` rolls the transaction back and is returned, unless the transaction met a
    /// conflict: then `run` runs again, whatever it made of the conflict. `run` may run many times,
    /// so effects other than those on the transaction must bear repetition. After a conflict the
    /// update waits up to 50 ms for its turn among the updates that conflicted over the same keys,
    /// so that these run one after the other.
    ///
    /// An update of which an attempt takes 10 ms or more does not lose to shorter writes for ever:
    /// from its second conflict on, it locks what that attempt made the commit depend on while
    /// `run` runs again, and others that write there wait, as for
    /// [`Transaction::lock_key`]. So `run` must write by its transaction: a plain write of these
    /// keys would wait for itself, and fail with `Busy`. One of which an attempt takes more than
    /// half of [`Options::lock_timeout`](crate::Options::lock_timeout) takes no locks, since the
    /// others would fail.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Error, Read};
    ///
    /// db.put("alice", [100])?;
    /// db.put("bob", [0])?;
    /// db.update(|tx| {
    ///     let balance = |name| Ok::<u8, Error>(tx.get(name)?.map_or(0, |value| value[0]));
    ///     let (alice, bob) = (balance("alice")?, balance("bob")?);
    ///     tx.put("alice", [alice.checked_sub(30).ok_or(Error::invalid("too little"))?])?;
    ///     tx.put("bob", [bob + 30])
    /// })?;
    /// assert_eq!(db.get("bob")?.as_deref(), Some(&[30][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// With an error of the program:
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    ///
    /// #[derive(Debug)]
    /// enum BookingError {
    ///     SoldOut,
    ///     Storage(siltdb::Error),
    /// }
    /// impl From<siltdb::Error> for BookingError {
    ///     fn from(error: siltdb::Error) -> Self {
    ///         Self::Storage(error)
    ///     }
    /// }
    ///
    /// db.put("seats", [1])?;
    /// let book = || {
    ///     db.update(|tx| {
    ///         let left = tx.get("seats")?.map_or(0, |value| value[0]);
    ///         let left = left.checked_sub(1).ok_or(BookingError::SoldOut)?;
    ///         tx.put("seats", [left])?;
    ///         Ok::<u8, BookingError>(left)
    ///     })
    /// };
    /// assert!(matches!(book(), Ok(0)));
    /// assert!(matches!(book(), Err(BookingError::SoldOut)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `run`; `Conflict` after the last attempt, with the number of attempts;
    /// `InvalidArgument` within an update of the same database in the same thread; as
    /// [`Transaction::commit`]. All but the first are made by `E::from`.
    pub fn update<T, E: From<Error>>(
        &self,
        run: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.update_with(&UpdateOptions::new(), run)
    }

    /// Updates as [`Db::update`], with `options`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Durability, Isolation, UpdateOptions};
    ///
    /// let options = UpdateOptions::new()
    ///     .isolation(Isolation::Snapshot)
    ///     .durability(Durability::Synced)
    ///     .attempts(10);
    /// db.update_with(&options, |tx| tx.put("k", "v"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::update`].
    pub fn update_with<T, E: From<Error>>(
        &self,
        options: &UpdateOptions,
        run: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let _running = Running::begin(self.default.place.open_id)?;
        update(&self.default, options, run)
    }

    /// Runs `look` on a snapshot of the present state and returns its result, which is of any type.
    /// A snapshot cannot write. Costs no IO; the snapshot is released on return.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    ///
    /// assert_eq!(db.view(|snapshot| snapshot.first())?, None);
    /// let ends = db.view(|snapshot| [snapshot.first(), snapshot.last()]);
    /// assert!(ends.iter().all(Result::is_ok));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn view<R>(&self, look: impl FnOnce(&Snapshot) -> R) -> R {
        look(&self.snapshot())
    }

    /// Replaces the value of a key of the default family if it equals the expected one; see
    /// [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        self.default.compare_and_swap(key, expected, new)
    }

    /// Sets the value of a key of the default family unless it has one; see
    /// [`Family::put_if_absent`](crate::Family::put_if_absent).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        self.default.put_if_absent(key, value)
    }

    /// Changes the value of a key of the default family and returns the old one; see
    /// [`Family::fetch_and_update`](crate::Family::fetch_and_update).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn fetch_and_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Slice>> {
        self.default.fetch_and_update(key, change)
    }

    /// Changes the value of a key of the default family and returns the new one; see
    /// [`Family::update_and_fetch`](crate::Family::update_and_fetch).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn update_and_fetch<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.default.update_and_fetch(key, change)
    }

    /// Deletes a key of the default family and returns its value; see
    /// [`Family::take`](crate::Family::take).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.default.take(key)
    }

    /// Swaps as [`Db::compare_and_swap`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<Swap> {
        self.default.compare_and_swap_with(key, expected, new, options)
    }

    /// Puts as [`Db::put_if_absent`], with `options`: a lock with a lease; see
    /// [`Family::put_if_absent_with`](crate::Family::put_if_absent_with).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        self.default.put_if_absent_with(key, value, options)
    }

    /// Updates as [`Db::fetch_and_update`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn fetch_and_update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        self.default.fetch_and_update_with(key, change, options)
    }

    /// Updates as [`Db::update_and_fetch`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn update_and_fetch_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
        options: &WriteOptions,
    ) -> Result<Option<V>> {
        self.default.update_and_fetch_with(key, change, options)
    }

    /// Deletes as [`Db::take`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn take_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Option<Slice>> {
        self.default.take_with(key, options)
    }

    /// Deletes as [`Db::pop_first`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn pop_first_with(&self, options: &WriteOptions) -> Result<Option<(Slice, Slice)>> {
        self.default.pop_first_with(options)
    }

    /// Deletes as [`Db::pop_last`], with `options`.
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn pop_last_with(&self, options: &WriteOptions) -> Result<Option<(Slice, Slice)>> {
        self.default.pop_last_with(options)
    }

    /// Deletes the first key of the default family and returns it with its value; see
    /// [`Family::pop_first`](crate::Family::pop_first).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn pop_first(&self) -> Result<Option<(Slice, Slice)>> {
        self.default.pop_first()
    }

    /// Deletes the last key of the default family and returns it with its value; see
    /// [`Family::pop_first`](crate::Family::pop_first).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn pop_last(&self) -> Result<Option<(Slice, Slice)>> {
        self.default.pop_last()
    }

    /// Returns the next number of a counter in the default family; see
    /// [`Family::next_id`](crate::Family::next_id).
    ///
    /// # Errors
    /// As [`Family::next_id`](crate::Family::next_id).
    pub fn next_id(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.default.next_id(key)
    }
}
