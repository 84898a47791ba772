//! After a crash at any call that clones a family, and after the end of shared tables, a check
//! finds nothing wrong.

use super::assert_clean;
use siltdb_base::{
    error::Result,
    fs::mem::{Crash, MemFs},
    key::EntryKind,
};
use siltdb_engine::{
    catalog::family::FamilyData,
    engine::Engine,
    fixture::{
        clone_family, commit_payload, compact_all, contents, crash_states, drop_family, files,
        filled, flush, killed, open, put, put_range, settle, sync_wal,
    },
    write::commit::Payload,
};
use std::sync::Arc;

fn named(engine: &Engine, name: &str) -> Arc<FamilyData> {
    engine.database().catalog.families.named(name).unwrap()
}

fn clone(engine: &Engine, source: &str, name: &str) -> Result<Arc<FamilyData>> {
    clone_family(engine, &named(engine, source), name, None)
}

/// The power is lost, or the process killed, before each call.
#[test]
fn a_clone_is_whole_or_not_there() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    sync_wal(&engine).unwrap();
    let expected = contents(&engine, "default", None);
    let mut states = crash_states(&fs, || drop(clone(&engine, "default", "copy").unwrap()));
    let inside = states.len();
    assert!(inside > 10, "{inside}");
    // And after it has returned.
    states.extend((0..5).map(|seed| fs.crash_clone(Crash::PowerLoss { seed })));
    let mut whole = 0;
    for (number, state) in states.iter().enumerate() {
        let engine = open(state);
        let is_there = engine.database().catalog.families.named("copy").is_ok();
        assert!(is_there || number < inside, "a clone that was made is lost");
        assert!(contents(&engine, "default", None) == expected, "state {number}");
        if is_there {
            whole += 1;
            assert!(contents(&engine, "copy", None) == expected, "state {number}");
            drop_family(&engine, "copy").unwrap();
        }
        // The name is free again, and no file is left over.
        clone(&engine, "default", "copy").unwrap();
        assert!(contents(&engine, "copy", None) == expected, "state {number}");
        assert_clean(&engine);
    }
    assert!(whole > 5 && whole < states.len(), "{whole} of {}", states.len());
}

#[test]
fn the_space_of_shared_tables_comes_back_with_the_last_family() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..300, &[1; 50]);
    compact_all(&engine).unwrap();
    let (expected, shared) = (contents(&engine, "default", None), files(&fs, ".table"));
    assert!(!shared.is_empty());
    clone(&engine, "default", "first").unwrap();
    clone(&engine, "first", "second").unwrap();
    let default = named(&engine, "default");
    let payload = Payload::one(&default, EntryKind::RangeDelete, b"a", b"b");
    commit_payload(&engine, &payload).unwrap();
    compact_all(&engine).unwrap();
    settle(&engine).unwrap();
    assert!(contents(&engine, "default", None).is_empty());
    assert!(default.tree.view().version.is_empty(), "the clones alone need the files");
    for name in ["first", "second"] {
        for again in [killed(&fs), fs.crash_clone(Crash::PowerLoss { seed: 1 })] {
            assert!(contents(&open(&again), name, None) == expected, "{name}");
        }
        drop_family(&engine, name).unwrap();
        // The purge comes with the next job.
        put(&engine, "default", name.as_bytes(), b"");
        flush(&engine).unwrap();
    }
    let left = files(&fs, ".table");
    assert!(shared.iter().all(|file| !left.contains(file)), "{shared:?} and {left:?}");
    drop(engine);
    let engine = open(&fs);
    assert_eq!(files(&fs, ".table"), left, "an orphan");
    assert_clean(&engine);
}
