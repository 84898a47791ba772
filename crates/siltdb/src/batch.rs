//! Many operations that happen together or not at all.
//!
//! A batch holds the bytes that the log stores, so committing copies them once.

use crate::{
    deletion::Deletion,
    family::{Family, whole_ms},
    key_range::KeyRange,
    operation::Operations,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FamilyId,
};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::{
    catalog::family::{DEFAULT_FAMILY, FamilyChanges},
    open_id::OpenId,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

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
    pub(crate) open_id: Option<OpenId>,
    /// The families that it creates and drops.
    pub(crate) changes: FamilyChanges,
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
        let open_id = Some(family.place.open_id);
        if self.open_id != open_id {
            if !self.is_empty() {
                return Err(other_database());
            }
            self.open_id = open_id;
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

    /// Deletes every key of a range, with bounds of any kind. Costs the same for any number of
    /// keys: one operation, but two and 128 KiB for a range without an end. A range without keys
    /// adds nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// # let logs = db.create_family("logs", siltdb::FamilyOptions::new())?;
    /// use siltdb::{Read, WriteBatch};
    ///
    /// for day in ["2026-01-01", "2026-01-02", "2026-02-01"] {
    ///     logs.put(day, "")?;
    /// }
    /// let mut batch = WriteBatch::new();
    /// batch.delete_range(&logs, ..="2026-01-02")?;
    /// batch.put(&logs, "2026-02-02", "")?;
    /// db.write(&batch)?;
    /// assert_eq!(logs.first()?.unwrap().0, b"2026-02-01");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete_range(&mut self, family: &Family, range: impl KeyRange) -> Result<()> {
        self.delete_all(family, &Deletion::of(&range))
    }

    /// Deletes every key that begins with `prefix`. Costs as [`WriteBatch::delete_range`]; only a
    /// prefix that is empty or holds nothing but bytes 0xff has no end.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete_prefix(&mut self, family: &Family, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_all(family, &Deletion::of_prefix(prefix.as_ref()))
    }

    /// How many bytes and operations it has, so that it can be cut to that again.
    pub(crate) fn mark(&self) -> (usize, u32) {
        (self.bytes(), self.bytes.count())
    }

    /// Drops what was added since it had `bytes` bytes and `count` operations.
    pub(crate) fn truncate(&mut self, bytes: usize, count: u32) {
        self.bytes.truncate(bytes, count);
    }

    fn delete_all(&mut self, family: &Family, deletion: &Deletion) -> Result<()> {
        let id = self.id_of(family)?;
        deletion.add_to(&mut self.bytes, id)
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

    /// Creates a family that [`Db::prepare_family`](crate::Db::prepare_family) has prepared, when
    /// the batch is written: after a crash both the family and the operations of the batch are
    /// there, or neither. The batch may write to the family, also before this call.
    ///
    /// A batch with changes of families is durable as with
    /// [`Durability::Synced`](crate::Durability::Synced), whatever is asked for: a dropped family's
    /// files are removed, and nothing may bring it back. Beyond that sync, writing it costs one
    /// edit of the manifest. It can be written once.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{FamilyOptions, Read, WriteBatch};
    ///
    /// let users = db.prepare_family("users", FamilyOptions::new())?;
    /// let mut batch = WriteBatch::new();
    /// batch.create_family(&users)?;
    /// batch.put(&db.default_family(), "table:users", "id, name")?;
    /// batch.put(&users, "1", "alice")?;
    /// db.write(&batch)?;
    /// assert!(db.family("users")?.contains("1")?);
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.drop_family(&users)?;
    /// batch.delete(&db.default_family(), "table:users")?;
    /// db.write(&batch)?;
    /// assert_eq!(db.families(), ["default"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists`, if the family, or another of its name, is among those that the batch
    /// creates, or if it was created before; as [`WriteBatch::put`].
    pub fn create_family(&mut self, family: &Family) -> Result<()> {
        self.id_of(family)?;
        let name = family.name();
        let mut created = self.changes.created.iter();
        let is_taken = created.any(|other| other.id == family.id() || *other.name() == *name);
        if is_taken || family.place.family.was_created() {
            let message = format!("family {name:?} exists, or the batch creates it");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.changes.created.push(Arc::clone(&family.place.family));
        Ok(())
    }

    /// Drops a family when the batch is written, after its operations: after a crash both the drop
    /// and the operations have happened, or neither. What then holds of the family is said at
    /// [`Db::drop_family`](crate::Db::drop_family). A batch may drop a family and create one of the
    /// same name.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped before, also by the batch, or was not created;
    /// `InvalidArgument`, for the default family; as [`WriteBatch::put`].
    pub fn drop_family(&mut self, family: &Family) -> Result<()> {
        let id = self.id_of(family)?;
        family.place.family.check()?;
        if family.name() == DEFAULT_FAMILY {
            return Err(Error::invalid("the default family cannot be dropped"));
        }
        if self.changes.dropped.contains(&id) {
            return Err(Error::new(ErrorKind::NotFound, "the batch drops the family already"));
        }
        self.changes.dropped.push(id);
        Ok(())
    }

    /// Its operations, in the order in which they are applied; changes of families are not among
    /// them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Action, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(&db.default_family(), "a", "1")?;
    /// batch.delete(&db.default_family(), "b")?;
    /// let keys: Vec<_> = batch.operations().map(|operation| operation.key).collect();
    /// assert_eq!(keys, [b"a", b"b"]);
    /// assert_eq!(batch.operations().next().unwrap().action, Action::Put(b"1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn operations(&self) -> Operations<'_> {
        Operations::new(self.bytes.operations())
    }

    /// Its operations as bytes, for [`Db::batch_from_bytes`](crate::Db::batch_from_bytes), without
    /// changes of families. They name families by their ids, and hold no checksum: what stores or
    /// sends them has to notice damage.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_bytes()
    }

    /// How many operations it holds; changes of families are not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.count() as usize
    }

    /// Whether it holds neither operations nor changes of families.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.changes.is_empty()
    }

    /// The size of its operations in the log, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.as_bytes().len()
    }

    /// Removes all operations and changes of families, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes = FamilyChanges::default();
    }
}

/// What a batch is told that does not belong where it is used.
pub(crate) fn other_database() -> Error {
    Error::invalid("a batch names families of another open database")
        .with_hint("a batch is made for one database, from when it is opened to when it is closed")
}
