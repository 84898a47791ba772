//! Compactions: runs the plans that are due, family by family.
//!
//! Pure functions in `tree` decide what is due.

use crate::{
    background::due_families::{Look, Until},
    background::{Background, JobOf},
    catalog::branches::FamilyRole,
    catalog::family::FamilyData,
    catalog::family_map::FamilyMap,
    catalog::lazy_family::LazyFamily,
    database::job_rooms::JobRooms,
    install::install,
    jobs::{
        blobs::{begin_moving, remove_unreferenced, seal_wasteful},
        context::{discard_output, ended, install_output, newest_in, purge, with_context},
        dead_parts::begin_leaving,
        flush::has_flush_due,
        pause::holds_compactions,
        shared::{Helpers, run_in_steps},
        space::{freeze_what_covers, moment, stripes},
    },
    kit::counters::Counters,
    options::EngineOptions,
    write::log_sync::sync_blobs,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_tree::{
    files::version::Version,
    options::TreeOptions,
    planning::pick_leveled::WriteLoad,
    planning::plan::{Plan, PlanKind, Reason},
    read::visible::resolve::BlobSource,
    rewrite::compact::{Compaction, FilterSources},
    rewrite::job::{JobContext, JobOutput},
};
use std::{
    collections::HashMap,
    ops::{ControlFlow, Range},
    sync::{Arc, Weak},
    time::Duration,
};

/// How often all families are examined for a compaction that time has made due.
const DUE_INTERVAL: Duration = Duration::from_secs(10);

/// Runs a part of a parallel job, else a compaction that is due and that no pause keeps back.
/// Returns whether it found work.
/// Families whose last job failed come last, and delay no other family.
///
/// # Errors
/// `NoSpace`, `Corruption` of an input, and any other failure of merging tables. The inputs stay.
pub fn compact_next(rooms: &JobRooms<'_>) -> Result<bool> {
    rooms.health.check_log()?;
    let shared =
        lock(&rooms.background.jobs).shared.iter().find(|shared| shared.has_part()).cloned();
    if let Some(shared) = shared {
        // One part: the next may be that of a flush, which was begun meanwhile.
        with_context(rooms, |context| Ok(shared.run_part(context)))?;
        return Ok(true);
    }
    if holds_compactions(rooms.background, rooms.backpressure) {
        purge(&rooms.installer());
        return Ok(false);
    }
    let families = rooms.catalog.families.load();
    note_all_due(rooms.background, rooms.options, &families, DUE_INTERVAL);
    let failing: Vec<JobOf> = lock(&rooms.background.jobs).failures.keys().copied().collect();
    let writers = writers(rooms, &failing);
    let mut look = lock(&rooms.background.jobs).due.look(writers);
    if !failing.is_empty() {
        look.families.sort_by_key(|id| failing.contains(&JobOf::Family(*id)));
    }
    // Taken after the list, so that it shows every change for which a listed family was noted.
    let moment = moment(rooms);
    let oldest = moment.stripes.oldest_end();
    // A table that is removed unread need not be merged first. Rewrites for space alone come after
    // all work that readers and writers wait for.
    let drops_and_merges = |family: &FamilyData| {
        family.tree.begin_drop(&moment).or_else(|| family.tree.begin_plan(oldest, writers))
    };
    let rewrites = |family: &FamilyData| match writers {
        WriteLoad::Throttled => None,
        _ => family.tree.begin_rewrite(&moment, writers),
    };
    let due = candidates(&look, &families, &failing);
    let mut failure = None;
    for begin in [&drops_and_merges as &dyn Fn(&FamilyData) -> Option<Plan>, &rewrites] {
        for Candidate { family, .. } in &due {
            let Some(plan) = begin(family) else { continue };
            match run_plan(rooms, family, plan) {
                Ok(()) => return Ok(true),
                // This error would fail jobs of all families.
                Err(error) if is_everywhere(&error) => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
    }
    let is_scanned = writers != WriteLoad::Throttled && scan_garbage(rooms.background, &due);
    let is_frozen = writers == WriteLoad::Idle && freeze_what_covers(&rooms.installer(), &moment);
    if failure.is_none() && (is_scanned || is_frozen) {
        return Ok(true);
    }
    let is_resting = writers == WriteLoad::Idle && !due.is_empty();
    if failure.is_none() && is_resting && leave_dead_parts(rooms)? {
        return Ok(true);
    }
    if failure.is_none() && writers != WriteLoad::Throttled && collect_blobs(rooms, writers)? {
        return Ok(true);
    }
    due.iter().for_each(|candidate| pass(rooms.background, &look, candidate));
    forget_dropped(rooms, &look, &families);
    // Files that a reader held, or that a dropped family had, are purged without waiting for a job.
    purge(&rooms.installer());
    failure.map_or(Ok(false), Err)
}

/// Rewrites a table whose file is dead for a fair part. Returns whether it did.
fn leave_dead_parts(rooms: &JobRooms<'_>) -> Result<bool> {
    let Some((family, plan)) = begin_leaving(rooms.catalog, &rooms.background.jobs) else {
        return Ok(false);
    };
    run_plan(rooms, &family, plan)?;
    Ok(true)
}

/// Removes blob files without references, or moves the values of one table that lie in blob files
/// that are mostly garbage. Returns whether it did.
fn collect_blobs(rooms: &JobRooms<'_>, writers: WriteLoad) -> Result<bool> {
    if !rooms.blobs.is_used() {
        return Ok(false);
    }
    if seal_wasteful(&rooms.installer(), writers) || remove_unreferenced(rooms)? {
        return Ok(true);
    }
    // No file that it writes to is removed before its edit refers to it.
    let _moving = rooms.blobs.begin_moving();
    let Some((family, plan)) = begin_moving(&rooms.installer(), writers) else { return Ok(false) };
    run_plan(rooms, &family, plan)?;
    Ok(true)
}

/// Finds out more about the garbage of the first family of which there is more to find out. Returns
/// whether there is one.
fn scan_garbage(background: &Background, due: &[Candidate<'_>]) -> bool {
    let mut families = due.iter().map(|candidate| candidate.family);
    let Some(family) = families.find(|family| family.tree.scan_garbage()) else { return false };
    // A thread that looked before the scan must not pass it.
    background.note_due(family.id);
    true
}

/// A family that is looked at, and those that wait for what is found in it.
struct Candidate<'f> {
    family: &'f Arc<FamilyData>,
    /// What `Tree::idle_after` gave before the look.
    before: Option<u64>,
    /// Its tables before the look. Weak: no file waits for the end of the look.
    version: Weak<Version>,
    /// Its options before the look.
    options: Weak<TreeOptions>,
    /// Families that are not made and have these tables and options. What is due in one is due in
    /// all.
    alike: Vec<FamilyId>,
}

impl Candidate<'_> {
    /// Whether the family still has the tables and options that it had before the look.
    fn is_as_before(&self) -> bool {
        let (version, options) = (&self.family.tree.view().version, self.family.tree.options());
        std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version))
            && std::ptr::eq(self.options.as_ptr(), Arc::as_ptr(&options))
    }
}

/// The families of `look`, in its order. A family with a failing or running job stands for no
/// other, which would wait for that.
///
/// # Seeded faults
/// `alike_without_their_work`: a family in which a job runs stands for others.
fn candidates<'f>(look: &Look, families: &'f FamilyMap, failing: &[JobOf]) -> Vec<Candidate<'f>> {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for lazy in look.families.iter().filter_map(|id| families.lazy(*id)) {
        let (version, options) = (lazy.version(), lazy.options());
        let seen = (Arc::as_ptr(&version), Arc::as_ptr(&options));
        if let Some(&index) = known.get(&seen)
            && lazy.if_made().is_none()
        {
            candidates[index].alike.push(lazy.id);
            continue;
        }
        let family = lazy.get();
        let before = family.tree.idle_after();
        let is_free = before.is_some() && !failing.contains(&JobOf::Family(family.id));
        if is_free || seeded_fault!("alike_without_their_work") {
            known.entry(seen).or_insert(candidates.len());
        }
        let (version, options) = (Arc::downgrade(&version), Arc::downgrade(&options));
        candidates.push(Candidate { family, before, version, options, alike: Vec::new() });
    }
    candidates
}

/// Ends the look at a family in which nothing was due, and at those like it. They wait until their
/// tables change or all families are noted, if nothing can become due before. Else they wait at
/// most until the load is less.
///
/// They stay due if a plan of the family ran or was kept from beginning during the look.
fn pass(background: &Background, look: &Look, candidate: &Candidate<'_>) {
    let tree = &candidate.family.tree;
    // This may wait for IO, so it comes before the lock.
    let without_garbage = tree.version_without_garbage();
    let mut jobs = lock(&background.jobs);
    // Under the lock: a version installed after this check is also noted after it.
    let until = if without_garbage.is_some_and(|version| tree.is_quiet(&version)) {
        Until::Noted
    } else if candidate.before.is_some() && candidate.before == tree.idle_after() {
        Until::LessLoad
    } else {
        return;
    };
    jobs.due.pass(look, candidate.family.id, until);
    if candidate.is_as_before() {
        candidate.alike.iter().for_each(|id| jobs.due.pass(look, *id, until));
    }
}

/// Forgets families of a look that were dropped, and noted again with all others by a thread that
/// had not seen it.
fn forget_dropped(rooms: &JobRooms<'_>, look: &Look, families: &FamilyMap) {
    let missing = look.families.iter().filter(|id| !families.contains(**id));
    let dropped = missing.filter(|id| !rooms.catalog.families.load().contains(**id));
    dropped.for_each(|id| rooms.background.forget(*id));
}

/// Marks all families for examination, if the last time was at least `interval` ago. Time makes
/// compactions due that no change has announced.
pub(crate) fn note_all_due(
    background: &Background,
    options: &EngineOptions,
    families: &FamilyMap,
    interval: Duration,
) {
    let now_ns = options.clock.monotonic_ns();
    let mut jobs = lock(&background.jobs);
    let since_ns = now_ns.saturating_sub(jobs.all_due_ns);
    if u128::from(since_ns) >= interval.as_nanos() {
        jobs.all_due_ns = now_ns;
        let rests = |family: &&Arc<LazyFamily>| family.role == FamilyRole::Base;
        families.iter().filter(|f| !rests(f)).for_each(|family| jobs.due.note(family.id));
    }
}

/// The write load for the picker, with the failing jobs considered.
fn writers(rooms: &JobRooms<'_>, failing: &[JobOf]) -> WriteLoad {
    // A flush that fails for lack of space may need a compaction before it.
    if failing.contains(&JobOf::Memory) {
        return WriteLoad::Light;
    }
    // A compaction that writers wait for already is not postponed.
    if rooms.backpressure.unwritten_share(rooms.log) > 0.0 && !rooms.backpressure.is_beyond_soft() {
        return WriteLoad::Throttled;
    }
    if lock(&rooms.log.sequencer).is_idle(rooms.options.clock.monotonic_ns())
        && !has_flush_due(rooms.log, rooms.background)
    {
        return WriteLoad::Idle;
    }
    let generation_bytes = rooms.options.generation_bytes() as u64;
    if rooms.log.memory_bytes() >= generation_bytes / 2 {
        WriteLoad::Heavy
    } else {
        WriteLoad::Light
    }
}

/// Whether a job of another family would fail with the same error.
fn is_everywhere(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Poisoned | ErrorKind::Closed)
}

/// Runs a plan that was noted as running.
///
/// # Errors
/// As [`compact_next`].
pub fn run_plan(rooms: &JobRooms<'_>, family: &FamilyData, plan: Plan) -> Result<()> {
    lock(&rooms.background.jobs).compactions += 1;
    let (name, given_up) = (plan.name(), plan.given_up.clone());
    let ending = Ending::of(&plan);
    // The plan pins its inputs, which a purge must be able to remove. So it is given away.
    let result = match plan.kind {
        PlanKind::DeleteOnly | PlanKind::TrivialMove => change_tables(rooms, family, &plan),
        PlanKind::Rewrite => merge(rooms, family, plan),
    };
    family.tree.end_plan(name);
    let result = match result {
        // The manual compaction that cancelled the plan does its work, or a caller cancelled it.
        Err(error) if error.kind() == ErrorKind::Closed && given_up.is_cancelled() => Ok(()),
        Ok(Outcome::Done) => {
            ending.count(rooms.counters);
            Ok(())
        }
        result => result.map(|_| ()),
    };
    ended(&rooms.installer(), JobOf::Family(family.id), result, |jobs| {
        assert!(jobs.compactions > 0, "a compaction ends that is not counted");
        jobs.compactions -= 1;
    })?;
    rooms.background.work.raise();
    Ok(())
}

/// How a plan ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// A snapshot or retention floor that began after the plan was made needs what would go.
    Withdrawn,
}

/// Moves or removes the tables of a plan that is no merge.
fn change_tables(rooms: &JobRooms<'_>, family: &FamilyData, plan: &Plan) -> Result<Outcome> {
    if (plan.kind, plan.reason) == (PlanKind::DeleteOnly, Reason::Fifo) {
        return remove(rooms, family, plan);
    }
    install(&rooms.installer(), plan.edit_changes(family.id), None).map(|()| Outcome::Done)
}

/// Removes tables of which a reader at the present sees entries, unless a snapshot sees some.
fn remove(rooms: &JobRooms<'_>, family: &FamilyData, plan: &Plan) -> Result<Outcome> {
    let oldest = plan.tables().map(|table| table.sequence_min()).min();
    let removal = rooms.snapshots.begin_removal(oldest.unwrap_or_default());
    let Some(_removal) = removal else { return Ok(Outcome::Withdrawn) };
    install(&rooms.installer(), plan.edit_changes(family.id), None).map(|()| Outcome::Done)
}

/// What is counted of a plan once it is done.
struct Ending {
    kind: PlanKind,
    reason: Reason,
    tables: u64,
}

impl Ending {
    fn of(plan: &Plan) -> Self {
        Self { kind: plan.kind, reason: plan.reason, tables: plan.tables().count() as u64 }
    }

    fn count(&self, counters: &Counters) {
        Counters::add(&counters.compactions, 1);
        if self.kind == PlanKind::DeleteOnly {
            Counters::add(&counters.dropped_tables, self.tables);
        } else if matches!(self.reason, Reason::Garbage | Reason::Blobs) {
            Counters::add(&counters.space_compactions, 1);
        }
    }
}

/// Merges the tables of a plan, and installs what its steps have written one by one. Files of
/// inputs go with the step that takes their last keys.
fn merge(rooms: &JobRooms<'_>, family: &FamilyData, plan: Plan) -> Result<Outcome> {
    let workers = rooms.options.workers.max(1);
    let blobs = Arc::clone(rooms.blobs) as Arc<dyn BlobSource>;
    let sources = FilterSources { filters: &rooms.catalog.filters, blobs: Some(blobs) };
    // Snapshots that begin while the filter is at work keep their view of the family.
    let mut filtering = None;
    let retained = |options: &TreeOptions| {
        let filter = options.compaction_filter.as_ref();
        filtering = filter.map(|_| rooms.snapshots.begin_filtering(family.id));
        stripes(rooms)
    };
    let (compaction, parts) = family.tree.compaction(plan, retained, sources, workers)?;
    let credit = rooms.backpressure.credit(family.id, &compaction);
    let (mut outcome, steps) = (Outcome::Done, compaction.steps());
    let mut install = |step: &Range<usize>, outputs, context: &JobContext<'_>| {
        let output = compaction.finish_step(step, outputs, context)?;
        // What the edit takes away is no debt any more, so it must not count twice as done.
        credit.expect_left(compaction.left_after(step));
        outcome = install_step(rooms, &compaction, output)?;
        Ok(match outcome {
            Outcome::Done => ControlFlow::Continue(()),
            Outcome::Withdrawn => ControlFlow::Break(()),
        })
    };
    run_in_steps(rooms, Helpers::AfterFlushes, parts, steps, &mut install)?;
    drop((filtering, credit));
    Ok(outcome)
}

/// Installs what a step of a merge has written. The steps before it are installed.
fn install_step(
    rooms: &JobRooms<'_>,
    compaction: &Compaction,
    mut output: JobOutput,
) -> Result<Outcome> {
    if !compaction.plan().moved.is_empty() {
        sync_blobs(rooms.blobs, rooms.health)?;
    }
    // A retention floor that began meanwhile promises values that the filter has dropped.
    let begin = || rooms.snapshots.begin_removal(SequenceNumber::MAX);
    let removal = compaction.is_filtering().then(begin);
    let changes = std::mem::take(&mut output.changes);
    let (before, after) = (compaction.plan().sequence_max, newest_in(&changes));
    assert!(after <= before, "a merge of entries up to {before} would write {after}");
    if matches!(removal, Some(None)) {
        discard_output(rooms.catalog, &changes);
        return Ok(Outcome::Withdrawn);
    }
    install_output(&rooms.installer(), changes, None)?;
    Counters::add(&rooms.counters.compacted_bytes, output.bytes_written);
    Counters::add(&rooms.counters.compaction_steps, 1);
    drop((output, removal));
    purge(&rooms.installer());
    rooms.backpressure.room.raise();
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests;
