//! What a crash must have left: which commits at least and at most, and which families.
//!
//! It is compared by `recovery`; the promises themselves stand in `docs/durability.md`.

use crate::{
    model::{Clock, Commit, FamilyIndex, Model},
    times::Times,
    watch::CrashKind,
};
use siltdb::Durability;
use std::{collections::BTreeMap, ops::RangeInclusive};

/// The families of a database by name.
pub type Names = BTreeMap<String, FamilyIndex>;

/// The commits that must be there after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floors {
    /// All up to this number survive a kill.
    pub kill: u64,
    /// All up to this number survive a power loss.
    pub power: u64,
}

impl Floors {
    /// Everything up to `commit` survives everything.
    #[must_use]
    pub fn durable(commit: u64) -> Self {
        Self { kill: commit, power: commit }
    }

    /// What survives a crash of `kind`, and what of that another one.
    #[must_use]
    pub fn after(self, kind: CrashKind) -> Self {
        match kind {
            CrashKind::Kill => self,
            CrashKind::PowerLoss => Self::durable(self.power),
        }
    }
}

/// What a crash must have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The commits that must be there.
    pub floors: Floors,
    /// The last commit that may be there.
    pub ceiling: u64,
    /// Of the volatile commits, those up to a number in this range are there, and no others: the
    /// ones that were flushed.
    pub flushed: RangeInclusive<u64>,
    /// The families; more than one possibility if they were being changed.
    pub families: Vec<Names>,
    /// The commit that is there if, and only if, the families are the second possibility.
    pub joined: Option<u64>,
    /// The times of which one is the earliest that may decide expiry, earliest first.
    pub floors_ms: Vec<u64>,
}

impl Expectation {
    /// Exactly the state after `commit`, whatever happens, but for volatile commits.
    #[must_use]
    pub fn exactly(
        commit: u64,
        flushed: RangeInclusive<u64>,
        families: Names,
        times: &Times,
    ) -> Self {
        Self {
            floors: Floors::durable(commit),
            ceiling: commit,
            flushed,
            families: vec![families],
            joined: None,
            floors_ms: times.floors_ms().to_vec(),
        }
    }

    /// Whether families that changed in a commit and the last commit found are of one mind.
    #[must_use]
    pub fn fits(&self, names: &Names, commit: u64) -> bool {
        let Some(number) = self.joined else { return true };
        (commit >= number) == (self.families.get(1) == Some(names))
    }

    /// What is left of it after a crash of `kind`.
    #[must_use]
    pub fn after(&self, kind: CrashKind) -> Self {
        Self { floors: self.floors.after(kind), ..self.clone() }
    }

    /// The commits to try for a database whose clock key says `clock`, latest first: those after it
    /// that did not write the clock key, or may be lost alone, look the same there.
    #[must_use]
    pub fn candidates(&self, model: &Model, clock: u64) -> Vec<u64> {
        let is_silent = |commit: &Commit| {
            commit.clock == Clock::Silent || commit.durability == Durability::Volatile
        };
        let silent = |number: &u64| model.commit(*number).is_some_and(is_silent);
        let mut candidates = vec![clock];
        candidates.extend((clock + 1..=self.ceiling).take_while(silent));
        candidates.reverse();
        candidates
    }

    /// The last flushed commits to try for a database that stands at `commit`, latest first: only
    /// volatile ones make a difference.
    #[must_use]
    pub fn flushed_candidates(&self, model: &Model, commit: u64) -> Vec<u64> {
        let (first, last) = (*self.flushed.start(), *self.flushed.end());
        let mut candidates = vec![first];
        candidates.extend(model.volatile(first + 1..=last.min(commit)));
        candidates.reverse();
        candidates
    }
}

#[cfg(test)]
mod tests;
