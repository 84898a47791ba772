//! Checkpoints during writes.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use siltdb::{
    Db, Options, Read,
    testing::{CallKind, MemFs},
};
use std::{
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
};

fn open(fs: &MemFs, dir: &str) -> Db {
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0);
    options.memtable_bytes(64 << 10).memory_budget(16 << 20).seed(3).open(dir).unwrap()
}

fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = db.prefix(b"").unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    pairs.collect()
}

fn fill(db: &Db, value: u8) {
    for number in 0..600_u32 {
        db.put(number.to_be_bytes(), [value; 100]).unwrap();
    }
}

/// The checkpoint stops before it copies the first log file. Meanwhile everything is flushed, which
/// would let the log files be reused.
#[test]
fn flushes_while_the_log_is_copied_do_not_reach_the_checkpoint() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    fill(&db, 1);
    let expected = contents(&db);
    let ((reached, copies), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Mutex::new(Some((reached, goes_on)));
    fs.on_call(Some(Arc::new(move |call| {
        let is_log = call.path.extension().is_some_and(|name| name == "log");
        if call.kind == CallKind::Create && is_log {
            let gate = gate.lock().unwrap().take();
            if let Some((reached, goes_on)) = gate {
                reached.send(()).unwrap();
                let _ = goes_on.recv();
            }
        }
    })));
    let source = db.clone();
    let copying = thread::spawn(move || source.checkpoint(Path::new("copy")));
    copies.recv().unwrap();
    for value in 2..8 {
        fill(&db, value);
        db.flush().unwrap();
    }
    drop(go_on);
    let made = copying.join().unwrap().unwrap();
    assert_eq!(made.sequence, 600);
    let copy = open(&fs, "copy");
    assert!(contents(&copy) == expected, "the checkpoint holds something else");
    assert!(copy.check(&mut |_| ()).unwrap().errors.is_empty());
}

/// Real threads and real files: each checkpoint is a prefix of the commits, with at least those
/// acknowledged before it began.
#[test]
fn checkpoints_beside_writers_hold_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memtable_bytes(64 << 10).workers(2);
    let db = options().open(dir.path().join("db")).unwrap();
    let writer = db.clone();
    let writing = thread::spawn(move || {
        for number in 0..40_000_u32 {
            writer.put(number.to_be_bytes(), [number as u8; 50]).unwrap();
        }
    });
    let mut made = 0;
    while !writing.is_finished() || made < 3 {
        let before = db.stats().sequence;
        let path = dir.path().join(format!("copy {made}"));
        let sequence = db.checkpoint(&path).unwrap().sequence;
        assert!(sequence >= before, "{sequence} after {before}");
        let copy = options().open(&path).unwrap();
        let found = contents(&copy);
        assert_eq!(found.len() as u64, sequence);
        for (number, (key, value)) in found.iter().enumerate() {
            assert_eq!(key[..], (number as u32).to_be_bytes());
            assert_eq!(value[..], [number as u8; 50]);
        }
        made += 1;
    }
    writing.join().unwrap();
}
