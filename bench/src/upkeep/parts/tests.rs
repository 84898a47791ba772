//! Tests of all parts at a small size: each reports its figures after reading back its data.

use super::{
    Amount, BRANCHES, Counts, LEFT_BYTES_MAX, Most, PARTS, Rounds, TableCounts, backups, branches,
    budget, copies, data, families, followers, reads, scale, small_cache, small_cache::Sizes,
    space, steps, syncs,
};
use crate::{
    engine::{Failure, Result},
    upkeep::{
        bar::Outcome,
        data::{compare, fill, key, value},
        part::{Line, Teller},
    },
};
use siltdb::Db;
use std::{cell::RefCell, path::Path, time::Duration};

/// The figures that a part reports within `seconds`.
fn told(
    seconds: u64,
    part: impl FnOnce(&Path, &Teller<'_>) -> Result<()>,
) -> Vec<(String, Outcome)> {
    let dir = tempfile::tempdir().unwrap();
    let figures = RefCell::new(Vec::new());
    let say = |line: &Line| {
        if let Line::Figure { bar, outcome } = line {
            figures.borrow_mut().push((bar.clone(), outcome.clone()));
        }
    };
    let teller = Teller::new(&say, Duration::from_secs(seconds));
    part(&dir.path().join("data"), &teller).unwrap();
    figures.into_inner()
}

/// Panics unless exactly these bars were measured.
fn are_measured(figures: &[(String, Outcome)], bars: &[&str]) {
    let ids: Vec<&str> = figures.iter().map(|(bar, _)| bar.as_str()).collect();
    assert_eq!(ids, bars);
    for (bar, outcome) in figures {
        let is_measured = matches!(outcome, Outcome::Measured { checked: 1.., .. });
        assert!(is_measured, "{bar}: {outcome:?}");
    }
}

#[test]
fn each_bar_stands_once_and_its_part_tells_it() {
    let mut ids: Vec<&str> = PARTS.iter().flat_map(|part| part.bars).map(|bar| bar.id).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(PARTS.iter().all(|part| !part.bars.is_empty() && part.seconds <= 600));
}

#[test]
fn tiny_steps_are_timed_and_read_back() {
    let flushes = told(60, |dir, teller| steps::flushes(dir, 25, teller));
    are_measured(&flushes, &["flushes/time", "flushes/opening", "flushes/tables"]);
    let openings = told(60, |dir, teller| steps::openings(dir, 12, teller));
    are_measured(&openings, &["openings/files", "openings/time"]);
}

#[test]
fn families_are_compacted_flushed_and_opened() {
    let compaction = told(60, |dir, teller| families::compaction(dir, 20, teller));
    are_measured(&compaction, &["families/compact"]);
    let counts = Counts { flush_few: 3, open_few: 50, open_many: 120, flush_many: 150 };
    let beside = told(60, |dir, teller| families::beside(dir, counts, teller));
    are_measured(&beside, &["families/opening", "families/flush"]);
}

#[test]
fn branches_are_created_opened_and_dropped() {
    let bars = BRANCHES.map(|bar| bar.id);
    let counts = branches::Counts { few: 2, many: 230 };
    are_measured(&told(60, |dir, teller| branches::beside(bars, dir, counts, teller)), &bars);
}

#[test]
fn flushes_and_an_opening_are_timed_beside_tables() {
    let counts = TableCounts { few: 5, opened: 40, many: 60 };
    let ids = ["scale/flush", "scale/flush-processor", "scale/opening"];
    let mut figures = told(60, |dir, teller| scale::beside(ids, dir, counts, teller));
    figures.sort_by_key(|(bar, _)| ids.iter().position(|id| id == bar));
    are_measured(&figures, &ids);
    assert!(figures.iter().all(|(_, outcome)| !is_below(outcome, 0.0)), "{figures:?}");
}

#[test]
fn reads_pass_deletes_and_fold_operands() {
    are_measured(&told(60, |dir, teller| reads::deleted(dir, 3_000, teller)), &["reads/deleted"]);
    let merges = told(60, |dir, teller| reads::merges(dir, 300, teller));
    are_measured(&merges, &["reads/merged", "flushes/merged"]);
    let Outcome::Measured { value, .. } = merges[1].1 else { panic!("it is measured") };
    assert!(value >= 1.0, "a flush that folds hands over each byte at least once: {value}");
    let large = told(60, |dir, teller| reads::large_value(dir, 1 << 20, teller));
    are_measured(&large, &["writes/memory"]);
    let budget = told(120, |dir, teller| budget::within("memory/8-mib", dir, 8, teller));
    are_measured(&budget, &["memory/8-mib"]);
}

#[test]
fn gets_of_a_growing_database_are_timed_and_read_back() {
    let sizes = Sizes { first: 2_000, then: 9_000 };
    let bar = "small-cache/gets-4m";
    let gets = told(60, |dir, teller| small_cache::gets(bar, dir, sizes, teller));
    are_measured(&gets, &["small-cache/gets-4m"]);
}

#[test]
fn a_removed_range_is_passed_by_each_seek() {
    let ids = ["reads/range-deleted/cold", "reads/range-deleted/warm"];
    are_measured(&told(60, |dir, teller| reads::range_deleted(ids, dir, 20_000, teller)), &ids);
}

#[test]
fn space_is_looked_at_until_it_is_back() {
    let small = Amount { entries: 500, length: 100 };
    // A limit that no result exceeds.
    let most = Most::Bytes(f64::MAX);
    let range = |dir: &Path, teller: &Teller<'_>| {
        space::range_delete(("space/range-delete", most), dir, small, 450, teller)
    };
    are_measured(&told(60, range), &["space/range-delete"]);
    let all = |dir: &Path, teller: &Teller<'_>| {
        space::range_delete(("space/range-delete-all", most), dir, small, 500, teller)
    };
    are_measured(&told(60, all), &["space/range-delete-all"]);
    let expiry =
        |dir: &Path, teller: &Teller<'_>| space::expiry(("space/expiry", most), dir, small, teller);
    are_measured(&told(60, expiry), &["space/expiry"]);
    let ratio = Most::Ratio(f64::MAX);
    let snapshot = |dir: &Path, teller: &Teller<'_>| {
        space::snapshot(("space/snapshot", ratio), dir, small, teller)
    };
    are_measured(&told(60, snapshot), &["space/snapshot"]);
    const { assert!(LEFT_BYTES_MAX < 8e6 / 100.0, "what is left is little of what was there") };
}

#[test]
fn copies_are_made_and_compared() {
    let clones = told(60, |dir, teller| copies::clones(dir, 2_000, teller));
    are_measured(&clones, &["copies/clone", "copies/first-write", "copies/reads"]);
    let small = Amount { entries: 500, length: 100 };
    let large = told(60, |dir, teller| copies::large(dir, small, teller));
    are_measured(&large, &["copies/checkpoint", "copies/large-clone", "copies/next-backup"]);
    let rounds = Rounds { count: 1, rate: 1 << 30, alone: Duration::from_millis(20) };
    let backups =
        |dir: &Path, teller: &Teller<'_>| backups::beside_writer(dir, small, rounds, teller);
    are_measured(&told(60, backups), &["copies/backup-writer"]);
}

#[test]
fn large_removals_give_their_space_back_unasked() {
    // Below 4 MiB a range delete in memory is not worth a flush.
    let (small, most) = (Amount { entries: 30_000, length: 200 }, Most::Bytes(500e3));
    let ids = ["copies/drop", "copies/drop-space"];
    let drops =
        |dir: &Path, teller: &Teller<'_>| space::drop_of_clone(ids, most, (dir, small), teller);
    let figures = told(70, drops);
    are_measured(&figures, &ids);
    assert!(is_below(&figures[1].1, 500e3), "{figures:?}");
    let ids = ["copies/range-delete", "copies/range-delete-space"];
    let deletes = |dir: &Path, teller: &Teller<'_>| {
        space::large_range_delete(ids, most, (dir, small), teller)
    };
    let figures = told(70, deletes);
    are_measured(&figures, &ids);
    assert!(is_below(&figures[1].1, 500e3), "{figures:?}");
    for remove in [data::delete_by_range, data::delete_one_by_one] {
        let removal = |dir: &Path, teller: &Teller<'_>| {
            let remove = |db: &Db| remove(db, 29_000);
            let bar = ("space/gigabyte", Most::Ratio(f64::MAX));
            space::removal(bar, (dir, small), 29_000, remove, teller)
        };
        are_measured(&told(70, removal), &["space/gigabyte"]);
    }
}

fn is_below(outcome: &Outcome, most: f64) -> bool {
    matches!(outcome, Outcome::Measured { value, .. } if *value <= most)
}

#[test]
fn a_follower_is_measured_beside_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let said = RefCell::new(Vec::new());
    let say = |line: &Line| said.borrow_mut().push(line.clone());
    let teller = Teller::new(&say, Duration::from_secs(60));
    followers::lag(dir.path(), 1, followers::write, &teller).unwrap();
    // A slow machine does not keep the rate, and cuts the figure off.
    let said = said.into_inner();
    let [Line::Figure { bar, outcome }] = &said[..] else { panic!("one figure: {said:?}") };
    assert_eq!(bar, "copies/follower-lag");
    let lag_ns = match outcome {
        Outcome::Measured { value, checked: 50_000.., .. } => *value,
        Outcome::CutOff { value: Some(value), .. } => *value,
        outcome => panic!("{outcome:?}"),
    };
    assert!(lag_ns > 0.0, "{lag_ns}");
}

#[test]
fn a_writer_that_fails_fails_its_follower() {
    let dir = tempfile::tempdir().unwrap();
    let teller = Teller::new(&|_| {}, Duration::from_secs(60));
    let fail = |_: &Path, _| Err(Failure::error("the writer is gone"));
    let failure = followers::lag(dir.path(), 1, fail, &teller).unwrap_err();
    assert!(failure.to_string().contains("the writer is gone"), "{failure}");
}

#[test]
fn what_is_cut_off_is_not_measured() {
    let flushes = told(0, |dir, teller| steps::flushes(dir, 25, teller));
    assert_eq!(flushes.len(), 3);
    for (bar, outcome) in flushes {
        let Outcome::CutOff { value: Some(_), note } = outcome else {
            panic!("{bar}: {outcome:?}")
        };
        assert!(note.starts_with("after 10 of 25"), "{note}");
    }
    let small = Amount { entries: 500, length: 100 };
    let bar = ("space/snapshot", Most::Ratio(0.0));
    let waits = told(1, |dir, teller| space::snapshot(bar, dir, small, teller));
    assert!(matches!(waits[0].1, Outcome::CutOff { value: Some(_), .. }), "{waits:?}");
}

#[test]
fn other_contents_than_were_written_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    fill(&db, 0..10, 0, 20).unwrap();
    let teller = Teller::new(&|_| {}, Duration::from_secs(60));
    let all =
        |version, count| (0..count).map(move |i: u64| (key(i).to_vec(), value(i, version, 20)));
    compare(&db, all(0, 10), &teller).unwrap();
    for (what, wanted) in [("another version", (1, 10)), ("one missing", (0, 11)), ("more", (0, 9))]
    {
        let failure = compare(&db, all(wanted.0, wanted.1), &teller);
        assert!(failure.is_err(), "{what}");
    }
}

#[test]
fn a_figure_without_a_comparison_is_refused() {
    let teller = Teller::new(&|_| {}, Duration::from_secs(60));
    assert!(teller.figure("flushes/time", 1.0, (1, 1), "").is_err());
    teller.compared(1);
    assert!(teller.figure("flushes/time", 1.0, (1, 1), "").is_ok());
}

#[test]
fn what_is_traced_keeps_its_puts() {
    let dir = tempfile::tempdir().unwrap();
    syncs::traced(dir.path()).unwrap();
    assert!(Db::open(dir.path()).unwrap().stats().sequence >= 50);
}
