//! Tests of the tables of the pages, on made-up results.

use super::*;
use crate::result::Suite;

const RUN: &str = include_str!("../../../tests/data/run.json");
/// The rows of the made-up results, and the rows of the claims that they stand for.
const ROWS: [(&str, &str); 4] = [
    ("random-write/batch-1000", "put/batch"),
    ("random-get", "get"),
    ("delete/batch-1000", "delete"),
    ("sequential-write/batch-1000", "sustained"),
];

/// The made-up results as if they were of the suite `claims`.
pub(crate) fn claimed() -> Results {
    let mut results = Results::from_json(RUN).unwrap();
    let of = |id: &str| ROWS.iter().find(|(old, _)| *old == id).map(|(_, new)| (*new).to_owned());
    results.rows.retain(|row| row.suite == "tidesdb-v7" && of(&row.row).is_some());
    for row in &mut results.rows {
        (row.suite, row.row) = (CLAIMS.to_owned(), of(&row.row).unwrap());
        row.extra.samples = Vec::new();
        if row.row == "sustained" && row.engine == "siltdb" {
            row.extra.samples = vec![1000, 900, 400, 1100, 1000];
        }
    }
    let definition = |(_, id): &(&str, &str)| crate::result::Definition {
        row: (*id).to_owned(),
        about: format!("What {id} does"),
        cause: format!("why {id} is behind"),
        ..Default::default()
    };
    let rows = ROWS.iter().map(definition).collect();
    results.suites = vec![Suite { suite: CLAIMS.to_owned(), rows, ..Suite::default() }];
    results.commit = "abc1234".to_owned();
    results
}

fn table_of(results: &Results, name: &str) -> String {
    let tables = Claims::of(results).unwrap().tables();
    tables.into_iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn other_results_are_refused() {
    let message = Claims::of(&Results::from_json(RUN).unwrap()).err().unwrap();
    assert_eq!(message, "the results have no row of the suite `claims`");
}

#[test]
fn a_lost_row_is_lost_in_every_table_and_has_its_cause() {
    let results = claimed();
    let row = |table: &str| {
        let text = table_of(&results, table);
        let line = text.lines().find(|line| line.starts_with("| What put/batch does |"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(
        row("claims").contains("| TidesDB 1.15M (") && row("claims").contains("| 0.89×, lost |")
    );
    let loss = row("losses");
    assert!(loss.contains("| TidesDB 1.15M | 0.89×, lost | why put/batch is behind |"), "{loss}");
    let headline = table_of(&results, "headline");
    let said = "\nAnother engine is faster in 2 of 4: What put/batch does; What delete does. ";
    assert!(headline.contains(said), "{headline}");
    let prose = headline.lines().filter(|line| !line.starts_with('|'));
    assert!(prose.map(str::len).max() <= Some(LINE_BYTES_MAX), "{headline}");
}

#[test]
fn a_won_row_is_bold_and_no_loss() {
    let results = claimed();
    let claims = table_of(&results, "claims");
    assert!(claims.contains("| What get does | ") && claims.contains("| **1.51×** |"), "{claims}");
    assert!(!table_of(&results, "losses").contains("What get does"));
    let headline = table_of(&results, "headline");
    let line = headline.lines().find(|line| line.starts_with("| What get does | **")).unwrap();
    assert_eq!(line.matches("**").count(), 2, "only the fastest: {line}");
}

#[test]
fn an_engine_of_another_class_has_a_dash() {
    let headline = table_of(&claimed(), "headline");
    let line = headline.lines().find(|line| line.starts_with("| What put/batch does |")).unwrap();
    let cells: Vec<&str> = line.split(" | ").collect();
    assert_eq!(cells[3], NONE, "LMDB acknowledges in memory there: {line}");
}

#[test]
fn tables_tell_commit_machine_command_and_scale() {
    let mut results = claimed();
    let claims = table_of(&results, "claims");
    for part in
        ["Commit abc1234, Intel Xeon", "(2 cores)", "\n\n    silt-bench run", "A trial at 0.05"]
    {
        assert!(claims.contains(part), "{part} in {claims}");
    }
    results.options.scale = 1.0;
    assert!(!table_of(&results, "claims").contains("trial"));
}

#[test]
fn seconds_of_the_sustained_row_are_counted() {
    let mut results = claimed();
    let text = table_of(&results, "sustained");
    // The median of 400, 900, 1000, 1000, 1100; one is below its half.
    assert!(text.contains("| SiltDB | 1K | 400 | 400 | 1 of 5 s | "), "{text}");
    results.rows.retain(|row| row.row != "sustained");
    assert!(table_of(&results, "sustained").contains("no sustained row"));
}
