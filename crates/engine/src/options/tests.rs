//! Options at their bounds and far beyond.

use super::*;
use siltdb_base::error::ErrorKind;
use siltdb_disk::log::{record::SEGMENT_BYTES_MAX, segment::SEGMENT_HEADER_BYTES};

fn sizes(memory_budget: usize, memtable_bytes: usize) -> EngineOptions {
    EngineOptions { memory_budget, memtable_bytes, ..EngineOptions::default() }
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
        assert!((memory_budget / 4..=memory_budget).contains(&options.cache_bytes()));
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
        assert!(options.cache_bytes() <= memory_budget);
    }
    assert!(2 * MEMTABLE_BYTES_MAX + 2 * (SEGMENT_HEADER_BYTES as u64) < SEGMENT_BYTES_MAX);
}
