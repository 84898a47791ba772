//! Runs the next due job, for a simulator or a waiting writer.

use crate::{
    database::{Database, Waiting},
    jobs::{compact::compact_next, flush::flush_next, tiers::move_next},
    write::log_sync::sync_if_due,
};
use siltdb_base::error::Result;

/// Runs one job if one is due. Returns whether it ran one. Moves between the tiers come last.
///
/// # Errors
/// The failure of the job.
pub fn run_one(database: &Database) -> Result<bool> {
    Ok(make_room(database)? || move_next(database)?)
}

/// Runs one job of those that a writer may wait for. Returns whether it ran one. Flushes come
/// first, because they make room.
///
/// # Errors
/// The failure of the job.
pub fn make_room(database: &Database) -> Result<bool> {
    if let Waiting::RunJob(_) = database.waiting {
        sync_if_due(database)?;
    }
    Ok(flush_next(database)? || compact_next(database)?)
}
