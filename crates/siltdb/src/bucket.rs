//! Buckets: named maps within a family that may hold other buckets, like directories.
//!
//! Buckets are keys of the family, written by its transactions; docs/buckets.md has their form.
//! Each call finds its bucket by its path, and this lookup counts as a read. So no write goes to a
//! bucket that another transaction deletes.

mod path;
mod tree;
mod walk;

pub(crate) use path::is_link;
pub use path::{BUCKET_DEPTH_MAX, BUCKET_IDS_KEY, BUCKET_KEY_PREFIX, BUCKET_NAME_BYTES_MAX};
pub use walk::{BucketCursor, BucketIter};

use crate::{
    family::Family,
    isolation::Isolation,
    iter::{Cursor, Iter},
    key_order::KeyOrder,
    key_range::KeyRange,
    read::Read,
    read_options::ReadOptions,
    single_key::Swap,
    snapshot::Snapshot,
    source::{Pinned, ReadSource},
    transaction::Transaction,
    update::{UpdateOptions, update},
};
use path::{Part, Path, data_range, key};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    slice::Slice,
};
use std::fmt;

/// Buckets below deleted ones that a deletion reclaims at most, which bounds its cost.
const RECLAIMED_AT_ONCE: usize = 256;

/// Name of the savepoint to which a failed change goes back.
const SAVEPOINT: &str = "siltdb bucket";

/// A bucket of a family, named by its path. It need not exist yet.
///
/// On a [`Family`], each call is a transaction of its own, atomic against all others. On a
/// [`Transaction`], the calls belong to it; writing requires [`Isolation::RepeatableRead`] or
/// [`Isolation::Serializable`]. On a [`Snapshot`] a bucket is read only.
///
/// Each call follows the path, at the cost of a [`get`](Read::get) for each name.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// let family = db.default_family();
/// let inbox = family.bucket(["ada", "inbox"])?;
/// inbox.create_if_missing()?;
/// let id = inbox.next_id()?;
/// inbox.put(id.to_be_bytes(), "hello")?;
/// assert_eq!(family.bucket(["ada"])?.children()?, [b"inbox"]);
/// inbox.rename(["ada", "read"])?;
/// assert_eq!(family.bucket(["ada", "read"])?.count(..)?, 1);
/// family.bucket(["ada"])?.remove()?;
/// assert!(family.bucket([""; 0])?.children()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Bucket<S> {
    source: S,
    path: Path,
}

impl<S> fmt::Debug for Bucket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.path).finish()
    }
}

/// Targets through which buckets can be written.
pub trait BucketTarget: ReadSource + Clone {
    /// Runs `change` in a transaction, repeatedly after conflicts.
    #[doc(hidden)]
    fn change<T>(&self, change: impl FnMut(&Transaction) -> Result<T>) -> Result<T>;

    /// Runs `change` like [`change`](Self::change), and undoes a part of it that precedes an error.
    #[doc(hidden)]
    fn change_all<T>(&self, change: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.change(change)
    }

    /// Returns the number of buckets below deleted ones that a deletion reclaims.
    #[doc(hidden)]
    fn reclaims() -> usize;
}

impl BucketTarget for Family {
    fn change<T>(&self, change: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        update(self, &UpdateOptions::new(), change)
    }

    fn reclaims() -> usize {
        RECLAIMED_AT_ONCE
    }
}

impl BucketTarget for Transaction {
    fn change<T>(&self, mut change: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        if !matches!(self.isolation(), Isolation::RepeatableRead | Isolation::Serializable) {
            let message = "at this isolation level a bucket may be deleted while it is written";
            return Err(Error::invalid(message)
                .with_mismatch("repeatable-read or serializable", self.isolation().as_str()));
        }
        change(self)
    }

    fn change_all<T>(&self, mut change: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.change(|transaction| {
            transaction.savepoint(SAVEPOINT)?;
            let changed = change(transaction);
            if changed.is_err() {
                transaction.rollback_to(SAVEPOINT)?;
            }
            transaction.release(SAVEPOINT)?;
            changed
        })
    }

    fn reclaims() -> usize {
        0
    }
}

impl<S: ReadSource> Bucket<S> {
    fn new(source: S, path: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Self> {
        Ok(Self { source, path: Path::new(path)? })
    }

    /// Returns the names from the root to the bucket.
    pub fn path(&self) -> impl Iterator<Item = &[u8]> {
        self.path.names().iter().map(Vec::as_slice)
    }

    /// Pins the present state and finds the bucket in it.
    fn find(&self) -> Result<(Pinned, u64)> {
        let pinned = self.source.pin()?;
        let way = tree::follow(self.path.names(), |key| pinned.get(key))?;
        Ok((pinned, tree::last_id(&way)))
    }

    /// Finds the bucket for a read of data; an error for the root, which has none.
    fn find_data(&self) -> Result<(Pinned, u64)> {
        self.path.split_last()?;
        self.find()
    }

    /// Returns whether the bucket exists.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn exists(&self) -> Result<bool> {
        match self.find() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Returns the names of the buckets in it, in order.
    ///
    /// # Errors
    /// `NotFound`, if the bucket is missing; as [`Read::get`].
    pub fn children(&self) -> Result<Vec<Vec<u8>>> {
        let (pinned, id) = self.find()?;
        let prefix = key(id, Part::Child, b"");
        let range = prefix.clone()..key(id, Part::Sequence, b"");
        let names = Iter::new(pinned, ReadOptions::new().range(range)).keys();
        names.map(|name| Ok(name?[prefix.len()..].to_vec())).collect()
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// `NotFound`, if the bucket is missing; `InvalidArgument` for the root; as [`Read::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let (pinned, id) = self.find_data()?;
        pinned.get(&path::key(id, Part::Data, key.as_ref()))
    }

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns the first key and its value.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn first(&self) -> Result<Option<(Slice, Slice)>> {
        self.range(..)?.next().transpose()
    }

    /// Returns the last key and its value.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn last(&self) -> Result<Option<(Slice, Slice)>> {
        self.range(..)?.next_back().transpose()
    }

    /// Creates an iterator over the keys and values of a range in order, from both ends.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn range(&self, range: impl KeyRange) -> Result<BucketIter> {
        self.walk(&range, &ReadOptions::new())
    }

    /// Counts the keys in a range by iterating over them, without their values.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn count(&self, range: impl KeyRange) -> Result<u64> {
        let options = ReadOptions::new().keys_only(true);
        self.walk(&range, &options)?.try_fold(0, |count, pair| pair.map(|_| count + 1))
    }

    fn walk(&self, range: &impl KeyRange, options: &ReadOptions) -> Result<BucketIter> {
        let (pinned, id) = self.find_data()?;
        let iter = Iter::new(pinned, options.clone().range(data_range(id, range)));
        Ok(BucketIter { iter, prefix_bytes: key(id, Part::Data, b"").len() })
    }

    /// Creates a cursor over the present keys. It has no position before its first seek.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn cursor(&self) -> Result<BucketCursor<S>>
    where
        S: Clone,
    {
        self.cursor_with(&ReadOptions::new())
    }

    /// Creates a cursor over the range of `options`, in keys of the bucket; see
    /// [`Read::cursor_with`].
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn cursor_with(&self, options: &ReadOptions) -> Result<BucketCursor<S>>
    where
        S: Clone,
    {
        let (pinned, id) = self.find_data()?;
        let range = data_range(id, &(options.range.start.clone(), options.range.end.clone()));
        let cursor = Cursor::open(&pinned, options.clone().range(range))?;
        let prefix_bytes = key(id, Part::Data, b"").len();
        Ok(BucketCursor { cursor, bucket: self.clone(), id, prefix_bytes })
    }
}

impl<S: BucketTarget> Bucket<S> {
    /// Creates the bucket. Its parent must exist.
    ///
    /// # Errors
    /// `AlreadyExists`; `NotFound`, if a bucket on the path is missing; `InvalidArgument` for the
    /// root, for the first bucket of a family with keys of its own that begin with
    /// [`BUCKET_KEY_PREFIX`], or in a transaction of another isolation level than writing requires;
    /// `Conflict`; as [`Transaction::put`].
    pub fn create(&self) -> Result<()> {
        self.source.change_all(|transaction| tree::create(transaction, &self.path))
    }

    /// Creates the bucket and the missing buckets on its path.
    ///
    /// # Errors
    /// As [`Bucket::create`], except `AlreadyExists` and `NotFound`.
    pub fn create_if_missing(&self) -> Result<()> {
        self.source.change_all(|transaction| tree::create_if_missing(transaction, &self.path))
    }

    /// Moves the bucket with everything in it to another path. The cost does not depend on its
    /// contents. This handle keeps the old path; the returned one has the new path.
    ///
    /// # Errors
    /// `NotFound`, if the bucket or the new parent is missing; `AlreadyExists`; as
    /// [`Bucket::create`]. `InvalidArgument`, if the new path leads into the bucket itself, or if
    /// something in it would be deeper than [`BUCKET_DEPTH_MAX`]. Buckets in it that were deleted
    /// since count, too.
    pub fn rename(&self, to: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Self> {
        let to = Self::new(self.source.clone(), to)?;
        self.source.change_all(|step| tree::rename(step, &self.path, &to.path))?;
        Ok(to)
    }

    /// Deletes the bucket with everything in it, buckets included. The deletion is atomic, and its
    /// cost does not depend on the contents.
    ///
    /// The keys of buckets in it are deleted afterwards. This call reclaims up to 256 such buckets;
    /// later calls or [`Family::reclaim_buckets`] reclaim the rest. In a transaction the call
    /// reclaims none.
    ///
    /// # Errors
    /// `NotFound`, if the bucket is missing; as [`Bucket::create`].
    pub fn remove(&self) -> Result<()> {
        self.source.change_all(|transaction| {
            tree::remove(transaction, &self.path)?;
            tree::reclaim(transaction, S::reclaims()).map(|_| ())
        })
    }

    fn change<T>(&self, mut change: impl FnMut(&Transaction, u64) -> Result<T>) -> Result<T> {
        self.path.split_last()?;
        self.source.change(|transaction| {
            let way = tree::follow(self.path.names(), |key| transaction.get(key))?;
            change(transaction, tree::last_id(&way))
        })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Bucket::get`] and [`Transaction::put`]. The longest key is 12 bytes shorter than
    /// outside of buckets.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.change(|transaction, id| transaction.put(path::key(id, Part::Data, key), value))
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(|step, id| step.delete(path::key(id, Part::Data, key.as_ref())))
    }

    /// Deletes every key of a range, at the cost of one write.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.change(|transaction, id| transaction.delete_range(data_range(id, &range)))
    }

    /// Deletes a key and returns the value that it had, atomically.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.change(|step, id| step.take(path::key(id, Part::Data, key.as_ref())))
    }

    /// Replaces the value of a key if it equals the expected one; see [`Family::compare_and_swap`].
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        let key = key.as_ref();
        self.change(|transaction, id| {
            transaction.compare_and_swap(path::key(id, Part::Data, key), expected, new)
        })
    }

    /// Returns the next number of the bucket's counter, from 1 on, each at most once. The counter
    /// is deleted with the bucket.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn next_id(&self) -> Result<u64> {
        self.change(|transaction, id| transaction.next_id(key(id, Part::Sequence, b"")))
    }
}

impl<S: BucketTarget> BucketCursor<S> {
    /// Deletes the key under the cursor. The cursor keeps its position and its state of the bucket.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let bucket = db.default_family().bucket(["jobs"])?;
    /// bucket.create()?;
    /// bucket.put("old", "1")?;
    /// bucket.put("new", "2")?;
    /// let mut cursor = bucket.cursor()?;
    /// cursor.seek("old")?;
    /// cursor.delete()?;
    /// assert_eq!(bucket.count(..)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `InvalidArgument`, if the cursor is not on a key. `NotFound`, if the bucket was deleted,
    /// also if another has its path now; as [`Bucket::put`].
    pub fn delete(&mut self) -> Result<()> {
        let on = self.cursor.key().ok_or_else(|| Error::invalid("the cursor is on no key"))?;
        self.bucket.change(|transaction, id| {
            if id != self.id {
                return Err(tree::missing(self.bucket.path.names()));
            }
            transaction.delete(on)
        })
    }
}

impl Family {
    /// Returns a handle on a bucket of the family; see [`Bucket`]. An empty path is the root, which
    /// holds the other buckets. A path has at most 16 names, each of 1 to 255 bytes of any kind.
    /// The call checks the names and reads nothing.
    ///
    /// # Errors
    /// `InvalidArgument`, if the path is too deep, or a name is empty or too long; or if the family
    /// has a key order, which the keys of buckets do not have.
    pub fn bucket(&self, path: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Bucket<Self>> {
        refuse_order(self)?;
        Bucket::new(self.clone(), path)
    }

    /// Deletes the keys of buckets below deleted ones, and returns the number of steps: one or two
    /// for each bucket. Without this call, each [`Bucket::remove`] reclaims a part.
    ///
    /// # Errors
    /// As [`Bucket::create`].
    pub fn reclaim_buckets(&self) -> Result<usize> {
        let mut steps = 0;
        loop {
            match self.change(|transaction| tree::reclaim(transaction, RECLAIMED_AT_ONCE))? {
                0 => return Ok(steps),
                more => steps += more,
            }
        }
    }
}

/// Refuses a family whose keys have an encoding: as keys of it, those of buckets would not decode.
fn refuse_order(family: &Family) -> Result<()> {
    let order = family.key_order();
    if order == KeyOrder::bytewise() {
        return Ok(());
    }
    Err(Error::invalid("a family with a key order has no buckets")
        .with_mismatch(KeyOrder::bytewise().name(), order.name())
        .with_hint("use a family without an order; `Key::to_key` encodes keys of its buckets"))
}

impl Transaction {
    /// Returns a handle on a bucket of the transaction's family; see [`Family::bucket`].
    ///
    /// # Errors
    /// As [`Family::bucket`].
    pub fn bucket(&self, path: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Bucket<Self>> {
        refuse_order(&self.place)?;
        Bucket::new(self.clone(), path)
    }
}

impl Snapshot {
    /// Returns a handle on a bucket in this snapshot; see [`Family::bucket`].
    ///
    /// # Errors
    /// As [`Family::bucket`].
    pub fn bucket(&self, path: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Bucket<Self>> {
        Bucket::new(self.clone(), path)
    }
}
