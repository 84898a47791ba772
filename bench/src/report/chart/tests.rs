//! Tests of pictures: they show the measured figures, and are well-formed.

use super::*;
use crate::report::claims::{Claims, tests::claimed};
use crate::report::ranking::groups;

fn engines() -> Vec<String> {
    ENGINES.map(str::to_owned).to_vec()
}

/// The lengths of the bars, in the order they are drawn.
fn lengths(svg: &str) -> Vec<f64> {
    let bars = svg.lines().filter(|line| line.starts_with(&format!("<rect x=\"{}\"", BARS.0)));
    let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
    bars.map(|line| width(line).unwrap()).collect()
}

fn is_well_formed(svg: &str) -> bool {
    let opened = svg.matches("<text").count() + svg.matches("<svg").count();
    let closed = svg.matches("</text>").count() + svg.matches("</svg>").count();
    opened == closed && svg.trim_end().ends_with("</svg>") && !svg.contains("NaN")
}

#[test]
fn the_fastest_has_the_longest_bar_and_the_others_their_share() {
    let results = claimed();
    let groups = groups(&results);
    let group = groups.iter().find(|group| group.row == "get").unwrap();
    let svg = bars(&results, &[group], &engines(), Theme::Light);
    assert!(is_well_formed(&svg), "{svg}");
    let lengths = lengths(&svg);
    let median = |engine| comparable(group, engine).unwrap();
    assert_eq!(lengths.len(), ENGINES.len());
    assert!((lengths[0] - BARS.1).abs() < 0.1, "siltdb leads: {lengths:?}");
    let share = median("rocksdb") / median("siltdb");
    assert!((lengths[1] / lengths[0] - share).abs() < 0.01, "{lengths:?}");
    assert!(svg.contains(&format!(">{}</text>", rate(median("rocksdb")))));
}

#[test]
fn an_engine_that_is_not_compared_has_a_dash_and_no_bar() {
    let results = claimed();
    let groups = groups(&results);
    let group = groups.iter().find(|group| group.row == "put/batch").unwrap();
    let svg = bars(&results, &[group], &engines(), Theme::Light);
    assert_eq!(lengths(&svg)[2], 0.0, "LMDB is of another class");
    assert!(svg.contains(&format!(">{NONE}</text>")));
}

#[test]
fn a_long_label_ends_before_the_bars() {
    let mut results = claimed();
    results.suites[0].rows[0].about = "é".repeat(LABEL_CHARACTERS + 1);
    let groups = groups(&results);
    let cut = short_label(&groups[0]);
    assert_eq!(cut, format!("{}…", "é".repeat(LABEL_CHARACTERS)));
    assert_eq!(short_label(&groups[1]), "What get does");
}

#[test]
fn the_foot_tells_commit_machine_and_day_and_themes_differ() {
    let results = claimed();
    let claims = Claims::of(&results).unwrap();
    let light = bars(&results, &claims.charted(), &engines(), Theme::Light);
    let dark = bars(&results, &claims.charted(), &engines(), Theme::Dark);
    for svg in [&light, &dark] {
        assert!(svg.contains("Commit abc1234, Intel Xeon @ 2.10 GHz (virtual) (2 cores), 2026-"));
    }
    assert_eq!(lengths(&light), lengths(&dark));
    assert!(light.contains("fill=\"#ffffff\"") && !dark.contains("#ffffff"));
}

/// The heights of the points of the first shape of this kind.
fn heights(svg: &str, shape: &str) -> Vec<f64> {
    let shape = svg.split(shape).nth(1).unwrap();
    let points = shape.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    points.split(' ').map(|point| point.split_once(',').unwrap().1.parse().unwrap()).collect()
}

#[test]
fn a_curve_joins_medians_of_ten_seconds_in_a_band_of_their_extremes() {
    let mut results = claimed();
    for row in results.rows.iter_mut().filter(|row| row.extra.samples.len() > 1) {
        let ops = |second: u64| if second == 3 { 20 } else { 100 + second };
        row.extra.samples = (0..25).map(ops).collect();
    }
    let claims = Claims::of(&results).unwrap();
    let svg = curves(&results, claims.curve().unwrap(), &engines(), Theme::Dark);
    assert!(is_well_formed(&svg), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), 1, "only siltdb has samples");
    let height = |ops: f64| HEAD + PLOT * (1.0 - ops / 124.0);
    let is_at = |found: Vec<f64>, expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        let pairs = found.iter().zip(expected);
        assert!(pairs.clone().all(|(y, ops)| (y - height(*ops)).abs() < 0.1), "{found:?}");
    };
    is_at(heights(&svg, "<polyline"), &[104.0, 114.0, 122.0]);
    // One slow second shows in the band and not in the line.
    is_at(heights(&svg, "<polygon"), &[109.0, 119.0, 124.0, 120.0, 110.0, 20.0]);
    assert!(svg.contains("medians of 10 seconds"));
}
