//! What all parts of an open database share: a struct of the rooms below, and few words between
//! them.
//!
//! It decides nothing. Its locks are taken in this order, each optional: the `closing_io` of the
//! engine, `changing_io`, `manifest_io`, `tail`, `frozen`, `jobs`; those inside the rooms come
//! after. Only those whose name says so are held during IO.

use crate::{
    calls::{Call, Calls},
    counters::Counters,
    debts::LevelDebts,
    family::{Families, Family},
    generation::{Flushed, Frozen},
    health::Health,
    instance::Instance,
    manifest::Manifest,
    numbers::Numbers,
    options::{EngineOptions, FROZEN_MAX},
    pace::{Nap, Pace},
    publish::Publisher,
    share::Shared,
    signal::Signal,
    snapshots::Snapshots,
    sync_timer::SyncTimer,
    tail::{Room, SharedTail, Tail, TailLimits},
    throttle::{self, Debt},
    wal::Wal,
};
use siltdb_base::{
    budget::Budget,
    clock::ForwardClock,
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber, SequenceNumber},
    sync::lock,
};
use siltdb_disk::cache::Cache;
use siltdb_memtable::arena::ArenaPool;
use siltdb_tree::{
    memory::Generation,
    merge_operator::MergeOperator,
    open_files::OpenFiles,
    pick_leveled::{LAGGING_FACTOR, debt_bytes},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// What flushes have yet to write may amount to this many halves of a memtable before writes are
/// slowed down, and before they are as slow as they get.
const UNWRITTEN_HALVES: (u64, u64) = (2, 5);

/// The most that unwritten memtables weigh: only full memory stops writes.
const SHARE_DELAYED_MOST: f64 = 0.99;

/// Level 0 may have this many runs before writes are slowed down, and before they stop, at least.
/// What is in memory then may still be flushed.
const LEVEL0_RUNS: (u64, u64) = (12, 20);

/// The same, as multiples of the runs from which on it is compacted: where that is later, so are
/// these. Nobody waits for a compaction that is not due.
const LEVEL0_TRIGGERS: (u64, u64) = (LAGGING_FACTOR, 5);

/// What compactions have yet to write may amount to this many memtables before writes are slowed
/// down, and before they stop.
const MERGE_MEMTABLES: (u64, u64) = (128, 512);

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
    pub instance: Instance,
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
    /// What readers see.
    pub publisher: Publisher,
    /// The families.
    pub families: Families,
    /// The log.
    pub wal: Wal,
    /// The end of the log.
    pub tail: SharedTail,
    /// Generations that wait for their flush, oldest first.
    pub frozen: Mutex<VecDeque<Frozen>>,
    /// The manifest; held while an edit is made durable and applied.
    pub manifest_io: Mutex<Manifest>,
    /// The table files.
    pub files: Arc<OpenFiles>,
    /// The block cache.
    pub cache: Arc<Cache>,
    /// Where memtables get their memory.
    pub arenas: Arc<ArenaPool>,
    /// The one account of memory.
    pub budget: Arc<Budget>,
    /// What is being done in the background.
    pub jobs: Mutex<JobState>,
    /// What callers do to the files on their own threads.
    pub calls: Calls,
    /// Held while families are created, dropped and renamed.
    pub changing_io: Mutex<()>,
    /// The merge operators it was opened with. That of a family that is created goes with it.
    pub operators: Vec<Arc<dyn MergeOperator>>,
    /// Numbers to give out.
    pub numbers: Numbers,
    /// Something may be due for the flusher or the compactors.
    pub work: Signal,
    /// Something may be due for the keeper of the log.
    pub log_work: Signal,
    /// Syncs may be due sooner than before.
    pub sync_work: Signal,
    /// A job ended: there may be room.
    pub room: Signal,
    /// How to wait.
    pub waiting: Waiting,
    /// Records of the log that were replayed at open.
    pub log_records: u64,
    /// What was counted.
    pub counters: Counters,
    /// The debts of the levels.
    level_debts: LevelDebts,
    /// How fast writers may be.
    pace: Pace,
    /// When the log must be synced next.
    pub sync_timer: SyncTimer,
    /// The sequence number of the last commit that is not in the log.
    unlogged_last: AtomicU64,
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
    pub shared: Vec<Arc<Shared>>,
    /// What was flushed and is still in memory, until a worker frees it.
    pub flushed: Vec<Flushed>,
    /// Files that no version refers to any more.
    pub obsolete: BTreeSet<FileNumber>,
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

/// The rooms that a database is made of.
#[derive(Debug)]
pub struct Parts {
    /// How it was opened.
    pub options: EngineOptions,
    /// The clock of the options, as what it stores.
    pub time: Arc<ForwardClock>,
    /// Its directory.
    pub dir: PathBuf,
    /// The log.
    pub wal: Wal,
    /// The end of the log.
    pub tail: Tail,
    /// What readers see.
    pub publisher: Publisher,
    /// The families.
    pub families: Families,
    /// The manifest.
    pub manifest: Manifest,
    /// The table files.
    pub files: Arc<OpenFiles>,
    /// The block cache.
    pub cache: Arc<Cache>,
    /// Where memtables get their memory.
    pub arenas: Arc<ArenaPool>,
    /// The one account of memory.
    pub budget: Arc<Budget>,
    /// Numbers to give out.
    pub numbers: Numbers,
    /// How to wait.
    pub waiting: Waiting,
    /// Records of the log that were replayed.
    pub log_records: u64,
}

impl Database {
    /// Puts the rooms together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let now = parts.options.clock.monotonic_ns();
        let operators = parts.options.operators();
        let access = parts.options.access;
        let instance = Instance::next();
        let database = Self {
            instance,
            options: parts.options,
            time: parts.time,
            dir: parts.dir,
            health: Health::new(access),
            snapshots: Arc::default(),
            publisher: parts.publisher,
            families: parts.families,
            wal: parts.wal,
            tail: SharedTail::new(parts.tail),
            frozen: Mutex::default(),
            manifest_io: Mutex::new(parts.manifest),
            files: parts.files,
            cache: parts.cache,
            arenas: parts.arenas,
            budget: parts.budget,
            jobs: Mutex::default(),
            calls: Calls::default(),
            changing_io: Mutex::default(),
            operators,
            numbers: parts.numbers,
            work: Signal::default(),
            log_work: Signal::default(),
            sync_work: Signal::default(),
            room: Signal::default(),
            waiting: parts.waiting,
            log_records: parts.log_records,
            counters: Counters::default(),
            level_debts: LevelDebts::default(),
            pace: Pace::new(instance),
            sync_timer: SyncTimer::new(now),
            unlogged_last: AtomicU64::new(0),
            ending: AtomicBool::new(false),
        };
        database.families.load().iter().for_each(|family| database.note_changed(family));
        database
    }

    /// The bounds that the tail keeps.
    #[inline]
    #[must_use]
    pub fn tail_limits(&self) -> TailLimits {
        // A hint; a rotation too many is bounded by the next look.
        let room = if self.pace.is_stopped() { Room::Full } else { Room::Free };
        TailLimits { memtable_bytes: self.options.memtable_bytes as u64, room }
    }

    /// Hands a generation to the flusher.
    pub fn freeze(&self, frozen: Frozen) {
        lock(&self.frozen).push_back(frozen);
        self.update_pressure(0);
        self.work.raise();
    }

    /// Roughly what all memtables hold.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let active_bytes = lock(&self.tail).active_bytes();
        let frozen = lock(&self.frozen);
        active_bytes + frozen.iter().map(|frozen| frozen.bytes).sum::<u64>()
    }

    /// How much writes are to be slowed down for memory: by what flushes have yet to write,
    /// `active_bytes` of it in the generation that is being written. A frozen one counts a little
    /// until its tables are synced and installed. What is held in memory stops writes, written or
    /// not.
    fn memory_share(&self, active_bytes: u64) -> f64 {
        let memtable = self.options.memtable_bytes as u64;
        // However large a commit is, what no flush can make less must not stop the next.
        let active_bytes = active_bytes.min(memtable);
        let (mut held, mut unwritten) = (active_bytes, active_bytes);
        for frozen in &*lock(&self.frozen) {
            held += frozen.bytes.max(memtable / 4);
            unwritten += frozen.progress.rest_of(frozen.bytes).max(memtable / 16);
        }
        if held >= memtable * (FROZEN_MAX as u64 + 1) {
            return 1.0;
        }
        let (soft, hard) = (memtable * UNWRITTEN_HALVES.0 / 2, memtable * UNWRITTEN_HALVES.1 / 2);
        Debt { bytes: unwritten, soft, hard }.share().min(SHARE_DELAYED_MOST)
    }

    /// How much writes are slowed down for memory now, from 0, not at all, to 1, stopped.
    #[must_use]
    pub fn unwritten_share(&self) -> f64 {
        let active_bytes = lock(&self.tail).active_bytes();
        self.memory_share(active_bytes)
    }

    /// The share of the worst debt that the levels of a family have run up, as last looked at.
    #[must_use]
    pub fn level_share(&self) -> f64 {
        self.level_debts.worst()
    }

    /// The share of the worse debt that the levels of a family have run up.
    fn level_share_of(&self, family: &Family) -> f64 {
        let memtable = self.options.memtable_bytes as u64;
        let view = family.tree.view();
        let options = family.tree.peek_options();
        let trigger = u64::from(options.level0_runs_trigger);
        let level0 = Debt {
            bytes: view.version.levels()[0].runs() as u64,
            soft: LEVEL0_RUNS.0.max(trigger * LEVEL0_TRIGGERS.0),
            hard: LEVEL0_RUNS.1.max(trigger * LEVEL0_TRIGGERS.1),
        };
        let bytes = debt_bytes(&view.version, &options);
        let (soft, hard) = (memtable * MERGE_MEMTABLES.0, memtable * MERGE_MEMTABLES.1);
        level0.share().max(Debt { bytes, soft, hard }.share())
    }

    /// Looks again at the debt of a family's levels; to be called after its tables have changed.
    pub fn note_changed(&self, family: &Family) {
        self.level_debts.note(family.id, self.level_share_of(family));
        lock(&self.jobs).due.insert(family.id);
    }

    /// Notes that a family was dropped.
    pub fn note_dropped(&self, family: FamilyId) {
        self.level_debts.note(family, 0.0);
        lock(&self.jobs).due.remove(&family);
    }

    /// Looks at the debt of memory again, and at the worst of those of the levels that are noted.
    pub fn update_debts(&self) {
        let active_bytes = lock(&self.tail).active_bytes();
        self.update_pressure(active_bytes);
    }

    /// Looks at the debt of the memtables again, `active_bytes` of it in the generation that is
    /// being written; called whenever that has grown by a step.
    pub fn update_pressure(&self, active_bytes: u64) {
        let share = self.memory_share(active_bytes).max(self.level_share());
        self.pace.press(throttle::pressure(share));
    }

    /// Set while jobs shall give way to writers.
    #[must_use]
    pub fn gives_way(&self) -> &AtomicBool {
        self.pace.gives_way()
    }

    /// Lets a writer of `bytes` wait for its share of the debt.
    #[inline]
    pub fn pay(&self, bytes: u64) {
        if let Some(nap) = self.pace.advance(bytes) {
            self.sleep(nap);
        }
    }

    #[cold]
    fn sleep(&self, first: Nap) {
        if !matches!(self.waiting, Waiting::ForWorkers) {
            return;
        }
        let mut next = Some(first);
        while let Some(nap) = next {
            Counters::add(&self.counters.delayed_ns, nanoseconds(nap.time));
            self.options.clock.sleep(nap.time);
            // Flushes have gone on meanwhile, and whoever slept has the time to look how far.
            let active_bytes = lock(&self.tail).active_bytes();
            self.update_pressure(active_bytes);
            next = self.pace.go_on(&nap);
        }
    }

    /// Waits until a job has made room, or makes some.
    ///
    /// # Errors
    /// What keeps the jobs from making room, `NoSpace` above all; `Poisoned`, `Closed`.
    pub fn wait_for_room(&self) -> Result<()> {
        let start = self.options.clock.monotonic_ns();
        let result = match self.waiting {
            Waiting::RunJob(run) => self.at_work(run).map(|_| self.update_debts()),
            Waiting::ForWorkers => self.wait_for_workers(),
        };
        let waited = self.options.clock.monotonic_ns().saturating_sub(start);
        Counters::add(&self.counters.stalled_ns, waited);
        Counters::add(&self.counters.stalls, 1);
        result
    }

    fn wait_for_workers(&self) -> Result<()> {
        let seen = self.room.seen();
        self.health.check()?;
        // A thread that looked before the last job ended may have noted what it saw after it, and
        // then nobody else looks again.
        self.update_debts();
        if self.tail_limits().room == Room::Free {
            return Ok(());
        }
        if let Some(failure) = self.failure_in_the_way() {
            return Err(failure);
        }
        self.work.raise();
        self.room.wait(seen, Duration::from_millis(100));
        Ok(())
    }

    /// Why there is no room and none comes, if a job fails that would make some: a flush, or the
    /// compaction of a family whose levels are full.
    fn failure_in_the_way(&self) -> Option<Error> {
        let families = self.families.load();
        let is_in_the_way = |job: JobOf, error: &Error| match job {
            JobOf::Memory => true,
            // Others do not come to be tried.
            JobOf::Family(_) if error.kind() == ErrorKind::NoSpace => true,
            JobOf::Family(id) => {
                families.get(id).is_some_and(|family| self.level_share_of(family) >= 1.0)
            }
        };
        let jobs = lock(&self.jobs);
        let failure = jobs.failures.iter().find(|(job, error)| is_in_the_way(**job, error));
        failure.map(|(_, error)| error.duplicate())
    }

    /// Why a job fails, if one does: a flush, or the compaction of a family that exists.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        let families = self.families.load();
        let jobs = lock(&self.jobs);
        let failure = jobs.failures.iter().find(|(job, _)| match job {
            JobOf::Memory => true,
            JobOf::Family(id) => families.get(*id).is_some(),
        });
        failure.map(|(_, error)| error.duplicate())
    }

    /// Notes that a commit up to `last` is in memory alone; called before it is published.
    pub fn note_unlogged(&self, last: SequenceNumber) {
        // Relaxed, here and below: who looks has waited for the publication.
        self.unlogged_last.fetch_max(last.0, Ordering::Relaxed);
    }

    /// The sequence number of the last published commit that is not in the log; 0 if there is none.
    #[must_use]
    pub fn unlogged_last(&self) -> SequenceNumber {
        SequenceNumber(self.unlogged_last.load(Ordering::Relaxed))
    }

    /// Notes that no version refers to these files any more.
    pub fn forget(&self, files: Vec<FileNumber>) {
        lock(&self.jobs).obsolete.extend(files);
    }

    /// Does `work`, which may change files, on a caller's thread. Closing waits until it is done.
    /// If it panics, what it left undone nobody will do: the database is poisoned.
    ///
    /// # Errors
    /// `Closed`, once the database is being closed; what `work` fails with.
    pub fn at_work<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let call = self.calls.begin().ok_or_else(|| self.health.refusal())?;
        let mut at_work = AtWork { database: self, is_done: false, _call: call };
        let result = work(self);
        at_work.is_done = true;
        result
    }

    /// Nothing can be written any more, because of `cause`; wakes everybody who waits.
    pub fn fail(&self, cause: Error) {
        let _ = self.health.poison(cause);
        self.room.raise();
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A call at work, on its way out.
struct AtWork<'a> {
    database: &'a Database,
    /// It has returned; it did not panic.
    is_done: bool,
    /// Dropped last: who closes then finds the failure.
    _call: Call<'a>,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let cause = Error::new(ErrorKind::Poisoned, "a job panicked");
            self.database.fail(cause);
        }
    }
}

#[cfg(test)]
mod tests;
