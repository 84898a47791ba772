//! What the system's file system answers to right and wrong paths, and which opener gets a lock.

use super::{file::OsWriteFile, *};
use crate::{
    error::ErrorKind, fs::FileKind, fs::map::Mappings, limits::WRITE_BUFFER_BYTES,
    process::run_in_fork,
};
use std::{fs::OpenOptions, io::Write, os::unix::fs::symlink};
use tempfile::tempdir;

#[test]
fn appended_bytes_are_read_back() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("a");
    let mut file = OsFs.create(&path).unwrap();
    let mut expected = Vec::new();
    for size in [0, 1, 1000, WRITE_BUFFER_BYTES - 1, 2, WRITE_BUFFER_BYTES, 7, 1 << 20] {
        let bytes: Vec<u8> = (0..size).map(|at| (at ^ size) as u8).collect();
        file.append(&bytes).unwrap();
        expected.extend_from_slice(&bytes);
        assert_eq!(file.len(), expected.len() as u64);
    }
    file.append(b"held back").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    expected.extend_from_slice(b"held back");
    file.sync().unwrap();
    OsFs.sync_dir(dir.path()).unwrap();
    let reader = OsFs.open(&path).unwrap();
    assert_eq!(reader.len(), expected.len() as u64);
    let mut found = vec![0; expected.len() - 5];
    reader.read_exact_at(&mut found, 5).unwrap();
    assert!(found == expected[5..]);
    for offset in [6, 1 << 40, i64::MAX as u64, u64::MAX] {
        let error = reader.read_exact_at(&mut found, offset).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(offset)));
        assert!(error.file().unwrap().ends_with("/a"));
    }
}

#[test]
fn what_is_mapped_is_there_after_the_file_was_removed() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("a");
    let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at ^ at >> 7) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let reader = OsFs.open(&path).unwrap();
    for (offset, end) in [(0, 20_000), (1, 2), (4096, 8192), (5000, 20_000), (19_999, 20_000)] {
        let mapped = reader.map(offset, end - offset).unwrap();
        assert!(mapped == bytes[offset as usize..end as usize], "{offset}..{end}");
    }
    for (offset, length) in [(0, 20_001), (20_000, 1), (1, u64::MAX), (u64::MAX, 1)] {
        let error = reader.map(offset, length).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(offset)));
        assert!(error.file().unwrap().ends_with("/a"));
    }
    let mapped = reader.map(7, 19_000).unwrap();
    std::fs::remove_file(&path).unwrap();
    drop(reader);
    assert!(mapped == bytes[7..19_007]);
    // What was cut off since it was opened is not mapped, as touching it would be the end.
    std::fs::write(&path, &bytes).unwrap();
    let reader = OsFs.open(&path).unwrap();
    std::fs::write(&path, &bytes[..100]).unwrap();
    assert_eq!(reader.map(0, 20_000).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn only_so_many_files_are_mapped_at_a_time() {
    static TWO: Mappings = Mappings::new(2);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"abc").unwrap();
    let first = TWO.map(&file, 0, 3).unwrap();
    assert!(TWO.map(&file, 0, 4).is_err(), "the file ends before");
    let second = TWO.map(&file, 1, 2).unwrap();
    assert!(TWO.map(&file, 0, 3).is_err());
    let part = first.slice(2..3);
    drop(first);
    assert!(TWO.map(&file, 0, 3).is_err(), "a part of it is held");
    drop(part);
    let third = TWO.map(&file, 2, 1).unwrap();
    assert_eq!((&second[..], &third[..]), (&b"bc"[..], &b"c"[..]));
}

#[test]
fn a_wrong_kind_of_path_is_a_clear_error() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("file"), b"x").unwrap();
    let text = |result: Result<()>| result.unwrap_err().to_string();
    let made = text(OsFs.create_dir_all(&path("file")));
    assert!(made.contains("a file stands where a directory should be"), "{made}");
    assert_eq!(made, text(OsFs.create_dir_all(&path("file"))));
    assert!(text(OsFs.create_dir_all(&path("file/below"))).contains("a file stands"));
    assert!(text(OsFs.list(&path("file")).map(|_| ())).contains("cannot list directory"));
    assert!(text(OsFs.sync_dir(&path("file"))).contains("cannot sync directory"));
    assert!(text(OsFs.open(dir.path()).map(|_| ())).contains("is a directory"));
    assert_eq!(OsFs.open(&path("none")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(OsFs.create(&path("file")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(OsFs.metadata(&path("none")).unwrap(), None);
}

#[test]
fn links_are_followed_and_what_is_no_file_is_other() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("file"), b"abc").unwrap();
    std::fs::create_dir(path("dir")).unwrap();
    symlink("file", path("to file")).unwrap();
    symlink("dir", path("to dir")).unwrap();
    symlink("nowhere", path("to nothing")).unwrap();
    symlink("circle", path("circle")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let mut entries = OsFs.list(dir.path()).unwrap();
    entries.sort();
    let found: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.kind)).collect();
    assert_eq!(
        found,
        [
            ("circle", FileKind::Other),
            ("dir", FileKind::Directory),
            ("file", FileKind::File),
            ("socket", FileKind::Other),
            ("to dir", FileKind::Directory),
            ("to file", FileKind::File),
            ("to nothing", FileKind::Other),
        ]
    );
    let mut lengths = OsFs.list_lengths(dir.path()).unwrap();
    lengths.sort();
    assert_eq!(lengths, [("file".to_owned(), 3), ("to file".to_owned(), 3)]);
    let file = Metadata::File { len: 3 };
    assert_eq!(OsFs.metadata(&path("to file")).unwrap(), Some(file));
    assert_eq!(OsFs.metadata(&path("to nothing")).unwrap(), Some(Metadata::Other));
}

#[test]
fn opening_a_pipe_fails_instead_of_waiting() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    assert_eq!(OsFs.open(&path).unwrap_err().kind(), ErrorKind::Io);
    let options = LogFileOptions { capacity: 100, io: crate::fs::LogIo::Auto };
    assert_eq!(OsFs.open_log(&path, options).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(OsFs.lock(&path, LockKind::Exclusive).unwrap_err().kind(), ErrorKind::Io);
}

/// A fork copies the calling thread alone, so a mutex that is locked then stays so in the child.
#[test]
fn a_forked_child_drops_a_lock_although_the_registry_is_locked() {
    let dir = tempdir().unwrap();
    let mut held = Some(OsFs.lock(&dir.path().join("LOCK"), LockKind::Exclusive).unwrap());
    let registry = lock::held();
    let code = run_in_fork(|| {
        drop(held.take());
        0
    });
    drop(registry);
    assert_eq!(code, Some(0));
    let again = OsFs.lock(&dir.path().join("LOCK"), LockKind::Exclusive);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked, "the parent still has it");
}

#[test]
fn a_lock_excludes_the_same_process_under_any_name() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let lock = OsFs.lock(&path("LOCK"), LockKind::Exclusive).unwrap();
    std::fs::hard_link(path("LOCK"), path("hard")).unwrap();
    symlink(dir.path(), path("link")).unwrap();
    for name in ["LOCK", "hard", "link/LOCK"] {
        for _ in 0..2 {
            let error = OsFs.lock(&path(name), LockKind::Exclusive).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Locked, "{name}");
            assert!(error.hint().unwrap().contains("this process"), "{name}");
        }
    }
    let other = OsFs.lock(&path("other"), LockKind::Exclusive).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Locked, "the directory is locked");
    drop(lock);
    drop(OsFs.lock(&path("hard"), LockKind::Exclusive).unwrap());
    assert!(OsFs.lock(&path("LOCK"), LockKind::Exclusive).is_ok());
}

#[test]
fn a_lock_of_another_holder_excludes_us_and_leaves_no_trace() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("LOCK");
    // An open file of its own is to the system what another process is.
    let other = std::fs::File::create(&path).unwrap();
    other.lock().unwrap();
    for _ in 0..2 {
        let error = OsFs.lock(&path, LockKind::Exclusive).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.hint().unwrap().contains("another process"));
    }
    // What lies in the file is a name to print and no more.
    for (line, named) in [
        (format!("{} a\u{1b}b\n", std::process::id()), "this process"),
        ("1 init\n".to_owned(), "process 1 (init)"),
        ("x y".to_owned(), "another process"),
        ("4294967295 gone\n".to_owned(), "another process"),
        ("\u{0}".repeat(999), "another"),
    ] {
        std::fs::write(&path, line).unwrap();
        let error = OsFs.lock(&path, LockKind::Exclusive).unwrap_err();
        assert!(error.hint().unwrap().contains(named), "{error}");
    }
    drop(other);
    let lock = OsFs.lock(&path, LockKind::Exclusive).unwrap();
    let other = std::fs::File::open(&path).unwrap();
    assert!(other.try_lock().is_err(), "the refused attempts must not have released anything");
    drop(lock);
    assert!(other.try_lock().is_ok());
}

#[test]
fn removing_or_replacing_the_lock_file_lets_no_second_one_in() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let lock = || OsFs.lock(&path, LockKind::Exclusive);
    let first = lock().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(lock().unwrap_err().kind(), ErrorKind::Locked, "the directory is locked");
    std::fs::write(&path, "").unwrap();
    assert_eq!(lock().unwrap_err().kind(), ErrorKind::Locked);
    drop(first);
    assert!(lock().is_ok());
}

#[test]
fn a_full_device_is_no_space() {
    let path = Path::new("/dev/full");
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
    let mut file = OsWriteFile::new(file, path);
    file.append(b"x").unwrap();
    assert_eq!(file.flush().unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(file.append(b"x").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Poisoned);
}

#[test]
fn a_lock_file_names_its_holder_while_it_is_held() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let lock = OsFs.lock(&path, LockKind::Exclusive).unwrap();
    let line = std::fs::read_to_string(&path).unwrap();
    assert!(line.starts_with(&format!("{} siltdb_base", std::process::id())), "{line}");
    drop(lock);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
}

/// Two directories of a copy by hard links can be locked at once.
#[test]
fn a_lock_file_with_a_second_name_in_another_directory_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("copy")).unwrap();
    let lock = OsFs.lock(&path("LOCK"), LockKind::Exclusive).unwrap();
    std::fs::hard_link(path("LOCK"), path("copy/LOCK")).unwrap();
    assert_eq!(OsFs.inode(&path("LOCK")).unwrap().links, 2);
    let other = OsFs.lock(&path("copy/LOCK"), LockKind::Exclusive).unwrap();
    let inodes = ["LOCK", "copy/LOCK"].map(|name| OsFs.inode(&path(name)).unwrap());
    assert!(inodes[0].number != inodes[1].number, "{inodes:?}");
    assert_eq!(inodes.map(|inode| inode.links), [1, 1]);
    for name in ["LOCK", "copy/LOCK"] {
        let again = OsFs.lock(&path(name), LockKind::Exclusive);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked, "{name}");
    }
    drop((lock, other));
    // A rename keeps the inode of a directory, and a copy has another one.
    let before = OsFs.inode(&path("copy")).unwrap().number;
    std::fs::rename(path("copy"), path("moved")).unwrap();
    assert_eq!(OsFs.inode(&path("moved")).unwrap().number, before);
}

#[test]
fn a_lock_file_that_is_a_link_is_not_followed() {
    let dir = tempdir().unwrap();
    let (path, target) = (dir.path().join("LOCK"), dir.path().join("precious"));
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        let error = OsFs.lock(&path, kind).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    }
    // One that leads nowhere makes no file there.
    std::fs::remove_file(&target).unwrap();
    assert!(OsFs.lock(&path, LockKind::Exclusive).is_err());
    assert!(!target.exists());
}

#[test]
fn what_else_is_in_a_lock_file_stays_there() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let long = format!("1 {}\n", "x".repeat(200));
    for content in ["not ours", "7 lines\nof another program\n", "word\n", &long] {
        std::fs::write(&path, content).unwrap();
        let lock = OsFs.lock(&path, LockKind::Exclusive).unwrap();
        assert_eq!(OsFs.lock(&path, LockKind::Exclusive).unwrap_err().kind(), ErrorKind::Locked);
        drop(lock);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
    // The line of a process that was killed is no such thing.
    std::fs::write(&path, "999999999 silt\n").unwrap();
    drop(OsFs.lock(&path, LockKind::Exclusive).unwrap());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
}
