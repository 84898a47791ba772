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
    assert!(told(TableKind::MappedBtree).contains("None, read_io Map"));
}

#[test]
fn tables_are_of_the_kind_that_is_asked_for() {
    let kinds = [
        (TableKind::Block, siltdb::TableKind::Block),
        (TableKind::Btree, siltdb::TableKind::BTree),
        (TableKind::MappedBtree, siltdb::TableKind::BTree),
    ];
    for (table, kind) in kinds {
        let dir = tempfile::tempdir().unwrap();
        let engine = Siltdb::open(dir.path(), &Config { table, ..Config::default() }).unwrap();
        let expected = siltdb::FamilyOptions::new().table_kind(kind).get("table_kind").unwrap();
        assert_eq!(engine.families[0].options().get("table_kind").unwrap(), expected);
        engine.close().unwrap();
    }
}

#[test]
fn bulk_loads_over_other_data_are_verified() {
    let report = trial::run::<Siltdb>(Op::Ingest, |job| job.config.write_buffer_bytes = 1 << 20);
    let report = report.unwrap();
    assert_eq!((report.throughput.ops, report.live_bytes), (1000, 1000 * 116));
    assert!(report.verified.checked >= 1000 && report.verified.checked == report.verified.expected);
}
