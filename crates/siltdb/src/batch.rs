//! Many operations that happen together or not at all.
//!
//! A batch holds the bytes that the log stores, so committing copies them once.

use crate::family::Family;
use siltdb_base::error::Result;
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::options::Durability;

/// Operations over any number of families, applied atomically and in order by
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
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `InvalidArgument`, if key, value or batch get too long; the batch is then as before.
    pub fn put(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.bytes.put(family.id(), key.as_ref(), value.as_ref())
    }

    /// Sets the value of a key until `expiry_ms`, in milliseconds since 1970 (UTC). From then on
    /// the key reads as deleted.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn put_expiring(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry_ms: u64,
    ) -> Result<()> {
        self.bytes.put_expiring(family.id(), key.as_ref(), value.as_ref(), expiry_ms)
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        self.bytes.delete(family.id(), key.as_ref())
    }

    /// Deletes a key that was put exactly once since its last single delete, or ever, and neither
    /// deleted, merged nor put with an expiry; the two vanish together at the next compaction that
    /// meets both. On any other key an older value may come back.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn single_delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        self.bytes.single_delete(family.id(), key.as_ref())
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
        self.bytes.delete_range(family.id(), start.as_ref(), end.as_ref())
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
        self.bytes.merge(family.id(), key.as_ref(), operand.as_ref())
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

/// How one write differs from the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
}

impl WriteOptions {
    /// As the database was opened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When this write counts as done.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}
