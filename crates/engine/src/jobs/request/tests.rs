//! What a compaction of everything costs.

use crate::fixture::{compact_all, contents, create_family, flush, get, open, put, tree_options};
use siltdb_base::{
    fs::mem::{CallKind, MemFs},
    sync::lock,
};
use std::sync::{Arc, Mutex};

#[test]
fn compacting_many_small_families_takes_few_syncs() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let count = 300;
    for number in 0..count {
        let name = format!("f{number}");
        create_family(&engine, &name, tree_options()).unwrap();
        for key in ["a", "b", "c"] {
            put(&engine, &name, key.as_bytes(), name.as_bytes());
        }
    }
    flush(&engine).unwrap();
    let syncs = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&syncs);
    fs.on_call(Some(Arc::new(move |call| {
        if matches!(call.kind, CallKind::Sync | CallKind::SyncDir) {
            *lock(&counter) += 1;
        }
    })));
    compact_all(&engine).unwrap();
    fs.on_call(None);
    let levels = engine.database().stats().tables;
    assert_eq!((levels[0], levels[6]), (0, count));
    let syncs = *lock(&syncs);
    assert!((1..=10).contains(&syncs), "{syncs} syncs");
    drop(engine);
    let engine = open(&fs);
    assert_eq!(get(&engine, "f7", b"b").unwrap(), b"f7");
    assert_eq!(contents(&engine, "f299", None).len(), 3);
}
