//! Chooses a table whose separated values are moved, so that their blob files can go.
//!
//! It is pure, as the other pickers are. Which blob files are to go is the database's to decide,
//! because all its families share them.

use crate::{
    files::open_files::OpenReference,
    files::version::Version,
    planning::plan::{Busy, MovedBlobs, Plan, PlanInput, PlanKind, Reason},
};
use std::sync::Arc;

/// The rewrite of a table that refers to any of `files`, in its level, which moves these values.
/// `None` if there is none, or all are taken by running plans.
///
/// Cost: a look at each table that refers to blob files; no IO.
#[must_use]
pub fn pick_blobs(version: &Version, busy: &Busy, files: &Arc<MovedBlobs>) -> Option<Plan> {
    let refers = |table: &Arc<OpenReference>| {
        let references = table.meta().blobs.files();
        references.iter().any(|reference| files.contains(&reference.file))
    };
    version.levels().iter().enumerate().rev().find_map(|(number, level)| {
        let tables = level.below(|sum| sum.totals.with_blobs > 0).map(|(_, table)| table);
        tables.filter(|table| refers(table)).find_map(|table| {
            if busy.holds(table.id()) {
                return None;
            }
            let inputs = vec![PlanInput { level: number, tables: vec![Arc::clone(table)] }];
            let plan = Plan::new(PlanKind::Rewrite, Reason::Blobs, inputs, number);
            let plan = Plan { moved: Arc::clone(files), ..plan };
            (!busy.conflicts(&plan)).then_some(plan)
        })
    })
}
