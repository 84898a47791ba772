//! Tests of the choice of engines.

use super::*;
use crate::{
    engine::Arm,
    job::EngineInfo,
    result::{Row, Spread, Status, Verified},
    runner::assemble,
    suite::{Overrides, suites},
};
use std::path::PathBuf;

fn workers(engines: &[&str]) -> Vec<WorkerBinary> {
    let info = |engine: &&str| EngineInfo { engine: (*engine).to_owned(), version: "1".to_owned() };
    let engines = engines.iter().map(info).collect();
    vec![WorkerBinary { program: PathBuf::new(), arguments: Vec::new(), engines }]
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn chosen() -> Chosen {
    let arm = Arm::Equal;
    let overrides = Overrides { scale: 0.001, arm, ..Overrides::default() };
    let suites = suites();
    let suite = suites.iter().find(|suite| suite.suite == "layerdb").unwrap();
    suite.choose(&suite.rows[0], &overrides)
}

#[test]
fn all_that_are_there_and_all_that_are_told_to_be_absent_take_part() {
    let absent = ["bbolt=go is not installed".parse().unwrap()];
    let field = Field::new(&workers(&["null", "sled", "siltdb"]), &[], &absent).unwrap();
    assert_eq!(field.engines(), owned(&["siltdb", "sled", "bbolt"]));
    assert_eq!(field.absent(), absent);
}

#[test]
fn who_is_named_takes_part_whether_a_worker_is_there_or_not() {
    let wanted = owned(&["null", "rocksdb"]);
    let field = Field::new(&workers(&["null", "siltdb"]), &wanted, &[]).unwrap();
    assert_eq!(field.engines(), wanted);
    assert_eq!(field.absent()[0].engine, "rocksdb");
    let error = Field::new(&workers(&["siltdb"]), &owned(&["rocksbd"]), &[]).unwrap_err();
    assert!(error.contains("did you mean `rocksdb`?"), "{error}");
    assert!("bblot=x".parse::<Absent>().is_err() && "bbolt".parse::<Absent>().is_err());
}

#[test]
fn a_large_run_keeps_siltdb_rocksdb_and_the_two_best_others() {
    let everybody = ["siltdb", "rocksdb", "sled", "fjall", "lmdb", "pebble"];
    let figure = |(engine, per_second): (&&str, f64)| Row {
        status: Status::Ok,
        ops_per_s: Some(Spread { median: per_second, min: per_second, max: per_second }),
        verified: Some(Verified { expected: 1, checked: 1 }),
        ..assemble::row(&chosen(), engine, &[], None, assemble::Known::default())
    };
    let figures = [10.0, 1.0, 2.0, 9.0, 4.0, 3.0];
    let earlier = Results {
        commit: String::new(),
        commits_since: None,
        schema: crate::result::SCHEMA,
        created: 0,
        machine: crate::result::Machine::default(),
        options: crate::result::Options::default(),
        engines: Vec::new(),
        limits: Vec::new(),
        suites: Vec::new(),
        rows: everybody.iter().zip(figures).map(figure).collect(),
    };
    let field = Field::new(&workers(&everybody), &[], &[]).unwrap().best_of(earlier);
    assert_eq!(field.of(&chosen()), owned(&["siltdb", "rocksdb", "fjall", "lmdb"]));
    let other = Chosen { row: "another".to_owned(), ..chosen() };
    assert_eq!(field.of(&other).len(), everybody.len());
}

#[test]
fn variants_take_part_only_where_they_are_named() {
    let all = ["siltdb", "siltdb-btree", "siltdb-map", "siltdb-mimalloc", "btreemap"];
    let field = Field::new(&workers(&all), &[], &[]).unwrap();
    for suite in suites() {
        for row in &suite.rows {
            let row = suite.choose(row, &Overrides::default());
            let variants: Vec<String> =
                field.of(&row).into_iter().filter(|engine| engine != OURS).collect();
            assert!(variants.iter().all(|one| row.compared.contains(one)), "{}", row.row);
        }
    }
    assert_eq!(field.of(&chosen()), owned(&["siltdb"]));
    let about_one = Chosen { compared: owned(&["siltdb", "siltdb-map"]), ..chosen() };
    assert_eq!(field.of(&about_one), owned(&["siltdb", "siltdb-map"]));
    let named = Field::new(&workers(&all), &owned(&["siltdb", "siltdb-mimalloc"]), &[]).unwrap();
    assert_eq!(named.of(&chosen()), owned(&["siltdb", "siltdb-mimalloc"]));
}

#[test]
fn a_suite_may_say_whom_it_compares() {
    let all = ["siltdb", "rocksdb", "sled"];
    let of_two = Chosen { compared: owned(&["siltdb", "rocksdb"]), ..chosen() };
    let field = Field::new(&workers(&all), &[], &[]).unwrap();
    assert_eq!(field.of(&of_two), owned(&["siltdb", "rocksdb"]));
    let named = Field::new(&workers(&all), &owned(&["sled"]), &[]).unwrap();
    assert_eq!(named.of(&of_two), owned(&["sled"]), "who is named takes part");
}

#[test]
fn who_is_compared_and_not_built_is_told() {
    let of_three = Chosen { compared: owned(&["siltdb", "rocksdb", "lmdb"]), ..chosen() };
    let rows = [of_three, Chosen { compared: Vec::new(), ..chosen() }];
    let lmdb = ["lmdb=no compiler".parse().unwrap()];
    let left_out = |wanted: &[&str], absent: &[Absent]| {
        let field = Field::new(&workers(&["siltdb", "sled"]), &owned(wanted), absent).unwrap();
        field.left_out(&rows).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(left_out(&[], &[]), owned(&["lmdb", "rocksdb"]));
    assert_eq!(left_out(&[], &lmdb), owned(&["rocksdb"]), "its rows give the reason");
    assert_eq!(left_out(&["siltdb"], &[]), owned(&[]), "siltdb alone was asked for");
}
