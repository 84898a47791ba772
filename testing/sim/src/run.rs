//! One run: a database, its model, and the operations that the seed decides.
//!
//! `steps` says what a single step does. This file passes operations to the engine, judges their
//! failures, and continues after a crash.

use crate::{
    database::Database,
    directory::Directory,
    draw::Draw,
    expected::{Expectation, Floors, Names},
    model::{FamilyIndex, Model, Moment, Operation, Shared},
    prepared::{Waiting, waiting_in},
    reads::Walk,
    recovery::{Recovered, Recovery, Standing, turn_back},
    report::Report,
    settings::{Settings, Weather},
    subscriber::Subscriber,
    times::Times,
    transaction::OpenTransaction,
    truth::Pairs,
    violation::{Checked, Violation},
    watch::{Activity, CrashState, JobsDone, Watch},
};
use siltdb::{BackgroundPause, ErrorKind, Family, Follower, Snapshot};
use siltdb_base::{
    checksum::xxh3,
    clock::{Clock, ManualClock},
    fs::mem::MemFs,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::Duration,
};

/// The wall clock at the start of a run, in ms since 1970.
const WALL_MS_START: u64 = 1_700_000_000_000;

/// A held snapshot, and what it shows.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) snapshot: Snapshot,
    /// What it sees: its time stands still.
    pub(crate) at: Moment,
    pub(crate) families: BTreeMap<FamilyIndex, Family>,
    /// The pairs of the FIFO family.
    pub(crate) rows: Pairs,
}

/// A follower that is kept.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) follower: Follower,
    /// The latest time of the wall clock at which it was read.
    pub(crate) latest_ms: u64,
    /// Whether the same values have expired for it and for the database.
    pub(crate) is_comparable: bool,
}

/// The outcome of an operation.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// It succeeded.
    Done(T),
    /// It failed with this kind of error, which is permitted after a fault or on a full disk.
    Refused(ErrorKind),
    /// It crashed; the run continues with the recovered database.
    Replaced,
}

/// A reason why operations may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// No failure is permitted.
    None,
    /// The disk is full.
    FullDisk,
    /// A call has failed.
    Fault,
}

impl Excuse {
    /// The permitted kinds of errors. No fault damages bytes, so `Corruption` is never permitted.
    pub(crate) fn kinds(self) -> &'static [ErrorKind] {
        match self {
            Self::None => &[],
            Self::FullDisk => &[ErrorKind::NoSpace],
            Self::Fault => &[ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::Poisoned],
        }
    }
}

/// The duration for which a fault excuses failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// Only the operation that it hits; all later ones must succeed.
    None,
    /// Until the database is reopened, because the fault may poison it or hit again and again.
    Lasting,
}

/// A counter that gives ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdCounter {
    /// The last id given; 0 before the first.
    pub(crate) given: u64,
    /// Ids that are reserved by this opening and not given.
    pub(crate) block: Range<u64>,
    /// Whether the database was reopened since the last id.
    pub(crate) is_reopened: bool,
}

impl IdCounter {
    fn reopened(&mut self) {
        (self.block, self.is_reopened) = (0..0, true);
    }
}

/// A run in progress.
#[derive(Debug)]
pub struct Run {
    pub(crate) settings: Settings,
    pub(crate) draw: Draw,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) model: Model,
    pub(crate) report: Report,
    pub(crate) snapshots: Vec<Held>,
    pub(crate) walks: Vec<Walk>,
    pub(crate) transactions: Vec<OpenTransaction>,
    pub(crate) subscriber: Subscriber,
    /// Counters of the default family, by key.
    pub(crate) ids: BTreeMap<Shared, IdCounter>,
    /// The commit at which the database was opened.
    pub(crate) opened_at: u64,
    pub(crate) pauses: Vec<BackgroundPause>,
    pub(crate) database: Database,
    /// What reads beside the database.
    pub(crate) follower: Option<Followed>,
    pub(crate) watch: Option<Watch>,
    /// The time of the database.
    pub(crate) times: Times,
    /// Whether the database has acknowledged a commit since it was opened.
    pub(crate) written: bool,
    /// All commits up to this one survive a power loss.
    pub(crate) durable: u64,
    /// All volatile commits up to this one survive every crash.
    pub(crate) flushed: u64,
    /// The last commit that readers see: the last acknowledged one, or the one in doubt.
    pub(crate) visible: u64,
    /// `FullDisk` if the space of the file system is limited.
    pub(crate) disk: Excuse,
    /// Whether an operation was refused because the database is poisoned.
    pub(crate) poisoned: bool,
    /// The longest trace among the faults set since the database was opened.
    pub(crate) trace: Trace,
    /// The families if a failed change of them took effect nevertheless.
    pub(crate) half_changed: Option<Names>,
    /// The first row of the FIFO family that was seen since the database was opened.
    pub(crate) first_row: Option<Shared>,
    /// Families that are clones.
    pub(crate) clones: BTreeSet<FamilyIndex>,
    /// The branch of which the archive of the step is.
    pub(crate) archived: String,
    /// The commit in progress that changes families together with data.
    pub(crate) joined: Option<u64>,
    /// The numbers of the backups that there are.
    pub(crate) backups: Vec<u64>,
    /// Those of them whose names may not last, because only the sync of the names failed.
    pub(crate) backups_in_doubt: Vec<u64>,
    /// The possible retention floors: several after a change that may not have happened.
    pub(crate) retained: Vec<Option<u64>>,
    /// States before this commit may differ from the model, because recoveries cannot tell which
    /// volatile commits under later ones they found.
    pub(crate) known_from: u64,
    /// Prepared transactions, and whether they wait for their decision.
    pub(crate) waiting: Waiting,
    /// What each prepared transaction writes.
    pub(crate) prepared: BTreeMap<String, Vec<(FamilyIndex, Operation)>>,
    /// How many there have been.
    pub(crate) prepared_count: u64,
    /// The number of failed calls when the database was opened.
    faults_before: u64,
    /// Operations, one to a line.
    log: Vec<String>,
    crashes_left: usize,
}

impl Run {
    /// Creates the database of the run, as `draw` decides.
    ///
    /// # Errors
    /// If the new database is not empty, crashes included.
    pub fn new(mut draw: Draw, settings: Settings) -> Checked<Self> {
        let clock = Arc::new(ManualClock::at(Duration::from_millis(WALL_MS_START)));
        let model = Model::new(settings.operator);
        let mut report = Report { runs: 1, ..Report::default() };
        let fs = MemFs::new();
        let state = CrashState::still(&fs);
        let (names, times) = (Database::first_names(), Times::new(0, &[], &ManualClock::default()));
        let expectation = Expectation::exactly(0, 0..=0, names, &times);
        let mut recovery = Recovery {
            settings: &settings,
            clock: &clock,
            model: &model,
            report: &mut report,
            draw: &mut draw,
        };
        let recovered = recovery.open(&state, &expectation, 0)?;
        let Recovered { database, times, .. } = recovered;
        Directory::add_stranger(&database.fs)?;
        let crashes_left = settings.crashes_max;
        let faults_before = database.fs.faults();
        let mut run = Self {
            settings,
            draw,
            clock,
            model,
            report,
            snapshots: Vec::new(),
            walks: Vec::new(),
            transactions: Vec::new(),
            subscriber: Subscriber::default(),
            ids: BTreeMap::new(),
            opened_at: 0,
            pauses: Vec::new(),
            database,
            follower: None,
            watch: None,
            times,
            written: false,
            durable: 0,
            flushed: 0,
            visible: 0,
            disk: Excuse::None,
            poisoned: false,
            trace: Trace::None,
            half_changed: None,
            first_row: None,
            clones: BTreeSet::new(),
            archived: "main".to_owned(),
            joined: None,
            backups: Vec::new(),
            backups_in_doubt: Vec::new(),
            retained: vec![None],
            known_from: 0,
            waiting: Waiting::new(),
            prepared: BTreeMap::new(),
            prepared_count: 0,
            faults_before,
            log: Vec::new(),
            crashes_left,
        };
        run.create_guests()?;
        run.watch();
        Ok(run)
    }

    /// Does all steps, and then compares everything once more.
    ///
    /// # Errors
    /// If a promise of the engine is broken.
    pub fn go(&mut self) -> Checked<()> {
        for _ in 0..self.settings.steps {
            self.step()?;
            if self.draw.chance(self.settings.compared, 100) {
                self.compare_everything()?;
            }
        }
        self.compare_everything()?;
        self.report.faults += self.database.fs.faults() - self.faults_before;
        let calls = self.database.fs.calls();
        self.note(format!("the end: {calls} calls"));
        self.report.fingerprint = xxh3(self.log.join("\n").as_bytes());
        Ok(())
    }

    /// The counts so far.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The operations so far, one to a line.
    #[must_use]
    pub fn log(&self) -> &[String] {
        &self.log
    }

    pub(crate) fn note(&mut self, line: String) {
        self.log.push(line);
    }

    /// The present moment, as readers see it.
    pub(crate) fn now(&self) -> Moment {
        let wall_ms = self.times.at(&self.clock);
        Moment { commit: self.visible, wall_ms, flushed: u64::MAX }
    }

    /// The reason why an operation may fail now.
    pub(crate) fn excuse(&self) -> Excuse {
        if self.has_failed() { Excuse::Fault } else { self.disk }
    }

    /// Whether a call has failed since the database was opened.
    pub(crate) fn has_failed(&self) -> bool {
        self.database.fs.faults() > self.faults_before
    }

    /// The reason why an operation may fail that began when `faults` calls had failed.
    fn excuse_since(&self, faults: u64) -> Excuse {
        match self.trace {
            Trace::Lasting => self.excuse(),
            Trace::None if self.database.fs.faults() > faults => Excuse::Fault,
            Trace::None => self.disk,
        }
    }

    pub(crate) fn watch(&mut self) {
        let states = if self.settings.weather == Weather::Calm { 0 } else { self.crashes_left };
        self.watch = Some(Watch::new(&self.database.fs, self.draw.fork(), states));
    }

    /// The state that a crash must leave now. `after` is the families if the operation succeeds.
    pub(crate) fn expectation(&self, after: Option<Names>) -> Expectation {
        let mut families = vec![self.database.names.clone()];
        families.extend(after);
        families.extend(self.half_changed.clone());
        Expectation {
            floors: Floors { kill: self.model.acknowledged(), power: self.durable },
            ceiling: self.model.possible(),
            flushed: self.flushed..=self.model.possible(),
            families,
            joined: self.joined,
            floors_ms: self.times.floors_ms().to_vec(),
            seen_ms: self.times.seen_ms(),
            waiting: self.waiting.clone(),
            retained: self.retained.clone(),
        }
    }

    /// Runs an operation of the engine under observation. Judges its errors, and recovers from the
    /// crash states taken meanwhile. `after` is the families if it succeeds.
    pub(crate) fn operate<T>(
        &mut self,
        activity: Activity,
        after: Option<Names>,
        work: impl FnOnce(&Database) -> siltdb::Result<T>,
    ) -> Checked<Outcome<T>> {
        let before = self.expectation(after.clone());
        let jobs_before = self.database.jobs_done();
        let faults = self.database.fs.faults();
        if let Some(watch) = &self.watch {
            watch.begin(activity);
        }
        let result = work(&self.database);
        let states = self.watch.as_ref().map(Watch::end).unwrap_or_default();
        let done = self.database.jobs_done().since(jobs_before);
        self.report.jobs += done.flushes + done.compactions;
        // A merge has one step more than it has crash states between steps.
        self.report.steps += done.steps.saturating_sub(done.compactions);
        self.report.dropped_tables += done.dropped_tables;
        self.report.space_compactions += done.space_compactions;
        self.report.filter_changes += done.filter_changes;
        self.report.tiers.moved += done.moved_tables;
        let is_edit = matches!(activity, Activity::Family | Activity::Clone | Activity::Ingest);
        if done != JobsDone::default() || is_edit && result.is_ok() {
            self.times.made_durable();
        }
        let outcome = match result {
            Ok(value) => Outcome::Done(value),
            Err(error) => {
                self.judge(&error, self.excuse_since(faults))?;
                self.half_changed = after.or(self.half_changed.take());
                self.poisoned |= error.kind() == ErrorKind::Poisoned;
                Outcome::Refused(error.kind())
            }
        };
        self.crashes_left = self.crashes_left.saturating_sub(states.len());
        let mut adopted = None;
        for state in states {
            self.note(format!("crash: {:?} before {}", state.kind, state.call));
            if activity == Activity::Checkpoint {
                self.judge_crashed_checkpoint(&state)?;
            }
            if activity == Activity::Backup {
                self.judge_crashed_backup(&state)?;
            }
            if activity == Activity::Archive {
                self.judge_crashed_archive(&state)?;
            }
            let recovered = self.recovery().recover(&state, done, &before, 0)?;
            if self.draw.chance(1, 2) {
                adopted = Some(recovered);
            }
        }
        match adopted {
            Some(recovered) => {
                self.adopt(recovered);
                Ok(Outcome::Replaced)
            }
            None => Ok(outcome),
        }
    }

    /// Whether an operation may fail with this error.
    fn judge(&mut self, error: &siltdb::Error, excuse: Excuse) -> Checked<()> {
        self.report.refusals += 1;
        self.note(format!("refused: {error}"));
        if excuse.kinds().contains(&error.kind()) {
            return Ok(());
        }
        Err(Violation::new(format!("unexpected error ({excuse:?}): {error}")))
    }

    /// A crash between two operations.
    pub(crate) fn crash(&mut self) -> Checked<()> {
        let state = CrashState::take(&self.database.fs, &mut self.draw);
        self.note(format!("crash: {:?} between operations", state.kind));
        let before = self.expectation(None);
        self.recover_from(&state, &before)
    }

    /// Recovers from a crash, and may go on with what was recovered.
    pub(crate) fn recover_from(&mut self, state: &CrashState, before: &Expectation) -> Checked<()> {
        let recovered = self.recovery().recover(state, JobsDone::default(), before, 0)?;
        self.crashes_left = self.crashes_left.saturating_sub(1);
        // A database poisoned by a failure shows nothing further, so the run leaves it.
        if self.excuse() == Excuse::Fault || self.draw.chance(1, 2) {
            self.adopt(recovered);
        }
        Ok(())
    }

    /// Opens the database again, after a close.
    pub(crate) fn reopen(&mut self, expectation: &Expectation) -> Checked<()> {
        self.watch = None;
        self.database.fs.set_fault(None);
        let state = CrashState::still(&self.database.fs);
        let recovered = self.recovery().open(&state, expectation, 0)?;
        self.adopt(recovered);
        Ok(())
    }

    pub(crate) fn recovery(&mut self) -> Recovery<'_> {
        Recovery {
            settings: &self.settings,
            clock: &self.clock,
            model: &self.model,
            report: &mut self.report,
            draw: &mut self.draw,
        }
    }

    /// Continues with another database, at the commit that it holds.
    fn adopt(&mut self, recovered: Recovered) {
        let Recovered { database, standing, times } = recovered;
        let Standing { commit, certain, flushed } = standing;
        let now = times.at(&self.clock);
        self.note(format!("recovered at commit {commit}, {now} ms"));
        (self.times, self.written) = (times, false);
        self.report.faults += self.database.fs.faults() - self.faults_before;
        self.snapshots.clear();
        self.walks.clear();
        self.transactions.clear();
        self.ids.values_mut().for_each(IdCounter::reopened);
        self.pauses.clear();
        (self.watch, self.follower) = (None, None);
        let sequence = database.db.snapshot().sequence();
        self.model.recovered(commit, *flushed.end(), sequence);
        self.model.doubt(certain + 1..=commit);
        if flushed.start() < flushed.end() || certain < commit {
            self.known_from = commit;
        }
        self.subscriber.reopened(sequence);
        (self.durable, self.flushed, self.visible) = (commit, commit, commit);
        self.opened_at = commit;
        self.disk = Excuse::None;
        (self.poisoned, self.trace, self.half_changed) = (false, Trace::None, None);
        self.first_row = None;
        self.waiting = waiting_in(&database.db);
        self.retained = vec![database.db.retention_floor()];
        self.report.transactions.found_undecided += self.waiting.len() as u64;
        self.faults_before = database.fs.faults();
        database.fs.set_space_limit(None);
        self.database = database;
        self.read_clock();
        self.watch();
    }

    /// Advances the clock.
    pub(crate) fn advance(&mut self, duration: Duration) {
        self.note(format!("{duration:?} pass"));
        self.clock.advance(duration);
        self.read_clock();
    }

    /// Makes the database read the clock.
    pub(crate) fn read_clock(&mut self) {
        self.database.read_clock();
        self.times.read(&self.clock);
    }

    /// Sets the clock back, or right again.
    pub(crate) fn turn_clock(&mut self) {
        // Delayed writers have advanced the clock.
        self.read_clock();
        let latest_ms = self.now().wall_ms;
        if self.clock.wall_ms() < latest_ms && self.draw.chance(1, 2) {
            self.clock.set(Duration::from_millis(latest_ms));
        } else {
            turn_back(&self.clock, &mut self.draw, &mut self.report);
        }
        self.note(format!("the clock is set to {}", self.clock.wall_ms()));
    }
}
