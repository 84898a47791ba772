//! The commit hook of a family: which observers are told of its commits before readers can see
//! them.
//!
//! It runs between a commit's reservation and its publication, on the thread of the writer. While
//! no observer wants to be told, it costs a commit one relaxed load. What an observer does with a
//! commit is its own business; it can neither change nor refuse it.

use siltdb_base::{
    id::SequenceNumber,
    key::Entry,
    seeded_fault,
    sync::atomic::{AtomicU32, Ordering},
};
use std::{fmt, sync::Arc};

/// An observer of the commits of a family.
pub trait CommitObserver: fmt::Debug + Send + Sync {
    /// `entries` have their sequence numbers and are in the log and in the memtables. No reader
    /// sees them before this has returned.
    fn committing(&self, entries: &[Entry<'_>]);

    /// Tables with entries of this sequence number, which no commit has told, are in the version.
    /// No reader sees them before this has returned.
    fn ingesting(&self, sequence: SequenceNumber);
}

/// The bit of each observer that wants to be told.
///
/// On cache lines of their own: every write looks at them.
#[derive(Debug)]
#[repr(align(128))]
struct Wishes(AtomicU32);

impl Default for Wishes {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

/// Whether an observer wants to be told; held by the observer.
#[derive(Debug)]
pub struct Wish {
    wishes: Arc<Wishes>,
    bit: u32,
}

impl Default for Wish {
    /// A wish that no hook looks at.
    fn default() -> Self {
        Self { wishes: Arc::default(), bit: 1 }
    }
}

impl Wish {
    /// Whether writers tell. A writer looks once it has its sequence numbers, and before these are
    /// published. So an observer that sets the wish under the lock of the sequence numbers is told
    /// of every commit whose numbers come later.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Relaxed: it is the lock under which numbers are handed out that orders it.
        self.wishes.0.load(Ordering::Relaxed) & self.bit != 0
    }

    /// Has writers tell.
    pub fn set(&self) {
        self.wishes.0.fetch_or(self.bit, Ordering::Relaxed);
    }

    /// Has writers tell no longer.
    pub fn clear(&self) {
        self.wishes.0.fetch_and(!self.bit, Ordering::Relaxed);
    }
}

/// The observers of a family.
///
/// # Thread safety
/// Any thread may run it, beside others.
#[derive(Debug, Default)]
pub struct CommitHook {
    wishes: Arc<Wishes>,
    /// In the order of their bits.
    observers: Vec<Arc<dyn CommitObserver>>,
}

impl CommitHook {
    /// Adds an observer, which `make` makes of the wish that it gets; it is not set. At most 32.
    pub fn add<O: CommitObserver + 'static>(&mut self, make: impl FnOnce(Wish) -> O) -> Arc<O> {
        let bit = 1_u32
            .checked_shl(self.observers.len() as u32)
            .expect("a family has a handful of observers");
        let observer = Arc::new(make(Wish { wishes: Arc::clone(&self.wishes), bit }));
        self.observers.push(Arc::clone(&observer) as Arc<dyn CommitObserver>);
        observer
    }

    /// Tells the observers that want it of a commit.
    #[inline]
    pub fn run(&self, entries: &[Entry<'_>]) {
        // Relaxed: as in `Wish::is_set`.
        let wanted = self.wishes.0.load(Ordering::Relaxed);
        if wanted != 0 && !seeded_fault!("skip_commit_hook") {
            self.tell(wanted, entries);
        }
    }

    /// Tells all observers of ingested tables.
    pub fn run_ingest(&self, sequence: SequenceNumber) {
        if !seeded_fault!("skip_commit_hook") {
            self.observers.iter().for_each(|observer| observer.ingesting(sequence));
        }
    }

    #[cold]
    fn tell(&self, wanted: u32, entries: &[Entry<'_>]) {
        let is_wanted = |(bit, _): &(usize, _)| wanted >> bit & 1 == 1;
        for (_, observer) in self.observers.iter().enumerate().filter(is_wanted) {
            observer.committing(entries);
        }
    }
}

#[cfg(test)]
mod tests;
