//! SiltDB gets the same resources as the other engines.

use super::{Config, Engine, Siltdb, TableKind};

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
