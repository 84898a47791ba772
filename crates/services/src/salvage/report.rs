//! The report of a salvage: how much was saved, and whether anything may be lost.

use siltdb_engine::reports::lost::Lost;

/// The progress of a salvage.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SalvageProgress {
    /// The size of keys and values written to the new database, in bytes.
    pub bytes_done: u64,
}

/// What was known of the old database beyond its tables and log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestState {
    /// The manifest is whole: the newest value of each key counts.
    #[default]
    Whole,
    /// The manifest is missing or damaged. Some retired tables and log segments cannot be told from
    /// live ones. Deleted keys and older values may be among the saved ones, and a retired deletion
    /// may hide a later value.
    Lost,
}

/// The result for one family.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedFamily {
    /// Its name in the new database.
    pub name: String,
    /// The number of keys with a value.
    pub entries: u64,
    /// Whether name and options are the original ones; otherwise they are made up.
    pub is_known: bool,
}

/// The result of a salvage.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct SalvageReport {
    /// The families of the new database, in the order of their ids in the old one.
    pub families: Vec<SalvagedFamily>,
    /// The number of keys with a value in all families.
    pub entries: u64,
    /// The number of log records that were read.
    pub log_records: u64,
    /// The number of operations that were read from log segments that the manifest calls retired,
    /// because a table that took their place is missing or damaged. The lost parts of tables are in
    /// `lost` all the same, because nothing tells whether these are all of their entries.
    pub retired_operations: u64,
    /// How many of `retired_operations` may not be the last ones of their keys: after them there
    /// were commits that the log does not have, because they were `Volatile`, ingested or damaged.
    /// Their keys may have an older value, or one that was deleted later.
    pub possibly_replaced: u64,
    /// Prepared transactions without a decision; the new database has them, too.
    pub prepared: u64,
    /// Whether a whole manifest was found.
    pub manifest: ManifestState,
    /// Everything that may be lost; empty if nothing is.
    pub lost: Vec<Lost>,
}

impl SalvageReport {
    /// Whether no loss is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty()
    }

    pub(super) fn add(&mut self, family: SalvagedFamily) {
        self.entries += family.entries;
        self.families.push(family);
    }
}
