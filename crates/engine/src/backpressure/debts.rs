//! The debts of levels by family, what running merges have done of them, and the largest share.
//!
//! This module computes no debt. Callers note the debt of a family whenever its tables or options
//! have changed.

use crate::backpressure::curve::DebtLimits;
use siltdb_base::{id::FamilyId, sync::lock};
use siltdb_tree::rewrite::{progress::Progress, steps::Left};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The two debts of a family's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelDebt {
    /// The runs of level 0.
    pub runs: u64,
    /// Their bounds.
    pub runs_limits: DebtLimits,
    /// The bytes that compactions have to write.
    pub bytes: u64,
    /// Their bounds.
    pub bytes_limits: DebtLimits,
}

impl LevelDebt {
    /// Whether writers stop for it, if no merge has done a part of it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.share(Done::default()) >= 1.0
    }

    /// The larger share of the two, without `done`.
    #[must_use]
    fn share(&self, done: Done) -> f64 {
        let runs = self.runs_limits.share_of(self.runs as f64 - done.runs);
        runs.max(self.bytes_limits.share_of(self.bytes as f64 - done.bytes))
    }
}

/// What running merges have done of the debts.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    runs: f64,
    bytes: f64,
}

/// A running merge, which reduces the debt of its family as it goes on, and not only at its end.
/// Its clones are one.
#[derive(Clone, Debug)]
pub struct MergeCredit {
    progress: Arc<Progress>,
    /// The bytes of its inputs.
    bytes: u64,
    left: Arc<Mutex<NotInstalled>>,
}

/// What no edit has taken away yet of the inputs of a merge.
#[derive(Debug)]
struct NotInstalled {
    /// In the debt as it was noted last.
    noted: Left,
    /// Once the next edit is installed.
    next: Left,
}

impl MergeCredit {
    /// The credit for a merge of `inputs` that `progress` tells of.
    #[must_use]
    pub fn new(progress: Arc<Progress>, inputs: Left) -> Self {
        let left = NotInstalled { noted: inputs, next: inputs };
        Self { progress, bytes: inputs.bytes, left: Arc::new(Mutex::new(left)) }
    }

    /// Says what is left of the inputs from the next time on that the debt of the family is noted.
    /// What an edit takes away is no debt then, and must not count as done, too.
    pub fn expect_left(&self, left: Left) {
        lock(&self.left).next = left;
    }

    /// Called when the debt is noted.
    fn note_left(&self) {
        let mut left = lock(&self.left);
        left.noted = left.next;
    }

    /// What it has done of what is left in the debt.
    fn done(&self) -> Done {
        let (part, left) = (self.progress.done_part(), lock(&self.left).noted);
        let installed = self.bytes.saturating_sub(left.bytes);
        let bytes = (self.bytes as f64 * part - installed as f64).max(0.0);
        Done { runs: left.level0_runs as f64 * part, bytes }
    }
}

/// The debts of all families.
///
/// # Thread safety
/// Any thread may note and read debts.
///
/// # Invariants
/// 1. `worst` is the last share of `ascending`, and changes only under the lock.
/// 2. `ascending` has each family of `by_family` once, under the share that it had when it was last
///    rated. Only shares of `merging` families change in between.
#[derive(Debug, Default)]
pub struct LevelDebts {
    debts: Mutex<Debts>,
    /// The bits of an `f64`.
    worst: AtomicU64,
}

/// The families that have a debt or a running merge. The bits of numbers that are not negative sort
/// as the numbers do.
#[derive(Debug, Default)]
struct Debts {
    by_family: HashMap<FamilyId, FamilyDebt>,
    ascending: BTreeSet<(u64, FamilyId)>,
    /// The families with running merges.
    merging: Vec<FamilyId>,
}

#[derive(Debug, Default)]
struct FamilyDebt {
    levels: Option<LevelDebt>,
    merges: Vec<MergeCredit>,
    share_bits: u64,
}

impl FamilyDebt {
    fn share(&self) -> f64 {
        let Some(levels) = self.levels else { return 0.0 };
        let add = |a: Done, b: Done| Done { runs: a.runs + b.runs, bytes: a.bytes + b.bytes };
        levels.share(self.merges.iter().map(MergeCredit::done).fold(Done::default(), add))
    }
}

impl Debts {
    /// Rates a family anew. One without debt and merges is forgotten.
    fn rate(&mut self, family: FamilyId) {
        let Some(debt) = self.by_family.get_mut(&family) else { return };
        self.ascending.remove(&(debt.share_bits, family));
        let share = debt.share();
        if share == 0.0 && debt.merges.is_empty() {
            self.by_family.remove(&family);
            return;
        }
        debt.share_bits = share.to_bits();
        self.ascending.insert((debt.share_bits, family));
    }
}

impl LevelDebts {
    /// Sets the debt of a family; `None` if it has none or was dropped.
    ///
    /// Cost: the logarithm of the number of families that have a debt.
    pub fn note(&self, family: FamilyId, levels: Option<LevelDebt>) {
        self.change(|debts| {
            let debt = debts.by_family.entry(family).or_default();
            debt.levels = levels;
            debt.merges.iter().for_each(MergeCredit::note_left);
            debts.rate(family);
        });
    }

    /// Counts what a merge of the family does as done, from now on.
    pub fn begin_merge(&self, family: FamilyId, credit: MergeCredit) {
        self.change(|debts| {
            debts.by_family.entry(family).or_default().merges.push(credit);
            debts.merging.push(family);
            debts.rate(family);
        });
    }

    /// Ends a merge. Its inputs are gone from the noted debt, or it has failed.
    ///
    /// # Panics
    /// If it was not begun.
    pub fn end_merge(&self, family: FamilyId, credit: &MergeCredit) {
        self.change(|debts| {
            let merging = debts.merging.iter().position(|merging| *merging == family);
            debts.merging.swap_remove(merging.expect("a merge ends that has begun"));
            let debt = debts.by_family.get_mut(&family).expect("a merging family is known");
            debt.merges.retain(|merge| !Arc::ptr_eq(&merge.progress, &credit.progress));
            debts.rate(family);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Debts)) {
        let mut debts = lock(&self.debts);
        change(&mut debts);
        let worst = debts.ascending.last().map_or(0, |(bits, _)| *bits);
        // Relaxed: it carries no other data with it.
        self.worst.store(worst, Ordering::Relaxed);
    }

    /// Rates the families anew of which merges have gone on. Returns whether there are any.
    ///
    /// Cost: as [`LevelDebts::note`], for each running merge.
    pub fn refresh(&self) -> bool {
        let mut is_merging = false;
        self.change(|debts| {
            is_merging = !debts.merging.is_empty();
            for index in 0..debts.merging.len() {
                debts.rate(debts.merging[index]);
            }
        });
        is_merging
    }

    /// The largest share, as of the last note or refresh; 0 if there is no debt.
    #[must_use]
    pub fn worst(&self) -> f64 {
        // Relaxed: a hint.
        f64::from_bits(self.worst.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
