//! Tests of the lines that `silt stats` prints, on statistics without a database.

use super::{amplification, blobs, cache_hits, data_lines, errors, text_of, waits};
use siltdb::Stats;

/// Columns of a narrow terminal.
const NARROW: usize = 38;

fn busy() -> Stats {
    let mut stats = Stats::default();
    stats.memtable_entries = 123_456;
    stats.memtable_bytes = 64 << 20;
    stats.table_entries = 9_876_543_210;
    (stats.tables[0], stats.tables[5], stats.tables[6]) = (4, 10, 123);
    stats.blob_files = 7;
    (stats.blob_bytes, stats.blob_garbage_bytes) = (900 << 30, 90 << 30);
    (stats.cache_hits, stats.cache_misses) = (999_000, 1_000);
    (stats.flushed_bytes, stats.compacted_bytes) = (1 << 30, 9 << 30);
    (stats.stalls, stats.stalled_ms, stats.delayed_ms) = (12, 3_400, 56);
    stats
}

#[test]
fn a_busy_database_has_numbers_with_units() {
    let stats = busy();
    let lines = data_lines(&stats, 2 << 40).map(|(name, text)| format!("{name}: {text}"));
    assert_eq!(
        lines,
        [
            "entries: 9,876,666,666",
            "on disk: 2.0 TiB",
            "tables: 137",
            "levels: L0: 4, L5: 10, L6: 123",
            "memtables: 64.0 MiB, 123,456 entries",
        ]
    );
    assert_eq!(blobs(&stats), "900.0 GiB, 10.0 % garbage");
    assert_eq!(cache_hits(&stats), "99.9 % of 1,000,000 blocks");
    assert_eq!(amplification(&stats), "10.0 times");
    assert_eq!(waits(&stats), "12, 3,456 ms");
    assert_eq!(errors(Some("io: x".to_owned()), 1), "io: x; 1 damaged place found by the scrub");
}

#[test]
fn a_new_database_has_words_where_a_ratio_has_no_value() {
    let stats = Stats::default();
    assert_eq!(data_lines(&stats, 0).map(|(_, text)| text)[1..4], ["0 B", "0", "none"]);
    assert_eq!(data_lines(&stats, 0)[4].1, "0 B, 0 entries");
    assert_eq!(blobs(&stats), "none");
    assert_eq!(cache_hits(&stats), "no block read yet");
    assert_eq!(amplification(&stats), "nothing flushed yet");
    assert_eq!([waits(&stats), errors(None, 0)], ["none", "none"]);
    let text = text_of(&data_lines(&stats, 0));
    assert!(text.lines().all(|line| line.chars().count() <= NARROW), "{text}");
}
