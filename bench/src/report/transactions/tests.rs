//! Tests of the table, on made-up results.

use super::*;
use crate::result::{Bars, Beside, Definition, Status, Suite};

const RUN: &str = include_str!("../../../tests/data/run.json");

/// A row of transactions of siltdb, beside another of RocksDB with locks and one of fjall, and a
/// row that has no bars.
pub(crate) fn measured() -> Results {
    let mut results = Results::from_json(RUN).unwrap();
    let found = |row: &&Row| row.engine == "siltdb" && row.ops_per_s_settled.is_some();
    let template = results.rows.iter().find(found).unwrap().clone();
    let row = |row: &str, engine: &str, per_second: f64| {
        let spread = Spread { median: per_second, min: per_second, max: per_second };
        let (suite, row, engine) = (TRANSACTIONS.to_owned(), row.to_owned(), engine.to_owned());
        let (ops_per_s, ops_per_s_settled) = (Some(spread), Some(spread));
        Row { suite, row, engine, ops_per_s, ops_per_s_settled, ..template.clone() }
    };
    let unsupported = Row { status: Status::Unsupported, ..row("counters", "bbolt", 1.0) };
    results.rows = vec![
        row("counters", "siltdb", 300_000.0),
        row("counters", "siltdb-locks", 400_000.0),
        row("counters", "rocksdb-pessimistic", 200_000.0),
        row("counters", "fjall", 250_000.0),
        unsupported,
        row("plain", "siltdb", 500_000.0),
    ];
    let beside =
        Beside { row: "counters".to_owned(), engine: "siltdb-locks".to_owned(), least: 1.0 };
    let bars = Bars { others: Some(1.0), beside: Some(beside), ..Bars::default() };
    let counters = Definition { row: "counters".to_owned(), bars, ..Definition::default() };
    let counters = Definition { about: "Count".to_owned(), ..counters };
    let plain = Definition { row: "plain".to_owned(), ..Definition::default() };
    let plain = Definition { about: "Put".to_owned(), ..plain };
    let suite = TRANSACTIONS.to_owned();
    results.suites = vec![Suite { suite, rows: vec![counters, plain], ..Suite::default() }];
    results
}

#[test]
fn a_row_shows_its_rivals_and_what_it_misses() {
    let text = render(&measured()).unwrap();
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    assert_eq!(
        line("| `counters`"),
        "| `counters` | Count | 300K | fjall 250K | **1.20×** | RocksDB, with locks 200K | \
         **missed**: 0.75× of siltdb-locks in `counters`, 1 asked for |"
    );
    assert_eq!(line("| `plain`"), "| `plain` | Put | 500K | – | – | – | – |");
    assert!(text.contains("Commit ") && text.contains("\n    silt-bench "), "{text}");
}

#[test]
fn results_of_other_suites_are_refused() {
    let results = Results::from_json(RUN).unwrap();
    assert!(render(&results).unwrap_err().contains("no row of the suite"));
}
