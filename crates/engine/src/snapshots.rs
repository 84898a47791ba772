//! The sequence numbers that live snapshots read at.
//!
//! The list pins no memory: flushes and compactions keep what the listed snapshots can see.

use siltdb_base::{id::SequenceNumber, sync::lock};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The registry of live snapshots.
///
/// # Invariants
/// 1. A number is in the list from before its snapshot is handed out until it is dropped.
/// 2. `retained` and `take` are ordered by the lock. A snapshot is either in the list that a
///    compaction captured, or it was taken later. Then it reads at or above the present number
///    captured with that list.
#[derive(Debug, Default)]
pub struct Snapshots {
    live: Mutex<BTreeMap<SequenceNumber, usize>>,
}

impl Snapshots {
    /// Registers a snapshot at the number that `present` returns under the registration lock.
    #[must_use]
    pub fn take(self: &Arc<Self>, present: impl FnOnce() -> SequenceNumber) -> LiveSnapshot {
        let mut live = lock(&self.live);
        let sequence = present();
        *live.entry(sequence).or_insert(0) += 1;
        LiveSnapshot { sequence, registry: Arc::clone(self) }
    }

    /// Every number that must stay readable, ascending: the live snapshots and the present.
    #[must_use]
    pub fn retained(&self, present: impl FnOnce() -> SequenceNumber) -> Vec<SequenceNumber> {
        let live = lock(&self.live);
        let present = present();
        let mut sequences: Vec<_> = live.keys().copied().collect();
        if sequences.last() != Some(&present) {
            sequences.push(present);
        }
        sequences
    }

    /// The number of live snapshots.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.live).values().sum()
    }
}

/// A registered snapshot. Dropping it ends its retention.
#[derive(Debug)]
pub struct LiveSnapshot {
    sequence: SequenceNumber,
    registry: Arc<Snapshots>,
}

impl LiveSnapshot {
    /// The sequence number that it reads at.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }
}

impl Drop for LiveSnapshot {
    fn drop(&mut self) {
        let mut live = lock(&self.registry.live);
        if let Some(count) = live.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.sequence);
            }
        }
    }
}

#[cfg(test)]
mod tests;
