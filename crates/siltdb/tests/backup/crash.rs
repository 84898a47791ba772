//! A crash before each call, and each call failing: what had its name is whole.

use super::world::{
    BACKUPS, Contents, RESTORED, back_up, backups, change, contents, crash_states, fault, files,
    filled, numbers, open, opened, options, restored,
};
use siltdb::{
    Db, ErrorKind,
    testing::{Crash, FaultError, Fs, MemFs},
};
use std::path::Path;

/// A database with a backup and changes since, all of it flushed.
fn with_backup() -> (MemFs, Db, Contents, Contents) {
    let fs = MemFs::new();
    let db = filled(&fs);
    let (_, first) = back_up(&db);
    change(&db, 4);
    db.compact().unwrap();
    change(&db, 5);
    db.flush().unwrap();
    let second = contents(&db);
    (fs, db, first, second)
}

#[test]
fn a_backup_that_crashes_leaves_the_earlier_ones_and_is_whole_or_not_there() {
    let (fs, db, first, second) = with_backup();
    let states = crash_states(&fs, || db.backup(BACKUPS));
    assert!(states.len() > 30, "{}", states.len());
    let mut whole = 0;
    for (what, state) in &states {
        let numbers = numbers(state);
        assert!(restored(state, Some(1)) == first, "{what}");
        if numbers.len() == 2 {
            assert!(restored(state, Some(2)) == second, "{what}");
            whole += 1;
        }
        // The next one goes on with what is there.
        let db = open(state);
        assert!(contents(&db) == second, "{what}");
        let (again, expected) = back_up(&db);
        assert_eq!(again.number, numbers.len() as u64 + 1, "{what}");
        assert!(restored(state, None) == expected, "{what}");
        assert_eq!(files(state, ".partial"), [""; 0], "{what}");
    }
    assert!(whole > 0 && whole < states.len() / 2, "{whole} of {}", states.len());
}

#[test]
fn a_first_backup_that_crashes_is_refused_as_a_source() {
    let fs = MemFs::new();
    let db = filled(&fs);
    db.flush().unwrap();
    let expected = contents(&db);
    let states = crash_states(&fs, || db.backup(BACKUPS));
    let (mut refused, mut unfinished) = (0, 0);
    for (what, state) in &states {
        if numbers(state).is_empty() {
            let error = backups(state).restore(None, RESTORED).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{what}: {error}");
            unfinished += u32::from(error.message().contains("never finished"));
            assert!(state.metadata(Path::new(RESTORED)).unwrap().is_none(), "{what}");
            refused += 1;
        } else {
            assert!(restored(state, Some(1)) == expected, "{what}");
        }
        let db = open(state);
        assert_eq!(back_up(&db).0.number, numbers(state).len() as u64, "{what}");
        assert!(restored(state, None) == expected, "{what}");
    }
    assert!(refused > 20 && unfinished > 5, "{refused}, {unfinished} of {}", states.len());
    assert!((refused as usize) < states.len(), "{refused}");
}

#[test]
fn a_backup_that_fails_leaves_everything_as_it_was() {
    let (ready, db, first, second) = with_backup();
    db.close().unwrap();
    for (error, kind) in
        [(FaultError::Io, ErrorKind::Io), (FaultError::NoSpace, ErrorKind::NoSpace)]
    {
        let (mut failures, mut poisoned) = (0, 0);
        for nth in 1.. {
            let fs = ready.crash_clone(Crash::Kill);
            let mut db = open(&fs);
            fs.set_fault(fault(None, nth, error));
            let made = db.backup(BACKUPS);
            fs.set_fault(None);
            if fs.faults() == 0 {
                break;
            }
            let numbers = numbers(&fs);
            // Only the sync of its name comes after it.
            assert!(numbers.len() == 2 || made.is_err(), "call {nth}");
            if let Err(made) = &made {
                // The manifest, which gets the mark of the backup, is written to as by a flush.
                if made.kind() == ErrorKind::Poisoned {
                    poisoned += 1;
                    drop(db);
                    db = open(&fs);
                } else {
                    assert_eq!(made.kind(), kind, "call {nth}: {made}");
                }
                failures += 1;
            }
            assert!(contents(&db) == second, "call {nth}");
            assert!(restored(&fs, Some(1)) == first, "call {nth}");
            let (again, _) = back_up(&db);
            assert_eq!(again.number, numbers.len() as u64 + 1, "call {nth}");
            assert!(restored(&fs, None) == second, "call {nth}");
        }
        assert!(failures > 20 && poisoned < 5, "{failures}, {poisoned} poisoned");
    }
}

#[test]
fn a_full_disk_is_named_and_the_next_backup_goes_on() {
    let (fs, db, first, second) = with_backup();
    fs.set_space_limit(Some(fs.space_used() + 12_000));
    let error = db.backup(BACKUPS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(numbers(&fs), [1]);
    assert_eq!(files(&fs, ".partial"), [""; 0]);
    assert!(restored(&fs, None) == first);
    assert!(contents(&db) == second);
    fs.set_space_limit(None);
    assert_eq!(back_up(&db).0.number, 2);
    assert!(restored(&fs, None) == second);
}

#[test]
fn whole_files_of_a_killed_backup_are_not_copied_again() {
    let (fs, db, _, second) = with_backup();
    let states = crash_states(&fs, || db.backup(BACKUPS));
    // The last states before the list has its name.
    let (what, state) = states.iter().rev().find(|(_, state)| numbers(state).len() == 1).unwrap();
    let db = open(state);
    let made = db.backup(BACKUPS).unwrap();
    assert_eq!((made.number, made.copied_files), (2, 0), "{what}");
    assert!(restored(state, None) == second, "{what}");
    // A damaged one among them is.
    let (_, state) = states.iter().rev().find(|(_, state)| numbers(state).len() == 1).unwrap();
    let state = state.crash_clone(Crash::Kill);
    let before = files(&fs.crash_clone(Crash::Kill), ".table");
    let listed = {
        let old = states[0].1.crash_clone(Crash::Kill);
        files(&old, ".table")
    };
    let new = before.iter().find(|name| !listed.contains(name)).unwrap();
    state.bytes_flip(&Path::new(BACKUPS).join(new), 100, 1).unwrap();
    let made = open(&state).backup(BACKUPS).unwrap();
    assert_eq!((made.number, made.copied_files), (2, 1));
    assert!(restored(&state, None) == second);
}

#[test]
fn a_restore_that_crashes_is_whole_or_not_there() {
    let (fs, db, first, _) = with_backup();
    db.close().unwrap();
    let states = crash_states(&fs, || backups(&fs).restore(Some(1), RESTORED));
    let sequence = backups(&fs).list().unwrap().backups[0].sequence;
    let is_there = |fs: &MemFs| fs.metadata(Path::new(RESTORED)).unwrap().is_some();
    let mut whole = 0;
    for (what, state) in &states {
        if is_there(state) {
            assert!(opened(&state.crash_clone(Crash::Kill), sequence) == first, "{what}");
            whole += 1;
        } else {
            // The next one replaces what was left over.
            backups(state).restore(Some(1), RESTORED).unwrap();
            assert!(opened(state, sequence) == first, "{what}");
        }
    }
    assert!(whole > 0 && whole < states.len() / 2, "{whole} of {}", states.len());
}

/// Its tables were written under the log of another database.
#[test]
fn a_restored_database_recovers_from_crashes() {
    let (fs, db, first, _) = with_backup();
    db.close().unwrap();
    backups(&fs).restore(Some(1), RESTORED).unwrap();
    let copy = options(&fs).open(RESTORED).unwrap();
    let states = crash_states(&fs, || copy.compact());
    assert!(states.len() > 20, "{}", states.len());
    for (what, state) in &states {
        let copy = options(state).open(RESTORED).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(contents(&copy) == first, "{what}");
    }
}

#[test]
fn a_restore_that_fails_leaves_nothing_that_opens() {
    let (ready, db, first, _) = with_backup();
    db.close().unwrap();
    let mut failures = 0;
    for nth in 1.. {
        let fs = ready.crash_clone(Crash::Kill);
        fs.set_fault(fault(None, nth, FaultError::NoSpace));
        let made = backups(&fs).restore(Some(1), RESTORED);
        fs.set_fault(None);
        if fs.faults() == 0 {
            break;
        }
        failures += u32::from(made.is_err());
        let is_there = fs.metadata(Path::new(RESTORED)).unwrap().is_some();
        assert!(is_there || made.is_err(), "call {nth}");
        assert!(restored_in(&fs) == is_there.then(|| first.clone()), "call {nth}");
    }
    assert!(failures > 20, "{failures}");
}

fn restored_in(fs: &MemFs) -> Option<Contents> {
    let options = options(fs).create(siltdb::Create::Never);
    match options.open(RESTORED) {
        Ok(db) => Some(contents(&db)),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            None
        }
    }
}

#[test]
fn pruning_that_crashes_leaves_no_backup_without_its_files() {
    let (fs, db, first, second) = with_backup();
    back_up(&db);
    change(&db, 6);
    db.compact().unwrap();
    let (_, third) = back_up(&db);
    let expected = [first, second, third];
    let states = crash_states(&fs, || backups(&fs).prune(1));
    let mut left = Vec::new();
    for (what, state) in &states {
        let numbers = numbers(state);
        for &number in &numbers {
            let found = restored(state, Some(number));
            assert!(found == expected[number as usize - 1], "{what}: backup {number}");
        }
        assert_eq!(numbers.last(), Some(&3), "{what}");
        left.push(numbers.len());
        // The next one removes the rest.
        backups(state).prune(1).unwrap();
        let needed = backups(state).list().unwrap().backups[0].files;
        assert_eq!(files(state, ".table").len() as u64, needed, "{what}");
    }
    assert!(left.contains(&1) && left.contains(&3), "{left:?}");
}
