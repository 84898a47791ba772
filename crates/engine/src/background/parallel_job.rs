//! Parallel jobs: a flush or a compaction in parts, which several threads take one after the other.
//!
//! The thread that starts the job works on it too, so the job also ends without help. It may take
//! out the outputs of the first parts while others run.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    sync::lock,
};
use siltdb_tree::rewrite::job::{JobContext, JobPart, NewTables};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Condvar, Mutex},
};

/// The parts of one job.
///
/// # Invariants
/// 1. Each part is taken once; `running` counts the parts that were taken and have not ended.
/// 2. A part is dropped before it counts as ended, so that it keeps no file of its inputs then.
/// 3. Parts are taken in their order. The outputs of at most `ahead_max` parts that were taken are
///    not taken out yet, so that what is written and not installed stays small.
#[derive(Debug)]
pub struct ParallelJob {
    parts: usize,
    ahead_max: usize,
    progress: Mutex<Progress>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// The parts that were not taken.
    parts: VecDeque<Box<dyn JobPart>>,
    next: usize,
    running: usize,
    /// The outputs of all parts before were taken out.
    taken_out: usize,
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
        let parts: VecDeque<_> =
            parts.into_iter().map(|part| Box::new(part) as Box<dyn JobPart>).collect();
        Self {
            parts: parts.len(),
            ahead_max: parts.len().max(1),
            progress: Mutex::new(Progress { parts, ..Progress::default() }),
            ended: Condvar::new(),
        }
    }

    /// The same job, of which at most `ahead_max` parts are taken whose outputs are not taken out.
    #[must_use]
    pub fn with_ahead_max(self, ahead_max: usize) -> Self {
        assert!(ahead_max > 0, "no part of a job could be taken");
        Self { ahead_max, ..self }
    }

    /// The number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Whether a part is left to take.
    #[must_use]
    pub fn has_part(&self) -> bool {
        self.may_take(&lock(&self.progress))
    }

    fn may_take(&self, progress: &Progress) -> bool {
        !progress.has_failed
            && !progress.parts.is_empty()
            && progress.next - progress.taken_out < self.ahead_max
    }

    /// Takes and runs parts until no part is left.
    pub fn run_parts(&self, context: &JobContext<'_>) {
        while self.run_part(context) {}
    }

    /// Takes and runs a part, if one is left. Returns whether one was.
    pub fn run_part(&self, context: &JobContext<'_>) -> bool {
        let Some((index, part)) = self.take() else { return false };
        let mut running = Running { shared: self, index, result: None };
        let result = part.run(context);
        drop(part);
        running.result = Some(result);
        true
    }

    fn take(&self) -> Option<(usize, Box<dyn JobPart>)> {
        let mut progress = lock(&self.progress);
        if !self.may_take(&progress) {
            return None;
        }
        let part = progress.parts.pop_front()?;
        progress.next += 1;
        progress.running += 1;
        Some((progress.next - 1, part))
    }

    /// Takes out the outputs of `parts`, which follow those that were taken out before. Until they
    /// have ended, this thread runs parts of the job, or waits.
    ///
    /// # Errors
    /// The error of the first part that failed, unless all of `parts` have ended without one. No
    /// part runs any more then, and the files of those that were not taken out are removed.
    pub fn take_out(
        &self,
        parts: &Range<usize>,
        context: &JobContext<'_>,
    ) -> Result<Vec<NewTables>> {
        loop {
            let mut progress = lock(&self.progress);
            assert_eq!(parts.start, progress.taken_out, "outputs are taken out in their order");
            if let Some(outputs) = progress.take_out(parts) {
                return Ok(outputs);
            }
            if progress.has_failed && progress.running == 0 {
                drop(progress);
                return self.wait();
            }
            if self.may_take(&progress) {
                drop(progress);
                self.run_part(context);
            } else {
                drop(self.ended.wait(progress));
            }
        }
    }

    /// Lets no further part be taken, and waits for those that run. The files of all that were not
    /// taken out are removed.
    pub fn give_up(&self) {
        let mut progress = lock(&self.progress);
        progress.has_failed = true;
        let unused = std::mem::take(&mut progress.parts);
        drop(progress);
        drop(unused);
        // What a part failed with does not matter any more.
        drop(self.wait());
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

impl Progress {
    /// The outputs of `parts` in their order, if all of them have ended.
    fn take_out(&mut self, parts: &Range<usize>) -> Option<Vec<NewTables>> {
        let are_of = |(index, _): &(usize, NewTables)| parts.contains(index);
        if self.outputs.iter().filter(|output| are_of(output)).count() < parts.len() {
            return None;
        }
        let mut outputs: Vec<_> = self.outputs.extract_if(.., |output| are_of(output)).collect();
        outputs.sort_by_key(|(index, _)| *index);
        self.taken_out = parts.end;
        Some(outputs.into_iter().map(|(_, tables)| tables).collect())
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
