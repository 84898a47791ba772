//! Tests of rows made from reports.

use super::{curve, latency};
use crate::{job::Latency, measure};

fn timed(calls: u64) -> Latency {
    let mut histogram = measure::histogram();
    (1..=calls).for_each(|ns| histogram.record(ns * 10).unwrap());
    measure::latency(&histogram, 1, None)
}

#[test]
fn percentiles_end_where_calls_no_longer_tell_them_apart() {
    for (calls, are_there) in [
        (5, [false, false, false, false]),
        (19, [false, false, false, false]),
        (20, [true, false, false, false]),
        (100, [true, true, false, false]),
        (999, [true, true, false, false]),
        (1_000, [true, true, true, false]),
        (9_999, [true, true, true, false]),
        (10_000, [true, true, true, true]),
    ] {
        let row = latency(&timed(calls));
        let found = [row.p95, row.p99, row.p999, row.p9999].map(|one| one.is_some());
        assert_eq!(found, are_there, "{calls}");
        assert_eq!((row.calls, row.max), (Some(calls), timed(calls).max as f64));
    }
}

#[test]
fn a_curve_ends_at_the_last_percentile_and_the_longest_call() {
    for calls in [1, 5, 1_000, 50_000] {
        let points = curve(&timed(calls));
        let (longest, within) = points.split_last().unwrap();
        let last = 100.0 * (1.0 - 1.0 / calls as f64);
        assert!(within.iter().all(|point| point.percentile <= last), "{calls}");
        assert_eq!((longest.percentile, longest.ns), (100.0, timed(calls).max as f64));
        assert!(points.is_sorted_by(|a, b| a.percentile < b.percentile && a.ns <= b.ns));
    }
    assert!(curve(&Latency::default()).is_empty());
}
