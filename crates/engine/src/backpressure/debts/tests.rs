//! The largest share, while families come, reduce their debt, merge and go.

use super::*;

const PERCENT: DebtLimits = DebtLimits { free: 0, soft: 50, hard: 100 };

/// A debt of runs whose share is this many hundredths, and none of bytes.
fn percent(runs: u64) -> Option<LevelDebt> {
    Some(LevelDebt { runs, runs_limits: PERCENT, bytes: 0, bytes_limits: PERCENT })
}

fn credit(runs: u64, bytes: u64) -> MergeCredit {
    let progress = Arc::new(Progress::default());
    progress.begin(100);
    MergeCredit::new(progress, Left { bytes, level0_runs: runs })
}

/// Has the merge read and verified this many of its hundred entries more.
fn advance(credit: &MergeCredit, entries: u64) {
    credit.progress.read(entries);
    credit.progress.verified(entries);
}

#[test]
fn the_worst_share_is_that_of_the_family_that_owes_most_now() {
    let debts = LevelDebts::default();
    let worst = |family, runs| {
        debts.note(FamilyId(family), percent(runs));
        debts.worst()
    };
    assert_eq!(worst(1, 0), 0.0);
    assert_eq!(worst(1, 50), 0.5);
    assert_eq!(worst(2, 25), 0.5);
    assert_eq!(worst(3, 700), 1.0);
    assert_eq!(worst(3, 30), 0.5);
    assert_eq!(worst(1, 0), 0.3);
    assert_eq!(worst(3, 0), 0.25);
    debts.note(FamilyId(2), None);
    assert_eq!(debts.worst(), 0.0);
    assert!(lock(&debts.debts).by_family.is_empty(), "no family owes anything");
}

#[test]
fn what_a_merge_has_done_is_no_debt() {
    let (debts, family) = (LevelDebts::default(), FamilyId(1));
    debts.note(family, percent(50));
    assert!(!debts.refresh(), "no merge runs");
    let merge = credit(40, 0);
    debts.begin_merge(family, merge.clone());
    let mut last = debts.worst();
    assert_eq!(last, 0.5, "it has done nothing");
    for _ in 0..10 {
        advance(&merge, 10);
        assert_eq!(debts.worst(), last, "not asked yet");
        assert!(debts.refresh());
        assert!((last - debts.worst() - 0.04).abs() < 1e-9);
        last = debts.worst();
    }
    // Its edit removes the inputs.
    debts.note(family, percent(10));
    debts.end_merge(family, &merge);
    assert_eq!(debts.worst(), 0.1);
    assert!(!debts.refresh());
}

#[test]
fn what_a_step_has_installed_counts_once() {
    let (debts, family) = (LevelDebts::default(), FamilyId(1));
    let owed = |runs, bytes| Some(LevelDebt { bytes, ..percent(runs).unwrap() });
    debts.note(family, owed(20, 80));
    let merge = credit(20, 80);
    debts.begin_merge(family, merge.clone());
    // Of half the work, half is installed: 20 of its 80 bytes.
    advance(&merge, 50);
    debts.refresh();
    assert!((debts.worst() - 0.4).abs() < 1e-9);
    merge.expect_left(Left { bytes: 60, level0_runs: 20 });
    debts.refresh();
    assert!((debts.worst() - 0.4).abs() < 1e-9, "it is not installed yet");
    debts.note(family, owed(20, 60));
    assert!((debts.worst() - 0.4).abs() < 1e-9, "{}", debts.worst());
    // An edit that is ahead of what is known of the work is no debt either.
    merge.expect_left(Left { bytes: 30, level0_runs: 10 });
    debts.note(family, owed(10, 30));
    assert!((debts.worst() - 0.3).abs() < 1e-9, "{}", debts.worst());
    merge.expect_left(Left::default());
    debts.note(family, owed(0, 0));
    assert_eq!(debts.worst(), 0.0);
    debts.end_merge(family, &merge);
}

#[test]
fn a_merge_that_fails_has_done_nothing() {
    let (debts, family) = (LevelDebts::default(), FamilyId(1));
    debts.note(family, percent(50));
    let merge = credit(40, 0);
    debts.begin_merge(family, merge.clone());
    advance(&merge, 50);
    debts.refresh();
    assert_eq!(debts.worst(), 0.3);
    debts.end_merge(family, &merge);
    assert_eq!(debts.worst(), 0.5);
}

#[test]
fn merges_of_one_family_count_together_and_each_debt_alone() {
    let (debts, family) = (LevelDebts::default(), FamilyId(1));
    let both = LevelDebt { bytes: 60, ..percent(50).unwrap() };
    debts.note(family, Some(both));
    let (one, other) = (credit(10, 0), credit(20, 40));
    for merge in [&one, &other] {
        debts.begin_merge(family, merge.clone());
        advance(merge, 100);
    }
    debts.refresh();
    assert_eq!(debts.worst(), 0.2);
    // A family that was dropped meanwhile owes nothing, and its merges still end.
    debts.note(family, None);
    assert_eq!(debts.worst(), 0.0);
    debts.end_merge(family, &one);
    debts.end_merge(family, &other);
    assert!(lock(&debts.debts).by_family.is_empty());
}

#[test]
fn what_is_full_is_full_whatever_merges_have_done() {
    assert!(percent(100).unwrap().is_full() && !percent(99).unwrap().is_full());
}
