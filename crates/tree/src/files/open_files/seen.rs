//! What of a table is seen through a reference to it, and about how much that is.

use super::OpenReference;
use crate::files::key_slice::seen_tombstones;
use siltdb_base::{error::Result, id::SequenceNumber, tombstone::Fragments};
use siltdb_disk::{edit::TableReference, table_meta::KeySpan};
use std::sync::Arc;

impl OpenReference {
    /// The same table as another reference to it sees it. What readers have opened stays open.
    ///
    /// # Errors
    /// The errors of [`OpenFiles::reference`].
    pub fn seen_as(&self, reference: Arc<TableReference>) -> Result<Arc<Self>> {
        let is_same = reference.meta == self.reference.meta;
        let seen = self.files.reference(reference)?;
        if is_same {
            self.table.get().map(|table| seen.table.set(Arc::clone(table)));
            self.filter.get().map(|filter| seen.filter.set(filter.clone()));
            self.by_frames.get().map(|table| seen.by_frames.set(Arc::clone(table)));
        }
        Ok(seen)
    }

    /// No entry that is seen through this reference is newer.
    #[must_use]
    pub fn sequence_max(&self) -> SequenceNumber {
        let newest = self.reference.global_sequence.unwrap_or(self.meta().sequence_max);
        self.reference.visible_to.map_or(newest, |limit| limit.min(newest))
    }

    /// No entry that is seen through this reference is older.
    #[must_use]
    pub fn sequence_min(&self) -> SequenceNumber {
        self.reference.global_sequence.unwrap_or(self.meta().sequence_min)
    }

    /// Whether the whole table is seen through this reference, with its own sequence numbers.
    #[inline]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether all entries from `first` to `last` are seen through this reference, with their own
    /// sequence numbers.
    #[must_use]
    pub fn shows_all(&self, first: &[u8], last: &[u8]) -> bool {
        let TableReference { key_slice, visible_to, global_sequence, .. } = &*self.reference;
        let holds = |slice: &KeySpan| slice.contains(first) && slice.contains(last);
        visible_to.is_none() && global_sequence.is_none() && key_slice.as_ref().is_none_or(holds)
    }

    /// About how many bytes of its file are seen through this reference. All sizes by which
    /// compactions are chosen and writers delayed are of these.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.reference.slice_bytes.unwrap_or(self.reference.length)
    }

    /// Bytes that the whole table takes in its file, seen or not.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.reference.length
    }

    /// About how many entries are seen through this reference.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.seen_part_of(self.meta().entries)
    }

    /// About what part of `count`, of something spread evenly over the table, is seen through this
    /// reference.
    #[must_use]
    pub fn seen_part_of(&self, count: u64) -> u64 {
        match self.reference.slice_bytes {
            None => count,
            Some(bytes) => {
                let part = u128::from(count) * u128::from(bytes);
                // Not above `count`, because a slice is not longer than its table.
                (part / u128::from(self.reference.length.max(1))) as u64
            }
        }
    }

    /// Whether range tombstones may be seen through this reference.
    #[inline]
    #[must_use]
    pub fn has_range_tombstones(&self) -> bool {
        self.has_range_tombstones
    }

    /// The range tombstones that are seen through this reference.
    ///
    /// # Errors
    /// What opening the table fails with.
    pub fn tombstones(&self) -> Result<&Arc<Fragments>> {
        let table = match self.table.get() {
            None if !self.may_stay_open() => self.by_frames()?,
            _ => self.table()?,
        };
        Ok(self.seen_of(table.tombstones()))
    }

    /// What is seen through this reference of `whole`, the range tombstones of its table.
    #[must_use]
    pub fn seen_of<'f>(&'f self, whole: &'f Arc<Fragments>) -> &'f Arc<Fragments> {
        if self.is_whole() {
            return whole;
        }
        self.narrow.get_or_init(|| Arc::new(seen_tombstones(&self.reference, whole)))
    }
}
