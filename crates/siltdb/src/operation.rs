//! What a batch holds, one operation at a time, for programs that look into it.
//!
//! It changes nothing: a batch is put together by its own methods.

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
    /// The family that it changes; [`Db::family_by_id`](crate::Db::family_by_id) finds it.
    pub family: FamilyId,
    /// The key; of a range, the first one.
    pub key: &'a [u8],
    /// What it does to the key.
    pub action: Action<'a>,
}

/// What an [`Operation`] does.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Sets a value.
    Put(&'a [u8]),
    /// Sets a value for a time.
    PutUntil {
        /// The value.
        value: &'a [u8],
        /// When it expires, in ms since 1970.
        expiry_ms: u64,
    },
    /// Deletes the key.
    Delete,
    /// Deletes a key that was put once.
    SingleDelete,
    /// Deletes every key from the operation's key up to, but not including, this one.
    DeleteRange(&'a [u8]),
    /// Hands an operand to the merge operator.
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

/// The operations of a batch, in the order in which they are applied.
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    stored: batch::BatchOperations<'a>,
}

impl<'a> Operations<'a> {
    /// Of a batch that was put together or checked here.
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
