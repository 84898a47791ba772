//! One directory holds one line of backups: each is a past of the next one.
//!
//! # Seeded fault
//! `backup_of_a_diverged_copy`: of two copies that went on separately, both add backups.

use super::world::{
    BACKUPS, DB, RESTORED, back_up, backups, change, fill, filled, numbers, open, options,
};
use siltdb::{
    CopyProgress, Db, Error, ErrorKind,
    backup::{Backup, CopyOptions, VerifyReport},
    testing::{CallKind, Crash, FaultError, Fs, MemFs},
};
use std::{ops::ControlFlow, path::Path};

const COPY: &str = "copy";

/// Copies a closed database, as `cp -r` does.
fn copy(fs: &MemFs) {
    fs.create_dir_all(Path::new(COPY)).unwrap();
    for entry in fs.list(Path::new(DB)).unwrap() {
        let bytes = fs.read_all(&Path::new(DB).join(&entry.name)).unwrap();
        fs.write_all(&Path::new(COPY).join(&entry.name), &bytes).unwrap();
    }
}

fn adopting(db: &Db) -> siltdb::Result<Backup> {
    let mut go_on = |_: CopyProgress| ControlFlow::Continue(());
    db.backup_with(BACKUPS, &CopyOptions::new().adopt(true), &mut go_on)
}

fn refused(db: &Db) -> Error {
    let error = db.backup(BACKUPS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error
}

fn verify(fs: &MemFs) -> VerifyReport {
    backups(fs).verify(None, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_database_with_more_commits_cannot_add_to_the_backups_of_another() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    let other = options(&fs).open("other").unwrap();
    for round in 0..20 {
        fill(&other, 0..250, round);
    }
    assert!(other.stats().sequence > db.stats().sequence);
    assert!(refused(&other).to_string().contains("foreign backups"));
    assert_eq!(adopting(&other).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(numbers(&fs), [1]);
}

#[test]
fn of_two_copies_that_went_on_separately_one_goes_on_with_the_backups() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    db.close().unwrap();
    copy(&fs);
    let (db, copy) = (open(&fs), options(&fs).open(COPY).unwrap());
    assert_eq!(db.identity(), copy.identity());
    // As many commits, and more.
    fill(&db, 0..10, 70);
    fill(&copy, 0..10, 71);
    back_up(&db);
    for _ in 0..2 {
        assert!(refused(&copy).to_string().contains("no past of this database"));
        fill(&copy, 0..250, 72);
    }
    assert_eq!(numbers(&fs), [1, 2]);
    back_up(&db);
    // By its own decision.
    assert_eq!(adopting(&copy).unwrap().number, 4);
    assert!(refused(&db).to_string().contains("no past of this database"));
    assert_eq!(copy.backup(BACKUPS).unwrap().number, 5);
}

#[test]
fn a_restored_database_goes_on_after_the_newest_backup_alone() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    change(&db, 4);
    back_up(&db);
    db.close().unwrap();
    backups(&fs).restore(Some(1), "earlier").unwrap();
    let earlier = options(&fs).open("earlier").unwrap();
    refused(&earlier);
    backups(&fs).restore(None, RESTORED).unwrap();
    let restored = options(&fs).open(RESTORED).unwrap();
    assert_eq!(restored.backup(BACKUPS).unwrap().number, 3);
    refused(&earlier);
    assert_eq!(adopting(&earlier).unwrap().number, 4);
    assert_eq!(earlier.backup(BACKUPS).unwrap().number, 5);
}

#[test]
fn a_database_goes_on_with_its_backups_after_crashes_and_failures() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    back_up(&db);
    // Each fails with its list, after the mark was given.
    for _ in 0..30 {
        let nth = 1;
        fs.set_fault(super::world::fault(Some(CallKind::Rename), nth, FaultError::Io));
        let failed = db.backup(BACKUPS);
        fs.set_fault(None);
        assert!(failed.is_err());
        db.backup("copies/elsewhere").unwrap();
    }
    assert_eq!(db.backup(BACKUPS).unwrap().number, 3);
    let fs = fs.crash_clone(Crash::PowerLoss { seed: 3 });
    let db = open(&fs);
    assert_eq!(db.backup(BACKUPS).unwrap().number, 4);
    assert_eq!(db.backup("copies/elsewhere").unwrap().number, 31);
}

#[test]
fn a_missing_list_is_found_by_verifying_and_its_number_is_not_given_again() {
    let fs = MemFs::new();
    let db = filled(&fs);
    for round in 0..4 {
        change(&db, 10 + round);
        back_up(&db);
    }
    assert!(verify(&fs).is_clean());
    for (number, name) in [(2, "000002.backup"), (4, "000004.backup")] {
        let fs = fs.crash_clone(Crash::Kill);
        fs.remove(&Path::new(BACKUPS).join(name)).unwrap();
        let report = verify(&fs);
        assert_eq!((&report.damaged[..], report.errors.len()), (&[number][..], 1), "{report:?}");
        let error = &report.errors[0];
        assert!(error.file().unwrap().ends_with(name), "{error}");
        assert_eq!(open(&fs).backup(BACKUPS).unwrap().number, 5);
        assert_eq!(verify(&fs).damaged, [number]);
        backups(&fs).prune(1).unwrap();
        assert!(verify(&fs).is_clean());
    }
    // A prune leaves no gap, and nothing of what it has pruned.
    backups(&fs).prune(2).unwrap();
    assert!(verify(&fs).is_clean());
    assert_eq!(super::world::files(&fs, ".made"), ["000003.made", "000004.made"]);
}
