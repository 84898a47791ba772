//! Reads of tables that are not open, and of those that there is no memory to hold open.

use super::OpenReference;
use siltdb_base::{error::Result, id::SequenceNumber, key::LookupKey};
use siltdb_disk::{
    options::TableKind,
    table::{FoundEntry, Table},
};
use std::sync::Arc;

impl OpenReference {
    /// The table, for a reader that goes on in it. It stays open. Once tables take their share of
    /// the memory budget, its index stays in the file.
    ///
    /// # Errors
    /// As [`OpenReference::table`].
    pub fn reading(&self) -> Result<Arc<Table>> {
        match self.table.get() {
            Some(table) => Ok(Arc::clone(table)),
            None if self.may_stay_open() => self.open().map(Arc::clone),
            None => self.by_frames().map(Arc::clone),
        }
    }

    /// Whether a point entry from `lower` up to and without `upper` may be seen through this
    /// reference, as far as the prefixes in the filter tell; `false` is certain.
    ///
    /// Cost: reads the filter, if it has prefixes and was not read.
    #[must_use]
    pub fn may_hold_range(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        if self.meta().filter_keys.prefix_of_range(lower, upper).is_none() {
            return true;
        }
        let asked = match self.table.get() {
            Some(table) => table.may_contain_range(lower, upper),
            None if self.files.cache.has_room_for_tables() => {
                self.filter().map(|filter| filter.may_contain_range(lower, upper))
            }
            None => self.lean().and_then(|table| table.may_contain_range(lower, upper)),
        };
        // A filter that cannot be read tells nothing.
        let may_hold = asked.unwrap_or(true);
        self.files.prefixes.note(u64::from(!may_hold));
        may_hold
    }

    /// An open B+tree table takes only the memory of its root.
    pub(super) fn may_stay_open(&self) -> bool {
        self.meta().kind == TableKind::BTree || self.files.cache.has_room_for_tables()
    }

    /// As [`OpenReference::get_whole`], of a table that is not open.
    #[cold]
    pub(super) fn get_closed<R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        if !self.files.cache.has_room_for_tables() {
            return self.lean()?.get(key, visible, look);
        }
        match self.filter()?.may_contain(key) {
            true => self.open()?.get(key, visible, look),
            false => Ok(None),
        }
    }

    /// The table with as little of it in memory as its kind permits.
    fn lean(&self) -> Result<&Arc<Table>> {
        match self.meta().kind {
            TableKind::BTree => self.table(),
            _ => self.by_frames(),
        }
    }

    /// The table without its index in memory.
    pub(super) fn by_frames(&self) -> Result<&Arc<Table>> {
        if let Some(table) = self.by_frames.get() {
            return Ok(table);
        }
        let table = self.file.lean_table(&self.files, &self.reference)?;
        if let Some(filter) = self.filter.get() {
            table.share_filter(filter);
        }
        Ok(self.by_frames.get_or_init(|| table))
    }
}
