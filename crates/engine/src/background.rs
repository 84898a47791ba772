//! The background work of a database: what runs, what is due, and why something fails.
//!
//! It does none of it.

pub mod parallel_job;

use crate::{
    background::parallel_job::ParallelJob, in_flight::CallsInFlight, log::generation::Flushed,
    signal::Signal,
};
use siltdb_base::{error::Error, id::FamilyId, sync::lock};
use siltdb_tree::memory::Generation;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, atomic::AtomicBool},
};

/// The state of the background work.
#[derive(Debug, Default)]
pub struct Background {
    /// What is being done.
    pub jobs: Mutex<JobState>,
    /// Something may be due for the flusher or the compactors.
    pub work: Signal,
    /// What callers do to the files on their own threads.
    pub in_flight: CallsInFlight,
    /// Threads shall end.
    pub ending: AtomicBool,
}

/// What is being done in the background.
#[derive(Debug, Default)]
pub struct JobState {
    /// A flush runs.
    pub is_flushing: bool,
    /// A replayed generation that stays in the log while it is the only one that is frozen.
    pub left: Option<Generation>,
    /// Compactions that run.
    pub compactions: usize,
    /// Those of them whose parts others may take.
    pub shared: Vec<Arc<ParallelJob>>,
    /// What was flushed and is still in memory, until a worker frees it.
    pub flushed: Vec<Flushed>,
    /// The families of which a compaction may be due; of others none is.
    pub due: BTreeSet<FamilyId>,
    /// When all families were last among them, by the monotonic clock.
    pub all_due_ns: u64,
    /// Why jobs failed, until the same succeed: the flush, and compactions by family.
    pub failures: BTreeMap<JobOf, Error>,
}

/// What a job is done for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobOf {
    /// The memtables of all families.
    Memory,
    /// The tables of one family.
    Family(FamilyId),
}

impl Background {
    /// Notes that a compaction of a family may be due.
    pub fn note_due(&self, family: FamilyId) {
        lock(&self.jobs).due.insert(family);
    }

    /// Notes that a family was dropped.
    pub fn forget(&self, family: FamilyId) {
        lock(&self.jobs).due.remove(&family);
    }

    /// The failure of the first job that fails and that `counts`.
    #[must_use]
    pub fn failure(&self, counts: impl Fn(JobOf, &Error) -> bool) -> Option<Error> {
        let jobs = lock(&self.jobs);
        let failure = jobs.failures.iter().find(|(job, error)| counts(**job, error));
        failure.map(|(_, error)| error.duplicate())
    }
}
