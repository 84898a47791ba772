//! Carries out compactions that the user asked for, step by step, beside those that are due.
//!
//! What the steps are is decided in `tree`.

use crate::{
    database::Database,
    family::Family,
    jobs::{PATIENCE, run_plan},
};
use siltdb_base::error::Result;
use siltdb_tree::{
    compact::would_change_nothing,
    pick_range::{Request, Step},
    tree::Pause,
};

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
