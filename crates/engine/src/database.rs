//! What all parts of an open database share: a struct of the rooms below, and few words between
//! them.
//!
//! It decides nothing. Its locks are taken in this order, each optional: the `closing_io` of the
//! engine, those of the catalog, of the log, `jobs`; those inside the rooms come after. Only those
//! whose name says so are held during IO.

use crate::{
    background::{Background, JobOf},
    backpressure::Backpressure,
    catalog::{Catalog, family::FamilyData},
    counters::Counters,
    health::Health,
    id_blocks::IdBlocks,
    in_flight::CallInFlight,
    lock_table::LockTable,
    log::{Log, generation::Frozen, sequencer::Room},
    memory::Memory,
    open_id::OpenId,
    options::EngineOptions,
    snapshots::Snapshots,
    turns::Turns,
};
use siltdb_base::{
    clock::ForwardClock,
    error::{Error, ErrorKind, Result},
    id::FamilyId,
    sync::lock,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long a writer waits for room before it looks again.
const ROOM_PATIENCE: Duration = Duration::from_millis(100);

/// Who does the work that a writer must wait for.
#[derive(Clone, Copy, Debug)]
pub enum Waiting {
    /// The workers do: wait for them.
    ForWorkers,
    /// Nobody else does: run one job with this function; it says whether there was one.
    RunJob(fn(&Database) -> Result<bool>),
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    /// Which of the open ones it is.
    pub open_id: OpenId,
    /// How it was opened.
    pub options: EngineOptions,
    /// The clock of the options, as what it stores.
    pub time: Arc<ForwardClock>,
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it may be written.
    pub health: Health,
    /// What snapshots see stays.
    pub snapshots: Arc<Snapshots>,
    /// Locks that transactions hold.
    pub locks: Arc<LockTable>,
    /// Its memory.
    pub memory: Memory,
    /// The log, and what waits for its flush.
    pub log: Log,
    /// Families, files, manifest.
    pub catalog: Catalog,
    /// How fast writers may be.
    pub backpressure: Backpressure,
    /// What is being done in the background.
    pub background: Background,
    /// How to wait.
    pub waiting: Waiting,
    /// What the background work has done.
    pub counters: Counters,
    /// How commits that conflict take turns.
    pub turns: Turns,
    /// Ids that were reserved and not yet given.
    pub id_blocks: IdBlocks,
}

/// What an opening has made of the files of a database.
#[derive(Debug)]
pub struct Parts {
    /// How it was opened.
    pub options: EngineOptions,
    /// The clock of the options, as what it stores.
    pub time: Arc<ForwardClock>,
    /// Its directory.
    pub dir: PathBuf,
    /// Its memory.
    pub memory: Memory,
    /// The log.
    pub log: Log,
    /// Families, files, manifest.
    pub catalog: Catalog,
    /// How to wait.
    pub waiting: Waiting,
}

impl Database {
    /// Puts the rooms together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { options, time, dir, memory, log, catalog, waiting } = parts;
        let (open_id, health) = (OpenId::next(), Health::new(options.access));
        let clock = match waiting {
            Waiting::ForWorkers => Some(Arc::clone(&options.clock)),
            Waiting::RunJob(_) => None,
        };
        let backpressure = Backpressure::new(open_id, options.memtable_bytes as u64, clock);
        let (background, counters) = (Background::default(), Counters::default());
        let (snapshots, locks) = (Arc::default(), Arc::default());
        let (turns, id_blocks) = (Turns::new(options.seed), IdBlocks::default());
        let database = Self {
            open_id,
            options,
            time,
            dir,
            health,
            snapshots,
            locks,
            memory,
            log,
            catalog,
            backpressure,
            background,
            waiting,
            counters,
            turns,
            id_blocks,
        };
        database.catalog.families.load().iter().for_each(|family| database.note_changed(family));
        database
    }

    /// Hands a generation to the flusher.
    pub fn freeze(&self, frozen: Frozen) {
        lock(&self.log.frozen).push_back(frozen);
        self.backpressure.update_at(0, &self.log);
        self.background.work.raise();
    }

    /// Looks again at the debt of a family's levels; to be called after its tables have changed.
    pub fn note_changed(&self, family: &FamilyData) {
        self.backpressure.note_levels(family);
        self.background.note_due(family.id);
    }

    /// Notes that a family was dropped.
    pub fn note_dropped(&self, family: FamilyId) {
        self.backpressure.forget_levels(family);
        self.background.forget(family);
    }

    /// Waits until a job has made room, or makes some.
    ///
    /// # Errors
    /// What keeps the jobs from making room, `NoSpace` above all; `Poisoned`, `Closed`.
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
        // A thread that looked before the last job ended may have noted what it saw after it, and
        // then no other thread looks again.
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

    /// Why there is no room and none comes, if a job fails that would make some: a flush, or the
    /// compaction of a family whose levels are full.
    fn failure_in_the_way(&self) -> Option<Error> {
        let families = self.catalog.families.load();
        self.background.failure(|job, error| match job {
            JobOf::Memory => true,
            // Others do not come to be tried.
            JobOf::Family(_) if error.kind() == ErrorKind::NoSpace => true,
            JobOf::Family(id) => {
                let family = families.get(id);
                family.is_some_and(|family| self.backpressure.level_share_of(family) >= 1.0)
            }
        })
    }

    /// Why a job fails, if one does: a flush, or the compaction of a family that exists.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        let families = self.catalog.families.load();
        self.background.failure(|job, _| match job {
            JobOf::Memory => true,
            JobOf::Family(id) => families.get(id).is_some(),
        })
    }

    /// Does `work`, which may change files, on a caller's thread. Closing waits until it is done.
    /// If it panics, what it left undone nobody will do: the database is poisoned.
    ///
    /// # Errors
    /// `Closed`, once the database is being closed; what `work` fails with.
    pub fn at_work<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let call = self.background.in_flight.begin().ok_or_else(|| self.health.refusal())?;
        let mut at_work = AtWork { database: self, is_done: false, _call: call };
        let result = work(self);
        at_work.is_done = true;
        result
    }

    /// Nothing can be written any more, because of `cause`; wakes everybody who waits.
    pub fn fail(&self, cause: Error) {
        let _ = self.health.poison(cause);
        self.backpressure.room.raise();
    }
}

/// A call at work, on its way out.
struct AtWork<'a> {
    database: &'a Database,
    /// It has returned; it did not panic.
    is_done: bool,
    /// Dropped last: who closes then finds the failure.
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
