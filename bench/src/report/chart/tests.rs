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

#[test]
fn a_curve_has_a_point_for_each_second() {
    let results = claimed();
    let claims = Claims::of(&results).unwrap();
    let svg = curves(&results, claims.curve().unwrap(), &engines(), Theme::Dark);
    assert!(is_well_formed(&svg), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), 1, "only siltdb has samples");
    let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    let up: Vec<f64> =
        points.split(' ').map(|point| point.split_once(',').unwrap().1.parse().unwrap()).collect();
    assert_eq!(up.len(), 5);
    // 1,100 of 1,100 is at the top, 400 is lowest.
    assert!((up[3] - HEAD).abs() < 0.1 && up.iter().all(|y| *y <= up[2]), "{up:?}");
}
