//! Ranges to delete in the form that the log stores: a first key and an exclusive end.
//!
//! It deletes nothing. No key follows the greatest key, so a range without an end takes two
//! operations: a range up to that key, and the key itself.

use crate::key_range::{KeyRange, read_range};
use siltdb_base::{error::Result, id::FamilyId, limits::KEY_BYTES_MAX, slice::Slice};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::read::ReadRange;
use std::ops::Bound;

/// The greatest possible key: the longest, of 0xff bytes alone.
static GREATEST: [u8; KEY_BYTES_MAX] = [u8::MAX; KEY_BYTES_MAX];

/// The operations that delete a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// None: the range is empty.
    Nothing,
    /// A range: the keys from `start` up to the exclusive `end`, which is greater.
    Before { start: Slice, end: Slice },
    /// A range and a key: the keys from `start` up to `end`, the greatest possible key, and `end`.
    Through { start: Slice, end: Slice },
}

impl Deletion {
    /// The deletion of a range with bounds of any kind.
    pub(crate) fn of(range: &impl KeyRange) -> Self {
        Self::between(read_range(range))
    }

    /// The deletion of all keys that begin with `prefix`.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        Self::between(ReadRange::prefix(prefix))
    }

    /// Adds the operations to a batch, all or none.
    ///
    /// # Errors
    /// As [`BatchBytes::delete_range`].
    pub(crate) fn add_to(&self, bytes: &mut BatchBytes, family: FamilyId) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Before { start, end } => bytes.delete_range(family, start, end),
            Self::Through { start, end } => {
                let mut both = BatchBytes::new();
                both.delete_range(family, start, end)?;
                both.delete(family, end)?;
                bytes.append(&both)
            }
        }
    }

    fn between(ReadRange { start, end }: ReadRange) -> Self {
        let start = match start {
            Bound::Unbounded => Some(Slice::default()),
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) => next_key(&key),
        };
        let end = match end {
            Bound::Unbounded => None,
            Bound::Excluded(key) => Some(key),
            Bound::Included(key) => next_key(&key),
        };
        match (start, end) {
            (None, _) => Self::Nothing,
            (Some(start), Some(end)) if start < end => Self::Before { start, end },
            (Some(_), Some(_)) => Self::Nothing,
            (Some(start), None) => Self::Through { start, end: Slice::copy_from(&GREATEST) },
        }
    }
}

/// Returns the least key that is greater; `None` if there is none. A key of the greatest length
/// cannot be extended. The encoding of the operation refuses a longer one.
fn next_key(key: &[u8]) -> Option<Slice> {
    if key.len() != KEY_BYTES_MAX {
        return Some([key, &[0]].concat().into());
    }
    let last = key.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut next = key[..=last].to_vec();
    next[last] += 1;
    Some(next.into())
}

#[cfg(test)]
mod tests;
