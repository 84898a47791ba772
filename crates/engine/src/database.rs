//! The state of an open database: a struct of the rooms below, and what connects them.
//!
//! It decides nothing. Locks are taken in this order, each optional: `closing_io` of the engine,
//! `creating_io` of the blob files, locks of the
//! catalog, locks of the log, `jobs`, locks inside the rooms. Only a lock with `_io`
//! in its name is held during IO.

pub mod installer;
pub mod job_rooms;
pub mod read_rooms;
pub mod writable;

use crate::{
    background::{Background, JobOf},
    backpressure::Backpressure,
    blobs::Blobs,
    catalog::Catalog,
    catalog::family::FamilyData,
    health::Health,
    kit::{counters::Counters, id_blocks::IdBlocks, open_id::OpenId, turns::Turns},
    lock_state::{lock_table::LockTable, prepared_set::PreparedSet},
    log::{Log, sequencer::Room},
    memory::{GiveBackFreed, Memory},
    options::EngineOptions,
    reports::{kept::KeptFiles, scrub_report::Scrubs},
    snapshots::Snapshots,
};
use installer::Installer;
use job_rooms::{JobRooms, Waiting};
use read_rooms::ReadRooms;
use siltdb_base::{
    clock::ForwardClock,
    error::{Error, ErrorKind, Result},
    sync::lock,
};
use siltdb_tree::rewrite::write_rate::WriteRate;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long a writer waits for room before it checks again.
const ROOM_PATIENCE: Duration = Duration::from_millis(100);

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
        let installer = database.installer();
        installer.catalog.families.load().iter().for_each(|family| installer.note_stored(family));
        lock(&database.background.jobs).all_due_ns = database.options.clock.monotonic_ns();
        database
    }

    /// Waits until a job has made room, or runs one.
    ///
    /// # Errors
    /// The failure that keeps jobs from making room, mostly `NoSpace`; `Poisoned`, `Closed`.
    pub fn wait_for_room(&self) -> Result<()> {
        let start = self.options.clock.monotonic_ns();
        let result = match self.waiting {
            Waiting::RunJob(run) => self
                .installer()
                .at_work(|| run(&self.job_rooms()))
                .map(|_| self.backpressure.update(&self.log)),
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
                let debt = |family: &Arc<FamilyData>| {
                    let (view, options) = (family.tree.view(), family.tree.options());
                    self.backpressure.level_debt_of(&view.version, &options)
                };
                families.get(id).is_some_and(|family| debt(family).is_full())
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
            JobOf::Family(id) => families.contains(id),
        });
        let unmovable = || {
            let jobs = lock(&self.background.jobs);
            jobs.unmovable.values().next().map(Error::duplicate)
        };
        failure.or_else(unmovable).or_else(|| self.scrubs.check().err())
    }

    /// What an install needs.
    ///
    /// Not inlined: short commits would set aside its place.
    #[must_use]
    #[inline(never)]
    pub(crate) fn installer(&self) -> Installer<'_> {
        Installer {
            catalog: &self.catalog,
            blobs: &self.blobs,
            log: &self.log,
            health: &self.health,
            time: &self.time,
            backpressure: &self.backpressure,
            background: &self.background,
        }
    }

    /// What a job needs. Not inlined, as [`Database::installer`].
    #[must_use]
    #[inline(never)]
    pub(crate) fn job_rooms(&self) -> JobRooms<'_> {
        let Installer { catalog, blobs, log, health, time, backpressure, background } =
            self.installer();
        JobRooms {
            catalog,
            blobs,
            log,
            health,
            time,
            backpressure,
            background,
            options: &self.options,
            snapshots: &self.snapshots,
            prepared: &self.prepared,
            counters: &self.counters,
            waiting: self.waiting,
        }
    }

    /// What a reader needs.
    #[must_use]
    pub fn read_rooms(&self) -> ReadRooms<'_> {
        ReadRooms {
            health: &self.health,
            log: &self.log,
            snapshots: &self.snapshots,
            blobs: &self.blobs,
            catalog: &self.catalog,
            options: &self.options,
        }
    }

    /// As [`Installer::at_work`].
    ///
    /// # Errors
    /// As [`Installer::at_work`].
    pub(crate) fn at_work<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.installer().at_work(|| work(self))
    }
}
