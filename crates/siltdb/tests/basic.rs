//! A whole database on a real disk: filled, read, flushed, compacted, closed and opened again.

use siltdb::{
    Compression, Db, Durability, ErrorKind, FamilyOptions, LogIo, Options, Read, ReadIo, WriteBatch,
};
use siltdb_base::fs::mem::MemFs;
use std::{path::Path, sync::Arc};

fn small() -> Options {
    Options::new().memtable_bytes(64 << 10).memory_budget(8 << 20)
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{:08}", number.wrapping_mul(2_654_435_761) % 100_000_000).into_bytes()
}

#[test]
fn what_was_put_is_read_before_and_after_everything() {
    let dir = tempfile::tempdir().unwrap();
    fill_and_read(&dir.path().join("data"), &small).unwrap();
}

#[test]
fn tables_that_are_mapped_are_read_the_same() {
    for compression in [Compression::None, Compression::Lz4] {
        let family = FamilyOptions::new().compression(compression);
        // Two sizes: far too small, and large enough for all blocks.
        for cache_bytes in [1 << 10, 4 << 20] {
            let cached = || small().cache_bytes(cache_bytes).default_family(family.clone());
            let dir = tempfile::tempdir().unwrap();
            fill_and_read(dir.path(), &|| cached().read_io(ReadIo::Map)).unwrap();
        }
    }
}

#[test]
fn of_mapped_tables_the_cache_holds_less() {
    let cached = |read_io: ReadIo| {
        let dir = tempfile::tempdir().unwrap();
        let family = FamilyOptions::new().compression(Compression::None);
        let options = small().default_family(family).read_io(read_io);
        let db = options.open(dir.path()).unwrap();
        for number in 0..5_000_u64 {
            db.put(key(number), [7; 100]).unwrap();
        }
        db.compact().unwrap();
        for number in 0..5_000_u64 {
            assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&[7; 100][..]));
        }
        db.stats().cache_bytes
    };
    let (read, mapped) = (cached(ReadIo::Read), cached(ReadIo::Map));
    assert!(mapped > 0 && mapped < read / 2, "{mapped} of {read} bytes");
}

#[test]
fn a_database_that_nobody_reads_holds_no_tables_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    for number in 0..5_000_u64 {
        db.put(key(number), [7; 100]).unwrap();
    }
    let index_bytes = || db.stats().index_bytes;
    db.flush().unwrap();
    db.settle().unwrap();
    // The second call finds nothing to do, but reads the tables to decide that.
    for _ in 0..2 {
        db.compact().unwrap();
        db.settle().unwrap();
        assert_eq!(index_bytes(), 0);
    }
    assert!(db.check(&mut |_| {}).unwrap().errors.is_empty());
    assert_eq!(index_bytes(), 0);
    assert!(db.get(key(4_711)).unwrap().is_some());
    let held = index_bytes();
    assert!(held > 0);
    db.compact().unwrap();
    assert_eq!(index_bytes(), held, "what somebody reads stays open");
}

fn fill_and_read(path: &Path, options: &dyn Fn() -> Options) -> siltdb::Result<()> {
    let count = 20_000;
    let check = |db: &Db| -> siltdb::Result<()> {
        for number in (0..count).step_by(7) {
            let value = db.get(key(number))?;
            assert_eq!(value.as_deref(), Some(number.to_le_bytes().as_slice()), "{number}");
        }
        assert_eq!(db.get(b"absent")?, None);
        let mut seen = 0;
        let mut last: Option<Vec<u8>> = None;
        for pair in db.iter()? {
            let (key, _) = pair?;
            assert!(last.as_deref().is_none_or(|last| last < key.as_bytes()));
            last = Some(key.to_vec());
            seen += 1;
        }
        assert_eq!(seen, count);
        assert_eq!(db.iter()?.rev().count() as u64, count);
        Ok(())
    };
    let db = options().open(path)?;
    for number in 0..count {
        db.put(key(number), number.to_le_bytes())?;
    }
    check(&db)?;
    db.flush()?;
    check(&db)?;
    db.settle()?;
    check(&db)?;
    db.compact()?;
    check(&db)?;
    assert!(db.stats().compactions > 0);
    let report = db.check(&mut |_| ())?;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.entries, count);
    db.close()?;
    let db = options().open(path)?;
    check(&db)?;
    db.close()?;
    assert!(siltdb::check(path, &mut |_| ())?.is_clean());
    Ok(())
}

#[test]
fn a_batch_over_families_and_a_reopen_without_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().durability(Durability::Synced).open(dir.path()).unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&users, b"alice", b"1").unwrap();
    batch.put(&db.default_family(), b"count", b"1").unwrap();
    batch.delete_range(&users, "b".."z").unwrap();
    db.write(&batch).unwrap();
    users.put(b"bob", b"2").unwrap();
    let snapshot = db.snapshot();
    users.delete(b"alice").unwrap();
    assert_eq!(users.get(b"alice").unwrap(), None);
    let users_before = snapshot.family(&users).unwrap();
    assert_eq!(users_before.get(b"alice").unwrap().as_deref(), Some(&b"1"[..]));
    // The present files, as a killed process leaves them.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let again = small().open(copy.path()).unwrap();
    assert_eq!(again.families(), ["default", "users"]);
    let users = again.family("users").unwrap();
    assert_eq!(users.get(b"alice").unwrap(), None);
    assert_eq!(users.get(b"bob").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(again.get(b"count").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(small().open(dir.path()).unwrap_err().kind(), ErrorKind::Locked);
}

#[test]
fn a_database_without_a_block_cache_reads_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().cache_bytes(0).open(dir.path()).unwrap();
    (0..1_000).for_each(|number| db.put(key(number), [7; 100]).unwrap());
    db.compact().unwrap();
    assert_eq!(db.get(key(500)).unwrap().as_deref(), Some(&[7; 100][..]));
    assert_eq!(db.iter().unwrap().count(), 1_000);
    let stats = db.stats();
    assert_eq!((stats.cache_bytes, stats.cache_bytes_max), (0, 0));
    assert!(stats.cache_misses > 0);
}

#[test]
fn four_threads_write_and_read_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let db = db.clone();
            scope.spawn(move || {
                for number in 0..5_000 {
                    let key = key(thread * 1_000_000 + number);
                    db.put(&key, number.to_le_bytes()).unwrap();
                    let read = db.get(&key).unwrap();
                    assert_eq!(read.as_deref(), Some(number.to_le_bytes().as_slice()));
                }
            });
        }
    });
    assert_eq!(db.iter().unwrap().count(), 20_000);
}

#[test]
fn who_looks_at_a_value_may_write_meanwhile_what_makes_others_wait() {
    for workers in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        let db = small().workers(workers).open(dir.path()).unwrap();
        // One value is in a memtable, the other in a table.
        db.put(b"table", b"old").unwrap();
        db.compact().unwrap();
        db.put(b"memory", b"old").unwrap();
        for looked_at in ["table", "memory"] {
            let seen = db.read(looked_at, |value| {
                // Many generations: more than the memory budget, and all are flushed.
                for number in 0..20_000 {
                    db.put(key(number), [7; 600]).unwrap();
                }
                db.put(looked_at, b"new").unwrap();
                db.compact().unwrap();
                value.to_vec()
            });
            assert_eq!(seen.unwrap().as_deref(), Some(&b"old"[..]));
            assert!(db.read(looked_at, |value| value == b"new").unwrap().unwrap());
        }
        assert_eq!(db.read(b"absent", |_| ()).unwrap(), None);
    }
}

#[test]
fn statistics_of_memtables_move_with_each_small_write() {
    let db = small().fs(Arc::new(MemFs::new())).workers(0).open("db").unwrap();
    let family = db.default_family();
    let mut before = (db.stats().memtable_bytes, family.stats().memtable_bytes);
    for number in 0..200_u32 {
        db.put(number.to_be_bytes(), "value").unwrap();
        let now = (db.stats().memtable_bytes, family.stats().memtable_bytes);
        assert!(now.0 >= before.0 + 9 && now.1 >= before.1 + 9, "from {before:?} to {now:?}");
        before = now;
    }
    assert!(db.stats().memtable_held_bytes >= before.0);
    db.flush().unwrap();
    assert_eq!((db.stats().memtable_bytes, family.stats().memtable_bytes), (0, 0));
}

/// Calls of `write` and its variants by this thread since it started.
#[cfg(target_os = "linux")]
fn writes_of_this_thread() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix("syscw: "));
    count.unwrap().parse().unwrap()
}

/// A mapped log commits without a system call. The other kind shows that the counter works.
#[test]
#[cfg(target_os = "linux")]
fn a_put_into_a_mapped_log_writes_without_a_system_call() {
    let calls_per_thousand = |log_io| {
        let dir = tempfile::tempdir().unwrap();
        let db = Options::new().log_io(log_io).open(dir.path()).unwrap();
        let before = writes_of_this_thread();
        for number in 0..20_000_u32 {
            db.put(number.to_be_bytes(), [7; 100]).unwrap();
        }
        (writes_of_this_thread() - before) / 20
    };
    assert!(calls_per_thousand(LogIo::Map) <= 10);
    assert!(calls_per_thousand(LogIo::Write) >= 1_000);
}
