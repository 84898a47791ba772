//! The directory of a database: destroyed, temporary, and listed without opening.

use siltdb::{
    Create, Db, ErrorKind, FamilyOptions, Options, Read,
    testing::{CallKind, Crash, Fault, FaultError, FaultSpan, Fs, MemFs},
};
use std::{fs, path::Path, sync::Arc};

fn options(fs: &MemFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).workers(0)
}

/// A database with tables, a log, and a file of an unfinished job.
fn fill(options: Options, path: &Path) -> siltdb::Result<()> {
    let db = options.open(path)?;
    let users = db.create_family("users", FamilyOptions::new())?;
    users.put("a", "1")?;
    db.flush()?;
    db.put("b", "2")?;
    db.close()
}

#[test]
fn destroy_removes_the_database_and_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fill(Options::new(), &path).unwrap();
    fs::write(path.join("000099.tmp"), "unfinished").unwrap();
    Db::destroy(&path).unwrap();
    assert!(!path.exists());
    assert_eq!(Db::destroy(&path).unwrap_err().kind(), ErrorKind::NotFound);
    // A new database in the same place is empty.
    assert!(Db::open(&path).unwrap().is_empty().unwrap());
}

#[test]
fn destroy_leaves_what_is_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fill(Options::new(), &path).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    fs::create_dir(path.join("000050.table")).unwrap();
    fs::write(path.join("12.log"), "not a name of ours").unwrap();
    Db::destroy(&path).unwrap();
    let mut left: Vec<_> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["000050.table", "12.log", "notes.txt"]);
}

#[test]
fn destroy_refuses_what_is_no_database_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let names = |path: &Path| -> Vec<_> {
        let mut names: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // A directory of other logs with similar names.
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("000003.log"), "a log").unwrap();
    assert_eq!(Db::destroy(&logs).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(names(&logs), ["000003.log"]);
    // The directory of another store with files of the same names.
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    for (name, content) in [("CURRENT", "MANIFEST-000002\n"), ("LOCK", ""), ("000003.log", "x")] {
        fs::write(other.join(name), content).unwrap();
    }
    let error = Db::destroy(&other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("nothing was removed"), "{error}");
    assert_eq!(names(&other), ["000003.log", "CURRENT", "LOCK"]);
    // An empty directory, a file, and a missing path.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(Db::destroy(&empty).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(names(&empty).is_empty());
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(Db::destroy(&file).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(Db::destroy(dir.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn destroy_refuses_a_database_that_is_open_for_writing_or_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let db = Db::open(&path).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!(Db::destroy(&path).unwrap_err().kind(), ErrorKind::Locked);
    drop(db);
    let db = Options::new().read_only(true).open(&path).unwrap();
    assert_eq!(Db::destroy(&path).unwrap_err().kind(), ErrorKind::Locked);
    assert!(db.contains("a").unwrap());
    drop(db);
    Db::destroy(&path).unwrap();
}

#[test]
fn a_destruction_that_fails_or_crashes_at_any_call_can_be_done_again() {
    let path = Path::new("/db");
    let full = MemFs::new();
    fill(options(&full), path).unwrap();
    let mut failures = 0;
    for nth in 1.. {
        let fs = full.crash_clone(Crash::Kill);
        let fault = Fault { kind: None, nth, span: FaultSpan::FromThenOn, error: FaultError::Io };
        fs.set_fault(Some(fault));
        let failed = options(&fs).destroy(path).is_err();
        fs.set_fault(None);
        for crash in [Crash::Kill, Crash::PowerLoss { seed: nth }] {
            let after = fs.crash_clone(crash);
            match options(&after).destroy(path) {
                Ok(()) => {}
                // It was removed already, except perhaps an empty directory or a lone lock file.
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
            }
            let left = after.list(path).unwrap_or_default();
            assert!(left.iter().all(|entry| entry.name == "LOCK"), "call {nth}: {left:?}");
            // A new database can be created in its place.
            let db = options(&after).open(path).unwrap();
            assert!(db.is_empty().unwrap() && db.families() == ["default"]);
        }
        failures += u64::from(failed);
        if fs.faults() == 0 {
            break;
        }
    }
    assert!(failures > 10, "{failures} failures");
}

#[test]
fn what_destroy_has_removed_does_not_come_back_after_a_power_loss() {
    let fs = MemFs::new();
    fill(options(&fs), Path::new("/db")).unwrap();
    options(&fs).destroy("/db").unwrap();
    for seed in 0..50 {
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        let refused = options(&after).create(Create::Never).open("/db").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn a_temporary_database_is_removed_with_its_last_handle_or_when_it_is_closed() {
    let db = Db::temporary().unwrap();
    let path = db.path().to_owned();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    users.put("a", "1").unwrap();
    db.flush().unwrap();
    drop(db);
    assert!(path.join("CURRENT").exists() && users.contains("a").unwrap());
    drop(users);
    assert!(!path.exists());
    let db = Options::new().workers(0).temporary().unwrap();
    let (path, other) = (db.path().to_owned(), db.clone());
    db.put("a", "1").unwrap();
    db.close().unwrap();
    assert!(!path.exists());
    assert_eq!(other.get("a").unwrap_err().kind(), ErrorKind::Closed);
    other.close().unwrap();
}

#[test]
fn temporary_databases_are_apart_and_their_options_make_lasting_ones() {
    let (one, two) = (Db::temporary().unwrap(), Db::temporary().unwrap());
    one.put("a", "1").unwrap();
    assert!(one.path() != two.path() && two.is_empty().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    one.options().open(&path).unwrap().put("b", "2").unwrap();
    assert!(Db::open(&path).unwrap().contains("b").unwrap());
}

#[test]
fn closing_a_temporary_database_tells_what_removing_it_fails_with() {
    let fs = MemFs::new();
    fs.set_fault(None);
    fs.create_dir_all(&std::env::temp_dir()).unwrap();
    let db = options(&fs).temporary().unwrap();
    db.put("a", "1").unwrap();
    let kind = Some(CallKind::Remove);
    let (span, error) = (FaultSpan::Once, FaultError::Io);
    fs.set_fault(Some(Fault { kind, nth: 1, span, error }));
    assert_eq!(db.clone().close().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn families_are_listed_while_the_database_is_open_and_as_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    assert_eq!(Db::list_families(&path).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!path.exists());
    let db = Db::open(&path).unwrap();
    for name in ["b", "a", "gone"] {
        db.create_family(name, FamilyOptions::new()).unwrap();
    }
    db.rename_family("b", "z").unwrap();
    db.drop_family("gone").unwrap();
    assert_eq!(Db::list_families(&path).unwrap(), ["a", "default", "z"]);
    assert_eq!(Db::list_families(&path).unwrap(), db.families());
    drop(db);
    let before = fs::read_dir(&path).unwrap().count();
    assert_eq!(Db::list_families(&path).unwrap(), ["a", "default", "z"]);
    assert_eq!(fs::read_dir(&path).unwrap().count(), before);
    fs::write(path.join("CURRENT"), "siltdb manifest").unwrap();
    assert_eq!(Db::list_families(&path).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn families_are_listed_while_manifests_replace_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..300 {
                let name = format!("family {:0200}", round % 3);
                let _ = db.drop_family(&name);
                db.create_family(&name, FamilyOptions::new()).unwrap();
            }
        });
        let mut listed = 0;
        while !writer.is_finished() || listed == 0 {
            let names = Db::list_families(dir.path()).unwrap();
            assert!(names.contains(&"default".to_owned()) && names.len() <= 4, "{names:?}");
            listed += 1;
        }
    });
}

#[test]
fn a_new_database_lies_in_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fill(Options::new(), &path).unwrap();
    fs::create_dir(path.join("empty")).unwrap();
    for inside in ["x/../sub", "sub", "sub/deeper", "empty", "lost"] {
        for create in [Create::IfMissing, Create::New] {
            let error = Options::new().create(create).open(path.join(inside)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{inside}: {error}");
            assert!(error.message().contains("belongs to a database"), "{error}");
        }
    }
    for made in ["sub", "lost", "x"] {
        assert!(!path.join(made).exists(), "{made}");
    }
    let left = fs::read_dir(path.join("empty")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
    // Beside it, by a path through it too, and where one was made by an earlier version.
    Db::open(path.join("../beside")).unwrap().close().unwrap();
    fs::rename(dir.path().join("beside"), path.join("empty/old")).unwrap();
    Db::open(path.join("empty/old")).unwrap().close().unwrap();
}

#[test]
#[cfg(unix)]
fn a_database_whose_current_is_a_link_to_nothing_is_not_replaced_by_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fill(Options::new(), &path).unwrap();
    let (current, aside) = (path.join("CURRENT"), dir.path().join("aside"));
    fs::rename(&current, &aside).unwrap();
    std::os::unix::fs::symlink("nowhere", &current).unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for create in [Create::IfMissing, Create::Never, Create::New] {
        let error = Options::new().create(create).open(&path).unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Locked, "{error}");
        assert!(error.to_string().contains("data"), "{error}");
        assert_eq!(names(), before, "{create:?}");
    }
    fs::remove_file(&current).unwrap();
    fs::rename(&aside, &current).unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"2"[..]));
}
