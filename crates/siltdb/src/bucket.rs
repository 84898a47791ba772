//! Buckets: maps with names within a family, which may hold others; a directory tree of maps.
//!
//! They are keys of the family, written by its transactions; docs/buckets.md has their form. A
//! bucket is found by its path each time, and what is found counts as read: so no write goes to a
//! bucket that another transaction deletes.

mod path;
mod tree;
mod walk;

pub use path::{BUCKET_DEPTH_MAX, BUCKET_NAME_BYTES_MAX};
pub use walk::{BucketCursor, BucketIter};

use crate::{
    family::Family,
    isolation::Isolation,
    iter::{Cursor, Iter},
    key_range::{KeyRange, read_range},
    read::Read,
    single_key::Swap,
    snapshot::Snapshot,
    source::{Pinned, ReadSource},
    transaction::Transaction,
    update::{UpdateOptions, update},
};
use path::{Part, Path, data_range, key};
use siltdb_base::{
    cursor::Fetch,
    error::{Error, ErrorKind, Result},
    slice::Slice,
};
use std::fmt;

/// Buckets in deleted ones that a deletion looks at: bounds its cost.
const RECLAIMED_AT_ONCE: usize = 256;

/// Name of the savepoint that takes back half a change.
const SAVEPOINT: &str = "siltdb bucket";

/// A bucket of a family, named by its path. It need not exist yet.
///
/// Over a [`Family`] each call is a transaction of its own, atomic against all others. Over a
/// [`Transaction`] the calls belong to that, which must be [`Isolation::RepeatableRead`] or
/// [`Isolation::Serializable`] to write. Over a [`Snapshot`] it is read only.
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

/// What buckets can be written through.
pub trait BucketTarget: ReadSource + Clone {
    /// Runs `change` in a transaction, which may take several attempts.
    #[doc(hidden)]
    fn change<T>(&self, change: impl FnMut(&Transaction) -> Result<T>) -> Result<T>;

    /// As `change`, for one that must not be half done when it fails.
    #[doc(hidden)]
    fn change_all<T>(&self, change: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.change(change)
    }

    /// How many buckets in deleted ones a deletion reclaims.
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

    /// The names from the root to it.
    pub fn path(&self) -> impl Iterator<Item = &[u8]> {
        self.path.names().iter().map(Vec::as_slice)
    }

    /// A moment, and the bucket in it.
    fn find(&self) -> Result<(Pinned, u64)> {
        let pinned = self.source.pin()?;
        let way = tree::follow(self.path.names(), |key| pinned.get(key))?;
        Ok((pinned, tree::last_id(&way)))
    }

    /// As `find`, for data, which the root has none of.
    fn find_data(&self) -> Result<(Pinned, u64)> {
        self.path.split_last()?;
        self.find()
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn exists(&self) -> Result<bool> {
        match self.find() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// The names of the buckets in it, in order.
    ///
    /// # Errors
    /// `NotFound`, if it is not there; as [`Read::get`].
    pub fn children(&self) -> Result<Vec<Vec<u8>>> {
        let (pinned, id) = self.find()?;
        let prefix = key(id, Part::Child, b"");
        let range = prefix.clone()..key(id, Part::Sequence, b"");
        let names = Iter::new(pinned, read_range(&range), Fetch::KeysOnly).keys();
        names.map(|name| Ok(name?[prefix.len()..].to_vec())).collect()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `NotFound`, if the bucket is not there; `InvalidArgument` for the root; as [`Read::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let (pinned, id) = self.find_data()?;
        pinned.get(&path::key(id, Part::Data, key.as_ref()))
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The first key and its value.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn first(&self) -> Result<Option<(Slice, Slice)>> {
        self.range(..)?.next().transpose()
    }

    /// The last key and its value.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn last(&self) -> Result<Option<(Slice, Slice)>> {
        self.range(..)?.next_back().transpose()
    }

    /// The keys and values of a range, in order, from either end.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn range(&self, range: impl KeyRange) -> Result<BucketIter> {
        self.walk(&range, Fetch::Values)
    }

    /// The number of keys in a range, by walking over them.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn count(&self, range: impl KeyRange) -> Result<u64> {
        self.walk(&range, Fetch::KeysOnly)?.try_fold(0, |count, pair| pair.map(|_| count + 1))
    }

    fn walk(&self, range: &impl KeyRange, fetch: Fetch) -> Result<BucketIter> {
        let (pinned, id) = self.find_data()?;
        let iter = Iter::new(pinned, read_range(&data_range(id, range)), fetch);
        Ok(BucketIter { iter, prefix_bytes: key(id, Part::Data, b"").len() })
    }

    /// A cursor over its keys as they are now; it stands nowhere yet.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub fn cursor(&self) -> Result<BucketCursor<S>>
    where
        S: Clone,
    {
        let (pinned, id) = self.find_data()?;
        let cursor = Cursor::open(&pinned, read_range(&data_range(id, &..)), Fetch::Values)?;
        let prefix_bytes = key(id, Part::Data, b"").len();
        Ok(BucketCursor { cursor, bucket: self.clone(), id, prefix_bytes })
    }
}

impl<S: BucketTarget> Bucket<S> {
    /// Makes it; the bucket that it lies in must be there.
    ///
    /// # Errors
    /// `AlreadyExists`; `NotFound`, if a bucket before the last name is missing; `InvalidArgument`
    /// for the root, or in a transaction of another level than this needs; `Conflict`; as
    /// [`Transaction::put`].
    pub fn create(&self) -> Result<()> {
        self.source.change_all(|transaction| tree::create(transaction, &self.path))
    }

    /// Makes it and the buckets that it lies in, as far as they are missing.
    ///
    /// # Errors
    /// As [`Bucket::create`], but for `AlreadyExists` and `NotFound`.
    pub fn create_if_missing(&self) -> Result<()> {
        self.source.change_all(|transaction| tree::create_if_missing(transaction, &self.path))
    }

    /// Gives it another path, with everything in it. The cost does not depend on what that is. This
    /// handle keeps the old path; returns one with the new.
    ///
    /// # Errors
    /// `NotFound`, if it or the bucket it is to lie in is missing; `AlreadyExists`;
    /// `InvalidArgument`, if it would lie in itself, or something in it, even if deleted since,
    /// deeper than [`BUCKET_DEPTH_MAX`]; as [`Bucket::create`].
    pub fn rename(&self, to: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Self> {
        let to = Self::new(self.source.clone(), to)?;
        self.source.change_all(|step| tree::rename(step, &self.path, &to.path))?;
        Ok(to)
    }

    /// Deletes it with everything in it, also buckets, in one step whose cost does not depend on
    /// what that is.
    ///
    /// The keys of buckets in it are deleted afterwards: up to 256 such buckets by this call, the
    /// others by the next ones, or by [`Family::reclaim_buckets`]. In a transaction the call leaves
    /// them all.
    ///
    /// # Errors
    /// `NotFound`; as [`Bucket::create`].
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

    /// Gives a key a value.
    ///
    /// # Errors
    /// As [`Bucket::get`] and [`Transaction::put`]; a key may be 12 bytes shorter than otherwise.
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

    /// Deletes the keys of a range, at the cost of one write.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.change(|transaction, id| transaction.delete_range(data_range(id, &range)))
    }

    /// Deletes a key and returns the value that it had, in one step.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.change(|step, id| step.take(path::key(id, Part::Data, key.as_ref())))
    }

    /// Gives a key a new value if it has the expected one; see [`Family::compare_and_swap`].
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

    /// The next number of the bucket, from 1 on, each given once. It goes with the bucket.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn next_id(&self) -> Result<u64> {
        self.change(|transaction, id| transaction.next_id(key(id, Part::Sequence, b"")))
    }
}

impl<S: BucketTarget> BucketCursor<S> {
    /// Deletes the key that it stands on. It goes on standing there, at its moment.
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
    /// # Errors
    /// `InvalidArgument`, if it stands on no key; `NotFound`, if the bucket was deleted, also if
    /// another is there instead; as [`Bucket::put`].
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
    /// A bucket of the family; see [`Bucket`]. An empty path names the root, which holds the
    /// others. Only the names are checked: at most 16, each of 1 to 255 bytes of any kind.
    ///
    /// # Errors
    /// `InvalidArgument`, if the path is too deep, or a name empty or too long.
    pub fn bucket(&self, path: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Bucket<Self>> {
        Bucket::new(self.clone(), path)
    }

    /// Deletes the keys of buckets that lay in deleted ones; returns how many steps that took, one
    /// or two for each bucket. Without it [`Bucket::remove`] does so bit by bit.
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

impl Transaction {
    /// A bucket of the transaction's family; see [`Family::bucket`].
    ///
    /// # Errors
    /// As [`Family::bucket`].
    pub fn bucket(&self, path: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Bucket<Self>> {
        Bucket::new(self.clone(), path)
    }
}

impl Snapshot {
    /// A bucket as it was at this moment; see [`Family::bucket`].
    ///
    /// # Errors
    /// As [`Family::bucket`].
    pub fn bucket(&self, path: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Bucket<Self>> {
        Bucket::new(self.clone(), path)
    }
}
