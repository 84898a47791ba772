//! Tests of leaders, on made-up results.

use super::*;

const RUN: &str = include_str!("../../../tests/data/run.json");

fn standing(results: &Results, row: &str) -> Vec<(Option<Durability>, String, Option<Verdict>)> {
    let groups = groups(results);
    let group = groups.iter().find(|group| group.row == row).unwrap();
    let describe = |contest: &Contest<'_>| {
        let verdict = contest.standing().map(|standing| standing.verdict);
        (contest.durability, contest.winner().engine.clone(), verdict)
    };
    group.contests().iter().map(describe).collect()
}

#[test]
fn engines_compete_within_their_durability_class() {
    let results = Results::from_json(RUN).unwrap();
    let (process, memory) = (Some(Durability::Process), Some(Durability::Memory));
    let (tidesdb, lmdb) = ("tidesdb".to_owned(), "lmdb".to_owned());
    assert_eq!(
        standing(&results, "random-write/batch-1000"),
        [(process, tidesdb, Some(Verdict::Behind)), (memory, lmdb, None)]
    );
}

#[test]
fn a_variant_does_not_stand_for_what_is_built() {
    let mut results = Results::from_json(RUN).unwrap();
    let is_scan = |row: &&Row| row.row == "full-scan" && row.engine == "siltdb";
    let scan = results.rows.iter().find(is_scan).unwrap();
    let engine = "siltdb-mimalloc".to_owned();
    let faster = scan.ops_per_s.map(|own| Spread { median: own.max * 2.0, ..own });
    results.rows.push(Row { engine, ops_per_s: faster, ..scan.clone() });
    let ours = |results: &Results| {
        let groups = groups(results);
        let group = groups.iter().find(|group| group.row == "full-scan").unwrap();
        group.contests()[0].standing().map(|standing| standing.ours.engine.clone())
    };
    assert_eq!(ours(&results).as_deref(), Some("siltdb"));
    results.rows.retain(|row| row.engine != "siltdb");
    assert_eq!(ours(&results).as_deref(), Some("siltdb-mimalloc"), "if there is nothing else");
}

#[test]
fn durability_makes_no_read_faster() {
    let results = Results::from_json(RUN).unwrap();
    let lmdb = "lmdb".to_owned();
    assert_eq!(standing(&results, "full-scan"), [(None, lmdb, Some(Verdict::Behind))]);
}

#[test]
fn an_engine_that_failed_verification_is_in_no_contest() {
    let results = Results::from_json(RUN).unwrap();
    let groups = groups(&results);
    let mixed = groups.iter().find(|group| group.row == "mixed/batch-1").unwrap();
    assert!(mixed.entries.iter().any(|row| row.engine == "tidesdb"));
    let contests = mixed.contests();
    assert!(contests.iter().all(|c| c.ranked.iter().all(|(row, _)| row.engine != "tidesdb")));
    assert_eq!(contests[0].winner().engine, "siltdb");
}

#[test]
fn rows_stand_in_the_order_of_their_definitions() {
    let mut results = Results::from_json(RUN).unwrap();
    let order = |results: &Results| -> Vec<String> {
        groups(results).iter().map(|group| group.row.to_owned()).collect()
    };
    let before = order(&results);
    results.rows.reverse();
    assert_eq!(order(&results), before);
    assert_eq!(before[0], "sequential-write/batch-1000");
    results.suites.clear();
    assert_eq!(order(&results)[0], "range-delete/1000");
}

#[test]
fn overlapping_runs_are_level() {
    let spread = |min, median, max| Spread { median, min, max };
    assert_eq!(verdict(spread(5.0, 6.0, 7.0), spread(1.0, 2.0, 4.9)), Verdict::Ahead);
    assert_eq!(verdict(spread(5.0, 6.0, 7.0), spread(1.0, 2.0, 5.0)), Verdict::Level);
    assert_eq!(verdict(spread(1.0, 2.0, 4.9), spread(5.0, 6.0, 7.0)), Verdict::Behind);
}
