//! Typed handles: families, snapshots and transactions whose keys and values have types.
//!
//! They encode what goes in and decode what comes out, and add nothing else: below them are the
//! verbs on bytes. [`Family::typed`] is the one place that compares the name of the key type with
//! the order of the family; all other typed handles are made from its result.
//!
//! # Seeded faults
//! `key_order_name_not_checked`: any key type opens any family.

mod atomic;
mod feed;
mod load;
mod walk;
mod write;

pub use feed::{TypedChange, TypedEvent, TypedSubscription};
pub use load::TypedIngestion;
pub use walk::{TypedCursor, TypedIter};
pub use write::TypedBatch;

use crate::{
    batch::WriteBatch,
    db::Db,
    expiry::Expiry,
    family::Family,
    key::Key,
    key_order::KeyOrder,
    key_types::{KeyForm, KeyPrefix},
    options::FamilyOptions,
    read::Read,
    read_options::ReadOptions,
    snapshot::Snapshot,
    transaction::Transaction,
    value::Value,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    seeded_fault,
    slice::Slice,
};
use std::{
    fmt,
    marker::PhantomData,
    ops::{Bound, RangeBounds},
};

/// A [`Family`], [`Snapshot`] or [`Transaction`] whose keys are of type `K`, in the order of `K`,
/// and whose values are of type `V`. Made by [`Family::typed`].
///
/// A key or value that does not decode is an error of the call or item that meets it, of kind
/// `Corruption`: verbs on bytes, which [`source`](Self::source) gives access to, can write any.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{FamilyOptions, Isolation, KeyOrder, TypedFamily, WriteBatch};
///
/// let options = FamilyOptions::new().key_order(KeyOrder::of::<(i64, String)>());
/// let family = db.family_or_create("events", options)?;
/// let events: TypedFamily<(i64, String), f64> = family.typed()?;
/// events.put(&(-5, "cold".to_owned()), &0.5)?;
/// events.put(&(20, "warm".to_owned()), &1.5)?;
///
/// let before = events.in_snapshot(&db.snapshot())?;
/// let transaction = db.begin(Isolation::Snapshot);
/// events.in_transaction(&transaction)?.delete(&(20, "warm".to_owned()))?;
/// transaction.commit()?;
/// let mut batch = WriteBatch::new();
/// events.in_batch(&mut batch).put(&(30, "hot".to_owned()), &2.5)?;
/// db.write(&batch)?;
///
/// let days = |pair: siltdb::Result<((i64, String), f64)>| Ok(pair?.0.0);
/// assert_eq!(events.iter()?.map(days).collect::<siltdb::Result<Vec<_>>>()?, [-5, 30]);
/// assert_eq!(before.prefix(&(20,))?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedSource<S, K, V> {
    source: S,
    types: PhantomData<fn() -> (K, V)>,
}

/// A [`Family`] with keys of type `K` and values of type `V`.
pub type TypedFamily<K, V> = TypedSource<Family, K, V>;

impl<S: Clone, K, V> Clone for TypedSource<S, K, V> {
    fn clone(&self) -> Self {
        Self::new(self.source.clone())
    }
}

impl<S: fmt::Debug, K, V> fmt::Debug for TypedSource<S, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedSource").field(&self.source).finish()
    }
}

impl Family {
    /// Returns the family with keys of type `K`, whose order it must have, and values of type `V`.
    /// The type of values is not stored. Keys of type `Vec<u8>` fit every family without an order.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{ErrorKind, FamilyOptions, KeyOrder};
    ///
    /// let options = FamilyOptions::new().key_order(KeyOrder::of::<u64>());
    /// let squares = db.create_family("squares", options)?;
    /// let typed = squares.typed::<u64, u64>()?;
    /// typed.put(&300, &90_000)?;
    /// typed.put(&7, &49)?;
    /// assert_eq!(typed.first()?, Some((7, 49)));
    /// assert_eq!(typed.range(8..)?.count(), 1);
    ///
    /// let refused = squares.typed::<i64, u64>().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if the family has another key order.
    pub fn typed<K: Key, V: Value>(&self) -> Result<TypedFamily<K, V>> {
        let (order, wanted) = (self.key_order(), K::order_name());
        if order.name() != wanted && !seeded_fault!("key_order_name_not_checked") {
            let message = format!("the family {:?} has another key order", self.name());
            return Err(Error::invalid(message).with_mismatch(wanted, order.name()));
        }
        Ok(TypedSource::new(self.clone()))
    }
}

impl Db {
    /// Returns the family `name` with keys of type `K` and values of type `V`. If it is missing, it
    /// is created with the key order of `K` and otherwise the default options, durably on
    /// return. Other options: [`Db::family_or_create`], then [`Family::typed`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let ages = db.typed::<String, u8>("ages")?;
    /// ages.put("Ada", &36)?;
    /// assert_eq!(db.typed::<String, u8>("ages")?.get("Ada")?, Some(36));
    /// // The type of keys is part of the family.
    /// assert!(db.typed::<u64, u8>("ages").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if the family has another key order; as [`Db::family_or_create`].
    pub fn typed<K: Key, V: Value>(&self, name: &str) -> Result<TypedFamily<K, V>> {
        let family = match self.family(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.family_or_create(name, FamilyOptions::new().key_order(KeyOrder::of::<K>()))?
            }
            found => found?,
        };
        family.typed()
    }
}

impl<K: Key, V: Value> TypedFamily<K, V> {
    /// Returns the state of the family in a snapshot.
    ///
    /// # Errors
    /// As [`Snapshot::family`].
    pub fn in_snapshot(&self, snapshot: &Snapshot) -> Result<TypedSource<Snapshot, K, V>> {
        snapshot.family(&self.source).map(TypedSource::new)
    }

    /// Returns the family in a transaction.
    ///
    /// # Errors
    /// As [`Transaction::family`].
    pub fn in_transaction(
        &self,
        transaction: &Transaction,
    ) -> Result<TypedSource<Transaction, K, V>> {
        transaction.family(&self.source).map(TypedSource::new)
    }

    /// Returns the family in a batch, which gets the operations.
    pub fn in_batch<'a>(&'a self, batch: &'a mut WriteBatch) -> TypedBatch<'a, K, V> {
        TypedBatch::new(&self.source, batch)
    }
}

impl<S, K, V> TypedSource<S, K, V> {
    fn new(source: S) -> Self {
        Self { source, types: PhantomData }
    }

    /// Returns the handle below, whose verbs take and return encoded keys and values.
    pub fn source(&self) -> &S {
        &self.source
    }
}

impl<S: Read, K: Key, V: Value> TypedSource<S, K, V> {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// `Corruption`, if the value does not decode; as [`Read::get`].
    pub fn get(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<V>> {
        self.source.read(key.form(), V::from_value)?.transpose()
    }

    /// Returns the values of many keys in the order of `keys`, all from one consistent state.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<_> = keys.iter().map(Key::to_key).collect();
        let values = self.source.get_many(&keys)?;
        values.iter().map(|value| value.as_deref().map(V::from_value).transpose()).collect()
    }

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn contains(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<bool> {
        self.source.contains(key.form())
    }

    /// Returns when the value of a key expires; see [`Read::expires_at`].
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn expires_at(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<Expiry>> {
        self.source.expires_at(key.form())
    }

    /// Returns the value of a key and its expiry, both of one state.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn get_expiring(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<(V, Expiry)>> {
        let found = self.source.get_expiring(key.form())?;
        found.map(|(value, expiry)| Ok((V::from_value(&value)?, expiry))).transpose()
    }

    /// Returns the length of the encoded value of a key, in bytes; see [`Read::value_len`].
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn value_len(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<u64>> {
        self.source.value_len(key.form())
    }

    /// Returns whether there are no keys.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.source.is_empty()
    }

    /// Returns the greatest key less than `key`, and its value.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn get_lt(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<(K, V)>> {
        decoded(self.source.get_lt(key.form()))
    }

    /// Returns the greatest key less than or equal to `key`, and its value.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn get_le(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<(K, V)>> {
        decoded(self.source.get_le(key.form()))
    }

    /// Returns the least key greater than `key`, and its value.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn get_gt(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<(K, V)>> {
        decoded(self.source.get_gt(key.form()))
    }

    /// Returns the least key greater than or equal to `key`, and its value.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn get_ge(&self, key: &(impl KeyForm<K> + ?Sized)) -> Result<Option<(K, V)>> {
        decoded(self.source.get_ge(key.form()))
    }

    /// Returns the first key and its value.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn first(&self) -> Result<Option<(K, V)>> {
        decoded(self.source.first())
    }

    /// Returns the last key and its value.
    ///
    /// # Errors
    /// As [`TypedSource::get`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        decoded(self.source.last())
    }

    /// Creates an iterator over all keys and values in order, from both ends.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn iter(&self) -> Result<TypedIter<K, V>> {
        self.range(..)
    }

    /// Creates an iterator over the keys and values of a range in order, from both ends.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<TypedIter<K, V>> {
        self.source.range(encoded(&range)).map(TypedIter::new)
    }

    /// Creates an iterator over the keys that begin with `prefix`, and their values, in order.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn prefix(&self, prefix: &(impl KeyPrefix<K> + ?Sized)) -> Result<TypedIter<K, V>> {
        self.source.prefix(prefix.prefix()).map(TypedIter::new)
    }

    /// Creates an iterator over the keys of a range in order, from both ends, without their values;
    /// see [`Iter::keys`](crate::Iter::keys).
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn keys<R: RangeBounds<K>>(
        &self,
        range: R,
    ) -> Result<impl DoubleEndedIterator<Item = Result<K>> + use<S, K, V, R>> {
        let keys = self.source.range(encoded(&range))?.keys();
        Ok(keys.map(|key| K::from_key(&key?)))
    }

    /// Counts the keys of a range by iterating over them, without their values.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn count(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.source.count(encoded(&range))
    }

    /// Creates a cursor over all keys. It has no position before its first seek.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn cursor(&self) -> Result<TypedCursor<K, V>> {
        self.source.cursor().map(TypedCursor::new)
    }

    /// Creates a cursor over a range of keys. It has no position before its first seek.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn cursor_of(&self, range: impl RangeBounds<K>) -> Result<TypedCursor<K, V>> {
        let options = ReadOptions::new().range(encoded(&range));
        self.source.cursor_with(&options).map(TypedCursor::new)
    }
}

/// Encodes the bounds of a range.
fn encoded<K: Key>(range: &impl RangeBounds<K>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (range.start_bound().map(Key::to_key), range.end_bound().map(Key::to_key))
}

/// Decodes a pair, if there is one.
fn decoded<K: Key, V: Value>(pair: Result<Option<(Slice, Slice)>>) -> Result<Option<(K, V)>> {
    pair?.map(|(key, value)| Ok((K::from_key(&key)?, V::from_value(&value)?))).transpose()
}
