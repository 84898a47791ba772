//! Many operations that happen together or not at all.
//!
//! A batch holds the bytes that the log stores, so committing copies them once.

use crate::family::{Family, whole_ms};
use siltdb_base::{
    error::{Error, Result},
    id::FamilyId,
};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::instance::Instance;
use std::time::{Duration, SystemTime};

/// Operations over any number of families of one open database, applied atomically and in order by
/// [`Db::write`](crate::Db::write).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// # let users = db.create_family("users", siltdb::FamilyOptions::new())?;
/// use siltdb::WriteBatch;
///
/// let mut batch = WriteBatch::new();
/// batch.put(&users, b"alice", b"1")?;
/// batch.delete(&users, b"bob")?;
/// db.write(&batch)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    pub(crate) bytes: BatchBytes,
    /// Whose families it names, if it holds anything.
    pub(crate) instance: Option<Instance>,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes whose families the batch names, and says which one this is there.
    #[inline]
    fn id_of(&mut self, family: &Family) -> Result<FamilyId> {
        let instance = Some(family.place.instance);
        if self.instance != instance {
            if !self.is_empty() {
                return Err(other_database());
            }
            self.instance = instance;
        }
        Ok(family.id())
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `InvalidArgument`, if key, value or batch get too long, or if the family is of another open
    /// database than those that the batch names; the batch is then as before.
    pub fn put(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let id = self.id_of(family)?;
        self.bytes.put(id, key.as_ref(), value.as_ref())
    }

    /// Sets the value of a key for a time, counted from now by the clock of the family's database,
    /// in whole milliseconds. After it the key reads as deleted; see [`WriteBatch::put_until`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Read, WriteBatch};
    /// use std::time::Duration;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put_for(&db.default_family(), b"session", b"alice", Duration::from_secs(3600))?;
    /// batch.put_for(&db.default_family(), b"gone", b"at once", Duration::ZERO)?;
    /// db.write(&batch)?;
    /// assert!(db.contains(b"session")? && !db.contains(b"gone")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`WriteBatch::put`]; a value may be 8 bytes shorter than one that does not expire.
    pub fn put_for(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        let expiry_ms = family.expiry_ms(time);
        self.put_expiring(family, key.as_ref(), value.as_ref(), expiry_ms)
    }

    /// Sets the value of a key until `expiry`, in whole milliseconds. From then on the key reads as
    /// deleted, also if the clock goes back. An iterator judges when it comes to the key. Operands
    /// that are merged into the value do not expire with it.
    ///
    /// # Errors
    /// As [`WriteBatch::put_for`].
    pub fn put_until(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: SystemTime,
    ) -> Result<()> {
        // Before 1970 is as good as at its begin.
        let since_1970 = expiry.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.put_expiring(family, key.as_ref(), value.as_ref(), whole_ms(since_1970))
    }

    fn put_expiring(
        &mut self,
        family: &Family,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<()> {
        let id = self.id_of(family)?;
        self.bytes.put_expiring(id, key, value, expiry_ms)
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        let id = self.id_of(family)?;
        self.bytes.delete(id, key.as_ref())
    }

    /// Deletes a key that was put exactly once since its last single delete, or ever, and neither
    /// deleted, merged nor put with an expiry; the two vanish together at the next compaction that
    /// meets both. On any other key an older value may come back.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn single_delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        let id = self.id_of(family)?;
        self.bytes.single_delete(id, key.as_ref())
    }

    /// Deletes every key from `start` up to, but not including, `end`. Costs the same for any
    /// number of keys. An empty range does nothing.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete_range(
        &mut self,
        family: &Family,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let id = self.id_of(family)?;
        self.bytes.delete_range(id, start.as_ref(), end.as_ref())
    }

    /// Hands `operand` to the family's merge operator, which combines it with the value when the
    /// key is read or compacted. Writing the batch fails if the family has none.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn merge(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let id = self.id_of(family)?;
        self.bytes.merge(id, key.as_ref(), operand.as_ref())
    }

    /// How many operations it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.count() as usize
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its size in the log, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.as_bytes().len()
    }

    /// Removes all operations and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// What a batch is told that does not belong where it is used.
pub(crate) fn other_database() -> Error {
    Error::invalid("a batch names families of another open database")
        .with_hint("a batch is made for one database, from when it is opened to when it is closed")
}
