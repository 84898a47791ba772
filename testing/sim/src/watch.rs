//! The observer of the file system, which takes crash states in the middle of engine operations.
//!
//! It chooses at random and keeps what it took. Other modules judge the states.

use crate::{draw::Draw, report::Phase};
use siltdb_base::fs::mem::{Call, CallKind, Crash, MemFs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// At most this many crash states are taken during one operation.
const TAKEN_PER_OPERATION_MAX: usize = 2;

/// The harness's operation during which a call reaches the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A write, single or batch. It may run jobs while it waits.
    Commit,
    /// The commit of a transaction; otherwise as `Commit`.
    Transaction,
    /// Flushes and compactions: one job, or all that are due.
    Jobs,
    /// The creation, renaming or dropping of a family.
    Family,
    /// The cloning of a family, with its flush.
    Clone,
    /// An opening of the database.
    Recovery,
    /// A sync of the log, or a close.
    Sync,
    /// The making of a checkpoint.
    Checkpoint,
    /// The making of a backup.
    Backup,
    /// The export of an archive.
    Archive,
    /// An ingest.
    Ingest,
    /// The freezing or thawing of a family.
    Tier,
    /// The use of a copy of the directory.
    Copy,
}

impl Activity {
    /// One in this many calls is a crash point. Calls that decide durability are chosen more often.
    fn rarity(self, call: CallKind) -> u64 {
        let rarity = match self {
            Self::Commit => 16,
            Self::Transaction => 8,
            Self::Jobs | Self::Clone | Self::Tier => 12,
            Self::Recovery => 64,
            Self::Copy => 48,
            Self::Family | Self::Sync | Self::Ingest => 12,
            // These calls decide whether the copy exists.
            Self::Checkpoint | Self::Backup | Self::Archive => match call {
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

/// The kind of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// A kill of the process.
    Kill,
    /// A power loss.
    PowerLoss,
}

/// The files that a crash left, and where it struck.
#[derive(Clone, Debug)]
pub struct CrashState {
    /// The files.
    pub fs: MemFs,
    /// The kind of the crash.
    pub kind: CrashKind,
    /// The harness's operation; `None` between operations.
    pub activity: Option<Activity>,
    /// The call before which the crash struck, for messages.
    pub call: String,
    /// The kind of file that the call concerned.
    pub place: Place,
}

/// The kinds of files that show what the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A segment of the log.
    Log,
    /// A table, finished or not.
    Table,
    /// The manifest, or the file that names it.
    Manifest,
    /// Any other file, or a directory.
    Other,
}

/// The jobs that ran during an operation, by the statistics of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobsDone {
    /// Flushes that finished.
    pub flushes: u64,
    /// Compactions that finished.
    pub compactions: u64,
    /// Steps of merges that were installed, also of merges that did not finish.
    pub steps: u64,
    /// Tables that compactions removed unread.
    pub dropped_tables: u64,
    /// Compactions that free space.
    pub space_compactions: u64,
    /// Values that a compaction filter has written anew.
    pub filter_changes: u64,
    /// Tables that moved to another tier.
    pub moved_tables: u64,
}

impl JobsDone {
    /// The jobs finished since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            flushes: self.flushes - before.flushes,
            compactions: self.compactions - before.compactions,
            steps: self.steps - before.steps,
            dropped_tables: self.dropped_tables - before.dropped_tables,
            space_compactions: self.space_compactions - before.space_compactions,
            filter_changes: self.filter_changes - before.filter_changes,
            moved_tables: self.moved_tables - before.moved_tables,
        }
    }
}

impl CrashState {
    /// The state that a clean close leaves of `fs`: all of it.
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

    /// The phase in which the crash struck.
    ///
    /// The harness knows the operation that it called; within it, the file decides. Calls on the
    /// log belong to commits, those on the manifest to installs. Flushes and compactions both write
    /// tables: the operation's count of finished jobs decides. If it did both, the crash counts for
    /// neither.
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
            (Some(Activity::Clone), _) => Phase::Clone,
            (Some(Activity::Checkpoint), _) => Phase::Checkpoint,
            (Some(Activity::Backup), _) => Phase::Backup,
            (Some(Activity::Ingest), _) => Phase::Ingest,
            (Some(Activity::Tier), _) => Phase::Tier,
            (Some(Activity::Copy), _) => Phase::Copy,
            (Some(_), Place::Manifest) => Phase::Install,
            (Some(Activity::Commit), Place::Log) => Phase::Commit,
            (Some(Activity::Transaction), Place::Log) => Phase::Transaction,
            (Some(Activity::Sync | Activity::Archive), _) => Phase::Other,
            (Some(Activity::Commit), _) if done == JobsDone::default() => Phase::Commit,
            (Some(Activity::Transaction), _) if done == JobsDone::default() => Phase::Transaction,
            (Some(Activity::Commit | Activity::Transaction | Activity::Jobs), _) => job,
        }
    }
}

/// An observer that is installed on a file system for its own lifetime.
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
    /// Observes `fs`, and takes up to `states_max` crash states as `draw` decides.
    #[must_use]
    pub fn new(fs: &MemFs, draw: Draw, states_max: usize) -> Self {
        let eye = Eye { draw, activity: None, taken: Vec::new(), left: states_max };
        let eye = Arc::new(Mutex::new(eye));
        let (seen, target) = (Arc::clone(&eye), fs.clone());
        fs.on_call(Some(Arc::new(move |call: Call<'_>| lock(&seen).see(&target, call))));
        Self { fs: fs.clone(), eye }
    }

    /// Marks the begin of an operation.
    pub fn begin(&self, activity: Activity) {
        lock(&self.eye).activity = Some(activity);
    }

    /// Marks the end of the operation, and returns the crash states taken during it.
    #[must_use]
    pub fn end(&self) -> Vec<CrashState> {
        let mut eye = lock(&self.eye);
        eye.activity = None;
        std::mem::take(&mut eye.taken)
    }

    /// The number of crash states that may still be taken.
    #[must_use]
    pub fn left(&self) -> usize {
        lock(&self.eye).left
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Breaks the reference cycle: the observer holds the file system that holds the observer.
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
        // A copy is complete from one of its last calls on, so later states replace earlier ones.
        let is_copy =
            matches!(activity, Activity::Checkpoint | Activity::Backup | Activity::Archive);
        let replaces = is_copy && !self.taken.is_empty();
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
