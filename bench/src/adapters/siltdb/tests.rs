//! SiltDB gets the same resources as the other engines.

use super::{Config, Engine, Siltdb, TableKind};
use crate::{job::Op, trial};

#[test]
fn the_cache_is_as_large_as_asked() {
    for cache_bytes in [64 << 20, 8 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Siltdb::open(dir.path(), &Config { cache_bytes, ..Config::default() });
        let engine = engine.unwrap();
        assert_eq!(engine.db.stats().cache_bytes_max, cache_bytes);
        engine.close().unwrap();
    }
}

#[test]
fn only_the_mapped_variant_maps_and_it_says_so() {
    let told = |table| Siltdb::facts(&Config { table, ..Config::default() }).options;
    assert!(told(TableKind::Mapped).contains("None, read_io Map"));
    assert!(told(TableKind::Block).contains("Lz4, read_io Read"));
}

#[test]
fn bulk_loads_over_other_data_are_verified() {
    let report = trial::run::<Siltdb>(Op::Ingest, |job| job.config.write_buffer_bytes = 1 << 20);
    let report = report.unwrap();
    assert_eq!((report.throughput.ops, report.live_bytes), (1000, 1000 * 116));
    assert!(report.verified.checked >= 1000 && report.verified.checked == report.verified.expected);
}
