//! A blob file is removed by one edit, whatever other workers do.

use super::*;
use crate::{
    fixture::{
        commit_payload, compact_all, create_family, flush, killed, open, put, sync_wal,
        tree_options,
    },
    write::commit::Payload,
};
use siltdb_base::{
    fs::mem::{CallKind, MemFs},
    key::EntryKind,
};
use std::{
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

#[test]
fn two_workers_that_choose_one_file_remove_it_once() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let options = TreeOptions { value_threshold: 32, ..tree_options() };
    let family = create_family(&engine, "long", options).unwrap();
    let keys: Vec<String> = (0..50).map(|number| format!("{number:03}")).collect();
    keys.iter().for_each(|key| put(&engine, "long", key.as_bytes(), &[7; 500]));
    flush(&engine).unwrap();
    let database = engine.database();
    let moving = database.blobs.begin_moving();
    for key in &keys {
        let payload = Payload::one(&family, EntryKind::Delete, key.as_bytes(), b"");
        commit_payload(&engine, &payload).unwrap();
    }
    compact_all(&engine).unwrap();
    sync_wal(&engine).unwrap();
    drop(moving);
    assert!(!database.blobs.set().is_empty());
    // The second one has chosen the file, and waits for the manifest, when the first one's edit is
    // being synced.
    let (first_syncs, begins) = mpsc::channel();
    let first_syncs = Mutex::new(first_syncs);
    fs.on_call(Some(Arc::new(move |call| {
        if call.kind == CallKind::Sync && thread::current().name() == Some("first") {
            let _ = lock(&first_syncs).send(());
            thread::sleep(Duration::from_millis(100));
        }
    })));
    let removed = thread::scope(|scope| {
        let first = thread::Builder::new().name("first".to_owned());
        let remove = || remove_unreferenced(&database.job_rooms()).unwrap();
        let first = first.spawn_scoped(scope, remove).unwrap();
        begins.recv().unwrap();
        let second = scope.spawn(remove);
        [first, second].map(|worker| worker.join().unwrap())
    });
    fs.on_call(None);
    assert_eq!(removed, [true, false]);
    assert!(database.blobs.set().is_empty());
    let engine = open(&killed(&fs));
    assert!(engine.database().blobs.set().is_empty());
}
