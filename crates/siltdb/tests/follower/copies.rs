//! Backups and checkpoints that a follower makes: of all that it sees, beside a writer, and of a
//! database that may not be written.

use super::{DIR, Pairs, commit, families, on, verify};
use siltdb::{
    CheckpointOptions, Db, Durability, ErrorKind, FamilyOptions, Follower, Isolation, Options,
    Read, WriteOptions,
    backup::{Backups, CopyOptions},
    testing::MemFs,
};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

const BACKUPS: &str = "backups";

/// A copy that a follower makes by a checkpoint, and one by a backup and its restore.
pub fn both(fs: &MemFs, follower: &Follower, name: &str) -> [Db; 2] {
    let checkpoint = PathBuf::from(format!("checkpoint {name}"));
    let made = follower.checkpoint(&checkpoint).unwrap();
    assert_eq!(made.sequence, follower.sequence());
    let restored = restored(fs, follower, name);
    [checkpoint, restored].map(|dir| on(fs).open(dir).unwrap())
}

/// A database that was restored of a backup that a follower makes.
fn restored(fs: &MemFs, follower: &Follower, name: &str) -> PathBuf {
    let made = follower.backup(BACKUPS).unwrap();
    assert_eq!(made.sequence, follower.sequence());
    let backups = Backups::with_options(BACKUPS, on(fs));
    assert!(backups.verify(None, &mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    let target = PathBuf::from(format!("restored {name}"));
    backups.restore(Some(made.number), &target).unwrap();
    target
}

#[test]
fn copies_of_a_follower_hold_what_is_in_the_log_alone() {
    let fs = MemFs::new();
    let writer = on(&fs).memtable_bytes(1 << 20).memory_budget(8 << 20).open(DIR).unwrap();
    let all = families(&writer);
    let plain = WriteOptions::new();
    (1..=50).for_each(|round| commit(&writer, &all, round, &plain));
    writer.flush().unwrap();
    (51..=90).for_each(|round| commit(&writer, &all, round, &plain));
    let follower = on(&fs).open_follower(DIR).unwrap();
    (91..=100).for_each(|round| commit(&writer, &all, round, &plain));
    let transaction = writer.begin(Isolation::Serializable);
    transaction.put(b"waits", b"1").unwrap();
    transaction.prepare(b"waits").unwrap();
    let before = writer.stats();
    for copy in both(&fs, &follower, "log") {
        assert_eq!(verify(&copy), 100);
        assert_eq!(copy.prepared().len(), 1);
        // It goes its own way.
        let all = families(&copy);
        (101..=400).for_each(|round| commit(&copy, &all, round, &plain));
        copy.create_family("new", FamilyOptions::new()).unwrap().put(b"k", b"v").unwrap();
        copy.rollback_prepared(b"waits").unwrap();
        copy.compact().unwrap();
        copy.close().unwrap();
    }
    // The database was not flushed, and goes its own way, too.
    assert_eq!(writer.stats().flushes, before.flushes);
    (101..=200).for_each(|round| commit(&writer, &all, round, &plain));
    assert_eq!(verify(&writer), 200);
    let copy = on(&fs).open("restored log").unwrap();
    assert_eq!(verify(&copy), 400);
    assert!(copy.check(&mut |_| ()).unwrap().is_clean());
}

#[test]
fn a_checkpoint_of_a_follower_holds_chosen_families() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    let all = families(&writer);
    commit(&writer, &all, 1, &WriteOptions::new());
    writer.create_family("left out", FamilyOptions::new()).unwrap();
    let follower = on(&fs).open_follower(DIR).unwrap();
    let options = CheckpointOptions::new().families([super::TWIN]);
    let mut go_on = |_| ControlFlow::Continue(());
    follower.checkpoint_with("chosen", &options, &mut go_on).unwrap();
    let copy = on(&fs).open("chosen").unwrap();
    assert_eq!(copy.families(), ["default", super::TWIN]);
    assert_eq!(copy.get(b"counter").unwrap(), None);
    assert!(copy.family(super::TWIN).unwrap().get(b"counter").unwrap().is_some());
    let options = CheckpointOptions::new().families(["missing"]);
    let refused = follower.checkpoint_with("missing", &options, &mut go_on).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let stopped = follower
        .checkpoint_with("stopped", &CheckpointOptions::new(), &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
}

/// At each step of a copy the writer commits, flushes, compacts and reuses its log.
#[test]
fn files_that_vanish_while_they_are_copied_are_in_the_copy() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    let all = families(&writer);
    let plain = WriteOptions::new();
    (1..=200).for_each(|round| commit(&writer, &all, round, &plain));
    let follower = on(&fs).open_follower(DIR).unwrap();
    let mut round = 200;
    let mut meddle = |_| {
        round += 1;
        commit(&writer, &all, round, &plain);
        writer.compact().unwrap();
        ControlFlow::Continue(())
    };
    let options = CheckpointOptions::new().copy(true);
    let checkpoint = follower.checkpoint_with("copied", &options, &mut meddle).unwrap();
    let backup = follower.backup_with(BACKUPS, &CopyOptions::new(), &mut meddle).unwrap();
    assert!(checkpoint.copied_files > 2 && backup.sequence > checkpoint.sequence);
    Backups::with_options(BACKUPS, on(&fs)).restore(None, "restored").unwrap();
    let [copied, restored] = ["copied", "restored"].map(|dir| on(&fs).open(dir).unwrap());
    assert_eq!(verify(&copied), 200);
    assert!(verify(&restored) > 200);
    assert_eq!(verify(&writer), round);
}

/// A backup names its files, so what is in the log alone is a table in memory until it is copied.
#[test]
fn the_part_of_a_backup_that_lies_in_memory_is_charged() {
    let fs = MemFs::new();
    let writer = on(&fs).memtable_bytes(8 << 20).memory_budget(64 << 20).open(DIR).unwrap();
    let value = |number: u64| (0..64).map(move |at| number * 64 + at).flat_map(u64::to_le_bytes);
    for number in 0..4_000_u64 {
        writer.put(number.to_be_bytes(), value(number).collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(writer.stats().flushes, 0);
    let follower = on(&fs).memory_budget(64 << 20).open_follower(DIR).unwrap();
    let before = follower.db().stats().memory.jobs;
    let (mut charged, mut copied) = (0, 0);
    follower
        .backup_with(BACKUPS, &CopyOptions::new(), &mut |progress| {
            charged = follower.db().stats().memory.jobs.max(charged);
            copied = progress.bytes_total;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(charged >= before + copied, "{charged} charged for {copied} bytes");
    assert_eq!(follower.db().stats().memory.jobs, before);
}

/// All of a family.
fn pairs(db: &Db) -> Pairs {
    let entries = db.default_family().prefix(b"").unwrap().map(|entry| entry.unwrap());
    entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// The newest blob file grows between two backups of one length, because its space is prepared
/// ahead.
#[test]
fn separated_values_that_are_written_between_two_backups_are_in_the_second() {
    let fs = MemFs::new();
    let family = FamilyOptions::new().value_threshold(100);
    let writer = Options::new().workers(0).fs(Arc::new(fs.clone())).default_family(family);
    let writer = writer.open(DIR).unwrap();
    let put = |number: u64| writer.put(number.to_be_bytes(), vec![number as u8; 300]).unwrap();
    let follower = on(&fs).open_follower(DIR).unwrap();
    for turn in 0..6 {
        put(turn);
        if turn % 2 == 0 {
            writer.flush().unwrap();
        }
        for copy in both(&fs, &follower, &format!("blobs {turn}")) {
            assert_eq!(pairs(&copy).len() as u64, turn + 1);
            assert_eq!(pairs(&copy), pairs(&writer));
        }
    }
    // A checkpoint shares no file that still grows.
    put(6);
    assert_eq!(pairs(&on(&fs).open("checkpoint blobs 5").unwrap()).len(), 6);
    // One that the database itself makes goes on with what the follower has copied.
    let made = writer.backup(BACKUPS).unwrap();
    Backups::with_options(BACKUPS, on(&fs)).restore(Some(made.number), "own").unwrap();
    assert_eq!(pairs(&on(&fs).open("own").unwrap()), pairs(&writer));
}

#[test]
fn a_backup_beside_a_writer_at_work_holds_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let writer = super::tiny().open(path("db")).unwrap();
    let all = families(&writer);
    commit(&writer, &all, 1, &WriteOptions::new());
    let follower = super::tiny().open_follower(path("db")).unwrap();
    thread::scope(|scope| {
        let ended = Arc::new(AtomicBool::new(false));
        let (end, writer, all) = (Arc::clone(&ended), &writer, &all);
        let writing = scope.spawn(move || {
            let mut round = 1;
            while !end.load(Ordering::Relaxed) {
                round += 1;
                commit(writer, all, round, &WriteOptions::new().durability(Durability::Buffered));
            }
            round
        });
        let mut last = 0;
        for turn in 0..8 {
            let target = path(&format!("checkpoint {turn}"));
            follower.checkpoint(&target).unwrap();
            let found = verify(&super::tiny().open(&target).unwrap());
            assert!(found >= last);
            let made = follower.backup(path(BACKUPS)).unwrap();
            let target = path(&format!("restored {turn}"));
            Backups::new(path(BACKUPS)).restore(Some(made.number), &target).unwrap();
            last = verify(&super::tiny().open(&target).unwrap());
            assert!(last >= found);
        }
        ended.store(true, Ordering::Relaxed);
        let all = writing.join().unwrap();
        assert!(last > 1 && last <= all, "{last} of {all}");
        assert_eq!(verify(writer), all);
    });
}

/// A copy calls nothing that changes the database.
#[test]
fn copies_of_a_follower_leave_the_database_alone() {
    let fs = MemFs::new();
    let writer = on(&fs).open(DIR).unwrap();
    commit(&writer, &families(&writer), 1, &WriteOptions::new());
    writer.flush().unwrap();
    commit(&writer, &families(&writer), 2, &WriteOptions::new());
    let follower = on(&fs).open_follower(DIR).unwrap();
    let picture = || {
        let fs: &dyn siltdb::testing::Fs = &fs;
        fs.list_lengths(Path::new(DIR)).unwrap()
    };
    let before = picture();
    for copy in both(&fs, &follower, "alone") {
        assert_eq!(verify(&copy), 2);
    }
    assert_eq!(picture(), before);
}
