//! The state that a crash must leave: the first and last possible commit, and the families.
//!
//! `recovery` compares it with the database. `docs/durability.md` has the promises themselves.

use crate::{
    model::{Clock, Commit, FamilyIndex, Model},
    prepared::Waiting,
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
    /// All commits up to `commit` survive every crash.
    #[must_use]
    pub fn durable(commit: u64) -> Self {
        Self { kill: commit, power: commit }
    }

    /// The floors for a second crash after a crash of `kind`.
    #[must_use]
    pub fn after(self, kind: CrashKind) -> Self {
        match kind {
            CrashKind::Kill => self,
            CrashKind::PowerLoss => Self::durable(self.power),
        }
    }
}

/// The state that a crash must leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The commits that must be there.
    pub floors: Floors,
    /// The last commit that may be there.
    pub ceiling: u64,
    /// Recovery finds the volatile commits up to a number in this range, and no others: the flushed
    /// ones.
    pub flushed: RangeInclusive<u64>,
    /// The families. There is a second possibility if a change of families was in progress.
    pub families: Vec<Names>,
    /// The commit that is present exactly if the families are the second possibility.
    pub joined: Option<u64>,
    /// The times to which a power loss may take the database back, earliest first. One of them is
    /// the last durable one.
    pub floors_ms: Vec<u64>,
    /// A kill takes the time back to no earlier one than this. What says so lies in the log and
    /// is not synced, so a power loss may take it until the recovery is complete.
    pub seen_ms: u64,
    /// The prepared transactions.
    pub waiting: Waiting,
    /// The possible retention floors.
    pub retained: Vec<Option<u64>>,
}

impl Expectation {
    /// Exactly the state after `commit` in every crash, except for volatile commits.
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
            seen_ms: times.seen_ms(),
            waiting: Waiting::new(),
            retained: vec![None],
        }
    }

    /// Whether families that a commit changed agree with the last commit found.
    #[must_use]
    pub fn fits(&self, names: &Names, commit: u64) -> bool {
        let Some(number) = self.joined else { return true };
        (commit >= number) == (self.families.get(1) == Some(names))
    }

    /// The part of the expectation that remains after a crash of `kind`.
    #[must_use]
    pub fn after(&self, kind: CrashKind) -> Self {
        let seen_ms = match kind {
            CrashKind::Kill => self.seen_ms,
            // What was not synced is gone, and with it what it says of the time.
            CrashKind::PowerLoss => 0,
        };
        Self { floors: self.floors.after(kind), seen_ms, ..self.clone() }
    }

    /// The times that may decide expiry, earliest first.
    #[must_use]
    pub fn times_ms(&self) -> Vec<u64> {
        let is_noted = |floor_ms: &u64| *floor_ms >= self.seen_ms;
        self.floors_ms.iter().copied().filter(is_noted).collect()
    }

    /// The commits to try for a database whose clock key says `clock`, latest first. They include
    /// later ones that did not write the clock key or may be lost alone, because they look the same
    /// there.
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

    /// The last flushed commits to try for a database at `commit`, latest first. Only volatile
    /// commits make a difference.
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
