//! Background work, one piece at a time: a worker, a simulator or a waiting writer calls it.
//!
//! What is worth doing is decided in `tree`, by pure functions; here it is carried out: inputs are
//! pinned, the tree writes files, `install` makes them count, and what they replace is given up.

use crate::{
    counters::Counters,
    database::{Database, JobOf, JobState, Waiting},
    family::{Family, FamilyMap},
    generation::{Flushed, Frozen},
    install::install,
    log_sync::{sync_if_due, sync_wal},
    options::FROZEN_MAX,
    share::Shared,
    space::{freeze_what_covers, moment, stripes},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FileNumber, SegmentId, SequenceNumber, TableUid},
    sync::lock,
};
use siltdb_disk::{
    edit::Change,
    log::{
        fill::fill_record,
        record::{LogPosition, RecordHeader, RecordKind, Synced, record_bytes},
        segment::segments_end,
    },
};
use siltdb_tree::{
    compact::Compaction,
    flush::{Flush, FlushInput},
    job::{JobContext, JobOutput, NewTables, Part},
    memory::Generation,
    pick_leveled::Writers,
    plan::{Plan, Reason, Way},
};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// What a close leaves in the log for the next opening to replay, at most. So much takes about as
/// long to replay, at each opening, as to write out once.
pub const REPLAY_BYTES_MAX: u64 = 1 << 20;

/// How often all families are looked at for a compaction that time has made due.
const DUE_INTERVAL: Duration = Duration::from_secs(10);

/// How long somebody who waits for other jobs does so before looking again.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Runs one job if one is due, and says so: flushes first, for they make room.
///
/// # Errors
/// What the job failed with.
pub fn run_one(database: &Database) -> Result<bool> {
    if let Waiting::RunJob(_) = database.waiting {
        sync_if_due(database)?;
    }
    Ok(flush_next(database)? || compact_next(database)?)
}

/// What a job needs of the database.
fn with_context<T>(
    database: &Database,
    job: impl FnOnce(&JobContext<'_>) -> Result<T>,
) -> Result<T> {
    let file_numbers = || -> FileNumber { database.numbers.file() };
    let uids = || -> TableUid { database.numbers.table_uid() };
    let log_start = lock(&database.manifest_io).state.first;
    let family_names = |id| database.families.get(id).map(|family| family.name());
    job(&JobContext {
        files: &database.files,
        file_numbers: &file_numbers,
        uids: &uids,
        family_names: &family_names,
        log_start,
        clock: &*database.options.clock,
        cancelled: &database.ending,
        given_up: None,
        gives_way: database.gives_way(),
        progress: None,
    })
}

/// Notes how a job ended, and wakes those who wait for room or for files.
fn ended<T>(
    database: &Database,
    job: JobOf,
    result: Result<T>,
    end: impl FnOnce(&mut JobState),
) -> Result<T> {
    {
        let mut jobs = lock(&database.jobs);
        end(&mut jobs);
        match &result {
            Ok(_) => {
                jobs.failures.remove(&job);
            }
            Err(error) => {
                let before = jobs.failures.insert(job, error.duplicate());
                // Once: it is tried again and again.
                if before.is_none() && error.kind() != ErrorKind::Closed {
                    log::error!("a job for {job:?} failed: {error}");
                }
            }
        }
    }
    database.update_debts();
    purge(database);
    database.room.raise();
    result
}

/// Whether a generation waits for its flush: one that is left to the log does not.
fn is_due(frozen: &VecDeque<Frozen>, jobs: &JobState) -> bool {
    let oldest = frozen.front().map(|oldest| oldest.number);
    frozen.len() > 1 || oldest.is_some() && oldest != jobs.left
}

/// Whether a generation waits for its flush, running or not.
pub fn has_flush_due(database: &Database) -> bool {
    is_due(&lock(&database.frozen), &lock(&database.jobs))
}

/// Flushes the oldest frozen generation, unless somebody does.
///
/// # Errors
/// `NoSpace`, and everything else that writing tables can fail with; the generation stays in memory
/// and in the log.
pub fn flush_next(database: &Database) -> Result<bool> {
    database.health.check_log()?;
    let frozen = {
        let frozen = lock(&database.frozen);
        let mut jobs = lock(&database.jobs);
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
        // What was written of it is gone.
        frozen.progress.begin(0);
    }
    let flushed = ended(database, JobOf::Memory, result, |jobs| jobs.is_flushing = false)?;
    match database.waiting {
        Waiting::RunJob(_) => drop(flushed),
        Waiting::ForWorkers => lock(&database.jobs).flushed.push(flushed),
    }
    database.work.raise();
    Ok(true)
}

/// Frees what was flushed. To unmap memory takes long, so that nobody who waits for a flush does
/// it.
pub fn free_flushed(database: &Database) {
    let flushed = std::mem::take(&mut lock(&database.jobs).flushed);
    // After the lock was left.
    drop(flushed);
}

fn flush_generation(database: &Database, frozen: &Frozen) -> Result<Flushed> {
    // Its writers hold places before this one; once it is published they are done.
    database.publisher.wait(frozen.last);
    let stripes = stripes(database);
    let mut inputs = Vec::new();
    let families = database.families.load();
    let holders = database.families.holders().of(frozen.number);
    // A dropped one is gone.
    for family in holders.into_iter().filter_map(|id| families.get(id)) {
        let view = Arc::clone(&family.tree.view());
        if let Some(memtable) = view.memory.find(frozen.number) {
            inputs.push(FlushInput {
                family: family.id,
                options: family.tree.options(),
                generation: frozen.number,
                memtable: Arc::clone(memtable),
                view,
            });
        }
    }
    let workers = database.options.workers.max(1);
    let flush = Flush::new(inputs, stripes, Arc::clone(&frozen.progress), workers);
    let mut output =
        run_shared(database, flush.parts(), |outputs, context| flush.finish(outputs, context))?;
    let mut changes = std::mem::take(&mut output.changes);
    changes.push(Change::LogStart { segment: segment_after(database) });
    changes.push(Change::LastSequence(frozen.last));
    install_output(database, changes, Some(frozen.number))?;
    Counters::add(&database.counters.flushes, 1);
    Counters::add(&database.counters.flushed_bytes, output.bytes_written);
    lock(&database.frozen).pop_front();
    let segments = database.wal.retire(&frozen.segments)?;
    Ok(Flushed { flush, segments })
}

/// Installs what a job has made. If nothing came of it, the new tables are for the purge; if it is
/// open whether they count, they stay for the next open, which knows.
fn install_output(
    database: &Database,
    changes: Vec<Change>,
    flushed: Option<Generation>,
) -> Result<()> {
    let file = |change: &Change| match change {
        Change::AddTable { table, .. } => Some(table.file),
        _ => None,
    };
    let new: Vec<FileNumber> = changes.iter().filter_map(file).collect();
    let result = install(database, changes, flushed);
    if result.is_err() && database.health.check_log().is_ok() {
        database.forget(new);
    }
    result
}

/// The first segment that is needed once the oldest frozen generation is flushed.
fn segment_after(database: &Database) -> SegmentId {
    let tail = lock(&database.tail);
    let frozen = lock(&database.frozen);
    let next = frozen.get(1).and_then(|next| next.segments.first().map(|segment| segment.id));
    let never_begun = segments_end(database.wal.highest_segment());
    next.or_else(|| tail.active_segment()).unwrap_or(never_begun)
}

/// Freezes what is in memory and waits until it is flushed.
///
/// # Errors
/// What keeps it from being flushed.
pub fn flush_all(database: &Database) -> Result<()> {
    database.health.check()?;
    flush_memory(database)
}

/// Writes out what memory holds, if some of it is in no log, or so much that the next one to open
/// the database would wait for it to be replayed. Called when the database takes no commits any
/// more and is about to close.
///
/// # Errors
/// What keeps commits from being written that are in no log.
pub fn flush_for_close(database: &Database) -> Result<()> {
    let (last, _) = lock(&database.tail).last();
    database.publisher.wait(last);
    // What a flush has written is known to the manifest.
    let flushed = lock(&database.manifest_io).state.last_sequence;
    if database.unlogged_last() > flushed {
        return flush_memory(database);
    }
    if database.memory_bytes() > REPLAY_BYTES_MAX
        && let Err(error) = flush_memory(database)
    {
        log::warn!("memory is left to the log, as it could not be written out: {error}");
    }
    Ok(())
}

fn flush_memory(database: &Database) -> Result<()> {
    // While flushes fail or lag behind, what is frozen goes first: each call would leave one more
    // generation in memory and in the log.
    let (is_full, last) = {
        let frozen = lock(&database.frozen);
        (frozen.len() >= FROZEN_MAX, frozen.back().map(|last| last.last))
    };
    let is_failing = lock(&database.jobs).failures.contains_key(&JobOf::Memory);
    if let Some(last) = last.filter(|_| is_full || is_failing) {
        flush_up_to(database, last)?;
    }
    let last = {
        let mut tail = lock(&database.tail);
        if let Some(frozen) = tail.freeze() {
            database.freeze(frozen);
        }
        tail.last().0
    };
    flush_up_to(database, last)
}

/// Flushes the generations that were frozen up to `last`, or waits until others have.
fn flush_up_to(database: &Database, last: SequenceNumber) -> Result<()> {
    lock(&database.jobs).left = None;
    loop {
        let seen = database.room.seen();
        let oldest = lock(&database.frozen).front().map(|frozen| frozen.last);
        if oldest.is_none_or(|oldest| oldest > last) {
            return Ok(());
        }
        if !flush_next(database)? {
            database.room.wait(seen, PATIENCE);
        }
    }
}

/// Helps with a job that is in parts, or compacts what is due, if anything is. Families that were
/// last seen to fail come last, and keep no other from being compacted.
///
/// # Errors
/// `NoSpace`, `Corruption` of an input, and everything else that merging tables can fail with; the
/// inputs stay.
pub fn compact_next(database: &Database) -> Result<bool> {
    database.health.check_log()?;
    let shared = lock(&database.jobs).shared.iter().find(|shared| shared.has_part()).cloned();
    if let Some(shared) = shared {
        with_context(database, |context| {
            shared.run_parts(context);
            Ok(())
        })?;
        return Ok(true);
    }
    let moment = moment(database);
    let oldest = moment.stripes.oldest_end();
    let families = database.families.load();
    note_all_due(database, &families, DUE_INTERVAL);
    let (mut due, failing) = {
        let jobs = lock(&database.jobs);
        let failing: Vec<JobOf> = jobs.failures.keys().copied().collect();
        (jobs.due.iter().copied().collect::<Vec<_>>(), failing)
    };
    let writers = writers(database, &failing);
    if !failing.is_empty() {
        due.sort_by_key(|id| failing.contains(&JobOf::Family(*id)));
    }
    // What is removed unread need not be merged first. What is rewritten for space alone comes
    // after all that readers and writers wait for.
    let drops_and_merges = |family: &Family| {
        family.tree.begin_drop(&moment).or_else(|| family.tree.begin_plan(oldest, writers))
    };
    let rewrites = |family: &Family| match writers {
        Writers::Ahead => None,
        _ => family.tree.begin_rewrite(&moment),
    };
    let due: Vec<_> = due.into_iter().filter_map(|id| families.get(id)).collect();
    let mut failure = None;
    for begin in [&drops_and_merges as &dyn Fn(&Family) -> Option<Plan>, &rewrites] {
        for family in &due {
            let Some(plan) = begin(family) else { continue };
            match run_plan(database, family, plan) {
                Ok(()) => return Ok(true),
                // What keeps all jobs from being done.
                Err(error) if is_everywhere(&error) => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
    }
    let is_surveyed =
        writers != Writers::Ahead && due.iter().any(|family| family.tree.survey_garbage());
    let is_frozen = writers == Writers::AtRest && freeze_what_covers(database, &moment);
    if failure.is_none() && (is_surveyed || is_frozen) {
        return Ok(true);
    }
    due.iter().for_each(|family| pass_quiet(database, family));
    // What a reader held, or what went with a family, has waited for no job.
    purge(database);
    failure.map_or(Ok(false), Err)
}

/// Passes over a family until its tables change or all families are looked at again, if nothing can
/// be due before.
fn pass_quiet(database: &Database, family: &Family) {
    // It may wait for IO, so it is asked before the lock.
    let Some(version) = family.tree.version_without_garbage() else { return };
    let mut jobs = lock(&database.jobs);
    // Under the lock: a version that comes into force after this look is noted after it, too.
    if family.tree.is_quiet(&version) {
        jobs.due.remove(&family.id);
    }
}

/// Has all families looked at, if that was last so at least `interval` ago: time makes a compaction
/// due that nothing has been noted for.
pub fn note_all_due(database: &Database, families: &FamilyMap, interval: Duration) {
    let now_ns = database.options.clock.monotonic_ns();
    let mut jobs = lock(&database.jobs);
    let since_ns = now_ns.saturating_sub(jobs.all_due_ns);
    if u128::from(since_ns) >= interval.as_nanos() {
        jobs.all_due_ns = now_ns;
        jobs.due.extend(families.iter().map(|family| family.id));
    }
}

/// What writers leave to compactions, while these jobs fail.
fn writers(database: &Database, failing: &[JobOf]) -> Writers {
    // A flush that fails for want of space may need a compaction before it.
    if failing.contains(&JobOf::Memory) {
        return Writers::Slow;
    }
    // What writers wait for already is not put off.
    if database.unwritten_share() > 0.0 && database.level_share() == 0.0 {
        return Writers::Ahead;
    }
    if lock(&database.tail).is_at_rest() && !has_flush_due(database) {
        return Writers::AtRest;
    }
    let is_half_full = database.memory_bytes() >= database.options.memtable_bytes as u64 / 2;
    if is_half_full { Writers::Fast } else { Writers::Slow }
}

/// Whether a job for another family would fail with the same.
fn is_everywhere(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Poisoned | ErrorKind::Closed)
}

/// Carries out a plan that was noted as running.
///
/// # Errors
/// As [`compact_next`].
pub fn run_plan(database: &Database, family: &Family, plan: Plan) -> Result<()> {
    lock(&database.jobs).compactions += 1;
    let result = match plan.way {
        Way::Move | Way::Drop => install(database, plan.edit_changes(family.id), None),
        Way::Merge => merge(database, family, &plan),
    };
    family.tree.end_plan(&plan);
    let result = match result {
        // What was asked for does it all.
        Err(error) if error.kind() == ErrorKind::Closed && plan.is_given_up() => Ok(()),
        result => result.inspect(|()| count_plan(database, &plan)),
    };
    // It holds its inputs, which would outlast the purge.
    drop(plan);
    ended(database, JobOf::Family(family.id), result, |jobs| jobs.compactions -= 1)?;
    database.work.raise();
    Ok(())
}

fn count_plan(database: &Database, plan: &Plan) {
    Counters::add(&database.counters.compactions, 1);
    if plan.way == Way::Drop {
        Counters::add(&database.counters.dropped_tables, plan.tables().count() as u64);
    } else if plan.reason == Reason::Garbage {
        Counters::add(&database.counters.space_compactions, 1);
    }
}

fn merge(database: &Database, family: &Family, plan: &Plan) -> Result<()> {
    let version = Arc::clone(&family.tree.view().version);
    let compaction = Compaction::new(
        family.id,
        family.tree.options(),
        plan.clone(),
        &version,
        stripes(database),
        database.options.workers.max(1),
    )?;
    let mut output = run_shared(database, compaction.subjobs(), |outputs, context| {
        compaction.finish(outputs, context)
    })?;
    install_output(database, std::mem::take(&mut output.changes), None)?;
    Counters::add(&database.counters.compacted_bytes, output.bytes_written);
    Ok(())
}

/// Runs the parts of a job, with whoever is free to help, and puts together what they wrote.
fn run_shared(
    database: &Database,
    parts: Vec<impl Part + 'static>,
    finish: impl FnOnce(Vec<NewTables>, &JobContext<'_>) -> Result<JobOutput>,
) -> Result<JobOutput> {
    let shared = Arc::new(Shared::new(parts));
    let is_shared = shared.parts() > 1;
    if is_shared {
        lock(&database.jobs).shared.push(Arc::clone(&shared));
        database.work.raise();
    }
    with_context(database, |context| {
        shared.run_parts(context);
        let outputs = shared.wait();
        if is_shared {
            lock(&database.jobs).shared.retain(|other| !Arc::ptr_eq(other, &shared));
        }
        finish(outputs?, context)
    })
}

/// Removes files that nobody uses any more.
fn purge(database: &Database) {
    let obsolete = std::mem::take(&mut lock(&database.jobs).obsolete);
    let (used, unused): (Vec<_>, Vec<_>) =
        obsolete.into_iter().partition(|&number| database.files.is_in_use(number));
    let mut left = used;
    for number in unused {
        // What cannot be removed now is tried again with the next job, or at the next open.
        let removed = database.files.remove(number);
        if removed.is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            left.push(number);
        }
    }
    lock(&database.jobs).obsolete.extend(left);
}

/// Keeps the log ahead of its writers, the next window and the next segment, and gives back the
/// memory of what lies behind them.
///
/// # Errors
/// `NoSpace`, with nothing lost.
pub fn keep_log(database: &Database) -> Result<()> {
    let low = lock(&database.tail).low_window();
    if let Some((segment, end)) = low {
        segment.file.prepare(end)?;
        lock(&database.tail).prepared(segment.id, end);
    }
    if lock(&database.tail).is_nearly_full(&database.tail_limits()) {
        database.wal.make_ready(0)?;
    }
    let published = database.publisher.published();
    let passed = lock(&database.tail).pass(published);
    if let Some((segment, end)) = passed {
        segment.file.release(end);
    }
    Ok(())
}

/// Ends the log of a database that is being closed: everything is published and synced, then
/// marked, and the manifest is told where it ends, if there is space for that, so that a log that
/// is missing or cut short is noticed at the next open. What the log does not need is given back.
///
/// # Errors
/// `Poisoned`, if a sync fails; as [`install`].
pub fn close_log(database: &Database) -> Result<()> {
    sync_wal(database)?;
    // Before the end is marked, which needs space.
    database.wal.give_back_unused();
    let active = lock(&database.tail).active();
    let end = mark_end(database)?;
    if active.is_some() || database.wal.synced() > lock(&database.manifest_io).state.synced {
        note_end(database)?;
    }
    if let Some(segment) = active.filter(|segment| segment.id == end.segment) {
        // Everything is durable, and the space comes back with the next use of the file.
        let _ = segment.file.shorten(end.offset);
    }
    lock(&database.manifest_io).give_back_unused();
    Ok(())
}

/// Tells the manifest where the log ends, and the time, if there is space for that.
fn note_end(database: &Database) -> Result<()> {
    match install(database, Vec::new(), None) {
        // Everything is durable; a log that is cut short will be taken for one of a kill.
        Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
        result => result,
    }
}

/// Says at the end of the log that it was closed, if it has a segment with room for that. Returns
/// where it ends. The mark tells nothing that the manifest does not, and is not synced.
fn mark_end(database: &Database) -> Result<LogPosition> {
    let (last, end) = lock(&database.tail).last();
    let mark = end.offset + record_bytes(RecordKind::End, 0, 0);
    let active = lock(&database.tail).active();
    let Some(segment) = active.filter(|segment| mark <= segment.file.capacity()) else {
        return Ok(end);
    };
    let synced = Synced::new(end, end.segment);
    let header =
        RecordHeader { first_sequence: last.next(), count: 0, kind: RecordKind::End, synced };
    match segment.file.prepare(mark) {
        // The next open reads the log as after a kill.
        Err(error) if error.kind() == ErrorKind::NoSpace => return Ok(end),
        prepared => prepared
            .and_then(|()| fill_record(&*segment.file, end, &header, &[]))
            .map_err(|error| database.health.poison(error))?,
    }
    Ok(LogPosition { offset: mark, ..end })
}

#[cfg(test)]
mod tests;
