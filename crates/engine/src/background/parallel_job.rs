//! Parallel jobs: a flush or a compaction in parts, which several threads take one after the other.
//!
//! The thread that starts the job works on it too, so the job also ends without help.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    sync::lock,
};
use siltdb_tree::rewrite::job::{JobContext, JobPart, NewTables};
use std::sync::{Condvar, Mutex};

/// The parts of one job.
///
/// # Invariants
/// 1. Each part is taken once; `running` counts the parts that were taken and have not ended.
#[derive(Debug)]
pub struct ParallelJob {
    parts: Vec<Box<dyn JobPart>>,
    progress: Mutex<Progress>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    next: usize,
    running: usize,
    /// The outputs, with the index of their part.
    outputs: Vec<(usize, NewTables)>,
    /// A part failed: no further part is taken.
    has_failed: bool,
    /// The failure, until a waiter returns it.
    failure: Option<Error>,
}

impl ParallelJob {
    /// A job of `parts`, none of which has begun.
    #[must_use]
    pub fn new(parts: Vec<impl JobPart + 'static>) -> Self {
        let parts = parts.into_iter().map(|part| Box::new(part) as Box<dyn JobPart>).collect();
        Self { parts, progress: Mutex::default(), ended: Condvar::new() }
    }

    /// The number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Whether a part is left to take.
    #[must_use]
    pub fn has_part(&self) -> bool {
        let progress = lock(&self.progress);
        !progress.has_failed && progress.next < self.parts.len()
    }

    /// Takes and runs parts until no part is left.
    pub fn run_parts(&self, context: &JobContext<'_>) {
        while self.run_part(context) {}
    }

    /// Takes and runs a part, if one is left. Returns whether one was.
    pub fn run_part(&self, context: &JobContext<'_>) -> bool {
        let Some(index) = self.take() else { return false };
        let mut running = Running { shared: self, index, result: None };
        running.result = Some(self.parts[index].run(context));
        true
    }

    fn take(&self) -> Option<usize> {
        let mut progress = lock(&self.progress);
        if progress.has_failed || progress.next == self.parts.len() {
            return None;
        }
        progress.next += 1;
        progress.running += 1;
        Some(progress.next - 1)
    }

    /// Waits for parts that run on other threads. Returns the outputs in the order of the parts.
    ///
    /// # Errors
    /// The error of the first part that failed. Then the files of all other parts are removed.
    pub fn wait(&self) -> Result<Vec<NewTables>> {
        let mut progress = lock(&self.progress);
        while progress.running > 0 {
            progress = self.ended.wait(progress).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let mut outputs = std::mem::take(&mut progress.outputs);
        let failure = progress.failure.take();
        // Dropping outputs may remove files, which takes time.
        drop(progress);
        if let Some(failure) = failure {
            return Err(failure);
        }
        outputs.sort_by_key(|(index, _)| *index);
        Ok(outputs.into_iter().map(|(_, tables)| tables).collect())
    }
}

/// A running part. Dropping it, by a panic too, counts it as ended.
struct Running<'a> {
    shared: &'a ParallelJob,
    index: usize,
    result: Option<Result<NewTables>>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut progress = lock(&self.shared.progress);
        progress.running -= 1;
        let panicked = || Error::new(ErrorKind::Poisoned, "a part of a job panicked");
        match self.result.take().unwrap_or_else(|| Err(panicked())) {
            Ok(tables) => progress.outputs.push((self.index, tables)),
            Err(error) if !progress.has_failed => {
                progress.has_failed = true;
                progress.failure = Some(error);
            }
            Err(_) => {}
        }
        drop(progress);
        self.shared.ended.notify_all();
    }
}

#[cfg(test)]
mod tests;
