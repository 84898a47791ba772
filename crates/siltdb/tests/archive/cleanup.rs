//! Directories of archives: listed, cleaned, and archives removed by name; what is not ours stays.

use super::world::{DB, DIR, FILE, clock, export, files, filled, open_at, options};
use siltdb::{
    ErrorKind,
    archive::{CleanOptions, clean, list, remove},
    testing::{Fs, ManualClock, MemFs},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// Five archives, one a day, beside other files.
fn five() -> (MemFs, Arc<ManualClock>) {
    let (fs, clock) = (MemFs::new(), clock());
    drop(filled(&fs));
    let db = open_at(&fs, DB, &clock);
    fs.create_dir_all(Path::new(DIR)).unwrap();
    // Not by their names.
    for name in ["c", "a", "e", "b", "d"] {
        db.archive(path(&format!("{name}.siltar"))).unwrap();
        clock.advance(Duration::from_secs(86_400));
    }
    for (name, bytes) in FOREIGN {
        fs.write_all(&path(name), bytes).unwrap();
    }
    fs.create_dir_all(&path("dir.siltar")).unwrap();
    (fs, clock)
}

/// Files that are not ours, and have names as ours or not.
const FOREIGN: [(&str, &[u8]); 4] = [
    ("notes.txt", b"mine"),
    ("text.siltar", b"a text that somehow has this name"),
    ("empty.siltar", b""),
    ("text.siltar.partial", b"a text that somehow has this name, too"),
];

fn assert_foreign_left(fs: &MemFs) {
    for (name, bytes) in FOREIGN {
        assert_eq!(fs.read_all(&path(name)).unwrap(), bytes, "{name}");
    }
    assert!(fs.metadata(&path("dir.siltar")).unwrap().is_some());
    assert!(!files(fs, DIR).contains(&"siltar.lock".to_owned()));
}

/// The letters of the archives that there are.
fn letters(fs: &MemFs) -> String {
    files(fs, DIR).iter().filter(|name| name.len() == "a.siltar".len()).map(|n| &n[..1]).collect()
}

#[test]
fn a_directory_is_listed_with_what_is_wrong() {
    let (fs, clock) = five();
    let listing = list(DIR, &options(&fs, &clock)).unwrap();
    let names: Vec<_> = listing.archives.iter().map(|archive| archive.path.clone()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"].map(|name| path(&format!("{name}.siltar"))));
    let ages: Vec<u64> = listing.archives.iter().map(|archive| archive.created_ms).collect();
    assert!(ages[2] < ages[0] && ages[0] < ages[4], "{ages:?}");
    assert!(listing.archives.iter().all(|archive| archive.entries() > 100));
    let wrong: Vec<&str> = listing.errors.iter().filter_map(|error| error.file()).collect();
    assert_eq!(wrong, ["archives/empty.siltar", "archives/text.siltar"]);
    fs.bytes_flip(&path("b.siltar"), 30, 1).unwrap();
    fs.truncate(&path("c.siltar"), 3000).unwrap();
    let listing = list(DIR, &options(&fs, &clock)).unwrap();
    // What an archive holds is not read.
    assert_eq!((listing.archives.len(), listing.errors.len()), (4, 3));
    assert_eq!(list("absent", &options(&fs, &clock)).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn old_archives_are_removed_and_nothing_else() {
    let (ready, clock) = five();
    let days = |days: u64| Duration::from_secs(86_400 * days);
    let new = CleanOptions::new;
    for (clean_options, removed, left) in [
        (new(), "", "abcde"),
        (new().keep(5), "", "abcde"),
        (new().keep(3), "ca", "bde"),
        (new().keep(0), "caebd", ""),
        (new().keep(u64::MAX), "", "abcde"),
        (new().older_than(days(3)), "cae", "bd"),
        (new().older_than(days(6)), "", "abcde"),
        (new().older_than(Duration::ZERO), "caebd", ""),
        (new().older_than(Duration::MAX), "", "abcde"),
        // Both must agree.
        (new().older_than(days(3)).keep(4), "c", "abde"),
        (new().older_than(days(5)).keep(1), "c", "abde"),
    ] {
        let fs = ready.crash_clone(siltdb::testing::Crash::Kill);
        let opening = options(&fs, &clock);
        let report = clean(DIR, &clean_options.clone().dry_run(true), &opening).unwrap();
        assert_eq!(letters(&fs), "abcde");
        let found: Vec<_> = removed.chars().map(|name| path(&format!("{name}.siltar"))).collect();
        assert_eq!(report.archives, found, "{clean_options:?}");
        let bytes = report.bytes;
        let report = clean(DIR, &clean_options, &opening).unwrap();
        assert_eq!((report.archives, report.bytes), (found, bytes), "{clean_options:?}");
        assert_eq!(report.errors.len(), 3, "{:?}", report.errors);
        assert!(report.unfinished.is_empty());
        assert_eq!(letters(&fs), left, "{clean_options:?}");
        assert_foreign_left(&fs);
    }
}

#[test]
fn what_killed_exports_left_is_removed() {
    let (fs, clock) = five();
    let whole = fs.read_all(&path("a.siltar")).unwrap();
    for (name, bytes) in [
        ("whole.siltar.partial", &whole[..]),
        ("half.siltar.partial", &whole[..whole.len() / 2]),
        ("empty.siltar.partial", b""),
        ("zeros.siltar.partial", &[0; 5000]),
    ] {
        fs.write_all(&path(name), bytes).unwrap();
    }
    let report = clean(DIR, &CleanOptions::new(), &options(&fs, &clock)).unwrap();
    let names: Vec<_> =
        ["empty", "half", "whole", "zeros"].map(|n| path(&format!("{n}.siltar.partial"))).into();
    assert_eq!(report.unfinished, names);
    assert_eq!(report.bytes, whole.len() as u64 + whole.len() as u64 / 2 + 5000);
    assert_eq!(letters(&fs), "abcde");
    assert_foreign_left(&fs);
}

#[test]
fn an_archive_is_removed_by_its_name_and_only_an_archive() {
    let (fs, clock) = five();
    let opening = options(&fs, &clock);
    fs.bytes_flip(&path("b.siltar"), 30, 1).unwrap();
    fs.truncate(&path("c.siltar"), 3000).unwrap();
    for name in ["a", "b", "c"] {
        let bytes = fs.read_all(&path(&format!("{name}.siltar"))).unwrap().len() as u64;
        assert_eq!(remove(path(&format!("{name}.siltar")), &opening).unwrap(), bytes);
    }
    assert_eq!(letters(&fs), "de");
    for (name, kind) in [
        ("a.siltar", ErrorKind::NotFound),
        ("notes.txt", ErrorKind::InvalidArgument),
        ("text.siltar", ErrorKind::InvalidArgument),
        ("empty.siltar", ErrorKind::InvalidArgument),
        ("text.siltar.partial", ErrorKind::InvalidArgument),
        ("dir.siltar", ErrorKind::InvalidArgument),
    ] {
        let error = remove(path(name), &opening).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error}");
    }
    assert_foreign_left(&fs);
}

#[test]
fn the_directory_of_a_database_is_left_alone() {
    let fs = MemFs::new();
    let db = filled(&fs);
    export(&fs, &db).unwrap();
    let bytes = fs.read_all(Path::new(FILE)).unwrap();
    fs.write_all(Path::new("db/a.siltar"), &bytes).unwrap();
    let opening = options(&fs, &clock());
    let error = clean(DB, &CleanOptions::new().keep(0), &opening).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let error = remove("db/a.siltar", &opening).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(list(DB, &opening).unwrap().archives.len(), 1);
    assert!(files(&fs, DB).contains(&"a.siltar".to_owned()));
}
