//! Damaged archives: found by a verification, and nothing wrong is read or imported from them.

use super::world::{
    DIR, FILE, archived, clock, contents, export, files, filled, import, key, open, open_at, verify,
};
use siltdb::{
    ErrorKind, Read,
    archive::ImportOptions,
    testing::{Fs, MemFs},
};
use std::path::Path;

/// A small archive, and what it holds.
fn small_archive() -> (Vec<u8>, super::world::Contents) {
    let fs = MemFs::new();
    let db = open(&fs);
    for number in 0..150 {
        db.put(key(number), number.to_string()).unwrap();
    }
    let users = db.create_family("users", siltdb::FamilyOptions::new()).unwrap();
    users.put("ada", "1815").unwrap();
    export(&fs, &db).unwrap();
    (fs.read_all(Path::new(FILE)).unwrap(), contents(&db))
}

fn with(bytes: &[u8]) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs.write_all(Path::new(FILE), bytes).unwrap();
    fs
}

/// Imports, and asserts that this brings all of it or nothing. Returns whether it did.
fn assert_all_or_nothing(fs: &MemFs, expected: &super::world::Contents, what: &str) -> bool {
    let copy = open_at(fs, "copy", &clock());
    let made = import(&copy, &ImportOptions::new());
    match made {
        Ok(_) => {
            assert!(contents(&copy) == *expected, "{what}");
            true
        }
        Err(error) => {
            let is_named =
                matches!(error.kind(), ErrorKind::Corruption | ErrorKind::InvalidArgument);
            assert!(is_named, "{what}: {error}");
            assert_eq!(copy.families(), ["default"], "{what}");
            assert!(copy.is_empty().unwrap(), "{what}");
            assert!(!files(fs, "copy").iter().any(|name| name.ends_with(".table")), "{what}");
            false
        }
    }
}

#[test]
fn a_flipped_byte_is_found_and_imports_nothing_wrong() {
    let (bytes, expected) = small_archive();
    assert!(assert_all_or_nothing(&with(&bytes), &expected, "whole"));
    let mut imported = 0;
    for at in (0..bytes.len()).step_by(3).chain(bytes.len() - 300..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let (fs, what) = (with(&damaged), format!("byte {at}"));
        let error = verify(&fs, FILE).expect_err("damage is not found");
        let is_named = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::InvalidArgument);
        assert!(is_named, "{what}: {error}");
        if let Ok(found) = archived(&fs, FILE, &clock()) {
            assert!(found == expected, "{what}");
        }
        imported += u32::from(assert_all_or_nothing(&fs, &expected, &what));
    }
    // An import does not look at filters.
    assert!(imported < bytes.len() as u32 / 6, "{imported} of {}", bytes.len());
}

#[test]
fn an_archive_that_is_cut_short_imports_nothing() {
    let (bytes, expected) = small_archive();
    for length in (0..bytes.len()).step_by(17).chain(bytes.len() - 60..bytes.len()) {
        let fs = with(&bytes[..length]);
        assert!(verify(&fs, FILE).is_err());
        assert!(!assert_all_or_nothing(&fs, &expected, &format!("{length} bytes")));
    }
}

#[test]
fn a_damaged_table_of_the_database_is_not_exported() {
    let fs = MemFs::new();
    let db = filled(&fs);
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let tables: Vec<_> =
        files(&fs, "db").into_iter().filter(|name| name.ends_with(".table")).collect();
    for name in &tables {
        fs.bytes_flip(&Path::new("db").join(name), 30, 1).unwrap();
    }
    let db = open(&fs);
    let error = export(&fs, &db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(tables.iter().any(|name| error.file().unwrap().ends_with(name)), "{error}");
    assert_eq!(files(&fs, DIR), [""; 0]);
}
