//! Ranges of keys to delete, as the log stores them: a first key and the first key that stays.
//!
//! It deletes nothing. No key follows the greatest one, so a range without an end takes two
//! operations: a range up to that key, and the key itself.

use crate::key_range::{KeyRange, read_range};
use siltdb_base::{error::Result, id::FamilyId, limits::KEY_BYTES_MAX, slice::Slice};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::read::ReadRange;
use std::ops::Bound;

/// The greatest key that there can be.
static GREATEST: [u8; KEY_BYTES_MAX] = [u8::MAX; KEY_BYTES_MAX];

/// What a range of keys comes to when it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// No key.
    Nothing,
    /// The keys from `start` up to, but not including, `end`, which is greater.
    Before { start: Slice, end: Slice },
    /// The keys from `start` up to `end`, which is the greatest there can be, and that one.
    Through { start: Slice, end: Slice },
}

impl Deletion {
    /// Of a range whose bounds may be of any kind.
    pub(crate) fn of(range: &impl KeyRange) -> Self {
        Self::between(read_range(range))
    }

    /// Of all keys that begin with `prefix`.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        Self::between(ReadRange::prefix(prefix))
    }

    /// Adds what it takes to a batch, whole or not at all.
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

/// The least key that is greater; `None` if there is none. A key of the greatest length cannot be
/// made longer. Of one that is too long the caller is told when the operation is encoded.
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
