//! What happens to the replayed log: a small one stays in the log, a larger one is flushed.
//!
//! Otherwise programs that open, write little and end would write a table each time, or leave ever
//! more segments and tables.

use crate::{
    database::job_rooms::JobRooms,
    jobs::compact::run_plan,
    jobs::flush::{REPLAY_BYTES_MAX, flush_all},
};
use siltdb_base::{error::Result, id::FamilyId, sync::lock};

/// The maximum number of segments that stay in the log. Each opening that writes adds one, and
/// every opening reads all of them.
pub const LEFT_SEGMENTS_MAX: usize = 32;

/// A generation is left to the log if it takes at most this part of a memtable. So it never denies
/// writers their room.
const LEFT_PART: u64 = 4;

/// The largest input of a join of small tables at open, in bytes. This takes tens of milliseconds.
const JOINED_BYTES_MAX: u64 = 4 << 20;

/// The maximum number of joins that one opening does.
const JOINS_MAX: usize = 4;

/// Decides what happens to the replayed generation, and does it if that takes little time. Longer
/// work is left to the workers. To be called once, before the database is used.
///
/// # Errors
/// `Poisoned`, if it is unknown whether an edit is durable. Any other failure is left to the next
/// flush.
pub fn settle_replayed(rooms: &JobRooms<'_>) -> Result<()> {
    let (generation, segments, bytes) = {
        let frozen = lock(&rooms.log.frozen);
        let [frozen] = frozen.as_slices().0 else { return Ok(()) };
        (frozen.number, frozen.segments.len(), frozen.bytes)
    };
    if segments <= LEFT_SEGMENTS_MAX {
        let memtable = rooms.options.generation_bytes() as u64;
        if bytes <= REPLAY_BYTES_MAX.min(memtable / LEFT_PART) {
            lock(&rooms.background.jobs).left = Some(generation);
        }
        return Ok(());
    }
    if bytes > REPLAY_BYTES_MAX {
        return Ok(());
    }
    let holders = rooms.catalog.families.holders().of(generation);
    let flushed = flush_all(rooms).and_then(|()| join_small(rooms, &holders));
    if let Err(error) = flushed {
        rooms.health.check_log()?;
        log::warn!("the replayed generation stays in the log, because its flush failed: {error}");
    }
    // Every opening ends without unneeded files.
    rooms.log.wal.give_back_unused();
    Ok(())
}

/// Joins the small tables of families that have many of them. In processes that end soon, workers
/// may never do so.
fn join_small(rooms: &JobRooms<'_>, families: &[FamilyId]) -> Result<()> {
    let mut joins = 0;
    for family in families.iter().filter_map(|id| rooms.catalog.families.get(*id)) {
        while joins < JOINS_MAX
            && let Some(plan) = family.tree.begin_small_plan(JOINED_BYTES_MAX)
        {
            run_plan(rooms, &family, plan)?;
            joins += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
