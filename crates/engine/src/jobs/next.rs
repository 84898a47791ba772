//! The next job, whichever is due: a simulator or a waiting writer calls it.

use crate::{
    database::{Database, Waiting},
    jobs::{compact::compact_next, flush::flush_next},
    log_sync::sync_if_due,
};
use siltdb_base::error::Result;

/// Runs one job if one is due, and says so: flushes first, for they make room.
///
/// # Errors
/// What the job failed with.
pub fn run_one(database: &Database) -> Result<bool> {
    if let Waiting::RunJob(_) = database.waiting {
        sync_if_due(database)?;
    }
    Ok(flush_next(database)? || compact_next(database)?)
}
