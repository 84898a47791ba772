//! Tests of the subcommands on files, through their command line.

use super::*;
use clap::Parser;
use std::fs;

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/run.json");

#[derive(Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

fn run(arguments: &[&str]) -> Result<Outcome, String> {
    let arguments = ["silt-bench"].iter().chain(arguments);
    let line = CommandLine::try_parse_from(arguments).map_err(|error| error.to_string())?;
    line.command.run(120)
}

/// A results file in which siltdb is `factor` times as fast.
fn changed(dir: &Path, factor: f64) -> String {
    let mut results = read(Path::new(RUN)).unwrap();
    for row in results.rows.iter_mut().filter(|row| row.engine == "siltdb") {
        for spread in [&mut row.ops_per_s, &mut row.ops_per_s_settled].into_iter().flatten() {
            spread.median *= factor;
            spread.min *= factor;
            spread.max *= factor;
        }
    }
    let path = dir.join("changed.json");
    fs::write(&path, results.to_json()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn compare_ends_with_one_on_a_regression_over_the_threshold() {
    let dir = tempfile::tempdir().unwrap();
    let slower = changed(dir.path(), 0.8);
    assert_eq!(run(&["compare", RUN, RUN]).unwrap().exit_code, 0);
    assert_eq!(run(&["compare", RUN, &slower]).unwrap().exit_code, 1);
    assert_eq!(run(&["compare", &slower, RUN]).unwrap().exit_code, 0);
    assert_eq!(run(&["compare", RUN, &slower, "--threshold", "25"]).unwrap().exit_code, 0);
    assert!(run(&["compare", RUN, &slower, "--threshold", "-1"]).is_err());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.json").to_str().unwrap().to_owned();
    assert!(run(&["compare", RUN, &missing]).unwrap_err().contains("none.json"));
    let newer = dir.path().join("newer.json").to_str().unwrap().to_owned();
    fs::write(&newer, r#"{"schema": 2}"#).unwrap();
    let message = run(&["report", &newer]).unwrap_err();
    assert!(message.contains("newer.json: unknown schema"), "{message}");
}

#[test]
fn a_report_is_written_in_each_form_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (page, chart) = (path("run.html"), path("run.svg"));
    let shown = run(&["report", RUN, "--html", &page, "--svg", &chart]).unwrap().text;
    assert!(shown.contains("tidesdb-v7 random-get"));
    assert!(fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
    assert!(fs::read_to_string(chart).unwrap().starts_with("<svg "));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn limits_as_json_can_be_embedded_in_results() {
    let results = read(Path::new(RUN)).unwrap();
    let file: serde_json::Value = serde_json::from_str(&limits_json(&results.limits)).unwrap();
    assert_eq!(file["schema"], 1);
    let limits: Vec<Limit> = serde_json::from_value(file["limits"].clone()).unwrap();
    assert_eq!(limits, results.limits);
}
