//! What becomes of the log that was replayed: a little stays in the log, more is flushed.
//!
//! Programs that open, write little and end would else write a table each time, or leave ever more
//! segments and tables.

use crate::{
    database::Database,
    jobs::compact::run_plan,
    jobs::flush::{REPLAY_BYTES_MAX, flush_all},
};
use siltdb_base::{error::Result, id::FamilyId, sync::lock};

/// Segments that stay in the log at most: each opening that writes adds one, and each is read by
/// every opening.
pub const LEFT_SEGMENTS_MAX: usize = 32;

/// A generation is left to the log if it takes at most this part of a memtable: then it never keeps
/// writers from room.
const LEFT_PART: u64 = 4;

/// What is joined at once of small tables when a database is opened, in bytes: this takes tens of
/// milliseconds.
const JOINED_BYTES_MAX: u64 = 4 << 20;

/// Compactions that one opening does at most.
const JOINS_MAX: usize = 4;

/// Decides what becomes of what was replayed, and does it if that takes little time. To be called
/// once, before the database is used. What takes long is left to the workers.
///
/// # Errors
/// `Poisoned`, if it is open whether an edit is durable. Other failures are met again by the next
/// flush.
pub fn settle_replayed(database: &Database) -> Result<()> {
    let (generation, segments, bytes) = {
        let frozen = lock(&database.log.frozen);
        let [frozen] = frozen.as_slices().0 else { return Ok(()) };
        (frozen.number, frozen.segments.len(), frozen.bytes)
    };
    if segments <= LEFT_SEGMENTS_MAX {
        let memtable = database.options.memtable_bytes as u64;
        if bytes <= REPLAY_BYTES_MAX.min(memtable / LEFT_PART) {
            lock(&database.background.jobs).left = Some(generation);
        }
        return Ok(());
    }
    if bytes > REPLAY_BYTES_MAX {
        return Ok(());
    }
    let holders = database.catalog.families.holders().of(generation);
    let flushed = flush_all(database).and_then(|()| join_small(database, &holders));
    if let Err(error) = flushed {
        database.health.check_log()?;
        log::warn!("what was replayed is left to the log, as it could not be flushed: {error}");
    }
    // As after every opening, no file is there that nothing needs.
    database.log.wal.give_back_unused();
    Ok(())
}

/// Joins small tables of families, if they have become many: workers may never come to that in
/// processes that end soon.
fn join_small(database: &Database, families: &[FamilyId]) -> Result<()> {
    let mut joins = 0;
    for family in families.iter().filter_map(|id| database.catalog.families.get(*id)) {
        while joins < JOINS_MAX
            && let Some(plan) = family.tree.begin_small_plan(JOINED_BYTES_MAX)
        {
            run_plan(database, &family, plan)?;
            joins += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
