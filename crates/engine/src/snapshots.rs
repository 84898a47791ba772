//! The sequence numbers that live snapshots read at, and the retention floor in force.
//!
//! The time of a snapshot is fixed too: what expires later than that of the oldest is kept.
//!
//! The list pins no memory: flushes and compactions keep what the listed snapshots can see, and
//! what can be seen from the floor on. It does not make a floor durable.
//!
//! A compaction with a filter is the exception. One that is under way when a snapshot is taken may
//! drop what the snapshot sees, because it does not know of it. So the list keeps the view that the
//! snapshot had of the family when it was taken.

mod live;
pub mod read_point;

use crate::blobs::PinnedBlobs;
use live::{LiveParts, Part, PartIndex, SnapshotMoment};
use read_point::ReadPoint;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_tree::read::view::View;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// The registry of live snapshots.
///
/// # Thread safety
/// Any thread may call anything. Lock order: the parts of `live`, ascending, then `known`.
///
/// # Invariants
/// 1. A number is in the list from before its snapshot is handed out until it is dropped.
/// 2. `retained` holds the locks of all parts, `take` that of one, and each reads the present
///    number under its locks. So a snapshot is either in the list that a compaction captured, or it
///    was taken later. Then it reads at or above the present number captured with that list.
/// 3. `take_at` reads at or above the floor, or at the present. Each job that captured its list
///    while the floor was in force keeps all from there on. Each that captured it before captured
///    a present number that is not above the floor.
/// 4. While there is a `Removal`, no snapshot and no floor begins. None that exists sees what is
///    being removed. A removal begins with all parts locked, and `take` looks for one with its own.
/// 5. A compaction with a filter is noted by `begin_filtering` before it captures the list. A
///    snapshot looks at `filtering` after it is in the list. So the compaction knows the snapshot,
///    or the snapshot keeps a view.
/// 6. The time of a snapshot is read under the lock. So a job that captured its list before has
///    captured a time that is not later, and what it drops has expired for the snapshot.
#[derive(Debug, Default)]
pub struct Snapshots {
    live: LiveParts,
    known: Mutex<Known>,
    /// Whether there is a removal; changed under `known`.
    is_removing: AtomicBool,
    /// A removal has ended.
    removed: Condvar,
    /// How many views are kept.
    kept: AtomicUsize,
}

/// What snapshots read of a family that was being filtered when they were taken.
#[derive(Clone)]
pub struct KeptView {
    /// Memtables and tables.
    pub view: Arc<View>,
    /// The blob files that they refer to, if there are any.
    pub blobs: Option<PinnedBlobs>,
}

impl fmt::Debug for KeptView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptView").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Known {
    /// How many compactions of a family show values to a filter.
    filtering: BTreeMap<FamilyId, usize>,
    /// What snapshots read of families that were being filtered when they were taken.
    views: BTreeMap<(SequenceNumber, FamilyId), KeptView>,
    /// The retention floor.
    floor: Option<SequenceNumber>,
    /// How many removals are being installed.
    removals: usize,
}

impl Known {
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

    /// Removes the views that were kept for the snapshots at `sequence`.
    fn take_views(&mut self, sequence: SequenceNumber) -> Vec<KeptView> {
        let all = (sequence, FamilyId(0))..=(sequence, FamilyId(u32::MAX));
        let kept: Vec<_> = self.views.range(all).map(|(key, _)| *key).collect();
        kept.iter().filter_map(|key| self.views.remove(key)).collect()
    }
}

/// What must stay readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The live snapshots and the present, ascending.
    pub sequences: Vec<SequenceNumber>,
    /// The newest live snapshot, which may be at the present.
    pub newest_snapshot: Option<SequenceNumber>,
    /// The retention floor: every number from there on.
    pub all_from: Option<SequenceNumber>,
    /// The time by which every reader sees an entry as expired, in ms since 1970.
    pub earliest_ms: u64,
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

    /// The part of this thread, once no removal is being installed.
    #[inline]
    fn part_without_removals(&self, index: PartIndex) -> MutexGuard<'_, Part> {
        loop {
            let part = self.live.lock(index);
            // Relaxed: the lock of the part orders it, by (4).
            if !self.is_removing.load(Ordering::Relaxed) {
                return part;
            }
            drop(part);
            drop(self.without_removals());
        }
    }

    /// The newest number that a live snapshot reads at.
    #[must_use]
    pub(crate) fn newest(&self) -> Option<SequenceNumber> {
        self.live.lock_all().newest()
    }

    /// Begins to remove data of which `oldest` is the oldest sequence number, and which readers at
    /// the present still see. `None`, if a live snapshot or the retention floor sees some of it.
    ///
    /// The removal must be installed soon. Its thread must not begin a snapshot meanwhile, and no
    /// thread may that holds `manifest_io`.
    pub(crate) fn begin_removal(&self, oldest: SequenceNumber) -> Option<Removal<'_>> {
        let live = self.live.lock_all();
        let mut known = lock(&self.known);
        let is_seen = known.floor.is_some() || live.newest().is_some_and(|newest| newest >= oldest);
        if is_seen && !seeded_fault!("fifo_drops_under_a_snapshot") {
            return None;
        }
        known.removals += 1;
        self.is_removing.store(true, Ordering::Relaxed);
        Some(Removal { registry: self })
    }

    /// Registers a snapshot at the number that `present` and the time in ms that `now_ms` returns
    /// under the registration lock.
    #[must_use]
    pub fn take(
        self: &Arc<Self>,
        present: impl FnOnce() -> SequenceNumber,
        now_ms: impl FnOnce() -> u64,
    ) -> LiveSnapshot {
        let index = PartIndex::of_this_thread();
        let mut part = self.part_without_removals(index);
        let sequence = present();
        let moment = SnapshotMoment { sequence, now_ms: now_ms() };
        part.add(moment);
        LiveSnapshot { moment, part: index, registry: Arc::clone(self) }
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
        now_ms: impl FnOnce() -> u64,
    ) -> Result<LiveSnapshot> {
        let index = PartIndex::of_this_thread();
        let mut part = self.part_without_removals(index);
        lock(&self.known).check_kept(sequence, present())?;
        let moment = SnapshotMoment { sequence, now_ms: now_ms() };
        part.add(moment);
        Ok(LiveSnapshot { moment, part: index, registry: Arc::clone(self) })
    }

    /// Every number that must stay readable, and the time as of which, when the clock shows what
    /// `settled_ms` returns.
    #[must_use]
    pub fn retained(
        &self,
        present: impl FnOnce() -> SequenceNumber,
        settled_ms: impl FnOnce() -> u64,
    ) -> Retained {
        let live = self.live.lock_all();
        let known = lock(&self.known);
        let earliest_ms = settled_ms().min(live.earliest_ms().unwrap_or(u64::MAX));
        let present = present();
        let mut sequences = live.sequences();
        let newest_snapshot = sequences.last().copied();
        if sequences.last() != Some(&present) {
            sequences.push(present);
        }
        Retained { sequences, newest_snapshot, all_from: known.floor, earliest_ms }
    }

    /// Notes a compaction of `family` that shows values to a filter, until the guard is dropped. To
    /// be called before [`Snapshots::retained`] for this compaction.
    pub(crate) fn begin_filtering(&self, family: FamilyId) -> Filtering<'_> {
        *lock(&self.known).filtering.entry(family).or_insert(0) += 1;
        Filtering { registry: self, family }
    }

    /// The families of which a compaction shows values to a filter.
    pub(crate) fn filtering(&self) -> Vec<FamilyId> {
        lock(&self.known).filtering.keys().copied().collect()
    }

    /// Keeps `view` as what all snapshots at the number of `snapshot` read of a family, unless
    /// another one is kept.
    pub(crate) fn keep_view(&self, snapshot: &LiveSnapshot, family: FamilyId, view: KeptView) {
        let mut known = lock(&self.known);
        known.views.entry((snapshot.moment.sequence, family)).or_insert(view);
        // Release: pairs with `kept_view`.
        self.kept.store(known.views.len(), Ordering::Release);
    }

    /// The view by which all snapshots at `sequence` read a family, if one is kept.
    #[inline]
    pub(crate) fn kept_view(&self, sequence: SequenceNumber, family: FamilyId) -> Option<KeptView> {
        // Acquire: a snapshot that keeps a view is handed out after that is kept.
        if self.kept.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.known).views.get(&(sequence, family)).cloned()
    }

    /// Drops the views that were kept for the snapshots at `sequence`, if there are none any more.
    #[cold]
    fn drop_views(&self, sequence: SequenceNumber) {
        let live = self.live.lock_all();
        if live.has(sequence) {
            return;
        }
        let mut known = lock(&self.known);
        let views = known.take_views(sequence);
        self.kept.store(known.views.len(), Ordering::Release);
        drop((known, live));
        // The memory of a view may be much, so it is freed without the locks.
        drop(views);
    }

    /// The number of live snapshots.
    #[must_use]
    pub fn count(&self) -> usize {
        self.live.lock_all().count()
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
        let mut known = lock(&self.known);
        let before = known.floor;
        let is_kept = floor.is_none_or(|floor| before.is_none_or(|before| before <= floor));
        assert!(is_kept, "history from {floor:?} on would be promised, and {before:?} was kept");
        known.floor = floor;
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
        let mut known = lock(&self.registry.known);
        known.removals -= 1;
        self.registry.is_removing.store(known.removals > 0, Ordering::Relaxed);
        drop(known);
        self.registry.removed.notify_all();
    }
}

/// A compaction that shows values to a filter.
#[derive(Debug)]
#[must_use]
pub(crate) struct Filtering<'a> {
    registry: &'a Snapshots,
    family: FamilyId,
}

impl Drop for Filtering<'_> {
    fn drop(&mut self) {
        let mut known = lock(&self.registry.known);
        if let Some(count) = known.filtering.get_mut(&self.family) {
            *count -= 1;
            if *count == 0 {
                known.filtering.remove(&self.family);
            }
        }
    }
}

/// A registered snapshot. Dropping it ends its retention.
#[derive(Debug)]
pub struct LiveSnapshot {
    moment: SnapshotMoment,
    /// The part of the list that it is in. Another thread may drop it.
    part: PartIndex,
    registry: Arc<Snapshots>,
}

impl LiveSnapshot {
    /// The sequence number that it reads at.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.moment.sequence
    }

    /// Where it reads.
    #[must_use]
    pub fn point(&self) -> ReadPoint {
        let SnapshotMoment { sequence, now_ms } = self.moment;
        ReadPoint { sequence, now_ms, first_expiry: None }
    }
}

impl Drop for LiveSnapshot {
    fn drop(&mut self) {
        self.registry.live.lock(self.part).remove(self.moment);
        // Acquire: this thread, or one that had the snapshot before, has kept its views.
        if self.registry.kept.load(Ordering::Acquire) > 0 {
            self.registry.drop_views(self.moment.sequence);
        }
    }
}

#[cfg(test)]
mod tests;
