//! Claims on files.

use super::*;
use crate::fixture::open_files;
use siltdb_base::fs::mem::MemFs;

#[test]
fn a_claimed_file_is_one_thing_and_is_forgotten_when_dropped() {
    let files = open_files(&Arc::new(MemFs::new()));
    let first = files.claim(FileNumber(1));
    assert!(Arc::ptr_eq(&first, &files.claim(FileNumber(1))));
    assert!(files.is_in_use(FileNumber(1)) && !files.is_in_use(FileNumber(2)));
    drop(first);
    assert!(!files.is_in_use(FileNumber(1)));
    // The directory does not grow with files that are gone.
    for number in 0..10_000 {
        drop(files.claim(FileNumber(number)));
    }
    assert!(lock(&files.files).len() < 100);
}

#[test]
fn a_missing_file_fails_when_it_is_read_and_not_before() {
    let files = open_files(&Arc::new(MemFs::new()));
    let table = crate::fixture::reference(1, (b"a", b"b"), (1, 1), 10);
    let open = files.reference(table).unwrap();
    for _ in 0..2 {
        assert_eq!(open.table().unwrap_err().kind(), siltdb_base::error::ErrorKind::Corruption);
    }
}
