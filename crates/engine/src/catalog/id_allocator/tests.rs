//! Uids and ids are given once, whatever the seed.

use super::*;
use crate::fixture::{flush, open, put};
use siltdb_base::{error::ErrorKind, fs::mem::MemFs};
use std::collections::BTreeSet;

#[test]
fn ids_of_families_end_before_they_repeat() {
    let last = FamilyId(FAMILY_IDS_MAX - 1);
    let ids = IdAllocator::new(FileNumber(1), last, Random::new(Some(1)));
    assert_eq!(ids.family().unwrap(), last);
    for _ in 0..3 {
        assert_eq!(ids.family().unwrap_err().kind(), ErrorKind::InvalidArgument);
        // What the next edit says, which an opening accepts.
        assert_eq!(ids.next_family(), FamilyId(FAMILY_IDS_MAX));
    }
}

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
