//! Asks the picker of a family's strategy.
//!
//! A strategy defines what is picked, when nothing is due, how much is due, and what joins small
//! tables. Requests and the search for garbage work on any version
//! ([`pick_range`](crate::planning::pick_range), [`pick_garbage`](crate::planning::pick_garbage)).

use crate::{
    files::version::Version,
    options::TreeOptions,
    planning::pick_leveled::{self, WriteLoad},
    planning::plan::{Busy, Plan},
    planning::{pick_fifo, pick_tiered},
    strategy::CompactionStrategy,
};
use siltdb_base::id::SequenceNumber;

/// The next compaction that is due and conflicts with none in `busy`; `None` if there is none.
/// Arguments and cost are those of [`pick_leveled::pick`].
#[must_use]
pub fn pick(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    oldest_snapshot: SequenceNumber,
    load: WriteLoad,
) -> Option<Plan> {
    match options.compaction {
        CompactionStrategy::Leveled => {
            pick_leveled::pick(version, options, busy, oldest_snapshot, load)
        }
        CompactionStrategy::Tiered { .. } => {
            pick_tiered::pick(version, options, busy, oldest_snapshot, load)
        }
        CompactionStrategy::Fifo { .. } => pick_fifo::pick_small(version, options, busy, load),
    }
}

/// A compaction that moves or joins small tables, if they are many.
#[must_use]
pub fn pick_small(
    version: &Version,
    options: &TreeOptions,
    busy: &Busy,
    load: WriteLoad,
) -> Option<Plan> {
    match options.compaction {
        CompactionStrategy::Leveled => pick_leveled::pick_small(version, options, busy, load),
        CompactionStrategy::Tiered { .. } => pick_tiered::pick_small(version, options, busy, load),
        CompactionStrategy::Fifo { .. } => pick_fifo::pick_small(version, options, busy, load),
    }
}

/// Whether [`pick`] finds nothing in a version whatever runs, writers do and readers hold. `false`
/// promises nothing.
#[must_use]
pub fn is_quiet(version: &Version, options: &TreeOptions) -> bool {
    match options.compaction {
        CompactionStrategy::Leveled => pick_leveled::is_quiet(version, options),
        CompactionStrategy::Tiered { .. } => pick_tiered::is_quiet(version, options),
        CompactionStrategy::Fifo { .. } => pick_fifo::is_quiet(version, options),
    }
}

/// What delays writers: the runs of level 0, and about how many bytes compactions would have to
/// write until nothing is due any more.
///
/// A FIFO tree has no debt: what is too much leaves by an edit.
#[must_use]
pub fn debt(version: &Version, options: &TreeOptions) -> (u64, u64) {
    // A sweep over level 0, which has all tables of a FIFO tree.
    let level0_runs = || version.levels()[0].runs() as u64;
    match options.compaction {
        CompactionStrategy::Leveled => (level0_runs(), pick_leveled::debt_bytes(version, options)),
        CompactionStrategy::Tiered { .. } => {
            (level0_runs(), pick_tiered::debt_bytes(version, options))
        }
        CompactionStrategy::Fifo { .. } => (0, 0),
    }
}
