//! After flushes, clones, branches, merges, drops and openings the counts are those of the tables.

use crate::{
    engine::Engine,
    fixture::{
        branches, clone_family, compact, compact_all, create_family, drop_family, flush, killed,
        open, put, tree_options,
    },
};
use siltdb_base::fs::mem::MemFs;
use siltdb_tree::options::TreeOptions;

/// The bytes in blob files by the counts, which are those of the tables.
fn counted(engine: &Engine) -> u64 {
    let families = &engine.database().catalog.families;
    let counted = families.usage().blob_bytes();
    assert_eq!(counted, families.load().blob_bytes());
    counted.values().sum()
}

fn fill(engine: &Engine, family: &str, keys: std::ops::Range<u32>) {
    keys.for_each(|key| put(engine, family, format!("{key:03}").as_bytes(), &[7; 500]));
    flush(engine).unwrap();
}

#[test]
fn what_families_share_counts_until_the_last_of_them_has_it_no_more() {
    let fs = MemFs::new();
    let engine = open(&fs);
    assert_eq!(counted(&engine), 0);
    let options = TreeOptions { value_threshold: 32, ..tree_options() };
    let first = create_family(&engine, "first", options).unwrap();
    fill(&engine, "first", 0..20);
    let once = counted(&engine);
    assert!(once > 0);
    let second = clone_family(&engine, &first, "second", None).unwrap();
    clone_family(&engine, &second, "third", None).unwrap();
    branches::create(&engine, "branch").unwrap();
    assert_eq!(counted(&engine), once, "shared");
    drop_family(&engine, "first").unwrap();
    drop_family(&engine, "third").unwrap();
    assert_eq!(counted(&engine), once, "still shared");
    let engine = open(&killed(&fs));
    assert_eq!(counted(&engine), once, "after an opening");
    fill(&engine, "second", 0..10);
    let second = engine.database().catalog.families.named("second").unwrap();
    compact(&engine, &second).unwrap();
    assert!(counted(&engine) > once);
    drop_family(&engine, "second").unwrap();
    assert_eq!(counted(&engine), once);
    branches::drop_branch(&engine, "branch").unwrap();
    assert_eq!(counted(&engine), 0);
}

#[test]
fn bytes_of_small_tables_have_left_once_no_family_has_them() {
    let engine = open(&MemFs::new());
    let families = &engine.database().catalog.families;
    let bytes = |name: &str| {
        let view = families.named(name).unwrap().tree.view();
        view.version.tables().map(|(_, table)| table.file_bytes()).sum::<u64>()
    };
    let left = || families.usage().left_bytes();
    let first = create_family(&engine, "first", tree_options()).unwrap();
    fill(&engine, "first", 0..20);
    fill(&engine, "first", 10..30);
    let both = bytes("first");
    clone_family(&engine, &first, "second", None).unwrap();
    compact_all(&engine).unwrap();
    assert!(bytes("first") < both);
    let merged_twice = left();
    assert_eq!(merged_twice, both, "each merged its own");
    let merged = bytes("first") + bytes("second");
    drop_family(&engine, "second").unwrap();
    drop_family(&engine, "first").unwrap();
    assert_eq!(left(), both + merged);
}
