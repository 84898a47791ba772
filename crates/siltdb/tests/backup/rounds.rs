//! Round trips: what is restored is what the database held, whatever came before and after.

use super::world::{
    BACKUPS, DB, RESTORED, back_up, backups, change, contents, files, fill, filled, key, numbers,
    open, opened, options, restored,
};
use siltdb::{
    Db, Durability, FamilyOptions, Isolation, Options, Read, WriteBatch, WriteOptions,
    backup::Backups,
    testing::{Crash, ManualClock, MemFs},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

#[test]
fn each_backup_is_restored_as_the_database_was() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let mut made = Vec::new();
    for round in 4..10 {
        change(&db, round);
        made.push(back_up(&db));
        if round % 2 == 0 {
            db.compact().unwrap();
        }
    }
    let listing = backups(&fs).list().unwrap();
    assert!(listing.errors.is_empty());
    for ((backup, expected), info) in made.iter().zip(&listing.backups) {
        assert_eq!((info.number, info.sequence), (backup.number, backup.sequence));
        assert_eq!((info.files, info.bytes), (backup.files, backup.bytes));
        assert_eq!(info.source, DB);
        assert!(restored(&fs, Some(backup.number)) == *expected, "backup {}", backup.number);
    }
    assert!(restored(&fs, None) == made.last().unwrap().1);
    assert_eq!(numbers(&fs), [1, 2, 3, 4, 5, 6]);
    // The database is gone; its backups do not need it.
    db.close().unwrap();
    options(&fs).destroy(DB).unwrap();
    assert!(restored(&fs, Some(1)) == made[0].1);
}

#[test]
fn a_backup_of_an_empty_database_and_one_of_a_restored_one_are_backups() {
    let fs = MemFs::new();
    let db = open(&fs);
    let (first, expected) = back_up(&db);
    assert_eq!((first.number, first.files, first.copied_bytes), (1, 0, 0));
    assert!(restored(&fs, None) == expected);
    fill(&db, 0..100, 1);
    let (_, expected) = back_up(&db);
    db.close().unwrap();
    let report = backups(&fs).restore(None, "second").unwrap();
    let db = options(&fs).open("second").unwrap();
    assert!(contents(&db) == expected);
    assert_eq!(db.stats().sequence, report.sequence);
    // It has the tables of the backup: nothing is copied.
    let again = db.backup(BACKUPS).unwrap();
    assert_eq!((again.number, again.copied_files), (3, 0));
    assert!(restored(&fs, Some(3)) == expected);
}

#[test]
fn commits_that_are_in_no_log_are_in_the_backup() {
    let fs = MemFs::new();
    let db = open(&fs);
    let options = WriteOptions::new().durability(Durability::Volatile);
    db.put_with("volatile", "1", &options).unwrap();
    db.put("buffered", "2").unwrap();
    let (_, expected) = back_up(&db);
    assert_eq!(expected["default"].len(), 2);
    assert!(restored(&fs, None) == expected);
}

/// As a program that gives a seed, and one that forks children which open the database.
#[test]
fn openings_with_one_seed_mix_no_tables_up() {
    let fs = MemFs::new();
    for round in 0..5 {
        let db = options(&fs).seed(7).open(DB).unwrap();
        fill(&db, 0..50, round);
        let (made, expected) = back_up(&db);
        assert_eq!(made.copied_files, 1, "{made:?}");
        db.close().unwrap();
        assert!(restored(&fs, None) == expected, "round {round}");
    }
}

/// A flush writes the small memtables of all families into one file.
#[test]
fn a_file_with_tables_of_several_families_is_copied_once() {
    let fs = MemFs::new();
    let db = open(&fs);
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let logs = db.create_family("logs", FamilyOptions::new()).unwrap();
    fill(&db, 0..50, 1);
    users.put("ada", "1815").unwrap();
    logs.put("first", "entry").unwrap();
    let (first, _) = back_up(&db);
    assert_eq!((first.files, first.copied_files), (1, 1), "{first:?}");
    // Its tables go one after the other, and the file stays for those that are left.
    fill(&db, 0..50, 2);
    db.flush().unwrap();
    db.default_family().compact().unwrap();
    let (second, _) = back_up(&db);
    assert_eq!((second.files, second.copied_files), (2, 1), "{second:?}");
    users.put("ada", "1852").unwrap();
    db.flush().unwrap();
    users.compact().unwrap();
    let (third, expected) = back_up(&db);
    assert_eq!((third.files, third.copied_files), (3, 1), "{third:?}");
    assert_eq!(backups(&fs).prune(1).unwrap().files, 0);
    assert!(restored(&fs, None) == expected);
}

#[test]
fn a_backup_copies_only_what_is_new() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..20_000, 1);
    db.compact().unwrap();
    let (first, _) = back_up(&db);
    assert_eq!(first.copied_bytes, first.bytes);
    assert!(first.bytes > 1 << 20, "{first:?}");
    // One in a hundred.
    fill(&db, (0..20_000).step_by(100), 2);
    let (second, expected) = back_up(&db);
    assert!(second.copied_files >= 1, "{second:?}");
    assert!(second.copied_bytes * 20 < second.bytes, "{second:?}");
    assert!(restored(&fs, Some(2)) == expected);
    let (third, _) = back_up(&db);
    assert_eq!((third.copied_files, third.copied_bytes), (0, 0));
    assert_eq!((third.files, third.bytes), (second.files, second.bytes));
}

#[test]
fn pruning_keeps_what_other_backups_need() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let mut made = Vec::new();
    for round in 4..8 {
        change(&db, round);
        made.push(back_up(&db).1);
        db.compact().unwrap();
    }
    let before = files(&fs, ".table").len() as u64;
    let pruned = backups(&fs).prune(2).unwrap();
    assert_eq!(pruned.backups, [1, 2]);
    assert!(pruned.files > 0 && pruned.bytes > 0, "{pruned:?}");
    assert_eq!(files(&fs, ".table").len() as u64, before - pruned.files);
    assert_eq!(numbers(&fs), [3, 4]);
    assert!(restored(&fs, Some(3)) == made[2] && restored(&fs, Some(4)) == made[3]);
    assert_eq!(backups(&fs).prune(2).unwrap().backups, [0; 0]);
    assert_eq!(backups(&fs).prune(u64::MAX).unwrap().files, 0);
    // Numbers are not given twice.
    assert_eq!(back_up(&db).0.number, 5);
    backups(&fs).prune(1).unwrap();
    assert_eq!(numbers(&fs), [5]);
    let needed = backups(&fs).list().unwrap().backups[0].files;
    assert_eq!(files(&fs, ".table").len() as u64, needed);
}

/// All tables that the backup needs are replaced while it is made.
#[test]
fn tables_that_are_replaced_meanwhile_are_in_the_backup() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let expected = contents(&db);
    let mut is_first = true;
    let made = db.backup_with(BACKUPS, &Default::default(), &mut |_| {
        if std::mem::take(&mut is_first) {
            fill(&db, 0..2_000, 50);
            db.compact().unwrap();
        }
        std::ops::ControlFlow::Continue(())
    });
    let made = made.unwrap();
    assert!(db.stats().sequence > made.sequence);
    assert!(restored(&fs, None) == expected);
}

/// Real threads, real files: each backup holds a prefix of the commits, at least what was there
/// when it was begun.
#[test]
fn backups_beside_writers_hold_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: String| dir.path().join(name);
    let options = || Options::new().memtable_bytes(64 << 10).workers(2);
    let db = options().open(path("db".to_owned())).unwrap();
    let writer = db.clone();
    let writing = thread::spawn(move || {
        for number in 0..40_000_u32 {
            writer.put(number.to_be_bytes(), [number as u8; 50]).unwrap();
        }
    });
    let store = path("backups".to_owned());
    let mut made = Vec::new();
    while !writing.is_finished() || made.len() < 3 {
        let before = db.stats().sequence;
        let backup = db.backup(&store).unwrap();
        assert!(backup.sequence >= before, "{backup:?} after {before}");
        made.push(backup);
    }
    writing.join().unwrap();
    db.close().unwrap();
    let step = made.len().div_ceil(6);
    for backup in made.iter().step_by(step) {
        let target = path(format!("restored {}", backup.number));
        let report = Backups::new(&store).restore(Some(backup.number), &target).unwrap();
        assert_eq!(report.sequence, backup.sequence);
        let copy = Db::open(&target).unwrap();
        let found = &contents(&copy)["default"];
        assert_eq!(found.len() as u64, backup.sequence);
        for (number, (key, value)) in found.iter().enumerate() {
            assert_eq!(key[..], (number as u32).to_be_bytes());
            assert_eq!(value[..], [number as u8; 50]);
        }
    }
    let report = Backups::new(&store).verify(None, &mut |_| std::ops::ControlFlow::Continue(()));
    let report = report.unwrap();
    assert!(report.is_clean() && report.backups == made.len() as u64, "{report:?}");
}

#[test]
fn a_backup_is_durable_once_it_is_made() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let (_, expected) = back_up(&db);
    for seed in 0..10 {
        let lost = fs.crash_clone(Crash::PowerLoss { seed });
        assert!(restored(&lost, Some(1)) == expected, "seed {seed}");
    }
    let report = backups(&fs).restore(None, RESTORED).unwrap();
    for seed in 0..10 {
        let lost = fs.crash_clone(Crash::PowerLoss { seed });
        assert!(opened(&lost, report.sequence) == expected, "seed {seed}");
    }
}

/// Waits until `writing` has made more than `count` commits, so that backups are beside commits
/// also on a busy machine.
fn past(writing: &thread::JoinHandle<()>, committed: &AtomicU64, count: u64) {
    while committed.load(Ordering::Relaxed) <= count && !writing.is_finished() {
        thread::yield_now();
    }
}

/// Each commit replaces a family and writes which one there is: a backup has both, or neither.
#[test]
fn commits_of_families_are_whole_in_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Options::new().workers(1).open(path("db")).unwrap();
    let name = |number: u64| format!("family {number}");
    let (writer, is_done) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let (stop, committed) = (Arc::clone(&is_done), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&committed);
    let writing = thread::spawn(move || {
        let mut number = 0;
        let mut before = None;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let next = writer.prepare_family(&name(number), FamilyOptions::new()).unwrap();
            let mut batch = WriteBatch::new();
            batch.create_family(&next).unwrap();
            batch.put(&next, "row", number.to_be_bytes()).unwrap();
            batch.put(&writer.default_family(), "present", number.to_be_bytes()).unwrap();
            if let Some(before) = &before {
                batch.drop_family(before).unwrap();
            }
            writer.write(&batch).unwrap();
            count.store(number, Ordering::Relaxed);
            before = Some(next);
        }
    });
    for round in 0..12 {
        db.backup(path("backups")).unwrap();
        past(&writing, &committed, round);
    }
    is_done.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    let backups = Backups::new(path("backups"));
    for backup in backups.list().unwrap().backups {
        let target = path(&format!("restored {}", backup.number));
        backups.restore(Some(backup.number), &target).unwrap();
        let copy = Db::open(&target).unwrap();
        let present = copy.get("present").unwrap();
        let families = copy.families();
        let Some(present) = present else {
            assert_eq!(families, ["default"], "{backup:?}");
            continue;
        };
        let number = u64::from_be_bytes(present[..].try_into().unwrap());
        assert_eq!(families, ["default".to_owned(), format!("family {number}")], "{backup:?}");
        let row = copy.family(&families[1]).unwrap().get("row").unwrap();
        assert_eq!(row.as_deref(), Some(&number.to_be_bytes()[..]), "{backup:?}");
    }
}

/// Transactions are prepared and committed one after the other: of the last one in a backup all or
/// nothing is there, and if nothing, it may wait.
#[test]
fn decisions_beside_a_backup_are_whole_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: String| dir.path().join(name);
    let db = Options::new().workers(1).open(path("db".to_owned())).unwrap();
    let other = db.create_family("other", FamilyOptions::new()).unwrap();
    let (writer, is_done) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let (stop, committed) = (Arc::clone(&is_done), Arc::new(AtomicU64::new(0)));
    let done = Arc::clone(&committed);
    let writing = thread::spawn(move || {
        let mut count = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            let transaction = writer.begin(Isolation::Snapshot);
            transaction.put(key(count), b"").unwrap();
            transaction.family(&other).unwrap().put(key(count), b"").unwrap();
            transaction.prepare(count.to_be_bytes()).unwrap().commit().unwrap();
            count += 1;
            done.store(count.into(), Ordering::Relaxed);
        }
    });
    for round in 0..12 {
        db.backup(path("backups".to_owned())).unwrap();
        past(&writing, &committed, round);
    }
    is_done.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    for number in 1..=12 {
        let target = path(format!("restored {number}"));
        Backups::new(path("backups".to_owned())).restore(Some(number), &target).unwrap();
        let copy = Db::open(&target).unwrap();
        let found = contents(&copy);
        let keys = |name: &str| found[name].iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        let count = found["default"].len() as u32;
        assert_eq!(keys("default"), (0..count).map(key).collect::<Vec<_>>(), "backup {number}");
        assert_eq!(keys("other"), keys("default"), "backup {number}");
        let waiting: Vec<_> = copy.prepared().iter().map(|one| one.id().to_vec()).collect();
        let next = [count.to_be_bytes().to_vec()];
        assert!(
            waiting.is_empty() || waiting == next,
            "backup {number}: {waiting:?}, not {next:?}"
        );
    }
}

/// The id of a dropped family may still be named by what is prepared.
#[test]
fn a_restored_database_gives_no_id_of_a_family_again() {
    let fs = MemFs::new();
    let db = open(&fs);
    let gone = db.create_family("gone", FamilyOptions::new()).unwrap();
    let transaction = db.begin(Isolation::Snapshot);
    transaction.family(&gone).unwrap().put("key", "of the old family").unwrap();
    transaction.prepare("transfer").unwrap();
    db.drop_family("gone").unwrap();
    back_up(&db);
    backups(&fs).restore(None, RESTORED).unwrap();
    let copy = options(&fs).open(RESTORED).unwrap();
    let new = copy.create_family("new", FamilyOptions::new()).unwrap();
    copy.commit_prepared("transfer").unwrap();
    assert_eq!(new.get("key").unwrap(), None);
}

#[test]
fn what_had_expired_stays_so_in_a_restored_database_whose_clock_is_behind() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000))));
    let db = options(&fs).clock(clock.clone()).open(DB).unwrap();
    db.put_for("key", "value", Duration::from_secs(1)).unwrap();
    db.flush().unwrap();
    clock.advance(Duration::from_secs(5));
    assert_eq!(db.get("key").unwrap(), None);
    back_up(&db);
    backups(&fs).restore(None, RESTORED).unwrap();
    let behind = Arc::new(ManualClock::at(Duration::from_millis(1_000_000)));
    let copy = options(&fs).clock(behind).open(RESTORED).unwrap();
    assert_eq!(copy.get("key").unwrap(), None);
}

#[test]
fn a_prepared_transaction_waits_for_its_decision_in_the_restored_database() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put("prepared", "value").unwrap();
    transaction.prepare("transfer").unwrap();
    let (_, expected) = back_up(&db);
    // The decision comes after the backup.
    for prepared in db.prepared() {
        prepared.commit().unwrap();
    }
    let fs = fs.crash_clone(Crash::Kill);
    backups(&fs).restore(None, RESTORED).unwrap();
    let copy = options(&fs).open(RESTORED).unwrap();
    assert!(contents(&copy) == expected);
    let waiting: Vec<_> = copy.prepared().into_iter().collect();
    assert_eq!(waiting.len(), 1);
    for prepared in waiting {
        prepared.commit().unwrap();
    }
    assert_eq!(copy.get("prepared").unwrap().as_deref(), Some(&b"value"[..]));
}
