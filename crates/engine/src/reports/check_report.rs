//! What a check of tables, log and manifest has found, and how far it is.

use crate::reports::{
    kept::LostFiles,
    lost::Lost,
    value_check::{BlobFilesSeen, ValueCheck},
};
use siltdb_base::error::Error;

/// The progress of a check.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    /// The bytes verified so far.
    pub bytes_done: u64,
    /// The bytes to verify.
    pub bytes_total: u64,
}

impl CheckProgress {
    /// The progress of a check that has verified none of `bytes_total` bytes.
    #[must_use]
    pub fn of(bytes_total: u64) -> Self {
        Self { bytes_done: 0, bytes_total }
    }
}

/// The result of a check.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The number of tables verified.
    pub tables: u64,
    /// The number of their blocks.
    pub blocks: u64,
    /// The number of their entries, tombstones and old versions included.
    pub entries: u64,
    /// The number of log records that were replayed when the database was opened.
    pub log_records: u64,
    /// Prepared transactions that wait for their decision.
    pub prepared: u64,
    /// The bytes of tables verified.
    pub bytes: u64,
    /// The number of tables that are damaged or cannot be read. A table is whole if only values in
    /// blob files are lost.
    pub tables_damaged: u64,
    /// The number of separated values verified, those of old versions included.
    pub values: u64,
    /// The number of entries whose separated values are lost.
    pub values_damaged: u64,
    /// The number of blob files that entries refer to.
    pub blob_files: u64,
    /// The number of those in which a value is lost.
    pub blob_files_damaged: u64,
    /// The keys that cannot be read because of damage. The error of each is among `errors` or
    /// follows one of these. A damaged filter loses no key, but makes lookups fail.
    pub damage: Vec<Lost>,
    /// All errors that were found; empty if everything is sound.
    pub errors: Vec<Error>,
    /// The parts that were not verified because of damage: `log`, `tables`. If `log` is among them,
    /// no record of it is counted. Of the manifest and the log only the first damage is among the
    /// errors.
    pub not_verified: Vec<&'static str>,
    /// The files in the directory `lost`, which are no part of the database and are not verified.
    pub lost_files: LostFiles,
    blobs_seen: BlobFilesSeen,
}

impl CheckReport {
    /// Whether no error was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds the separated values of a table or memtable; its lost ones as `lost_of` says for whom.
    pub fn add_values(&mut self, values: ValueCheck, lost_of: &dyn Fn(&ValueCheck) -> Vec<Lost>) {
        self.values += values.verified;
        self.values_damaged += values.damaged;
        self.blobs_seen.extend(&values.files);
        self.blob_files = self.blobs_seen.count();
        self.blob_files_damaged = self.blobs_seen.damaged();
        self.damage.extend(lost_of(&values));
        self.errors.extend(values.lost.into_iter().map(|lost| lost.error));
    }
}
