//! Bulk loading of typed keys and values.
//!
//! It encodes; `ingestion` writes.

use super::TypedFamily;
use crate::{
    ingestion::Ingestion, key::Key, key_types::KeyForm, value::Value, write_options::WriteOptions,
};
use siltdb_base::error::Result;
use siltdb_engine::copies::ingest::Ingested;
use std::{fmt, marker::PhantomData};

/// An [`Ingestion`] of typed keys and values; made by [`TypedFamily::ingest`].
pub struct TypedIngestion<K, V> {
    ingestion: Ingestion,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for TypedIngestion<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedIngestion").field(&self.ingestion).finish()
    }
}

impl<K: Key, V: Value> TypedIngestion<K, V> {
    /// Adds a key and its value. The key must be greater than the one before.
    ///
    /// # Errors
    /// Those of [`Value::pack`]; as [`Ingestion::put`].
    pub fn put(&mut self, key: &(impl KeyForm<K> + ?Sized), value: &V) -> Result<()> {
        self.ingestion.put(key.form(), value.to_value()?)
    }

    /// Adds a key and its value, with the expiry of `options`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_with(
        &mut self,
        key: &(impl KeyForm<K> + ?Sized),
        value: &V,
        options: &WriteOptions,
    ) -> Result<()> {
        self.ingestion.put_with(key.form(), value.to_value()?, options)
    }

    /// Adds the deletion of a key, which must be greater than the one before.
    ///
    /// # Errors
    /// As [`Ingestion::put`].
    pub fn delete(&mut self, key: &(impl KeyForm<K> + ?Sized)) -> Result<()> {
        self.ingestion.delete(key.form())
    }

    /// The number of entries added so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.ingestion.entries()
    }

    /// Makes all entries visible at once, durably on return; see [`Ingestion::finish`].
    ///
    /// # Errors
    /// As [`Ingestion::finish`].
    pub fn finish(self) -> Result<Ingested> {
        self.ingestion.finish()
    }
}

impl<K: Key, V: Value> TypedFamily<K, V> {
    /// Begins a stream of entries in the order of their keys, for bulk loading; see
    /// [`Family::ingest`](crate::Family::ingest).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let squares = db.typed::<u32, u64>("squares")?;
    /// let mut ingestion = squares.ingest()?;
    /// for number in 0..1000 {
    ///     ingestion.put(&number, &u64::from(number).pow(2))?;
    /// }
    /// assert_eq!(ingestion.finish()?.entries, 1000);
    /// assert_eq!(squares.get(&30)?, Some(900));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::ingest`](crate::Family::ingest).
    pub fn ingest(&self) -> Result<TypedIngestion<K, V>> {
        Ok(TypedIngestion { ingestion: self.source.ingest()?, types: PhantomData })
    }

    /// Ingests keys and values, which `entries` must give in the order of their keys.
    ///
    /// # Errors
    /// As [`TypedIngestion::put`] and [`TypedIngestion::finish`]. After an error nothing is
    /// ingested.
    pub fn ingest_sorted(&self, entries: impl IntoIterator<Item = (K, V)>) -> Result<Ingested> {
        let mut ingestion = self.ingest()?;
        for (key, value) in entries {
            ingestion.put(&key, &value)?;
        }
        ingestion.finish()
    }
}
