//! Files over the limit are closed and read all the same.

use super::*;
use std::{os::unix::fs::FileExt, thread};
use tempfile::{TempDir, tempdir};

/// Files that hold their own number.
fn files(count: u8, max: usize) -> (TempDir, Arc<Descriptors>, Vec<Arc<ReadableFile>>) {
    let (dir, descriptors) = (tempdir().unwrap(), Arc::new(Descriptors::new(max)));
    let open = |number: u8| {
        let path = dir.path().join(number.to_string());
        fs::write(&path, [number]).unwrap();
        ReadableFile::open_among(&descriptors, &OsPlace::default(), &path).unwrap()
    };
    let files = (0..count).map(open).collect();
    (dir, descriptors, files)
}

fn read(file: &Arc<ReadableFile>) -> io::Result<u8> {
    let mut byte = [0];
    file.descriptor()?.read_exact_at(&mut byte, 0)?;
    Ok(byte[0])
}

fn open_files(files: &[Arc<ReadableFile>]) -> Vec<usize> {
    let is_open = |number: &usize| lock(&files[*number].descriptor).is_some();
    (0..files.len()).filter(is_open).collect()
}

#[test]
fn no_more_are_open_than_may_be_and_all_can_be_read() {
    let (_dir, descriptors, files) = files(20, 5);
    for _ in 0..3 {
        for (number, file) in files.iter().enumerate() {
            assert_eq!(usize::from(read(file).unwrap()), number);
            assert_eq!(open_files(&files).len(), 5);
            assert_eq!(lock(&descriptors.ring).len(), 5);
        }
    }
}

#[test]
fn what_is_read_stays_open() {
    let (_dir, _, files) = files(4, 3);
    // The first one made room for the last; the marks of the others are gone.
    assert_eq!(open_files(&files), [1, 2, 3]);
    read(&files[1]).unwrap();
    read(&files[0]).unwrap();
    assert!(open_files(&files).contains(&1));
    assert!(!open_files(&files).contains(&2));
}

#[test]
fn a_file_that_is_gone_takes_no_place() {
    let (_dir, descriptors, mut files) = files(6, 6);
    files.truncate(1);
    let more = ReadableFile::open_among(&descriptors, &OsPlace::default(), &files[0].path).unwrap();
    assert!(lock(&descriptors.ring).len() <= 6);
    assert!(lock(&files[0].descriptor).is_some() && lock(&more.descriptor).is_some());
}

#[test]
fn a_descriptor_that_is_in_use_outlives_its_place() {
    let (_dir, _, files) = files(8, 2);
    let held = files[0].descriptor().unwrap();
    for file in &files[1..] {
        read(file).unwrap();
    }
    assert!(!open_files(&files).contains(&0));
    let mut byte = [7];
    held.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [0]);
}

#[test]
fn another_file_at_its_path_is_not_read() {
    let (dir, _, files) = files(3, 2);
    assert!(!open_files(&files).contains(&0));
    let path = dir.path().join("0");
    fs::rename(dir.path().join("2"), &path).unwrap();
    assert_eq!(read(&files[0]).unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::remove_file(&path).unwrap();
    assert_eq!(read(&files[0]).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn many_threads_read_more_files_than_may_be_open() {
    let (_dir, descriptors, files) = files(12, 3);
    thread::scope(|scope| {
        for first in 0..4 {
            let files = &files;
            scope.spawn(move || {
                for turn in 0..200 {
                    let number = (first * 5 + turn * 7) % files.len();
                    assert_eq!(usize::from(read(&files[number]).unwrap()), number);
                }
            });
        }
    });
    // One more, alone, so that no other read sets marks meanwhile.
    let _last =
        ReadableFile::open_among(&descriptors, &OsPlace::default(), &files[0].path).unwrap();
    let open = lock(&descriptors.ring).len();
    assert!(open <= 3);
    assert_eq!(open, open_files(&files).len() + 1);
}
