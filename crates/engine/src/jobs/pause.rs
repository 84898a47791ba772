//! Pauses of the background work: compactions and the background scrub.
//!
//! Flushes go on, because writers wait for them. So does a compaction that stopped writers wait
//! for. A pause ends no running job.
//!
//! # Seeded fault
//! `pause_forgets_stopped_writers`: a pause keeps compactions back for which writers wait.

use crate::{background::Background, backpressure::Backpressure, database::Database};
use siltdb_base::{process::Process, seeded_fault, sync::lock};
use std::sync::{Arc, Weak};

/// No automatic compaction and no background scrub begins until this is dropped. Pauses may
/// overlap: the work goes on once all of them are dropped.
///
/// A compaction that stopped writers wait for begins all the same. A pause does not keep the
/// database open.
#[derive(Debug)]
#[must_use = "the pause ends when this is dropped"]
pub struct BackgroundPause {
    /// In a forked child the locks of the database may be held for ever.
    process: Process,
    database: Weak<Database>,
}

impl BackgroundPause {
    /// Begins a pause.
    pub fn begin(database: &Arc<Database>) -> Self {
        lock(&database.background.jobs).pauses += 1;
        Self { process: Process::current(), database: Arc::downgrade(database) }
    }

    /// Ends the pause, as dropping it does.
    pub fn resume(self) {}
}

impl Drop for BackgroundPause {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        let Some(database) = self.database.upgrade() else { return };
        lock(&database.background.jobs).pauses -= 1;
        database.background.work.raise();
        database.scrubs.work.raise();
        database.backpressure.room.raise();
    }
}

/// Whether a pause keeps automatic compactions from beginning. Writers that had to stop may wait
/// for one, so then none is kept back.
pub fn holds_compactions(background: &Background, backpressure: &Backpressure) -> bool {
    let is_stopped =
        || !seeded_fault!("pause_forgets_stopped_writers") && backpressure.level_share() >= 1.0;
    background.is_paused() && !is_stopped()
}
