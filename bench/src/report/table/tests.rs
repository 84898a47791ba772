//! Tests of the terminal's tables, on made-up results.

use super::*;

const RUN: &str = include_str!("../../../tests/data/run.json");

#[test]
fn a_row_shows_figures_outcome_and_reasons() {
    let text = render(&Results::from_json(RUN).unwrap(), 140);
    let start = text.find("tidesdb-v7 mixed/batch-1").unwrap();
    let row = &text[start..];
    assert!(row.contains("process: siltdb leads fjall by 1.77×"), "{row}");
    assert!(row.contains("  tidesdb failed: verification: 3,122 of"), "{row}");
    assert!(row.contains("  bbolt not run: peers/go is not built"), "{row}");
    assert!(text.contains("process: tidesdb leads siltdb by 1.13×; siltdb reaches 0.89×"));
    assert!(text.lines().any(|line| line.starts_with(" sled ") && line.contains("49K")));
}

#[test]
fn tables_keep_to_the_width() {
    let results = Results::from_json(RUN).unwrap();
    let text = limits(&results.limits, 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("52 GB/s") || text.contains("55.8 GB/s"), "{text}");
}

#[test]
fn a_row_of_transactions_names_the_level_of_each_engine() {
    let mut results = Results::from_json(RUN).unwrap();
    let row = results.rows.iter_mut().find(|row| row.engine == "fjall").unwrap();
    row.extra.transactions = Some(crate::result::Transactions {
        isolation: "serializable, it says".to_owned(),
        retries: 12_345,
        slowest_share: Some(0.731),
        held: Some(10_000),
        begin_ns: Some(250.0),
        held_bytes: Some(300.0),
    });
    let text = render(&results, 140);
    assert_eq!(text.matches("serializable, it says").count(), 1);
    let line = text.lines().find(|line| line.contains("serializable, it says")).unwrap();
    for part in ["fjall", "12,345", "73.1 % of the mean", "10,000", "250 ns", "300 B"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let markdown = crate::report::markdown::render(&results);
    let line = markdown.lines().find(|line| line.contains("serializable, it says")).unwrap();
    assert!(line.ends_with("| 12,345 | 73.1 % | 10,000 | 250 ns | 300 B |"), "{line}");
}
