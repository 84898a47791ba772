//! The retention floor: the sequence number from which on every version of every key is kept, so
//! that each later state stays readable.
//!
//! It keeps nothing itself: what jobs keep, they ask [`Snapshots`](crate::snapshots::Snapshots).
//! What a flush or compaction has dropped before does not come back, so a first floor is always the
//! present.
//!
//! # Order
//! 1. A first floor is in force before it is durable. So nothing above it is dropped meanwhile.
//! 2. Everything up to a floor is durable before it is, so that no crash leaves the floor above the
//!    present.
//! 3. A floor that is raised or taken away is in force after that is durable. Else a crash could
//!    bring the old floor back without the versions that it promises.

use crate::{
    database::job_rooms::JobRooms,
    install::install,
    jobs::{compact::note_all_due, flush::flush_all},
    write::log_sync::sync_wal,
};
use siltdb_base::{
    error::{ErrorKind, Result},
    id::SequenceNumber,
    sync::lock,
};
use siltdb_disk::edit::Change;
use std::time::Duration;

/// A new retention floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloorChange {
    /// The last published sequence number.
    Present,
    /// A sequence number from the present floor to the present.
    At(SequenceNumber),
    /// No floor: only snapshots and the present are kept.
    Off,
}

/// Sets the retention floor of the database. Durable on return, as is everything committed up to
/// it. Returns the new floor.
///
/// # Errors
/// `NotFound`, if the number is below the floor, or below the present without a floor;
/// `InvalidArgument`, if it is above the present; `Poisoned`; what a flush fails with; as
/// [`install`]. The floor is the one before, unless it is unknown what is durable.
pub fn set_floor(rooms: &JobRooms<'_>, change: FloorChange) -> Result<Option<SequenceNumber>> {
    rooms.health.check()?;
    // One change of the floor at a time.
    let _changing = lock(&rooms.catalog.changing_io);
    let before = rooms.snapshots.floor();
    let wanted = match change {
        FloorChange::Off => return take_away(rooms, before),
        FloorChange::Present => None,
        FloorChange::At(sequence) => Some(sequence),
    };
    let present = || rooms.log.publisher.published();
    let floor = rooms.snapshots.begin_floor(wanted, present)?;
    if before == Some(floor) {
        return Ok(before);
    }
    let stored = make_durable(rooms).and_then(|()| {
        install(&rooms.installer(), vec![Change::RetentionFloor(Some(floor))], None)
    });
    if let Err(error) = stored {
        // If the edit may be durable, what it promises is kept.
        if error.kind() != ErrorKind::Poisoned {
            rooms.snapshots.set_floor(before);
        }
        return Err(error);
    }
    rooms.snapshots.set_floor(Some(floor));
    if before.is_some() {
        free(rooms);
    }
    Ok(Some(floor))
}

fn take_away(
    rooms: &JobRooms<'_>,
    before: Option<SequenceNumber>,
) -> Result<Option<SequenceNumber>> {
    if before.is_some() {
        install(&rooms.installer(), vec![Change::RetentionFloor(None)], None)?;
        rooms.snapshots.set_floor(None);
        free(rooms);
    }
    Ok(None)
}

/// Makes everything published durable: in the log, or in tables where commits are in no log.
fn make_durable(rooms: &JobRooms<'_>) -> Result<()> {
    let flushed = lock(&rooms.catalog.manifest_io).state.last_sequence;
    if rooms.log.unlogged_last() > flushed {
        flush_all(rooms)?;
    }
    sync_wal(&rooms.installer())
}

/// Has all families examined for what nothing sees any more.
fn free(rooms: &JobRooms<'_>) {
    note_all_due(rooms.background, rooms.options, &rooms.catalog.families.load(), Duration::ZERO);
    rooms.background.work.raise();
}

#[cfg(test)]
mod tests;
