//! What the engine adds to the trees' search for garbage: from where the database is looked at, and
//! range deletes that are worth a flush.
//!
//! It carries out nothing: jobs do.

use crate::{database::Database, log::generation::Frozen};
use siltdb_base::sync::lock;
use siltdb_tree::{planning::pick_garbage::Moment, retain::stripes::Stripes};

/// What must stay readable, captured now: every input of a job that begins after this is published
/// already (law V4).
pub fn stripes(database: &Database) -> Stripes {
    let present = database.log.publisher.published();
    Stripes::new(&database.snapshots.retained(|| present), present)
}

/// What decides now whether something is garbage.
pub fn moment(database: &Database) -> Moment {
    Moment { stripes: stripes(database), now_ms: database.options.clock.settled_ms() }
}

/// Freezes the active generation if range deletes in memory cover tables that are worth a flush,
/// and makes the flush of a generation due that was left to the log; says whether there was one of
/// these. Without that, what they delete would stay until a memtable is full, which may
/// never be.
///
/// To be called when writers rest. Cost: a load for each family in memory, and if it has range
/// deletes there a look at each of its tables.
pub fn freeze_what_covers(database: &Database, moment: &Moment) -> bool {
    let families = database.catalog.families.load();
    let holders = database.catalog.families.holders().all();
    let mut holders = holders.iter().filter_map(|id| families.get(*id));
    if !holders.any(|family| family.tree.is_worth_flush(moment)) {
        return false;
    }
    let mut sequencer = lock(&database.log.sequencer);
    let frozen: Option<Frozen> = sequencer.freeze();
    let is_frozen = frozen.is_some();
    if let Some(frozen) = frozen {
        database.freeze(frozen);
    }
    let was_left = lock(&database.background.jobs).left.take().is_some();
    is_frozen || was_left
}
