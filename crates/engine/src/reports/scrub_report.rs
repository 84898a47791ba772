//! What scrubs have found: the report of the last one, and the damage that is known.

use crate::{kit::signal::Signal, reports::check_report::CheckReport};
use siltdb_base::{
    error::{Error, Result},
    sync::lock,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// The result of a scrub.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct ScrubReport {
    /// The time at which the scrub began, in ms since 1970.
    pub started_ms: u64,
    /// The time that it took.
    pub duration: Duration,
    /// The bytes that it read: of tables, the log and the manifest.
    pub bytes: u64,
    /// What it verified, and the damage. `log_records` counts the records that it read in the log.
    pub found: CheckReport,
    /// The number of tables that were removed while the scrub read them.
    pub tables_skipped: u64,
    /// Whether the scrub verified everything from where it began. It did not if it was cancelled.
    pub is_complete: bool,
    /// The uid of the last table that it verified; `None` before the first one. A later scrub can
    /// continue after this table.
    pub last_table: Option<u64>,
}

impl ScrubReport {
    /// Whether no damage was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.found.is_clean()
    }

    /// The first damage that was found.
    fn first_error(&self) -> Option<Error> {
        self.found.errors.first().map(Error::duplicate)
    }
}

/// The scrubs of a database since it was opened.
#[derive(Debug, Default)]
pub struct Scrubs {
    /// Wakes the thread that scrubs: a pause has ended, or the database closes.
    pub work: Signal,
    state: Mutex<ScrubState>,
}

#[derive(Debug, Default)]
struct ScrubState {
    complete: u64,
    last: Option<Arc<ScrubReport>>,
    damage: Option<Error>,
}

/// Which part of the database a scrub had to verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubPart {
    /// Everything.
    All,
    /// The tables after some table.
    Rest,
}

impl Scrubs {
    /// Keeps a report as that of the last scrub. Its damage counts until a complete scrub of
    /// everything finds none.
    pub fn note(&self, part: ScrubPart, report: ScrubReport) -> Arc<ScrubReport> {
        let report = Arc::new(report);
        let mut state = lock(&self.state);
        state.complete += u64::from(report.is_complete);
        match report.first_error() {
            Some(error) => state.damage = Some(error),
            None if report.is_complete && part == ScrubPart::All => state.damage = None,
            None => {}
        }
        state.last = Some(Arc::clone(&report));
        report
    }

    /// The number of complete scrubs.
    #[must_use]
    pub fn complete(&self) -> u64 {
        lock(&self.state).complete
    }

    /// The report of the last scrub.
    #[must_use]
    pub fn last(&self) -> Option<Arc<ScrubReport>> {
        lock(&self.state).last.clone()
    }

    /// Succeeds unless a scrub has found damage, and no later one found everything sound.
    ///
    /// # Errors
    /// The first damage that was found last.
    pub fn check(&self) -> Result<()> {
        lock(&self.state).damage.as_ref().map_or(Ok(()), |error| Err(error.duplicate()))
    }
}

#[cfg(test)]
mod tests;
