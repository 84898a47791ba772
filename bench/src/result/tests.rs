//! Tests of the schema: its field names are a contract, and other versions are refused.

use super::*;

const ROW: &str = r#"{"suite": "ycsb", "row": "a", "engine": "siltdb", "durability": "process",
    "threads": 2, "batch": 1, "ops": 10, "ops_per_s": {"median": 5.0, "min": 4.0, "max": 6.0},
    "ops_per_s_settled": null, "latency_ns": null, "cpu_percent": 180.0, "peak_vms_bytes": 1,
    "verified": {"expected": 10, "checked": 10}, "peak_rss_bytes": 1, "bytes_written": 1,
    "db_bytes": 1, "db_bytes_compacted": 1, "write_amp": 1.0, "space_amp": 1.0,
    "status": "ok", "reason": null, "samples": [3, 4], "harness_ns": 2.5}"#;

fn file(schema: &str) -> String {
    format!(r#"{{{schema} "machine": {{}}, "options": {{}}, "rows": [{ROW}]}}"#)
}

#[test]
fn a_file_with_the_published_field_names_reads() {
    let results = Results::from_json(&file(r#""schema": 1,"#)).unwrap();
    let row = &results.rows[0];
    assert_eq!(row.figure().map(|figure| figure.median), Some(5.0));
    assert_eq!((row.durability, row.status), (Durability::Process, Status::Ok));
    assert_eq!((&row.extra.samples[..], row.extra.harness_ns), (&[3, 4][..], Some(2.5)));
}

#[test]
fn what_is_written_reads_back_the_same() {
    let results = Results::from_json(&file(r#""schema": 1,"#)).unwrap();
    assert_eq!(Results::from_json(&results.to_json()).unwrap(), results);
}

#[test]
fn other_schemas_are_refused_by_number() {
    let message = |text: &str| Results::from_json(text).unwrap_err().to_string();
    assert_eq!(message(&file(r#""schema": 2,"#)), "unknown schema of results. expected=1, found=2");
    assert_eq!(message(&file("")), "not a results file of silt-bench: it has no `schema`");
    assert_eq!(message(r#"{"schema": 7}"#), "unknown schema of results. expected=1, found=7");
    assert!(message("[]").starts_with("not a results file"));
}

#[test]
fn a_figure_shows_only_if_all_of_it_was_checked() {
    let mut row: Row = serde_json::from_str(ROW).unwrap();
    row.ops_per_s_settled = Some(Spread { median: 3.0, min: 3.0, max: 3.0 });
    assert_eq!(row.figure().map(|figure| figure.median), Some(3.0));
    row.verified = Some(Verified { expected: 10, checked: 9 });
    assert_eq!(row.figure(), None);
    row.verified = None;
    assert_eq!(row.figure(), None);
    row.verified = Some(Verified { expected: 10, checked: 10 });
    row.status = Status::Failed;
    assert_eq!(row.figure(), None);
}

#[test]
fn a_spread_is_median_and_ends() {
    let spread = |values| Spread::of(values).map(|s| (s.median, s.min, s.max));
    assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
    assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
    assert_eq!(spread(&[]), None);
    assert_eq!(spread(&[1.0, f64::NAN]), None);
}
