//! Background work, one piece at a time: a worker, a simulator or a waiting writer calls it.
//!
//! What is worth doing is decided in `tree`, by pure functions; here it is carried out: inputs are
//! pinned, the tree writes files, `install` makes them count, and what they replace is given up.

use crate::{
    database::{Counters, Database, JobOf, JobState, Waiting},
    family::Family,
    generation::{Flushed, Frozen},
    install::install,
    share::Shared,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FileNumber, SegmentId, TableUid},
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
    compact::{Compaction, would_change_nothing},
    flush::{Flush, FlushInput},
    job::{JobContext, JobOutput, NewTables, Part},
    memory::Generation,
    pick_leveled::Writers,
    pick_range::{Request, Step},
    plan::{Plan, Way},
    retain::stripes::Stripes,
    tree::Pause,
};
use std::{sync::Arc, time::Duration};

/// What a close leaves in the log for the next opening to replay, at most. So much takes about as
/// long to replay, at each opening, as to write out once.
const REPLAY_BYTES_MAX: u64 = 1 << 20;

/// How long somebody who waits for other jobs does so before looking again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs one job if one is due, and says so: flushes first, for they make room.
///
/// # Errors
/// What the job failed with.
pub fn run_one(database: &Database) -> Result<bool> {
    if let Waiting::RunJob(_) = database.waiting {
        database.sync_if_due()?;
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

/// What must stay readable, captured now: every input of the job is published already (law V4).
fn stripes(database: &Database) -> Stripes {
    let present = database.publisher.published();
    Stripes::new(&database.snapshots.retained(|| present), present)
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
            Some(front) if !jobs.is_flushing => {
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
    for family in database.families.load().iter() {
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
    let last = {
        let mut tail = lock(&database.tail);
        if let Some(frozen) = tail.freeze() {
            database.freeze(frozen);
        }
        tail.last().0
    };
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
    let retained = database.snapshots.retained(|| database.publisher.published());
    let oldest = retained.first().copied().unwrap_or_default();
    let families = database.families.load();
    let failing: Vec<JobOf> = lock(&database.jobs).failures.keys().copied().collect();
    let writers = writers(database, &failing);
    let mut families: Vec<_> = families.iter().collect();
    if !failing.is_empty() {
        families.sort_by_key(|family| failing.contains(&JobOf::Family(family.id)));
    }
    let mut failure = None;
    for family in families {
        let Some(plan) = family.tree.begin_plan(oldest, writers) else { continue };
        match run_plan(database, family, plan) {
            Ok(()) => return Ok(true),
            // What keeps all jobs from being done.
            Err(error) if is_everywhere(&error) => return Err(error),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    // What a reader held, or what went with a family, has waited for no job.
    purge(database);
    failure.map_or(Ok(false), Err)
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
    if lock(&database.tail).is_at_rest() && lock(&database.frozen).is_empty() {
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
fn run_plan(database: &Database, family: &Family, plan: Plan) -> Result<()> {
    lock(&database.jobs).compactions += 1;
    let result = match plan.way {
        Way::Move => install(database, plan.move_changes(family.id), None),
        Way::Merge => merge(database, family, &plan),
    };
    family.tree.end_plan(&plan);
    let result = match result {
        // What was asked for does it all.
        Err(error) if error.kind() == ErrorKind::Closed && plan.is_given_up() => Ok(()),
        result => result.inspect(|()| Counters::add(&database.counters.compactions, 1)),
    };
    // It holds its inputs, which would outlast the purge.
    drop(plan);
    ended(database, JobOf::Family(family.id), result, |jobs| jobs.compactions -= 1)?;
    database.work.raise();
    Ok(())
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

/// Merges all that a family has in tables now into one level, rewritten by what can be seen now;
/// tables of which the same would be written again stay as they are. `pause` is that of the family:
/// it ends once the first step has begun.
///
/// # Errors
/// `NotFound`, if it was dropped; what keeps it from being merged.
pub fn compact_family(database: &Database, family: &Family, pause: Pause<'_>) -> Result<()> {
    wait_for_plans(database, family)?;
    let (newest, next_file) = (database.publisher.published(), database.numbers.next_file());
    let mut request = Request::new(None, newest, next_file);
    let parallelism = database.options.workers.max(1);
    let mut pause = Some(pause);
    loop {
        database.health.check()?;
        family.check()?;
        let seen = database.room.seen();
        let step = family.tree.begin_request(&request);
        if pause.take().is_some() {
            database.work.raise();
        }
        match step {
            Step::Plan(plan)
                if would_change_nothing(&plan, &family.tree.options(), parallelism) =>
            {
                family.tree.end_plan(&plan);
                request.keep(&plan);
                // Others may have been refused for it.
                database.room.raise();
                database.work.raise();
            }
            Step::Plan(plan) => run_plan(database, family, plan)?,
            Step::Wait => database.room.wait(seen, PATIENCE),
            Step::Done => return Ok(()),
        }
    }
}

/// Waits for the compactions of a family that run already: they keep what could be seen when they
/// began, in files whose numbers do not tell.
fn wait_for_plans(database: &Database, family: &Family) -> Result<()> {
    let begun = family.tree.plans_begun();
    loop {
        database.health.check()?;
        let seen = database.room.seen();
        if !family.tree.runs_any_of(begun) {
            return Ok(());
        }
        database.room.wait(seen, PATIENCE);
    }
}

/// Runs jobs, and waits for those of others, until none is due.
///
/// # Errors
/// What a job failed with.
pub fn settle(database: &Database) -> Result<()> {
    loop {
        let seen = database.room.seen();
        database.health.check()?;
        let idle = idle_after(database);
        if run_one(database)? {
            continue;
        }
        // A job that ran at any time while one was looked for may have kept that from being found,
        // or have made one due.
        if idle.is_some() && idle == idle_after(database) {
            return Ok(());
        }
        database.room.wait(seen, PATIENCE);
    }
}

/// How many compactions have begun so far, if no job is running and nothing waits for a flush.
fn idle_after(database: &Database) -> Option<u64> {
    let is_flushed = lock(&database.frozen).is_empty();
    let is_idle = {
        let jobs = lock(&database.jobs);
        is_flushed && !jobs.is_flushing && jobs.compactions == 0
    };
    if !is_idle {
        return None;
    }
    // A compaction is counted as it is found, and only then noted among the jobs.
    let families = database.families.load();
    families.iter().map(|family| family.tree.idle_after()).sum()
}

/// Removes files that nobody uses any more.
fn purge(database: &Database) {
    let obsolete = std::mem::take(&mut lock(&database.jobs).obsolete);
    let (used, unused): (Vec<_>, Vec<_>) =
        obsolete.into_iter().partition(|&number| database.files.is_in_use(number));
    let mut left = used;
    for number in unused {
        // What cannot be removed now is tried again with the next job, or at the next open.
        let removed = database.options.fs.remove(&database.files.path(number));
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
    database.sync_wal()?;
    // Before the end is marked, which needs space.
    database.wal.give_back_unused();
    let end = mark_end(database)?;
    note_end(database, end)?;
    let active = lock(&database.tail).active();
    if let Some(segment) = active.filter(|segment| segment.id == end.segment) {
        // Everything is durable, and the space comes back with the next use of the file.
        let _ = segment.file.shorten(end.offset);
    }
    lock(&database.manifest_io).give_back_unused();
    Ok(())
}

/// Tells the manifest where the log ends, if there is space for that.
fn note_end(database: &Database, end: LogPosition) -> Result<()> {
    let known = lock(&database.manifest_io).state.synced;
    if end <= known {
        return Ok(());
    }
    match install(database, vec![Change::LogSynced(end)], None) {
        // Everything is durable; a log that is cut short will be taken for one of a kill.
        Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
        result => result,
    }
}

/// Says at the end of the log that it was closed, if it has a segment with room for that. Returns
/// where it ends.
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
    let end = LogPosition { offset: mark, ..end };
    database.wal.sync_to(end, &database.health)
}

#[cfg(test)]
mod tests;
