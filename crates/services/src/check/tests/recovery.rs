//! A check finds nothing wrong with what a recovery has made of unusual records.

use super::assert_clean;
use siltdb_base::{fs::mem::MemFs, id::SequenceNumber};
use siltdb_disk::batch::BatchBytes;
use siltdb_engine::{
    engine::Engine,
    fixture::{
        Pairs, commit_payload, contents, flush, killed, open, put, reform_record, snapshot,
        sync_wal,
    },
    write::commit::Payload,
};

fn shown(fs: &MemFs) -> Pairs {
    contents(&open(fs), "default", None)
}

fn with_keys(keys: &[&str]) -> Pairs {
    keys.iter().map(|key| (key.as_bytes().to_vec(), b"value".to_vec())).collect()
}

fn put_keys(engine: &Engine, keys: &[&str]) {
    keys.iter().for_each(|key| put(engine, "default", key.as_bytes(), b"value"));
}

fn newest(engine: &Engine) -> SequenceNumber {
    snapshot(engine).sequence()
}

/// The form of a void record that takes the place of a batch.
fn void(form: u8) -> u8 {
    match form {
        1 => 6,
        5 => 7,
        other => panic!("form {other} is no batch"),
    }
}

#[test]
fn a_void_record_takes_its_numbers_and_shows_nothing() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_keys(&engine, &["first", "alone"]);
    let default = engine.database().catalog.families.named("default").unwrap();
    let mut batch = BatchBytes::new();
    for key in ["one", "two", "three"] {
        batch.put(default.id, key.as_bytes(), b"value").unwrap();
    }
    commit_payload(&engine, &Payload::batch(&batch)).unwrap();
    put_keys(&engine, &["last"]);
    sync_wal(&engine).unwrap();
    let last = newest(&engine);
    let fs = killed(&fs);
    reform_record(&fs, b"alone", void);
    reform_record(&fs, b"two", void);
    // However often it is recovered, and in the end from tables.
    for _ in 0..2 {
        let fs = killed(&fs);
        assert_eq!(newest(&open(&fs)), last);
        assert_eq!(shown(&fs), with_keys(&["first", "last"]));
        let engine = open(&fs);
        assert_clean(&engine);
        put_keys(&engine, &["more"]);
        assert_eq!(newest(&engine), last.next());
        flush(&engine).unwrap();
        drop(engine);
        assert_eq!(shown(&killed(&fs)), with_keys(&["first", "last", "more"]));
    }
}
