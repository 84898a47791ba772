//! What a database remembers from one process to the next besides its data.

use siltdb::{Db, ErrorKind, Options, Read, WriteBatch};
use siltdb_base::{
    clock::ManualClock,
    fs::{Fs, mem::MemFs},
};
use std::{path::Path, sync::Arc};

fn open(fs: &MemFs, clock: &Arc<ManualClock>) -> siltdb::Result<Db> {
    let (fs, clock) = (Arc::new(fs.clone()), Arc::clone(clock));
    Options::new().workers(0).fs(fs).clock(clock).seed(1).open("db")
}

#[test]
fn what_was_seen_expired_stays_so_after_a_restart_with_the_clock_set_back() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::new(1_000)));
    let db = open(&fs, &clock).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_expiring(&db.default_family(), b"short", b"1", 2_000).unwrap();
    batch.put_expiring(&db.default_family(), b"long", b"2", 9_000).unwrap();
    db.write(&batch).unwrap();
    assert!(db.contains(b"short").unwrap());
    clock.set_wall_ms(3_000);
    assert!(!db.contains(b"short").unwrap());
    db.close().unwrap();
    clock.set_wall_ms(1_500);
    let db = open(&fs, &clock).unwrap();
    assert!(!db.contains(b"short").unwrap());
    assert!(db.contains(b"long").unwrap());
}

#[test]
fn a_log_that_is_missing_after_a_close_is_noticed() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::new(1_000)));
    let db = open(&fs, &clock).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    let entries = fs.list(Path::new("db")).unwrap();
    let logs: Vec<_> = entries.iter().filter(|entry| entry.name.ends_with(".log")).collect();
    assert!(!logs.is_empty());
    for log in logs {
        fs.remove(&Path::new("db").join(&log.name)).unwrap();
    }
    assert_eq!(open(&fs, &clock).unwrap_err().kind(), ErrorKind::Corruption);
}
