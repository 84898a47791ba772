//! Ingests into an open database.

use super::Engine;
use crate::{
    catalog::family::FamilyData,
    ingest::{self, Ingested},
};
use siltdb_base::{error::Result, key::EntryKind};
use siltdb_tree::rewrite::ingest::IngestWriter;
use std::{path::PathBuf, sync::Arc};

impl Engine {
    /// A writer of an ingest into `family`.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; `ReadOnly`, `Poisoned`, `Closed`.
    pub fn begin_ingest(&self, family: &FamilyData) -> Result<IngestWriter> {
        self.check_writable(family)?;
        Ok(ingest::begin(self, family))
    }

    /// Adds an entry to an ingest.
    ///
    /// # Errors
    /// As [`ingest::add`].
    pub fn add_to_ingest(
        &self,
        writer: &mut IngestWriter,
        kind: EntryKind,
        entry: (&[u8], &[u8]),
    ) -> Result<()> {
        self.at_work(|database| ingest::add(database, writer, kind, entry))
    }

    /// Ingests what was written.
    ///
    /// # Errors
    /// As [`ingest::finish`].
    pub fn end_ingest(&self, family: &Arc<FamilyData>, writer: IngestWriter) -> Result<Ingested> {
        let mut writer = Some(writer);
        let ingested = self.at_work(|database| {
            ingest::finish(database, family, writer.take().expect("work is done once"))
        });
        writer.into_iter().for_each(|writer| self.cancel_ingest(writer));
        ingested
    }

    /// Removes what an ingest has written. If the database is closed, the next opening does.
    pub fn cancel_ingest(&self, writer: IngestWriter) {
        let mut writer = Some(writer);
        let mut remove = || {
            drop(writer.take());
            Ok(())
        };
        // Refused once the database is closing, and in a forked child.
        let _ = self.writable().and_then(|database| database.at_work(|_| remove()));
        writer.into_iter().for_each(IngestWriter::abandon);
    }

    /// Ingests table files, each into the family beside it.
    ///
    /// # Errors
    /// As [`ingest::ingest_files`].
    pub fn ingest_files(&self, files: &[(Arc<FamilyData>, PathBuf)]) -> Result<Ingested> {
        self.at_work(|database| ingest::ingest_files(database, files))
    }
}
