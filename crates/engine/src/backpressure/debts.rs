//! The shares of the debts of levels by family, and the largest of them.
//!
//! This module computes no debt. Callers note the share of a family whenever its tables or options
//! have changed.

use siltdb_base::{id::FamilyId, sync::lock};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The shares of all families.
///
/// # Thread safety
/// Any thread may note and read shares.
///
/// # Invariants
/// 1. `worst` is the last share of `ascending`, and changes only under the lock.
#[derive(Debug, Default)]
pub struct LevelDebts {
    shares: Mutex<Shares>,
    /// The bits of an `f64`.
    worst: AtomicU64,
}

/// The shares that are not zero. The bits of numbers that are not negative sort as the numbers do.
#[derive(Debug, Default)]
struct Shares {
    by_family: HashMap<FamilyId, u64>,
    ascending: BTreeSet<(u64, FamilyId)>,
}

impl LevelDebts {
    /// Sets the share of a family, which is not negative. 0 means that it has no debt or was
    /// dropped.
    ///
    /// Cost: the logarithm of the number of families that have a debt.
    pub fn note(&self, family: FamilyId, share: f64) {
        debug_assert!(share >= 0.0, "a share is not negative");
        let bits = share.to_bits();
        let mut shares = lock(&self.shares);
        if let Some(before) = shares.by_family.remove(&family) {
            shares.ascending.remove(&(before, family));
        }
        if share > 0.0 {
            shares.by_family.insert(family, bits);
            shares.ascending.insert((bits, family));
        }
        let worst = shares.ascending.last().map_or(0, |(bits, _)| *bits);
        // Relaxed: it carries no other data with it.
        self.worst.store(worst, Ordering::Relaxed);
    }

    /// The largest share; 0 if there is no debt.
    #[must_use]
    pub fn worst(&self) -> f64 {
        // Relaxed: a hint.
        f64::from_bits(self.worst.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
