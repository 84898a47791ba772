//! The trait of everything that can be read: a database, a family, a snapshot, a transaction.
//!
//! An implementation provides the value of one key and a pinned view; all methods build on these
//! two. So a source with writes of its own on top can implement it as well.

use crate::{
    expiry::Expiry,
    iter::{Cursor, Iter},
    key_range::KeyRange,
    read_options::ReadOptions,
    source::ReadSource,
};
use siltdb_base::{error::Result, slice::Slice};
use siltdb_engine::read::stream::ValueStream;
use std::ops::ControlFlow;

/// Reads from a [`Db`](crate::Db) (its default family), a [`Family`](crate::Family), a
/// [`Snapshot`](crate::Snapshot) or a [`Transaction`](crate::Transaction).
///
/// Each call reads one consistent state: that of the snapshot, or else the present one. A deleted
/// or expired key is absent.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::Read;
///
/// fn total(source: &impl Read) -> siltdb::Result<usize> {
///     source.prefix(b"order:")?.try_fold(0, |sum, pair| Ok(sum + pair?.1.len()))
/// }
///
/// db.put(b"order:1", b"abc")?;
/// db.put(b"order:2", b"de")?;
/// let before = db.snapshot();
/// db.delete(b"order:1")?;
/// assert_eq!((total(&db)?, total(&before)?), (2, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Read: ReadSource {
    /// Returns the value of a key, without a copy if it lies in a table.
    ///
    /// Reads at most one block for each level and each run of level 0 that the filters do not
    /// exclude. The first read of a table also opens it. The value pins its block in memory until
    /// it is dropped.
    ///
    /// # Errors
    /// `Corruption` with file and offset; `Closed`; `NotFound`, if the family was dropped; the
    /// error of the merge operator; `Io`.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.look(key.as_ref(), |value| value.pin())
    }

    /// Calls `look` with the value of a key, in place, and returns its result; `None` if the key
    /// has no value.
    ///
    /// Costs less than [`Read::get`], because the value is neither copied nor pinned beyond the
    /// call. `look` may use the database, but what it reads there may be newer.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// db.put(b"visits", &7_u64.to_le_bytes())?;
    /// let visits = db.read(b"visits", |value| u64::from(value[0]))?;
    /// assert_eq!(visits, Some(7));
    /// assert_eq!(db.read(b"sales", |value| value.len())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn read<R>(&self, key: impl AsRef<[u8]>, look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.look(key.as_ref(), |value| look(value.bytes()))
    }

    /// Returns the values of many keys in the order of `keys`, all from one consistent state. The
    /// keys come in any order, also more than once.
    ///
    /// They are looked up in ascending order, so each block is read once, and the reads of a file
    /// go forward. Values in blob files are read after that, in the order of the file, while the
    /// system reads up to 4 MiB ahead. In a family with a merge operator values are read with their
    /// keys. In memory this costs as single gets; with cold caches a quarter of them. All values
    /// are in memory or pinned until they are dropped.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// db.put("a", "1")?;
    /// let values = db.get_many(&["a", "b"])?;
    /// assert!(values[0].as_deref() == Some(b"1") && values[1].is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.pin()?.get_many(keys)
    }

    /// Replaces the contents of `buffer` by the value of a key, and returns whether it has one.
    /// Without one the buffer is empty.
    ///
    /// Costs as [`Read::read`] and a copy; it allocates only if the buffer is too small. So a loop
    /// over many keys needs one buffer, and no value pins a block.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// db.put("a", "1")?;
    /// let mut buffer = Vec::new();
    /// assert!(db.get_into("a", &mut buffer)? && buffer == b"1");
    /// assert!(!db.get_into("b", &mut buffer)? && buffer.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`]. The buffer is empty then.
    fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<bool> {
        buffer.clear();
        Ok(self.read(key, |value| buffer.extend_from_slice(value))?.is_some())
    }

    /// Returns the length of the value of a key, in bytes; `None` if the key has no value.
    ///
    /// Costs a lookup, and pins a view. A value in a blob file
    /// ([`value_threshold`](crate::FamilyOptions::value_threshold)) is not read, unless the family
    /// has a merge operator. Other values lie in the block that the lookup reads.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// db.put("film", vec![0; 1 << 20])?;
    /// assert_eq!(db.value_len("film")?, Some(1 << 20));
    /// assert_eq!(db.value_len("gone")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn value_len(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.pin()?.value_len(key.as_ref())
    }

    /// Returns the value of a key as a stream; `None` if the key has no value. A value that lies in
    /// a blob file, not compressed, is read piece by piece; others are in memory as a whole. Later
    /// writes do not change what the stream reads, also if the source is dropped.
    ///
    /// Costs a lookup, and pins a view meanwhile. A stream keeps its blob file on disk until it is
    /// dropped.
    ///
    /// The bytes of a blob are verified as they are read. If they are damaged, the read that would
    /// return the last ones fails with an error that has an [`Error`](crate::Error) as its inner
    /// error.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read as _;
    /// use std::io::{Read, copy, repeat, sink};
    ///
    /// let family = db.default_family();
    /// family.put_reader("film", 3 << 20, repeat(7).take(3 << 20))?;
    /// let snapshot = db.snapshot();
    /// family.delete("film")?;
    /// let mut stream = snapshot.get_reader("film")?.expect("the snapshot has it");
    /// assert_eq!(copy(&mut stream, &mut sink())?, 3 << 20);
    /// assert!(family.get_reader("film")?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueStream>> {
        self.pin()?.stream(key.as_ref())
    }

    /// Returns whether a key has a value. Costs as [`Read::read`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.look(key.as_ref(), |_| ())?.is_some())
    }

    /// Returns when the value of a key expires; `None` if it has none. A value that merge operands
    /// were applied to does not expire, also where their base does.
    ///
    /// Costs as [`Read::get`], and pins a view.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Expiry, Read};
    /// use std::time::{Duration, SystemTime};
    ///
    /// db.put_for("session", "alice", Duration::from_secs(3600))?;
    /// let Some(Expiry::At(time)) = db.expires_at("session")? else { panic!("it expires") };
    /// assert!(time > SystemTime::now());
    /// db.put("name", "Ada")?;
    /// assert_eq!(db.expires_at("name")?, Some(Expiry::Never));
    /// assert_eq!(db.expires_at("gone")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        Ok(self.get_expiring(key)?.map(|(_, expiry)| expiry))
    }

    /// Returns the value of a key and its expiry, both of one state. Costs as
    /// [`Read::expires_at`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_expiring(&self, key: impl AsRef<[u8]>) -> Result<Option<(Slice, Expiry)>> {
        let found = self.pin()?.get_expiring(key.as_ref())?;
        Ok(found.map(|found| (found.value, Expiry::stored(found.expiry_ms))))
    }

    /// Returns the greatest key less than `key`, and its value.
    ///
    /// Costs a cursor and a seek, which examines each sorted run and reads at least one block of
    /// each that has keys there. A [`Cursor`] makes several such steps at less cost.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// for key in ["a", "c", "e"] {
    ///     db.put(key, "")?;
    /// }
    /// let key = |pair: Option<(siltdb::Slice, siltdb::Slice)>| pair.map(|(key, _)| key.to_vec());
    /// assert_eq!(key(db.get_lt("c")?), Some(b"a".to_vec()));
    /// assert_eq!(key(db.get_le("c")?), Some(b"c".to_vec()));
    /// assert_eq!(key(db.get_ge("d")?), Some(b"e".to_vec()));
    /// assert_eq!(key(db.get_gt("e")?), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_lt(&self, key: impl AsRef<[u8]>) -> Result<Option<(Slice, Slice)>> {
        let key = key.as_ref();
        beside(self, |cursor| {
            cursor.seek_for_prev(key)?;
            if cursor.key() == Some(key) { cursor.prev() } else { Ok(()) }
        })
    }

    /// Returns the greatest key less than or equal to `key`, and its value. Costs as
    /// [`Read::get_lt`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_le(&self, key: impl AsRef<[u8]>) -> Result<Option<(Slice, Slice)>> {
        beside(self, |cursor| cursor.seek_for_prev(key.as_ref()))
    }

    /// Returns the least key greater than `key`, and its value. Costs as [`Read::get_lt`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_gt(&self, key: impl AsRef<[u8]>) -> Result<Option<(Slice, Slice)>> {
        let key = key.as_ref();
        beside(self, |cursor| {
            cursor.seek(key)?;
            if cursor.key() == Some(key) { cursor.next() } else { Ok(()) }
        })
    }

    /// Returns the least key greater than or equal to `key`, and its value. Costs as
    /// [`Read::get_lt`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_ge(&self, key: impl AsRef<[u8]>) -> Result<Option<(Slice, Slice)>> {
        beside(self, |cursor| cursor.seek(key.as_ref()))
    }

    /// Returns the first key and its value. Costs as [`Read::get_lt`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn first(&self) -> Result<Option<(Slice, Slice)>> {
        beside(self, Cursor::seek_to_first)
    }

    /// Returns the last key and its value. Costs as [`Read::get_lt`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn last(&self) -> Result<Option<(Slice, Slice)>> {
        beside(self, Cursor::seek_to_last)
    }

    /// Returns whether there are no keys. Costs as [`Read::get_lt`].
    ///
    /// # Errors
    /// As [`Read::get`].
    fn is_empty(&self) -> Result<bool> {
        let mut cursor = self.cursor_with(&ReadOptions::new().keys_only(true))?;
        cursor.seek_to_first()?;
        Ok(cursor.key().is_none())
    }

    /// Creates a cursor over all keys. It has no position before its first seek.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn cursor(&self) -> Result<Cursor> {
        self.cursor_with(&ReadOptions::new())
    }

    /// Creates a cursor over the range of `options`, which also say which values it reads.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Read, ReadOptions};
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "value")?;
    /// }
    /// let options = ReadOptions::new().range("b"..).keys_only(true);
    /// let mut cursor = db.cursor_with(&options)?;
    /// cursor.seek("a")?;
    /// assert_eq!(cursor.entry(), Some((&b"b"[..], &b""[..])));
    /// cursor.prev()?;
    /// assert_eq!(cursor.entry(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn cursor_with(&self, options: &ReadOptions) -> Result<Cursor> {
        Cursor::open(&self.pin()?, options.clone())
    }

    /// Creates an iterator over all keys and values in order, from both ends.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn iter(&self) -> Result<Iter> {
        self.iter_with(&ReadOptions::new())
    }

    /// Creates an iterator over the keys and values of a range in order, from both ends. A range
    /// whose start is greater than its end is empty. [`Iter::keys`] makes it an iterator over the
    /// keys alone.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// for key in [b"a", b"b", b"c"] {
    ///     db.put(key, b"")?;
    /// }
    /// let keys: siltdb::Result<Vec<_>> = db.range(&b"b"[..]..)?.keys().rev().collect();
    /// assert_eq!(keys?, [b"c", b"b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn range(&self, range: impl KeyRange) -> Result<Iter> {
        self.iter_with(&ReadOptions::new().range(range))
    }

    /// Creates an iterator over the keys that begin with `prefix`, and their values, in order.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.iter_with(&ReadOptions::new().prefix(prefix))
    }

    /// Creates an iterator over the range of `options`, in order. With
    /// [`keys_only`](ReadOptions::keys_only) the values are empty.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn iter_with(&self, options: &ReadOptions) -> Result<Iter> {
        Ok(Iter::new(self.pin()?, options.clone()))
    }

    /// Counts the keys of a range by iterating over them, without their values. The estimate of
    /// [`Family::size_of`](crate::Family::size_of) costs far less.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::Read;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "")?;
    /// }
    /// assert_eq!(db.count("a".."c")?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Read::get`].
    fn count(&self, range: impl KeyRange) -> Result<u64> {
        let options = ReadOptions::new().range(range).keys_only(true);
        let mut cursor = self.cursor_with(&options)?;
        cursor.seek_to_first()?;
        cursor.walk(u64::MAX, |_, _| ControlFlow::Continue(()))
    }
}

/// Returns a copy of the entry at which a cursor over all keys stands after `go`.
fn beside<S: ReadSource + ?Sized>(
    source: &S,
    go: impl FnOnce(&mut Cursor) -> Result<()>,
) -> Result<Option<(Slice, Slice)>> {
    let mut cursor = Cursor::open(&source.pin()?, ReadOptions::new())?;
    go(&mut cursor)?;
    let copy = |(key, value): (&[u8], &[u8])| (Slice::copy_from(key), Slice::copy_from(value));
    Ok(cursor.entry().map(copy))
}
