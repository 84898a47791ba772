//! Prepares the log ahead of its writers.

use crate::{backpressure::Backpressure, log::Log};
use siltdb_base::{error::Result, sync::lock};

/// Prepares the next window and the next segment of the log, and releases the pages behind its end.
///
/// # Errors
/// `NoSpace`; nothing is lost.
pub(crate) fn keep_log(log: &Log, backpressure: &Backpressure) -> Result<()> {
    let low = lock(&log.sequencer).low_window();
    if let Some((segment, end)) = low {
        segment.file.prepare(end)?;
        lock(&log.sequencer).prepared(segment.id, end);
    }
    if lock(&log.sequencer).is_nearly_full(&backpressure.generation_limits()) {
        log.wal.make_ready(0)?;
    }
    let published = log.publisher.published();
    let passed = lock(&log.sequencer).filled_up_to(published);
    if let Some((segment, end)) = passed {
        segment.file.release(end);
    }
    Ok(())
}
