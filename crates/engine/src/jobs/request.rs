//! Manual compactions, step by step, beside those that are due; and waiting until no job is due.
//!
//! Pure functions in `tree` decide the steps.

use crate::{
    background::Background,
    backpressure::Backpressure,
    catalog::branches::FamilyRole,
    catalog::family::FamilyData,
    catalog::family_map::FamilyMap,
    catalog::lazy_family::LazyFamily,
    database::installer::Installer,
    database::job_rooms::JobRooms,
    health::Health,
    install::install,
    jobs::blobs::seal_compacted,
    jobs::compact::{note_all_due, run_plan},
    jobs::flush::{PATIENCE, flush_all, flush_family, has_flush_due},
    jobs::next::run_one,
};
use siltdb_base::{
    cancel::{CancelToken, cancelled},
    error::Result,
    id::FileNumber,
    sync::lock,
};
use siltdb_disk::table_meta::{KeySpan, RangeEnd};
use siltdb_tree::{
    planning::pick_range::{Request, Step},
    planning::plan::{Plan, PlanKind},
    read::visible::bounds::Bounds,
    rewrite::compact::would_change_nothing,
    tree::Pause,
};
use std::{sync::Arc, time::Duration};

/// The maximum number of families whose tables one edit moves. Such an edit stays far below the
/// size of a manifest.
const MOVED_FAMILIES_MAX: usize = 512;

/// What a manual compaction has done so far.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactProgress {
    /// The number of compactions that it has finished.
    pub compactions: u64,
    /// The size of the tables that these have merged or moved, in bytes. A table that goes down
    /// several levels counts several times.
    pub bytes_done: u64,
}

/// How the caller of a manual compaction cancels and follows it.
pub struct CompactControl<'a> {
    token: &'a CancelToken,
    progress: CompactProgress,
    on_progress: &'a mut dyn FnMut(CompactProgress),
    /// How often all compactions were cancelled before this one began.
    cancels: Option<u64>,
}

impl<'a> CompactControl<'a> {
    /// A compaction that `token` cancels, and that calls `on_progress` after each step.
    pub fn new(token: &'a CancelToken, on_progress: &'a mut dyn FnMut(CompactProgress)) -> Self {
        Self { token, progress: CompactProgress::default(), on_progress, cancels: None }
    }

    /// Begins the compaction, unless that was done: a later [`cancel_compactions`] ends it, also
    /// between two families. Returns how often all compactions were cancelled before.
    fn begin(&mut self, background: &Background) -> u64 {
        *self.cancels.get_or_insert_with(|| background.cancels())
    }

    fn finished(&mut self, bytes: u64) {
        self.progress.compactions += 1;
        self.progress.bytes_done += bytes;
        (self.on_progress)(self.progress);
    }
}

/// Merges all tables of a family into one level, and what it has in memory with them.
///
/// # Errors
/// `NotFound`, if the family was dropped; `Cancelled`; the failure of a flush or a merge.
pub fn compact_family(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    control: &mut CompactControl<'_>,
) -> Result<()> {
    control.begin(rooms.background);
    control.token.check()?;
    let pause = family.tree.cancel_redundant()?;
    flush_all(rooms)?;
    merge_family(rooms, family, pause, control)
}

/// As [`compact_family`], with each family but those that rest.
///
/// # Errors
/// `Cancelled`; the failure of a flush or a merge.
pub fn compact_all(rooms: &JobRooms<'_>, control: &mut CompactControl<'_>) -> Result<()> {
    control.begin(rooms.background);
    control.token.check()?;
    let families = rooms.catalog.families.load();
    let first = families.iter().next().map(|family| family.get());
    let mut cleared = first.map(|first| first.tree.cancel_redundant()).transpose()?;
    flush_all(rooms)?;
    move_all(&rooms.installer(), &families)?;
    let rests = |family: &&Arc<LazyFamily>| family.role == FamilyRole::Base;
    let families = families.iter().filter(|family| !rests(family)).map(|family| family.get());
    families.into_iter().try_for_each(|family| {
        let pause = cleared.take().map_or_else(|| family.tree.cancel_redundant(), Ok)?;
        merge_family(rooms, family, pause, control).or_else(|error| match family.is_dropped() {
            true => Ok(()),
            false => Err(error),
        })
    })
}

/// Does the first step of compacting each of `families`, where that step is a trivial move. One
/// edit moves the tables of many families, because thousands of small families would each take a
/// sync.
///
/// # Errors
/// As [`install`].
pub fn move_all(installer: &Installer<'_>, families: &FamilyMap) -> Result<()> {
    let request = Request::new(None, installer.log.publisher.published(), FileNumber(0));
    let families: Vec<_> = families.iter().map(|family| family.get()).collect();
    for families in families.chunks(MOVED_FAMILIES_MAX) {
        let mut moves = Vec::new();
        for family in families {
            let Step::Plan(plan) = family.tree.begin_request(&request) else { continue };
            match plan.kind {
                PlanKind::TrivialMove => moves.push((family, plan)),
                PlanKind::Rewrite | PlanKind::DeleteOnly => family.tree.end_plan(plan.name()),
            }
        }
        let changes = moves.iter().flat_map(|(family, plan)| plan.edit_changes(family.id));
        let changes: Vec<_> = changes.collect();
        let installed = if changes.is_empty() { Ok(()) } else { install(installer, changes, None) };
        for (family, plan) in moves {
            family.tree.end_plan(plan.name());
        }
        // Other plans may have been refused because of these.
        installer.backpressure.room.raise();
        installer.background.work.raise();
        installed?;
    }
    Ok(())
}

/// Merges all present tables of a family into one level, rewritten by what is visible now. Tables
/// that would be written again unchanged stay. The blob file in use is sealed if there is garbage
/// in it. `pause` is that of the family, and ends once the first step has begun.
///
/// # Errors
/// `NotFound`, if the family was dropped; `Cancelled`; the failure of a merge.
fn merge_family(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    pause: Pause<'_>,
    control: &mut CompactControl<'_>,
) -> Result<()> {
    carry_out(rooms, family, None, Some(pause), control)?;
    seal_compacted(&rooms.installer());
    Ok(())
}

/// Merges the tables of a family within `bounds` into one level, as [`compact_family`] does with
/// all. Tables are merged whole, so their keys may reach beyond the bounds.
///
/// # Errors
/// As [`compact_family`].
pub fn compact_range(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    bounds: &Bounds,
    control: &mut CompactControl<'_>,
) -> Result<()> {
    control.token.check()?;
    flush_family(rooms, family)?;
    let version = family.tree.view().version.clone();
    match version.range().and_then(|all| within(all, bounds)) {
        Some(range) => carry_out(rooms, family, Some(range), None, control),
        None => family.check(),
    }
}

/// The part of `all` that lies within `bounds`, if there is one.
fn within(all: KeySpan, bounds: &Bounds) -> Option<KeySpan> {
    let KeySpan { mut first, mut last, mut end } = all;
    if let Some(lower) = &bounds.lower {
        first = first.max(lower.clone());
    }
    if let Some(upper) = bounds.upper.as_ref().filter(|upper| **upper <= last) {
        (last, end) = (upper.clone(), RangeEnd::Exclusive);
    }
    let is_empty = match end {
        RangeEnd::Inclusive => first > last,
        RangeEnd::Exclusive => first >= last,
    };
    (!is_empty).then_some(KeySpan { first, last, end })
}

fn carry_out(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    range: Option<KeySpan>,
    mut pause: Option<Pause<'_>>,
    control: &mut CompactControl<'_>,
) -> Result<()> {
    let cancels = control.begin(rooms.background);
    // A table that moves meanwhile would count as one that came later.
    let _numbers = family.tree.keep_numbers();
    wait_for_plans(
        rooms.health,
        rooms.backpressure,
        family,
        family.tree.plans_begun(),
        control.token,
    )?;
    let (newest, next_file) = (rooms.log.publisher.published(), rooms.catalog.ids.next_file());
    let mut request = Request::new(range, newest, next_file).cancelled_by(control.token);
    let parallelism = rooms.options.workers.max(1);
    loop {
        rooms.health.check()?;
        family.check()?;
        let seen = rooms.backpressure.room.seen();
        let step = family.tree.begin_request(&request);
        if pause.take().is_some() {
            rooms.background.work.raise();
        }
        // Looked at behind `begin_request`: a plan that began after the cancellation ends here.
        if rooms.background.cancels() != cancels {
            request.given_up.cancel();
        }
        match step {
            Step::Done => return Ok(()),
            Step::Plan(plan) if request.given_up.is_cancelled() => {
                end_unused(rooms.background, rooms.backpressure, family, &plan);
                return Err(cancelled());
            }
            Step::Wait if request.given_up.is_cancelled() => return Err(cancelled()),
            Step::Plan(plan)
                if would_change_nothing(&plan, &family.tree.options(), parallelism) =>
            {
                end_unused(rooms.background, rooms.backpressure, family, &plan);
                request = request.past(&plan);
            }
            Step::Plan(plan) => {
                let (bytes, past) = (plan.bytes(), request.past(&plan));
                run_plan(rooms, family, plan)?;
                request = past;
                if !request.given_up.is_cancelled() {
                    control.finished(bytes);
                }
            }
            Step::Wait => rooms.backpressure.room.wait(seen, PATIENCE),
        }
    }
}

/// Ends a plan that has begun and is not carried out.
fn end_unused(
    background: &Background,
    backpressure: &Backpressure,
    family: &FamilyData,
    plan: &Plan,
) {
    family.tree.end_plan(plan.name());
    // Other plans may have been refused because of this one.
    backpressure.room.raise();
    background.work.raise();
}

/// Waits until no plan of a family runs that began before `Tree::plans_begun` was `begun`. A
/// request waits for them, because they keep what was visible when they began, and file numbers do
/// not show which files they wrote.
fn wait_for_plans(
    health: &Health,
    backpressure: &Backpressure,
    family: &FamilyData,
    begun: u64,
    token: &CancelToken,
) -> Result<()> {
    loop {
        health.check()?;
        token.check()?;
        let seen = backpressure.room.seen();
        if !family.tree.runs_any_of(begun) {
            return Ok(());
        }
        backpressure.room.wait(seen, PATIENCE);
    }
}

/// Cancels all running compactions, also manual ones, and waits until they have ended. Their
/// partial outputs are removed by then. Flushes go on. Automatic compactions may begin again at
/// once, unless a pause keeps them back.
///
/// # Errors
/// `Poisoned`, `Closed`.
pub fn cancel_compactions(installer: &Installer<'_>) -> Result<()> {
    installer.background.note_cancel();
    let families = installer.catalog.families.load();
    let cancel = |family: &Arc<FamilyData>| (Arc::clone(family), family.tree.cancel_plans());
    let running: Vec<(Arc<FamilyData>, u64)> = families.made().map(cancel).collect();
    running.iter().try_for_each(|(family, begun)| {
        wait_for_plans(
            installer.health,
            installer.backpressure,
            family,
            *begun,
            &CancelToken::new(),
        )
    })
}

/// Runs jobs, and waits for those of other threads, until none is due.
///
/// # Errors
/// The failure of a job.
pub fn settle(rooms: &JobRooms<'_>) -> Result<()> {
    note_all_due(rooms.background, rooms.options, &rooms.catalog.families.load(), Duration::ZERO);
    loop {
        let seen = rooms.backpressure.room.seen();
        rooms.health.check()?;
        if run_one(rooms)? {
            continue;
        }
        let idle = idle_after(&rooms.installer());
        if run_one(rooms)? {
            continue;
        }
        // A job that ran during the search may have hidden another one, or made one due.
        if idle.is_some() && idle == idle_after(&rooms.installer()) {
            return Ok(());
        }
        rooms.backpressure.room.wait(seen, PATIENCE);
    }
}

/// How many compactions and pauses have begun so far, if no job is running and no generation waits
/// for a flush.
fn idle_after(installer: &Installer<'_>) -> Option<u64> {
    let is_flushed = !has_flush_due(installer.log, installer.background);
    let is_idle = {
        let jobs = lock(&installer.background.jobs);
        is_flushed && jobs.flushing.is_empty() && !jobs.is_moving && jobs.compactions == 0
    };
    if !is_idle {
        return None;
    }
    // A compaction is counted when it is found, and noted among the jobs after that.
    let families = installer.catalog.families.load();
    families.made().map(|family| family.tree.idle_after()).sum()
}

#[cfg(test)]
mod tests;
