//! Manual compactions, step by step, beside those that are due; and waiting until no job is due.
//!
//! Pure functions in `tree` decide the steps.

use crate::{
    catalog::family::{FamilyData, FamilyMap},
    database::Database,
    install::install,
    jobs::compact::{note_all_due, run_plan},
    jobs::flush::{PATIENCE, has_flush_due},
    jobs::next::run_one,
};
use siltdb_base::{error::Result, id::FileNumber, sync::lock};
use siltdb_disk::table_meta::{KeySpan, RangeEnd};
use siltdb_tree::{
    planning::pick_range::{Request, Step},
    planning::plan::PlanKind,
    read::visible::bounds::Bounds,
    rewrite::compact::would_change_nothing,
    tree::Pause,
};
use std::{sync::Arc, time::Duration};

/// The maximum number of families whose tables one edit moves. Such an edit stays far below the
/// size of a manifest.
const MOVED_FAMILIES_MAX: usize = 512;

/// Does the first step of compacting each of `families`, where that step is a trivial move. One
/// edit moves the tables of many families, because thousands of small families would each take a
/// sync.
///
/// # Errors
/// As [`install`].
pub fn move_all(database: &Database, families: &FamilyMap) -> Result<()> {
    let request = Request::new(None, database.log.publisher.published(), FileNumber(0));
    let families: Vec<&Arc<FamilyData>> = families.iter().collect();
    for families in families.chunks(MOVED_FAMILIES_MAX) {
        let mut moves = Vec::new();
        for family in families {
            let Step::Plan(plan) = family.tree.begin_request(&request) else { continue };
            match plan.kind {
                PlanKind::TrivialMove => moves.push((family, plan)),
                PlanKind::Rewrite | PlanKind::DeleteOnly => family.tree.end_plan(&plan),
            }
        }
        let changes = moves.iter().flat_map(|(family, plan)| plan.edit_changes(family.id));
        let changes: Vec<_> = changes.collect();
        let installed = if changes.is_empty() { Ok(()) } else { install(database, changes, None) };
        for (family, plan) in moves {
            family.tree.end_plan(&plan);
        }
        // Other plans may have been refused because of these.
        database.backpressure.room.raise();
        database.background.work.raise();
        installed?;
    }
    Ok(())
}

/// Merges all present tables of a family into one level, rewritten by what is visible now. Tables
/// that would be written again unchanged stay. `pause` is that of the family, and ends once the
/// first step has begun.
///
/// # Errors
/// `NotFound`, if the family was dropped; the failure of a merge.
pub fn compact_family(database: &Database, family: &FamilyData, pause: Pause<'_>) -> Result<()> {
    carry_out(database, family, None, Some(pause))
}

/// Merges the present tables of a family within `bounds` into one level, as [`compact_family`] does
/// with all. Tables are merged whole, so their keys may reach beyond the bounds.
///
/// # Errors
/// As [`compact_family`].
pub fn compact_range(database: &Database, family: &FamilyData, bounds: &Bounds) -> Result<()> {
    let version = family.tree.view().version.clone();
    match version.range().and_then(|all| within(all, bounds)) {
        Some(range) => carry_out(database, family, Some(range), None),
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
    database: &Database,
    family: &FamilyData,
    range: Option<KeySpan>,
    mut pause: Option<Pause<'_>>,
) -> Result<()> {
    wait_for_plans(database, family)?;
    let (newest, next_file) =
        (database.log.publisher.published(), database.catalog.ids.next_file());
    let mut request = Request::new(range, newest, next_file);
    let parallelism = database.options.workers.max(1);
    loop {
        database.health.check()?;
        family.check()?;
        let seen = database.backpressure.room.seen();
        let step = family.tree.begin_request(&request);
        if pause.take().is_some() {
            database.background.work.raise();
        }
        match step {
            Step::Plan(plan)
                if would_change_nothing(&plan, &family.tree.options(), parallelism) =>
            {
                family.tree.end_plan(&plan);
                request.keep(&plan);
                // Other plans may have been refused because of this one.
                database.backpressure.room.raise();
                database.background.work.raise();
            }
            Step::Plan(plan) => run_plan(database, family, plan)?,
            Step::Wait => database.backpressure.room.wait(seen, PATIENCE),
            Step::Done => return Ok(()),
        }
    }
}

/// Waits for the running compactions of a family. They keep what was visible when they began, and
/// file numbers do not show which files they wrote.
fn wait_for_plans(database: &Database, family: &FamilyData) -> Result<()> {
    let begun = family.tree.plans_begun();
    loop {
        database.health.check()?;
        let seen = database.backpressure.room.seen();
        if !family.tree.runs_any_of(begun) {
            return Ok(());
        }
        database.backpressure.room.wait(seen, PATIENCE);
    }
}

/// Runs jobs, and waits for those of other threads, until none is due.
///
/// # Errors
/// The failure of a job.
pub fn settle(database: &Database) -> Result<()> {
    note_all_due(database, &database.catalog.families.load(), Duration::ZERO);
    loop {
        let seen = database.backpressure.room.seen();
        database.health.check()?;
        if run_one(database)? {
            continue;
        }
        let idle = idle_after(database);
        if run_one(database)? {
            continue;
        }
        // A job that ran during the search may have hidden another one, or made one due.
        if idle.is_some() && idle == idle_after(database) {
            return Ok(());
        }
        database.backpressure.room.wait(seen, PATIENCE);
    }
}

/// The number of compactions begun so far, if no job is running and no generation waits for a
/// flush.
fn idle_after(database: &Database) -> Option<u64> {
    let is_flushed = !has_flush_due(database);
    let is_idle = {
        let jobs = lock(&database.background.jobs);
        is_flushed && !jobs.is_flushing && jobs.compactions == 0
    };
    if !is_idle {
        return None;
    }
    // A compaction is counted when it is found, and noted among the jobs after that.
    let families = database.catalog.families.load();
    families.iter().map(|family| family.tree.idle_after()).sum()
}

#[cfg(test)]
mod tests;
