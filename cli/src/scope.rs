//! Where data verbs read and write: a family as it is committed, or as an open transaction sees it.
//!
//! It opens nothing and ends no transaction.

use crate::bounds::KeyRange;
use siltdb::{Bucket, BucketIter, Family, Iter, Read, ReadOptions, Result, Slice, Transaction};

/// A family, as it is committed or as a transaction sees it.
#[derive(Clone)]
pub enum Scope {
    /// Each read sees the newest commit, and each write is a commit of its own.
    Committed(Family),
    /// Reads and writes belong to the transaction.
    Transaction(Transaction),
}

impl Scope {
    /// The value of a key.
    ///
    /// # Errors
    /// Those of the database, as everything here.
    pub fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        match self {
            Self::Committed(family) => family.get(key),
            Self::Transaction(transaction) => transaction.get(key),
        }
    }

    /// The first entry after a key.
    ///
    /// # Errors
    /// Those of the database.
    pub fn get_gt(&self, key: &[u8]) -> Result<Option<(Slice, Slice)>> {
        match self {
            Self::Committed(family) => family.get_gt(key),
            Self::Transaction(transaction) => transaction.get_gt(key),
        }
    }

    /// The last entry before a key.
    ///
    /// # Errors
    /// Those of the database.
    pub fn get_lt(&self, key: &[u8]) -> Result<Option<(Slice, Slice)>> {
        match self {
            Self::Committed(family) => family.get_lt(key),
            Self::Transaction(transaction) => transaction.get_lt(key),
        }
    }

    /// The entries that `options` ask for.
    ///
    /// # Errors
    /// Those of the database.
    pub fn iter_with(&self, options: &ReadOptions) -> Result<Iter> {
        match self {
            Self::Committed(family) => family.iter_with(options),
            Self::Transaction(transaction) => transaction.iter_with(options),
        }
    }
}

/// A bucket of a [`Scope`].
pub enum ScopedBucket {
    /// As it is committed.
    Committed(Bucket<Family>),
    /// As the transaction sees it.
    Transaction(Bucket<Transaction>),
}

impl Scope {
    /// The bucket at `path`.
    ///
    /// # Errors
    /// Those of the database: the path is not allowed.
    pub fn bucket(&self, path: &[Vec<u8>]) -> Result<ScopedBucket> {
        Ok(match self {
            Self::Committed(family) => ScopedBucket::Committed(family.bucket(path)?),
            Self::Transaction(tx) => ScopedBucket::Transaction(tx.bucket(path)?),
        })
    }
}

impl ScopedBucket {
    /// The value of a key.
    ///
    /// # Errors
    /// Those of the database: there is no such bucket.
    pub fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        match self {
            Self::Committed(bucket) => bucket.get(key),
            Self::Transaction(bucket) => bucket.get(key),
        }
    }

    /// The entries of a range.
    ///
    /// # Errors
    /// Those of the database: there is no such bucket.
    pub fn range(&self, range: KeyRange) -> Result<BucketIter> {
        match self {
            Self::Committed(bucket) => bucket.range(range),
            Self::Transaction(bucket) => bucket.range(range),
        }
    }

    /// The names of the buckets in it.
    ///
    /// # Errors
    /// Those of the database: there is no such bucket.
    pub fn children(&self) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Committed(bucket) => bucket.children(),
            Self::Transaction(bucket) => bucket.children(),
        }
    }
}

/// The savepoint of [`all_or_none`]; it is released before another verb runs.
const STEP: &str = "verb";

/// Runs `write` on a transaction, and takes back what it wrote if it fails.
///
/// # Errors
/// Those of `write` and of the database.
pub fn all_or_none<T>(
    transaction: &Transaction,
    write: impl FnOnce() -> crate::failure::Result<T>,
) -> crate::failure::Result<T> {
    transaction.savepoint(STEP)?;
    let outcome = write();
    if outcome.is_err() {
        transaction.rollback_to(STEP)?;
    }
    transaction.release(STEP)?;
    outcome
}
