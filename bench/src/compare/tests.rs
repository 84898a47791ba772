//! Tests of the definition of changes and regressions.

use super::*;
use crate::result::Status;

const RUN: &str = include_str!("../../tests/data/run.json");

fn run() -> Results {
    Results::from_json(RUN).unwrap()
}

/// The run with `engine` in random-get `factor` times as fast.
fn run_with(engine: &str, factor: f64) -> Results {
    let mut results = run();
    let row = entry(&mut results, engine);
    let Spread { median, min, max } = row.ops_per_s.unwrap();
    row.ops_per_s = Some(Spread { median: median * factor, min: min * factor, max: max * factor });
    results
}

fn entry<'a>(results: &'a mut Results, engine: &str) -> &'a mut Row {
    let wanted = |row: &&mut Row| row.row == "random-get" && row.engine == engine;
    results.rows.iter_mut().find(wanted).unwrap()
}

fn regressions(after: &Results) -> Vec<(String, Kind)> {
    let before = run();
    let comparison = compare(&before, after, 0.1);
    comparison.regressions().map(|of| (of.row.engine.clone(), of.kind)).collect()
}

#[test]
fn a_run_compared_with_itself_has_no_changes() {
    let (before, after) = (run(), run());
    let comparison = compare(&before, &after, 0.0);
    assert_eq!(comparison.regressions().count(), 0);
    let text = comparison.render(120);
    assert!(text.contains("0 faster, 0 slower"), "{text}");
    assert!(text.ends_with("no regression over 0 %\n"), "{text}");
}

#[test]
fn slower_than_noise_and_threshold_is_a_regression_of_ours_only() {
    let found = regressions(&run_with("siltdb", 0.8));
    let [(engine, Kind::Slower(share))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(engine, "siltdb");
    assert!((share - 0.2).abs() < 1e-9);
    assert_eq!(regressions(&run_with("rocksdb", 0.5)), []);
    assert_eq!(regressions(&run_with("siltdb", 1.5)), []);
}

#[test]
fn a_difference_within_the_ranges_is_noise() {
    let spread = |median: f64, range: f64| Spread {
        median,
        min: median - range / 2.0,
        max: median + range / 2.0,
    };
    assert_eq!(judge(spread(100.0, 20.0), spread(81.0, 20.0)), Kind::Same);
    assert_eq!(judge(spread(100.0, 20.0), spread(79.0, 20.0)), Kind::Slower(0.21));
    assert_eq!(judge(spread(100.0, 4.0), spread(110.0, 4.0)), Kind::Faster(0.1));
}

#[test]
fn losing_a_figure_is_a_regression_whatever_the_threshold() {
    let mut after = run();
    entry(&mut after, "siltdb").status = Status::Failed;
    entry(&mut after, "siltdb").reason = Some("verification: 1 wrong".to_owned());
    assert_eq!(regressions(&after), [("siltdb".to_owned(), Kind::Broken)]);
    let before = run();
    let text = compare(&before, &after, 9.0).render(160);
    assert!(text.contains("failed: verification: 1 wrong"), "{text}");
}

#[test]
fn rows_of_one_run_only_and_other_conditions_are_told() {
    let (before, mut after) = (run(), run());
    after.rows.retain(|row| row.suite != "thunder");
    after.options.scale = 1.0;
    let comparison = compare(&before, &after, 0.1);
    assert_eq!(comparison.regressions().count(), 0);
    let text = comparison.render(160);
    assert!(text.starts_with("the runs differ in their scale: 0.05, then 1\n"), "{text}");
    assert!(text.contains("not in the second run"), "{text}");
}
