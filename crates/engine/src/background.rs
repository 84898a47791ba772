//! The state of background work: what runs, what is due, and why jobs fail.
//!
//! This module runs no job.

pub mod due_families;
pub mod parallel_job;

use crate::{
    background::due_families::DueFamilies,
    background::parallel_job::ParallelJob,
    kit::{in_flight::CallsInFlight, signal::Signal},
    log::generation::Flushed,
};
use siltdb_base::{error::Error, id::FamilyId, sync::lock};
use siltdb_tree::{files::open_files::TableId, memory::Generation};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The state of the background work.
#[derive(Debug, Default)]
pub struct Background {
    /// The running jobs, the due families and the failures.
    pub jobs: Mutex<JobState>,
    /// Wakes flush and compaction threads: a job may be due.
    pub work: Signal,
    /// Calls that change files on threads of callers.
    pub in_flight: CallsInFlight,
    /// Wakes the thread that moves tables between the tiers.
    pub tier_work: Signal,
    /// Set when the threads are to end.
    pub ending: AtomicBool,
    /// How often all running compactions were cancelled.
    cancels: AtomicU64,
}

/// What a look at the dead parts of all table files found. They grow by what leaves since then.
#[derive(Clone, Copy, Debug)]
pub struct FewDeadParts {
    /// Bytes that no family refers to, and that can be freed.
    pub dead_bytes: u64,
    /// Bytes of the files in all.
    pub all_bytes: u64,
    /// Bytes of small tables that no family had any more since the opening.
    pub left_bytes: u64,
}

/// The state of the jobs.
#[derive(Debug, Default)]
pub struct JobState {
    /// The generations whose flush has begun, and not ended.
    pub flushing: BTreeSet<Generation>,
    /// A replayed generation that stays in the log while it is the only frozen one.
    pub left: Option<Generation>,
    /// The number of pauses in force: no automatic compaction begins.
    pub pauses: usize,
    /// The number of running compactions.
    pub compactions: usize,
    /// Whether a table is being moved to another tier.
    pub is_moving: bool,
    /// Tables that cannot be moved, because they are damaged, and the damage.
    pub unmovable: BTreeMap<TableId, Error>,
    /// Running parallel jobs, whose parts idle threads may take, flushes first.
    pub shared: Vec<Arc<ParallelJob>>,
    /// Flushed generations that are still in memory, until a worker frees them.
    pub flushed: Vec<Flushed>,
    /// The families of which a compaction may be due.
    pub due: DueFamilies,
    /// The last look at the dead parts of table files, if these came to too little.
    pub few_dead_parts: Option<FewDeadParts>,
    /// When all families were last marked as due, by the monotonic clock.
    pub all_due_ns: u64,
    /// The last failure of the flush, and of compactions by family, until that job succeeds.
    pub failures: BTreeMap<JobOf, Error>,
}

/// What a job works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobOf {
    /// The memtables of all families.
    Memory,
    /// The tables of one family.
    Family(FamilyId),
    /// Tables that lie in the wrong tier.
    Tiers,
}

impl Background {
    /// Notes that a compaction of a family may be due.
    pub fn note_due(&self, family: FamilyId) {
        lock(&self.jobs).due.note(family);
    }

    /// Notes that a family was dropped.
    pub fn forget(&self, family: FamilyId) {
        lock(&self.jobs).due.forget(family);
    }

    /// Notes that all running compactions are being cancelled. To be called before they are.
    pub fn note_cancel(&self) {
        // Release pairs with the acquire in `cancels`.
        self.cancels.fetch_add(1, Ordering::Release);
    }

    /// How often all running compactions were cancelled.
    #[must_use]
    pub fn cancels(&self) -> u64 {
        // Acquire pairs with the release in `note_cancel`.
        self.cancels.load(Ordering::Acquire)
    }

    /// Whether a pause is in force.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        lock(&self.jobs).pauses > 0
    }

    /// The first failure for which `counts` is true.
    #[must_use]
    pub fn failure(&self, counts: impl Fn(JobOf, &Error) -> bool) -> Option<Error> {
        let jobs = lock(&self.jobs);
        let failure = jobs.failures.iter().find(|(job, error)| counts(**job, error));
        failure.map(|(_, error)| error.duplicate())
    }
}
