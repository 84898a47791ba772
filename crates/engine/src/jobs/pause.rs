//! Which jobs a pause of the background work holds back.
//!
//! Flushes go on, because writers wait for them. So does a compaction that stopped writers wait
//! for. A pause ends no running job.
//!
//! # Seeded fault
//! `pause_forgets_stopped_writers`: a pause keeps compactions back for which writers wait.

use crate::{background::Background, backpressure::Backpressure};
use siltdb_base::seeded_fault;

/// Whether a pause keeps automatic compactions from beginning. Writers that had to stop may wait
/// for one, so then none is kept back.
pub fn holds_compactions(background: &Background, backpressure: &Backpressure) -> bool {
    let is_stopped =
        || !seeded_fault!("pause_forgets_stopped_writers") && backpressure.level_share() >= 1.0;
    background.is_paused() && !is_stopped()
}
