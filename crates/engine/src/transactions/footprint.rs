//! The read footprint of a transaction: keys and ranges that must not have changed when it commits.
//!
//! This module remembers them; the families' trees tell whether they changed.

use crate::{
    catalog::family::FamilyData,
    lock_state::lock_table::{LockMode, LockRequest, LockTarget, RangeSet, shown},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, SequenceNumber},
    seeded_fault,
    slice::Slice,
    sync::lock,
};
use siltdb_tree::read::{changed::Since, view::View, visible::bounds::Bounds};
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The size of keys from which on repeated ones are removed, in bytes.
const DEDUPLICATED_BYTES_MIN: usize = 4 << 10;

/// The number of ranges from which on those whose readers are gone are joined.
const JOINED_MIN: usize = 32;

/// Keys, one after the other in one buffer.
#[derive(Clone, Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    /// The end of each key.
    ends: Vec<usize>,
    /// Repeated keys are removed at this size, in bytes.
    deduplicate_at: usize,
}

impl Keys {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    fn add(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        if self.memory_bytes() >= self.deduplicate_at.max(DEDUPLICATED_BYTES_MIN) {
            self.deduplicate();
        }
    }

    #[cold]
    fn deduplicate(&mut self) {
        let mut keys: Vec<_> = self.iter().collect();
        keys.sort_unstable();
        keys.dedup();
        let mut unique = Self::default();
        for key in keys {
            unique.bytes.extend_from_slice(key);
            unique.ends.push(unique.bytes.len());
        }
        unique.deduplicate_at = unique.memory_bytes() * 2;
        *self = unique;
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}

/// A range that a reader has covered so far. It grows with the reads.
#[derive(Clone, Debug)]
pub struct CoveredRange {
    bounds: Arc<Mutex<Option<Bounds>>>,
    /// The size of the bounds of all ranges of the footprint, in bytes.
    bytes: Arc<AtomicUsize>,
}

impl CoveredRange {
    /// The range, if it was set.
    #[must_use]
    pub fn bounds(&self) -> Option<Bounds> {
        lock(&self.bounds).clone()
    }

    /// Replaces the range by `bounds`.
    pub fn set(&self, bounds: Bounds) {
        self.change(|range| *range = Some(bounds));
    }

    /// Raises the upper bound to `upper`, if it is lower; `None` means no bound.
    pub fn extend_up(&self, upper: Option<Slice>) {
        self.change(|range| {
            if let Some(bounds) = range
                && bounds.upper.is_some()
                && (upper.is_none() || bounds.upper < upper)
            {
                bounds.upper = upper;
            }
        });
    }

    /// Lowers the lower bound to `lower`, if it is higher; `None` means no bound.
    pub fn extend_down(&self, lower: Option<Slice>) {
        self.change(|range| {
            if let Some(bounds) = range
                && bounds.lower > lower
            {
                bounds.lower = lower;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Option<Bounds>)) {
        let mut range = lock(&self.bounds);
        let before = key_bytes(range.as_ref());
        change(&mut range);
        // Relaxed: a counter that carries no data with it.
        self.bytes.fetch_add(key_bytes(range.as_ref()), Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }
}

fn key_bytes(bounds: Option<&Bounds>) -> usize {
    let bytes = |key: &Option<Slice>| key.as_ref().map_or(0, |key| key.len());
    bounds.map_or(0, |bounds| bytes(&bounds.lower) + bytes(&bounds.upper))
}

/// The footprint in one family.
#[derive(Debug)]
struct FamilyFootprint {
    family: Arc<FamilyData>,
    keys: Keys,
    /// What readers cover that may still move, and what was not joined yet.
    ranges: Vec<CoveredRange>,
    /// What readers covered that are gone: ranges that touch are one.
    joined: RangeSet,
    /// Ranges are joined at this number.
    join_at: usize,
}

impl FamilyFootprint {
    fn new(family: &Arc<FamilyData>) -> Self {
        Self {
            family: Arc::clone(family),
            keys: Keys::default(),
            ranges: Vec::new(),
            joined: RangeSet::default(),
            join_at: JOINED_MIN,
        }
    }

    /// Joins the ranges whose readers are gone.
    #[cold]
    fn join(&mut self) {
        let joined = &mut self.joined;
        self.ranges.retain(|range| {
            // Only a reader and the footprint have it, and only the footprint could share it.
            let is_over = Arc::strong_count(&range.bounds) == 1;
            if is_over {
                range
                    .change(|bounds| bounds.take().iter().for_each(|bounds| joined.insert(bounds)));
            }
            !is_over
        });
        self.join_at = JOINED_MIN.max(2 * self.ranges.len());
    }

    /// All that readers have covered so far.
    fn covered(&self) -> RangeSet {
        let mut covered = self.joined.clone();
        let ranges = self.ranges.iter().filter_map(CoveredRange::bounds);
        ranges.for_each(|bounds| covered.insert(&bounds));
        covered
    }
}

/// The keys and ranges that a transaction has read.
#[derive(Debug, Default)]
pub struct Footprint {
    families: Vec<FamilyFootprint>,
    range_key_bytes: Arc<AtomicUsize>,
}

impl Footprint {
    fn of(&mut self, family: &Arc<FamilyData>) -> &mut FamilyFootprint {
        let index = match self.families.iter().position(|known| known.family.id == family.id) {
            Some(index) => index,
            None => {
                self.families.push(FamilyFootprint::new(family));
                self.families.len() - 1
            }
        };
        &mut self.families[index]
    }

    /// Adds a key.
    pub fn add_key(&mut self, family: &Arc<FamilyData>, key: &[u8]) {
        self.of(family).keys.add(key);
    }

    /// Adds a range that covers no key yet.
    pub fn add_range(&mut self, family: &Arc<FamilyData>) -> CoveredRange {
        let range =
            CoveredRange { bounds: Arc::default(), bytes: Arc::clone(&self.range_key_bytes) };
        let footprint = self.of(family);
        if footprint.ranges.len() >= footprint.join_at {
            footprint.join();
        }
        footprint.ranges.push(range.clone());
        range
    }

    /// The approximate memory of the footprint, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let of = |family: &FamilyFootprint| {
            let ranges = family.ranges.len() * size_of::<(CoveredRange, Bounds)>();
            family.keys.memory_bytes() + ranges + family.joined.memory_bytes()
        };
        let range_key_bytes = self.range_key_bytes.load(Ordering::Relaxed);
        self.families.iter().map(of).sum::<usize>() + range_key_bytes
    }

    /// Shared locks on all of it.
    #[must_use]
    pub fn lock_requests(&self) -> Vec<LockRequest> {
        let mut requests = Vec::new();
        for footprint in &self.families {
            let mut add = |target| {
                let flag = Arc::clone(&footprint.family.lock_flag);
                requests.push(LockRequest { flag, target, mode: LockMode::Shared });
            };
            footprint.keys.iter().for_each(|key| add(LockTarget::Key(Slice::copy_from(key))));
            footprint.covered().iter().for_each(|range| add(LockTarget::Range(range)));
        }
        requests
    }

    /// Checks that no family that was read has been dropped, or is being dropped. Cost: two loads
    /// for each.
    ///
    /// # Errors
    /// `Conflict`.
    ///
    /// # Seeded faults
    /// `dropped_families_not_validated`: what was read of a family that is gone stays valid.
    pub fn check_families(&self) -> Result<()> {
        let is_dropped = |read: &&FamilyFootprint| {
            !seeded_fault!("dropped_families_not_validated") && read.family.is_going()
        };
        match self.families.iter().find(is_dropped) {
            None => Ok(()),
            Some(read) => {
                let (name, id) = (read.family.name(), read.family.id);
                let message = format!("family {name:?} ({id}), which was read, was dropped");
                Err(Error::new(ErrorKind::Conflict, message).with_hint("run the transaction again"))
            }
        }
    }

    /// Checks that nothing in the footprint changed within `since`. Cost: reads memory, and a table
    /// that was flushed since the snapshot.
    ///
    /// # Errors
    /// `Conflict`, with family and key or range; failures of reading a table.
    pub fn check(&self, since: Since) -> Result<()> {
        self.check_families()?;
        for footprint in &self.families {
            let family = &footprint.family;
            let view = family.tree.view();
            for key in footprint.keys.iter() {
                check_key(&view, family, key, since)?;
            }
            for bounds in footprint.covered().iter() {
                check_range(&view, family, &bounds, since)?;
            }
        }
        Ok(())
    }
}

/// Checks that `key` of `family` did not change after `snapshot`.
///
/// # Errors
/// As [`Footprint::check`].
pub fn check_unchanged(family: &FamilyData, key: &[u8], snapshot: SequenceNumber) -> Result<()> {
    let since = Since { snapshot, after: snapshot, upto: SequenceNumber::MAX };
    check_key(&family.tree.view(), family, key, since)
}

/// Checks that `key` did not change within `since`.
///
/// # Errors
/// As [`Footprint::check`].
pub(crate) fn check_key(view: &View, family: &FamilyData, key: &[u8], since: Since) -> Result<()> {
    match view.key_changed(key, since)? {
        true => Err(conflict(family, format_args!("the key {}", shown(key)))),
        false => Ok(()),
    }
}

/// Checks that nothing within `bounds` changed within `since`.
///
/// # Errors
/// As [`Footprint::check`].
pub fn check_range(view: &View, family: &FamilyData, bounds: &Bounds, since: Since) -> Result<()> {
    if !view.range_changed(bounds, since)? {
        return Ok(());
    }
    let bound = |bound: &Option<Slice>| bound.as_ref().map_or("..".into(), |key| shown(key));
    let (lower, upper) = (bound(&bounds.lower), bound(&bounds.upper));
    Err(conflict(family, format_args!("a key from {lower} to {upper}")))
}

#[cold]
fn conflict(family: &FamilyData, what: fmt::Arguments<'_>) -> Error {
    let (name, id): (Arc<str>, FamilyId) = (family.name(), family.id);
    let message = format!("{what} of family {name:?} ({id}) was changed by another commit");
    Error::new(ErrorKind::Conflict, message).with_hint("run the transaction again")
}

#[cfg(test)]
mod tests;
