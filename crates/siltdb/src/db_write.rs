//! Writes to the default family, and batches over any families.
//!
//! A method for the default family does what the method of [`Family`](crate::Family) does.

use crate::{
    batch::WriteBatch, db::Db, key_range::KeyRange, operation::Operation,
    write_options::WriteOptions,
};
use siltdb_base::error::Result;
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::{
    families::family_commit::commit_with_families, transactions::conditional_commit::Conditions,
    write::commit::Payload,
};
use std::time::{Duration, SystemTime};

impl Db {
    /// Sets the value of a key of the default family; see [`Family::put`](crate::Family::put).
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default.put(key, value)
    }

    /// Writes as [`Db::put`], with `options`.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default.put_with(key, value, options)
    }

    /// Sets the value of a key of the default family, which expires after a time; see
    /// [`WriteBatch::put_for`].
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        self.default.put_for(key, value, time)
    }

    /// Writes as [`Db::put_for`], with `options`.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn put_for_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default.put_for_with(key, value, time, options)
    }

    /// Sets the value of a key of the default family, which expires at `expiry`; see
    /// [`WriteBatch::put_until`].
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: SystemTime,
    ) -> Result<()> {
        self.default.put_until(key, value, expiry)
    }

    /// Deletes a key of the default family, whether it exists or not.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete(key)
    }

    /// Writes as [`Db::delete`], with `options`.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.default.delete_with(key, options)
    }

    /// Deletes every key of a range of the default family; see
    /// [`Family::delete_range`](crate::Family::delete_range).
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.default.delete_range(range)
    }

    /// Writes as [`Db::delete_range`], with `options`.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn delete_range_with(&self, range: impl KeyRange, options: &WriteOptions) -> Result<()> {
        self.default.delete_range_with(range, options)
    }

    /// Deletes every key of the default family that begins with `prefix`; see
    /// [`Family::delete_prefix`](crate::Family::delete_prefix).
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete_prefix(prefix)
    }

    /// Writes as [`Db::delete_prefix`], with `options`.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default.delete_prefix_with(prefix, options)
    }

    /// Writes a merge operand for a key of the default family; see [`WriteBatch::merge`].
    ///
    /// # Errors
    /// As [`Family::merge`](crate::Family::merge).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default.merge(key, operand)
    }

    /// Writes as [`Db::merge`], with `options`.
    ///
    /// # Errors
    /// As [`Family::merge`](crate::Family::merge).
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default.merge_with(key, operand, options)
    }

    /// Commits a batch atomically: after a crash, all of it is there or nothing. Its durability is
    /// that of [`Options::durability`](crate::Options::durability). The batch can be written again,
    /// unless it creates or drops families.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put). `InvalidArgument`, if the batch merges in a family
    /// without a merge operator, or names families of another open database. `AlreadyExists`, if it
    /// creates a family whose name is taken, or that was created before. In these cases nothing was
    /// written. After `Poisoned`, too, the batch is there as a whole or not at all.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::new())
    }

    /// Commits a batch with `options`. An empty batch with
    /// [`Durability::Synced`](crate::Durability::Synced) does what [`Db::sync_wal`] does.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        options.check_no_expiry()?;
        batch.check_database(self.default.place.open_id)?;
        if !batch.changes.is_empty() {
            let (engine, WriteBatch { bytes, changes, .. }) = (self.engine(), batch);
            let conditions = Conditions::none(&engine.database().options);
            return engine
                .at_work(|database| commit_with_families(database, bytes, changes, &conditions))
                .map(drop);
        }
        self.default.place.commit(&Payload::batch(&batch.bytes), options.durability)
    }

    /// Returns the batch whose bytes [`WriteBatch::as_bytes`] gave. This database must be the one
    /// that the batch was made for, or one whose families have the same ids, such as a copy.
    ///
    /// The bytes are not trusted: they are checked in one pass, and copied.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Read, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(&db.default_family(), "a", "1")?;
    /// let sent = batch.as_bytes().to_vec();
    /// db.write(&db.batch_from_bytes(&sent)?)?;
    /// assert!(db.contains("a")?);
    /// assert!(db.batch_from_bytes(b"no batch").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption`, if the bytes are not a batch; `NotFound`, if they name a family that this
    /// database lacks; `InvalidArgument`, if they exceed a limit. `Unsupported`, if they refer to a
    /// value in a separate file.
    pub fn batch_from_bytes(&self, bytes: &[u8]) -> Result<WriteBatch> {
        let bytes = BatchBytes::decode(bytes)?;
        let mut last = None;
        for operation in bytes.operations() {
            let family = Operation::try_from(operation?)?.family;
            if last != Some(family) {
                self.family_by_id(family)?;
                last = Some(family);
            }
        }
        let open_id = Some(self.default.place.open_id);
        Ok(WriteBatch { bytes, open_id, ..WriteBatch::default() })
    }
}
