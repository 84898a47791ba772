//! Pauses, cancellations and scrubs of an open database, and its history.

use super::Engine;
use crate::{
    check_report::CheckProgress,
    jobs::request,
    pause::BackgroundPause,
    read::begin_snapshot_at,
    retention::{self, FloorChange},
    scrub::{self, ScrubRequest},
    scrub_report::ScrubReport,
    snapshots::LiveSnapshot,
};
use siltdb_base::{error::Result, id::SequenceNumber};
use std::sync::Arc;

impl Engine {
    /// Registers a snapshot at a sequence number of which the state is kept.
    ///
    /// # Errors
    /// `NotFound`, if it is below the retention floor, or below the present without a floor;
    /// `InvalidArgument`, if it is above the present.
    pub fn snapshot_at(&self, sequence: SequenceNumber) -> Result<LiveSnapshot> {
        begin_snapshot_at(self, sequence)
    }

    /// Sets the retention floor. Durable on return.
    ///
    /// # Errors
    /// As [`retention::set_floor`].
    pub fn set_retention_floor(&self, change: FloorChange) -> Result<Option<SequenceNumber>> {
        self.at_work(|database| retention::set_floor(database, change))
    }

    /// Keeps automatic compactions and the background scrub from beginning.
    ///
    /// # Errors
    /// `ReadOnly`, `Poisoned`, `Closed`.
    pub fn pause_background(&self) -> Result<BackgroundPause> {
        self.writable()?.health.check()?;
        Ok(BackgroundPause::begin(&self.open.database))
    }

    /// Cancels all running compactions and waits for their end.
    ///
    /// # Errors
    /// As [`request::cancel_compactions`].
    pub fn cancel_compactions(&self) -> Result<()> {
        self.at_work(request::cancel_compactions)
    }

    /// Verifies what `request` asks for. Closing the database ends it.
    ///
    /// # Errors
    /// As [`scrub::scrub`].
    pub fn scrub(
        &self,
        request: &ScrubRequest,
        on_progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<Arc<ScrubReport>> {
        let database = self.writable()?;
        database.at_work(|database| scrub::scrub(database, request, on_progress))
    }
}
