//! What a salvage tells: how much was saved, and whether anything may be lost.

use crate::lost::Lost;

/// How far a salvage has come.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SalvageProgress {
    /// Bytes of keys and values written to the new database.
    pub bytes_done: u64,
}

/// What was known of the old database besides its tables and its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestState {
    /// The manifest is whole: the newest value of each key is the one that counts.
    #[default]
    Whole,
    /// It is missing or damaged: not all tables and log segments that it had retired can be told
    /// from those that count. Deleted keys and older values may be among what was saved, and a
    /// retired deletion may hide a later value.
    Lost,
}

/// What was saved of a family.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedFamily {
    /// What it is called in the new database.
    pub name: String,
    /// Keys that have a value there.
    pub entries: u64,
    /// Whether its name and options are those that it had; else they are made up.
    pub is_known: bool,
}

/// What a salvage came to.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct SalvageReport {
    /// The families of the new database, in the order of their numbers in the old one.
    pub families: Vec<SalvagedFamily>,
    /// Keys of all families that have a value there.
    pub entries: u64,
    /// Records of the log that were read.
    pub log_records: u64,
    /// Whether there was a manifest to go by.
    pub manifest: ManifestState,
    /// What may be lost; empty if nothing is.
    pub lost: Vec<Lost>,
}

impl SalvageReport {
    /// Whether nothing is known to be lost.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty()
    }

    pub(super) fn add(&mut self, family: SalvagedFamily) {
        self.entries += family.entries;
        self.families.push(family);
    }
}
