//! The moments of the live snapshots, in parts that are locked one by one: threads begin and end
//! snapshots beside each other.
//!
//! It knows moments, not what must be kept for them.

use siltdb_base::{id::SequenceNumber, seeded_fault, sync::lock};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Parts of the list. Threads take them in turn, so that as many begin snapshots at once. A job
/// locks all of them, which is rare.
const PARTS: usize = 16;

/// What a live snapshot sees, in the order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SnapshotMoment {
    /// The last sequence number.
    pub(super) sequence: SequenceNumber,
    /// The time that decides expiry, in ms since 1970.
    pub(super) now_ms: u64,
}

/// How many snapshots of a part read at each moment.
#[derive(Debug, Default)]
pub(super) struct Part(BTreeMap<SnapshotMoment, usize>);

/// On cache lines of its own: a thread writes to its part for each snapshot.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Aligned(Mutex<Part>);

/// The live snapshots.
///
/// # Thread safety
/// Any thread may call anything. Lock order: the parts, ascending.
#[derive(Debug, Default)]
pub(super) struct LiveParts {
    parts: [Aligned; PARTS],
}

/// The index of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartIndex(usize);

impl PartIndex {
    /// The part of this thread, for the snapshots that it begins.
    #[inline]
    pub(super) fn of_this_thread() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static OF_THREAD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % PARTS;
        }
        Self(OF_THREAD.with(|index| *index))
    }
}

impl Part {
    /// Adds a snapshot.
    pub(super) fn add(&mut self, moment: SnapshotMoment) {
        *self.0.entry(moment).or_insert(0) += 1;
    }

    /// Removes a snapshot that was added.
    pub(super) fn remove(&mut self, moment: SnapshotMoment) {
        let count =
            self.0.get_mut(&moment).expect("a live snapshot is in the part it was added to");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&moment);
        }
    }
}

impl LiveParts {
    /// Locks a part.
    #[inline]
    pub(super) fn lock(&self, index: PartIndex) -> MutexGuard<'_, Part> {
        lock(&self.parts[index.0].0)
    }

    /// Locks all parts: no snapshot begins or ends meanwhile.
    pub(super) fn lock_all(&self) -> AllLive<'_> {
        AllLive(self.parts.each_ref().map(|part| lock(&part.0)))
    }
}

/// All live snapshots, locked.
#[derive(Debug)]
pub(super) struct AllLive<'a>([MutexGuard<'a, Part>; PARTS]);

impl AllLive<'_> {
    /// # Seeded faults
    /// `snapshots_of_other_threads_missed`: a job sees those of one part.
    fn moments(&self) -> impl Iterator<Item = &SnapshotMoment> {
        let seen = if seeded_fault!("snapshots_of_other_threads_missed") { 1 } else { PARTS };
        self.0.iter().take(seen).flat_map(|part| part.0.keys())
    }

    /// The newest number.
    pub(super) fn newest(&self) -> Option<SequenceNumber> {
        self.moments().map(|moment| moment.sequence).max()
    }

    /// The earliest time, in ms since 1970.
    pub(super) fn earliest_ms(&self) -> Option<u64> {
        self.moments().map(|moment| moment.now_ms).min()
    }

    /// The numbers, ascending, each once.
    pub(super) fn sequences(&self) -> Vec<SequenceNumber> {
        let mut sequences: Vec<_> = self.moments().map(|moment| moment.sequence).collect();
        sequences.sort_unstable();
        sequences.dedup();
        sequences
    }

    /// Whether a snapshot reads at `sequence`.
    pub(super) fn has(&self, sequence: SequenceNumber) -> bool {
        let at = |now_ms| SnapshotMoment { sequence, now_ms };
        self.0.iter().any(|part| part.0.range(at(0)..=at(u64::MAX)).next().is_some())
    }

    /// The number of snapshots.
    pub(super) fn count(&self) -> usize {
        self.0.iter().flat_map(|part| part.0.values()).sum()
    }
}
