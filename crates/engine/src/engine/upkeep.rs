//! Pauses, cancellations and scrubs of an open database.

use super::Engine;
use crate::{
    check_report::CheckProgress,
    jobs::request,
    pause::BackgroundPause,
    scrub::{self, ScrubRequest},
    scrub_report::ScrubReport,
};
use siltdb_base::error::Result;
use std::sync::Arc;

impl Engine {
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
