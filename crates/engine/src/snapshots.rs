//! The sequence numbers that live snapshots read at, and the retention floor in force.
//!
//! The list pins no memory: flushes and compactions keep what the listed snapshots can see, and
//! what can be seen from the floor on. It does not make a floor durable.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    sync::lock,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// The registry of live snapshots.
///
/// # Invariants
/// 1. A number is in the list from before its snapshot is handed out until it is dropped.
/// 2. `retained` and `take` are ordered by the lock. A snapshot is either in the list that a
///    compaction captured, or it was taken later. Then it reads at or above the present number
///    captured with that list.
/// 3. `take_at` reads at or above the floor, or at the present. Each job that captured its list
///    while the floor was in force keeps all from there on. Each that captured it before captured
///    a present number that is not above the floor.
/// 4. While there is a [`Removal`], no snapshot and no floor begins. None that exists sees what is
///    being removed.
#[derive(Debug, Default)]
pub struct Snapshots {
    known: Mutex<Known>,
    /// A removal has ended.
    removed: Condvar,
}

#[derive(Debug, Default)]
struct Known {
    /// How many snapshots read at each number.
    live: BTreeMap<SequenceNumber, usize>,
    /// The retention floor.
    floor: Option<SequenceNumber>,
    /// How many removals are being installed.
    removals: usize,
}

impl Known {
    fn newest(&self) -> Option<SequenceNumber> {
        self.live.last_key_value().map(|(newest, _)| *newest)
    }

    /// Checks that the state after `sequence` is kept.
    fn check_kept(&self, sequence: SequenceNumber, present: SequenceNumber) -> Result<()> {
        if sequence > present {
            return Err(Error::invalid("no commit has this sequence number yet")
                .with_mismatch(format_args!("at most {}", present.0), sequence.0));
        }
        let (oldest, message) = match self.floor {
            Some(floor) => (floor, "the sequence number is below the retention floor"),
            None => (present, "history is not kept, because there is no retention floor"),
        };
        if sequence < oldest {
            return Err(Error::new(ErrorKind::NotFound, message)
                .with_mismatch(format_args!("at least {}", oldest.0), sequence.0));
        }
        Ok(())
    }

    fn register(&mut self, sequence: SequenceNumber, registry: &Arc<Snapshots>) -> LiveSnapshot {
        *self.live.entry(sequence).or_insert(0) += 1;
        LiveSnapshot { sequence, registry: Arc::clone(registry) }
    }
}

/// What must stay readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The live snapshots and the present, ascending.
    pub sequences: Vec<SequenceNumber>,
    /// The retention floor: every number from there on.
    pub all_from: Option<SequenceNumber>,
}

impl Snapshots {
    /// The registry once no removal is being installed, which takes about a sync of the manifest.
    fn without_removals(&self) -> MutexGuard<'_, Known> {
        let mut known = lock(&self.known);
        while known.removals > 0 {
            known = self.removed.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        known
    }

    /// The newest number that a live snapshot reads at.
    #[must_use]
    pub(crate) fn newest(&self) -> Option<SequenceNumber> {
        lock(&self.known).newest()
    }

    /// Begins to remove data of which `oldest` is the oldest sequence number, and which readers at
    /// the present still see. `None`, if a live snapshot or the retention floor sees some of it.
    ///
    /// The removal must be installed soon. Its thread must not begin a snapshot meanwhile, and no
    /// thread may that holds `manifest_io`.
    pub(crate) fn begin_removal(&self, oldest: SequenceNumber) -> Option<Removal<'_>> {
        let mut known = lock(&self.known);
        let is_seen =
            known.floor.is_some() || known.newest().is_some_and(|newest| newest >= oldest);
        if is_seen && !cfg!(seeded_fault = "fifo_drops_under_a_snapshot") {
            return None;
        }
        known.removals += 1;
        Some(Removal { registry: self })
    }

    /// Registers a snapshot at the number that `present` returns under the registration lock.
    #[must_use]
    pub fn take(self: &Arc<Self>, present: impl FnOnce() -> SequenceNumber) -> LiveSnapshot {
        let mut known = self.without_removals();
        let sequence = present();
        known.register(sequence, self)
    }

    /// Registers a snapshot at `sequence`, of which the state is still kept.
    ///
    /// # Errors
    /// `NotFound`, if it is below the retention floor, or below the present without a floor;
    /// `InvalidArgument`, if it is above the present.
    pub fn take_at(
        self: &Arc<Self>,
        sequence: SequenceNumber,
        present: impl FnOnce() -> SequenceNumber,
    ) -> Result<LiveSnapshot> {
        let mut known = self.without_removals();
        known.check_kept(sequence, present())?;
        Ok(known.register(sequence, self))
    }

    /// Every number that must stay readable.
    #[must_use]
    pub fn retained(&self, present: impl FnOnce() -> SequenceNumber) -> Retained {
        let known = lock(&self.known);
        let present = present();
        let mut sequences: Vec<_> = known.live.keys().copied().collect();
        if sequences.last() != Some(&present) {
            sequences.push(present);
        }
        Retained { sequences, all_from: known.floor }
    }

    /// The number of live snapshots.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.known).live.values().sum()
    }

    /// The retention floor in force.
    #[must_use]
    pub fn floor(&self) -> Option<SequenceNumber> {
        lock(&self.known).floor
    }

    /// Checks a new floor, `wanted` or the present, and returns its number. If there is no floor,
    /// it is in force from now on: jobs keep everything from it on. A higher one takes
    /// [`Snapshots::set_floor`].
    ///
    /// # Errors
    /// As [`Snapshots::take_at`].
    pub fn begin_floor(
        &self,
        wanted: Option<SequenceNumber>,
        present: impl FnOnce() -> SequenceNumber,
    ) -> Result<SequenceNumber> {
        let mut known = self.without_removals();
        let present = present();
        let number = match wanted {
            Some(wanted) => {
                known.check_kept(wanted, present)?;
                wanted
            }
            // A recovery that lost commits may have left the floor above the present.
            None => known.floor.map_or(present, |floor| floor.max(present)),
        };
        known.floor.get_or_insert(number);
        Ok(number)
    }

    /// Puts another floor in force, which must be durable, or none.
    pub fn set_floor(&self, floor: Option<SequenceNumber>) {
        lock(&self.known).floor = floor;
    }
}

/// A removal of data that readers at the present see. While it lives, no snapshot begins.
#[derive(Debug)]
#[must_use]
pub(crate) struct Removal<'a> {
    registry: &'a Snapshots,
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        lock(&self.registry.known).removals -= 1;
        self.registry.removed.notify_all();
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
        let mut known = lock(&self.registry.known);
        if let Some(count) = known.live.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                known.live.remove(&self.sequence);
            }
        }
    }
}

#[cfg(test)]
mod tests;
