//! The state of an open database: a struct of the rooms below, and what connects them.
//!
//! It decides nothing. Locks are taken in this order, each optional: `closing_io` of the engine,
//! `creating_io` of the blob files, locks of the
//! catalog, locks of the log, `jobs`, locks inside the rooms. Only a lock with `_io`
//! in its name is held during IO.

use crate::{
    background::{Background, JobOf},
    backpressure::Backpressure,
    blobs::Blobs,
    catalog::{Catalog, branches::FamilyRole, family::FamilyData},
    health::Health,
    kit::{
        counters::Counters, id_blocks::IdBlocks, in_flight::CallInFlight, open_id::OpenId,
        turns::Turns,
    },
    lock_state::{lock_table::LockTable, prepared_set::PreparedSet},
    log::{Log, generation::Frozen, sequencer::Room},
    memory::{GiveBackFreed, Memory},
    options::EngineOptions,
    reports::{kept::KeptFiles, scrub_report::Scrubs},
    snapshots::Snapshots,
};
use siltdb_base::{
    clock::ForwardClock,
    error::{Error, ErrorKind, Result},
    id::FamilyId,
    sync::lock,
};
use siltdb_tree::rewrite::write_rate::WriteRate;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long a writer waits for room before it checks again.
const ROOM_PATIENCE: Duration = Duration::from_millis(100);

/// Which thread runs the job that a writer must wait for.
#[derive(Clone, Copy, Debug)]
pub enum Waiting {
    /// A worker does; the writer waits for it.
    ForWorkers,
    /// The writer itself: this function runs one job, and returns whether there was one.
    RunJob(fn(&Database) -> Result<bool>),
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    /// The id of this opening.
    pub open_id: OpenId,
    /// The options of this opening.
    pub options: EngineOptions,
    /// The clock of the options as expiry uses it: it never moves back.
    pub time: Arc<ForwardClock>,
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it may be written.
    pub health: Health,
    /// The live snapshots.
    pub snapshots: Arc<Snapshots>,
    /// The locks of transactions.
    pub locks: Arc<LockTable>,
    /// Transactions that wait for their decision.
    pub prepared: PreparedSet,
    /// Budget, block cache and arenas.
    pub memory: Memory,
    /// The log, and the generations that wait for a flush.
    pub log: Log,
    /// Families, files and manifest.
    pub catalog: Catalog,
    /// The blob files.
    pub blobs: Arc<Blobs>,
    /// The delay of writers because of debt.
    pub backpressure: Backpressure,
    /// The state of the background work.
    pub background: Background,
    /// What scrubs have found.
    pub scrubs: Scrubs,
    /// Which thread runs the jobs that a writer waits for.
    pub waiting: Waiting,
    /// Counters of the background work.
    pub counters: Counters,
    /// The turns of transactions that conflict.
    pub turns: Turns,
    /// Reserved ids that were not handed out yet.
    pub id_blocks: IdBlocks,
    /// What the opening took out of the database and kept.
    pub kept: KeptFiles,
    /// The last field: it is dropped after all others.
    freed: GiveBackFreed,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.freed.set_bytes(self.memory.stats().total());
    }
}

/// The parts that an opening builds from the files of a database.
#[derive(Debug)]
pub struct Parts {
    /// The options of this opening.
    pub options: EngineOptions,
    /// The clock of the options as expiry uses it: it never moves back.
    pub time: Arc<ForwardClock>,
    /// Its directory.
    pub dir: PathBuf,
    /// Budget, block cache and arenas.
    pub memory: Memory,
    /// The log.
    pub log: Log,
    /// Families, files and manifest.
    pub catalog: Catalog,
    /// The blob files.
    pub blobs: Arc<Blobs>,
    /// Which thread runs the jobs that a writer waits for.
    pub waiting: Waiting,
}

impl Database {
    /// A database of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { options, time, dir, memory, log, catalog, blobs, waiting } = parts;
        let (open_id, health) = (OpenId::next(), Health::new(options.access));
        let clock = match waiting {
            Waiting::ForWorkers => Some(Arc::clone(&options.clock)),
            Waiting::RunJob(_) => None,
        };
        let rate = (options.background_rate > 0)
            .then(|| WriteRate::new(options.background_rate, Arc::clone(&options.clock)));
        let backpressure = Backpressure::new(open_id, options.generation_bytes() as u64, clock);
        let backpressure = backpressure.with_rate(rate);
        let (background, counters) = (Background::default(), Counters::default());
        let scrubs = Scrubs::default();
        let (snapshots, locks, prepared) = (Arc::default(), Arc::default(), PreparedSet::default());
        let (turns, id_blocks) = (Turns::new(options.seed), IdBlocks::default());
        let database = Self {
            open_id,
            options,
            time,
            dir,
            health,
            snapshots,
            locks,
            prepared,
            memory,
            log,
            catalog,
            blobs,
            backpressure,
            background,
            scrubs,
            waiting,
            counters,
            turns,
            id_blocks,
            kept: KeptFiles::default(),
            freed: GiveBackFreed::default(),
        };
        let floor = lock(&database.catalog.manifest_io).state.retention_floor;
        database.snapshots.set_floor(floor);
        database.catalog.families.load().iter().for_each(|family| database.note_changed(family));
        database
    }

    /// Queues a frozen generation for its flush.
    pub fn freeze(&self, frozen: Frozen) {
        lock(&self.log.frozen).push_back(frozen);
        self.backpressure.update_at(0, &self.log);
        self.background.work.raise();
    }

    /// Notes the debt of a family's levels, and that a compaction may be due. To be called after
    /// its tables have changed.
    pub fn note_changed(&self, family: &FamilyData) {
        // A base rests: a compaction would give it files of its own.
        if family.role == FamilyRole::Base {
            return;
        }
        self.backpressure.note_levels(family);
        self.background.note_due(family.id);
    }

    /// Notes that a family was dropped.
    pub fn note_dropped(&self, family: FamilyId) {
        self.backpressure.forget_levels(family);
        self.background.forget(family);
    }

    /// Waits until a job has made room, or runs one.
    ///
    /// # Errors
    /// The failure that keeps jobs from making room, mostly `NoSpace`; `Poisoned`, `Closed`.
    pub fn wait_for_room(&self) -> Result<()> {
        let start = self.options.clock.monotonic_ns();
        let result = match self.waiting {
            Waiting::RunJob(run) => self.at_work(run).map(|_| self.backpressure.update(&self.log)),
            Waiting::ForWorkers => self.wait_for_workers(),
        };
        let waited = self.options.clock.monotonic_ns().saturating_sub(start);
        Counters::add(&self.backpressure.waits.stalled_ns, waited);
        Counters::add(&self.backpressure.waits.stalls, 1);
        result
    }

    fn wait_for_workers(&self) -> Result<()> {
        let seen = self.backpressure.room.seen();
        self.health.check()?;
        // A thread that read the debt before the last job ended may have noted it after that. Then
        // no other thread reads it again.
        self.backpressure.update(&self.log);
        if self.backpressure.generation_limits().room == Room::Free {
            return Ok(());
        }
        if let Some(failure) = self.failure_in_the_way() {
            return Err(failure);
        }
        self.background.work.raise();
        self.backpressure.room.wait(seen, ROOM_PATIENCE);
        Ok(())
    }

    /// The failure of a job that would make room: a flush, or the compaction of a family whose
    /// levels are full.
    fn failure_in_the_way(&self) -> Option<Error> {
        let families = self.catalog.families.load();
        self.background.failure(|job, error| match job {
            JobOf::Memory => true,
            // A move makes no room.
            JobOf::Tiers => false,
            // Without space, compactions of other families are not tried.
            JobOf::Family(_) if error.kind() == ErrorKind::NoSpace => true,
            JobOf::Family(id) => {
                let family = families.get(id);
                family.is_some_and(|family| self.backpressure.level_share_of(family) >= 1.0)
            }
        })
    }

    /// The failure of a job, if one fails: a flush, the compaction of a family that exists, or a
    /// move to another tier. Else the damage of a table that could not be moved, or that a scrub
    /// has found.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        let families = self.catalog.families.load();
        let failure = self.background.failure(|job, _| match job {
            JobOf::Memory | JobOf::Tiers => true,
            JobOf::Family(id) => families.get(id).is_some(),
        });
        let unmovable = || {
            let jobs = lock(&self.background.jobs);
            jobs.unmovable.values().next().map(Error::duplicate)
        };
        failure.or_else(unmovable).or_else(|| self.scrubs.check().err())
    }

    /// Runs `work`, which may change files, on a caller's thread. Closing waits until it ends. If
    /// it panics, its unfinished changes stay undone, so the database is poisoned.
    ///
    /// # Errors
    /// `Closed`, once the database is closing; the errors of `work`.
    pub fn at_work<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let call = self.background.in_flight.begin().ok_or_else(|| self.health.refusal())?;
        let mut at_work = AtWork { database: self, is_done: false, _call: call };
        let result = work(self);
        at_work.is_done = true;
        result
    }

    /// Refuses all later writes because of `cause`, and wakes all waiting writers.
    pub fn fail(&self, cause: Error) {
        let _ = self.health.poison(cause);
        self.backpressure.room.raise();
    }
}

/// A running call of [`Database::at_work`].
struct AtWork<'a> {
    database: &'a Database,
    /// The work has returned and did not panic.
    is_done: bool,
    /// Dropped last, so that a close that waits for the call finds the failure.
    _call: CallInFlight<'a>,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let cause = Error::new(ErrorKind::Poisoned, "a job panicked");
            self.database.fail(cause);
        }
    }
}
