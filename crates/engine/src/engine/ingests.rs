//! Ingests into an open database.

use super::Engine;
use crate::{
    catalog::family::FamilyData,
    copies::ingest::{self, IngestStream, Ingested},
};
use siltdb_base::{error::Result, key::EntryKind};
use std::{path::PathBuf, sync::Arc};

impl Engine {
    /// A stream of sorted entries into `family`.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; `ReadOnly`, `Poisoned`, `Closed`.
    pub fn begin_ingest(&self, family: &FamilyData) -> Result<IngestStream> {
        self.check_writable(family)?;
        Ok(ingest::begin(&self.database().log, family))
    }

    /// Adds an entry to an ingest.
    ///
    /// # Errors
    /// As [`ingest::add`].
    pub fn add_to_ingest(
        &self,
        stream: &mut IngestStream,
        kind: EntryKind,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.at_work(|database| {
            ingest::add(&self.database().memory, &database.job_rooms(), stream, kind, key, value)
        })
    }

    /// Ingests what was added.
    ///
    /// # Errors
    /// As [`ingest::finish`].
    pub fn end_ingest(&self, family: &Arc<FamilyData>, stream: IngestStream) -> Result<Ingested> {
        let mut stream = Some(stream);
        let ingested = self.at_work(|database| {
            ingest::finish(database, family, stream.take().expect("work is done once"))
        });
        stream.into_iter().for_each(|stream| self.cancel_ingest(stream));
        ingested
    }

    /// Removes what an ingest has written. If the database is closed, the next opening does.
    pub fn cancel_ingest(&self, stream: IngestStream) {
        let mut stream = Some(stream);
        // Refused once the database is closing, and in a forked child.
        let _ = self.writable().and_then(|database| {
            database.installer().at_work(|| {
                stream
                    .take()
                    .into_iter()
                    .for_each(|stream| ingest::cancel(&self.database().background, stream));
                Ok(())
            })
        });
        stream.into_iter().for_each(IngestStream::abandon);
    }

    /// Ingests table files, each into the family beside it.
    ///
    /// # Errors
    /// As [`ingest::ingest_files`].
    pub fn ingest_files(&self, files: &[(Arc<FamilyData>, PathBuf)]) -> Result<Ingested> {
        self.at_work(|database| ingest::ingest_files(database, files))
    }
}
