//! The moment at which a snapshot reads: a place in the order of commits, and a time.
//!
//! The time decides expiry. It is fixed when the snapshot begins, so that nothing expires under it.

use siltdb_base::{clock::Clock, id::SequenceNumber};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Where a snapshot reads.
#[derive(Clone, Debug)]
pub struct ReadPoint {
    /// The last sequence number that it sees.
    pub sequence: SequenceNumber,
    /// The time that decides expiry, in ms since 1970.
    pub now_ms: u64,
    /// Where the reader notes when what it sees expires.
    pub first_expiry: Option<Arc<FirstExpiry>>,
}

impl ReadPoint {
    /// The same, whose readers note in `first_expiry` when what they see expires.
    #[must_use]
    pub fn noting(self, first_expiry: &Arc<FirstExpiry>) -> Self {
        Self { first_expiry: Some(Arc::clone(first_expiry)), ..self }
    }

    /// A clock that stands still at the time of this point. `clock` takes its notes.
    #[must_use]
    pub(crate) fn clock(&self, clock: &Arc<dyn Clock>) -> StillClock {
        let first_expiry = self.first_expiry.clone();
        StillClock { now_ms: self.now_ms, clock: Arc::clone(clock), first_expiry }
    }
}

/// When the first of the values expires that a transaction has seen.
#[derive(Debug)]
pub struct FirstExpiry {
    at_ms: AtomicU64,
}

impl Default for FirstExpiry {
    fn default() -> Self {
        Self { at_ms: AtomicU64::new(u64::MAX) }
    }
}

impl FirstExpiry {
    fn note_expiry(&self, expiry_ms: u64) {
        // Relaxed: a time carries no other data with it.
        self.at_ms.fetch_min(expiry_ms, Ordering::Relaxed);
    }

    /// Takes over what `other` has noted.
    pub fn note(&self, other: &Self) {
        if let Some(expiry_ms) = other.at_ms() {
            self.note_expiry(expiry_ms);
        }
    }

    /// When the first value expires, in ms since 1970; `None` if no value was seen that expires.
    #[must_use]
    pub fn at_ms(&self) -> Option<u64> {
        // Relaxed: as in `note_expiry`.
        let first = self.at_ms.load(Ordering::Relaxed);
        (first != u64::MAX).then_some(first)
    }
}

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct StillClock {
    now_ms: u64,
    /// The clock that moves on, and takes the notes.
    clock: Arc<dyn Clock>,
    first_expiry: Option<Arc<FirstExpiry>>,
}

impl Clock for StillClock {
    fn wall_ms(&self) -> u64 {
        self.now_ms
    }

    fn saw_expired(&self, expiry_ms: u64) {
        self.clock.saw_expired(expiry_ms);
    }

    fn saw_unexpired(&self, expiry_ms: u64) {
        if let Some(first_expiry) = &self.first_expiry {
            first_expiry.note_expiry(expiry_ms);
        }
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {}
}
