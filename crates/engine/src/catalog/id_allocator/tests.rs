//! Uids are given once, whatever the seed.

use crate::fixture::{flush, open, put};
use siltdb_base::{fs::mem::MemFs, id::TableUid};
use std::collections::BTreeSet;

/// The fixture opens each time with the same seed.
#[test]
fn openings_with_one_seed_give_each_table_a_uid_of_its_own() {
    let fs = MemFs::new();
    let mut uids: BTreeSet<TableUid> = BTreeSet::new();
    for opening in 1..6 {
        let engine = open(&fs);
        put(&engine, "default", b"key", b"value");
        flush(&engine).unwrap();
        let view = engine.database().catalog.families.named("default").unwrap().tree.view();
        let newest = view.version.tables().map(|(_, table)| (table.id().file, table.meta().uid));
        uids.insert(newest.max().unwrap().1);
        assert_eq!(uids.len(), opening, "{uids:?}");
        engine.close().unwrap();
    }
}
