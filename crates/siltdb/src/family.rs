//! Families: named ordered maps inside a database.
//!
//! A handle is cheap to clone, and stays valid when the family is renamed.

use crate::{
    deletion::Deletion,
    expiry::Expiry,
    key_order::KeyOrder,
    key_range::{KeyRange, read_range},
    options::FamilyOptions,
    read::Read,
    source::{Pinned, ReadPlace, ReadSource},
    write_options::WriteOptions,
};
use siltdb_base::{error::Result, id::FamilyId, key::EntryKind, slice::Pinnable};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::{
    families::family_options::{change_options, other_key_order},
    jobs::flush::flush_family,
    options::Durability,
    read::range_size,
    stats::{Stats, family_stats},
    write::{commit::Payload, streams::put_stream},
};
use siltdb_services::compression_stats::{CompressionStats, compression_stats};
use siltdb_tree::{options::TreeOptions, read::range_size::RangeSize};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A handle on a family. It keeps the database open and its directory locked. After the family was
/// dropped, its calls fail with `NotFound`, and it keeps the files of the family.
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
        self.place.describe(f, "Family").finish()
    }
}

impl Family {
    /// Returns the id of the family. It survives renames and reopens, and no other family of the
    /// database ever gets it. 0 is the default family.
    #[must_use]
    pub fn id(&self) -> FamilyId {
        self.place.family.id
    }

    /// Returns the present name, which [`Db::rename_family`](crate::Db::rename_family) may change.
    #[must_use]
    pub fn name(&self) -> String {
        self.place.family.name().to_string()
    }

    /// Sets the value of a key, with the durability of
    /// [`Options::durability`](crate::Options::durability).
    ///
    /// A buffered put costs a copy into the log and an insert into a memtable. Where the log is
    /// mapped (see [`LogIo`](crate::LogIo)), most puts make no system call.
    ///
    /// # Write stalls
    /// Writers that are faster than flushes and compactions are delayed by up to 250 ms at a time.
    /// If memory or the levels are full, a write blocks until there is room.
    /// [`Stats`](crate::Stats) counts the stalls and their time. Without
    /// [`Options::workers`](crate::Options::workers), a write that would block runs a job instead.
    ///
    /// # Errors
    /// - `InvalidArgument`, if key or value are too long.
    /// - `NotFound`, if the family was dropped.
    /// - `NoSpace`, `Poisoned`, `Closed`, `Io`.
    /// - If a write blocks for room: the error of the job that should make it, such as `Corruption`
    ///   of a table.
    ///
    /// After an error nothing was written, except after `Poisoned`. The write may then be visible,
    /// and a reopen may find it or not.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        match self.place.ttl_expiry_ms() {
            None => self.apply(EntryKind::Put, key.as_ref(), value.as_ref()),
            Some(expiry_ms) => self.apply_expiring(key.as_ref(), value.as_ref(), expiry_ms, None),
        }
    }

    /// Sets the value of a key, with `options`.
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
        let (key, value, durability) = (key.as_ref(), value.as_ref(), options.durability);
        match options.expiry_rule.expiry_ms(&self.place) {
            None => self.apply_with(EntryKind::Put, key, value, durability),
            Some(expiry_ms) => self.apply_expiring(key, value, expiry_ms, durability),
        }
    }

    /// Sets the value of a key to `bytes` bytes that `value` gives, which need not be in memory as
    /// a whole. The value goes to a blob file, not compressed, whatever
    /// [`FamilyOptions::value_threshold`](crate::FamilyOptions::value_threshold) is. It is
    /// committed, and visible, once the stream has ended.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read as _;
    /// use std::io::Read;
    /// let family = db.default_family();
    /// family.put_reader(b"film", 3 << 20, std::io::repeat(7).take(3 << 20))?;
    /// let mut stream = family.get_reader(b"film")?.expect("it was put");
    /// assert_eq!(std::io::copy(&mut stream, &mut std::io::sink())?, 3 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::put`]; `InvalidArgument`, if the stream has fewer bytes or more; `Io`, if
    /// reading it fails.
    pub fn put_reader(
        &self,
        key: impl AsRef<[u8]>,
        bytes: u64,
        value: impl std::io::Read,
    ) -> Result<()> {
        self.put_reader_with(key, bytes, value, &WriteOptions::new())
    }

    /// The same with `options`. As for every put, they or a family with a
    /// [TTL](crate::FamilyOptions::ttl) give the value an expiry, counted from the begin of the
    /// stream.
    ///
    /// # Errors
    /// As [`Family::put_reader`].
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        bytes: u64,
        mut value: impl std::io::Read,
        options: &WriteOptions,
    ) -> Result<()> {
        let (place, key) = (&self.place, key.as_ref());
        let durability = options.durability.unwrap_or(place.engine.database().options.durability);
        let expiry_ms = options.expiry_rule.expiry_ms(place);
        put_stream(
            place.engine.writable()?,
            &place.family,
            key,
            bytes,
            expiry_ms,
            &mut value,
            durability,
        )
    }

    /// Sets the value of a key, which expires after `time`; see
    /// [`WriteBatch::put_for`](crate::WriteBatch::put_for).
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

    /// Sets the value of a key, which expires after `time`, with `options`, of which the durability
    /// counts. [`WriteOptions::ttl`] says the same to other methods.
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
        let (expiry_ms, durability) = (self.place.expiry_ms(time), options.durability);
        self.apply_expiring(key.as_ref(), value.as_ref(), expiry_ms, durability)
    }

    /// Sets the value of a key, which expires at `expiry`; see
    /// [`WriteBatch::put_until`](crate::WriteBatch::put_until).
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: SystemTime,
    ) -> Result<()> {
        self.put_with(key, value, &WriteOptions::new().expiry(Expiry::At(expiry)))
    }

    /// Deletes a key, whether it exists or not, with the durability of
    /// [`Options::durability`](crate::Options::durability).
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.apply(EntryKind::Delete, key.as_ref(), b"")
    }

    /// Deletes a key, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        options.check_no_expiry()?;
        self.apply_with(EntryKind::Delete, key.as_ref(), b"", options.durability)
    }

    /// Deletes every key of a range with bounds of any kind, at the cost of one write. A range
    /// without an end writes 128 KiB. An empty range writes nothing. Compactions reclaim the space
    /// later; they drop tables within the range without reading them.
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

    /// Deletes every key of a range, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_range_with(&self, range: impl KeyRange, options: &WriteOptions) -> Result<()> {
        options.check_no_expiry()?;
        self.delete_all(&Deletion::of(&range), options)
    }

    /// Deletes every key that begins with `prefix`. Costs as [`Family::delete_range`]. Only a
    /// prefix that is empty or all 0xff bytes makes a range without an end.
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

    /// Deletes every key that begins with `prefix`, with `options`.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        options.check_no_expiry()?;
        self.delete_all(&Deletion::of_prefix(prefix.as_ref()), options)
    }

    /// Deletes every key of the family in one write, as [`Family::delete_range`] without bounds.
    /// Snapshots still see the keys, and the write has its place in the order of all writes.
    /// [`Db::drop_family`](crate::Db::drop_family) costs less if the family's name and options are
    /// not needed again.
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
            Deletion::Nothing => self.place.check_writable(),
            Deletion::Before { start, end } => {
                self.apply_with(EntryKind::RangeDelete, start, end, options.durability)
            }
            Deletion::Through { .. } => {
                self.place.check_writable()?;
                let mut bytes = BatchBytes::new();
                deletion.add_to(&mut bytes, self.id())?;
                self.place.commit(&Payload::batch(&bytes), options.durability)
            }
        }
    }

    /// Writes a merge operand for a key; see [`WriteBatch::merge`](crate::WriteBatch::merge).
    ///
    /// # Errors
    /// As [`Family::put`]; `InvalidArgument`, if the family has no merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.apply(EntryKind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Writes a merge operand for a key, with `options`.
    ///
    /// # Errors
    /// As [`Family::merge`].
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        options.check_no_expiry()?;
        self.apply_with(EntryKind::Merge, key.as_ref(), operand.as_ref(), options.durability)
    }

    /// Returns the family, if it has the key order `given`, or none is given.
    pub(crate) fn with_order(self, given: Option<&str>) -> Result<Self> {
        let order = self.key_order();
        match given {
            Some(given) if order.name() != given => Err(other_key_order(order.name(), given)),
            _ => Ok(self),
        }
    }

    /// Returns the order of the keys, which the family has from its creation on.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{FamilyOptions, KeyOrder};
    ///
    /// let options = FamilyOptions::new().key_order(KeyOrder::of::<(u64, String)>());
    /// let events = db.create_family("events", options)?;
    /// assert_eq!(events.key_order().name(), "(u64,string)");
    /// assert_eq!(db.default_family().key_order(), KeyOrder::bytewise());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key_order(&self) -> KeyOrder {
        KeyOrder::stored(self.place.family.tree.peek_options().key_order.clone())
    }

    /// Returns the present options of the family. [`FamilyOptions::entries`] lists them.
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

    /// Changes the options of the family while it is in use, durably on return. Tables written from
    /// then on use them. Existing tables stay until a compaction rewrites them. A block that it
    /// copies without reading keeps its size and compression.
    ///
    /// Every option of [`FamilyOptions`] can change except the merge operator and the key order. A
    /// family without an operator gets that of `options`, and keeps it. If `options` has none, the
    /// family keeps its own. A new TTL holds for later writes.
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
    /// `InvalidArgument`, if an option is out of range, or if `options` has another merge operator
    /// or key order than the family; as [`Family::put`].
    pub fn set_options(&self, options: &FamilyOptions) -> Result<()> {
        let (ReadPlace { engine, family, .. }, options) = (&self.place, options.tree.clone());
        engine.at_work(|database| change_options(&database.installer(), family, options))
    }

    /// Estimates the size of a range of keys, in tables and in memory.
    ///
    /// The estimate counts stored entries: also deletions, versions that no reader sees, and
    /// deleted ranges that compactions have not reached yet. A table within the range counts in
    /// full, by the manifest. For a table that extends beyond it, blocks count by the table's
    /// index, those at the ends of the range as halves. Memtables are walked. Reads no data block,
    /// but opens the tables at the ends of the range.
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
    /// `Io`.
    pub fn size_of(&self, range: impl KeyRange) -> Result<RangeSize> {
        let ReadPlace { engine, family, .. } = &self.place;
        range_size(&engine.database().health, family, read_range(&range))
    }

    /// Writes the family's memtables to tables, and returns when these are durable. The memtables
    /// of all families are frozen together, so those of others are written, too. If this family has
    /// nothing in memory, nothing is written.
    ///
    /// A flush is not needed for durability: [`Db::sync_wal`](crate::Db::sync_wal) makes commits
    /// survive a power loss at far less cost.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; as [`Db::flush`](crate::Db::flush).
    pub fn flush(&self) -> Result<()> {
        let ReadPlace { engine, family, .. } = &self.place;
        engine.at_work(|database| flush_family(&database.job_rooms(), family))
    }

    /// Returns counts and sizes of the family, computed by this call.
    #[must_use]
    pub fn stats(&self) -> Stats {
        family_stats(&self.place.family)
    }

    /// Returns how much the tables of the family hold, by codec, as
    /// [`Db::compression_stats`](crate::Db::compression_stats).
    #[must_use]
    pub fn compression_stats(&self) -> Vec<CompressionStats> {
        compression_stats([Arc::clone(&self.place.family.tree.view().version)])
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
        self.place.commit(&operation, durability)
    }

    fn apply_expiring(
        &self,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
        durability: Option<Durability>,
    ) -> Result<()> {
        let payload = [&expiry_ms.to_le_bytes()[..], value].concat();
        self.apply_with(EntryKind::PutExpiring, key, &payload, durability)
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
