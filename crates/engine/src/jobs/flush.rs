//! Flushes: memtables are written to tables, and their log segments are retired.

use crate::{
    background::{JobOf, JobState},
    database::{Database, Waiting},
    jobs::{
        context::{ended, install_output},
        shared::run_shared,
        space::stripes,
    },
    kit::counters::Counters,
    log::generation::{Flushed, Frozen},
    options::FROZEN_MAX,
    transactions::prepared::carry_forward,
    write::log_sync::{sync_blobs, sync_wal},
};
use siltdb_base::{
    error::Result,
    id::{SegmentId, SequenceNumber},
    sync::lock,
};
use siltdb_disk::{edit::Change, log::segment::segments_end};
use siltdb_tree::rewrite::flush::Flush;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// The largest amount of log that a close leaves for the next opening to replay, in bytes.
/// Replaying this much at each opening takes about as long as flushing it once.
pub const REPLAY_BYTES_MAX: u64 = 1 << 20;

/// How long a caller waits for other jobs before it checks again.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Whether a generation waits for its flush. One that is left to the log does not.
fn is_due(frozen: &VecDeque<Frozen>, jobs: &JobState) -> bool {
    let oldest = frozen.front().map(|oldest| oldest.number);
    frozen.len() > 1 || oldest.is_some() && oldest != jobs.left
}

/// Whether a generation waits for its flush, whether that runs or not.
pub fn has_flush_due(database: &Database) -> bool {
    is_due(&lock(&database.log.frozen), &lock(&database.background.jobs))
}

/// Flushes the oldest frozen generation, unless another thread does. Returns whether it flushed
/// one.
///
/// # Errors
/// `NoSpace`, and any other failure of writing tables. The generation stays in memory and in the
/// log.
pub fn flush_next(database: &Database) -> Result<bool> {
    database.health.check_log()?;
    let frozen = {
        let frozen = lock(&database.log.frozen);
        let mut jobs = lock(&database.background.jobs);
        match frozen.front() {
            Some(front) if !jobs.is_flushing && is_due(&frozen, &jobs) => {
                jobs.is_flushing = true;
                front.clone()
            }
            _ => return Ok(false),
        }
    };
    let result = flush_generation(database, &frozen);
    if result.is_err() {
        // The partial output is removed.
        frozen.progress.begin(0);
    }
    let flushed = ended(database, JobOf::Memory, result, |jobs| jobs.is_flushing = false)?;
    match database.waiting {
        Waiting::RunJob(_) => drop(flushed),
        Waiting::ForWorkers => lock(&database.background.jobs).flushed.push(flushed),
    }
    database.background.work.raise();
    Ok(true)
}

/// Frees the memory of flushed generations. Unmapping takes long, so no thread that waits for a
/// flush does it.
pub fn free_flushed(database: &Database) {
    let flushed = std::mem::take(&mut lock(&database.background.jobs).flushed);
    // Outside the lock.
    drop(flushed);
}

fn flush_generation(database: &Database, frozen: &Frozen) -> Result<Flushed> {
    // Writers of this generation hold earlier places: once `last` is published, all have finished.
    database.log.publisher.wait(frozen.last);
    if database.options.retains_log() {
        // The tables will be durable. The retained log must not lack entries that they have.
        sync_wal(database)?;
    }
    let stripes = stripes(database);
    let families = database.catalog.families.load();
    let holders = database.catalog.families.holders().of(frozen.number);
    // A dropped family is skipped.
    let holders = holders.into_iter().filter_map(|id| families.get(id));
    let inputs = holders.filter_map(|family| family.tree.flush_input(frozen.number)).collect();
    let workers = database.options.workers.max(1);
    let flush = Flush::new(inputs, stripes, Arc::clone(&frozen.progress), workers);
    let mut output =
        run_shared(database, flush.parts(), |outputs, context| flush.finish(outputs, context))?;
    let mut changes = std::mem::take(&mut output.changes);
    changes.extend(carry_forward(database, frozen.last)?);
    changes.push(Change::LogStart { segment: segment_after(database) });
    changes.push(Change::LastSequence(frozen.last));
    // The tables are durable without the log, so what they point to must be, too.
    sync_blobs(database)?;
    install_output(database, changes, Some(frozen.number))?;
    Counters::add(&database.counters.flushes, 1);
    Counters::add(&database.counters.flushed_bytes, output.bytes_written);
    lock(&database.log.frozen).pop_front();
    let segments = database.log.wal.retire(&frozen.segments)?;
    Ok(Flushed { flush, segments })
}

/// The first segment that recovery needs once the oldest frozen generation is flushed.
fn segment_after(database: &Database) -> SegmentId {
    let sequencer = lock(&database.log.sequencer);
    let frozen = lock(&database.log.frozen);
    let next = frozen.get(1).and_then(|next| next.segments.first().map(|segment| segment.id));
    let never_begun = segments_end(database.log.wal.highest_segment());
    next.or_else(|| sequencer.active_segment()).unwrap_or(never_begun)
}

/// Freezes the active generation and waits until everything in memory is flushed.
///
/// # Errors
/// The error that keeps a generation from being flushed.
pub fn flush_all(database: &Database) -> Result<()> {
    database.health.check()?;
    flush_memory(database)
}

/// Flushes memory before a close, if some of it is in no log, or if replaying it would delay the
/// next opening. Called when the database takes no more commits.
///
/// # Errors
/// The failure of a flush of commits that are in no log.
pub fn flush_for_close(database: &Database) -> Result<()> {
    let (last, _) = lock(&database.log.sequencer).last();
    database.log.publisher.wait(last);
    // The manifest knows the last sequence number of each flush.
    let flushed = lock(&database.catalog.manifest_io).state.last_sequence;
    if database.log.unlogged_last() > flushed {
        return flush_memory(database);
    }
    if database.log.memory_bytes() > REPLAY_BYTES_MAX
        && let Err(error) = flush_memory(database)
    {
        log::warn!("memtables stay in the log, because their flush failed: {error}");
    }
    Ok(())
}

fn flush_memory(database: &Database) -> Result<()> {
    // While flushes fail or lag, frozen generations are flushed first. Otherwise each call would
    // add one generation to memory and log.
    let (is_full, last) = {
        let frozen = lock(&database.log.frozen);
        (frozen.len() >= FROZEN_MAX, frozen.back().map(|last| last.last))
    };
    let is_failing = lock(&database.background.jobs).failures.contains_key(&JobOf::Memory);
    if let Some(last) = last.filter(|_| is_full || is_failing) {
        flush_up_to(database, last)?;
    }
    let last = {
        let mut sequencer = lock(&database.log.sequencer);
        if let Some(frozen) = sequencer.freeze() {
            database.freeze(frozen);
        }
        sequencer.last().0
    };
    flush_up_to(database, last)
}

/// Flushes the generations that were frozen up to `last`, or waits until other threads have.
fn flush_up_to(database: &Database, last: SequenceNumber) -> Result<()> {
    lock(&database.background.jobs).left = None;
    loop {
        let seen = database.backpressure.room.seen();
        let oldest = lock(&database.log.frozen).front().map(|frozen| frozen.last);
        if oldest.is_none_or(|oldest| oldest > last) {
            return Ok(());
        }
        if !flush_next(database)? {
            database.backpressure.room.wait(seen, PATIENCE);
        }
    }
}
