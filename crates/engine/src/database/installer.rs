//! What an install needs of a database, and a sync of the log, which it records.
//!
//! It decides nothing. What it adds to its rooms is how they learn of each other: a change of
//! tables is a debt of writers and work for compactions.

use crate::{
    background::Background,
    backpressure::Backpressure,
    blobs::Blobs,
    catalog::{Catalog, branches::FamilyRole, family::FamilyData, lazy_family::LazyFamily},
    health::Health,
    kit::in_flight::CallInFlight,
    log::{Log, generation::Frozen},
};
use siltdb_base::{
    clock::ForwardClock,
    error::{Error, ErrorKind, Result},
    id::FamilyId,
    sync::lock,
};
use siltdb_tree::planning::strategy::is_quiet;
use std::sync::Arc;

/// The rooms that an edit changes, or that learn of it.
///
/// Above the engine it comes from a [`Writable`](crate::database::writable::Writable) alone.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Installer<'a> {
    /// Families, files and manifest.
    pub catalog: &'a Catalog,
    /// The blob files, which edits name and syncs of the log come after.
    pub blobs: &'a Arc<Blobs>,
    /// The log: an edit says how far it is synced, and which segments no opening needs.
    pub log: &'a Log,
    /// Whether the database may be written; poisoned if it is unknown whether an edit is durable.
    pub health: &'a Health,
    /// The clock, of which an edit keeps the latest time.
    pub time: &'a Arc<ForwardClock>,
    /// The debts of the levels that an edit changes.
    pub backpressure: &'a Backpressure,
    /// The families that may need a compaction after it.
    pub background: &'a Background,
}

impl Installer<'_> {
    /// Queues a frozen generation for its flush.
    pub fn freeze(&self, frozen: Frozen) {
        let mut queue = lock(&self.log.frozen);
        if let Some(before) = queue.back() {
            let ends = (before.last, frozen.last);
            assert!(before.number < frozen.number, "{before:?} would be flushed before {frozen:?}");
            assert!(
                ends.0 <= ends.1,
                "a generation up to {} would follow one up to {}",
                ends.1,
                ends.0
            );
        }
        queue.push_back(frozen);
        drop(queue);
        self.backpressure.update_at(0, self.log);
        self.background.work.raise();
    }

    /// Notes the debt of a family's levels, and that a compaction may be due. To be called after
    /// its tables have changed.
    pub fn note_changed(&self, family: &FamilyData) {
        // A base rests: a compaction would give it files of its own.
        if family.role == FamilyRole::Base {
            return;
        }
        let (view, options) = (family.tree.view(), family.tree.options());
        self.backpressure.note_levels(family.id, &view.version, &options);
        self.background.note_due(family.id);
    }

    /// Notes the debt of the levels of a family that is opened or new, and that a compaction may be
    /// due if its tables call for one. Garbage is looked for when all families are.
    pub fn note_stored(&self, family: &LazyFamily) {
        if family.role == FamilyRole::Base {
            return;
        }
        let (version, options) = (family.version(), family.options());
        self.backpressure.note_levels(family.id, &version, &options);
        if !is_quiet(&version, &options) {
            self.background.note_due(family.id);
        }
    }

    /// Notes that a family was dropped.
    pub fn note_dropped(&self, family: FamilyId) {
        self.backpressure.forget_levels(family);
        self.background.forget(family);
    }

    /// Runs `work`, which may change files, on a caller's thread. Closing waits until it ends. If
    /// it panics, its unfinished changes stay undone, so the database is poisoned.
    ///
    /// # Errors
    /// `Closed`, once the database is closing; the errors of `work`.
    pub fn at_work<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let call = self.background.in_flight.begin().ok_or_else(|| self.health.refusal())?;
        let mut at_work = AtWork { installer: self, is_done: false, _call: call };
        let result = work();
        at_work.is_done = true;
        result
    }

    /// Refuses all later writes because of `cause`, and wakes all waiting writers.
    pub fn fail(&self, cause: Error) {
        let _ = self.health.poison(cause);
        self.backpressure.room.raise();
    }
}

/// A running call of [`Installer::at_work`].
struct AtWork<'a> {
    installer: &'a Installer<'a>,
    /// The work has returned and did not panic.
    is_done: bool,
    /// Dropped last, so that a close that waits for the call finds the failure.
    _call: CallInFlight<'a>,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.installer.fail(Error::new(ErrorKind::Poisoned, "a job panicked"));
        }
    }
}
