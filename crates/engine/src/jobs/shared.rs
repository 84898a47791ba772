//! Parallel jobs: several threads run the parts of one job.

use crate::{
    background::parallel_job::ParallelJob, database::Database, jobs::context::with_context,
};
use siltdb_base::{error::Result, sync::lock};
use siltdb_tree::rewrite::job::{JobContext, JobOutput, JobPart, NewTables};
use std::sync::Arc;

/// Runs the parts of a job on this thread and on idle ones, and joins their outputs.
pub fn run_shared(
    database: &Database,
    parts: Vec<impl JobPart + 'static>,
    finish: impl FnOnce(Vec<NewTables>, &JobContext<'_>) -> Result<JobOutput>,
) -> Result<JobOutput> {
    let shared = Arc::new(ParallelJob::new(parts));
    let is_shared = shared.parts() > 1;
    if is_shared {
        lock(&database.background.jobs).shared.push(Arc::clone(&shared));
        database.background.work.raise();
    }
    with_context(database, |context| {
        shared.run_parts(context);
        let outputs = shared.wait();
        if is_shared {
            lock(&database.background.jobs).shared.retain(|other| !Arc::ptr_eq(other, &shared));
        }
        finish(outputs?, context)
    })
}
