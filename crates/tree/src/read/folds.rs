//! Values of keys with many unflushed merge operands, kept by the readers that folded them.
//!
//! It folds nothing, and nothing depends on what it keeps: a reader that finds nothing folds again.
//!
//! A fold is the value that a key has from all its versions up to one operand. A reader that meets
//! this operand takes the value in place of the operand and of everything older, and applies newer
//! operands to it. So a key that is merged and read in turn is folded step by step.
//!
//! # Invariants
//! 1. A fold is right from its `since_ms` on, and does not become wrong before its expiry. No
//!    version older than its operand is ever added. Flushes and compactions change older versions
//!    only in ways that leave the value as it is. The expiry is that of the value below the
//!    operands.
//! 2. Readers at snapshots older than the operand do not meet it, and newer range tombstones hide
//!    the operand itself.

use arc_swap::ArcSwapOption;
use siltdb_base::{
    budget::{Charge, Part},
    checksum::xxh3,
    id::SequenceNumber,
    slice::Slice,
};
use siltdb_disk::cache::Cache;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// Fewest operands whose fold is kept: looking up each costs more than keeping their fold. The
/// tests of this floor keep all.
pub const OPERANDS_MIN: usize = if cfg!(test) { 1 } else { 4 };

/// Folds that a family may have, a power of two; two keys of one slot displace each other.
const SLOTS: usize = 256;

/// Folds may take this part of the memory budget.
const BUDGET_PART: usize = 32;

/// The value that a key has from all its versions up to one operand.
#[derive(Debug)]
pub struct Fold {
    key: Box<[u8]>,
    /// The sequence number of the operand.
    pub sequence: SequenceNumber,
    /// The value that the key has.
    pub value: Slice,
    /// From when on the key has it, in ms since 1970: when the base of its operands expired.
    pub since_ms: u64,
    /// When the key begins to have another one, in ms since 1970; `None` is never.
    pub expiry_ms: Option<u64>,
    _charge: Charge,
}

/// When a key has a folded value.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldTimes {
    /// From when on, in ms since 1970.
    pub since_ms: u64,
    /// When it begins to have another one, in ms since 1970; `None` is never.
    pub expiry_ms: Option<u64>,
}

/// The folds of a family.
///
/// # Thread safety
/// Any thread may find and keep; neither waits.
pub struct Folds {
    /// Its blocks give up the memory that folds take.
    cache: Arc<Cache>,
    /// Made with the first fold: most families have no merge operator.
    slots: OnceLock<Box<[ArcSwapOption<Fold>]>>,
}

impl Folds {
    /// None yet; they will be charged to [`Part::Folds`] of the budget of `cache`, and taken from
    /// what that may hold.
    #[must_use]
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache, slots: OnceLock::new() }
    }

    /// The fold of `key`.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<Arc<Fold>> {
        let slots = self.slots.get()?;
        let fold = slots[slot_of(key)].load_full()?;
        (*fold.key == *key).then_some(fold)
    }

    /// Keeps `value`, which `key` has from all its versions up to the operand of `sequence`, during
    /// `times`. A newer fold of the key stays.
    ///
    /// If folds take too much memory, those of this family go; if that is not enough, the value is
    /// not kept.
    pub fn keep(&self, key: &[u8], sequence: SequenceNumber, value: &[u8], times: FoldTimes) {
        let FoldTimes { since_ms, expiry_ms } = times;
        let bytes = key.len() + value.len() + size_of::<Fold>();
        let budget = self.cache.budget();
        let has_room = || {
            let limit = budget.limit() / BUDGET_PART;
            budget.used(Part::Folds).saturating_add(bytes) <= limit
        };
        if !has_room() {
            self.clear();
            if !has_room() {
                return;
            }
        }
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| Default::default()).collect());
        let slot = &slots[slot_of(key)];
        let newer = |fold: &Arc<Fold>| *fold.key == *key && fold.sequence > sequence;
        if slot.load().as_ref().is_some_and(newer) {
            return;
        }
        slot.store(Some(Arc::new(Fold {
            key: key.into(),
            sequence,
            value: Slice::copy_from(value),
            since_ms,
            expiry_ms,
            _charge: Charge::new(budget, Part::Folds, bytes),
        })));
        self.cache.fit();
    }

    /// Forgets all: after a flush there is little left to fold.
    pub fn clear(&self) {
        for slot in self.slots.get().into_iter().flatten() {
            slot.store(None);
        }
    }
}

/// The slot of a key.
fn slot_of(key: &[u8]) -> usize {
    xxh3(key) as usize % SLOTS
}

impl fmt::Debug for Folds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = self.slots.get().into_iter().flatten();
        let count = slots.filter(|slot| slot.load().is_some()).count();
        f.debug_struct("Folds").field("count", &count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
