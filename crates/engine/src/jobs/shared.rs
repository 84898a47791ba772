//! Parallel jobs: several threads run the parts of one job.

use crate::{
    background::Background, background::parallel_job::ParallelJob, database::job_rooms::JobRooms,
    jobs::context::with_context,
};
use siltdb_base::{error::Result, sync::lock};
use siltdb_tree::rewrite::job::{JobContext, JobOutput, JobPart, NewTables};
use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

/// When idle threads help with a job that several of them could help with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helpers {
    /// Before they help with any other: writers wait for a flush first.
    First,
    /// After they have helped with flushes.
    AfterFlushes,
}

/// Runs the parts of a job on this thread and on idle ones, and joins their outputs.
pub(crate) fn run_shared(
    rooms: &JobRooms<'_>,
    helpers: Helpers,
    parts: Vec<impl JobPart + 'static>,
    finish: impl FnOnce(Vec<NewTables>, &JobContext<'_>) -> Result<JobOutput>,
) -> Result<JobOutput> {
    let shared = Arc::new(ParallelJob::new(parts));
    if shared.parts() > 1 {
        offer(rooms.background, helpers, &shared);
    }
    with_context(rooms, |context| finish(end_shared(rooms.background, &shared, context)?, context))
}

/// Installs the outputs of the parts of a step, and says whether the job goes on.
type InstallStep<'i> =
    dyn FnMut(&Range<usize>, Vec<NewTables>, &JobContext<'_>) -> Result<ControlFlow<()>> + 'i;

/// Runs the parts of a job on this thread and on idle ones. Once the parts of a step have ended,
/// `install` gets their outputs, step by step, until it breaks off or fails.
///
/// # Errors
/// The errors of `install`, or of the first part that failed, once the steps before it are
/// installed. The files of all steps that were not installed are removed.
pub(crate) fn run_in_steps(
    rooms: &JobRooms<'_>,
    helpers: Helpers,
    parts: Vec<impl JobPart + 'static>,
    steps: impl Iterator<Item = Range<usize>>,
    install: &mut InstallStep<'_>,
) -> Result<()> {
    let mut steps = steps.peekable();
    let step_parts = steps.peek().map_or(1, |step| step.len());
    let shared = ParallelJob::new(parts);
    // Each thread has its part, and the parts of a step may wait for it.
    let ahead_max = step_parts + rooms.options.workers.max(1);
    let shared = Arc::new(shared.with_ahead_max(ahead_max));
    if shared.parts() > 1 {
        offer(rooms.background, helpers, &shared);
    }
    let installed = with_context(rooms, |context| {
        for step in steps {
            let outputs = shared.take_out(&step, context)?;
            if shared.has_part() {
                rooms.background.work.raise();
            }
            if install(&step, outputs, context)?.is_break() {
                break;
            }
        }
        Ok(())
    });
    lock(&rooms.background.jobs).shared.retain(|other| !Arc::ptr_eq(other, &shared));
    shared.give_up();
    installed
}

/// Begins a job of one part, which an idle thread may take. [`end_shared`] must follow.
pub(crate) fn begin_shared(
    background: &Background,
    part: impl JobPart + 'static,
) -> Arc<ParallelJob> {
    let shared = Arc::new(ParallelJob::new(vec![part]));
    offer(background, Helpers::AfterFlushes, &shared);
    shared
}

fn offer(background: &Background, helpers: Helpers, shared: &Arc<ParallelJob>) {
    let mut jobs = lock(&background.jobs);
    let place = if helpers == Helpers::First { 0 } else { jobs.shared.len() };
    jobs.shared.insert(place, Arc::clone(shared));
    drop(jobs);
    background.work.raise();
}

/// Runs the parts of `shared` that no other thread has taken, and waits for the others.
///
/// # Errors
/// The error of the first part that failed. Then the files of all other parts are removed.
pub(crate) fn end_shared(
    background: &Background,
    shared: &Arc<ParallelJob>,
    context: &JobContext<'_>,
) -> Result<Vec<NewTables>> {
    shared.run_parts(context);
    let outputs = withdraw(background, shared)?;
    let (ended, parts) = (outputs.len(), shared.parts());
    assert!(ended == parts, "a job would be finished with {ended} of {parts} parts");
    Ok(outputs)
}

/// Waits for the parts of `shared` that other threads have taken, and leaves the others out.
///
/// # Errors
/// As [`end_shared`].
pub(crate) fn withdraw(
    background: &Background,
    shared: &Arc<ParallelJob>,
) -> Result<Vec<NewTables>> {
    lock(&background.jobs).shared.retain(|other| !Arc::ptr_eq(other, shared));
    shared.wait()
}
