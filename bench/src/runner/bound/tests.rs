//! Tests of the binding limit, on a machine with round numbers as limits.

use super::*;
use crate::suite::{Overrides, select, suites};

fn limits() -> Vec<Limit> {
    let limit = |name: &str, unit, value| Limit {
        limit: name.to_owned(),
        about: String::new(),
        unit,
        value: Spread { median: value, min: value, max: value },
    };
    vec![
        limit("mapping-fill", LimitUnit::BytesPerS, 1e9),
        limit("memory-copy", LimitUnit::BytesPerS, 2e9),
        limit("page-cache-write", LimitUnit::BytesPerS, 1e9),
        limit("dram-miss-dependent", LimitUnit::Ns, 100.0),
        limit("fdatasync-written", LimitUnit::Ns, 40_000.0),
    ]
}

fn chosen(suite: &str, row: &str, scale: f64) -> Chosen {
    let overrides = Overrides { scale, threads: Some(2), ..Overrides::default() };
    let found = select(&suites(), &[suite.to_owned()], &[row.to_owned()]).unwrap();
    found[0].choose(&found[0].rows[0], &overrides)
}

fn bound(suite: &str, row: &str, scale: f64) -> Option<Bound> {
    Bound::of(&chosen(suite, row, scale), &limits(), 2)
}

#[test]
fn a_buffered_write_is_a_copy_on_each_core() {
    let bound = bound("tidesdb-v7", "random-write/batch-1000", 1.0).unwrap();
    // 116 bytes at a byte a nanosecond, twice at the same time.
    assert_eq!(bound.limit, "mapping-fill");
    assert!((bound.ops_per_s - 2e9 / 116.0).abs() < 1.0, "{bound:?}");
    let figure = Spread { median: bound.ops_per_s / 4.0, min: 1.0, max: 1.0 };
    assert!((bound.share(figure).share - 0.25).abs() < 1e-9);
}

#[test]
fn a_synced_write_shares_its_sync_with_the_other_threads() {
    let row = chosen("durable", "writers-4", 1.0);
    let bound = Bound::of(&row, &limits(), 2).unwrap();
    assert_eq!(bound.limit, "fdatasync-written");
    let ns = row.work.entry_bytes() as f64 + 40_000.0 / 4.0;
    assert!((bound.ops_per_s - 1e9 / ns).abs() < 1.0, "{bound:?}");
}

#[test]
fn a_read_waits_for_memory_once_if_the_data_does_not_fit_a_cache() {
    let large = bound("tidesdb-v7", "random-get", 1.0).unwrap();
    assert_eq!(large.limit, "dram-miss-dependent");
    assert!((large.ops_per_s - 2e9 / 100.0).abs() < 1.0, "{large:?}");
    assert_eq!(bound("tidesdb-v7", "random-get", 0.001), None);
}

#[test]
fn a_limit_that_was_not_measured_binds_nothing() {
    assert_eq!(Bound::of(&chosen("tidesdb-v7", "scan/random", 1.0), &[], 2), None);
}
