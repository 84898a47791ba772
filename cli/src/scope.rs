//! The target of data verbs: a family in its committed state, in an open transaction, or for verbs
//! that read, at an earlier moment.
//!
//! It opens nothing and ends no transaction.

use siltdb::{
    Bucket, Cursor, Expiry, Family, Read, ReadOptions, Result, Slice, Snapshot, Transaction,
};

/// Which family of which branch; what is not given is the one in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct FamilyName<'a> {
    /// The name of the branch.
    pub branch: Option<&'a str>,
    /// The name of the family.
    pub family: Option<&'a str>,
}

impl FamilyName<'_> {
    /// Returns whether a branch or a family is given.
    pub fn is_given(self) -> bool {
        self.branch.is_some() || self.family.is_some()
    }

    /// Returns the same name, with what `other` gives where it gives nothing.
    pub fn or(self, other: Self) -> Self {
        Self { branch: self.branch.or(other.branch), family: self.family.or(other.family) }
    }
}

/// Returns the name of a family for reports. That of a branch has the branch's name before it.
pub fn label(family: &Family) -> String {
    match family.branch() {
        Some(branch) => format!("{branch}/{}", family.name()),
        None => family.name(),
    }
}

/// A family in its committed state, or in a transaction.
#[derive(Clone)]
pub enum Scope {
    /// Each read sees the newest commit, and each write is a commit of its own.
    Committed(Family),
    /// Reads and writes belong to this transaction.
    Transaction(Transaction),
}

/// What a verb reads.
pub enum ReadScope {
    /// The newest commit of a family.
    Committed(Family),
    /// What this transaction sees.
    Transaction(Transaction),
    /// An earlier state of a family.
    Snapshot(Snapshot),
}

impl From<Scope> for ReadScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Committed(family) => Self::Committed(family),
            Scope::Transaction(transaction) => Self::Transaction(transaction),
        }
    }
}

impl ReadScope {
    /// Returns the value of a key and when it expires.
    ///
    /// # Errors
    /// Errors of the database, as for all methods here.
    pub fn get_expiring(&self, key: &[u8]) -> Result<Option<(Slice, Expiry)>> {
        match self {
            Self::Committed(family) => family.get_expiring(key),
            Self::Transaction(transaction) => transaction.get_expiring(key),
            Self::Snapshot(snapshot) => snapshot.get_expiring(key),
        }
    }

    /// Returns the length of the value of a key.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        match self {
            Self::Committed(family) => family.value_len(key),
            Self::Transaction(transaction) => transaction.value_len(key),
            Self::Snapshot(snapshot) => snapshot.value_len(key),
        }
    }

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        match self {
            Self::Committed(family) => family.contains(key),
            Self::Transaction(transaction) => transaction.contains(key),
            Self::Snapshot(snapshot) => snapshot.contains(key),
        }
    }

    /// Returns when the value of a key expires.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn expires_at(&self, key: &[u8]) -> Result<Option<Expiry>> {
        Ok(self.get_expiring(key)?.map(|(_, expiry)| expiry))
    }

    /// Creates a cursor with `options`.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn cursor_with(&self, options: &ReadOptions) -> Result<Cursor> {
        match self {
            Self::Committed(family) => family.cursor_with(options),
            Self::Transaction(transaction) => transaction.cursor_with(options),
            Self::Snapshot(snapshot) => snapshot.cursor_with(options),
        }
    }
}

/// A bucket of a [`ReadScope`].
pub enum ScopedBucket {
    /// In its committed state.
    Committed(Bucket<Family>),
    /// In the transaction.
    Transaction(Bucket<Transaction>),
    /// In an earlier state.
    Snapshot(Bucket<Snapshot>),
}

impl ReadScope {
    /// Returns the bucket at `path`.
    ///
    /// # Errors
    /// Errors of the database: the path is not allowed.
    pub fn bucket(&self, path: &[Vec<u8>]) -> Result<ScopedBucket> {
        Ok(match self {
            Self::Committed(family) => ScopedBucket::Committed(family.bucket(path)?),
            Self::Transaction(tx) => ScopedBucket::Transaction(tx.bucket(path)?),
            Self::Snapshot(snapshot) => ScopedBucket::Snapshot(snapshot.bucket(path)?),
        })
    }
}

impl ScopedBucket {
    /// Returns the names of the buckets in it.
    ///
    /// # Errors
    /// Errors of the database: there is no such bucket.
    pub fn children(&self) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Committed(bucket) => bucket.children(),
            Self::Transaction(bucket) => bucket.children(),
            Self::Snapshot(bucket) => bucket.children(),
        }
    }
}

/// Savepoint of [`all_or_none`], which releases it before another verb runs.
const STEP: &str = "verb";

/// Runs `write` on a transaction, and rolls its writes back if it fails.
///
/// # Errors
/// Errors of `write` and of the database.
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
