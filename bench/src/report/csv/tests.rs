//! Tests that a program reading the CSV finds what the run found.

use super::*;

const RUN: &str = include_str!("../../../tests/data/run.json");

#[test]
fn each_entry_is_a_line_with_its_figures() {
    let results = Results::from_json(RUN).unwrap();
    let text = render(&results);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|column| column == name).unwrap();
    let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(lines.len(), results.rows.len());
    for (line, row) in lines.iter().zip(&results.rows) {
        assert_eq!((&line[at("row")], &line[at("engine")]), (&row.row[..], &row.engine[..]));
        assert_eq!(line[at("ops_per_s_median")].parse().ok(), row.ops_per_s.map(|f| f.median));
        assert_eq!(line[at("latency_ns_p99")].parse().ok(), row.latency_ns.and_then(|l| l.p99));
        assert_eq!(&line[at("reason")], row.reason.as_deref().unwrap_or(""));
    }
}
