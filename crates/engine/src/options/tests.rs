//! Options at their bounds and far beyond, and the division of memory.

use super::*;
use siltdb_base::error::ErrorKind;
use siltdb_disk::log::{record::SEGMENT_BYTES_MAX, segment::SEGMENT_HEADER_BYTES};

const MIB: usize = 1 << 20;

fn sizes(memory_budget: usize, memtable_bytes: usize) -> EngineOptions {
    EngineOptions { memory_budget, memtable_bytes, ..EngineOptions::default() }
}

#[test]
fn the_rate_of_moves_is_checked_at_its_bound() {
    let at = |tier_rate| EngineOptions { tier_rate, ..EngineOptions::default() }.check();
    at(TIER_RATE_MIN).unwrap();
    at(u64::MAX).unwrap();
    assert_eq!(at(TIER_RATE_MIN - 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn sizes_are_checked_at_their_bounds() {
    let largest = MEMTABLE_BYTES_MAX as usize;
    for (memory_budget, memtable_bytes) in [
        (2 * MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MIN),
        (usize::MAX, MEMTABLE_BYTES_MIN),
        (2 * largest, largest),
        (usize::MAX, largest),
    ] {
        let options = sizes(memory_budget, memtable_bytes);
        options.check().unwrap();
        assert!((memory_budget / 4..=memory_budget).contains(&options.cache_bytes_max()));
    }
    for (memory_budget, memtable_bytes) in [
        (usize::MAX, MEMTABLE_BYTES_MIN - 1),
        (2 * MEMTABLE_BYTES_MIN - 1, MEMTABLE_BYTES_MIN),
        (0, MEMTABLE_BYTES_MIN),
        (2 * largest - 1, largest),
        (usize::MAX, largest + 1),
        (usize::MAX, usize::MAX / 2 + 1),
        (usize::MAX, usize::MAX),
        (0, usize::MAX),
    ] {
        let options = sizes(memory_budget, memtable_bytes);
        assert_eq!(options.check().unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(options.cache_bytes_max() <= memory_budget);
    }
    assert!(2 * MEMTABLE_BYTES_MAX + 2 * (SEGMENT_HEADER_BYTES as u64) < SEGMENT_BYTES_MAX);
}

fn options(memory_budget: usize, cache_bytes: Option<usize>) -> EngineOptions {
    EngineOptions { memory_budget, cache_bytes, ..EngineOptions::default() }
}

#[test]
fn the_cache_has_what_memtables_leave_or_what_was_asked_for() {
    assert_eq!(options(512 * MIB, None).cache_bytes_max(), 384 * MIB);
    assert_eq!(options(160 * MIB, None).cache_bytes_max(), 40 * MIB, "a quarter at least");
    for bytes in [0, 64 * MIB, 320 * MIB] {
        let options = options(320 * MIB, Some(bytes));
        options.check().unwrap();
        assert_eq!(options.cache_bytes_max(), bytes);
    }
}

#[test]
fn a_cache_beyond_the_budget_is_refused() {
    let error = options(320 * MIB, Some(320 * MIB + 1)).check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("cache_bytes is more than memory_budget"), "{error}");
}

#[test]
fn four_generations_leave_a_quarter_of_the_budget() {
    for (budget, generation) in [(512, 32), (160, 30), (64, 12)] {
        let options = options(budget * MIB, None);
        options.check().unwrap();
        assert_eq!(options.generation_bytes(), generation * MIB);
        assert_eq!(options.memtables_reserved(), 4 * generation * MIB);
        assert_eq!(options.cache_bytes_max(), (budget - 4 * generation) * MIB);
    }
    let least = sizes(2 * MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MIN);
    assert_eq!(least.generation_bytes(), MEMTABLE_BYTES_MIN);
    // The cache that was asked for is not reserved for memtables.
    let options = options(320 * MIB, Some(300 * MIB));
    assert_eq!(options.memtables_reserved(), 20 * MIB);
}

#[test]
fn a_background_rate_is_none_or_at_least_the_lowest() {
    let check =
        |background_rate| EngineOptions { background_rate, ..EngineOptions::default() }.check();
    for rate in [0, BACKGROUND_RATE_MIN, u64::MAX] {
        check(rate).unwrap();
    }
    for rate in [1, BACKGROUND_RATE_MIN - 1] {
        let error = check(rate).unwrap_err();
        assert!(error.to_string().contains("background_rate is too small"), "{error}");
    }
}

#[test]
fn the_default_budget_is_at_most_a_quarter_of_the_control_group() {
    assert_eq!(default_budget(None), 512 * MIB);
    assert_eq!(default_budget(Some(u64::MAX)), 512 * MIB);
    assert_eq!(default_budget(Some(2048 << 20)), 512 * MIB);
    assert_eq!(default_budget(Some(300 << 20)), 75 * MIB);
    assert_eq!(default_budget(Some(1 << 20)), 8 * MIB);
    let options = EngineOptions::default();
    assert_eq!(options.memory_budget, default_budget(memory_limit_bytes()));
    options.check().unwrap();
    let all = [None, Some(300 << 20), Some(1)];
    for memory_budget in all.map(default_budget) {
        let memtable_bytes = (32 * MIB).min(memory_budget / 2);
        EngineOptions { memory_budget, memtable_bytes, ..EngineOptions::default() }
            .check()
            .unwrap();
    }
}
