//! The operations of a batch, for programs that examine it.
//!
//! They are read only: the methods of the batch build it.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FamilyId,
    key::{EntryKind, split_expiring},
};
use siltdb_disk::batch;

/// One operation of a [`WriteBatch`](crate::WriteBatch), borrowed from it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The family; [`Db::family_by_id`](crate::Db::family_by_id) finds it.
    pub family: FamilyId,
    /// The key; for a range, its first key.
    pub key: &'a [u8],
    /// The effect on the key.
    pub action: Action<'a>,
}

/// The effect of an [`Operation`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Sets a value.
    Put(&'a [u8]),
    /// Sets a value that expires.
    PutUntil {
        /// The value.
        value: &'a [u8],
        /// When it expires, in ms since 1970.
        expiry_ms: u64,
    },
    /// Deletes the key.
    Delete,
    /// Deletes a key that was put exactly once; see
    /// [`WriteBatch::single_delete`](crate::WriteBatch::single_delete).
    SingleDelete,
    /// Deletes every key from the operation's key up to this one, which is exclusive.
    DeleteRange(&'a [u8]),
    /// Writes a merge operand.
    Merge(&'a [u8]),
}

impl<'a> TryFrom<batch::BatchOperation<'a>> for Operation<'a> {
    type Error = Error;

    fn try_from(stored: batch::BatchOperation<'a>) -> Result<Self> {
        let batch::BatchOperation { kind, family, key, payload } = stored;
        let action = match kind {
            EntryKind::Put => Action::Put(payload),
            EntryKind::PutExpiring => {
                let (expiry_ms, value) = split_expiring(payload)?;
                Action::PutUntil { value, expiry_ms }
            }
            EntryKind::Delete => Action::Delete,
            EntryKind::SingleDelete => Action::SingleDelete,
            EntryKind::RangeDelete => Action::DeleteRange(payload),
            EntryKind::Merge => Action::Merge(payload),
            EntryKind::BlobPointer => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a batch refers to a value that lies in a file of its database",
                ));
            }
        };
        Ok(Self { family, key, action })
    }
}

/// Iterates over the operations of a batch, in the order in which they apply.
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    stored: batch::BatchOperations<'a>,
}

impl<'a> Operations<'a> {
    /// Iterates over a batch that was built or checked in this process.
    pub(crate) fn new(stored: batch::BatchOperations<'a>) -> Self {
        Self { stored }
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Operation<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let operation = self.stored.next()?.and_then(Operation::try_from);
        Some(operation.expect("the operations of a batch are checked when they get into it"))
    }
}
