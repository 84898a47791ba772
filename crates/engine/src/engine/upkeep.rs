//! Pauses and cancellations of background work, and the history.

use super::Engine;
use crate::{
    copies::retention::{self, FloorChange},
    jobs::{pause::BackgroundPause, request},
    read::begin_snapshot_at,
    snapshots::LiveSnapshot,
};
use siltdb_base::{error::Result, id::SequenceNumber};

impl Engine {
    /// Registers a snapshot at a sequence number of which the state is kept.
    ///
    /// # Errors
    /// `NotFound`, if it is below the retention floor, or below the present without a floor;
    /// `InvalidArgument`, if it is above the present.
    pub fn snapshot_at(&self, sequence: SequenceNumber) -> Result<LiveSnapshot> {
        begin_snapshot_at(&self.database().read_rooms(), sequence)
    }

    /// Sets the retention floor. Durable on return.
    ///
    /// # Errors
    /// As [`retention::set_floor`].
    pub fn set_retention_floor(&self, change: FloorChange) -> Result<Option<SequenceNumber>> {
        self.at_work(|database| retention::set_floor(&database.job_rooms(), change))
    }

    /// Keeps automatic compactions and the background scrub from beginning.
    ///
    /// # Errors
    /// `ReadOnly`, `Poisoned`, `Closed`.
    pub fn pause_background(&self) -> Result<BackgroundPause> {
        self.writable()?;
        self.database().health.check()?;
        Ok(BackgroundPause::begin(&self.open.database))
    }

    /// Cancels all running compactions and waits for their end.
    ///
    /// # Errors
    /// As [`request::cancel_compactions`].
    pub fn cancel_compactions(&self) -> Result<()> {
        self.at_work(|database| request::cancel_compactions(&database.installer()))
    }
}
