//! What cannot be exported or imported is refused by name, with nothing changed.

use super::world::{
    DB, DIR, FILE, clock, contents, export, files, filled, import, open, open_at, options, small,
};
use siltdb::{
    Error, ErrorKind, FamilyOptions, Isolation, Options, Read,
    archive::{Archive, ArchiveOptions, ImportOptions},
    testing::{Fs, MemFs},
};
use std::{ops::ControlFlow, path::Path, sync::Arc};

fn go_on(_: siltdb::CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn bad_places_of_an_archive_are_refused() {
    let fs = MemFs::new();
    let db = filled(&fs);
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs.create_dir_all(Path::new("archives/dir.siltar")).unwrap();
    fs.write_all(Path::new("archives/taken.siltar"), b"mine").unwrap();
    drop(open_at(&fs, "other", &clock()));
    let before = (files(&fs, DB), files(&fs, "other"), files(&fs, DIR));
    for (path, kind) in [
        ("archives/a.silt", ErrorKind::InvalidArgument),
        ("archives/.siltar", ErrorKind::InvalidArgument),
        ("archives/a.siltar.partial", ErrorKind::InvalidArgument),
        ("archives/a", ErrorKind::InvalidArgument),
        ("", ErrorKind::InvalidArgument),
        ("db/a.siltar", ErrorKind::InvalidArgument),
        ("other/a.siltar", ErrorKind::InvalidArgument),
        ("archives/taken.siltar", ErrorKind::AlreadyExists),
        ("archives/dir.siltar", ErrorKind::AlreadyExists),
        ("absent/a.siltar", ErrorKind::NotFound),
    ] {
        let error = db.archive(path).unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
    }
    let named = ArchiveOptions::new().families(["users", "absent"]);
    let error = db.archive_with(FILE, &named, &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let error = db.archive_with(FILE, &ArchiveOptions::new().rate(0), &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let other = open_at(&fs, "other", &clock());
    let foreign = ArchiveOptions::new().snapshot(&other.snapshot());
    let error = db.archive_with(FILE, &foreign, &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    drop(other);
    assert_eq!(before, (files(&fs, DB), files(&fs, "other"), files(&fs, DIR)));
    // What is called as an unfinished archive, and is none, is not replaced.
    fs.write_all(Path::new("archives/a.siltar.partial"), b"a text of mine, of some length")
        .unwrap();
    assert_eq!(db.archive(FILE).unwrap_err().kind(), ErrorKind::InvalidArgument);
    fs.remove(Path::new("archives/a.siltar.partial")).unwrap();
    db.clone().close().unwrap();
    assert_eq!(db.archive(FILE).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn what_is_no_archive_is_not_imported() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let expected = contents(&db);
    fs.create_dir_all(Path::new("dir.siltar")).unwrap();
    fs.write_all(Path::new("text.siltar"), b"a text, and no archive, of some length").unwrap();
    fs.write_all(Path::new("empty.siltar"), b"").unwrap();
    for (path, kind) in [
        ("absent.siltar", ErrorKind::NotFound),
        ("dir.siltar", ErrorKind::InvalidArgument),
        ("text.siltar", ErrorKind::InvalidArgument),
        ("empty.siltar", ErrorKind::InvalidArgument),
        ("db/CURRENT", ErrorKind::InvalidArgument),
    ] {
        let error = db.import_archive(path).unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
        let error = Archive::open_with(path, &options(&fs, &clock())).unwrap_err();
        assert_eq!(error.kind(), kind, "{path}: {error}");
    }
    assert!(contents(&db) == expected);
}

#[test]
fn families_that_cannot_be_imported_are_refused() {
    let fs = MemFs::new();
    let db = filled(&fs);
    export(&fs, &db).unwrap();
    let expected = contents(&db);
    let refused = |options: ImportOptions| -> Error {
        let before = files(&fs, DB);
        let error = import(&db, &options).unwrap_err();
        assert!(contents(&db) == expected, "{error}");
        assert_eq!(before.len(), files(&fs, DB).len(), "{error}");
        error
    };
    // So that the refusals have nothing to flush.
    db.flush().unwrap();
    let new = ImportOptions::new;
    assert_eq!(refused(new()).kind(), ErrorKind::AlreadyExists);
    // The default family is not empty, and cannot be replaced.
    assert_eq!(refused(new().replace(true)).kind(), ErrorKind::AlreadyExists);
    let error = refused(new().family("default", "default").replace(true));
    assert!(error.message().contains("default family is not empty"), "{error}");
    assert_eq!(refused(new().family("users", "nothing")).kind(), ErrorKind::AlreadyExists);
    assert_eq!(refused(new().family("absent", "new")).kind(), ErrorKind::NotFound);
    assert_eq!(refused(new().family("users", "")).kind(), ErrorKind::InvalidArgument);
    let twice = new().family("users", "new").family("nothing", "new");
    assert_eq!(refused(twice).kind(), ErrorKind::InvalidArgument);
    // One that is refused keeps the others away.
    let half = new().family("users", "new").family("nothing", "users");
    assert_eq!(refused(half).kind(), ErrorKind::AlreadyExists);
    assert_eq!(db.families(), ["default", "nothing", "users"]);
}

#[test]
fn a_merge_operator_that_is_not_given_is_named_or_left() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.create_family("sums", small()).unwrap().merge("k", "+").unwrap();
    export(&fs, &db).unwrap();
    let plain = Options::new().fs(Arc::new(fs.clone())).workers(0).open("plain").unwrap();
    let error = import(&plain, &ImportOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("append"), "{error}");
    assert_eq!(plain.families(), ["default"]);
    import(&plain, &ImportOptions::new().merge_operators(false)).unwrap();
    let sums = plain.family("sums").unwrap();
    assert_eq!(sums.get("k").unwrap().as_deref(), Some(&b"+"[..]));
    assert_eq!(sums.merge("k", "+").unwrap_err().kind(), ErrorKind::InvalidArgument);
    plain.close().unwrap();
    drop(sums);
    // It opens without the operator, too.
    Options::new().fs(Arc::new(fs.clone())).workers(0).open("plain").unwrap();
    // Operands without their operator cannot be folded.
    db.close().unwrap();
    let reader = Options::new().fs(Arc::new(fs.clone())).read_only(true).open(DB).unwrap();
    let error = reader.archive("archives/b.siltar").unwrap_err();
    assert!(error.to_string().contains("append"), "{error}");
    assert_eq!(files(&fs, DIR), ["a.siltar"]);
}

#[test]
fn the_default_family_is_filled_only_if_no_reader_or_writer_is_in_the_way() {
    let fs = MemFs::new();
    let db = filled(&fs);
    export(&fs, &db).unwrap();
    let expected = contents(&db);
    let only_default = ImportOptions::new().family("default", "default");
    let copy = open_at(&fs, "copy", &clock());
    let snapshot = copy.snapshot();
    assert_eq!(import(&copy, &only_default).unwrap_err().kind(), ErrorKind::Busy);
    drop(snapshot);
    let transaction = copy.begin(Isolation::ReadCommitted);
    transaction.get_for_update("key").unwrap();
    assert_eq!(import(&copy, &only_default).unwrap_err().kind(), ErrorKind::Busy);
    drop(transaction);
    copy.put("key", "value").unwrap();
    copy.delete("key").unwrap();
    // The flush leaves nothing of it.
    import(&copy, &only_default).unwrap();
    assert!(contents(&copy)["default"] == expected["default"]);
    // An empty default family of an archive is in nothing's way.
    let empty = open_at(&fs, "empty", &clock());
    empty.create_family("new", FamilyOptions::new()).unwrap().put("n", "1").unwrap();
    empty.archive("archives/new.siltar").unwrap();
    copy.import_archive("archives/new.siltar").unwrap();
    assert!(contents(&copy)["default"] == expected["default"]);
    assert_eq!(copy.family("new").unwrap().get("n").unwrap().as_deref(), Some(&b"1"[..]));
}
