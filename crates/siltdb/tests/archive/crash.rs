//! A crash before each call, each call failing, and a full disk.

use super::world::{
    Contents, DIR, FILE, archived, assert_sound, clock, contents, crash_states, export, fault,
    files, filled, import, open, open_at, options, verify,
};
use siltdb::{
    Db, ErrorKind,
    archive::{ArchiveOptions, CleanOptions, ImportOptions, clean},
    testing::{Crash, FaultError, Fs, MemFs},
};
use std::{ops::ControlFlow, path::Path};

/// Whether the archive has its name; then it must be whole.
fn is_whole(fs: &MemFs, expected: &Contents, what: &str) -> bool {
    if fs.metadata(Path::new(FILE)).unwrap().is_none() {
        return false;
    }
    verify(fs, FILE).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(archived(fs, FILE, &clock()).unwrap() == *expected, "{what}");
    true
}

#[test]
fn an_export_that_crashes_is_whole_or_not_there() {
    let fs = MemFs::new();
    let db = filled(&fs);
    fs.create_dir_all(Path::new(DIR)).unwrap();
    db.sync_wal().unwrap();
    let expected = contents(&db);
    let mut states = crash_states(&fs, || db.archive(FILE));
    let inside = states.len();
    assert!(inside > 30, "{inside}");
    // And after it has returned.
    states.extend(
        (0..20).map(|seed| (format!("after, {seed}"), fs.crash_clone(Crash::PowerLoss { seed }))),
    );
    let (mut whole, mut left) = (0, 0);
    for (number, (what, state)) in states.iter().enumerate() {
        let is_there = is_whole(state, &expected, what);
        assert!(is_there || number < inside, "{what}: an archive that was made is lost");
        whole += usize::from(is_there);
        // The directory is as new as the archive.
        state.create_dir_all(Path::new(DIR)).unwrap();
        left += usize::from(files(state, DIR).iter().any(|name| name.ends_with(".partial")));
        // A cleanup removes what is left; so does the next export of that name.
        let opening = options(state, &clock());
        let report = clean(DIR, &CleanOptions::new(), &opening).unwrap();
        assert!(report.errors.is_empty(), "{what}: {report:?}");
        let expected_files: &[&str] = if is_there { &["a.siltar"] } else { &[] };
        assert_eq!(files(state, DIR), expected_files, "{what}");
        let again = state.crash_clone(Crash::Kill);
        if !is_there {
            let db = open(&again);
            db.archive(FILE).unwrap();
            assert!(is_whole(&again, &contents(&db), what));
        }
    }
    // Some are whole before the call has returned.
    assert!(whole > 20 && whole < 40 && left > 6, "{whole} whole, {left} left over");
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let ready = MemFs::new();
    drop(filled(&ready));
    ready.create_dir_all(Path::new(DIR)).unwrap();
    for (error, kind) in
        [(FaultError::Io, ErrorKind::Io), (FaultError::NoSpace, ErrorKind::NoSpace)]
    {
        let mut failures = 0;
        for nth in 1.. {
            let fs = ready.crash_clone(Crash::Kill);
            let db = open(&fs);
            let expected = contents(&db);
            fs.set_fault(fault(nth, error));
            let made = db.archive(FILE);
            fs.set_fault(None);
            if fs.faults() == 0 {
                break;
            }
            let is_there = is_whole(&fs, &expected, &format!("call {nth}"));
            if let Err(made) = &made {
                assert_eq!(made.kind(), kind, "call {nth}: {made}");
                failures += 1;
            }
            assert!(is_there || made.is_err(), "call {nth}");
            assert!(contents(&db) == expected, "call {nth}");
            db.archive("archives/b.siltar").unwrap();
            db.put("later", "value").unwrap();
        }
        assert!(failures > 20, "{failures}");
    }
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing() {
    let fs = MemFs::new();
    let db = filled(&fs);
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs.set_space_limit(Some(fs.space_used() + 9_000));
    let error = db.archive(FILE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(files(&fs, DIR), [""; 0]);
    fs.set_space_limit(None);
    export(&fs, &db).unwrap();
    let expected = contents(&db);
    let copy = open_at(&fs, "copy", &clock());
    let before = files(&fs, "copy");
    fs.set_space_limit(Some(fs.space_used() + 9_000));
    let error = import(&copy, &ImportOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(copy.families(), ["default"]);
    assert_eq!(files(&fs, "copy"), before);
    fs.set_space_limit(None);
    import(&copy, &ImportOptions::new()).unwrap();
    assert!(contents(&copy) == expected);
}

/// A database with families of its own, one of which an import replaces, and what it holds before
/// and after that import.
fn with_import() -> (MemFs, Db, Contents, Contents) {
    let fs = MemFs::new();
    let db = filled(&fs);
    export(&fs, &db).unwrap();
    db.family("users").unwrap().put("mine", "value").unwrap();
    db.default_family().put("mine", "value").unwrap();
    db.sync_wal().unwrap();
    let before = contents(&db);
    let again = open(&fs.crash_clone(Crash::Kill));
    import_all(&again).unwrap();
    let after = contents(&again);
    (fs, db, before, after)
}

/// Replaces a family, and brings in another.
fn import_all(db: &Db) -> siltdb::Result<siltdb::archive::ArchiveImport> {
    let options = ImportOptions::new().family("users", "users").family("default", "main");
    import(db, &options.replace(true))
}

#[test]
fn an_import_that_crashes_is_whole_or_not_there() {
    let (fs, db, before, after) = with_import();
    let mut states = crash_states(&fs, || import_all(&db));
    let inside = states.len();
    assert!(inside > 100, "{inside}");
    states.extend(
        (0..20).map(|seed| (format!("after, {seed}"), fs.crash_clone(Crash::PowerLoss { seed }))),
    );
    let (mut whole, mut absent) = (0, 0);
    for (number, (what, state)) in states.iter().enumerate() {
        let db = open(state);
        let found = contents(&db);
        if found == after {
            whole += 1;
        } else {
            assert!(found == before, "{what}: neither before nor after");
            assert!(number < inside, "{what}: an import that was made is lost");
            absent += 1;
        }
        // The next import goes on.
        import(&db, &ImportOptions::new().family("users", "again")).unwrap();
        drop(db);
        let db = open(state);
        assert!(contents(&db)["again"] == after["users"], "{what}");
        drop(db);
        assert_sound(state, &clock());
    }
    assert!(whole > 20 && absent > 60, "{whole} whole, {absent} absent");
}

#[test]
fn an_import_into_a_new_database_that_crashes_is_whole_or_not_there() {
    let fs = MemFs::new();
    let db = filled(&fs);
    export(&fs, &db).unwrap();
    let expected = contents(&db);
    let copy = open_at(&fs, "copy", &clock());
    let states = crash_states(&fs, || import(&copy, &ImportOptions::new()));
    let mut whole = 0;
    for (what, state) in &states {
        let copy = open_at(state, "copy", &clock());
        let found = contents(&copy);
        if found == expected {
            whole += 1;
        } else {
            assert_eq!(copy.families(), ["default"], "{what}");
            assert!(found["default"].is_empty(), "{what}");
            import(&copy, &ImportOptions::new()).unwrap();
            assert!(contents(&copy) == expected, "{what}");
        }
    }
    assert!(whole > 0 && whole < states.len() / 2, "{whole} of {}", states.len());
}

#[test]
fn an_import_that_fails_leaves_no_family_and_no_file() {
    let (ready, db, before, after) = with_import();
    drop(db);
    for error in [FaultError::Io, FaultError::NoSpace] {
        let mut failures = 0;
        for nth in 1.. {
            let fs = ready.crash_clone(Crash::Kill);
            let db = open(&fs);
            fs.set_fault(fault(nth, error));
            let made = import_all(&db);
            fs.set_fault(None);
            if fs.faults() == 0 {
                made.unwrap();
                break;
            }
            let found = contents(&db);
            assert!(found == if made.is_ok() { after.clone() } else { before.clone() }, "{nth}");
            failures += u32::from(made.is_err());
            drop(db);
            // If the edit may have become durable, the next open knows.
            let db = open(&fs);
            let reopened = contents(&db);
            assert!(reopened == after || reopened == before && made.is_err(), "call {nth}");
            if reopened == before {
                import_all(&db).unwrap();
            }
            assert!(contents(&db) == after, "call {nth}");
        }
        assert!(failures > 20, "{failures}");
    }
}

/// The lock of a directory of archives is no trace that stays.
#[test]
fn exports_exclude_each_other_in_a_directory() {
    let fs = MemFs::new();
    let db = filled(&fs);
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let mut tried = 0;
    let mut inside = |_| {
        if tried == 0 {
            tried += 1;
            let other = open_at(&fs, "other", &clock());
            let error = other.archive("archives/b.siltar").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
            let error = clean(DIR, &CleanOptions::new(), &options(&fs, &clock())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        }
        ControlFlow::Continue(())
    };
    db.archive_with(FILE, &ArchiveOptions::new(), &mut inside).unwrap();
    assert_eq!(tried, 1);
    assert_eq!(files(&fs, DIR), ["a.siltar"]);
}
