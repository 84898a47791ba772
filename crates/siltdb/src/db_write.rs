//! Writing to the default family, and batches.
//!
//! Each verb on the default family is that of [`Family`](crate::Family).

use crate::{
    batch::{WriteBatch, other_database},
    db::Db,
    key_range::KeyRange,
    operation::Operation,
    write_options::WriteOptions,
};
use siltdb_base::error::Result;
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::commit::Payload;
use std::time::Duration;

impl Db {
    /// Sets the value of a key of the default family; see [`Family::put`](crate::Family::put).
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default.put(key, value)
    }

    /// As [`Db::put`], with options of its own.
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

    /// Sets the value of a key of the default family for a time; see
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

    /// As [`Db::put_for`], with options of its own.
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

    /// Deletes a key of the default family, whether it exists or not.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete(key)
    }

    /// As [`Db::delete`], with options of its own.
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

    /// As [`Db::delete_range`], with options of its own.
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

    /// As [`Db::delete_prefix`], with options of its own.
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

    /// Hands `operand` to the default family's merge operator; see [`WriteBatch::merge`].
    ///
    /// # Errors
    /// As [`Family::merge`](crate::Family::merge).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default.merge(key, operand)
    }

    /// As [`Db::merge`], with options of its own.
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

    /// Applies a batch: all of it or nothing, also across a crash. Durable as the database was
    /// opened for. The batch can be used again, unless it creates or drops families.
    ///
    /// # Errors
    /// As [`Family::put`](crate::Family::put); `InvalidArgument`, if it merges in a family without
    /// a merge operator, or names families of another open database; `AlreadyExists`, if it creates
    /// a family of a name that another has, or that was created before: nothing of it was written
    /// then; after `Poisoned` too the batch is there as a whole or not at all.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::new())
    }

    /// Applies a batch with options of its own. An empty one that asks to be synced does what
    /// [`Db::sync_wal`] does.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if !batch.is_empty() && batch.open_id != Some(self.default.place.open_id) {
            return Err(other_database());
        }
        if !batch.changes.is_empty() {
            return self.engine().commit_with_families(&batch.bytes, &batch.changes);
        }
        self.engine().commit(&Payload::batch(&batch.bytes), options.durability)
    }

    /// The batch of bytes that [`WriteBatch::as_bytes`] gave, to be written to this database:
    /// the one it was made for, or one whose families have the same ids, as those of a copy do.
    ///
    /// The bytes may come from anywhere: they are checked in one pass, and copied.
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
    /// `Corruption`, if they are no batch; `NotFound`, if they name a family that this database
    /// does not have; `InvalidArgument`, if they exceed a limit; `Unsupported`, if they refer to a
    /// value that lies in a file.
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
