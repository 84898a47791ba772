//! The files of a directory while a destination is written, after it, and after a failure.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

/// The files of a directory before `out` is written.
const OLD: [&[(&str, &str)]; 2] = [&[], &[("out", "old")]];

fn directory_with(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

fn files(directory: &TempDir) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let content = fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), content)
        })
        .collect();
    files.sort();
    files
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect()
}

#[test]
fn a_name_is_given_to_what_is_complete() {
    for old in OLD {
        let directory = directory_with(old);
        let mut destination = Destination::create(&directory.path().join("out")).unwrap();
        destination.write_all(b"new").unwrap();
        destination.flush().unwrap();
        let meanwhile = [old, &[("out.1.tmp", "new")]].concat();
        assert_eq!(files(&directory), owned(&meanwhile));
        destination.finish().unwrap();
        assert_eq!(files(&directory), owned(&[("out", "new")]));
    }
}

#[test]
fn what_is_not_finished_leaves_the_old_file_and_nothing_else() {
    for old in OLD {
        let directory = directory_with(old);
        let mut destination = Destination::create(&directory.path().join("out")).unwrap();
        destination.write_all(&[b'x'; 2 * BUFFER_BYTES]).unwrap();
        drop(destination);
        assert_eq!(files(&directory), owned(old));
    }
}

#[test]
fn links_and_permissions_stay() {
    let directory = directory_with(&[("file", "old")]);
    let path = |name: &str| directory.path().join(name);
    fs::set_permissions(path("file"), Permissions::from_mode(0o640)).unwrap();
    symlink("file", path("link")).unwrap();
    symlink("nowhere", path("loose")).unwrap();
    for name in ["link", "loose"] {
        let mut destination = Destination::create(&path(name)).unwrap();
        destination.write_all(b"new").unwrap();
        destination.finish().unwrap();
        assert!(path(name).is_symlink());
    }
    let expected = ["file", "link", "loose", "nowhere"].map(|name| (name, "new"));
    assert_eq!(files(&directory), owned(&expected));
    assert_eq!(fs::metadata(path("file")).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_device_is_written_directly() {
    let mut destination = Destination::create(Path::new("/dev/null")).unwrap();
    assert!(destination.replacement.is_none());
    destination.write_all(b"new").unwrap();
    destination.finish().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(target(Path::new("/dev/stdout")).unwrap().is_none());
    assert!(target(Path::new("/proc/self/fd/1")).unwrap().is_none());
}

#[test]
fn what_a_kill_left_is_passed_over_up_to_a_bound() {
    let directory = directory_with(&[("out.1.tmp", "left")]);
    let path = directory.path().join("out");
    let mut destination = Destination::create(&path).unwrap();
    destination.write_all(b"new").unwrap();
    destination.finish().unwrap();
    assert_eq!(files(&directory), owned(&[("out", "new"), ("out.1.tmp", "left")]));
    for number in 2..UNFINISHED_MAX {
        fs::write(directory.path().join(format!("out.{number}.tmp")), "left").unwrap();
    }
    drop(Destination::create(&path).unwrap());
    fs::write(directory.path().join(format!("out.{UNFINISHED_MAX}.tmp")), "left").unwrap();
    let error = Destination::create(&path).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_file_in_the_directory_of_the_database_is_refused_by_whatever_name() {
    let directory = directory_with(&[]);
    let path = |name: &str| directory.path().join(name);
    fs::create_dir_all(path("db/sub")).unwrap();
    fs::create_dir(path("db2")).unwrap();
    fs::write(path("db/CURRENT"), "x").unwrap();
    symlink(path("db"), path("linked-db")).unwrap();
    symlink("db/CURRENT", path("to-current")).unwrap();
    symlink("db/new", path("to-new")).unwrap();
    symlink("to-new", path("to-to-new")).unwrap();
    let inside = [
        "db/CURRENT",
        "db/new.csv",
        "db/sub/new.csv",
        "db2/../db/new.csv",
        "linked-db/new.csv",
        "to-current",
        "to-new",
        "to-to-new",
    ];
    for name in inside {
        for db in ["db", "linked-db"] {
            assert!(refuse_inside(&path(name), &path(db)).is_err(), "{name}");
        }
    }
    for name in ["out.csv", "db2/out.csv", "db.csv", "no/where.csv"] {
        assert!(refuse_inside(&path(name), &path("db")).is_ok(), "{name}");
    }
    fs::create_dir(path("cold")).unwrap();
    for mark in COLD_MARKS {
        refuse_inside(&path("cold/out.csv"), &path("db")).unwrap();
        fs::write(path("cold").join(mark), "x").unwrap();
    }
    for name in ["cold/out.csv", "db2/../cold/000001.table"] {
        assert!(refuse_inside(&path(name), &path("db")).is_err(), "{name}");
    }
    refuse_inside(Path::new("-"), &path("db")).unwrap();
    refuse_inside(&path("out.csv"), &path("absent")).unwrap();
}
