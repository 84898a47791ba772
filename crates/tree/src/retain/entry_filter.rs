//! What a compaction filter is shown of an entry, and the entry that its decision makes: rule 13 of
//! [`crate::retain`].
//!
//! It does not say which entries may be shown.

use crate::{
    compaction_filter::{FilterDecision, FilteredEntry, JobFilter},
    read::visible::resolve::BlobSource,
};
use siltdb_base::{
    key::{BlobPointer, Entry, EntryKind, split_expiring},
    slice::Slice,
};
use std::{fmt, sync::Arc};

/// The compaction filter of a job, and where it finds separated values.
#[derive(Clone)]
pub struct EntryFilter {
    job: JobFilter,
    needs_values: bool,
    blobs: Option<Arc<dyn BlobSource>>,
    /// Entries from this key on are decided by another part of the job.
    upper: Option<Slice>,
}

impl fmt::Debug for EntryFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryFilter").field("job", &self.job).finish_non_exhaustive()
    }
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilteredAs {
    /// It stays as it is.
    Same,
    /// The key has no value any more.
    Deletion,
    /// An entry of this kind and payload.
    Changed(EntryKind, Vec<u8>),
}

impl EntryFilter {
    /// The filter of a job. `blobs` has all values that entries of the job point to.
    #[must_use]
    pub fn new(job: JobFilter, blobs: Option<Arc<dyn BlobSource>>) -> Self {
        Self { needs_values: job.needs_values(), job, blobs, upper: None }
    }

    /// The same for the part of a job that ends before `upper`, and may read on behind it.
    #[must_use]
    pub fn up_to(self, upper: Option<Slice>) -> Self {
        Self { upper, ..self }
    }

    /// What the filter makes of `entry`, a value. A separated value that cannot be read stays as it
    /// is: readers and verification report it.
    #[must_use]
    pub fn decide(&self, entry: &Entry<'_>) -> FilteredAs {
        if self.upper.as_ref().is_some_and(|upper| entry.key >= upper.as_bytes()) {
            return FilteredAs::Same;
        }
        let separated: Slice;
        let read = match entry.kind {
            EntryKind::Put => Some((None, entry.value)),
            EntryKind::PutExpiring => {
                split_expiring(entry.value).ok().map(|(expiry_ms, value)| (Some(expiry_ms), value))
            }
            EntryKind::BlobPointer => match self.separated(entry.value) {
                Some((expiry_ms, value)) => {
                    separated = value;
                    Some((expiry_ms, &separated[..]))
                }
                None => None,
            },
            _ => return FilteredAs::Same,
        };
        let decision = match read {
            Some((expiry_ms, value)) => self.job.decide(&FilteredEntry {
                key: entry.key,
                value: if self.needs_values { value } else { b"" },
                expiry_ms,
                sequence: entry.sequence,
                level: 0,
            }),
            None => self.job.fail(),
        };
        let expiry_ms = read.and_then(|(expiry_ms, _)| expiry_ms);
        match (decision, expiry_ms) {
            (FilterDecision::Keep, _) => FilteredAs::Same,
            (FilterDecision::Drop, _) => FilteredAs::Deletion,
            (FilterDecision::Change(value), None) => FilteredAs::Changed(EntryKind::Put, value),
            (FilterDecision::Change(value), Some(expiry_ms)) => {
                let payload = [&expiry_ms.to_le_bytes()[..], &value].concat();
                FilteredAs::Changed(EntryKind::PutExpiring, payload)
            }
        }
    }

    /// The expiry and the value behind the pointer in `payload`. The value is empty, if the filter
    /// does not need it.
    fn separated(&self, payload: &[u8]) -> Option<(Option<u64>, Slice)> {
        let pointer = BlobPointer::decode(payload).ok()?;
        let value = match self.needs_values {
            true => self.blobs.as_ref()?.read(&pointer).ok()?,
            false => Slice::default(),
        };
        Some((pointer.expiry_ms, value))
    }
}

#[cfg(test)]
mod tests;
