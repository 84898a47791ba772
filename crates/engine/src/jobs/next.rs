//! Runs the next due job, for a simulator or a waiting writer.

use crate::{
    database::job_rooms::{JobRooms, Waiting},
    jobs::{compact::compact_next, flush::flush_next, tiers::move_next},
    write::log_sync::sync_if_due,
};
use siltdb_base::error::Result;

/// Runs one job if one is due. Returns whether it ran one. Moves between the tiers come last.
///
/// # Errors
/// The failure of the job.
pub fn run_one(rooms: &JobRooms<'_>) -> Result<bool> {
    Ok(make_room(rooms)? || move_next(rooms)?)
}

/// Runs one job of those that a writer may wait for. Returns whether it ran one. Flushes come
/// first, because they make room.
///
/// # Errors
/// The failure of the job.
pub fn make_room(rooms: &JobRooms<'_>) -> Result<bool> {
    if let Waiting::RunJob(_) = rooms.waiting {
        sync_if_due(&rooms.installer(), rooms.options)?;
    }
    Ok(flush_next(rooms)? || compact_next(rooms)?)
}
