//! Write batches: operations that commit atomically.
//!
//! A batch holds the bytes that the log stores, so a commit copies them once.

use crate::{
    deletion::Deletion, family::Family, key_range::KeyRange, operation::Operations,
    source::whole_ms, write_options::WriteOptions,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FamilyId,
};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::{
    catalog::branches::FamilyRole,
    catalog::family::{DEFAULT_FAMILY, FamilyChanges, FamilyData},
    kit::open_id::OpenId,
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Operations over any number of families of one open database. [`Db::write`](crate::Db::write)
/// applies them atomically and in order.
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
#[derive(Clone, Default)]
pub struct WriteBatch {
    pub(crate) bytes: BatchBytes,
    /// The open database whose families the batch names; `None` if the batch is empty.
    pub(crate) open_id: Option<OpenId>,
    /// The families that the batch creates and drops.
    pub(crate) changes: FamilyChanges,
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("WriteBatch");
        fields.field("operations", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

/// The length of a batch at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchMark {
    bytes: usize,
    count: u32,
    created: usize,
    dropped: usize,
}

impl WriteBatch {
    /// Creates an empty batch, which allocates nothing before its first operation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records the open database of `family`, and returns the family's id there.
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

    /// Sets the value of a key. In a family with a [TTL](crate::FamilyOptions::ttl) it expires
    /// after that time, as with [`WriteBatch::put_for`].
    ///
    /// # Errors
    /// `InvalidArgument`, if key, value or batch are too long, or if the family belongs to another
    /// open database than the families before. The batch is then unchanged.
    pub fn put(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_at(family, key.as_ref(), value.as_ref(), family.place.ttl_expiry_ms())
    }

    /// Sets the value of a key, with the expiry of `options`, of which the durability does not
    /// count: the write of the batch has its own.
    ///
    /// # Errors
    /// As [`WriteBatch::put_for`].
    pub fn put_with(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let expiry_ms = options.expiry_rule.expiry_ms(&family.place);
        self.put_at(family, key.as_ref(), value.as_ref(), expiry_ms)
    }

    /// Sets the value of a key with this expiry, in ms since 1970, or without one.
    pub(crate) fn put_at(
        &mut self,
        family: &Family,
        key: &[u8],
        value: &[u8],
        expiry_ms: Option<u64>,
    ) -> Result<()> {
        match expiry_ms {
            None => self.put_lasting(family, key, value),
            Some(expiry_ms) => self.put_expiring(family, key, value, expiry_ms),
        }
    }

    /// Sets the value of a key without an expiry, whatever the TTL of the family: what it holds
    /// must not come back to an earlier state.
    pub(crate) fn put_lasting(&mut self, family: &Family, key: &[u8], value: &[u8]) -> Result<()> {
        let id = self.id_of(family)?;
        self.bytes.put(id, key, value)
    }

    /// Sets the value of a key, which expires after `time`. The time counts from this call, by the
    /// clock of the family's database, in whole milliseconds. An expired key reads as deleted; see
    /// [`WriteBatch::put_until`].
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
    /// As [`WriteBatch::put`]. The longest value is 8 bytes shorter than one without expiry.
    pub fn put_for(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        let expiry_ms = family.place.expiry_ms(time);
        self.put_expiring(family, key.as_ref(), value.as_ref(), expiry_ms)
    }

    /// Sets the value of a key, which expires at `expiry`, in whole milliseconds. From then on the
    /// key reads as deleted, also if the clock is set back. An iterator compares the expiry with
    /// the time at which it reaches the key. Operands that are merged into the value do not expire
    /// with it.
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
        // A time before 1970 expires the value at once, as 0 does.
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

    /// Deletes a key that was put exactly once since its last single delete, or ever. The key must
    /// not have been deleted, merged or put with an expiry. The next compaction that has both
    /// entries drops them together. On any other key an older value may reappear. In a family with
    /// a TTL, where values have an expiry, this is a [`delete`](Self::delete).
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn single_delete(&mut self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        if family.place.ttl_expiry_ms().is_some() {
            return self.delete(family, key);
        }
        let id = self.id_of(family)?;
        self.bytes.single_delete(id, key.as_ref())
    }

    /// Deletes every key of a range with bounds of any kind. The cost does not depend on the number
    /// of keys: it is one operation. A range without an end takes two operations and 128 KiB. An
    /// empty range adds nothing.
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

    /// Deletes every key that begins with `prefix`. Costs as [`WriteBatch::delete_range`]. Only a
    /// prefix that is empty or all 0xff bytes makes a range without an end.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete_prefix(&mut self, family: &Family, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_all(family, &Deletion::of_prefix(prefix.as_ref()))
    }

    /// Returns the present length, for [`WriteBatch::truncate`].
    pub(crate) fn mark(&self) -> BatchMark {
        let FamilyChanges { created, dropped, .. } = &self.changes;
        BatchMark {
            bytes: self.bytes(),
            count: self.bytes.count(),
            created: created.len(),
            dropped: dropped.len(),
        }
    }

    /// Removes what was added since `mark`.
    pub(crate) fn truncate(&mut self, mark: BatchMark) {
        self.bytes.truncate(mark.bytes, mark.count);
        self.changes.created.truncate(mark.created);
        self.changes.dropped.truncate(mark.dropped);
    }

    /// Succeeds if the batch is empty or of this open database.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_database(&self, open_id: OpenId) -> Result<()> {
        match self.is_empty() || self.open_id == Some(open_id) {
            true => Ok(()),
            false => Err(other_database()),
        }
    }

    /// Succeeds if the batch changes no families.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_operations_alone(&self) -> Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        Err(Error::invalid("what is prepared cannot create or drop families")
            .with_hint("change them in a transaction of its own"))
    }

    /// Whether the batch creates the family.
    pub(crate) fn creates(&self, id: FamilyId) -> bool {
        self.changes.created.iter().any(|family| family.id == id)
    }

    /// Adds all operations and changes of families of another batch, behind those of this one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::WriteBatch;
    ///
    /// let (mut all, mut more) = (WriteBatch::new(), WriteBatch::new());
    /// all.put(&db.default_family(), "a", "1")?;
    /// more.delete(&db.default_family(), "b")?;
    /// all.append(&more)?;
    /// assert_eq!((all.len(), more.len()), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if it is of another open database, or both are too long together;
    /// `AlreadyExists` and `NotFound`, if both create or drop the same family. After an error
    /// nothing was added.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        if self.open_id.is_some() && other.open_id.is_some() && self.open_id != other.open_id {
            return Err(other_database());
        }
        let FamilyChanges { created, dropped, .. } = &other.changes;
        let is_created = |new: &&Arc<FamilyData>| {
            let mut known = self.changes.created.iter();
            known.any(|family| family.id == new.id || *family.name() == *new.name())
        };
        if let Some(family) = created.iter().find(is_created) {
            return Err(created_before(&family.name()));
        }
        if dropped.iter().any(|id| self.changes.dropped.contains(id)) {
            return Err(dropped_before());
        }
        self.bytes.append(&other.bytes)?;
        self.changes.created.extend(created.iter().cloned());
        self.changes.dropped.extend(dropped);
        self.open_id = self.open_id.or(other.open_id);
        Ok(())
    }

    fn delete_all(&mut self, family: &Family, deletion: &Deletion) -> Result<()> {
        let id = self.id_of(family)?;
        deletion.add_to(&mut self.bytes, id)
    }

    /// Writes a merge operand for a key. The family's merge operator combines it with the value
    /// when the key is read or compacted. Writing the batch fails if the family has no merge
    /// operator.
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

    /// Creates a prepared family when the batch is written; see
    /// [`Db::prepare_family`](crate::Db::prepare_family). After a crash, both the family and the
    /// operations of the batch are there, or neither. The batch may write to the family before this
    /// call, too.
    ///
    /// A batch that creates or drops families commits as with
    /// [`Durability::Synced`](crate::Durability::Synced), whatever its options say. Because the
    /// files of a dropped family are removed, no power loss may bring the family back. Besides the
    /// sync, the write costs one edit of the manifest. The batch can be written once.
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
    /// `AlreadyExists`, if the batch already creates the family or another of its name, or if the
    /// family was created before; as [`WriteBatch::put`].
    pub fn create_family(&mut self, family: &Family) -> Result<()> {
        self.id_of(family)?;
        let name = family.name();
        let mut created = self.changes.created.iter();
        let is_taken = created.any(|other| other.id == family.id() || *other.name() == *name);
        if is_taken || family.place.family.was_created() {
            return Err(created_before(&name));
        }
        self.changes.created.push(Arc::clone(&family.place.family));
        Ok(())
    }

    /// Drops a family when the batch is written, after its operations. After a crash, both the drop
    /// and the operations have happened, or neither. [`Db::drop_family`](crate::Db::drop_family)
    /// describes the effect on handles and iterators. A batch may drop a family and create one of
    /// the same name.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped before, by this batch or otherwise, or was never
    /// created; `InvalidArgument`, for the default family or one of a branch; as
    /// [`WriteBatch::put`].
    pub fn drop_family(&mut self, family: &Family) -> Result<()> {
        let id = self.id_of(family)?;
        family.place.family.check()?;
        if family.place.family.role != FamilyRole::Own {
            return Err(Error::invalid("a family of a branch cannot be dropped alone")
                .with_hint("drop the branch"));
        }
        if family.name() == DEFAULT_FAMILY {
            return Err(Error::invalid("the default family cannot be dropped"));
        }
        if self.changes.dropped.contains(&id) {
            return Err(dropped_before());
        }
        self.changes.dropped.push(id);
        Ok(())
    }

    /// Returns the operations in the order in which they apply, without the changes of families.
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

    /// Returns the operations as bytes, for [`Db::batch_from_bytes`](crate::Db::batch_from_bytes),
    /// without the changes of families. The bytes name families by id and have no checksum: their
    /// storage or transport has to detect damage.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_bytes()
    }

    /// Returns the number of operations; changes of families do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.count() as usize
    }

    /// Returns whether the batch has neither operations nor changes of families.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.changes.is_empty()
    }

    /// Returns the size of the operations in the log, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.as_bytes().len()
    }

    /// Removes all operations and changes of families. The allocated memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes = FamilyChanges::default();
    }
}

fn created_before(name: &str) -> Error {
    let message = format!("family {name:?} exists, or the batch creates it");
    Error::new(ErrorKind::AlreadyExists, message)
}

fn dropped_before() -> Error {
    Error::new(ErrorKind::NotFound, "the batch drops the family already")
}

/// The error for families, transactions or batches of another open database.
pub(crate) fn other_database() -> Error {
    Error::invalid("a batch names families of another open database")
        .with_hint("a batch is made for one database, from when it is opened to when it is closed")
}
