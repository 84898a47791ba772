//! What the engine adds to the search for garbage: the stripes and the time, and what is worth a
//! flush because of what it hides.
//!
//! This module runs no job.

use crate::{
    database::installer::Installer, database::job_rooms::JobRooms, jobs::blobs::is_worth_flush,
    log::generation::Frozen, snapshots::Retained,
};
use siltdb_base::{seeded_fault, sync::lock};
use siltdb_tree::{planning::pick_garbage::Moment, retain::stripes::Stripes};

/// What must stay readable as of now. Every input of a job that begins after this call is already
/// published (law V4).
pub fn stripes(rooms: &JobRooms<'_>) -> Stripes {
    let present = rooms.log.publisher.published();
    let settled_ms = || rooms.options.clock.settled_ms();
    let Retained { sequences, newest_snapshot, all_from, earliest_ms } =
        rooms.snapshots.retained(|| present, settled_ms);
    let stripes = Stripes::new(&sequences, present)
        .with_newest_snapshot(newest_snapshot)
        .with_earliest_time(earliest_ms);
    if seeded_fault!("history_above_the_floor_is_dropped") {
        return stripes;
    }
    stripes.with_floor(all_from)
}

/// What decides now whether an entry is garbage.
pub fn moment(rooms: &JobRooms<'_>) -> Moment {
    let stripes = stripes(rooms);
    let now_ms = stripes.expiry_time_ms(rooms.options.clock.settled_ms());
    Moment { stripes, newest_snapshot: rooms.snapshots.newest(), now_ms }
}

/// If what memory deletes or replaces is worth a flush, freezes the active generation. In this case
/// it also makes the flush of a generation due that was left to the log.
///
/// Returns whether there was one of these. Otherwise what they hide would stay until a memtable is
/// full, perhaps for ever.
///
/// To be called when writers are idle. Cost: for each family in memory, a look at each of its
/// tables and at some entries of its memtables.
pub fn freeze_what_covers(installer: &Installer<'_>, moment: &Moment) -> bool {
    let families = installer.catalog.families.load();
    let holders = installer.catalog.families.holders().all();
    let are_empty = holders.is_empty();
    let mut holders = holders.iter().filter_map(|id| families.get(*id));
    let is_worth = holders.any(|family| family.tree.is_worth_flush(moment));
    if !is_worth && (are_empty || !is_worth_flush(installer)) {
        return false;
    }
    let mut sequencer = lock(&installer.log.sequencer);
    let frozen: Option<Frozen> = sequencer.freeze();
    let is_frozen = frozen.is_some();
    if let Some(frozen) = frozen {
        installer.freeze(frozen);
    }
    let was_left = lock(&installer.background.jobs).left.take().is_some();
    is_frozen || was_left
}
