//! Prepares the log ahead of its writers.

use crate::database::Database;
use siltdb_base::{error::Result, sync::lock};

/// Prepares the next window and the next segment of the log, and releases the pages behind its end.
///
/// # Errors
/// `NoSpace`; nothing is lost.
pub fn keep_log(database: &Database) -> Result<()> {
    let low = lock(&database.log.sequencer).low_window();
    if let Some((segment, end)) = low {
        segment.file.prepare(end)?;
        lock(&database.log.sequencer).prepared(segment.id, end);
    }
    if lock(&database.log.sequencer).is_nearly_full(&database.backpressure.generation_limits()) {
        database.log.wal.make_ready(0)?;
    }
    let published = database.log.publisher.published();
    let passed = lock(&database.log.sequencer).filled_up_to(published);
    if let Some((segment, end)) = passed {
        segment.file.release(end);
    }
    Ok(())
}
