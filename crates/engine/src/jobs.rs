//! Background work, one piece at a time: a worker, a simulator or a waiting writer calls it.
//!
//! What is worth doing is decided in `tree`, by pure functions; here it is carried out: inputs are
//! pinned, the tree writes files, `install` makes them count, and what they replace is given up.

use crate::{
    database::{Counters, Database, JobState, Waiting},
    family::Family,
    generation::Frozen,
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
        record::{LogPosition, RecordHeader, RecordKind, record_bytes},
        segment::segments_end,
    },
};
use siltdb_tree::{
    compact::Compaction,
    flush::{Flush, FlushInput},
    job::{JobContext, JobOutput, NewTables, Part},
    memory::Generation,
    pick_range::{Request, Step},
    plan::{Plan, Way},
    retain::stripes::Stripes,
};
use std::{sync::Arc, time::Duration};

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
    job(&JobContext {
        files: &database.files,
        file_numbers: &file_numbers,
        uids: &uids,
        clock: &*database.options.clock,
        cancelled: &database.ending,
    })
}

/// What must stay readable, captured now: every input of the job is published already (law V4).
fn stripes(database: &Database) -> Stripes {
    let present = database.publisher.published();
    Stripes::new(&database.snapshots.retained(|| present), present)
}

/// Notes how a job ended, and wakes those who wait for room or for files.
fn ended<T>(database: &Database, result: Result<T>, end: impl FnOnce(&mut JobState)) -> Result<T> {
    {
        let mut jobs = lock(&database.jobs);
        end(&mut jobs);
        jobs.failure = result.as_ref().err().map(Error::duplicate);
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
    ended(database, result, |jobs| jobs.is_flushing = false)?;
    database.work.raise();
    Ok(true)
}

fn flush_generation(database: &Database, frozen: &Frozen) -> Result<()> {
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
    let flush = Flush::new(inputs, stripes, database.options.workers.max(1));
    let mut output =
        run_shared(database, flush.parts(), |outputs, context| flush.finish(outputs, context))?;
    let mut changes = std::mem::take(&mut output.changes);
    changes.push(Change::LogStart { segment: segment_after(database) });
    changes.push(Change::LastSequence(frozen.last));
    install_output(database, changes, Some(frozen.number))?;
    Counters::add(&database.counters.flushes, 1);
    Counters::add(&database.counters.flushed_bytes, output.bytes_written);
    lock(&database.frozen).pop_front();
    database.wal.retire(&frozen.segments)
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

/// Helps with a job that is in parts, or compacts what is due, if anything is.
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
    for family in database.families.load().iter() {
        if let Some(plan) = family.tree.begin_plan(oldest) {
            run_plan(database, family, plan)?;
            return Ok(true);
        }
    }
    // What a reader held, or what went with a family, has waited for no job.
    purge(database);
    Ok(false)
}

/// Carries out a plan that was noted as running.
fn run_plan(database: &Database, family: &Family, plan: Plan) -> Result<()> {
    lock(&database.jobs).compactions += 1;
    let result = match plan.way {
        Way::Move => install(database, plan.move_changes(family.id), None),
        Way::Merge => merge(database, family, &plan),
    };
    family.tree.end_plan(&plan);
    // It holds its inputs, which would outlast the purge.
    drop(plan);
    if result.is_ok() {
        Counters::add(&database.counters.compactions, 1);
    }
    ended(database, result, |jobs| jobs.compactions -= 1)?;
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

/// Merges all that a family has in tables now into one level, rewritten by what can be seen now.
///
/// # Errors
/// `NotFound`, if it was dropped; what keeps it from being merged.
pub fn compact_family(database: &Database, family: &Family) -> Result<()> {
    wait_for_plans(database, family)?;
    let request = Request {
        range: None,
        newest: database.publisher.published(),
        rewrite_before: database.numbers.next_file(),
    };
    loop {
        database.health.check()?;
        family.check()?;
        let seen = database.room.seen();
        match family.tree.begin_request(&request) {
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
        if run_one(database)? {
            continue;
        }
        let idle = {
            let is_flushed = lock(&database.frozen).is_empty();
            let jobs = lock(&database.jobs);
            is_flushed && !jobs.is_flushing && jobs.compactions == 0
        };
        if idle {
            return Ok(());
        }
        database.room.wait(seen, PATIENCE);
    }
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

/// Keeps the log ahead of its writers: the next window and the next segment.
///
/// # Errors
/// `NoSpace`, with nothing lost.
pub fn keep_log(database: &Database) -> Result<()> {
    let low = lock(&database.tail).low_window();
    if let Some((segment, end)) = low {
        segment.file.prepare(end)?;
        lock(&database.tail).prepared(segment.id, end);
    }
    if lock(&database.tail).active_segment().is_some() {
        database.wal.make_ready(0)?;
    }
    Ok(())
}

/// Ends the log of a database that is being closed: everything is published and synced, then
/// marked, and the manifest is told where it ends, so that a log that is missing or cut short is
/// noticed at the next open.
///
/// # Errors
/// `Poisoned`, if a sync fails; as [`install`].
pub fn close_log(database: &Database) -> Result<()> {
    database.sync_wal()?;
    let end = mark_end(database)?;
    let known = lock(&database.manifest_io).state.synced;
    if end <= known {
        return Ok(());
    }
    install(database, vec![Change::LogSynced(end)], None)
}

/// Says at the end of the log that it was closed, if it has a segment with room for that. Returns
/// where it ends.
fn mark_end(database: &Database) -> Result<LogPosition> {
    let (last, end) = lock(&database.tail).last();
    let mark = end.offset + record_bytes(0);
    let active = lock(&database.tail).active();
    let Some(segment) = active.filter(|segment| mark <= segment.file.capacity()) else {
        return Ok(end);
    };
    let header =
        RecordHeader { first_sequence: last.next(), count: 0, kind: RecordKind::End, synced: end };
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
