//! The observer of the file system: it takes crash states in the middle of what the engine does.
//!
//! It chooses at random and keeps what it took; what a state should hold is for others to say.

use crate::{draw::Draw, report::Phase};
use siltdb_base::fs::mem::{Call, CallKind, Crash, MemFs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most crash states taken during one operation.
const TAKEN_PER_OPERATION_MAX: usize = 2;

/// What the harness called when a call reached the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A write, single or batch. It may run jobs when it has to wait.
    Commit,
    /// A transaction is committed; otherwise as `Commit`.
    Transaction,
    /// Something that flushes and compacts: a job, or all there is to do.
    Jobs,
    /// A family is created, renamed or dropped.
    Family,
    /// The database is opened.
    Recovery,
    /// A sync of the log, a close.
    Sync,
    /// A checkpoint is made.
    Checkpoint,
}

impl Activity {
    /// One in this many calls is a crash point; of the calls on which durability hangs, more are.
    fn rarity(self, call: CallKind) -> u64 {
        let rarity = match self {
            Self::Commit => 16,
            Self::Transaction => 8,
            Self::Jobs => 12,
            Self::Recovery => 64,
            Self::Family | Self::Sync => 12,
            // On them hangs whether it is there.
            Self::Checkpoint => match call {
                CallKind::SyncDir | CallKind::Rename => return 3,
                _ => 48,
            },
        };
        let critical = matches!(
            call,
            CallKind::Sync | CallKind::SyncDir | CallKind::Rename | CallKind::Remove
        );
        if critical { rarity / 4 } else { rarity }
    }
}

/// How the machine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// The process was killed.
    Kill,
    /// The power was lost.
    PowerLoss,
}

/// What a crash left behind, and where it struck.
#[derive(Clone, Debug)]
pub struct CrashState {
    /// The files.
    pub fs: MemFs,
    /// How it happened.
    pub kind: CrashKind,
    /// What the harness was doing; `None` between operations.
    pub activity: Option<Activity>,
    /// Before which call, for messages.
    pub call: String,
    /// What kind of file it concerned.
    pub place: Place,
}

/// The kinds of files that tell what the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A segment of the log.
    Log,
    /// A table, finished or not.
    Table,
    /// The manifest, or what points to it.
    Manifest,
    /// Anything else, directories among it.
    Other,
}

/// What the jobs that ran during an operation were, by the statistics of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobsDone {
    /// Flushes that finished.
    pub flushes: u64,
    /// Compactions that finished.
    pub compactions: u64,
    /// Tables that they removed unread.
    pub dropped_tables: u64,
    /// Those of them that were for the sake of space.
    pub space_compactions: u64,
}

impl JobsDone {
    /// What has finished since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            flushes: self.flushes - before.flushes,
            compactions: self.compactions - before.compactions,
            dropped_tables: self.dropped_tables - before.dropped_tables,
            space_compactions: self.space_compactions - before.space_compactions,
        }
    }
}

impl CrashState {
    /// What a clean close leaves of `fs`: all of it.
    #[must_use]
    pub fn still(fs: &MemFs) -> Self {
        Self {
            fs: fs.clone(),
            kind: CrashKind::Kill,
            activity: None,
            call: "no call".to_owned(),
            place: Place::Other,
        }
    }

    /// Takes a crash state of `fs` now.
    pub fn take(fs: &MemFs, draw: &mut Draw) -> Self {
        let (kind, crash) = if draw.chance(1, 2) {
            (CrashKind::Kill, Crash::Kill)
        } else {
            (CrashKind::PowerLoss, Crash::PowerLoss { seed: draw.next() })
        };
        Self { kind, ..Self::still(&fs.crash_clone(crash)) }
    }

    /// The phase it struck in.
    ///
    /// The harness knows what it called. Inside that, the file tells: the log belongs to commits,
    /// the manifest to installing. A table is written by a flush or by a compaction: the count of
    /// jobs that the operation finished decides, and if it did both, the crash counts for neither.
    #[must_use]
    pub fn phase(&self, done: JobsDone) -> Phase {
        let job = match (done.flushes, done.compactions) {
            (1.., 0) => Phase::Flush,
            (0, 1..) => Phase::Compaction,
            _ => Phase::Other,
        };
        match (self.activity, self.place) {
            (None, _) => Phase::Idle,
            (Some(Activity::Recovery), _) => Phase::Recovery,
            (Some(Activity::Family), _) => Phase::Family,
            (Some(Activity::Checkpoint), _) => Phase::Checkpoint,
            (Some(_), Place::Manifest) => Phase::Install,
            (Some(Activity::Commit), Place::Log) => Phase::Commit,
            (Some(Activity::Transaction), Place::Log) => Phase::Transaction,
            (Some(Activity::Sync), _) => Phase::Other,
            (Some(Activity::Commit), _) if done == JobsDone::default() => Phase::Commit,
            (Some(Activity::Transaction), _) if done == JobsDone::default() => Phase::Transaction,
            (Some(Activity::Commit | Activity::Transaction | Activity::Jobs), _) => job,
        }
    }
}

/// An observer that is installed on a file system for as long as it lives.
#[derive(Debug)]
pub struct Watch {
    fs: MemFs,
    eye: Arc<Mutex<Eye>>,
}

#[derive(Debug)]
struct Eye {
    draw: Draw,
    activity: Option<Activity>,
    taken: Vec<CrashState>,
    left: usize,
}

impl Watch {
    /// Watches `fs`, and takes up to `states_max` crash states as `draw` decides.
    #[must_use]
    pub fn new(fs: &MemFs, draw: Draw, states_max: usize) -> Self {
        let eye = Eye { draw, activity: None, taken: Vec::new(), left: states_max };
        let eye = Arc::new(Mutex::new(eye));
        let (seen, target) = (Arc::clone(&eye), fs.clone());
        fs.on_call(Some(Arc::new(move |call: Call<'_>| lock(&seen).see(&target, call))));
        Self { fs: fs.clone(), eye }
    }

    /// An operation begins.
    pub fn begin(&self, activity: Activity) {
        lock(&self.eye).activity = Some(activity);
    }

    /// The operation has ended; what was taken meanwhile.
    #[must_use]
    pub fn end(&self) -> Vec<CrashState> {
        let mut eye = lock(&self.eye);
        eye.activity = None;
        std::mem::take(&mut eye.taken)
    }

    /// How many crash states may still be taken.
    #[must_use]
    pub fn left(&self) -> usize {
        lock(&self.eye).left
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The observer holds the file system that holds the observer.
        self.fs.on_call(None);
    }
}

fn lock(eye: &Mutex<Eye>) -> MutexGuard<'_, Eye> {
    eye.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Eye {
    fn see(&mut self, fs: &MemFs, call: Call<'_>) {
        let Some(activity) = self.activity else { return };
        let full = self.left == 0 || self.taken.len() == TAKEN_PER_OPERATION_MAX;
        // A checkpoint is whole from one of its last calls on: a later state replaces an earlier.
        let replaces = activity == Activity::Checkpoint && !self.taken.is_empty();
        if full && !replaces || !self.draw.chance(1, activity.rarity(call.kind)) {
            return;
        }
        if full {
            self.taken.remove(0);
            self.left += 1;
        }
        self.left -= 1;
        let mut state = CrashState::take(fs, &mut self.draw);
        let name = call.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        state.activity = Some(activity);
        state.call = format!("{:?} {name} at {} ({} bytes)", call.kind, call.offset, call.bytes);
        state.place = place(&name);
        self.taken.push(state);
    }
}

fn place(name: &str) -> Place {
    match name.rsplit_once('.') {
        Some((_, "log")) => Place::Log,
        Some((_, "table")) => Place::Table,
        Some((_, "manifest")) => Place::Manifest,
        _ if name.starts_with("CURRENT") => Place::Manifest,
        _ => Place::Other,
    }
}
