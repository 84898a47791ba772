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
