//! Reads of tables that are not open, and of those that there is no memory to hold open.

use super::OpenReference;
use crate::files::key_slice::seen_tombstones;
use siltdb_base::{error::Result, id::SequenceNumber, key::LookupKey, tombstone::Fragments};
use siltdb_disk::{
    options::TableKind,
    table::{FoundEntry, Table, TableProbe},
};
use std::sync::Arc;

impl OpenReference {
    /// The table, for a reader that goes on in it. It stays open, unless tables take their share of
    /// the memory budget: then it is open for as long as the result lives.
    ///
    /// # Errors
    /// As [`OpenReference::table`].
    pub fn reading(&self) -> Result<Arc<Table>> {
        match self.table.get() {
            Some(table) => Ok(Arc::clone(table)),
            None if self.may_stay_open() => self.open().map(Arc::clone),
            None => self.open_ahead(),
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
        let filter = self.table.get().map_or_else(|| self.filter(), |table| table.filter());
        // A filter that cannot be read tells nothing.
        let may_hold = filter.map_or(true, |filter| filter.may_contain_range(lower, upper));
        self.files.prefixes.note(u64::from(!may_hold));
        may_hold
    }

    /// An open B+tree table takes only the memory of its root.
    pub(super) fn may_stay_open(&self) -> bool {
        self.meta().kind == TableKind::BTree || self.files.cache.has_room_for_tables()
    }

    #[cold]
    pub(super) fn read_tombstones(&self) -> Result<&Arc<Fragments>> {
        let table = self.pass()?;
        let whole = table.tombstones();
        let seen = || match self.is_whole() {
            true => Arc::clone(whole),
            false => Arc::new(seen_tombstones(&self.reference, whole)),
        };
        Ok(self.narrow.get_or_init(seen))
    }

    /// As [`OpenReference::get_whole`], of a table that is not open.
    #[cold]
    pub(super) fn get_closed<R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        if !self.may_stay_open() {
            return match self.probe.get() {
                Some(probe) => probe.get(key, visible, look),
                None => self.new_probe()?.get(key, visible, look),
            };
        }
        match self.filter()?.may_contain(key) {
            true => self.open()?.get(key, visible, look),
            false => Ok(None),
        }
    }

    fn new_probe(&self) -> Result<&TableProbe> {
        let probe = TableProbe::new(self.pass()?, &self.files.cache)?;
        Ok(self.probe.get_or_init(|| probe))
    }
}
