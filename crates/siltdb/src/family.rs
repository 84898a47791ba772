//! A family: a named ordered map inside a database.
//!
//! A handle is cheap to clone and stays valid when the family is renamed.

use crate::{
    deletion::Deletion,
    key_range::{KeyRange, read_range},
    options::FamilyOptions,
    read::Read,
    source::{Pinned, ReadPlace, ReadSource},
    write_options::WriteOptions,
};
use siltdb_base::{error::Result, id::FamilyId, key::EntryKind, slice::Pinnable};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::{
    commit::Payload,
    options::Durability,
    stats::{Stats, family_stats},
};
use siltdb_tree::{options::TreeOptions, read::range_size::RangeSize};
use std::{fmt, time::Duration};

/// A handle on a family. It keeps the database open, and its directory locked; after the family was
/// dropped it keeps the files of the family, and its calls fail with `NotFound`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{FamilyOptions, Read};
///
/// let users = db.create_family("users", FamilyOptions::new())?;
/// users.put(b"alice", b"1")?;
/// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(db.get(b"alice")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Family {
    pub(crate) place: ReadPlace,
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.place).finish()
    }
}

impl Family {
    /// The number that names the family for good, also when it is renamed; no other family of the
    /// database ever gets it. 0 is the default family.
    #[must_use]
    pub fn id(&self) -> FamilyId {
        self.place.family.id
    }

    /// What it is called now.
    #[must_use]
    pub fn name(&self) -> String {
        self.place.family.name().to_string()
    }

    /// Sets the value of a key. Durable as the database was opened for.
    ///
    /// A buffered put costs a copy into the log and an insert into memory; as a rule it makes no
    /// system call where the log can be mapped (see [`LogIo`](crate::LogIo)).
    ///
    /// # When writes wait
    /// Writers that are faster than flushes and compactions are slowed down, by naps of up to
    /// 30 ms, and wait where memory or the levels are full until there is room;
    /// [`Stats`](crate::Stats) tells how often and for how long. Without
    /// [`Options::workers`](crate::Options::workers) whoever has to wait runs a job instead.
    ///
    /// # Errors
    /// `InvalidArgument`, if key or value are too long; `NotFound`, if the family was dropped;
    /// `NoSpace`, `Poisoned`, `Closed`; the system's; where there is no room, what the job failed
    /// with that would have made some, such as `Corruption` of a table. Nothing was then written,
    /// except that after `Poisoned` it may be visible, and found or not when the database is
    /// reopened.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.apply(EntryKind::Put, key.as_ref(), value.as_ref())
    }

    /// Sets the value of a key with options of its own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Durability, WriteOptions};
    ///
    /// let synced = WriteOptions::new().durability(Durability::Synced);
    /// db.default_family().put_with(b"order:7", b"paid", &synced)?;
    /// // It survives a power loss from here on.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.apply_with(EntryKind::Put, key.as_ref(), value.as_ref(), options.durability)
    }

    /// Sets the value of a key for a time; see [`WriteBatch::put_for`](crate::WriteBatch::put_for).
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        self.put_for_with(key, value, time, &WriteOptions::new())
    }

    /// Sets the value of a key for a time with options of its own.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_for_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
        options: &WriteOptions,
    ) -> Result<()> {
        let expiry = self.expiry_ms(time).to_le_bytes();
        let payload = [&expiry[..], value.as_ref()].concat();
        self.apply_with(EntryKind::PutExpiring, key.as_ref(), &payload, options.durability)
    }

    /// Deletes a key, whether it exists or not. Durable as the database was opened for.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.apply(EntryKind::Delete, key.as_ref(), b"")
    }

    /// Deletes a key with options of its own.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.apply_with(EntryKind::Delete, key.as_ref(), b"", options.durability)
    }

    /// Deletes every key of a range, with bounds of any kind, at the cost of one write; one without
    /// an end writes 128 KiB. A range without keys writes nothing. The space comes back as
    /// compactions come by; tables that lie within the range go unread.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// for key in ["a", "b", "c", "d"] {
    ///     db.put(key, "")?;
    /// }
    /// db.delete_range("a"..="b")?;
    /// db.delete_range("d"..)?;
    /// let keys: siltdb::Result<Vec<_>> = db.iter()?.keys().collect();
    /// assert_eq!(keys?, [b"c"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_all(&Deletion::of(&range), &WriteOptions::new())
    }

    /// Deletes every key of a range with options of its own.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_range_with(&self, range: impl KeyRange, options: &WriteOptions) -> Result<()> {
        self.delete_all(&Deletion::of(&range), options)
    }

    /// Deletes every key that begins with `prefix`. Costs as [`Family::delete_range`]; only a
    /// prefix that is empty or holds nothing but bytes 0xff has no end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// for key in ["user:1", "user:2", "user;"] {
    ///     db.put(key, "")?;
    /// }
    /// db.delete_prefix("user:")?;
    /// assert_eq!(db.first()?.unwrap().0, b"user;");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_with(prefix, &WriteOptions::new())
    }

    /// Deletes every key that begins with `prefix` with options of its own.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.delete_all(&Deletion::of_prefix(prefix.as_ref()), options)
    }

    /// Deletes every key of the family, in one write, as [`Family::delete_range`] does without
    /// bounds: snapshots still see them, and other writes come before or after it. What is to go
    /// for good, with its options and its name, [`Db::drop_family`](crate::Db::drop_family) drops
    /// for less.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// db.put("a", "1")?;
    /// let before = db.snapshot();
    /// db.default_family().clear()?;
    /// assert!(db.is_empty()? && before.contains("a")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn clear(&self) -> Result<()> {
        self.delete_prefix(b"")
    }

    fn delete_all(&self, deletion: &Deletion, options: &WriteOptions) -> Result<()> {
        match deletion {
            Deletion::Nothing => self.place.engine.check_writable(&self.place.family),
            Deletion::Before { start, end } => {
                self.apply_with(EntryKind::RangeDelete, start, end, options.durability)
            }
            Deletion::Through { .. } => {
                self.place.engine.check_writable(&self.place.family)?;
                let mut bytes = BatchBytes::new();
                deletion.add_to(&mut bytes, self.id())?;
                self.place.engine.commit(&Payload::batch(&bytes), options.durability)
            }
        }
    }

    /// Hands `operand` to the family's merge operator; see
    /// [`WriteBatch::merge`](crate::WriteBatch::merge).
    ///
    /// # Errors
    /// As [`Family::put`]; `InvalidArgument`, if the family has no merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.apply(EntryKind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Hands `operand` to the family's merge operator with options of its own.
    ///
    /// # Errors
    /// As [`Family::merge`].
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.apply_with(EntryKind::Merge, key.as_ref(), operand.as_ref(), options.durability)
    }

    /// When a value expires that is to be there for `time` from now on.
    pub(crate) fn expiry_ms(&self, time: Duration) -> u64 {
        self.place.engine.options.clock.wall_ms().saturating_add(whole_ms(time))
    }

    /// Its options as they are now. [`FamilyOptions::entries`] lists them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::FamilyOptions;
    ///
    /// let logs = db.create_family("logs", FamilyOptions::new().block_bytes(16 << 10))?;
    /// assert_eq!(logs.options().get("block_bytes")?, "16384");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn options(&self) -> FamilyOptions {
        FamilyOptions { tree: TreeOptions::clone(&self.place.family.tree.options()) }
    }

    /// Gives the family other options, durably on return, while it is in use. What is written to
    /// tables from then on follows them. Tables that are there stay as they are until a compaction
    /// takes them, and blocks that it copies unread keep their size and compression.
    ///
    /// All of [`FamilyOptions`] can change but the merge operator: a family without one may get one
    /// here, and keeps it; without one in `options` it keeps its own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Compression;
    ///
    /// let family = db.default_family();
    /// family.set_options(&family.options().compression(Compression::None).level0_runs(4))?;
    /// assert_eq!(family.options().get("compression")?, "none");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if an option is out of its range, or for another merge operator than the
    /// family has; as [`Family::put`].
    pub fn set_options(&self, options: &FamilyOptions) -> Result<()> {
        self.place.engine.change_options(&self.place.family, options.tree.clone())
    }

    /// About how much a range of keys takes, in tables and in memory.
    ///
    /// It counts what is stored: versions that no reader sees any more and deletions too, and what
    /// a deleted range covers until a compaction has come by. A table that lies within the range
    /// counts as the manifest says; of one that reaches beyond, blocks count as its index says,
    /// those at the ends of the range as halves. Memory is walked over. Costs no block read, but
    /// opens the tables at the ends of the range.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// for number in 0..1000 {
    ///     db.put(format!("user:{number:04}"), "value")?;
    /// }
    /// db.flush()?;
    /// let users = db.default_family().size_of("user:".."user;")?;
    /// assert!(users.entries == 1000 && users.table_bytes > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; `Closed`; `Corruption`, if a table cannot be opened;
    /// the system's.
    pub fn size_of(&self, range: impl KeyRange) -> Result<RangeSize> {
        self.place.engine.range_size(&self.place.family, read_range(&range))
    }

    /// Writes what the family has in memory to tables; returns when they are durable. Families
    /// share memtables that are frozen together, so that what others have there is written, too. If
    /// this one has nothing there, nothing is written.
    ///
    /// This is not a sync: what was committed survives a power loss after
    /// [`Db::sync_wal`](crate::Db::sync_wal) as well, for far less.
    ///
    /// # Errors
    /// `NotFound`, if it was dropped; as [`Db::flush`](crate::Db::flush).
    pub fn flush(&self) -> Result<()> {
        self.place.engine.flush_family(&self.place.family)
    }

    /// As [`Family::compact`], for the tables that hold keys of a range; they are merged whole,
    /// also where they reach beyond. Compactions that run already are waited for.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// db.put("log:1", "line")?;
    /// db.delete_prefix("log:")?;
    /// db.default_family().compact_range("log:".."log;")?;
    /// assert_eq!(db.default_family().size_of(..)?.entries, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compact`].
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.place.engine.compact_range(&self.place.family, read_range(&range))
    }

    /// What the family holds, counted now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        family_stats(&self.place.family)
    }

    #[inline]
    fn apply(&self, kind: EntryKind, key: &[u8], value: &[u8]) -> Result<()> {
        self.apply_with(kind, key, value, None)
    }

    #[inline]
    fn apply_with(
        &self,
        kind: EntryKind,
        key: &[u8],
        value: &[u8],
        durability: Option<Durability>,
    ) -> Result<()> {
        let operation = Payload::one(&self.place.family, kind, key, value);
        self.place.engine.commit(&operation, durability)
    }

    /// Merges all tables of the family into the deepest level and forgets what nobody can see.
    /// Writes what is in memory first; the other families stay as they are. A compaction that runs
    /// already, and whose tables would be merged again, is given up. What is written to the
    /// family meanwhile need not get there. Tables of which the same would be written again stay as
    /// they are, and are not read: [`check`](crate::check) is what looks for damage.
    ///
    /// # Errors
    /// `NotFound`, if it was dropped; `NoSpace`, `Poisoned`, `Closed`; `Corruption`, if a table is
    /// damaged; the system's.
    pub fn compact(&self) -> Result<()> {
        self.place.engine.compact(&self.place.family)
    }
}

impl ReadSource for Family {
    #[inline]
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        self.place.look(key, look)
    }

    fn pin(&self) -> Result<Pinned> {
        self.place.pin()
    }
}

impl Read for Family {}

/// Whole milliseconds, rounded up.
pub(crate) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
