//! Places that are refused, with nothing changed in them.

use super::world::{BACKUPS, DB, RESTORED, back_up, backups, fill, filled, numbers, open, options};
use siltdb::{
    Error, ErrorKind,
    backup::{Backups, CopyOptions},
    testing::{Crash, Fs, MemFs},
};
use std::{ops::ControlFlow, path::Path};

fn go_on(_: siltdb::CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_backup_into_a_database_is_refused() {
    let fs = MemFs::new();
    let db = filled(&fs);
    drop(options(&fs).open("other").unwrap());
    let before = fs.list(Path::new(DB)).unwrap();
    for dir in [DB, "db/backups", "db/deep/backups", "other", "other/backups", "./db/backups"] {
        let error = db.backup(dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{dir}: {error}");
        assert!(error.message().contains("belongs to a database"), "{dir}: {error}");
    }
    let names = |entries: Vec<siltdb_base::fs::DirEntry>| -> Vec<String> {
        entries.into_iter().map(|entry| entry.name).collect()
    };
    let after = names(fs.list(Path::new(DB)).unwrap());
    assert_eq!(names(before), after);
    assert!(fs.metadata(Path::new("other/backups")).unwrap().is_none());
}

#[test]
fn a_backup_where_something_else_lies_is_refused() {
    let fs = MemFs::new();
    let db = filled(&fs);
    fs.create_dir_all(Path::new("notes")).unwrap();
    fs.write_all(Path::new("notes/todo"), b"mine").unwrap();
    for dir in ["notes", "notes/todo"] {
        let error = db.backup(dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{dir}: {error}");
    }
    assert_eq!(fs.list(Path::new("notes")).unwrap().len(), 1);
    // An empty directory is a fit place, and a foreign file beside backups is left alone.
    fs.create_dir_all(Path::new(BACKUPS)).unwrap();
    back_up(&db);
    let foreign = Path::new(BACKUPS).join("README");
    fs.write_all(&foreign, b"mine").unwrap();
    back_up(&db);
    backups(&fs).prune(1).unwrap();
    assert_eq!(fs.read_all(&foreign).unwrap(), b"mine");
    assert_eq!(numbers(&fs), [2]);
    let options = CopyOptions::new().rate(0);
    let error = db.backup_with(BACKUPS, &options, &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// A second database is refused, and a database that was restored from the newest backup is not.
#[test]
fn the_backups_of_another_database_are_refused_by_name() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    let before: Vec<_> = fs.list(Path::new(BACKUPS)).unwrap().into_iter().map(|e| e.name).collect();
    let other = options(&fs).open("elsewhere/other").unwrap();
    for keys in [0..0, 0..50] {
        fill(&other, keys, 9);
        let error = other.backup(BACKUPS).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let text = error.to_string();
        assert!(text.contains("foreign backups") && text.contains("elsewhere/other"), "{text}");
    }
    let after: Vec<_> = fs.list(Path::new(BACKUPS)).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(before, after);
    backups(&fs).restore(None, RESTORED).unwrap();
    let restored = options(&fs).open(RESTORED).unwrap();
    assert_eq!(restored.backup(BACKUPS).unwrap().number, 2);
    // The restored one goes on in this directory, and the first one elsewhere.
    assert_eq!(db.backup(BACKUPS).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.backup("copies/of-first").unwrap().number, 1);
    assert_eq!(other.backup("copies/of-other").unwrap().number, 1);
}

/// What each call says of a directory that is no source.
fn refusals(fs: &MemFs, dir: &str) -> Vec<Error> {
    let backups = Backups::with_options(dir, options(fs));
    vec![
        backups.list().map(drop).unwrap_err(),
        backups.restore(None, RESTORED).map(drop).unwrap_err(),
        backups.verify(None, &mut go_on).map(drop).unwrap_err(),
        backups.prune(1).map(drop).unwrap_err(),
    ]
}

#[test]
fn a_directory_without_a_backup_is_no_source() {
    let fs = MemFs::new();
    let db = filled(&fs);
    fs.create_dir_all(Path::new("empty")).unwrap();
    fs.create_dir_all(Path::new("unfinished")).unwrap();
    fs.write_all(Path::new("unfinished/00000000000000ab.partial"), b"part").unwrap();
    fs.write_all(Path::new("file"), b"mine").unwrap();
    for (dir, kind, words) in [
        ("absent", ErrorKind::NotFound, "no backup"),
        ("empty", ErrorKind::NotFound, "no backup"),
        ("unfinished", ErrorKind::NotFound, "never finished"),
        (DB, ErrorKind::InvalidArgument, "a database"),
        ("file", ErrorKind::InvalidArgument, "is a file"),
    ] {
        for error in refusals(&fs, dir) {
            assert_eq!(error.kind(), kind, "{dir}: {error}");
            assert!(error.message().contains(words), "{dir}: {error}");
        }
    }
    assert!(fs.metadata(Path::new("absent")).unwrap().is_none());
    assert!(fs.list(Path::new("empty")).unwrap().is_empty());
    assert!(fs.metadata(Path::new(RESTORED)).unwrap().is_none());
    drop(db);
}

#[test]
fn a_restore_never_overwrites() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    fs.create_dir_all(Path::new("notes")).unwrap();
    fs.write_all(Path::new("notes/todo"), b"mine").unwrap();
    let kind = |target: &str| backups(&fs).restore(None, target).unwrap_err().kind();
    assert_eq!(kind(DB), ErrorKind::AlreadyExists);
    assert_eq!(kind("notes"), ErrorKind::AlreadyExists);
    assert_eq!(kind("notes/todo"), ErrorKind::AlreadyExists);
    assert_eq!(kind(BACKUPS), ErrorKind::AlreadyExists);
    assert_eq!(kind("/"), ErrorKind::AlreadyExists);
    assert_eq!(kind("db/inside"), ErrorKind::InvalidArgument);
    assert_eq!(fs.read_all(Path::new("notes/todo")).unwrap(), b"mine");
    db.put("still", "there").unwrap();
    // An empty directory is a fit place.
    fs.create_dir_all(Path::new("room")).unwrap();
    backups(&fs).restore(None, "room").unwrap();
    drop(options(&fs).open("room").unwrap());
}

#[test]
fn a_number_that_no_backup_has_and_one_that_was_pruned_are_named() {
    let fs = MemFs::new();
    let db = filled(&fs);
    for _ in 0..3 {
        back_up(&db);
    }
    backups(&fs).prune(2).unwrap();
    for number in [0, 1, 4, u64::MAX] {
        let error = backups(&fs).restore(Some(number), RESTORED).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{number}: {error}");
        assert!(error.to_string().contains("one of 2 3"), "{error}");
        let error = backups(&fs).verify(Some(number), &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{number}: {error}");
    }
    assert_eq!(backups(&fs).prune(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(numbers(&fs), [2, 3]);
}

#[test]
fn one_backup_at_a_time_is_made_in_a_directory() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    let mut seen = 0;
    let made = db.backup_with(BACKUPS, &CopyOptions::new(), &mut |_| {
        let kinds = [
            db.backup(BACKUPS).unwrap_err().kind(),
            backups(&fs).prune(1).unwrap_err().kind(),
            backups(&fs).restore(None, RESTORED).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::Locked; 3]);
        // A list takes no lock.
        assert_eq!(numbers(&fs), [1]);
        seen += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(made.unwrap().number, 2);
    assert!(seen > 0);
    // Several may read at a time.
    let verified = backups(&fs).verify(None, &mut |_| {
        assert_eq!(numbers(&fs), [1, 2]);
        assert_eq!(backups(&fs).prune(1).unwrap_err().kind(), ErrorKind::Locked);
        ControlFlow::Continue(())
    });
    assert!(verified.unwrap().is_clean());
}

#[test]
fn a_database_that_only_reads_makes_no_backup() {
    let fs = MemFs::new();
    filled(&fs).close().unwrap();
    let fs = fs.crash_clone(Crash::Kill);
    let db = options(&fs).read_only(true).open(DB).unwrap();
    assert_eq!(db.backup(BACKUPS).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(fs.metadata(Path::new(BACKUPS)).unwrap().is_none());
    drop(db);
    let db = open(&fs);
    db.clone().close().unwrap();
    assert_eq!(db.backup(BACKUPS).unwrap_err().kind(), ErrorKind::Closed);
}

/// Any name that the file system takes is that of a target.
#[cfg(unix)]
#[test]
fn any_name_is_a_target() {
    use siltdb::{Db, Read, archive::Archive};
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &[u8]| dir.path().join(OsStr::from_bytes(name));
    let db = Db::open(path(b"db")).unwrap();
    db.put("key", "value").unwrap();
    db.backup(path(b"backups")).unwrap();
    let long = [b'n'; 250];
    let names: [&[u8]; 8] = [
        &[b'l'; 255],
        b"dots...",
        b"\xff\xfe",
        b"line\nend",
        b"x.partial",
        b"slash/",
        b" ",
        "\u{e4}".as_bytes(),
    ];
    for name in names {
        let name = |kind: &[u8]| match name.len() > 200 {
            true => path(&[kind, &long].concat()),
            false => path(&[kind, name].concat()),
        };
        Backups::new(path(b"backups")).restore(None, name(b"rest-")).unwrap();
        db.checkpoint(name(b"copy-")).unwrap();
        for copy in [name(b"rest-"), name(b"copy-")] {
            assert_eq!(
                Db::open(&copy).unwrap().get("key").unwrap().as_deref(),
                Some(&b"value"[..])
            );
        }
    }
    let archive = path(&[&long[..248], b".siltar"].concat());
    db.archive(&archive).unwrap();
    Archive::open(&archive).unwrap();
    for name in [b".".as_slice(), b"..", b"db/..", b"db/inner"] {
        let refused = db.checkpoint(path(name)).unwrap_err().kind();
        assert!(
            matches!(refused, ErrorKind::InvalidArgument | ErrorKind::AlreadyExists),
            "{refused:?}"
        );
    }
    let left = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.filter(|name| name.as_bytes().ends_with(b".partial")).collect();
    left.sort();
    assert_eq!(left, ["copy-x.partial", "rest-x.partial"].map(std::ffi::OsString::from));
}

/// A list that a sparse file pretends to be is refused by its first bytes.
#[test]
fn a_huge_file_that_is_no_list_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let db = siltdb::Db::open(dir.path().join("db")).unwrap();
    db.backup(dir.path().join("backups")).unwrap();
    let sparse = std::fs::File::create(dir.path().join("backups/000002.backup")).unwrap();
    sparse.set_len(400 << 20).unwrap();
    let begun = std::time::Instant::now();
    let listing = Backups::new(dir.path().join("backups")).list().unwrap();
    assert_eq!((listing.backups.len(), listing.errors.len()), (1, 1));
    assert_eq!(listing.errors[0].kind(), ErrorKind::Corruption);
    assert!(listing.errors[0].to_string().contains("not the list"), "{}", listing.errors[0]);
    // Reading and summing 400 MB takes longer, in a debug build by far.
    assert!(begun.elapsed() < std::time::Duration::from_millis(500), "{:?}", begun.elapsed());
}
