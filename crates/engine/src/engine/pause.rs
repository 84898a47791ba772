//! Pauses of the background work of an open database: compactions and the background scrub.
//!
//! What goes on in a pause is decided where it begins (`jobs::pause`).

use crate::{database::Database, engine::Engine};
use siltdb_base::{error::Result, process::Process, sync::lock};
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
    ///
    /// # Errors
    /// `Forked`, in a forked child; `ReadOnly`, `Poisoned`, `Closed`.
    pub fn begin(engine: &Engine) -> Result<Self> {
        engine.writable()?.database().health.check()?;
        let database = &engine.open.database;
        lock(&database.background.jobs).pauses += 1;
        Ok(Self { process: engine.open.process, database: Arc::downgrade(database) })
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
