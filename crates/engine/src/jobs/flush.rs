//! Flushes: memtables are written to tables, and their log segments are retired.
//!
//! Several generations are written side by side, and installed one by one, oldest first. A
//! generation whose older one fails is not installed: what it wrote is removed, and it waits again.
//!
//! # Seeded fault
//! `flush_out_of_turn`: a generation is installed before an older one.

use crate::{
    background::{Background, JobOf, JobState},
    catalog::family::FamilyData,
    database::job_rooms::{JobRooms, Waiting},
    jobs::{
        context::{discard_output, ended, install_output, newest_in, purge},
        shared::{Helpers, run_shared},
        space::stripes,
    },
    kit::counters::Counters,
    log::Log,
    log::generation::{Flushed, Frozen},
    options::FROZEN_MAX,
    transactions::prepared::carry_forward,
    write::log_sync::{sync_blobs, sync_wal},
};
use siltdb_base::{
    error::Result,
    id::{SegmentId, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{edit::Change, log::segment::segments_end};
use siltdb_tree::rewrite::{flush::Flush, job::JobOutput};
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
pub fn has_flush_due(log: &Log, background: &Background) -> bool {
    is_due(&lock(&log.frozen), &lock(&background.jobs))
}

/// Flushes the oldest frozen generation that no thread flushes. Its tables are written beside those
/// of older generations, and installed after them. Returns whether it found one.
///
/// # Errors
/// `NoSpace`, and any other failure of writing tables. The generation stays in memory and in the
/// log.
pub fn flush_next(rooms: &JobRooms<'_>) -> Result<bool> {
    rooms.health.check_log()?;
    let Some(frozen) = begin(rooms) else { return Ok(false) };
    let written = write_generation(rooms, &frozen);
    end(rooms, &frozen, written)?;
    rooms.background.work.raise();
    Ok(true)
}

/// Takes the oldest frozen generation that is due and that no thread flushes.
fn begin(rooms: &JobRooms<'_>) -> Option<Frozen> {
    let frozen = lock(&rooms.log.frozen);
    let mut jobs = lock(&rooms.background.jobs);
    if !is_due(&frozen, &jobs) {
        return None;
    }
    let next = frozen.iter().find(|frozen| !jobs.flushing.contains(&frozen.number))?;
    jobs.flushing.insert(next.number);
    Some(next.clone())
}

/// Ends a flush: installs what was written when all older generations are installed.
fn end(rooms: &JobRooms<'_>, frozen: &Frozen, written: Result<Written>) -> Result<()> {
    let result = written.and_then(|written| match wait_for_turn(rooms, frozen)? {
        Turn::Now => install_generation(rooms, frozen, written).map(Some),
        Turn::Lost => {
            discard_output(rooms.catalog, &written.output.changes);
            Ok(None)
        }
    });
    if !matches!(result, Ok(Some(_))) {
        // The output is removed.
        frozen.progress.begin(0);
    }
    let ends = |jobs: &mut JobState| {
        assert!(jobs.flushing.remove(&frozen.number), "a flush ends that was not begun");
    };
    match result {
        Ok(Some(flushed)) => {
            let flushed = ended(&rooms.installer(), JobOf::Memory, Ok(flushed), ends)?;
            match rooms.waiting {
                Waiting::RunJob(_) => drop(flushed),
                Waiting::ForWorkers => lock(&rooms.background.jobs).flushed.push(flushed),
            }
            Ok(())
        }
        // The failure of the older generation stays noted.
        Ok(None) => {
            ends(&mut lock(&rooms.background.jobs));
            purge(&rooms.installer());
            rooms.backpressure.room.raise();
            Ok(())
        }
        Err(error) => ended(&rooms.installer(), JobOf::Memory, Err(error), ends),
    }
}

/// Whether a generation may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It is the oldest.
    Now,
    /// The flush of an older one has failed. That one may need the space, and may fail for long.
    Lost,
}

/// Waits until no older generation is left, or until the flush of one has failed. What is older
/// must be in tables first: recovery begins at one segment of the log, and readers take newer
/// tables for newer entries.
///
/// # Errors
/// `Poisoned`, if the flush of an older generation will not end.
fn wait_for_turn(rooms: &JobRooms<'_>, frozen: &Frozen) -> Result<Turn> {
    loop {
        let seen = rooms.backpressure.room.seen();
        rooms.health.check_log()?;
        let older_ends = {
            let all = lock(&rooms.log.frozen);
            let jobs = lock(&rooms.background.jobs);
            let mut older = all.iter().take_while(|older| older.number < frozen.number).peekable();
            if older.peek().is_none() || seeded_fault!("flush_out_of_turn") {
                return Ok(Turn::Now);
            }
            older.all(|older| jobs.flushing.contains(&older.number))
        };
        if !older_ends {
            return Ok(Turn::Lost);
        }
        rooms.backpressure.room.wait(seen, PATIENCE);
    }
}

/// Frees the memory of flushed generations. Unmapping takes long, so no thread that waits for a
/// flush does it.
pub(crate) fn free_flushed(background: &Background) {
    let flushed = std::mem::take(&mut lock(&background.jobs).flushed);
    // Outside the lock.
    drop(flushed);
}

/// The tables of a generation, not installed.
struct Written {
    flush: Arc<Flush>,
    output: JobOutput,
}

fn write_generation(rooms: &JobRooms<'_>, frozen: &Frozen) -> Result<Written> {
    // Writers of this generation hold earlier places: once `last` is published, all have finished.
    rooms.log.publisher.wait(frozen.last);
    // Else a part of a commit that panicked could become durable.
    rooms.health.check_log()?;
    assert_frozen(rooms.log, frozen);
    if rooms.options.retains_log() {
        // The tables will be durable. The retained log must not lack entries that they have.
        sync_wal(&rooms.installer())?;
    }
    let stripes = stripes(rooms);
    let families = rooms.catalog.families.load();
    let holders = rooms.catalog.families.holders().of(frozen.number);
    // A dropped family is skipped.
    let holders = holders.into_iter().filter_map(|id| families.get(id));
    let inputs = holders.filter_map(|family| family.tree.flush_input(frozen.number)).collect();
    let workers = rooms.options.workers.max(1);
    let flush = Flush::new(inputs, stripes, Arc::clone(&frozen.progress), workers);
    let output = run_shared(rooms, Helpers::First, flush.parts(), |outputs, context| {
        flush.finish(outputs, context)
    })?;
    Ok(Written { flush, output })
}

fn install_generation(rooms: &JobRooms<'_>, frozen: &Frozen, written: Written) -> Result<Flushed> {
    let Written { flush, mut output } = written;
    let mut changes = std::mem::take(&mut output.changes);
    let oldest = lock(&rooms.log.frozen).front().map(|oldest| oldest.number);
    assert!(oldest == Some(frozen.number), "{frozen:?} would be installed before {oldest:?}");
    changes.extend(carry_forward(&rooms.installer(), rooms.prepared, frozen.last)?);
    let (newest, last) = (newest_in(&changes), frozen.last);
    assert!(newest <= last, "a flush up to {last} would write tables up to {newest}");
    let segment = segment_after(rooms.log);
    let gone = frozen.segments.last().map(|gone| gone.id);
    assert!(Some(segment) > gone, "the log would begin at {segment}, and {gone:?} goes");
    changes.push(Change::LogStart { segment });
    changes.push(Change::LastSequence(frozen.last));
    // The tables are durable without the log, so what they point to must be, too.
    sync_blobs(rooms.blobs, rooms.health)?;
    install_output(&rooms.installer(), changes, Some(frozen.number))?;
    Counters::add(&rooms.counters.flushes, 1);
    Counters::add(&rooms.counters.flushed_bytes, output.bytes_written);
    lock(&rooms.log.frozen).pop_front();
    let segments = rooms.log.wal.retire(&frozen.segments)?;
    Ok(Flushed { flush, segments })
}

/// Checks that no commit writes to a generation that is to be flushed.
fn assert_frozen(log: &Log, frozen: &Frozen) {
    let active = lock(&log.sequencer).active_segment();
    let last = frozen.segments.last().map(|segment| segment.id);
    let is_frozen = active.is_none_or(|active| Some(active) > last);
    assert!(is_frozen, "{frozen:?} would be flushed while commits go to segment {active:?}");
}

/// The first segment that recovery needs once the oldest frozen generation is flushed.
fn segment_after(log: &Log) -> SegmentId {
    let sequencer = lock(&log.sequencer);
    let frozen = lock(&log.frozen);
    let next = frozen.get(1).and_then(|next| next.segments.first().map(|segment| segment.id));
    let never_begun = segments_end(log.wal.highest_segment());
    next.or_else(|| sequencer.active_segment()).unwrap_or(never_begun)
}

/// Freezes the active generation and waits until everything in memory is flushed.
///
/// # Errors
/// The error that keeps a generation from being flushed.
pub fn flush_all(rooms: &JobRooms<'_>) -> Result<()> {
    rooms.health.check()?;
    flush_memory(rooms)
}

/// Flushes the memtables of a family. Those of other families are flushed too, because they are
/// frozen together. If the family has nothing in memory, nothing is written.
///
/// # Errors
/// `NotFound`, if the family was dropped; as [`flush_all`].
pub fn flush_family(rooms: &JobRooms<'_>, family: &FamilyData) -> Result<()> {
    family.check()?;
    if family.tree.view().memory.tables().is_empty() {
        return Ok(());
    }
    flush_all(rooms)
}

/// Flushes memory before a close, if some of it is in no log, or if replaying it would delay the
/// next opening. Called when the database takes no more commits.
///
/// # Errors
/// The failure of a flush of commits that are in no log.
pub fn flush_for_close(rooms: &JobRooms<'_>) -> Result<()> {
    let (last, _) = lock(&rooms.log.sequencer).last();
    rooms.log.publisher.wait(last);
    rooms.health.check_log()?;
    // The manifest knows the last sequence number of each flush.
    let flushed = lock(&rooms.catalog.manifest_io).state.last_sequence;
    let unlogged = rooms.log.unlogged_last();
    if unlogged > flushed {
        flush_memory(rooms)?;
        let kept = lock(&rooms.catalog.manifest_io).state.last_sequence;
        assert!(
            unlogged <= kept,
            "a close would lose {unlogged}, which is in no log: {kept} is kept"
        );
        return Ok(());
    }
    if rooms.log.memory_bytes() > REPLAY_BYTES_MAX
        && let Err(error) = flush_memory(rooms)
    {
        log::warn!("memtables stay in the log, because their flush failed: {error}");
    }
    Ok(())
}

fn flush_memory(rooms: &JobRooms<'_>) -> Result<()> {
    // While flushes fail or lag, frozen generations are flushed first. Otherwise each call would
    // add one generation to memory and log.
    let (is_full, last) = {
        let frozen = lock(&rooms.log.frozen);
        (frozen.len() >= FROZEN_MAX, frozen.back().map(|last| last.last))
    };
    let is_failing = lock(&rooms.background.jobs).failures.contains_key(&JobOf::Memory);
    if let Some(last) = last.filter(|_| is_full || is_failing) {
        flush_up_to(rooms, last)?;
    }
    let last = {
        let mut sequencer = lock(&rooms.log.sequencer);
        if let Some(frozen) = sequencer.freeze() {
            rooms.installer().freeze(frozen);
        }
        sequencer.last().0
    };
    flush_up_to(rooms, last)
}

/// Flushes the generations that were frozen up to `last`, or waits until other threads have.
fn flush_up_to(rooms: &JobRooms<'_>, last: SequenceNumber) -> Result<()> {
    lock(&rooms.background.jobs).left = None;
    loop {
        let seen = rooms.backpressure.room.seen();
        let oldest = lock(&rooms.log.frozen).front().map(|frozen| frozen.last);
        if oldest.is_none_or(|oldest| oldest > last) {
            return Ok(());
        }
        if !flush_next(rooms)? {
            rooms.backpressure.room.wait(seen, PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests;
