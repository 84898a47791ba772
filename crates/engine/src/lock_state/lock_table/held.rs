//! The locks that are held: by family for those who ask, and by owner for the release.

use crate::lock_state::lock_table::{
    range_set::RangeSet,
    request::{LockFlag, LockMode, LockOwner, LockRequest, LockTarget},
};
use siltdb_base::{id::FamilyId, slice::Slice};
use siltdb_tree::read::visible::bounds::Bounds;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The holders of a key: several shared ones or one exclusive one.
#[derive(Debug)]
struct KeyLock {
    mode: LockMode,
    owners: Vec<LockOwner>,
}

/// The ranges of one owner in one family.
#[derive(Debug, Default)]
struct OwnRanges {
    shared: RangeSet,
    exclusive: RangeSet,
}

impl OwnRanges {
    fn insert(&mut self, bounds: &Bounds, mode: LockMode) {
        match mode {
            LockMode::Shared => self.shared.insert(bounds),
            LockMode::Exclusive => self.exclusive.insert(bounds),
        }
    }

    fn memory_bytes(&self) -> usize {
        self.shared.memory_bytes() + self.exclusive.memory_bytes()
    }

    fn add_all(&mut self, other: &Self) {
        other.shared.iter().for_each(|bounds| self.shared.insert(&bounds));
        other.exclusive.iter().for_each(|bounds| self.exclusive.insert(&bounds));
    }
}

/// The locks of one family.
#[derive(Debug)]
struct FamilyLocks {
    flag: Arc<LockFlag>,
    /// All owners that were granted something.
    owners: BTreeSet<LockOwner>,
    keys: BTreeMap<Slice, KeyLock>,
    ranges: BTreeMap<LockOwner, OwnRanges>,
}

impl FamilyLocks {
    fn new(flag: &Arc<LockFlag>) -> Self {
        Self {
            flag: Arc::clone(flag),
            owners: BTreeSet::new(),
            keys: BTreeMap::new(),
            ranges: BTreeMap::new(),
        }
    }

    /// Adds a key that nothing blocks. Returns whether the owner did not hold it before.
    fn add_key(&mut self, owner: LockOwner, key: &Slice, mode: LockMode) -> bool {
        let new = || KeyLock { mode, owners: Vec::new() };
        let lock = self.keys.entry(key.clone()).or_insert_with(new);
        if mode == LockMode::Exclusive {
            lock.mode = LockMode::Exclusive;
        }
        let is_new = !lock.owners.contains(&owner);
        if is_new {
            lock.owners.push(owner);
        }
        is_new
    }

    fn remove_key(&mut self, owner: LockOwner, key: &Slice) {
        let Some(lock) = self.keys.get_mut(key) else { return };
        lock.owners.retain(|holder| *holder != owner);
        if lock.owners.is_empty() {
            self.keys.remove(key);
        }
    }
}

/// The keys of one owner in one family, each once.
#[derive(Debug, Default)]
struct OwnKeys {
    keys: Vec<Slice>,
    bytes: usize,
}

/// All locks that are held.
#[derive(Debug, Default)]
pub struct Held {
    families: BTreeMap<FamilyId, FamilyLocks>,
    owners: BTreeMap<LockOwner, BTreeMap<FamilyId, OwnKeys>>,
}

impl Held {
    /// Whether `owner` was granted anything.
    #[must_use]
    pub fn has(&self, owner: LockOwner) -> bool {
        self.owners.contains_key(&owner)
    }

    /// The other owners whose locks conflict with a request, some more than once.
    ///
    /// Cost: a search for the keys, and one for each owner of ranges in the family.
    pub fn blockers<'a>(
        &'a self,
        owner: Option<LockOwner>,
        request: &'a LockRequest,
    ) -> impl Iterator<Item = LockOwner> + 'a {
        let LockRequest { flag, target, mode } = request;
        let locks = self.families.get(&flag.family()).zip(target.span());
        locks.into_iter().flat_map(move |(locks, span)| {
            let keys = locks.keys.range::<[u8], _>(span).map(|(_, lock)| lock);
            let conflicting = keys.filter(|lock| mode.conflicts(lock.mode));
            let of_keys = conflicting.flat_map(|lock| lock.owners.iter().copied());
            let ranges = locks.ranges.iter().filter(move |(_, ranges)| {
                ranges.exclusive.overlaps(span)
                    || *mode == LockMode::Exclusive && ranges.shared.overlaps(span)
            });
            let others = of_keys.chain(ranges.map(|(owner, _)| *owner));
            others.filter(move |other| Some(*other) != owner)
        })
    }

    /// Adds locks that nothing blocks.
    pub fn grant(&mut self, owner: LockOwner, requests: &[LockRequest]) {
        let own = self.owners.entry(owner).or_default();
        for LockRequest { flag, target, mode } in requests {
            let locks = self.families.entry(flag.family());
            let locks = locks.or_insert_with(|| FamilyLocks::new(flag));
            locks.owners.insert(owner);
            let own = own.entry(flag.family()).or_default();
            match target {
                LockTarget::Range(bounds) => {
                    locks.ranges.entry(owner).or_default().insert(bounds, *mode);
                }
                LockTarget::Key(key) => {
                    if locks.add_key(owner, key, *mode) {
                        own.bytes += size_of::<(Slice, KeyLock, Slice)>() + key.len();
                        own.keys.push(key.clone());
                    }
                }
            }
        }
    }

    /// Removes all locks of `owner`. Returns whether it had any.
    pub fn release(&mut self, owner: LockOwner) -> bool {
        let Some(families) = self.owners.remove(&owner) else { return false };
        for (family, own) in families {
            let Some(locks) = self.families.get_mut(&family) else { continue };
            own.keys.iter().for_each(|key| locks.remove_key(owner, key));
            locks.ranges.remove(&owner);
            locks.owners.remove(&owner);
            if locks.owners.is_empty() {
                locks.flag.clear();
                self.families.remove(&family);
            }
        }
        true
    }

    /// Moves all locks of one owner to another.
    pub fn hand_over(&mut self, from: LockOwner, to: LockOwner) {
        assert!(!self.has(to), "locks would be added to those that {to:?} has");
        let moved = self.owners.remove(&from).unwrap_or_default();
        let target = self.owners.entry(to).or_default();
        for (family, own) in moved {
            let Some(locks) = self.families.get_mut(&family) else { continue };
            locks.owners.remove(&from);
            locks.owners.insert(to);
            let target = target.entry(family).or_default();
            for key in own.keys {
                let Some(lock) = locks.keys.get_mut(&key) else { continue };
                lock.owners.retain(|owner| *owner != from);
                if !lock.owners.contains(&to) {
                    lock.owners.push(to);
                    target.keys.push(key);
                }
            }
            target.bytes += own.bytes;
            if let Some(ranges) = locks.ranges.remove(&from) {
                locks.ranges.entry(to).or_default().add_all(&ranges);
            }
        }
    }

    /// The locks of `owner`.
    #[must_use]
    pub fn of(&self, owner: LockOwner) -> Vec<LockRequest> {
        let mut requests = Vec::new();
        for (family, own) in self.owners.get(&owner).into_iter().flatten() {
            let Some(locks) = self.families.get(family) else { continue };
            let mut add = |target, mode| {
                requests.push(LockRequest { flag: Arc::clone(&locks.flag), target, mode });
            };
            for key in &own.keys {
                if let Some(lock) = locks.keys.get(key) {
                    add(LockTarget::Key(key.clone()), lock.mode);
                }
            }
            if let Some(OwnRanges { shared, exclusive }) = locks.ranges.get(&owner) {
                shared.iter().for_each(|range| add(LockTarget::Range(range), LockMode::Shared));
                let ranges = exclusive.iter().map(LockTarget::Range);
                ranges.for_each(|range| add(range, LockMode::Exclusive));
            }
        }
        requests
    }

    /// The approximate memory of the locks of `owner`, in bytes.
    ///
    /// Cost: a search for each family that it locked.
    #[must_use]
    pub fn memory_bytes(&self, owner: LockOwner) -> usize {
        let families = self.owners.get(&owner).into_iter().flatten();
        let of = |(family, own): (&FamilyId, &OwnKeys)| {
            let ranges = self.families.get(family).and_then(|locks| locks.ranges.get(&owner));
            own.bytes + ranges.map_or(0, OwnRanges::memory_bytes)
        };
        families.map(of).sum()
    }
}
